/* mt-cc: builds the command line for clang++-19 and executes it. Manual: docs/man/mt-cc.md. */
#include "base/command.h"
#include "base/near.h"
#include "base/nvidia.h"
#include "base/part.h"
#include "base/file.h"
#include "base/trust.h"
#include "format/image.h"
#include "base/say.h"
#include "base/words.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Paths of memtrace's files, found relative to this executable. */
struct places {
    char *overlay; /* value of --cuda-path */
    char *plugin;  /* path of libMemtrace-AA.so */
    char *runtime; /* path of libmemtrace.so */
    char *host;    /* path of libmemtrace-host.so */
    char *include; /* folder that contains memtrace/ */
    unsigned cuda; /* CUDA_VERSION of the overlay's toolkit, for example 13000 */
    char *toolkit; /* path of that toolkit */
};

#define MT_CC_NO_CLANG                                                                                       \
    "there is no clang 19, which mt-cc compiles with: install clang-19 (Debian and Ubuntu: apt-get install " \
    "clang-19), or set MEMTRACE_CLANG to a clang++ of that version"

/* Precision of device code. */
enum switched { MATH_UNSAID, MATH_ON, MATH_OFF };

struct device_math {
    int fast; /* -use_fast_math: approximate functions, and defaults of the fields below */
    enum switched ftz, prec_div, prec_sqrt, fmad;
};

/* The parsed command line. */
struct request {
    struct words user;   /* words for clang in the user's order, nvcc's options translated */
    struct words archs;  /* sm_NN without duplicates; empty: the default */
    struct words plugin; /* options -fplugin-arg-memtrace-… */
    struct words notes;  /* options translated or dropped, for --show */
    int show, plain, quiet;
    int host;               /* 1: host accesses are traced, too */
    int compiles;           /* 1: there is C, C++ or CUDA source */
    int cuda;               /* 1: there is CUDA source */
    int inputs;             /* number of input files of any kind */
    int links;              /* 1: links (no -c, -S, -E, …) */
    const char *language;   /* language of the current -x; NULL: by suffix */
    unsigned toolkit;       /* CUDA_VERSION, which determines the lowest architecture */
    struct words files;     /* inputs, sharing the pointers in `user` */
    struct words sources;   /* inputs to compile */
    struct words c_files;   /* C inputs */
    int cxx_sources;        /* number of CUDA and C++ inputs */
    int rdc;                /* 1: relocatable device code (-fgpu-rdc) */
    int dlink;              /* 1: -dlink, only the device link, into an object */
    int no_device_link;     /* 1: the user or clang does the device link (--no-device-link, --offload-link) */
    int first_arch;         /* 1: code for the first architecture only */
    int relocatable;        /* 1: -r, the link makes an object */
    int depends;            /* 1: -M or -MM, only make rules */
    int forward;            /* FORWARD_…: receivers of options that nvcc does not know */
    struct words forwarded; /* options that go to the linker */
    int dopt;               /* 1: -dopt on, so -G optimises */
    int optimises_device;   /* 1: device code gets -O3 by default */
    int verbose;            /* 1: prints commands (-v) */
    int version;            /* 1: prints versions only */
    const char *lists;      /* prints the architectures with this prefix only; or NULL */
    struct device_math math;
    struct words nvlink; /* options for nvlink */
    const struct places *places;
};

#define GPU_TRACE "-fplugin-arg-memtrace-gpu-trace="

#define FORWARD_COMPILER 1

#define FORWARD_LINKER 2

/* ---- Parses the command line: mt-cc's own options, nvcc's, clang's, and files ---- */

/* Clang options whose value is the next argument, which must not count as a file. */
static const char *const takes_value[] = {
    "-o",
    "-I",
    "-L",
    "-l",
    "-D",
    "-U",
    "-F",
    "-T",
    "-u",
    "-z",
    "-e",
    "-B",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-isysroot",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-Xclang",
    "-Xpreprocessor",
    "-Xassembler",
    "-Xlinker",
    "-x",
    "-Xarch_host",
    "-Xarch_device",
    "-Xcuda-ptxas",
    "-Xcuda-fatbinary",
    "-Xopenmp-target",
    "-mllvm",
    "-target",
    "--target",
    "--param",
    "--config",

    "-rpath",
    "-soname",
    "-working-directory",
    "--sysroot",
    "--cuda-path",
    "-dumpdir",
    "-serialize-diagnostics",
};

/* Clang options that prevent linking. */
static const char *const no_link[] = {"-c",        "-S",           "-E",       "-M", "-MM", "-fsyntax-only",
                                      "-emit-ast", "--precompile", "--analyze"};

/* Returns mt-cc's own options (base/command.def). */
static const struct option *cc_options(void)
{
    static struct option list[MT_OPT_END - MT_OPT_FIRST];
    char letters[MT_OPT_LETTERS];
    if (!list[0].name) {
        mt_command_table(MT_OF_CC, 0, list, letters);
    }
    return list;
}

/* Passes --mt-KEY to the plugin, as KEY=VALUE. */
static int request_of_plugin(const struct option *o)
{
    return strncmp(o->name, "mt-", 3) == 0;
}

static int is_one_of(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(word, list[i]) == 0) {
            return 1;
        }
    }
    return 0;
}
#define IS_ONE_OF(word, list) is_one_of(word, list, sizeof(list) / sizeof *(list))

static void cc_request_note(struct request *r, const char *format, ...)
{
    char *note = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&note, format, args) >= 0) {
        mt_words_add(&r->notes, note);
        free(note);
    }
    va_end(args);
}

/* Parses a source language by clang's or nvcc's name (-x). */
static void cc_request_language(struct request *r, const char *name)
{
    if (strcmp(name, "cu") == 0) {
        name = "cuda";
    }
    mt_words_add(&r->user, "-x");
    mt_words_add(&r->user, name);
    r->language = strcmp(name, "none") == 0 ? NULL : mt_words_text("%s", name);
}

/* ---- architectures
 * ------------------------------------------------------------------------------------------ */

static const int known_archs[] = {35, 37, 50, 52, 53, 60, 61, 62,
                                  70, 72, 75, 80, 86, 87, 89, 90}; /* architectures of clang 19 */
#define LAST_ARCH 90

static int lowest_arch(unsigned toolkit)
{
    return toolkit >= 13000 ? 75 : toolkit >= 12000 ? 50 : 35;
}

/* Returns the nearest architecture that both clang and the toolkit support: the lowest one for older GPUs,
 * else the next one below, whose PTX runs on newer GPUs. */
static int usable_arch(const struct request *r, int sm)
{
    int best = lowest_arch(r->toolkit);
    for (size_t i = 0; i < sizeof known_archs / sizeof *known_archs; i++) {
        if (known_archs[i] > best && known_archs[i] <= sm) {
            best = known_archs[i];
        }
    }
    return best;
}

/* Parses an architecture: sm_80, compute_80, 80 or 8.0. */
static void cc_request_arch(struct request *r, const char *name)
{
    const char *digits = strncmp(name, "sm_", 3) == 0        ? name + 3
                         : strncmp(name, "compute_", 8) == 0 ? name + 8
                         : strncmp(name, "lto_", 4) == 0     ? name + 4
                                                             : name;
    char *end;
    int sm = (int)strtol(digits, &end, 10);
    if (end != digits && *end == '.') { /* architecture written as 8.0 */
        sm = sm * 10 + (int)strtol(end + 1, &end, 10);
    }
    if (end == digits) {
        cc_request_note(r, "architecture '%s' left out: the default serves", name);
        return;
    }
    int use = usable_arch(r, sm);
    const char *suffix = use == sm && sm == LAST_ARCH && *end == 'a' ? "a" : "";
    if (use != sm && !r->quiet) {
        mt_cli_say("note: %s is not for clang 19 with CUDA %u.%u: taking sm_%d", name, r->toolkit / 1000,
                   r->toolkit % 1000 / 10, use);
    }
    char *arch = mt_words_text("sm_%d%s", use, suffix);
    for (size_t i = 0; i < r->archs.count; i++) {
        if (strcmp(r->archs.word[i], arch) == 0) {
            return;
        }
    }
    mt_words_add(&r->archs, arch);
}

/* Prints the supported architectures on stdout, one per line. */
static void cc_request_print_archs(const struct request *r, const char *prefix)
{
    for (size_t i = 0; i < sizeof known_archs / sizeof *known_archs; i++) {
        if (known_archs[i] >= lowest_arch(r->toolkit)) {
            printf("%s%d\n", prefix, known_archs[i]);
        }
    }
}

/* ---- files
 * -------------------------------------------------------------------------------------------------- */

/* Returns 1 for NVIDIA's runtime, given as a file or a library name: memtrace's replaces it. */
static int is_cudart(const char *name, int is_file)
{
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    if (is_file) {
        return strncmp(base, "libcudart.so", 12) == 0 || strcmp(base, "libcudart_static.a") == 0;
    }
    return strcmp(base, "cudart") == 0 || strcmp(base, "cudart_static") == 0;
}

/* Returns 1 for the driver's library: memtrace's runtime has its functions, and a program linked to NVIDIA's
 * would not start without a driver. */
static int is_driver(const char *name, int is_file)
{
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    return is_file ? strncmp(base, "libcuda.so", 10) == 0 : strcmp(base, "cuda") == 0;
}

/* Returns 1 for the toolkit's header folder, which the overlay's replaces. */
static int is_toolkit_include(const struct request *r, const char *folder)
{
    char real[PATH_MAX], toolkit[PATH_MAX];
    return realpath(folder, real) && realpath(mt_words_text("%s/include", r->places->toolkit), toolkit) &&
           strcmp(real, toolkit) == 0;
}

/* Appends an input to the words for clang; lists of inputs share its pointer. */
static void add_input(struct request *r, const char *file, int is_source, int is_c)
{
    mt_words_add(&r->user, file);
    mt_words_take(&r->files, r->user.word[r->user.count - 1]);
    if (is_source) {
        mt_words_take(&r->sources, r->user.word[r->user.count - 1]);
    }
    if (is_c) {
        mt_words_take(&r->c_files, r->user.word[r->user.count - 1]);
    }
}

static void add_file(struct request *r, const char *file)
{
    static const char *const cxx[] = {".cpp", ".cc", ".cxx", ".C",  ".c++", ".cp",
                                      ".CPP", ".ii", ".hpp", ".hh", ".h"};
    const char *suffix = strrchr(file, '.');
    r->inputs++;
    if (is_cudart(file, 1)) {
        cc_request_note(r, "%s dropped: libmemtrace.so is the CUDA runtime", file);
        return;
    }
    if (is_driver(file, 1)) {
        cc_request_note(r, "%s dropped: no program needs the driver here", file);
        return;
    }
    int is_c = r->language && strcmp(r->language, "c") == 0, before = r->cxx_sources;
    if (r->language) {
        r->compiles = 1;
        r->cuda |= strncmp(r->language, "cuda", 4) == 0;
        r->cxx_sources += !is_c;
    } else if (suffix && (strcmp(suffix, ".cu") == 0 || strcmp(suffix, ".cui") == 0)) {
        r->compiles = r->cuda = 1;
        r->cxx_sources++;
    } else if (suffix && (strcmp(suffix, ".c") == 0 || strcmp(suffix, ".i") == 0)) {
        /* Compiles C as C, as nvcc does; clang++ would take it for C++. */
        r->compiles = 1;
        mt_words_add(&r->user, "-x");
        mt_words_add(&r->user, strcmp(suffix, ".c") == 0 ? "c" : "cpp-output");
        add_input(r, file, 1, 1);
        mt_words_add(&r->user, "-x");
        mt_words_add(&r->user, "none");
        return;
    } else if (suffix && IS_ONE_OF(suffix, cxx)) {
        r->compiles = 1;
        r->cxx_sources++;
    }
    add_input(r, file, is_c || r->cxx_sources > before, is_c);
}

