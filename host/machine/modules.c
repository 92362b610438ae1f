/* Mapped files of the guest: their functions of interest and source locations. */
#define _GNU_SOURCE

#include "modules.h"
#include "memtrace/hash.h"
#include "guest.h"
#include "base/elffile.h"
#include "../core/platform.h"
#include "memtrace/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* ---- A map from non-zero 64-bit numbers to numbers. It grows and never removes ---- */

struct mt_guest_map_table {
    struct mt_guest_map_table *smaller; /* kept for readers still in it */
    size_t room;
    uint64_t cell[][2];
};

static size_t map_place(const struct mt_guest_map_table *t, uint64_t key)
{
    size_t i = (size_t)(mt_hash_number(key) >> 20) & (t->room - 1);
    for (uint64_t k; (k = __atomic_load_n(&t->cell[i][0], __ATOMIC_ACQUIRE)) != 0 && k != key;)
        i = (i + 1) & (t->room - 1);
    return i;
}

uint64_t mt_guest_map_get(const struct mt_guest_map *m, uint64_t key)
{
    const struct mt_guest_map_table *t = __atomic_load_n(&m->table, __ATOMIC_ACQUIRE);
    if (!t)
        return 0;
    size_t i = map_place(t, key);
    if (__atomic_load_n(&t->cell[i][0], __ATOMIC_ACQUIRE) == 0)
        return 0;
    return __atomic_load_n(&t->cell[i][1], __ATOMIC_RELAXED);
}

static void map_set(struct mt_guest_map_table *t, size_t i, uint64_t key, uint64_t value)
{
    __atomic_store_n(&t->cell[i][1], value, __ATOMIC_RELAXED);
    __atomic_store_n(&t->cell[i][0], key, __ATOMIC_RELEASE);
}

static struct mt_guest_map_table *map_grown(struct mt_guest_map_table *old)
{
    size_t room = old ? old->room * 2 : 1024;
    struct mt_guest_map_table *t = calloc(1, sizeof *t + room * sizeof t->cell[0]);
    if (!t)
        return NULL;
    t->smaller = old;
    t->room = room;
    for (size_t i = 0; old && i < old->room; i++)
        if (old->cell[i][0])
            map_set(t, map_place(t, old->cell[i][0]), old->cell[i][0], old->cell[i][1]);
    return t;
}

int mt_guest_map_put(struct mt_guest_map *m, uint64_t key, uint64_t value)
{
    if (!m->table || m->count * 2 >= m->table->room) {
        struct mt_guest_map_table *t = map_grown(m->table);
        if (!t)
            return -1;
        __atomic_store_n(&m->table, t, __ATOMIC_RELEASE);
    }
    size_t i = map_place(m->table, key);
    m->count += m->table->cell[i][0] == 0;
    map_set(m->table, i, key, value);
    return 0;
}

/* ---- Translated instructions with the sites of their operands ---- */

static struct mt_guest_map known; /* ip -> newest instruction */

static void insns_define(struct mt_insn *n, int whole)
{
    struct mt_core_site s[MT_X86_OPERANDS + 1];
    struct mt_x86_words words;
    unsigned count = 0;
    memset(s, 0, sizeof s);
    if (whole) {
        mt_x86_words(&words, n->x86.ip, n->bytes, n->x86.length ? n->x86.length : 1);
        s[count++] = (struct mt_core_site){.ip = n->x86.ip,
                                           .op = MT_HOST_EXEC,
                                           .text = words.text,
                                           .reads = words.reads,
                                           .writes = words.writes};
    }
    for (unsigned i = 0; i < n->x86.count; i++) {
        const struct mt_x86_operand *o = &n->x86.operand[i];
        s[count++] = (struct mt_core_site){
            .ip = n->x86.ip, .op = o->op, .size = o->size, .strong = o->locked, .runtime = n->runtime};
    }
    if (n->x86.cas && whole) /* one instruction, one execution */
        s[count++] =
            (struct mt_core_site){.ip = n->x86.ip, .op = MT_HOST_CAS_FAILED, .size = n->x86.operand[0].size};
    n->site = count ? mt_core_sites(s, count) : 0;
    if (n->x86.cas && whole)
        n->failed = n->site ? n->site + count - 1 : 0;
    else if (n->x86.cas)
        n->failed = mt_core_sites(
            &(struct mt_core_site){.ip = n->x86.ip, .op = MT_HOST_CAS_FAILED, .size = n->x86.operand[0].size},
            1);
}

