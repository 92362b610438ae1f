/* Parses the command line: mt-cc's own options, nvcc's, clang's, and files. */
#include "base/command.h"
#include "base/near.h"
#include "mt-cc.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

const struct option *mt_cc_options(void)
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

void mt_cc_request_note(struct request *r, const char *format, ...)
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
        mt_cc_request_note(r, "architecture '%s' left out: the default serves", name);
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

void mt_cc_request_print_archs(const struct request *r, const char *prefix)
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
        mt_cc_request_note(r, "%s dropped: libmemtrace.so is the CUDA runtime", file);
        return;
    }
    if (is_driver(file, 1)) {
        mt_cc_request_note(r, "%s dropped: no program needs the driver here", file);
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

void mt_cc_math_words(const struct device_math *m, struct words *line)
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
            mt_cc_request_note(r, "-Werror %s dropped: clang 19 has no such warning", list.word[i]);
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
        mt_cc_request_note(r, "%s became %s", arg, made);
    } else if (rule->action == DROP || rule->action == DROP_VALUE) {
        mt_cc_request_note(r, "%s dropped: %s", arg, rule->to ? rule->to : "not needed here");
    } else if (!*made && rule->action != WERROR) {
        mt_cc_request_note(r, "%s: mt-cc's to do", arg);
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

int mt_cc_response_expand(struct words *out, int argc, char **argv)
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
    for (const struct option *o = mt_cc_options(); o->name; o++) {
        size_t n = strlen(o->name);
        if (request_of_plugin(o) && strncmp(arg + 2, o->name, n) == 0 && arg[2 + n] == '=') {
            mt_words_addf(&r->plugin, "-fplugin-arg-memtrace-%s", arg + 5);
            return 1;
        }
    }
    const char *near = mt_near_option(arg, mt_cc_options());
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
        mt_cc_request_note(r, "-l%s dropped: libmemtrace.so is the CUDA runtime", library);
        return 1 + two;
    }
    if (library && is_driver(library, 0)) {
        mt_cc_request_note(r, "-l%s dropped: no program needs the driver here", library);
        return 1 + two;
    }
    const char *folder = strncmp(argv[i], "-isystem", 8) == 0 ? argv[i] + 8
                         : strncmp(argv[i], "-I", 2) == 0     ? argv[i] + 2
                                                              : NULL;
    if (folder && is_toolkit_include(r, two ? argv[i + 1] : folder)) {
        mt_cc_request_note(r, "%s dropped: the overlay's header folder replaces it",
                           two ? mt_words_text("%s %s", argv[i], argv[i + 1]) : argv[i]);
        return 1 + two;
    }
    if (strncmp(argv[i], "-fplugin=", 9) == 0 && strstr(argv[i], "/libMemtrace-AA.so")) {
        mt_cc_request_note(r, "%s dropped: mt-cc adds it", argv[i]);
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

static int request_has(const struct request *r, const char *option)
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
    return r->cuda && request_has(r, "-E") && !request_has(r, "--cuda-host-only") &&
           !request_has(r, "--cuda-device-only");
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
    return request_has(r, "--cuda-noopt-device-debug") && !r->dopt;
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
    if (r->dopt && request_has(r, "--cuda-noopt-device-debug")) {
        mt_words_add(&r->user, "--no-cuda-noopt-device-debug");
    }
    r->optimises_device = r->cuda && !request_says_level(r);
    r->verbose = request_has(r, "-v");
    r->relocatable = request_has(r, "-r");
    r->depends = request_has(r, "-M") || request_has(r, "-MM");
    if (request_preprocesses_device(r)) {
        mt_words_add(&r->user, "--cuda-device-only");
        r->first_arch = 1;
        mt_cc_request_note(
            r, "-E is for the device side of the first architecture, as with nvcc; --cuda-host-only "
               "is the other");
    }
    for (size_t i = 0; r->links && i < r->forwarded.count; i++) {
        mt_words_add(&r->user, "-Xlinker");
        mt_words_take(&r->user, r->forwarded.word[i]);
    }
}

int mt_cc_request_read(struct request *r, int argc, char **argv)
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
