/* Allocations: the two index trees, their lines in the compact trace, and the present meaning of an
 * address. */
#include "atomic.h"
#include "state.h"
#include <stdio.h>
#include <string.h>

#define PAGE 4096u

static const char *const kinds[] = {
    [MT_CORE_MALLOC] = "malloc",     [MT_CORE_CALLOC] = "calloc", [MT_CORE_REALLOC] = "realloc",
    [MT_CORE_MEMALIGN] = "memalign", [MT_CORE_MMAP] = "mmap",     [MT_CORE_BRK] = "brk",
    [MT_CORE_NEW] = "new",           [MT_CORE_GLOBAL] = "global", [MT_CORE_SECTION] = "section"};

struct change {
    uint64_t low, high; /* range touched, where pieces of cut allocations may lie */
    struct {
        uint64_t id, start, end;
    } cut[16]; /* allocations that lost a part and may be gone */
    unsigned cuts;
};

static struct mt_index_tree *tree_of(enum mt_core_alloc_kind kind)
{
    return kind == MT_CORE_MMAP || kind == MT_CORE_BRK || kind == MT_CORE_SECTION ? &mt_g.maps : &mt_g.blocks;
}

static int alloc_keeps(void)
{
    return mt_on() && (mt_g.o->mode == MT_CORE_MAT || mt_g.o->container || mt_g.o->others == MT_CODE_DATA);
}

/* ---- lines: each event has a sequence number of its own, taken when it is written ---- */

static int moved; /* 1: a number was taken since the index lock was */

static uint64_t line_seq(void)
{
    moved = 1;
    return mt_seq_next();
}

static void line_free(uint64_t id, uint64_t base)
{
    if (id && mt_core_sink_line_begin())
        mt_core_sink_line_end(MT_LINE_free,
                              &(struct mt_free_line){.seq = line_seq(), .id = id - 1, .base = base});
}

static void line_cut(uint64_t id, uint64_t base, uint64_t bytes)
{
    if (mt_core_sink_line_begin())
        mt_core_sink_line_end(MT_LINE_cut, &(struct mt_cut_line){line_seq(), id - 1, base, bytes});
}

static void line_alloc(uint64_t id, uint64_t base, uint64_t bytes, enum mt_core_alloc_kind kind,
                       const char *name, const struct mt_code_location *p)
{
    char at[300];
    const char *slash = strrchr(p->module, '/');
    int placed = *p->file || !*p->module;
    if (!mt_core_sink_line_begin())
        return;
    snprintf(at, sizeof at, "%.140s%s%.140s", slash ? slash + 1 : p->module, *p->function ? ":" : "",
             p->function);
    struct mt_alloc_line l = {.seq = line_seq(),
                              .id = id - 1,
                              .base = base,
                              .bytes = bytes,
                              .kind = kinds[kind],
                              .name = name,
                              .device = -1,
                              .file = p->file,
                              .line = p->line,
                              .ip = p->ip,
                              .at = placed ? NULL : at};
    l.runtime = p->ip && mt_core_code_keeps(p->module, mt_g.e->places && !*p->file ? "" : p->function);
    mt_core_sink_line_end(MT_LINE_alloc, &l);
}

/* ---- removal ---- */

static void alloc_gone(const struct mt_core_range *was, int whole, void *arg)
{
    struct change *c = arg;
    if (!was->id)
        return;
    int piece = was->base != was->start || was->end != was->start + was->bytes;
    if (whole && !piece) {
        line_free(was->id, was->start);
        return;
    }
    uint64_t low = was->base > c->low ? was->base : c->low, high = was->end < c->high ? was->end : c->high;
    line_cut(was->id, low, high - low);
    if (!whole)
        return;
    unsigned i = 0;
    while (i < c->cuts && c->cut[i].id != was->id)
        i++;
    if (i == sizeof c->cut / sizeof *c->cut)
        return; /* no end line: a later allocation there implies it */
    c->cut[i].id = was->id;
    c->cut[i].start = was->start;
    c->cut[i].end = was->start + was->bytes;
    c->cuts += i == c->cuts;
}

/* Removes a range. Returns 0, or -1 without memory. The caller holds the lock. */
static int take_away(struct mt_index_tree *t, uint64_t base, uint64_t bytes)
{
    struct change c = {.low = base, .high = base + bytes};
    if (mt_index_remove(t, base, bytes, alloc_gone, &c))
        return -1;
    for (unsigned i = 0; i < c.cuts; i++)
        if (!mt_index_has(t, c.cut[i].start, c.cut[i].end, c.cut[i].id))
            line_free(c.cut[i].id, c.cut[i].start);
    return 0;
}

