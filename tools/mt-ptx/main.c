/* mt-ptx: makes CPU images from PTX that another compiler has produced. Messages on stderr are "FILE:LINE: …"
 * or "memtrace: …". Functions return 0, or the exit code after a message: 1 failure, 3 damaged input. */
#include "ptx/module/module.h"
#include "base/binary.h"
#include "llvm-pass/unit/options.h"
#include "base/source_name.h"
#include "base/text.h"
#include "llvm-pass/lower/lowering.h"
#include "ptx/asm/asm.h"
#include "llvm-pass/unit/pass.h"
#include "format/image.h"
#include "runtime/api/device/made_image.h"
#include "base/file.h"
#include "linker.h"
#include "base/near.h"
#include "llvm-pass/unit/shim.h"
#include "base/cache.h"
#include "base/command.h"
#include "base/say.h"
#include "../cudabin/process.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <llvm-c/Core.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Support.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <lz4.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

struct fatbin_header {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size; /* bytes after the header */
};

struct entry_header {
    uint16_t kind, version;
    uint32_t header_size;
    uint64_t size; /* bytes after this header, padded */
    uint32_t packed_size, options;
    uint16_t minor, major;
    uint32_t arch, name_offset, name_size;
    uint64_t flags, reserved, unpacked_size;
};

_Static_assert(sizeof(struct fatbin_header) == 16, "as in the file");

_Static_assert(sizeof(struct entry_header) == 64, "as in the file");

#define FATBIN_PTX 1

#define FATBIN_ELF 2

#define FATBIN_LTO 8 /* LLVM IR of nvcc's, for its device linker */

#define FATBIN_ALONE 0x100000u /* flag: for this architecture only (compute_90a) */

#define FATBIN_FAMILY 0x200000u /* flag: for its family only (compute_100f) */

struct fatbin_entry {
    unsigned kind, arch; /* kind: FATBIN_…; arch: N of compute_N or sm_N */
    uint64_t flags;
    const unsigned char *data; /* data as stored in the file */
    size_t size, unpacked;     /* size as stored, and when unpacked; 0: not packed */
};

struct module { /* device code of one source file: a fatbin, or PTX text */
    unsigned number, n;
    struct fatbin_entry *entries;
};

struct input {
    const char *name;
    struct bytes file;
    struct module *modules;
    unsigned n;
};

/* ---- Finds device code in a file: PTX text, or fatbins, alone or in an ELF file ---- */

/* Fatbins as CUDA 9 to 13 write them: a header, then entries with headers of their own. */

#define FATBIN_MAGIC 0xba55ed50u
#define PACKED_LZ4 0x2000u
#define PACKED_ZSTD 0x8000u
#define MAX_UNPACKED ((size_t)1 << 30)

/* Most bytes that a small input may unpack to, or reserve implicitly (--limit). */
static uint64_t ptxtool_limit = MT_PTX_LIMIT;

/* Returns 1 if the entry would unpack to an implausible size. */
static int fatbin_is_bomb(const char *name, const struct fatbin_entry *e)
{
    if (e->unpacked <= ptxtool_limit || e->unpacked / 128 <= e->size) {
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

/* Unpacks the entry's bytes; the caller frees out. */
static int ptxtool_fatbin_unpack(const char *name, const struct fatbin_entry *e, struct bytes *out)
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

/* Calls `each` with the name of each kernel in machine code. Returns 0, or 3 if it is damaged. */
static int ptxtool_cubin_kernels(const struct bytes *cubin, void (*each)(void *ctx, const char *name),
                                 void *ctx)
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

/* number of entries of this kind */
static unsigned ptxtool_module_has(const struct module *m, unsigned kind)
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

static int ptxtool_input_read(const char *name, struct input *in)
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

static void ptxtool_input_free(struct input *in)
{
    for (unsigned i = 0; i < in->n; i++) {
        free(in->modules[i].entries);
    }
    free(in->modules);
    mt_cudabin_bytes_free(&in->file);
}

#define XXH_INLINE_ALL
#include <xxhash.h>

struct reading {
    LLVMModuleRef module; /* owned by the caller; NULL: not even the declarations could be read */
    struct mt_ptx_result result;
    const struct fatbin_entry *entry;
    int later;            /* 1: the first choice could not be read */
    struct bytes kernels; /* kernels of a part, as struct mt_made_kernel for the runtime */
    struct bytes text;
    char *said;    /* messages, each ended by LF; or "" */
    char name[48]; /* name of the text, if it provides source lines itself */
};
/* Request for one module. */
struct wanted {
    enum mt_ptx_part part;
    const char *kernel; /* kernel to make, for the part MT_PTX_KERNEL */
    uint64_t divide;    /* smallest size of PTX, in bytes, that is divided into a base and kernels */
};

struct request {
    const char *input, *output;
    int emit_ir, list, verbose, number; /* number: of the requested module; -1: there is only one */
    int serve, cache_list, cache_clear;
    const char *cache; /* cache folder; NULL: the user's */
    /* Key in the cache; NULL: not cached. Or two keys: of what any version of the program may use, and, if
     * the result depends on more than the contents, of this version's. */
    const char *cache_key;
    int *alone; /* set to 1 if the result is for this version only */
    uint64_t cache_limit;
    void (*stage)(const char *name); /* called when a stage begins, or NULL */
    int base;                        /* 1: only the part that the kernels of a large module share */
    uint64_t divide;
    const char *kernel; /* only this kernel of such a module; NULL: all */
};

/* ---- Messages contain names from the input, so control characters are made visible ---- */

static FILE *say_plain; /* original stderr */

/* Makes text visible, but keeps line ends. */
static void say_put(FILE *to, const char *text, size_t n)
{
    const char *end = text + n;
    while (text < end) {
        const char *lf = memchr(text, '\n', (size_t)(end - text));
        char *visible = mt_text_visible_copy(text, (size_t)((lf ? lf : end) - text));
        fputs(visible ? visible : "out of memory", to);
        free(visible);
        if (lf) {
            fputc('\n', to);
        }
        text = lf ? lf + 1 : end;
    }
}

/* Writes lines of text, made visible. */
static void ptxtool_put(FILE *to, const char *text)
{
    say_put(to, text, strlen(text));
}

static ssize_t say_write(void *unused, const char *text, size_t n)
{
    (void)unused;
    say_put(say_plain, text, n);
    return (ssize_t)n;
}

/* Makes everything written to stderr visible from now on, as other tools do (base/text.h). */
static void ptxtool_say_visibly(void)
{
    FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = say_write});
    if (f) {
        setvbuf(f, NULL, _IOLBF, BUFSIZ); /* line-buffered, so that characters stay whole */
        say_plain = stderr;
        stderr = f;
    }
}

/* ---- Signals raised by LLVM: the message is prepared in advance ---- */

static char say_end[1024];

