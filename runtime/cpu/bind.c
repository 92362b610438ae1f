/* A piece is written into a memory file and loaded by the dynamic linker. Several pieces that need one
 * another hang on a library made here, which holds nothing but their names (DT_NEEDED): so they form a scope
 * of their own, in which each finds the others' symbols and nobody else does. */
#define _GNU_SOURCE
#include "bind.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "format/image.h"
#include "base/elfview.h"
#include "base/held.h"

#define EMPTY {.fd = -1}

/* A memory file on its way into the process. */
struct file {
    int fd;
    char path[MT_BIND_PATH];
};

static _Thread_local char message[512];

static const char *bind_sentence(const char *format, const char *a)
{
    snprintf(message, sizeof message, format, a ? a : "?");
    return message;
}

/* ---- files ---- */

/* The loader takes two files of one path for the same library, and descriptors are reused: a path of its own
 * for each image, by redundant components. A debugger opens this path, too, while the loader tells it of the
 * library, and /proc/self is the debugger then: it waited for ever at a pipe of its own. So the process has
 * its number, where /proc knows it by that. */
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

static int make_file(struct file *f, const void *data, uint64_t size, const char **why)
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

/* 0, or -1 when the bytes are not a shared object with section headers. */
static int find_symbols(unsigned char *object, uint64_t size, struct symbols *out)
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

/* The name of a definition that other pieces see, or NULL. */
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

/* The dynamic linker takes the first definition, whatever it is: weak ones that have a strong one elsewhere
 * are made undefined. Two strong ones are an error, as they are to nvlink. */
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
            *why = bind_sentence("two of its files define the device symbol %s",
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

/* Laid out as it lies in the file: all of it is one readable and writable segment at address 0. */
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

/* What dlerror says of a symbol that no piece has, in the user's words. */
static const char *why_not(const char *said)
{
    const char *symbol = said ? strstr(said, "undefined symbol: " MT_DEVICE_PREFIX) : NULL;
    if (!symbol)
        return bind_sentence("its CPU image cannot be loaded: %s", said);
    return bind_sentence("no file of the program, or none that mt-cc compiled, defines the device symbol %s",
                         symbol + strlen("undefined symbol: " MT_DEVICE_PREFIX));
}

/* Once its descriptor is closed, the path may be any file of the program. Who lists the libraries and opens
 * them (debuggers, writers of backtraces) must not read from that, nor wait for it: the image is called what
 * /proc/self/maps calls it. The loader finds it by a copy of the path. NULL: it cannot be found. */
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
    if (!make_file(&f, p->object, p->size, why)) {
        p->handle = dlopen(f.path, RTLD_NOW | RTLD_LOCAL);
        if (!p->handle)
            *why = why_not(dlerror());
    }
    if (f.fd >= 0)
        close(f.fd);
    if (!p->handle)
        return -1;
    memcpy(p->path, f.path, sizeof p->path);
    bind_locate(p);
    return 0;
}

/* files[n] is what they are loaded under. Copies of the pieces whose symbols may be changed, in files. */
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
        if (find_symbols(copy[i], piece[i].size, &symbols[i])) {
            *why = "its CPU image has no table of symbols: it must not be stripped";
            goto out;
        }
    }
    if (bind_drop_weak(symbols, n, why))
        goto out;
    rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = make_file(&files[i], copy[i], piece[i].size, why);
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
    if (make_file(&f, bytes, size, why))
        goto out;
    whole = dlopen(f.path, RTLD_NOW | RTLD_LOCAL);
    if (!whole) {
        *why = why_not(dlerror());
        goto out;
    }
    rc = 0;
    for (size_t i = 0; i < n; i++) {
        piece[i].handle = dlopen(files[i].path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        if (!piece[i].handle) {
            *why = why_not(dlerror());
            rc = -1;
        } else {
            memcpy(piece[i].path, files[i].path, sizeof piece[i].path);
            bind_locate(&piece[i]);
        }
    }
    if (rc)
        dlclose(whole); /* else it stays, as the pieces do */
    else
        bind_rename(whole);
out:
    if (f.fd >= 0)
        close(f.fd);
    free(bytes);
    return rc;
}

int mt_bind_load(struct mt_bind_piece *piece, size_t n, const char *under, const char **why)
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
