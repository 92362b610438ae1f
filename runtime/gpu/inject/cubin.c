/* The ELF file of a module: sections, symbols and relocations, as far as sites need them. */
#include "cubin.h"
#include "base/elfview.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#ifndef EM_CUDA
#define EM_CUDA 190
#endif
enum { ENTRY = 0x10 /* bit of a symbol's st_other: a kernel */ };

/* A copy with a 0 behind it. 0, or -1: no memory. */
static int keep_bytes(struct mt_cubin_bytes *to, const void *data, size_t bytes)
{
    to->data = malloc(bytes + 1);
    if (!to->data)
        return -1;
    memcpy(to->data, data, bytes);
    to->data[bytes] = 0;
    to->bytes = bytes;
    return 0;
}

/* The first one of its name. */
static int keep_section(struct mt_cubin_bytes *to, const struct mt_elfview *f, const Elf64_Shdr *h)
{
    const uint8_t *data = to->data ? NULL : mt_elfview_contents(f, h);
    return data ? keep_bytes(to, data, h->sh_size) : 0;
}

static const char *text_at(const struct mt_cubin_bytes *b, uint64_t offset)
{
    return offset < b->bytes ? (const char *)b->data + offset : "";
}

/* ---- sections ---- */

static int add_section(struct mt_cubin *c, uint32_t index, const Elf64_Shdr *h, const char *name)
{
    if (mt_grow(&c->sections, &c->sections_room, c->nsections + 1, sizeof *c->sections))
        return -1;
    c->sections[c->nsections++] = (struct mt_cubin_section){index, h->sh_offset, h->sh_size, name};
    return 0;
}

/* Those of code by their names. 0, or -1: no memory. */
static int read_sections(struct mt_cubin *c, const struct mt_elfview *f)
{
    static const char text[] = ".text.";
    Elf64_Shdr h;
    int rc = 0;
    if (mt_elfview_section(f, f->names, &h) == 0)
        rc = keep_section(&c->names[0], f, &h);
    for (uint32_t i = 1; !rc && mt_elfview_section(f, i, &h) == 0; i++) {
        const char *name = text_at(&c->names[0], h.sh_name);
        if (!strncmp(name, text, sizeof text - 1) && h.sh_type == SHT_PROGBITS)
            rc = add_section(c, i, &h, name + sizeof text - 1);
        else if (!strcmp(name, ".debug_line"))
            rc = keep_section(&c->line, f, &h);
        else if (!strcmp(name, ".debug_str"))
            rc = keep_section(&c->str, f, &h);
    }
    return rc;
}

/* The number of a code section by the file's index; UINT32_MAX: it is none. */
static uint32_t find_section(const struct mt_cubin *c, uint32_t index)
{
    size_t at = MT_FIRST(i, c->nsections, c->sections[i].index >= index);
    return at < c->nsections && c->sections[at].index == index ? (uint32_t)at : UINT32_MAX;
}

/* ---- symbols ---- */

struct symbols {
    const uint8_t *data, *wide; /* wide: sections of symbols that a symbol has no room for; NULL: none */
    uint64_t n, nwide;
};

static int find_symbols(const struct mt_elfview *f, struct symbols *s, struct mt_cubin *c)
{
    Elf64_Shdr h, strings;
    int rc = 0;
    *s = (struct symbols){0};
    for (uint32_t i = 1; !rc && mt_elfview_section(f, i, &h) == 0; i++) {
        const uint8_t *data = mt_elfview_contents(f, &h);
        if (data && h.sh_type == SHT_SYMTAB && !s->data) {
            s->data = data;
            s->n = h.sh_size / sizeof(Elf64_Sym);
            if (mt_elfview_section(f, h.sh_link, &strings) == 0)
                rc = keep_section(&c->names[1], f, &strings);
        } else if (data && h.sh_type == SHT_SYMTAB_SHNDX) {
            s->wide = data;
            s->nwide = h.sh_size / 4;
        }
    }
    return rc;
}

/* The code section of a symbol. */
static uint32_t symbol_section(const struct mt_cubin *c, const struct symbols *s, uint64_t i, Elf64_Sym *y)
{
    uint32_t index;
    memcpy(y, s->data + i * sizeof *y, sizeof *y);
    index = y->st_shndx;
    if (index == SHN_XINDEX && i < s->nwide)
        memcpy(&index, s->wide + 4 * i, 4);
    return find_section(c, index);
}

