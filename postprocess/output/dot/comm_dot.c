/* Transfers as a graph for Graphviz. */
#define _GNU_SOURCE
#include "output/rows/comm_formats.h"
#include "output/rows/sorted.h"
#include "analysis/base/pairmap.h"
#include "memtrace/order.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct edge {
    uint64_t src, dst; /* nodes: what the end is, see node_of */
    uint64_t bytes, accesses;
    int unordered;
};

struct dot {
    const struct mt_comm *c;
    enum mt_dot_by by;
    uint32_t *same;         /* of each launch: the first one of its kernel */
    uint32_t *actor, *rank; /* CTA instances in order, and back; only by CTA */
    struct edge *edges;
    size_t n;
};

#define HOST (UINT64_C(1) << 63)

/* kernel: its first launch; launch: its number; CTA: its rank. Of the host: the place. */
static uint64_t node_of(const struct dot *d, uint32_t id)
{
    if (id & MT_ENTRY_HOST)
        return HOST | d->c->hosts[id & MT_ENTRY_MAX].place;
    uint32_t launch = d->c->actors[id].launch;
    return d->by == MT_DOT_CTA ? d->rank[id] : d->by == MT_DOT_LAUNCH ? launch : d->same[launch];
}

static int comm_dot_add(struct dot *d, struct mt_pairmap *index, const struct mt_transfer *t)
{
    uint64_t src = node_of(d, t->src), dst = node_of(d, t->dst);
    uint64_t *at = mt_pairmap_get(index, src, dst, d->n);
    if (!at)
        return -1;
    if (*at == d->n)
        d->edges[d->n++] = (struct edge){.src = src, .dst = dst};
    struct edge *e = &d->edges[*at];
    e->bytes += t->size;
    e->accesses += t->count;
    e->unordered |= mt_transfer_unordered(d->c, t);
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    return x->dst < y->dst ? -1 : x->dst > y->dst;
}

MT_ORDER_2(by_nodes, struct edge, src, dst)

static void comm_dot_quoted(FILE *f, const char *s)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', f);
        fputc(*s == '\n' ? ' ' : *s, f);
    }
}

static void comm_dot_amount(char out[32], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    unsigned u = 0;
    for (; v >= 1024 && u < 6; u++)
        v /= 1024;
    snprintf(out, 32, u ? "%.3g %s" : "%.0f %s", v, units[u]);
}

static void name_of(FILE *f, uint64_t node)
{
    if (node & HOST)
        fprintf(f, "h%" PRIu64, node & ~HOST);
    else
        fprintf(f, "n%" PRIu64, node);
}

static void write_node(FILE *f, const struct dot *d, uint64_t node)
{
    const struct mt_comm *c = d->c;
    char key[64];
    fputs("  ", f);
    name_of(f, node);
    fputs(" [label=\"", f);
    if (node & HOST) {
        comm_dot_quoted(f, MT_HOST_NAME);
        if (c->options.host) {
            fputs("\\n", f);
            comm_dot_quoted(f, mt_comm_location_name(c, (uint32_t)(node & ~HOST)));
        }
        fputs("\", style=filled, fillcolor=gray90];\n", f);
        return;
    }
    const struct mt_actor *a = d->by == MT_DOT_CTA ? &c->actors[d->actor[node]] : NULL;
    uint32_t launch = a ? a->launch : (uint32_t)node;
    comm_dot_quoted(f, c->launches[launch].kernel);
    if (d->by != MT_DOT_KERNEL)
        fprintf(f, "\\nsuperstep %" PRIu32, launch);
    if (a)
        fprintf(f, "\\nCTA %s", mt_cta_key(key, mt_cta_order(a->cta)));
    fputs("\"];\n", f);
}

static void write_edge(FILE *f, const struct edge *e, uint64_t most)
{
    char size[32];
    comm_dot_amount(size, e->bytes);
    fputs("  ", f);
    name_of(f, e->src);
    fputs(" -> ", f);
    name_of(f, e->dst);
    fprintf(f, " [label=\"%s\", tooltip=\"%" PRIu64 " bytes in %" PRIu64 " accesses\", penwidth=%.2f%s];\n",
            size, e->bytes, e->accesses, 0.5 + 2 * log2(1 + (double)e->bytes) / log2(2 + (double)most),
            e->unordered ? ", style=dashed" : "");
}

