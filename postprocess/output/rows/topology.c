/* Topologies: reads the table of `nvidia-smi topo -m` (a line of names, GPU0 …, then a line for each), and
 * computes routes and what collectives move. */
#define _GNU_SOURCE

#include "topology.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static uint64_t collectives_ring(const struct mt_collective *c, const struct op *o, uint64_t from)
{
    uint64_t n = c->ranks, before = (c->rank + n - 1) % n, bytes = c->count * c->size;
    if (from != before)
        return 0;
    if (o->form == ALL)
        return strcmp(o->name, "allreduce") == 0
                   ? 2 * bytes - collectives_part(c, before) - collectives_part(c, c->rank)
                   : (n - 1) * bytes;
    uint64_t first =
        o->form == FROM_ROOT ? (uint64_t)c->root : ((uint64_t)c->root + 1) % n; /* receives nothing */
    return c->rank == first ? 0 : bytes;
}

/* Computes the bytes in a tree where node v, counted from the root, has the children 2v + 1 and 2v + 2. */
static uint64_t collectives_tree(const struct mt_collective *c, const struct op *o, uint64_t from)
{
    uint64_t n = c->ranks, root = c->root < 0 ? 0 : (uint64_t)c->root, bytes = c->count * c->size;
    uint64_t v = (c->rank + n - root) % n, u = (from + n - root) % n;
    int up = u && (u - 1) / 2 == v, down = v && (v - 1) / 2 == u;
    return (o->reduces && up ? bytes : 0) + (o->form != TO_ROOT && down ? bytes : 0);
}

uint64_t mt_collective_bytes(const struct mt_collective *c, enum mt_collective_way way, uint64_t from)
{
    const struct op *o = collectives_op(c);
    if (!o || from == c->rank || ((o->form == FROM_ROOT || o->form == TO_ROOT) && c->root < 0))
        return 0;
    if (!o->routed || way == MT_COLLECTIVE_DIRECT)
        return collectives_direct(c, o, from);
    int both = strcmp(o->name, "allgather") && strcmp(o->name, "reducescatter");
    return way == MT_COLLECTIVE_TREE && both ? collectives_tree(c, o, from) : collectives_ring(c, o, from);
}

/* ---- devices ---- */

MT_ORDER_2(collectives_order, struct mt_communicator_event, comm, rank)

int mt_collective_places_add(struct mt_collective_places *p, const struct mt_companion *c)
{
    if (!c->ncommunicators)
        return 0;
    if (mt_grow(&p->list, &p->room, p->n + c->ncommunicators, sizeof *p->list) != 0)
        return -1;
    memcpy(p->list + p->n, c->communicators, c->ncommunicators * sizeof *p->list);
    p->n += c->ncommunicators;
    return 0;
}

void mt_collective_places_order(struct mt_collective_places *p)
{
    if (p->n)
        qsort(p->list, p->n, sizeof *p->list, collectives_order);
}

int mt_collective_place(const struct mt_collective_places *p, uint64_t comm, uint64_t rank, int64_t *device)
{
    const struct mt_communicator_event key = {.comm = comm, .rank = rank},
                                       *e = p->n ? bsearch(&key, p->list, p->n, sizeof key, collectives_order)
                                                 : NULL;
    if (!e)
        return -1;
    *device = e->device;
    return 0;
}

void mt_collective_places_free(struct mt_collective_places *p)
{
    free(p->list);
}

const char *const mt_topology_words[MT_TOPOLOGY_KINDS] = {
#define MT_TOPOLOGY_KIND(NAME, word, speed, what) word,
#include "topology.def"
#undef MT_TOPOLOGY_KIND
};

static const double speeds[MT_TOPOLOGY_KINDS] = {
#define MT_TOPOLOGY_KIND(NAME, word, speed, what) speed,
#include "topology.def"
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
    for (int k = 0; k < MT_TOPOLOGY_KINDS; k++) {
        char *end = NULL;
        size_t n = strlen(mt_topology_words[k]);
        unsigned long width = k == MT_TOPOLOGY_NVLINK && strncmp(word, mt_topology_words[k], n) == 0
                                  ? strtoul(word + n, &end, 10)
                                  : 0;
        if (!(width && width <= 64 && !*end) && strcmp(word, mt_topology_words[k]) != 0)
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
        if (strcmp(l->word[1], mt_topology_words[k]) == 0) {
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
        snprintf(why, size, "line %u: a speed is NV, PIX, PXB, PHB, NODE or SYS and GB/s, as in: speed NV 50",
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
    struct mt_topology_link *out;
    unsigned n;
};

static struct mt_topology_link *route_add(struct route *r, enum mt_topology_kind kind, unsigned width)
{
    struct mt_topology_link *l = &r->out[r->n++];
    l->kind = kind;
    l->speed = r->t->speed[kind] * width;
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
        ROUTE_ADD(r, MT_TOPOLOGY_PHB, 1, "PCIe %s switch of %u", word, t->group[a]);
    ROUTE_ADD(r, MT_TOPOLOGY_PIX, 1, "PCIe %s %u", word, a);
    if (up && !t->alone[a] && word[0] == 'f')
        ROUTE_ADD(r, MT_TOPOLOGY_PHB, 1, "PCIe %s switch of %u", word, t->group[a]);
}

static void route_nvlink(struct route *r, unsigned a, unsigned b)
{
    if (!r->t->nvswitch[a] || !r->t->nvswitch[b]) {
        ROUTE_ADD(r, MT_TOPOLOGY_NVLINK, r->t->width[a][b], "NVLink from %u to %u", a, b);
        return;
    }
    ROUTE_ADD(r, MT_TOPOLOGY_NVLINK, r->t->nvswitch[a], "NVLink from %u", a);
    ROUTE_ADD(r, MT_TOPOLOGY_NVLINK, r->t->nvswitch[b], "NVLink to %u", b);
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
        ROUTE_ADD(r, kind, 1, "processor of %u to that of %u", r->t->socket[a], r->t->socket[b]);
    route_pcie(r, b, "to", kind > MT_TOPOLOGY_PXB);
}

unsigned mt_topology_route(const struct mt_topology *t, int64_t from, int64_t to,
                           struct mt_topology_link out[MT_TOPOLOGY_ROUTE])
{
    struct route r = {t, out, 0};
    if (from == to || from >= t->devices || to >= t->devices)
        return 0;
    if (from >= 0 && to >= 0)
        route_devices(&r, (unsigned)from, (unsigned)to);
    else
        route_pcie(&r, (unsigned)(from < 0 ? to : from), from < 0 ? "to" : "from", 1);
    return r.n;
}
