/* Finds device code in a file: PTX text, or fatbins, alone or in an ELF file. */

#include "input.h"
#include "ptx/module/module.h"
#include "base/binary.h"
#include <errno.h>
#include <limits.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* Fatbins as CUDA 9 to 13 write them: a header, then entries with headers of their own. */

#define FATBIN_MAGIC 0xba55ed50u
#define PACKED_LZ4 0x2000u
#define PACKED_ZSTD 0x8000u
#define MAX_UNPACKED ((size_t)1 << 30)

uint64_t mt_ptxtool_limit = MT_PTX_LIMIT;

/* Returns 1 if the entry would unpack to an implausible size. */
static int fatbin_is_bomb(const char *name, const struct fatbin_entry *e)
{
    if (e->unpacked <= mt_ptxtool_limit || e->unpacked / 128 <= e->size) {
        return 0;
    }
    return mt_cli_fail(
        "%s: %zu bytes of its fatbin unpack to %zu, which is more than code does; --limit=%zuM "
        "lets it",
        name, e->size, e->unpacked, (e->unpacked >> 20) + 1);
}

static int fatbin_damaged(const char *name)
{
    mt_cli_say("%s: its fatbin is damaged, or of a kind that is not known here", name);
    return 3;
}

static int ptxtool_fatbin_is(const unsigned char *data, size_t size)
{
    struct fatbin_header h;
    if (size < sizeof h) {
        return 0;
    }
    memcpy(&h, data, sizeof h);
    return h.magic == FATBIN_MAGIC && h.header_size >= sizeof h;
}

/* Parses the entry at data; *length is its total length. Returns 0 or -1. */
static int fatbin_entry_at(const unsigned char *data, size_t size, struct fatbin_entry *e, size_t *length)
{
    struct entry_header h;
    if (size < sizeof h) {
        return -1;
    }
    memcpy(&h, data, sizeof h);
    if (h.header_size < sizeof h || h.header_size > size || h.size > size - h.header_size) {
        return -1;
    }
    int packed = (h.flags & (PACKED_LZ4 | PACKED_ZSTD)) != 0;
    *e =
        (struct fatbin_entry){.kind = h.kind, .arch = h.arch, .flags = h.flags, .data = data + h.header_size};
    e->size = packed && h.packed_size && h.packed_size <= h.size ? h.packed_size : h.size;
    e->unpacked = packed ? h.unpacked_size : 0;
    *length = h.header_size + h.size;
    return packed && (!h.unpacked_size || h.unpacked_size > MAX_UNPACKED) ? -1 : 0;
}

/* Calls `each` for all entries of all fatbins, which follow each other in the bytes. Returns 0 or 3. */
static int ptxtool_fatbin_walk(const char *name, const unsigned char *data, size_t size,
                               int (*each)(void *ctx, unsigned fatbin, const struct fatbin_entry *e),
                               void *ctx)
{
    unsigned number = 0;
    size_t at = 0;
    while (at + sizeof(struct fatbin_header) <= size) {
        struct fatbin_header h;
        memcpy(&h, data + at, sizeof h);
        if (h.magic != FATBIN_MAGIC) { /* the next header is aligned */
            at += 8;
            continue;
        }
        if (h.header_size < sizeof h || h.header_size > size - at || h.size > size - at - h.header_size) {
            return fatbin_damaged(name);
        }
        const unsigned char *p = data + at + h.header_size;
        for (size_t left = h.size, length; left >= sizeof(struct entry_header); p += length, left -= length) {
            struct fatbin_entry e;
            if (fatbin_entry_at(p, left, &e, &length) != 0) {
                return fatbin_damaged(name);
            }
            int code = each(ctx, number, &e);
            if (code != 0) {
                return code;
            }
        }
        number++;
        at += (h.header_size + h.size + 7) & ~(size_t)7;
    }
    return 0;
}

int mt_ptxtool_fatbin_unpack(const char *name, const struct fatbin_entry *e, struct bytes *out)
{
    size_t n = e->unpacked ? e->unpacked : e->size;
    int bad = 0;
    if (fatbin_is_bomb(name, e)) {
        return 3;
    }
    out->data = malloc(n + 1);
    if (!out->data) {
        return mt_cli_fail("out of memory");
    }
    out->size = n;
    if (!e->unpacked) {
        memcpy(out->data, e->data, n);
    } else if (e->flags & PACKED_ZSTD) {
        bad = ZSTD_decompress(out->data, n, e->data, e->size) != n;
    } else {
        bad = n > INT_MAX || e->size > INT_MAX || /* a single block, which must fill the buffer exactly */
              LZ4_decompress_safe((const char *)e->data, (char *)out->data, (int)e->size, (int)n) != (int)n;
    }
    if (bad) {
        mt_cudabin_bytes_free(out);
        return fatbin_damaged(name);
    }
    return 0;
}

/* ---- Names of kernels in machine code, from the symbol table of its ELF file ---- */

#define STO_CUDA_ENTRY 0x10 /* st_other of a kernel */

static int cubin_symbols(const struct mt_elfview *f, const Elf64_Shdr *table,
                         void (*each)(void *ctx, const char *name), void *ctx)
{
    uint64_t size;
    const char *text = mt_elfview_strings(f, table->sh_link, &size);
    const unsigned char *symbols = mt_elfview_contents(f, table);
    for (uint64_t i = 0; text && i < table->sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym y;
        memcpy(&y, symbols + i * sizeof y, sizeof y);
        if (ELF64_ST_TYPE(y.st_info) != STT_FUNC || !(y.st_other & STO_CUDA_ENTRY) ||
            y.st_shndx == SHN_UNDEF) {
            continue;
        }
        if (y.st_name >= size) {
            return 3;
        }
        each(ctx, text + y.st_name);
    }
    return text ? 0 : 3;
}

