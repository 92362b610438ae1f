/* Operations by address: chains per key, filled in the order of the records; spilling to a file, and reading
 * back. */
#define _GNU_SOURCE

#include "addresses.h"
#include "memtrace/grow.h"
#include "reader/base/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A block of a chain is an array of operations; the first is its head: {next block, operations, -}. Block
 * sizes double up to this. */
enum { MT_BLOCK_MOST = 64 };

/* Operations on one key. */
struct mt_chain {
    struct mt_operation last; /* last operation, not yet in a block; none if its count is 0 */
    uint32_t head, tail;      /* blocks, as indices in the pool; 0: none */
    uint16_t used, room;      /* operations used in the last block, and its size */
};

/* Part of the file that was written at once: for each key with operations, by rank, {rank, rank >> 32, n} and
 * n operations. */
struct mt_addresses_segment {
    uint64_t from, end; /* offsets of the segment in the file */
};

#define INLINE static inline __attribute__((always_inline))

static int addresses_fail(struct mt_addresses *a, const char *why, int sys)
{
    if (!a->why) {
        a->why = why;
        a->sys = sys;
    }
    return -1;
}

int mt_addresses_init(struct mt_addresses *a, struct mt_keyset *keys, uint64_t budget)
{
    memset(a, 0, sizeof *a);
    a->fd = -1;
    a->keys = keys;
    a->superstep = UINT64_MAX;
    a->budget = budget / sizeof *a->pool;
    if (a->budget < 2 * MT_BLOCK_MOST)
        a->budget = 2 * MT_BLOCK_MOST;
    if (a->budget > UINT32_MAX)
        a->budget = UINT32_MAX;
    a->used = 1; /* block 0 is not used, as 0 means none */
    a->chain = calloc(keys->count + 1, sizeof *a->chain);
    /* Takes memory only as far as it is used. */
    void *p = mmap(NULL, a->budget * sizeof *a->pool, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) {
        madvise(p, a->budget * sizeof *a->pool, MADV_HUGEPAGE);
        a->pool = p;
    }
    return a->chain && a->pool ? 0 : addresses_fail(a, "no memory for the addresses", 0);
}

void mt_addresses_free(struct mt_addresses *a)
{
    if (a->pool)
        munmap(a->pool, a->budget * sizeof *a->pool);
    if (a->chain && a->fd >= 0)
        close(a->fd);
    free(a->chain);
    free(a->who);
    free(a->what);
    free(a->segment);
    mt_pairmap_free(&a->who_index);
    mt_pairmap_free(&a->what_index);
    memset(a, 0, sizeof *a);
    a->fd = -1;
}

/* ---- numbers of operators and kinds ---- */

static int addresses_reserve(struct mt_addresses *a, void *array, size_t n, size_t *room, size_t size)
{
    if (n == UINT32_MAX)
        return addresses_fail(a, "more than 2^32 - 1 CTA instances in the section addresses", 0);
    return mt_grow(array, room, n + 1, size) == 0 ? 0 : addresses_fail(a, "no memory for the addresses", 0);
}

static uint32_t find_who(struct mt_addresses *a, uint64_t superstep, uint64_t cta, uint32_t smid)
{
    if (a->superstep != superstep) {
        mt_pairmap_clear(&a->who_index);
        a->superstep = superstep;
        a->last_who = UINT32_MAX;
    }
    uint64_t *known = mt_pairmap_get(&a->who_index, cta, smid, UINT64_MAX);
    if (!known) {
        addresses_fail(a, "no memory for the addresses", 0);
        return UINT32_MAX;
    }
    if (*known == UINT64_MAX) {
        if (addresses_reserve(a, &a->who, a->nwho, &a->who_room, sizeof *a->who) != 0)
            return UINT32_MAX;
        a->who[a->nwho] = (struct mt_operator){cta, superstep, smid};
        *known = a->nwho++;
    }
    return a->last_who = (uint32_t)*known;
}

/* Returns the number of an operator, usually that of the previous record. */
INLINE uint32_t who_of(struct mt_addresses *a, uint64_t superstep, uint64_t cta, uint32_t smid)
{
    if (a->superstep == superstep && a->last_who != UINT32_MAX && a->who[a->last_who].cta == cta &&
        a->who[a->last_who].smid == smid)
        return a->last_who;
    return find_who(a, superstep, cta, smid);
}