static void insns_operands(struct mt_insn *n, int whole)
{
    for (unsigned i = 0; i < n->x86.count; i++) {
        const struct mt_x86_operand *o = &n->x86.operand[i];
        n->operand[i] = (struct mt_operand){.insn = n,
                                            .site = n->site ? n->site + i + (whole ? 1 : 0) : 0,
                                            .size = o->size,
                                            .spare = (uint8_t)o->spare,
                                            .parts = (uint8_t)o->parts,
                                            .op = (uint8_t)o->op};
    }
    if (n->x86.count) { /* enter and xsave read in between */
        unsigned last = n->x86.count - 1;
        if (last == 1 && n->operand[0].op == MT_HOST_STORE)
            last = 0;
        n->operand[last].last = 1;
    }
}

struct mt_insn *mt_insn_get(uint64_t ip, const uint8_t *bytes, unsigned size, int whole,
                            enum mt_core_code code)
{
    struct mt_insn *newest = (struct mt_insn *)(uintptr_t)mt_guest_map_get(&known, ip);
    if (size > sizeof newest->bytes)
        size = sizeof newest->bytes;
    for (struct mt_insn *n = newest; n; n = n->older)
        if (!memcmp(n->bytes, bytes, n->x86.length ? n->x86.length : size))
            return n;
    struct mt_insn *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    memcpy(n->bytes, bytes, size);
    mt_x86_decode(&n->x86, ip, bytes, size);
    n->older = newest;
    n->code = (uint8_t)code;
    n->runtime = code == MT_CODE_DATA;
    for (unsigned i = 0; mt_core_options()->mode == MT_CORE_ATOMIC && i < n->x86.count; i++)
        n->code = /* threads synchronise by them: the C library's locks */ code == MT_CODE_DATA &&
                          n->x86.operand[i].locked
                      ? MT_CODE_ALL
                      : n->code;
    if (code >= MT_CODE_DATA)
        insns_define(n, whole);
    insns_operands(n, whole);
    if (mt_guest_map_put(&known, ip, (uint64_t)(uintptr_t)n) != 0) {
        free(n);
        return NULL;
    }
    return n;
}

/* Numbers that order host accesses with CUDA calls: those of the CUDA runtime in the guest's memory once
 * it is there, continuing ours. */

uint64_t *mt_sequence_cuda, mt_sequence_last;

static uint64_t own; /* highest number given here */

static uint64_t modules_sequence(void);

static uint64_t *sequence_cuda(void)
{
    uint64_t *next = __atomic_load_n(&mt_sequence_cuda, __ATOMIC_ACQUIRE);
    if (!next && modules_sequence()) {
        next = (uint64_t *)(uintptr_t)mt_guest(modules_sequence());
        __atomic_store_n(&mt_sequence_cuda, next, __ATOMIC_RELEASE);
    }
    return next;
}

