/* Ranges in a treap: a search tree by base, balanced by random priorities. */
#include "live_allocs.h"
#include <stdlib.h>
#include <string.h>

struct range {
    uint64_t base, end;
    const struct mt_alloc_event *alloc;
    struct range *left, *right;
    uint32_t priority;
};

struct change {
    uint64_t seq;
    const struct mt_alloc_event *alloc; /* allocation of the range; NULL: see `part` */
    const struct mt_cut_event *part;
    int begins;
};

struct mt_live_allocs {
    struct change *changes;
    size_t nchanges, next;
    struct range *layer[2]; /* trees of the two layers: maps, blocks */
    uint32_t random;
};

static int live_allocs_order(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    if (x->begins != y->begins)
        return x->begins - y->begins; /* at one number, ends come before beginnings */
    uint64_t i = x->alloc ? x->alloc->id : x->part->id, k = y->alloc ? y->alloc->id : y->part->id;
    return i < k ? -1 : i > k;
}

struct mt_live_allocs *mt_live_allocs_new(const struct mt_alloc_event *allocs, size_t n)
{
    struct mt_live_allocs *l = calloc(1, sizeof *l);
    if (l)
        l->changes = malloc((2 * n + 1) * sizeof *l->changes);
    if (!l || !l->changes) {
        free(l);
        return NULL;
    }
    l->random = 2463534242u;
    for (size_t i = 0; i < n; i++) {
        if (allocs[i].bytes == 0)
            continue;
        l->changes[l->nchanges++] = (struct change){allocs[i].seq, &allocs[i], NULL, 1};
        if (allocs[i].free_seq != MT_SEQ_NONE)
            l->changes[l->nchanges++] = (struct change){allocs[i].free_seq, &allocs[i], NULL, 0};
    }
    qsort(l->changes, l->nchanges, sizeof *l->changes, live_allocs_order);
    return l;
}

int mt_live_allocs_cut(struct mt_live_allocs *l, const struct mt_cut_event *cuts, size_t n)
{
    if (n == 0)
        return 0;
    struct change *more = realloc(l->changes, (l->nchanges + n) * sizeof *more);
    if (!more)
        return -1;
    l->changes = more;
    for (size_t i = 0; i < n; i++)
        l->changes[l->nchanges++] = (struct change){cuts[i].seq, NULL, &cuts[i], 0};
    qsort(l->changes, l->nchanges, sizeof *l->changes, live_allocs_order);
    return 0;
}

static void live_allocs_drop(struct range *r)
{
    while (r) { /* rotates the left side away, so that no stack is needed */
        struct range *left = r->left;
        if (left) {
            r->left = left->right;
            left->right = r;
            r = left;
        } else {
            struct range *right = r->right;
            free(r);
            r = right;
        }
    }
}

void mt_live_allocs_free(struct mt_live_allocs *l)
{
    if (!l)
        return;
    live_allocs_drop(l->layer[0]);
    live_allocs_drop(l->layer[1]);
    free(l->changes);
    free(l);
}

/* Splits a tree: ranges with base < `at` go to *low, the others to *high. */
static void live_allocs_split(struct range *t, uint64_t at, struct range **low, struct range **high)
{
    while (t) {
        if (t->base < at) {
            *low = t;
            low = &t->right;
            t = t->right;
        } else {
            *high = t;
            high = &t->left;
            t = t->left;
        }
    }
    *low = *high = NULL;
}

/* Joins two trees; all of `low` is before all of `high`. */
static struct range *live_allocs_merge(struct range *low, struct range *high)
{
    struct range *root, **at = &root;
    while (low && high) {
        if (low->priority > high->priority) {
            *at = low;
            at = &low->right;
            low = low->right;
        } else {
            *at = high;
            at = &high->left;
            high = high->left;
        }
    }
    *at = low ? low : high;
    return root;
}

static struct range *live_allocs_range(struct mt_live_allocs *l, uint64_t base, uint64_t end,
                                       const struct mt_alloc_event *a)
{
    struct range *r = malloc(sizeof *r);
    l->random ^= l->random << 13;
    l->random ^= l->random >> 17;
    l->random ^= l->random << 5;
    if (r)
        *r = (struct range){base, end, a, NULL, NULL, l->random};
    return r;
}

/* Returns the last range of a tree. */
static struct range *live_allocs_last(struct range *t)
{
    while (t && t->right)
        t = t->right;
    return t;
}

/* Removes [base, end) from a tree; *low and *high are the parts on both sides. Returns 0, or -1 without
 * memory (only the part after a hole is lost then). */
