/* The command line: a getopt_long table made of host/core/options.def and memtrace host's own options. */
#include "cli.h"
#include "base/command.h"
#include "base/near.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "host/core/core.h"

#define ROW_STRING 'S'
#define ROW_NUMBER 'N'
#define ROW_POWER 'P'
#define ROW_SWITCH 'B'
#define ROW_LIST 'L'
const struct option_row option_rows[] = {
#define MT_HOST_OPTION(kind, field, letter, name, modes, def, values, help)                                  \
    {ROW_##kind, letter, name, modes, values, def, help},
#include "host/core/options.def"
};
const size_t option_count = sizeof option_rows / sizeof *option_rows;

enum { FIRST_ROW = 2000, OWN = MT_OPT_END - MT_OPT_FIRST, ROWS = sizeof option_rows / sizeof *option_rows };

struct table {
    struct option longs[OWN + ROWS + 1];
    char shorts[3 + 2 * OWN + 3 * ROWS];
};

static void make_table(struct table *t)
{
    char *s = t->shorts;
    unsigned own = 0;
    memset(t, 0, sizeof *t);
    s += sprintf(s, "+:"); /* stop at the first word that is not an option: the mode, then the program */
    mt_command_table(MT_OF_HOST, 1, t->longs, s);
    s += strlen(s);
    while (t->longs[own].name)
        own++;
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_rows[i];
        int needs = row->kind == ROW_SWITCH ? optional_argument : required_argument;
        t->longs[own + i] = (struct option){row->name, needs, NULL, FIRST_ROW + (int)i};
        if (row->letter)
            s += sprintf(s, "%c%s", row->letter, needs == optional_argument ? "::" : ":");
    }
}

static const struct option_row *row_of(int code)
{
    if (code >= FIRST_ROW)
        return &option_rows[code - FIRST_ROW];
    for (size_t i = 0; i < option_count; i++)
        if (option_rows[i].letter && option_rows[i].letter == code)
            return &option_rows[i];
    return NULL;
}

static const char *const modes[] = {"mat", "insn", "atomic", NULL};
static const char *const engines[] = {"auto", "llvm", "dynamorio", "qemu", "pin", NULL};

static char mode_letter(const char *mode)
{
    return strcmp(mode, "mat") == 0      ? 'M'
           : strcmp(mode, "insn") == 0   ? 'I'
           : strcmp(mode, "atomic") == 0 ? 'A'
                                         : 0;
}

/* "mat", "mat and atomic" … of "MA". */
static const char *mode_names(const char *letters, char text[64])
{
    size_t n = strlen(letters);
    *text = 0;
    for (size_t i = 0; i < n; i++) {
        if (i)
            strcat(text, i + 1 == n ? " and " : ", ");
        strcat(text, letters[i] == 'M' ? "mat" : letters[i] == 'I' ? "insn" : "atomic");
    }
    return text;
}

static int wrong_option(const char *mode, int c, int argc, char **argv, const struct option *longs)
{
    const struct option_row *row = row_of(optopt);
    const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";
    if (c == ':' && row)
        return row->letter ? mt_hostrun_usage(mode, "--%s or -%c needs a value (%s)", row->name, row->letter,
                                              row->values)
                           : mt_hostrun_usage(mode, "--%s needs a value (%s)", row->name, row->values);
    if (c == ':')
        return mt_hostrun_usage(mode, "%s needs a value", word);
    if (optopt && optopt < 256)
        return mt_hostrun_usage(mode, "unknown option -%c", optopt);
    if (optopt) /* a value for an option that takes none */
        return mt_hostrun_usage(mode, "%s: this option takes no value", word);
    const char *near = mt_near_option(word, longs);
    return near ? mt_hostrun_usage(mode, "option %s is unknown: did you mean --%s?", word, near)
                : mt_hostrun_usage(mode, "option %s is unknown, or short for several", word);
}

/* Keeps one option of the mode, in both spellings. */
static void request_keep(struct request *r, const struct option_row *row, const char *value)
{
    int output = strcmp(row->name, "output") == 0;
    mt_words_add(&r->given, row->name);
    /* "-" by a name that is a value on each engine's command line */
    mt_words_add(&r->given, output && strcmp(value, "-") == 0 ? "/dev/stdout" : value);
    if (strcmp(row->name, "signal") == 0)
        r->signals = strcmp(value, "0") != 0;
}

/* What a shell asks for: the words that an option's value, or the kind of trace, can be. 1: it did. */
static int request_words(int argc, char **argv, const struct table *t)
{
    int c = mt_near_values(argc, argv, t->shorts, t->longs);
    const struct option_row *row = c > 0 ? row_of(c) : NULL;
    const char *const *list = c == MT_OPT_ENGINE ? engines : c < 0 && !*argv[2] ? modes : NULL;
    if (list)
        mt_near_word("", 0, list);
    for (const char *p = row && strchr(row->values, '|') ? row->values : ""; *p;) {
        size_t n = strcspn(p, "|");
        if (*p < 'A' || *p > 'Z') /* NAME stands for others */
            printf("%.*s\n", (int)n, p);
        p += n + (p[n] == '|');
    }
    return c != 0;
}