static void say_signal(int number)
{
    const char *name = sigabbrev_np(number);
    struct iovec parts[] = {{(void *)(uintptr_t)"memtrace: SIG", 13},
                            {(void *)(uintptr_t)name, strlen(name)},
                            {say_end, strlen(say_end)}};
    if (writev(2, parts, 3) < 0) {
        return; /* nobody reads stderr */
    }
    raise(number); /* takes its default action when this returns */
}

/* Prepares for a signal of this process (LLVM's code generator crashed): prints a message with the way out
 * before the process ends by it. NULL: no kernel is known. */
static void ptxtool_say_signals(const char *kernel)
{
    static char stack[65536]; /* separate stack, since the program's may be exhausted */
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    struct sigaction action = {.sa_handler = say_signal, .sa_flags = SA_ONSTACK | SA_RESETHAND | SA_NODEFER};
    snprintf(
        say_end, sizeof say_end,
        " while LLVM compiled %s%s: %s in MEMTRACE_PTX_OPTIONS makes other code of it, which may go well\n",
        kernel ? "kernel " : "the module", kernel ? mt_short(kernel).text : "",
        mt_pass_options.vectors ? "--mt-vectors=off" : "--mt-cpu=x86-64-v2");
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaction(numbers[i], &action, NULL);
    }
}

/* ---- Instructions that the CPU device cannot run, found by lowering a copy of the module before any
 * optimisation, so that the function can be named ---- */

static LLVMValueRef check_builtin(void *ctx, const char *name, LLVMTypeRef *type)
{
    return mt_builtin(ctx, name, type);
}

static int check_is_asm(LLVMValueRef i)
{
    return LLVMGetInstructionOpcode(i) == LLVMCall && LLVMIsAInlineAsm(LLVMGetCalledValue(i)) != NULL;
}

/* Returns the function's inline asm calls, malloc'ed, since lowering splits blocks. */
static LLVMValueRef *check_list(LLVMValueRef f, unsigned *n)
{
    LLVMValueRef *list = NULL;
    *n = 0;
    for (int fill = 0; fill < 2; fill++) {
        unsigned k = 0;
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b)) {
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
                if (check_is_asm(i) && ++k && list) {
                    list[k - 1] = i;
                }
            }
        }
        if (!k || (!fill && !(list = calloc(k, sizeof *list)))) {
            return NULL;
        }
        *n = k;
    }
    return list;
}

/* Returns 1 if one of them cannot be lowered; reports that once per function. */
static int check_function(struct mt_lowering *l, LLVMValueRef f, FILE *said)
{
    struct mt_asm_builtins b = {.lookup = check_builtin, .ctx = l};
    unsigned n;
    int bad = 0;
    LLVMValueRef *list = check_list(f, &n);
    for (unsigned i = 0; i < n && !bad; i++) {
        struct mt_asm_error error = {0};
        struct mt_source_location place = {0};
        mt_shim_location(list[i], &place);
        bad = mt_asm_lower(l->module, list[i], &b, &error) != 0;
        if (bad && strcmp(error.message, "unreadable.ptx") != 0) { /* reported when the PTX was read */
            fprintf(said, "%s:%u: %.90s cannot run: %s\n", place.file, place.line, LLVMGetValueName(f),
                    error.message);
        } else if (bad) {
            bad = 0;
            break;
        }
    }
    free(list);
    return bad;
}

/* Returns 1 if the module has inline asm; most code has none. */
static int check_has_asm(LLVMModuleRef module)
{
    unsigned n = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f && !n; f = LLVMGetNextFunction(f)) {
        free(check_list(f, &n));
    }
    return n != 0;
}

static unsigned ptxtool_check(LLVMModuleRef module, FILE *said)
{
    if (!check_has_asm(module)) {
        return 0;
    }
    struct mt_unit u = {.module = module, .context = LLVMGetModuleContext(module)};
    unsigned failed = 0;
    struct mt_lowering l = {.u = &u, .builtins = mt_load_bitcode(&u, "cpu-builtins.bc")};
    if (!l.builtins) {
        return 0;
    }
    l.module = LLVMCloneModule(module);
    for (LLVMValueRef f = LLVMGetFirstFunction(l.module); f; f = LLVMGetNextFunction(f)) {
        failed += (unsigned)check_function(&l, f, said);
    }
    LLVMDisposeModule(l.module);
    LLVMDisposeModule(l.builtins);
    return failed;
}

/* ---- Choosing between several PTX, and reading it ---- */

enum { CPU_DEVICE = 90, MOST_TRIES = 4 };

struct told {
    FILE *to;
    const char *name;
    struct reading *reading;
};

static void choose_tell(void *ctx, unsigned line, const char *message)
{
    struct told *t = ctx;
    if (line) {
        fprintf(t->to, "%s:%u: %s\n", t->name, line, message);
    } else {
        fprintf(t->to, "%s: %s\n", t->name, message);
    }
}

/* Returns the rank of an entry, the lowest being best. Code for one architecture only comes after code for it
 * and all newer ones. */
static unsigned choose_rank(const struct fatbin_entry *e, unsigned device)
{
    unsigned apart = (e->flags & (FATBIN_ALONE | FATBIN_FAMILY)) != 0;
    return 2 * (e->arch <= device ? device - e->arch : 1000 + e->arch) + apart;
}

/* Returns the best entry after `last`, or NULL. */
static const struct fatbin_entry *choose_next(const struct module *m, const struct fatbin_entry *last,
                                              unsigned device)
{
    const struct fatbin_entry *found = NULL;
    for (unsigned i = 0; i < m->n; i++) {
        const struct fatbin_entry *e = &m->entries[i];
        unsigned rank = choose_rank(e, device), before = last ? choose_rank(last, device) : 0;
        int behind = !last || rank > before || (rank == before && e > last);
        if (e->kind == FATBIN_PTX && behind && (!found || rank < choose_rank(found, device))) {
            found = e;
        }
    }
    return found;
}

/* Appends a kernel in the runtime's form. */
static int choose_add_kernel(struct bytes *all, const struct mt_made_kernel *head,
                             const struct mt_ptx_content *c)
{
    size_t n = strlen(c->kernel);
    unsigned char *more = realloc(all->data, all->size + head->bytes);
    if (!more)
        return -1;
    struct mt_made_kernel *k = (void *)(more + all->size);
    all->data = more;
    all->size += head->bytes;
    memset(k, 0, head->bytes);
    memcpy(k, head, sizeof *head);
    for (unsigned i = 0; i < c->nplaces; i++) {
        char *path = mt_ptx_place_file(&c->places[i]);
        k->places[i] = (struct mt_made_place){
            .file = path ? mt_made_file(path) : 0, .line = c->places[i].line, .lines = c->places[i].lines};
        free(path);
    }
    memcpy(k->places + k->nplaces, c->kernel, n);
    return 0;
}

