/* Mapped files of the guest: their functions of interest and source locations. */
#define _GNU_SOURCE
#include "modules.h"
#include "guest.h"
#include "base/elffile.h"
#include "../core/platform.h"
#include "memtrace/grow.h"
#include "memtrace/hash.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

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
        if (x->elf && mt_elf_line(x->elf, ip - x->bias, &source) == 0) {
            snprintf(place->file, sizeof place->file, "%s%s%s", source.folder, *source.folder ? "/" : "",
                     source.file);
            place->line = source.line;
            place->column = source.column;
        }
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

uint64_t mt_modules_sequence(void)
{
    return __atomic_load_n(&m.sequence, __ATOMIC_RELAXED);
}
