/* mt-extract --format text: a table for each part of the results, for people. */
#define _GNU_SOURCE
#include "locality_text.h"
#include "output/rows/links.h"
#include "output/rows/sorted.h"
#include "numbers.h"
#include "table.h"
#include "words.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void locality_text_percent(struct mt_table *t, uint64_t part, uint64_t all)
{
    if (all)
        mt_table_say(t, "%.1f %%", 100.0 * (double)part / (double)all);
    else
        mt_table_text(t, "-");
}

/* ---- sums over the launches of a kernel ---- */

static int comm_text_host(FILE *f, const struct mt_comm *c, size_t rows)
{
    struct mt_volume *sum = calloc(c->places.count + 1, sizeof *sum);
    struct mt_table t;
    if (!sum)
        return -1;
    for (size_t i = 0; i < c->nhosts; i++) {
        const struct mt_host_actor *h = &c->hosts[i];
        if (mt_comm_host_selected(c, h))
            mt_volume_add(&sum[h->place], &(struct mt_volume){.load = h->load,
                                                              .store = h->store,
                                                              .comm_load = h->comm_load,
                                                              .comm_store = h->comm_store});
    }
    mt_table_init(&t, "Bytes of host code by source line: all, and communication (comm.)",
                  "line|>loaded|>stored|>comm. loaded|>comm. stored");
    for (uint32_t i = 0; i < c->places.count; i++) {
        if (!(sum[i].load | sum[i].store))
            continue;
        mt_table_row(&t, sum[i].load + sum[i].store);
        mt_table_text(&t, mt_comm_location_name(c, i));
        mt_table_u64(&t, sum[i].load);
        mt_table_u64(&t, sum[i].store);
        mt_table_u64(&t, sum[i].comm_load);
        mt_table_u64(&t, sum[i].comm_store);
    }
    free(sum);
    return mt_table_print(&t, f, rows);
}

int mt_comm_text(FILE *f, const struct mt_comm *c, size_t rows)
{
    struct mt_table t;
    size_t *list = mt_launches_sorted(c), n = c->nlaunches;
    if (!list)
        return -1;
    mt_table_init(&t,
                  "Bytes by kernel: all, and communication (comm.). Who wrote what was loaded as "
                  "communication: another CTA "
                  "of the same launch, another CTA of an earlier launch, the same CTA of an earlier launch",
                  "kernel|>launches|>loaded|>stored|>comm. loaded|>comm. stored|>same launch|>earlier "
                  "launch|>same CTA");
    for (size_t i = 0; i < n;) {
        const char *kernel = c->launches[list[i]].kernel;
        struct mt_volume sum = {0};
        uint64_t launches = 0;
        for (; i < n && mt_locality_compare_text(c->launches[list[i]].kernel, kernel) == 0; i++) {
            struct mt_volume v = mt_volume_of_launch(c, list[i]);
            launches += c->launches[list[i]].selected != 0;
            if (c->launches[list[i]].selected)
                mt_volume_add(&sum, &v);
        }
        if (!launches)
            continue;
        mt_table_row(&t, sum.load + sum.store);
        mt_table_kernel(&t, kernel);
        mt_table_u64(&t, launches);
        mt_table_u64(&t, sum.load);
        mt_table_u64(&t, sum.store);
        mt_table_u64(&t, sum.comm_load);
        mt_table_u64(&t, sum.comm_store);
        for (int s = 0; s < MT_SENDER_KINDS; s++)
            mt_table_u64(&t, sum.from[s]);
    }
    free(list);
    return mt_table_print(&t, f, rows) | (c->options.host ? comm_text_host(f, c, rows) : 0);
}

/* ---- lines ---- */

