/* MEMTRACE_CHECK=1: calls that return an error to the program. */
#define _GNU_SOURCE
#include "failed.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "base/fork.h"
#include "base/options.h"
#include "check.h"
#include "cpu/cpu.h"
#include "device.h"
#include "heap.h"
#include "trace/events.h"
#include "trace/python.h"
#include "trace/site.h"
#include "trace/trace.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACES 1000 /* failures at more places are counted together */
#define FRAMES 32   /* of our own, too */

/* The call under way of a thread. Not thread-local: of that memory a library that is loaded late gets little.
 */
struct failed_call {
    unsigned depth; /* calls within calls */
    const char *name;
    const void *caller;
    const struct mt_host_site *site;
    const void *asked_by; /* mt_failed_caller */
    char why[256];
    int64_t freed; /* id of the allocation that was freed before; -1: none */
};

/* What failed at one place, in one way. */
struct failed_place {
    const void *caller;
    struct mt_failed_line event;
    char why[256], *at[1 + MT_SITE_CALLERS]; /* and who has called that */
    uint64_t more;                           /* times since the first one, which was written at once */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_CAPTURES);
static struct failed_place *places[PLACES];
static unsigned nplaces;
static uint64_t elsewhere;

static pthread_key_t key;

static const struct mt_host_site *failed_code(void);

static void failed_make_key(void)
{
    pthread_key_create(&key, free);
    mt_host_site_ask(failed_code);
}

/* This thread's, or NULL: no memory. */
static struct failed_call *failed_now(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, failed_make_key);
    struct failed_call *c = pthread_getspecific(key);
    if (c || !(c = calloc(1, sizeof *c)))
        return c;
    pthread_setspecific(key, c);
    return c;
}

int mt_failed_watched(void)
{
    return mt_options()->check && !mt_device_is_gpu();
}

/* ---- where a call comes from ---- */

/* 1 and "FILE+0xOFFSET", the offset as the file's own addresses are; 0: one of our own libraries calls. *out,
 * malloc'ed, stays NULL for code of no file. */
static int failed_at(const void *caller, char **out)
{
    Dl_info info;
    struct link_map *map;
    char path[PATH_MAX];
    if (!caller || !dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !info.dli_fname)
        return 1;
    const char *slash = strrchr(info.dli_fname, '/');
    if (!strncmp(slash ? slash + 1 : info.dli_fname, "libmemtrace", strlen("libmemtrace")))
        return 0;
    if (realpath(*map->l_name ? info.dli_fname : "/proc/self/exe", path) &&
        asprintf(out, "%s+0x%llx", path, (unsigned long long)((uintptr_t)caller - (uintptr_t)map->l_addr)) <
            0)
        *out = NULL;
    return 1;
}

/* The return address and those behind it, as far as they are known; how many. */
static unsigned failed_frames(const void *caller, void **out)
{
    void *frame[FRAMES];
    int n = backtrace(frame, FRAMES), i = 0;
    unsigned taken = 0;
    while (i < n && frame[i] != caller)
        i++;
    while (i < n && taken <= MT_SITE_CALLERS)
        out[taken++] = frame[i++];
    return taken;
}

/* Who has called the code that has made the call; how many are in at[]. */
static unsigned failed_callers(void *const *frame, unsigned n, char **at)
{
    unsigned known = 0;
    while (known + 1 < n && failed_at(frame[known + 1], &at[known]) && at[known])
        known++;
    return known;
}

/* ---- calls that say no line ---- */

static struct failed_code {
    struct mt_host_code place;
    void *frame[1 + MT_SITE_CALLERS];
    struct failed_code *next;
} *codes; /* they stay */
static unsigned ncodes;

static const struct mt_host_site *failed_code_known(void *const *frame)
{
    const struct failed_code *c = codes;
    pthread_mutex_lock(&lock);
    for (c = codes; c && memcmp(c->frame, frame, sizeof c->frame) != 0;)
        c = c->next;
    pthread_mutex_unlock(&lock);
    return c ? &c->place.site : NULL;
}

