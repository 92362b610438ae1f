/* Writes accesses in the formats of simulators (docs/simulators.md has the mappings and their sources), and
 * host accesses as text. */
#define _GNU_SOURCE

#include "formats.h"
#include "convert.h"
#include "memtrace/grow.h"
#include "analysis/base/pairmap.h"
#include "reader/base/internal.h" /* for mt_spool_create */
#include "format/host_text.h"
#include "memtrace/order.h"
#include "analysis/base/live_allocs.h"
#include "cli/base/pipeline.h"
#include "reader/container/container.h" /* the list of chunks is not in the public interface */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Instruction logs: an unnamed file groups executions by instruction. A first pass determines the space
 * that each instruction needs in it. Memory use grows with instructions, not with executions ---- */

struct instruction {
    uint32_t site;
    uint64_t ip, count, filled, start; /* count, filled: records; start: offset in the file */
};

struct log {
    struct mt_host_reader *r;
    struct mt_pairmap places; /* instruction -> index in `list` */
    struct instruction *list;
    size_t n, room;
    struct mt_host_record *file;
    uint64_t records;
};

static int convert_insn_failed(const char *what)
{
    return mt_cli_fail("%s: %s", what, strerror(errno));
}

static const struct mt_host_site_info *any_site(struct mt_host_reader *r, uint32_t instruction)
{
    const struct mt_host_site_info *s = NULL;
    for (uint32_t i = 0; i < 4 && !s; i++)
        s = mt_host_site(r, instruction * 4 + i);
    return s;
}

/* Returns NULL without memory. */
static struct instruction *convert_insn_find(struct log *l, uint32_t site)
{
    uint64_t *at = mt_pairmap_get(&l->places, site / 4, 0, UINT64_MAX);
    if (!at)
        return NULL;
    if (*at == UINT64_MAX) {
        if (mt_grow(&l->list, &l->room, l->n + 1, sizeof *l->list) != 0)
            return NULL;
        const struct mt_host_site_info *s = any_site(l->r, site / 4);
        l->list[l->n] = (struct instruction){.site = site / 4, .ip = s ? s->ip : 0};
        *at = l->n++;
    }
    return &l->list[*at];
}

/* Counts in a first pass, which also reports damage. Returns 0, or -1 with *code. */
static int count_all(struct log *l, int *code)
{
    struct mt_host_item item;
    int rc;
    while ((rc = mt_convert_next(l->r, &item, code)) > 0)
        for (size_t i = 0; item.kind == MT_HOST_ITEM_RECORDS && i < item.count; i++) {
            struct instruction *x = convert_insn_find(l, item.records[i].site);
            if (!x) {
                errno = ENOMEM;
                *code = convert_insn_failed("instructions");
                return -1;
            }
            x->count++;
            l->records++;
        }
    return rc;
}

/* Writes each record to its instruction's space in a second pass. Returns 0 or an exit code. */
static int convert_insn_fill(struct log *l)
{
    struct mt_host_item item;
    struct mt_error err;
    int rc = mt_host_rewind(l->r, &err) != 0 ? -1 : 1;
    while (rc > 0 ||
           (rc < 0 && err.code != MT_E_SYSTEM && err.code != MT_E_STOPPED && err.code != MT_E_INPUT)) {
        rc = mt_host_next(l->r, &item, &err);
        for (size_t i = 0; rc > 0 && item.kind == MT_HOST_ITEM_RECORDS && i < item.count; i++) {
            struct instruction *x = convert_insn_find(l, item.records[i].site);
            if (x && x->filled < x->count)
                l->file[x->start + x->filled++] = item.records[i];
        }
    }
    if (rc == 0)
        return 0;
    return mt_cli_failed(&err);
}

