/* Selection of the launches to trace: MEMTRACE_KERNELS, MEMTRACE_LAUNCHES, MEMTRACE_SAMPLE, MEMTRACE_LIMIT,
 * MEMTRACE_FROM_START, MEMTRACE_NVTX and the program's memtrace_start and memtrace_stop; and of their CTAs:
 * MEMTRACE_CTAS, MEMTRACE_SAMPLE. */
#define _GNU_SOURCE

#include "selection.h"
#include "memtrace/order.h"
#include "events.h"
#include "base/options.h"
#include "base/report.h"
#include "site.h"
#include "base/fork.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include "base/regex.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

/* ---- texts of MEMTRACE_CTAS and MEMTRACE_SAMPLE
 * -------------------------------------------------------------------------------------- */

static int ctas_number(const char **text, uint64_t *out)
{
    char *end;
    if (**text < '0' || **text > '9')
        return 0;
    errno = 0;
    *out = strtoull(*text, &end, 10);
    *text = end;
    return !errno;
}

/* Parses a range at *text and moves past it. Returns 0, or -1 if there is none. */
static int ctas_range(const char **text, uint64_t *low, uint64_t *high)
{
    *low = 0;
    *high = UINT64_MAX;
    if (**text == '*') {
        ++*text;
        return 0;
    }
    int has_low = ctas_number(text, low), colon = **text == ':';
    *text += colon;
    int has_high = colon && ctas_number(text, high);
    if (!colon)
        *high = *low;
    return (has_low || has_high) && *low <= *high ? 0 : -1;
}

static uint32_t ctas_cut(uint64_t n)
{
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static int ctas_term(struct mt_cta_term *t, const char **text)
{
    uint64_t low[3] = {0, 0, 0}, high[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    unsigned n = 0;
    do {
        *text += n > 0;
        if (ctas_range(text, &low[n], &high[n]))
            return -1;
        n++;
    } while (**text == ',' && n < 3);
    *t = (struct mt_cta_term){.first = n == 1 ? low[0] : 0, .last = n == 1 ? high[0] : UINT64_MAX};
    for (unsigned i = 0; i < 3; i++) {
        t->low[i] = n == 1 ? 0 : ctas_cut(low[i]);
        t->high[i] = n == 1 ? UINT32_MAX : ctas_cut(high[i]);
    }
    return 0;
}

int mt_ctas_parse(struct mt_cta_rule *rule, const char *text, char *why, size_t size)
{
    struct mt_cta_rule r = *rule;
    const char *at = text;
    r.terms = 0;
    do {
        at += r.terms > 0;
        const char *begin = at;
        if (r.terms == MT_CTA_TERMS) {
            snprintf(why, size, "more than %u terms", MT_CTA_TERMS);
            return -1;
        }
        if (ctas_term(&r.term[r.terms++], &at) || (*at && *at != '+')) {
            snprintf(why, size,
                     "'%.40s' is neither a range of CTA numbers (A, A:B, A:, :B) nor ranges x,y or x,y,z "
                     "(* is any)",
                     begin);
            return -1;
        }
    } while (*at);
    *rule = r;
    return 0;
}

int mt_sample_parse(uint32_t *ctas, uint32_t *launches, const char *text, char *why, size_t size)
{
    uint32_t got[2] = {0, 0}; /* CTAs, launches */
    const char *at = text;
    do {
        uint64_t n;
        int launch = !strncmp(at += at > text, "launch:", 7), cta = !strncmp(at, "cta:", 4);
        at += launch ? 7 : cta ? 4 : 0;
        if (!ctas_number(&at, &n) || !n || n > UINT32_MAX || got[launch] || (*at && *at != ',')) {
            snprintf(why, size,
                     "not N or cta:N (every N-th CTA), launch:N (every N-th launch of each kernel), "
                     "or cta:N,launch:M; N is 1 or more");
            return -1;
        }
        got[launch] = (uint32_t)n;
    } while (*at);
    *ctas = got[0] ? got[0] : 1;
    *launches = got[1] ? got[1] : 1;
    return 0;
}

/* ---- counting ----------------------------------------------------------------------------------- */

struct span {
    uint64_t from, to; /* linear numbers, both included */
};

MT_ORDER_1(by_from, struct span, from)

static uint64_t ctas_multiples(uint64_t from, uint64_t to, uint32_t every)
{
    return to / every + 1 - (from + every - 1) / every;
}

/* Finds the spans that the terms select in the row of `length` CTAs starting at number `first`. y, z: -1 if
 * the row is the whole grid and no term uses them. */
static unsigned spans_of(const struct mt_cta_rule *r, uint64_t first, uint64_t length, int64_t y, int64_t z,
                         struct span *out)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < r->terms; i++) {
        const struct mt_cta_term *t = &r->term[i];
        uint64_t from = first, to = first + length - 1;
        if (y >= 0) {
            if ((uint64_t)y < t->low[1] || (uint64_t)y > t->high[1] || (uint64_t)z < t->low[2] ||
                (uint64_t)z > t->high[2])
                continue;
            from += t->low[0];
            to = t->high[0] < length ? first + t->high[0] : to;
        }
        from = from < t->first ? t->first : from;
        to = to > t->last ? t->last : to;
        if (from <= to)
            out[n++] = (struct span){from, to};
    }
    return n;
}