static const struct mt_host_site *failed_code_add(void *const *frame, unsigned n)
{
    struct failed_code *c = ncodes < PLACES ? calloc(1, sizeof *c) : NULL;
    if (c && (!failed_at(frame[0], &c->place.at[0]) || !c->place.at[0])) {
        free(c);
        return NULL;
    }
    if (!c)
        return NULL;
    c->place.site = (struct mt_host_site){.file = "", .function = "", .name = mt_host_code_name};
    c->place.ncallers = failed_callers(frame, n, &c->place.at[1]);
    memcpy(c->frame, frame, sizeof c->frame);
    pthread_mutex_lock(&lock);
    c->next = codes;
    codes = c;
    ncodes++;
    pthread_mutex_unlock(&lock);
    return &c->place.site;
}

/* The place of the call under way. */
static const struct mt_host_site *failed_code(void)
{
    const struct failed_call *c = failed_now();
    void *frame[1 + MT_SITE_CALLERS] = {NULL};
    unsigned n = c && c->depth && c->caller ? failed_frames(c->caller, frame) : 0;
    const struct mt_host_site *known = n ? failed_code_known(frame) : NULL;
    return known || !n ? known : failed_code_add(frame, n);
}

/* The place that the program said before this call, or NULL: another call may have left one. */
static const struct mt_host_site *failed_site(const char *name)
{
    const struct mt_host_site *s = mt_host_site_pending();
    int launch = strstr(name, "LaunchKernel") || strstr(name, "LaunchCooperative");
    return s && (launch || strstr(s->name, name) || strstr(name, s->name)) ? s : NULL;
}

void mt_failed_caller(const void *caller)
{
    struct failed_call *c = mt_options()->check ? failed_now() : NULL;
    if (c)
        c->asked_by = caller;
}

void mt_failed_enter(const char *name, const void *caller)
{
    struct failed_call *c = failed_now();
    if (!c || c->depth++)
        return;
    c->name = name + (strncmp(name, "__", 2) ? 0 : 2); /* __cudaLaunchKernel, of CUDA 13 */
    c->caller = c->asked_by ? c->asked_by : caller;
    c->site = failed_site(name);
    c->freed = -1;
    *c->why = 0;
    mt_fail_launched();
}

/* ---- the table ---- */

/* By the line, if it is known: compilers copy calls. */
static int failed_is_here(const struct failed_place *p, const struct failed_call *c)
{
    const struct mt_host_site *was = p->event.site, *is = c->site;
    if (!was || !is || !mt_host_site_there(was))
        return p->caller == c->caller && was == is;
    return was == is || (was->line == is->line && !strcmp(was->file, is->file));
}

static struct failed_place *failed_find(const struct failed_call *c, int code)
{
    for (unsigned i = 0; i < nplaces; i++)
        if (places[i]->event.code == code && !strcmp(places[i]->event.call, c->name) &&
            failed_is_here(places[i], c))
            return places[i];
    return NULL;
}

static void failed_free(struct failed_place *p)
{
    for (size_t i = 0; p && i <= MT_SITE_CALLERS; i++)
        free(p->at[i]);
    free(p);
}

/* Without the lock: it asks the dynamic linker, which may be running code that fails. NULL: no memory, or a
 * library of ours asks for itself (*own). */
static struct failed_place *failed_make(const struct failed_call *c, int code, const char *error, int *own)
{
    struct failed_place *p = calloc(1, sizeof *p);
    if (p && (*own = !failed_at(c->caller, &p->at[0]))) {
        free(p);
        return NULL;
    }
    if (!p)
        return NULL;
    p->caller = c->caller;
    memcpy(p->why, c->why, sizeof p->why);
    p->event = (struct mt_failed_line){.call = c->name,
                                       .code = code,
                                       .error = error,
                                       .site = c->site,
                                       .at = p->at[0],
                                       .callers = {(const char *const *)&p->at[1], 0},
                                       .why = p->why,
                                       .freed = (uint64_t)c->freed,
                                       .count = 1};
    void *frame[1 + MT_SITE_CALLERS];
    unsigned n = failed_frames(c->caller, frame);
    p->event.callers.n = failed_callers(frame, n, &p->at[1]);
    return p;
}