static int make_file(struct log *l)
{
    struct mt_error err;
    uint64_t bytes = l->records * sizeof *l->file, at = 0;
    for (size_t i = 0; i < l->n; i++) {
        l->list[i].start = at;
        at += l->list[i].count;
    }
    int fd = mt_spool_create(&err);
    if (fd < 0)
        return mt_cli_fail("%s", err.message);
    /* Allocates the file now, so that a full disk is an error here and not a fault later. */
    errno = posix_fallocate(fd, 0, (off_t)bytes);
    void *p = errno ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int code = p == MAP_FAILED ? convert_insn_failed("the temporary file (its folder is $TMPDIR)") : 0;
    close(fd);
    l->file = code ? NULL : p;
    return code;
}

MT_ORDER_2(by_address, struct instruction, ip, site)

static int show_head(struct log *l, const struct instruction *x, FILE *f)
{
    const struct mt_host_site_info *s = any_site(l->r, x->site);
    const char *text = s && *s->text ? s->text : "?", *reads = s ? s->reads : "",
               *writes = s ? s->writes : "";
    size_t room = MT_TEXT_LINE + strlen(text) + strlen(reads) + strlen(writes);
    char *line = malloc(room);
    if (!line)
        return -1;
    fwrite(line, 1, mt_text_insn_head(line, room, x->ip, text, reads, writes), f);
    free(line);
    return 0;
}

static void show_execution(struct log *l, const struct mt_host_record *a, size_t n, FILE *f)
{
    char line[MT_TEXT_LINE];
    fwrite(line, 1, mt_text_insn_begin(line, sizeof line, a->time), f);
    for (size_t i = 0; i < n; i++) {
        const struct mt_host_site_info *s = mt_host_site(l->r, a[i].site);
        if (s)
            fwrite(line, 1, mt_text_insn_operand(line, sizeof line, s->op, a[i].address, a[i].size), f);
    }
    fwrite(line, 1, mt_text_insn_end(line, sizeof line), f);
}

static int convert_insn_show(struct log *l, FILE *f)
{
    qsort(l->list, l->n, sizeof *l->list, by_address);
    for (size_t i = 0; i < l->n && !ferror(f); i++) {
        const struct instruction *x = &l->list[i];
        const struct mt_host_record *a = l->file + x->start;
        if (show_head(l, x, f) != 0)
            return convert_insn_failed("a line");
        for (uint64_t k = 0, n; k < x->filled; k += n) {
            for (n = 1; k + n < x->filled && a[k + n].time == a[k].time;)
                n++;
            show_execution(l, a + k, n, f);
        }
    }
    return 0;
}

int mt_convert_insn(struct mt_host_reader *r, FILE *f)
{
    struct log l = {.r = r};
    int code = 0, bad = 0;
    if (count_all(&l, &code) == 0 && l.records) {
        bad = make_file(&l);
        if (!bad)
            bad = convert_insn_fill(&l);
        if (!bad)
            bad = convert_insn_show(&l, f);
    }
    if (l.file)
        munmap(l.file, l.records * sizeof *l.file);
    mt_pairmap_free(&l.places);
    free(l.list);
    return bad ? bad : code;
}

/* ---- Host accesses as atomic and mat text. The core's own writers make the lines, so that a trace reads the
 * same whether it was text from the start or compact first ---- */

static enum mt_host_op op_of(struct mt_host_reader *r, uint32_t site)
{
    const struct mt_host_site_info *s = mt_host_site(r, site);
    return s ? s->op : MT_HOST_UNKNOWN;
}

/* ---- atomic ---- */

struct line {
    struct mt_text_access access;
    uint64_t time, thread;
    int64_t name;
};

static void line_out(struct line *l, FILE *f)
{
    char text[MT_TEXT_LINE];
    size_t n = mt_text_access(text, sizeof text, l->time, l->name, &l->access);
    fwrite(text, 1, n, f);
    l->access = (struct mt_text_access){.has = 0};
}

/* Returns the name of a thread in the text: its registered number, else its system number; -1 for calls by
 * threads without a number. */
static int64_t *name_of(struct mt_pairmap *names, uint64_t thread)
{
    return (int64_t *)mt_pairmap_get(names, thread, 0, thread);
}