/* Counts the CTAs of spans that may overlap. */
static uint64_t count_row(struct span *s, unsigned n, uint32_t every)
{
    uint64_t sum = 0, next = 0; /* numbers below `next` are already counted */
    qsort(s, n, sizeof *s, by_from);
    for (unsigned i = 0; i < n; i++) {
        uint64_t from = s[i].from < next ? next : s[i].from;
        if (from > s[i].to)
            continue;
        sum += ctas_multiples(from, s[i].to, every);
        next = s[i].to + 1;
    }
    return sum;
}

uint64_t mt_ctas_count(const struct mt_cta_rule *rule, uint32_t every, const uint32_t grid[3])
{
    uint64_t row = grid[0], total = row * grid[1] * grid[2], sum = 0;
    struct span spans[MT_CTA_TERMS];
    int linear = 1;
    if (!total)
        return 0;
    if (!rule->terms)
        return ctas_multiples(0, total - 1, every);
    for (uint32_t i = 0; i < rule->terms; i++)
        for (unsigned k = 0; k < 3; k++)
            linear &= rule->term[i].low[k] == 0 && rule->term[i].high[k] == UINT32_MAX;
    if (linear)
        return count_row(spans, spans_of(rule, 0, total, -1, -1, spans), every);
    for (uint64_t z = 0, first = 0; z < grid[2]; z++)
        for (uint64_t y = 0; y < grid[1]; y++, first += row)
            sum += count_row(spans, spans_of(rule, first, row, (int64_t)y, (int64_t)z, spans), every);
    return sum;
}

/* Interface between NVTX 3 and its tool, as far as used here. Programs compiled with any NVTX 3 header call
 * through pointers, in tables that the tool requests and fills. */

struct nvtx_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};
enum { NVTX_ASCII = 1, NVTX_WIDE = 2, NVTX_REGISTERED = 3 }; /* message_type */
#define NVTX_NO_LEVEL (-2)                                   /* value without push and pop */

enum { NVTX_CALLBACKS = 1 };            /* export table */
enum { NVTX_CORE = 1, NVTX_CORE2 = 5 }; /* its modules */
typedef void (*nvtx_function)(void);
struct nvtx_callbacks {
    size_t size;
    int (*module)(int module, nvtx_function ***table, unsigned *size);
};

/* NVTX ranges: libmemtrace.so is the tool loaded by the program's NVTX (InitializeInjectionNvtx2). */

#define EXPORT __attribute__((visibility("default")))

/* Domains and registered strings are names to which the program holds pointers; they are few and never freed.
 */
struct name {
    char text[1]; /* allocated at its full length */
};

struct range {
    struct range *next, **link; /* list of all open ranges */
    struct range *below;        /* previous one pushed by this thread */
    const struct name *domain;  /* NULL: the default domain */
    uint64_t id;                /* id of a started range, from 1; 0: pushed */
    int matches;
    struct mt_range_line event;
    char text[];
};