static int lines_text_by(FILE *f, const struct mt_locality *m, const struct mt_sites *sites,
                         enum mt_lines_by by, size_t rows)
{
    static const char *const titles[] = {"Bytes by source line", "Bytes by variable", "Bytes by allocation"};
    static const char *const heads[] = {
        "line|kernel|>loads|>stores|>atomics|>bytes loaded|>bytes stored",
        "variable|kernel|>loads|>stores|>atomics|>bytes loaded|>bytes stored",
        "allocation|kernel|>loads|>stores|>atomics|>bytes loaded|>bytes stored"};
    char label[MT_ALLOC_LABEL];
    struct mt_table t;
    if (!mt_locality_has_sites(m, by)) {
        fprintf(f, "\n%s: not known\n", titles[by]);
        return 0;
    }
    mt_table_init(&t, titles[by], heads[by]);
    for (size_t i = 0; i < m->lines.count[by]; i++) {
        const struct mt_lines_cell *c = &m->lines.cells[by][i];
        mt_table_row(&t, c->load + c->store);
        mt_table_text(&t, by == MT_BY_LINE  ? mt_location_short(sites->lines.names[c->place])
                          : by == MT_BY_VAR ? sites->vars.names[c->place]
                                            : mt_alloc_label(label, m, c->place));
        mt_table_kernel(&t, c->kernel);
        for (int type = MT_LOAD; type <= MT_ATOMIC; type++)
            mt_table_u64(&t, c->accesses[type]);
        mt_table_u64(&t, c->load);
        mt_table_u64(&t, c->store);
    }
    return mt_table_print(&t, f, rows);
}

int mt_lines_text(FILE *f, const struct mt_comm_result *result, size_t rows)
{
    const struct mt_locality *m = result->locality;
    const struct mt_sites *sites = result->sites;
    int rc = 0;
    for (int by = 0; rc == 0 && by < MT_LINES_BY; by++)
        rc = lines_text_by(f, m, sites, (enum mt_lines_by)by, rows);
    return rc;
}

/* ---- coalescing ---- */

/* The lane stride of most requests; of equal ones the smallest. */
static void usual_stride(struct mt_table *t, const struct mt_coalescing *c, size_t cell)
{
    const struct mt_coalescing_stride *best = NULL;
    for (size_t i = 0; i < c->nstrides; i++) {
        const struct mt_coalescing_stride *s = &c->strides[i];
        if (s->cell == cell && (!best || s->requests > best->requests ||
                                (s->requests == best->requests && s->stride < best->stride)))
            best = s;
    }
    if (best && best->requests >= c->cells[cell].irregular && best->requests >= c->cells[cell].single)
        mt_table_say(t, "%" PRId64, best->stride);
    else
        mt_table_text(t, c->cells[cell].irregular >= c->cells[cell].single ? "irregular" : "one lane");
}

int mt_coalescing_halves(const struct mt_coalescing *c, size_t cell)
{
    int some = 0;
    for (size_t i = 0; i < c->nstrides; i++) {
        const struct mt_coalescing_cell *x = &c->cells[c->strides[i].cell];
        some |= (cell == SIZE_MAX || c->strides[i].cell == cell) &&
                (c->strides[i].stride == 16 || c->strides[i].stride == -16) && x->bytes < 16 * x->accesses;
    }
    return some;
}

