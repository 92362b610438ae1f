/* Allocations: the two index trees, their lines in the compact trace, and the present meaning of an
 * address. */
#define _GNU_SOURCE

#include "alloc.h"
#include "platform.h"
#include "state.h"
#include "memtrace/hash.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* ---- The allocation index: two splay trees of ranges (see alloc.h) ---- */

#define SLAB 262144u /* bytes of nodes allocated at once */

/* Ensures at least `n` nodes in `spare`. */
static int alloc_index_reserve(struct mt_index_tree *t, int n)
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

static uint64_t alloc_end_of(uint64_t base, uint64_t bytes)
{
    return base + bytes < base ? UINT64_MAX : base + bytes;
}

/* Returns the range that holds the address, or NULL. Valid until the next change. */
static struct mt_core_range *index_find(struct mt_index_tree *t, uint64_t address)
{
    struct mt_core_range *r = t->root;
    if (r && r->base <= address && address < r->end)
        return r;
    r = floor_of(t, address);
    return r && address < r->end ? r : 0;
}

/* Narrows [*low, *high) to the gap around an address that is in no range. */
static void index_gap(struct mt_index_tree *t, uint64_t address, uint64_t *low, uint64_t *high)
{
    struct mt_core_range *r = floor_of(t, address), *next = t->root;
    if (r && r->end > *low)
        *low = r->end;
    for (next = r ? r->right : t->root; next; next = next->left) /* all bases there are > address */
        if (next->base < *high)
            *high = next->base;
}

/* Returns 1 if any piece of allocation `id` lies in [base, end). */
static int index_has(struct mt_index_tree *t, uint64_t base, uint64_t end, uint64_t id)
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

/* Removes [base, base + bytes), and cuts ranges at its ends. Calls gone(was, whole, arg) for each range
 * touched with its old bounds; whole is 1 if nothing of it is left. gone may be NULL and must not touch
 * the tree. Returns 0, or -1 without memory for a split (nothing changed). */
