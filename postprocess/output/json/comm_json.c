/* Sorts what the analysis holds into the order of the output, and writes it. */
#define _GNU_SOURCE
#include "comm_json.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

/* ---- volumes ---- */

static void write_volume(struct mt_json *j, const char *key, uint64_t load, uint64_t store)
{
    mt_json_object(j, key, 1);
    mt_json_u64(j, "Load", load);
    mt_json_u64(j, "Store", store);
    mt_json_end(j);
}

/* The volumes of one launch: by CTA, by SM, or in all. */
static void write_launch(struct mt_json *j, const struct mt_comm *c, size_t superstep,
                         enum mt_section section, struct mt_volume *rows)
{
    int comm = section == MT_KCV || section == MT_CCV || section == MT_SCV;
    enum mt_volume_by by = section == MT_CCV || section == MT_CDV   ? MT_VOLUME_CTA
                           : section == MT_SCV || section == MT_SDV ? MT_VOLUME_SM
                                                                    : MT_VOLUME_LAUNCH;
    size_t n = mt_volumes_of(c, superstep, by, rows);
    char key[64];
    mt_key_u64(key, superstep);
    if (section == MT_SENDERS) {
        mt_json_object(j, key, 1);
        for (int s = 0; s < MT_SENDER_KINDS; s++)
            mt_json_u64(j, mt_sender_names[s], rows->from[s]);
        mt_json_end(j);
        return;
    }
    if (by != MT_VOLUME_LAUNCH)
        mt_json_object(j, key, 0);
    for (size_t i = 0; i < n; i++) {
        if (by == MT_VOLUME_CTA)
            mt_cta_key(key, rows[i].key);
        else if (by == MT_VOLUME_SM)
            mt_key_u64(key, rows[i].key);
        write_volume(j, key, comm ? rows[i].comm_load : rows[i].load,
                     comm ? rows[i].comm_store : rows[i].store);
    }
    if (by != MT_VOLUME_LAUNCH)
        mt_json_end(j);
}

static void write_volumes(struct mt_json *j, const struct mt_comm *c, const size_t *order, size_t n,
                          enum mt_section section, struct mt_volume *cells)
{
    mt_json_object(j, mt_section_names[section], 0);
    const char *open = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct mt_comm_launch *l = &c->launches[order[i]];
        if (!l->selected)
            continue;
        if (!open || strcmp(open, l->kernel) != 0) {
            if (open)
                mt_json_end(j);
            mt_json_object(j, l->kernel, 0);
            open = l->kernel;
        }
        write_launch(j, c, order[i], section, cells);
    }
    if (open)
        mt_json_end(j);
    mt_json_end(j);
}

/* ---- the host ---- */

static int host_order(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg;
    const struct mt_host_actor *x = &c->hosts[*(const uint32_t *)a], *y = &c->hosts[*(const uint32_t *)b];
    int d = x->place == y->place
                ? 0
                : strcmp(mt_comm_location_name(c, x->place), mt_comm_location_name(c, y->place));
    return d ? d : x->superstep < y->superstep ? -1 : x->superstep > y->superstep;
}

/* Places without any are left out: host code touches much that is of no interest here. */
static void write_host(struct mt_json *j, const struct mt_comm *c, const uint32_t *order, size_t n,
                       enum mt_section section)
{
    mt_json_object(j, mt_section_names[section], 0);
    const struct mt_host_actor *open = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct mt_host_actor *h = &c->hosts[order[i]];
        uint64_t load = section == MT_HCV ? h->comm_load : h->load;
        uint64_t store = section == MT_HCV ? h->comm_store : h->store;
        char key[64];
        if ((load | store) == 0)
            continue;
        if (!open || open->place != h->place) {
            if (open)
                mt_json_end(j);
            mt_json_object(j, mt_comm_location_name(c, h->place), 0);
            open = h;
        }
        write_volume(j, mt_key_u64(key, h->superstep), load, store);
    }
    if (open)
        mt_json_end(j);
    mt_json_end(j);
}

/* 0, or -1 without memory. */
static int write_hosts(struct mt_json *j, const struct mt_comm *c, unsigned sections)
{
    uint32_t *order = malloc((c->nhosts + 1) * sizeof *order);
    size_t n = 0;
    for (uint32_t i = 0; order && i < c->nhosts; i++)
        if (mt_comm_host_selected(c, &c->hosts[i]))
            order[n++] = i;
    if (!order)
        return -1;
    qsort_r(order, n, sizeof *order, host_order, (void *)c);
    for (unsigned s = MT_HCV; s <= MT_HDV; s++)
        if (sections & 1u << s)
            write_host(j, c, order, n, s);
    free(order);
    return 0;
}

int mt_comm_write(struct mt_json *j, const struct mt_comm *c, unsigned sections)
{
    int rc = -1;
    size_t *order = mt_launches_sorted(c);
    struct mt_volume *cells = malloc(mt_volumes_room(c) * sizeof *cells);
    if (!order || !cells)
        goto out;
    for (unsigned s = MT_KCV; s <= MT_SDV; s++)
        if (sections & 1u << s)
            write_volumes(j, c, order, c->nlaunches, s, cells);
    if (c->options.host && sections & (1u << MT_HCV | 1u << MT_HDV) && write_hosts(j, c, sections) != 0)
        goto out;
    rc = sections & 1u << MT_TRANSFERS ? mt_transfers_write(j, c, order) : 0;
    if (rc == 0 && sections & 1u << MT_SENDERS)
        write_volumes(j, c, order, c->nlaunches, MT_SENDERS, cells);
out:
    free(order);
    free(cells);
    return rc;
}
