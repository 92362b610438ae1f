/* Transfers and estimates as tables for people. */
#define _GNU_SOURCE
#include "locality_text.h"
#include "output/rows/sorted.h"
#include "table.h"
#include "words.h"
#include <stdlib.h>
#include <string.h>

/* ---- transfers ---- */

static const char *comm_text_kernel(const struct mt_comm *c, uint32_t id)
{
    return id & MT_ENTRY_HOST ? MT_HOST_NAME : c->launches[c->actors[id].launch].kernel;
}

static void comm_text_group(struct mt_table *t, const struct mt_comm *c, const uint32_t *ranks, uint64_t rank)
{
    size_t i = 0;
    while (rank != MT_SENT_HOST && ranks[i] != rank)
        i++;
    mt_table_kernel(t, rank == MT_SENT_HOST ? MT_HOST_NAME : c->launches[i].kernel);
}

static int comm_text_kernels(FILE *f, const struct mt_comm *c, size_t rows)
{
    uint32_t *ranks = mt_kernel_ranks(c);
    size_t n;
    struct mt_sent *list = ranks ? mt_sent_of(c, ranks, &n) : NULL;
    struct mt_table t;
    if (!list) {
        free(ranks);
        return -1;
    }
    mt_table_init(&t, "Transfers: bytes that one kernel's CTAs (or the host) wrote and another's loaded",
                  "from|to|>bytes|>accesses|>pairs of CTAs");
    for (size_t i = 0; i < n; i++) {
        mt_table_row(&t, list[i].bytes);
        comm_text_group(&t, c, ranks, list[i].src);
        comm_text_group(&t, c, ranks, list[i].dst);
        mt_table_u64(&t, list[i].bytes);
        mt_table_u64(&t, list[i].accesses);
        mt_table_u64(&t, list[i].transfers);
    }
    free(ranks);
    free(list);
    return mt_table_print(&t, f, rows);
}

/* Kernel, launch and CTA of an end; of the host its place. */
static void comm_text_end(struct mt_table *t, const struct mt_comm *c, uint32_t id)
{
    char key[64];
    mt_table_kernel(t, comm_text_kernel(c, id));
    if (id & MT_ENTRY_HOST) {
        const struct mt_host_actor *h = &c->hosts[id & MT_ENTRY_MAX];
        mt_table_u64(t, h->superstep);
        mt_table_text(t, c->options.host ? mt_comm_location_name(c, h->place) : "-");
    } else {
        mt_table_u64(t, c->actors[id].launch);
        mt_table_text(t, mt_words_cta(key, mt_cta_order(c->actors[id].cta)));
    }
}

struct sized {
    uint64_t bytes;
    size_t place; /* in the order of the transfers */
};

static int comm_text_by_bytes(const void *a, const void *b)
{
    const struct sized *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static void comm_text_row(struct mt_table *t, const struct mt_comm *c, const struct mt_transfer *x)
{
    mt_table_row(t, x->size);
    comm_text_end(t, c, x->src);
    comm_text_end(t, c, x->dst);
    mt_table_u64(t, x->size);
    mt_table_u64(t, x->count);
    int known = c->options.threads > 1; /* the order is the one that happened */
    mt_table_text(t, !known && mt_transfer_unordered(c, x) ? "unordered" : "");
}

static int comm_text_ctas(FILE *f, const struct mt_comm *c, size_t rows)
{
    size_t *order = mt_transfers_sort(c), n = c->ntransfers;
    struct sized *list = malloc((n + 1) * sizeof *list);
    struct mt_table t;
    if (!order || !list) {
        free(order);
        free(list);
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        list[i] = (struct sized){c->transfers[order[i]].size, i};
    qsort(list, n, sizeof *list, comm_text_by_bytes);
    mt_table_init(&t, "Between CTAs, largest first", "from|>launch|CTA|to|>launch|CTA|>bytes|>accesses|note");
    for (size_t i = 0; i < n && i < rows; i++)
        comm_text_row(&t, c, &c->transfers[order[list[i].place]]);
    free(order);
    free(list);
    int rc = mt_table_print(&t, f, rows);
    if (rc == 0 && n > rows)
        fprintf(f, "  ... and %zu more\n", n - rows);
    return rc;
}

int mt_transfers_text(FILE *f, const struct mt_comm *c, const struct mt_estimates *e, size_t rows)
{
    if (comm_text_kernels(f, c, rows) != 0)
        return -1;
    if (e->n)
        fputs("  a sample: what a CTA that is not traced wrote is not seen, so its bytes have an earlier "
              "sender here, or "
              "none\n",
              f);
    return comm_text_ctas(f, c, rows);
}

/* ---- estimates ---- */

int mt_estimates_text(FILE *f, const struct mt_estimates *e, const struct mt_comm *c, size_t rows)
{
    struct mt_table t;
    if (!e->n)
        return 0;
    mt_table_init(&t, "Estimates: bytes if all CTAs were traced (MEMTRACE_SAMPLE); no other table is scaled",
                  "kernel|>launches|>traced|>CTAs|>traced|>loaded|>stored|>estimate loaded|>estimate stored");
    for (size_t i = 0; i < e->n; i++) {
        const struct mt_estimate *k = &e->list[i];
        struct mt_volume sum = {0};
        uint64_t found = 0;
        for (size_t l = 0; l < c->nlaunches; l++) {
            if (strcmp(c->launches[l].kernel, k->kernel) != 0)
                continue;
            found++;
            struct mt_volume v = mt_volume_of_launch(c, l);
            mt_volume_add(&sum, &v);
        }
        int known =
            k->traced_ctas && found == k->traced_launches; /* else the trace is not what its companion says */
        mt_table_row(&t, sum.load + sum.store);
        mt_table_kernel(&t, k->kernel);
        mt_table_u64(&t, k->launches);
        mt_table_u64(&t, k->traced_launches);
        mt_table_u64(&t, k->ctas);
        mt_table_u64(&t, k->traced_ctas);
        mt_table_u64(&t, sum.load);
        mt_table_u64(&t, sum.store);
        for (int w = 0; w < 2; w++) {
            if (known)
                mt_table_u64(&t, mt_estimate(w ? sum.store : sum.load, k->ctas, k->traced_ctas));
            else
                mt_table_text(&t, "-");
        }
    }
    return mt_table_print(&t, f, rows);
}