int mt_coalescing_text(FILE *f, const struct mt_comm_result *result, size_t rows)
{
    const struct mt_locality *m = result->locality;
    const struct mt_sites *sites = result->sites;
    const struct mt_coalescing *c = &m->coalescing;
    struct mt_table t;
    if (!mt_locality_has_masks(m)) {
        fputs("\nCoalescing: not known, the trace has no lane masks\n", f);
        return 0;
    }
    mt_table_init(&t,
                  "Coalescing: 32-byte sectors and 128-byte lines per request of a warp, most traffic first; "
                  "efficiency: different bytes asked for / bytes moved",
                  "line|kernel|type|>requests|>lanes|>sectors|>lines|>efficiency|>usual stride");
    for (size_t i = 0; i < c->count; i++) {
        const struct mt_coalescing_cell *x = &c->cells[i];
        double n = (double)x->requests;
        mt_table_row(&t, x->sectors);
        mt_table_text(&t, mt_location_short(sites->lines.names[x->line]));
        mt_table_kernel(&t, x->kernel);
        mt_table_text(&t, mt_access_types[x->type]);
        mt_table_u64(&t, x->requests);
        mt_table_say(&t, "%.1f", (double)x->accesses / n);
        mt_table_say(&t, "%.2f", (double)x->sectors / n);
        mt_table_say(&t, "%.2f", (double)x->lines / n);
        mt_table_say(&t, "%.1f %%", 100.0 * mt_efficiency(x->distinct, x->sectors));
        usual_stride(&t, c, i);
    }
    if (mt_table_print(&t, f, rows) != 0)
        return -1;
    if (mt_coalescing_halves(c, SIZE_MAX))
        fputs(mt_table_halves, f);
    if (c->unmasked)
        fprintf(f, "  %" PRIu64 " accesses have no lane mask and are left out\n", c->unmasked);
    return 0;
}

/* ---- reuse ---- */

/* Uses below a distance of 2^b lines: what a cache of that many lines would hit. */
static uint64_t locality_text_below(const struct mt_reuse_counts *c, unsigned b)
{
    uint64_t n = 0;
    for (unsigned k = 0; k <= b; k++)
        n += c->histogram[k];
    return n;
}

static void reuse_row(struct mt_table *t, const char *kernel, const char *level,
                      const struct mt_reuse_counts *c)
{
    uint64_t uses = c->cold;
    for (unsigned b = 0; b < MT_REUSE_BUCKETS; b++)
        uses += c->histogram[b];
    mt_table_row(t, 0);
    mt_table_kernel(t, kernel);
    mt_table_text(t, level);
    mt_table_u64(t, c->contexts);
    mt_table_u64(t, c->largest);
    locality_text_percent(t, c->cold, uses);
    for (unsigned b = 6; b <= 18; b += 4)
        locality_text_percent(t, locality_text_below(c, b), uses);
}

static void locality_text_add(struct mt_reuse_counts *sum, const struct mt_reuse_counts *c)
{
    for (unsigned b = 0; b < MT_REUSE_BUCKETS; b++)
        sum->histogram[b] += c->histogram[b];
    sum->cold += c->cold;
    sum->contexts += c->contexts;
    sum->largest = c->largest > sum->largest ? c->largest : sum->largest;
}

/* Of a sample: what its errors are. */
static void locality_text_sample(FILE *f, const struct mt_reuse *r)
{
    double most = -1;
    for (size_t i = 0; i < r->count; i++) {
        const struct mt_reuse_launch *l = &r->launches[i];
        const double error = mt_reuse_error(l), part = l->uses ? error / (double)l->uses : 0;
        most = l->selected && error >= 0 && part > most ? part : most;
    }
    if (most >= 0)
        fprintf(
            f,
            "  an estimate: of the device one of %llu lines is followed, and the standard error of a part of "
            "a launch's uses is at most %s %% (--sample=1: exact)\n",
            1ull << r->sample_bits, mt_number_decimals(100 * most, 1).text);
}

/* How much the whole run touches, as a line. */
static void locality_text_footprint(FILE *f, const struct mt_reuse *r)
{
    uint64_t lines = mt_reuse_footprint(r);
    fprintf(f, "  the run touches %s%s of %llu bytes (%s): its footprint\n", r->sample_bits ? "about " : "",
            mt_number_many(lines, "line", "lines").text, 1ull << r->options.line_bits,
            mt_number_bytes(lines << r->options.line_bits).text);
}

