/* See memory.h. */
#include "memory.h"
#include "analysis/base/runs.h"
#include "memtrace/grow.h"
#include "memtrace/host.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 4096, PAGE = 4096 };
#define MOST_BYTES (1ull << 36)
#define MOST_WORK (1ull << 31)

/* A launch without a trace may have written and read everything. */
static void memory_untraced(struct mt_check_memory *m)
{
    for (size_t i = 0; i < mt_source_inputs(m->source); i++) {
        const struct mt_companion *c = mt_source_companion(m->source, i);
        for (size_t k = 0; c && k < c->nlaunches && !m->blind; k++)
            m->blind = !c->launches[k].traced && !c->launches[k].status;
    }
    m->findings->unjudged += (uint64_t)m->blind;
    m->work = m->blind ? 0 : m->work;
}

MT_ORDER_1(memory_by_id, struct mt_alloc_event, id)

/* What was given to another process that may write, and the trace of this one alone is here. */
static void memory_shared(struct mt_check_memory *m)
{
    for (size_t i = 0; i < mt_source_inputs(m->source) && mt_source_processes(m->source) == 1; i++) {
        const struct mt_companion *c = mt_source_companion(m->source, i);
        for (size_t k = 0; c && k < c->nshares; k++) {
            struct mt_alloc_event key = {.id = c->shares[k].id},
                                  *a = bsearch(&key, m->allocs, m->nallocs, sizeof key, memory_by_id);
            if (a && !c->shares[k].opened)
                m->blocks[a - m->allocs] = (struct mt_check_block){.judged = 1, .loaded = 1, .stored = 1};
        }
    }
}

enum { HOST_USED = 1, HOST_READ = 2 };

/* Host traces among those of kernels. */
static int memory_hosts(struct mt_check_memory *m)
{
    size_t n = m->threads ? 0 : mt_source_inputs(m->source);
    if (!(m->hosts = calloc(n + 1, sizeof *m->hosts)))
        return -1;
    for (size_t i = 0; i < n; i++) {
        const struct mt_companion *c = mt_source_companion(m->source, i);
        if (!c || !*c->engine)
            continue;
        struct mt_check_host *h = &m->hosts[m->nhosts++];
        *h = (struct mt_check_host){i, c, mt_live_allocs_new(c->allocs, c->nallocs),
                                    calloc(c->nallocs + 1, 1), 0};
        if (!h->live || !h->used || mt_live_allocs_cut(h->live, c->cuts, c->ncuts) != 0)
            return -1;
    }
    return 0;
}

static int memory_init(void *self, const struct mt_run_options *o)
{
    struct mt_check_memory *m = self;
    struct mt_source *source = o->source;
    struct mt_findings *findings = m->findings;
    *m = (struct mt_check_memory){.source = source, .findings = findings};
    m->unwritten.source = source;
    m->unwritten.findings = findings;
    m->work = MOST_WORK;
    m->threads = mt_source_threads(source);
    memory_untraced(m);
    m->allocs = mt_source_allocs(source, &m->nallocs);
    const struct mt_companion *c = mt_findings_companion(findings, source);
    m->ended = c && c->has_end;
    m->blind = mt_source_processes(source) > 1; /* what one leaves another may use */
    m->blocks = calloc(m->nallocs + 1, sizeof *m->blocks);
    if (m->blocks)
        memory_shared(m);
    return m->blocks && memory_hosts(m) == 0 && mt_padding_copies(&m->copying, source) == 0 &&
                   mt_buffers_init(&m->buffers, m->allocs, m->nallocs) == 0 &&
                   mt_check_unordered_init(&m->unordered, source, findings, &m->buffers) == 0
               ? 0
               : -1;
}

static void memory_free(void *self)
{
    struct mt_check_memory *m = self;
    for (size_t i = 0; m->blocks && i < m->nallocs; i++)
        mt_written_free(&m->blocks[i].written), mt_written_free(&m->blocks[i].host);
    for (size_t i = 0; i < m->ncopies; i++)
        free(m->copies[i]);
    for (size_t i = 0; i < m->nhosts; i++)
        mt_live_allocs_free(m->hosts[i].live), free(m->hosts[i].used);
    free(m->hosts);
    free((void *)m->copies);
    free(m->blocks);
    mt_unwritten_free(&m->unwritten);
    mt_check_shared_free(&m->shared);
    mt_pairmap_free(&m->copying);
    mt_check_unordered_free(&m->unordered);
    mt_buffers_free(&m->buffers);
    memset(m, 0, sizeof *m);
}