/* Adds to the cache key: the choice among several PTX, and line names given to the pass, hold for this
 * version only. */
static int choose_content(void *ctx, const struct mt_ptx_content *c)
{
    struct told *t = ctx;
    struct mt_made_kernel k = {.nplaces = c->nplaces};
    k.bytes = (sizeof k + c->nplaces * sizeof *k.places + strlen(c->kernel) + 1 + 7) & ~(uint64_t)7;
    snprintf(k.ptx, sizeof k.ptx, "%s", t->reading->name);
    if (!t->reading->later && !mt_pass_options.noff) {
        XXH128_hash_t h = XXH3_128bits(c->text, c->length);
        snprintf(k.content, sizeof k.content, "%016llx%016llx", (unsigned long long)h.high64,
                 (unsigned long long)h.low64);
    }
    return choose_add_kernel(&t->reading->kernels, &k, c);
}

static int choose_read(LLVMContextRef context, const char *input, const char *name, const struct wanted *w,
                       struct reading *r)
{
    size_t size;
    int code = ptxtool_fatbin_unpack(input, r->entry, &r->text);
    struct told told = {
        .to = code ? NULL : open_memstream(&r->said, &size), .name = name ? name : r->name, .reading = r};
    if (!told.to) {
        return code ? code : 1;
    }
    r->text.size = strnlen((const char *)r->text.data, r->text.size); /* removes trailing NULs */
    snprintf(r->name, sizeof r->name, "MemTrace-%016llx.ptx",
             (unsigned long long)XXH3_64bits(r->text.data, r->text.size));
    struct mt_ptx_source source = {.name = told.name,
                                   .text = (const char *)r->text.data,
                                   .length = r->text.size,
                                   .tell = choose_tell,
                                   .content = choose_content,
                                   .ctx = &told,
                                   .part = w->part,
                                   .kernel = w->kernel,
                                   .limit = ptxtool_limit};
    if (w->part == MT_PTX_BASE && r->text.size <= w->divide)
        r->result.undivided = "it is small";
    else
        r->module = mt_ptx_read(context, &source, &r->result);
    r->result.failed += r->module ? ptxtool_check(r->module, told.to) : 0;
    return fclose(told.to) ? 1 : 0;
}

/* Frees all but the module. */
static void ptxtool_reading_free(struct reading *r)
{
    mt_cudabin_bytes_free(&r->text);
    free(r->said);
    mt_cudabin_bytes_free(&r->kernels);
    r->said = NULL;
}

static void choose_drop(struct reading *r)
{
    if (r->module) {
        LLVMDisposeModule(r->module);
    }
    ptxtool_reading_free(r);
}

static int choose_is_better(const struct reading *a, const struct reading *b)
{
    return a->module && (!b->module || a->result.failed < b->result.failed);
}

/* Reads the module's best PTX for the CPU device. The device reports sm_90, and programs decide by that: so
 * the newest PTX up to sm_90 comes first, as in the driver, then newer ones. Takes the first one that is
 * fully understood, or else the one with the fewest unknown parts. `name` is used in messages; NULL: by
 * content. Returns 0, or the exit code if there is none or it is damaged. No base is read of a module that
 * cannot be divided, and the result says so. */
static int ptxtool_read_best(LLVMContextRef context, const char *input, const struct module *m,
                             const char *name, const struct wanted *w, struct reading *out)
{
    const struct fatbin_entry *e = NULL;
    *out = (struct reading){0};
    for (int tries = 0; tries < MOST_TRIES && (e = choose_next(m, e, CPU_DEVICE)); tries++) {
        struct reading r = {.entry = e, .later = tries > 0};
        int code = choose_read(context, input, name, w, &r);
        if (code != 0) {
            choose_drop(&r);
            choose_drop(out);
            return code;
        }
        if (!out->entry || choose_is_better(&r, out)) {
            choose_drop(out);
            *out = r;
        } else {
            choose_drop(&r);
        }
        if ((out->module && !out->result.failed) || out->result.undivided) {
            break;
        }
    }
    return out->entry ? 0 : 1;
}

/* ---- PTX to IR, through LLVM's pipeline and our pass to an object, and with the linker to what the runtime
 * loads: an empty fatbin followed by the image, as bin/fatbinary of the overlay writes for programs without
 * GPU code ---- */

/* Returns 1 for a message of the pass about an instruction that the CPU device cannot run, already reported
 * with the function's name. */
static int image_was_said(const char *text)
{
    return strstr(text, "the CPU device cannot run this: inline asm: ") != NULL;
}

static void image_diagnose(LLVMDiagnosticInfoRef info, void *ctx)
{
    int *errors = ctx;
    LLVMDiagnosticSeverity severity = LLVMGetDiagInfoSeverity(info);
    if (severity == LLVMDSRemark) {
        return;
    }
    char *text = LLVMGetDiagInfoDescription(info);
    *errors += severity == LLVMDSError;
    if (!image_was_said(text))
        fprintf(stderr, "%s%s\n",
                severity == LLVMDSError     ? "error: "
                : severity == LLVMDSWarning ? "warning: "
                                            : "",
                text);
    LLVMDisposeMessage(text);
}

/* ---- files -------------------------------------------------------------------------------------------- */

static int image_failed(const char *name)
{
    return mt_cli_fail("%s: %s", name, strerror(errno));
}

/* Opens the output, emptied. Returns NULL after a message. */
static FILE *image_create(const char *path)
{
    const char *why;
    int fd = mt_create(path, &why);
    int whole = fd >= 0 && (ftruncate(fd, 0) == 0 || errno == EINVAL); /* a pipe cannot be truncated */
    FILE *f = whole ? fdopen(fd, "w") : NULL;
    if (!f) {
        mt_cli_say("%s: %s", path, why ? why : strerror(errno));
    }
    return f;
}

static int image_run_linker(const char *const *objects, unsigned n, const char *out)
{
    const char *set = getenv("MEMTRACE_LD");
    const char *linkers[] = {set && *set ? set : "ld", "ld.lld-19", "ld.lld"};
    const char *argv[16 + MT_PARTS_MAX] = {"/proc/self/exe",  MT_PTX_LINKER, "-shared", "--hash-style=gnu",
                                           "--build-id=none", "-z",          "now",     "-z",
                                           "noexecstack",     "-o",          out};
    int code = -1;
    memcpy(&argv[11], objects, n * sizeof *argv);
    if (mt_ptxtool_linker && !(set && *set)) {
        return mt_cudabin_process_run((char *const *)argv);
    }
    for (size_t i = 0; i < (set && *set ? 1 : sizeof linkers / sizeof *linkers) && code < 0; i++) {
        argv[1] = linkers[i];
        code = mt_cudabin_process_run((char *const *)argv + 1);
    }
    return code;
}

