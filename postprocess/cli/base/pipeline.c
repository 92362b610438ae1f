/* Runs traces through the analyses, for memtrace extract and memtrace report. */
#define _GNU_SOURCE

#include "pipeline.h"
#include "analysis/base/order.h"
#include "analysis/comm/shadow.h"
#include "memtrace/grow.h"
#include "base/text.h"
#include "reader/base/pool.h"
#include "memtrace/record.h"
#include "output/json/comm_json.h"
#include "output/text/table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Runs the further analyses (analysis/locality/) on a source, for memtrace extract and memtrace report. */

enum { THREADS_MOST = 1024, HOST_LINE_BITS = 6 /* line size of x86-64 processors */ };

void mt_locality_run_init(struct mt_locality_run *x)
{
    memset(x, 0, sizeof *x);
    x->options.analysis.cache_bytes = MT_MISSES_BYTES;
    x->options.analysis.cache_ways = MT_MISSES_WAYS;
    x->options.analysis.sample_lines = MT_REUSE_LINES;
    x->options.analysis.sample_uses = MT_REUSE_USES;
    x->options.analysis.top = 10;
    x->devices = 2;
    x->rows = 25;
}

/* ---- options ---- */

int mt_locality_run_section(struct mt_locality_run *x, const char *name, size_t length)
{
    if (length == 4 && strncasecmp(name, "more", 4) == 0) {
        x->options.chosen = (1u << MT_LOCALITY_SECTIONS) - 1;
        return 1;
    }
    for (unsigned i = 0; i < MT_LOCALITY_SECTIONS; i++)
        if (strlen(mt_locality_names[i]) == length && strncasecmp(name, mt_locality_names[i], length) == 0) {
            x->options.chosen |= 1u << i;
            return 1;
        }
    return 0;
}

/* Returns the exponent of a power of two, or -1. */
static int locality_run_exponent(const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || n == 0 || n & (n - 1))
        return -1;
    return __builtin_ctzl(n);
}

/* Parses "32768,8". */
static int locality_run_cache(struct mt_run_options *o, const char *value)
{
    char *end;
    unsigned long bytes = strtoul(value, &end, 10), ways = o->cache_ways;
    if (*end == 'K' && end++)
        bytes *= 1024;
    if (*value >= '0' && *value <= '9' && *end == ',' && end[1] >= '0' && end[1] <= '9')
        ways = strtoul(end + 1, &end, 10);
    if (*value < '0' || *value > '9' || *end || ways < 1 || ways > 64 || bytes < 32 * ways ||
        bytes > 1u << 30)
        return mt_cli_usage(
            "--data-cache is bytes (up to 2^30) and, after a comma, ways (1 to 64), as in 32768,8: not '%s'",
            value);
    o->cache_bytes = (unsigned)bytes;
    o->cache_ways = (unsigned)ways;
    return 0;
}

static int locality_run_way(struct mt_locality_run *x, const char *value)
{
    for (int w = 0; w < MT_COLLECTIVE_WAYS; w++)
        if (strcmp(value, mt_collective_ways[w]) == 0) {
            x->way = (enum mt_collective_way)w;
            return 0;
        }
    return mt_cli_usage("--collectives is direct, ring or tree, not '%s'", value);
}

/* Handles an option of an analysis. Returns 0, an exit code after a message, or -1 if it is none of theirs.
 */
