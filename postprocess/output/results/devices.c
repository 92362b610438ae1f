/* Bytes moved between devices, and between devices and the host: accesses of kernels from the analysis,
 * copies and collectives from the companions. With a topology, also the load of each link. */
#define _GNU_SOURCE

#include "results.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include "summary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Topologies: reads the table of `nvidia-smi topo -m` (a line of names, GPU0 …, then a line for each), and
 * computes routes and what collectives move. */

/* ---- Bytes that collectives move between ranks ---- */

const char *const mt_collective_ways[MT_COLLECTIVE_WAYS] = {"direct", "ring", "tree"};

/* Direction of data: from all ranks, from the root, to the root from all, from one peer. */
enum form { ALL, FROM_ROOT, TO_ROOT, FROM_PEER };
static const struct op {
    const char *name;
    enum form form;
    int reduces, routed; /* routed: may go by ring or tree */
} ops[] = {
    {"allreduce", ALL, 1, 1},  {"broadcast", FROM_ROOT, 0, 1}, {"reduce", TO_ROOT, 1, 1},
    {"allgather", ALL, 0, 1},  {"reducescatter", ALL, 1, 1},   {"alltoall", ALL, 0, 0},
    {"gather", TO_ROOT, 0, 0}, {"scatter", FROM_ROOT, 0, 0},   {"recv", FROM_PEER, 0, 0},
};

static const struct op *collectives_op(const struct mt_collective *c)
{
    for (size_t i = 0; c->op && i < sizeof ops / sizeof *ops; i++)
        if (strcmp(c->op, ops[i].name) == 0)
            return &ops[i];
    return NULL;
}

static uint64_t collectives_direct(const struct mt_collective *c, const struct op *o, uint64_t from)
{
    uint64_t root = (uint64_t)c->root;
    int takes = o->form == ALL         ? 1
                : o->form == FROM_ROOT ? from == root
                : o->form == TO_ROOT   ? c->rank == root
                                       : from == (uint64_t)c->peer;
    return takes ? c->count * c->size : 0;
}

/* Returns the size of part k when the elements are split into n parts as evenly as possible. */
static uint64_t collectives_part(const struct mt_collective *c, uint64_t k)
{
    return (c->count / c->ranks + (k < c->count % c->ranks)) * c->size;
}

/* Places in the ring: of the receiving rank, the giving one, and the root. */
struct ring_places {
    uint64_t to, from, root;
};

static uint64_t collectives_ring(const struct mt_collective *c, const struct op *o,
                                 const struct ring_places *p)
{
    uint64_t n = c->ranks, before = (p->to + n - 1) % n, bytes = c->count * c->size;
    if (p->from != before)
        return 0;
    if (o->form == ALL)
        return strcmp(o->name, "allreduce") == 0
                   ? 2 * bytes - collectives_part(c, before) - collectives_part(c, p->to)
                   : (n - 1) * bytes;
    uint64_t first = o->form == FROM_ROOT ? p->root : (p->root + 1) % n; /* receives nothing */
    return p->to == first ? 0 : bytes;
}

/* Computes the bytes in a tree where node v, counted from the root, has the children 2v + 1 and 2v + 2. */
static uint64_t collectives_tree(const struct mt_collective *c, const struct op *o, uint64_t from)
{
    uint64_t n = c->ranks, root = c->root < 0 ? 0 : (uint64_t)c->root, bytes = c->count * c->size;
    uint64_t v = (c->rank + n - root) % n, u = (from + n - root) % n;
    int up = u && (u - 1) / 2 == v, down = v && (v - 1) / 2 == u;
    return (o->reduces && up ? bytes : 0) + (o->form != TO_ROOT && down ? bytes : 0);
}