static int index_remove(struct mt_index_tree *t, uint64_t base, uint64_t bytes,
                        void (*gone)(const struct mt_core_range *was, int whole, void *arg), void *arg)
{
    uint64_t end = alloc_end_of(base, bytes);
    if (base == end)
        return 0;
    if (alloc_index_reserve(t, 1))
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

/* Inserts a range and first cuts away all it overlaps. Returns 0, or -1 without memory (nothing changed). */
static int index_insert(struct mt_index_tree *t, uint64_t base, uint64_t bytes, uint64_t id)
{
    if (!bytes)
        return 0;
    if (alloc_index_reserve(t, 2) || index_remove(t, base, bytes, 0, 0))
        return -1;
    struct mt_core_range *r = index_take(t);
    *r = (struct mt_core_range){base, alloc_end_of(base, bytes), id, base, bytes, 0, 0, 0};
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

/* Global variables as buffers: symbols of the program's file, and the sections around them. */

#define PART_MAX (1ull << 30)  /* maximum bytes of a table */
#define ADDRESSES (1ull << 47) /* end of a program's addresses */

/* A part of the file in pages, with a zero after it. data NULL: absent or unreadable. */
struct part {
    char *data;
    uint64_t bytes;
};

struct image {
    int fd;
    struct part sections, section_names, symbols, names;
};

struct variable {
    uint64_t base, bytes;
    const char *name;
    unsigned local;
};

/* ---- the file: read in few parts as it may be large, and without the C library, so not by an elfview
 * ---- */

static struct part globals_part(int fd, uint64_t offset, uint64_t bytes)
{
    struct part p = {NULL, bytes};
    if (!bytes || bytes > PART_MAX || !(p.data = mt_plat_map((size_t)bytes + 1)))
        return p;
    if (mt_plat_pread(fd, p.data, (size_t)bytes, offset)) {
        mt_plat_unmap(p.data, (size_t)bytes + 1);
        p.data = NULL;
    }
    return p;
}

static void globals_give_back(struct part *p)
{
    if (p->data)
        mt_plat_unmap(p->data, (size_t)p->bytes + 1);
}

static unsigned globals_sections(const struct image *f)
{
    return (unsigned)(f->sections.bytes / sizeof(Elf64_Shdr));
}

static const Elf64_Shdr *globals_section(const struct image *f, unsigned i)
{
    return i < globals_sections(f) ? (const Elf64_Shdr *)(const void *)f->sections.data + i : NULL;
}

static const char *alloc_globals_name(const struct part *strings, uint64_t offset)
{
    return strings->data && offset < strings->bytes ? strings->data + offset : "";
}

/* Reads the whole symbol table, or the dynamic linker's if that was stripped. */
static void globals_symbols(struct image *f)
{
    const Elf64_Shdr *table = NULL;
    for (unsigned i = 0; i < globals_sections(f); i++) {
        const Elf64_Shdr *s = globals_section(f, i);
        if (s->sh_entsize == sizeof(Elf64_Sym) &&
            (s->sh_type == SHT_SYMTAB || (s->sh_type == SHT_DYNSYM && !table)))
            table = s;
    }
    const Elf64_Shdr *strings = table ? globals_section(f, table->sh_link) : NULL;
    if (!strings)
        return;
    f->symbols = globals_part(f->fd, table->sh_offset, table->sh_size);
    f->names = globals_part(f->fd, strings->sh_offset, strings->sh_size);
}

/* Returns 0 or an errno value. A file without sections is valid and names nothing. */
static int globals_open(struct image *f, const char *path)
{
    Elf64_Ehdr head;
    memset(f, 0, sizeof *f);
    f->fd = (int)mt_sys(__NR_open, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
    if (f->fd < 0)
        return -f->fd;
    int rc = mt_plat_pread(f->fd, &head, sizeof head, 0);
    if (!rc && (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_ident[EI_CLASS] != ELFCLASS64))
        rc = ENOEXEC;
    if (!rc && head.e_shnum && head.e_shentsize == sizeof(Elf64_Shdr)) {
        f->sections = globals_part(f->fd, head.e_shoff, (uint64_t)head.e_shnum * sizeof(Elf64_Shdr));
        rc = f->sections.data ? 0 : EIO;
    }
    const Elf64_Shdr *names = rc || !f->sections.data ? NULL : globals_section(f, head.e_shstrndx);
    if (names)
        f->section_names = globals_part(f->fd, names->sh_offset, names->sh_size);
    if (!rc && f->sections.data)
        globals_symbols(f);
    return rc;
}

static void globals_close(struct image *f)
{
    globals_give_back(&f->sections);
    globals_give_back(&f->section_names);
    globals_give_back(&f->symbols);
    globals_give_back(&f->names);
    if (f->fd >= 0)
        mt_sys(__NR_close, f->fd, 0, 0, 0, 0, 0);
}

/* ---- its contents ---- */

static int globals_is_data(const Elf64_Shdr *s)
{
    return s && (s->sh_flags & SHF_ALLOC) && !(s->sh_flags & (SHF_EXECINSTR | SHF_TLS)) &&
           s->sh_addr < ADDRESSES && s->sh_size < ADDRESSES;
}

static void alloc_static(enum mt_core_alloc_kind kind, uint64_t base, uint64_t bytes, const char *name);

static void globals_put_section(uint64_t base, uint64_t bytes, const char *name)
{
    alloc_static(MT_CORE_SECTION, base, bytes, name);
}

static void alloc_data(uint64_t base, uint64_t bytes);

static void globals_put_data(uint64_t base, uint64_t bytes, const char *name)
{
    (void)name;
    alloc_data(base, bytes);
}

static void globals_each_section(const struct image *f, uint64_t bias,
                                 void (*put)(uint64_t base, uint64_t bytes, const char *name))
{
    static const char *const kinds[] = {".data", ".bss", ".rodata"};
    for (unsigned i = 0; i < globals_sections(f); i++) {
        const Elf64_Shdr *s = globals_section(f, i);
        const char *name = alloc_globals_name(&f->section_names, s->sh_name);
        for (unsigned k = 0; k < 3; k++) {
            size_t n = strlen(kinds[k]);
            if (globals_is_data(s) && s->sh_size && !strncmp(name, kinds[k], n) &&
                (!name[n] || name[n] == '.'))
                put(s->sh_addr + bias, s->sh_size, name);
        }
    }
}

/* Orders by address; at one address the largest first, then the one with the plainest name. */
static int globals_order(const void *a, const void *b)
{
    const struct variable *x = a, *y = b;
    size_t m = strlen(x->name), n = strlen(y->name);
    if (x->base != y->base)
        return x->base < y->base ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->local != y->local)
        return x->local < y->local ? -1 : 1;
    return m != n ? (m < n ? -1 : 1) : strcmp(x->name, y->name);
}

/* Collects data symbols with a size. `v` has room for all symbols. */
static size_t globals_collect(const struct image *f, struct variable *v)
{
    const Elf64_Sym *s = (const Elf64_Sym *)(const void *)f->symbols.data;
    size_t n = 0;
    for (uint64_t i = 0; i < f->symbols.bytes / sizeof *s; i++) {
        const char *name = alloc_globals_name(&f->names, s[i].st_name);
        if (strncmp(name, "memtrace.host.", 14) == 0)
            continue; /* made by the pass: no program has such a name */
        if (ELF64_ST_TYPE(s[i].st_info) == STT_OBJECT && s[i].st_size && *name && s[i].st_value < ADDRESSES &&
            s[i].st_size < ADDRESSES && globals_is_data(globals_section(f, s[i].st_shndx)))
            v[n++] = (struct variable){s[i].st_value, s[i].st_size, name,
                                       ELF64_ST_BIND(s[i].st_info) == STB_LOCAL};
    }
    return n;
}

static void alloc_globals_put(const struct variable *v, uint64_t bias)
{
    char symbol[512], room[512];
    size_t n = strcspn(v->name, "@"); /* version of a library's variable */
    const char *name = v->name;
    if (name[n] && n && n < sizeof symbol) {
        memcpy(symbol, name, n);
        symbol[n] = 0;
        name = symbol;
    }
    if (mt_g.e->plain)
        name = mt_g.e->plain(name, room, sizeof room);
    alloc_static(MT_CORE_GLOBAL, v->base + bias, v->bytes, name);
}

/* Adds the variables except second names and variables inside of others. Returns 0 or an errno value. */
static int globals_put_variables(const struct image *f, uint64_t bias)
{
    size_t bytes = (size_t)(f->symbols.bytes / sizeof(Elf64_Sym)) * sizeof(struct variable);
    struct variable *v = f->symbols.data ? mt_plat_map(bytes) : NULL;
    uint64_t end = 0;
    if (!v)
        return f->symbols.data ? ENOMEM : f->symbols.bytes ? EIO : 0;
    size_t n = globals_collect(f, v);
    qsort(v, n, sizeof *v, globals_order);
    for (size_t i = 0; i < n; i++)
        if (v[i].base >= end) {
            alloc_globals_put(&v[i], bias);
            end = v[i].base + v[i].bytes;
        }
    mt_plat_unmap(v, bytes);
    return 0;
}

void mt_core_globals(const char *path, uint64_t bias)
{
    struct image f;
    if (!mt_on() || (mt_g.o->mode != MT_CORE_MAT && !mt_g.o->container))
        return;
    int rc = globals_open(&f, path);
    if (!rc) {
        globals_each_section(&f, bias, globals_put_section);
        rc = globals_put_variables(&f, bias);
    }
    globals_close(&f);
    if (rc)
        mt_plat_report("%s cannot be read: %s; global variables are not in the trace as buffers", path,
                       strerror(rc));
    mt_core_moved(NULL);
}

const char *mt_core_symbol(const char *path, uint64_t address, char *room, unsigned size)
{
    static struct mt_spin kept_lock;
    static struct image kept = {.fd = -1};
    static char kept_path[512];
    *room = 0;
    mt_spin_lock(&kept_lock);
    if (strcmp(kept_path, path) != 0) {
        globals_close(&kept);
        snprintf(kept_path, sizeof kept_path, "%s", path);
        if (globals_open(&kept, path) == 0 && kept.fd >= 0)
            mt_sys(__NR_close, kept.fd, 0, 0, 0, 0, 0);
        kept.fd = -1;
    }
    const Elf64_Sym *s = (const Elf64_Sym *)(const void *)kept.symbols.data;
    for (uint64_t i = 0; s && i < kept.symbols.bytes / sizeof *s && !*room; i++)
        if (ELF64_ST_TYPE(s[i].st_info) == STT_FUNC && address - s[i].st_value < s[i].st_size)
            snprintf(room, size, "%s", alloc_globals_name(&kept.names, s[i].st_name));
    mt_spin_unlock(&kept_lock);
    return room;
}

void mt_core_data(const char *path, uint64_t bias)
{
    struct image f;
    if (!mt_on() || mt_g.o->others != MT_CODE_DATA)
        return;
    if (!globals_open(&f, path))
        globals_each_section(&f, bias, globals_put_data);
    globals_close(&f);
}

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
                              .at = placed ? NULL : at,
                              .stack = p->stack};
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
    if (index_remove(t, base, bytes, alloc_gone, &c))
        return -1;
    for (unsigned i = 0; i < c.cuts; i++)
        if (!index_has(t, c.cut[i].start, c.cut[i].end, c.cut[i].id))
            line_free(c.cut[i].id, c.cut[i].start);
    return 0;
}

