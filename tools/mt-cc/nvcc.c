/* Options that clang does not have (nvcc's) or must not see, as a table: what to match, and what to make of
 * it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mt-cc.h"

enum action {
    DROP,       /* no value; means nothing here */
    DROP_VALUE, /* one value; means nothing here */
    WORDS,      /* no value; becomes `to` (words separated by blanks) */
    VALUE,      /* one value; becomes `to` followed by the value, in one word */
    EACH,       /* a list value; each item becomes `to` (a word) and the item (a word) */
    HOST,       /* a list value of host compiler options */
    ARCH,       /* an architecture */
    GENCODE,    /* arch=…,code=… */
    LANGUAGE,   /* a source language */
    STREAM,     /* becomes `to` when the value is "per-thread", else `otherwise` */
    BOOL,       /* true or false; becomes `to` when true, `otherwise` when false */
    DLINK,      /* no value; only the device link */
    NVLINK,     /* a list value; each item goes to nvlink */
    REFUSE,     /* not to be had; `to` says what to do instead */
};

struct rule {
    const char *name; /* with one dash; two dashes match as well */
    enum action action;
    const char *to, *otherwise;
};

/* clang's driver does not hand the option on for CUDA code, and CUDA's header wants the macro. */
#define PER_THREAD "-Xclang -fgpu-default-stream=per-thread -DCUDA_API_PER_THREAD_DEFAULT_STREAM=1"