/* Returns the bytes that its rank receives from rank `from`. */
static uint64_t collective_bytes(const struct mt_collective *c, enum mt_collective_way way, uint64_t from,
                                 const struct ring_places *p)
{
    const struct op *o = collectives_op(c);
    if (!o || from == c->rank || ((o->form == FROM_ROOT || o->form == TO_ROOT) && c->root < 0))
        return 0;
    if (!o->routed || way == MT_COLLECTIVE_DIRECT)
        return collectives_direct(c, o, from);
    int both = strcmp(o->name, "allgather") && strcmp(o->name, "reducescatter");
    return way == MT_COLLECTIVE_TREE && both ? collectives_tree(c, o, from) : collectives_ring(c, o, p);
}

/* ---- devices ---- */

/* A rank of a communicator. */
struct seat {
    uint64_t comm, rank;
    int64_t device, machine; /* machine: number of its device 0 */
    uint64_t place;          /* in the ring */
};

/* Ranks of all communicators, by communicator and rank. */
struct seats {
    struct seat *list;
    size_t n, room;
};

MT_ORDER_2(seats_order, struct seat, comm, rank)
MT_ORDER_2(seats_ring, struct seat, machine, rank)

static int seats_add(struct seats *s, const struct mt_source *source, const struct mt_companion *c)
{
    if (mt_grow(&s->list, &s->room, s->n + c->ncommunicators + 1, sizeof *s->list) != 0)
        return -1;
    for (size_t i = 0; i < c->ncommunicators; i++) {
        const struct mt_communicator_event *e = &c->communicators[i];
        struct seat one = {.comm = e->comm, .rank = e->rank, .device = e->device, .place = e->rank};
        (void)mt_source_machine(source, e->device, &one.machine);
        s->list[s->n++] = one;
    }
    return 0;
}

/* Orders the ranks of communicators in rings that enter each machine once: by machine, then by rank. */
static int seats_arrange(struct seats *s)
{
    struct seat *ring = malloc((s->n + 1) * sizeof *ring);
    s->n = mt_order_once(s->list, s->n, sizeof *s->list, seats_order);
    for (size_t i = 0, end; ring && i < s->n; i = end) {
        for (end = i; end < s->n && s->list[end].comm == s->list[i].comm; end++)
            ring[end] = s->list[end];
        qsort(ring + i, end - i, sizeof *ring, seats_ring);
        int whole = s->list[end - 1].rank == end - i - 1; /* else traces of ranks are missing */
        for (size_t k = i; whole && k < end; k++)
            s->list[i + ring[k].rank].place = k - i;
    }
    free(ring);
    return ring ? 0 : -1;
}

static const struct seat *seat_of(const struct seats *s, uint64_t comm, uint64_t rank)
{
    const struct seat key = {.comm = comm, .rank = rank};
    return s->n ? bsearch(&key, s->list, s->n, sizeof key, seats_order) : NULL;
}

static const char *const topology_words[MT_TOPOLOGY_KINDS] = {
#define MT_TOPOLOGY_KIND(NAME, word, speed, what) word,
#include "output/rows/topology.def"
#undef MT_TOPOLOGY_KIND
};

static const double speeds[MT_TOPOLOGY_KINDS] = {
#define MT_TOPOLOGY_KIND(NAME, word, speed, what) speed,
#include "output/rows/topology.def"
#undef MT_TOPOLOGY_KIND
};

enum { MOST_BYTES = 1 << 20, MOST_NVLINKS = 18 /* limits: size of a file, NVLinks of a device */ };

static void topology_cell(struct mt_topology *t, unsigned a, unsigned b, int kind, unsigned width)
{
    t->kind[a][b] = (uint8_t)kind;
    t->width[a][b] = (uint8_t)width;
}

/* ---- presets ---- */

/* Pairs of devices share a switch, groups of four share a processor. */
static void topology_tree(struct mt_topology *t, unsigned a, unsigned b)
{
    topology_cell(t, a, b,
                  a / 2 == b / 2   ? MT_TOPOLOGY_PIX
                  : a / 4 == b / 4 ? MT_TOPOLOGY_NODE
                                   : MT_TOPOLOGY_SYS,
                  0);
}

