/* Line programs of cubins: DWARF 2 to 4 as NVIDIA's assembler writes it.
 *
 * Extended opcode 0x90 has two numbers: the row of the sequence, counted from 1, that the following rows were
 * inlined at (0: nowhere), not counting a row that says the same as the one before it (functions that are no
 * kernels begin so); and the place in .debug_str of the name of the function that was inlined. nvlink puts
 * the programs of several files behind each other, and their .debug_str too, but leaves the places in
 * .debug_str as they were: only those of the first program are right. */
#include "lines.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { COPY = 1, ADVANCE_PC, ADVANCE_LINE, SET_FILE, SET_COLUMN, CONST_ADD_PC = 8, FIXED_ADVANCE_PC };
enum { END_SEQUENCE = 1, SET_ADDRESS, INLINED = 0x90 };
enum { DEPTH = 64 /* of inlined calls */ };

struct cursor {
    const uint8_t *at, *end;
    int bad; /* it was to read behind the end */
};

struct unit {
    const uint8_t *folders, *files, *program, *end;
    uint8_t minimum, range, opcodes;
    int8_t base;
    int first;              /* of the section: names of what was inlined are right */
    const uint8_t *lengths; /* how many numbers a standard opcode has */
};

struct sequence {
    uint32_t section, unit;
    uint64_t low, high; /* in the section */
    const uint8_t *begin, *end;
};

struct row {
    uint64_t address;
    uint32_t file, line, context, name;
};

struct mt_code_lines {
    const struct mt_cubin *cubin;
    struct unit *units;
    struct sequence *sequences; /* by section, then low */
    size_t nunits, units_room, nsequences, sequences_room;
    struct row *rows; /* of the sequence that was asked for last */
    size_t nrows, rows_room;
    const struct sequence *read;
};

/* ---- bytes ---- */

static uint64_t take_fixed(struct cursor *c, unsigned bytes)
{
    uint64_t v = 0;
    if ((size_t)(c->end - c->at) < bytes) {
        c->bad = 1;
        c->at = c->end;
        return 0;
    }
    memcpy(&v, c->at, bytes);
    c->at += bytes;
    return v;
}

static uint64_t take_number(struct cursor *c, int is_signed)
{
    uint64_t v = 0;
    unsigned shift = 0, byte = 0x80;
    while (byte & 0x80) {
        if (c->at == c->end) {
            c->bad = 1;
            return 0;
        }
        byte = *c->at++;
        if (shift < 64)
            v |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    }
    return is_signed && (byte & 0x40) && shift < 64 ? v | ~0ull << shift : v;
}

static const char *take_text(struct cursor *c)
{
    const void *end = memchr(c->at, 0, (size_t)(c->end - c->at));
    const char *text = (const char *)c->at;
    c->bad |= !end;
    c->at = end ? (const uint8_t *)end + 1 : c->end;
    return end ? text : "";
}

static void skip_bytes(struct cursor *c, uint64_t n)
{
    uint64_t left = (uint64_t)(c->end - c->at);
    c->bad |= n > left;
    c->at += n < left ? n : left;
}

/* ---- the head of a unit ---- */

static void skip_files(struct cursor *c)
{
    while (!c->bad && *take_text(c))
        for (unsigned i = 0; i < 3; i++)
            take_number(c, 0);
}

/* What is behind the length, of which `c` is the unit. 0, or -1: it is of a kind that is not read. */
static int unit_head(struct unit *u, struct cursor *c, unsigned word)
{
    uint16_t version = (uint16_t)take_fixed(c, 2);
    uint64_t head = take_fixed(c, word);
    if (c->bad || version < 2 || version > 4 || head > (uint64_t)(c->end - c->at))
        return -1;
    u->program = c->at + head;
    u->end = c->end;
    u->minimum = (uint8_t)take_fixed(c, 1);
    skip_bytes(c, version >= 4); /* operations of an instruction */
    skip_bytes(c, 1);
    u->base = (int8_t)take_fixed(c, 1);
    u->range = (uint8_t)take_fixed(c, 1);
    u->opcodes = (uint8_t)take_fixed(c, 1);
    u->lengths = c->at;
    skip_bytes(c, u->opcodes ? u->opcodes - 1u : 0);
    u->folders = c->at;
    while (!c->bad && *take_text(c))
        ;
    u->files = c->at;
    skip_files(c);
    return c->bad || !u->range || !u->opcodes || c->at > u->program ? -1 : 0;
}

/* The unit at the cursor, which goes behind it. 1: it can be read, 0: it cannot, -1: there is none. */
static int unit_next(struct unit *u, struct cursor *c)
{
    unsigned word = 4;
    uint64_t length = take_fixed(c, 4);
    if (length == UINT32_MAX) {
        word = 8;
        length = take_fixed(c, 8);
    }
    if (c->bad || length > (uint64_t)(c->end - c->at))
        return -1;
    struct cursor inner = {c->at, c->at + length, 0};
    c->at += length;
    return unit_head(u, &inner, word) == 0;
}