static void event_out(struct mt_host_reader *r, const struct mt_host_item *item, int64_t name, FILE *f)
{
    int call = item->event == MT_HOST_EV_CALL || item->event == MT_HOST_EV_RETURN;
    const struct mt_function_event *fn = call ? mt_host_function(r, item->args[0]) : NULL;
    size_t room = MT_TEXT_LINE + (fn ? strlen(fn->name) : 0);
    char *text = malloc(room);
    if (text)
        fwrite(text, 1,
               mt_text_event(text, room, item->time, name, item->event, item->args, item->nargs,
                             fn ? fn->name : "?"),
               f);
    free(text);
}

/* Running threads, by name in the text. */
struct running {
    int64_t *name;
    size_t count, room;
    uint64_t time; /* time of the newest line */
};

static int running_event(struct running *n, enum mt_host_event event, int64_t name)
{
    if (event == MT_HOST_EV_THREAD_START) {
        if (mt_grow(&n->name, &n->room, n->count + 1, sizeof *n->name) != 0)
            return -1;
        n->name[n->count++] = name;
    }
    for (size_t i = 0; event == MT_HOST_EV_THREAD_END && i < n->count; i++)
        if (n->name[i] == name) {
            memmove(&n->name[i], &n->name[i + 1], (--n->count - i) * sizeof *n->name);
            break;
        }
    return 0;
}

/* Ends all threads of a complete trace, which ended with the program. */
static void running_end(struct running *n, FILE *f)
{
    char text[MT_TEXT_LINE];
    for (size_t i = 0; i < n->count; i++)
        fwrite(text, 1,
               mt_text_event(text, sizeof text, ++n->time, n->name[i], MT_HOST_EV_THREAD_END, NULL, 0, NULL),
               f);
}

int mt_convert_atomic(struct mt_host_reader *r, FILE *f)
{
    const struct mt_companion *c = mt_host_companion(r);
    struct mt_host_item item;
    struct mt_pairmap names = {0};
    struct running running = {0};
    struct line l = {.thread = UINT64_MAX};
    int code = 0;
    while (mt_convert_next(r, &item, &code) > 0 && !ferror(f)) {
        int64_t *name = name_of(&names, item.thread);
        if (item.kind == MT_HOST_ITEM_EVENT && item.event == MT_HOST_EV_THREAD_START && name)
            *name = (int64_t)item.args[0];
        if (!name || (item.kind == MT_HOST_ITEM_EVENT && running_event(&running, item.event, *name) != 0)) {
            code = mt_cli_fail("no memory");
            break;
        }
        if (item.time > running.time)
            running.time = item.time;
        if (item.kind == MT_HOST_ITEM_EVENT) {
            line_out(&l, f);
            event_out(r, &item, *name, f);
            continue;
        }
        for (size_t i = 0; i < item.count; i++) {
            const struct mt_host_record *a = &item.records[i];
            if (a->time != l.time || item.thread != l.thread)
                line_out(&l, f);
            l.time = a->time;
            if (a->time > running.time)
                running.time = a->time;
            l.thread = item.thread;
            l.name = *name;
            mt_text_access_add(&l.access, op_of(r, a->site), a->address, a->size);
        }
    }
    line_out(&l, f);
    if (!code && c->has_end && c->complete)
        running_end(&running, f);
    free(running.name);
    mt_pairmap_free(&names);
    return code;
}

/* ---- mat ---- */

struct mat {
    struct mt_host_reader *r;
    struct mt_live_allocs *live;
    struct mt_pairmap shown; /* instructions whose place has been written */
    FILE *f;
    int all;
};

static int show_place(struct mat *m, const struct mt_host_site_info *s, uint64_t ip)
{
    uint64_t *seen = mt_pairmap_get(&m->shown, s->site / 4, 0, 0);
    if (!seen)
        return -1;
    if (*seen || !*s->file)
        return 0;
    *seen = 1;
    size_t room = MT_TEXT_LINE + strlen(s->file);
    char *text = malloc(room);
    if (text)
        fwrite(text, 1, mt_text_mat_location(text, room, ip, s->file, s->line), m->f);
    free(text);
    return text ? 0 : -1;
}