/* Sets a pair's NVLinks in the hybrid cube mesh of a DGX-1 with V100. */
static void topology_mesh(struct mt_topology *t, unsigned a, unsigned b)
{
    static const char links[8][9] = {"01122000", "10210200", "12020010", "21200001",
                                     "20000112", "02001021", "00101202", "00012120"};
    int n = links[a % 8][b % 8] - '0';
    topology_cell(t, a, b, n ? MT_TOPOLOGY_NVLINK : MT_TOPOLOGY_SYS, (unsigned)n);
}

static const struct preset {
    const char *name;
    unsigned nvlinks; /* NVLinks of each pair; 0: `cell` decides */
    void (*cell)(struct mt_topology *, unsigned, unsigned);
    unsigned most; /* most devices of the preset */
} presets[] = {{"nvlink", MOST_NVLINKS, NULL, MT_TOPOLOGY_DEVICES},
               {"pcie", 0, topology_tree, MT_TOPOLOGY_DEVICES},
               {"dgx-1", 0, topology_mesh, 8},
               {"dgx-a100", 12, NULL, 8},
               {"dgx-h100", MOST_NVLINKS, NULL, 8}};
static const char *const topology_presets = "nvlink, pcie, dgx-1, dgx-a100 or dgx-h100";

static void topology_preset(struct mt_topology *t, const struct preset *p, unsigned devices)
{
    t->devices = devices < p->most ? devices : p->most;
    for (unsigned a = 0; a < t->devices; a++)
        for (unsigned b = 0; b < t->devices; b++)
            if (a != b && p->cell)
                p->cell(t, a, b);
            else if (a != b)
                topology_cell(t, a, b, MT_TOPOLOGY_NVLINK, p->nvlinks);
}

/* ---- files ---- */

enum { MOST_WORDS = MT_TOPOLOGY_DEVICES + 64 };
struct line {
    char *word[MOST_WORDS];
    unsigned n;
};

/* Removes colour sequences. */
static void topology_bare(char *text)
{
    char *out = text;
    for (const char *in = text; *in;) {
        if (in[0] != '\033' || in[1] != '[') {
            *out++ = *in++;
            continue;
        }
        for (in += 2; *in && (*in < '@' || *in > '~');)
            in++;
        in += *in != '\0';
    }
    *out = '\0';
}

static struct line topology_line(char *text)
{
    struct line l = {.n = 0};
    char *rest = text;
    for (char *w; l.n < MOST_WORDS && (w = strtok_r(rest, " \t\r", &rest));)
        l.word[l.n++] = w;
    return l;
}

/* Returns N of "GPU<N>", or -1 for another word. */
static int topology_device(const char *word)
{
    char *end;
    if (strncmp(word, "GPU", 3) != 0 || word[3] < '0' || word[3] > '9')
        return -1;
    unsigned long n = strtoul(word + 3, &end, 10);
    return *end || n >= MT_TOPOLOGY_DEVICES ? -1 : (int)n;
}

static int topology_read_cell(struct mt_topology *t, unsigned a, unsigned b, const char *word)
{
    for (int k = 0; k < MT_TOPOLOGY_NET; k++) {
        char *end = NULL;
        size_t n = strlen(topology_words[k]);
        unsigned long width = k == MT_TOPOLOGY_NVLINK && strncmp(word, topology_words[k], n) == 0
                                  ? strtoul(word + n, &end, 10)
                                  : 0;
        if (!(width && width <= 64 && !*end) && strcmp(word, topology_words[k]) != 0)
            continue;
        topology_cell(t, a, b, k, (unsigned)width);
        return 0;
    }
    return -1;
}