/* ---- the program ---- */

struct machine {
    const struct mt_cubin *cubin;
    const struct unit *unit;
    struct cursor c;
    struct row row;
    uint32_t section; /* UINT32_MAX: not known */
    int made, ended;  /* by the last step: a row; the sequence's end */
};

static void machine_reset(struct machine *m)
{
    m->row = (struct row){.file = 1, .line = 1};
    m->section = UINT32_MAX;
    m->made = m->ended = 0;
}

/* The address is where the relocation for this place of the section leads. */
static void set_address(struct machine *m, const uint8_t *at)
{
    const struct mt_cubin *c = m->cubin;
    uint64_t place = (uint64_t)(at - c->line.data);
    size_t at_place = MT_FIRST(i, c->naddresses, c->addresses[i].at >= place);
    m->section = UINT32_MAX;
    if (at_place < c->naddresses && c->addresses[at_place].at == place) {
        m->section = c->addresses[at_place].section;
        m->row.address = c->addresses[at_place].offset;
    }
}

static void step_extended(struct machine *m)
{
    uint64_t length = take_number(&m->c, 0);
    struct cursor inner = m->c;
    skip_bytes(&m->c, length);
    if (m->c.bad || !length)
        return;
    inner.end = m->c.at;
    switch (take_fixed(&inner, 1)) {
    case END_SEQUENCE:
        m->made = m->ended = 1;
        break;
    case SET_ADDRESS:
        set_address(m, inner.at);
        break;
    case INLINED:
        m->row.context = (uint32_t)take_number(&inner, 0);
        m->row.name = (uint32_t)take_number(&inner, 0);
        break;
    }
}

static void step_special(struct machine *m, unsigned opcode)
{
    m->row.address += (uint64_t)(opcode / m->unit->range) * m->unit->minimum;
    m->row.line += (uint32_t)(m->unit->base + (int)(opcode % m->unit->range));
}

static void step_standard(struct machine *m, unsigned opcode)
{
    switch (opcode) {
    case COPY:
        m->made = 1;
        break;
    case ADVANCE_PC:
        m->row.address += take_number(&m->c, 0) * m->unit->minimum;
        break;
    case ADVANCE_LINE:
        m->row.line += (uint32_t)take_number(&m->c, 1);
        break;
    case SET_FILE:
        m->row.file = (uint32_t)take_number(&m->c, 0);
        break;
    case CONST_ADD_PC:
        m->row.address += (uint64_t)((255u - m->unit->opcodes) / m->unit->range) * m->unit->minimum;
        break;
    case FIXED_ADVANCE_PC:
        m->row.address += take_fixed(&m->c, 2);
        break;
    default:
        for (unsigned n = m->unit->lengths[opcode - 1]; n-- > 0;)
            take_number(&m->c, 0);
    }
}

/* One opcode. 0: the program has ended. */
static int machine_step(struct machine *m)
{
    m->made = m->ended = 0;
    if (m->c.at == m->c.end || m->c.bad)
        return 0;
    unsigned opcode = *m->c.at++;
    if (opcode >= m->unit->opcodes) {
        step_special(m, opcode - m->unit->opcodes);
        m->made = 1;
    } else if (opcode)
        step_standard(m, opcode);
    else
        step_extended(m);
    return !m->c.bad;
}

/* ---- sequences ---- */

static int add_sequence(struct mt_code_lines *l, const struct machine *m, uint64_t low, const uint8_t *begin)
{
    if (m->section == UINT32_MAX || m->row.address <= low) /* the linker has taken the function out */
        return 0;
    if (mt_grow(&l->sequences, &l->sequences_room, l->nsequences + 1, sizeof *l->sequences))
        return -1;
    l->sequences[l->nsequences++] =
        (struct sequence){m->section, (uint32_t)l->nunits - 1, low, m->row.address, begin, m->c.at};
    return 0;
}

/* 0, or -1: no memory. */
static int read_sequences(struct mt_code_lines *l, const struct unit *u)
{
    struct machine m = {.cubin = l->cubin, .unit = u, .c = {u->program, u->end, 0}};
    const uint8_t *begin = u->program;
    uint64_t low = UINT64_MAX;
    int rc = 0;
    machine_reset(&m);
    while (!rc && machine_step(&m)) {
        if (m.made && m.row.address < low)
            low = m.row.address;
        if (m.ended) {
            rc = add_sequence(l, &m, low, begin);
            machine_reset(&m);
            low = UINT64_MAX;
            begin = m.c.at;
        }
    }
    return rc;
}

MT_ORDER_3(by_place, struct sequence, section, low, begin)