/* Writes an empty fatbin, the payload's header and the shared object. */
static int image_write(const struct request *r, const struct bytes *linked)
{
    struct fatbin_header head = {.magic = 0xba55ed50u, .version = 1, .header_size = sizeof head};
    struct mt_payload payload = {.size = linked->size};
    memcpy(payload.magic, MT_PAYLOAD_MAGIC, sizeof payload.magic);
    FILE *f = image_create(r->output);
    if (!f) {
        return 1;
    }
    int bad = fwrite(&head, sizeof head, 1, f) != 1 || fwrite(&payload, sizeof payload, 1, f) != 1 ||
              fwrite(linked->data, linked->size, 1, f) != 1;
    if (fclose(f) != 0 || bad) {
        unlink(r->output);
        return image_failed(r->output);
    }
    return 0;
}

static int image_link(const struct request *r, const LLVMMemoryBufferRef *objects, unsigned n)
{
    struct bytes linked = {0};
    const char *from[MT_PARTS_MAX], *to = mt_cudabin_temp_write(".so", "", 0);
    for (unsigned i = 0; i < n && to; i++) {
        from[i] = mt_cudabin_temp_write(".o", LLVMGetBufferStart(objects[i]), LLVMGetBufferSize(objects[i]));
        to = from[i] ? to : NULL;
    }
    if (!to) {
        return image_failed("temporary file");
    }
    int code = image_run_linker(from, n, to);
    if (code < 0) {
        mt_cli_say("no linker (%s): install binutils or lld-19, or set MEMTRACE_LD", strerror(errno));
    } else if (code > 0) {
        mt_cli_say("the CPU image does not link");
    }
    if (code != 0) {
        return 1;
    }
    if (mt_cudabin_file_read(to, &linked) != 0) {
        return image_failed(to);
    }
    code = image_write(r, &linked);
    mt_cudabin_bytes_free(&linked);
    return code;
}

static void image_stage(const struct request *r, const char *name)
{
    if (r->stage) {
        r->stage(name);
    }
}

static int image_put_text(const struct request *r, const char *text, size_t n)
{
    int named = strcmp(r->output, "-") != 0;
    FILE *f = named ? image_create(r->output) : stdout;
    if (!f) {
        return 1;
    }
    int bad = fwrite(text, 1, n, f) != n || fflush(f) != 0;
    if (named) {
        bad |= fclose(f) != 0;
    }
    return bad ? image_failed(named ? r->output : "standard output") : 0;
}

static int image_emit_ir(const struct request *r, LLVMModuleRef module)
{
    char *text = LLVMPrintModuleToString(module);
    int code = image_put_text(r, text, strlen(text));
    LLVMDisposeMessage(text);
    return code;
}

/* Returns the number of processors that this process may use. */
static unsigned image_processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < MT_PARTS_MAX ? (unsigned)n : MT_PARTS_MAX;
}

/* Returns the kernel that an annotation of the module names, or NULL. */
static LLVMValueRef image_kernel(LLVMValueRef annotation)
{
    LLVMValueRef part[3];
    unsigned n;
    if (LLVMGetMDNodeNumOperands(annotation) != 3) {
        return NULL;
    }
    LLVMGetMDNodeOperands(annotation, part);
    const char *word = LLVMGetMDString(part[1], &n);
    return part[0] && word && n == 6 && memcmp(word, "kernel", 6) == 0 ? LLVMIsAFunction(part[0]) : NULL;
}

/* Removes functions that no kernel of a whole program calls, such as most of libcudadevrt, before they are
 * reported as impossible to run. */
static void image_drop_uncalled(LLVMModuleRef module)
{
    static const char name[] = "nvvm.annotations";
    unsigned n = LLVMGetNamedMetadataNumOperands(module, name);
    LLVMValueRef *kernels = calloc(n + 1, sizeof *kernels), k;
    if (!kernels) {
        return;
    }
    LLVMGetNamedMetadataOperands(module, name, kernels);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        if (!LLVMIsDeclaration(f)) {
            LLVMSetLinkage(f, LLVMInternalLinkage);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        if ((k = image_kernel(kernels[i]))) {
            LLVMSetLinkage(k, LLVMExternalLinkage);
        }
    }
    free(kernels);
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMErrorRef e = LLVMRunPasses(module, "globaldce", NULL, o);
    LLVMDisposePassBuilderOptions(o);
    if (e) {
        LLVMConsumeError(e);
    }
}

/* Consumes the module. */
static int image_build(const struct request *r, LLVMModuleRef module, const int *errors)
{
    LLVMMemoryBufferRef objects[MT_PARTS_MAX];
    if (!mt_pass_options.part) {
        image_drop_uncalled(module);
    }
    mt_pass_promote(module);
    image_stage(r, "compiling");
    unsigned n = mt_pass_image_parts(module, image_processors(), objects);
    int code = !n || *errors;
    if (code == 0) {
        code = image_link(r, objects, n);
    }
    while (n) {
        LLVMDisposeMemoryBuffer(objects[--n]);
    }
    return code;
}

static int image_of_module(const struct request *r, LLVMModuleRef module, const int *errors)
{
    return r->emit_ir ? image_emit_ir(r, module) : image_build(r, module, errors);
}

/* Adds a text for the runtime. */
static int image_add_text(struct bytes *texts, const char *name, const void *data, size_t bytes)
{
    struct mt_made_text head = {.bytes = bytes};
    size_t all = sizeof head + ((head.bytes + 7) & ~(size_t)7);
    unsigned char *more = realloc(texts->data, texts->size + all);
    if (!more) {
        return -1;
    }
    snprintf(head.name, sizeof head.name, "%s", name);
    memset(more + texts->size, 0, all);
    memcpy(more + texts->size, &head, sizeof head);
    memcpy(more + texts->size + sizeof head, data, bytes);
    texts->data = more;
    texts->size += all;
    return 0;
}

/* Adds what the runtime stores beside the image: the PTX text whose lines are those of accesses, which is
 * kept beside the trace, and the kernels that it may request. */
static void image_add_texts(struct bytes *texts, const struct wanted *w, const struct reading *reading)
{
    const struct mt_ptx_result *result = &reading->result;
    int bad = 0;
    if (!result->lines && (w->part != MT_PTX_KERNEL || reading->later)) { /* else it came with the base */
        bad = image_add_text(texts, reading->name, reading->text.data, reading->text.size);
    }
    if (w->part != MT_PTX_WHOLE) {
        bad |= image_add_text(texts, "", reading->kernels.data, reading->kernels.size);
    }
    if (bad) {
        mt_cli_say("out of memory: the PTX is not kept");
    }
}

/* Reads the best PTX of one module. Returns NULL after messages, or if the module cannot be divided. `texts`:
 * see ptxtool_image_make. */
