/* Which launches are traced: MEMTRACE_KERNELS, MEMTRACE_LAUNCHES, MEMTRACE_SAMPLE, MEMTRACE_LIMIT,
 * MEMTRACE_FROM_START, MEMTRACE_NVTX and the program's memtrace_start and memtrace_stop; and which of
 * their CTAs: MEMTRACE_CTAS, MEMTRACE_SAMPLE. */
#define _GNU_SOURCE
#include "selection.h"
#include "events.h"
#include "ctas.h"
#include "nvtx.h"
#include "base/options.h"
#include "base/report.h"
#include "base/fork.h"
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
    int parts; /* MEMTRACE_CTAS or MEMTRACE_SAMPLE is set */
    uint32_t every;
    struct mt_cta_rule ctas;
} rule = {.last = UINT64_MAX, .every = 1, .ctas = {.every = 1}};
static _Atomic uint64_t launches, bytes, left_out;
static _Atomic int on = 1;

/* MEMTRACE_SAMPLE=launch:N counts the launches of each kernel. */
struct kernel {
    struct kernel *next;
    uint64_t launches;
    char name[];
};
static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(kernels_lock, MT_FORK_LEAVES);
static struct kernel *kernels;

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
static int selection_number(const char **text, uint64_t *out)
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
    int has_first = selection_number(&at, &first), range = *at == ':'                                  ? 1
                                                           : has_first && at[0] == '.' && at[1] == '.' ? 2
                                                                                                       : 0;
    at += range;
    int has_last = range && selection_number(&at, &last);
    if (!range)
        last = first;
    if (*at || (range == 2 && !has_last) || (!has_first && !has_last) || first > last) {
        mt_report(
            "MEMTRACE_LAUNCHES=%s: not A..B, A:B, A:, :B or A (launches are counted from 0); all are traced",
            text);
        return;
    }
    rule.first = first;
    rule.last = last;
}

static void read_parts(const char *ctas, const char *sample)
{
    char why[200];
    if (*ctas && mt_ctas_parse(&rule.ctas, ctas, why, sizeof why))
        mt_report("MEMTRACE_CTAS=%s: %s; all CTAs are traced", ctas, why);
    if (*sample && mt_sample_parse(&rule.ctas.every, &rule.every, sample, why, sizeof why))
        mt_report("MEMTRACE_SAMPLE=%s: %s; no sample is taken", sample, why);
    rule.parts = rule.ctas.terms || rule.ctas.every > 1 || rule.every > 1;
}

static void read_options(void)
{
    const struct mt_options *o = mt_options();
    read_kernels(o->kernels);
    read_launches(o->launches);
    read_parts(o->ctas, o->sample);
    if (!o->from_start)
        on = 0;
}

/* The number of this launch among those of its kernel. Without memory it is the first one: traced. */
static uint64_t launch_of(const char *name)
{
    uint64_t n = 0;
    pthread_mutex_lock(&kernels_lock);
    struct kernel *k = kernels;
    while (k && strcmp(k->name, name))
        k = k->next;
    if (!k && (k = calloc(1, sizeof *k + strlen(name) + 1))) {
        strcpy(k->name, name);
        k->next = kernels;
        kernels = k;
    }
    if (k)
        n = k->launches++;
    pthread_mutex_unlock(&kernels_lock);
    return n;
}

static const char sampled[] = "MEMTRACE_SAMPLE";

static int is_left_out(const char *kernel)
{
    return rule.chooses && (regexec(&rule.kernels, kernel, 0, NULL, 0) == 0) == rule.others;
}

int mt_selection_never(const char *kernel)
{
    uint64_t limit = mt_options()->limit;
    pthread_once(&once, read_options);
    return !mt_tracing() || is_left_out(kernel) || launches > rule.last || (limit && bytes >= limit);
}

static const char *selection_reason(const struct mt_launch_line *l)
{
    if (!on)
        return "memtrace_stop";
    if (!mt_nvtx_takes())
        return "MEMTRACE_NVTX";
    if (is_left_out(l->source ? l->source : l->kernel))
        return "MEMTRACE_KERNELS";
    uint64_t n = launches++;
    if (n < rule.first || n > rule.last)
        return "MEMTRACE_LAUNCHES";
    if (rule.every > 1 && launch_of(l->kernel) % rule.every)
        return sampled;
    uint64_t limit = mt_options()->limit;
    return limit && bytes >= limit ? "MEMTRACE_LIMIT" : NULL;
}

static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(count_lock, MT_FORK_LEAVES);

/* Programs launch the same grids again and again, and a count may take a while. */
static void count_ctas(struct mt_launch_line *l)
{
    static uint32_t grid[3];
    static uint64_t chosen, traced;
    pthread_mutex_lock(&count_lock);
    if (memcmp(grid, l->grid, sizeof grid)) {
        memcpy(grid, l->grid, sizeof grid);
        chosen = mt_ctas_count(&rule.ctas, 1, grid);
        traced = rule.ctas.every > 1 ? mt_ctas_count(&rule.ctas, rule.ctas.every, grid) : chosen;
    }
    l->ctas = chosen;
    l->traced_ctas = traced;
    pthread_mutex_unlock(&count_lock);
}

int mt_selection_takes(struct mt_launch_line *l)
{
    pthread_once(&once, read_options);
    l->left_out = selection_reason(l);
    l->in_parts = rule.parts && (!l->left_out || l->left_out == sampled);
    if (l->in_parts)
        count_ctas(l);
    if (l->left_out) {
        left_out++;
        l->traced_ctas = 0;
    }
    return !l->left_out;
}

const struct mt_cta_rule *mt_selection_ctas(void)
{
    pthread_once(&once, read_options);
    return rule.ctas.terms || rule.ctas.every > 1 ? &rule.ctas : NULL;
}

uint64_t mt_selection_left_out(void)
{
    return left_out;
}

void mt_selection_wrote(uint64_t n)
{
    uint64_t most = mt_options()->limit_warn, now = bytes += n;
    if (mt_options()->format == MT_FORMAT_RAW && most && now >= most && now - n < most &&
        !mt_options()->quiet)
        mt_report("the raw traces have %.1f GiB (MEMTRACE_LIMIT_WARN) and grow on: MEMTRACE_FORMAT=compact "
                  "needs a fraction of "
                  "that, MEMTRACE_LIMIT ends them",
                  (double)now / (1 << 30));
}

/* on 1, 0: the program asked for the launches from here on, or for none. */
static void selection_switch(int to)
{
    pthread_once(&once, read_options);
    on = to;
}

void mt_selection_profiler(int to)
{
    if (!mt_options()->from_start)
        selection_switch(to);
}

/* What programs call: include/memtrace/annotate.h. */
__attribute__((visibility("default"))) void memtrace_start(void)
{
    selection_switch(1);
}

__attribute__((visibility("default"))) void memtrace_stop(void)
{
    selection_switch(0);
}