static int read_units(struct mt_code_lines *l)
{
    const struct mt_cubin_bytes *b = &l->cubin->line;
    struct cursor c = {b->data, b->data + b->bytes, 0};
    struct unit u;
    int found, rc = 0;
    for (int first = 1; !rc && (found = unit_next(&u, &c)) >= 0; first = 0) {
        u.first = first;
        if (!found)
            continue;
        if (mt_grow(&l->units, &l->units_room, l->nunits + 1, sizeof *l->units))
            return -1;
        l->units[l->nunits++] = u;
        rc = read_sequences(l, &u);
    }
    if (l->nsequences)
        qsort(l->sequences, l->nsequences, sizeof *l->sequences, by_place);
    return rc;
}

struct mt_code_lines *mt_code_lines_open(const struct mt_cubin *cubin)
{
    struct mt_code_lines *l = cubin->line.data && cubin->naddresses ? calloc(1, sizeof *l) : NULL;
    if (!l)
        return NULL;
    l->cubin = cubin;
    if (read_units(l) == 0)
        return l;
    mt_code_lines_close(l);
    return NULL;
}

void mt_code_lines_close(struct mt_code_lines *l)
{
    if (!l)
        return;
    free(l->units);
    free(l->sequences);
    free(l->rows);
    free(l);
}

/* ---- places ---- */

static const struct sequence *sequence_around(const struct mt_code_lines *l, uint32_t section,
                                              uint64_t offset)
{
    enum { NEAR = 64 }; /* sequences do not overlap */
    const struct sequence *s = l->sequences;
    size_t end =
        MT_FIRST(i, l->nsequences, s[i].section > section || (s[i].section == section && s[i].low > offset));
    for (size_t i = end; i-- > 0 && end - i <= NEAR && s[i].section == section;)
        if (offset < s[i].high)
            return &s[i];
    return NULL;
}

static int rows_same(const struct row *a, const struct row *b)
{
    return a->address == b->address && a->file == b->file && a->line == b->line && a->context == b->context &&
           a->name == b->name;
}

/* Its rows become l->rows. 0, or -1: no memory. */
static int read_rows(struct mt_code_lines *l, const struct sequence *s)
{
    struct machine m = {.cubin = l->cubin, .unit = &l->units[s->unit], .c = {s->begin, s->end, 0}};
    if (l->read == s)
        return 0;
    l->read = NULL;
    l->nrows = 0;
    machine_reset(&m);
    while (machine_step(&m)) {
        if (!m.made || (l->nrows && !m.ended && rows_same(&l->rows[l->nrows - 1], &m.row)))
            continue;
        if (mt_grow(&l->rows, &l->rows_room, l->nrows + 1, sizeof *l->rows))
            return -1;
        l->rows[l->nrows++] = m.row;
    }
    l->read = s;
    return 0;
}

/* The last row at or before the place, addresses being in order as the format wants it; the end of the
 * sequence is none. 0: there is none; else its number, from 1. */
static size_t row_at(const struct mt_code_lines *l, uint64_t offset)
{
    return MT_FIRST(i, l->nrows ? l->nrows - 1 : 0, l->rows[i].address > offset);
}

/* The n-th text of a list, from 1; NULL: there is none. With its three numbers, if it is a file's. */
static const char *nth_text(const uint8_t *at, const uint8_t *end, uint64_t n, uint64_t *folder)
{
    struct cursor c = {at, end, 0};
    while (!c.bad) {
        const char *text = take_text(&c);
        uint64_t first = folder ? take_number(&c, 0) : 0;
        if (!*text || c.bad)
            return NULL;
        if (!--n) {
            if (folder)
                *folder = first;
            return text;
        }
        if (folder) {
            take_number(&c, 0);
            take_number(&c, 0);
        }
    }
    return NULL;
}

static struct mt_code_frame frame_of(const struct mt_code_lines *l, const struct unit *u, const struct row *r)
{
    uint64_t folder = 0;
    const char *file = r->file ? nth_text(u->files, u->program, r->file, &folder) : NULL;
    const char *in = folder ? nth_text(u->folders, u->files, folder, NULL) : NULL;
    struct mt_code_frame f = {in && file && *file != '/' ? in : "", file ? file : "", r->line, NULL};
    if (r->context)
        f.function =
            u->first && r->name < l->cubin->str.bytes ? (const char *)l->cubin->str.data + r->name : "";
    return f;
}

unsigned mt_code_lines_at(struct mt_code_lines *l, uint32_t section, uint64_t offset,
                          struct mt_code_frame *out, unsigned room)
{
    const struct sequence *s = sequence_around(l, section, offset);
    unsigned n = 0;
    if (!s || read_rows(l, s) != 0)
        return 0;
    for (size_t at = row_at(l, offset), next; at && n < room && n < DEPTH; at = next) {
        const struct row *r = &l->rows[at - 1];
        out[n++] = frame_of(l, &l->units[s->unit], r);
        next = r->context < at ? r->context : 0; /* a call is before what was inlined at it */
    }
    return n;
}