static int read_options(struct request *r, int argc, char **argv, int *wants_help)
{
    struct table t;
    int c;
    make_table(&t);
    if (mt_near_completion(argc, argv, t.shorts, t.longs) || request_words(argc, argv, &t))
        return -1;
    while ((c = getopt_long(argc, argv, t.shorts, t.longs, NULL)) != -1) {
        const struct option_row *row = c == ':' || c == '?' ? NULL : row_of(c);
        const char *value = optarg;
        if (c == ':' || c == '?')
            return wrong_option(r->mode, c, argc, argv, t.longs);
        if (row) {
            /* A switch may be spelt -r 1, too. Only 0 and 1 are taken as the value. */
            if (!value && optind < argc && (!strcmp(argv[optind], "0") || !strcmp(argv[optind], "1")))
                value = argv[optind++];
            request_keep(r, row, value ? value : "1");
        } else if (c == MT_OPT_ENGINE) {
            r->engine = optarg;
        } else if (c == MT_OPT_VERSION || c == 'V') {
            printf("mt-host (memtrace) %s\n", MEMTRACE_VERSION);
            return -1;
        } else if (c == MT_OPT_ENGINES) {
            mt_hostrun_engines_print();
            return -1;
        } else if (c == MT_OPT_SHOW) {
            r->show = 1;
        } else if (c == MT_OPT_QUIET || c == 'q') {
            r->quiet = 1;
        } else if (c == MT_OPT_VERBOSE || c == 'v') {
            r->verbose = 1;
        } else if (c == MT_OPT_EXEC) {
            r->exec = 1;
        } else if (c == MT_OPT_ARGV0) {
            r->argv0 = optarg;
        } else {
            *wants_help = 1;
        }
    }
    return 0;
}

static int check_engine(const struct request *r)
{
    for (size_t i = 0; engines[i]; i++)
        if (strcmp(r->engine, engines[i]) == 0)
            return 0;
    const char *near = mt_near_word(r->engine, strlen(r->engine), engines);
    if (near)
        return mt_hostrun_usage(r->mode, "unknown engine %s: did you mean %s?", r->engine, near);
    return mt_hostrun_usage(r->mode, "unknown engine %s: use auto, llvm, dynamorio, qemu or pin", r->engine);
}

/* The words as the core reads them, and what it thinks of their values. */
static int check_options(struct request *r)
{
    struct mt_core_options o;
    char why[400], modes[64];
    mt_words_add(&r->core, r->mode);
    for (size_t i = 0; i + 1 < r->given.count; i += 2) {
        const struct option_row *row = option_rows;
        while (strcmp(row->name, r->given.word[i]) != 0)
            row++;
        if (!strchr(row->modes, mode_letter(r->mode)))
            return mt_hostrun_usage(r->mode, "--%s is for %s, not for %s", row->name,
                                    mode_names(row->modes, modes), r->mode);
        mt_words_addf(&r->core, "--%s=%s", row->name, r->given.word[i + 1]);
    }
    if (mt_core_options_parse(&o, (int)r->core.count, r->core.word, why, sizeof why) != 0)
        return mt_hostrun_usage(r->mode, "%s", why);
    r->output = o.output;
    r->container = o.container;
    mt_core_options_free(&o);
    return 0;
}

int mt_hostrun_request_mode(struct request *r, const char *mode)
{
    mt_words_free(&r->core);
    r->mode = mode;
    return check_options(r);
}

static int request_has(const struct request *r, const char *option)
{
    for (size_t i = 0; i < r->given.count; i += 2)
        if (strcmp(r->given.word[i], option) == 0)
            return 1;
    return 0;
}

/* No kind of trace was named: what most want to see, in a file for memtrace report. */
static void request_unasked(struct request *r)
{
    static const char *const words[] = {"output", "memory_trace.mtc", "library", "data"};
    r->mode = "atomic";
    r->unasked = 1;
    for (int i = 0; i < 4; i += 2)
        if (!request_has(r, words[i]) && !request_has(r, i ? "own" : "format")) {
            mt_words_add(&r->given, words[i]);
            mt_words_add(&r->given, words[i + 1]);
        }
}

int mt_hostrun_request_read(struct request *r, int argc, char **argv)
{
    int help = 0, code;
    memset(r, 0, sizeof *r);
    r->engine = "auto";
    opterr = 0;
    code = read_options(r, argc, argv, &help);
    if (code == 0 && optind < argc && !(optind > 1 && strcmp(argv[optind - 1], "--") == 0) &&
        mode_letter(argv[optind])) {
        r->mode = argv[optind++];
        code = read_options(r, argc, argv, &help);
    }
    if (code != 0)
        return code;
    if (help) {
        mt_hostrun_help_print(r->mode);
        return -1;
    }
    if (!r->mode && optind >= argc)
        return mt_hostrun_usage(NULL, "no program given, as in: memtrace host ls -l");
    if (!r->mode)
        request_unasked(r);
    if ((code = check_engine(r)) != 0 || (code = check_options(r)) != 0)
        return code;
    if (optind >= argc)
        return mt_hostrun_usage(r->mode, "no program given, as in: memtrace host %s -- ls -l", r->mode);
    r->program = argv + optind;
    return 0;
}

void mt_hostrun_request_free(struct request *r)
{
    mt_words_free(&r->given);
    mt_words_free(&r->core);
}
