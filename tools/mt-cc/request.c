/* Reads the command line: mt-cc's own options, nvcc's spellings (nvcc.c), clang's options, files. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/command.h"
#include "base/near.h"
#include "mt-cc.h"

/* Clang options whose value is the next argument: it must not pass for a file. */
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

/* Clang options after which nothing is linked. */
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

/* --mt-KEY: goes to the plugin as KEY=VALUE. */
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

void mt_cc_request_language(struct request *r, const char *name)
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
                                  70, 72, 75, 80, 86, 87, 89, 90}; /* clang 19's */
#define LAST_ARCH 90

static int lowest_arch(unsigned toolkit)
{
    return toolkit >= 13000 ? 75 : toolkit >= 12000 ? 50 : 35;
}

/* The nearest architecture that both clang and the toolkit know: raised to the lowest, else the next one
 * below (its PTX serves the newer GPU). */
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

void mt_cc_request_arch(struct request *r, const char *name)
{
    const char *digits = strncmp(name, "sm_", 3) == 0        ? name + 3
                         : strncmp(name, "compute_", 8) == 0 ? name + 8
                         : strncmp(name, "lto_", 4) == 0     ? name + 4
                                                             : name;
    char *end;
    int sm = (int)strtol(digits, &end, 10);
    if (end != digits && *end == '.') { /* 8.0 */
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

/* NVIDIA's runtime, as a file or a library name: memtrace's is in its place, and must not come second. */
static int is_cudart(const char *name, int is_file)
{
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    if (is_file) {
        return strncmp(base, "libcudart.so", 12) == 0 || strcmp(base, "libcudart_static.a") == 0;
    }
    return strcmp(base, "cudart") == 0 || strcmp(base, "cudart_static") == 0;
}

/* The driver's library: memtrace's runtime has its functions, and a program
 * that links to NVIDIA's would not start where there is none. */
static int is_driver(const char *name, int is_file)
{
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    return is_file ? strncmp(base, "libcuda.so", 10) == 0 : strcmp(base, "cuda") == 0;
}

/* A header folder of the toolkit: the overlay's is in its place. */
static int is_toolkit_include(const struct request *r, const char *folder)
{
    char real[PATH_MAX], toolkit[PATH_MAX];
    return realpath(folder, real) && realpath(mt_words_text("%s/include", r->places->toolkit), toolkit) &&
           strcmp(real, toolkit) == 0;
}

/* Appends an input to the words for clang; the lists of inputs share its pointer. */
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
        /* As nvcc does: C stays C, although clang++ would take it for C++. */
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

/* ---- options
 * ------------------------------------------------------------------------------------------------ */

/* Options that are mt-cc's own; 1 if argv[i] was one, 0, or -1 after a message. */
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
        return -1;
    }
    fprintf(stderr, "mt-cc: unknown option %s; there are:", arg);
    for (const struct option *o = mt_cc_options(); o->name; o++) {
        if (request_of_plugin(o)) {
            fprintf(stderr, " --%s=", o->name);
        }
    }
    fputc('\n', stderr);
    return -1;
}

/* One of clang's options at argv[i]; how many arguments it took. */
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
    if (!two && (r->forward & FORWARD_LINKER) && !mt_cc_nvcc_knows(argv[i])) {
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

/* -forward-unknown-…: they hold for options in front of them, too. */
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

/* The next of the words for clang that is no other option's value; NULL at the end. */
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

/* -E of CUDA sources: one file, what the device side of the first architecture sees, as with nvcc. Not where
 * a side is named, nor for another action of clang's (-Xclang -plugin …). */
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

/* Does the command say how far device code is to be optimised? nvcc optimises it wholly unless an option says
 * otherwise by -G, whatever the host's code gets. */
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

/* What depends on the whole command line. */
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
            char *arch = mt_cc_option_value(argc, argv, i, "--cuda-gpu-arch", &used);
            if (!arch) {
                arch = mt_cc_option_value(argc, argv, i, "--offload-arch", &used);
            }
            if (arch) {
                mt_cc_request_arch(r, arch);
            } else {
                used = mt_cc_nvcc_option(r, argc, argv, i);
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
