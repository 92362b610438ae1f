/* Bytes moved between devices, and between devices and the host: accesses of kernels from the analysis,
 * copies and collectives from the companions. With a topology, also the load of each link. */
#define _GNU_SOURCE
#include "summary.h"
#include "memtrace/grow.h"
#include "output/rows/topology.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NO_LAUNCH UINT64_MAX
/* Kinds of flow, in output order. */
enum device_flow_how { FLOW_LOAD, FLOW_STORE, FLOW_ATOMIC, FLOW_UNKNOWN, FLOW_COPY, FLOW_COLLECTIVE, FLOWS };

struct device_flow {
    uint64_t superstep; /* launch of a kernel or collective; NO_LAUNCH for copies */
    const char *kernel; /* name of the kernel; NULL for copies */
    enum device_flow_how how;
    int64_t from,
        to; /* device numbers, or MT_DEVICES_HOST; an atomic flows from the kernel's device to the memory's */
    uint64_t accesses,
        bytes; /* accesses: for copies their number, for collectives the number of ranks that receive */
};

struct link_load {
    struct mt_topology_link link;
    uint64_t superstep; /* launch, as in struct device_flow */
    const char *kernel;
    enum device_flow_how how;
    uint64_t bytes;
};

/* ---- flows ---- */

/* Adds up accesses of kernels (analysis `devices`) and the companions' copies. */
static const char *const devices_flow_names[FLOWS] = {"load",    "store", "atomic",
                                                      "unknown", "copy",  "collective"};

struct flows {
    struct device_flow *list;
    size_t n, room;
    int failed;
};

static void devices_add(struct flows *f, const struct device_flow *one)
{
    if (!one->bytes || f->failed)
        return;
    f->failed = mt_grow(&f->list, &f->room, f->n + 1, sizeof *f->list) != 0;
    if (!f->failed)
        f->list[f->n++] = *one;
}

static void devices_kernels(struct flows *f, const struct mt_devices *x)
{
    for (size_t i = 0; i < x->count; i++)
        for (int t = 0; t < FLOW_COPY; t++) {
            const struct mt_devices_cell *c = &x->cells[i];
            int in = t == FLOW_LOAD || t == FLOW_UNKNOWN;
            devices_add(f, &(struct device_flow){.superstep = c->superstep,
                                                 .kernel = c->kernel,
                                                 .how = (enum device_flow_how)t,
                                                 .from = in ? c->owner : c->device,
                                                 .to = in ? c->device : c->owner,
                                                 .accesses = c->accesses[t],
                                                 .bytes = c->bytes[t]});
        }
}

static void devices_copies(struct flows *f, const struct mt_comm_result *r)
{
    size_t n = 0;
    const struct mt_copy_event **list = mt_copies_of(r, &n);
    f->failed |= !list;
    for (size_t i = 0; list && i < n; i++) {
        const struct mt_copy_event *c = list[i];
        if ((i && list[i - 1]->seq == c->seq) || c->kind == MT_COPY_SET || c->kind == MT_COPY_H2H)
            continue;
        devices_add(f, &(struct device_flow){.superstep = NO_LAUNCH,
                                             .how = FLOW_COPY,
                                             .from = c->src_device,
                                             .to = c->dst_device,
                                             .accesses = 1,
                                             .bytes = c->width * c->height});
    }
    free(list);
}

/* Adds what a rank receives from the others in a collective. */
static void devices_collective(struct flows *f, const struct mt_collective_launch *l,
                               enum mt_collective_way way, const struct mt_collective_places *places)
{
    const struct mt_collective *c = &l->event->collective;
    int64_t from, to;
    if (mt_collective_place(places, c->comm, c->rank, &to) != 0)
        return;
    for (uint64_t r = 0; r < c->ranks && !f->failed; r++) {
        uint64_t bytes = mt_collective_bytes(c, way, r);
        if (bytes && mt_collective_place(places, c->comm, r, &from) == 0)
            devices_add(f, &(struct device_flow){.superstep = l->superstep,
                                                 .kernel = l->kernel,
                                                 .how = FLOW_COLLECTIVE,
                                                 .from = from,
                                                 .to = to,
                                                 .accesses = 1,
                                                 .bytes = bytes});
    }
}

static void devices_collectives(struct flows *f, const struct mt_comm_result *r)
{
    struct mt_collective_places places = {.n = 0};
    for (size_t i = 0; r->ncollectives && i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        f->failed |= c && mt_collective_places_add(&places, c) != 0;
    }
    mt_collective_places_order(&places);
    for (size_t i = 0; i < r->ncollectives; i++)
        devices_collective(f, &r->collectives[i], r->way, &places);
    mt_collective_places_free(&places);
}

MT_ORDER_4(devices_compare, struct device_flow, superstep, how, from, to)