static void no_memory(void)
{
    mt_core_fail("the allocation index is out of memory");
}

static void alloc_changed(void)
{
    __atomic_add_fetch(&mt_g.changes, 1, __ATOMIC_RELEASE);
}

/* Forgets the data marks of a range whose contents change, under the lock. */
static void alloc_no_data(uint64_t base, uint64_t bytes)
{
    if (mt_g.data.root && mt_index_remove(&mt_g.data, base, bytes, NULL, NULL))
        no_memory();
}

/* Makes [base, base + bytes) a new allocation, under the lock. */
static void alloc_put(enum mt_core_alloc_kind kind, uint64_t base, uint64_t bytes, const char *name,
                      const struct mt_code_location *p)
{
    struct mt_index_tree *t = tree_of(kind);
    uint64_t id = bytes >= mt_g.o->threshold ? mt_g.allocations + 1 : 0; /* 0: too small to report */
    if (take_away(t, base, bytes) || mt_index_insert(t, base, bytes, id)) {
        no_memory();
        return;
    }
    if (kind == MT_CORE_MMAP)
        alloc_no_data(base, bytes);
    if (id) {
        mt_g.allocations++;
        line_alloc(id, base, bytes, kind, name, p);
    }
    alloc_changed();
}

/* Returns 0 for a signal handler that interrupted the core in this thread, which must not wait for its
 * locks. */
static int alloc_enter(struct mt_core_thread *t)
{
    if (!alloc_keeps())
        return 0;
    if (t && t->state->busy) {
        mt_count(&t->state->lost, 1);
        return 0;
    }
    return 1;
}

static void alloc_lock(struct mt_core_thread *t)
{
    if (t)
        t->state->busy++;
    mt_spin_lock(&mt_g.index_lock);
    moved = 0;
}

/* Unlocks, and makes every thread's next access come after the lines written. */
static void alloc_unlock(struct mt_core_thread *t)
{
    int tell = moved, mat = mt_g.o->mode == MT_CORE_MAT;
    mt_spin_unlock(&mt_g.index_lock);
    if (tell && !mat && t)
        mt_atomic_moved(t->state);
    if (t)
        t->state->busy--;
    if (tell && mat)
        mt_core_moved(t);
}

/* ---- blocks ---- */

void mt_core_alloc(struct mt_core_thread *t, enum mt_core_alloc_kind kind, uint64_t base, uint64_t bytes,
                   uint64_t ip)
{
    struct mt_code_location p;
    if (!base || !bytes || !alloc_enter(t))
        return;
    mt_site_locate(ip, &p);
    alloc_lock(t);
    alloc_put(kind, base, bytes, "", &p);
    alloc_unlock(t);
}

void mt_alloc_static(enum mt_core_alloc_kind kind, uint64_t base, uint64_t bytes, const char *name)
{
    static const struct mt_code_location nowhere = {.file = "", .function = "", .module = ""};
    if (!alloc_keeps())
        return;
    mt_spin_lock(&mt_g.index_lock);
    alloc_put(kind, base, bytes, name, &nowhere);
    mt_spin_unlock(&mt_g.index_lock);
}

void mt_alloc_data(uint64_t base, uint64_t bytes)
{
    mt_spin_lock(&mt_g.index_lock);
    if (mt_index_insert(&mt_g.data, base, bytes, 1))
        no_memory();
    alloc_changed();
    mt_spin_unlock(&mt_g.index_lock);
}

void mt_core_alloc_keep(uint64_t base)
{
    mt_spin_lock(&mt_g.index_lock);
    struct mt_core_range *r = mt_index_find(&mt_g.blocks, base);
    if (r && r->start == base)
        r->kept = 1;
    alloc_changed();
    mt_spin_unlock(&mt_g.index_lock);
}

/* Frees a block, under the lock. `id` UINT64_MAX: whichever is there. */
static void free_block(uint64_t base, uint64_t id)
{
    struct mt_core_range *r = mt_index_find(&mt_g.blocks, base);
    if (!r || r->start != base || (id != UINT64_MAX && r->id != id))
        return;
    if (take_away(&mt_g.blocks, base, r->end - base))
        no_memory();
    alloc_changed();
}

void mt_core_free(struct mt_core_thread *t, uint64_t base)
{
    if (!base || !alloc_enter(t))
        return;
    alloc_lock(t);
    free_block(base, UINT64_MAX);
    alloc_unlock(t);
}

void mt_core_realloc_begin(struct mt_core_thread *t, uint64_t old)
{
    if (!old || !t || !alloc_enter(t))
        return;
    mt_spin_lock(&mt_g.index_lock);
    struct mt_core_range *r = mt_index_find(&mt_g.blocks, old);
    t->state->realloc_base = old;
    t->state->realloc_id = r && r->start == old ? r->id : UINT64_MAX - 1;
    mt_spin_unlock(&mt_g.index_lock);
}

