/* memtrace dump: prints traces as text. */
#define _GNU_SOURCE
#include "memtrace/grow.h"
#include "analysis/base/parts.h"
#include "base/text.h"
#include "cli/base/cli.h"
#include "memtrace/host.h"
#include "reader/container/container.h" /* chunks are not in the public interface */
#include "cli/base/commands.h"
#include "cli/base/pipeline.h"
#include "output/rows/relations.h"
#include "memtrace/trace.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct mt_stat_line {
    const char *kernel; /* owned by the source */
    uint64_t launches, ctas, records, of_type[4];
    uint64_t load, store;     /* bytes; atomics count in both, unknown operations in neither */
    uint64_t lowest, highest; /* addresses of the first and the last byte */
};

/* Sums by kernel. Zero-initialised is empty. */
struct mt_stat {
    struct mt_stat_line *lines; /* in order of first launch */
    size_t n, room;
    size_t current;
    struct mt_pairmap kernels; /* kernel -> line */
    struct mt_pairmap ctas;    /* CTAs of the current launch */
};

/* Accesses and bytes of loads, stores and atomics of one launch, counted from its records and, if the
 * companion has it, by the program itself. */
struct mt_tally {
    FILE *f;
    uint64_t sums[6], unknown;
    const struct mt_run_launch *launch;
    int differ; /* 1: the two counts of a launch differ, apart from accesses without a record, which the
                   program may have counted */
};

struct mt_dump_host {
    uint64_t head; /* number of records to show of each thread */
    int stat, companion, sites, chunks, runs;
    int chosen; /* 1: shows some launches only */
};

/* ---- Runs as text: accesses of a warp at once, or evenly spaced neighbouring records ---- */

/* Prints a line. `c` has the sites; NULL: unknown. */
static void dump_access_run(FILE *f, const struct mt_access_run *r, const struct mt_companion *c)
{
    static const char *const types[] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = text,
#define MT_ACCESS_SYNC(name, code, text) [code] = text,
#include "memtrace/record.def"
    };
    static const char *const spaces[] = {
#define MT_ACCESS_SPACE(name, code, text) [code] = text " ",
#include "memtrace/record.def"
        ""};
    static const char *const scopes[] = {
#define MT_ACCESS_SCOPE(name, code, text) [code] = text,
#include "memtrace/record.def"
    };
    uint32_t type = r->meta >> 28, space = mt_rec_space(type);
    const struct mt_site_event *s = r->site ? mt_companion_site(c, r->site) : NULL;
    uint32_t size = r->meta & MT_RAW_MAX_SIZE;
    if (type == MT_SYNC_ARRIVE && mt_rec_is_fence(size, r->base))
        fprintf(f, "%s fence", scopes[r->base - MT_BARRIER_FENCE]);
    else
        fprintf(f, "%s%s", space ? spaces[space] : "", types[space <= MT_IN_LOCAL ? type & 3 : type]);
    fprintf(f, " %u x %" PRIu32 " 0x%" PRIx64, size, r->count, r->base);
    if (r->addresses)
        for (uint32_t i = 1; i < r->count; i++)
            fprintf(f, ",0x%" PRIx64, r->addresses[i]);
    else if (r->count > 1)
        fprintf(f, " %+" PRId64, r->stride);
    fprintf(f, " cta %u,%u,%u sm %" PRIu32, (unsigned)(r->cta >> 32), (unsigned)(r->cta >> 16 & 0xffff),
            (unsigned)(r->cta & 0xffff), r->smid);
    if (r->warp != MT_RUN_NO_WARP)
        fprintf(f, " warp %" PRIu32, r->warp);
    if (r->mask)
        fprintf(f, " mask 0x%08" PRIx32, r->mask);
    if (r->site)
        fprintf(f, " site %" PRIu32, r->site);
    if (s && *s->var)
        fprintf(f, " of %s", s->var);
    if (s && *s->file)
        fprintf(f, " at %s:%" PRIu64, s->file, s->line);
    else if (s && *s->at)
        fprintf(f, " at %s", s->at);
    fputc('\n', f);
}

/* ---- Sums per kernel, and the companion as text ---- */

/* ---- sums per kernel ---- */

static int dump_line_of(struct mt_stat *s, const char *kernel)
{
    uint64_t *at = mt_pairmap_get(&s->kernels, (uint64_t)(uintptr_t)kernel, 0, UINT64_MAX);
    if (!at)
        return -1;
    if (*at == UINT64_MAX) {
        if (mt_grow(&s->lines, &s->room, s->n + 1, sizeof *s->lines) != 0)
            return -1;
        s->lines[s->n] = (struct mt_stat_line){.kernel = kernel, .lowest = UINT64_MAX};
        *at = s->n++;
    }
    s->current = *at;
    return 0;
}

static int stat_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_stat *s = self;
    if (dump_line_of(s, l->kernel) != 0)
        return -1;
    mt_pairmap_clear(&s->ctas);
    s->lines[s->current].launches++;
    return 0;
}

static int stat_records(void *self, const struct mt_raw_record *records, size_t n)
{
    struct mt_stat *s = self;
    struct mt_stat_line *l = &s->lines[s->current];
    size_t before = s->ctas.count;
    l->records += n;
    for (size_t i = 0; i < n; i++) {
        const struct mt_raw_record *r = &records[i];
        uint64_t type = mt_rec_type(r), size = mt_rec_size(r), address = mt_rec_address(r);
        l->of_type[type]++;
        l->load += type == MT_LOAD || type == MT_ATOMIC ? size : 0;
        l->store += type == MT_STORE || type == MT_ATOMIC ? size : 0;
        l->lowest = address < l->lowest ? address : l->lowest;
        l->highest = address + size - 1 > l->highest ? address + size - 1 : l->highest;
        if ((i == 0 || r->w[2] != r[-1].w[2]) && !mt_pairmap_get(&s->ctas, r->w[2], 0, 0))
            return -1;
    }
    l->ctas += s->ctas.count - before;
    return 0;
}

