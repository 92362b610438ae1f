/* memtrace convert: raw traces to compact traces and back, compact host traces to text, and compact traces to
 * new ones. */
#define _GNU_SOURCE

#include "memtrace/grow.h"
#include "analysis/base/pairmap.h"
#include "reader/base/internal.h" /* for mt_spool_create */
#include "format/host_text.h"
#include "memtrace/order.h"
#include "analysis/base/live_allocs.h"
#include "cli/base/pipeline.h"
#include "reader/container/container.h" /* the list of chunks is not in the public interface */
#include "base/json.h"
#include "cli/base/cli.h"
#include "cli/base/commands.h"
#include "cli/base/kind.h"
#include "merge_text.h"
#include "format/container/writer.h"
#include "memtrace/host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Choice of launches in a compact trace. */
struct mt_convert_choice {
    const struct mt_filter *filter;
    int has_stream, no_beside; /* no_beside 1: ignores the companion beside the compact trace */
    uint32_t stream;
};

enum mt_sim { MT_SIM_DRMEMTRACE, MT_SIM_CHAMPSIM, MT_SIM_RAMULATOR, MT_SIM_GEM5, MT_SIMS };

/* An access to write. */
struct mt_sim_access {
    uint64_t thread, ip, address, time;
    uint64_t instruction; /* number shared by the operands of one instruction; the site distinguishes them */
    uint32_t site, size;
    int reads, writes;
};

struct mt_sim_writer;

/* Functions of a format. Each returns 0, or -1 without memory. Write errors show in the stream. */
struct mt_sim_format {
    int (*begin)(struct mt_sim_writer *w);
    int (*access)(struct mt_sim_writer *w, const struct mt_sim_access *a);
    int (*end)(struct mt_sim_writer *w);
};

enum {
    MT_SIM_BLOCK = 64,
    MT_SIM_LONGEST = 1 << 18
}; /* size of a cache line; longest access that is not omitted */

struct mt_sim_writer {
    FILE *f;
    const struct mt_companion *companion; /* companion of a host trace; NULL for kernels */
    uint64_t count;                       /* number of accesses written */
    uint64_t thread;                      /* thread of the last access */
    struct mt_pairmap met;                /* threads -> index in `threads`, + 1 */
    uint64_t *threads;                    /* numbers of the threads in the format */
    size_t nthreads, thread_room;
    struct mt_sim_access last; /* champsim: latest operand of the current instruction */
    uint64_t load[4], store[2];
    uint32_t sites[6];
    unsigned nload, nstore, under_way;
};

/* Writes accesses in the formats of simulators (docs/simulators.md has the mappings and their sources), and
 * host accesses as text. */

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

static int convert_next(struct mt_host_reader *r, struct mt_host_item *item, int *code);

/* Counts in a first pass, which also reports damage. Returns 0, or -1 with *code. */
static int count_all(struct log *l, int *code)
{
    struct mt_host_item item;
    int rc;
    while ((rc = convert_next(l->r, &item, code)) > 0)
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

static int convert_make_file(struct log *l)
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

static int convert_show_head(struct log *l, const struct instruction *x, FILE *f)
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
        if (convert_show_head(l, x, f) != 0)
            return convert_insn_failed("a line");
        for (uint64_t k = 0, n; k < x->filled; k += n) {
            for (n = 1; k + n < x->filled && a[k + n].time == a[k].time;)
                n++;
            show_execution(l, a + k, n, f);
        }
    }
    return 0;
}