void mt_core_realloc(struct mt_core_thread *t, uint64_t old, uint64_t base, uint64_t bytes, uint64_t ip)
{
    struct mt_code_location p;
    uint64_t id = UINT64_MAX;
    if (!base || !alloc_enter(t))
        return;
    mt_site_locate(ip, &p);
    alloc_lock(t);
    if (t && t->state->realloc_base == old)
        id = t->state->realloc_id;
    if (t)
        t->state->realloc_base = 0;
    if (old)
        free_block(old, id);
    if (bytes)
        alloc_put(MT_CORE_REALLOC, base, bytes, "", &p);
    alloc_unlock(t);
}

/* ---- maps ---- */

static void alloc_unmap(uint64_t base, uint64_t bytes)
{
    alloc_no_data(base, bytes);
    if (bytes && take_away(&mt_g.maps, base, bytes))
        no_memory();
    alloc_changed();
}

static uint64_t alloc_pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

void mt_core_unmap(struct mt_core_thread *t, uint64_t base, uint64_t bytes)
{
    if (!bytes || !alloc_enter(t))
        return;
    alloc_lock(t);
    alloc_unmap(base, alloc_pages(bytes));
    alloc_unlock(t);
}

void mt_core_remap(struct mt_core_thread *t, uint64_t old, uint64_t old_bytes, uint64_t base, uint64_t bytes,
                   uint64_t ip)
{
    struct mt_code_location p;
    if (!base || !alloc_enter(t))
        return;
    mt_site_locate(ip, &p);
    alloc_lock(t);
    if (old_bytes)
        alloc_unmap(old, alloc_pages(old_bytes));
    if (bytes)
        alloc_put(MT_CORE_MMAP, base, bytes, "", &p);
    alloc_unlock(t);
}

void mt_core_brk(struct mt_core_thread *t, uint64_t old_break, uint64_t new_break, uint64_t ip)
{
    struct mt_code_location p;
    if (old_break == new_break || !alloc_enter(t))
        return;
    mt_site_locate(new_break > old_break ? ip : 0, &p);
    alloc_lock(t);
    if (new_break > old_break)
        alloc_put(MT_CORE_BRK, old_break, new_break - old_break, "", &p);
    else
        alloc_unmap(new_break, old_break - new_break);
    alloc_unlock(t);
}

/* ---- lookup ---- */

/* Returns the tree's range around the address, or NULL; narrows to that range or to the gap. */
static struct mt_core_range *alloc_narrow(struct mt_index_tree *tree, uint64_t address, struct mt_meaning *m)
{
    struct mt_core_range *r = mt_index_find(tree, address);
    if (!r) {
        mt_index_gap(tree, address, &m->base, &m->end);
        return NULL;
    }
    m->base = r->base > m->base ? r->base : m->base;
    m->end = r->end < m->end ? r->end : m->end;
    return r;
}

static void look_up(uint64_t address, struct mt_meaning *m)
{
    *m = (struct mt_meaning){.base = 0, .end = UINT64_MAX};
    struct mt_core_range *r = alloc_narrow(&mt_g.blocks, address, m);
    m->data = r && !r->kept;
    if (!r && mt_g.data.root)
        m->data = alloc_narrow(&mt_g.data, address, m) != NULL;
    if (!r && !(r = alloc_narrow(&mt_g.maps, address, m)))
        return;
    m->id = r->id;
    m->start = r->start;
    m->bytes = r->bytes;
}

static int alloc_holds(const struct mt_meaning *m, uint64_t address, uint64_t changes)
{
    return address - m->base < m->end - m->base && m->changes == changes && m->end;
}

const struct mt_meaning *mt_alloc_meaning(struct mt_core_thread_state *t, uint64_t address)
{
    uint64_t changes = __atomic_load_n(&mt_g.changes, __ATOMIC_ACQUIRE);
    const struct mt_meaning *last = &t->cache[t->last_cache];
    if (alloc_holds(last, address, changes))
        return last;
    for (unsigned i = 0; i < MT_CACHE; i++)
        if (alloc_holds(&t->cache[i], address, changes)) {
            t->last_cache = i;
            return &t->cache[i];
        }
    t->last_cache = t->next_cache++ % MT_CACHE;
    struct mt_meaning *m = &t->cache[t->last_cache];
    mt_spin_lock(&mt_g.index_lock);
    look_up(address, m);
    m->changes = mt_g.changes;
    mt_spin_unlock(&mt_g.index_lock);
    return m;
}