static const struct mt_analysis stat_analysis = {.launch = stat_launch, .records = stat_records};

static void dump_stat_show(FILE *f, const struct mt_stat *s)
{
    fprintf(f, "# %8s %10s %12s %12s %12s %10s %8s %14s %14s %18s %18s  %s\n", "launches", "CTAs", "records",
            "loads", "stores", "atomics", "unknown", "load-bytes", "store-bytes", "lowest", "highest",
            "kernel");
    for (size_t i = 0; i < s->n; i++) {
        const struct mt_stat_line *l = &s->lines[i];
        fprintf(f,
                "%10" PRIu64 " %10" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %10" PRIu64
                " %8" PRIu64,
                l->launches, l->ctas, l->records, l->of_type[MT_LOAD], l->of_type[MT_STORE],
                l->of_type[MT_ATOMIC], l->of_type[MT_UNKNOWN]);
        fprintf(f, " %14" PRIu64 " %14" PRIu64, l->load, l->store);
        if (l->records)
            fprintf(f, " %#18" PRIx64 " %#18" PRIx64, l->lowest, l->highest);
        else
            fprintf(f, " %18s %18s", "-", "-");
        fprintf(f, "  %s\n", l->kernel);
    }
}

static uint64_t dump_parts_scaled(uint64_t n, const struct mt_estimate *k)
{
    return mt_estimate(n, k->ctas, k->traced_ctas);
}

/* Prints a remark for each kernel that was traced only in part, after the sums. */
static void dump_stat_estimates(FILE *f, const struct mt_stat *s, const struct mt_estimates *e)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct mt_stat_line *l = &s->lines[i];
        const struct mt_estimate *k = mt_estimates_find(e, l->kernel);
        if (!k || !k->traced_ctas || k->traced_launches != l->launches)
            continue;
        fprintf(f,
                "# estimated for %" PRIu64 " launches and %" PRIu64 " CTAs, of which %" PRIu64 " and %" PRIu64
                " are traced: records %" PRIu64 " loads %" PRIu64 " stores %" PRIu64 " atomics %" PRIu64,
                k->launches, k->ctas, k->traced_launches, k->traced_ctas, dump_parts_scaled(l->records, k),
                dump_parts_scaled(l->of_type[MT_LOAD], k), dump_parts_scaled(l->of_type[MT_STORE], k),
                dump_parts_scaled(l->of_type[MT_ATOMIC], k));
        fprintf(f, " load-bytes %" PRIu64 " store-bytes %" PRIu64 "  %s\n", dump_parts_scaled(l->load, k),
                dump_parts_scaled(l->store, k), l->kernel);
    }
}

static void dump_stat_free(struct mt_stat *s)
{
    free(s->lines);
    mt_pairmap_free(&s->kernels);
    mt_pairmap_free(&s->ctas);
    memset(s, 0, sizeof *s);
}

/* ---- counts per launch ---- */

static int tally_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_tally *t = self;
    memset(t->sums, 0, sizeof t->sums);
    t->unknown = 0;
    t->launch = l;
    return 0;
}

static int tally_records(void *self, const struct mt_raw_record *records, size_t n)
{
    struct mt_tally *t = self;
    for (size_t i = 0; i < n; i++) {
        uint64_t type = mt_rec_type(&records[i]);
        if (type > MT_ATOMIC) {
            t->unknown++;
            continue;
        }
        t->sums[2 * type]++;
        t->sums[2 * type + 1] += mt_rec_size(&records[i]);
    }
    return 0;
}

static void show_sums(const struct mt_tally *t, const char *what, const uint64_t *s)
{
    fprintf(t->f,
            "%s %" PRIu64 " loads %" PRIu64 " %" PRIu64 " stores %" PRIu64 " %" PRIu64 " atomics %" PRIu64
            " %" PRIu64 " %s\n",
            what, t->launch->superstep, s[0], s[1], s[2], s[3], s[4], s[5], t->launch->kernel);
}

static void show_scaled(const struct mt_tally *t)
{
    const struct mt_launch_event *e = t->launch->event;
    uint64_t scaled[6];
    if (!e || !e->has_ctas || e->traced_ctas == e->ctas || !e->traced_ctas)
        return;
    for (unsigned i = 0; i < 6; i++)
        scaled[i] = mt_estimate(t->sums[i], e->ctas, e->traced_ctas);
    show_sums(t, "estimated", scaled);
}

/* Prints the launch's sums at its end. Without records there is nothing to compare. */
static int tally_end(void *self)
{
    struct mt_tally *t = self;
    const struct mt_launch_event *e = t->launch->event;
    show_sums(t, "recorded", t->sums);
    if (t->unknown)
        fprintf(t->f, "# %" PRIu64 " records of unknown type\n", t->unknown);
    show_scaled(t);
    if (e && e->untraced)
        fprintf(t->f, "untraced %" PRIu64 " %" PRIu64 "\n", t->launch->superstep, e->untraced);
    if (!e || !e->counts)
        return 0;
    show_sums(t, "counted ", e->counts);
    for (unsigned i = 0; i < 6 && !e->no_records; i++)
        t->differ |= e->untraced ? e->counts[i] < t->sums[i] : e->counts[i] != t->sums[i];
    return 0;
}

