/* Chains to the file, and all operations of a key out of the segments and the chain. */
#define _GNU_SOURCE
#include "addresses_internal.h"
#include "memtrace/grow.h"
#include "reader/base/internal.h"
#include <unistd.h>

/* ---- out to the file ---- */

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
            return mt_addresses_fail(w->a, "cannot write the operations on addresses to a file in $TMPDIR",
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
    (void)op;
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
    each_piece(w->a, c, addresses_out_add, &n); /* the pool has less than 2^32 */
    if (n == 0)
        return 0;
    struct mt_operation head = {(uint32_t)rank, (uint32_t)(rank >> 32), (uint32_t)n};
    if (addresses_out_put(w, &head, 1) != 0 || each_piece(w->a, c, put_piece, w) != 0)
        return -1;
    *c = (struct mt_chain){.head = 0};
    return 0;
}

int mt_addresses_spill(struct mt_addresses *a)
{
    struct mt_error err;
    struct writer w = {.a = a};
    int rc = -1;
    if (a->fd < 0 && (a->fd = mt_spool_create(&err)) < 0)
        return mt_addresses_fail(a, "cannot make a file in $TMPDIR for the operations on addresses", err.sys);
    w.buffer = malloc(BUFFERED * sizeof *w.buffer);
    if (mt_grow(&a->segment, &a->segment_room, a->nsegments + 1, sizeof *a->segment) != 0 || !w.buffer) {
        mt_addresses_fail(a, "no memory for the addresses", 0);
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

/* ---- and back ---- */

/* Reads a segment from its beginning. */
struct cursor {
    uint64_t at, end;            /* of the file, not yet in the buffer */
    struct mt_operation *buffer; /* [next, filled) is still to come */
    size_t next, filled;
    uint64_t rank; /* of the key that comes next; UINT64_MAX: none */
    uint64_t left; /* of its operations */
};
enum { CURSOR_MOST = 1 << 14, CURSORS_BUDGET = 1 << 22 /* operations in all cursors' buffers */ };

static int addresses_out_refill(struct mt_addresses *a, struct cursor *c, size_t room)
{
    uint64_t bytes = c->end - c->at < room * sizeof *c->buffer ? c->end - c->at : room * sizeof *c->buffer;
    c->next = c->filled = 0;
    for (uint64_t got = 0; got < bytes;) {
        ssize_t n = pread(a->fd, (char *)c->buffer + got, bytes - got, (off_t)(c->at + got));
        if (n == 0 || (n < 0 && errno != EINTR))
            return mt_addresses_fail(a, "cannot read the file of operations on addresses back",
                                     n ? errno : EIO);
        got += n > 0 ? (uint64_t)n : 0;
    }
    c->at += bytes;
    c->filled = bytes / sizeof *c->buffer;
    return 0;
}

/* To the head of the next key. */
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
    size_t room; /* of a cursor's buffer */
    uint64_t key;
};

static int hand_out(void *arg, const struct mt_operation *op, size_t n)
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
            rc = hand_out(v, c->buffer + c->next, n);
            c->next += n;
            c->left -= n;
        }
        if (rc == 0)
            rc = next_head(v->a, c, v->room);
    }
    return rc ? rc : each_piece(v->a, &v->a->chain[rank], hand_out, v);
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
    return rc < 0 && !a->why ? mt_addresses_fail(a, "no memory for the addresses", 0) : rc;
}
