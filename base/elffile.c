/* Functions and source lines of an ELF file, read with libelf and libdw. */
#include "elffile.h"
#include "memtrace/order.h"
#include "memtrace/grow.h"
#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct function {
    uint64_t address, bytes;
    const char *name;
};

struct unit { /* an address range of a compilation unit */
    uint64_t low, high;
    Dwarf_Off die;
};

struct mt_elf {
    Elf *elf;
    struct function *functions;
    size_t nfunctions, room;
    Dwarf *dwarf;      /* NULL: none, or not opened yet */
    Dwarf_CFI *frames; /* NULL: none, or not opened yet */
    int frames_looked;
    int looked;
    struct unit *units;
    size_t nunits, units_room;
};

/* Symbols with a size come first. */
MT_ORDER_FUNCTION(elffile_by_address, struct function,
                  MT_ORDER_DIFFER(x, y, address) MT_ORDER_DIFFER(y, x, bytes))

static void elffile_add_function(struct mt_elf *e, const GElf_Sym *s, const char *name)
{
    int type = GELF_ST_TYPE(s->st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s->st_shndx == SHN_UNDEF || !s->st_value || !name ||
        !*name)
        return;
    if (mt_grow(&e->functions, &e->room, e->nfunctions + 1, sizeof *e->functions))
        return;
    e->functions[e->nfunctions++] = (struct function){s->st_value, s->st_size, name};
}

static void each_symbol(struct mt_elf *e, void (*f)(struct mt_elf *, const GElf_Sym *, const char *))
{
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(e->elf, scn)) != NULL;) {
        GElf_Shdr h;
        Elf_Data *data;
        if (!gelf_getshdr(scn, &h) || (h.sh_type != SHT_SYMTAB && h.sh_type != SHT_DYNSYM) || !h.sh_entsize ||
            !(data = elf_getdata(scn, NULL)))
            continue;
        for (size_t i = 0; i < h.sh_size / h.sh_entsize; i++) {
            GElf_Sym s;
            if (gelf_getsym(data, (int)i, &s))
                f(e, &s, elf_strptr(e->elf, h.sh_link, s.st_name));
        }
    }
}

struct mt_elf *mt_elf_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    struct mt_elf *e = calloc(1, sizeof *e);
    elf_version(EV_CURRENT);
    if (e)
        e->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (e && e->elf)
        elf_cntl(e->elf, ELF_C_FDREAD); /* reads the rest, so that the descriptor can be closed */
    close(fd);
    if (!e || !e->elf || elf_kind(e->elf) != ELF_K_ELF) {
        if (e)
            elf_end(e->elf);
        free(e);
        return NULL;
    }
    each_symbol(e, elffile_add_function);
    if (e->nfunctions)
        qsort(e->functions, e->nfunctions, sizeof *e->functions, elffile_by_address);
    return e;
}

int mt_elf_bias(struct mt_elf *e, uint64_t start, uint64_t offset, uint64_t *bias)
{
    size_t n = 0;
    elf_getphdrnum(e->elf, &n);
    /* Two segments may share a page of the file, so executable ones are tried first. */
    for (size_t i = 0; i < 2 * n; i++) {
        GElf_Phdr p;
        if (gelf_getphdr(e->elf, (int)(i % n), &p) && p.p_type == PT_LOAD && (i >= n || (p.p_flags & PF_X)) &&
            offset + 4096 > p.p_offset && offset < p.p_offset + p.p_filesz) {
            *bias = start - offset + p.p_offset - p.p_vaddr;
            return 0;
        }
    }
    return -1;
}

const char *mt_elf_function(struct mt_elf *e, uint64_t address)
{
    size_t n = MT_FIRST(i, e->nfunctions, e->functions[i].address > address);
    if (n == 0)
        return NULL;
    uint64_t start = e->functions[n - 1].address;
    const struct function *f = &e->functions[MT_FIRST(i, n, e->functions[i].address >= start)];
    return f->bytes == 0 || address < f->address + f->bytes ? f->name : NULL;
}

void mt_elf_functions(struct mt_elf *e, void (*f)(void *arg, const char *name, uint64_t address), void *arg)
{
    for (size_t i = 0; i < e->nfunctions; i++)
        f(arg, e->functions[i].name, e->functions[i].address);
}

uint64_t mt_elf_data(struct mt_elf *e, const char *name)
{
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(e->elf, scn)) != NULL;) {
        GElf_Shdr h;
        Elf_Data *data;
        if (!gelf_getshdr(scn, &h) || h.sh_type != SHT_DYNSYM || !h.sh_entsize ||
            !(data = elf_getdata(scn, NULL)))
            continue;
        for (size_t i = 0; i < h.sh_size / h.sh_entsize; i++) {
            GElf_Sym s;
            const char *n = gelf_getsym(data, (int)i, &s) ? elf_strptr(e->elf, h.sh_link, s.st_name) : NULL;
            if (n && s.st_shndx != SHN_UNDEF && GELF_ST_TYPE(s.st_info) == STT_OBJECT && !strcmp(n, name))
                return s.st_value;
        }
    }
    return 0;
}