/* ---- Precision of device code: -use_fast_math and related options, with nvcc's meaning. NaN and infinity
 * keep their meaning, unlike with clang's -ffast-math. The back end's options for division and square root go
 * to LLVM, which does not use them otherwise; the pass reads them there for the CPU device ---- */

/* Records an option, "fast", "ftz", "prec-div", "prec-sqrt" or "fmad", on or off. */
static void cc_math_option(struct request *r, const char *name, int on)
{
    struct device_math *m = &r->math;
    if (strcmp(name, "fast") == 0) {
        m->fast = 1;
    } else if (strcmp(name, "ftz") == 0) {
        m->ftz = on ? MATH_ON : MATH_OFF;
    } else if (strcmp(name, "prec-div") == 0) {
        m->prec_div = on ? MATH_ON : MATH_OFF;
    } else if (strcmp(name, "prec-sqrt") == 0) {
        m->prec_sqrt = on ? MATH_ON : MATH_OFF;
    } else {
        m->fmad = on ? MATH_ON : MATH_OFF;
    }
}

static int math_is_on(enum switched given, int otherwise)
{
    return given == MATH_UNSAID ? otherwise : given == MATH_ON;
}

static void math_add_device(struct words *line, const char *word)
{
    mt_words_add(line, "-Xarch_device");
    mt_words_add(line, word);
}

/* Appends clang's words for the precision. */
static void cc_math_words(const struct device_math *m, struct words *line)
{
    if (m->fast) {
        math_add_device(line, "-fgpu-approx-transcendentals");
    }
    if (math_is_on(m->ftz, m->fast)) {
        math_add_device(line, "-fgpu-flush-denormals-to-zero");
    }
    if (m->fmad != MATH_UNSAID) {
        math_add_device(line, m->fmad == MATH_ON ? "-ffp-contract=fast" : "-ffp-contract=off");
    }
    if (!math_is_on(m->prec_div, !m->fast)) {
        mt_words_add(line, "-mllvm");
        mt_words_add(line, m->fast ? "-nvptx-prec-divf32=0" : "-nvptx-prec-divf32=1");
    }
    if (!math_is_on(m->prec_sqrt, !m->fast)) {
        mt_words_add(line, "-mllvm");
        mt_words_add(line, "-nvptx-prec-sqrtf32=0");
        mt_words_add(line, "-DMT_CUDA_APPROX_SQRT");
    }
}

/* ---- Options that clang lacks (nvcc's) or must not see, as a table: what to match, and its translation ----
 */

enum action {
    CLANG,      /* left to clang, which has it, too */
    DROP,       /* no value; has no effect here; `to` says why, or NULL */
    DROP_VALUE, /* one value; has no effect here; `to` says why, or NULL */
    WORDS,      /* no value; becomes `to` (words separated by blanks) */
    VALUE,      /* one value; becomes `to` followed by the value, in one word */
    TWO,        /* one value; becomes two words, `to` and the value */
    TWO_JOINED, /* one value; becomes the two words in `to`, the second followed by the value */
    LIST,       /* a list value; each item becomes `to` followed by the item, in one word */
    EACH,       /* a list value; each item becomes `to` (a word) and the item (a word) */
    LEVEL,      /* `to` followed by the value if that is a number; else left to clang */
    HOST,       /* a list value of host compiler options */
    ARCH,       /* value is an architecture */
    GENCODE,    /* value is arch=…,code=… */
    ARCHS,      /* no value; only prints the architectures, with prefix `to` */
    LANGUAGE,   /* value is a source language */
    STREAM,     /* becomes `to` when the value is "per-thread", else `otherwise` */
    BOOL,       /* true or false; becomes `to` when true, `otherwise` when false */
    MATH,       /* no value; precision of device code: turns on `to` */
    MATH_VALUE, /* value true or false; precision of device code: turns `to` on or off */
    DOPT,       /* one value; -G also optimises */
    WERROR,     /* a list of nvcc's kinds of warnings; else left to clang */
    FORWARD,    /* no value; unknown options go to `to` */
    SHOW,       /* no value; shows commands instead of running them */
    VERSION,    /* no value; only prints versions */
    DLINK,      /* no value; only the device link */
    NO_DLINK,   /* no value; no device link */
    NVLINK,     /* a list value; each item goes to nvlink */
    REFUSE,     /* not supported; `to` says what to do instead */
};

struct rule {
    const char *name; /* name with one dash; two dashes match as well */
    enum action action;
    const char *to, *otherwise;
};

/* clang's driver does not pass the option on for CUDA code, and CUDA's header needs the macro. */
#define PER_THREAD "-Xclang -fgpu-default-stream=per-thread -DCUDA_API_PER_THREAD_DEFAULT_STREAM=1"

static const struct rule rules[] = {
#include "nvcc_options.def"
};

/* Returns the value of option `name` at argv[i]: the text after '=', or the next argument (then *used is 2).
 * NULL: another option. */
static char *cc_option_value(int argc, char **argv, int i, const char *name, int *used)
{
    size_t n = strlen(name);
    const char *arg = argv[i];
    if (strncmp(arg, name, n) != 0 && arg[0] == '-' && arg[1] == '-') {
        arg++;
    }
    if (strncmp(arg, name, n) != 0) {
        return NULL;
    }
    if (arg[n] == '=') {
        *used = 1;
        return mt_words_text("%s", arg + n + 1);
    }
    if (arg[n] != 0) {
        return NULL;
    }
    *used = 2;
    return i + 1 < argc ? argv[i + 1] : NULL;
}

/* Splits a list of nvcc's at commas and blanks outside of quotes; "\," is a comma. Removes quotes. */
static void nvcc_split(const char *list, struct words *out)
{
    char *item = mt_words_text("%s", list);
    size_t n = 0;
    char quote = 0;
    for (const char *p = list;; p++) {
        if (*p == 0 || (!quote && (*p == ',' || isspace((unsigned char)*p)))) {
            item[n] = 0;
            if (n > 0) {
                mt_words_add(out, item);
            }
            n = 0;
            if (*p == 0) {
                break;
            }
        } else if (quote ? *p == quote : *p == '"' || *p == '\'') {
            quote = quote ? 0 : *p;
        } else {
            if (*p == '\\' && (p[1] == ',' || p[1] == '"' || p[1] == '\'')) {
                p++;
            }
            item[n++] = *p;
        }
    }
    free(item);
}

/* Adds an option of the host compiler. Options that choose a machine must not reach the device side. */
static void nvcc_add_host(struct request *r, const char *option)
{
    if ((strncmp(option, "-m", 2) == 0 && strcmp(option, "-m64") != 0) || strncmp(option, "-O", 2) == 0) {
        mt_words_add(&r->user, "-Xarch_host");
    }
    mt_words_add(&r->user, option);
}

/* Adds the architectures of arch=compute_80,code=[sm_80,compute_80], real and virtual, as clang's. */
static void nvcc_add_archs(struct request *r, const char *value)
{
    const char *code = strstr(value, "code=");
    struct words list = {0};
    char *names = mt_words_text("%s", code ? code + 5 : strncmp(value, "arch=", 5) == 0 ? value + 5 : value);
    for (char *p = names; *p; p++) {
        if (*p == '[' || *p == ']' || *p == '"' || *p == '\'') {
            *p = ',';
        }
    }
    nvcc_split(names, &list);
    for (size_t i = 0; i < list.count; i++) {
        cc_request_arch(r, list.word[i]);
    }
}

static int nvcc_takes_value(const struct rule *rule)
{
    switch (rule->action) {
    case CLANG:
    case DROP:
    case WORDS:
    case ARCHS:
    case MATH:
    case FORWARD:
    case SHOW:
    case VERSION:
    case DLINK:
    case NO_DLINK:
    case REFUSE:
        return 0;
    default:
        return 1;
    }
}

static const struct rule *nvcc_find(const char *arg)
{
    if (arg[0] == '-' && arg[1] == '-') {
        arg++;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        size_t n = strlen(rules[i].name);
        int value = nvcc_takes_value(&rules[i]) || rules[i].action == REFUSE;
        if (strncmp(arg, rules[i].name, n) == 0 && (arg[n] == 0 || (value && arg[n] == '='))) {
            return &rules[i];
        }
    }
    return NULL;
}

/* Returns 1 for options that nvcc accepts with a joined value. */
static int cc_nvcc_knows(const char *arg)
{
    static const char *const joined[] = {"-I", "-L", "-l", "-D", "-U", "-O", "-o", "-isystem"};
    for (size_t i = 0; i < sizeof joined / sizeof *joined; i++) {
        if (strncmp(arg, joined[i], strlen(joined[i])) == 0) {
            return 1;
        }
    }
    return nvcc_find(arg) != NULL;
}

/* Handles -Werror KIND,…. Returns -1 if these are not nvcc's kinds, so that the option is clang's. */
static int nvcc_add_werror(struct request *r, const char *value)
{
    static const struct {
        const char *kind, *to;
    } kinds[] = {
        {"all-warnings", "-Werror"},
        {"deprecated-declarations", "-Werror=deprecated-declarations"},
        {"reorder", "-Werror=reorder"},
        {"cross-execution-space-call", NULL}, /* always an error of clang's */
        {"default-stream-launch", NULL},      /* clang 19 has no such warnings */
        {"ext-lambda-captures-this", NULL},
        {"missing-launch-bounds", NULL},
    };
    struct words list = {0}, made = {0};
    nvcc_split(value, &list);
    for (size_t i = 0; i < list.count; i++) {
        size_t k = 0, n = sizeof kinds / sizeof *kinds;
        while (k < n && strcmp(list.word[i], kinds[k].kind) != 0) {
            k++;
        }
        if (k == n) {
            return -1;
        }
        if (kinds[k].to) {
            mt_words_add(&made, kinds[k].to);
        } else {
            cc_request_note(r, "-Werror %s dropped: clang 19 has no such warning", list.word[i]);
        }
    }
    mt_words_append(&r->user, &made);
    return list.count > 0 ? 0 : -1;
}

/* Returns 1 if the value shows that the option is clang's, not nvcc's. */
static int nvcc_leaves(const struct rule *rule, const char *value)
{
    if (rule->action == LEVEL) {
        return !value || !*value || value[strspn(value, "0123456789")] != 0;
    }
    return rule->action == WERROR && !value;
}