/* ---- blocks ---- */

/* What a host program gets from malloc and its kin: who uses it is known, which byte is written first is not
 * looked at, as whole structs are copied with what lies between their members. */
static int memory_is_heap(const struct mt_alloc_event *a)
{
    static const char *const kinds[] = {"malloc", "calloc", "realloc", "memalign", "new"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(a->kind, kinds[i]) == 0)
            return 1;
    return 0;
}

static int memory_is_judged(const struct mt_alloc_event *a)
{
    return (a->bytes <= MOST_BYTES &&
            (strcmp(a->kind, "cudaMalloc") == 0 || strcmp(a->kind, "async") == 0)) ||
           memory_is_heap(a);
}

/* Its bits; those of a trace that asks for too much are all set. */
static int memory_make(struct mt_check_memory *m, struct mt_check_block *b, uint64_t bytes)
{
    uint64_t room = 2 * mt_written_room(bytes);
    if (m->threads || room > m->work) {
        m->blind |= !m->threads;
        mt_written_all(&b->written);
        return 0;
    }
    m->work -= room;
    return mt_written_init(&b->written, bytes) != 0 ? -1 : mt_written_init(&b->host, bytes);
}

/* The part of n bytes that lies in one allocation, or in none (*block NULL). Returns its bytes, or 0 without
 * memory. */
static uint64_t memory_part(struct mt_check_memory *m, uint64_t address, uint64_t n,
                            struct mt_check_block **block, uint64_t *offset)
{
    const struct mt_buffer_stretch *s = mt_buffers_stretch(&m->buffers, address);
    uint64_t left = s->last - address;
    struct mt_check_block *b = s->in ? &m->blocks[s->in - m->allocs] : NULL;
    if (b && !b->judged)
        b->judged = memory_is_judged(s->in) ? 2 : 1;
    *block = NULL;
    if (b && b->judged == 2) {
        *block = b;
        *offset = address - s->in->base;
        if (!b->written.page && !b->written.all && memory_make(m, b, s->in->bytes) != 0)
            return 0;
    }
    return left < n - 1 ? left + 1 : n;
}

/* Not all that a launch did is recorded: from now on all counts as written and used. */
static void memory_blind(struct mt_check_memory *m)
{
    m->blind = 1;
    m->findings->unjudged++;
    for (size_t i = 0; i < m->buffers.nlive; i++) {
        struct mt_check_block *b = &m->blocks[m->buffers.live[i] - m->allocs];
        mt_written_all(&b->written);
        b->loaded = b->stored = 1;
        b->unread = NULL;
    }
}

/* ---- what a kernel does ---- */

/* Is it a part of a struct that is copied? */
static int memory_copies(const struct mt_check_memory *m, const struct mt_access_run *r)
{
    return mt_pairmap_find(&m->copying, r->site, m->unwritten.input) != NULL;
}

/* `n` unwritten bytes of a piece, `at` bytes from its beginning and `offset` bytes into their block. Each
 * access is looked at by itself; smaller ones may be the parts in which a struct is copied. */
static int memory_read(struct mt_check_memory *m, const struct mt_access_run *r, const struct mt_piece *p,
                       uint32_t first, uint64_t at, uint64_t n, const struct mt_check_block *b,
                       uint64_t offset)
{
    const uint32_t size = mt_run_size(r);
    const int whole = memory_copies(m, r);
    uint64_t part, padding;
    for (uint64_t i = 0; i < n; i += part) {
        part = size - (at + i) % size;
        part = size < 4 || part > n - i ? n - i : part;
        padding = mt_padding_read(&b->written, &b->host, &b->members, offset + i, part, size, whole);
        if (padding)
            part = padding;
        else if (mt_unwritten_add(&m->unwritten, r, first, p->address, p->address + at + i, part, 0,
                                  &m->allocs[b - m->blocks]) != 0)
            return -1;
    }
    return 0;
}