int mt_reuse_text(FILE *f, const struct mt_comm_result *result, size_t rows)
{
    const struct mt_locality *m = result->locality;
    const struct mt_reuse *r = &m->reuse;
    struct mt_table t;
    char title[200];
    size_t n;
    const struct mt_reuse_launch **list = mt_reuse_sorted(r, &n);
    if (!list)
        return -1;
    snprintf(title, sizeof title,
             "Reuse of lines of %llu bytes: part of the uses at a distance of fewer lines than",
             1ull << r->options.line_bits);
    mt_table_init(&t, title, "kernel|of a|>number|>most lines|>cold|>64|>1024|>16384|>262144");
    for (size_t i = 0, first; i < n;) {
        struct mt_reuse_counts sum[MT_REUSE_LEVELS];
        memset(sum, 0, sizeof sum);
        for (first = i; i < n && mt_locality_compare_text(list[i]->kernel, list[first]->kernel) == 0; i++)
            for (int level = 0; level < MT_REUSE_LEVELS; level++)
                locality_text_add(&sum[level], &list[i]->level[level]);
        sum[MT_REUSE_DEVICE].contexts = 1;
        for (int level = 0; level < MT_REUSE_LEVELS; level++)
            reuse_row(&t, list[first]->kernel, mt_reuse_levels[level], &sum[level]);
    }
    free(list);
    if (mt_table_print(&t, f, rows * MT_REUSE_LEVELS) != 0)
        return -1;
    locality_text_footprint(f, r);
    locality_text_sample(f, r);
    return 0;
}

/* ---- sharing ---- */

static int shared_order(const void *a, const void *b)
{
    const struct mt_sharing_cell *x = a, *y = b;
    int d = mt_locality_compare_text(x->kernel, y->kernel);
    return d ? d : x->alloc + 1 < y->alloc + 1 ? -1 : x->alloc + 1 > y->alloc + 1;
}

int mt_sharing_text(FILE *f, const struct mt_comm_result *result, size_t rows)
{
    const struct mt_locality *m = result->locality;
    const struct mt_sharing *s = &m->sharing;
    struct mt_sharing_cell *cells = malloc((s->count + 1) * sizeof *cells);
    char title[200], label[MT_ALLOC_LABEL];
    struct mt_table t;
    if (!cells)
        return -1;
    if (s->count)
        memcpy(cells, s->cells, s->count * sizeof *cells);
    qsort(cells, s->count, sizeof *cells, shared_order);
    snprintf(title, sizeof title,
             "Sharing of lines of %llu bytes between CTAs of a launch, summed over launches",
             1ull << s->options.line_bits);
    mt_table_init(&t, title, "kernel|allocation|>private|>read|>true|>false|>accesses to false|>to all");
    for (size_t i = 0; i < s->count;) {
        struct mt_sharing_cell sum = cells[i];
        for (i++; i < s->count && shared_order(&cells[i], &sum) == 0; i++)
            for (int kind = 0; kind < MT_SHARING_KINDS; kind++) {
                sum.lines[kind] += cells[i].lines[kind];
                sum.accesses[kind] += cells[i].accesses[kind];
            }
        uint64_t all = 0;
        for (int kind = 0; kind < MT_SHARING_KINDS; kind++)
            all += sum.accesses[kind];
        mt_table_row(&t, sum.accesses[MT_SHARED_FALSE]);
        mt_table_kernel(&t, sum.kernel);
        mt_table_text(&t, mt_alloc_label(label, m, sum.alloc));
        for (int kind = 0; kind < MT_SHARING_KINDS; kind++)
            mt_table_u64(&t, sum.lines[kind]);
        mt_table_u64(&t, sum.accesses[MT_SHARED_FALSE]);
        mt_table_u64(&t, all);
    }
    free(cells);
    return mt_table_print(&t, f, rows);
}

/* ---- conflicts ---- */

static int conflict_order(const void *a, const void *b)
{
    const struct mt_conflict *x = a, *y = b;
    int d = mt_locality_compare_text(x->kernel, y->kernel);
    for (int i = 0; i < 2 && !d; i++)
        d = x->side[i] < y->side[i] ? -1 : x->side[i] > y->side[i];
    return d ? d : x->superstep < y->superstep ? -1 : x->superstep > y->superstep;
}