static LLVMModuleRef image_read(const struct request *r, const struct wanted *w, LLVMContextRef context,
                                const char *input, const struct module *m, struct bytes *texts,
                                struct mt_ptx_result *sum, int *code)
{
    struct reading reading;
    char numbered[4200];
    snprintf(numbered, sizeof numbered, m->number ? "%s#%u" : "%s", input, m->number);
    *code = ptxtool_read_best(context, input, m, texts ? NULL : numbered, w, &reading);
    if (*code != 0) {
        return NULL;
    }
    const struct mt_ptx_result *result = &reading.result;
    if (!result->undivided) {
        fputs(reading.said, stderr);
    }
    *code = reading.module ? 0 : 3;
    if (reading.module && r->verbose) {
        mt_cli_say("%s: %u kernels, %u other functions, %u not understood; lines of the %s",
                   texts ? reading.name : numbered, result->kernels, result->functions - result->kernels,
                   result->failed, result->lines ? "source" : "PTX");
    }
    if (r->alone) {
        *r->alone |= reading.later || *reading.said || mt_pass_options.noff;
    }
    if (reading.module && texts) {
        image_add_texts(texts, w, &reading);
    }
    sum->undivided = result->undivided;
    sum->pointers |= result->pointers;
    sum->architecture = result->architecture > sum->architecture ? result->architecture : sum->architecture;
    sum->failed += result->failed;
    ptxtool_reading_free(&reading);
    return reading.module;
}

/* Reads all modules and links them into one. Returns NULL after messages. `sum`: the newest architecture, and
 * what was not understood. */
static LLVMModuleRef image_read_all(const struct request *r, const struct wanted *w, LLVMContextRef context,
                                    const char *input, const struct module *modules, unsigned n,
                                    struct bytes *texts, struct mt_ptx_result *sum, int *code)
{
    LLVMModuleRef all = NULL;
    *sum = (struct mt_ptx_result){0};
    *code = 1;
    for (unsigned i = 0; i < n; i++) {
        if (!ptxtool_module_has(&modules[i], FATBIN_PTX)) {
            continue;
        }
        LLVMModuleRef module = image_read(r, w, context, input, &modules[i], texts, sum, code);
        if (module && all && LLVMLinkModules2(all, module)) { /* reports the error */
            *code = 1;
            module = NULL;
        }
        if (!module) {
            if (all) {
                LLVMDisposeModule(all);
            }
            return NULL;
        }
        all = all ? all : module;
    }
    return all;
}

static struct wanted image_wanted(const struct request *r, const struct module *modules, unsigned n)
{
    unsigned have = 0;
    for (unsigned i = 0; i < n; i++) {
        have += ptxtool_module_has(&modules[i], FATBIN_PTX) != 0;
    }
    return (struct wanted){.kernel = r->kernel,
                           .divide = r->divide,
                           .part = r->kernel              ? MT_PTX_KERNEL
                                   : r->base && have == 1 ? MT_PTX_BASE
                                                          : MT_PTX_WHOLE};
}

/* Reads the modules of one program and writes the requested output. `texts` (or NULL) receives the texts
 * (struct mt_made_text) that provide source lines themselves, one after another, and then, without a name,
 * the kernels of a module of which a base was made, each ended by NUL. */
static int ptxtool_image_make(const struct request *r, const char *input, const struct module *modules,
                              unsigned n, struct bytes *texts)
{
    int errors = 0, code;
    struct mt_ptx_result sum;
    LLVMContextRef context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(context, image_diagnose, &errors);
    image_stage(r, "reading");
    struct wanted w = image_wanted(r, modules, n);
    LLVMModuleRef module = image_read_all(r, &w, context, input, modules, n, texts, &sum, &code);
    if (!module && sum.undivided) {
        w.part = MT_PTX_WHOLE;
        module = image_read_all(r, &w, context, input, modules, n, texts, &sum, &code);
    }
    if (module) {
        mt_pass_options.part = w.part != MT_PTX_WHOLE;
        mt_pass_options.rdc = w.part != MT_PTX_WHOLE && sum.pointers;
        code = image_of_module(r, module, &errors);
        LLVMDisposeModule(module);
    }
    LLVMContextDispose(context);
    return code;
}

/* ---- --list: device code of a file by module and kernel, and what can be traced ---- */

/* Modules with PTX are listed first: machine code without PTX may be the linked code of their files. */
struct list {
    FILE *to;
    char **traced; /* names of kernels with PTX; malloc'ed */
    size_t n;
    int on_gpu;    /* 1: on a GPU all kernels are traced, whatever the CPU device cannot run */
    unsigned lone; /* number of kernels in the current machine code */
};

/* Lists a kernel, unless it is mt-cc's version with record calls, which users do not know. */
static void list_kernel(struct list *l, const char *name, const char *what)
{
    size_t n = strlen(name), end = strlen(MT_TRACED_SUFFIX);
    if (n > end && !strcmp(name + n - end, MT_TRACED_SUFFIX)) {
        return;
    }
    char *pretty = mt_shim_demangle(name, 1);
    fprintf(l->to, "    kernel %s: %s\n", pretty ? pretty : name, l->on_gpu ? "can be traced" : what);
    free(pretty);
}

/* Lists the architectures of the entries of one kind: compute_75, compute_90a …. */
static void list_architectures(struct list *l, const struct module *m, unsigned kind, const char *prefix)
{
    const char *comma = "";
    for (unsigned i = 0; i < m->n; i++) {
        const struct fatbin_entry *e = &m->entries[i];
        if (e->kind == kind && e->arch) {
            fprintf(l->to, "%s%s%u%s", comma, prefix, e->arch,
                    e->flags & FATBIN_ALONE    ? "a"
                    : e->flags & FATBIN_FAMILY ? "f"
                                               : "");
            comma = ", ";
        }
    }
}

/* Returns the message about a function that cannot run, malloc'ed, or NULL. Messages are "FILE:LINE: NAME
 * cannot run: WHY". */
static char *list_said(const struct reading *r, const char *name)
{
    char wanted[128], *text = NULL;
    size_t size;
    snprintf(wanted, sizeof wanted, ": %.90s cannot run: ", name);
    const char *at = r->said ? strstr(r->said, wanted) : NULL;
    FILE *f = at ? open_memstream(&text, &size) : NULL;
    if (!f) {
        return NULL;
    }
    const char *place = at, *why = at + strlen(wanted);
    while (place > r->said && place[-1] != '\n') {
        place--;
    }
    fprintf(f, "cannot run: %.*s (%.*s)", (int)strcspn(why, "\n"), why, (int)(at - place), place);
    fclose(f);
    return text;
}

