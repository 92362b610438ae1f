/* Loading CPU images: a payload behind the compiler's embedded fatbin is a shared object, loaded through a
 * memory file. */
#define _GNU_SOURCE
#include "format/image.h"
#include "base/binary.h"
#include "base/held.h"
#include "image.h"
#include "memtrace/order.h"
#include "trace/devices.h"
#include "scheduler.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* One shared object. In: location of its bytes; out: dlopen's handle, its load address, and its name to
 * the dynamic linker. */
#define MT_BIND_PATH 96

struct mt_bind_piece {
    const void *object;
    uint64_t size;
    void *handle;
    uint64_t base, bytes;
    char path[MT_BIND_PATH];
};

/* A piece is written to a memory file and loaded by the dynamic linker. Several pieces that need one
 * another become dependencies (DT_NEEDED) of an otherwise empty library made here, and thus a scope of
 * their own, in which each finds the others' symbols and no one else does. */

#define EMPTY {.fd = -1}

/* A memory file that is being loaded. */
struct file {
    int fd;
    char path[MT_BIND_PATH];
};

/* Of one thread, until its next one. The library's thread-local memory must stay small: programs that load it
 * late (Python's ctypes) have some 1,600 bytes for it. */
static _Thread_local char message[512];

static const char *image_sentence(const char *format, const char *a)
{
    snprintf(message, sizeof message, format, a ? a : "?");
    return message;
}

/* ---- files ---- */

/* Makes a path for an image. The loader takes two files with one path for the same library, and
 * descriptors are reused, so each image gets a path of its own by redundant components. A debugger opens
 * this path, too, when the loader reports the library, and /proc/self is then the debugger (which waited
 * for ever at a pipe of its own). So the path has the process id, if /proc knows it. */
static void unique_path(char *path, size_t size, int fd)
{
    static _Atomic unsigned counter;
    unsigned n = counter++;
    char turns[2 * 20 + 1];
    struct stat file, there;
    for (int i = 0; i < 20; i++)
        memcpy(turns + 2 * i, n >> i & 1 ? "/." : "//", 2);
    turns[2 * 20] = 0;
    snprintf(path, size, "/proc/%d%s/fd/%d", (int)getpid(), turns, fd);
    if (fstat(fd, &file) || stat(path, &there) || there.st_dev != file.st_dev || there.st_ino != file.st_ino)
        snprintf(path, size, "/proc/self%s/fd/%d", turns, fd);
}

const char mt_image_limit[] = "the file size limit is below the size of its CPU image: raise it (ulimit -f)";

static int image_file_make(struct file *f, const void *data, uint64_t size, const char **why)
{
    f->fd = memfd_create("memtrace-cpu-image", MFD_CLOEXEC);
    if (f->fd < 0) {
        *why = "memfd_create failed, so the CPU image cannot be loaded";
        return -1;
    }
    int error = 0;
    struct mt_held h = mt_hold(SIGXFSZ);
    for (uint64_t done = 0; done < size && !error;) {
        ssize_t n = write(f->fd, (const char *)data + done, size - done);
        if (n > 0)
            done += (uint64_t)n;
        else
            error = n ? errno : ENOSPC;
    }
    mt_let_go(&h, error);
    if (error) {
        *why = error == EFBIG ? mt_image_limit : "no memory to load the CPU image";
        return -1;
    }
    unique_path(f->path, sizeof f->path, f->fd);
    return 0;
}

/* ---- symbols of a piece, in its file's own bytes ---- */

struct symbols {
    Elf64_Sym *sym;
    const char *names;
    size_t n;
    uint64_t names_size;
};

/* Returns 0, or -1 if the bytes are not a shared object with section headers. */
static int image_find_symbols(unsigned char *object, uint64_t size, struct symbols *out)
{
    struct mt_elfview f;
    Elf64_Shdr s;
    memset(out, 0, sizeof *out);
    if (mt_elfview_read(&f, object, size) != 0 || f.nsections < f.head.e_shnum)
        return -1;
    for (uint64_t i = 0; mt_elfview_section(&f, i, &s) == 0; i++) {
        if (s.sh_type != SHT_DYNSYM || s.sh_link >= f.nsections)
            continue;
        out->sym = (Elf64_Sym *)(uintptr_t)mt_elfview_contents(&f, &s);
        out->n = s.sh_size / sizeof *out->sym;
        out->names = mt_elfview_strings(&f, s.sh_link, &out->names_size);
        return out->sym && out->names ? 0 : -1;
    }
    return -1;
}