int mt_ptxtool_cubin_kernels(const struct bytes *cubin, void (*each)(void *ctx, const char *name), void *ctx)
{
    struct mt_elfview f;
    Elf64_Shdr s;
    if (mt_elfview_read(&f, cubin->data, cubin->size) != 0 || f.nsections < f.head.e_shnum) {
        return 3;
    }
    for (uint64_t i = 0; mt_elfview_section(&f, i, &s) == 0; i++) {
        if (s.sh_type != SHT_NOBITS && !mt_elfview_contents(&f, &s)) {
            return 3;
        }
        if (s.sh_type == SHT_SYMTAB) {
            return cubin_symbols(&f, &s, each, ctx);
        }
    }
    return 0;
}

static int input_damaged(const struct input *in, const char *what)
{
    mt_cli_say("%s: %s", in->name, what);
    return 3;
}

/* Grows a list of `n` by one. Returns NULL after a message. */
static void *input_grow(void *list, unsigned n, size_t size)
{
    void *more = n & (n - 1) ? list : realloc(list, (n ? 2 * (size_t)n : 1) * size);
    if (!more) {
        mt_cli_say("out of memory");
    }
    return more;
}

static struct module *input_add_module(struct input *in)
{
    struct module *more = input_grow(in->modules, in->n, sizeof *more);
    if (!more) {
        return NULL;
    }
    in->modules = more;
    more[in->n] = (struct module){.number = in->n};
    return &more[in->n++];
}

/* Fatbins of one section. */
struct walk {
    struct input *in;
    unsigned first;
};

static int input_add_entry(struct module *m, const struct fatbin_entry *e)
{
    struct fatbin_entry *more = input_grow(m->entries, m->n, sizeof *more);
    if (!more) {
        return 1;
    }
    m->entries = more;
    more[m->n++] = *e;
    return 0;
}

static int input_take_entry(void *ctx, unsigned fatbin, const struct fatbin_entry *e)
{
    struct walk *w = ctx;
    while (w->in->n <= w->first + fatbin) {
        if (!input_add_module(w->in)) {
            return 1;
        }
    }
    return input_add_entry(&w->in->modules[w->first + fatbin], e);
}

unsigned mt_ptxtool_module_has(const struct module *m, unsigned kind)
{
    unsigned n = 0;
    for (unsigned i = 0; i < m->n; i++) {
        n += m->entries[i].kind == kind;
    }
    return n;
}

static int input_take_fatbins(struct input *in, const unsigned char *data, size_t size)
{
    struct walk w = {in, in->n};
    return ptxtool_fatbin_walk(in->name, data, size, input_take_entry, &w);
}

/* Returns 1 for section names in which nvcc and clang store fatbins. */
static int input_is_section(const char *name)
{
    return strcmp(name, ".nv_fatbin") == 0 || strcmp(name, "__nv_relfatbin") == 0;
}

static int input_take_elf(struct input *in)
{
    struct mt_elfview f;
    Elf64_Shdr s;
    uint64_t size, left = in->file.size;
    if (mt_elfview_read(&f, in->file.data, in->file.size) != 0) {
        return input_damaged(in, "an ELF file, but none of 64 bits");
    }
    if (!f.nsections || f.nsections < f.head.e_shnum || f.names >= f.nsections) {
        return input_damaged(in, "its table of sections is missing or damaged");
    }
    const char *names = mt_elfview_strings(&f, f.names, &size);
    if (!names) {
        return input_damaged(in, "its names of sections are damaged");
    }
    for (uint64_t i = 0; mt_elfview_section(&f, i, &s) == 0; i++) {
        if (s.sh_type == SHT_NOBITS || s.sh_name >= size || !input_is_section(names + s.sh_name)) {
            continue;
        }
        const unsigned char *fatbins = mt_elfview_contents(&f, &s);
        if (!fatbins || s.sh_size > left) {
            return input_damaged(in, "its section of device code is damaged");
        }
        left -= s.sh_size; /* limits overlapping sections, which would be read again and again */
        int code = input_take_fatbins(in, fatbins, s.sh_size);
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

/* Takes a whole file as PTX or a cubin, not in a fatbin. */
static int input_take_whole(struct input *in, unsigned kind)
{
    struct module *m = input_add_module(in);
    struct fatbin_entry e = {.kind = kind, .data = in->file.data, .size = in->file.size};
    return m ? input_add_entry(m, &e) : 1;
}

static int input_is_cubin(const struct input *in)
{
    struct mt_elfview f;
    return mt_elfview_read(&f, in->file.data, in->file.size) == 0 && f.head.e_machine == EM_CUDA;
}

int mt_ptxtool_input_read(const char *name, struct input *in)
{
    *in = (struct input){.name = name};
    if (mt_cudabin_file_read(name, &in->file) != 0) {
        return mt_cli_fail("%s: %s", name, strerror(errno));
    }
    if (in->file.size >= SELFMAG && memcmp(in->file.data, ELFMAG, SELFMAG) == 0) {
        return input_is_cubin(in) ? input_take_whole(in, FATBIN_ELF) : input_take_elf(in);
    }
    if (ptxtool_fatbin_is(in->file.data, in->file.size)) {
        return input_take_fatbins(in, in->file.data, in->file.size);
    }
    if (!memmem(in->file.data, in->file.size, ".version", 8)) {
        return input_damaged(in, in->file.size ? "is neither PTX nor a fatbin nor an ELF file" : "is empty");
    }
    return input_take_whole(in, FATBIN_PTX);
}

void mt_ptxtool_input_free(struct input *in)
{
    for (unsigned i = 0; i < in->n; i++) {
        free(in->modules[i].entries);
    }
    free(in->modules);
    mt_cudabin_bytes_free(&in->file);
}