_Atomic int mt_registered;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list */
MT_FORK_LOCK(lock, MT_FORK_CAPTURES);
static struct range *open_ranges;
static uint64_t started;
static _Atomic int started_matches;
static _Thread_local struct range *pushed;
static _Thread_local int pushed_matches;

/* ---- MEMTRACE_NVTX ------------------------------------------------------------------------------ */

static pthread_once_t nvtx_once = PTHREAD_ONCE_INIT;
static struct {
    regex_t names;
    int chooses, others;
} nvtx_rule;

static void read_option(void)
{
    const char *text = mt_options()->nvtx;
    char why[200];
    if (!*text)
        return;
    nvtx_rule.others = *text == '!';
    nvtx_rule.chooses = !mt_regex(&nvtx_rule.names, text + nvtx_rule.others, why, sizeof why);
    if (!nvtx_rule.chooses)
        mt_report("MEMTRACE_NVTX=%.200s: %s; launches are traced inside and outside of all ranges", text,
                  why);
}

/* Returns 1 if a launch made now by this thread is inside a range whose name matches MEMTRACE_NVTX, pushed by
 * this thread or started by any. With `!` before the expression: if it is inside none. Without the setting:
 * 1. */
static int nvtx_takes(void)
{
    pthread_once(&nvtx_once, read_option);
    return !nvtx_rule.chooses || (pushed_matches > 0 || started_matches > 0) != nvtx_rule.others;
}

/* ---- names -------------------------------------------------------------------------------------- */

static size_t nvtx_narrow(char *out, const wchar_t *text)
{
    size_t n = 0;
    for (; *text && n + 4 < MT_NVTX_TEXT; text++) {
        uint32_t c = (uint32_t)*text;
        unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
        out[n++] = (char)(first[more] | (c >> 6 * more & 0x7f));
        while (more--)
            out[n++] = (char)(0x80 | (c >> 6 * more & 0x3f));
    }
    out[n] = 0;
    return n;
}