/* ---- source lines ---- */

static void add_unit(struct mt_elf *e, uint64_t low, uint64_t high, Dwarf_Off die)
{
    if (low >= high)
        return;
    if (mt_grow(&e->units, &e->units_room, e->nunits + 1, sizeof *e->units))
        return;
    e->units[e->nunits++] = (struct unit){low, high, die};
}

MT_ORDER_1(by_low, struct unit, low)

/* Opens a stripped file's separate debug information where distributions install it. */
static Dwarf *elffile_separate(struct mt_elf *e)
{
    const void *id;
    ssize_t n = dwelf_elf_gnu_build_id(e->elf, &id);
    char path[128] = "/usr/lib/debug/.build-id/";
    size_t at = strlen(path);
    if (n < 2 || n > 32)
        return NULL;
    for (ssize_t i = 0; i < n; i++)
        at += (size_t)snprintf(path + at, sizeof path - at, i == 0 ? "%02x/" : "%02x",
                               ((const uint8_t *)id)[i]);
    snprintf(path + at, sizeof path - at, ".debug");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (elf)
        elf_cntl(elf, ELF_C_FDREAD);
    close(fd);
    return elf ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;
}

/* Collects the address ranges of all units, since not all compilers emit .debug_aranges. */
static void elffile_read_units(struct mt_elf *e)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    e->looked = 1;
    e->dwarf = dwarf_begin_elf(e->elf, DWARF_C_READ, NULL);
    if (!e->dwarf || dwarf_get_units(e->dwarf, NULL, &cu, NULL, NULL, &die, NULL) != 0) {
        if (e->dwarf)
            dwarf_end(e->dwarf);
        e->dwarf = elffile_separate(e);
        cu = NULL;
        if (!e->dwarf || dwarf_get_units(e->dwarf, NULL, &cu, NULL, NULL, &die, NULL) != 0)
            return;
    }
    do {
        Dwarf_Addr base, low, high;
        for (ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &low, &high)) > 0;)
            add_unit(e, low, high, dwarf_dieoffset(&die));
    } while (dwarf_get_units(e->dwarf, cu, &cu, NULL, NULL, &die, NULL) == 0);
    if (e->nunits)
        qsort(e->units, e->nunits, sizeof *e->units, by_low);
}

/* Returns the folder that the unit's relative file names refer to, or "". */
static const char *unit_folder(Dwarf_Die *unit)
{
    Dwarf_Attribute attribute;
    const char *folder = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
    return folder && *folder == '/' ? folder : "";
}

/* Finds the unit that contains the address. Returns 0 or -1. */
static int elffile_unit(struct mt_elf *e, uint64_t address, Dwarf_Die *die)
{
    if (!e->looked)
        elffile_read_units(e);
    size_t n = MT_FIRST(i, e->nunits, e->units[i].low > address);
    return n && address < e->units[n - 1].high && dwarf_offdie(e->dwarf, e->units[n - 1].die, die) ? 0 : -1;
}

int mt_elf_line(struct mt_elf *e, uint64_t address, struct mt_elf_location *place)
{
    Dwarf_Die die;
    int n;
    if (elffile_unit(e, address, &die) != 0)
        return -1;
    Dwarf_Line *l = dwarf_getsrc_die(&die, address);
    if (!l || !(place->file = dwarf_linesrc(l, NULL, NULL)) || dwarf_lineno(l, &n) != 0)
        return -1;
    place->folder = *place->file == '/' ? "" : unit_folder(&die);
    place->line = (uint32_t)n;
    place->column = dwarf_linecol(l, &n) == 0 ? (uint32_t)n : 0;
    return 0;
}

static uint64_t elffile_number(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;
    return dwarf_formudata(dwarf_attr(die, name, &attribute), &value) == 0 ? value : 0;
}

/* Fills in the source place where an inlined function was called. */
static int elffile_call(Dwarf_Die *unit, Dwarf_Die *inlined, struct mt_elf_location *place)
{
    Dwarf_Files *files;
    size_t nfiles;
    uint64_t file = elffile_number(inlined, DW_AT_call_file);
    if (dwarf_getsrcfiles(unit, &files, &nfiles) != 0 || file >= nfiles ||
        !(place->file = dwarf_filesrc(files, file, NULL, NULL)))
        return -1;
    place->folder = *place->file == '/' ? "" : unit_folder(unit);
    place->line = (uint32_t)elffile_number(inlined, DW_AT_call_line);
    place->column = (uint32_t)elffile_number(inlined, DW_AT_call_column);
    return 0;
}