static void alloc_no_memory(void)
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
    if (mt_g.data.root && index_remove(&mt_g.data, base, bytes, NULL, NULL))
        alloc_no_memory();
}

/* Makes [base, base + bytes) a new allocation, under the lock. */
static void alloc_put(enum mt_core_alloc_kind kind, uint64_t base, uint64_t bytes, const char *name,
                      const struct mt_code_location *p)
{
    struct mt_index_tree *t = tree_of(kind);
    uint64_t id = bytes >= mt_g.o->threshold ? mt_g.allocations + 1 : 0; /* 0: too small to report */
    if (take_away(t, base, bytes) || index_insert(t, base, bytes, id)) {
        alloc_no_memory();
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
        mt_core_count(&t->state->lost, 1);
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

/* ---- callers: each different stack has a line of its own, before the allocations that name it ---- */

struct stack {
    uint64_t n, ip[MT_CORE_CALLERS]; /* n 0: free */
};
static struct mt_spin stacks_lock;
static struct stack *stacks; /* a hash table; its places are ids - 1 */
static uint64_t nstacks;

enum { STACKS = 1 << 16, FRAME_TEXT = 1200 }; /* STACKS: room; further stacks are unknown */

int mt_core_wants_callers(void)
{
    return alloc_keeps() && mt_g.o->container && mt_g.e->frame;
}

/* Adds the text of a frame. Returns 1 if it is the program's first function. */
static int stacks_frame(const struct mt_core_location *p, char *text, size_t size)
{
    const char *slash = strrchr(p->module, '/');
    if (*p->file)
        snprintf(text, size, "%s:%u%s%s", p->file, p->line, *p->function ? " in " : "", p->function);
    else
        snprintf(text, size, "%s%s%s", slash ? slash + 1 : p->module, *p->function ? ":" : "", p->function);
    return !strcmp(p->function, "main");
}

/* Writes the line of a stack. The allocating call itself is not in it, but what it is inlined into. */
static void stacks_line(uint64_t id, const struct stack *s)
{
    char(*text)[FRAME_TEXT] =
        mt_plat_map(MT_CORE_CALLERS * sizeof *text); /* the program's stack may be small */
    const char *list[MT_CORE_CALLERS];
    struct mt_core_location p;
    unsigned n = 0;
    int ended = 0;
    for (uint64_t i = 0; text && i < s->n && !ended; i++)
        for (unsigned level = i == 0; n < MT_CORE_CALLERS && !ended; level++) {
            memset(&p, 0, sizeof p);
            if (mt_g.e->frame(s->ip[i], level, &p) != 0)
                break;
            ended = stacks_frame(&p, text[n], sizeof text[n]);
            list[n] = text[n];
            n++;
        }
    mt_core_sink_line(MT_LINE_stack, &(struct mt_stack_line){.id = id, .callers = {n ? list : NULL, n}});
    if (text)
        mt_plat_unmap(text, MT_CORE_CALLERS * sizeof *text);
}

/* Returns the place of a stack, or of a free one; NULL if there is no room. */
static struct stack *stacks_find(const struct stack *s)
{
    uint64_t h = mt_hash_bytes(MT_HASH_BEGIN, (const char *)s->ip, s->n * sizeof *s->ip);
    if (!stacks && !(stacks = mt_plat_map(STACKS * sizeof *stacks)))
        return NULL;
    for (h = mt_hash_number(h) >> 32;; h++) {
        struct stack *at = &stacks[h & (STACKS - 1)];
        if (!at->n)
            return nstacks < STACKS / 2 ? at : NULL;
        if (at->n == s->n && !memcmp(at->ip, s->ip, s->n * sizeof *s->ip))
            return at;
    }
}

void mt_core_callers(struct mt_core_thread *t, const uint64_t *ip, unsigned n)
{
    struct stack s = {.n = n < MT_CORE_CALLERS ? n : MT_CORE_CALLERS};
    int fresh = 0;
    if (!t || !n || t->state->busy || !mt_core_wants_callers())
        return;
    memcpy(s.ip, ip, s.n * sizeof *ip);
    mt_spin_lock(&stacks_lock);
    struct stack *at = stacks_find(&s);
    if (at && (fresh = !at->n)) {
        *at = s;
        nstacks++;
    }
    t->state->stack = at ? (uint64_t)(at - stacks) + 1 : 0;
    mt_spin_unlock(&stacks_lock);
    if (fresh)
        stacks_line(t->state->stack, &s);
}

/* Returns the callers of the allocation that is being made, and forgets them. */
static uint64_t stacks_take(struct mt_core_thread *t)
{
    const uint64_t stack = t ? t->state->stack : 0;
    if (t)
        t->state->stack = 0;
    return stack;
}

/* ---- blocks ---- */

void mt_core_alloc(struct mt_core_thread *t, enum mt_core_alloc_kind kind, uint64_t base, uint64_t bytes,
                   uint64_t ip)
{
    struct mt_code_location p;
    const uint64_t stack = stacks_take(t);
    if (!base || !bytes || !alloc_enter(t))
        return;
    mt_site_locate(ip, &p);
    p.stack = stack;
    alloc_lock(t);
    alloc_put(kind, base, bytes, "", &p);
    alloc_unlock(t);
}

/* Adds a buffer that no call of the program made; mt_core_moved reports the others. */
static void alloc_static(enum mt_core_alloc_kind kind, uint64_t base, uint64_t bytes, const char *name)
{
    static const struct mt_code_location nowhere = {.file = "", .function = "", .module = ""};
    if (!alloc_keeps())
        return;
    mt_spin_lock(&mt_g.index_lock);
    alloc_put(kind, base, bytes, name, &nowhere);
    mt_spin_unlock(&mt_g.index_lock);
}

/* Marks [base, base + bytes) as data of the program. */
static void alloc_data(uint64_t base, uint64_t bytes)
{
    mt_spin_lock(&mt_g.index_lock);
    if (index_insert(&mt_g.data, base, bytes, 1))
        alloc_no_memory();
    alloc_changed();
    mt_spin_unlock(&mt_g.index_lock);
}

void mt_core_alloc_keep(uint64_t base)
{
    mt_spin_lock(&mt_g.index_lock);
    struct mt_core_range *r = index_find(&mt_g.blocks, base);
    if (r && r->start == base)
        r->kept = 1;
    alloc_changed();
    mt_spin_unlock(&mt_g.index_lock);
}

/* Frees a block, under the lock. `id` UINT64_MAX: whichever is there. */
static void free_block(uint64_t base, uint64_t id)
{
    struct mt_core_range *r = index_find(&mt_g.blocks, base);
    if (!r || r->start != base || (id != UINT64_MAX && r->id != id))
        return;
    if (take_away(&mt_g.blocks, base, r->end - base))
        alloc_no_memory();
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
    struct mt_core_range *r = index_find(&mt_g.blocks, old);
    t->state->realloc_base = old;
    t->state->realloc_id = r && r->start == old ? r->id : UINT64_MAX - 1;
    mt_spin_unlock(&mt_g.index_lock);
}

void mt_core_realloc(struct mt_core_thread *t, uint64_t old, uint64_t base, uint64_t bytes, uint64_t ip)
{
    struct mt_code_location p;
    uint64_t id = UINT64_MAX;
    const uint64_t stack = stacks_take(t);
    if (!base || !alloc_enter(t))
        return;
    mt_site_locate(ip, &p);
    p.stack = stack;
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
        alloc_no_memory();
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
    struct mt_core_range *r = index_find(tree, address);
    if (!r) {
        index_gap(tree, address, &m->base, &m->end);
        return NULL;
    }
    m->base = r->base > m->base ? r->base : m->base;
    m->end = r->end < m->end ? r->end : m->end;
    return r;
}

static void alloc_look_up(uint64_t address, struct mt_meaning *m)
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
    alloc_look_up(address, m);
    m->changes = mt_g.changes;
    mt_spin_unlock(&mt_g.index_lock);
    return m;
}