/* Parses "speed NV 50", in GB/s. */
static int topology_speed(struct mt_topology *t, const struct line *l)
{
    char *end;
    double speed = l->n == 3 ? strtod(l->word[2], &end) : 0;
    for (int k = 1; k < MT_TOPOLOGY_KINDS && speed >= 1e-3 && speed < 1e6 && !*end; k++)
        if (strcmp(l->word[1], topology_words[k]) == 0) {
            t->speed[k] = speed * 1e9;
            return 0;
        }
    return -1;
}

/* Returns the number of leading columns GPU0, GPU1 … */
static unsigned topology_head(const struct line *l)
{
    unsigned n = 0;
    while (n < l->n && topology_device(l->word[n]) == (int)n)
        n++;
    return n;
}

/* Parses a line. `seen`: rows that were present. Returns 0, or -1 with a sentence. */
static int topology_take(struct mt_topology *t, struct line *l, uint64_t *seen, unsigned number, char *why,
                         size_t size)
{
    int row = l->n ? topology_device(l->word[0]) : -1;
    if (l->n && strcmp(l->word[0], "speed") == 0 && topology_speed(t, l) != 0) {
        snprintf(why, size,
                 "line %u: a speed is NV, PIX, PXB, PHB, NODE, SYS or NET and GB/s, as in: speed NV 50",
                 number);
        return -1;
    }
    if (row < 0)
        return 0;
    if (!t->devices) {
        t->devices = topology_head(l);
        if (t->devices && (t->devices == l->n || strncmp(l->word[t->devices], "GPU", 3) != 0))
            return 0;
        snprintf(why, size, "line %u: devices are GPU0, GPU1 … in their order, %d at most, not %.20s", number,
                 MT_TOPOLOGY_DEVICES, l->word[t->devices < l->n ? t->devices : 0]);
        return -1;
    }
    if ((unsigned)row >= t->devices || *seen >> row & 1)
        return 0; /* rows of another table are ignored */
    *seen |= 1ull << row;
    for (unsigned b = 0; b < t->devices; b++)
        if (b + 1 >= l->n || topology_read_cell(t, (unsigned)row, b, l->word[b + 1]) != 0) {
            snprintf(why, size, "line %u: GPU%d has no connection to GPU%u that is known (%.20s)", number,
                     row, b, b + 1 < l->n ? l->word[b + 1] : "the line ends");
            return -1;
        }
    return 0;
}

static int topology_parse(struct mt_topology *t, char *text, char *why, size_t size)
{
    uint64_t seen = 0;
    unsigned number = 1;
    topology_bare(text);
    for (char *at = text; at; number++) {
        char *next = strchr(at, '\n');
        if (next)
            *next++ = '\0';
        struct line l = topology_line(at);
        if (topology_take(t, &l, &seen, number, why, size) != 0)
            return -1;
        at = next;
    }
    if (t->devices && (unsigned)__builtin_popcountll(seen) == t->devices)
        return 0;
    snprintf(why, size, "%s",
             t->devices ? "a device of the first line has no line of its own"
                        : "there is no table as nvidia-smi topo -m prints it (GPU0 GPU1 …)");
    return -1;
}

static int topology_file(struct mt_topology *t, const char *path, char *why, size_t size)
{
    FILE *f = fopen(path, "re");
    char *text = f ? calloc(1, MOST_BYTES + 1) : NULL;
    int rc = -1;
    if (!f)
        snprintf(why, size, "%s (a file, or %s)", strerror(errno), topology_presets);
    else if (!text)
        snprintf(why, size, "out of memory");
    else if (fread(text, 1, MOST_BYTES, f) == 0 && ferror(f))
        snprintf(why, size, "%s", strerror(errno));
    else
        rc = topology_parse(t, text, why, size);
    free(text);
    if (f)
        fclose(f);
    return rc;
}

/* ---- derived fields ---- */

static unsigned topology_nvswitch(const struct mt_topology *t, unsigned a)
{
    unsigned sum = 0, most = 0;
    for (unsigned b = 0; b < t->devices; b++) {
        unsigned n = t->kind[a][b] == MT_TOPOLOGY_NVLINK ? t->width[a][b] : 0;
        sum += n;
        most = n > most ? n : most;
    }
    return sum > MOST_NVLINKS ? most : 0;
}

