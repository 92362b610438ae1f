/* Runs the further analyses (analysis/locality/) on a source, for memtrace extract and memtrace report. */
#define _GNU_SOURCE
#include "locality_run.h"
#include "analysis/base/order.h"
#include "analysis/comm/shadow.h"
#include "memtrace/grow.h"
#include "base/text.h"
#include "reader/base/pool.h"
#include <errno.h>
#include <inttypes.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

int mt_locality_run_option(struct mt_locality_run *x, int option, const char *value)
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

int mt_cli_threads_option(unsigned *threads, const char *value)
{
    uint64_t n;
    if (!mt_cli_number(value, 1, THREADS_MOST, &n))
        return mt_cli_usage("--threads is a number from 1 to %d, not '%s'", THREADS_MOST, value);
    *threads = (unsigned)n;
    return 0;
}

static const struct mt_site_table *table_of(struct mt_locality_run *x, size_t input)
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
    if (!e || !e->collective.op || !*e->collective.op || (e->has_records && !e->records) ||
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
    x->launch.sites = table_of(x, l->input);
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

/* ---- placement ---- */

static int by_cta(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg;
    uint64_t x = mt_cta_order(c->actors[*(const uint32_t *)a].cta),
             y = mt_cta_order(c->actors[*(const uint32_t *)b].cta);
    return x < y ? -1 : x > y;
}

/* Adds the CTAs of one launch; node[] by actor. `order` has room for all of them. */
static int add_launch(struct mt_placement *p, const struct mt_comm *c, const struct mt_comm_launch *l,
                      uint32_t *node, uint32_t *order)
{
    size_t n = 0;
    int rc = mt_placement_launch(p);
    for (uint32_t i = l->first; i < l->end; i++)
        if (c->actors[i].instance == i)
            order[n++] = i;
    qsort_r(order, n, sizeof *order, by_cta, (void *)c);
    for (size_t i = 0; i < n && rc == 0; i++) {
        node[order[i]] = (uint32_t)p->nnodes;
        rc = mt_placement_cta(p, mt_cta_order(c->actors[order[i]].cta));
    }
    return rc;
}

/* Returns the device of a launch, or -1 if it is unknown or there is only one. */
static int64_t locality_run_ran(const struct mt_locality_run *x, uint64_t launch)
{
    return launch < x->nran ? x->ran[launch] : -1;
}

static int locality_run_place(struct mt_locality_run *x, const struct mt_comm *c)
{
    struct mt_placement *p = &x->placement;
    uint32_t *node = calloc(c->nactors + 1, sizeof *node), *order = malloc((c->nactors + 1) * sizeof *order);
    int rc = node && order && mt_placement_init(p, x->devices) == 0 ? 0 : -1;
    for (size_t i = 0; i < c->nlaunches && rc == 0; i++)
        rc = add_launch(p, c, &c->launches[i], node, order);
    for (size_t i = 0; i < c->ntransfers && rc == 0; i++) {
        const struct mt_transfer *t = &c->transfers[i];
        if (!((t->src | t->dst) & MT_ENTRY_HOST))
            rc = mt_placement_edge(p, node[t->src], node[t->dst], t->size);
        if (rc == 0 && !((t->src | t->dst) & MT_ENTRY_HOST) &&
            locality_run_ran(x, c->actors[t->src].launch) != locality_run_ran(x, c->actors[t->dst].launch))
            p->ran += t->size;
    }
    p->ran_known = x->nran != 0;
    rc = rc ? rc : mt_placement_solve(p);
    if (rc == 0 && c->options.readers && !c->readers.lost)
        rc = mt_placement_distinct(p, c->readers.sets, c->readers.n, node);
    free(node);
    free(order);
    return rc;
}

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

int mt_locality_run_finish(struct mt_locality_run *x, const struct mt_comm *comm)
{
    if (!x->options.chosen)
        return 0;
    if (mt_locality_finish(&x->more) != 0)
        return -1;
    if (mt_locality_run_has(x, MT_LOCALITY_COALESCING) && !mt_locality_has_masks(&x->more) &&
        x->more.coalescing.unmasked > x->more.coalescing.ungrouped && !comm->options.threads)
        strcpy(x->notes[0], "coalescing: null, the trace has no lane masks (compact traces of kernels have "
                            "them unless converted from raw; calls of libraries have none)");
    if (lacks_lines(x))
        strcpy(x->notes[1], "source lines and variables are not known: the trace has no sites (compact "
                            "traces of kernels have them), or was read live");
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
    return mt_locality_run_has(x, MT_LOCALITY_PLACEMENT) ? locality_run_place(x, comm) : 0;
}

void mt_locality_run_notes(const struct mt_locality_run *x, struct mt_json *j)
{
    for (int i = 0; i < MT_LOCALITY_RUN_NOTES; i++)
        if (x->notes[i][0])
            mt_json_text(j, NULL, x->notes[i]);
}

void mt_locality_run_head(const struct mt_locality_run *x, FILE *f, const struct mt_comm *comm,
                          const struct mt_extract_text *head)
{
    const size_t launches = mt_comm_reported_launches(comm);
    if (launches < comm->nlaunches)
        fprintf(f, "%zu of the run's ", launches);
    if (!comm->options.threads)
        fprintf(f, "%zu launches, ", comm->nlaunches);
    else if (comm->nlaunches > 1)
        fprintf(f, "%zu programs, ", comm->nlaunches);
    if (comm->reported < comm->records)
        fprintf(f, "%" PRIu64 " of its ", comm->reported);
    fprintf(f, "%" PRIu64 " accesses%s", comm->records, comm->reported > comm->records ? " in all" : "");
    if (comm->options.threads)
        fputs(" of host code", f);
    else if (comm->options.host)
        fprintf(f, ", %" PRIu64 " of host code", comm->host_accesses);
    fprintf(f, "%s\n",
            head->complete > 0 ? ""
            : head->complete   ? "; it is not known whether that is all"
                               : "; INCOMPLETE");
    for (size_t i = 0; i < head->nnotes; i++)
        fprintf(f, "note: %s\n", head->notes[i]);
    for (int i = 0; i < MT_LOCALITY_RUN_NOTES; i++)
        if (x->notes[i][0])
            fprintf(f, "note: %s\n", x->notes[i]);
    for (int i = 0; i < MT_GAPS; i++)
        if (head->gaps.sentence[i]) {
            fputs("note: ", f);
            mt_text_put(f, head->gaps.sentence[i]);
            fputc('\n', f);
        }
}

const struct mt_topology *mt_locality_run_topology(const struct mt_locality_run *x)
{
    return x->topology.devices ? &x->topology : NULL;
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
    for (size_t i = 0; i < x->ninputs && x->tables; i++)
        mt_site_table_free(&x->tables[i]);
    free(x->tables);
    free(x->known);
    mt_placement_free(&x->placement);
    free(x->ran);
    free(x->collectives);
}

void mt_locality_run_drop(struct mt_locality_run *x)
{
    x->options.chosen &= 1u << MT_LOCALITY_PLACEMENT;
    x->more.options.chosen = x->options.chosen;
}

void mt_locality_run_again(struct mt_locality_run *x)
{
    const struct mt_locality_run old = *x;
    mt_locality_run_free(x);
    mt_locality_run_init(x);
    x->options = old.options;
    x->devices = old.devices;
    x->topology = old.topology;
    x->way = old.way;
    x->quiet = old.quiet;
    x->rows = old.rows;
}