static int tally_enough(void *self)
{
    const struct mt_tally *t = self;
    return ferror(t->f);
}

static const struct mt_analysis tally_analysis = {
    .launch = tally_launch, .records = tally_records, .end = tally_end, .enough = tally_enough};

/* ---- the companion ---- */

static void dump_show_place(FILE *f, const char *file, uint64_t line)
{
    if (*file)
        fprintf(f, " at %s:%" PRIu64, file, line);
    fputc('\n', f);
}

/* Prints the place of a site in machine code. */
static void show_code(FILE *f, const struct mt_site_event *e)
{
    if (*e->at)
        fprintf(f, " code %s%s of symbol %s", e->at, e->guess ? " (a guess)" : "", e->symbol);
    if (*e->code)
        fprintf(f, " in %s", e->code);
    putc('\n', f);
}

static void show_alloc(FILE *f, const struct mt_alloc_event *a)
{
    fprintf(f, "alloc %" PRIu64 " 0x%" PRIx64 " %" PRIu64 " bytes %s seq %" PRIu64, a->id, a->base, a->bytes,
            a->kind, a->seq);
    if (*a->name)
        fprintf(f, " '%s'", a->name);
    if (a->free_seq != MT_SEQ_NONE)
        fprintf(f, " freed %" PRIu64, a->free_seq);
    dump_show_place(f, a->file, a->line);
}

static void show_copy(FILE *f, const struct mt_copy_event *c)
{
    static const char *const kinds[] = {"memcpy h2h", "memcpy h2d", "memcpy d2h", "memcpy d2d", "memset"};
    fprintf(f, "%s seq %" PRIu64 " to 0x%" PRIx64, kinds[c->kind], c->seq, c->dst);
    if (c->kind != MT_COPY_SET)
        fprintf(f, " from 0x%" PRIx64, c->src);
    fprintf(f, " %" PRIu64 " bytes", c->width);
    if (c->height != 1)
        fprintf(f, " x %" PRIu64 " rows, pitch %" PRIu64 " %" PRIu64, c->height, c->dpitch, c->spitch);
    fputc('\n', f);
}

static void dump_tally_launch(FILE *f, const struct mt_launch_event *e)
{
    fprintf(f,
            "launched %s seq %" PRIu64 " grid %" PRIu64 ",%" PRIu64 ",%" PRIu64 " block %" PRIu64 ",%" PRIu64
            ",%" PRIu64 " records %" PRIu64 " untraced %" PRIu64 " ns %" PRIu64,
            *e->signature ? e->signature : e->kernel, e->seq, e->grid[0], e->grid[1], e->grid[2], e->block[0],
            e->block[1], e->block[2], e->records, e->untraced, e->end_ns - e->begin_ns);
    if (*e->library)
        fprintf(f, " library %s", e->library);
    if (!e->traced)
        fputs(" not traced", f);
    if (e->status)
        fprintf(f, " failed with error %d", e->status);
    dump_show_place(f, e->file, e->line);
}

/* Prints the companion; NULL: says that there is none. */
static void dump_companion(FILE *f, const char *trace, const struct mt_companion *c)
{
    if (!c) {
        fputs("# ", f);
        mt_text_put(f, trace);
        fputs(" has no companion file\n", f);
        return;
    }
    if (*c->engine)
        fprintf(f, "%s of host code by engine %s, program %s, pid %" PRIu64 ", tool %s\n", c->mode, c->engine,
                c->program, c->pid, c->tool);
    else
        fprintf(f,
                "companion %s of stream %" PRIu64 ", program %s, pid %" PRIu64 ", device %s (%s), %" PRIu64
                " SMs, tool %s\n",
                mt_visible(c->path).text, c->stream, c->program, c->pid, c->device, c->device_name, c->sms,
                c->tool);
    for (size_t i = 0; i < c->nsites; i++) {
        const struct mt_site_event *e = &c->sites[i];
        fprintf(f, "site %" PRIu64 " %s %" PRIu64 " bytes", e->id, e->op, e->size);
        if (*e->var)
            fprintf(f, " of %s", e->var);
        fprintf(f, " in %s", e->function);
        if (*e->file || !*e->at)
            fprintf(f, " at %s:%" PRIu64, e->file, e->line);
        if (e->column) /* PTX has no columns */
            fprintf(f, ":%" PRIu64, e->column);
        show_code(f, e);
    }
    for (size_t i = 0; i < c->nallocs; i++)
        show_alloc(f, &c->allocs[i]);
    for (size_t i = 0; i < c->ncopies; i++)
        show_copy(f, &c->copies[i]);
    for (size_t i = 0; i < c->nlaunches; i++)
        dump_tally_launch(f, &c->launches[i]);
    if (c->lost || *c->lost_why)
        fprintf(f, "lost %" PRIu64 " records: %s\n", c->lost, c->lost_why);
    if (c->bad_lines)
        fprintf(f, "# %" PRIu64 " lines could not be read, the first: %s\n", c->bad_lines, c->bad.message);
    if (c->has_end)
        fprintf(f, "end %s: %" PRIu64 " records written, %" PRIu64 " counted\n",
                c->complete ? "complete" : "incomplete", c->records_written, c->records_counted);
    else
        fputs("# no end: " MT_NO_END "\n", f);
}

/* ---- Compact traces of host accesses ---- */

