/* Writes volumes and transfers as CSV. */
#define _GNU_SOURCE
#include "comm_formats.h"
#include "sorted.h"
#include "relations.h"
#include "memtrace/order.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VOLUMES ((1u << MT_TRANSFERS) - 1)

unsigned mt_csv_tables(unsigned sections)
{
    return ((sections & VOLUMES) != 0) + ((sections & 1u << MT_TRANSFERS) != 0) +
           ((sections & (1u << MT_SENDERS | 1u << MT_ADDRESSES)) !=
            0); /* these have other columns: see the manual */
}

/* ---- volumes ---- */

static void comm_csv_section(FILE *f, const struct mt_comm *c, unsigned s, struct mt_volume *rows)
{
    enum mt_volume_by by = s == MT_KCV || s == MT_KDV   ? MT_VOLUME_LAUNCH
                           : s == MT_CCV || s == MT_CDV ? MT_VOLUME_CTA
                                                        : MT_VOLUME_SM;
    int comm = s == MT_KCV || s == MT_CCV || s == MT_SCV;
    for (size_t i = 0; i < c->nlaunches; i++) {
        const struct mt_comm_launch *l = &c->launches[i];
        size_t n = l->selected ? mt_volumes_of(c, i, by, rows) : 0;
        for (size_t k = 0; k < n; k++) {
            char key[64];
            fprintf(f, "%s,", mt_section_names[s]);
            mt_csv_text(f, l->kernel);
            fprintf(f, ",%zu,", i);
            if (by == MT_VOLUME_CTA)
                mt_csv_text(f, mt_cta_key(key, rows[k].key));
            else if (by == MT_VOLUME_SM)
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
    struct mt_volume *rows = malloc(mt_volumes_room(c) * sizeof *rows);
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

static void comm_csv_end_of(FILE *f, const struct mt_comm *c, uint32_t id)
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

static int comm_csv_transfers(FILE *f, const struct mt_comm *c)
{
    size_t *order = mt_transfers_sort(c);
    if (!order)
        return -1;
    fputs("source_kernel,source_cta,source_superstep,kernel,cta,superstep,bytes,accesses,unordered\n", f);
    for (size_t i = 0; i < c->ntransfers; i++) {
        const struct mt_transfer *t = &c->transfers[order[i]];
        comm_csv_end_of(f, c, t->src);
        fputc(',', f);
        comm_csv_end_of(f, c, t->dst);
        fprintf(f, ",%" PRIu64 ",%" PRIu64 ",%d\n", t->size, t->count, mt_transfer_unordered(c, t));
    }
    free(order);
    return 0;
}

int mt_csv_write(FILE *f, const struct mt_comm_result *r)
{
    return r->sections & 1u << MT_TRANSFERS ? comm_csv_transfers(f, r->comm) : comm_csv_volumes(f, r);
}
