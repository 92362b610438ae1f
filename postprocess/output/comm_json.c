/* Sorts what the analysis holds into the order of the output, and writes it. */
#define _GNU_SOURCE
#include "comm_json.h"
#include "comm_parts.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

const char *const mt_section_names[MT_SECTIONS] = {"KCV", "KDV", "CCV",       "CDV",     "SCV",      "SDV",
                                                   "HCV", "HDV", "transfers", "senders", "addresses"};
const char *const mt_sender_names[MT_SENDER_KINDS] = {"same_launch", "earlier_launch", "same_cta"};
const char *const mt_sender_words[MT_SENDER_KINDS] = {"another CTA of the same launch",
                                                      "another CTA of an earlier launch",
                                                      "the same CTA of an earlier launch"};

const char *mt_cta_key(char *out, uint64_t order)
{
    return mt_key_cta(out, order & 0xffffffff, order >> 32 & 0xffff, order >> 48);
}

const char *mt_comm_location_name(const struct mt_comm *c, uint32_t place)
{
    return place || c->options.host ? c->places.names[place] : "0,0,0";
}

/* ---- volumes ---- */

struct cell {
    uint64_t key, load, store;
};

MT_ORDER_1(by_key, struct cell, key)

static void write_volume(struct mt_json *j, const char *key, uint64_t load, uint64_t store)
{
    mt_json_object(j, key, 1);
    mt_json_u64(j, "Load", load);
    mt_json_u64(j, "Store", store);
    mt_json_end(j);
}

/* Whose bytes the CTAs of a launch loaded. */
static void write_senders(struct mt_json *j, const char *key, const struct mt_comm *c,
                          const struct mt_comm_launch *l)
{
    mt_json_object(j, key, 1);
    for (int s = 0; s < MT_SENDER_KINDS; s++) {
        uint64_t bytes = 0;
        for (uint32_t i = l->first; i < l->end; i++)
            bytes += c->actors[i].from[s];
        mt_json_u64(j, mt_sender_names[s], bytes);
    }
    mt_json_end(j);
}

/* The volumes of one launch: by CTA, by SM, or in all. `cells` has room for one per actor. */
static void write_launch(struct mt_json *j, const struct mt_comm *c, size_t superstep,
                         enum mt_section section, struct cell *cells)
{
    const struct mt_comm_launch *l = &c->launches[superstep];
    int comm = section == MT_KCV || section == MT_CCV || section == MT_SCV;
    int by_cta = section == MT_CCV || section == MT_CDV, by_sm = section == MT_SCV || section == MT_SDV;
    size_t n = 0;
    for (uint32_t i = l->first; i < l->end; i++) {
        const struct mt_actor *a = &c->actors[i];
        cells[n++] = (struct cell){.key = by_cta  ? mt_cta_order(a->cta)
                                          : by_sm ? a->smid
                                                  : 0,
                                   .load = comm ? mt_actor_comm_load(a) : a->load,
                                   .store = comm ? a->comm_store : a->store};
    }
    char key[64];
    mt_key_u64(key, superstep);
    if (section == MT_SENDERS) {
        write_senders(j, key, c, l);
        return;
    }
    if (!by_cta && !by_sm) {
        uint64_t load = 0, store = 0;
        for (size_t i = 0; i < n; i++) {
            load += cells[i].load;
            store += cells[i].store;
        }
        write_volume(j, key, load, store);
        return;
    }
    qsort(cells, n, sizeof *cells, by_key);
    mt_json_object(j, key, 0);
    for (size_t i = 0; i < n;) {
        struct cell sum = cells[i];
        for (i++; i < n && cells[i].key == sum.key; i++) {
            sum.load += cells[i].load;
            sum.store += cells[i].store;
        }
        if (by_cta)
            mt_cta_key(key, sum.key);
        else
            mt_key_u64(key, sum.key);
        write_volume(j, key, sum.load, sum.store);
    }
    mt_json_end(j);
}

static int launch_order(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const char *p = c->launches[x].kernel, *q = c->launches[y].kernel;
    int d = p == q ? 0 : strcmp(p, q);
    return d ? d : x < y ? -1 : x > y;
}

static void write_volumes(struct mt_json *j, const struct mt_comm *c, const uint32_t *order, size_t n,
                          enum mt_section section, struct cell *cells)
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
    size_t most = 0;
    uint32_t *order = malloc((c->nlaunches + 1) * sizeof *order);
    for (size_t i = 0; i < c->nlaunches; i++) {
        size_t n = c->launches[i].end - c->launches[i].first;
        most = n > most ? n : most;
        if (order)
            order[i] = (uint32_t)i;
    }
    struct cell *cells = malloc((most + 1) * sizeof *cells);
    if (!order || !cells)
        goto out;
    qsort_r(order, c->nlaunches, sizeof *order, launch_order, (void *)c);
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
