/* Tables of totals: made, read and written as lines of companions. */
#define _GNU_SOURCE
#include "tally.h"
#include "base/options.h"
#include "base/report.h"
#include "code.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"
#include "trace/events.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 1 << 15 };

struct table { /* as on the device */
    struct mt_gpu_tallies head;
    struct mt_gpu_tally entry[ENTRIES];
};

struct mt_inject_tallies {
    struct table now;
    uint32_t site[ENTRIES]; /* 0: not known, or not looked for */
    uint8_t looked[ENTRIES];
};

static int tally_on;

static void tally_decide(void)
{
    const char *only = mt_options()->only;
    tally_on = *only && mt_inject_is_list(only, " lines volumes strides ");
    if (*only && !tally_on)
        mt_report("MEMTRACE_ONLY=%s is no list of lines, volumes, strides: accesses are recorded", only);
}

int mt_tally_wanted(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, tally_decide);
    return tally_on;
}

uint64_t mt_tally_make(struct mt_rings_maker *m)
{
    uint64_t unused;
    struct table *image = calloc(1, sizeof *image);
    void *at = image ? mt_rings_memory(m, sizeof *image, 0, &unused) : NULL;
    if (!image)
        m->error = m->no_memory;
    if (at) {
        image->head.entries = ENTRIES;
        m->error = m->put(m, at, image, sizeof *image);
    }
    free(image);
    return m->error ? 0 : (uint64_t)(uintptr_t)at;
}

/* ---- kernels ---- */

static pthread_mutex_t tally_lock = PTHREAD_MUTEX_INITIALIZER; /* protects the names */
static const char **tally_names;
static size_t tally_count, tally_room;

uint64_t mt_tally_kernel(const char *kernel)
{
    uint64_t number = 0;
    pthread_mutex_lock(&tally_lock);
    if (tally_count + 1 < 1ull << (64 - MT_TALLY_PC_BITS) &&
        !mt_grow(&tally_names, &tally_room, tally_count + 1, sizeof *tally_names)) {
        tally_names[tally_count] = kernel;
        number = ++tally_count;
    }
    pthread_mutex_unlock(&tally_lock);
    return number;
}

static const char *tally_name(uint64_t number)
{
    pthread_mutex_lock(&tally_lock);
    const char *name = number && number <= tally_count ? tally_names[number - 1] : "?";
    pthread_mutex_unlock(&tally_lock);
    return name;
}

/* ---- reading ---- */

static uint32_t tally_size(const struct mt_gpu_tally *e)
{
    uint32_t size = (uint32_t)e->meta & MT_RAW_MAX_SIZE;
    return size == MT_RAW_MAX_SIZE ? 0 : size; /* 0: blocks of different sizes */
}

static void tally_look(const struct mt_inject_context *c)
{
    struct mt_inject_tallies *t = c->tallies;
    for (unsigned i = 0; i < ENTRIES; i++) {
        const struct mt_gpu_tally *e = &t->now.entry[i];
        uint64_t pc = (e->key & ((1ull << MT_TALLY_PC_BITS) - 1)) << 4;
        if (!e->key || t->looked[i])
            continue;
        t->looked[i] = 1;
        t->site[i] = mt_code_site(pc | c->number << 56, mt_rec_meta((uint32_t)e->meta >> 28, tally_size(e)));
    }
}

void mt_tally_read(struct mt_inject_context *c)
{
    Sanitizer_StreamHandle stream = NULL;
    if (!c->rings || !c->rings->tallies || mt_rings_closed())
        return;
    if (!c->tallies && !(c->tallies = calloc(1, sizeof *c->tallies))) {
        mt_trace_miss_anywhere("there is no memory for the totals");
        return;
    }
    SanitizerResult r = mt_sanitizer()->GetStreamHandle(c->handle, NULL, &stream);
    if (!r)
        r = mt_sanitizer()->MemcpyDeviceToHost(&c->tallies->now, (void *)(uintptr_t)c->rings->tallies,
                                               sizeof c->tallies->now, stream);
    if (r) {
        mt_report("totals of a GPU cannot be read: %s", mt_sanitizer_text(r));
        mt_trace_miss_anywhere("totals of a GPU could not be read");
    }
    tally_look(c);
}

/* ---- writing ---- */

enum { STRIDE_TEXT = 48 };

static size_t tally_stride_words(const struct mt_gpu_tally *e, char text[][STRIDE_TEXT], const char **list)
{
    size_t n = 0;
    for (unsigned i = 0; i < MT_TALLY_STRIDES; i++)
        if (e->stride[i] && e->times[i]) {
            snprintf(text[n], STRIDE_TEXT, "%lld %llu", (long long)((int64_t)e->stride[i] >> 1),
                     (unsigned long long)e->times[i]);
            list[n] = text[n];
            n++;
        }
    return n;
}

static void tally_line(const struct mt_gpu_tally *e, uint32_t site)
{
    static const char *const ops[] = {"load", "store", "atomic", "?"};
    char text[MT_TALLY_STRIDES][STRIDE_TEXT];
    const char *list[MT_TALLY_STRIDES];
    const struct mt_tally_line l = {.kernel = tally_name(e->key >> MT_TALLY_PC_BITS),
                                    .site = site,
                                    .op = ops[e->meta >> 28 & 3],
                                    .size = tally_size(e),
                                    .requests = e->requests,
                                    .accesses = e->accesses,
                                    .bytes = e->bytes,
                                    .distinct = e->distinct,
                                    .sectors = e->sectors,
                                    .lines = e->lines,
                                    .single = e->single,
                                    .irregular = e->irregular,
                                    .strides = {list, tally_stride_words(e, text, list)},
                                    .other = e->other};
    mt_event_tally(&l);
}

void mt_tally_write(const struct mt_inject_context *c)
{
    const struct mt_inject_tallies *t = c->tallies;
    char why[160];
    for (unsigned i = 0; t && i < ENTRIES; i++)
        if (t->now.entry[i].key && t->now.entry[i].requests)
            tally_line(&t->now.entry[i], t->site[i]);
    if (!t || !t->now.head.lost)
        return;
    snprintf(why, sizeof why, "the table of totals was full: %llu accesses are in no total",
             (unsigned long long)t->now.head.lost);
    mt_report("%s", why);
    mt_trace_miss_anywhere(why);
}