static void nvcc_add_joined(struct request *r, const char *list, const char *to)
{
    struct words items = {0};
    nvcc_split(list, &items);
    for (size_t i = 0; i < items.count; i++) {
        mt_words_addf(&r->user, "%s%s", to, items.word[i]);
    }
}

/* Adds "-A -b=" and a value as two words. */
static void nvcc_add_two(struct request *r, const char *to, const char *value)
{
    const char *blank = strchr(to, ' ');
    if (!blank) {
        mt_words_add(&r->user, to);
        mt_words_add(&r->user, value);
    } else {
        mt_words_addf(&r->user, "%.*s", (int)(blank - to), to);
        mt_words_addf(&r->user, "%s%s", blank + 1, value);
    }
}

/* Applies an option without a value. */
static void nvcc_apply_switch(struct request *r, const struct rule *rule)
{
    switch (rule->action) {
    case WORDS:
        nvcc_split(rule->to, &r->user);
        break;
    case ARCHS:
        r->lists = rule->to;
        break;
    case MATH:
        cc_math_option(r, rule->to, 1);
        break;
    case SHOW:
        r->show = 1;
        break;
    case VERSION:
        r->version = 1;
        break;
    case DLINK:
        r->dlink = 1;
        break;
    case NO_DLINK:
        r->no_device_link = 1;
        break;
    default: /* DROP, and FORWARD, which request_forwards handles */
        break;
    }
}

static void nvcc_apply(struct request *r, const struct rule *rule, const char *value)
{
    struct words list = {0};
    switch (rule->action) {
    case VALUE:
    case LEVEL:
        mt_words_addf(&r->user, "%s%s", rule->to, value);
        break;
    case TWO:
    case TWO_JOINED:
        nvcc_add_two(r, rule->to, value);
        break;
    case LIST:
        nvcc_add_joined(r, value, rule->to);
        break;
    case EACH:
        nvcc_split(value, &list);
        for (size_t i = 0; i < list.count; i++) {
            nvcc_add_two(r, rule->to, list.word[i]);
        }
        break;
    case HOST:
        nvcc_split(value, &list);
        for (size_t i = 0; i < list.count; i++) {
            nvcc_add_host(r, list.word[i]);
        }
        break;
    case ARCH:
    case GENCODE:
        nvcc_add_archs(r, value);
        break;
    case NVLINK:
        nvcc_split(value, &r->nvlink);
        break;
    case LANGUAGE:
        cc_request_language(r, value);
        break;
    case STREAM:
        nvcc_split(strcmp(value, "per-thread") == 0 ? rule->to : rule->otherwise, &r->user);
        break;
    case BOOL:
        nvcc_split(strcmp(value, "false") == 0 ? rule->otherwise : rule->to, &r->user);
        break;
    case MATH_VALUE:
        cc_math_option(r, rule->to, strcmp(value, "false") != 0);
        break;
    case DOPT:
        r->dopt = 1;
        break;
    default:
        nvcc_apply_switch(r, rule);
        break;
    }
}

/* Notes the translation of `arg`: the words of r->user from `words` on, and its architectures from `archs`
 * on. */
static void nvcc_note(struct request *r, const struct rule *rule, const char *arg, size_t words, size_t archs)
{
    char *made = mt_words_text("%s", "");
    for (size_t i = words; i < r->user.count; i++) {
        made = mt_words_text("%s%s%s", made, *made ? " " : "", r->user.word[i]);
    }
    for (size_t i = archs; i < r->archs.count; i++) {
        made = mt_words_text("%s%s--cuda-gpu-arch=%s", made, *made ? " " : "", r->archs.word[i]);
    }
    if (*made && strcmp(made, arg) != 0) {
        cc_request_note(r, "%s became %s", arg, made);
    } else if (rule->action == DROP || rule->action == DROP_VALUE) {
        cc_request_note(r, "%s dropped: %s", arg, rule->to ? rule->to : "not needed here");
    } else if (!*made && rule->action != WERROR) {
        cc_request_note(r, "%s: mt-cc's to do", arg);
    }
}

/* Translates argv[i] if it is nvcc's and appends the result to r. Returns the number of arguments used, 0 if
 * it is not nvcc's, or -1 after a message (missing value). */
static int cc_nvcc_option(struct request *r, int argc, char **argv, int i)
{
    const struct rule *rule = nvcc_find(argv[i]);
    if (!rule || rule->action == CLANG) {
        return 0;
    }
    if (rule->action == REFUSE) {
        mt_cli_say("%s is not supported: %s", argv[i], rule->to);
        return -1;
    }
    int used = 1;
    const char *value = NULL;
    size_t before = r->user.count, archs = r->archs.count;
    if (nvcc_takes_value(rule)) {
        value = cc_option_value(argc, argv, i, rule->name, &used);
        if (nvcc_leaves(rule, value) || (rule->action == WERROR && nvcc_add_werror(r, value) != 0)) {
            return 0;
        }
        if (!value) {
            mt_cli_say("%s needs a value", argv[i]);
            return -1;
        }
    }
    nvcc_apply(r, rule, value);
    nvcc_note(r, rule, used == 2 ? mt_words_text("%s %s", argv[i], value) : argv[i], before, archs);
    return used;
}

/* ---- Files of options, nvcc's --options-file and clang's @FILE, whose words replace the argument ---- */

#define DEEPEST 16 /* deepest nesting of files */

/* Returns the next word at *p without quotes, or NULL at the end. A backslash keeps the next character, but
 * not in single quotes. */
static char *response_next(const char **p)
{
    while (isspace((unsigned char)**p)) {
        ++*p;
    }
    if (!**p) {
        return NULL;
    }
    char *word = mt_words_text("%s", *p), *out = word, quote = 0;
    for (; **p && (quote || !isspace((unsigned char)**p)); ++*p) {
        if (quote ? **p == quote : **p == '"' || **p == '\'') {
            quote = quote ? 0 : **p;
        } else {
            if (**p == '\\' && quote != '\'' && (*p)[1]) {
                ++*p;
            }
            *out++ = **p;
        }
    }
    *out = 0;
    return word;
}

/* Returns the file's contents as a string on the heap, or NULL with errno. */
static char *response_read(const char *path)
{
    FILE *f = fopen(path, "re");
    char *contents = NULL;
    size_t room = 0;
    if (!f) {
        return NULL;
    }
    if (getdelim(&contents, &room, 0, f) < 0) {
        free(contents);
        contents = feof(f) ? mt_words_text("%s", "") : NULL;
    }
    fclose(f);
    return contents;
}

static int response_add(struct words *out, int argc, char **argv, int depth);

/* Adds the words of a file. `optional`: a missing file leaves the argument unchanged, as in clang. */
static int response_add_file(struct words *out, const char *path, int optional, int depth)
{
    struct words inside = {0};
    char *contents = response_read(path), *word;
    if (!contents && optional) {
        mt_words_addf(out, "@%s", path);
        return 0;
    }
    if (!contents || depth == DEEPEST) {
        mt_cli_say("options file %s: %s", path,
                   contents ? "too many files that name files" : strerror(errno));
        return -1;
    }
    for (const char *p = contents; (word = response_next(&p));) {
        mt_words_take(&inside, word);
    }
    return response_add(out, (int)inside.count, inside.word, depth + 1);
}

/* Adds the words of files in a list separated by commas. */
static int response_add_files(struct words *out, const char *list, int depth)
{
    char *copy = mt_words_text("%s", list), *save = NULL;
    for (char *path = strtok_r(copy, ",", &save); path; path = strtok_r(NULL, ",", &save)) {
        if (response_add_file(out, path, 0, depth) != 0) {
            return -1;
        }
    }
    return 0;
}

static int response_add(struct words *out, int argc, char **argv, int depth)
{
    for (int i = 0; i < argc; i++) {
        int used = 0;
        char *list = cc_option_value(argc, argv, i, "-optf", &used);
        if (!used) {
            list = cc_option_value(argc, argv, i, "-options-file", &used);
        }
        if (used && !list) {
            mt_cli_say("%s needs a value", argv[i]);
            return -1;
        }
        if (used ? response_add_files(out, list, depth) != 0
                 : argv[i][0] == '@' && argv[i][1] && response_add_file(out, argv[i] + 1, 1, depth) != 0) {
            return -1;
        }
        if (used) {
            i += used - 1;
        } else if (argv[i][0] != '@' || !argv[i][1]) {
            mt_words_take(out, argv[i]);
        }
    }
    return 0;
}

/* Appends the arguments, with -optf FILE and @FILE replaced by the words in the file. Returns 0, or -1 after
 * a message. */
static int cc_response_expand(struct words *out, int argc, char **argv)
{
    return response_add(out, argc, argv, 0);
}

/* ---- Parsing the command line ---- */

/* Handles mt-cc's own options. Returns 1 if argv[i] was one, 0 if not, or -1 after a message. */
static int own_option(struct request *r, const char *arg)
{
    if (strcmp(arg, "--show") == 0) {
        r->show = 1;
        return 1;
    }
    if (strcmp(arg, "-q") == 0 || strcmp(arg, "--quiet") == 0) {
        r->quiet = 1;
        return 1;
    }
    if (strcmp(arg, "--plain") == 0) {
        r->plain = 1;
        return 1;
    }
    if (strcmp(arg, "--host") == 0 || strcmp(arg, "--host=atomic") == 0) {
        r->host = 1;
        mt_words_addf(&r->plugin, "-fplugin-arg-memtrace-host=%s", arg[6] ? arg + 7 : "on");
        return 1;
    }
    if (strncmp(arg, "--host=", 7) == 0) {
        mt_cli_say("%s: there are --host and --host=atomic", arg);
        return -1;
    }
    if (strncmp(arg, "--mt-", 5) != 0) {
        return 0;
    }
    for (const struct option *o = cc_options(); o->name; o++) {
        size_t n = strlen(o->name);
        if (request_of_plugin(o) && strncmp(arg + 2, o->name, n) == 0 && arg[2 + n] == '=') {
            mt_words_addf(&r->plugin, "-fplugin-arg-memtrace-%s", arg + 5);
            return 1;
        }
    }
    const char *near = mt_near_option(arg, cc_options());
    if (near) {
        mt_cli_say("unknown option %s; did you mean --%s?", arg, near);
    } else {
        mt_cli_say("unknown option %s; mt-cc --help lists those that there are", arg);
    }
    return -1;
}