static uint32_t what_of(struct mt_addresses *a, uint32_t before, uint32_t meta)
{
    uint64_t *known = mt_pairmap_get(&a->what_index, before, meta, UINT64_MAX);
    if (!known) {
        addresses_fail(a, "no memory for the addresses", 0);
        return UINT32_MAX;
    }
    if (*known == UINT64_MAX) {
        if (addresses_reserve(a, &a->what, a->nwhat, &a->what_room, sizeof *a->what) != 0)
            return UINT32_MAX;
        a->what[a->nwhat] = (struct mt_operation_kind){before, meta};
        *known = a->nwhat++;
    }
    return (uint32_t)*known;
}

/* ---- chains ---- */

static int addresses_spill(struct mt_addresses *a);

/* Appends the chain's last operation to its blocks. Returns 0 or -1. */
static int addresses_push(struct mt_addresses *a, struct mt_chain *c)
{
    if (c->used == c->room) {
        uint16_t room = c->room == 0 ? 3 : c->room < MT_BLOCK_MOST / 2 ? 2 * c->room + 1 : MT_BLOCK_MOST - 1;
        if (a->used + room + 1 > a->budget) {
            int rc = addresses_spill(a); /* also writes the last operations of all chains */
            return rc;
        }
        uint32_t block = (uint32_t)a->used;
        a->used += room + 1u;
        a->pool[block] = (struct mt_operation){0, room, 0}; /* head of the block: next block, size */
        if (c->tail)
            a->pool[c->tail].who = block;
        else
            c->head = block;
        c->tail = block;
        c->room = room;
        c->used = 0;
    }
    a->pool[c->tail + 1 + c->used++] = c->last;
    c->last.count = 0;
    return 0;
}

/* Adds an operation that differs from the last one. */
static __attribute__((noinline)) int addresses_next(struct mt_addresses *a, struct mt_chain *c, uint32_t who,
                                                    uint32_t what)
{
    if (c->last.count && addresses_push(a, c) != 0)
        return -1;
    c->last = (struct mt_operation){who, what, 1};
    return 0;
}

INLINE int addresses_append(struct mt_addresses *a, uint64_t rank, uint32_t who, uint32_t what)
{
    struct mt_chain *c = &a->chain[rank];
    a->operations++;
    if (c->last.who == who && c->last.what == what && c->last.count - 1 < UINT32_MAX - 1) {
        c->last.count++;
        return 0;
    }
    return addresses_next(a, c, who, what);
}

/* ---- records ---- */

/* Ranks are counts of bits, for which nearly every processor has an instruction. Not with the thread
 * sanitizer, whose calls cannot be made yet in the resolver. */
#if defined __x86_64__ && !defined __SANITIZE_THREAD__
#define WITH_COUNTING __attribute__((target_clones("popcnt", "default")))
#else
#define WITH_COUNTING
#endif

/* Cache of recent kinds, by `meta` and the bytes before the key. */
struct recent {
    struct {
        uint64_t kind; /* 0: unused, as each access has a size */
        uint32_t what;
    } at[8];
};

/* Returns the number of a kind. UINT32_MAX without memory. */
static __attribute__((noinline)) uint32_t recent_find(struct mt_addresses *a, struct recent *r, unsigned i,
                                                      uint64_t kind)
{
    uint32_t what = what_of(a, (uint32_t)(kind >> 32), (uint32_t)kind);
    if (what != UINT32_MAX) {
        r->at[i].kind = kind;
        r->at[i].what = what;
    }
    return what;
}

INLINE int addresses_operation(struct mt_addresses *a, struct recent *r, uint32_t who, uint64_t rank,
                               uint32_t before, uint32_t meta)
{
    uint64_t kind = (uint64_t)before << 32 | meta;
    unsigned i = (before ^ meta ^ meta >> 28) & 7;
    uint32_t what = r->at[i].kind == kind ? r->at[i].what : recent_find(a, r, i, kind);
    return what == UINT32_MAX ? -1 : addresses_append(a, rank, who, what);
}

/* Adds an access to the keys among `size` bytes at `address`, all in page p; `before`: bytes of the access
 * before them. */
