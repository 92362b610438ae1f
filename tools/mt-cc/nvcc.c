/* Options that clang does not have (nvcc's) or must not see, as a table: what to match,
 * and what to make of it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mt-cc.h"

enum action {
    CLANG,      /* clang has it, too: not ours to handle */
    DROP,       /* no value; means nothing here: `to` says why, or NULL */
    DROP_VALUE, /* one value; means nothing here: `to` says why, or NULL */
    WORDS,      /* no value; becomes `to` (words separated by blanks) */
    VALUE,      /* one value; becomes `to` followed by the value, in one word */
    TWO,        /* one value; becomes two words, `to` and the value */
    TWO_JOINED, /* one value; becomes the two words in `to`, the second followed by the value */
    LIST,       /* a list value; each item becomes `to` followed by the item, in one word */
    EACH,       /* a list value; each item becomes `to` (a word) and the item (a word) */
    LEVEL,      /* `to` followed by the value, if that is a number; else clang's */
    HOST,       /* a list value of host compiler options */
    ARCH,       /* an architecture */
    GENCODE,    /* arch=…,code=… */
    ARCHS,      /* no value; print the architectures with `to` in front, and nothing else */
    LANGUAGE,   /* a source language */
    STREAM,     /* becomes `to` when the value is "per-thread", else `otherwise` */
    BOOL,       /* true or false; becomes `to` when true, `otherwise` when false */
    MATH,       /* no value; how exactly device code computes: switches `to` on */
    MATH_VALUE, /* the same, true or false */
    DOPT,       /* one value; -G is to optimise, too */
    WERROR,     /* a list value of nvcc's kinds of warnings; else clang's */
    FORWARD,    /* no value; options that nvcc does not know go to the `to` */
    SHOW,       /* no value; show commands instead of running them */
    VERSION,    /* no value; print versions, and nothing else */
    DLINK,      /* no value; only the device link */
    NO_DLINK,   /* no value; no device link */
    NVLINK,     /* a list value; each item goes to nvlink */
    REFUSE,     /* not possible; `to` says what to do instead */
};

struct rule {
    const char *name; /* with one dash; two dashes match as well */
    enum action action;
    const char *to, *otherwise;
};

/* clang's driver does not hand the option on for CUDA code, and CUDA's header wants the macro. */
#define PER_THREAD "-Xclang -fgpu-default-stream=per-thread -DCUDA_API_PER_THREAD_DEFAULT_STREAM=1"

static const struct rule rules[] = {
#include "nvcc_options.def"
};

char *mt_cc_option_value(int argc, char **argv, int i, const char *name, int *used)
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

/* Splits a list of nvcc: at commas and blanks, not inside quotes, "\," is a comma. Quotes go. */
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

/* An option of the host compiler. Those that choose a machine must not reach the device side. */
static void nvcc_add_host(struct request *r, const char *option)
{
    if ((strncmp(option, "-m", 2) == 0 && strcmp(option, "-m64") != 0) || strncmp(option, "-O", 2) == 0) {
        mt_words_add(&r->user, "-Xarch_host");
    }
    mt_words_add(&r->user, option);
}

/* arch=compute_80,code=[sm_80,compute_80]: the real architectures and the virtual one,
 * as clang's architectures. */
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
        mt_cc_request_arch(r, list.word[i]);
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

/* Options that nvcc knows with their value joined to them. */
int mt_cc_nvcc_knows(const char *arg)
{
    static const char *const joined[] = {"-I", "-L", "-l", "-D", "-U", "-O", "-o", "-isystem"};
    for (size_t i = 0; i < sizeof joined / sizeof *joined; i++) {
        if (strncmp(arg, joined[i], strlen(joined[i])) == 0) {
            return 1;
        }
    }
    return nvcc_find(arg) != NULL;
}

/* -Werror KIND,…: -1 if these are not kinds of nvcc's, and the option is clang's. */
static int nvcc_add_werror(struct request *r, const char *value)
{
    static const struct {
        const char *kind, *to;
    } kinds[] = {
        {"all-warnings", "-Werror"},
        {"deprecated-declarations", "-Werror=deprecated-declarations"},
        {"reorder", "-Werror=reorder"},
        {"cross-execution-space-call", NULL}, /* an error of clang's in any case */
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

/* For values that decide whether the option is nvcc's or clang's: is it clang's? */
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

/* "-A -b=" and a value: two words. */
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

/* Of options without a value. */
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
        mt_cc_math_option(r, rule->to, 1);
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
    default: /* DROP, and FORWARD, which request_read looks for itself */
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
        mt_cc_request_language(r, value);
        break;
    case STREAM:
        nvcc_split(strcmp(value, "per-thread") == 0 ? rule->to : rule->otherwise, &r->user);
        break;
    case BOOL:
        nvcc_split(strcmp(value, "false") == 0 ? rule->otherwise : rule->to, &r->user);
        break;
    case MATH_VALUE:
        mt_cc_math_option(r, rule->to, strcmp(value, "false") != 0);
        break;
    case DOPT:
        r->dopt = 1;
        break;
    default:
        nvcc_apply_switch(r, rule);
        break;
    }
}

/* Says what became of `arg`: the words of r->user from `words` on and its architectures from `archs` on. */
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

int mt_cc_nvcc_option(struct request *r, int argc, char **argv, int i)
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
        value = mt_cc_option_value(argc, argv, i, rule->name, &used);
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