static int locality_run_option(struct mt_locality_run *x, int option, const char *value)
{
    unsigned long n;
    char why[200];
    int bits;
    switch (option) {
    case MT_OPT_LINE_SIZE:
        bits = locality_run_exponent(value);
        if (bits < MT_SECTOR_BITS || bits > 12)
            return mt_cli_usage("--line-size is a power of two from 32 to 4096, not '%s'", value);
        x->options.analysis.line_bits = (unsigned)bits;
        return 0;
    case MT_OPT_DATA_CACHE:
        x->meant |= 1u << MT_LOCALITY_MISSES;
        return locality_run_cache(&x->options.analysis, value);
    case MT_OPT_SAMPLE:
        bits = locality_run_exponent(value);
        if (bits < 0 || bits > MT_REUSE_MOST_SAMPLE_BITS)
            return mt_cli_usage("--sample is a power of two up to 2^24 (one of so many lines), not '%s'",
                                value);
        x->options.analysis.sample_bits = (unsigned)bits;
        x->options.analysis.sample_lines = 0;
        return 0;
    case MT_OPT_DEVICES:
        x->meant |= 1u << MT_LOCALITY_PLACEMENT;
        if (!mt_cli_number(value, 1, MT_PLACE_MOST_DEVICES, &n))
            return mt_cli_usage("--devices is a number from 1 to %d, not '%s'", MT_PLACE_MOST_DEVICES, value);
        x->devices = (unsigned)n;
        return 0;
    case MT_OPT_TOPOLOGY:
        x->meant |= 1u << MT_LOCALITY_DEVICES;
        mt_output_spare(value);
        return mt_topology_read(&x->topology, value, MT_TOPOLOGY_DEVICES, why, sizeof why) == 0
                   ? 0
                   : mt_cli_usage("--topology=%s: %s", value, why);
    case MT_OPT_COLLECTIVES:
        x->meant |= 1u << MT_LOCALITY_DEVICES;
        return locality_run_way(x, value);
    case MT_OPT_TOP:
        if (!mt_cli_number(value, 0, 1000000, &n))
            return mt_cli_usage("--top is a number up to 1000000, not '%s'", value);
        x->options.analysis.top = n;
        x->rows = n ? n : x->rows;
        return 0;
    default:
        return -1;
    }
}

/* ---- reading ---- */

static int locality_run_init(void *self, const struct mt_run_options *o)
{
    struct mt_locality_run *x = self;
    size_t nallocs, ninputs = mt_source_inputs(o->source);
    const struct mt_alloc_event *allocs = mt_source_allocs(o->source, &nallocs);
    if (!x->options.analysis.line_bits)
        x->options.analysis.line_bits = mt_source_threads(o->source) ? HOST_LINE_BITS : MT_LINE_BITS;
    x->source = o->source;
    x->ninputs = ninputs;
    x->tables = calloc(ninputs, sizeof *x->tables);
    x->known = calloc(ninputs, sizeof *x->known);
    if (!x->tables || !x->known || mt_sites_init(&x->sites) != 0 ||
        mt_locality_init(&x->more, &x->options, allocs, nallocs) != 0)
        return -1;
    return x->beside && !(x->crew = mt_crew_new(&x->more, mt_source_pool(x->source))) ? -1 : 0;
}

/* Parses the value of --threads. Returns 0, or an exit code after a message. */
static int cli_threads_option(unsigned *threads, const char *value)
{
    uint64_t n;
    if (!mt_cli_number(value, 1, THREADS_MOST, &n))
        return mt_cli_usage("--threads is a number from 1 to %d, not '%s'", THREADS_MOST, value);
    *threads = (unsigned)n;
    return 0;
}

const struct mt_site_table *mt_locality_run_sites(struct mt_locality_run *x, size_t input)
{
    if (input >= x->ninputs)
        return NULL;
    const struct mt_companion *c = mt_source_companion(x->source, input);
    if (!x->known[input] && c && mt_sites_table(&x->sites, &x->tables[input], c->sites, c->nsites) == 0)
        x->known[input] = 1;
    return x->known[input] ? &x->tables[input] : NULL;
}

/* Records a launch's device for the placement; without memory the device is unknown. */
static void locality_run_device(struct mt_locality_run *x, const struct mt_run_launch *l)
{
    if (l->device < 0 || l->superstep >= UINT32_MAX ||
        mt_grow(&x->ran, &x->ran_room, l->superstep + 1, sizeof *x->ran) != 0)
        return;
    while (x->nran <= l->superstep)
        x->ran[x->nran++] = -1;
    x->ran[l->superstep] = l->device;
}

/* Records a collective for the devices; without memory it is omitted. */
static void locality_run_collective(struct mt_locality_run *x, const struct mt_run_launch *l)
{
    const struct mt_launch_event *e = l->event;
    if (!e || !e->collective || (e->has_records && !e->records) ||
        (x->ncollectives && x->collectives[x->ncollectives - 1].superstep >= l->superstep) ||
        mt_grow(&x->collectives, &x->collective_room, x->ncollectives + 1, sizeof *x->collectives) != 0)
        return;
    x->collectives[x->ncollectives++] = (struct mt_collective_launch){l->superstep, l->kernel, e};
}

static int locality_run_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_locality_run *x = self;
    locality_run_device(x, l);
    if (l->selected)
        locality_run_collective(x, l);
    x->launch = *l;
    x->launch.sites = mt_locality_run_sites(x, l->input);
    x->begins = &x->launch;
    return 0;
}