/* Raises *at to `least`. */
static void sequence_raise(uint64_t *at, uint64_t least)
{
    uint64_t now = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    while (now < least &&
           !__atomic_compare_exchange_n(at, &now, least, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
        ;
}

/* The runtime's number begins anew when the loader maps its .bss and when it starts, so it is raised each
 * time. */
uint64_t mt_sequence(int next)
{
    uint64_t *theirs = sequence_cuda();
    if (!theirs)
        return next ? __atomic_add_fetch(&own, 1, __ATOMIC_SEQ_CST) : __atomic_load_n(&own, __ATOMIC_ACQUIRE);
    sequence_raise(theirs, __atomic_load_n(&own, __ATOMIC_ACQUIRE) + 1);
    if (!next)
        return __atomic_load_n(theirs, __ATOMIC_ACQUIRE) - 1;
    uint64_t number = __atomic_fetch_add(theirs, 1, __ATOMIC_SEQ_CST);
    sequence_raise(&own, number);
    return number;
}

void mt_sequence_seen(void)
{
    __atomic_store_n(&mt_sequence_last, __atomic_load_n(mt_sequence_cuda, __ATOMIC_ACQUIRE),
                     __ATOMIC_RELAXED);
}

uint64_t mt_guest_base;

struct module {
    struct module *next;
    struct mt_elf *elf; /* NULL: unreadable */
    uint64_t bias;
    int main, runtime;
    enum mt_core_code code;
    char path[512];
};

struct range {
    uint64_t start, end;
    struct module *module;  /* NULL: no file */
    enum mt_core_code code; /* same as the module's */
};

static struct {
    struct mt_spin lock;
    struct module *modules; /* never freed: locations in unmapped files may be requested */
    struct range *ranges;
    size_t nranges, room;
    size_t last;            /* last range found */
    struct mt_hash watches; /* struct mt_watch by address */
    const struct mt_core_options *options;
    dev_t device;
    ino_t inode;
    int allocations;
    void (*found)(const struct mt_watch *);
    uint64_t sequence;
} m;

static const struct {
    const char *name;
    enum mt_alloc_function is;
} allocators[] = {
    {"malloc", MT_FN_MALLOC},
    {"calloc", MT_FN_CALLOC},
    {"realloc", MT_FN_REALLOC},
    {"reallocarray", MT_FN_REALLOCARRAY},
    {"memalign", MT_FN_MEMALIGN},
    {"aligned_alloc", MT_FN_MEMALIGN},
    {"posix_memalign", MT_FN_POSIX_MEMALIGN},
    {"valloc", MT_FN_VALLOC},
    {"pvalloc", MT_FN_PVALLOC},
    {"free", MT_FN_FREE},
    {"cfree", MT_FN_FREE},
    {"mmap", MT_FN_MAP},
    {"mmap64", MT_FN_MAP},
    {"munmap", MT_FN_MAP},
    {"mremap", MT_FN_MAP},
    {"brk", MT_FN_MAP},
    {"sbrk", MT_FN_MAP},
};

static enum mt_alloc_function modules_allocator(const char *name)
{
    if (!strncmp(name, "_Znwm", 5) || !strncmp(name, "_Znam", 5))
        return MT_FN_NEW;
    if (!strncmp(name, "_ZdlPv", 6) || !strncmp(name, "_ZdaPv", 6))
        return MT_FN_DELETE;
    for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++)
        if (!strcmp(name, allocators[i].name))
            return allocators[i].is;
    return MT_FN_NONE;
}

static struct mt_watch *modules_watched(uint64_t address)
{
    uint64_t known = mt_hash_find(&m.watches, address);
    struct mt_watch *w = known ? (struct mt_watch *)known : calloc(1, sizeof *w);
    if (known || !w)
        return w;
    w->address = address;
    if (mt_hash_put(&m.watches, address, (uintptr_t)w) == 0)
        return w;
    free(w);
    return NULL;
}

static int is_routine(const char *name)
{
    for (unsigned i = 0; i < m.options->routine.count; i++)
        if (!strcmp(name, m.options->routine.item[i]))
            return 1;
    return 0;
}

static void modules_consider(void *arg, const char *name, uint64_t address)
{
    const struct module *module = arg;
    if (mt_core_symbol_is_part(name))
        return;
    enum mt_alloc_function alloc = !module->runtime ? m.allocations ? modules_allocator(name) : MT_FN_NONE
                                   : !strcmp(name, "__mt_host_read") ? MT_FN_READ
                                                                     : MT_FN_RUNTIME;
    int named = *m.options->functions || m.options->routine.count || strstr(name, "atomic_trace") ||
                !strncmp(name, "mt_", 3);
    uint32_t function = 0;
    int routine = 0;
    if (named) {
        char room[512];
        const char *plain = mt_undecorate(name, room, sizeof room);
        function = mt_core_function(plain);
        routine = is_routine(plain);
    }
    if (!alloc && !function && !routine)
        return;
    struct mt_watch *w = modules_watched(address + module->bias);
    if (!w)
        return;
    if (alloc)
        w->alloc = (uint8_t)alloc;
    if (function)
        w->function = function;
    w->routine |= (uint8_t)routine;
    if (m.found)
        m.found(w);
}

static enum mt_core_code modules_code(const char *path, int main)
{
    return main || m.options->mode != MT_CORE_INSN ? mt_core_code(path, main) : MT_CODE_HIDDEN;
}

static struct module *module_at(const char *path, uint64_t start, uint64_t offset, int main)
{
    struct mt_elf *elf = NULL;
    uint64_t bias = start - offset;
    struct module *x;
    for (x = m.modules; x; x = x->next) /* further segments of a known file, at the same address */
        if (!strcmp(x->path, path)) {
            if (x->elf && mt_elf_bias(x->elf, start, offset, &bias) == 0 && bias == x->bias)
                return x;
            elf = x->elf;
        }
    x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    snprintf(x->path, sizeof x->path, "%s", path);
    x->elf = elf ? elf : mt_elf_open(path);
    if (x->elf && mt_elf_bias(x->elf, start, offset, &bias) != 0)
        bias = start - offset;
    x->bias = bias;
    x->main = main;
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    x->runtime = !strncmp(name, "libmemtrace.so", 14) || !strncmp(path, "/memfd:memtrace", 15);
    x->code = x->runtime ? MT_CODE_HIDDEN : modules_code(path, main);
    if (x->code == MT_CODE_ALL)
        mt_core_data(path, bias);
    x->next = m.modules;
    m.modules = x;
    if (x->elf) {
        mt_elf_functions(x->elf, modules_consider, x);
        uint64_t sequence = x->runtime ? mt_elf_data(x->elf, "__mt_host_seq") : 0;
        if (sequence)
            m.sequence = sequence + bias;
    }
    return x;
}

/* `name`: for a range without module. */
static void add_range(uint64_t start, uint64_t end, struct module *module, const char *name)
{
    if (mt_grow(&m.ranges, &m.room, m.nranges + 1, sizeof *m.ranges))
        return;
    m.last = m.nranges;
    m.ranges[m.nranges++] = (struct range){start, end, module, module ? module->code : modules_code(name, 0)};
}

/* A line of /proc/self/maps. Guest addresses are host addresses. */
struct mapping {
    unsigned long start, end, offset;
    int main;
    const char *path; /* "" or not a path: no file */
};

static int modules_mapping(char *line, struct mapping *p)
{
    unsigned long inode;
    unsigned major, minor;
    int path = 0;
    if (sscanf(line, "%lx-%lx %*s %lx %x:%x %lu %n", &p->start, &p->end, &p->offset, &major, &minor, &inode,
               &path) < 6)
        return -1;
    line[strcspn(line, "\n")] = 0;
    p->path = line + path;
    p->main = inode && inode == m.inode && makedev(major, minor) == m.device;
    return 0;
}

/* Reads the kernel's list of mappings. */
static void look_up(uint64_t ip)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[1024];
    int found = 0;
    while (f && !found && fgets(line, sizeof line, f)) {
        struct mapping p;
        if (modules_mapping(line, &p) != 0 || ip < p.start || ip >= p.end)
            continue;
        found = 1;
        add_range(p.start, p.end, *p.path == '/' ? module_at(p.path, p.start, p.offset, p.main) : NULL,
                  p.path);
    }
    if (f)
        fclose(f);
    if (!found)
        add_range(ip & ~4095ull, (ip & ~4095ull) + 4096, NULL, "");
}

