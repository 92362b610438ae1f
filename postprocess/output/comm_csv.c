/* Volumes and transfers as tables. */
#define _GNU_SOURCE
#include "comm_formats.h"
#include "comm_parts.h"
#include "csv.h"
#include "memtrace/order.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VOLUMES ((1u << MT_TRANSFERS) - 1)

unsigned mt_csv_tables(unsigned sections)
{
    return ((sections & VOLUMES) != 0) + ((sections & 1u << MT_TRANSFERS) != 0) +
           ((sections & (1u << MT_SENDERS | 1u << MT_ADDRESSES)) != 0); /* of other shapes: see the manual */
}

/* ---- volumes ---- */

struct row {
    uint64_t key, load, store, comm_load, comm_store;
};

MT_ORDER_1(by_key, struct row, key)

enum what { KERNEL, CTA, SM };

/* The launch's actors, those with one key together; how many. */
static size_t comm_csv_gather(const struct mt_comm *c, const struct mt_comm_launch *l, enum what what,
                              struct row *rows)
{
    size_t n = 0, made = 0;
    for (uint32_t i = l->first; i < l->end; i++, n++) {
        const struct mt_actor *a = &c->actors[i];
        rows[n] = (struct row){what == CTA  ? mt_cta_order(a->cta)
                               : what == SM ? a->smid
                                            : 0,
                               a->load, a->store, mt_actor_comm_load(a), a->comm_store};
    }
    qsort(rows, n, sizeof *rows, by_key);
    for (size_t i = 0; i < n; i++) {
        if (made && rows[made - 1].key == rows[i].key) {
            rows[made - 1].load += rows[i].load;
            rows[made - 1].store += rows[i].store;
            rows[made - 1].comm_load += rows[i].comm_load;
            rows[made - 1].comm_store += rows[i].comm_store;
        } else {
            rows[made++] = rows[i];
        }
    }
    if (!made && what == KERNEL)
        rows[made++] = (struct row){.key = 0}; /* it touched nothing */
    return made;
}

static void comm_csv_section(FILE *f, const struct mt_comm *c, unsigned s, struct row *rows)
{
    enum what what = s == MT_KCV || s == MT_KDV ? KERNEL : s == MT_CCV || s == MT_CDV ? CTA : SM;
    int comm = s == MT_KCV || s == MT_CCV || s == MT_SCV;
    for (size_t i = 0; i < c->nlaunches; i++) {
        const struct mt_comm_launch *l = &c->launches[i];
        size_t n = l->selected ? comm_csv_gather(c, l, what, rows) : 0;
        for (size_t k = 0; k < n; k++) {
            char key[64];
            fprintf(f, "%s,", mt_section_names[s]);
            mt_csv_text(f, l->kernel);
            fprintf(f, ",%zu,", i);
            if (what == CTA)
                mt_csv_text(f, mt_cta_key(key, rows[k].key));
            else if (what == SM)
                fprintf(f, "%" PRIu64, rows[k].key);
            fprintf(f, ",%" PRIu64 ",%" PRIu64 "\n", comm ? rows[k].comm_load : rows[k].load,
                    comm ? rows[k].comm_store : rows[k].store);
        }
    }
}

static void host_section(FILE *f, const struct mt_comm *c, unsigned s)
{
    for (size_t i = 0; i < c->nhosts; i++) {
        const struct mt_host_actor *h = &c->hosts[i];
        uint64_t load = s == MT_HCV ? h->comm_load : h->load, store = s == MT_HCV ? h->comm_store : h->store;
        if (!mt_comm_host_selected(c, h) || !(load | store))
            continue;
        fprintf(f, "%s,%s,%" PRIu32 ",", mt_section_names[s], MT_HOST_NAME, h->superstep);
        mt_csv_text(f, mt_comm_location_name(c, h->place));
        fprintf(f, ",%" PRIu64 ",%" PRIu64 "\n", load, store);
    }
}