/* Merges equal flows. *several is 1 if there is more than one device. */
static size_t devices_join(struct device_flow *list, size_t n, int *several)
{
    size_t kept = 0;
    if (n)
        qsort(list, n, sizeof *list, devices_compare);
    for (size_t i = 0; i < n; i++) {
        *several |= list[i].from > 0 || list[i].to > 0;
        if (!kept || devices_compare(&list[kept - 1], &list[i]) != 0) {
            list[kept++] = list[i];
            continue;
        }
        list[kept - 1].accesses += list[i].accesses;
        list[kept - 1].bytes += list[i].bytes;
    }
    return kept;
}

/* Returns all flows by launch, kind, source and destination; copies of all launches are merged. *n is 0 if
 * there is only one device. To be freed; NULL: no memory. */
static struct device_flow *devices_flows(const struct mt_comm_result *r, size_t *n)
{
    struct flows f = {.failed = 0};
    int several = 0;
    f.failed = mt_grow(&f.list, &f.room, 1, sizeof *f.list) != 0;
    devices_kernels(&f, &r->locality->devices);
    devices_copies(&f, r);
    devices_collectives(&f, r);
    *n = devices_join(f.list, f.n, &several);
    if (!several)
        *n = 0;
    if (f.failed) {
        free(f.list);
        return NULL;
    }
    return f.list;
}

/* ---- Load of links: each flow counts on all links of its route ---- */
static int devices_by_link(const void *a, const void *b)
{
    const struct link_load *x = a, *y = b;
    int name = strcmp(x->link.name, y->link.name);
    if (name || x->superstep != y->superstep)
        return name ? name : x->superstep < y->superstep ? -1 : 1;
    return (int)x->how - (int)y->how;
}

/* Merges equal entries. */
static size_t devices_join_links(struct link_load *list, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(list, n, sizeof *list, devices_by_link);
    for (size_t i = 0; i < n; i++)
        if (kept && devices_by_link(&list[kept - 1], &list[i]) == 0)
            list[kept - 1].bytes += list[i].bytes;
        else
            list[kept++] = list[i];
    return kept;
}

/* Returns the loads by link name, then in the order of devices_flows. *n is 0 without a topology. *outside:
 * bytes to or from devices that the topology lacks. To be freed; NULL: no memory. */
static struct link_load *devices_loads(const struct mt_comm_result *r, size_t *n, uint64_t *outside)
{
    size_t nflows = 0, room = 0;
    struct mt_topology_link way[MT_TOPOLOGY_ROUTE];
    struct link_load *list = NULL;
    struct device_flow *flows = devices_flows(r, &nflows);
    int failed = !flows || mt_grow(&list, &room, 1, sizeof *list) != 0;
    *n = *outside = 0;
    for (size_t i = 0; r->topology && !failed && i < nflows; i++) {
        const struct device_flow *f = &flows[i];
        unsigned links = mt_topology_route(r->topology, f->from, f->to, way);
        *outside += !links && f->from != f->to ? f->bytes : 0;
        failed = mt_grow(&list, &room, *n + links + 1, sizeof *list) != 0;
        for (unsigned k = 0; !failed && k < links; k++)
            list[(*n)++] = (struct link_load){way[k], f->superstep, f->kernel, f->how, f->bytes};
    }
    free(flows);
    if (failed) {
        free(list);
        return NULL;
    }
    *n = devices_join_links(list, *n);
    return list;
}

/* ---- rows ---- */

/* Writes the columns launch and kernel. */
static void devices_launch(struct mt_tuples *w, uint64_t superstep, const char *kernel)
{
    mt_tuples_maybe(w, superstep != NO_LAUNCH, superstep);
    mt_tuples_text(w, kernel ? kernel : "");
}

static void devices_text(struct mt_tuples *w, int64_t device)
{
    char *room = w->place[w->places++ % MT_TUPLES_PLACES];
    snprintf(room, MT_TUPLES_FILE, "%" PRId64, device);
    mt_tuples_text(w, device < 0 ? "host" : room);
}

static void devices_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct device_flow *f = &((const struct device_flow *)x->data)[i];
    devices_launch(w, f->superstep, f->kernel);
    mt_tuples_text(w, devices_flow_names[f->how]);
    devices_text(w, f->from);
    devices_text(w, f->to);
    mt_tuples_numbers(w, MT_NUMBERS(f->accesses, f->bytes));
}

MT_ROWS_OF_LIST(devices, devices_row, devices_flows(x->r, &x->n), x->n)

static void devices_link_tuple(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct link_load *l = &((const struct link_load *)x->data)[i];
    mt_tuples_text(w, l->link.name);
    mt_tuples_text(w, mt_topology_words[l->link.kind]);
    mt_tuples_real(w, l->link.speed);
    devices_launch(w, l->superstep, l->kernel);
    mt_tuples_text(w, devices_flow_names[l->how]);
    mt_tuples_number(w, l->bytes);
}

int mt_rows_of_links(struct mt_rowset *x)
{
    uint64_t outside;
    x->row = devices_link_tuple;
    x->data = devices_loads(x->r, &x->n, &outside);
    return x->data ? 0 : -1;
}