/* Handles an option of clang's at argv[i]. Returns the number of arguments used. */
static int clang_option(struct request *r, int argc, char **argv, int i)
{
    int two = IS_ONE_OF(argv[i], takes_value) && i + 1 < argc;
    const char *library = strncmp(argv[i], "-l", 2) != 0 ? NULL : two ? argv[i + 1] : argv[i] + 2;
    if (library && is_cudart(library, 0)) {
        cc_request_note(r, "-l%s dropped: libmemtrace.so is the CUDA runtime", library);
        return 1 + two;
    }
    if (library && is_driver(library, 0)) {
        cc_request_note(r, "-l%s dropped: no program needs the driver here", library);
        return 1 + two;
    }
    const char *folder = strncmp(argv[i], "-isystem", 8) == 0 ? argv[i] + 8
                         : strncmp(argv[i], "-I", 2) == 0     ? argv[i] + 2
                                                              : NULL;
    if (folder && is_toolkit_include(r, two ? argv[i + 1] : folder)) {
        cc_request_note(r, "%s dropped: the overlay's header folder replaces it",
                        two ? mt_words_text("%s %s", argv[i], argv[i + 1]) : argv[i]);
        return 1 + two;
    }
    if (strncmp(argv[i], "-fplugin=", 9) == 0 && strstr(argv[i], "/libMemtrace-AA.so")) {
        cc_request_note(r, "%s dropped: mt-cc adds it", argv[i]);
        return 1;
    }
    if (!two && (r->forward & FORWARD_LINKER) && !cc_nvcc_knows(argv[i])) {
        mt_words_add(&r->forwarded, argv[i]);
        if (!(r->forward & FORWARD_COMPILER)) {
            return 1;
        }
    }
    mt_words_add(&r->user, argv[i]);
    if (two) {
        mt_words_add(&r->user, argv[i + 1]);
    }
    return 1 + two;
}

/* Finds -forward-unknown-…, which also apply to options before them. */
static int request_forwards(int argc, char **argv)
{
    static const char *const names[] = {"-forward-unknown-to-host-compiler",
                                        "-forward-unknown-to-host-linker", "-forward-unknown-opts"};
    int forward = 0;
    for (int i = 1; i < argc; i++) {
        for (int n = 0; n < 3; n++) {
            if (strcmp(argv[i] + (strncmp(argv[i], "--", 2) == 0), names[n]) == 0) {
                forward |= n + 1; /* FORWARD_COMPILER, FORWARD_LINKER, both */
            }
        }
    }
    return forward;
}

/* Returns the next of the words for clang that is no option's value, or NULL at the end. */
static const char *request_next(const struct request *r, size_t *i)
{
    if (*i >= r->user.count) {
        return NULL;
    }
    const char *word = r->user.word[*i];
    *i += IS_ONE_OF(word, takes_value) ? 2 : 1;
    return word;
}

static int cc_request_has(const struct request *r, const char *option)
{
    const char *word;
    for (size_t i = 0; (word = request_next(r, &i));) {
        if (strcmp(word, option) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 for -E of CUDA sources, which gives one file, as in nvcc: what the device side of the first
 * architecture sees. Returns 0 if a side is named, or another action of clang's (-Xclang -plugin …). */
static int request_preprocesses_device(const struct request *r)
{
    for (size_t i = 0; i < r->user.count; i++) {
        if (strcmp(r->user.word[i], "-plugin") == 0) {
            return 0;
        }
    }
    return r->cuda && cc_request_has(r, "-E") && !cc_request_has(r, "--cuda-host-only") &&
           !cc_request_has(r, "--cuda-device-only");
}

/* Returns 1 if the command determines the optimisation of device code. nvcc optimises it fully without -G,
 * whatever the host's level. */
static int request_says_level(const struct request *r)
{
    for (size_t i = 0; i < r->user.count; i++) {
        int host_only = i > 0 && strcmp(r->user.word[i - 1], "-Xarch_host") == 0;
        int file = i > 0 && strcmp(r->user.word[i - 1], "-o") == 0;
        if (strncmp(r->user.word[i], "-O", 2) == 0 && !host_only && !file) {
            return 1;
        }
    }
    return cc_request_has(r, "--cuda-noopt-device-debug") && !r->dopt;
}

/* Sets fields that depend on the whole command line. */
static void request_finish(struct request *r)
{
    const char *word;
    for (size_t i = 0; (word = request_next(r, &i));) {
        r->links &= !IS_ONE_OF(word, no_link);
        r->rdc = strcmp(word, "-fgpu-rdc") == 0 || (r->rdc && strcmp(word, "-fno-gpu-rdc") != 0);
        r->no_device_link |= strcmp(word, "--offload-new-driver") == 0 || strcmp(word, "--offload-link") == 0;
    }
    if (r->dopt && cc_request_has(r, "--cuda-noopt-device-debug")) {
        mt_words_add(&r->user, "--no-cuda-noopt-device-debug");
    }
    r->optimises_device = r->cuda && !request_says_level(r);
    r->verbose = cc_request_has(r, "-v");
    r->relocatable = cc_request_has(r, "-r");
    r->depends = cc_request_has(r, "-M") || cc_request_has(r, "-MM");
    if (request_preprocesses_device(r)) {
        mt_words_add(&r->user, "--cuda-device-only");
        r->first_arch = 1;
        cc_request_note(r,
                        "-E is for the device side of the first architecture, as with nvcc; --cuda-host-only "
                        "is the other");
    }
    for (size_t i = 0; r->links && i < r->forwarded.count; i++) {
        mt_words_add(&r->user, "-Xlinker");
        mt_words_take(&r->user, r->forwarded.word[i]);
    }
}

/* Parses the command line. Returns 0, or 2 after a message. */
static int cc_request_read(struct request *r, int argc, char **argv)
{
    r->links = 1;
    r->forward = request_forwards(argc, argv);
    for (int i = 1; i < argc; i++) {
        int used = own_option(r, argv[i]);
        if (used == 0) {
            char *arch = cc_option_value(argc, argv, i, "--cuda-gpu-arch", &used);
            if (!arch) {
                arch = cc_option_value(argc, argv, i, "--offload-arch", &used);
            }
            if (arch) {
                cc_request_arch(r, arch);
            } else {
                used = cc_nvcc_option(r, argc, argv, i);
            }
        }
        if (used < 0) {
            return 2;
        }
        if (used == 0 && (argv[i][0] != '-' || argv[i][1] == 0)) {
            add_file(r, argv[i]);
            used = 1;
        } else if (used == 0) {
            used = clang_option(r, argc, argv, i);
        }
        i += used - 1;
    }
    request_finish(r);
    return 0;
}

#define MT_ARCHS 256 /* most architectures, by number (90) */

/* Device code that some files have in common. Zero-initialised is empty. */
struct device_code {
    int fatbins;
    unsigned char arch[MT_ARCHS]; /* 1: all of the files have GPU code for this architecture */
};

/* ---- mt-cc --env: shell lines that make clang behave as mt-cc, so that clang++ -fplugin=libMemtrace-AA.so
 * kernel.cu needs no other option. clang 19 takes further options from CCC_OVERRIDE_OPTIONS, here a
 * configuration file ---- */

#define OVERRIDES "CCC_OVERRIDE_OPTIONS"
#define CONFIGURATION "memtrace.cfg"

static void cut_name(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash) {
        *slash = 0;
    }
}

/* Returns the real path of the program that a shell would run by this name, or NULL. */
static char *find_program(const char *name)
{
    char path[PATH_MAX], real[PATH_MAX];
    return mt_files_executable(name, path) == 0 && realpath(path, real) ? mt_words_text("%s", real) : NULL;
}

/* Returns the clang++ 19 that mt-cc would run, or NULL after a message. */
static char *cc_find_clang(void)
{
    const char *chosen = getenv("MEMTRACE_CLANG");
    int choice = chosen && *chosen;
    char *clang = find_program(choice ? chosen : "clang++-19");
    if (!clang && !choice) {
        clang = find_program(MT_CLANGXX);
    }
    if (!clang) {
        mt_cli_say(MT_CC_NO_CLANG);
    }
    return clang;
}

/* Returns a folder in which clang 19 is named clang++, or NULL after a message. */
static char *clang_folder(void)
{
    char *clang = cc_find_clang();
    if (!clang) {
        return NULL;
    }
    cut_name(clang);
    if (access(mt_words_text("%s/clang++", clang), X_OK) != 0) {
        mt_cli_say("note: %s has no clang++: say clang++-19 instead", clang);
    }
    return clang;
}

/* Prints NAME=value, with `value` before the present contents. */
static void print_path(const char *name, const char *value)
{
    printf("export %s='%s'${%s:+\":$%s\"}\n", name, value, name, name);
}

/* Prints the shell lines on stdout. Returns an exit code. */
static int cc_print_environment(const struct places *p)
{
    char *bin = mt_words_text("%s", p->include), *lib = mt_words_text("%s", p->plugin),
         *clang = clang_folder();
    cut_name(bin); /* the tree's root */
    cut_name(lib);
    char *file = mt_words_text("%s/../" CONFIGURATION, p->overlay), real[PATH_MAX];
    if (!clang) {
        return 1;
    }
    if (!realpath(file, real)) {
        return mt_cli_fail("%s: no such configuration file; build memtrace first (./setup build)", file);
    }
    if (strpbrk(real, " \t\n'") || strpbrk(bin, ":'") || strpbrk(clang, ":'")) {
        return mt_cli_fail("%s: clang takes no blanks and quotes here; use mt-cc itself", real);
    }
    print_path("PATH", mt_words_text("%s/bin:%s", bin, clang));
    print_path("LD_LIBRARY_PATH", lib);
    printf("export " OVERRIDES "='# ^-Wno-unknown-cuda-version ^--config=%s'\n", real);
    return 0;
}

/* Removes the settings of --env, since mt-cc itself passes all flags to clang. */
static void cc_forget_environment(void)
{
    const char *overrides = getenv(OVERRIDES);
    if (overrides && strstr(overrides, "/" CONFIGURATION)) {
        unsetenv(OVERRIDES);
    }
}

/* Finds memtrace's files relative to /proc/self/exe, so that build and install trees can be moved.
 *   build tree:   bin/mt-cc  lib     cuda-overlay                  include (a link to the sources')
 *   install tree: bin/mt-cc  LIBDIR  LIBDIR/memtrace/cuda-overlay  include */

/* Reads the key=value lines of the overlay's marker. Returns 0, or -1 if it is missing. */
static int read_marker(struct places *p)
{
    char line[PATH_MAX + 16];
    FILE *f = fopen(mt_words_text("%s/bin/.memtrace-overlay", p->overlay), "re");
    if (!f) {
        return -1;
    }
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "cuda=", 5) == 0) {
            p->toolkit = mt_words_text("%s", line + 5);
        }
        sscanf(line, "version=%u", &p->cuda);
    }
    fclose(f);
    return p->toolkit && p->cuda ? 0 : -1;
}

static void places_set(struct places *p, const char *root, const char *libdir, const char *overlay)
{
    p->overlay = mt_words_text("%s/%s", root, overlay);
    p->plugin = mt_words_text("%s/%s/libMemtrace-AA.so", root, libdir);
    p->runtime = mt_words_text("%s/%s/libmemtrace.so", root, libdir);
    p->host = mt_words_text("%s/%s/libmemtrace-host.so", root, libdir);
    p->include = mt_words_text("%s/include", root);
}

/* Finds memtrace's files in the build or install tree that contains this executable. Returns 0, or -1 after a
 * message. */