/* Returns the first device that `a` reaches over kinds up to `far`. Devices below one switch reach each
 * other. */
static unsigned topology_first(const struct mt_topology *t, unsigned a, enum mt_topology_kind far)
{
    for (unsigned b = 0; b < a; b++)
        if (t->kind[a][b] >= MT_TOPOLOGY_PIX && t->kind[a][b] <= far)
            return b;
    return a;
}

static void topology_finish(struct mt_topology *t)
{
    for (unsigned a = 0; a < t->devices; a++) {
        t->nvswitch[a] = (uint8_t)topology_nvswitch(t, a);
        t->group[a] = (uint8_t)topology_first(t, a, MT_TOPOLOGY_PXB);
        t->socket[a] = (uint8_t)topology_first(t, a, MT_TOPOLOGY_NODE);
        t->alone[a] = 1;
        for (unsigned b = 0; b < a; b++)
            if (t->group[b] == t->group[a])
                t->alone[a] = t->alone[b] = 0;
    }
}

int mt_topology_read(struct mt_topology *t, const char *name, unsigned devices, char *why, size_t size)
{
    const struct preset *p = NULL;
    memset(t, 0, sizeof *t);
    for (int k = 0; k < MT_TOPOLOGY_KINDS; k++)
        t->speed[k] = speeds[k] * 1e9;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        p = strcmp(name, presets[i].name) == 0 ? &presets[i] : p;
    if (p)
        topology_preset(t, p, devices);
    else if (topology_file(t, name, why, size) != 0)
        return -1;
    topology_finish(t);
    return 0;
}

/* ---- routes ---- */

struct route {
    const struct mt_topology *t;
    unsigned first; /* number of the machine's device 0 */
    struct mt_topology_link *out;
    unsigned n;
};

static struct mt_topology_link *route_add(struct route *r, enum mt_topology_kind kind, unsigned width)
{
    struct mt_topology_link *l = &r->out[r->n++];
    l->kind = kind;
    l->speed = (r->t->devices ? r->t->speed[kind] : speeds[kind] * 1e9) * width;
    return l;
}

#define ROUTE_ADD(r, kind, width, ...)                                                                       \
    do {                                                                                                     \
        struct mt_topology_link *l = route_add(r, kind, width);                                              \
        snprintf(l->name, sizeof l->name, __VA_ARGS__);                                                      \
    } while (0)

/* Adds the links from a device to its switch or processor, and with `up` on to the processor. */
static void route_pcie(struct route *r, unsigned a, const char *word, int up)
{
    const struct mt_topology *t = r->t;
    if (up && !t->alone[a] && word[0] == 't')
        ROUTE_ADD(r, MT_TOPOLOGY_PHB, 1, "PCIe %s switch of %u", word, r->first + t->group[a]);
    ROUTE_ADD(r, MT_TOPOLOGY_PIX, 1, "PCIe %s %u", word, r->first + a);
    if (up && !t->alone[a] && word[0] == 'f')
        ROUTE_ADD(r, MT_TOPOLOGY_PHB, 1, "PCIe %s switch of %u", word, r->first + t->group[a]);
}

static void route_nvlink(struct route *r, unsigned a, unsigned b)
{
    if (!r->t->nvswitch[a] || !r->t->nvswitch[b]) {
        ROUTE_ADD(r, MT_TOPOLOGY_NVLINK, r->t->width[a][b], "NVLink from %u to %u", r->first + a,
                  r->first + b);
        return;
    }
    ROUTE_ADD(r, MT_TOPOLOGY_NVLINK, r->t->nvswitch[a], "NVLink from %u", r->first + a);
    ROUTE_ADD(r, MT_TOPOLOGY_NVLINK, r->t->nvswitch[b], "NVLink to %u", r->first + b);
}