static int mat_record(struct mat *m, const struct mt_host_record *a)
{
    char text[2 * MT_TEXT_LINE];
    const struct mt_host_site_info *s = mt_host_site(m->r, a->site);
    const struct mt_alloc_event *in = mt_live_allocs_find(m->live, a->address);
    if (!in && !m->all)
        return 0;
    struct mt_text_mat line = {.ip = s && s->ip ? s->ip : a->site,
                               .address = a->address,
                               .offset = in ? a->address - in->base : 0,
                               .base = in ? in->base : 0,
                               .allocation = in ? in->bytes : 0,
                               .size = a->size,
                               .op = s ? s->op : MT_HOST_UNKNOWN};
    size_t n = mt_text_mat_access(text, sizeof text, &line);
    if (n && s && show_place(m, s, line.ip) != 0)
        return -1;
    fwrite(text, 1, n, m->f);
    return 0;
}

int mt_convert_mat(struct mt_host_reader *r, FILE *f, int all)
{
    const struct mt_companion *c = mt_host_companion(r);
    struct mat m = {.r = r, .live = mt_live_allocs_new(c->allocs, c->nallocs), .f = f, .all = all};
    struct mt_host_item item;
    int code = 0, bad = !m.live || mt_live_allocs_cut(m.live, c->cuts, c->ncuts) != 0;
    while (!bad && mt_convert_next(r, &item, &code) > 0 && !ferror(f)) {
        if (item.kind != MT_HOST_ITEM_RECORDS)
            continue;
        bad = mt_live_allocs_advance(m.live, item.seq) != 0;
        for (size_t i = 0; i < item.count && !bad; i++)
            bad = mat_record(&m, &item.records[i]) != 0;
    }
    char end[MT_TEXT_LINE];
    if (!bad && !code && c->has_end && (c->complete || c->lost))
        fwrite(end, 1, mt_text_mat_end(end, sizeof end, c->lost), f);
    mt_live_allocs_free(m.live);
    mt_pairmap_free(&m.shown);
    return bad ? mt_cli_fail("no memory") : code;
}

/* ---- Formats of simulators, each written from its project's own definition; docs/simulators.md names them
 * ---- */

static int sim_nothing(struct mt_sim_writer *w)
{
    (void)w;
    return 0;
}

/* Returns the system's number of a thread, never 0. */
static uint64_t sim_native(const struct mt_sim_writer *w, uint64_t thread)
{
    const struct mt_companion *c = w->companion;
    for (size_t i = 0; c && i < c->nthreads; i++)
        if (c->threads[i].number == thread && c->threads[i].native)
            return c->threads[i].native;
    return thread + 1;
}

/* Returns the index of the thread in w->threads, or SIZE_MAX without memory. *is_new: it was added. */
static size_t sim_meet(struct mt_sim_writer *w, uint64_t thread, int *is_new)
{
    uint64_t *at = mt_pairmap_get(&w->met, thread, 0, 0);
    *is_new = at && !*at;
    if (!at || (*is_new && mt_grow(&w->threads, &w->thread_room, w->nthreads + 1, sizeof *w->threads) != 0))
        return SIZE_MAX;
    if (*is_new) {
        w->threads[w->nthreads++] = sim_native(w, thread);
        *at = w->nthreads;
    }
    return *at - 1;
}

/* Returns the size of the next piece of an access, which ends at the end of a block. */
static uint32_t sim_piece(const struct mt_sim_access *a, uint32_t done)
{
    uint32_t to_edge = MT_SIM_BLOCK - (uint32_t)((a->address + done) & (MT_SIM_BLOCK - 1));
    return a->size - done < to_edge ? a->size - done : to_edge;
}

/* ---- drmemtrace: entries of 12 bytes ---- */

enum {
    READ = 0,
    WRITE = 1,
    THREAD = 22,
    THREAD_EXIT = 23,
    PID = 24,
    HEADER = 25,
    FOOTER = 26,
    MARKER = 28,
    NO_FETCH = 29
};
enum { TIMESTAMP = 2, CPU_ID = 3, FILETYPE = 9, CACHE_LINE_SIZE = 10, VERSION = 12 }; /* kinds of markers */
enum { FORMAT = 4, X86_64 = 0x40, IFILTERED = 0x80, ENTRY_MOST = 1 << 15 };