static struct range *modules_find(uint64_t ip)
{
    if (m.last < m.nranges && ip - m.ranges[m.last].start < m.ranges[m.last].end - m.ranges[m.last].start)
        return &m.ranges[m.last];
    for (size_t i = 0; i < m.nranges; i++)
        if (ip - m.ranges[i].start < m.ranges[i].end - m.ranges[i].start) {
            m.last = i;
            return &m.ranges[i];
        }
    return NULL;
}

static struct range *range_of(uint64_t ip)
{
    struct range *r = modules_find(ip);
    if (r)
        return r;
    look_up(ip);
    return modules_find(ip);
}

static struct module *module_of(uint64_t ip)
{
    struct range *r = range_of(ip);
    return r ? r->module : NULL;
}

void mt_modules_start(const char *program, const struct mt_core_options *o, int allocations,
                      void (*found)(const struct mt_watch *))
{
    struct stat s;
    m.options = o;
    m.allocations = allocations;
    m.found = found;
    if (program && stat(program, &s) == 0) {
        m.device = s.st_dev;
        m.inode = s.st_ino;
    }
}

void mt_modules_globals(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[1024];
    struct module *program = NULL;
    mt_spin_lock(&m.lock);
    while (f && !program && fgets(line, sizeof line, f)) {
        struct mapping p;
        if (modules_mapping(line, &p) == 0 && p.main)
            program = module_at(p.path, p.start, p.offset, 1);
    }
    mt_spin_unlock(&m.lock);
    if (f)
        fclose(f);
    if (program && program->elf)
        mt_core_globals(program->path, program->bias);
}