static void route_devices(struct route *r, unsigned a, unsigned b)
{
    enum mt_topology_kind kind = r->t->kind[a][b];
    if (kind == MT_TOPOLOGY_NVLINK) {
        route_nvlink(r, a, b);
        return;
    }
    route_pcie(r, a, "from", kind > MT_TOPOLOGY_PXB);
    if (kind == MT_TOPOLOGY_SYS)
        ROUTE_ADD(r, kind, 1, "processor of %u to that of %u", r->first + r->t->socket[a],
                  r->first + r->t->socket[b]);
    route_pcie(r, b, "to", kind > MT_TOPOLOGY_PXB);
}

/* Adds the links between two devices of a machine, or one of them and the host (-1). None if one is not in
 * the table or both are the same. */
static void topology_route(struct route *r, int64_t from, int64_t to)
{
    if (from == to || from >= r->t->devices || to >= r->t->devices)
        return;
    if (from >= 0 && to >= 0)
        route_devices(r, (unsigned)from, (unsigned)to);
    else
        route_pcie(r, (unsigned)(from < 0 ? to : from), from < 0 ? "to" : "from", 1);
}

/* One end of a transfer. */
struct route_end {
    const char *machine; /* NULL: there is only one */
    int64_t first;       /* number of its device 0 */
};

static void route_network(struct route *r, int64_t device, const struct route_end *e, const char *word)
{
    int slot = r->t->devices && device - e->first < r->t->devices;
    r->first = (unsigned)e->first;
    if (slot && word[0] == 'f')
        route_pcie(r, (unsigned)(device - e->first), word, 0);
    ROUTE_ADD(r, MT_TOPOLOGY_NET, 1, "network %s %s", word, e->machine);
    if (slot && word[0] == 't')
        route_pcie(r, (unsigned)(device - e->first), word, 0);
}

/* Computes the links from one device to another, or to the host (-1) of its machine, in order. Returns their
 * number. Without a topology only those of the network are known. */
static unsigned devices_route(const struct mt_comm_result *x, int64_t from, int64_t to,
                              struct mt_topology_link out[MT_TOPOLOGY_ROUTE])
{
    static const struct mt_topology none;
    struct route_end a = {.first = 0}, b = {.first = 0};
    a.machine = mt_source_machine(x->source, from >= 0 ? from : to, &a.first);
    b.machine = mt_source_machine(x->source, to >= 0 ? to : from, &b.first);
    struct route r = {x->topology ? x->topology : &none, (unsigned)a.first, out, 0};
    if (a.first == b.first) {
        topology_route(&r, from < 0 ? from : from - a.first, to < 0 ? to : to - a.first);
    } else {
        route_network(&r, from, &a, "from");
        route_network(&r, to, &b, "to");
    }
    return r.n;
}

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