/* Returns 1 if the module's annotations contain !{f, "kernel", 1}. */
static int list_is_kernel(LLVMModuleRef module, LLVMValueRef f)
{
    unsigned n = LLVMGetNamedMetadataNumOperands(module, "nvvm.annotations"), length;
    LLVMValueRef *all = calloc(n + 1, sizeof *all), parts[3];
    int found = 0;
    if (all) {
        LLVMGetNamedMetadataOperands(module, "nvvm.annotations", all);
    }
    for (unsigned i = 0; all && i < n && !found; i++) {
        if (LLVMGetMDNodeNumOperands(all[i]) != 3) {
            continue;
        }
        LLVMGetMDNodeOperands(all[i], parts);
        const char *what = LLVMGetMDString(parts[1], &length);
        found = parts[0] == f && what && length == 6 && memcmp(what, "kernel", 6) == 0;
    }
    free(all);
    return found;
}

static void list_remember(struct list *l, const char *name)
{
    char **more = realloc(l->traced, (l->n + 1) * sizeof *more);
    if (more) {
        l->traced = more;
        if ((more[l->n] = strdup(name))) {
            l->n++;
        }
    }
}

static void list_ptx(struct list *l, const struct reading *r)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(r->module); f; f = LLVMGetNextFunction(f)) {
        size_t n;
        const char *name = LLVMGetValueName2(f, &n);
        char *why = list_said(r, name);
        if (list_is_kernel(r->module, f)) {
            list_kernel(l, name, why ? why : "can be traced");
            list_remember(l, name);
        } else if (why && !l->on_gpu) {
            fprintf(l->to, "    function %s: %s\n", name, why);
        }
        free(why);
    }
}

static void list_lone(void *ctx, const char *name)
{
    struct list *l = ctx;
    int found = 0;
    for (size_t i = 0; i < l->n && !found; i++) {
        found = strcmp(l->traced[i], name) == 0;
    }
    l->lone++;
    list_kernel(l, name, found ? "linked; its PTX is in another module" : "cannot run: machine code alone");
}

/* Lists kernels of machine code without PTX; one architecture contains all of them. */
static int list_machine_code(struct list *l, const struct input *in, const struct module *m)
{
    l->lone = 0;
    for (unsigned i = 0; i < m->n; i++) {
        struct bytes cubin = {0};
        if (m->entries[i].kind != FATBIN_ELF) {
            continue;
        }
        int code = ptxtool_fatbin_unpack(in->name, &m->entries[i], &cubin);
        if (code == 0 && (code = ptxtool_cubin_kernels(&cubin, list_lone, l)) != 0) {
            mt_cli_say("%s: its machine code is damaged", in->name);
        }
        mt_cudabin_bytes_free(&cubin);
        if (code != 0 || l->lone) {
            return code;
        }
    }
    return 0;
}

/* Prints the module's line; `e` is the chosen PTX, or NULL. */
static void list_head(struct list *l, const struct module *m, const struct fatbin_entry *e)
{
    fprintf(l->to, "%u: ", m->number);
    if (!e) {
        fprintf(l->to, "no PTX");
    } else {
        fprintf(l->to, e->arch ? "PTX for compute_%u%s" : "PTX", e->arch,
                e->flags & FATBIN_ALONE    ? "a"
                : e->flags & FATBIN_FAMILY ? "f"
                                           : "");
    }
    if (ptxtool_module_has(m, FATBIN_PTX) > 1) {
        fprintf(l->to, " (of ");
        list_architectures(l, m, FATBIN_PTX, "compute_");
        fprintf(l->to, ")");
    }
    if (ptxtool_module_has(m, FATBIN_ELF)) {
        fprintf(l->to, ", machine code for ");
        list_architectures(l, m, FATBIN_ELF, "sm_");
    }
    if (ptxtool_module_has(m, FATBIN_LTO)) {
        fprintf(l->to, ", code for link-time optimisation, which is not read");
    }
    fputc('\n', l->to);
}

static int list_module(struct list *l, LLVMContextRef context, const struct input *in, const struct module *m)
{
    struct reading r = {0};
    int code = ptxtool_module_has(m, FATBIN_PTX)
                   ? ptxtool_read_best(context, in->name, m, "PTX", &(struct wanted){0}, &r)
                   : 0;
    if (code != 0) {
        return code;
    }
    list_head(l, m, r.entry);
    if (r.module) {
        list_ptx(l, &r);
        LLVMDisposeModule(r.module);
    } else if (r.entry && !(l->on_gpu && ptxtool_module_has(m, FATBIN_ELF))) {
        fprintf(l->to, "    cannot be read: %s", r.said);
    } else {
        code = list_machine_code(l, in, m);
    }
    ptxtool_reading_free(&r);
    return code;
}

static int ptxtool_list(const struct input *in)
{
    int code = 0;
    const char *device = getenv("MEMTRACE_DEVICE");
    struct list l = {.on_gpu = device && strcmp(device, "gpu") == 0};
    LLVMContextRef context = LLVMContextCreate();
    char **texts = calloc(in->n + 1, sizeof *texts);
    for (unsigned i = 0; i < 2 * in->n && code == 0; i++) {
        const struct module *m = &in->modules[i % in->n];
        size_t size;
        if (!ptxtool_module_has(m, FATBIN_PTX) != (i >= in->n)) {
            continue;
        }
        l.to = texts ? open_memstream(&texts[i % in->n], &size) : NULL;
        code = l.to ? list_module(&l, context, in, m) : 1;
        if (l.to) {
            fclose(l.to);
        }
    }
    for (unsigned i = 0; texts && i < in->n; i++) {
        ptxtool_put(stdout, texts[i] ? texts[i] : "");
        free(texts[i]);
    }
    while (l.n) {
        free(l.traced[--l.n]);
    }
    free(l.traced);
    free(texts);
    LLVMContextDispose(context);
    return mt_near_told() ? 1 : code;
}

/* ---- Cached images: --cache-list, --cache-clear ---- */

static void cache_print(const struct mt_cache_file *f, void *sum)
{
    char when[32] = "?";
    time_t used = (time_t)f->used;
    struct tm tm;
    if (localtime_r(&used, &tm)) {
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    }
    printf("%s  %12llu  %s\n", when, (unsigned long long)f->bytes, f->name);
    *(uint64_t *)sum += f->bytes;
}

static int ptxtool_cache(const struct request *r)
{
    char path[4096], why[4200];
    const char *set = r->cache ? r->cache : getenv("MEMTRACE_CACHE");
    uint64_t sum = 0;
    struct stat st;
    if ((set && strcmp(set, "off") == 0) || mt_cache_path(set, path, sizeof path) != 0) {
        return mt_cli_fail("there is no cache folder: set MEMTRACE_CACHE or HOME");
    }
    if (stat(path, &st) != 0 && errno == ENOENT) {
        printf("0 images, 0 bytes in %s\n", mt_visible(path).text);
        return 0;
    }
    int folder = mt_cache_open(path, why, sizeof why), n = -1;
    if (folder < 0) {
        return mt_cli_fail("%s", why);
    }
    if (!r->cache_clear || mt_cache_clear(folder) == 0) {
        n = mt_cache_walk(folder, cache_print, &sum);
    }
    if (n < 0) {
        mt_cli_say("%s: %s", path, strerror(errno));
    } else {
        printf("%d images, %llu bytes in %s\n", n, (unsigned long long)sum, mt_visible(path).text);
    }
    close(folder);
    return n < 0 || mt_near_told();
}

