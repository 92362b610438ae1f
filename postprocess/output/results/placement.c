/* Bytes of communication that would cross if the CTAs ran on several devices. */
#include "summary.h"
#include "analysis/base/order.h"
#include "memtrace/order.h"
#include <inttypes.h>
#include <stdlib.h>

/* ---- rows ---- */

static void placement_distinct(struct mt_tuples *w, const struct mt_placement *p, const uint64_t *bytes,
                               size_t i)
{
    if (p->distinct_known)
        mt_tuples_number(w, bytes[i]);
    else
        mt_tuples_null(w, 1);
}

static void placement_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const size_t launch = i / MT_PLACE_POLICIES, policy = i % MT_PLACE_POLICIES;
    const struct mt_placement_launch *l = &x->r->placement->launches[launch];
    if (!x->r->comm->launches[launch].selected)
        return;
    mt_tuples_number(w, launch);
    mt_tuples_text(w, x->r->comm->launches[launch].kernel);
    mt_tuples_text(w, mt_placement_policies[policy]);
    mt_tuples_number(w, l->load);
    mt_tuples_number(w, l->cross[policy]);
    placement_distinct(w, x->r->placement, l->distinct, policy);
}

MT_ROWS(placement, placement_row, x->r->placement->nlaunches *MT_PLACE_POLICIES)

static void placement_way(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_placement *p = x->r->placement;
    const size_t pairs = (size_t)p->devices * p->devices, policy = i / pairs, pair = i % pairs;
    mt_tuples_text(w, mt_placement_policies[policy]);
    mt_tuples_numbers(w, MT_NUMBERS(pair / p->devices, pair % p->devices, p->traffic[policy][pair]));
    placement_distinct(w, p, p->distinct_traffic[policy], pair);
}

MT_ROWS(placement_traffic, placement_way,
        (size_t)x->r->placement->devices * x->r->placement->devices * MT_PLACE_POLICIES)

static void placement_cta(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_placement *p = x->r->placement;
    mt_tuples_number(w, MT_FIRST(l, p->nlaunches, p->launches[l].end > i));
    mt_tuples_cta(w, mt_cta_of_order(p->ctas[i]));
    mt_tuples_number(w, p->device[MT_PLACE_MINCUT][i]);
}

MT_ROWS(placement_ctas, placement_cta, x->r->placement->nnodes)

static void placement_run(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_placement *p = x->r->placement;
    (void)i;
    mt_tuples_numbers(w, MT_NUMBERS(p->devices, p->load));
    mt_tuples_maybe(w, p->ran_known, p->ran);
}

MT_ROWS(placed, placement_run, 1)

/* ---- JSON ---- */

static void placement_matrix(struct mt_json *j, const char *key, const uint64_t *bytes, unsigned devices)
{
    if (!bytes) {
        mt_json_text(j, key, NULL);
        return;
    }
    mt_json_array(j, key, 1);
    for (unsigned from = 0; from < devices; from++)
        mt_json_numbers(j, NULL, devices, bytes + (size_t)from * devices);
    mt_json_end(j);
}

static void placement_policies(struct mt_json *j, const struct mt_placement *p)
{
    mt_json_object(j, "policies", 0);
    for (int policy = 0; policy < MT_PLACE_POLICIES; policy++) {
        mt_json_object(j, mt_placement_policies[policy], 1);
        mt_json_u64(j, "cross", p->cross[policy]);
        if (p->distinct_known)
            mt_json_u64(j, "distinct", p->distinct[policy]);
        else
            mt_json_text(j, "distinct", NULL);
        placement_matrix(j, "traffic", p->traffic[policy], p->devices);
        placement_matrix(j, "distinct_traffic", p->distinct_traffic[policy], p->devices);
        mt_json_end(j);
    }
    mt_json_end(j);
}

/* By policy; NULL: not known. */
static void placement_write_distinct(struct mt_json *j, const uint64_t *bytes)
{
    if (!bytes) {
        mt_json_text(j, "distinct", NULL);
        return;
    }
    mt_json_object(j, "distinct", 1);
    for (int policy = 0; policy < MT_PLACE_POLICIES; policy++)
        mt_json_u64(j, mt_placement_policies[policy], bytes[policy]);
    mt_json_end(j);
}