INLINE int page_keys(struct mt_addresses *a, struct recent *r, uint32_t who, const struct mt_keypage *p,
                     uint64_t address, uint32_t size, uint32_t before, uint32_t meta)
{
    unsigned at = address & ((1u << MT_KEY_BITS) - 1), end = at + size;
    for (unsigned w = at >> 6; w <= (end - 1) >> 6; w++) {
        uint64_t bits = p->bits[w];
        if (w == at >> 6)
            bits &= ~0ull << (at & 63);
        if (w == (end - 1) >> 6 && (end & 63))
            bits &= (1ull << (end & 63)) - 1;
        for (; bits; bits &= bits - 1) {
            unsigned in_page = w << 6 | (unsigned)__builtin_ctzll(bits);
            if (addresses_operation(a, r, who, mt_keyset_rank(p, in_page), before + in_page - at, meta) != 0)
                return -1;
        }
    }
    return 0;
}

/* Adds an access that spans any number of pages. */
static __attribute__((noinline)) int range_keys(struct mt_addresses *a, struct recent *r, uint32_t who,
                                                uint64_t address, uint32_t meta)
{
    uint32_t size = meta & MT_RAW_MAX_SIZE;
    for (uint32_t done = 0; done < size;) {
        uint32_t room = (1u << MT_KEY_BITS) - (uint32_t)(address & ((1u << MT_KEY_BITS) - 1));
        uint32_t n = size - done < room ? size - done : room;
        const struct mt_keypage *p = mt_keyset_find(a->keys, address >> MT_KEY_BITS);
        if (p && page_keys(a, r, who, p, address, n, done, meta) != 0)
            return -1;
        address += n;
        done += n;
    }
    return 0;
}

INLINE int access_keys(struct mt_addresses *a, struct recent *r, uint32_t who, uint64_t address,
                       uint32_t meta)
{
    uint32_t size = meta & MT_RAW_MAX_SIZE;
    unsigned bit = address & 63;
    if (__builtin_expect(bit + size > 64 || size == 64, 0))
        return range_keys(a, r, who, address, meta);
    /* Fast path: the access is in one word of the bitmap. */
    const struct mt_keypage *p = mt_keyset_find(a->keys, address >> MT_KEY_BITS);
    unsigned in_page = address & ((1u << MT_KEY_BITS) - 1);
    uint64_t bits = p ? p->bits[in_page >> 6] >> bit & ((1ull << size) - 1) : 0;
    if (!bits)
        return 0;
    uint64_t rank = mt_keyset_rank(p, in_page);
    for (; bits; bits &= bits - 1, rank++)
        if (addresses_operation(a, r, who, rank, (uint32_t)__builtin_ctzll(bits), meta) != 0)
            return -1;
    return 0;
}

/* Returns how many of records[0 .. n) are like the first one and lie in its page where there is no key. */
INLINE size_t addresses_beside(struct mt_addresses *a, const struct mt_raw_record *r, size_t n)
{
    uint64_t page = r->w[1] >> MT_KEY_BITS, size = r->w[0] & MT_RAW_MAX_SIZE;
    if (mt_keyset_find(a->keys, page))
        return 0;
    size_t k = 0;
    while (k < n && r[k].w[0] == r[0].w[0] && r[k].w[2] == r[0].w[2] && r[k].w[1] >> MT_KEY_BITS == page &&
           (r[k].w[1] + size - 1) >> MT_KEY_BITS == page)
        k++;
    return k;
}

WITH_COUNTING int mt_addresses_records(struct mt_addresses *a, const struct mt_raw_record *records, size_t n,
                                       uint64_t superstep)
{
    struct recent recent = {0};
    const struct mt_raw_record *r = records, *end = records + n;
    a->records += n;
    while (r < end) {
        uint64_t cta = r->w[2], smid = r->w[0] >> 32;
        uint32_t who = who_of(a, superstep, cta, (uint32_t)smid);
        if (who == UINT32_MAX)
            return -1;
        do {
            size_t beside = addresses_beside(a, r, (size_t)(end - r));
            if (!beside && access_keys(a, &recent, who, r->w[1], (uint32_t)r->w[0]) != 0)
                return -1;
            r += beside ? beside : 1;
        } while (r < end && r->w[2] == cta && r->w[0] >> 32 == smid);
    }
    return a->why ? -1 : 0;
}

