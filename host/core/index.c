/* The allocation index: two splay trees of ranges (see index.h). */
#include "index.h"
#include "platform.h"

#define SLAB 262144u /* bytes of nodes allocated at once */

/* Ensures at least `n` nodes in `spare`. */
static int index_reserve(struct mt_index_tree *t, int n)
{
    for (struct mt_core_range *r = t->spare; r && n > 0; r = r->right)
        n--;
    if (n <= 0)
        return 0;
    struct mt_core_range *slab = mt_plat_map(SLAB);
    if (!slab)
        return -1;
    for (uint64_t i = 0; i < SLAB / sizeof *slab; i++) {
        slab[i].right = t->spare;
        t->spare = &slab[i];
    }
    return 0;
}

static struct mt_core_range *index_take(struct mt_index_tree *t)
{
    struct mt_core_range *r = t->spare;
    t->spare = r->right;
    t->count++;
    return r;
}

static void index_give(struct mt_index_tree *t, struct mt_core_range *r)
{
    r->right = t->spare;
    t->spare = r;
    t->count--;
}

/* Top-down splay: the last node on the path to `key` becomes the root. */
static struct mt_core_range *index_splay(struct mt_core_range *root, uint64_t key)
{
    struct mt_core_range head = {.left = 0}, *less = &head, *more = &head, *n = root;
    for (;;) {
        if (key < n->base) {
            if (n->left && key < n->left->base) {
                struct mt_core_range *l = n->left;
                n->left = l->right;
                l->right = n;
                n = l;
            }
            if (!n->left)
                break;
            more->left = n;
            more = n;
            n = n->left;
        } else if (key > n->base) {
            if (n->right && key > n->right->base) {
                struct mt_core_range *r = n->right;
                n->right = r->left;
                r->left = n;
                n = r;
            }
            if (!n->right)
                break;
            less->right = n;
            less = n;
            n = n->right;
        } else {
            break;
        }
    }
    less->right = n->left;
    more->left = n->right;
    n->left = head.right;
    n->right = head.left;
    return n;
}

/* Makes the range with the greatest base <= key the root; NULL if there is none. */
static struct mt_core_range *floor_of(struct mt_index_tree *t, uint64_t key)
{
    if (!t->root)
        return 0;
    struct mt_core_range *r = t->root = index_splay(t->root, key);
    if (r->base <= key)
        return r;
    if (!r->left)
        return 0;
    struct mt_core_range *l =
        index_splay(r->left, key); /* all are smaller: the greatest one, without right child */
    r->left = 0;
    l->right = r;
    return t->root = l;
}

static uint64_t end_of(uint64_t base, uint64_t bytes)
{
    return base + bytes < base ? UINT64_MAX : base + bytes;
}

struct mt_core_range *mt_index_find(struct mt_index_tree *t, uint64_t address)
{
    struct mt_core_range *r = t->root;
    if (r && r->base <= address && address < r->end)
        return r;
    r = floor_of(t, address);
    return r && address < r->end ? r : 0;
}

void mt_index_gap(struct mt_index_tree *t, uint64_t address, uint64_t *low, uint64_t *high)
{
    struct mt_core_range *r = floor_of(t, address), *next = t->root;
    if (r && r->end > *low)
        *low = r->end;
    for (next = r ? r->right : t->root; next; next = next->left) /* all bases there are > address */
        if (next->base < *high)
            *high = next->base;
}

int mt_index_has(struct mt_index_tree *t, uint64_t base, uint64_t end, uint64_t id)
{
    while (base < end) {
        struct mt_core_range *r = floor_of(t, end - 1);
        if (!r || r->end <= base)
            return 0;
        if (r->id == id)
            return 1;
        end = r->base;
    }
    return 0;
}

static void drop_root(struct mt_index_tree *t)
{
    struct mt_core_range *r = t->root;
    if (!r->left) {
        t->root = r->right;
    } else {
        t->root = index_splay(r->left, r->base);
        t->root->right = r->right;
    }
    index_give(t, r);
}

/* Removes [base, end) from the root, which overlaps it. A spare node is available. */
static int cut_root(struct mt_index_tree *t, uint64_t base, uint64_t end)
{
    struct mt_core_range *r = t->root;
    if (r->base >= base && r->end <= end) {
        drop_root(t);
        return 1;
    }
    if (r->base < base && r->end > end) {
        struct mt_core_range *tail = index_take(t);
        *tail = *r;
        tail->base = end;
        tail->left = 0;
        r->right = tail;
        r->end = base;
    } else if (r->base < base) {
        r->end = base;
    } else {
        r->base = end;
    }
    return 0;
}

int mt_index_remove(struct mt_index_tree *t, uint64_t base, uint64_t bytes,
                    void (*gone)(const struct mt_core_range *was, int whole, void *arg), void *arg)
{
    uint64_t end = end_of(base, bytes);
    if (base == end)
        return 0;
    if (index_reserve(t, 1))
        return -1;
    for (;;) {
        struct mt_core_range *r = floor_of(t, end - 1);
        if (!r || r->end <= base)
            return 0;
        struct mt_core_range was = *r;
        int whole = cut_root(t, base, end);
        if (gone)
            gone(&was, whole, arg);
    }
}

int mt_index_insert(struct mt_index_tree *t, uint64_t base, uint64_t bytes, uint64_t id)
{
    if (!bytes)
        return 0;
    if (index_reserve(t, 2) || mt_index_remove(t, base, bytes, 0, 0))
        return -1;
    struct mt_core_range *r = index_take(t);
    *r = (struct mt_core_range){base, end_of(base, bytes), id, base, bytes, 0, 0, 0};
    struct mt_core_range *below = floor_of(t, base);
    if (below) {
        r->right = below->right;
        below->right = 0;
        r->left = below;
    } else {
        r->right = t->root;
    }
    t->root = r;
    return 0;
}