/* Returns 1 for a compact trace of host accesses, or a FIFO whose name ends in .mtc. */
static int dump_is_host(const char *path)
{
    struct stat st;
    size_t n = strlen(path);
    return (mt_is_container(path) && !(mt_container_features(path) & MT_MTC_HAS_DEVICE)) ||
           (n > 4 && strcmp(path + n - 4, ".mtc") == 0 && stat(path, &st) == 0 && S_ISFIFO(st.st_mode));
}

static const char *op_name(enum mt_host_op op)
{
    static const char *const names[] = {
#define MT_HOST_OP(name, code, reads, writes, text) [code] = text,
#include "memtrace/container.def"
    };
    return (unsigned)op < sizeof names / sizeof *names ? names[op] : "unknown";
}

static const char *event_name(unsigned event)
{
    static const char *const names[64] = {
#define MT_HOST_EVENT(name, code, args, text) [code] = text,
#include "memtrace/container.def"
    };
    return event < 64 && names[event] ? names[event] : "?";
}

static int dump_op_of(struct mt_host_reader *r, uint32_t site)
{
    const struct mt_host_site_info *s = mt_host_site(r, site);
    return (int)(s ? s->op : MT_HOST_UNKNOWN);
}

/* ---- accesses of a thread ---- */

struct thread {
    uint64_t number, records, events, of_op[8], read, written, lowest, highest, shown;
};
struct threads {
    struct thread *list;
    size_t n, room;
    struct mt_pairmap at;
};

static struct thread *dump_thread_of(struct threads *t, uint64_t number)
{
    uint64_t *at = mt_pairmap_get(&t->at, number, 0, UINT64_MAX);
    if (!at)
        return NULL;
    if (*at == UINT64_MAX) {
        if (mt_grow(&t->list, &t->room, t->n + 1, sizeof *t->list) != 0)
            return NULL;
        t->list[t->n] = (struct thread){.number = number, .lowest = UINT64_MAX};
        *at = t->n++;
    }
    return &t->list[*at];
}

static void dump_host_count(struct mt_host_reader *r, struct thread *t, const struct mt_host_record *a)
{
    static const unsigned char does[8] = {
#define MT_HOST_OP(name, code, reads, writes, text) [code] = (reads) | (writes) << 1,
#include "memtrace/container.def"
    };
    int op = dump_op_of(r, a->site);
    t->records++;
    t->of_op[op]++;
    if (op == MT_HOST_EXEC)
        return;
    t->read += does[op] & 1 ? a->size : 0;
    t->written += does[op] & 2 ? a->size : 0;
    t->lowest = a->address < t->lowest ? a->address : t->lowest;
    uint64_t last = a->address + (a->size ? a->size - 1 : 0);
    t->highest = last > t->highest ? last : t->highest;
}

static void show_stat(FILE *f, const struct threads *t)
{
    fprintf(f, "%8s %12s %8s %12s %12s %10s %10s %14s %14s %18s %18s\n", "thread", "records", "events",
            "loads", "stores", "atomics", "others", "read", "written", "lowest", "highest");
    for (size_t i = 0; i < t->n; i++) {
        const struct thread *x = &t->list[i];
        uint64_t atomics = x->of_op[MT_HOST_ATOMIC] + x->of_op[MT_HOST_CAS] + x->of_op[MT_HOST_CAS_FAILED];
        fprintf(
            f, "%8" PRId64 " %12" PRIu64 " %8" PRIu64 " %12" PRIu64 " %12" PRIu64 " %10" PRIu64 " %10" PRIu64,
            (int64_t)x->number, x->records, x->events, x->of_op[MT_HOST_LOAD], x->of_op[MT_HOST_STORE],
            atomics, x->of_op[MT_HOST_UNKNOWN] + x->of_op[MT_HOST_EXEC]);
        fprintf(f, " %14" PRIu64 " %14" PRIu64, x->read, x->written);
        if (x->lowest <= x->highest)
            fprintf(f, " %#18" PRIx64 " %#18" PRIx64 "\n", x->lowest, x->highest);
        else
            fprintf(f, " %18s %18s\n", "-", "-");
    }
}

/* ---- items ---- */

static void dump_host_show_record(FILE *f, struct mt_host_reader *r, const struct mt_host_item *item,
                                  const struct mt_host_record *a, int timed)
{
    const struct mt_host_site_info *s = mt_host_site(r, a->site);
    fprintf(f, "%" PRId64 " %s", (int64_t)item->thread, op_name((enum mt_host_op)dump_op_of(r, a->site)));
    if (s && s->op == MT_HOST_EXEC)
        fprintf(f, " 0x%" PRIx64 " %s", s->ip, *s->text ? s->text : "?");
    else
        fprintf(f, " %" PRIu32 " 0x%" PRIx64, a->size, a->address);
    if (timed)
        fprintf(f, " time %" PRIu64, a->time);
    fprintf(f, " seq %" PRIu64 " site %" PRIu32, item->seq, a->site);
    if (s && *s->variable)
        fprintf(f, " of %s", s->variable);
    if (s && *s->file)
        fprintf(f, " at %s:%" PRIu32, s->file, s->line);
    fputc('\n', f);
}

static void show_event(FILE *f, struct mt_host_reader *r, const struct mt_host_item *item, int timed)
{
    fprintf(f, "%" PRId64 " %s", (int64_t)item->thread, event_name(item->event));
    unsigned i = 0;
    if (item->event == MT_HOST_EV_CALL || item->event == MT_HOST_EV_RETURN) {
        const struct mt_function_event *fn = mt_host_function(r, item->args[i++]);
        fprintf(f, " %s", fn ? fn->name : "?");
    }
    for (; i < item->nargs; i++)
        fprintf(f, " %" PRIu64, item->args[i]);
    if (timed)
        fprintf(f, " time %" PRIu64, item->time);
    fprintf(f, " seq %" PRIu64 "\n", item->seq);
}

