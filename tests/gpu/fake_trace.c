/* The trace side of fake_cuda.h: what reaches a trace is kept, and the order of calls is checked. */
#include "fake_cuda.h"
#include "base/options.h"
#include "format/cta_rule.h"
#include "trace/selection.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

unsigned fake_sink_us;

struct mt_trace {
    struct fake_launch *launches;
    size_t count;
    int open;
    _Atomic unsigned missed;
};
static pthread_mutex_t untraced_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned nuntraced;
static pthread_mutex_t launches_lock =
    PTHREAD_MUTEX_INITIALIZER; /* tests look while launches begin and end */
unsigned fake_reports;
char fake_report[512];

struct mt_trace *fake_trace_new(void)
{
    return calloc(1, sizeof(struct mt_trace));
}

void fake_trace_free(struct mt_trace *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->launches[i].records), free(t->launches[i].sites);
    free(t->launches);
    free(t);
}

const struct fake_launch *fake_trace_launches(struct mt_trace *t, size_t *count)
{
    pthread_mutex_lock(&launches_lock);
    *count = t->count;
    const struct fake_launch *launches = t->launches;
    pthread_mutex_unlock(&launches_lock);
    return launches;
}

unsigned fake_untraced(void)
{
    pthread_mutex_lock(&untraced_lock);
    unsigned n = nuntraced;
    pthread_mutex_unlock(&untraced_lock);
    return n;
}

unsigned fake_missed(const struct mt_trace *t)
{
    return t->missed;
}

void mt_trace_miss(struct mt_trace *t, const char *why)
{
    t->missed++;
}

/* The order of calls that trace/trace.h asks for is checked here. */
static void fake_trace_must(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "trace: %s\n", what);
        abort();
    }
}

int fake_compact;

int mt_trace_compact(void)
{
    return fake_compact;
}

void mt_trace_begin(struct mt_trace *t, struct mt_launch_line *l)
{
    fake_trace_must(!t, "begin of a launch that has its number"); /* NULL: any thread, at any time */
}

void mt_trace_open_launch(struct mt_trace *t, struct mt_launch_line *l)
{
    if (!t)
        return; /* it is not traced after all */
    fake_trace_must(!t->open, "begin within a launch");
    t->open = 1;
    pthread_mutex_lock(&launches_lock);
    t->launches = realloc(t->launches, (t->count + 1) * sizeof *t->launches);
    struct fake_launch *f = &t->launches[t->count++];
    memset(f, 0, sizeof *f);
    snprintf(f->kernel, sizeof f->kernel, "%s", l->kernel);
    pthread_mutex_unlock(&launches_lock);
}

void mt_trace_append(void *trace, const void *records, size_t n)
{
    struct mt_trace *t = trace;
    fake_trace_must(t->open, "append outside of a launch");
    if (fake_sink_us)
        usleep(fake_sink_us);
    fake_trace_must(!fake_compact || n == 1, "records in a compact trace");
    struct fake_launch *f = &t->launches[t->count - 1];
    f->records = realloc(f->records, (f->count + n) * sizeof *f->records);
    memcpy(f->records + f->count, records, n * sizeof *f->records);
    f->count += n;
}

static void add_site(struct mt_trace *t, uint32_t site)
{
    struct fake_launch *f = &t->launches[t->count - 1];
    f->sites = realloc(f->sites, f->count * sizeof *f->sites);
    f->sites[f->count - 1] = site;
}

void mt_trace_fence(void *trace)
{
    (void)trace;
}

static pthread_mutex_t append_lock = PTHREAD_MUTEX_INITIALIZER; /* several readers write to one trace */

/* As the records that the runs stand for. */
uint64_t mt_trace_append_runs(void *trace, const struct mt_access_run *runs, size_t n, int single)
{
    uint64_t sum = 0;
    pthread_mutex_lock(&append_lock);
    fake_trace_must(fake_compact, "runs in a raw trace");
    for (size_t i = 0; i < n; i++) {
        const struct mt_access_run *r = &runs[i];
        fake_trace_must(r->count == (uint32_t)__builtin_popcount(r->mask) && r->warp < 32,
                        "a run that is none");
        sum += r->count;
        for (uint32_t k = 0; k < r->count; k++) {
            uint64_t address = r->addresses ? r->addresses[k] : r->base + k * (uint64_t)r->stride;
            struct mt_raw_record one = {{(uint64_t)r->smid << 32 | r->meta, address, r->cta}};
            mt_trace_append(trace, &one, 1);
            add_site(trace, r->site);
        }
    }
    fake_trace_must(!single, "runs of single threads");
    pthread_mutex_unlock(&append_lock);
    return sum;
}

unsigned fake_every = 1;

const struct mt_cta_rule *mt_selection_ctas(void)
{
    static struct mt_cta_rule rule;
    rule.every = fake_every;
    return fake_every > 1 ? &rule : NULL;
}

/* As many readers as the test is told. */
const struct mt_options *mt_options(void)
{
    static struct mt_options o = {.ring_slots = 32};
    const char *readers = getenv("FAKE_READERS");
    o.gpu_readers = readers ? (uint64_t)atoi(readers) : 1;
    return &o;
}

void mt_trace_end(struct mt_trace *t, struct mt_launch_line *l)
{
    if (!t) {
        pthread_mutex_lock(&untraced_lock);
        nuntraced++;
        pthread_mutex_unlock(&untraced_lock);
        return;
    }
    fake_trace_must(t->open, "end without begin");
    t->open = 0;
    pthread_mutex_lock(&launches_lock);
    t->launches[t->count - 1].line = *l;
    pthread_mutex_unlock(&launches_lock);
}

void mt_trace_device(const char *kind, const char *name, unsigned sms)
{
}

void mt_trace_workers(unsigned n)
{
}

uint64_t mt_event_seq(void)
{
    static _Atomic uint64_t seq;
    return seq++;
}

uint64_t mt_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int fake_forked;

int mt_forked(void)
{
    return fake_forked;
}

void mt_report(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(fake_report, sizeof fake_report, format, list);
    va_end(list);
    fake_reports++;
}