/* ---- mt-ptx as called by the runtime of a traced program: descriptors instead of names, and results are
 * cached ---- */

enum { FD_IMAGE = 1, FD_WORDS = 2, FD_LINE = 3 };
static _Atomic int finished;

static void serve_stage(const char *name)
{
    char line[64];
    int n = snprintf(line, sizeof line, "%s\n", name);
    if (send(FD_LINE, line, (size_t)n, MSG_NOSIGNAL) < 0 && errno == EPIPE && !finished) {
        mt_cudabin_temp_remove();
        _exit(1);
    }
}

/* Runs in a thread while LLVM works, and ends this process when the program has ended. */
static void *serve_watch(void *unused)
{
    char c;
    (void)unused;
    while (recv(FD_LINE, &c, 1, 0) < 0 && errno == EINTR) {
    }
    if (!finished) {
        mt_cudabin_temp_remove();
        _exit(1);
    }
    return NULL;
}

/* Returns the key for `words`, which name lines of this version. */
static const char *serve_key(const struct request *r, const struct bytes *words, char key[MT_CACHE_KEY])
{
    const char *second = r->cache_key ? strchr(r->cache_key, ',') : NULL;
    int alone = second && (words->size || *r->alone);
    if (!second)
        return r->cache_key;
    snprintf(key, MT_CACHE_KEY, "%.*s", alone ? MT_CACHE_KEY - 1 : (int)(second - r->cache_key),
             alone ? second + 1 : r->cache_key);
    return key;
}

/* Writes the image with its texts, and all messages, to descriptor 1; then stores it in the cache. */
static int serve_hand_over(const struct request *r, const struct bytes *texts)
{
    struct bytes image = {0}, words = {0};
    char why[4200], name[MT_CACHE_KEY];
    fflush(stderr);
    int bad =
        mt_cudabin_file_read(r->output, &image) != 0 || mt_cudabin_file_read("/dev/stderr", &words) != 0;
    size_t at = (image.size + 7) & ~(size_t)7;
    unsigned char *all = bad ? NULL : calloc(1, at + texts->size + 1);
    if (all) {
        memcpy(all, image.data, image.size);
        if (texts->size) {
            memcpy(all + at, texts->data, texts->size);
        }
        bad = mt_cache_write(FD_IMAGE, (const char *)words.data, words.size, all, at + texts->size) != 0;
    }
    const char *key = serve_key(r, &words, name);
    free(all);
    mt_cudabin_bytes_free(&image);
    mt_cudabin_bytes_free(&words);
    if (bad || !all) {
        return mt_cli_fail("the image cannot be handed over: %s", strerror(errno));
    }
    finished = 1;
    serve_stage("done");
    int folder = r->cache && key ? mt_cache_open(r->cache, why, sizeof why) : -1;
    if (folder >= 0) {
        mt_cache_store(folder, key, FD_IMAGE,
                       r->cache_limit); /* an error is ignored: the program has its image */
        close(folder);
    }
    return 0;
}

enum { NAMED = 2 }; /* number of kernels to name, of perhaps hundreds */

static void serve_name(void *ctx, const char *name)
{
    unsigned *n = ctx;
    if (++*n <= NAMED) {
        fprintf(stderr, "%s%s", *n > 1 ? ", " : " (kernels ", mt_short(name).text);
    }
}

/* Reports what a module without PTX contains. */
static void serve_lament(const struct module *m)
{
    unsigned n = 0, elf = ptxtool_module_has(m, FATBIN_ELF);
    fputs(elf ? "there is machine code alone" : "there is code for link-time optimisation alone", stderr);
    for (unsigned i = 0; i < m->n && !n; i++) {
        struct bytes cubin = {0};
        if (m->entries[i].kind == FATBIN_ELF &&
            ptxtool_fatbin_unpack("its device code", &m->entries[i], &cubin) == 0) {
            ptxtool_cubin_kernels(&cubin, serve_name, &n);
            mt_cudabin_bytes_free(&cubin);
        }
    }
    if (n > NAMED) {
        fprintf(stderr, " and %u more", n - NAMED);
    }
    fprintf(stderr, "%s, no PTX: compile it with -gencode=arch=compute_90,code=compute_90\n", n ? ")" : "");
}

/* Skips modules without PTX; reports an error if none has any. */
static int serve_make(struct request *r, const struct input *in, struct bytes *texts)
{
    unsigned with = 0;
    for (unsigned i = 0; i < in->n; i++) {
        with += ptxtool_module_has(&in->modules[i], FATBIN_PTX) != 0;
    }
    for (unsigned i = 0; i < in->n; i++) {
        if (!ptxtool_module_has(&in->modules[i], FATBIN_PTX) && in->modules[i].n) {
            serve_lament(&in->modules[i]);
        }
    }
    int fd = with ? memfd_create("memtrace-image", MFD_CLOEXEC)
                  : -1; /* a memory file, which a kill does not leave behind */
    if (fd >= 0) {
        static char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        r->output = path;
        return ptxtool_image_make(r, "its device code", in->modules, in->n, texts);
    }
    if (with) {
        mt_cli_say("a file in memory: %s", strerror(errno));
    } else if (!in->n) {
        fputs("it has no device code\n", stderr);
    }
    return 1;
}

static int ptxtool_serve(struct request *r)
{
    int alone = 0;
    struct input in;
    struct bytes texts = {0};
    pthread_t thread;
    fcntl(FD_LINE, F_SETFD, FD_CLOEXEC);
    if (pthread_create(&thread, NULL, serve_watch, NULL) == 0) {
        pthread_detach(thread);
    }
    r->stage = serve_stage;
    r->alone = &alone;
    int code = ptxtool_input_read("/dev/stdin", &in);
    in.name = "its device code";
    code = code == 0 ? serve_make(r, &in, &texts) : code;
    ptxtool_input_free(&in);
    code = code == 0 ? serve_hand_over(r, &texts) : code;
    mt_cudabin_bytes_free(&texts);
    finished = 1;
    mt_cudabin_temp_remove();
    return code;
}

static const struct mt_command command = {
    .of = MT_OF_PTX,
    .before =
        "Usage: mt-ptx [OPTION]... INPUT -o IMAGE\n"
        "Makes a CPU image of device code that another compiler has turned into PTX. Programs that memtrace "
        "traces\n"
        "call it; INPUT is PTX as text, a fatbin, or an object, library or program with fatbins in it.\n",
    .after = "--mt-KEY=VALUE is an option of the pass, as mt-cc has them: kernels, exclude, only, vectors, "
             "count, cpu.\n"
             "Exit code: 0 fine, 1 failure, 2 wrong usage.\n",
};