static void drmemtrace_put(struct mt_sim_writer *w, uint16_t type, uint16_t size, uint64_t value)
{
    unsigned char entry[12];
    memcpy(entry, &type, 2);
    memcpy(entry + 2, &size, 2);
    memcpy(entry + 4, &value, 8);
    fwrite(entry, 1, sizeof entry, w->f);
}

static int drmemtrace_begin(struct mt_sim_writer *w)
{
    drmemtrace_put(w, HEADER, 0, FORMAT);
    drmemtrace_put(w, MARKER, VERSION, FORMAT);
    drmemtrace_put(w, MARKER, FILETYPE,
                   X86_64 | IFILTERED); /* instructions without memory accesses are omitted */
    return 0;
}

static int drmemtrace_access(struct mt_sim_writer *w, const struct mt_sim_access *a)
{
    if (a->thread != w->thread) {
        int is_new;
        size_t at = sim_meet(w, a->thread, &is_new);
        if (at == SIZE_MAX)
            return -1;
        drmemtrace_put(w, THREAD, 0, w->threads[at]);
        if (is_new) {
            drmemtrace_put(w, PID, 0, w->companion->pid ? w->companion->pid : 1);
            drmemtrace_put(w, MARKER, CACHE_LINE_SIZE, MT_SIM_BLOCK);
            drmemtrace_put(w, MARKER, TIMESTAMP, 1); /* drcachesim needs a time before the first access */
            drmemtrace_put(w, MARKER, CPU_ID, at);
        }
    }
    drmemtrace_put(w, NO_FETCH, 0, a->ip); /* instruction of the following entries */
    for (int write = 0; write < 2; write++)
        for (uint32_t done = 0; (write ? a->writes : a->reads) && done < a->size; done += ENTRY_MOST)
            drmemtrace_put(w, write ? WRITE : READ,
                           (uint16_t)(a->size - done < ENTRY_MOST ? a->size - done : ENTRY_MOST),
                           a->address + done);
    return 0;
}

static int drmemtrace_end(struct mt_sim_writer *w)
{
    for (size_t i = 0; i < w->nthreads; i++)
        drmemtrace_put(w, THREAD_EXIT, 0, w->threads[i]);
    drmemtrace_put(w, FOOTER, 0, 0);
    return 0;
}

/* ---- champsim: an instruction of 64 bytes ---- */

static int champsim_end(struct mt_sim_writer *w)
{
    struct {
        uint64_t ip;
        unsigned char branch[2], registers[6];
        uint64_t store[2], load[4];
    } instruction = {.ip = w->last.ip};
    _Static_assert(sizeof instruction == 64, "input_instr of ChampSim");
    if (!w->under_way)
        return 0;
    memcpy(instruction.store, w->store, w->nstore * sizeof *w->store);
    memcpy(instruction.load, w->load, w->nload * sizeof *w->load);
    fwrite(&instruction, 1, sizeof instruction, w->f);
    w->under_way = w->nload = w->nstore = 0;
    return 0;
}

/* Returns 1 for another operand of the current instruction, 0 for its next execution. */
static int champsim_same(const struct mt_sim_writer *w, const struct mt_sim_access *a)
{
    if (!w->under_way || a->instruction != w->last.instruction || a->thread != w->last.thread ||
        a->time != w->last.time || w->nload + (unsigned)a->reads > 4 || w->nstore + (unsigned)a->writes > 2)
        return 0;
    for (unsigned i = 0; i < w->under_way; i++)
        if (w->sites[i] == a->site && !a->time)
            return 0;
    return w->under_way < sizeof w->sites / sizeof *w->sites;
}

