/* Maps program counters to sites: modules, the addresses of their functions, and known sites. */
#define _GNU_SOURCE
#include "memtrace/hash.h"
#include "base/binary.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include "code.h"
#include "sass.h"
#include "base/source_name.h"
#include "base/fork.h"
#include "base/options.h"
#include "trace/events.h"
#include "trace/ranges.h"
#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mt_known { /* empty if all zeros */
    struct mt_known_table *_Atomic now;
};

/* A table from a number and an access's meta to an id, with open addressing. Entries stay in place until the
 * table grows. The old tables are then kept for threads that still read them; together they are smaller than
 * the new one. */

#define GONE UINT32_MAX /* value of a removed id */
enum { LEAST = 1024 };

struct entry {
    _Atomic uint64_t key;   /* 0: empty. Written after: */
    _Atomic uint64_t value; /* meta << 32 | id */
};

struct mt_known_table {
    struct mt_known_table *before;
    uint64_t mask, used;
    struct entry at[];
};

static uint64_t known_hash(uint64_t key, uint32_t meta)
{
    uint64_t h = mt_hash_number(key ^ (uint64_t)meta << 20);
    return h ^ h >> 32;
}

/* Returns the entry, or the empty slot for it. */
static struct entry *known_find(struct mt_known_table *t, uint64_t key, uint32_t meta)
{
    for (uint64_t i = known_hash(key, meta);; i++) {
        struct entry *e = &t->at[i & t->mask];
        uint64_t there = atomic_load_explicit(&e->key, memory_order_acquire);
        if (!there || (there == key && atomic_load_explicit(&e->value, memory_order_relaxed) >> 32 == meta))
            return e;
    }
}

/* Looks an entry up. Returns 1 with *id set, or 0. A key of 0 never exists. */
static int known_get(const struct mt_known *k, uint64_t key, uint32_t meta, uint32_t *id)
{
    struct mt_known_table *t = atomic_load_explicit(&k->now, memory_order_acquire);
    struct entry *e = t && key ? known_find(t, key, meta) : NULL;
    if (!e || atomic_load_explicit(&e->key, memory_order_acquire) !=
                  key) /* the slot was empty, and may have been filled since */
        return 0;
    uint64_t value = atomic_load_explicit(&e->value, memory_order_relaxed);
    *id = (uint32_t)value;
    return value >> 32 == meta && *id != GONE;
}

static void known_put(struct mt_known_table *t, uint64_t key, uint32_t meta, uint32_t id)
{
    struct entry *e = known_find(t, key, meta);
    t->used += !atomic_load_explicit(&e->key, memory_order_relaxed);
    atomic_store_explicit(&e->value, (uint64_t)meta << 32 | id, memory_order_relaxed);
    atomic_store_explicit(&e->key, key, memory_order_release);
}

/* Returns the next table, without removed entries, or NULL if out of memory. */
static struct mt_known_table *known_grow(struct mt_known_table *old)
{
    uint64_t n = old ? 2 * (old->mask + 1) : LEAST;
    struct mt_known_table *t = calloc(1, sizeof *t + n * sizeof *t->at);
    if (!t)
        return NULL;
    t->before = old;
    t->mask = n - 1;
    for (uint64_t i = 0; old && i <= old->mask; i++) {
        uint64_t key = atomic_load_explicit(&old->at[i].key, memory_order_relaxed);
        uint64_t value = atomic_load_explicit(&old->at[i].value, memory_order_relaxed);
        if (key && (uint32_t)value != GONE)
            known_put(t, key, (uint32_t)(value >> 32), (uint32_t)value);
    }
    return t;
}

/* Adds an entry; id is not UINT32_MAX. Returns 0, or -1 if out of memory. */
static int known_set(struct mt_known *k, uint64_t key, uint32_t meta, uint32_t id)
{
    struct mt_known_table *t = atomic_load_explicit(&k->now, memory_order_relaxed);
    if (!t || 2 * (t->used + 1) > t->mask) {
        t = known_grow(t);
        if (!t)
            return -1;
        atomic_store_explicit(&k->now, t, memory_order_release);
    }
    if (key)
        known_put(t, key, meta, id);
    return 0;
}

/* Removes the entries of `count` keys starting at `from`. */
static void known_forget(struct mt_known *k, uint64_t from, uint64_t count)
{
    struct mt_known_table *t = atomic_load_explicit(&k->now, memory_order_relaxed);
    for (uint64_t i = 0; t && i <= t->mask; i++) {
        uint64_t key = atomic_load_explicit(&t->at[i].key, memory_order_relaxed);
        uint64_t value = atomic_load_explicit(&t->at[i].value, memory_order_relaxed);
        if (key && key - from < count)
            atomic_store_explicit(&t->at[i].value, value | GONE, memory_order_relaxed);
    }
}

/* For tests, with no readers left. */
__attribute__((unused)) static void known_free(struct mt_known *k)
{
    for (struct mt_known_table *t = k->now, *before; t; t = before) {
        before = t->before;
        free(t);
    }
    k->now = NULL;
}