static int memory_load(struct mt_check_memory *m, const struct mt_access_run *r, const struct mt_piece *p,
                       uint32_t first)
{
    struct mt_check_block *b;
    uint64_t offset = 0, part;
    for (uint64_t at = 0; at < p->bytes; at += part) {
        if (!(part = memory_part(m, p->address + at, p->bytes - at, &b, &offset)))
            return -1;
        if (!b)
            continue;
        b->loaded = 1;
        b->unread = NULL;
        uint64_t run;
        for (uint64_t i = 0; i < part; i += run) {
            int set;
            run = mt_written_run(&b->written, offset + i, part - i, &set);
            if (!set && memory_read(m, r, p, first, at + i, run, b, offset + i) != 0)
                return -1;
        }
    }
    return 0;
}

static int memory_store(struct mt_check_memory *m, const struct mt_access_run *r, const struct mt_piece *p)
{
    struct mt_check_block *b;
    uint64_t offset = 0, part;
    if (mt_run_type(r) == MT_STORE)
        mt_unwritten_settle(&m->unwritten, r->cta, p->address, p->bytes);
    for (uint64_t at = 0; at < p->bytes; at += part) {
        if (!(part = memory_part(m, p->address + at, p->bytes - at, &b, &offset)))
            return -1;
        if (b &&
            (mt_written_set(&b->written, offset, part) != 0 || mt_written_clear(&b->host, offset, part) != 0))
            return -1;
        if (b)
            b->stored = 1;
    }
    return 0;
}

/* What stores of a run tell of the structs where it begins. */
static int memory_members(struct mt_check_memory *m, const struct mt_access_run *r)
{
    struct mt_check_block *b = NULL;
    uint64_t offset = 0;
    if (r->count && !memory_part(m, mt_run_address(r, 0), 1, &b, &offset))
        return -1;
    if (b)
        mt_members_store(&b->members, r, offset, memory_copies(m, r));
    return 0;
}

static int memory_run(struct mt_check_memory *m, const struct mt_access_run *r)
{
    struct mt_piece p;
    uint32_t type = mt_run_type(r), at = 0, first = 0;
    if (mt_rec_space(type) != MT_IN_GLOBAL)
        return 0;
    if (type != MT_LOAD && memory_members(m, r) != 0)
        return -1;
    for (; mt_run_piece(r, &at, &p); first = at)
        if ((type != MT_STORE && memory_load(m, r, &p, first) != 0) ||
            (type != MT_LOAD && memory_store(m, r, &p) != 0))
            return -1;
    return 0;
}

static int memory_launch(void *self, const struct mt_run_launch *launch)
{
    struct mt_check_memory *m = self;
    const struct mt_launch_event *l = launch->event;
    int rc = mt_unwritten_end(&m->unwritten);
    if (rc == 0)
        rc = mt_check_unordered_launch(&m->unordered, launch);
    m->unwritten.launch = l;
    m->unwritten.kernel = launch->kernel;
    m->unwritten.input = launch->input;
    m->unwritten.step = launch->superstep;
    mt_check_shared_launch(&m->shared, l && l->untraced);
    m->past = l && !m->threads && l->seq >= m->past ? l->seq + 1 : m->past;
    mt_buffers_launch(&m->buffers, l ? l->seq : MT_SEQ_NONE);
    if (rc == 0 && (!l || !l->traced || l->untraced || l->no_records || l->has_ctas))
        memory_blind(m);
    return rc;
}

/* ---- what the host does ---- */

/* A copy or a fill from the host. */
static int memory_set(struct mt_check_memory *m, uint64_t address, uint64_t n,
                      const struct mt_copy_event *from)
{
    struct mt_check_block *b;
    uint64_t offset = 0, part;
    for (uint64_t at = 0; at < n; at += part) {
        if (!(part = memory_part(m, address + at, n - at, &b, &offset)))
            return -1;
        if (!b)
            continue;
        if (mt_written_set(&b->written, offset, part) != 0 || mt_written_set(&b->host, offset, part) != 0)
            return -1;
        b->members.host = 1;
        b->copied_in = 1;
        b->unread = from->kind == MT_COPY_H2D ? from : b->unread;
    }
    return 0;
}

static int memory_put(struct mt_written *w, int set, uint64_t from, uint64_t n)
{
    return set ? mt_written_set(w, from, n) : mt_written_clear(w, from, n);
}