static void locality_run_moves(void *self, const struct mt_run_launch *l)
{
    struct mt_locality_run *x = self;
    if (x->begins || (l->seq == x->launch.seq && !l->life))
        return;
    x->launch.seq = l->seq;
    x->launch.life = l->life;
    x->launch.moves = 1;
    x->begins = &x->launch;
}

static int locality_run_wait(void *self)
{
    struct mt_locality_run *x = self;
    return x->crew ? mt_crew_wait(x->crew) : 0;
}

static int locality_run_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_locality_run *x = self;
    const struct mt_run_launch *launch = x->begins;
    x->begins = NULL;
    if (!x->crew)
        return mt_locality_feed(&x->more, ~0u, launch, runs, n);
    mt_crew_begin(x->crew, launch, runs, n);
    return 0;
}

const struct mt_analysis mt_locality_run_analysis = {.needs = MT_NEEDS_ALL,
                                                     .init = locality_run_init,
                                                     .launch = locality_run_launch,
                                                     .moves = locality_run_moves,
                                                     .runs = locality_run_runs,
                                                     .wait = locality_run_wait};

/* Returns 1 if results are listed by source line, and no line is known. */
static int lacks_lines(const struct mt_locality_run *x)
{
    const struct mt_locality *m = &x->more;
    int found = mt_locality_has_sites(m, MT_BY_LINE);
    if (!m->lines.count[MT_BY_LINE] && !m->coalescing.count && !m->conflicts.count)
        return 0;
    for (size_t i = 0; i < m->coalescing.count && !found; i++)
        found = m->coalescing.cells[i].line != 0;
    for (size_t i = 0; i < m->conflicts.count && !found; i++)
        found = mt_side_line(m->conflicts.list[i].side[0]) || mt_side_line(m->conflicts.list[i].side[1]);
    return !found;
}

/* Returns whether an input before this one is of the same process: all of its companions have its totals. */
static int locality_run_again(const struct mt_locality_run *x, size_t input)
{
    const struct mt_companion *c = mt_source_companion(x->source, input);
    for (size_t i = 0; i < input; i++) {
        const struct mt_companion *b = mt_source_companion(x->source, i);
        if (b && b->pid == c->pid && b->start_ns == c->start_ns)
            return 1;
    }
    return 0;
}

/* Feeds totals that a GPU counted itself. */
static int locality_run_tally(struct mt_locality_run *x, size_t input, const struct mt_tally_event *t)
{
    const struct mt_site_table *sites = mt_locality_run_sites(x, input);
    int64_t number = mt_names_number(&x->kernels, t->kernel);
    uint32_t line = mt_site_line(sites, (uint32_t)t->site);
    if (number < 0)
        return -1;
    const char *kernel = x->kernels.names[number];
    if (x->filter && !mt_filter_match(x->filter, kernel, x->filter->first))
        return 0;
    if (mt_locality_run_has(x, MT_LOCALITY_LINES) &&
        mt_lines_tally(&x->more.lines, kernel, line, mt_site_var(sites, (uint32_t)t->site), t) != 0)
        return -1;
    return mt_locality_run_has(x, MT_LOCALITY_COALESCING)
               ? mt_coalescing_tally(&x->more.coalescing, kernel, line,
                                     mt_site_location_of(sites, (uint32_t)t->site), t)
               : 0;
}

static int locality_run_tallies(struct mt_locality_run *x)
{
    if (x->filter && x->filter->supersteps_text) { /* totals are of all launches */
        for (size_t i = 0; i < x->ninputs; i++) {
            const struct mt_companion *c = mt_source_companion(x->source, i);
            if (c && c->ntallies)
                return mt_cli_note("note: totals that a GPU counted are of all launches: none is shown for "
                                   "some of them"),
                       0;
        }
        return 0;
    }

    for (size_t i = 0; i < x->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(x->source, i);
        for (size_t k = 0; c && k < c->ntallies && (k || !locality_run_again(x, i)); k++)
            if (locality_run_tally(x, i, &c->tallies[k]) != 0)
                return -1;
    }
    return 0;
}