static int cc_places_find(struct places *p)
{
    char root[PATH_MAX];
    memset(p, 0, sizeof *p);
    if (mt_files_self(root, 2) != 0) { /* path of the program is root/bin/mt-cc */
        mt_cli_say("cannot read /proc/self/exe");
        return -1;
    }
    places_set(p, root, "lib", "cuda-overlay");
    if (read_marker(p) == 0) {
        return 0;
    }
    places_set(p, root, MT_INSTALL_LIBDIR, MT_INSTALL_LIBDIR "/memtrace/cuda-overlay");
    if (read_marker(p) == 0) {
        return 0;
    }
    const char *tool = mt_words_text("%s/libexec/memtrace/mt-overlay", root); /* name in an install tree */
    cc_find_clang();
    mt_cli_say("no CUDA overlay: neither %s/cuda-overlay nor %s", root, p->overlay);
    mt_cli_say("%s: %s --cuda /usr/local/cuda --out %s --runtime %s --compiler %s/bin/mt-cc",
               access(tool, X_OK) == 0 ? "make one of your CUDA toolkit"
                                       : "build memtrace (./setup build), or make one",
               access(tool, X_OK) == 0 ? tool : "mt-overlay", p->overlay, p->runtime, root);
    return -1;
}

/* ---- The command line for clang ---- */

#define DEFAULT_ARCH "sm_90"
#define DEFAULT_CLANG "clang++-19"

static const struct mt_command command = {
    .of = MT_OF_CC,
    .before = "Usage: mt-cc [OPTION]... FILE...\n"
              "Compiles and links CUDA, C++ and C programs with clang++-19 so that they trace their memory "
              "accesses.\n"
              "Options are clang's and nvcc's (-arch, -gencode, -Xcompiler, -rdc=true, -lineinfo, …), and:\n",
    .after = "Environment: MEMTRACE_CLANG, the clang++ 19 to run instead of clang++-19.\n"
             "Exit code: clang's; 1 when it cannot be run, 2 for a wrong option.\n",
};

static int main_exists(const char *path, const char *what)
{
    if (access(path, R_OK) == 0) {
        return 1;
    }
    mt_cli_say("%s: no such %s; build memtrace first (./setup build)", path, what);
    return 0;
}

static int main_traces_host(const struct request *r, const struct places *p)
{
    if (!r->host || main_exists(p->host, "runtime of host tracing")) {
        return 1;
    }
    mt_cli_left_out("host");
    return 0;
}

static int are_there(const struct request *r, const struct places *p)
{
    if (r->compiles && !r->plain && !main_exists(p->plugin, "plugin")) {
        return 0;
    }
    return !r->links || r->inputs == 0 || (main_exists(p->runtime, "runtime") && main_traces_host(r, p));
}

/* Returns 1 if CMake compiles this to identify the compiler. It must recognise clang, whose options mt-cc
 * accepts. */
static int asks_for_compiler(const struct request *r)
{
    static const char name[] = "CMakeCUDACompilerId.cu";
    for (size_t i = 0; i < r->sources.count; i++) {
        size_t n = strlen(r->sources.word[i]);
        if (n >= sizeof name - 1 && strcmp(r->sources.word[i] + n - (sizeof name - 1), name) == 0) {
            return 1;
        }
    }
    return 0;
}

static int main_compare_archs(const void *a, const void *b)
{
    return atoi(*(char *const *)a + strlen("sm_")) - atoi(*(char *const *)b + strlen("sm_"));
}

/* Defines nvcc's __CUDA_ARCH_LIST__: ten times the architectures' numbers, in ascending order. */
static void main_add_arch_list(struct words *line, const struct request *r)
{
    struct words archs = {0};
    char *list = mt_words_text("%s", "");
    mt_words_append(&archs, &r->archs);
    if (archs.count == 0) {
        mt_words_add(&archs, DEFAULT_ARCH);
    }
    qsort(archs.word, archs.count, sizeof *archs.word, main_compare_archs);
    for (size_t i = 0; i < archs.count; i++) {
        list = mt_words_text("%s%s%d0", list, i > 0 ? "," : "", atoi(archs.word[i] + strlen("sm_")));
    }
    mt_words_addf(line, "-D__CUDA_ARCH_LIST__=%s", list);
}

/* Turns off errors of clang 19 for C code that gcc before 14 only warns about. */
static void main_add_c_dialect(struct words *line)
{
    static const char *const warned[] = {"implicit-function-declaration", "implicit-int", "int-conversion",
                                         "incompatible-function-pointer-types", "return-mismatch"};
    for (size_t i = 0; i < sizeof warned / sizeof *warned; i++) {
        mt_words_addf(line, "-Wno-error=%s", warned[i]);
    }
}