/* What is known of n bytes at `offset` of a block (NULL: they are written) holds of those at `address`, too,
 * where a copy on the device has brought them. */
static int memory_hand_on(struct mt_check_memory *m, const struct mt_check_block *from, uint64_t offset,
                          uint64_t address, uint64_t n)
{
    struct mt_check_block *b;
    uint64_t to = 0, part, run;
    for (uint64_t at = 0; at < n; at += part) {
        if (!(part = memory_part(m, address + at, n - at, &b, &to)))
            return -1;
        for (uint64_t i = 0; b && i < part; i += run) {
            uint64_t here = offset + at + i, host_run;
            int set = 1, host = 0;
            run = from ? mt_written_run(&from->written, here, part - i, &set) : part;
            host_run = from ? mt_written_run(&from->host, here, run, &host) : run;
            run = host_run < run ? host_run : run;
            if (memory_put(&b->written, set, to + i, run) != 0 ||
                memory_put(&b->host, host, to + i, run) != 0)
                return -1;
        }
        if (b)
            b->copied_in = 1;
        if (b)
            mt_members_take(&b->members, from ? &from->members : NULL);
    }
    return 0;
}

static int memory_copy_finding(struct mt_check_memory *m, enum mt_finding_kind kind,
                               const struct mt_copy_event *c, uint64_t count, size_t alloc)
{
    struct mt_finding f = {
        .kind = kind,
        .here = {.file = c->file ? c->file : "", .line = c->line, .at = c->at, .callers = c->callers},
        .size = c->width * c->height,
        .count = count,
        .launches = 0,
        .alloc = &m->allocs[alloc]};
    return mt_findings_add(m->findings, &f);
}

/* How many of n bytes of a block go to the host although nobody wrote them. */
static uint64_t memory_bad(const struct mt_check_block *b, uint64_t offset, uint64_t n)
{
    const uint32_t aligned = mt_members_several(&b->members) ? MT_MEMBERS_ALIGNED : 0;
    uint64_t run, padding, bad = 0;
    for (uint64_t i = 0; i < n; i += run) {
        int set;
        run = mt_written_run(&b->written, offset + i, n - i, &set);
        padding = set ? run : mt_padding(&b->written, &b->host, &b->members, offset + i, aligned);
        bad += padding ? 0 : run;
        run = padding && padding < run ? padding : run;
    }
    return bad;
}

/* Bytes that go to the host, or (to != 0) to another place on the device. */
static int memory_take(struct mt_check_memory *m, const struct mt_copy_event *c, uint64_t address, uint64_t n,
                       uint64_t to)
{
    struct mt_check_block *b;
    uint64_t offset = 0, part, bad;
    for (uint64_t at = 0; at < n; at += part) {
        if (!(part = memory_part(m, address + at, n - at, &b, &offset)))
            return -1;
        if (b) {
            b->copied_out = 1;
            b->unread = NULL;
        }
        if (to && memory_hand_on(m, b, offset, to + at, part) != 0)
            return -1;
        bad = b && !to ? memory_bad(b, offset, part) : 0;
        if (bad && memory_copy_finding(m, MT_FINDING_OF_UNWRITTEN_COPY, c, bad, (size_t)(b - m->blocks)) != 0)
            return -1;
    }
    return 0;
}

/* The first copy whose bytes are still unread, where this one or this fill goes. */
static int memory_replaces(struct mt_check_memory *m, const struct mt_copy_event *c)
{
    struct mt_check_block *b;
    uint64_t offset;
    if (!memory_part(m, c->dst, 1, &b, &offset))
        return -1;
    if (!b || !b->unread || m->blind || b->unread->dst != c->dst || b->unread->width > c->width ||
        b->unread->height > c->height)
        return 0;
    const struct mt_copy_event *old = b->unread;
    b->unread = NULL;
    return memory_copy_finding(m, MT_FINDING_OF_UNREAD_COPY, old, 1, (size_t)(b - m->blocks));
}

static const struct mt_copy_event *memory_keep(struct mt_check_memory *m, const struct mt_copy_event *c)
{
    struct mt_copy_event *kept = malloc(sizeof *kept);
    if (!kept || mt_grow((void *)&m->copies, &m->copy_room, m->ncopies + 1, sizeof *m->copies) != 0) {
        free(kept);
        return NULL;
    }
    *kept = *c;
    m->copies[m->ncopies++] = kept;
    return kept;
}