WITH_COUNTING int mt_addresses_runs(struct mt_addresses *a, const struct mt_access_run *runs, size_t n,
                                    uint64_t superstep)
{
    struct recent r = {0};
    for (size_t i = 0; i < n; i++) {
        const struct mt_access_run *run = &runs[i];
        uint32_t who = who_of(a, superstep, run->cta, run->smid);
        if (who == UINT32_MAX)
            return -1;
        uint64_t address = run->base;
        for (uint32_t k = 0; k < run->count; k++, address += (uint64_t)run->stride)
            if (access_keys(a, &r, who, run->addresses ? run->addresses[k] : address, run->meta) != 0)
                return -1;
        a->records += run->count;
    }
    return a->why ? -1 : 0;
}

/* ---- spilling of chains to the file, and merging of a key's operations ---- */

/* ---- writing ---- */

struct writer {
    struct mt_addresses *a;
    struct mt_operation *buffer;
    size_t used;
};
enum { BUFFERED = 1 << 16 };

static int addresses_out_drain(struct writer *w)
{
    const char *p = (const char *)w->buffer;
    size_t n = w->used * sizeof *w->buffer;
    w->used = 0;
    while (n > 0) {
        ssize_t done = pwrite(w->a->fd, p, n, (off_t)w->a->file_end);
        if (done < 0 && errno != EINTR)
            return addresses_fail(w->a, "cannot write the operations on addresses to a file in $TMPDIR",
                                  errno);
        if (done > 0) {
            p += done;
            n -= (size_t)done;
            w->a->file_end += (uint64_t)done;
        }
    }
    return 0;
}

static int addresses_out_put(struct writer *w, const struct mt_operation *op, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (w->used == BUFFERED && addresses_out_drain(w) != 0)
            return -1;
        w->buffer[w->used++] = op[i];
    }
    return 0;
}

/* Calls f for the chain's operations, block by block. */
static int each_piece(const struct mt_addresses *a, const struct mt_chain *c,
                      int (*f)(void *arg, const struct mt_operation *op, size_t n), void *arg)
{
    int rc = 0;
    for (uint32_t b = c->head; b && rc == 0; b = a->pool[b].who)
        rc = f(arg, &a->pool[b + 1], b == c->tail ? c->used : a->pool[b].what);
    return rc == 0 && c->last.count ? f(arg, &c->last, 1) : rc;
}

static int addresses_out_add(void *arg, const struct mt_operation *op, size_t n)
{
    *(uint64_t *)arg += n;
    return 0;
}

static int put_piece(void *arg, const struct mt_operation *op, size_t n)
{
    return addresses_out_put(arg, op, n);
}

static int put_chain(struct writer *w, uint64_t rank)
{
    struct mt_chain *c = &w->a->chain[rank];
    uint64_t n = 0;
    each_piece(w->a, c, addresses_out_add, &n); /* the pool has fewer than 2^32 */
    if (n == 0)
        return 0;
    struct mt_operation head = {(uint32_t)rank, (uint32_t)(rank >> 32), (uint32_t)n};
    if (addresses_out_put(w, &head, 1) != 0 || each_piece(w->a, c, put_piece, w) != 0)
        return -1;
    *c = (struct mt_chain){.head = 0};
    return 0;
}

/* Writes all chains to the file and empties them. Returns 0 or -1. */
static int addresses_spill(struct mt_addresses *a)
{
    struct mt_error err;
    struct writer w = {.a = a};
    int rc = -1;
    if (a->fd < 0 && (a->fd = mt_spool_create(&err)) < 0)
        return addresses_fail(a, "cannot make a file in $TMPDIR for the operations on addresses", err.sys);
    w.buffer = malloc(BUFFERED * sizeof *w.buffer);
    if (mt_grow(&a->segment, &a->segment_room, a->nsegments + 1, sizeof *a->segment) != 0 || !w.buffer) {
        addresses_fail(a, "no memory for the addresses", 0);
        goto out;
    }
    a->segment[a->nsegments].from = a->file_end;
    for (uint64_t k = 0; k < a->keys->count; k++)
        if (put_chain(&w, k) != 0)
            goto out;
    if (addresses_out_drain(&w) != 0)
        goto out;
    a->segment[a->nsegments++].end = a->file_end;
    a->used = 1;
    rc = 0;
out:
    free(w.buffer);
    return rc;
}

/* ---- reading ---- */

/* Sequential reader of a segment. */
struct cursor {
    uint64_t at, end;            /* range of the file that is not in the buffer yet */
    struct mt_operation *buffer; /* operations in [next, filled) are unread */
    size_t next, filled;
    uint64_t rank; /* rank of the next key; UINT64_MAX: none */
    uint64_t left; /* unread operations of the key */
};
enum { CURSOR_MOST = 1 << 14, CURSORS_BUDGET = 1 << 22 /* operations in the buffers of all cursors */ };