static void side_text(struct mt_table *t, const struct mt_sites *sites, uint32_t side)
{
    uint32_t line = mt_side_line(side);
    mt_table_say(t, "%s %s", mt_words_type(mt_side_type(side)),
                 line ? mt_location_short(sites->lines.names[line]) : "?");
}

static void cta_text(struct mt_table *t, uint64_t cta)
{
    char key[64];
    mt_table_text(t, mt_words_cta(key, mt_cta_order(cta)));
}

int mt_conflicts_text(FILE *f, const struct mt_comm_result *result, size_t rows)
{
    const struct mt_locality *m = result->locality;
    const struct mt_sites *sites = result->sites;
    size_t n = m->conflicts.count;
    struct mt_conflict *list = malloc((n + 1) * sizeof *list);
    struct mt_table t;
    if (!list)
        return -1;
    if (n)
        memcpy(list, m->conflicts.list, n * sizeof *list);
    qsort(list, n, sizeof *list, conflict_order);
    mt_table_init(&t,
                  "Conflicts: bytes that two CTAs of one launch access, at least one with a plain store "
                  "(races, unless the "
                  "program orders them)",
                  "kernel|one|other|>launches|>bytes|>launch|address|CTA|CTA|note");
    for (size_t i = 0, first; i < n;) {
        uint64_t bytes = 0;
        for (first = i; i < n && mt_locality_compare_text(list[i].kernel, list[first].kernel) == 0 &&
                        list[i].side[0] == list[first].side[0] && list[i].side[1] == list[first].side[1];
             i++)
            bytes += list[i].bytes;
        mt_table_row(&t, bytes);
        mt_table_kernel(&t, list[first].kernel);
        side_text(&t, sites, list[first].side[0]);
        side_text(&t, sites, list[first].side[1]);
        mt_table_u64(&t, i - first);
        mt_table_u64(&t, bytes);
        mt_table_u64(&t, list[first].superstep);
        mt_table_say(&t, "0x%" PRIx64, list[first].address);
        cta_text(&t, list[first].cta[0]);
        cta_text(&t, list[first].cta[1]);
        mt_table_text(&t, list[first].cooperative ? "cooperative" : "");
    }
    free(list);
    return mt_table_print(&t, f, rows);
}

/* ---- misses ---- */

int mt_misses_text(FILE *f, const struct mt_comm_result *result, size_t rows)
{
    const struct mt_locality *m = result->locality;
    const struct mt_sites *sites = result->sites;
    const struct mt_misses *x = &m->misses;
    char title[200];
    struct mt_table t;
    if (!x->known)
        return 0;
    struct mt_miss *list = mt_misses_sorted(x, sites);
    if (!list)
        return -1;
    snprintf(
        title, sizeof title,
        "Misses of a cache of %u bytes, %u ways and lines of %llu bytes that each thread has, and what is "
        "used of what they fetch",
        x->options.cache_bytes, x->options.cache_ways, 1ull << x->options.line_bits);
    mt_table_init(&t, title, "line|>accesses|>misses|>part|>by stores|>bytes fetched|>used|>part");
    for (size_t i = 0; i < x->count; i++) {
        const struct mt_miss *r = &list[i];
        mt_table_row(&t, r->misses);
        mt_table_text(&t, mt_location_short(sites->lines.names[r->line]));
        mt_table_u64(&t, r->accesses);
        mt_table_u64(&t, r->misses);
        locality_text_percent(&t, r->misses, r->accesses);
        mt_table_u64(&t, r->store_misses);
        mt_table_u64(&t, r->fetched);
        mt_table_u64(&t, r->used);
        locality_text_percent(&t, r->used, r->fetched);
    }
    free(list);
    return mt_table_print(&t, f, rows);
}

/* ---- bounces ---- */