/* Cuts a long text at a character boundary. */
static size_t nvtx_copy(char *out, const char *text)
{
    size_t n = strnlen(text, MT_NVTX_TEXT - 1);
    while (n == MT_NVTX_TEXT - 1 && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    memcpy(out, text, n);
    out[n] = 0;
    return n;
}

size_t mt_nvtx_text(char *out, int32_t type, const void *message)
{
    *out = 0;
    switch (message ? type : 0) {
    case NVTX_ASCII:
        return nvtx_copy(out, message);
    case NVTX_WIDE:
        return nvtx_narrow(out, message);
    case NVTX_REGISTERED:
        return nvtx_copy(out, ((const struct name *)message)->text);
    default:
        return 0;
    }
}

static size_t selection_name(char *out, const struct nvtx_attributes *a)
{
    int known = a && a->size >= sizeof *a;
    return mt_nvtx_text(out, known ? a->message_type : 0, known ? a->message : NULL);
}

static void *nvtx_keep(const char *text)
{
    size_t n = strlen(text);
    struct name *s = malloc(sizeof *s + n);
    if (s)
        memcpy(s->text, text, n + 1);
    return s;
}

static void *keep_wide(const wchar_t *text)
{
    char name[MT_NVTX_TEXT];
    nvtx_narrow(name, text);
    return nvtx_keep(name);
}

/* ---- ranges ------------------------------------------------------------------------------------- */

static struct range *nvtx_begin(const char *text, size_t n, const struct name *domain, int is_start)
{
    struct range *r = calloc(1, sizeof *r + n + 1);
    if (!r)
        return NULL;
    pthread_once(&nvtx_once, read_option);
    memcpy(r->text, text, n + 1);
    r->domain = domain;
    r->matches = nvtx_rule.chooses && !regexec(&nvtx_rule.names, r->text, 0, NULL, 0);
    r->event = (struct mt_range_line){.name = r->text,
                                      .domain = domain ? domain->text : "",
                                      .kind = is_start ? "start" : "push",
                                      .thread = (uint64_t)gettid(),
                                      .begin = mt_event_seq(),
                                      .begin_ns = mt_now_ns()};
    pthread_mutex_lock(&lock);
    r->id = is_start ? ++started : 0;
    r->next = open_ranges;
    r->link = &open_ranges;
    if (r->next)
        r->next->link = &r->next;
    open_ranges = r;
    pthread_mutex_unlock(&lock);
    return r;
}

static void end_locked(struct range *r)
{
    *r->link = r->next;
    if (r->next)
        r->next->link = r->link;
}

/* A forked child does nothing here: threads of its parent may have held the lock. */
static int nvtx_push(const char *text, size_t n, const struct name *domain)
{
    struct range *r = mt_tracing() ? nvtx_begin(text, n, domain, 0) : NULL;
    int level = 0;
    if (!r)
        return NVTX_NO_LEVEL;
    for (struct range *p = pushed; p; p = p->below)
        level += p->domain == domain;
    r->below = pushed;
    pushed = r;
    pushed_matches += r->matches;
    return level;
}

static int nvtx_pop(const struct name *domain)
{
    struct range **at = &pushed, *r;
    int level = 0;
    while (*at && (*at)->domain != domain)
        at = &(*at)->below;
    if (!(r = *at) || !mt_tracing())
        return NVTX_NO_LEVEL;
    *at = r->below;
    for (struct range *p = r->below; p; p = p->below)
        level += p->domain == domain;
    pushed_matches -= r->matches;
    pthread_mutex_lock(&lock);
    end_locked(r);
    pthread_mutex_unlock(&lock);
    mt_event_range(&r->event, 0);
    free(r);
    return level;
}

static uint64_t nvtx_start(const char *text, size_t n, const struct name *domain)
{
    struct range *r = mt_tracing() ? nvtx_begin(text, n, domain, 1) : NULL;
    if (!r)
        return 0;
    uint64_t id = r->id; /* another thread with the id may end the range from here on */
    started_matches += r->matches;
    return id;
}

static void nvtx_end(uint64_t id)
{
    if (!id || !mt_tracing())
        return;
    pthread_mutex_lock(&lock);
    struct range *r = open_ranges;
    while (r && r->id != id)
        r = r->next;
    if (r)
        end_locked(r);
    pthread_mutex_unlock(&lock);
    if (!r)
        return;
    started_matches -= r->matches;
    mt_event_range(&r->event, 0);
    free(r);
}

void mt_nvtx_finish(void)
{
    if (!mt_tracing())
        return;
    pthread_mutex_lock(&lock);
    for (struct range *r = open_ranges; r; r = r->next)
        mt_event_range(&r->event, 1);
    pthread_mutex_unlock(&lock);
}

/* ---- API: functions in the tables, also called by name by programs with the old libnvToolsExt ---------- */

EXPORT int nvtxRangePushA(const char *text)
{
    char name[MT_NVTX_TEXT];
    size_t n = nvtx_copy(name, text ? text : "");
    return nvtx_push(name, n, NULL);
}
EXPORT int nvtxRangePushW(const wchar_t *text)
{
    char name[MT_NVTX_TEXT];
    size_t n = nvtx_narrow(name, text ? text : L"");
    return nvtx_push(name, n, NULL);
}
EXPORT int nvtxDomainRangePushEx(void *domain, const struct nvtx_attributes *a)
{
    char name[MT_NVTX_TEXT];
    size_t n = selection_name(name, a);
    return nvtx_push(name, n, domain);
}
EXPORT int nvtxRangePushEx(const struct nvtx_attributes *a)
{
    return nvtxDomainRangePushEx(NULL, a);
}
EXPORT int nvtxRangePop(void)
{
    return nvtx_pop(NULL);
}
EXPORT int nvtxDomainRangePop(void *domain)
{
    return nvtx_pop(domain);
}
EXPORT uint64_t nvtxRangeStartA(const char *text)
{
    char name[MT_NVTX_TEXT];
    size_t n = nvtx_copy(name, text ? text : "");
    return nvtx_start(name, n, NULL);
}
EXPORT uint64_t nvtxRangeStartW(const wchar_t *text)
{
    char name[MT_NVTX_TEXT];
    size_t n = nvtx_narrow(name, text ? text : L"");
    return nvtx_start(name, n, NULL);
}
EXPORT uint64_t nvtxDomainRangeStartEx(void *domain, const struct nvtx_attributes *a)
{
    char name[MT_NVTX_TEXT];
    size_t n = selection_name(name, a);
    return nvtx_start(name, n, domain);
}
EXPORT uint64_t nvtxRangeStartEx(const struct nvtx_attributes *a)
{
    return nvtxDomainRangeStartEx(NULL, a);
}
EXPORT void nvtxRangeEnd(uint64_t id)
{
    nvtx_end(id);
}
EXPORT void nvtxDomainRangeEnd(void *domain, uint64_t id)
{
    (void)domain;
    nvtx_end(id);
}
EXPORT void *nvtxDomainCreateA(const char *text)
{
    return nvtx_keep(text ? text : "");
}
EXPORT void *nvtxDomainCreateW(const wchar_t *text)
{
    return keep_wide(text ? text : L"");
}
EXPORT void nvtxDomainDestroy(void *domain)
{
    (void)domain; /* ranges in it may still be open */
}
EXPORT void *nvtxDomainRegisterStringA(void *domain, const char *text)
{
    (void)domain;
    return nvtx_keep(text ? text : "");
}
EXPORT void *nvtxDomainRegisterStringW(void *domain, const wchar_t *text)
{
    (void)domain;
    return keep_wide(text ? text : L"");
}

/* Indexed by the callback's number in its table. */
static const struct entry {
    unsigned module, id;
    nvtx_function f;
} entries[] = {
#define ENTRY(module, id, f) {module, id, (nvtx_function)f},
    ENTRY(NVTX_CORE, 4, nvtxRangeStartEx) ENTRY(NVTX_CORE, 5, nvtxRangeStartA) ENTRY(
        NVTX_CORE, 6, nvtxRangeStartW) ENTRY(NVTX_CORE, 7, nvtxRangeEnd) ENTRY(NVTX_CORE, 8, nvtxRangePushEx)
        ENTRY(NVTX_CORE, 9, nvtxRangePushA) ENTRY(NVTX_CORE, 10, nvtxRangePushW)
            ENTRY(NVTX_CORE, 11, nvtxRangePop) ENTRY(NVTX_CORE2, 2, nvtxDomainRangeStartEx)
                ENTRY(NVTX_CORE2, 3, nvtxDomainRangeEnd) ENTRY(NVTX_CORE2, 4, nvtxDomainRangePushEx)
                    ENTRY(NVTX_CORE2, 5, nvtxDomainRangePop) ENTRY(NVTX_CORE2, 10, nvtxDomainRegisterStringA)
                        ENTRY(NVTX_CORE2, 11, nvtxDomainRegisterStringW)
                            ENTRY(NVTX_CORE2, 12, nvtxDomainCreateA) ENTRY(NVTX_CORE2, 13, nvtxDomainCreateW)
                                ENTRY(NVTX_CORE2, 14, nvtxDomainDestroy)};

/* Returns 1 if this process is traced. Child processes of a traced one inherit our name in their environment,
 * and NVTX may load us there into a separate scope, without any kernels. Ranges are then not kept. */
static int is_wanted(void)
{
    void *program = dlopen(NULL, RTLD_LAZY);
    int linked = program && dlsym(program, "__mt_host_site") == (void *)&__mt_host_site;
    if (program)
        dlclose(program);
    return linked || mt_registered;
}

/* Called by NVTX once for each copy of it in the process. Returns 1 to be used as the tool; 0: NVTX does
 * nothing. */
EXPORT int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t id))
{
    const struct nvtx_callbacks *c = get_table ? get_table(NVTX_CALLBACKS) : NULL;
    if (!mt_tracing() || !is_wanted() || !c || c->size < sizeof *c || !c->module)
        return 0;
    for (unsigned i = 0; i < sizeof entries / sizeof *entries; i++) {
        nvtx_function **table = NULL;
        unsigned size = 0;
        if (c->module((int)entries[i].module, &table, &size) && table && entries[i].id < size &&
            table[entries[i].id])
            *table[entries[i].id] = entries[i].f;
    }
    return 1;
}