int mt_locality_run_finish(struct mt_locality_run *x, const struct mt_comm *comm)
{
    if (!x->options.chosen)
        return 0;
    if (locality_run_tallies(x) != 0 || mt_locality_finish(&x->more) != 0)
        return -1;
    if (mt_locality_run_has(x, MT_LOCALITY_COALESCING) && !mt_locality_has_masks(&x->more) &&
        x->more.coalescing.unmasked > x->more.coalescing.ungrouped && !comm->options.threads)
        strcpy(x->notes[0], "coalescing: null, the trace has no lane masks (MEMTRACE_FORMAT=compact records "
                            "them; calls of libraries have none)");
    if (lacks_lines(x))
        strcpy(x->notes[1], "source lines and variables are not known: the trace has no sites "
                            "(MEMTRACE_FORMAT=compact records them), or was read live");
    uint64_t longer = mt_locality_longer(&x->more);
    if (longer)
        snprintf(x->notes[2], sizeof x->notes[2],
                 "%" PRIu64
                 " accesses of more than %d KiB (block copies) are left out of reuse, sharing and conflicts",
                 longer, MT_LOCALITY_LONGEST >> 10);
    if (comm->readers.lost)
        snprintf(x->notes[3], sizeof x->notes[3],
                 "placement: distinct bytes are null, more than %d sets of CTAs read the same bytes "
                 "(--kernels and --launches select fewer launches)",
                 MT_READERS_MOST);
    for (int i = x->quiet ? 2 : 0; i < MT_LOCALITY_RUN_NOTES; i++) /* the page has no place for these */
        if (x->notes[i][0])
            mt_cli_say("%s", x->notes[i]);
    return mt_locality_run_has(x, MT_LOCALITY_PLACEMENT)
               ? mt_placement_make(&x->placement, comm, x->devices, x->ran, x->nran)
               : 0;
}

const struct mt_traffic *mt_locality_run_traffic(const struct mt_locality_run *x)
{
    return mt_locality_run_has(x, MT_LOCALITY_TRAFFIC) ? &x->more.traffic : NULL;
}

void mt_locality_run_free(struct mt_locality_run *x)
{
    mt_crew_free(x->crew);
    mt_locality_free(&x->more);
    mt_sites_free(&x->sites);
    mt_names_free(&x->kernels);
    for (size_t i = 0; i < x->ninputs && x->tables; i++)
        mt_site_table_free(&x->tables[i]);
    free(x->tables);
    free(x->known);
    mt_placement_free(&x->placement);
    free(x->ran);
    free(x->collectives);
    memset(x, 0, sizeof *x);
}

static int feed_fail(struct mt_feed *f, size_t row)
{
    f->why = f->rows[row].why;
    return MT_FEED_FAILED;
}

void mt_feed_add(struct mt_feed *f, const struct mt_analysis *of, void *self, const char *why)
{
    const struct mt_run_options options = {.source = f->source};
    f->rows[f->nrows].of = of;
    f->rows[f->nrows].self = self;
    f->rows[f->nrows++].why = why;
    f->needs |= of->needs;
    f->lacks |= ~of->needs;
    f->makes |= of->runs && !of->records && !(of->needs & MT_NEEDS_SPACES);
    if (!f->failed && of->init && of->init(self, &options) != 0)
        f->failed = feed_fail(f, f->nrows - 1);
}

static int feed_wait(struct mt_feed *f)
{
    int rc = 0;
    for (size_t i = 0; i < f->nrows; i++)
        if (f->rows[i].of->wait && f->rows[i].of->wait(f->rows[i].self) != 0 && rc == 0)
            rc = feed_fail(f, i);
    return rc;
}

static int feed_enough(const struct mt_feed *f)
{
    for (size_t i = 0; i < f->nrows; i++)
        if (f->rows[i].of->enough && f->rows[i].of->enough(f->rows[i].self))
            return 1;
    return 0;
}

static uint64_t feed_count(const struct mt_item *item)
{
    uint64_t n = 0;
    if (item->kind != MT_ITEM_RUNS || !item->runs)
        return item->kind == MT_ITEM_COPY ? 0 : item->count;
    for (size_t i = 0; i < item->count; i++)
        n += item->runs[i].count;
    return n;
}

static int feed_room(struct mt_feed *f, size_t n, const char *why)
{
    if (mt_grow(&f->made, &f->room, n, sizeof *f->made) == 0)
        return 0;
    f->why = why;
    return MT_FEED_FAILED;
}

/* Keeps only runs of global memory in the item, in a copy if there are others. */
static int feed_global(struct mt_feed *f, struct mt_item *item)
{
    size_t n = 0;
    while (n < item->count && mt_rec_space(mt_run_type(&item->runs[n])) == MT_IN_GLOBAL)
        n++;
    if (n == item->count)
        return 0;
    if (feed_room(f, item->count, "no memory for the records of shared and local memory") != 0)
        return MT_FEED_FAILED;
    if (n)
        memcpy(f->made, item->runs, n * sizeof *f->made);
    for (size_t i = n; i < item->count; i++)
        if (mt_rec_space(mt_run_type(&item->runs[i])) == MT_IN_GLOBAL)
            f->made[n++] = item->runs[i];
    item->runs = f->made;
    item->count = n;
    return 0;
}