/* ---- ELF file of a module: the sections, symbols and relocations that sites need ---- */

#ifndef EM_CUDA
#define EM_CUDA 190
#endif
enum { ENTRY = 0x10 /* bit of a symbol's st_other: marks a kernel */ };

/* Copies data and appends a 0. Returns 0, or -1 if out of memory. */
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

/* Keeps the first section of this name. */
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

/* Reads the code sections, known by their names. Returns 0, or -1 if out of memory. */
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

/* Returns the number of a code section by its index in the file, or UINT32_MAX if it is none. */
static uint32_t find_section(const struct mt_cubin *c, uint32_t index)
{
    size_t at = MT_FIRST(i, c->nsections, c->sections[i].index >= index);
    return at < c->nsections && c->sections[at].index == index ? (uint32_t)at : UINT32_MAX;
}

/* ---- symbols ---- */

struct symbols {
    const uint8_t *data, *wide; /* wide: section indices that do not fit into a symbol; NULL: none */
    uint64_t n, nwide;
};

static int code_find_symbols(const struct mt_elfview *f, struct symbols *s, struct mt_cubin *c)
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

/* Returns the code section of a symbol. */
static uint32_t symbol_section(const struct mt_cubin *c, const struct symbols *s, uint64_t i, Elf64_Sym *y)
{
    uint32_t index;
    memcpy(y, s->data + i * sizeof *y, sizeof *y);
    index = y->st_shndx;
    if (index == SHN_XINDEX && i < s->nwide)
        memcpy(&index, s->wide + 4 * i, 4);
    return find_section(c, index);
}