static int show_items(FILE *f, struct mt_host_reader *r, const struct mt_dump_host *o,
                      struct threads *threads)
{
    int timed = (mt_host_reader_head(r)->features & MT_MTC_HAS_TIMES) != 0, code = 0, rc;
    struct mt_host_item item;
    struct mt_error err;
    while ((rc = mt_host_next(r, &item, &err)) != 0 && !ferror(f)) {
        if (rc < 0) {
            code = mt_cli_failed(&err);
            if (err.code == MT_E_SYSTEM || err.code == MT_E_STOPPED)
                break;
            continue;
        }
        struct thread *t = dump_thread_of(threads, item.thread);
        if (!t)
            return mt_cli_fail("no memory for the threads");
        if (item.kind == MT_HOST_ITEM_EVENT) {
            t->events++;
            if (!o->stat && t->shown < o->head)
                show_event(f, r, &item, timed);
            continue;
        }
        for (size_t i = 0; i < item.count; i++) {
            if (o->stat)
                dump_host_count(r, t, &item.records[i]);
            else if (t->shown < o->head)
                dump_host_show_record(f, r, &item, &item.records[i], timed);
            t->shown++;
        }
    }
    for (size_t i = 0; i < threads->n && !o->stat; i++)
        if (threads->list[i].shown > o->head)
            fprintf(f, "# %" PRIu64 " more records of thread %" PRId64 "\n", threads->list[i].shown - o->head,
                    (int64_t)threads->list[i].number);
    return code;
}

/* ---- chunks ---- */

/* Returns the owner that a chunk's key names; valid until the next call. */
static const char *dump_host_whose(const struct mt_mtc_chunk *head)
{
    static char text[80];
    if (head->type == MT_MTC_DEVICE)
        snprintf(text, sizeof text, " stream %" PRIu32 " kernel %" PRIu32 "%s%s%s",
                 MT_MTC_KEY_STREAM(head->key), MT_MTC_KEY_KERNEL(head->key),
                 head->flags & MT_MTC_BEGIN ? " begin" : "", head->flags & MT_MTC_END ? " end" : "",
                 head->flags & MT_MTC_SINGLE ? " not grouped" : "");
    else
        snprintf(text, sizeof text, " thread %" PRId64, (int64_t)head->key);
    return text;
}

static void show_chunks(FILE *f, struct mt_host_reader *r)
{
    static const char *const types[] = {
#define MT_MTC_CHUNK(name, code, text) [code] = text,
#include "memtrace/container.def"
    };
    for (size_t i = 0; i < r->chunks.count; i++) {
        const struct mt_mtc_index *e = &r->chunks.entries[i];
        struct mt_mtc_chunk head;
        const unsigned char *stored;
        struct mt_error err;
        const char *type = e->type < sizeof types / sizeof *types ? types[e->type] : NULL;
        fprintf(f, "chunk %" PRIu64 " %s", e->offset, type ? type : "unknown");
        if (mt_chunk_at(&r->window, e->offset, &head, &stored, &err) == MT_CHUNK_WHOLE)
            fprintf(f,
                    " items %" PRIu64 "%s seq %" PRIu64 "..%" PRIu64 " bytes %" PRIu64 " of %" PRIu64 "%s\n",
                    head.items, dump_host_whose(&head), head.first, head.last, head.stored_bytes,
                    head.plain_bytes, head.codec == MT_MTC_ZSTD ? " zstd" : "");
        else
            fprintf(f, " damaged\n");
    }
}

/* Prints the table of chunks of any compact trace that is a regular file. Returns 0, or an exit code after a
 * message. */
static int dump_chunks(FILE *f, const char *path)
{
    struct mt_error err;
    struct mt_host_reader *r = mt_host_reader_open(path, &mt_cli_stop, &err);
    if (!r)
        return mt_cli_failed(&err);
    show_chunks(f, r);
    mt_host_reader_close(r);
    return 0;
}

static void show_sites(FILE *f, const struct mt_companion *c)
{
    for (size_t i = 0; i < c->nsites; i++) {
        const struct mt_site_event *s = &c->sites[i];
        fprintf(f, "site %" PRIu64 " %s %" PRIu64 " bytes", s->id, s->op, s->size);
        if (s->ip)
            fprintf(f, " ip 0x%" PRIx64, s->ip);
        if (*s->var)
            fprintf(f, " of %s", s->var);
        if (*s->function)
            fprintf(f, " in %s", s->function);
        if (*s->file)
            fprintf(f, " at %s:%" PRIu64 ":%" PRIu64, s->file, s->line, s->column);
        if (*s->module)
            fprintf(f, " module %s", s->module);
        if (*s->text)
            fprintf(f, " '%s' reads '%s' writes '%s'", s->text, s->reads, s->writes);
        fputc('\n', f);
    }
}

static void dump_show_head(FILE *f, const char *path, struct mt_host_reader *r)
{
    const struct mt_mtc_head *h = mt_host_reader_head(r);
    const struct mt_companion *c = mt_host_companion(r);
    fprintf(f, "container %s version %u.%u%s%s pid %" PRIu32 " start_ns %" PRIu64 " wall_ns %" PRIu64 "\n",
            mt_visible(path).text, h->version, h->minor, h->features & MT_MTC_HAS_HOST ? " host" : "",
            h->features & MT_MTC_HAS_TIMES ? " times" : "", h->pid, h->start_ns, h->wall_ns);
    if (c->has_header)
        fprintf(f, "# %s of %s by engine %s, tool %s\n", c->mode, c->program, c->engine, c->tool);
}

