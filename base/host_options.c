/* Parses the options of host tracing, from words NAME=VALUE (host_options.def). */
#include "host_options.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { STRING, NUMBER, POWER, SWITCH, LIST };

struct option {
    enum kind kind;
    size_t offset;
    char letter;
    const char *name, *modes, *def, *values;
};

static const struct option options[] = {
#define MT_HOST_OPTION(kind, field, letter, name, modes, def, values, help)                                  \
    {kind, offsetof(struct mt_core_options, field), letter, name, modes, def, values},
#include "host_options.def"
};
#define COUNT (sizeof options / sizeof *options)

static const struct {
    const char *name, *output[3]; /* default output without a format, as text, as a compact trace */
    char letter;
} modes[] = {
    [MT_CORE_MAT] = {"mat", {"mat_trace.mtc", "mat_trace.out", "mat_trace.mtc"}, 'M'},
    [MT_CORE_INSN] = {"insn", {"insn_trace.out", "insn_trace.out", "insn_trace.mtc"}, 'I'},
    [MT_CORE_ATOMIC] = {"atomic", {"memory_trace.out", "memory_trace.out", "memory_trace.mtc"}, 'A'}};

static void *options_field(struct mt_core_options *o, const struct option *d)
{
    return (char *)o + d->offset;
}

static int options_wrong(const struct option *d, const char *given, char *why, unsigned size)
{
    if (d->letter)
        snprintf(why, size, "option --%s (-%c): '%s' is not %s%s", d->name, d->letter, given,
                 d->kind == POWER ? "a power of two in " : "", d->values);
    else
        snprintf(why, size, "option --%s: '%s' is not %s", d->name, given, d->values);
    return -1;
}

/* Parses a decimal or 0x number; BYTES may end in K, M or G. */
static int host_options_number(const char *text, int suffix, uint64_t *value)
{
    char *end;
    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    *value = strtoull(text, &end, text[0] == '0' && (text[1] | 32) == 'x' ? 16 : 10);
    if (errno)
        return -1;
    if (suffix && *end) {
        unsigned shift = (*end | 32) == 'k' ? 10 : (*end | 32) == 'm' ? 20 : (*end | 32) == 'g' ? 30 : 64;
        if (shift == 64 || *value >> (64 - shift))
            return -1;
        *value <<= shift;
        end++;
    }
    return *end ? -1 : 0;
}

/* Returns 1 if `v` is in `values`, which is "LOW..HIGH" or a word. */
static int host_options_in_range(const char *values, uint64_t v)
{
    char *dots;
    uint64_t low = strtoull(values, &dots, 10);
    return strncmp(dots, "..", 2) || (v >= low && v <= strtoull(dots + 2, NULL, 10));
}

static int options_add(struct mt_core_list *l, const char *value)
{
    const char **item = realloc(l->item, (l->count + 1) * sizeof *item);
    if (!item)
        return -1;
    item[l->count++] = value;
    l->item = item;
    return 0;
}

static int options_set(struct mt_core_options *o, const struct option *d, const char *value, char *why,
                       unsigned size)
{
    uint64_t v;
    switch (d->kind) {
    case STRING:
        *(const char **)options_field(o, d) = value;
        return 0;
    case LIST:
        if (!*value)
            return options_wrong(d, value, why, size);
        if (!options_add(options_field(o, d), value))
            return 0;
        snprintf(why, size, "option --%s: out of memory", d->name);
        return -1;
    case SWITCH:
        if (strcmp(value, "0") && strcmp(value, "1"))
            return options_wrong(d, value, why, size);
        *(int *)options_field(o, d) = *value == '1';
        return 0;
    default:
        if (host_options_number(value, !strcmp(d->values, "BYTES"), &v) ||
            !host_options_in_range(d->values, v) || (d->kind == POWER && (v & (v - 1))))
            return options_wrong(d, value, why, size);
        *(uint64_t *)options_field(o, d) = v;
        return 0;
    }
}

/* Finds the option that `arg` names. *value is the text after '=' or the letter, or NULL. */
static const struct option *options_find(const char *arg, const char **value)
{
    *value = NULL;
    for (size_t i = 0; i < COUNT; i++) {
        const struct option *d = &options[i];
        size_t n = strlen(d->name);
        if (arg[1] == '-' ? !strncmp(arg + 2, d->name, n) && (!arg[2 + n] || arg[2 + n] == '=')
                          : d->letter && arg[1] == d->letter) {
            if (arg[1] != '-')
                n = 0;
            if (arg[2 + n])
                *value = arg + 2 + n + (arg[2 + n] == '=' && arg[1] == '-');
            return d;
        }
    }
    return NULL;
}