static void results_devices_add(struct flows *f, const struct device_flow *one)
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
            results_devices_add(f, &(struct device_flow){.superstep = c->superstep,
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
        results_devices_add(f, &(struct device_flow){.superstep = NO_LAUNCH,
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
                               enum mt_collective_way way, const struct seats *seats)
{
    const struct mt_collective *c = l->event->collective;
    const struct seat *to = seat_of(seats, c->comm, c->rank),
                      *root = c->root >= 0 ? seat_of(seats, c->comm, (uint64_t)c->root) : NULL;
    for (uint64_t r = 0; to && r < c->ranks && !f->failed; r++) {
        const struct seat *from = seat_of(seats, c->comm, r);
        if (!from)
            continue;
        const struct ring_places p = {to->place, from->place, root ? root->place : (uint64_t)c->root};
        uint64_t bytes = collective_bytes(c, way, r, &p);
        if (bytes)
            results_devices_add(f, &(struct device_flow){.superstep = l->superstep,
                                                         .kernel = l->kernel,
                                                         .how = FLOW_COLLECTIVE,
                                                         .from = from->device,
                                                         .to = to->device,
                                                         .accesses = 1,
                                                         .bytes = bytes});
    }
}

static void devices_collectives(struct flows *f, const struct mt_comm_result *r)
{
    struct seats seats = {.n = 0};
    for (size_t i = 0; r->ncollectives && i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        f->failed |= c && seats_add(&seats, r->source, c) != 0;
    }
    f->failed |= seats_arrange(&seats) != 0;
    for (size_t i = 0; i < r->ncollectives; i++)
        devices_collective(f, &r->collectives[i], r->way, &seats);
    free(seats.list);
}

MT_ORDER_4(devices_compare, struct device_flow, superstep, how, from, to)

static void devices_add_flow(void *to, const void *from)
{
    struct device_flow *x = to;
    const struct device_flow *y = from;
    x->accesses += y->accesses;
    x->bytes += y->bytes;
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
    *n = mt_order_join(f.list, f.n, sizeof *f.list, devices_compare, devices_add_flow);
    for (size_t i = 0; i < *n; i++)
        several |= f.list[i].from > 0 || f.list[i].to > 0;
    if (!several)
        *n = 0;
    if (f.failed) {
        free(f.list);
        return NULL;
    }
    return f.list;
}

/* ---- Load of links: each flow counts on all links of its route ---- */
MT_ORDER_FUNCTION(devices_by_link, struct link_load,
                  MT_ORDER_TEXT(x->link.name, y->link.name) MT_ORDER_DIFFER(x, y, superstep)
                      MT_ORDER_DIFFER(x, y, how))

static void devices_add_load(void *to, const void *from)
{
    ((struct link_load *)to)->bytes += ((const struct link_load *)from)->bytes;
}

/* Returns the loads by link name, then in the order of devices_flows. *outside:
 * bytes to or from devices that the topology lacks. To be freed; NULL: no memory. */
static struct link_load *devices_loads(const struct mt_comm_result *r, size_t *n, uint64_t *outside)
{
    size_t nflows = 0, room = 0;
    struct mt_topology_link way[MT_TOPOLOGY_ROUTE];
    struct link_load *list = NULL;
    struct device_flow *flows = devices_flows(r, &nflows);
    int failed = !flows || mt_grow(&list, &room, 1, sizeof *list) != 0;
    *n = *outside = 0;
    for (size_t i = 0; !failed && i < nflows; i++) {
        const struct device_flow *f = &flows[i];
        unsigned links = devices_route(r, f->from, f->to, way);
        *outside += r->topology && !links && f->from != f->to ? f->bytes : 0;
        failed = mt_grow(&list, &room, *n + links + 1, sizeof *list) != 0;
        for (unsigned k = 0; !failed && k < links; k++)
            list[(*n)++] = (struct link_load){way[k], f->superstep, f->kernel, f->how, f->bytes};
    }
    free(flows);
    if (failed) {
        free(list);
        return NULL;
    }
    *n = mt_order_join(list, *n, sizeof *list, devices_by_link, devices_add_load);
    return list;
}

/* Writes the columns launch and kernel. */
static void results_devices_launch(struct mt_tuples *w, uint64_t superstep, const char *kernel)
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
    results_devices_launch(w, f->superstep, f->kernel);
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
    mt_tuples_text(w, topology_words[l->link.kind]);
    mt_tuples_real(w, l->link.speed);
    results_devices_launch(w, l->superstep, l->kernel);
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

/* A device of several machines. */
struct machine_device {
    int64_t device, first;
    const char *machine;
};

static struct machine_device *machine_devices(const struct mt_comm_result *r, size_t *n)
{
    size_t nflows = 0;
    struct device_flow *flows = devices_flows(r, &nflows);
    struct machine_device *list = NULL;
    int64_t most = -1;
    for (size_t i = 0; flows && i < nflows; i++) {
        most = flows[i].from > most ? flows[i].from : most;
        most = flows[i].to > most ? flows[i].to : most;
    }
    *n = 0;
    if (flows && (list = malloc((size_t)(most + 2) * sizeof *list)))
        for (int64_t d = 0; d <= most; d++) {
            struct machine_device one = {.device = d};
            if ((one.machine = mt_source_machine(r->source, d, &one.first)))
                list[(*n)++] = one;
        }
    free(flows);
    return list;
}

static void devices_machine_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct machine_device *d = &((const struct machine_device *)x->data)[i];
    devices_text(w, d->device);
    mt_tuples_text(w, d->machine);
    mt_tuples_number(w, (uint64_t)(d->device - d->first));
}

MT_ROWS_OF_LIST(machines, devices_machine_row, machine_devices(x->r, &x->n), x->n)

int mt_devices_json(struct mt_json *j, const struct mt_comm_result *r)
{
    size_t n, nmachines = 0;
    struct device_flow *list = devices_flows(r, &n);
    struct machine_device *machines = machine_devices(r, &nmachines);
    free(list);
    free(machines);
    if (!list || !machines || !n)
        return list && machines ? 0 : -1; /* with one device the member is omitted */
    int rc = mt_relation_json(j, r, MT_REL_devices, MT_REL_NONE, 0);
    if (!rc && (r->topology || nmachines))
        rc = mt_relation_json(j, r, MT_REL_links, MT_REL_NONE, 0);
    return rc || !nmachines ? rc : mt_relation_json(j, r, MT_REL_machines, MT_REL_NONE, 0);
}

int mt_devices_text(struct mt_text *t)
{
    size_t n, nlinks;
    uint64_t outside = 0;
    struct device_flow *flows = devices_flows(t->r, &n);
    struct link_load *links = devices_loads(t->r, &nlinks, &outside);
    int rc = flows && links ? 0 : -1, network = 0;
    for (size_t i = 0; links && i < nlinks; i++)
        network |= links[i].link.kind == MT_TOPOLOGY_NET;
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
    if (rc == 0 && network)
        rc = mt_text_table(
            t, "Bytes from machine to machine, and the devices there that send and receive them",
            "SELECT a.machine AS 'from', b.machine AS 'to', group_concat(DISTINCT source) AS 'devices', "
            "group_concat(DISTINCT target) AS 'to devices', sum(bytes) AS '>bytes' FROM devices JOIN "
            "machines a ON a.device = source JOIN machines b ON b.device = target WHERE a.machine <> "
            "b.machine GROUP BY a.machine, b.machine ORDER BY sum(bytes) DESC, a.machine, b.machine");
    if (rc == 0 && n && (t->r->topology || network))
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
    "net AS (SELECT sum(bytes) AS bytes FROM d JOIN machines a ON a.device = source JOIN machines b ON "
    "b.device = "
    "target WHERE a.machine <> b.machine), "
    "slow AS (SELECT link, sum(bytes) / speed AS seconds FROM links GROUP BY link ORDER BY seconds DESC, "
    "link LIMIT 1), "
    "whose AS (SELECT coalesce(kernel, by) AS name FROM links JOIN slow USING (link) GROUP BY 1 ORDER BY "
    "sum(bytes) DESC, 1 LIMIT 1) "
    "SELECT 'devices', 'devices', 100, 0, printf('Traffic between devices: %s%s%s; between devices and host: "
    "%s.', bytes(between_devices), coalesce((SELECT printf(', of it %s between machines', bytes(bytes)) FROM "
    "net "
    "WHERE bytes), ''), coalesce(printf(' (%s), most from %s to %s', words, (SELECT source FROM "
    "most), (SELECT target FROM most)), ''), bytes(host)) || "
    "coalesce((SELECT printf(' The slowest transfer is over %s: %s at its speed, most of it for %s.', "
    "link, duration(seconds * 1e9), mark(kernel(name), name)) FROM slow, whose WHERE seconds), '') "
    "FROM t, ways WHERE EXISTS (SELECT 1 FROM d)";