/* Converts an item of records to runs. */
static int feed_runs(struct mt_feed *f, struct mt_item *item)
{
    size_t taken;
    if (feed_room(f, item->count + 1, "no memory for the records as runs") != 0)
        return MT_FEED_FAILED;
    item->count = mt_runs_from_records(item->records, item->count, f->made, f->room, &taken);
    item->kind = MT_ITEM_RUNS;
    item->runs = f->made;
    return 0;
}

/* Makes the item for analyses of runs of global memory. */
static int feed_plain(struct mt_feed *f, struct mt_item *item)
{
    if (f->needs & MT_NEEDS_PLACES)
        return 0;
    if (item->kind == MT_ITEM_RUNS && f->needs & f->lacks & MT_NEEDS_SPACES)
        return feed_global(f, item);
    return item->kind == MT_ITEM_BATCH && f->makes ? feed_runs(f, item) : 0;
}

static void feed_launch(struct mt_feed *f, const struct mt_item *item)
{
    const struct mt_launch_event *e = item->launch;
    int selected = !f->filter || mt_filter_match(f->filter, item->kernel, item->superstep);
    f->launches++;
    f->chosen += (uint64_t)selected;
    f->launch = (struct mt_run_launch){.superstep = item->superstep,
                                       .kernel = item->kernel,
                                       .seq = e ? e->seq : MT_SEQ_NONE,
                                       .event = e,
                                       .single = (e && e->ungrouped) || item->flags & MT_BATCH_SINGLE,
                                       .input = item->input,
                                       .begins = 1,
                                       .selected = selected,
                                       .host = mt_source_threads(f->source),
                                       .cooperative = e && e->cooperative,
                                       .device = e ? e->device : -1};
}

/* Passes accesses of the current launch. */
static int feed_accesses(const struct mt_feed *f, const struct mt_analysis *of, void *self,
                         const struct mt_item *item)
{
    struct mt_run_launch now = f->launch;
    if (!f->launch.selected && !(of->needs & MT_NEEDS_ALL))
        return 0;
    if ((item->flags & MT_BATCH_BEGIN) && of->launch && of->launch(self, &f->launch) != 0)
        return -1;
    if (f->needs & MT_NEEDS_PLACES)
        return of->place ? of->place(self, item) : 0;
    if (item->host && of->moves) {
        now.seq = item->seq;
        now.life = item->life;
        now.moves = 1;
        of->moves(self, &now);
    }
    if (item->host_count && of->host && of->host(self, item) != 0)
        return -1;
    if (item->kind == MT_ITEM_RUNS ? of->runs && of->runs(self, item->runs, item->count) != 0
                                   : of->records && of->records(self, item->records, item->count) != 0)
        return -1;
    return (item->flags & MT_BATCH_END) && of->end ? of->end(self) : 0;
}

/* Passes an item to a row; `plain` is its form for most rows. */
static int feed_row(struct mt_feed *f, size_t row, const struct mt_item *item, const struct mt_item *plain)
{
    const struct mt_analysis *of = f->rows[row].of;
    void *self = f->rows[row].self;
    int rc = 0, spaces = (of->needs & MT_NEEDS_SPACES) != 0;
    if (item->kind == MT_ITEM_COPY)
        rc = of->copy && of->copy(self, item->copy) != 0;
    else if (item->kind == MT_ITEM_HOST)
        rc = of->host && of->host(self, item) != 0;
    else if (item->kind == MT_ITEM_RUNS || !spaces) /* raw traces contain global memory only */
        rc =
            feed_accesses(f, of, self, spaces || (item->kind == MT_ITEM_BATCH && of->records) ? item : plain);
    return rc ? feed_fail(f, row) : 0;
}

static int feed_item(struct mt_feed *f, const struct mt_item *item)
{
    struct mt_item plain = *item;
    int accesses = item->kind == MT_ITEM_RUNS || item->kind == MT_ITEM_BATCH, rc = feed_wait(f);
    if (rc == 0)
        rc = feed_plain(f, &plain);
    if (accesses && item->flags & MT_BATCH_BEGIN)
        feed_launch(f, item);
    const uint64_t n = feed_count(item->kind == MT_ITEM_BATCH ? item : &plain);
    f->accesses += n;
    f->reported += accesses && f->launch.selected ? n : 0;
    f->unread += accesses ? item->unread : 0;
    for (size_t i = 0; i < f->nrows && rc == 0; i++)
        rc = feed_row(f, i, item, &plain);
    return rc;
}