static const struct rule rules[] = {
    {"-arch", ARCH, NULL, NULL},
    {"-gpu-architecture", ARCH, NULL, NULL},
    {"-compute-capability", ARCH, NULL, NULL},
    {"-code", ARCH, NULL, NULL},
    {"-gpu-code", ARCH, NULL, NULL},
    {"-gencode", GENCODE, NULL, NULL},
    {"-generate-code", GENCODE, NULL, NULL},
    {"-Xcompiler", HOST, NULL, NULL},
    {"-compiler-options", HOST, NULL, NULL},
    {"-Xlinker", EACH, "-Xlinker", NULL},
    {"-linker-options", EACH, "-Xlinker", NULL},
    {"-Xptxas", EACH, "-Xcuda-ptxas", NULL},
    {"-ptxas-options", EACH, "-Xcuda-ptxas", NULL},
    {"-maxrregcount", VALUE, "-Xcuda-ptxas=-maxrregcount=", NULL},
    {"-resource-usage", WORDS, "-Xcuda-ptxas -v", NULL},
    {"-res-usage", WORDS, "-Xcuda-ptxas -v", NULL},
    {"-G", WORDS, "-g --cuda-noopt-device-debug", NULL},
    {"-device-debug", WORDS, "-g --cuda-noopt-device-debug", NULL},
    {"-debug", WORDS, "-g", NULL},
    {"-lineinfo", WORDS, "-Xarch_device -gline-tables-only", NULL},
    {"-generate-line-info", WORDS, "-Xarch_device -gline-tables-only", NULL},
    {"-use_fast_math", WORDS, "-Xarch_device -ffast-math", NULL},
    {"-fmad", BOOL, "-Xarch_device -ffp-contract=fast", "-Xarch_device -ffp-contract=off"},
    {"-ftz", BOOL, "-Xarch_device -fgpu-flush-denormals-to-zero", ""},
    {"-prec-div", DROP_VALUE, NULL, NULL},
    {"-prec-sqrt", DROP_VALUE, NULL, NULL},
    {"-rdc", BOOL, "-fgpu-rdc", "-fno-gpu-rdc"},
    {"-relocatable-device-code", BOOL, "-fgpu-rdc", "-fno-gpu-rdc"},
    {"-dc", WORDS, "-fgpu-rdc -c", NULL},
    {"-device-c", WORDS, "-fgpu-rdc -c", NULL},
    {"-dw", WORDS, "-c", NULL},
    {"-compile", WORDS, "-c", NULL},
    {"-preprocess", WORDS, "-E", NULL},
    {"-ptx", WORDS, "--cuda-device-only -S", NULL},
    {"-cubin", WORDS, "--cuda-device-only -c", NULL},
    {"-x", LANGUAGE, NULL, NULL},
    {"-std", VALUE, "-std=", NULL},
    {"-optimize", VALUE, "-O", NULL},
    {"-output-file", VALUE, "-o", NULL},
    {"-include-path", VALUE, "-I", NULL},
    {"-system-include", VALUE, "-isystem", NULL},
    {"-library-path", VALUE, "-L", NULL},
    {"-library", VALUE, "-l", NULL},
    {"-define-macro", VALUE, "-D", NULL},
    {"-undefine-macro", VALUE, "-U", NULL},
    {"-pre-include", VALUE, "--include=", NULL},
    {"-default-stream", STREAM, PER_THREAD, "-fgpu-default-stream=legacy"},
    {"-fgpu-default-stream", STREAM, PER_THREAD, "-fgpu-default-stream=legacy"},
    {"-disable-warnings", WORDS, "-w", NULL},
    {"-expt-relaxed-constexpr", DROP, NULL, NULL},
    {"-expt-extended-lambda", DROP, NULL, NULL},
    {"-extended-lambda", DROP, NULL, NULL},
    {"-forward-unknown-to-host-compiler", DROP, NULL, NULL},
    {"-forward-unknown-to-host-linker", DROP, NULL, NULL},
    {"-allow-unsupported-compiler", DROP, NULL, NULL},
    {"-offload-new-driver", DROP, NULL,
     NULL}, /* its device link would lose the CPU image; mt-cc has its own */
    {"-restrict", DROP, NULL, NULL},
    {"-extra-device-vectorization", DROP, NULL, NULL},
    {"-display-error-number", DROP, NULL, NULL},
    {"-no-display-error-number", DROP, NULL, NULL},
    {"-Wno-deprecated-gpu-targets", DROP, NULL, NULL},
    {"-Wext-lambda-captures-this", DROP, NULL, NULL},
    {"-source-in-ptx", DROP, NULL, NULL},
    {"-src-in-ptx", DROP, NULL, NULL},
    {"-keep", DROP, NULL, NULL},
    {"-clean-targets", DROP, NULL, NULL},
    {"-run", DROP, NULL, NULL},
    {"-dlto", DROP, NULL, NULL},
    {"-cuda-path", DROP_VALUE, NULL, NULL}, /* clang's: the overlay leads to the toolkit that works */
    {"-ccbin", DROP_VALUE, NULL, NULL},
    {"-compiler-bindir", DROP_VALUE, NULL, NULL},
    {"-cudart", DROP_VALUE, NULL, NULL},
    {"-cudadevrt", DROP_VALUE, NULL, NULL},
    {"-Xnvlink", NVLINK, NULL, NULL},
    {"-nvlink-options", NVLINK, NULL, NULL},
    {"-Xarchive", DROP_VALUE, NULL, NULL},
    {"-Xcudafe", DROP_VALUE, NULL, NULL},
    {"-Xfatbin", EACH, "-Xcuda-fatbinary", NULL},
    {"-fatbin-options", EACH, "-Xcuda-fatbinary", NULL},
    {"-diag-suppress", DROP_VALUE, NULL, NULL},
    {"-diag-warn", DROP_VALUE, NULL, NULL},
    {"-diag-error", DROP_VALUE, NULL, NULL},
    {"-keep-dir", DROP_VALUE, NULL, NULL},
    {"-threads", DROP_VALUE, NULL, NULL},
    {"-split-compile", DROP_VALUE, NULL, NULL},
    {"-target-directory", DROP_VALUE, NULL, NULL},
    {"-tile-size", DROP_VALUE, NULL, NULL},
    {"-t", DROP_VALUE, NULL, NULL},
    {"-cuda", REFUSE, "there is no C++ file in between; make an object with -c, or preprocess with -E", NULL},
    {"-fatbin", REFUSE, "make an object with -c: it holds the fatbin", NULL},
    {"-dlink", DLINK, NULL, NULL},
    {"-device-link", DLINK, NULL, NULL},
    {"-lib", REFUSE, "use ar on the objects", NULL},
};

char *option_value(int argc, char **argv, int i, const char *name, int *used)
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
        return text("%s", arg + n + 1);
    }
    if (arg[n] != 0) {
        return NULL;
    }
    *used = 2;
    return i + 1 < argc ? argv[i + 1] : NULL;
}

