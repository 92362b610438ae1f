#define _GNU_SOURCE
#include "selection.h"
#include "options.h"
#include "report.h"
#include <errno.h>
#include <pthread.h>
#include <regex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    regex_t kernels;
    int chooses, others; /* MEMTRACE_KERNELS is set; it began with `!` */
    uint64_t first, last;
} rule = {.last = UINT64_MAX};
static _Atomic uint64_t launches, bytes, left_out;
static _Atomic int on = 1;

static void read_kernels(const char *text)
{
    char why[200];
    int bad;
    if (!*text)
        return;
    rule.others = *text == '!';
    bad = regcomp(&rule.kernels, text + rule.others, REG_EXTENDED | REG_NOSUB);
    rule.chooses = !bad;
    if (bad && regerror(bad, &rule.kernels, why, sizeof why))
        mt_report("MEMTRACE_KERNELS=%s: %s; all kernels are traced", text, why);
}

/* A number of a launch; 0 when there is none at *text, which is `missing` then. */
static int number(const char **text, uint64_t *out)
{
    char *end;
    if (**text < '0' || **text > '9')
        return 0;
    errno = 0;
    *out = strtoull(*text, &end, 10);
    *text = end;
    return !errno;
}

static void read_launches(const char *text)
{
    const char *at = text;
    uint64_t first = 0, last = UINT64_MAX;
    if (!*text)
        return;
    int has_first = number(&at, &first), range = *at == ':';
    at += range;
    int has_last = range && number(&at, &last);
    if (!range)
        last = first;
    if (*at || (!has_first && !has_last) || first > last) {
        mt_report("MEMTRACE_LAUNCHES=%s: not A:B, A:, :B or A (launches are counted from 0); all are traced",
                  text);
        return;
    }
    rule.first = first;
    rule.last = last;
}

static void read_options(void)
{
    const struct mt_options *o = mt_options();
    read_kernels(o->kernels);
    read_launches(o->launches);
    if (!o->from_start)
        on = 0;
}

static const char *reason(const char *kernel)
{
    if (!on)
        return "memtrace_stop";
    if (rule.chooses && (regexec(&rule.kernels, kernel, 0, NULL, 0) == 0) == rule.others)
        return "MEMTRACE_KERNELS";
    uint64_t n = launches++;
    if (n < rule.first || n > rule.last)
        return "MEMTRACE_LAUNCHES";
    uint64_t limit = mt_options()->limit;
    return limit && bytes >= limit ? "MEMTRACE_LIMIT" : NULL;
}

const char *mt_selection_leaves_out(const char *kernel)
{
    pthread_once(&once, read_options);
    const char *why = reason(kernel);
    if (why)
        left_out++;
    return why;
}

uint64_t mt_selection_left_out(void)
{
    return left_out;
}

void mt_selection_wrote(uint64_t n)
{
    bytes += n;
}

void mt_selection_switch(int to)
{
    pthread_once(&once, read_options);
    on = to;
}

void mt_selection_profiler(int to)
{
    if (!mt_options()->from_start)
        mt_selection_switch(to);
}

/* What programs call: include/memtrace/annotate.h. */
__attribute__((visibility("default"))) void memtrace_start(void)
{
    mt_selection_switch(1);
}

__attribute__((visibility("default"))) void memtrace_stop(void)
{
    mt_selection_switch(0);
}