static int champsim_access(struct mt_sim_writer *w, const struct mt_sim_access *a)
{
    if (!champsim_same(w, a))
        champsim_end(w);
    w->last = *a;
    w->sites[w->under_way++] = a->site;
    if (a->reads)
        w->load[w->nload++] = a->address;
    if (a->writes)
        w->store[w->nstore++] = a->address;
    return 0;
}

/* ---- ramulator: a line for each block ---- */

static int ramulator_access(struct mt_sim_writer *w, const struct mt_sim_access *a)
{
    for (int write = 0; write < 2; write++)
        for (uint32_t done = 0; (write ? a->writes : a->reads) && done < a->size; done += sim_piece(a, done))
            fprintf(w->f, "%s 0x%" PRIx64 "\n", write ? "ST" : "LD", (a->address + done) & INT64_MAX);
    return 0;
}

/* ---- gem5: messages of protobuf, each after its length ---- */

struct message {
    unsigned char bytes[128];
    size_t n;
};
enum { VARINT = 0, TEXT = 2 };

static void gem5_varint(struct message *m, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        m->bytes[m->n++] = (unsigned char)(v | 0x80);
    m->bytes[m->n++] = (unsigned char)v;
}

static void gem5_number(struct message *m, unsigned field, uint64_t v)
{
    gem5_varint(m, field << 3 | VARINT);
    gem5_varint(m, v);
}

static void gem5_put(struct mt_sim_writer *w, const struct message *m)
{
    struct message length = {.n = 0};
    gem5_varint(&length, m->n);
    fwrite(length.bytes, 1, length.n, w->f);
    fwrite(m->bytes, 1, m->n, w->f);
}

/* Writes the PacketHeader: the writer, and ticks per second. */
static int gem5_begin(struct mt_sim_writer *w)
{
    static const char name[] = "memtrace";
    struct message m = {.n = 0};
    fwrite("gem5", 1, 4, w->f);
    gem5_varint(&m, 1 << 3 | TEXT);
    gem5_varint(&m, sizeof name - 1);
    memcpy(m.bytes + m.n, name, sizeof name - 1);
    m.n += sizeof name - 1;
    gem5_number(&m, 3, UINT64_C(1000000000000));
    gem5_put(w, &m);
    return 0;
}

/* Writes a Packet for each block, one access per nanosecond. */
static int gem5_access(struct mt_sim_writer *w, const struct mt_sim_access *a)
{
    enum { READ_REQ = 1, WRITE_REQ = 4 };
    for (int write = 0; write < 2; write++)
        for (uint32_t done = 0, n; (write ? a->writes : a->reads) && done < a->size; done += n) {
            struct message m = {.n = 0};
            n = sim_piece(a, done);
            gem5_number(&m, 1, 1000 * w->count);
            gem5_number(&m, 2, write ? WRITE_REQ : READ_REQ);
            gem5_number(&m, 3, a->address + done);
            gem5_number(&m, 4, n);
            gem5_number(&m, 6, a->thread);
            if (a->ip)
                gem5_number(&m, 7, a->ip);
            gem5_put(w, &m);
        }
    return 0;
}

static const struct mt_sim_format sim_formats[MT_SIMS] = {
    [MT_SIM_DRMEMTRACE] = {drmemtrace_begin, drmemtrace_access, drmemtrace_end},
    [MT_SIM_CHAMPSIM] = {sim_nothing, champsim_access, champsim_end},
    [MT_SIM_RAMULATOR] = {sim_nothing, ramulator_access, sim_nothing},
    [MT_SIM_GEM5] = {gem5_begin, gem5_access, sim_nothing},
};

/* ---- Accesses of host code or kernels, passed one by one to a simulator's format ---- */

struct simulated {
    struct mt_sim_writer w;
    const struct mt_sim_format *to;
    uint64_t thread; /* the thread to write; UINT64_MAX: all */
    uint64_t untyped, longer, sizeless;
    int failed;
    /* for kernels: */
    const struct mt_convert_choice *want;
    struct mt_source *source;
    int chosen; /* 1: the current launch is chosen */
    uint64_t launches;
};