/* Returns 1 if the user chose the value of this option of the plugin. */
static int main_is_chosen(const struct request *r, const char *option)
{
    for (size_t i = 0; i < r->plugin.count; i++) {
        if (strncmp(r->plugin.word[i], option, strlen(option)) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Record calls in the GPU's code are most of the time of a compilation, and only traces on a GPU need them:
 * they are made if the command names an architecture, or if there is a GPU here (MEMTRACE_DEVICE, if set,
 * says so). */
static int main_leaves_out_gpu(const struct request *r)
{
    const char *device = getenv("MEMTRACE_DEVICE");
    int gpu = device && strcmp(device, "gpu") == 0, cpu = device && strcmp(device, "cpu") == 0;
    return r->cuda && !r->plain && r->archs.count == 0 && !main_is_chosen(r, GPU_TRACE) && !gpu &&
           (cpu || !mt_nvidia_is_here());
}

/* Adds flags before the user's, which take precedence. */
static void add_compile_flags(struct words *line, const struct request *r, const struct places *p)
{
    mt_words_add(line, "-Wno-unknown-cuda-version");
    if (r->compiles) {
        mt_words_add(line, "-Wno-register"); /* an error in clang's C++17, but not in nvcc's */
        main_add_arch_list(line, r);
    }
    if (r->c_files.count > 0) {
        main_add_c_dialect(line);
    }
    if (r->cuda) {
        mt_words_addf(line, "--cuda-path=%s", p->overlay);
        /* clang itself would look there after /usr/local/include and /usr/include, which may contain CUDA
         * headers. */
        mt_words_add(line, "-isystem");
        mt_words_addf(line, "%s/include", p->overlay);
        if (asks_for_compiler(r)) {
            mt_words_add(line, "-DMT_CUDA_NO_NVCC");
        }
        if (r->archs.count == 0) {
            mt_words_add(line, "--cuda-gpu-arch=" DEFAULT_ARCH);
        }
        for (size_t i = 0; i < (r->first_arch && r->archs.count > 1 ? 1 : r->archs.count); i++) {
            mt_words_addf(line, "--cuda-gpu-arch=%s", r->archs.word[i]);
        }
        cc_math_words(&r->math, line);
        if (r->optimises_device) {
            mt_words_add(line, "-Xarch_device");
            mt_words_add(line, "-O3");
        }
    }
    if (r->compiles && !r->plain) {
        mt_words_addf(line, "-fplugin=%s", p->plugin);
        mt_words_append(line, &r->plugin);
        if (main_leaves_out_gpu(r)) {
            mt_words_add(line, GPU_TRACE "off");
        }
        if (r->host) { /* keeps names of variables */
            mt_words_add(line, "-Xarch_host");
            mt_words_add(line, "-fno-discard-value-names");
        }
    }
}

/* Adds flags after the user's: header folders searched last, and the runtime. */
static void add_last_flags(struct words *line, const struct request *r, const struct places *p)
{
    if (r->compiles) {
        mt_words_add(line, "-idirafter");
        mt_words_add(line, p->include);
        mt_words_add(line, "-idirafter");
        mt_words_addf(line, "%s/include", p->overlay);
    }
    if (r->links && !r->relocatable && r->inputs > 0) {
        mt_words_addf(line, "-L%s/lib64", p->overlay);
        if (r->language) {
            mt_words_add(line, "-x");
            mt_words_add(line, "none");
        }
        if (r->host) {
            mt_words_add(line, p->host);
        }
        mt_words_add(line, p->runtime);
        mt_words_add(line, "-pthread");
        mt_words_add(line, "-ldl");
    }
}

/* Executes clang; returns only if that fails. */
static int main_become(struct words *line)
{
    const char *chosen = getenv("MEMTRACE_CLANG");
    int is_clang =
        strcmp(line->word[0], DEFAULT_CLANG) == 0 || (chosen && strcmp(line->word[0], chosen) == 0);
    if (strcmp(line->word[0], DEFAULT_CLANG) == 0) {
        execvp(line->word[0], line->word);
        line->word[0] = (char *)MT_CLANGXX; /* not in PATH: the path known when memtrace was built */
    }
    execvp(line->word[0], line->word);
    return mt_cli_fail("cannot run %s: %s%s", line->word[0], strerror(errno),
                       is_clang ? "; " MT_CC_NO_CLANG : "");
}

/* Returns clang's whole command line, given the inputs and options in its middle. */
static struct words cc_complete(const struct request *r, const struct words *middle, int links)
{
    const char *chosen = getenv("MEMTRACE_CLANG");
    struct request part = *r;
    struct words line = {0};
    part.links = links;
    mt_words_add(&line, chosen && *chosen ? chosen : DEFAULT_CLANG);
    if (!r->compiles) {
        mt_words_add(&line, "-Qunused-arguments"); /* users of nvcc pass compile options to links */
    }
    add_compile_flags(&line, &part, r->places);
    mt_words_append(&line, middle);
    while (!links && line.count > 2 && strcmp(line.word[line.count - 2], "-x") == 0) {
        line.count -= 2; /* no input follows, of which clang would warn */
        line.word[line.count] = NULL;
    }
    add_last_flags(&line, &part, r->places);
    return line;
}

/* Runs a command, or shows it. Returns its exit code. `out`: file for its standard output, or -1. */
static int cc_run_line(const struct request *r, struct words *line, int out)
{
    int status = 0;
    if (r->show) {
        mt_words_print(line);
        putchar('\n');
        return 0;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (out >= 0 && dup2(out, STDOUT_FILENO) < 0) {
            _exit(1);
        }
        _exit(main_become(line));
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return mt_cli_fail("cannot run %s: %s", line->word[0], strerror(errno));
    }
    if (WIFSIGNALED(status)) {
        raise(WTERMSIG(status));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Makes a folder for temporary files; with --show only names it. NULL after a message. */
static char *cc_make_folder(const struct request *r)
{
    const char *tmp = getenv("TMPDIR");
    char *folder = mt_words_text("%s/mt-cc-XXXXXX", tmp && *tmp ? tmp : "/tmp"), why[PATH_MAX + 128];
    if (r->show) {
        return folder;
    }
    if (!mkdtemp(folder)) {
        mt_cli_say("cannot make %s: %s; set TMPDIR to another folder", folder, strerror(errno));
        return NULL;
    }
    if (mt_trust_file(folder, why, sizeof why) != 0) { /* the folder will contain code */
        rmdir(folder);
        mt_cli_say("no temporary folder: %s; set TMPDIR to another folder", why);
        return NULL;
    }
    return folder;
}

/* ---- C files together with C++ or CUDA sources, and a standard for one language: clang has a single -std
 * for all inputs of a command, and refuses C++'s for C and C's for C++ ---- */

static int is_cxx_standard(const char *word)
{
    return strncmp(word, "-std=c++", 8) == 0 || strncmp(word, "-std=gnu++", 10) == 0;
}

static int is_c_standard(const char *word)
{
    return strncmp(word, "-std=", 5) == 0 && !is_cxx_standard(word) && strncmp(word, "-std=cuda", 9) != 0;
}

static int languages_holds(const struct words *list, const char *pointer)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->word[i] == pointer) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 if there is a standard for C (cxx 0) or for C++ (cxx 1). */
static int languages_has_standard(const struct request *r, int cxx)
{
    for (size_t i = 0; i < r->user.count; i++) {
        if (cxx ? is_cxx_standard(r->user.word[i]) : is_c_standard(r->user.word[i])) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 if there are C and other sources, and a standard for only one of the languages: the command must
 * be run in parts. */
static int cc_languages_mixed(const struct request *r)
{
    return r->c_files.count > 0 && r->cxx_sources > 0 &&
           (languages_has_standard(r, 0) || languages_has_standard(r, 1));
}

/* Removes the other language's standard from r->user, if the sources are all C, or all C++ or CUDA. */
static void cc_languages_drop_standard(struct request *r)
{
    size_t kept = 0;
    int c = r->c_files.count > 0;
    if (c == (r->cxx_sources > 0)) {
        return;
    }
    for (size_t i = 0; i < r->user.count; i++) {
        if (c ? is_cxx_standard(r->user.word[i]) : is_c_standard(r->user.word[i])) {
            cc_request_note(r, "%s dropped: the sources are %s", r->user.word[i], c ? "C" : "C++");
        } else {
            r->user.word[kept++] = r->user.word[i];
        }
    }
    r->user.count = kept;
}

/* Returns the words that compile C file `i` into `object`, or with object NULL all C files into their default
 * outputs. */
static struct words cc_languages_c(const struct request *r, size_t file, const char *object)
{
    struct words out = {0};
    mt_words_add(&out, "-Qunused-arguments"); /* options for linking or for CUDA */
    if (object) {
        mt_words_add(&out, "-c");
        mt_words_add(&out, "-o");
        mt_words_add(&out, object);
    }
    for (size_t i = 0; i < r->user.count; i++) {
        char *word = r->user.word[i];
        if (languages_holds(&r->files, word)) {
            if (object ? word == r->c_files.word[file] : languages_holds(&r->c_files, word)) {
                mt_words_take(&out, word);
            }
        } else if (object && strcmp(word, "-o") == 0) {
            i++;
        } else if (!is_cxx_standard(word) && !(object && strncmp(word, "-o", 2) == 0)) {
            mt_words_take(&out, word);
        }
    }
    return out;
}

/* Removes "-x c -x none" with nothing in between, of which clang would warn. */
static struct words without_idle_languages(const struct words *list)
{
    struct words out = {0};
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->word[i], "-x") == 0 &&
            (i + 2 >= list->count || strcmp(list->word[i + 2], "-x") == 0)) {
            i++;
        } else {
            mt_words_take(&out, list->word[i]);
        }
    }
    return out;
}

/* Returns the words that compile one source into `object`. */
static struct words cc_languages_one(const struct request *r, const char *source, const char *object)
{
    struct words out = {0};
    int is_c = languages_holds(&r->c_files, source);
    mt_words_add(&out, "-Qunused-arguments");
    mt_words_add(&out, "-c");
    mt_words_add(&out, "-o");
    mt_words_add(&out, object);
    for (size_t i = 0; i < r->user.count; i++) {
        char *word = r->user.word[i];
        if (strcmp(word, "-o") == 0) {
            i++;
        } else if (languages_holds(&r->files, word) ? word == source
                                                    : !(is_c ? is_cxx_standard(word) : is_c_standard(word)) &&
                                                          strncmp(word, "-o", 2) != 0) {
            mt_words_take(&out, word);
        }
    }
    return without_idle_languages(&out);
}

/* Returns the words of a link, with each source replaced by its object. */
static struct words cc_languages_linked(const struct request *r, const struct words *objects)
{
    struct words out = {0};
    size_t next = 0;
    mt_words_add(&out, "-Qunused-arguments");
    for (size_t i = 0; i < r->user.count; i++) {
        char *word = r->user.word[i];
        if (strcmp(word, "-x") == 0) {
            i++;
        } else if (!is_c_standard(word)) {
            mt_words_take(&out, languages_holds(&r->sources, word) ? objects->word[next++] : word);
        }
    }
    return out;
}

/* Returns the words for the other sources, with each C file replaced by its object, or removed (objects
 * NULL). */
static struct words cc_languages_rest(const struct request *r, const struct words *objects)
{
    struct words out = {0};
    size_t next = 0;
    for (size_t i = 0; i < r->user.count; i++) {
        char *word = r->user.word[i];
        if (!languages_holds(&r->c_files, word)) {
            if (!is_c_standard(word)) {
                mt_words_take(&out, word);
            }
        } else if (objects) {
            mt_words_add(&out, "-x");
            mt_words_add(&out, "none");
            mt_words_take(&out, objects->word[next++]);
            mt_words_add(&out, "-x");
            mt_words_add(&out, "c");
        }
    }
    return out;
}

/* ---- Inputs with relocatable device code, and their architectures, read from the files ---- */

#define SECTION "__nv_relfatbin" /* section of host objects; archives contain the objects unchanged */
#define LINKED                                                                                               \
    "def __nv_" /* symbol in the output of a device link: names a file that was linked, which nvlink must    \
                   skip */
#define KIND_ELF 2

/* Header of a fatbin, as CUDA 8 to 13 write it; entries follow. */
struct fatbin_header {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size;
};
struct fatbin_entry {
    uint16_t kind, version;
    uint32_t header_size;
    uint64_t size;
    uint32_t unknown[3], arch;
};

/* Adds the architectures of the fatbin at `at` to `found`. Returns its number of entries. */
static int read_fatbin(const unsigned char *at, const unsigned char *end, unsigned char *found)
{
    struct fatbin_header h;
    struct fatbin_entry e;
    int n = 0;
    memcpy(&h, at, sizeof h);
    if (h.version != 1 || h.header_size < sizeof h || h.size > (uint64_t)(end - at) - sizeof h) {
        return 0;
    }
    const unsigned char *last = at + h.header_size + h.size;
    for (at += h.header_size; at + sizeof e <= last; at += e.header_size + e.size) {
        memcpy(&e, at, sizeof e);
        if (e.header_size < sizeof e || e.size > (uint64_t)(last - at)) {
            break;
        }
        if (e.kind == KIND_ELF && e.arch < MT_ARCHS) {
            found[e.arch] = 1;
        }
        n += e.kind != MT_CARRIER_KIND; /* not the CPU image that we appended */
    }
    return n;
}

/* Searches a file mapped at [data, end). */
static int device_code_scan(const unsigned char *data, const unsigned char *end, struct device_code *code)
{
    static const unsigned char magic[] = {0x50, 0xed, 0x55, 0xba};
    if (!memmem(data, (size_t)(end - data), SECTION, sizeof SECTION - 1)) {
        return memmem(data, (size_t)(end - data), LINKED, sizeof LINKED - 1) != NULL;
    }
    const unsigned char *at = data;
    while ((at = memmem(at, (size_t)(end - at), magic, sizeof magic)) &&
           (size_t)(end - at) >= sizeof(struct fatbin_header)) {
        unsigned char found[MT_ARCHS] = {0};
        if (read_fatbin(at, end, found) > 0) {
            for (int i = 0; i < MT_ARCHS; i++) {
                code->arch[i] = found[i] && (code->fatbins == 0 || code->arch[i]);
            }
            code->fatbins++;
        }
        at += sizeof magic;
    }
    return 1;
}

/* Returns 1 if an object or archive contains relocatable device code, or registers device code that was
 * linked before. */
static int cc_device_code_in(const char *path, struct device_code *code)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC), found = 0;
    if (fd < 0) {
        return 0;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        unsigned char *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data != MAP_FAILED) {
            found = device_code_scan(data, data + st.st_size, code);
            munmap(data, (size_t)st.st_size);
        }
    }
    close(fd);
    return found;
}

/* Returns the archive for -lNAME, or NULL if there is none or a shared library is found first. */
static char *find_library(const struct words *folders, const char *name)
{
    for (size_t i = 0; i < folders->count; i++) {
        if (name[0] == ':') {
            char *file = mt_words_text("%s/%s", folders->word[i], name + 1);
            if (access(file, R_OK) == 0) {
                return file;
            }
            continue;
        }
        if (access(mt_words_text("%s/lib%s.so", folders->word[i], name), R_OK) == 0) {
            return NULL;
        }
        char *file = mt_words_text("%s/lib%s.a", folders->word[i], name);
        if (access(file, R_OK) == 0) {
            return file;
        }
    }
    return NULL;
}

static void add_if_device_code(struct words *out, const char *file, struct device_code *code)
{
    size_t n = strlen(file);
    int usual =
        n > 2 && (strcmp(file + n - 2, ".o") == 0 || strcmp(file + n - 2, ".a") == 0 ||
                  (n > 4 && (strcmp(file + n - 4, ".obj") == 0 || strcmp(file + n - 4, ".lib") == 0)));
    if ((usual || access(file, R_OK) == 0) && cc_device_code_in(file, code)) {
        mt_words_add(out, file);
    }
}