static void placement_assignment(struct mt_json *j, const struct mt_placement *p,
                                 const struct mt_placement_launch *l)
{
    char cta[64];
    for (size_t i = l->first; i < l->end; i++)
        mt_json_u64(j, mt_cta_key(cta, p->ctas[i]), p->device[MT_PLACE_MINCUT][i]);
}

static void placement_launch(struct mt_json *j, const struct mt_placement *p,
                             const struct mt_placement_launch *l)
{
    mt_json_u64(j, "load", l->load);
    for (int policy = 0; policy < MT_PLACE_POLICIES; policy++)
        mt_json_u64(j, mt_placement_policies[policy], l->cross[policy]);
    placement_write_distinct(j, p->distinct_known ? l->distinct : NULL);
}

int mt_placement_write(struct mt_json *j, const struct mt_comm_result *r, int with_assignment)
{
    const struct mt_placement *p = r->placement;
    const struct mt_comm *c = r->comm;
    size_t *order = mt_launches_sorted(c);
    if (!order)
        return -1;
    mt_json_object(j, mt_locality_names[MT_LOCALITY_PLACEMENT], 0);
    mt_json_u64(j, "devices", p->devices);
    mt_json_u64(j, "load", p->load);
    if (p->ran_known)
        mt_json_u64(j, "ran", p->ran);
    placement_policies(j, p);
    for (int assignment = 0; assignment <= !!with_assignment; assignment++) {
        const char *kernel = NULL;
        char step[64];
        mt_json_object(j, assignment ? "assignment" : "kernels", 0);
        for (size_t i = 0; i < p->nlaunches; i++) {
            const struct mt_placement_launch *l = &p->launches[order[i]];
            const struct mt_comm_launch *of = &c->launches[order[i]];
            if (!assignment && !of->selected)
                continue;
            if (kernel && mt_locality_compare_text(kernel, of->kernel) != 0)
                mt_json_end(j);
            if (!kernel || mt_locality_compare_text(kernel, of->kernel) != 0)
                mt_json_object(j, kernel = of->kernel, 0);
            mt_json_object(j, mt_key_u64(step, order[i]), 1);
            if (assignment)
                placement_assignment(j, p, l);
            else
                placement_launch(j, p, l);
            mt_json_end(j);
        }
        if (kernel)
            mt_json_end(j);
        mt_json_end(j);
    }
    mt_json_end(j);
    free(order);
    return 0;
}

/* ---- text ---- */

int mt_placement_text(struct mt_text *t)
{
    struct mt_text all = *t;
    char title[200];
    all.rows = MT_PLACE_POLICIES + 1;
    snprintf(title, sizeof title,
             "Placement on %u devices: of %" PRIu64 " bytes of communication, those that cross",
             t->r->placement->devices, t->r->placement->load);
    return mt_text_table(
        &all, title,
        "SELECT 'as it ran' AS placement, ran AS '>bytes', percent(ran, load) AS '>part', '' AS "
        "'>distinct bytes' FROM placed WHERE ran IS NOT NULL UNION ALL SELECT * FROM (SELECT column2, "
        "ifnull(sum(crossing), 0), percent(sum(crossing), sum(load)), iif(count(distinct_bytes) < "
        "count(policy), '?', ifnull(sum(distinct_bytes), 0)) "
        "FROM (VALUES ('block', 'blocks of CTAs'), ('robin', 'round robin'), ('mincut', 'least traffic "
        "found')) LEFT JOIN placement ON policy = column1 GROUP BY column1, column2 ORDER BY column1 = "
        "'mincut', column1)");
}

/* ---- sentences ---- */

const char mt_placement_sentences[] =
    "WITH p AS (SELECT policy, sum(crossing) AS crossing FROM placement GROUP BY policy) "
    "SELECT 'placement', 'placement', 140, 0, printf('Over %s, %s of the communication would cross with the "
    "best placement tried, %s%s.', many(devices, 'device', 'devices'), iif(crossing, share(crossing, load), "
    "'none'), "
    "CASE policy WHEN 'block' THEN 'blocks of CTAs' WHEN 'robin' THEN 'round robin' ELSE 'least traffic "
    "found' END, coalesce('; as it ran: ' || iif(ran IS NULL, NULL, share(ran, load)), '')) "
    "FROM placed, run, (SELECT * FROM p ORDER BY crossing, CASE policy WHEN 'block' THEN 0 WHEN 'robin' THEN "
    "1 ELSE 2 END LIMIT 1) WHERE load AND NOT threads AND (ran IS NULL OR ran > crossing)";