static int live_allocs_cut(struct mt_live_allocs *l, struct range *t, uint64_t base, uint64_t end,
                           struct range **low, struct range **high)
{
    struct range *middle;
    int rc = 0;
    live_allocs_split(t, base, low, &middle);
    live_allocs_split(middle, end, &middle, high);
    struct range *inside = live_allocs_last(middle), *before = live_allocs_last(*low);
    uint64_t tail = inside ? inside->end : before ? before->end : 0;
    const struct mt_alloc_event *owner = inside ? inside->alloc : before ? before->alloc : NULL;
    if (owner && tail > end) { /* a range that extends beyond the hole keeps its end */
        struct range *r = live_allocs_range(l, end, tail, owner);
        if (r)
            *high = live_allocs_merge(r, *high);
        else
            rc = -1;
    }
    if (before && before->end > base)
        before->end = base;
    live_allocs_drop(middle);
    return rc;
}

static int live_allocs_begin(struct mt_live_allocs *l, struct range **layer, const struct mt_alloc_event *a)
{
    uint64_t end = a->base + a->bytes;
    struct range *low, *high;
    if (end <= a->base)
        return 0;
    int rc = live_allocs_cut(l, *layer, a->base, end, &low, &high);
    struct range *r = live_allocs_range(l, a->base, end, a);
    *layer = live_allocs_merge(live_allocs_merge(low, r), high);
    return r ? rc : -1;
}

/* Removes the ranges of this allocation; there are several if it was cut. */
static void live_allocs_end(struct range **layer, const struct mt_alloc_event *a)
{
    struct range *low, *middle, *high, *kept = NULL;
    live_allocs_split(*layer, a->base, &low, &middle);
    live_allocs_split(middle, a->base + a->bytes, &middle, &high);
    while (middle) { /* usually a single range */
        struct range *one;
        uint64_t first = middle->base;
        for (struct range *r = middle; r; r = r->left)
            first = r->base;
        live_allocs_split(middle, first + 1, &one, &middle);
        if (one->alloc == a)
            free(one);
        else
            kept = live_allocs_merge(kept, one);
    }
    *layer = live_allocs_merge(live_allocs_merge(low, kept), high);
}

/* Narrows the stretch to the surroundings of the address in this layer. */
static struct range *live_allocs_around(struct range *t, uint64_t address, uint64_t *first, uint64_t *last)
{
    struct range *best = NULL;
    while (t) {
        if (t->base <= address) {
            best = t;
            t = t->right;
        } else {
            *last = t->base - 1 < *last ? t->base - 1 : *last;
            t = t->left;
        }
    }
    if (best && address < best->end) {
        *first = best->base > *first ? best->base : *first;
        *last = best->end - 1 < *last ? best->end - 1 : *last;
        return best;
    }
    *first = best && best->end > *first ? best->end : *first;
    return NULL;
}

static int live_allocs_part(struct mt_live_allocs *l, const struct mt_cut_event *c)
{
    struct range *low, *high;
    int rc = 0;
    for (int i = 0; i < 2 && c->base + c->bytes > c->base; i++) {
        uint64_t first = 0, last = UINT64_MAX;
        const struct range *r = live_allocs_around(l->layer[i], c->base, &first, &last);
        if (!r || r->alloc->id != c->id)
            continue;
        rc = live_allocs_cut(l, l->layer[i], c->base, c->base + c->bytes, &low, &high);
        l->layer[i] = live_allocs_merge(low, high);
    }
    return rc;
}

int mt_live_allocs_advance(struct mt_live_allocs *l, uint64_t seq)
{
    for (; l->next < l->nchanges && l->changes[l->next].seq <= seq; l->next++) {
        const struct change *c = &l->changes[l->next];
        if (c->part && live_allocs_part(l, c->part) != 0)
            return -1;
        if (c->part)
            continue;
        int map = strcmp(c->alloc->kind, "mmap") == 0 || strcmp(c->alloc->kind, "brk") == 0 ||
                  strcmp(c->alloc->kind, "section") == 0;
        struct range **layer = &l->layer[!map];
        if (!c->begins)
            live_allocs_end(layer, c->alloc);
        else if (live_allocs_begin(l, layer, c->alloc) != 0)
            return -1;
    }
    return 0;
}

const struct mt_alloc_event *mt_live_allocs_stretch(struct mt_live_allocs *l, uint64_t address,
                                                    uint64_t *first, uint64_t *last)
{
    *first = 0;
    *last = UINT64_MAX;
    const struct range *r = live_allocs_around(l->layer[1], address, first, last);
    if (!r)
        r = live_allocs_around(l->layer[0], address, first, last);
    return r ? r->alloc : NULL;
}

const struct mt_alloc_event *mt_live_allocs_find(struct mt_live_allocs *l, uint64_t address)
{
    uint64_t first, last;
    return mt_live_allocs_stretch(l, address, &first, &last);
}