void mt_modules_look(uint64_t ip)
{
    mt_modules_code(ip);
}

const struct mt_watch *mt_modules_watch(uint64_t ip)
{
    mt_spin_lock(&m.lock);
    const struct mt_watch *w = NULL;
    if (module_of(ip))
        w = (const struct mt_watch *)mt_hash_find(&m.watches, ip);
    mt_spin_unlock(&m.lock);
    return w;
}

enum mt_core_code mt_modules_code(uint64_t ip)
{
    mt_spin_lock(&m.lock);
    struct range *r = range_of(ip);
    enum mt_core_code code = r ? r->code : modules_code("", 0);
    mt_spin_unlock(&m.lock);
    return code;
}

int mt_modules_keeps(uint64_t ip)
{
    mt_spin_lock(&m.lock);
    struct module *x = module_of(ip);
    const char *function = x && x->elf ? mt_elf_function(x->elf, ip - x->bias) : NULL;
    int keeps = x && mt_core_code_keeps(x->path, function ? function : "");
    mt_spin_unlock(&m.lock);
    return keeps;
}

/* Fills in the source place. */
static void modules_source(const struct mt_elf_location *source, struct mt_core_location *place)
{
    snprintf(place->file, sizeof place->file, "%s%s%s", source->folder, *source->folder ? "/" : "",
             source->file);
    place->line = source->line;
    place->column = source->column;
}

int mt_modules_locate(uint64_t ip, struct mt_core_location *place)
{
    char room[256];
    struct mt_elf_location source;
    const char *name;
    int known = -1;
    mt_spin_lock(&m.lock);
    struct module *x = module_of(ip);
    if (x) {
        known = 0;
        snprintf(place->module, sizeof place->module, "%s", x->path);
        if (x->elf && (name = mt_elf_function(x->elf, ip - x->bias)) != NULL)
            snprintf(place->function, sizeof place->function, "%s", mt_undecorate(name, room, sizeof room));
        if (x->elf && mt_elf_line(x->elf, ip - x->bias, &source) == 0)
            modules_source(&source, place);
    }
    mt_spin_unlock(&m.lock);
    return known;
}

/* ---- callers ---- */

struct step { /* mt_elf_frame of an address, made once */
    struct mt_elf_frame frame;
    int known; /* 0: the caller cannot be found */
};
static struct mt_guest_map steps; /* by address */