/* Adds the files in -Wl,a,b,c or in the value of -Xlinker. */
static void add_listed(struct words *out, const char *list, struct device_code *code)
{
    char *copy = mt_words_text("%s", list), *save = NULL;
    for (char *item = strtok_r(copy, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        if (item[0] != '-') {
            add_if_device_code(out, item, code);
        }
    }
    free(copy);
}

/* Returns the objects and archives with relocatable device code among the words of a link, in order; looks up
 * -l in the -L folders. */
static struct words device_code_inputs(const struct words *line, struct device_code *code)
{
    struct words out = {0}, folders = {0};
    for (size_t i = 0; i < line->count; i++) {
        const char *w = line->word[i];
        if (strncmp(w, "-L", 2) == 0 && (w[2] || i + 1 < line->count)) {
            mt_words_add(&folders, w[2] ? w + 2 : line->word[i + 1]);
        }
    }
    for (size_t i = 0; i < line->count; i++) {
        const char *w = line->word[i];
        int two = i + 1 < line->count && !w[0] == 0 && !w[2];
        if (strncmp(w, "-l", 2) == 0 && (w[2] || two)) {
            char *file = find_library(&folders, w[2] ? w + 2 : line->word[++i]);
            if (file) {
                add_if_device_code(&out, file, code);
            }
        } else if (strncmp(w, "-Wl,", 4) == 0) {
            add_listed(&out, w + 4, code);
        } else if (strcmp(w, "-Xlinker") == 0 && i + 1 < line->count) {
            add_listed(&out, line->word[++i], code);
        } else if (strcmp(w, "-o") == 0) {
            i++;
        } else if (w[0] != '-') {
            add_if_device_code(&out, w, code);
        }
    }
    return out;
}

/* ---- The device link: nvlink for each architecture, fatbinary, and an object that registers the result ----
 */

/* Source of the object that registers the linked code. Each file's constructor calls a function in it (with
 * the name that clang and nvcc use); the last call registers. It refers to each file's fatbin, which makes
 * the linker extract the file from an archive. */
static const char stub[] =
    "struct wrapper { int magic, version; const void *data; void **more; };\n"
    "extern void **__cudaRegisterFatBinary(void *);\n"
    "extern void __cudaRegisterFatBinaryEnd(void **);\n"
    "extern void __cudaUnregisterFatBinary(void **);\n"
    "extern int atexit(void (*)(void));\n"
    "#define DEFINE_REGISTER_FUNC(id) enum { registers##id };\n"
    "#include \"registered.h\"\n"
    "#undef DEFINE_REGISTER_FUNC\n"
    "static void *prelinked[NUM_PRELINKED_OBJECTS + 1];\n"
    "static void (*callbacks[NUM_PRELINKED_OBJECTS + 1])(void **);\n"
    "static int count;\n"
    "char __mt_device_linker __attribute__((weak, visibility(\"hidden\")));\n"
    "static void **handle;\n"
    "__asm__(\".section .nv_fatbin,\\\"a\\\",@progbits\\n.balign 16\\nmt_linked_fatbin:\\n\"\n"
    "        \".incbin \\\"linked.fatbin\\\"\\n.balign 16\\n.previous\\n\");\n"
    "extern const char mt_linked_fatbin[] __attribute__((visibility(\"hidden\")));\n"
    "static const struct wrapper linked __attribute__((section(\".nvFatBinSegment\"), aligned(8))) =\n"
    "    {0x466243b1, 2, mt_linked_fatbin, prelinked};\n"
    "static void unregister(void) { __cudaUnregisterFatBinary(handle); }\n"
    "static void add(const struct wrapper *w, void (*callback)(void **))\n"
    "{\n"
    "    prelinked[count] = (void *)w->data;\n"
    "    callbacks[count++] = callback;\n"
    "    if (count < NUM_PRELINKED_OBJECTS) return;\n"
    "    handle = __cudaRegisterFatBinary((void *)&linked);\n"
    "    atexit(unregister);\n"
    "    for (int i = 0; i < count; i++) callbacks[i](handle);\n"
    "    __cudaRegisterFatBinaryEnd(handle);\n"
    "}\n"
    "#define DEFINE_REGISTER_FUNC(id) \\\n"
    "    extern const struct wrapper __fatbinwrap##id __attribute__((visibility(\"hidden\"))); \\\n"
    "    static const char defined##id[] __attribute__((used, aligned(1), section(\"__nv_module_id\"))) = "
    "\\\n"
    "        \"def \" #id; \\\n"
    "    void __cudaRegisterLinkedBinary##id(void (*callback)(void **), void *wrapper, void *name, \\\n"
    "                                        void (*unused)(void *)) \\\n"
    "    { \\\n"
    "        add(&__fatbinwrap##id, callback); \\\n"
    "    }\n"
    "#undef NUM_PRELINKED_OBJECTS\n"
    "#include \"registered.h\"\n";

static const char *const temporary[] = {"registered.h", "linked.fatbin", "register.c"};

static char *device_link_in(const char *folder, const char *file)
{
    return mt_words_text("%s/%s", folder, file);
}

/* Removes the temporary files of cc_device_link. */
static void cc_device_link_clean(const char *folder)
{
    for (size_t i = 0; i < sizeof temporary / sizeof *temporary; i++) {
        unlink(device_link_in(folder, temporary[i]));
    }
    for (int arch = 0; arch < MT_ARCHS; arch++) {
        unlink(mt_words_text("%s/sm_%d.cubin", folder, arch));
    }
}

/* Returns 1 if the command line names this architecture, or none. */
static int asked_for(const struct request *r, const struct device_code *code, int arch)
{
    int any = 0;
    for (size_t i = 0; i < r->archs.count; i++) {
        int named = atoi(r->archs.word[i] + strlen("sm_"));
        if (named == arch) {
            return 1;
        }
        any |= named < MT_ARCHS && code->arch[named];
    }
    return !any; /* 1 also if the objects have none of those named: theirs are used */
}

static int link_for(const struct request *r, const struct words *inputs, int arch, const char *folder)
{
    struct words line = {0};
    char *devrt = mt_words_text("%s/lib64", r->places->overlay);
    mt_words_addf(&line, "%s/bin/nvlink", r->places->overlay);
    mt_words_add(&line, "-m64");
    mt_words_add(&line, "-cpu-arch=X86_64");
    mt_words_addf(&line, "--arch=sm_%d", arch);
    mt_words_addf(&line, "--register-link-binaries=%s/registered.h", folder);
    mt_words_append(&line, &r->nvlink);
    mt_words_append(&line, inputs);
    if (access(mt_words_text("%s/libcudadevrt.a", devrt), R_OK) == 0) {
        mt_words_addf(&line, "-L%s", devrt);
        mt_words_add(&line, "-lcudadevrt");
    }
    mt_words_add(&line, "-o");
    mt_words_addf(&line, "%s/sm_%d.cubin", folder, arch);
    return cc_run_line(r, &line, -1);
}

static int device_link_bundle(const struct request *r, const struct device_code *code, const char *folder)
{
    struct words line = {0};
    mt_words_addf(&line, "%s/bin/fatbinary", r->places->overlay);
    mt_words_add(&line, "-64");
    mt_words_add(&line, "--create");
    mt_words_add(&line, device_link_in(folder, "linked.fatbin"));
    for (int arch = 0; arch < MT_ARCHS; arch++) {
        if (code->arch[arch] && asked_for(r, code, arch)) {
            mt_words_addf(&line, "--image=profile=sm_%d,file=%s/sm_%d.cubin", arch, folder, arch);
        }
    }
    return cc_run_line(r, &line, -1);
}

/* Returns the number of files whose code was linked. 0: it was linked before, and the inputs include the
 * object. */
static int device_link_registered(const char *folder)
{
    int n = 0;
    FILE *f = fopen(device_link_in(folder, "registered.h"), "re");
    if (f && fscanf(f, " #define NUM_PRELINKED_OBJECTS %d", &n) != 1) {
        n = 0;
    }
    if (f) {
        fclose(f);
    }
    return n;
}

static int compile_stub(const struct request *r, const char *code, const char *folder, const char *object)
{
    const char *chosen = getenv("MEMTRACE_CLANG");
    char *source = device_link_in(folder, "register.c");
    struct words line = {0};
    if (!r->show) {
        FILE *f = fopen(source, "we");
        if (!f || fputs(code, f) < 0 || fclose(f) != 0) {
            return mt_cli_fail("%s: %s", source, strerror(errno));
        }
    }
    mt_words_add(&line, chosen && *chosen ? chosen : "clang++-19");
    mt_words_add(&line, "-x");
    mt_words_add(&line, "c");
    mt_words_add(&line, "-w");
    mt_words_add(&line, "-O1");
    mt_words_add(&line, "-fPIC");
    mt_words_add(&line, "-Xassembler");
    mt_words_addf(&line, "-I%s", folder);
    mt_words_add(&line, "-c");
    mt_words_add(&line, source);
    mt_words_add(&line, "-o");
    mt_words_add(&line, object);
    return cc_run_line(r, &line, -1);
}

/* Links the device code of `inputs`, with temporary files in `folder`, into `object`, which must be linked
 * with them. Returns 0, or an exit code after a message. *made is 0 if there is no object: without GPU code,
 * or if all of it was linked before. */
static int cc_device_link(const struct request *r, const struct words *inputs, const struct device_code *code,
                          const char *folder, const char *object, int *made)
{
    int rc = 0, archs = 0;
    *made = 0;
    if (access(mt_words_text("%s/bin/nvlink", r->places->overlay), X_OK) != 0) {
        mt_cli_say("note: the CUDA toolkit has no nvlink: the program runs on the CPU device only");
        return 0;
    }
    for (int arch = 0; arch < MT_ARCHS && rc == 0; arch++) {
        if (code->arch[arch] && asked_for(r, code, arch)) {
            rc = link_for(r, inputs, arch, folder);
            archs++;
        }
    }
    if (rc != 0 || archs == 0 || (!r->show && device_link_registered(folder) == 0)) {
        return rc;
    }
    rc = device_link_bundle(r, code, folder);
    if (rc == 0) {
        rc = compile_stub(r, stub, folder, object);
    }
    *made = rc == 0;
    return rc;
}

/* Writes an empty object for -dlink without device code. */
static int cc_device_link_nothing(const struct request *r, const char *folder, const char *object)
{
    return compile_stub(r, "typedef int nothing;\n", folder, object);
}

/* ---- -M and -MM of CUDA sources. clang prints a rule for each side and ignores -o; nvcc prints one rule
 * with a file per line, and programs that read it (CMake's FindCUDA) depend on that ---- */

/* Targets and files as spelt in the make file, with its escapes. */
struct rules {
    struct words target;
    struct words *files; /* files of each target */
};

/* Returns the next word at *p, or NULL at the end. A backslash keeps the next character; before the end of a
 * line it is a blank. */
static char *depends_next(const char **p)
{
    for (;; ++*p) {
        if (**p == '\\' && (*p)[1] == '\n') {
            ++*p;
        } else if (!isspace((unsigned char)**p)) {
            break;
        }
    }
    const char *start = *p;
    while (**p && !isspace((unsigned char)**p) && !(**p == '\\' && (*p)[1] == '\n')) {
        *p += **p == '\\' && (*p)[1] ? 2 : 1;
    }
    return *p > start ? mt_words_text("%.*s", (int)(*p - start), start) : NULL;
}

static size_t depends_find(const struct words *w, const char *word)
{
    size_t i = 0;
    while (i < w->count && strcmp(w->word[i], word) != 0) {
        i++;
    }
    return i;
}

static size_t depends_add_target(struct rules *rules, const char *name)
{
    size_t at = depends_find(&rules->target, name);
    if (at == rules->target.count) {
        struct words *grown = realloc(rules->files, (at + 1) * sizeof *grown);
        if (!grown) {
            mt_cli_say("out of memory");
            exit(1);
        }
        rules->files = grown;
        memset(&rules->files[at], 0, sizeof rules->files[at]);
        mt_words_add(&rules->target, name);
    }
    return at;
}

static void depends_read(struct rules *rules, const char *contents)
{
    size_t at = 0;
    char *word;
    for (const char *p = contents; (word = depends_next(&p)); free(word)) {
        size_t n = strlen(word);
        if (word[n - 1] == ':') {
            word[n - 1] = 0;
            at = depends_add_target(rules, word);
        } else if (at < rules->target.count &&
                   depends_find(&rules->files[at], word) == rules->files[at].count) {
            mt_words_add(&rules->files[at], word);
        }
    }
}

static int depends_write(const struct rules *rules, const char *path)
{
    FILE *f = path ? fopen(path, "we") : stdout;
    for (size_t t = 0; f && t < rules->target.count; t++) {
        fprintf(f, "%s :", rules->target.word[t]);
        for (size_t i = 0; i < rules->files[t].count; i++) {
            fprintf(f, "%s%s", i == 0 ? " " : " \\\n    ", rules->files[t].word[i]);
        }
        fputc('\n', f);
    }
    if (!f || ferror(f) || (path ? fclose(f) : fflush(f)) != 0) {
        return mt_cli_fail("%s: %s", path ? path : "standard output", strerror(errno));
    }
    return 0;
}

/* Returns the words without -o and -MF; *path is the file that they name, or NULL. */
static struct words depends_words(const struct request *r, const char **path)
{
    struct words out = {0};
    *path = NULL;
    for (size_t i = 0; i < r->user.count; i++) {
        const char *word = r->user.word[i];
        size_t n = strncmp(word, "-MF", 3) == 0 ? 3 : strncmp(word, "-o", 2) == 0 ? 2 : 0;
        if (n == 0) {
            mt_words_take(&out, r->user.word[i]);
        } else if (word[n]) {
            *path = word + n;
        } else if (i + 1 < r->user.count) {
            *path = r->user.word[++i];
        }
    }
    return out;
}

/* Writes one rule for each source with the includes of both sides, in nvcc's layout, to the file of -o or
 * -MF. */
static int cc_run_depends(const struct request *r)
{
    const char *path;
    struct words words = depends_words(r, &path);
    struct words line = cc_complete(r, &words, 0);
    struct rules rules = {0};
    char *contents = NULL;
    size_t room = 0;
    FILE *f = tmpfile();
    if (!f) {
        return mt_cli_fail("no temporary file: %s", strerror(errno));
    }
    int code = cc_run_line(r, &line, r->show ? -1 : fileno(f));
    rewind(f);
    if (code == 0 && !r->show && getdelim(&contents, &room, 0, f) >= 0) {
        depends_read(&rules, contents);
    }
    if (code == 0 && !r->show) {
        code = depends_write(&rules, path);
    }
    free(contents);
    fclose(f);
    return code;
}

/* ---- Commands that run clang several times, with objects in a temporary folder ---- */

static void parts_clean(const struct request *r, const char *folder, const struct words *objects)
{
    if (r->show) {
        return;
    }
    for (size_t i = 0; i < objects->count; i++) {
        unlink(objects->word[i]);
    }
    rmdir(folder);
}

/* Compiles C files apart from the others; if there is a link, into objects first. */
static int cc_run_languages(const struct request *r)
{
    struct words objects = {0}, middle, line;
    char *folder = r->links ? cc_make_folder(r) : NULL;
    int code = r->links && !folder;
    for (size_t i = 0; code == 0 && i < (r->links ? r->c_files.count : 1); i++) {
        if (r->links) {
            mt_words_addf(&objects, "%s/%zu.o", folder, i);
        }
        middle = cc_languages_c(r, i, r->links ? objects.word[i] : NULL);
        line = cc_complete(r, &middle, 0);
        code = cc_run_line(r, &line, -1);
    }
    if (code == 0) {
        middle = cc_languages_rest(r, r->links ? &objects : NULL);
        line = cc_complete(r, &middle, r->links);
        code = cc_run_line(r, &line, -1);
    }
    if (folder) {
        parts_clean(r, folder, &objects);
    }
    return code;
}

/* Compiles each source into an object; `objects` receives the names. */
static int compile_sources(const struct request *r, const char *folder, struct words *objects)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < r->sources.count; i++) {
        mt_words_addf(objects, "%s/%zu.o", folder, i);
        struct words middle = cc_languages_one(r, r->sources.word[i], objects->word[i]);
        struct words line = cc_complete(r, &middle, 0);
        code = cc_run_line(r, &line, -1);
    }
    return code;
}