static int write_graph(FILE *f, struct dot *d, size_t top)
{
    size_t shown = top && top < d->n ? top : d->n, n = 0;
    uint64_t *nodes = malloc((2 * shown + 1) * sizeof *nodes), left = 0;
    if (!nodes)
        return -1;
    qsort(d->edges, d->n, sizeof *d->edges, by_bytes);
    uint64_t most = d->n ? d->edges[0].bytes : 0;
    for (size_t i = shown; i < d->n; i++)
        left += d->edges[i].bytes;
    for (size_t i = 0; i < shown; i++) {
        nodes[n++] = d->edges[i].src;
        nodes[n++] = d->edges[i].dst;
    }
    qsort(nodes, n, sizeof *nodes, mt_order_u64);
    qsort(d->edges, shown, sizeof *d->edges, by_nodes);
    fputs("digraph transfers {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n"
          "  edge [fontname=\"sans-serif\", fontsize=10];\n",
          f);
    if (shown < d->n) {
        char size[32];
        comm_dot_amount(size, left);
        fprintf(f, "  label=\"the %zu largest of %zu transfers; the others have %s\";\n", shown, d->n, size);
    }
    for (size_t i = 0; i < n; i++)
        if (i == 0 || nodes[i] != nodes[i - 1])
            write_node(f, d, nodes[i]);
    for (size_t i = 0; i < shown; i++)
        write_edge(f, &d->edges[i], most);
    fputs("}\n", f);
    free(nodes);
    return 0;
}

/* same[i]: the first launch with the kernel of launch i. */
static int first_launches(struct dot *d)
{
    uint32_t *distinct = malloc((d->c->nlaunches + 1) * sizeof *distinct);
    size_t n = 0;
    if (!distinct)
        return -1;
    for (size_t i = 0; i < d->c->nlaunches; i++) {
        const char *kernel = d->c->launches[i].kernel;
        size_t k = 0;
        while (k < n && d->c->launches[distinct[k]].kernel != kernel &&
               strcmp(d->c->launches[distinct[k]].kernel, kernel) != 0)
            k++;
        if (k == n)
            distinct[n++] = (uint32_t)i;
        d->same[i] = distinct[k];
    }
    free(distinct);
    return 0;
}

static int cta_order(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg;
    const struct mt_actor *x = &c->actors[*(const uint32_t *)a], *y = &c->actors[*(const uint32_t *)b];
    if (x->launch != y->launch)
        return x->launch < y->launch ? -1 : 1;
    uint64_t p = mt_cta_order(x->cta), q = mt_cta_order(y->cta);
    return p < q ? -1 : p > q;
}

/* Numbers CTA instances by launch and CTA, whatever the order in which they appeared. */
static int rank_ctas(struct dot *d)
{
    size_t n = 0;
    d->actor = malloc((d->c->nactors + 1) * sizeof *d->actor);
    d->rank = malloc((d->c->nactors + 1) * sizeof *d->rank);
    if (!d->actor || !d->rank)
        return -1;
    for (uint32_t i = 1; i < d->c->nactors; i++)
        if (d->c->actors[i].instance == i)
            d->actor[n++] = i;
    qsort_r(d->actor, n, sizeof *d->actor, cta_order, (void *)d->c);
    for (size_t i = 0; i < n; i++)
        d->rank[d->actor[i]] = (uint32_t)i;
    return 0;
}

int mt_dot_write(FILE *f, const struct mt_comm_result *r, enum mt_dot_by by, size_t top)
{
    struct dot d = {.c = r->comm, .by = by};
    struct mt_pairmap index = {.slot = NULL};
    int rc = -1;
    d.same = malloc((d.c->nlaunches + 1) * sizeof *d.same);
    d.edges = malloc((d.c->ntransfers + 1) * sizeof *d.edges);
    if (!d.same || !d.edges)
        goto out;
    if (first_launches(&d) != 0 || (by == MT_DOT_CTA && rank_ctas(&d) != 0))
        goto out;
    for (size_t i = 0; i < d.c->ntransfers; i++)
        if (comm_dot_add(&d, &index, &d.c->transfers[i]) != 0)
            goto out;
    rc = write_graph(f, &d, top);
out:
    mt_pairmap_free(&index);
    free(d.same);
    free(d.actor);
    free(d.rank);
    free(d.edges);
    return rc;
}