static int code_add_function(struct mt_cubin *c, uint32_t section, const Elf64_Sym *y)
{
    const char *name = text_at(&c->names[1], y->st_name);
    uint64_t bytes = c->sections[section].bytes;
    if (!*name || y->st_value > bytes)
        return 0;
    if (mt_grow(&c->functions, &c->functions_room, c->nfunctions + 1, sizeof *c->functions))
        return -1;
    c->functions[c->nfunctions++] = (struct mt_cubin_function){
        section,     (y->st_other & ENTRY) != 0,
        y->st_value, y->st_size < bytes - y->st_value ? y->st_size : bytes - y->st_value,
        name,        0};
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct mt_cubin_function *x = a, *y = b;
    MT_ORDER_DIFFER(x, y, section)
    MT_ORDER_DIFFER(x, y, offset)
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static int code_read_functions(struct mt_cubin *c, const struct symbols *s)
{
    int rc = 0;
    for (uint64_t i = 0; i < s->n && !rc; i++) {
        Elf64_Sym y;
        uint32_t section = symbol_section(c, s, i, &y);
        if (section != UINT32_MAX && ELF64_ST_TYPE(y.st_info) == STT_FUNC)
            rc = code_add_function(c, section, &y);
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

/* Reads a relocation of either kind; without an addend field, the addend is at the place itself. */
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
    uint64_t left = c->line.bytes; /* each address takes 8 bytes, so there cannot be more of them */
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
    if (read_sections(c, &f) || code_find_symbols(&f, &s, c) || code_read_functions(c, &s) ||
        (c->line.data && read_addresses(c, &f, &s))) {
        mt_cubin_drop(c);
        return -1;
    }
    return 0;
}

/* Returns the first function after a place. */
static size_t functions_behind(const struct mt_cubin *c, uint32_t section, uint64_t offset)
{
    const struct mt_cubin_function *f = c->functions;
    return MT_FIRST(i, c->nfunctions,
                    f[i].section > section || (f[i].section == section && f[i].offset > offset));
}

const struct mt_cubin_function *mt_cubin_around(const struct mt_cubin *c, uint32_t section, uint64_t offset)
{
    enum { NEAR = 64 }; /* functions do not nest, except copies in kernels */
    size_t end = functions_behind(c, section, offset), first = functions_behind(c, section, 0);
    for (size_t i = end; i-- > 0 && end - i <= NEAR && c->functions[i].section == section;)
        if (offset - c->functions[i].offset < c->functions[i].bytes)
            return &c->functions[i];
    const struct mt_cubin_function *f =
        first ? &c->functions[first - 1] : NULL; /* function that begins at the start of the section */
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

/* Line programs of cubins: DWARF 2 to 4 as written by NVIDIA's assembler. Extended opcode 0x90 has two
 * operands: the row of the sequence (from 1; 0: none) at which the following rows were inlined, where a row
 * equal to its predecessor does not count (functions other than kernels begin with one); and the offset in
 * .debug_str of the name of the inlined function. nvlink joins the programs and the .debug_str of several
 * files, but leaves those offsets unchanged: only those of the first program are right. */

enum { COPY = 1, ADVANCE_PC, ADVANCE_LINE, SET_FILE, SET_COLUMN, CONST_ADD_PC = 8, FIXED_ADVANCE_PC };
enum { END_SEQUENCE = 1, SET_ADDRESS, INLINED = 0x90 };
enum { DEPTH = 64 /* most nested inlined calls */ };

struct cursor {
    const uint8_t *at, *end;
    int bad; /* set after an attempt to read past the end */
};

struct unit {
    const uint8_t *folders, *files, *program, *end;
    uint8_t minimum, range, opcodes;
    int8_t base;
    int first;              /* first unit of the section: names of inlined functions are right */
    const uint8_t *lengths; /* number of operands of each standard opcode */
};

struct sequence {
    uint32_t section, unit;
    uint64_t low, high; /* in the section */
    const uint8_t *begin, *end;
};

struct row {
    uint64_t address;
    uint32_t file, line, context, name;
};

struct mt_code_lines {
    const struct mt_cubin *cubin;
    struct unit *units;
    struct sequence *sequences; /* by section, then low */
    size_t nunits, units_room, nsequences, sequences_room;
    struct row *rows; /* rows of the sequence read last */
    size_t nrows, rows_room;
    const struct sequence *read;
};

/* ---- bytes ---- */

static uint64_t take_fixed(struct cursor *c, unsigned bytes)
{
    uint64_t v = 0;
    if ((size_t)(c->end - c->at) < bytes) {
        c->bad = 1;
        c->at = c->end;
        return 0;
    }
    memcpy(&v, c->at, bytes);
    c->at += bytes;
    return v;
}

static uint64_t code_take_number(struct cursor *c, int is_signed)
{
    uint64_t v = 0;
    unsigned shift = 0, byte = 0x80;
    while (byte & 0x80) {
        if (c->at == c->end) {
            c->bad = 1;
            return 0;
        }
        byte = *c->at++;
        if (shift < 64)
            v |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    }
    return is_signed && (byte & 0x40) && shift < 64 ? v | ~0ull << shift : v;
}

static const char *take_text(struct cursor *c)
{
    const void *end = memchr(c->at, 0, (size_t)(c->end - c->at));
    const char *text = (const char *)c->at;
    c->bad |= !end;
    c->at = end ? (const uint8_t *)end + 1 : c->end;
    return end ? text : "";
}

static void skip_bytes(struct cursor *c, uint64_t n)
{
    uint64_t left = (uint64_t)(c->end - c->at);
    c->bad |= n > left;
    c->at += n < left ? n : left;
}

/* ---- the head of a unit ---- */

static void skip_files(struct cursor *c)
{
    while (!c->bad && *take_text(c))
        for (unsigned i = 0; i < 3; i++)
            code_take_number(c, 0);
}

/* Reads the head of the unit `c`, after its length. Returns 0, or -1 if its format is not supported. */
static int unit_head(struct unit *u, struct cursor *c, unsigned word)
{
    uint16_t version = (uint16_t)take_fixed(c, 2);
    uint64_t head = take_fixed(c, word);
    if (c->bad || version < 2 || version > 4 || head > (uint64_t)(c->end - c->at))
        return -1;
    u->program = c->at + head;
    u->end = c->end;
    u->minimum = (uint8_t)take_fixed(c, 1);
    skip_bytes(c, version >= 4); /* operations per instruction */
    skip_bytes(c, 1);
    u->base = (int8_t)take_fixed(c, 1);
    u->range = (uint8_t)take_fixed(c, 1);
    u->opcodes = (uint8_t)take_fixed(c, 1);
    u->lengths = c->at;
    skip_bytes(c, u->opcodes ? u->opcodes - 1u : 0);
    u->folders = c->at;
    while (!c->bad && *take_text(c))
        ;
    u->files = c->at;
    skip_files(c);
    return c->bad || !u->range || !u->opcodes || c->at > u->program ? -1 : 0;
}

/* Reads the unit at the cursor and moves past it. Returns 1, 0 if it is unreadable, or -1 at the end. */
static int unit_next(struct unit *u, struct cursor *c)
{
    unsigned word = 4;
    uint64_t length = take_fixed(c, 4);
    if (length == UINT32_MAX) {
        word = 8;
        length = take_fixed(c, 8);
    }
    if (c->bad || length > (uint64_t)(c->end - c->at))
        return -1;
    struct cursor inner = {c->at, c->at + length, 0};
    c->at += length;
    return unit_head(u, &inner, word) == 0;
}

/* ---- the program ---- */

struct machine {
    const struct mt_cubin *cubin;
    const struct unit *unit;
    struct cursor c;
    struct row row;
    uint32_t section; /* UINT32_MAX: unknown */
    int made, ended;  /* result of the last step: a row; the sequence's end */
};

static void machine_reset(struct machine *m)
{
    m->row = (struct row){.file = 1, .line = 1};
    m->section = UINT32_MAX;
    m->made = m->ended = 0;
}

/* Sets the address to the target of the relocation at this place. */
static void set_address(struct machine *m, const uint8_t *at)
{
    const struct mt_cubin *c = m->cubin;
    uint64_t place = (uint64_t)(at - c->line.data);
    size_t at_place = MT_FIRST(i, c->naddresses, c->addresses[i].at >= place);
    m->section = UINT32_MAX;
    if (at_place < c->naddresses && c->addresses[at_place].at == place) {
        m->section = c->addresses[at_place].section;
        m->row.address = c->addresses[at_place].offset;
    }
}

static void step_extended(struct machine *m)
{
    uint64_t length = code_take_number(&m->c, 0);
    struct cursor inner = m->c;
    skip_bytes(&m->c, length);
    if (m->c.bad || !length)
        return;
    inner.end = m->c.at;
    switch (take_fixed(&inner, 1)) {
    case END_SEQUENCE:
        m->made = m->ended = 1;
        break;
    case SET_ADDRESS:
        set_address(m, inner.at);
        break;
    case INLINED:
        m->row.context = (uint32_t)code_take_number(&inner, 0);
        m->row.name = (uint32_t)code_take_number(&inner, 0);
        break;
    }
}

static void step_special(struct machine *m, unsigned opcode)
{
    m->row.address += (uint64_t)(opcode / m->unit->range) * m->unit->minimum;
    m->row.line += (uint32_t)(m->unit->base + (int)(opcode % m->unit->range));
}

static void step_standard(struct machine *m, unsigned opcode)
{
    switch (opcode) {
    case COPY:
        m->made = 1;
        break;
    case ADVANCE_PC:
        m->row.address += code_take_number(&m->c, 0) * m->unit->minimum;
        break;
    case ADVANCE_LINE:
        m->row.line += (uint32_t)code_take_number(&m->c, 1);
        break;
    case SET_FILE:
        m->row.file = (uint32_t)code_take_number(&m->c, 0);
        break;
    case CONST_ADD_PC:
        m->row.address += (uint64_t)((255u - m->unit->opcodes) / m->unit->range) * m->unit->minimum;
        break;
    case FIXED_ADVANCE_PC:
        m->row.address += take_fixed(&m->c, 2);
        break;
    default:
        for (unsigned n = m->unit->lengths[opcode - 1]; n-- > 0;)
            code_take_number(&m->c, 0);
    }
}

/* Executes one opcode. Returns 0 at the end of the program. */
static int machine_step(struct machine *m)
{
    m->made = m->ended = 0;
    if (m->c.at == m->c.end || m->c.bad)
        return 0;
    unsigned opcode = *m->c.at++;
    if (opcode >= m->unit->opcodes) {
        step_special(m, opcode - m->unit->opcodes);
        m->made = 1;
    } else if (opcode)
        step_standard(m, opcode);
    else
        step_extended(m);
    return !m->c.bad;
}

/* ---- sequences ---- */

static int add_sequence(struct mt_code_lines *l, const struct machine *m, uint64_t low, const uint8_t *begin)
{
    if (m->section == UINT32_MAX || m->row.address <= low) /* the linker has removed the function */
        return 0;
    if (mt_grow(&l->sequences, &l->sequences_room, l->nsequences + 1, sizeof *l->sequences))
        return -1;
    l->sequences[l->nsequences++] =
        (struct sequence){m->section, (uint32_t)l->nunits - 1, low, m->row.address, begin, m->c.at};
    return 0;
}

/* Returns 0, or -1 if out of memory. */
static int read_sequences(struct mt_code_lines *l, const struct unit *u)
{
    struct machine m = {.cubin = l->cubin, .unit = u, .c = {u->program, u->end, 0}};
    const uint8_t *begin = u->program;
    uint64_t low = UINT64_MAX;
    int rc = 0;
    machine_reset(&m);
    while (!rc && machine_step(&m)) {
        if (m.made && m.row.address < low)
            low = m.row.address;
        if (m.ended) {
            rc = add_sequence(l, &m, low, begin);
            machine_reset(&m);
            low = UINT64_MAX;
            begin = m.c.at;
        }
    }
    return rc;
}

MT_ORDER_3(sequence_by_place, struct sequence, section, low, begin)

static int code_read_units(struct mt_code_lines *l)
{
    const struct mt_cubin_bytes *b = &l->cubin->line;
    struct cursor c = {b->data, b->data + b->bytes, 0};
    struct unit u;
    int found, rc = 0;
    for (int first = 1; !rc && (found = unit_next(&u, &c)) >= 0; first = 0) {
        u.first = first;
        if (!found)
            continue;
        if (mt_grow(&l->units, &l->units_room, l->nunits + 1, sizeof *l->units))
            return -1;
        l->units[l->nunits++] = u;
        rc = read_sequences(l, &u);
    }
    if (l->nsequences)
        qsort(l->sequences, l->nsequences, sizeof *l->sequences, sequence_by_place);
    return rc;
}

struct mt_code_lines *mt_code_lines_open(const struct mt_cubin *cubin)
{
    struct mt_code_lines *l = cubin->line.data && cubin->naddresses ? calloc(1, sizeof *l) : NULL;
    if (!l)
        return NULL;
    l->cubin = cubin;
    if (code_read_units(l) == 0)
        return l;
    mt_code_lines_close(l);
    return NULL;
}

void mt_code_lines_close(struct mt_code_lines *l)
{
    if (!l)
        return;
    free(l->units);
    free(l->sequences);
    free(l->rows);
    free(l);
}

/* ---- places ---- */

static const struct sequence *sequence_around(const struct mt_code_lines *l, uint32_t section,
                                              uint64_t offset)
{
    enum { NEAR = 64 }; /* sequences do not overlap */
    const struct sequence *s = l->sequences;
    size_t end =
        MT_FIRST(i, l->nsequences, s[i].section > section || (s[i].section == section && s[i].low > offset));
    for (size_t i = end; i-- > 0 && end - i <= NEAR && s[i].section == section;)
        if (offset < s[i].high)
            return &s[i];
    return NULL;
}

static int code_rows_same(const struct row *a, const struct row *b)
{
    return a->address == b->address && a->file == b->file && a->line == b->line && a->context == b->context &&
           a->name == b->name;
}

/* Reads the rows of a sequence into l->rows. Returns 0, or -1 if out of memory. */
static int code_read_rows(struct mt_code_lines *l, const struct sequence *s)
{
    struct machine m = {.cubin = l->cubin, .unit = &l->units[s->unit], .c = {s->begin, s->end, 0}};
    if (l->read == s)
        return 0;
    l->read = NULL;
    l->nrows = 0;
    machine_reset(&m);
    while (machine_step(&m)) {
        if (!m.made || (l->nrows && !m.ended && code_rows_same(&l->rows[l->nrows - 1], &m.row)))
            continue;
        if (mt_grow(&l->rows, &l->rows_room, l->nrows + 1, sizeof *l->rows))
            return -1;
        l->rows[l->nrows++] = m.row;
    }
    l->read = s;
    return 0;
}

/* Returns the number, from 1, of the last row at or before the place, or 0. Addresses ascend, as the format
 * requires; the row at the sequence's end does not count. */
static size_t row_at(const struct mt_code_lines *l, uint64_t offset)
{
    return MT_FIRST(i, l->nrows ? l->nrows - 1 : 0, l->rows[i].address > offset);
}

/* Returns the n-th text of a list, from 1, or NULL. For a file, reads its three numbers, too. */
static const char *nth_text(const uint8_t *at, const uint8_t *end, uint64_t n, uint64_t *folder)
{
    struct cursor c = {at, end, 0};
    while (!c.bad) {
        const char *text = take_text(&c);
        uint64_t first = folder ? code_take_number(&c, 0) : 0;
        if (!*text || c.bad)
            return NULL;
        if (!--n) {
            if (folder)
                *folder = first;
            return text;
        }
        if (folder) {
            code_take_number(&c, 0);
            code_take_number(&c, 0);
        }
    }
    return NULL;
}

static struct mt_code_frame frame_of(const struct mt_code_lines *l, const struct unit *u, const struct row *r)
{
    uint64_t folder = 0;
    const char *file = r->file ? nth_text(u->files, u->program, r->file, &folder) : NULL;
    const char *in = folder ? nth_text(u->folders, u->files, folder, NULL) : NULL;
    struct mt_code_frame f = {in && file && *file != '/' ? in : "", file ? file : "", r->line, NULL};
    if (r->context)
        f.function =
            u->first && r->name < l->cubin->str.bytes ? (const char *)l->cubin->str.data + r->name : "";
    return f;
}

unsigned mt_code_lines_at(struct mt_code_lines *l, uint32_t section, uint64_t offset,
                          struct mt_code_frame *out, unsigned room)
{
    const struct sequence *s = sequence_around(l, section, offset);
    unsigned n = 0;
    if (!s || code_read_rows(l, s) != 0)
        return 0;
    for (size_t at = row_at(l, offset), next; at && n < room && n < DEPTH; at = next) {
        const struct row *r = &l->rows[at - 1];
        out[n++] = frame_of(l, &l->units[s->unit], r);
        next = r->context < at ? r->context : 0; /* a call precedes the code inlined at it */
    }
    return n;
}

#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#include <xxhash.h>

enum { FRAMES = 64, MOST_UNKNOWN = 1 << 16 };

struct section { /* a code section on the GPU */
    struct mt_gpu_code *code;
    uint64_t pc;
    int known, guess; /* guess: derived from the places of others */
};

struct mt_gpu_code {
    struct mt_cubin cubin;
    struct mt_code_lines *lines;
    int looked; /* searched for lines */
    uint64_t hash;
    uint64_t bytes;                           /* size of all code sections */
    struct section *places;                   /* place of each section */
    char kept[48];                            /* name of the copy beside the traces, or "" */
    const struct mt_cubin_function **kernels; /* by name */
    size_t nkernels;
};

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* protects everything below, and what codes read on demand */
MT_FORK_LOCK(lock, MT_FORK_CAPTURES);
static struct mt_ranges placed = MT_RANGES_INIT; /* struct section */
MT_FORK_TABLE(placed);
static struct mt_known by_pc, by_content; /* the latter: a module loaded again keeps its sites */
static uint32_t sites = 1;                /* the next id */
static uint32_t unsure; /* number of pcs in by_pc to look up again when a module is loaded */

/* ---- modules ---- */

static void code_keep(struct mt_gpu_code *c, const void *cubin, size_t bytes)
{
    char name[sizeof c->kept];
    snprintf(name, sizeof name, "MemTrace-%016llx.cubin", (unsigned long long)c->hash);
    if (mt_options()->sass && mt_source_put(name, cubin, bytes) == 0)
        memcpy(c->kept, name, sizeof name);
}

static int by_name(const void *a, const void *b)
{
    const struct mt_cubin_function *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* The part of a section that was scanned last, in order of functions. */
struct scanned {
    uint32_t section, facts;
    uint64_t end;  /* offset in the section */
    uint64_t left; /* bytes that may be scanned: those of the file, even if sections overlap */
    int kernel;    /* a kernel of this section was there: what follows are its own functions */
};

/* Returns the facts about a function's instructions. What lies inside of another function, as copies in
 * kernels do, has the facts of that one, and no byte is read twice. */
static uint32_t code_scan(const struct mt_cubin *c, const struct mt_cubin_function *f, const uint8_t *file,
                          size_t bytes, struct scanned *last)
{
    const struct mt_cubin_section *s = &c->sections[f->section];
    uint64_t end = f->offset + f->bytes, from = f->offset;
    uint32_t facts = 0;
    if (last->section != f->section)
        *last = (struct scanned){.section = f->section, .left = last->left};
    if (from < last->end) {
        facts = last->facts;
        from = last->end;
    }
    if (from < end && s->offset <= bytes && s->bytes <= bytes - s->offset && end - from <= last->left) {
        last->left -= end - from;
        facts |= mt_sass_scan(file + s->offset + from, end - from);
    } else if (from < end)
        facts |= MT_SASS_UNREAD;
    last->kernel |= f->kernel;
    if (end > last->end) {
        last->facts = facts;
        last->end = end;
    }
    return facts;
}

/* Sets the facts about all functions. Those about functions outside of kernels count for each kernel that
 * calls any. */
static int code_scan_all(struct mt_gpu_code *c, const void *file, size_t bytes)
{
    struct mt_cubin *b = &c->cubin;
    struct scanned last = {.section = UINT32_MAX, .left = bytes};
    uint32_t others = 0;
    c->kernels = calloc(b->nfunctions + 1, sizeof *c->kernels);
    if (!c->kernels)
        return -1;
    for (size_t i = 0; i < b->nfunctions; i++) {
        struct mt_cubin_function *f = &b->functions[i];
        f->facts = code_scan(b, f, file, bytes, &last);
        if (f->kernel)
            c->kernels[c->nkernels++] = f;
        else if (!last.kernel)
            others |= f->facts;
    }
    for (size_t i = 0; i < b->nfunctions; i++)
        b->functions[i].facts |= b->functions[i].facts & MT_SASS_CALLS ? others : 0;
    qsort(c->kernels, c->nkernels, sizeof *c->kernels, by_name);
    return 0;
}

uint32_t mt_code_facts(const struct mt_gpu_code *c, const char *mangled)
{
    size_t at = MT_FIRST(i, c->nkernels, strcmp(c->kernels[i]->name, mangled) >= 0);
    return at < c->nkernels && !strcmp(c->kernels[at]->name, mangled) ? c->kernels[at]->facts : 0;
}

static void code_free(struct mt_gpu_code *c)
{
    mt_cubin_drop(&c->cubin);
    free(c->kernels);
    free(c->places);
    free(c);
}

struct mt_gpu_code *mt_code_new(const void *cubin, size_t bytes)
{
    struct mt_gpu_code *c = calloc(1, sizeof *c);
    if (!c || mt_cubin_read(&c->cubin, cubin, bytes) != 0) {
        free(c);
        return NULL;
    }
    c->places = calloc(c->cubin.nsections + 1, sizeof *c->places);
    if (!c->places || code_scan_all(c, cubin, bytes)) {
        code_free(c);
        return NULL;
    }
    for (size_t i = 0; i < c->cubin.nsections; i++)
        c->bytes += c->cubin.sections[i].bytes;
    c->hash = XXH3_64bits(cubin, bytes);
    code_keep(c, cubin, bytes);
    return c;
}

int mt_code_each_kernel(const struct mt_gpu_code *c, int (*f)(void *data, const char *mangled), void *data)
{
    int rc = 0;
    for (size_t i = 0; i < c->cubin.nfunctions && !rc; i++)
        if (c->cubin.functions[i].kernel)
            rc = f(data, c->cubin.functions[i].name);
    return rc;
}

/* ---- addresses of modules ---- */

/* Removes a range whose place is needed by another: its module was unloaded, or it was a guess. */
static void code_take(const struct mt_range *r)
{
    struct mt_range taken;
    struct section *p = r->data;
    if (mt_ranges_take(&placed, r->base, &taken))
        p->known = 0;
    unsure++; /* pcs looked up there now belong to other code */
}

/* Clears a place; guesses yield to known ranges. Returns 1 if the place is free, else 0. */
static int code_clear(uint64_t pc, uint64_t bytes, int guess)
{
    struct mt_range below, above;
    for (;;) {
        mt_ranges_around(&placed, pc, &below, &above);
        int under = below.bytes && pc - below.base < below.bytes,
            over = above.bytes && above.base - pc < bytes;
        if (!under && !over)
            return 1;
        if (guess)
            return 0;
        code_take(under ? &below : &above);
    }
}

static void code_put(struct mt_gpu_code *c, size_t section, uint64_t pc, uint64_t bytes, int guess)
{
    struct section *p = &c->places[section];
    if (!bytes || pc + bytes < pc || !code_clear(pc, bytes, guess))
        return;
    *p = (struct section){c, pc, 1, guess};
    if (mt_ranges_add(&placed, pc, bytes, p) != 0)
        p->known = 0;
}

/* Asks for the addresses of sections not placed yet, by one of their functions. */
static void code_ask(struct mt_gpu_code *c,
                     int (*where)(void *data, const char *function, uint64_t *pc, uint64_t *size), void *data)
{
    for (size_t i = 0; i < c->cubin.nfunctions; i++) {
        const struct mt_cubin_function *f = &c->cubin.functions[i];
        uint64_t pc = 0, size = 0, bytes = c->cubin.sections[f->section].bytes;
        if ((c->places[f->section].known && !c->places[f->section].guess) || *f->name == '$' ||
            where(data, f->name, &pc, &size) != 0 || pc < f->offset)
            continue;
        size = size <= UINT64_MAX - f->offset ? size + f->offset : size;
        pthread_mutex_lock(&lock);
        code_put(c, f->section, pc - f->offset, size > bytes ? size : bytes, 0);
        pthread_mutex_unlock(&lock);
    }
}

/* Checks if all known code sections have the same distances on the GPU as in the file; then the others most
 * likely have, too. Returns 1 with *add set to what a section's file offset needs added. */
static int code_is_block(const struct mt_gpu_code *c, uint64_t *add)
{
    size_t n = 0;
    for (size_t i = 0; i < c->cubin.nsections; i++) {
        const struct section *p = &c->places[i];
        if (!p->known || p->guess)
            continue;
        if (n++ && p->pc - c->cubin.sections[i].offset != *add)
            return 0;
        *add = p->pc - c->cubin.sections[i].offset;
    }
    return n > 1;
}

static void code_guess(struct mt_gpu_code *c)
{
    uint64_t add = 0;
    pthread_mutex_lock(&lock);
    int block = code_is_block(c, &add);
    for (size_t i = 0; block && i < c->cubin.nsections; i++)
        if (!c->places[i].known)
            code_put(c, i, c->cubin.sections[i].offset + add, c->cubin.sections[i].bytes, 1);
    if (unsure) { /* some may be known now; the others are looked up again at little cost */
        known_forget(&by_pc, 0, UINT64_MAX);
        unsure = 0;
    }
    pthread_mutex_unlock(&lock);
}

void mt_code_place(struct mt_gpu_code *c,
                   int (*where)(void *data, const char *function, uint64_t *pc, uint64_t *size), void *data)
{
    code_ask(c, where, data);
    code_guess(c);
}

void mt_code_unload(struct mt_gpu_code *c)
{
    struct mt_range r;
    uint64_t low = UINT64_MAX, high = 0;
    if (!c)
        return;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < c->cubin.nsections; i++)
        if (c->places[i].known && mt_ranges_take(&placed, c->places[i].pc, &r)) {
            low = r.base < low ? r.base : low;
            high = r.base + r.bytes > high ? r.base + r.bytes : high;
        }
    if (low < high) /* other modules between them are found again */
        known_forget(&by_pc, low - c->bytes, high - low + 2 * c->bytes);
    pthread_mutex_unlock(&lock);
    mt_code_lines_close(c->lines);
    code_free(c);
}

/* ---- sites ---- */

struct spot {
    struct mt_gpu_code *code;
    uint32_t section; /* UINT32_MAX: unknown */
    int64_t offset;   /* offset in it, else from the first known kernel of the module */
    int guess;
};

/* Finds the module closest to the place, at most as far away as the length of its code. */
static int spot_near(uint64_t pc, struct spot *s)
{
    struct mt_range below, above;
    mt_ranges_around(&placed, pc, &below, &above);
    struct section *b = below.data, *a = above.data, *p;
    uint64_t up = b ? pc - below.base : UINT64_MAX, down = a ? above.base - pc : UINT64_MAX;
    p = up < down ? b : a;
    if (!p || (up < down ? up : down) > p->code->bytes)
        return 0;
    size_t first = 0;
    while (!p->code->places[first].known)
        first++;
    *s = (struct spot){p->code, UINT32_MAX, (int64_t)(pc - p->code->places[first].pc), 1};
    return 1;
}

static int spot_find(uint64_t pc, struct spot *s)
{
    struct mt_range r;
    if (!mt_ranges_find(&placed, pc, &r))
        return spot_near(pc, s);
    struct section *p = r.data;
    *s = (struct spot){p->code, (uint32_t)(p - p->code->places), (int64_t)(pc - p->pc), p->guess};
    return 1;
}

/* Returns a key that does not depend on the module's load address. */
static uint64_t spot_key(const struct spot *s)
{
    const struct {
        uint64_t section;
        int64_t offset;
    } what = {s->section, s->offset};
    uint64_t h = XXH3_64bits_withSeed(&what, sizeof what, s->code->hash);
    return h ? h : 1;
}

/* Chooses the innermost frame outside of the toolchain's headers, and sets the path or "". Returns NULL if
 * there are no lines. */
static const struct mt_code_frame *frame_choose(const struct mt_code_frame *f, unsigned n,
                                                char path[PATH_MAX])
{
    for (unsigned i = 0; i < n; i++) {
        mt_source_full(path, PATH_MAX, f[i].folder, f[i].file);
        if (*path && !mt_is_toolchain_file(path))
            return &f[i];
    }
    if (n)
        mt_source_full(path, PATH_MAX, f->folder, f->file);
    return n && *path ? f : NULL;
}

static struct mt_code_lines *code_lines(struct mt_gpu_code *c)
{
    if (!c->looked)
        c->lines = mt_code_lines_open(&c->cubin);
    c->looked = 1;
    return c->lines;
}

/* Returns the name as in the source, to be freed, or NULL if out of memory. */
static char *code_name(const char *symbol)
{
    const char *name;
    size_t n;
    mt_cubin_name(symbol, &name, &n);
    char *plain = strndup(name, n), *text = plain ? mt_demangle_name(plain) : NULL;
    free(plain);
    return text;
}

/* Returns "kernel+0x120" or "module of kernel+0x120". */
static char *spot_text(const struct spot *s, const char *kernel)
{
    char *text = NULL;
    uint64_t far = s->offset < 0 ? 0 - (uint64_t)s->offset : (uint64_t)s->offset;
    if (asprintf(&text, "%s%s%c0x%llx", s->section == UINT32_MAX ? "module of " : "", kernel,
                 s->offset < 0 ? '-' : '+', (unsigned long long)far) < 0)
        return NULL;
    return text;
}

static const char *spot_symbol(const struct spot *s)
{
    size_t first = 0;
    while (s->section == UINT32_MAX && !s->code->places[first].known)
        first++;
    return s->code->cubin.sections[s->section == UINT32_MAX ? first : s->section].name;
}

/* Returns the symbol of the function at the spot, or "". */
static const char *spot_function(const struct spot *s, const struct mt_code_frame *f)
{
    const struct mt_cubin_function *around = NULL;
    if (f && f->function && *f->function)
        return f->function;
    if (s->section != UINT32_MAX)
        around = mt_cubin_around(&s->code->cubin, s->section, (uint64_t)s->offset);
    return around ? around->name : "";
}

static void spot_log(const struct spot *s, uint32_t id, uint32_t meta)
{
    struct mt_code_frame frames[FRAMES];
    char path[PATH_MAX];
    struct mt_code_lines *l = s->section == UINT32_MAX ? NULL : code_lines(s->code);
    unsigned n = l ? mt_code_lines_at(l, s->section, (uint64_t)s->offset, frames, FRAMES) : 0;
    const struct mt_code_frame *f = frame_choose(frames, n, path);
    const char *symbol = spot_symbol(s);
    char *kernel = code_name(symbol), *function = code_name(spot_function(s, f)),
         *at = spot_text(s, kernel ? kernel : symbol);
    mt_event_site(&(struct mt_site_line){.id = id,
                                         .line = f ? f->line : 0,
                                         .size = meta & ((1u << 28) - 1),
                                         .file = f ? path : "",
                                         .function = function ? function : "",
                                         .var = "",
                                         .at = at ? at : "",
                                         .symbol = symbol,
                                         .code = *s->code->kept ? s->code->kept : NULL,
                                         .guess = s->guess},
                  meta >> 28);
    free(kernel);
    free(function);
    free(at);
}

/* Returns the id of a site seen for the first time, or at a new address. *sure: not 0, and not a guess.
 * Called with the lock held. */
static uint32_t site_find(uint64_t pc, uint32_t meta, int *sure)
{
    struct spot s;
    uint32_t id = 0;
    *sure = 0;
    if (!spot_find(pc, &s))
        return 0;
    *sure = !s.guess;
    uint64_t key = spot_key(&s);
    if (known_get(&by_content, key, meta, &id))
        return id;
    id = sites++;
    spot_log(&s, id, meta);
    known_set(&by_content, key, meta, id);
    return id;
}

static uint32_t site_ask(uint64_t pc, uint32_t meta)
{
    uint32_t id = 0;
    int sure;
    pthread_mutex_lock(&lock);
    if (!known_get(&by_pc, pc, meta, &id)) {
        id = site_find(pc, meta, &sure);
        unsure += !sure;
        if (id || unsure < MOST_UNKNOWN)
            known_set(&by_pc, pc, meta, id);
    }
    pthread_mutex_unlock(&lock);
    return id;
}

uint32_t mt_code_site(uint64_t pc, uint32_t meta)
{
    uint32_t id;
    return known_get(&by_pc, pc, meta, &id) ? id : site_ask(pc, meta);
}