static int dump_host_finish(FILE *f, const char *path, const struct mt_companion *c)
{
    if (c->has_end)
        fprintf(f, "end %s: %" PRIu64 " records written, %" PRIu64 " counted\n",
                c->complete ? "complete" : "incomplete", c->records_written, c->records_counted);
    else
        fputs("# no end: " MT_NO_END "\n", f);
    if (c->left_out)
        fprintf(f, "left out: %" PRIu64 " accesses of libraries\n", c->left_out);
    if (c->children)
        fprintf(f, "not traced: %" PRIu64 " child processes\n", c->children);
    if (c->lost)
        fprintf(f, "lost %" PRIu64 " records: %s\n", c->lost, c->lost_why);
    if (c->bad_lines)
        mt_cli_say("%s: %llu meta lines cannot be read, the first: %s", path,
                   (unsigned long long)c->bad_lines, c->bad.message);
    if (c->has_end && c->complete && !c->bad_lines)
        return 0;
    mt_cli_say("%s: the trace is incomplete", path);
    return MT_EXIT_INPUT;
}

static int dump_host_show(FILE *f, const char *path, const struct mt_dump_host *o, struct mt_source **device)
{
    struct mt_error err;
    struct threads threads = {0};
    struct mt_host_reader *r = mt_host_reader_open(path, &mt_cli_stop, &err);
    if (!r)
        return mt_cli_failed(&err);
    if (mt_host_reader_head(r)->features & MT_MTC_HAS_DEVICE) {
        mt_host_reader_threads(r, mt_cli_processors());
        *device = mt_source_of_container(r, path, o->runs ? MT_SOURCE_RUNS | MT_SOURCE_SPACES : 0,
                                         &mt_cli_stop, &err);
        if (*device)
            return 0;
        return mt_cli_failed(&err);
    }
    if (o->chosen || o->runs) {
        mt_host_reader_close(r);
        return mt_cli_usage("%s: a trace of host accesses has no kernels to select, and no runs", path);
    }
    dump_show_head(f, path, r);
    if (o->chunks)
        show_chunks(f, r);
    int code = show_items(f, r, o, &threads);
    const struct mt_companion *c = mt_host_companion(r);
    if (o->companion)
        dump_companion(f, path, c);
    else if (o->sites)
        show_sites(f, c);
    if (o->stat)
        show_stat(f, &threads);
    int missing = code == MT_EXIT_FAILURE ? 0 : dump_host_finish(f, path, c);
    free(threads.list);
    mt_pairmap_free(&threads.at);
    mt_host_reader_close(r);
    return code ? code : missing;
}

static const struct mt_command command = {
    .of = MT_OF_DUMP,
    .before =
        "Usage: memtrace dump [OPTION]... TRACE...\n"
        "Shows memory traces as text: a line per kernel launch and per record.\n"
        "\n"
        "  memtrace dump --head 5 /tmp/MemTrace-pipe-0               the first five records of each launch\n"
        "  memtrace dump --stat run-2                                a folder: all of the newest run in it\n"
        "  memtrace dump --stat /tmp/MemTrace-pipe-*                 one line per kernel\n"
        "  memtrace dump --companion --head 0 /tmp/MemTrace-pipe-0   launches, allocations and copies only\n"
        "  memtrace dump --runs trace.mtc                            requests of warps\n"
        "  memtrace dump --stat --sites host.mtc                     host accesses: sums per thread, its "
        "sites\n"
        "\n"
        "Launch lines:  launch NUMBER KERNEL\n"
        "Record lines:  TYPE BYTES ADDRESS cta X,Y,Z sm N       (TYPE: load, store, atomic, unknown)\n"
        "Host accesses:  THREAD OP BYTES ADDRESS [time N] seq N site N [of VARIABLE] [at FILE:LINE]; events "
        "by name\n"
        "Run lines:     TYPE BYTES x COUNT ADDRESS [STRIDE | ,ADDRESS...] cta X,Y,Z sm N [warp N] [mask M] "
        "[site N ...]\n"
        "Lines that begin with # are remarks. Several traces are shown in launch order, by their "
        "companions.\n",
    .after = "Exit code: 0 fine, 1 failure, 2 wrong usage, 3 the trace is truncated, corrupt or incomplete, "
             "or reading was\n"
             "interrupted: what was whole is shown.\n",
};

struct options {
    struct mt_inputs inputs;
    struct mt_filter filter;
    FILE *out;
    uint64_t head;
    int stat, counts, companion, sites, chunks, runs, csv;
};

static int dump_option(void *arg, int o)
{
    static const char *const formats[] = {"text", "csv", NULL};
    struct options *x = arg;
    switch (o) {
    case MT_OPT_FORMAT:
        return (x->csv = mt_cli_word(optarg, formats)) >= 0
                   ? 0
                   : mt_cli_usage("'%s' is not a format: text or csv", optarg);
    case MT_OPT_HEAD:
        return mt_cli_number(optarg, 0, UINT64_MAX, &x->head) ? 0
                                                              : mt_cli_usage("'%s' is not a count", optarg);
    case MT_OPT_STAT:
        x->stat = 1;
        return 0;
    case MT_OPT_COUNTS:
        x->counts = 1;
        return 0;
    case MT_OPT_COMPANION:
        x->companion = 1;
        return optarg ? mt_inputs_companion(&x->inputs, optarg) : 0;
    case MT_OPT_SITES:
        x->sites = 1;
        return 0;
    case MT_OPT_RUNS:
        x->runs = 1;
        return 0;
    case MT_OPT_CHUNKS:
        x->chunks = 1;
        return 0;
    default:
        return mt_common_option(o, &x->inputs, &x->filter);
    }
}