int mt_elf_inlined(struct mt_elf *e, uint64_t address, unsigned level, struct mt_elf_location *place,
                   const char **function)
{
    Dwarf_Die unit, *innermost = NULL, *scopes = NULL;
    Dwarf_Attribute name;
    /* The first call ends at the innermost inlined function; its entries go on to where that was written. */
    int n = elffile_unit(e, address, &unit) == 0 ? dwarf_getscopes(&unit, address, &innermost) : 0, rc = -1;
    n = n > 0 ? dwarf_getscopes_die(&innermost[0], &scopes) : 0;
    for (int i = 0; i < n; i++)
        if (dwarf_tag(&scopes[i]) == DW_TAG_inlined_subroutine && level-- == 0) {
            rc = elffile_call(&unit, &scopes[i], place);
            *function = dwarf_formstring(dwarf_attr_integrate(&scopes[i], DW_AT_linkage_name, &name));
            if (!*function)
                *function = dwarf_formstring(dwarf_attr_integrate(&scopes[i], DW_AT_name, &name));
            break;
        }
    free(innermost);
    free(scopes);
    return rc;
}

/* ---- callers ---- */

enum { ELF_RBP = 6, ELF_RSP = 7, ELF_RETURN = 16 }; /* DWARF's numbers of x86-64 registers */

/* Returns 0 if the register is at *offset from the caller's stack pointer (0: it has its value still), or -1
 * for other rules and if it is lost. */
static int elffile_saved(Dwarf_Frame *frame, int number, int64_t *offset)
{
    Dwarf_Op room[3], *ops;
    size_t n;
    *offset = 0;
    if (dwarf_frame_register(frame, number, room, &ops, &n) != 0)
        return -1;
    if (n == 0)
        return ops ? -1 : 0;
    if (n != 2 || ops[0].atom != DW_OP_call_frame_cfa || ops[1].atom != DW_OP_plus_uconst)
        return -1;
    *offset = (int64_t)ops[1].number;
    return 0;
}

int mt_elf_frame(struct mt_elf *e, uint64_t address, struct mt_elf_frame *f)
{
    Dwarf_Frame *frame = NULL;
    Dwarf_Op *ops;
    size_t n;
    int64_t back;
    int rc = -1;
    if (!e->frames_looked) {
        e->frames_looked = 1;
        e->frames = dwarf_getcfi_elf(e->elf);
    }
    if (!e->frames || dwarf_cfi_addrframe(e->frames, address, &frame) != 0)
        return -1;
    if (dwarf_frame_cfa(frame, &ops, &n) == 0 && n == 1 && ops[0].atom == DW_OP_bregx &&
        (ops[0].number == ELF_RBP || ops[0].number == ELF_RSP) &&
        elffile_saved(frame, ELF_RETURN, &back) == 0 && back == -8 &&
        elffile_saved(frame, ELF_RBP, &f->saved) == 0) {
        f->by_rbp = ops[0].number == ELF_RBP;
        f->offset = (int64_t)ops[0].number2;
        rc = 0;
    }
    free(frame);
    return rc;
}

/* ---- names ---- */

typedef char *demangler(const char *, char *, size_t *, int *);
extern demangler __cxa_demangle __attribute__((weak));

/* Shortens "result ns::f<a, b>(x, y) const" to "ns::f<a, b>" in place; returns the start. */
static char *name_only(char *s)
{
    char *close = strrchr(s, ')'), *p;
    int depth = 0;
    if (close) {
        for (p = close; p >= s; p--)
            if ((depth += (*p == ')') - (*p == '(')) == 0)
                break;
        if (p > s)
            *p = 0;
    }
    if (strstr(s, "operator"))
        return s;
    depth = 0;
    for (p = s + strlen(s); p > s; p--) {
        depth += (p[-1] == '>' || p[-1] == ')') - (p[-1] == '<' || p[-1] == '(');
        if (p[-1] == ' ' && depth == 0)
            return p;
    }
    return s;
}

/* Returns the demangled name, malloc'ed, or NULL if the name is not mangled or there is no C++ library. */
static char *elffile_demangled(const char *name)
{
    static demangler *demangle;
    static int looked;
    int status = -1;
    if (strncmp(name, "_Z", 2) != 0)
        return NULL;
    if (!looked && __cxa_demangle) /* linked into this engine */
        demangle = __cxa_demangle;
    else if (!looked) { /* qemu is not linked with a C++ library, so it is loaded */
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        if (library)
            *(void **)&demangle = dlsym(library, "__cxa_demangle");
    }
    looked = 1;
    return demangle ? demangle(name, NULL, NULL, &status) : NULL;
}

const char *mt_undecorate(const char *name, char *room, unsigned size)
{
    char *plain = elffile_demangled(name);
    if (!plain)
        return name;
    snprintf(room, size, "%s", name_only(plain));
    free(plain);
    return room;
}

const char *mt_elf_variable(const char *symbol, char *room, unsigned size)
{
    char *plain = elffile_demangled(symbol);
    if (!plain)
        return symbol;
    snprintf(room, size, "%s", plain);
    free(plain);
    return room;
}