/* Puts our name into the environment, where NVTX looks for a tool at the program's first call. Another tool
 * is left in place. */
__attribute__((constructor)) static void nvtx_offer(void)
{
    const char *enable = secure_getenv("MEMTRACE_ENABLE");
    Dl_info info;
    if ((!enable || strcmp(enable, "0") != 0) && dladdr((void *)&InitializeInjectionNvtx2, &info) &&
        info.dli_fname && strstr(info.dli_fname, ".so"))
        setenv("NVTX_INJECTION64_PATH", info.dli_fname, 0);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    regex_t kernels;
    int chooses, others; /* MEMTRACE_KERNELS is set; it began with `!` */
    uint64_t first, last;
    int parts; /* MEMTRACE_CTAS or MEMTRACE_SAMPLE is set */
    uint32_t every;
    struct mt_cta_rule ctas;
} rule = {.last = UINT64_MAX, .every = 1, .ctas = {.every = 1}};
static _Atomic uint64_t launches, bytes;
_Atomic uint64_t mt_selection_left_out;
static _Atomic int on = 1;

/* A kernel with its number of launches, for MEMTRACE_SAMPLE=launch:N. */
struct kernel {
    struct kernel *next;
    uint64_t launches;
    char name[];
};
static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(kernels_lock, MT_FORK_LEAVES);
static struct kernel *kernels;