static int convert_insn(struct mt_host_reader *r, FILE *f)
{
    struct log l = {.r = r};
    int code = 0, bad = 0;
    if (count_all(&l, &code) == 0 && l.records) {
        bad = convert_make_file(&l);
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

static enum mt_host_op convert_op_of(struct mt_host_reader *r, uint32_t site)
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

/* Write all of the reader's items to `f`. Return 0, or an exit code after a message. */
static int convert_atomic(struct mt_host_reader *r, FILE *f)
{
    const struct mt_companion *c = mt_host_companion(r);
    struct mt_host_item item;
    struct mt_pairmap names = {0};
    struct running running = {0};
    struct line l = {.thread = UINT64_MAX};
    int code = 0;
    while (convert_next(r, &item, &code) > 0 && !ferror(f)) {
        int64_t *name = (int64_t *)mt_pairmap_get(&names, item.thread, 0, item.thread);
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
            mt_text_access_add(&l.access, convert_op_of(r, a->site), a->address, a->size);
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

static int convert_show_place(struct mat *m, const struct mt_host_site_info *s, uint64_t ip)
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

static int convert_mat_record(struct mat *m, const struct mt_host_record *a)
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
    if (n && s && convert_show_place(m, s, line.ip) != 0)
        return -1;
    fwrite(text, 1, n, m->f);
    return 0;
}

static int convert_mat(struct mt_host_reader *r, FILE *f, int all)
{
    const struct mt_companion *c = mt_host_companion(r);
    struct mat m = {.r = r, .live = mt_live_allocs_new(c->allocs, c->nallocs), .f = f, .all = all};
    struct mt_host_item item;
    int code = 0, bad = !m.live || mt_live_allocs_cut(m.live, c->cuts, c->ncuts) != 0;
    while (!bad && convert_next(r, &item, &code) > 0 && !ferror(f)) {
        if (item.kind != MT_HOST_ITEM_RECORDS)
            continue;
        bad = mt_live_allocs_advance(m.live, item.seq) != 0;
        for (size_t i = 0; i < item.count && !bad; i++)
            bad = convert_mat_record(&m, &item.records[i]) != 0;
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

/* Checks that only one thread has accesses, since ChampSim accepts one. Returns 0, or an exit code after a
 * message. */
static int convert_sim_one_thread(const struct mt_host_reader *r)
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

/* Writes a host trace. `thread`: writes only this one; UINT64_MAX: all. Returns 0, or an exit code after a
 * message. */
static int convert_sim_host(struct mt_host_reader *r, FILE *f, enum mt_sim to, uint64_t thread)
{
    struct simulated x = {.w = {.f = f, .companion = mt_host_companion(r), .thread = UINT64_MAX},
                          .to = &sim_formats[to],
                          .thread = thread};
    struct mt_host_item item;
    int code = 0, stop = 0;
    if (x.to->begin(&x.w) != 0)
        return mt_cli_fail("no memory");
    while (!stop && convert_next(r, &item, &code) > 0)
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

/* Writes launches of kernels, from raw or compact traces. */
static int convert_sim_kernels(struct mt_inputs *in, const struct mt_convert_choice *want, FILE *f,
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

/* Lines collected for a meta chunk. Zero-initialised except for `w`; the caller frees `text`. */
struct mt_convert_lines {
    struct mt_mtc_writer *w;
    char *text;
    size_t bytes, room;
    uint64_t count;
};

#define MT_CONVERT_UNREAD "memtrace convert could not read all of"

/* Chosen launches, by ascending seq. With `all` nothing is excluded. */
struct mt_convert_chosen {
    int all;
    uint64_t *seq;
    size_t count;
    uint64_t accesses, others; /* accesses to global memory; other accesses, and barriers */
};

/* ---- Lines of companions and meta chunks ---- */

enum { CONVERT_META_LINES = 1 << 20 };

/* mt_mtc_file.write to a FILE. */
static int convert_write(void *file, const void *data, size_t bytes)
{
    errno = 0;
    return fwrite(data, 1, bytes, file) == bytes ? 0 : errno ? errno : EIO;
}

/* Writes the collected lines as a chunk. */
static int convert_lines_end(struct mt_convert_lines *l)
{
    int e = l->bytes ? mt_mtc_write(l->w, MT_MTC_META, 0, 0, 0, 0, l->count, l->text, l->bytes) : 0;
    l->bytes = 0;
    l->count = 0;
    return e;
}

/* Adds a line, with or without its LF. Returns 0 or an errno value. */
static int convert_line_add(struct mt_convert_lines *l, const char *line, size_t n)
{
    if (n && line[n - 1] == '\n')
        n--;
    int e = l->bytes && l->bytes + n + 1 > CONVERT_META_LINES ? convert_lines_end(l) : 0;
    if (e)
        return e;
    if (l->bytes + n + 1 > l->room) {
        size_t more = l->bytes + n + 1 > CONVERT_META_LINES ? l->bytes + n + 1 : CONVERT_META_LINES;
        char *p = realloc(l->text, more);
        if (!p)
            return ENOMEM;
        l->text = p;
        l->room = more;
    }
    memcpy(l->text + l->bytes, line, n);
    l->text[l->bytes + n] = '\n';
    l->bytes += n + 1;
    l->count++;
    return 0;
}

/* Returns the object as one line of text. */
static char *convert_text_of(json_t *o)
{
    char *text = o ? json_dumps(o, JSON_PRESERVE_ORDER) : NULL;
    return text;
}

/* Returns a new line in jansson's format, as changed lines have it. */
static char *convert_meta_line(enum mt_line_kind kind, const void *line)
{
    struct mt_jsonl j = {0};
    mt_line_put(&j, kind, line);
    json_t *o = j.failed ? NULL : json_loadb(j.text, j.n, 0, NULL);
    char *text = convert_text_of(o);
    json_decref(o);
    mt_jsonl_free(&j);
    return text;
}

/* Returns {"ev": "kernel", …} with LF, to be freed; NULL: no memory. */
static char *convert_kernel_line(uint32_t id, const char *name)
{
    char *text = convert_meta_line(MT_LINE_kernel, &(struct mt_kernel_line){id, name}), *line = NULL;
    if (text && asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    return line;
}

/* Returns the lines, with LF, that end a copy of `path` which is incomplete for the reason `what`; to be
 * freed; NULL: no memory. `c`: lines of the original. If a kill prevented the original's end, the copy has
 * none either. */
static char *convert_partial_lines(const char *what, const char *path, const struct mt_companion *c)
{
    char *why = NULL, *lines = NULL;
    if (asprintf(&why, "%s %s", what, path) < 0)
        return NULL;
    char *lost = convert_meta_line(MT_LINE_lost, &(struct mt_lost_line){0, why});
    char *end = convert_meta_line(MT_LINE_end, &(struct mt_end_line){.records_written = c->records_written,
                                                                     .records_counted = c->records_counted,
                                                                     .launches = c->nlaunches});
    int ends = c->has_end || !mt_companion_speaks(c);
    if (lost && end && asprintf(&lines, ends ? "%s\n%s\n" : "%s\n", lost, end) < 0)
        lines = NULL;
    free(lost);
    free(end);
    free(why);
    return lines;
}

/* Writes such lines to a compact trace. Returns a non-zero exit code. */
static int convert_partial(struct mt_mtc_writer *w, const char *what, const char *path,
                           const struct mt_companion *c)
{
    char *lines = convert_partial_lines(what, path, c);
    uint64_t n = lines && strchr(lines, '\n')[1] ? 2 : 1;
    int e = lines ? mt_mtc_write(w, MT_MTC_META, 0, 0, 0, 0, n, lines, strlen(lines)) : ENOMEM;
    free(lines);
    return e ? mt_cli_fail("cannot write the compact trace: %s", strerror(e)) : MT_EXIT_INPUT;
}

/* Returns 1 for a kernel line. */
static int convert_is_kernel(const char *line, size_t n)
{
    json_t *o = n < 1 << 20 && memmem(line, n, "\"kernel\"", 8) ? json_loadb(line, n, 0, NULL) : NULL;
    const char *ev = json_string_value(json_object_get(o, "ev"));
    int is = ev && strcmp(ev, "kernel") == 0;
    json_decref(o);
    return is;
}

static int convert_is_chosen(const struct mt_convert_chosen *c, uint64_t seq)
{
    return c->all || (c->count && bsearch(&seq, c->seq, c->count, sizeof seq, mt_order_u64));
}

/* Name of a key that lines of this kind have. */
#define KEY(ev, key) (sizeof((struct mt_##ev##_line *)0)->key ? #key : NULL)

/* Adapts an object. Returns 1 if it was changed. */
static int convert_meta_change(const struct mt_convert_chosen *c, int raw, json_t *o)
{
    const char *ev = json_string_value(json_object_get(o, "ev"));
    const char *format = json_string_value(json_object_get(o, KEY(header, format)));
    if (!ev)
        return 0;
    if (strcmp(ev, "header") == 0 && raw && format && strcmp(format, "raw") != 0)
        return json_object_set_new(o, KEY(header, format), json_string("raw")) == 0;
    if (c->all)
        return 0;
    if (strcmp(ev, "end") == 0)
        return json_object_set_new(o, KEY(end, records_written), json_integer((json_int_t)c->accesses)) ==
                   0 &&
               json_object_set_new(o, KEY(end, records_counted), json_integer((json_int_t)c->accesses)) ==
                   0 &&
               (!c->others ||
                json_object_set_new(o, KEY(end, others_written), json_integer((json_int_t)c->others)) == 0) &&
               json_object_set_new(o, KEY(end, launches), json_integer((json_int_t)c->count)) == 0;
    if (strcmp(ev, "launch") != 0 || !json_is_true(json_object_get(o, KEY(launch, traced))) ||
        convert_is_chosen(c, (uint64_t)json_integer_value(json_object_get(o, KEY(launch, seq)))))
        return 0;
    return json_object_set_new(o, KEY(launch, traced), json_false()) == 0 &&
           json_object_set_new(o, KEY(launch, left_out), json_string("mt-convert")) == 0;
}

/* Adapts a line of a companion or meta chunk (n bytes, without LF). *out is the new line, to be freed, or
 * NULL if it is unchanged. Launches not chosen become untraced, and sums are recomputed; `raw`: the header
 * says that the trace is raw. Returns 0, or -1 without memory. */
static int convert_line(const struct mt_convert_chosen *c, int raw, const char *line, size_t n, char **out)
{
    static const char *const events[] = {"\"header\"", "\"end\"", "\"launch\""};
    int any = 0;
    *out = NULL;
    for (size_t i = 0; i < sizeof events / sizeof *events && n < 1 << 20; i++)
        any |= memmem(line, n, events[i], strlen(events[i])) != NULL;
    json_t *o = any ? json_loadb(line, n, 0, NULL) : NULL;
    int rc = 0;
    if (o && convert_meta_change(c, raw, o)) {
        *out = convert_text_of(o);
        rc = *out ? 0 : -1;
    }
    json_decref(o);
    return rc;
}

/* ---- A compact trace of kernels to a raw trace with its companion, or to a compact trace of some launches
 * ---- */

enum { ROOM = 1 << 14 };

struct convert_device_work {
    struct mt_host_reader *r;
    FILE *f, *meta;
    const char *meta_path; /* path of the companion; NULL: it is not written */
    int meta_named;        /* 1: the user named the companion */
    struct mt_convert_chosen chosen;
    struct mt_raw_record *room;
    int under_way; /* 1: a launch whose EOT is not written yet */
    int code;
};

static int convert_device_failed(const char *path, int e)
{
    return mt_cli_fail("%s: cannot write: %s", path, strerror(e));
}

/* ---- which launches ---- */

/* Fills in the choice, of a single stream if `single`. Returns 0, or an exit code. */
static int convert_device_choose(struct mt_host_reader *r, const struct mt_convert_choice *want, int single,
                                 struct mt_convert_chosen *c)
{
    size_t n;
    const struct mt_device_launch *l = mt_device_launches(r, &n);
    uint64_t stream = MT_SEQ_NONE;
    int several = 0;
    c->seq = malloc((n + 1) * sizeof *c->seq);
    if (!c->seq)
        return mt_cli_fail("no memory for the launches");
    for (size_t i = 0; i < n; i++) {
        if (!mt_filter_match(want->filter, l[i].kernel, i) ||
            (want->has_stream && l[i].stream != want->stream))
            continue;
        several |= stream != MT_SEQ_NONE && stream != l[i].stream;
        stream = l[i].stream;
        c->seq[c->count++] = l[i].seq;
        const struct mt_launch_event *e = mt_device_launch_event(r, l[i].seq);
        uint64_t others = e && e->others < l[i].accesses ? e->others : 0;
        c->accesses += l[i].accesses - others;
        c->others += others;
    }
    c->all = c->count == n && !want->has_stream;
    if (!c->count && n)
        mt_cli_note("no launch matches: the trace has %zu, and memtrace dump --stat names their kernels", n);
    if (single && several)
        return mt_cli_usage("%s: has launches of several streams, and a raw trace has one: give --stream N",
                            r->window.name);
    return 0;
}

/* Finds what to convert of the file at `path`; the caller frees c->seq. Returns 0, or an exit code. */
static int convert_choose(const char *path, const struct mt_convert_choice *want, struct mt_convert_chosen *c)
{
    struct mt_error err;
    memset(c, 0, sizeof *c);
    if (!want->has_stream && !want->filter->kernels_text && !want->filter->supersteps_text) {
        c->all = 1;
        return 0;
    }
    struct mt_host_reader *r = mt_host_reader_open(path, &mt_cli_stop, &err);
    if (!r)
        return mt_cli_failed(&err);
    int code = r->window.regular
                   ? convert_device_choose(r, want, 0, c)
                   : mt_cli_usage("%s: to choose launches a regular file is needed, not a FIFO", path);
    mt_host_reader_close(r);
    return code;
}

/* ---- companion ---- */

/* Opens the companion. A path from the user may be any file; a derived path must be a regular file, or not
 * exist. Returns 0, or an exit code. */
static int open_companion(struct convert_device_work *x)
{
    int flags = O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC | (x->meta_named ? 0 : O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    int fd = open(x->meta_path, flags, 0666), regular = 0;
    if (fd >= 0 && fstat(fd, &st) == 0)
        regular = S_ISREG(st.st_mode);
    if (fd >= 0 && !regular && !x->meta_named)
        errno = EINVAL;
    else if (fd >= 0 && (!regular || ftruncate(fd, 0) == 0) && (x->meta = fdopen(fd, "wb")))
        return 0;
    int e = errno;
    if (fd >= 0)
        close(fd);
    if (x->meta_named || (e != EINVAL && e != ELOOP && e != ENXIO))
        return convert_device_failed(x->meta_path, e);
    return mt_cli_fail("%s: is not a regular file and is not written to: give --companion or --no-companion",
                       x->meta_path);
}

/* Returns 0, or -1 if the file could not be written completely and was removed. */
static int close_companion(struct convert_device_work *x)
{
    struct stat st;
    int bad = x->meta && ferror(x->meta), failed = x->meta && fclose(x->meta) != 0, error = errno;
    x->meta = NULL;
    if (!bad && !failed)
        return 0;
    if (lstat(x->meta_path, &st) == 0 && S_ISREG(st.st_mode))
        unlink(x->meta_path);
    errno = error;
    return -1;
}

/* Writes the lines of a meta chunk. Returns 0, or an exit code. */
static int put_lines(void *self, const char *text, size_t bytes)
{
    struct convert_device_work *x = self;
    const char *end = text + bytes;
    while (x->meta_path && text < end) {
        const char *lf = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((lf ? lf : end) - text);
        char *changed;
        if (convert_line(&x->chosen, 1, text, n, &changed) != 0)
            return mt_cli_fail("no memory for the launches");
        int kernel = convert_is_kernel(text, n);
        int code = !kernel && !x->meta ? open_companion(x) : 0;
        if (code) {
            free(changed);
            return code;
        }
        if (!kernel && (fwrite(changed ? changed : text, 1, changed ? strlen(changed) : n, x->meta) == 0 ||
                        putc('\n', x->meta) == EOF)) {
            free(changed);
            return convert_device_failed(x->meta_path, errno);
        }
        free(changed);
        text += n + 1;
    }
    return 0;
}

/* Writes all meta chunks of a regular file. Damage in them was reported when the reader was opened. */
static int put_all_lines(struct convert_device_work *x)
{
    struct mt_chunk_payload plain = {0};
    struct mt_error err;
    struct mt_mtc_chunk head;
    const unsigned char *stored;
    int code = 0;
    for (size_t i = 0; i < x->r->chunks.count && code == 0; i++) {
        const struct mt_mtc_index *e = &x->r->chunks.entries[i];
        if (e->type == MT_MTC_META &&
            mt_chunk_at(&x->r->window, e->offset, &head, &stored, &err) == MT_CHUNK_WHOLE &&
            head.type == MT_MTC_META &&
            mt_chunk_unpack(&plain, x->r->window.name, e->offset, &head, stored, &err) == 0)
            code = put_lines(x, (char *)plain.data, plain.bytes);
    }
    mt_chunk_payload_free(&plain);
    return code;
}

/* ---- records ---- */

static int put_records(struct convert_device_work *x, const struct mt_run_batch *b)
{
    static const struct mt_raw_record eot;
    size_t run = 0;
    uint32_t lane = 0;
    if (b->flags & MT_BATCH_BEGIN) {
        if (x->under_way) /* the missing end was reported; the next launch needs a place */
            fwrite(&eot, sizeof eot, 1, x->f);
        fputs(b->kernel, x->f);
        putc('\n', x->f);
        x->under_way = 1;
    }
    while (run < b->count && !mt_cli_stop) { /* a run of few bytes may stand for a billion records */
        size_t n = mt_records_from_runs(b->runs, b->count, &run, &lane, x->room, ROOM);
        fwrite(x->room, sizeof *x->room, n, x->f);
    }
    if (b->flags & MT_BATCH_END) {
        fwrite(&eot, sizeof eot, 1, x->f);
        x->under_way = 0;
    }
    return ferror(x->f) ? -1 : 0;
}

/* Reads the next batch. Returns 1, 0 at the end, -1 for damage that was reported (x->code is set), or -2 for
 * a fatal error. */
static int convert_device_next(struct convert_device_work *x, struct mt_run_batch *b)
{
    struct mt_error err;
    int rc = mt_device_next(x->r, b, &err);
    if (rc >= 0)
        return rc;
    x->code = mt_cli_failed(&err);
    return err.code == MT_E_SYSTEM || err.code == MT_E_STOPPED || err.code == MT_E_INPUT ? -2 : -1;
}

/* Writes one launch after another, from a regular file. */
static void put_chosen(struct convert_device_work *x)
{
    struct mt_run_batch b;
    size_t n;
    const struct mt_device_launch *l = mt_device_launches(x->r, &n);
    int rc = 1;
    for (size_t i = 0; i < n && rc > -2; i++) {
        if (!convert_is_chosen(&x->chosen, l[i].seq))
            continue;
        int ended = 0;
        mt_device_seek(x->r, i);
        while (rc > -2 && rc != 0 && mt_device_peek(x->r) == l[i].seq)
            if ((rc = convert_device_next(x, &b)) > 0) {
                ended = b.flags & MT_BATCH_END;
                if (put_records(x, &b) != 0)
                    return;
            }
        if (!ended && rc > -2)
            rc = convert_device_next(x, &b); /* reports the missing end */
    }
    mt_device_seek(x->r, n);
    while (rc > -2 && rc != 0)
        rc = convert_device_next(x, &b); /* damage in the file, already reported */
}

/* Writes launches in the order of arrival. */
static void put_live(struct convert_device_work *x)
{
    struct mt_run_batch b;
    int rc, any = 0;
    uint32_t stream = 0;
    while ((rc = convert_device_next(x, &b)) > -2 && rc != 0) {
        if (rc < 0)
            continue;
        if (any && stream != b.stream) {
            x->code = mt_cli_usage("%s: has launches of several streams, and a raw trace has one: make it a "
                                   "file and give --stream N",
                                   x->r->window.name);
            return;
        }
        any = 1;
        stream = b.stream;
        if (put_records(x, &b) != 0)
            return;
    }
}

/* Writes the end of the companion of an incomplete copy. Returns an exit code. */
static int put_partial(struct convert_device_work *x)
{
    int code = x->meta_path && !x->meta ? open_companion(x) : 0;
    if (code || !x->meta)
        return code ? code : MT_EXIT_INPUT;
    char *lines = convert_partial_lines(MT_CONVERT_UNREAD, x->r->window.name, mt_host_companion(x->r));
    if (!lines)
        return mt_cli_fail("no memory for the companion file");
    code = fputs(lines, x->meta) == EOF ? convert_device_failed(x->meta_path, errno) : MT_EXIT_INPUT;
    free(lines);
    return code;
}

static int convert_container_complete(const char *path, const struct mt_companion *own, int look_beside);

/* Converts a compact trace to a raw one. The companion's lines, if any, go to the file `meta` (NULL:
 * nowhere). Unless the user has `named` it, it must be new or a regular file. */
static int convert_to_raw(const char *path, FILE *f, const char *meta, int named,
                          const struct mt_convert_choice *want)
{
    struct mt_error err;
    struct convert_device_work x = {
        .f = f, .meta_path = meta, .meta_named = named, .room = malloc(ROOM * sizeof *x.room)};
    x.r = mt_host_reader_open(path, &mt_cli_stop, &err);
    if (!x.r) {
        mt_cli_say("%s", err.message);
        free(x.room);
        return mt_cli_exit_code(&err);
    }
    mt_host_reader_threads(x.r, mt_cli_processors());
    int live = !x.r->window.regular, code = x.room ? 0 : mt_cli_fail("no memory for the launches");
    if (code == 0 && !(x.r->head.features & MT_MTC_HAS_DEVICE))
        code = mt_cli_usage("%s: raw traces hold accesses of kernels, and this compact trace has none", path);
    if (code == 0 && live &&
        (want->filter->kernels_text || want->filter->supersteps_text || want->has_stream))
        code = mt_cli_usage("%s: to choose launches a regular file is needed, not a FIFO", path);
    x.chosen.all = live;
    if (code == 0 && !live && (code = convert_device_choose(x.r, want, 1, &x.chosen)) == 0)
        code = put_all_lines(&x);
    if (code == 0) {
        x.r->meta.lines = live ? put_lines : NULL;
        x.r->meta.lines_arg = &x;
        putc(MT_RAW_RECORD_SIZE, f);
        (live ? put_live : put_chosen)(&x);
        code = x.code == MT_EXIT_INPUT ? put_partial(&x) : x.code;
        int missing = ferror(f) ? MT_EXIT_FAILURE /* the unread rest may be intact */
                                : convert_container_complete(path, mt_host_companion(x.r), !want->no_beside);
        if (!ferror(f) && mt_container_whole(x.r, &err) != 0) {
            mt_cli_say("%s", err.message);
            missing = MT_EXIT_INPUT;
        }
        code = code ? code : missing;
    }
    if (close_companion(&x) != 0)
        code = convert_device_failed(meta, errno);
    mt_host_reader_close(x.r);
    free(x.chosen.seq);
    free(x.room);
    return code;
}

/* ---- A compact trace to a new one, chunk by chunk whatever their contents, with an index ---- */

/* Copies the lines of a meta chunk if not all launches are chosen. Returns 0 or an errno value. */
static int copy_lines(struct mt_mtc_writer *w, const struct mt_convert_chosen *chosen, const char *text,
                      size_t bytes)
{
    struct mt_convert_lines lines = {.w = w};
    const char *end = text + bytes;
    int e = 0;
    while (!e && text < end) {
        const char *lf = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((lf ? lf : end) - text);
        char *changed;
        if (convert_line(chosen, 0, text, n, &changed) != 0)
            return ENOMEM;
        e = convert_line_add(&lines, changed ? changed : text, changed ? strlen(changed) : n);
        free(changed);
        text += n + 1;
    }
    if (!e)
        e = convert_lines_end(&lines);
    free(lines.text);
    return e;
}

/* The trace's own lines and their state. */
struct convert_repack_told {
    struct mt_companion *lines;
    struct mt_meta_bound bound;
};

/* Copies one chunk; `told` collects its lines. Returns 0, or an exit code. */
static int convert_repack_copy(struct mt_mtc_writer *w, struct mt_chunk_payload *plain, const char *name,
                               uint64_t at, const struct mt_mtc_chunk *head, const unsigned char *stored,
                               const struct mt_convert_chosen *chosen, struct convert_repack_told *told,
                               int *code)
{
    struct mt_error err;
    if (head->type == MT_MTC_INDEX ||
        (head->type == MT_MTC_DEVICE && !convert_is_chosen(chosen, head->first)))
        return 0;
    if ((head->type == MT_MTC_META && mt_meta_bound(&told->bound, name, at, head, &err) != 0) ||
        mt_chunk_unpack(plain, name, at, head, stored, &err) != 0) {
        *code = mt_cli_failed(&err);
        return err.code == MT_E_SYSTEM ? *code : 0;
    }
    int e =
        head->type == MT_MTC_META && mt_companion_add(told->lines, (char *)plain->data, plain->bytes, at) != 0
            ? ENOMEM
        : head->type == MT_MTC_META && !chosen->all
            ? copy_lines(w, chosen, (char *)plain->data, plain->bytes)
            : mt_mtc_write(w, (enum mt_mtc_chunk_type)head->type, head->flags, head->key, head->first,
                           head->last, head->items, plain->data, plain->bytes);
    mt_companion_forget_memory(told->lines);
    if (!e)
        return 0;
    mt_cli_say("cannot write the compact trace: %s", strerror(e));
    return *code = MT_EXIT_FAILURE;
}

static int copy_all(struct mt_window *in, uint64_t at, struct mt_mtc_writer *w,
                    const struct mt_convert_chosen *chosen, struct convert_repack_told *told,
                    struct mt_chunk_payload *plain, int *indexed)
{
    struct mt_mtc_chunk head = {0};
    const unsigned char *stored;
    struct mt_error err;
    int code = 0;
    for (;;) {
        int found;
        switch (mt_chunk_at(in, at, &head, &stored, &err)) {
        case MT_CHUNK_END:
            return code;
        case MT_CHUNK_WHOLE:
            *indexed |= head.type == MT_MTC_INDEX;
            if (convert_repack_copy(w, plain, in->name, at, &head, stored, chosen, told, &code) != 0)
                return code;
            at = mt_chunk_end(at, &head);
            continue;
        case MT_CHUNK_SYSTEM:
            return mt_cli_failed(&err);
        default:
            mt_cli_say("%s", err.message);
            code = MT_EXIT_INPUT;
            found = mt_chunk_resync(in, &at, 0, &err);
            if (found < 0)
                mt_cli_say("%s", err.message);
            if (found <= 0)
                return found < 0 ? mt_cli_exit_code(&err) : code;
        }
    }
}

/* Output file, until it is closed. */
struct convert_repack_out {
    FILE *f;
    int shut;
};

static int convert_repack_write(void *file, const void *data, size_t bytes)
{
    struct convert_repack_out *out = file;
    return out->shut ? 0 : convert_write(out->f, data, bytes);
}

/* Returns 1 for a complete trace. One whose program ended has an index, and one whose program was killed has
 * lines that say so. Without either it was cut off: its copy gets no index, so that it does not look
 * complete. */
static int convert_repack_whole(const struct mt_window *in, const struct mt_companion *told, int indexed,
                                struct convert_repack_out *out)
{
    if (indexed || mt_companion_speaks(told))
        return 0;
    mt_cli_say("%s: %s", in->name, MT_CONTAINER_CUT);
    out->shut = 1;
    return MT_EXIT_INPUT;
}

/* Writes a compact trace that begins with `head`. Returns 0, or an exit code. */
static int write_container(struct mt_window *in, const struct mt_mtc_head *head, FILE *f, int level,
                           const struct mt_convert_chosen *chosen, int no_beside)
{
    char why[200] = "no memory";
    int indexed = 0;
    struct mt_chunk_payload plain = {0};
    struct convert_repack_out out = {f, 0};
    struct mt_mtc_file file = {convert_repack_write, &out};
    struct convert_repack_told told = {.lines = mt_companion_new(in->name)};
    struct mt_mtc_writer *w = told.lines ? mt_mtc_writer_again(&file, head, level, why, sizeof why) : NULL;
    int code = w ? copy_all(in, head->head_bytes, w, chosen, &told, &plain, &indexed) : MT_EXIT_FAILURE;
    if (code == MT_EXIT_INPUT)
        code = convert_partial(w, MT_CONVERT_UNREAD, in->name, told.lines);
    if (code == 0)
        code = convert_repack_whole(in, told.lines, indexed, &out);
    int e = w ? mt_mtc_writer_close(w) : 0;
    if (!w) {
        mt_cli_say("%s", why);
    } else if (e && code != MT_EXIT_FAILURE) {
        mt_cli_say("cannot write the compact trace: %s", strerror(e));
        code = MT_EXIT_FAILURE;
    } else if (code == 0) {
        code = convert_container_complete(in->name, told.lines, !no_beside);
    }
    mt_companion_free(told.lines);
    mt_chunk_payload_free(&plain);
    return code;
}

/* Copies chunks from the file itself. */
static int convert_repack(struct mt_window *in, FILE *f, int level, const struct mt_convert_choice *want)
{
    struct mt_convert_chosen chosen;
    struct mt_mtc_head head;
    struct mt_error err;
    int code = convert_choose(in->name, want, &chosen);
    if (code == 0 && mt_container_head(in, &head, &err) != 0)
        code = mt_cli_failed(&err);
    if (code == 0)
        code = write_container(in, &head, f, level, &chosen, want->no_beside);
    free(chosen.seq);
    return code;
}

/* ---- A raw trace and its companion to a compact trace. The companion's lines are stored unchanged, so that
 * they can be restored exactly ---- */

enum { BATCH = 1 << 14, RUNS = 1 << 17, CONVERT_RAW_LINES = 1 << 20 };

struct convert_raw_work {
    struct mt_mtc_writer *w;
    struct mt_mtc_device_encoder *encoder;
    struct mt_access_run *runs;
    struct mt_raw_record *room;
    size_t count;         /* number of pending runs */
    const char **kernels; /* the reader's name pointers, which are equal for equal names; id = position + 1 */
    size_t nkernels, kernel_room;
    struct mt_companion *companion;
    size_t next;  /* next of the companion's launches */
    uint64_t seq; /* number of the current launch */
    uint32_t kernel;
    unsigned flags;                     /* flags of the next chunk */
    const struct mt_launch_event *line; /* line of the current launch, or NULL */
    uint64_t first, records; /* number of its first record in the trace, and number of records so far */
    struct mt_sample sample;
    int more;  /* 1: the trace has more launches than the companion has lines */
    int other; /* 1: the companion is of another run: it has other launches, or a launch has other records
                  than its line says */
};

static int convert_raw_failed(const char *what, int e)
{
    return mt_cli_fail("cannot write the compact trace: %s", e ? strerror(e) : what);
}

/* Writes the pending runs as a chunk. Returns 0, or an exit code. */
static int write_runs(struct convert_raw_work *x)
{
    const void *payload;
    const char *why;
    uint64_t accesses;
    size_t bytes = mt_mtc_encode_device(x->encoder, x->runs, x->count, &accesses, &payload, &why);
    if (!bytes)
        return convert_raw_failed(why, 0);
    int e = mt_mtc_write(x->w, MT_MTC_DEVICE, x->flags,
                         MT_MTC_DEVICE_KEY(x->companion ? x->companion->stream : 0, x->kernel), x->seq,
                         x->seq, accesses, payload, bytes);
    x->count = 0;
    x->flags = 0;
    return e ? convert_raw_failed(NULL, e) : 0;
}

/* Finds the kernel's number; writes new names in a meta chunk. Returns 0 or an errno value. */
static int name_kernel(struct convert_raw_work *x, const char *name)
{
    size_t i = 0;
    while (i < x->nkernels && x->kernels[i] != name)
        i++;
    x->kernel = (uint32_t)i + 1;
    if (i < x->nkernels)
        return 0;
    char *line = mt_grow(&x->kernels, &x->kernel_room, i + 1, sizeof *x->kernels) == 0
                     ? convert_kernel_line(x->kernel, name)
                     : NULL;
    if (!line)
        return convert_raw_failed("no memory", 0);
    x->kernels[x->nkernels++] = name;
    int e = mt_mtc_write(x->w, MT_MTC_META, 0, 0, 0, 0, 1, line, strlen(line));
    free(line);
    return e ? convert_raw_failed(NULL, e) : 0;
}

/* Numbers the launch, by its line or consecutively. */
static void number_launch(struct convert_raw_work *x, uint64_t launch)
{
    const struct mt_companion *c = x->companion;
    x->line = NULL;
    while (c && x->next < c->nlaunches && !c->launches[x->next].traced)
        x->next++;
    if (c && x->next < c->nlaunches)
        x->seq = (x->line = &c->launches[x->next++])->seq;
    else
        x->seq = launch ? x->seq + 1 : 0;
    x->more |= c && !x->line;
}

/* Compares the number of launches with the companion's, at the end of the trace. */
static void convert_raw_count(struct convert_raw_work *x, const char *name)
{
    const struct mt_companion *c = x->companion;
    while (c && x->next < c->nlaunches && !c->launches[x->next].traced)
        x->next++;
    if (!c || x->other || (!x->more && x->next == c->nlaunches))
        return;
    x->other = 1;
    mt_cli_say(
        "%s: has %s launches than its companion file %s says: one of them is incomplete, or of another run",
        name, x->more ? "more" : "fewer", c->path);
}

/* Checks the trace as its readers do, since nobody can check the compact trace. */
static void convert_raw_check(struct convert_raw_work *x, const struct mt_batch *b, const char *name)
{
    if (b->flags & MT_BATCH_BEGIN) {
        x->first = b->offset;
        x->records = 0;
    }
    mt_sample_add(&x->sample, x->records, b->records, b->count);
    x->records += b->count;
    if (!(b->flags & MT_BATCH_END) || x->other || !x->line ||
        !mt_sample_differs(&x->sample, x->records, x->line))
        return;
    x->other = 1;
    mt_cli_say(MT_OTHER_RUN, name, (unsigned long long)b->launch, (unsigned long long)x->first,
               x->companion->path);
}

static int take_batch(struct convert_raw_work *x, const struct mt_batch *b)
{
    int code = 0;
    size_t done = 0, taken;
    if (b->flags & MT_BATCH_BEGIN) {
        number_launch(x, b->launch);
        x->flags = MT_MTC_BEGIN;
        code = name_kernel(x, b->kernel);
    }
    while (code == 0 && done < b->count) {
        x->count += mt_runs_from_records(b->records + done, b->count - done, x->runs + x->count,
                                         RUNS - x->count, &taken);
        done += taken;
        if (x->count == RUNS)
            code = write_runs(x);
    }
    if (code == 0 && b->flags & MT_BATCH_END) {
        x->flags |= MT_MTC_END;
        code = write_runs(x);
    }
    return code;
}

static int take_records(struct convert_raw_work *x, struct mt_reader *r, const char *name)
{
    struct mt_batch b;
    struct mt_error err;
    int code = 0, rc = 0;
    while (code == 0 && (rc = mt_reader_fill(r, x->room, BATCH, &b, &err)) > 0) {
        code = take_batch(x, &b);
        convert_raw_check(x, &b, name);
    }
    if (code)
        return code;
    if (x->count || x->flags) /* the launch has no end, so its last chunk has none either */
        code = write_runs(x);
    if (rc == 0) {
        convert_raw_count(x, name);
        return code;
    }
    mt_cli_say("%s", err.message);
    return code ? code : mt_cli_exit_code(&err);
}

/* Stores the complete lines of the companion in chunks. Returns 0, or an exit code. */
static int convert_take_lines(struct convert_raw_work *x, const char *path)
{
    FILE *f = fopen(path, "rb");
    struct mt_convert_lines lines = {.w = x->w};
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int e = f ? 0 : errno;
    while (!e && (n = getline(&line, &room, f)) > 0)
        e = convert_line_add(&lines, line, (size_t)n);
    if (!e && ferror(f))
        e = EIO;
    if (!e)
        e = convert_lines_end(&lines);
    free(lines.text);
    free(line);
    if (f)
        fclose(f);
    return e ? convert_raw_failed(NULL, e) : 0;
}

/* Returns 1 if its launches' numbers ascend; else they would put the launches into another order. */
static int in_order(const struct mt_companion *c)
{
    uint64_t before = 0;
    int any = 0;
    for (size_t i = 0; i < c->nlaunches; i++)
        if (c->launches[i].traced) {
            if (any && c->launches[i].seq <= before)
                return 0;
            before = c->launches[i].seq;
            any = 1;
        }
    return 1;
}

/* Returns 0, or an exit code; x->companion stays NULL without a companion. */
static int load_companion(struct convert_raw_work *x, const char *path, int optional)
{
    struct mt_error err;
    x->companion = path ? mt_companion_load(path, &err) : NULL;
    if (!x->companion) {
        if (!path || (optional && err.code == MT_E_INPUT && err.sys == ENOENT))
            return 0;
        return mt_cli_failed(&err);
    }
    if (!optional && !x->companion->has_header)
        return mt_cli_refuse("%s: is not a companion file: no line of it describes a trace", path);
    if (in_order(x->companion) && x->companion->regular && x->companion->stream <= UINT32_MAX)
        return 0;
    mt_cli_say("%s: its launches are not in order, or it is not a regular file", path);
    return MT_EXIT_INPUT;
}

static int convert_raw_convert(struct convert_raw_work *x, struct mt_reader *r, const char *name,
                               const char *companion, FILE *f, int level)
{
    char why[200];
    struct mt_mtc_file file = {convert_write, f};
    struct mt_mtc_head head = {.magic = MT_MTC_MAGIC,
                               .version = MT_MTC_VERSION,
                               .minor = MT_MTC_MINOR - 1,
                               .features = MT_MTC_HAS_DEVICE};
    if (x->companion) {
        head.pid = (uint32_t)x->companion->pid;
        head.start_ns = x->companion->start_ns;
    }
    x->w = mt_mtc_writer_again(&file, &head, level, why, sizeof why);
    if (!x->w)
        return mt_cli_fail("%s", why);
    int code = x->companion ? convert_take_lines(x, companion) : 0;
    if (code == 0)
        code = take_records(x, r, name);
    if (x->other && code != MT_EXIT_FAILURE)
        code =
            convert_partial(x->w, "its companion has launches with other records than", name, x->companion);
    int e = mt_mtc_writer_close(x->w);
    return e && code != MT_EXIT_FAILURE ? convert_raw_failed(NULL, e) : code;
}

/* Returns 1 if the file begins like a raw trace, 0 also for files that cannot be read twice (a FIFO, -). */
static int convert_is_raw(const char *path)
{
    struct stat st;
    char first = 0;
    if (strcmp(path, "-") == 0 || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, &first, 1, 0);
    if (fd >= 0)
        close(fd);
    return n == 1 && first == MT_RAW_RECORD_SIZE;
}

static int convert_window_is_raw(struct mt_window *in)
{
    struct mt_error err;
    size_t got = 0;
    const unsigned char *p = mt_window_get(in, 0, 1, &got, &err);
    return p && got && *p == MT_RAW_RECORD_SIZE;
}

static int convert_complete_if_known(const char *path, const struct mt_companion *c);

/* Converts a raw trace with its companion to a compact trace. `companion` NULL: none; `optional`: it may be
 * missing. */
static int convert_from_raw(struct mt_window *in, const char *companion, int optional, FILE *f, int level)
{
    struct convert_raw_work x = {.encoder = mt_mtc_device_encoder_new(),
                                 .runs = malloc(RUNS * sizeof *x.runs),
                                 .room = malloc(BATCH * sizeof *x.room)};
    struct mt_error err;
    struct mt_reader *r = mt_reader_open_fd(in->fd, in->name, 0, &mt_cli_stop, &err);
    int code = r ? 0 : mt_cli_exit_code(&err);
    if (!r)
        mt_cli_say("%s", err.message);
    else if (!x.encoder || !x.runs || !x.room)
        code = convert_raw_failed("no memory", 0);
    if (r && !in->regular)
        mt_reader_preload(r, in->buffer, in->length); /* bytes read to detect its kind */
    if (code == 0)
        code = load_companion(&x, companion, optional);
    if (code == 0)
        code = convert_raw_convert(&x, r, in->name, companion, f, level);
    if (code == 0)
        code = convert_complete_if_known(companion, x.companion);
    mt_mtc_device_encoder_free(x.encoder);
    mt_companion_free(x.companion);
    mt_reader_close(r);
    free(x.kernels);
    free(x.runs);
    free(x.room);
    return code;
}

static const struct mt_command command = {
    .of = MT_OF_CONVERT,
    .before =
        "Usage: memtrace convert [OPTION]... TRACE...\n"
        "Turns a raw trace of kernels into a compact one and back, a compact trace of host accesses into "
        "text, or packs\na compact trace anew.\n"
        "\n"
        "  memtrace convert -o trace.mtc MemTrace-pipe-0        with the lines of MemTrace-pipe-0.meta\n"
        "  memtrace convert -o MemTrace-pipe-0 trace.mtc        and MemTrace-pipe-0.meta, if the trace has "
        "its lines\n"
        "  memtrace convert --kernels stencil -o some.mtc trace.mtc\n"
        "  memtrace convert --to ramulator -o run.trace run-2   all streams of the newest run in a folder\n"
        "  memtrace convert -o trace.txt host.mtc               the text of the mode that it was traced in\n"
        "  memtrace convert --to mtc --level 9 -o small.mtc trace.mtc\n"
        "  memtrace convert --order=time memory_trace.out       an atomic text trace (memtrace host atomic) "
        "sorted by\n"
        "                                                       timestamp while it is written: a file, a "
        "FIFO, or -\n",
    .after = "One TRACE, or for ramulator and gem5 all streams of a run, in launch order: their traces, or a "
             "folder of them.\n"
             "TRACE is a file; a FIFO or - will do for --to mtc and raw, and for --order file, if no "
             "launches are chosen.\n"
             "A raw FIFO needs --to mtc or -o FILE.mtc, and its launches are numbered as they come, without "
             "a companion file.\n"
             "Exit code: 0 fine, 1 failure, 2 wrong usage, 3 the trace is truncated, corrupt or incomplete, "
             "or reading was\n"
             "interrupted: what was whole is in the output.\n",
};

enum format { BY_MODE, MAT, ATOMIC, INSN, MTC, RAW, SIM };
static const char *const formats[] = {
    "",           "mat",      "atomic",    "insn", "mtc", "raw",
    "drmemtrace", "champsim", "ramulator", "gem5", NULL}; /* enum mt_sim, from SIM on */

struct options {
    const char *output, *input, *companion;
    struct mt_inputs inputs; /* `input` is the first one; only simulator formats of kernels accept several */
    struct mt_filter filter;
    struct mt_convert_choice choice;
    int raw, no_companion; /* 1: the input is a raw trace */
    int kernels;           /* 1: traces of kernels, for a simulator */
    enum format to;
    enum mt_host_order order;
    int by_time; /* 1: --order=time was given, so text traces are merged */
    int keep;    /* 1: timestamps are kept (--keep-timestamps) */
    int all, level;
    uint64_t thread; /* thread to convert; UINT64_MAX: all */
};

static int convert_chooses(const struct options *x)
{
    return x->filter.kernels_text || x->filter.supersteps_text || x->choice.has_stream;
}

/* Determines the kind of input, and the default format. Returns 0, or an exit code. */
static int convert_settle(struct options *x)
{
    size_t n = x->output ? strlen(x->output) : 0;
    int to_mtc = n > 4 && strcmp(x->output + n - 4, ".mtc") == 0;
    uint64_t features = strcmp(x->input, "-") == 0 ? 0 : mt_container_features(x->input);
    x->raw = convert_is_raw(x->input); /* the kind of a FIFO shows when it is read */
    if (x->to == BY_MODE)
        x->to = to_mtc || x->raw ? MTC : features & MT_MTC_HAS_DEVICE ? RAW : BY_MODE;
    int kernels = x->raw || (features & MT_MTC_HAS_DEVICE) != 0;
    if (!kernels && mt_is_container(x->input) && convert_chooses(x))
        return mt_cli_usage("%s: has host code: --kernels, --launches and --stream are for launches",
                            x->input);
    if (features & MT_MTC_HAS_SPACES && x->to != MTC)
        mt_cli_note("%s: accesses to shared and local memory are left out: only compact traces have them",
                    x->input);
    if (kernels && (x->to == SIM + MT_SIM_DRMEMTRACE || x->to == SIM + MT_SIM_CHAMPSIM))
        return mt_cli_usage(
            "%s: has accesses of kernels: --to ramulator and gem5 take these, %s takes host code", x->input,
            formats[x->to]);
    if (kernels && x->to >= SIM) {
        x->kernels = 1;
        return x->thread == UINT64_MAX
                   ? 0
                   : mt_cli_usage("%s: has accesses of kernels: --thread is for host code", x->input);
    }
    if (x->companion && x->to != RAW && mt_is_container(x->input))
        return mt_cli_usage(
            "%s: is a compact trace and has these lines itself: --companion is for raw traces", x->input);
    if (x->inputs.npaths > 1)
        return mt_cli_usage("%zu traces, %s and others: --to ramulator and gem5 take all streams of a run of "
                            "kernels, other formats one trace at a time",
                            x->inputs.npaths, x->input);
    if (x->raw && x->to != MTC)
        return mt_cli_usage("%s: is a raw trace of kernels: it can become --to mtc, ramulator or gem5",
                            x->input);
    if (x->raw && convert_chooses(x))
        return mt_cli_usage("%s: launches are selected from a compact trace: convert it first", x->input);
    if (features & MT_MTC_HAS_DEVICE && x->to != MTC && x->to != RAW)
        return mt_cli_usage(
            "%s: has accesses of kernels: it can become --to raw or mtc, and ramulator or gem5", x->input);
    return 0;
}

static int convert_option(void *arg, int o)
{
    static const char *const orders[] = {"file", "time", NULL};
    struct options *x = arg;
    uint64_t n = 0;
    int i;
    switch (o) {
    case MT_OPT_OUTPUT:
        x->output = optarg;
        return 0;
    case MT_OPT_TO:
    case MT_OPT_FORMAT:
        if ((i = mt_cli_word(optarg, formats)) <= BY_MODE)
            return mt_cli_usage(
                "'%s' is not a format: raw, mat, atomic, insn, mtc, drmemtrace, champsim, ramulator or gem5",
                optarg);
        x->to = (enum format)i;
        return 0;
    case MT_OPT_ORDER:
        if ((i = mt_cli_word(optarg, orders)) < 0)
            return mt_cli_usage("'%s' is not an order: time or file", optarg);
        x->order = i ? MT_HOST_BY_TIME : MT_HOST_BY_FILE;
        x->by_time = i;
        return 0;
    case MT_OPT_KEEP_TIMESTAMPS:
        x->keep = 1;
        return 0;
    case MT_OPT_ALL:
        x->all = 1;
        return 0;
    case MT_OPT_LEVEL:
        if (!mt_cli_number(optarg, 0, 19, &n))
            return mt_cli_usage("'%s' is not a level: 0 to 19", optarg);
        x->level = (int)n;
        return 0;
    case MT_OPT_STREAM:
        if (!mt_cli_number(optarg, 0, UINT32_MAX, &n))
            return mt_cli_usage("'%s' is not a stream: a number", optarg);
        x->choice.stream = (uint32_t)n;
        x->choice.has_stream = 1;
        return 0;
    case MT_OPT_THREAD:
        return mt_cli_number(optarg, 0, UINT64_MAX - 1, &x->thread)
                   ? 0
                   : mt_cli_usage("'%s' is not a thread: a number", optarg);
    case MT_OPT_COMPANION:
        x->companion = optarg;
        return 0;
    case MT_OPT_NO_COMPANION:
        x->no_companion = x->choice.no_beside = 1;
        return 0;
    default:
        return mt_common_option(o, NULL, &x->filter);
    }
}

/* Returns 1 if the inputs are text traces whose threads' lines are merged as they arrive. */
static int convert_merges(struct options *x)
{
    for (size_t i = 0; i < x->inputs.npaths; i++)
        x->by_time &= !mt_is_container(x->inputs.paths[i]);
    x->by_time &= x->to == BY_MODE;
    return x->by_time;
}

static int convert_text(struct options *x, struct mt_output *out)
{
    static const char *const standard[] = {"-"};
    size_t n = x->inputs.npaths;
    int code = mt_output_open(out, x->output);
    return code ? code : mt_merge_text(n ? x->inputs.paths : standard, n ? n : 1, x->keep, out);
}

/* Returns as `take` of mt_cli_options does. */
static int convert_parse(struct options *x, int argc, char **argv)
{
    int rc = mt_cli_options(&command, argc, argv, convert_option, x);
    if (rc)
        return rc;
    if (argc == optind && !x->by_time)
        return mt_cli_usage("no trace given");
    mt_inputs_take(&x->inputs, argc, argv);
    if (convert_merges(x))
        return 0;
    if ((rc = mt_inputs_folders(&x->inputs)) != 0)
        return rc;
    x->input = x->inputs.paths[0];
    if ((rc = convert_settle(x)) != 0)
        return rc;
    int binary = x->to >= SIM && x->to != SIM + MT_SIM_RAMULATOR;
    if (binary && (!x->output || strcmp(x->output, "-") == 0) && isatty(STDOUT_FILENO))
        return mt_cli_usage("%s is not written to a terminal: give -o FILE", formats[x->to]);
    if ((x->to == MTC || x->to == RAW) && (!x->output || strcmp(x->output, "-") == 0) &&
        isatty(STDOUT_FILENO))
        return mt_cli_usage("%s is not written to a terminal: give -o FILE",
                            x->to == MTC ? "a container" : "a raw trace");
    return 0;
}

/* Reads the next item; reports damage and continues after it. Returns 1 with *item, 0 at the end, or -1 for a
 * fatal error (reported). *code becomes the exit code for damage. */
static int convert_next(struct mt_host_reader *r, struct mt_host_item *item, int *code)
{
    struct mt_error err;
    int rc;
    while ((rc = mt_host_next(r, item, &err)) < 0) {
        *code = mt_cli_failed(&err);
        if (err.code == MT_E_SYSTEM || err.code == MT_E_STOPPED)
            return -1;
    }
    return rc;
}

static int by_mode(struct options *x, struct mt_host_reader *r)
{
    const char *mode = mt_host_companion(r)->mode;
    for (x->to = MAT; x->to <= INSN; x->to++)
        if (strcmp(mode, formats[x->to]) == 0)
            return 0;
    return mt_cli_usage("%s: does not say what it was traced as: give --to mat, atomic or insn", x->input);
}

/* Returns 1 if `c` has launches of this stream. */
static int convert_has_stream(const struct mt_companion *c, uint64_t stream)
{
    size_t i = 0;
    while (i < c->nlaunches && (!c->launches[i].traced || c->launches[i].stream != stream))
        i++;
    return c->stream == stream || i < c->nlaunches;
}

/* Notes streams of the process that are in other traces, or in none. A copy of one stream's trace is
 * complete, and lists the others. */
static int convert_streams(const char *path, const struct mt_companion *c)
{
    const struct mt_stream_event *other = NULL, *none = NULL;
    size_t others = 0;
    for (size_t i = 0; i < c->nstreams; i++) {
        const struct mt_stream_event *e = &c->streams[i];
        if (e->why) {
            none = none ? none : e;
        } else if (!convert_has_stream(c, e->stream)) {
            other = other ? other : e;
            others++;
        }
    }
    if (none)
        mt_cli_say("%s: incomplete: stream %llu of the process has no trace: %s", path,
                   (unsigned long long)none->stream, none->why);
    if (others)
        mt_cli_note("%s: is a part of the run: the launches of %zu other stream%s are in %s%s; the copy says "
                    "so, too",
                    path, others, others == 1 ? "" : "s", other->trace, others == 1 ? "" : " and the like");
    return none ? MT_EXIT_INPUT : 0;
}

/* Reports what the trace's own lines say is missing: a killed program, or lost records. The intact part has
 * been written. Returns 0 or MT_EXIT_INPUT. */
static int convert_complete(const char *path, const struct mt_companion *c)
{
    int code = convert_streams(path, c);
    if (c->bad_lines)
        mt_cli_say("%s: %llu meta lines cannot be read, the first: %s", path,
                   (unsigned long long)c->bad_lines, c->bad.message);
    if (!c->has_end)
        mt_cli_say("%s: the trace has no end: " MT_NO_END, path);
    else if (c->lost)
        mt_cli_say("%s: incomplete: %llu accesses are missing: %s", path, (unsigned long long)c->lost,
                   c->lost_why);
    else if (!c->complete)
        mt_cli_say("%s: the trace says that it is incomplete%s%s", path, *c->lost_why ? ": " : "",
                   c->lost_why);
    return c->bad_lines || c->lost || !c->has_end || !c->complete ? MT_EXIT_INPUT : code;
}

/* Works as convert_complete, but returns 0 for a trace without such lines (`c` NULL or empty). */
static int convert_complete_if_known(const char *path, const struct mt_companion *c)
{
    return c && (c->has_header || c->has_end || c->bad_lines) ? convert_complete(path, c) : 0;
}

/* Loads the companion that the program wrote beside its compact trace, if it is of the same run. Returns 0,
 * or an exit code. */
static int convert_load_beside(const char *path, const struct mt_companion *own, struct mt_companion **beside)
{
    struct mt_error err;
    char *meta = NULL;
    *beside = NULL;
    if (strcmp(path, "-") == 0)
        return 0;
    if (asprintf(&meta, "%s.meta", path) < 0)
        return mt_cli_fail("no memory");
    struct mt_companion *c = mt_companion_load(meta, &err);
    free(meta);
    if (!c)
        return err.code == MT_E_INPUT && err.sys == ENOENT ? 0 : mt_cli_failed(&err);
    if (c->pid == own->pid && c->start_ns == own->start_ns)
        *beside = c;
    else
        mt_companion_free(c);
    return 0;
}

/* Reports a compact trace cut off between two chunks: its complete companion has lines that it lacks. */
static int convert_cut(const char *path, const struct mt_companion *beside)
{
    struct stat st;
    mt_cli_say("%s: is cut off at byte %llu: %s has the end of its lines", path,
               stat(path, &st) == 0 ? (unsigned long long)st.st_size : 0, beside->path);
    return MT_EXIT_INPUT;
}

/* Reports what a compact trace's `own` lines and, with `look_beside`, the companion beside it say is missing:
 * after a full disk the companion may know more. A companion of another run is ignored. */
static int convert_container_complete(const char *path, const struct mt_companion *own, int look_beside)
{
    struct mt_companion *b = NULL;
    int code = look_beside && own->has_header ? convert_load_beside(path, own, &b) : 0;
    if (b && b->has_end && !own->has_end) {
        code = convert_complete(b->path, b);
        code = code ? code : convert_cut(path, b);
    } else if (code == 0) {
        code = convert_complete_if_known(path, own);
    }
    if (code == 0 && b && (!b->complete || b->lost > own->lost || b->bad_lines)) {
        mt_cli_say("%s: says otherwise than %s: that the trace is incomplete%s%s", b->path, path,
                   *b->lost_why ? ": " : "", b->lost_why);
        code = MT_EXIT_INPUT;
    }
    mt_companion_free(b);
    return code;
}

/* Checks the command line before anything is written. Returns 0, or an exit code. */
static int convert_text_order(struct options *x, struct mt_host_reader *r)
{
    struct mt_error err;
    enum mt_host_order order = MT_HOST_BY_FILE;
    int timed = (mt_host_reader_head(r)->features & MT_MTC_HAS_TIMES) != 0;
    int code = x->to == BY_MODE ? by_mode(x, r) : 0;
    if (code == 0 && x->to == ATOMIC)
        order = x->order;
    else if (code == 0)
        order = x->to == MAT || (x->to >= SIM && !timed) ? MT_HOST_BY_SEQ : MT_HOST_BY_TIME;
    if (code == 0 && x->to != MAT && x->to < SIM && !timed)
        code = mt_cli_usage("%s: its records have no times: it can become --to mat", x->input);
    if (code == 0 && x->to == SIM + MT_SIM_CHAMPSIM && x->thread == UINT64_MAX)
        code = convert_sim_one_thread(r);
    if (code == 0 && mt_host_reader_order(r, order, &err) != 0)
        code = mt_cli_failed(&err);
    return code;
}

static int to_text(struct options *x, FILE *f)
{
    struct mt_error err;
    struct mt_host_reader *r = mt_host_reader_open(x->input, &mt_cli_stop, &err);
    if (!r)
        return mt_cli_failed(&err);
    int code = convert_text_order(x, r);
    int started = code == 0;
    if (started && x->to == MAT)
        code = convert_mat(r, f, x->all);
    else if (started && x->to == ATOMIC)
        code = convert_atomic(r, f);
    else if (started && x->to >= SIM)
        code = convert_sim_host(r, f, (enum mt_sim)(x->to - SIM), x->thread);
    else if (started)
        code = convert_insn(r, f);
    if (started && code != MT_EXIT_FAILURE && !ferror(f)) {
        int missing = convert_complete(x->input, mt_host_companion(r));
        code = code ? code : missing;
    }
    mt_host_reader_close(r);
    return code;
}

/* Returns the path of the companion beside `path`, to be freed, or NULL. */
static char *convert_beside(const struct options *x, const char *path)
{
    char *text = NULL;
    if (x->no_companion || (!x->companion && (!path || strcmp(path, "-") == 0)))
        return NULL;
    if (x->companion)
        return strdup(x->companion);
    return asprintf(&text, "%s.meta", path) < 0 ? NULL : text;
}

/* Returns 1 for devices, such as /dev/null, which have no companion. */
static int convert_is_device(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode));
}

static int from_raw(struct options *x, struct mt_window *in, FILE *f)
{
    /* The companion of a trace that is still being written is incomplete. */
    char *meta = in->regular || x->companion ? convert_beside(x, x->input) : NULL;
    int code = convert_from_raw(in, meta, !x->companion, f, x->level);
    free(meta);
    return code;
}

static int convert_input(struct options *x, FILE *f, int fd)
{
    if (x->to == RAW) {
        char *meta = x->companion || !convert_is_device(fd) ? convert_beside(x, x->output) : NULL;
        int code = convert_to_raw(x->input, f, meta, x->companion != NULL, &x->choice);
        free(meta);
        return code;
    }
    if (x->kernels) {
        int code = x->companion ? mt_inputs_companion(&x->inputs, x->companion) : 0;
        x->inputs.flags = x->no_companion ? MT_SOURCE_NO_COMPANION : 0;
        return code ? code : convert_sim_kernels(&x->inputs, &x->choice, f, (enum mt_sim)(x->to - SIM));
    }
    if (x->to != MTC)
        return to_text(x, f);
    struct mt_window in;
    struct mt_error err;
    if (mt_window_open(&in, x->input, &mt_cli_stop, &err) != 0)
        return mt_cli_failed(&err);
    int raw = convert_window_is_raw(&in);
    int code =
        raw && convert_chooses(x)
            ? mt_cli_usage("%s: launches are selected from a compact trace: convert it first", x->input)
        : raw ? from_raw(x, &in, f)
              : convert_repack(&in, f, x->level, &x->choice);
    mt_window_close(&in);
    return code;
}

static int convert_run(struct options *x, struct mt_output *out)
{
    FILE *f = mt_output_stream(out);
    if (!f)
        return MT_EXIT_FAILURE;
    setvbuf(f, NULL, _IOFBF, 1 << 18);
    int code = convert_input(x, f, out->fd);
    if (code == 0 || code == MT_EXIT_INPUT) /* also when there is nothing to write */
        code = mt_output_ready(out) ? MT_EXIT_FAILURE : code;
    int failed = mt_output_close(out, f);
    return failed ? failed : code;
}

/* Checks that no companion to be written is an input. Returns 0, or an exit code after a message. */
static int convert_clashes(const struct options *x)
{
    if (x->to != RAW && x->companion)
        mt_output_spare(x->companion);
    char *written = x->to == RAW ? convert_beside(x, x->output) : NULL;
    int code = written ? mt_output_other(written) : 0;
    free(written);
    return code;
}

/* Returns 0 for a file that may be a trace. */
static int convert_kind(const char *path)
{
    enum mt_kind kind = mt_kind_of(path);
    return kind == MT_KIND_TRACE || kind == MT_KIND_CONTAINER
               ? 0
               : mt_kind_refuse(path, kind, "a compact trace or a trace of kernels");
}

int mt_convert_command(int argc, char **argv)
{
    struct options x = {.order = MT_HOST_BY_TIME, .level = 3, .thread = UINT64_MAX};
    struct mt_output out = {0};
    mt_stop_begin();
    mt_filter_init(&x.filter);
    x.choice.filter = &x.filter;
    int code = convert_parse(&x, argc, argv), merged = code == 0 && x.by_time;
    if (merged)
        code = convert_text(&x, &out);
    for (size_t i = 0; code == 0 && !merged && i < x.inputs.npaths; i++)
        if (strcmp(x.inputs.paths[i], "-") != 0 && access(x.inputs.paths[i], R_OK) != 0) {
            mt_cli_say("%s: cannot open: %s", x.inputs.paths[i], strerror(errno));
            code = MT_EXIT_USAGE;
        } else {
            code = convert_kind(x.inputs.paths[i]);
        }
    if (code == 0 && !merged)
        code = convert_clashes(&x);
    if (code == 0 && !merged)
        code = mt_output_open(&out, x.output);
    if (code == 0 && !merged)
        code = convert_run(&x, &out);
    mt_output_abandon(&out);
    mt_filter_free(&x.filter);
    mt_inputs_free(&x.inputs);
    return code < 0 ? MT_EXIT_OK : code;
}