/* Returns the name of a definition visible to other pieces, or NULL. */
static const char *bind_defined(const struct symbols *s, size_t i, unsigned binding)
{
    const Elf64_Sym *y = &s->sym[i];
    if (y->st_shndx == SHN_UNDEF || ELF64_ST_BIND(y->st_info) != binding || y->st_name >= s->names_size)
        return NULL;
    const char *name = s->names + y->st_name;
    return !strncmp(name, MT_DEVICE_PREFIX, strlen(MT_DEVICE_PREFIX)) ||
                   !strncmp(name, MT_SHARED_PREFIX, strlen(MT_SHARED_PREFIX))
               ? name
               : NULL;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Makes weak definitions with a strong one elsewhere undefined, since the dynamic linker takes the first
 * definition of either kind. Two strong ones are an error, as with nvlink. */
static int bind_drop_weak(const struct symbols *s, size_t n, const char **why)
{
    size_t count = 0, total = 0;
    for (size_t p = 0; p < n; p++)
        total += s[p].n;
    const char **strong = malloc((total + 1) * sizeof *strong);
    if (!strong) {
        *why = "no memory to load the CPU image";
        return -1;
    }
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < s[p].n; i++)
            if ((strong[count] = bind_defined(&s[p], i, STB_GLOBAL)))
                count++;
    qsort(strong, count, sizeof *strong, by_text);
    for (size_t i = 1; i < count; i++)
        if (!strcmp(strong[i - 1], strong[i])) {
            *why = image_sentence("two of its files define the device symbol %s",
                                  strong[i] + strlen(MT_DEVICE_PREFIX));
            free(strong);
            return -1;
        }
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < s[p].n; i++) {
            const char *weak = bind_defined(&s[p], i, STB_WEAK);
            if (weak && bsearch(&weak, strong, count, sizeof *strong, by_text)) {
                s[p].sym[i].st_shndx = SHN_UNDEF;
                s[p].sym[i].st_value = 0;
            }
        }
    free(strong);
    return 0;
}

/* ---- the library that holds the pieces together ---- */

/* Its layout in the file: one readable and writable segment at address 0. */
struct umbrella {
    Elf64_Ehdr head;
    Elf64_Phdr segment[3];
    Elf64_Sym symbol;
    uint32_t hash[4]; /* one bucket, one symbol: the empty one */
    /* then: char names[], Elf64_Dyn dynamic[] */
};

static void *make_umbrella(const struct file *files, size_t n, uint64_t *size)
{
    uint64_t names = sizeof(struct umbrella), names_size = 1 + n * MT_BIND_PATH;
    uint64_t dynamic = (names + names_size + 15) & ~15ull;
    *size = dynamic + (n + 6) * sizeof(Elf64_Dyn);
    unsigned char *bytes = calloc(1, *size);
    if (!bytes)
        return NULL;
    struct umbrella *u = (void *)bytes;
    Elf64_Dyn *d = (void *)(bytes + dynamic);
    memcpy(u->head.e_ident, ELFMAG, SELFMAG);
    u->head.e_ident[EI_CLASS] = ELFCLASS64;
    u->head.e_ident[EI_DATA] = ELFDATA2LSB;
    u->head.e_ident[EI_VERSION] = EV_CURRENT;
    u->head.e_type = ET_DYN;
    u->head.e_machine = EM_X86_64;
    u->head.e_version = EV_CURRENT;
    u->head.e_phoff = offsetof(struct umbrella, segment);
    u->head.e_ehsize = sizeof u->head;
    u->head.e_phentsize = sizeof u->segment[0];
    u->head.e_phnum = 3;
    u->segment[0] = (Elf64_Phdr){
        .p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_filesz = *size, .p_memsz = *size, .p_align = 4096};
    u->segment[1] = (Elf64_Phdr){.p_type = PT_DYNAMIC, .p_flags = PF_R | PF_W, .p_offset = dynamic};
    u->segment[1].p_vaddr = u->segment[1].p_paddr = dynamic;
    u->segment[1].p_filesz = u->segment[1].p_memsz = (n + 6) * sizeof *d;
    u->segment[2] = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16};
    u->hash[0] = u->hash[1] = 1;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = 1 + i * MT_BIND_PATH;
        memcpy(bytes + names + at, files[i].path, MT_BIND_PATH);
        if (*files[i].path)
            *d++ = (Elf64_Dyn){.d_tag = DT_NEEDED, .d_un.d_val = at};
    }
    *d++ = (Elf64_Dyn){.d_tag = DT_HASH, .d_un.d_ptr = offsetof(struct umbrella, hash)};
    *d++ = (Elf64_Dyn){.d_tag = DT_STRTAB, .d_un.d_ptr = names};
    *d++ = (Elf64_Dyn){.d_tag = DT_SYMTAB, .d_un.d_ptr = offsetof(struct umbrella, symbol)};
    *d++ = (Elf64_Dyn){.d_tag = DT_STRSZ, .d_un.d_val = names_size};
    *d++ = (Elf64_Dyn){.d_tag = DT_SYMENT, .d_un.d_val = sizeof(Elf64_Sym)};
    *d = (Elf64_Dyn){.d_tag = DT_NULL};
    return bytes;
}