static void selection_read_kernels(const char *text)
{
    char why[200];
    if (!*text)
        return;
    rule.others = *text == '!';
    rule.chooses = !mt_regex(&rule.kernels, text + rule.others, why, sizeof why);
    if (!rule.chooses)
        mt_report("MEMTRACE_KERNELS=%.200s: %s; all kernels are traced", text, why);
}

/* Parses a launch number; 0 if there is none at *text, which is then `missing`. */
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

static void selection_read_options(void)
{
    const struct mt_options *o = mt_options();
    selection_read_kernels(o->kernels);
    read_launches(o->launches);
    read_parts(o->ctas, o->sample);
    if (!o->from_start)
        on = 0;
}

/* Returns the number of this launch among those of its kernel; that of the first, which is traced, if out of
 * memory. */
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

static int leaves_nccl;
static _Atomic uint64_t nccl_left_out;

void mt_selection_without_nccl(void)
{
    leaves_nccl = !*mt_options()->kernels;
}

uint64_t mt_selection_nccl(void)
{
    return nccl_left_out;
}

static int selection_is_nccl(const char *kernel)
{
    return leaves_nccl && !strncmp(kernel, "nccl", 4);
}

static int is_left_out(const char *kernel)
{
    return selection_is_nccl(kernel) ||
           (rule.chooses && (regexec(&rule.kernels, kernel, 0, NULL, 0) == 0) == rule.others);
}

int mt_selection_never(const char *kernel)
{
    uint64_t limit = mt_options()->limit;
    pthread_once(&once, selection_read_options);
    return !mt_tracing() || is_left_out(kernel) || launches > rule.last || (limit && bytes >= limit);
}

static const char *selection_reason(const struct mt_launch_line *l)
{
    if (!on)
        return "memtrace_stop";
    if (!nvtx_takes())
        return "MEMTRACE_NVTX";
    if (selection_is_nccl(l->kernel)) {
        nccl_left_out++;
        return "nccl";
    }
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

/* Counts the selected CTAs. Caches the last grid, since programs repeat grids and counting may take long. */
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
    pthread_once(&once, selection_read_options);
    l->left_out = selection_reason(l);
    l->in_parts = rule.parts && (!l->left_out || l->left_out == sampled);
    if (l->in_parts)
        count_ctas(l);
    if (l->left_out) {
        mt_selection_left_out++;
        l->traced_ctas = 0;
    }
    return !l->left_out;
}

const struct mt_cta_rule *mt_selection_ctas(void)
{
    pthread_once(&once, selection_read_options);
    return rule.ctas.terms || rule.ctas.every > 1 ? &rule.ctas : NULL;
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

/* on 1, 0: the program switched tracing of launches on, or off. */
static void selection_switch(int to)
{
    pthread_once(&once, selection_read_options);
    on = to;
}

void mt_selection_profiler(int to)
{
    if (!mt_options()->from_start)
        selection_switch(to);
}

/* Called by programs: include/memtrace/annotate.h. */
__attribute__((visibility("default"))) void memtrace_start(void)
{
    selection_switch(1);
}

__attribute__((visibility("default"))) void memtrace_stop(void)
{
    selection_switch(0);
}