static int options_defaults(struct mt_core_options *o, char *why, unsigned size)
{
    for (size_t i = 0; i < COUNT; i++)
        if (options[i].kind != LIST && options_set(o, &options[i], options[i].def, why, size))
            return -1;
    return 0;
}

/* Spells modes for messages: "MA" becomes "mat and atomic". */
static const char *options_modes(const char *letters, char text[64])
{
    size_t n = strlen(letters);
    *text = 0;
    for (size_t i = 0; i < n; i++) {
        strcat(text, i == 0 ? "" : i + 1 == n ? " and " : ", ");
        strcat(text, letters[i] == 'M' ? "mat" : letters[i] == 'I' ? "insn" : "atomic");
    }
    return text;
}

/* Returns 1 if the option takes the next word; a SWITCH does so only for 0 or 1. */
static int takes_next(const struct option *d, const char *next)
{
    return next && (d->kind != SWITCH || !strcmp(next, "0") || !strcmp(next, "1"));
}

int mt_core_code_word(const char *word)
{
    static const char *const words[] = {
        [MT_CODE_NONE] = "none", [MT_CODE_DATA] = "data", [MT_CODE_ALL] = "all"};
    for (int k = MT_CODE_NONE; k <= MT_CODE_ALL; k++)
        if (!strcmp(word, words[k]))
            return k;
    return -1;
}

static void options_others(struct mt_core_options *o)
{
    o->others = o->own || o->library.count ? MT_CODE_NONE : MT_CODE_ALL;
    for (unsigned i = 0; i < o->library.count; i++) {
        int code = mt_core_code_word(o->library.item[i]);
        if (code >= 0)
            o->others = (enum mt_core_code)code;
    }
}

static int options_parse(struct mt_core_options *o, int argc, char *const *argv, char *why, unsigned size)
{
    for (int i = 1; i < argc; i++) {
        const char *value;
        const struct option *d = argv[i][0] == '-' && argv[i][1] ? options_find(argv[i], &value) : NULL;
        if (!d) {
            snprintf(why, size, "option '%s' is not known; memtrace host --help lists them", argv[i]);
            return -1;
        }
        if (!strchr(d->modes, modes[o->mode].letter)) {
            char text[64];
            snprintf(why, size, "option --%s is for %s, not for %s", d->name, options_modes(d->modes, text),
                     modes[o->mode].name);
            return -1;
        }
        if (!value && takes_next(d, i + 1 < argc ? argv[i + 1] : NULL))
            value = argv[++i];
        else if (!value && d->kind == SWITCH)
            value = "1";
        if (!value) {
            snprintf(why, size, "option --%s wants a value: %s", d->name, d->values);
            return -1;
        }
        if (options_set(o, d, value, why, size))
            return -1;
    }
    return 0;
}

int mt_core_options_parse(struct mt_core_options *o, int argc, char *const *argv, char *why, unsigned size)
{
    memset(o, 0, sizeof *o);
    unsigned mode = 0;
    while (mode < sizeof modes / sizeof *modes && (argc < 1 || strcmp(argv[0], modes[mode].name)))
        mode++;
    if (mode == sizeof modes / sizeof *modes) {
        snprintf(why, size, "mode '%s' is not mat, insn or atomic", argc < 1 ? "" : argv[0]);
        return -1;
    }
    o->mode = (enum mt_core_mode)mode;
    if (options_defaults(o, why, size) || options_parse(o, argc, argv, why, size)) {
        mt_core_options_free(o);
        return -1;
    }
    if (*o->format && strcmp(o->format, "text") && strcmp(o->format, "mtc")) {
        snprintf(why, size, "option --format: '%s' is not text or mtc", o->format);
        mt_core_options_free(o);
        return -1;
    }
    options_others(o);
    if (!*o->output)
        o->output =
            o->mat_files ? "memtrace.txt" : modes[mode].output[*o->format ? 1 + (*o->format == 'm') : 0];
    size_t n = strlen(o->output);
    o->container = *o->format ? *o->format == 'm' : n > 4 && !strcmp(o->output + n - 4, ".mtc");
    if (!o->container || !o->mat_files)
        return 0;
    snprintf(
        why, size,
        "option --mat-files: %s would be a container; give an -o that does not end in .mtc, and no --format",
        o->output);
    mt_core_options_free(o);
    return -1;
}

void mt_core_options_free(struct mt_core_options *o)
{
    for (size_t i = 0; i < COUNT; i++)
        if (options[i].kind == LIST) {
            struct mt_core_list *l = options_field(o, &options[i]);
            free(l->item);
            *l = (struct mt_core_list){0};
        }
}