/* More rows or bytes than it is worth: what they are written to counts as written. */
static int memory_too_much(struct mt_check_memory *m, const struct mt_copy_event *c)
{
    uint64_t pages = c->width / PAGE * c->height + c->height;
    if (c->height <= MOST_ROWS && pages <= m->work) {
        m->work -= pages;
        return 0;
    }
    memory_blind(m);
    return 1;
}

/* realloc in a host program: the new block has what the old one had. */
static int memory_moves(struct mt_check_memory *m, const struct mt_copy_event *c)
{
    struct mt_check_block *b = NULL;
    uint64_t offset;
    if (!memory_part(m, c->src, 1, &b, &offset))
        return -1;
    if (b)
        b->loaded = 1;
    return 0;
}

static int memory_copy(void *self, const struct mt_copy_event *c)
{
    struct mt_check_memory *m = self;
    const struct mt_copy_event *kept = c;
    int rc = 0;
    if (mt_unwritten_end(&m->unwritten) != 0)
        return -1;
    if (c->kind == MT_COPY_NEW || c->kind == MT_COPY_H2H)
        return 0;
    if (m->threads)
        return memory_moves(m, c);
    if (mt_check_unordered_copy(&m->unordered, c) != 0)
        return -1;
    mt_buffers_launch(&m->buffers, c->seq);
    m->past = c->seq >= m->past ? c->seq + 1 : m->past;
    if ((c->kind == MT_COPY_H2D || c->kind == MT_COPY_SET) && memory_replaces(m, c) != 0)
        return -1;
    if (c->kind == MT_COPY_H2D && !(kept = memory_keep(m, c)))
        return -1;
    if (memory_too_much(m, c))
        return 0;
    for (uint64_t row = 0; row < c->height && rc == 0; row++) {
        uint64_t dst = c->dst + row * c->dpitch, src = c->src + row * c->spitch;
        if (c->kind == MT_COPY_H2D || c->kind == MT_COPY_SET)
            rc = memory_set(m, dst, c->width, kept);
        else
            rc = memory_take(m, c, src, c->width, c->kind == MT_COPY_D2D ? dst : 0);
    }
    return rc;
}

/* Of a host program, whose runs tell the same, nothing. */
static int memory_host(void *self, const struct mt_item *item)
{
    struct mt_check_memory *m = self;
    struct mt_check_host *h = m->hosts;
    if (item->kind != MT_ITEM_HOST)
        return 0;
    while (h < m->hosts + m->nhosts && h->input != item->input)
        h++;
    if (h == m->hosts + m->nhosts)
        return 0;
    h->seen = 1;
    if (mt_live_allocs_advance(h->live, item->seq) != 0)
        return -1;
    for (size_t i = 0; i < item->count; i++) {
        const struct mt_host_access *x = &item->host[i];
        const struct mt_alloc_event *a = x->size ? mt_live_allocs_find(h->live, x->address) : NULL;
        if (a)
            h->used[a - h->companion->allocs] |=
                x->site->op == MT_HOST_STORE ? HOST_USED : HOST_USED | HOST_READ;
    }
    return 0;
}

static void memory_within(void *self, const struct mt_run_launch *l)
{
    struct mt_check_memory *m = self;
    mt_buffers_move(&m->buffers, l->seq);
}

static int memory_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_check_memory *m = self;
    for (size_t i = 0; i < n; i++)
        if (memory_run(m, &runs[i]) != 0)
            return -1;
    return m->threads ? 0 : mt_check_unordered_runs(&m->unordered, runs, n);
}

static int memory_shared_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_check_memory *m = self;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0 && !m->threads; i++)
        rc = mt_check_shared_run(&m->shared, &runs[i], memory_copies(m, &runs[i]), &m->unwritten);
    return rc;
}

const struct mt_analysis mt_check_memory_shared_analysis = {.needs = MT_NEEDS_ALL | MT_NEEDS_SPACES,
                                                            .runs = memory_shared_runs};

/* ---- the end ---- */