/* Returns 0, or -1 if the output failed. */
static int convert_sim_one(struct simulated *x, const struct mt_sim_access *a)
{
    if (x->thread != UINT64_MAX && a->thread != x->thread)
        return 0;
    if (!a->size || a->size > MT_SIM_LONGEST) {
        x->sizeless += !a->size;
        x->longer += a->size != 0;
        return 0;
    }
    x->failed = x->to->access(&x->w, a) != 0;
    x->w.count++;
    x->w.thread = a->thread;
    return x->failed || ferror(x->w.f) ? -1 : 0;
}

static void convert_sim_say(uint64_t n, const char *what)
{
    if (n)
        mt_cli_say("%llu accesses are left out: %s", (unsigned long long)n, what);
}

static int convert_sim_end(struct simulated *x, int code)
{
    if (!x->failed && x->to->end(&x->w) != 0)
        x->failed = 1;
    if (ferror(x->w.f)) /* the caller reports only this */
        x->untyped = x->longer = x->sizeless = 0;
    convert_sim_say(x->untyped, "it is not known whether they load or store");
    convert_sim_say(x->longer, "they have more than 262144 bytes: block copies by one instruction");
    convert_sim_say(x->sizeless, "their size is not known");
    if (!x->w.count && x->thread != UINT64_MAX)
        mt_cli_say("thread %llu has no access", (unsigned long long)x->thread);
    free(x->w.threads);
    mt_pairmap_free(&x->w.met);
    return x->failed ? mt_cli_fail("no memory") : code;
}

/* ---- host code ---- */

static int convert_sim_record(struct simulated *x, struct mt_host_reader *r, const struct mt_host_item *item,
                              const struct mt_host_record *a)
{
    const struct mt_host_site_info *s = mt_host_site(r, a->site);
    enum mt_host_op op = s ? s->op : MT_HOST_UNKNOWN;
    if (op == MT_HOST_EXEC)
        return 0;
    if (op == MT_HOST_UNKNOWN) {
        x->untyped++;
        return 0;
    }
    struct mt_sim_access access = {.thread = item->thread,
                                   .ip = s->ip ? s->ip : a->site / 4,
                                   .instruction = a->site / 4,
                                   .site = a->site,
                                   .address = a->address,
                                   .size = a->size ? a->size : s->size,
                                   .time = a->time,
                                   .reads = op != MT_HOST_STORE,
                                   .writes = op != MT_HOST_LOAD && op != MT_HOST_CAS_FAILED};
    return convert_sim_one(x, &access);
}

/* Returns 1 if one of the records loads or stores. */
static int convert_sim_touches(struct mt_host_reader *r, const struct mt_host_item *item)
{
    for (size_t i = 0; item->kind == MT_HOST_ITEM_RECORDS && i < item->count; i++) {
        const struct mt_host_site_info *s = mt_host_site(r, item->records[i].site);
        if (s && s->op != MT_HOST_EXEC && s->op != MT_HOST_UNKNOWN)
            return 1;
    }
    return 0;
}

/* Returns 1 if several threads access memory. Damage is reported later, when the trace is read for writing.
 */
static int convert_sim_several(struct mt_host_reader *r)
{
    struct mt_host_item item;
    struct mt_error err;
    uint64_t thread = UINT64_MAX;
    int rc;
    while ((rc = mt_host_next(r, &item, &err)) > 0 ||
           (rc < 0 && err.code != MT_E_SYSTEM && err.code != MT_E_STOPPED)) {
        if (rc < 0 || item.thread == thread || !convert_sim_touches(r, &item))
            continue;
        if (thread != UINT64_MAX)
            return 1;
        thread = item.thread;
    }
    return 0;
}

int mt_convert_sim_one_thread(const struct mt_host_reader *r)
{
    const struct mt_mtc_index *first = NULL, *other = NULL;
    struct mt_error err;
    for (size_t i = 0; i < r->chunks.count && !other; i++) {
        const struct mt_mtc_index *e = &r->chunks.entries[i];
        if (e->type == MT_MTC_HOST && first && e->key != first->key)
            other = e;
        else if (e->type == MT_MTC_HOST)
            first = e;
    }
    struct mt_host_reader *again = other ? mt_host_reader_open(r->window.name, &mt_cli_stop, &err) : NULL;
    if (other && !again)
        return mt_cli_failed(&err);
    int several = again && convert_sim_several(again); /* some threads have only events */
    mt_host_reader_close(again);
    return several ? mt_cli_usage("ChampSim takes a trace for each core, and there are several threads: give "
                                  "--thread=N")
                   : 0;
}