static int comm_csv_volumes(FILE *f, const struct mt_comm_result *r)
{
    const struct mt_comm *c = r->comm;
    size_t most = 0;
    for (size_t i = 0; i < c->nlaunches; i++) {
        size_t n = c->launches[i].end - c->launches[i].first;
        most = n > most ? n : most;
    }
    struct row *rows = malloc((most + 1) * sizeof *rows);
    if (!rows)
        return -1;
    fputs("section,kernel,superstep,key,load,store\n", f);
    for (unsigned s = 0; s < MT_TRANSFERS; s++) {
        if (!(r->sections & 1u << s))
            continue;
        if (s == MT_HCV || s == MT_HDV) {
            if (c->options.host)
                host_section(f, c, s);
        } else {
            comm_csv_section(f, c, s, rows);
        }
    }
    free(rows);
    return 0;
}

/* ---- transfers ---- */

static void end_of(FILE *f, const struct mt_comm *c, uint32_t id)
{
    char key[64];
    if (id & MT_ENTRY_HOST) {
        const struct mt_host_actor *h = &c->hosts[id & MT_ENTRY_MAX];
        fputs(MT_HOST_NAME ",", f);
        mt_csv_text(f, mt_comm_location_name(c, h->place));
        fprintf(f, ",%" PRIu32, h->superstep);
    } else {
        const struct mt_actor *a = &c->actors[id];
        mt_csv_text(f, c->launches[a->launch].kernel);
        fputc(',', f);
        mt_csv_text(f, mt_cta_key(key, mt_cta_order(a->cta)));
        fprintf(f, ",%" PRIu32, a->launch);
    }
}

/* By reader, then by writer: hosts last. */
static int end_order(const struct mt_comm *c, uint32_t x, uint32_t y)
{
    if ((x ^ y) & MT_ENTRY_HOST)
        return x & MT_ENTRY_HOST ? 1 : -1;
    if (x & MT_ENTRY_HOST) {
        const struct mt_host_actor *p = &c->hosts[x & MT_ENTRY_MAX], *q = &c->hosts[y & MT_ENTRY_MAX];
        if (p->superstep != q->superstep)
            return p->superstep < q->superstep ? -1 : 1;
        return strcmp(mt_comm_location_name(c, p->place), mt_comm_location_name(c, q->place));
    }
    const struct mt_actor *p = &c->actors[x], *q = &c->actors[y];
    if (p->launch != q->launch)
        return p->launch < q->launch ? -1 : 1;
    uint64_t v = mt_cta_order(p->cta), w = mt_cta_order(q->cta);
    return v < w ? -1 : v > w;
}

static int transfer_order(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg;
    const struct mt_transfer *x = &c->transfers[*(const size_t *)a], *y = &c->transfers[*(const size_t *)b];
    int d = end_order(c, x->dst, y->dst);
    return d ? d : end_order(c, x->src, y->src);
}

size_t *mt_transfers_sort(const struct mt_comm *c)
{
    size_t *order = malloc((c->ntransfers + 1) * sizeof *order);
    for (size_t i = 0; order && i < c->ntransfers; i++)
        order[i] = i;
    if (order)
        qsort_r(order, c->ntransfers, sizeof *order, transfer_order, (void *)c);
    return order;
}

static int comm_csv_transfers(FILE *f, const struct mt_comm *c)
{
    size_t *order = mt_transfers_sort(c);
    if (!order)
        return -1;
    fputs("source_kernel,source_cta,source_superstep,kernel,cta,superstep,bytes,accesses,unordered\n", f);
    for (size_t i = 0; i < c->ntransfers; i++) {
        const struct mt_transfer *t = &c->transfers[order[i]];
        end_of(f, c, t->src);
        fputc(',', f);
        end_of(f, c, t->dst);
        int unordered =
            !((t->src | t->dst) & MT_ENTRY_HOST) && c->actors[t->src].launch == c->actors[t->dst].launch;
        fprintf(f, ",%" PRIu64 ",%" PRIu64 ",%d\n", t->size, t->count, unordered);
    }
    free(order);
    return 0;
}

int mt_csv_write(FILE *f, const struct mt_comm_result *r)
{
    return r->sections & 1u << MT_TRANSFERS ? comm_csv_transfers(f, r->comm) : comm_csv_volumes(f, r);
}
