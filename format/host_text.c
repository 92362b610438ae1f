/* Writers of the three host texts. */
#include "host_text.h"
#include <string.h>

/* Output of a line. A line that does not fit is dropped as a whole. */
struct out {
    char *p, *end;
    int full;
};

static void text_put(struct out *o, const char *s, size_t n)
{
    if ((size_t)(o->end - o->p) < n) {
        o->full = 1;
        return;
    }
    memcpy(o->p, s, n);
    o->p += n;
}

static void host_text_put_char(struct out *o, char c)
{
    text_put(o, &c, 1);
}

static void host_text_put_string(struct out *o, const char *s)
{
    text_put(o, s, strlen(s));
}

static void host_text_put_number(struct out *o, uint64_t v)
{
    char text[20];
    unsigned i = sizeof text;
    do
        text[--i] = (char)('0' + v % 10);
    while (v /= 10);
    text_put(o, text + i, sizeof text - i);
}

static void put_hex(struct out *o, uint64_t v)
{
    char text[16];
    unsigned i = sizeof text;
    do
        text[--i] = "0123456789abcdef"[v & 15];
    while (v >>= 4);
    text_put(o, "0x", 2);
    text_put(o, text + i, sizeof text - i);
}

static void put_signed(struct out *o, int64_t v)
{
    if (v < 0)
        host_text_put_char(o, '-');
    host_text_put_number(o, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

/* Appends a TAB and a number. */
static void put_field(struct out *o, uint64_t v)
{
    host_text_put_char(o, '\t');
    host_text_put_number(o, v);
}

static struct out text_begin(char *out, size_t room)
{
    return (struct out){out, out + room, 0};
}

static size_t text_done(const struct out *o, const char *start)
{
    return o->full ? 0 : (size_t)(o->p - start);
}

/* Returns bit 0 if an operand reads, bit 1 if it writes. An unknown one counts as a read. */
static unsigned text_directions(enum mt_host_op op)
{
    switch (op) {
#define MT_HOST_OP(name, code, reads, writes, text)                                                          \
    case MT_HOST_##name:                                                                                     \
        return MT_HOST_##name == MT_HOST_UNKNOWN ? 1 : (reads) | (writes) << 1;
#include "memtrace/container.def"
    }
    return 0;
}

/* ---- atomic text ---- */

int mt_text_access_add(struct mt_text_access *a, enum mt_host_op op, uint64_t address, uint32_t size)
{
    unsigned d = text_directions(op), has = 0;
    if (d & 1) {
        has = !(a->has & 1) ? 1 : 2;
        if (has == 2 && ((a->has & 2) || size != a->r_size))
            return 0;
    }
    if (d & 2) {
        if (a->has & 4)
            return 0;
        a->w = address;
        a->w_size = size;
        has |= 4;
    }
    if (has & 1) {
        a->r = address;
        a->r_size = size;
    } else if (has & 2) {
        a->r2 = address;
    }
    a->has |= has;
    return 1;
}

static void put_start(struct out *o, uint64_t time, int64_t thread)
{
    host_text_put_number(o, time);
    host_text_put_char(o, '\t');
    put_signed(o, thread);
    host_text_put_char(o, '\t');
}

size_t mt_text_access(char *out, size_t room, uint64_t time, int64_t thread, const struct mt_text_access *a)
{
    struct out o = text_begin(out, room);
    if (!a->has)
        return 0;
    put_start(&o, time, thread);
    host_text_put_char(&o, 'm');
    if (a->has & 1) {
        text_put(&o, "\tr", 2);
        put_field(&o, a->r);
        put_field(&o, a->r_size);
    }
    if (a->has & 2) {
        text_put(&o, "\tr2", 3);
        put_field(&o, a->r2);
    }
    if (a->has & 4) {
        text_put(&o, "\tw", 2);
        put_field(&o, a->w);
        put_field(&o, a->w_size);
    }
    host_text_put_char(&o, '\n');
    return text_done(&o, out);
}

size_t mt_text_event(char *out, size_t room, uint64_t time, int64_t thread, enum mt_host_event event,
                     const uint64_t *args, unsigned n, const char *name)
{
    static const char *const words[] = {
#define MT_HOST_EVENT(name, code, args, text) [code] = text,
#include "memtrace/container.def"
    };
    struct out o = text_begin(out, room);
    if (event >= sizeof words / sizeof *words || !words[event] || event == MT_HOST_EV_SEQ ||
        event == MT_HOST_EV_CLOCK || event == MT_HOST_EV_LOST)
        return 0;
    put_start(&o, time, thread);
    host_text_put_string(&o, words[event]);
    if (event == MT_HOST_EV_CALL || event == MT_HOST_EV_RETURN) {
        host_text_put_char(&o, '\t');
        host_text_put_string(&o, name);
        for (unsigned i = 1; i < n; i++)
            put_field(&o, args[i]);
    }
    host_text_put_char(&o, '\n');
    return text_done(&o, out);
}

/* ---- mat text ---- */

static void put_mat(struct out *o, const struct mt_text_mat *a, unsigned type)
{
    const uint64_t field[] = {a->ip, a->address, a->offset, a->base, type, a->size, a->allocation};
    for (unsigned i = 0; i < 7; i++) {
        host_text_put_number(o, field[i]);
        host_text_put_char(o, i < 6 ? ' ' : '\n');
    }
}

size_t mt_text_mat_access(char *out, size_t room, const struct mt_text_mat *a)
{
    struct out o = text_begin(out, room);
    unsigned d = text_directions(a->op);
    if (d & 1)
        put_mat(&o, a, 1);
    if (d & 2)
        put_mat(&o, a, a->mat_files ? 0 : 2);
    return text_done(&o, out);
}

size_t mt_text_mat_location(char *out, size_t room, uint64_t ip, const char *file, uint32_t line)
{
    struct out o = text_begin(out, room);
    host_text_put_number(&o, ip);
    host_text_put_char(&o, ' ');
    host_text_put_string(&o, file);
    host_text_put_char(&o, ':');
    host_text_put_number(&o, line);
    host_text_put_char(&o, '\n');
    return text_done(&o, out);
}

size_t mt_text_mat_end(char *out, size_t room, uint64_t lost)
{
    return mt_text_mat_location(out, room, 0, MT_TEXT_MAT_END,
                                lost > UINT32_MAX ? UINT32_MAX : (uint32_t)lost);
}

/* ---- instruction text ---- */

size_t mt_text_insn_head(char *out, size_t room, uint64_t ip, const char *text, const char *reads,
                         const char *writes)
{
    struct out o = text_begin(out, room);
    put_hex(&o, ip);
    host_text_put_char(&o, '\t');
    host_text_put_string(&o, text);
    host_text_put_string(&o, "\tR:");
    host_text_put_string(&o, reads);
    host_text_put_string(&o, "\tW:");
    host_text_put_string(&o, writes);
    host_text_put_char(&o, '\n');
    return text_done(&o, out);
}

size_t mt_text_insn_begin(char *out, size_t room, uint64_t order)
{
    struct out o = text_begin(out, room);
    put_field(&o, order);
    return text_done(&o, out);
}

size_t mt_text_insn_operand(char *out, size_t room, enum mt_host_op op, uint64_t address, uint32_t size)
{
    struct out o = text_begin(out, room);
    unsigned d = text_directions(op);
    for (unsigned bit = 1; bit <= 2; bit <<= 1)
        if (d & bit) {
            text_put(&o, bit == 1 ? "\tR\t" : "\tW\t", 3);
            put_hex(&o, address);
            put_field(&o, size);
        }
    return text_done(&o, out);
}

size_t mt_text_insn_end(char *out, size_t room)
{
    struct out o = text_begin(out, room);
    host_text_put_char(&o, '\n');
    return text_done(&o, out);
}