static const char *const formats[] = {"image", "ir", NULL};

/* Removes --mt-KEY=VALUE from argv and passes it to the pass. Returns 0 or 2. */
static int take_pass_options(int *argc, char **argv)
{
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        const char *why = NULL;
        if (strncmp(argv[i], "--mt-", 5) != 0) {
            argv[kept++] = argv[i];
        } else if (mt_pass_option_set(argv[i] + 5, &why) != 0) {
            return mt_cli_refuse("%s: %s", argv[i], why);
        }
    }
    argv[kept] = NULL;
    *argc = kept;
    return 0;
}

static int parse_number(const char *word, int *out)
{
    char *end;
    long n = strtol(word, &end, 10);
    if (end == word || *end || n < 0 || n > 1000000) {
        return mt_cli_usage("%s is not the number of a module", word);
    }
    *out = (int)n;
    return 0;
}

static int parse_size(const char *word, uint64_t *out)
{
    char *end;
    unsigned long long n = strtoull(word, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    *out = n << shift;
    if (strcmp(word, "off") == 0) {
        *out = UINT64_MAX / 2;
    } else if (end == word || *word == '-' || end[shift != 0] || n > UINT32_MAX) {
        return mt_cli_usage("%s is not a size: 256K and so on, or off", word);
    }
    return 0;
}

static int main_format(struct request *r, const char *word)
{
    const char *near = mt_near_word(word, strlen(word), formats);
    r->emit_ir = strcmp(word, "ir") == 0;
    if (r->emit_ir || strcmp(word, "image") == 0) {
        return 0;
    }
    return near ? mt_cli_usage("did you mean --format=%s?", near)
                : mt_cli_usage("%s is not a format: image or ir", word);
}

static int main_option(void *arg, int o)
{
    struct request *r = arg;
    switch (o) {
    case MT_OPT_OUTPUT:
        r->output = optarg;
        return 0;
    case MT_OPT_FORMAT:
        return main_format(r, optarg);
    case MT_OPT_EMIT_IR:
        r->emit_ir = 1;
        return 0;
    case MT_OPT_LIST:
        r->list = 1;
        return 0;
    case MT_OPT_MODULE:
        return parse_number(optarg, &r->number);
    case MT_OPT_SERVE:
        r->serve = 1;
        return 0;
    case MT_OPT_BASE:
        r->base = 1;
        return 0;
    case MT_OPT_KERNEL:
        r->kernel = optarg;
        return 0;
    case MT_OPT_DIVIDE:
        return parse_size(optarg, &r->divide);
    case MT_OPT_MEMORY_LIMIT:
        return parse_size(optarg, &ptxtool_limit);
    case MT_OPT_CACHE:
        r->cache = optarg;
        return 0;
    case MT_OPT_CACHE_KEY:
        r->cache_key = optarg;
        return 0;
    case MT_OPT_CACHE_LIMIT:
        r->cache_limit = strtoull(optarg, NULL, 10);
        return 0;
    case MT_OPT_CACHE_LIST:
        r->cache_list = 1;
        return 0;
    case MT_OPT_CACHE_CLEAR:
        r->cache_clear = 1;
        return 0;
    default: /* options --verbose and --quiet */
        r->verbose = mt_pass_options.verbose = o == MT_OPT_VERBOSE;
        return 0;
    }
}

/* Returns -1 to continue, else the exit code. */
static int parse_arguments(int argc, char **argv, struct request *r)
{
    *r = (struct request){.number = -1};
    int code = take_pass_options(&argc, argv);
    code = code ? code : mt_command_options(&command, argc, argv, main_option, r);
    if (code) {
        return code < 0 ? mt_near_told() : code;
    }
    if (r->serve || r->cache_list || r->cache_clear) {
        return optind < argc ? mt_cli_usage("%s is too much here", argv[optind]) : -1;
    }
    if (optind + 1 != argc) {
        return mt_cli_usage("%s", optind == argc ? "no input" : "more than one input");
    }
    r->input = argv[optind];
    if (!r->output && r->emit_ir) {
        r->output = "-";
    }
    if (r->output && mt_output_is_input(r->output, r->input)) {
        return mt_cli_usage("the output %s is the input", r->output);
    }
    return r->output || r->list ? -1 : mt_cli_usage("%s", "no -o IMAGE");
}

/* Returns the requested module, or NULL after a message. */
static const struct module *choose_module(const struct request *r, const struct input *in)
{
    const struct module *found = NULL;
    unsigned have = 0;
    for (unsigned i = 0; i < in->n; i++) {
        if (ptxtool_module_has(&in->modules[i], FATBIN_PTX) && (r->number < 0 || (unsigned)r->number == i)) {
            found = &in->modules[i];
            have++;
        }
    }
    if (have == 1) {
        return found;
    }
    if (have > 1) {
        mt_cli_say("%s has PTX of %u modules: choose with --module=N (--list names them)", in->name, have);
    } else if (in->n) {
        mt_cli_say("%s has machine code alone here, no PTX (--list names its kernels): compile it with "
                   "-gencode=arch=compute_90,code=compute_90",
                   in->name);
    } else {
        mt_cli_say("%s has no device code", in->name);
    }
    return NULL;
}

static int make_from(const struct request *r, const struct input *in)
{
    const struct module *m = choose_module(r, in);
    return m ? ptxtool_image_make(r, in->name, m, 1, NULL) : 1;
}

/* Raises the stack limit as far as Linux allows: LLVM's passes recurse for each step of a long chain of
 * instructions. */
static void main_stack(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_STACK, &limit);
    }
}

int main(int argc, char **argv)
{
    struct request r;
    struct input in;
    if (mt_ptxtool_linker && argc > 1 && strcmp(argv[1], MT_PTX_LINKER) == 0) {
        return mt_ptxtool_linker(argc - 1, (const char *const *)argv + 1);
    }
    mt_cli_name = "mt-ptx";
    ptxtool_say_visibly();
    main_stack();
    int code = parse_arguments(argc, argv, &r);
    mt_cli_name = "memtrace"; /* messages go to the user of a traced program */
    if (code >= 0) {
        return code;
    }
    if (r.cache_list || r.cache_clear) {
        return ptxtool_cache(&r);
    }
    mt_cudabin_process_guard();
    ptxtool_say_signals(r.kernel);
    if (r.serve) {
        return ptxtool_serve(&r);
    }
    code = ptxtool_input_read(r.input, &in);
    if (code == 0) {
        code = r.list ? ptxtool_list(&in) : make_from(&r, &in);
    }
    ptxtool_input_free(&in);
    mt_cudabin_temp_remove();
    return mt_cudabin_process_exit_code(code);
}