static int feed_finish(struct mt_feed *f)
{
    for (size_t i = 0; i < f->nrows; i++)
        if (f->rows[i].of->finish && f->rows[i].of->finish(f->rows[i].self) != 0)
            return feed_fail(f, i);
    return 0;
}

/* ---- memory: reading ends while results of what was read still fit ---- */

/* PART: of the memory that is left, which may be used between two looks. PAGE: bytes of all analyses for a
 * page that is touched for the first time. */
enum { PART = 16, PAGE = 8 << 10, FEW_RUNS = 64 };

#define LESS_MEMORY "--launches=A..B reads less; extract -s quick and report --quick need less"

/* Returns the memory that an item may need at most, if it touches each of its pages for the first time. */
static uint64_t feed_need(const struct mt_item *item)
{
    uint64_t pages = item->count;
    for (size_t i = 0; item->kind == MT_ITEM_RUNS && item->runs && i < item->count; i++) {
        const struct mt_access_run *r = &item->runs[i];
        const uint64_t stride = (uint64_t)(r->stride < 0 ? -r->stride : r->stride);
        pages += r->addresses || stride >> MT_PAGE_BITS ? r->count : stride * r->count >> MT_PAGE_BITS;
    }
    return pages * PAGE;
}

/* Returns 1 if memory is short; then reading ends as after a signal. need: what is fed next. */
static int feed_is_short(struct mt_feed *f, uint64_t need)
{
    f->fed += need;
    if (f->fed < f->memory.left / (2 * PART))
        return 0;
    f->fed = 0;
    if (f->memory.left && mt_memory_used() < f->memory.used + f->memory.left / PART)
        return 0;
    f->memory = mt_memory_look(NULL);
    if (!f->memory.is_short || mt_cli_stop)
        return 0;
    mt_cli_say("memory runs out: %s in use, %s left until %s. Results of what was read follow (" LESS_MEMORY
               ")",
               mt_number_bytes(f->memory.used).text, mt_number_bytes(f->memory.left).text, f->memory.limit);
    __atomic_store_n(&mt_cli_stop, 1, __ATOMIC_RELAXED);
    mt_source_stop(f->source);
    return 1;
}

/* Returns how many runs of an item may be fed before memory is looked at again. */
static size_t feed_step(const struct mt_feed *f, const struct mt_item *item, uint64_t need)
{
    const uint64_t most = f->memory.left / (2 * PART);
    if (item->kind != MT_ITEM_RUNS || item->host || !item->runs || need <= most)
        return item->count;
    const size_t step = (size_t)((double)item->count * (double)most / (double)need);
    return step > FEW_RUNS ? step : FEW_RUNS;
}

/* Passes an item, in pieces if it might need much of the memory that is left. */
static int feed_pieces(struct mt_feed *f, const struct mt_item *item)
{
    const uint64_t need = feed_need(item);
    size_t at = 0;
    int rc;
    do {
        const size_t step = feed_step(f, item, need), left = item->count - at;
        struct mt_item piece = *item;
        piece.count = left < step ? left : step;
        if (feed_is_short(f, item->count ? need / item->count * piece.count : PAGE))
            return 0;
        if (piece.count < item->count) {
            piece.runs = item->runs + at;
            piece.flags &= ~(unsigned)((at ? MT_BATCH_BEGIN : 0) | (piece.count < left ? MT_BATCH_END : 0));
        }
        rc = feed_item(f, &piece);
        at += piece.count;
    } while (rc == 0 && at < item->count && !mt_cli_stop);
    return rc;
}

int mt_feed_read(struct mt_feed *f)
{
    struct mt_item item;
    int rc = f->failed, more = 0;
    if (f->again)
        mt_source_spaces(f->source, (f->needs & MT_NEEDS_SPACES) != 0);
    if (rc == 0 && f->again && mt_source_rewind(f->source, &f->err) != 0)
        return MT_FEED_UNREADABLE;
    while (rc == 0 && !feed_enough(f) && (more = mt_source_next(f->source, &item, &f->err)) > 0) {
        rc = feed_pieces(f, &item);
        if (f->progress)
            mt_progress_step(f->progress, f->source, f->accesses);
    }
    int late = feed_wait(f);
    if (f->progress)
        mt_progress_end(f->progress);
    free(f->made);
    f->made = NULL;
    f->room = 0;
    rc = rc ? rc : late ? late : feed_finish(f);
    return rc ? rc : more < 0 ? MT_FEED_UNREADABLE : 0;
}