static const struct step *modules_step(uint64_t ip)
{
    struct step *s = (struct step *)(uintptr_t)mt_guest_map_get(&steps, ip);
    if (s)
        return s;
    mt_spin_lock(&m.lock);
    struct module *x = module_of(ip);
    const char *name = x && x->elf ? mt_elf_function(x->elf, ip - x->bias) : NULL;
    if ((s = calloc(1, sizeof *s))) {
        s->known = x && x->elf && !(name && x->main && !strcmp(name, "main")) &&
                   mt_elf_frame(x->elf, ip - x->bias, &s->frame) == 0;
        if (mt_guest_map_put(&steps, ip, (uint64_t)(uintptr_t)s) != 0) {
            free(s);
            s = NULL;
        }
    }
    mt_spin_unlock(&m.lock);
    return s;
}

/* Returns the end of the mapping around an address, or 0. */
static uint64_t modules_mapping_end(uint64_t address)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[1024];
    uint64_t end = 0;
    while (f && !end && fgets(line, sizeof line, f)) {
        struct mapping p;
        if (modules_mapping(line, &p) == 0 && address >= p.start && address < p.end)
            end = p.end;
    }
    if (f)
        fclose(f);
    return end;
}

enum {
    STACKS = 256
}; /* more stacks of a thread are coroutines: reading the mappings each time costs too much */
#define STACK_FARTHEST (8ull << 20)

unsigned mt_modules_callers(uint64_t ip, uint64_t sp, uint64_t bp, uint64_t *out, unsigned room,
                            uint64_t *high, unsigned *looked)
{
    unsigned n = 0;
    out[n++] = ip;
    if (sp >= *high || *high - sp > STACK_FARTHEST)
        *high = (*looked)++ < STACKS ? modules_mapping_end(sp) : 0;
    while (n < room && sp < *high) {
        const struct step *s = modules_step(ip);
        if (!s || !s->known)
            break;
        const uint64_t cfa = (s->frame.by_rbp ? bp : sp) + (uint64_t)s->frame.offset,
                       saved = cfa + (uint64_t)s->frame.saved;
        if (cfa <= sp || cfa > *high || cfa % 8 || saved < sp - 8 || saved > *high - 8)
            break;
        ip = mt_guest_u64(cfa - 8) - 1;
        bp = s->frame.saved ? mt_guest_u64(saved) : bp;
        sp = cfa;
        out[n++] = ip;
    }
    return n;
}

int mt_modules_frame(uint64_t ip, unsigned level, struct mt_core_location *place)
{
    char room[256];
    struct mt_elf_location source;
    const char *name = NULL;
    int known = -1;
    mt_spin_lock(&m.lock);
    struct module *x = module_of(ip);
    if (x && x->elf) {
        known = level ? mt_elf_inlined(x->elf, ip - x->bias, level - 1, &source, &name)
                      : mt_elf_line(x->elf, ip - x->bias, &source);
        if (known == 0)
            modules_source(&source, place);
        struct mt_elf_location next;
        if (mt_elf_inlined(x->elf, ip - x->bias, level, &next, &name) != 0)
            name = mt_elf_function(x->elf, ip - x->bias);
        if (name)
            snprintf(place->function, sizeof place->function, "%s", mt_undecorate(name, room, sizeof room));
        snprintf(place->module, sizeof place->module, "%s", x->path);
        known = level ? known : 0;
    }
    mt_spin_unlock(&m.lock);
    return known;
}

void mt_modules_changed(uint64_t base, uint64_t bytes)
{
    mt_spin_lock(&m.lock);
    for (size_t i = 0; i < m.nranges;)
        if (m.ranges[i].start < base + bytes && base < m.ranges[i].end)
            m.ranges[i] = m.ranges[--m.nranges];
        else
            i++;
    mt_spin_unlock(&m.lock);
}

/* Returns the guest address of the CUDA runtime's sequence number, or 0 if there is none yet. */
static uint64_t modules_sequence(void)
{
    return __atomic_load_n(&m.sequence, __ATOMIC_RELAXED);
}