int mt_bounces_text(FILE *f, const struct mt_comm_result *result, size_t rows)
{
    const struct mt_locality *m = result->locality;
    const struct mt_sites *sites = result->sites;
    char label[MT_ALLOC_LABEL];
    struct mt_table t;
    if (!m->bounces.known)
        return 0;
    struct mt_bounce *list = mt_bounces_sorted(&m->bounces);
    if (!list)
        return -1;
    mt_table_init(&t,
                  "Cache lines handed over, modified, from one thread to another: by who stored last and who "
                  "takes over",
                  "buffer|stored by|taken by|type|>times|>common bytes|>other bytes|>thread|>thread");
    for (size_t i = 0; i < m->bounces.count; i++) {
        const struct mt_bounce *b = &list[i];
        mt_table_row(&t, b->times);
        mt_table_text(&t, mt_alloc_label(label, m, b->alloc));
        for (int k = 0; k < 2; k++)
            mt_table_text(&t, mt_location_short(sites->lines.names[b->line[k]]));
        mt_table_text(&t, mt_words_type(b->type));
        mt_table_u64(&t, b->times);
        mt_table_u64(&t, b->same);
        mt_table_u64(&t, b->times - b->same);
        mt_table_u64(&t, b->thread[0] >> 32);
        mt_table_u64(&t, b->thread[1] >> 32);
    }
    free(list);
    return mt_table_print(&t, f, rows);
}

/* ---- traffic ---- */

int mt_traffic_text(FILE *f, const struct mt_comm_result *result, size_t rows)
{
    const struct mt_locality *m = result->locality;
    const struct mt_traffic_grid *g = &m->traffic.launches;
    char label[MT_ALLOC_LABEL];
    struct mt_table t;
    mt_table_init(&t, "Allocations and launches: in how many each was read and written",
                  "allocation|>bytes|>read in|>written in|>bytes loaded|>bytes stored|>first|>last launch");
    for (size_t i = 0; i < g->count;) {
        const size_t first = i;
        uint64_t sum[4] = {0};
        for (; i < g->count && g->cells[i].alloc == g->cells[first].alloc; i++) {
            sum[0] += g->cells[i].load != 0;
            sum[1] += g->cells[i].store != 0;
            sum[2] += g->cells[i].load;
            sum[3] += g->cells[i].store;
        }
        mt_table_row(&t, sum[2] + sum[3]);
        mt_table_text(&t, mt_alloc_label(label, m, g->cells[first].alloc));
        if (g->cells[first].alloc < m->nallocs)
            mt_table_u64(&t, mt_alloc_bytes(&m->allocs[g->cells[first].alloc]));
        else
            mt_table_text(&t, "-");
        for (int k = 0; k < 4; k++)
            mt_table_u64(&t, sum[k]);
        mt_table_u64(&t, (uint64_t)g->cells[first].superstep << g->step_bits);
        mt_table_u64(&t, (uint64_t)g->cells[i - 1].superstep << g->step_bits);
    }
    return mt_table_print(&t, f, rows);
}

/* ---- devices ---- */

/* One link with all that goes over it: the list is by link. */
static void links_text_row(struct mt_table *t, const struct mt_link_load *list, size_t n)
{
    uint64_t by[MT_FLOWS] = {0}, all = 0;
    const struct mt_link_load *most = list;
    for (size_t i = 0; i < n; i++) {
        by[list[i].how] += list[i].bytes;
        all += list[i].bytes;
        most = list[i].bytes > most->bytes ? &list[i] : most;
    }
    mt_table_row(t, all);
    mt_table_text(t, list->link.name);
    mt_table_text(t, mt_topology_words[list->link.kind]);
    mt_table_say(t, "%.1f", list->link.speed / 1e9);
    mt_table_u64(t, by[MT_FLOW_LOAD] + by[MT_FLOW_UNKNOWN]);
    mt_table_u64(t, by[MT_FLOW_STORE] + by[MT_FLOW_ATOMIC]);
    mt_table_u64(t, by[MT_FLOW_COPY]);
    mt_table_u64(t, by[MT_FLOW_COLLECTIVE]);
    mt_table_say(t, "%.3f", (double)all / list->link.speed * 1e3);
    mt_table_kernel(t, most->kernel ? most->kernel : mt_device_flow_names[most->how]);
}