/* Counts one more where it was met before, or where there is no room: 0. Else adds `p`: 1; NULL: -1. */
static int failed_count(const struct failed_call *c, int code, struct failed_place *p)
{
    int result = 0;
    pthread_mutex_lock(&lock);
    struct failed_place *known = failed_find(c, code);
    if (known)
        known->more++;
    else if (nplaces == PLACES)
        elsewhere++;
    else if (!p)
        result = -1;
    else {
        places[nplaces++] = p;
        mt_event_failed(&p->event);
        result = 1;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void mt_failed_leave(int code, const char *error)
{
    struct failed_call *c = failed_now();
    int own = 0;
    if (!c || --c->depth || !code || code == cudaErrorNotReady)
        return;
    if (mt_fail_launched()) /* the launch has an event of its own */
        return;
    if (!c->site)
        c->site = mt_python_site();
    if (failed_count(c, code, NULL) >= 0)
        return;
    struct failed_place *p = failed_make(c, code, error, &own);
    if (p && failed_count(c, code, p) <= 0)
        failed_free(p);
    else if (p)
        mt_trace_flush(1); /* many programs end now, and not all of them tidily */
}

void mt_failed_launch(const struct mt_cpu_launch *l, const struct mt_launch_line *line, int status)
{
    if (!mt_failed_watched() || !status)
        return;
    struct mt_failed_line e = {.call = "cudaLaunchKernel",
                               .code = status,
                               .error = impl_cudaGetErrorName((cudaError_t)status),
                               .site = line->site,
                               .why = l->message,
                               .kernel = line->kernel,
                               .launch = line->seq,
                               .freed = UINT64_MAX,
                               .count = 1};
    mt_event_failed(&e);
}

void mt_failed_finish(void)
{
    if (!mt_options()->check)
        return;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < nplaces; i++)
        if ((places[i]->event.count = places[i]->more))
            mt_event_failed(&places[i]->event);
    if (elsewhere)
        mt_event_failed(&(struct mt_failed_line){.more = elsewhere});
    pthread_mutex_unlock(&lock);
    mt_trace_needed();
}

/* ---- words ---- */

/* The call that words are for, or NULL: it is not watched. */
static struct failed_call *failed_worded(void)
{
    struct failed_call *c = mt_options()->check ? failed_now() : NULL;
    return c && c->depth ? c : NULL;
}

void mt_failed_why(const char *format, ...)
{
    struct failed_call *c = failed_worded();
    va_list ap;
    if (!c)
        return;
    va_start(ap, format);
    vsnprintf(c->why, sizeof c->why, format, ap);
    va_end(ap);
}

void mt_failed_range(const char *what, const void *p, uint64_t bytes)
{
    char where[256];
    struct mt_block b;
    if (!failed_worded())
        return;
    mt_check_words(p, where, sizeof where);
    if (mt_heap_find(p, &b))
        mt_failed_why("%s: %llu bytes from %s", what, (unsigned long long)bytes, where);
    else
        mt_failed_why("%s: %s", what, where);
}

void mt_failed_turned(const char *kind, const char *what, const void *p)
{
    struct mt_block b;
    char where[256];
    int device = mt_heap_find(p, &b);
    if (!failed_worded())
        return;
    mt_check_words(p, where, sizeof where);
    if (device || strstr(where, "host program"))
        mt_failed_why("cudaMemcpy%s, but its %s is %s", kind, what, where);
}

void mt_failed_free(const void *p, unsigned kinds)
{
    static const char inside[] = "inside freed memory: ";
    struct failed_call *c = failed_worded();
    uint64_t address = (uint64_t)(uintptr_t)p;
    char where[256];
    struct mt_block b;
    if (!c)
        return;
    mt_check_words(p, where, sizeof where);
    if (!mt_heap_find(p, &b)) {
        int again = mt_heap_find_freed(address, &b) && b.base == address;
        c->freed = again ? b.id - 1 : -1;
        mt_failed_why("%s%s", again ? "already freed: " : "", where + (again ? strlen(inside) : 0));
    } else if (b.base != address)
        mt_failed_why("not its beginning: %s", where);
    else if (!(kinds & 1u << b.kind))
        mt_failed_why("not what this call frees: %s", where);
    else
        mt_failed_why("its free is in a stream already: %s", where);
}