/* ---- loading ---- */

/* Turns dlerror's text about a missing symbol into words for the user. */
static const char *image_why_not(const char *said)
{
    const char *symbol = said ? strstr(said, "undefined symbol: " MT_DEVICE_PREFIX) : NULL;
    if (!symbol)
        return image_sentence("its CPU image cannot be loaded: %s", said);
    return image_sentence("no file of the program, or none that mt-cc compiled, defines the device symbol %s",
                          symbol + strlen("undefined symbol: " MT_DEVICE_PREFIX));
}

/* Gives an image the name in /proc/self/maps. Once its descriptor is closed, its path may be any file of
 * the program; programs that list and open the libraries (debuggers, writers of backtraces) must not read
 * from it, nor wait for it. The loader uses a copy of the path. Returns NULL if it is not found. */
static struct link_map *bind_rename(void *handle)
{
    static const char name[] = "/memfd:memtrace-cpu-image";
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) || !map)
        return NULL;
    if (strlen(map->l_name) >= sizeof name)
        memcpy(map->l_name, name, sizeof name);
    return map;
}

static void bind_locate(struct mt_bind_piece *p)
{
    const Elf64_Ehdr *e = p->object;
    const Elf64_Phdr *h = (const void *)((const char *)p->object + e->e_phoff);
    const struct link_map *map = bind_rename(p->handle);
    if (!map)
        return;
    p->base = map->l_addr;
    for (unsigned i = 0; i < e->e_phnum; i++)
        if (h[i].p_type == PT_LOAD && h[i].p_vaddr + h[i].p_memsz > p->bytes)
            p->bytes = h[i].p_vaddr + h[i].p_memsz;
}

static int load_one(struct mt_bind_piece *p, const char **why)
{
    struct file f = EMPTY;
    if (!image_file_make(&f, p->object, p->size, why)) {
        p->handle = dlopen(f.path, RTLD_NOW | RTLD_LOCAL);
        if (!p->handle)
            *why = image_why_not(dlerror());
    }
    if (f.fd >= 0)
        close(f.fd);
    if (!p->handle)
        return -1;
    memcpy(p->path, f.path, sizeof p->path);
    bind_locate(p);
    return 0;
}

/* Writes copies of the pieces, whose symbols may be changed, to files; files[n] is the file to load. */
static int make_files(const struct mt_bind_piece *piece, size_t n, struct file *files, const char **why)
{
    struct symbols *symbols = calloc(n, sizeof *symbols);
    unsigned char **copy = calloc(n, sizeof *copy);
    int rc = -1;
    *why = "no memory to load the CPU image";
    if (!symbols || !copy)
        goto out;
    for (size_t i = 0; i < n; i++) {
        if (!(copy[i] = malloc(piece[i].size)))
            goto out;
        memcpy(copy[i], piece[i].object, piece[i].size);
        if (image_find_symbols(copy[i], piece[i].size, &symbols[i])) {
            *why = "its CPU image has no table of symbols: it must not be stripped";
            goto out;
        }
    }
    if (bind_drop_weak(symbols, n, why))
        goto out;
    rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = image_file_make(&files[i], copy[i], piece[i].size, why);
out:
    for (size_t i = 0; copy && i < n; i++)
        free(copy[i]);
    free(copy);
    free(symbols);
    return rc;
}