static int addresses_out_refill(struct mt_addresses *a, struct cursor *c, size_t room)
{
    uint64_t bytes = c->end - c->at < room * sizeof *c->buffer ? c->end - c->at : room * sizeof *c->buffer;
    c->next = c->filled = 0;
    for (uint64_t got = 0; got < bytes;) {
        ssize_t n = pread(a->fd, (char *)c->buffer + got, bytes - got, (off_t)(c->at + got));
        if (n == 0 || (n < 0 && errno != EINTR))
            return addresses_fail(a, "cannot read the file of operations on addresses back", n ? errno : EIO);
        got += n > 0 ? (uint64_t)n : 0;
    }
    c->at += bytes;
    c->filled = bytes / sizeof *c->buffer;
    return 0;
}

/* Reads the head of the next key. */
static int next_head(struct mt_addresses *a, struct cursor *c, size_t room)
{
    c->rank = UINT64_MAX;
    if (c->next == c->filled && addresses_out_refill(a, c, room) != 0)
        return -1;
    if (c->next < c->filled) {
        const struct mt_operation *head = &c->buffer[c->next++];
        c->rank = head->who | (uint64_t)head->what << 32;
        c->left = head->count;
    }
    return 0;
}

struct visit {
    struct mt_addresses *a;
    const struct mt_addresses_visitor *visitor;
    void *arg;
    struct cursor *cursor;
    size_t room; /* operations in a cursor's buffer */
    uint64_t key;
};

static int addresses_hand_out(void *arg, const struct mt_operation *op, size_t n)
{
    struct visit *v = arg;
    return n ? v->visitor->operations(v->arg, v->key, op, n) : 0;
}

static int visit_key(struct visit *v, uint64_t rank)
{
    int rc = v->visitor->key(v->arg, v->key);
    for (size_t i = 0; i < v->a->nsegments && rc == 0; i++) {
        struct cursor *c = &v->cursor[i];
        if (c->rank != rank)
            continue;
        while (c->left > 0 && rc == 0) {
            if (c->next == c->filled && addresses_out_refill(v->a, c, v->room) != 0)
                return -1;
            size_t n = c->filled - c->next < c->left ? c->filled - c->next : (size_t)c->left;
            rc = addresses_hand_out(v, c->buffer + c->next, n);
            c->next += n;
            c->left -= n;
        }
        if (rc == 0)
            rc = next_head(v->a, c, v->room);
    }
    return rc ? rc : each_piece(v->a, &v->a->chain[rank], addresses_hand_out, v);
}

int mt_addresses_visit(struct mt_addresses *a, const struct mt_addresses_visitor *visitor, void *arg)
{
    struct visit v = {.a = a, .visitor = visitor, .arg = arg};
    int rc = -1;
    v.room = CURSORS_BUDGET / (a->nsegments + 1);
    v.room = v.room > CURSOR_MOST ? CURSOR_MOST : v.room < 16 ? 16 : v.room;
    v.cursor = calloc(a->nsegments + 1, sizeof *v.cursor);
    if (!v.cursor)
        goto out;
    for (size_t i = 0; i < a->nsegments; i++) {
        v.cursor[i].at = a->segment[i].from;
        v.cursor[i].end = a->segment[i].end;
        if (!(v.cursor[i].buffer = malloc(v.room * sizeof *v.cursor->buffer)))
            goto out;
        if (next_head(a, &v.cursor[i], v.room) != 0)
            goto out;
    }
    rc = 0;
    for (size_t p = 0; p < a->keys->pages.count && rc == 0; p++) {
        const struct mt_keypage *page = a->keys->page[p];
        uint64_t rank = page->first;
        for (unsigned w = 0; w < MT_KEY_WORDS; w++)
            for (uint64_t bits = page->bits[w]; bits && rc == 0; bits &= bits - 1) {
                v.key = page->number << MT_KEY_BITS | w << 6 | (unsigned)__builtin_ctzll(bits);
                rc = visit_key(&v, rank++);
            }
    }
out:
    for (size_t i = 0; v.cursor && i < a->nsegments; i++)
        free(v.cursor[i].buffer);
    free(v.cursor);
    return rc < 0 && !a->why ? addresses_fail(a, "no memory for the addresses", 0) : rc;
}