/* Splits a list of nvcc: at commas and blanks, not inside quotes, "\," is a comma. Quotes go. */
static void split(const char *list, struct words *out)
{
    char *item = text("%s", list);
    size_t n = 0;
    char quote = 0;
    for (const char *p = list;; p++) {
        if (*p == 0 || (!quote && (*p == ',' || isspace((unsigned char)*p)))) {
            item[n] = 0;
            if (n > 0) {
                words_add(out, item);
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

/* An option of the host compiler. Those that choose a machine must not reach the device side. */
static void host_option(struct request *r, const char *option)
{
    if (strncmp(option, "-m", 2) == 0 && strcmp(option, "-m64") != 0) {
        words_add(&r->user, "-Xarch_host");
    }
    words_add(&r->user, option);
}

/* arch=compute_80,code=[sm_80,compute_80]: the real architectures and the virtual one, as clang's
 * architectures. */
static void gencode(struct request *r, const char *value)
{
    const char *code = strstr(value, "code=");
    struct words list = {0};
    char *names = text("%s", code ? code + 5 : strncmp(value, "arch=", 5) == 0 ? value + 5 : value);
    for (char *p = names; *p; p++) {
        if (*p == '[' || *p == ']' || *p == '"' || *p == '\'') {
            *p = ',';
        }
    }
    split(names, &list);
    for (size_t i = 0; i < list.count; i++) {
        request_arch(r, list.word[i]);
    }
}

static int takes_value(const struct rule *rule)
{
    return rule->action != DROP && rule->action != WORDS && rule->action != REFUSE && rule->action != DLINK;
}

static const struct rule *find(const char *arg)
{
    if (arg[0] == '-' && arg[1] == '-') {
        arg++;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        size_t n = strlen(rules[i].name);
        int list = takes_value(&rules[i]);
        if (strncmp(arg, rules[i].name, n) == 0 && (arg[n] == 0 || (list && arg[n] == '='))) {
            return &rules[i];
        }
    }
    return NULL;
}

static void apply(struct request *r, const struct rule *rule, const char *value)
{
    struct words list = {0};
    switch (rule->action) {
    case WORDS:
        split(rule->to, &r->user);
        break;
    case VALUE:
        if (strncmp(rule->to, "-Xcuda-ptxas=", 13) == 0) {
            words_add(&r->user, "-Xcuda-ptxas");
            words_addf(&r->user, "%s%s", rule->to + 13, value);
        } else {
            words_addf(&r->user, "%s%s", rule->to, value);
        }
        break;
    case EACH:
        split(value, &list);
        for (size_t i = 0; i < list.count; i++) {
            words_add(&r->user, rule->to);
            words_add(&r->user, list.word[i]);
        }
        break;
    case HOST:
        split(value, &list);
        for (size_t i = 0; i < list.count; i++) {
            host_option(r, list.word[i]);
        }
        break;
    case ARCH:
    case GENCODE:
        gencode(r, value);
        break;
    case DLINK:
        r->dlink = 1;
        break;
    case NVLINK:
        split(value, &r->nvlink);
        break;
    case LANGUAGE:
        request_language(r, value);
        break;
    case STREAM:
        split(strcmp(value, "per-thread") == 0 ? rule->to : rule->otherwise, &r->user);
        break;
    case BOOL:
        split(strcmp(value, "false") == 0 ? rule->otherwise : rule->to, &r->user);
        break;
    case DROP:
    case DROP_VALUE:
    case REFUSE:
        break;
    }
}

/* Says what became of `arg`: the words of r->user from `words` on and its architectures from `archs` on. */
static void note(struct request *r, const struct rule *rule, const char *arg, size_t words, size_t archs)
{
    char *made = text("%s", "");
    for (size_t i = words; i < r->user.count; i++) {
        made = text("%s%s%s", made, *made ? " " : "", r->user.word[i]);
    }
    for (size_t i = archs; i < r->archs.count; i++) {
        made = text("%s%s--cuda-gpu-arch=%s", made, *made ? " " : "", r->archs.word[i]);
    }
    if (*made && strcmp(made, arg) != 0) {
        request_note(r, "%s became %s", arg, made);
    } else if (rule->action == DROP || rule->action == DROP_VALUE) {
        request_note(r, "%s dropped: not needed here", arg);
    }
}

int nvcc_option(struct request *r, int argc, char **argv, int i)
{
    const struct rule *rule = find(argv[i]);
    if (!rule) {
        return 0;
    }
    if (rule->action == REFUSE) {
        fprintf(stderr, "mt-cc: %s is not supported: %s\n", argv[i], rule->to);
        return -1;
    }
    int used = 1;
    const char *value = NULL;
    if (takes_value(rule)) {
        value = option_value(argc, argv, i, rule->name, &used);
        if (!value) {
            fprintf(stderr, "mt-cc: %s needs a value\n", argv[i]);
            return -1;
        }
    }
    size_t before = r->user.count, archs = r->archs.count;
    apply(r, rule, value);
    note(r, rule, used == 2 ? text("%s %s", argv[i], value) : argv[i], before, archs);
    return used;
}
