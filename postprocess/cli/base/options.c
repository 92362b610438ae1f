/* The command line: options that the programs have in common, numbers, words, and which launches are
 * reported. */
#define _GNU_SOURCE
#include "cli.h"
#include "base/near.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void mt_filter_init(struct mt_filter *f)
{
    memset(f, 0, sizeof *f);
    f->end = UINT64_MAX;
}

int mt_filter_kernels(struct mt_filter *f, const char *text)
{
    if (f->has_kernels)
        regfree(&f->kernels);
    int e = regcomp(&f->kernels, text, REG_EXTENDED | REG_NOSUB);
    f->has_kernels = e == 0;
    if (e) {
        char why[200];
        regerror(e, &f->kernels, why, sizeof why);
        return mt_cli_usage("'%s' is not a regular expression: %s", text, why);
    }
    f->kernels_text = text;
    return 0;
}

static int options_number(const char *text, const char **end, uint64_t *n)
{
    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    *n = strtoull(text, (char **)end, 10);
    return errno ? -1 : 0;
}

int mt_filter_supersteps(struct mt_filter *f, const char *text)
{
    const char *p = text;
    f->first = 0;
    f->end = UINT64_MAX;
    int begins = *p != '.', bad = begins && options_number(p, &p, &f->first) != 0;
    if (!bad && begins && *p == 0) {
        f->end = f->first + 1;
    } else if (!bad && strncmp(p, "..", 2) == 0 && (begins || p[2])) {
        if (p[2])
            bad = options_number(p + 2, &p, &f->end) != 0 || *p || f->end < f->first || ++f->end == 0;
    } else {
        bad = 1;
    }
    if (bad)
        return mt_cli_usage("'%s' is not a range of launches: A..B (both included), A.., ..B, or A%s", text,
                            strchr(text, ':') ? "; A:B ended before B in older versions" : "");
    f->supersteps_text = text;
    return 0;
}

int mt_filter_match(const struct mt_filter *f, const char *kernel, uint64_t superstep)
{
    return superstep >= f->first && superstep < f->end &&
           (!f->has_kernels || regexec(&f->kernels, kernel, 0, NULL, 0) == 0);
}

void mt_filter_explain(const struct mt_filter *f, uint64_t launches, uint64_t chosen)
{
    if (launches == 0 || chosen > 0 || (!f->has_kernels && !f->supersteps_text))
        return;
    mt_cli_note("no launch matches%s%s%s%s: the trace has %llu, and memtrace dump --stat names their kernels",
                f->has_kernels ? " --kernels " : "", f->has_kernels ? f->kernels_text : "",
                f->supersteps_text ? " --launches " : "", f->supersteps_text ? f->supersteps_text : "",
                (unsigned long long)launches);
}

void mt_filter_free(struct mt_filter *f)
{
    if (f->has_kernels)
        regfree(&f->kernels);
    f->has_kernels = 0;
}

/* ---- options ---- */

int mt_cli_options(const struct mt_command *c, int argc, char **argv, int (*take)(void *arg, int option),
                   void *arg)
{
    mt_cli_quiet |= argc == 3 && strcmp(argv[1], "--completion-values") == 0;
    int rc = mt_command_options(c, argc, argv, take, arg);
    return rc < 0 && mt_near_told() ? MT_EXIT_FAILURE : rc;
}

int mt_cli_number(const char *text, uint64_t least, uint64_t most, uint64_t *n)
{
    const char *end;
    return options_number(text, &end, n) == 0 && !*end && *n >= least && *n <= most;
}

int mt_cli_word(const char *text, const char *const *list)
{
    for (int i = 0; list[i]; i++)
        if (strcmp(text, list[i]) == 0)
            return i;
    mt_cli_hint(text, strlen(text), list);
    return -1;
}

void mt_cli_hint(const char *text, size_t n, const char *const *list)
{
    const char *near = mt_near_word(text, n, list);
    if (near)
        mt_cli_say("'%.*s': did you mean '%s'?", (int)n, text, near);
}

int mt_common_option(int o, struct mt_inputs *in, struct mt_filter *f)
{
    switch (o) {
    case MT_OPT_KERNELS:
        return mt_filter_kernels(f, optarg);
    case MT_OPT_LAUNCHES:
    case MT_OPT_SUPERSTEPS:
        return mt_filter_supersteps(f, optarg);
    case MT_OPT_COMPANION:
        return mt_inputs_companion(in, optarg);
    case MT_OPT_NO_COMPANION:
        in->flags |= MT_SOURCE_NO_COMPANION;
        return 0;
    case MT_OPT_QUIET:
        mt_cli_brief = 1;
        return 0;
    default:
        return mt_cli_usage("unknown or incomplete option");
    }
}

int mt_cli_format(const char *only)
{
    return strcmp(optarg, only) == 0 ? 0
                                     : mt_cli_usage("'%s' is not a format: it is always %s", optarg, only);
}