void mt_feed_free(struct mt_feed *f)
{
    for (size_t i = 0; i < f->nrows; i++)
        if (f->rows[i].of->free)
            f->rows[i].of->free(f->rows[i].self);
    f->nrows = 0;
}

/* Prints why analyses failed; returns the exit code. */
static int feed_why(const char *why)
{
    return mt_cli_fail(strstr(why, "memory") ? "%s (" LESS_MEMORY ")" : "%s", why);
}

int mt_feed_failed(const struct mt_feed *f, int rc)
{
    return rc == MT_FEED_UNREADABLE ? mt_cli_failed(&f->err) : feed_why(f->why);
}

void mt_pipeline_init(struct mt_pipeline *p)
{
    mt_filter_init(&p->filter);
    mt_locality_run_init(&p->more);
    p->more.filter = &p->filter;
    p->threads = mt_cli_processors();
}

int mt_pipeline_option(struct mt_pipeline *p, int o)
{
    int code;
    switch (o) {
    case MT_OPT_SAME_CTA:
        p->options.local = strcmp(optarg, "local") == 0;
        return p->options.local || strcmp(optarg, "instance") == 0
                   ? 0
                   : mt_cli_usage("--same-cta is local or instance, not '%s'", optarg);
    case MT_OPT_STRICT:
        p->options.strict = 1;
        return 0;
    case MT_OPT_NO_HOST:
        p->inputs.flags |= MT_SOURCE_NO_HOST;
        return 0;
    case MT_OPT_THREADS:
        return cli_threads_option(&p->threads, optarg);
    default:
        code = locality_run_option(&p->more, o, optarg);
        p->further |= code >= 0;
        return code >= 0 ? code : mt_common_option(o, &p->inputs, &p->filter);
    }
}

int mt_pipeline_asked(const struct mt_pipeline *p)
{
    return p->filter.kernels_text || p->filter.supersteps_text || p->options.local || p->options.strict ||
           p->inputs.flags || p->inputs.ncompanions || p->further;
}

/* Adds host code as a launch of its own if its accesses are read. */
static void pipeline_host(struct mt_pipeline *p)
{
    p->options.host = mt_source_host(p->source);
    p->options.threads = mt_source_threads(p->source);
    if (p->options.threads)
        mt_of_threads = 1;
    /* Filters match the host by its name. */
    if (!p->filter.has_kernels || mt_filter_match(&p->filter, MT_HOST_NAME, p->filter.first)) {
        p->options.host_first = p->filter.first;
        p->options.host_end = p->filter.end;
    }
}

static int pipeline_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_pipeline *p = self;
    if (mt_grow(&p->events, &p->event_room, p->nevents + 1, sizeof *p->events) != 0)
        return -1;
    p->events[p->nevents++] = l->event;
    return 0;
}

static int pipeline_stopped(void *self)
{
    const struct mt_pipeline *p = self;
    return mt_session_stopped(p->session, p->team);
}

static const struct mt_analysis pipeline_launches = {
    .needs = MT_NEEDS_ALL, .launch = pipeline_launch, .enough = pipeline_stopped};

static void pipeline_feed(struct mt_pipeline *p)
{
    memset(&p->feed, 0, sizeof p->feed);
    p->feed.source = p->source;
    p->feed.filter = &p->filter;
    p->feed.progress = &p->progress;
    mt_feed_add(&p->feed, &pipeline_launches, p, "no memory for the launches");
    p->more.beside = p->threads > 1;
    if (p->more.options.chosen) /* first, so that its threads work meanwhile */
        mt_feed_add(&p->feed, &mt_locality_run_analysis, &p->more, "no memory for the further analyses");
    mt_feed_add(&p->feed, &p->team->kind->fed, p->team, NULL);
    if (p->spaces)
        mt_feed_add(&p->feed, &mt_onchip_analysis, &p->onchip, "no memory for shared memory");
}

static void pipeline_options(struct mt_pipeline *p)
{
    struct mt_comm_options *o = &p->options;
    o->transfers = (p->wants & MT_WANTS_TRANSFERS) == MT_WANTS_TRANSFERS;
    o->readers = (p->wants & MT_WANTS_READERS) == MT_WANTS_READERS;
    o->addresses = (p->wants & MT_WANTS_ADDRESSES) == MT_WANTS_ADDRESSES;
    o->volumes = !p->wants && !o->host && (!p->session || p->session->members() == 1);
}