static const char *const types[] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = text,
#include "memtrace/record.def"
};

static void show_record(FILE *f, const struct mt_raw_record *r)
{
    fprintf(f, "%s %u 0x%" PRIx64 " cta %u,%u,%u sm %u\n", types[mt_rec_type(r)], (unsigned)mt_rec_size(r),
            mt_rec_address(r), (unsigned)mt_rec_cta_x(r), (unsigned)mt_rec_cta_y(r),
            (unsigned)mt_rec_cta_z(r), (unsigned)mt_rec_smid(r));
}

/* Launches printed as they arrive. */
struct showing {
    const struct options *x;
    struct mt_source *source;
    const struct mt_run_launch *launch; /* current launch */
    uint64_t shown;                     /* number of its records (runs) shown */
    const char *unit;
};

static int show_launch(void *self, const struct mt_run_launch *l)
{
    struct showing *s = self;
    FILE *f = s->x->out;
    const struct mt_launch_event *e = l->event;
    s->launch = l;
    s->shown = 0;
    fprintf(f, "launch %" PRIu64 " %s\n", l->superstep, l->kernel);
    if (s->x->inputs.npaths > 1) {
        fputs("# of ", f);
        mt_text_put(f, s->x->inputs.paths[l->input]);
        putc('\n', f);
    }
    if (e)
        fprintf(f, "# grid %" PRIu64 ",%" PRIu64 ",%" PRIu64 " block %" PRIu64 ",%" PRIu64 ",%" PRIu64,
                e->grid[0], e->grid[1], e->grid[2], e->block[0], e->block[1], e->block[2]);
    if (e && *e->file) /* host code compiled by mt-cc, or Python */
        fprintf(f, " launched at %s:%" PRIu64, e->file, e->line);
    if (e)
        putc('\n', f);
    if (e && *e->library)
        fprintf(f, "# a call of the library %s\n", e->library);
    return 0;
}

static int show_records(void *self, const struct mt_raw_record *records, size_t n)
{
    struct showing *s = self;
    for (size_t i = 0; i < n && s->shown + i < s->x->head; i++)
        show_record(s->x->out, &records[i]);
    s->shown += n;
    s->unit = "records";
    return 0;
}

static int show_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct showing *s = self;
    const struct mt_companion *c = mt_source_companion(s->source, s->launch->input);
    for (size_t i = 0; i < n && s->shown + i < s->x->head; i++)
        dump_access_run(s->x->out, &runs[i], c);
    s->shown += n;
    s->unit = "runs";
    return 0;
}

static int show_end(void *self)
{
    const struct showing *s = self;
    if (s->shown > s->x->head)
        fprintf(s->x->out, "# %" PRIu64 " more %s\n", s->shown - s->x->head, s->unit);
    return 0;
}

static int show_enough(void *self)
{
    const struct showing *s = self;
    return ferror(s->x->out);
}

static const struct mt_analysis dump_text = {.launch = show_launch,
                                             .records = show_records,
                                             .runs = show_runs,
                                             .end = show_end,
                                             .enough = show_enough};

/* Prints lines of CSV, launch by launch. */
static int csv_launch(void *self, const struct mt_run_launch *l)
{
    struct showing *s = self;
    s->launch = l;
    s->shown = 0;
    return 0;
}

static int csv_records(void *self, const struct mt_raw_record *records, size_t n)
{
    struct showing *s = self;
    FILE *f = s->x->out;
    for (size_t i = 0; i < n && s->shown + i < s->x->head; i++) {
        const struct mt_raw_record *r = &records[i];
        fprintf(f, "%" PRIu64 ",", s->launch->superstep);
        mt_csv_text(f, s->launch->kernel);
        fprintf(f, ",%s,%u,%" PRIu64 ",%u,%u,%u,%u\n", types[mt_rec_type(r)], (unsigned)mt_rec_size(r),
                mt_rec_address(r), (unsigned)mt_rec_cta_x(r), (unsigned)mt_rec_cta_y(r),
                (unsigned)mt_rec_cta_z(r), (unsigned)mt_rec_smid(r));
    }
    s->shown += n;
    return 0;
}

static const struct mt_analysis dump_csv = {
    .launch = csv_launch, .records = csv_records, .enough = show_enough};

/* Returns 0, or the exit code of a failed output. */
static int dump_flush(FILE *f)
{
    errno = 0;
    if (fflush(f) == 0 && !ferror(f))
        return 0;
    return mt_cli_fail("standard output: cannot write: %s", strerror(errno ? errno : EIO));
}