static int add_function(struct mt_cubin *c, uint32_t section, const Elf64_Sym *y)
{
    const char *name = text_at(&c->names[1], y->st_name);
    uint64_t bytes = c->sections[section].bytes;
    if (!*name || y->st_value > bytes)
        return 0;
    if (mt_grow(&c->functions, &c->functions_room, c->nfunctions + 1, sizeof *c->functions))
        return -1;
    c->functions[c->nfunctions++] =
        (struct mt_cubin_function){section, (y->st_other & ENTRY) != 0, y->st_value,
                                   y->st_size < bytes - y->st_value ? y->st_size : bytes - y->st_value, name};
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct mt_cubin_function *x = a, *y = b;
    MT_ORDER_DIFFER(x, y, section)
    MT_ORDER_DIFFER(x, y, offset)
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static int read_functions(struct mt_cubin *c, const struct symbols *s)
{
    int rc = 0;
    for (uint64_t i = 0; i < s->n && !rc; i++) {
        Elf64_Sym y;
        uint32_t section = symbol_section(c, s, i, &y);
        if (section != UINT32_MAX && ELF64_ST_TYPE(y.st_info) == STT_FUNC)
            rc = add_function(c, section, &y);
    }
    if (c->nfunctions)
        qsort(c->functions, c->nfunctions, sizeof *c->functions, by_place);
    return rc;
}

/* ---- addresses in .debug_line ---- */

static int add_address(struct mt_cubin *c, const struct symbols *s, const Elf64_Rela *r)
{
    Elf64_Sym y;
    uint64_t i = ELF64_R_SYM(r->r_info);
    uint32_t section = i < s->n ? symbol_section(c, s, i, &y) : UINT32_MAX;
    if (section == UINT32_MAX)
        return 0;
    if (mt_grow(&c->addresses, &c->addresses_room, c->naddresses + 1, sizeof *c->addresses))
        return -1;
    c->addresses[c->naddresses++] =
        (struct mt_cubin_address){r->r_offset, section, y.st_value + (uint64_t)r->r_addend};
    return 0;
}

/* A relocation of either kind; one without an addend has it in the place. */
static Elf64_Rela relocation_at(const struct mt_cubin *c, const uint8_t *at, int rela)
{
    Elf64_Rela r = {0};
    memcpy(&r, at, rela ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel));
    if (!rela && c->line.bytes >= 8 && r.r_offset <= c->line.bytes - 8)
        memcpy(&r.r_addend, c->line.data + r.r_offset, 8);
    return r;
}

MT_ORDER_1(by_at, struct mt_cubin_address, at)

static int read_addresses(struct mt_cubin *c, const struct mt_elfview *f, const struct symbols *s)
{
    Elf64_Shdr h, of;
    int rc = 0;
    uint64_t left = c->line.bytes; /* an address has 8 bytes of it: more of them are no good */
    for (uint32_t i = 1; !rc && mt_elfview_section(f, i, &h) == 0; i++) {
        int rela = h.sh_type == SHT_RELA;
        const uint8_t *data = rela || h.sh_type == SHT_REL ? mt_elfview_contents(f, &h) : NULL;
        uint64_t each = rela ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
        if (!data || mt_elfview_section(f, h.sh_info, &of) != 0 ||
            strcmp(text_at(&c->names[0], of.sh_name), ".debug_line") != 0)
            continue;
        for (uint64_t at = 0; !rc && h.sh_size - at >= each && left >= 8; at += each, left -= 8) {
            Elf64_Rela r = relocation_at(c, data + at, rela);
            rc = add_address(c, s, &r);
        }
    }
    if (c->naddresses)
        qsort(c->addresses, c->naddresses, sizeof *c->addresses, by_at);
    return rc;
}

/* ---- the whole ---- */

void mt_cubin_drop(struct mt_cubin *c)
{
    free(c->sections);
    free(c->functions);
    free(c->addresses);
    free(c->line.data);
    free(c->str.data);
    free(c->names[0].data);
    free(c->names[1].data);
    *c = (struct mt_cubin){0};
}

int mt_cubin_read(struct mt_cubin *c, const void *data, size_t bytes)
{
    struct mt_elfview f;
    struct symbols s;
    *c = (struct mt_cubin){0};
    if (mt_elfview_read(&f, data, bytes) != 0 || f.head.e_ident[EI_DATA] != ELFDATA2LSB ||
        f.head.e_machine != EM_CUDA || !f.nsections)
        return -1;
    if (read_sections(c, &f) || find_symbols(&f, &s, c) || read_functions(c, &s) ||
        (c->line.data && read_addresses(c, &f, &s))) {
        mt_cubin_drop(c);
        return -1;
    }
    return 0;
}

/* The first function behind a place. */
static size_t functions_behind(const struct mt_cubin *c, uint32_t section, uint64_t offset)
{
    const struct mt_cubin_function *f = c->functions;
    return MT_FIRST(i, c->nfunctions,
                    f[i].section > section || (f[i].section == section && f[i].offset > offset));
}

const struct mt_cubin_function *mt_cubin_around(const struct mt_cubin *c, uint32_t section, uint64_t offset)
{
    enum { NEAR = 64 }; /* functions are not in each other, but for copies in kernels */
    size_t end = functions_behind(c, section, offset), first = functions_behind(c, section, 0);
    for (size_t i = end; i-- > 0 && end - i <= NEAR && c->functions[i].section == section;)
        if (offset - c->functions[i].offset < c->functions[i].bytes)
            return &c->functions[i];
    const struct mt_cubin_function *f =
        first ? &c->functions[first - 1] : NULL; /* what begins where the section does */
    return f && f->section == section && offset < f->bytes ? f : NULL;
}

void mt_cubin_name(const char *symbol, const char **name, size_t *length)
{
    size_t n = strlen(symbol), digits = n, at = 0;
    while (digits && isdigit((unsigned char)symbol[digits - 1]))
        digits--;
    if (digits < n && digits > 1 && symbol[digits - 1] == '$')
        n = digits - 1;
    for (size_t i = 1; *symbol == '$' && i + 1 < n; i++)
        if (symbol[i] == '$')
            at = i + 1;
    *name = symbol + at;
    *length = n - at;
}