/* Fills in what --show cannot read from objects, which do not exist. */
static void parts_suppose(const struct request *r, const struct words *objects, struct words *inputs,
                          struct device_code *code)
{
    if (!r->show || objects->count == 0) {
        return;
    }
    for (size_t i = 0; i < objects->count; i++) {
        mt_words_add(inputs, objects->word[i]);
    }
    memset(code->arch, 0, sizeof code->arch);
    code->arch[90] = r->archs.count == 0;
    for (size_t i = 0; i < r->archs.count; i++) {
        int arch = atoi(r->archs.word[i] + strlen("sm_"));
        code->arch[arch < MT_ARCHS ? arch : 0] = 1;
    }
}

/* Returns the value of -o among the words, or nvcc's default. */
static const char *dlink_output(const struct request *r)
{
    for (size_t i = 0; i < r->user.count; i++) {
        if (strncmp(r->user.word[i], "-o", 2) == 0) {
            return r->user.word[i][2]      ? r->user.word[i] + 2
                   : i + 1 < r->user.count ? r->user.word[i + 1]
                                           : NULL;
        }
    }
    return "a_dlink.o";
}

/* Links the program with the object of the device link. */
static int link_program(const struct request *r, const struct words *words, const char *made, int all_objects)
{
    struct request part = *r;
    struct words middle = {0}, line;
    if (all_objects) {
        part.compiles = part.cuda = 0;
        part.language = NULL;
    }
    if (made) {
        mt_words_add(&middle, made);
    }
    mt_words_append(&middle, words);
    line = cc_complete(&part, &middle, 1);
    return cc_run_line(r, &line, -1);
}

/* Links device code, after the compilations that it needs. */
static int cc_run_device_link(const struct request *r)
{
    struct words objects = {0}, words = r->user, inputs;
    struct device_code device = {0};
    char *folder = cc_make_folder(r);
    if (!folder) {
        return 1;
    }
    const char *object = r->dlink ? dlink_output(r) : mt_words_text("%s/link.o", folder);
    int made = 0, code = 0, apart = (r->rdc && r->sources.count > 0) || cc_languages_mixed(r);
    if (apart) {
        code = compile_sources(r, folder, &objects);
        words = cc_languages_linked(r, &objects);
    }
    if (code == 0) {
        inputs = device_code_inputs(&words, &device);
        parts_suppose(r, &objects, &inputs, &device);
        code = cc_device_link(r, &inputs, &device, folder, object, &made);
    }
    if (code == 0 && r->dlink && !made) {
        code = cc_device_link_nothing(r, folder, object);
    } else if (code == 0 && !r->dlink) {
        code = link_program(r, &words, made ? object : NULL, apart || r->sources.count == 0);
    }
    cc_device_link_clean(folder);
    if (made && !r->dlink) {
        mt_words_add(&objects, object);
    }
    parts_clean(r, folder, &objects);
    return code;
}

/* ---- Running the command ---- */

/* Returns 1 if mt-cc must link relocatable device code. */
static int links_device_code(const struct request *r)
{
    struct device_code code = {0};
    return r->links && !r->no_device_link && !r->relocatable &&
           (r->dlink || (r->rdc && r->sources.count > 0) || device_code_inputs(&r->user, &code).count > 0);
}

/* Prints the version. CMake identifies clang, whose options mt-cc accepts, by "clang version", asks compilers
 * that name nvcc's driver for the toolkit (main_print_toolkit), and its FindCUDA reads the release. */
static void main_print_version(const struct places *p)
{
    unsigned major = p->cuda / 1000, minor = p->cuda % 1000 / 10;
    printf("mt-cc (memtrace) %s\n", MT_VERSION);
    printf("clang version %s\n", MT_CLANG_VERSION);
    printf("in the place of nvcc: NVIDIA (R) Cuda compiler driver\n");
    printf("Cuda compilation tools, release %u.%u, V%u.%u.0\n", major, minor, major, minor);
    printf("toolkit: %s\n", p->toolkit);
    printf("overlay: %s\nplugin:  %s\nruntime: %s\n", p->overlay, p->plugin, p->runtime);
}

/* Prints the lines of nvcc -v that build systems read. */
static void main_print_toolkit(const struct request *r)
{
    if (r->verbose) {
        fprintf(stderr, "#$ TOP=%s\n#$ NVVMIR_LIBRARY_DIR=%s/nvvm/libdevice\n", r->places->overlay,
                r->places->overlay);
    }
}

/* Answers options that only print on stdout. Returns 1 if there was one. */
static int main_answers(const struct request *r)
{
    if (r->version) {
        main_print_version(r->places);
    } else if (r->lists) {
        cc_request_print_archs(r, r->lists);
    }
    return r->version || r->lists;
}

/* Refuses an output that would overwrite its source. Returns 0, or 2 after a message. */
static int main_clashes(const struct request *r)
{
    const char *output = NULL;
    for (size_t i = 0; i < r->user.count; i++) {
        if (strcmp(r->user.word[i], "-o") == 0 && i + 1 < r->user.count) {
            output = r->user.word[++i];
        } else if (strncmp(r->user.word[i], "-o", 2) == 0 && r->user.word[i][2]) {
            output = r->user.word[i] + 2;
        }
    }
    for (size_t i = 0; output && i < r->files.count; i++) {
        if (mt_output_is_input(output, r->files.word[i])) {
            return mt_cli_refuse("the output %s is one of the inputs", output);
        }
    }
    return 0;
}

/* Runs the command. Returns the exit code. */
static int main_run(const struct request *r)
{
    if (main_clashes(r)) {
        return 2;
    }
    const char *tmp = getenv("TMPDIR");
    if (tmp && *tmp && !r->show &&
        access(tmp, W_OK | X_OK) != 0) { /* clang does not say which folder it means */
        return mt_cli_fail("TMPDIR is %s: %s; set it to another folder", tmp, strerror(errno));
    }
    if (r->depends && r->cuda) {
        return cc_run_depends(r);
    }
    if (links_device_code(r)) {
        return cc_run_device_link(r);
    }
    if (cc_languages_mixed(r)) {
        return cc_run_languages(r);
    }
    struct words line = cc_complete(r, &r->user, r->links);
    return r->show ? cc_run_line(r, &line, -1) : main_become(&line);
}

int main(int argc, char **argv)
{
    struct places places;
    struct request r = {0};
    struct words all = {0};

    mt_cli_name = "mt-cc";
    if (argc < 2) {
        return mt_cli_refuse("no files; mt-cc --help says how");
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        mt_command_help(&command);
        return mt_near_told();
    }
    if (mt_near_completion(argc, argv, "qhV", cc_options()) ||
        mt_near_values(argc, argv, "qhV", cc_options())) {
        return mt_near_told();
    }
    if (cc_places_find(&places) != 0) {
        return 1;
    }
    if (strcmp(argv[1], "--env") == 0 && argc == 2) {
        int code = cc_print_environment(&places);
        return code ? code : mt_near_told();
    }
    cc_forget_environment();
    r.toolkit = places.cuda;
    r.places = &places;
    if (cc_response_expand(&all, argc, argv) != 0) {
        return 2;
    }
    int code = cc_request_read(&r, (int)all.count, all.word);
    if (code != 0 || main_answers(&r)) {
        return code ? code : mt_near_told();
    }
    cc_languages_drop_standard(&r);
    main_print_toolkit(&r);
    if (main_leaves_out_gpu(&r)) {
        cc_request_note(&r, "no code for traces on a GPU: no architecture is named, and there is no GPU here "
                            "(--mt-gpu-trace=on makes it)");
    }
    if (r.show) {
        fflush(stdout);
        for (size_t i = 0; !r.quiet && i < r.notes.count; i++) {
            mt_cli_say("note: %s", r.notes.word[i]);
        }
    } else if (!are_there(&r, &places)) {
        return 1;
    }
    return main_run(&r);
}
