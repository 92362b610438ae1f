/* memtrace dump: sums per kernel, and the companion as text. */
#define _GNU_SOURCE
#include "dump.h"
#include "memtrace/grow.h"
#include "analysis/locality/estimates.h"
#include "base/text.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- sums per kernel ---- */

static int line_of(struct mt_stat *s, const char *kernel)
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
    if (line_of(s, l->kernel) != 0)
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

const struct mt_analysis mt_stat_analysis = {.launch = stat_launch, .records = stat_records};

void mt_stat_show(FILE *f, const struct mt_stat *s)
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

void mt_stat_show_estimates(FILE *f, const struct mt_stat *s, const struct mt_estimates *e)
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

void mt_stat_free(struct mt_stat *s)
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

/* The launch's sums when it ends. Of a count without records there is nothing to compare. */
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
    if (!e || !e->has_counts)
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

const struct mt_analysis mt_tally_analysis = {
    .launch = tally_launch, .records = tally_records, .end = tally_end, .enough = tally_enough};

/* ---- the companion ---- */

static void show_place(FILE *f, const char *file, uint64_t line)
{
    if (*file)
        fprintf(f, " at %s:%" PRIu64, file, line);
    fputc('\n', f);
}

/* Where a site is in machine code. */
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
    show_place(f, a->file, a->line);
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

static void show_launch(FILE *f, const struct mt_launch_event *e)
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
    show_place(f, e->file, e->line);
}

void mt_dump_companion(FILE *f, const char *trace, const struct mt_companion *c)
{
    if (!c) {
        fputs("# ", f);
        mt_text_put(f, trace);
        fputs(" has no companion\n", f);
        return;
    }
    if (*c->engine)
        fprintf(f, "%s of host code by engine %s, program %s, pid %" PRIu64 ", tool %s\n", c->mode, c->engine,
                c->program, c->pid, c->tool);
    else
        fprintf(f,
                "companion %s of stream %" PRIu64 ", program %s, pid %" PRIu64 ", device %s (%s), %" PRIu64
                " SMs, tool %s\n",
                c->path, c->stream, c->program, c->pid, c->device, c->device_name, c->sms, c->tool);
    for (size_t i = 0; i < c->nsites; i++) {
        const struct mt_site_event *e = &c->sites[i];
        fprintf(f, "site %" PRIu64 " %s %" PRIu64 " bytes", e->id, e->op, e->size);
        if (*e->var)
            fprintf(f, " of %s", e->var);
        fprintf(f, " in %s", e->function);
        if (*e->file || !*e->at)
            fprintf(f, " at %s:%" PRIu64, e->file, e->line);
        if (e->column) /* PTX has none */
            fprintf(f, ":%" PRIu64, e->column);
        show_code(f, e);
    }
    for (size_t i = 0; i < c->nallocs; i++)
        show_alloc(f, &c->allocs[i]);
    for (size_t i = 0; i < c->ncopies; i++)
        show_copy(f, &c->copies[i]);
    for (size_t i = 0; i < c->nlaunches; i++)
        show_launch(f, &c->launches[i]);
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