static int dump_run(struct options *x, struct mt_source *s)
{
    FILE *f = x->out;
    struct mt_stat stat = {0};
    struct mt_tally tally = {.f = f};
    struct showing showing = {.x = x, .source = s};
    struct mt_estimates estimates = {0};
    struct mt_progress progress;
    struct mt_feed feed = {.source = s, .filter = &x->filter};
    int ok = 0, complete;
    if (!x->runs && mt_inputs_spaces(&x->inputs))
        mt_cli_note("accesses to shared and local memory are left out: --runs and memtrace extract -s shared "
                    "show them");
    mt_progress_init(&progress);
    if (x->csv)
        fputs("launch,kernel,type,bytes,address,cta_x,cta_y,cta_z,sm\n", f);
    for (size_t i = 0; x->companion && i < x->inputs.npaths; i++)
        dump_companion(f, x->inputs.paths[i], mt_source_companion(s, i));
    for (size_t i = 0; x->chunks && i < x->inputs.npaths; i++)
        if ((ok = dump_chunks(f, x->inputs.paths[i])) != 0)
            return ok;
    if (x->stat)
        mt_feed_add(&feed, &stat_analysis, &stat, NULL);
    else if (x->counts)
        mt_feed_add(&feed, &tally_analysis, &tally, NULL);
    else
        mt_feed_add(&feed, x->csv ? &dump_csv : &dump_text, &showing, NULL);
    if (x->stat || x->counts)
        feed.progress = &progress;
    int rc = mt_feed_read(&feed);
    ok = rc == MT_FEED_FAILED;
    int code = dump_flush(f);
    if (code) { /* no statement about a trace that was not read to its end */
        dump_stat_free(&stat);
        return code;
    }
    code = mt_inputs_finish(s, &complete);
    mt_filter_explain(&x->filter, feed.launches, feed.chosen);
    if (ok == 0 && x->stat) {
        dump_stat_show(f, &stat);
        ok = mt_estimates_gather(&estimates, s, x->inputs.npaths);
        dump_stat_estimates(f, &stat, &estimates);
    }
    mt_estimates_free(&estimates);
    dump_stat_free(&stat);
    int failed = dump_flush(f);
    if (failed) {
        code = failed;
    } else if (ok != 0) {
        mt_cli_say("no memory for the sums");
        code = MT_EXIT_FAILURE;
    } else if (rc)
        code = mt_feed_failed(&feed, rc);
    if (!code && tally.differ) {
        mt_cli_say("the records of a launch and the program's own count differ");
        code = MT_EXIT_FAILURE;
    }
    return code;
}

/* Handles compact traces of host accesses on the command line, which must be all inputs or none. Returns
 * their number, and *code. *device: a source, if the input is a FIFO with accesses of kernels. */
static int dump_containers(const struct options *x, int argc, char **argv, int *code,
                           struct mt_source **device)
{
    int n = 0;
    for (int i = optind; i < argc; i++)
        n += dump_is_host(argv[i]);
    struct mt_dump_host o = {x->head,
                             x->stat,
                             x->companion,
                             x->sites,
                             x->chunks,
                             x->runs,
                             x->filter.kernels_text || x->filter.supersteps_text};
    int any_fifo = n == 1 && argc - optind == 1 && !mt_is_container(argv[optind]);
    if (n && n < argc - optind)
        *code = mt_cli_usage("traces of host code and of kernels are shown one kind at a time");
    else if (!n && optind < argc && x->sites)
        *code = mt_cli_usage("--sites is for host traces");
    else if (!n && optind < argc && x->chunks && !mt_is_container(argv[optind]))
        *code = mt_cli_usage("--chunks is for compact traces: name a file (.mtc)");
    else if (x->csv && (x->stat || x->counts || x->companion || x->sites || x->chunks || x->runs))
        *code =
            mt_cli_usage("--format=csv has records only; memtrace extract --format=csv has tables of sums");
    else if (x->csv && n && !any_fifo)
        *code = mt_cli_usage("--format=csv has records of kernels: this is a trace of host accesses");
    else if (x->runs && ((n && !any_fifo) || x->stat || x->counts))
        *code = mt_cli_usage("--runs shows accesses of kernels, no sums");
    else if (n && !any_fifo && (x->filter.kernels_text || x->filter.supersteps_text))
        *code = mt_cli_usage("a trace of host accesses has no kernels to select");
    for (int i = optind; n && i < argc && *code != MT_EXIT_FAILURE && *code != MT_EXIT_USAGE; i++) {
        int one = dump_host_show(x->out, argv[i], &o, device);
        *code = one ? one : *code;
    }
    if (n && (fflush(x->out) != 0 || ferror(x->out))) {
        mt_cli_say("standard output: cannot write: %s", strerror(errno));
        *code = MT_EXIT_FAILURE;
    }
    return n;
}

/* Calls mt_inputs_take and mt_inputs_source. */
static struct mt_source *dump_inputs_open(struct mt_inputs *in, int argc, char **argv, int *code)
{
    mt_inputs_take(in, argc, argv);
    return (*code = mt_inputs_folders(in)) ? NULL : mt_inputs_source(in, code);
}

int mt_dump_command(int argc, char **argv)
{
    struct options x = {.head = UINT64_MAX, .out = mt_output_whole(dup(STDOUT_FILENO))};
    struct mt_source *s = NULL;
    mt_stop_begin();
    mt_filter_init(&x.filter);
    int code = mt_cli_options(&command, argc, argv, dump_option, &x);
    if (code == 0 && !x.out)
        code = mt_cli_fail("no memory for the output");
    int host = code == 0 ? dump_containers(&x, argc, argv, &code, &s) : 0;
    if (code == 0 && !x.companion)
        x.inputs.flags |= MT_SOURCE_NO_HOST | MT_SOURCE_NO_MEMORY; /* a FIFO is shown as it arrives */
    if (x.runs)
        x.inputs.flags |= MT_SOURCE_RUNS | MT_SOURCE_SPACES;
    if (code == 0 && s) {
        mt_inputs_take(&x.inputs, argc, argv);
        code = dump_run(&x, s);
    } else if (code == 0 && !host && (s = dump_inputs_open(&x.inputs, argc, argv, &code)))
        code = dump_run(&x, s);
    mt_source_close(s);
    mt_filter_free(&x.filter);
    mt_inputs_free(&x.inputs);
    return code < 0 ? MT_EXIT_OK : code;
}