int mt_pipeline_open(struct mt_pipeline *p)
{
    int code;
    p->inputs.flags |= p->spaces ? MT_SOURCE_SPACES : 0;
    if (!(p->source = mt_inputs_source(&p->inputs, &code)))
        return code;
    mt_progress_init(&p->progress);
    p->progress.on &= !p->session || p->session->reports();
    pipeline_host(p);
    pipeline_options(p);
    /* One thread reads. With two in total, the other one does the whole analysis; the reading thread can add
     * up volumes. */
    const unsigned threads = p->options.volumes ? 1 : p->threads;
    p->team = p->session
                  ? p->session->team(&p->options)
                  : mt_team_of_threads(&p->options, mt_source_pool(p->source), threads > 2 ? threads - 1 : 1);
    if (p->team)
        pipeline_feed(p);
    if (!p->team || (p->inputs.ends && p->session->by_parts(p->team) != 0) ||
        (p->joined && p->session->apart(p->team, p->joined, p->source) != 0))
        return mt_cli_fail("no memory or no threads for the analysis");
    return 0;
}

int mt_pipeline_read(struct mt_pipeline *p)
{
    int rc = mt_feed_read(&p->feed);
    if (mt_cli_stop && p->progress.terminal && p->progress.on)
        mt_cli_note("interrupted: results of the part that was read follow; a second signal ends at once");
    p->why = p->feed.why ? p->feed.why : p->why;
    p->comm = p->team->comm;
    if (p->comm)
        p->comm->records += p->feed.unread;
    if (p->comm)
        p->comm->reported = !p->comm->partial ? p->comm->records
                            : p->inputs.ends || p->joined
                                ? p->comm->reported /* ranks count spans, or each its own */
                                : p->feed.reported;
    if (mt_session_stopped(p->session, p->team)) {
        mt_source_stop(p->source);
        rc = 0;
    }
    if (!p->comm && mt_session_again(p->session, p->team))
        return MT_EXIT_FAILURE; /* the caller prints the message */
    if (!p->comm)
        return feed_why(p->why ? p->why : mt_team_why(p->team));
    return rc ? mt_feed_failed(&p->feed, rc) : 0;
}

int mt_pipeline_finish(struct mt_pipeline *p, int *complete)
{
    int code = mt_inputs_finish(p->source, complete);
    return mt_comm_merged(p->comm) == 0 && mt_locality_run_finish(&p->more, p->comm) == 0 &&
                   mt_estimates_gather(&p->estimates, p->source, p->inputs.npaths) == 0
               ? code
               : mt_cli_fail("no memory for the analyses");
}

struct mt_comm_result mt_pipeline_result(const struct mt_pipeline *p, int complete, const char **notes)
{
    const struct mt_locality_run *x = &p->more;
    struct mt_comm_result r = {.comm = p->comm,
                               .events = p->events,
                               .inputs = p->inputs.paths,
                               .ninputs = p->inputs.npaths,
                               .source = p->source,
                               .complete = complete,
                               .chosen = x->options.chosen,
                               .locality = &x->more,
                               .sites = &x->sites,
                               .topology = x->topology.devices ? &x->topology : NULL,
                               .collectives = x->collectives,
                               .ncollectives = x->ncollectives,
                               .way = x->way,
                               .placement = &x->placement,
                               .estimates = &p->estimates,
                               .onchip = p->spaces ? &p->onchip.rows : NULL,
                               .notes = notes};
    for (int i = 0; i < MT_LOCALITY_RUN_NOTES; i++)
        if (p->more.notes[i][0])
            notes[r.nnotes++] = p->more.notes[i];
    return r;
}

void mt_pipeline_forget(struct mt_pipeline *p)
{
    mt_feed_free(&p->feed);
    mt_estimates_free(&p->estimates);
    free(p->events);
    p->events = NULL;
    p->nevents = p->event_room = 0;
    mt_locality_run_free(&p->more);
    mt_source_close(p->source);
    p->source = NULL;
    p->team = NULL;
    p->comm = NULL;
}

void mt_pipeline_free(struct mt_pipeline *p)
{
    mt_output_abandon(&p->out);
    mt_pipeline_forget(p);
    mt_filter_free(&p->filter);
    mt_inputs_free(&p->inputs);
}