static int links_text(FILE *f, const struct mt_comm_result *result, size_t rows)
{
    size_t n, end;
    uint64_t outside;
    struct mt_table t;
    struct mt_link_load *list = mt_link_loads(result, &n, &outside);
    if (!list)
        return -1;
    mt_table_init(&t, "Over links, in one direction, and how long that takes at the link's speed",
                  "link|kind|>GB/s|>loads (B)|>stores (B)|>copies (B)|>collectives (B)|>ms|most for");
    for (size_t i = 0; i < n; i = end) {
        for (end = i; end < n && strcmp(list[end].link.name, list[i].link.name) == 0;)
            end++;
        links_text_row(&t, list + i, end - i);
    }
    free(list);
    int rc = mt_table_print(&t, f, rows);
    if (outside)
        fprintf(f, "  %" PRIu64 " bytes to or from devices that the topology does not have\n", outside);
    return rc;
}

int mt_devices_text(FILE *f, const struct mt_comm_result *result, size_t rows)
{
    size_t n;
    struct mt_table t;
    struct mt_device_flow *list = mt_device_flows(result, 1, &n);
    if (!list || !n) {
        free(list);
        return list ? 0 : -1;
    }
    mt_table_init(&t,
                  "From device to device, and host: by loads and stores of kernels, copies, and collectives",
                  "by|from|to|>accesses|>bytes");
    for (size_t i = 0; i < n; i++) {
        mt_table_row(&t, list[i].from == list[i].to ? 0 : list[i].bytes);
        mt_table_text(&t, mt_device_flow_names[list[i].how]);
        mt_table_text(&t, mt_device_flow_place(list[i].from).text);
        mt_table_text(&t, mt_device_flow_place(list[i].to).text);
        mt_table_u64(&t, list[i].accesses);
        mt_table_u64(&t, list[i].bytes);
    }
    free(list);
    int rc = mt_table_print(&t, f, rows);
    return rc != 0 || !result->topology ? rc : links_text(f, result, rows);
}

int mt_locality_text(FILE *f, const struct mt_comm_result *result, size_t rows)
{
    static int (*const write[MT_LOCALITY_OF_RUNS])(FILE *, const struct mt_comm_result *, size_t) = {
#define MT_ANALYSIS(NAME, name, cost, every) mt_##name##_text,
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS
    };
    int rc = 0;
    for (int i = 0; i < MT_LOCALITY_OF_RUNS && rc == 0; i++)
        if (mt_locality_has(result->locality, (enum mt_locality_section)i))
            rc = write[i](f, result, rows);
    return rc;
}

const char *const mt_placement_words[MT_PLACE_POLICIES] = {"blocks of CTAs", "round robin",
                                                           "least traffic found"};

int mt_placement_text(FILE *f, const struct mt_placement *p)
{
    struct mt_table t;
    char title[200];
    snprintf(title, sizeof title,
             "Placement on %u devices: of %" PRIu64 " bytes of communication, those that cross", p->devices,
             p->load);
    mt_table_init(&t, title, "placement|>bytes|>part|>distinct bytes");
    if (p->ran_known) {
        mt_table_row(&t, 0);
        mt_table_text(&t, "as it ran");
        mt_table_u64(&t, p->ran);
        locality_text_percent(&t, p->ran, p->load);
    }
    for (int policy = 0; policy < MT_PLACE_POLICIES; policy++) {
        mt_table_row(&t, 0);
        mt_table_text(&t, mt_placement_words[policy]);
        mt_table_u64(&t, p->cross[policy]);
        locality_text_percent(&t, p->cross[policy], p->load);
        if (p->distinct_known)
            mt_table_u64(&t, p->distinct[policy]);
        else
            mt_table_text(&t, "?");
    }
    return mt_table_print(&t, f, MT_PLACE_POLICIES + 1);
}