static int load_together(struct mt_bind_piece *piece, size_t n, struct file *files, const char **why)
{
    struct file f = EMPTY;
    uint64_t size;
    void *bytes = make_umbrella(files, n + 1, &size), *whole = NULL;
    int rc = -1;
    if (!bytes) {
        *why = "no memory to load the CPU image";
        return -1;
    }
    if (image_file_make(&f, bytes, size, why))
        goto out;
    whole = dlopen(f.path, RTLD_NOW | RTLD_LOCAL);
    if (!whole) {
        *why = image_why_not(dlerror());
        goto out;
    }
    rc = 0;
    for (size_t i = 0; i < n; i++) {
        piece[i].handle = dlopen(files[i].path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        if (!piece[i].handle) {
            *why = image_why_not(dlerror());
            rc = -1;
        } else {
            memcpy(piece[i].path, files[i].path, sizeof piece[i].path);
            bind_locate(&piece[i]);
        }
    }
    if (rc)
        dlclose(whole); /* otherwise it stays, as the pieces do */
    else
        bind_rename(whole);
out:
    if (f.fd >= 0)
        close(f.fd);
    free(bytes);
    return rc;
}

/* Loads the pieces of one program. They resolve one another's symbols; a weak definition yields to a
 * strong one. `under`: path of a loaded image whose symbols they may use, or NULL. Returns 0, or -1 with
 * *why set (static or thread-local) and none loaded. */
static int bind_load(struct mt_bind_piece *piece, size_t n, const char *under, const char **why)
{
    for (size_t i = 0; i < n; i++) {
        piece[i].handle = NULL;
        piece[i].base = piece[i].bytes = 0;
    }
    if (n == 1 && !under)
        return load_one(piece, why);
    struct file *files = calloc(n + 1, sizeof *files);
    int rc = -1;
    for (size_t i = 0; files && i <= n; i++)
        files[i].fd = -1;
    if (files && under)
        snprintf(files[n].path, sizeof files[n].path, "%s", under);
    if (!files)
        *why = "no memory to load the CPU image";
    else if (!make_files(piece, n, files, why))
        rc = load_together(piece, n, files, why);
    for (size_t i = 0; files && i < n; i++)
        if (files[i].fd >= 0)
            close(files[i].fd);
    free(files);
    for (size_t i = 0; rc && i < n; i++)
        if (piece[i].handle) {
            dlclose(piece[i].handle);
            piece[i].handle = NULL;
        }
    return rc;
}

#define WRAPPER_MAGIC 0x466243b1 /* argument of __cudaRegisterFatBinary */
#define FATBIN_MAGIC 0xba55ed50u

#define WRAPPER_LINKED 2 /* version with `more` */
struct wrapper {
    int magic, version;
    const void *data;
    const void *const *more; /* linked device code: the fatbins that were linked, then NULL */
};

struct fatbin_header {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size;
};

struct constant {
    uint64_t base, bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mt_image *images; /* all images, linked by `next` */
static uint32_t sites = 1;      /* 0: unknown site */

/* Constants: replaced as a whole when an image is added, never freed (readers hold no lock). */
struct constants {
    uint64_t base, bytes; /* hull */
    size_t n;
    struct constant c[];
};
static _Atomic(struct constants *) constants;

/* ---- constants
 * ---------------------------------------------------------------------------------------------------- */

static int by_base(const void *a, const void *b)
{
    uint64_t x = ((const struct constant *)a)->base, y = ((const struct constant *)b)->base;
    return (x > y) - (x < y);
}

static int add_constants(const struct mt_image_head *head)
{
    const struct mt_image_var *v = head->vars;
    struct constants *old = atomic_load(&constants), *all;
    size_t n = old ? old->n : 0, add = 0;
    for (uint32_t i = 0; i < head->nvars; i++)
        add += v[i].kind == MT_VAR_CONSTANT && v[i].size;
    if (!add)
        return 0;
    all = malloc(sizeof *all + (n + add) * sizeof all->c[0]);
    if (!all)
        return -1;
    if (n)
        memcpy(all->c, old->c, n * sizeof all->c[0]);
    for (uint32_t i = 0; i < head->nvars; i++)
        if (v[i].kind == MT_VAR_CONSTANT && v[i].size)
            all->c[n++] = (struct constant){(uint64_t)(uintptr_t)v[i].address, v[i].size};
    qsort(all->c, n, sizeof all->c[0], by_base);
    all->n = n;
    all->base = all->c[0].base;
    all->bytes = all->c[n - 1].base + all->c[n - 1].bytes - all->base;
    atomic_store(&constants, all);
    return 0;
}

void mt_image_constant_hull(uint64_t *base, uint64_t *bytes)
{
    const struct constants *all = atomic_load(&constants);
    *base = all ? all->base : 0;
    *bytes = all ? all->bytes : 0;
}

int mt_cpu_is_constant(const void *p)
{
    const struct constants *all = atomic_load(&constants);
    uint64_t a = (uint64_t)(uintptr_t)p;
    size_t n = all ? MT_FIRST(i, all->n, all->c[i].base > a) : 0;
    return n > 0 && a - all->c[n - 1].base < all->c[n - 1].bytes;
}

/* ---- loading
 * ------------------------------------------------------------------------------------------------------ */

static int cpu_supports(const char *level)
{
    __builtin_cpu_init();
    if (!level || !*level || !strcmp(level, "x86-64"))
        return 1;
    if (!strcmp(level, "x86-64-v2"))
        return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    if (strstr(level, "x86-64-v") && strstr(level, "x86-64-v")[8] > '4') /* future processors */
        return 0;
    int v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
             __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt") &&
             __builtin_cpu_supports("movbe");
    if (strstr(level, "x86-64-v4")) /* alone, or after the name of a processor */
        return v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    return v3;
}

/* Returns 1 if there is readable memory: a damaged size of a fatbin may point anywhere. If the system
 * forbids the query, the answer is 1. */
static int image_is_there(const void *from, size_t n)
{
    char bytes[sizeof(struct mt_carrier)];
    struct iovec to = {bytes, n}, what = {(void *)(uintptr_t)from, n};
    return process_vm_readv(getpid(), &to, 1, &what, 1, 0) == (ssize_t)n || errno != EFAULT;
}

/* Returns the payload's shared object or, with *list set, several; NULL: there is none. */
static const void *find_payload(const void *fatbin, uint64_t *size, int *list, const char **why)
{
    const struct fatbin_header *h = fatbin;
    if (!h || h->magic != FATBIN_MAGIC) {
        *why = "the embedded GPU code is not a fatbin (magic 0xba55ed50 is missing)";
        return NULL;
    }
    uint64_t end = ((uint64_t)h->header_size + h->size + 7) & ~7ull;
    const struct mt_carrier *c = (const void *)((const char *)fatbin + end);
    if (!image_is_there(c, sizeof *c)) {
        *why =
            "the embedded GPU code has no CPU image, or its fatbin is damaged: there is no memory behind it";
        return NULL;
    }
    int carried = c->magic == MT_CARRIER_MAGIC && c->kind == MT_CARRIER_KIND;
    const struct mt_payload *p = carried ? &c->payload : (const void *)c;
    *list = !memcmp(p->magic, MT_PAYLOAD_LIST, sizeof p->magic);
    if (!*list && memcmp(p->magic, MT_PAYLOAD_MAGIC, sizeof p->magic)) {
        *why =
            "it has no CPU image: compile it with -fplugin=libMemtrace-AA.so and --cuda-path=<the memtrace "
            "overlay> (mt-cc does both, but for --plain, which leaves it out)";
        return NULL;
    }
    *size = p->size;
    return p + 1;
}

/* Makes mt_cpu_* global for images, since libmemtrace.so may have been loaded locally (dlopen,
 * RTLD_LOCAL). Not done otherwise: with an auditor, glibc clears the thread-local variables of a library
 * that is opened again before its constructors have run, and a launch may come that early. */
static void publish_runtime(void)
{
    Dl_info info;
    if (dlsym(RTLD_DEFAULT, "mt_cpu_unsupported") == (void *)&mt_cpu_unsupported)
        return;
    if (dladdr((void *)&mt_image_load, &info) && info.dli_fname)
        dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
}

/* Images of one program while they are loaded. */
struct group {
    struct mt_bind_piece *piece;
    size_t n;
};

static int add_piece(struct group *g, const void *object, uint64_t size)
{
    struct mt_bind_piece *grown = realloc(g->piece, (g->n + 1) * sizeof *grown);
    if (!grown)
        return -1;
    g->piece = grown;
    g->piece[g->n++] = (struct mt_bind_piece){.object = object, .size = size};
    return 0;
}

/* Adds the payload behind one fatbin. Returns 0, or -1 with *why set. */
static int add_payload(struct group *g, const void *fatbin, const char **why)
{
    uint64_t size;
    int list;
    const char *at = find_payload(fatbin, &size, &list, why);
    *why = at ? "no memory to load the CPU image" : *why;
    if (!at)
        return -1;
    if (!list)
        return add_piece(g, at, size);
    for (const char *end = at + size; at < end;) {
        uint64_t one;
        memcpy(&one, at, sizeof one);
        at += sizeof one;
        if (add_piece(g, at, one))
            return -1;
        at += (one + 7) & ~7ull;
    }
    return 0;
}

const char mt_image_too_old[] =
    "its CPU image was made by an older version of memtrace: compile the program again";

/* Returns the table of a loaded piece, or NULL with *why set. */
static const struct mt_image_head *find_head(const struct mt_bind_piece *p, const char **why)
{
    const struct mt_image_head *head = dlsym(p->handle, "mt_image");
    if (!head || head->magic != MT_IMAGE_MAGIC)
        *why = "its CPU image has no table \"mt_image\"";
    else if (head->version < MT_IMAGE_VERSION_OWN_NAMES)
        *why = mt_image_too_old;
    else if (head->version != MT_IMAGE_VERSION)
        *why = "its CPU image was made by another version of memtrace: compile it again";
    else if (!mt_cpu_settings.tables_only && !cpu_supports(head->cpu))
        *why =
            image_sentence("its CPU image was compiled for %s processors, and this one is older", head->cpu);
    else
        return head;
    return NULL;
}

/* Places each image's static shared memory behind the previous one's, and dynamic shared memory last.
 * `base`, under which they were loaded, has none. */
static void lay_out_shared(struct mt_image *first, const struct mt_image *base)
{
    uint64_t end = 0;
    for (struct mt_image *i = first; i != base; i = i->peer) {
        struct mt_image_shared *s = (void *)(uintptr_t)i->head->shared;
        if (s)
            s->base = end;
        end += i->head->shared_size;
    }
    for (struct mt_image *i = first; i != base; i = i->peer) {
        struct mt_image_shared *s = (void *)(uintptr_t)i->head->shared;
        if (s)
            s->dynamic = end;
        i->shared_size = end;
    }
}

static void image_drop(struct mt_image *first, const struct mt_image *base)
{
    for (struct mt_image *i = first, *next; i != base; i = next) {
        next = i->peer;
        free(i);
    }
}

/* Makes images of loaded pieces, in order; returns NULL with *why set on failure. */
static struct mt_image *make_images(const struct group *g, struct mt_image *base, const char **why)
{
    struct mt_image *first = base;
    for (size_t i = g->n; i-- > 0;) {
        const struct mt_image_head *head = find_head(&g->piece[i], why);
        struct mt_image *image = head ? calloc(1, sizeof *image) : NULL;
        if (!image) {
            *why = head ? "no memory to load the CPU image" : *why;
            image_drop(first, base);
            return NULL;
        }
        image->head = head;
        image->handle = g->piece[i].handle;
        image->base = g->piece[i].base;
        image->bytes = g->piece[i].bytes;
        _Static_assert(sizeof image->path == MT_BIND_PATH, "of one length");
        memcpy(image->path, g->piece[i].path, sizeof image->path);
        image->peer = first;
        first = image;
    }
    lay_out_shared(first, base);
    return first;
}

/* `like`: another GPU's image, or NULL. */
static int image_publish(struct mt_image *first, const struct mt_image *base, const struct mt_image *like)
{
    int rc = 0;
    pthread_mutex_lock(&lock);
    for (struct mt_image *i = first; i != base && !rc; i = i->peer)
        rc = add_constants(i->head);
    for (struct mt_image *i = first; i != base && !rc; i = i->peer) {
        i->site_base = like ? like->site_base : sites;
        if (i->head->site_base)
            *(uint32_t *)(uintptr_t)i->head->site_base = i->site_base;
        sites += like ? 0 : i->head->nsites;
        like = like ? like->peer : NULL;
        i->next = images;
        images = i;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

/* ---- several GPUs ---- */

/* Pieces that were loaded together, and the images made of them for each GPU; [0] is the first. */
struct mt_image_copies {
    struct mt_bind_piece *piece; /* copies of the objects, whose originals may be gone by then */
    size_t n;
    struct mt_image *base;
    _Atomic(struct mt_image *) on[MT_DEVICES_MAX];
};

static void copies_free(struct mt_image_copies *c)
{
    for (size_t i = 0; c && c->piece && i < c->n; i++)
        free((void *)(uintptr_t)c->piece[i].object);
    if (c)
        free(c->piece);
    free(c);
}

static struct mt_image_copies *copies_make(const struct group *g, struct mt_image *base)
{
    struct mt_image_copies *c = calloc(1, sizeof *c);
    if (!c || !(c->piece = calloc(g->n, sizeof *c->piece))) {
        copies_free(c);
        return NULL;
    }
    c->base = base;
    for (; c->n < g->n; c->n++) {
        void *object = malloc(g->piece[c->n].size);
        if (!object) {
            copies_free(c);
            return NULL;
        }
        memcpy(object, g->piece[c->n].object, g->piece[c->n].size);
        c->piece[c->n] = (struct mt_bind_piece){.object = object, .size = g->piece[c->n].size};
    }
    return c;
}

static void copies_give(struct mt_image_copies *c, struct mt_image *first)
{
    if (c)
        c->on[0] = first;
    for (struct mt_image *i = first; c && i != c->base; i = i->peer)
        i->copies = c;
}

/* Shares managed variables, which all GPUs have in common. */
static void copies_share_managed(struct mt_image *to, const struct mt_image *from,
                                 const struct mt_image *base)
{
    for (; to != base; to = to->peer, from = from->peer) {
        const struct mt_image_var *a = from->head->vars, *b = to->head->vars;
        for (uint32_t k = 0; k < to->head->nvars; k++)
            if (b[k].kind == MT_VAR_MANAGED)
                *(void **)(uintptr_t)b[k].address = *(void **)(uintptr_t)a[k].address;
    }
}

/* Called without a lock: a thread that waits for ours may hold the dynamic linker's. */
static struct mt_image *copies_load(struct mt_image_copies *c, struct mt_image *base, const char **why)
{
    struct group g = {calloc(c->n, sizeof *g.piece), c->n};
    struct mt_image *first = NULL;
    *why = "no memory to load the CPU image";
    for (size_t i = 0; g.piece && i < c->n; i++)
        g.piece[i] = (struct mt_bind_piece){.object = c->piece[i].object, .size = c->piece[i].size};
    if (g.piece && bind_load(g.piece, g.n, base ? base->path : NULL, why) == 0)
        first = make_images(&g, base, why);
    if (first)
        copies_share_managed(first, c->on[0], base);
    if (first && image_publish(first, base, c->on[0])) {
        image_drop(first, base);
        first = NULL;
    }
    free(g.piece);
    return first;
}

struct mt_image *mt_image_on(struct mt_image *image, int device, struct mt_image **loaded, const char **why)
{
    struct mt_image_copies *c = image->copies;
    struct mt_image *from = c ? c->on[0] : image, *to = c ? c->on[device] : image;
    *loaded = NULL;
    if (!to) {
        struct mt_image *mine, *base = c->base, *with = NULL;
        if (base && !(base = mt_image_on(base, device, &with, why)))
            return NULL;
        if (!(mine = copies_load(c, base, why)))
            return NULL;
        for (struct mt_image *i = mine; i != base; i = i->peer)
            i->copies = c;
        if (atomic_compare_exchange_strong(&c->on[device], &to, mine))
            *loaded = to = mine; /* otherwise another thread was faster, and this one is unused */
    }
    while (from != image) {
        from = from->peer;
        to = to->peer;
    }
    return to;
}

struct mt_image *mt_image_load_all(const void *const *fatbins, size_t n, struct mt_image *base,
                                   const char **why)
{
    static _Atomic int published; /* several threads may do it: the dynamic linker must not be called under
                                   * a lock */
    struct group g = {0};
    struct mt_image *first = NULL;
    struct mt_image_copies *copies = NULL;
    const char *bare = NULL; /* reason why one of several has none: it may have no kernels, so that none is
                              * missed */
    if (!published)
        publish_runtime();
    published = 1;
    for (size_t i = 0; i < n; i++)
        if (add_payload(&g, fatbins[i], why))
            bare = *why;
    if (!g.n || bind_load(g.piece, g.n, base ? base->path : NULL, why)) {
        *why = g.n ? *why : bare;
        goto out;
    }
    first = make_images(&g, base, why);
    for (size_t i = 0; !first && i < g.n; i++)
        dlclose(g.piece[i].handle);
    if (first &&
        ((mt_devices() > 1 && !(copies = copies_make(&g, base))) || image_publish(first, base, NULL))) {
        *why = "no memory to load the CPU image";
        image_drop(first, base);
        copies_free(copies);
        first = NULL;
    }
    if (first)
        copies_give(copies, first);
out:
    free(g.piece);
    return first;
}

const void *const *mt_image_fatbins(const void *wrapper, size_t *n)
{
    const struct wrapper *w = wrapper;
    *n = 0;
    if (!w || w->magic != WRAPPER_MAGIC)
        return NULL;
    int linked = w->version == WRAPPER_LINKED && w->more;
    while (linked && w->more[*n])
        ++*n;
    *n += !linked;
    return linked ? w->more : &w->data;
}

struct mt_image *mt_image_load(const void *wrapper, const char **why)
{
    size_t n;
    const void *const *fatbins = mt_image_fatbins(wrapper, &n);
    if (fatbins)
        return mt_image_load_all(fatbins, n, NULL, why);
    *why = "__cudaRegisterFatBinary was given something else than a fatbin wrapper";
    return NULL;
}

int mt_image_carried(const void *const *fatbins, size_t n)
{
    const char *why;
    uint64_t size;
    int list, found = 0;
    for (size_t i = 0; i < n; i++)
        found |= find_payload(fatbins[i], &size, &list, &why) != NULL;
    return found;
}

int mt_image_owns(const struct mt_image *image, const void *address)
{
    return (uint64_t)(uintptr_t)address - image->base < image->bytes;
}

/* ---- literals ---- */

struct literal {
    uint64_t address, base, bytes;
};

static int is_image(uint64_t base, uint64_t bytes)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (const struct mt_image *i = images; i && !found; i = i->next)
        found = (uint64_t)(uintptr_t)i->head - base < bytes;
    pthread_mutex_unlock(&lock);
    return found;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct literal *l = ctx;
    uint64_t low = UINT64_MAX, high = 0;
    l->bytes = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t base = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD)
            continue;
        low = base < low ? base : low;
        high = base + p->p_memsz > high ? base + p->p_memsz : high;
        if (!(p->p_flags & (PF_W | PF_X)) && l->address - base < p->p_memsz) {
            l->base = base;
            l->bytes = p->p_memsz;
        }
    }
    return l->bytes && is_image(low, high - low);
}

int mt_image_literal(uint64_t address, uint64_t *base, uint64_t *bytes)
{
    struct literal l = {.address = address};
    if (!dl_iterate_phdr(look_at, &l))
        return 0;
    *base = l.base;
    *bytes = l.bytes;
    return 1;
}

const struct mt_image_kernel *mt_image_find_kernel(const struct mt_image *image, const char *name)
{
    for (; image; image = image->peer) {
        const struct mt_image_kernel *k = image->head->kernels;
        for (uint32_t i = 0; i < image->head->nkernels; i++)
            if (!strcmp(k[i].name, name))
                return &k[i];
    }
    return NULL;
}

const struct mt_image_var *mt_image_find_var(const struct mt_image *image, const char *name)
{
    for (; image; image = image->peer) {
        const struct mt_image_var *v = image->head->vars;
        for (uint32_t i = 0; i < image->head->nvars; i++)
            if (!strcmp(v[i].name, name))
                return &v[i];
    }
    return NULL;
}

/* The lock cannot be taken for fork: it is taken inside of the dynamic linker's. */
void mt_image_forked(void)
{
    pthread_mutex_init(&lock, NULL);
}