static int memory_use(struct mt_check_memory *m, enum mt_finding_kind kind, const struct mt_alloc_event *a)
{
    struct mt_finding f = {.kind = kind,
                           .here = {.file = a->file, .line = a->line, .at = a->at, .callers = a->callers},
                           .count = 1,
                           .size = a->bytes,
                           .alloc = a};
    return mt_findings_add(m->findings, &f);
}

/* The C and C++ libraries' own, as libstdc++'s pool for exceptions is, which a function without a name makes:
 * nothing that the program could mend. */
static int memory_is_foreign(const struct mt_alloc_event *a)
{
    int pool = !*a->file && strncmp(a->at, "libstdc++.so", 12) == 0 && !strchr(a->at, ':');
    return memory_is_heap(a) && (a->runtime || pool || (!*a->file && !a->ip));
}

static int memory_is_owned(const struct mt_alloc_event *a)
{
    return memory_is_judged(a) || strcmp(a->kind, "managed") == 0 || strcmp(a->kind, "host") == 0;
}

static int memory_end(struct mt_check_memory *m, size_t i)
{
    const struct mt_alloc_event *a = &m->allocs[i];
    const struct mt_check_block *b = &m->blocks[i];
    if (memory_is_foreign(a))
        return 0;
    if (m->ended && a->free_seq == MT_SEQ_NONE && memory_is_owned(a) &&
        memory_use(m, MT_FINDING_OF_LEAK, a) != 0)
        return -1;
    if (m->blind || !memory_is_judged(a))
        return 0;
    if (b->loaded || b->copied_out) /* but for the last copy */
        return b->unread ? memory_copy_finding(m, MT_FINDING_OF_UNREAD_COPY, b->unread, 1, i) : 0;
    return memory_use(m, b->stored || b->copied_in ? MT_FINDING_OF_UNREAD : MT_FINDING_OF_UNUSED, a);
}

/* A source hands out copies before launches; of those after the last one the companion knows. */
static int memory_last_copies(struct mt_check_memory *m)
{
    const struct mt_companion *c = mt_findings_companion(m->findings, m->source);
    int rc = 0;
    for (size_t i = 0; c && i < c->ncopies && rc == 0; i++)
        rc = c->copies[i].seq < m->past ? 0 : memory_copy(m, &c->copies[i]);
    return rc;
}

/* A host trace beside kernels: its blocks are none of the source's. */
static int memory_host_end(struct mt_check_memory *m, const struct mt_check_host *h)
{
    const struct mt_companion *c = h->companion;
    int rc = 0;
    for (size_t i = 0; i < c->nallocs && rc == 0; i++) {
        const struct mt_alloc_event *a = &c->allocs[i];
        if (!memory_is_heap(a) || memory_is_foreign(a))
            continue;
        if (c->has_end && a->free_seq == MT_SEQ_NONE)
            rc = memory_use(m, MT_FINDING_OF_LEAK, a);
        if (rc == 0 && !m->blind && h->seen && c->complete && !(h->used[i] & HOST_READ))
            rc = memory_use(m, h->used[i] ? MT_FINDING_OF_UNREAD : MT_FINDING_OF_UNUSED, a);
    }
    return rc;
}

static int memory_finish(void *self)
{
    struct mt_check_memory *m = self;
    size_t damaged;
    int rc = mt_unwritten_end(&m->unwritten);
    mt_source_problems(m->source, &damaged);
    m->blind |= damaged > 0; /* what is missing may have used it */
    if (rc == 0 && !damaged)
        rc = memory_last_copies(m);
    if (rc == 0)
        rc = mt_check_unordered_finish(&m->unordered);
    for (size_t i = 0; i < m->nallocs && rc == 0; i++)
        rc = memory_end(m, i);
    for (size_t i = 0; i < m->nhosts && rc == 0; i++)
        rc = memory_host_end(m, &m->hosts[i]);
    return rc;
}

const struct mt_analysis mt_check_memory_analysis = {.needs = MT_NEEDS_ALL,
                                                     .init = memory_init,
                                                     .launch = memory_launch,
                                                     .moves = memory_within,
                                                     .runs = memory_runs,
                                                     .copy = memory_copy,
                                                     .host = memory_host,
                                                     .finish = memory_finish,
                                                     .free = memory_free};