int mt_convert_sim_host(struct mt_host_reader *r, FILE *f, enum mt_sim to, uint64_t thread)
{
    struct simulated x = {.w = {.f = f, .companion = mt_host_companion(r), .thread = UINT64_MAX},
                          .to = &sim_formats[to],
                          .thread = thread};
    struct mt_host_item item;
    int code = 0, stop = 0;
    if (x.to->begin(&x.w) != 0)
        return mt_cli_fail("no memory");
    while (!stop && mt_convert_next(r, &item, &code) > 0)
        for (size_t i = 0; !stop && item.kind == MT_HOST_ITEM_RECORDS && i < item.count; i++)
            stop = convert_sim_record(&x, r, &item, &item.records[i]) != 0;
    return convert_sim_end(&x, code);
}

/* ---- kernels ---- */

static int convert_sim_launch(void *self, const struct mt_run_launch *l)
{
    struct simulated *x = self;
    const struct mt_companion *c = mt_source_companion(x->source, l->input);
    x->chosen = !x->want->has_stream ||
                (l->event ? l->event->stream == x->want->stream : c && c->stream == x->want->stream);
    x->launches += (uint64_t)x->chosen;
    return 0;
}

static int convert_sim_records(void *self, const struct mt_raw_record *records, size_t n)
{
    struct simulated *x = self;
    int stop = 0;
    for (size_t i = 0; x->chosen && !stop && i < n; i++) {
        const struct mt_raw_record *r = &records[i];
        uint32_t type = mt_rec_type(r);
        struct mt_sim_access a = {.thread = mt_rec_smid(r),
                                  .address = mt_rec_address(r),
                                  .size = (uint32_t)mt_rec_size(r),
                                  .reads = type != MT_STORE,
                                  .writes = type != MT_LOAD};
        if (type == MT_UNKNOWN)
            x->untyped++;
        else
            stop = convert_sim_one(x, &a);
    }
    return 0; /* the end reports the failure */
}

static int convert_sim_enough(void *self)
{
    const struct simulated *x = self;
    return x->failed || ferror(x->w.f);
}

static const struct mt_analysis convert_sim = {
    .launch = convert_sim_launch, .records = convert_sim_records, .enough = convert_sim_enough};

int mt_convert_sim_kernels(struct mt_inputs *in, const struct mt_convert_choice *want, FILE *f,
                           enum mt_sim to)
{
    struct simulated x = {
        .w = {.f = f, .thread = UINT64_MAX}, .to = &sim_formats[to], .thread = UINT64_MAX, .want = want};
    struct mt_feed feed = {.filter = want->filter};
    int code = 0, complete;
    in->flags |= MT_SOURCE_NO_HOST | MT_SOURCE_NO_MEMORY;
    struct mt_source *s = x.source = feed.source = mt_inputs_source(in, &code);
    if (!s)
        return code;
    if (x.to->begin(&x.w) != 0) {
        mt_source_close(s);
        return mt_cli_fail("no memory");
    }
    mt_feed_add(&feed, &convert_sim, &x, NULL);
    int rc = mt_feed_read(&feed);
    code = rc ? mt_feed_failed(&feed, rc) : ferror(f) ? MT_EXIT_FAILURE : mt_inputs_finish(s, &complete);
    code = convert_sim_end(&x, code);
    if (!x.launches && want->has_stream)
        mt_cli_note("no launch of stream %u was chosen: the trace has %llu of all streams", want->stream,
                    (unsigned long long)feed.launches);
    else
        mt_filter_explain(want->filter, feed.launches, x.launches);
    mt_source_close(s);
    return code;
}