/* ---- JSON ---- */

int mt_devices_json(struct mt_json *j, const struct mt_comm_result *r)
{
    size_t n;
    struct device_flow *list = devices_flows(r, &n);
    free(list);
    if (!list || !n)
        return list ? 0 : -1; /* with one device the member is omitted */
    int rc = mt_relation_json(j, r, MT_REL_devices, MT_REL_NONE, 0);
    return rc || !r->topology ? rc : mt_relation_json(j, r, MT_REL_links, MT_REL_NONE, 0);
}

/* ---- text ---- */

int mt_devices_text(struct mt_text *t)
{
    size_t n, nlinks;
    uint64_t outside = 0;
    struct device_flow *flows = devices_flows(t->r, &n);
    struct link_load *links = devices_loads(t->r, &nlinks, &outside);
    int rc = flows && links ? 0 : -1;
    free(flows);
    free(links);
    if (rc == 0 && n)
        rc = mt_text_table(t,
                           "Bytes between devices, and between devices and host: by loads and stores of "
                           "kernels, copies and collectives",
                           "SELECT by, source AS 'from', target AS 'to', sum(accesses) AS '>accesses', "
                           "sum(bytes) AS '>bytes' FROM devices GROUP BY by, source, target "
                           "ORDER BY iif(source = target, 0, sum(bytes)) DESC, instr('load store atomic "
                           "unknown copy collective', "
                           "by), source = 'host' DESC, source + 0, target = 'host' DESC, target + 0");
    if (rc == 0 && n && t->r->topology)
        rc = mt_text_table(
            t, "Bytes over each link in one direction, and how long they take at its speed",
            "SELECT link, kind, fixed(speed / 1e9, 1) AS '>GB/s', "
            "sum(iif(by IN ('load', 'unknown'), bytes, 0)) AS '>loads (B)', "
            "sum(iif(by IN ('store', 'atomic'), bytes, 0)) AS '>stores (B)', "
            "sum(iif(by = 'copy', bytes, 0)) AS '>copies (B)', "
            "sum(iif(by = 'collective', bytes, 0)) AS '>collectives (B)', "
            "fixed(sum(bytes) / speed * 1e3, 3) AS '>ms', kernel(most) AS 'most for' FROM (SELECT *, "
            "first_value(coalesce(kernel, by)) OVER (PARTITION BY link ORDER BY bytes DESC, launch) AS most "
            "FROM links) GROUP BY link ORDER BY sum(bytes) DESC");
    if (rc == 0 && n && outside)
        fprintf(t->f, "  %" PRIu64 " bytes to or from devices that are not in the topology\n", outside);
    return rc;
}

/* ---- sentences ---- */

const char mt_devices_sentences[] =
    "WITH d AS (SELECT *, source <> target AND source <> 'host' AND target <> 'host' AS across, CASE by WHEN "
    "'load' THEN 0 WHEN 'unknown' THEN 0 WHEN 'store' THEN 1 WHEN 'atomic' THEN 1 WHEN 'copy' THEN 2 ELSE 3 "
    "END AS way FROM devices), "
    "t AS (SELECT sum(iif(across, bytes, 0)) AS between_devices, sum(iif(source <> target AND NOT across, "
    "bytes, 0)) AS host FROM d), "
    "ways AS (SELECT group_concat(words, ', ') AS words FROM (SELECT bytes(sum(bytes)) || ' by ' || CASE way "
    "WHEN 0 THEN 'loads' WHEN 1 THEN 'stores' WHEN 2 THEN 'copies' ELSE 'collectives' END AS words FROM d "
    "WHERE across GROUP BY way HAVING sum(bytes) ORDER BY way)), "
    "most AS (SELECT source, target FROM d WHERE across GROUP BY source, target ORDER BY sum(bytes) DESC, "
    "CAST(source AS INTEGER), CAST(target AS INTEGER) LIMIT 1), "
    "slow AS (SELECT link, sum(bytes) / speed AS seconds FROM links GROUP BY link ORDER BY seconds DESC, "
    "link LIMIT 1), "
    "whose AS (SELECT coalesce(kernel, by) AS name FROM links JOIN slow USING (link) GROUP BY 1 ORDER BY "
    "sum(bytes) DESC, 1 LIMIT 1) "
    "SELECT 'devices', 'devices', 100, 0, printf('Traffic between devices: %s%s; between devices and host: "
    "%s.', bytes(between_devices), coalesce(printf(' (%s), most from %s to %s', words, (SELECT source FROM "
    "most), (SELECT target FROM most)), ''), bytes(host)) || "
    "coalesce((SELECT printf(' The slowest transfer is over %s: %s at its speed, most of it for %s.', "
    "link, duration(seconds * 1e9), mark(kernel(name), name)) FROM slow, whose WHERE seconds), '') "
    "FROM t, ways WHERE EXISTS (SELECT 1 FROM d)";
