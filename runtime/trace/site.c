/* Source location of a CUDA call in host code, as emitted by the pass (docs/design/pass.md, "Host side of the
 * pass"). */
#define _GNU_SOURCE
#include "site.h"
#include "base/fork.h"
#include "base/report.h"
#include "events.h"
#include "memtrace/hash.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- The line of a Python program that makes a CUDA call: reads the thread's frames ---- */

enum { SITES = 1 << 15, BUCKETS = 2 * SITES, PATH = MT_PYTHON_PATH, FRAMES = 1000 };

static const struct mt_python *_Atomic layout;
static pthread_mutex_t python_lock = PTHREAD_MUTEX_INITIALIZER; /* protects the sites */
MT_FORK_LOCK(python_lock, MT_FORK_LEAVES);
static struct mt_host_site sites[SITES]; /* in this library, which is never unloaded: mt_host_site_there */
static uint32_t nsites, bucket[BUCKETS]; /* number of the site + 1 */

__attribute__((visibility("default"))) int __mt_python_set(const struct mt_python *p)
{
    if (p && p->bytes != sizeof *p)
        return -1;
    layout = p;
    return 0;
}

/* ---- text ---- */

static size_t python_utf8(uint32_t c, char *out)
{
    unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    if (c >= 0xdc80 && c < 0xdd00) { /* byte of a path that is not UTF-8 (PEP 383) */
        *out = (char)c;
        return 1;
    }
    *out = (char)(first[more] | c >> 6 * more);
    for (unsigned i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3f));
    return more + 1;
}

/* Converts a Python string to a path. Returns 0, or -1 if it does not fit. */
static int python_text(const struct mt_python *p, const char *string, char out[PATH])
{
    uint64_t length;
    uint32_t state, c;
    memcpy(&length, string + p->string_length, sizeof length);
    memcpy(&state, string + p->string_state, sizeof state);
    int ascii = state >> p->state_ascii & 1;
    unsigned size = state >> p->state_kind & 7;
    const char *at = string + (ascii ? p->string_ascii : p->string_other);
    size_t n = 0;
    if (size != 1 && size != 2 && size != 4)
        return -1;
    for (uint64_t i = 0; i < length; i++) {
        if (n + 5 > PATH)
            return -1;
        c = 0;
        memcpy(&c, at + i * size, size); /* little-endian */
        n += python_utf8(c, out + n);
    }
    out[n] = 0;
    return 0;
}

/* ---- places ---- */

static uint32_t python_hash(const char *file, uint32_t line)
{
    uint32_t h = 2166136261u ^ line;
    for (; *file; file++)
        h = (h ^ (unsigned char)*file) * 16777619u;
    return h;
}

static const struct mt_host_site *python_keep(const char *file, uint32_t line)
{
    uint32_t at = python_hash(file, line) % BUCKETS;
    const struct mt_host_site *found = NULL;
    pthread_mutex_lock(&python_lock);
    for (; bucket[at] && !found; at = (at + 1) % BUCKETS) {
        const struct mt_host_site *s = &sites[bucket[at] - 1];
        if (s->line == line && !strcmp(s->file, file))
            found = s;
    }
    char *copy = found || nsites == SITES ? NULL : strdup(file);
    int fresh = copy != NULL;
    if (copy) {
        sites[nsites] = (struct mt_host_site){.file = copy, .function = "", .name = "", .line = line};
        found = &sites[nsites++];
        bucket[at] = nsites;
    }
    pthread_mutex_unlock(&python_lock);
    if (fresh)
        mt_source_line(found->file);
    static int said;
    if (!found && !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        mt_report("CUDA calls come from more than %d lines of Python, or there is no memory: the others have "
                  "no line",
                  SITES);
    return found;
}

/* Returns 1 if the site is one of a Python program. */
static int python_is(const struct mt_host_site *site)
{
    return (uintptr_t)site >= (uintptr_t)sites && (uintptr_t)site < (uintptr_t)(sites + SITES);
}

/* ---- frames ---- */

static const char *python_at(const char *object, uint32_t offset)
{
    const char *word;
    memcpy(&word, object + offset, sizeof word);
    return word;
}

/* Returns the code object of a frame, or NULL for an internal frame of the interpreter. */
static const char *python_code(const struct mt_python *p, const char *frame)
{
    const char *code = (const char *)((uintptr_t)python_at(frame, p->frame_code) & ~(uintptr_t)7);
    return code && python_at(code, sizeof(void *)) == p->code_type ? code : NULL;
}

static int python_is_skipped(const struct mt_python *p, const char *file)
{
    for (const char *const *s = p->skip; s && *s; s++) {
        int kept = **s == '!';
        if (!strncmp(file, *s + kept, strlen(*s + kept)))
            return !kept;
    }
    return 0;
}

struct python_walk {
    const struct mt_python *p;
    const char *frame, *code; /* the next frame; code of the last one, and its byte offset */
    int byte, line, skipped;
    unsigned left;
    char file[PATH];
};

static struct python_walk *python_begin(struct python_walk *w)
{
    const struct mt_python *p = layout;
    const char *thread = p && mt_tracing() ? p->thread() : NULL;
    w->p = p;
    w->left = FRAMES;
    w->frame = thread ? python_at(thread, p->thread_frame) : NULL;
    if (w->frame && p->holder_frame != UINT32_MAX)
        w->frame = python_at(w->frame, p->holder_frame);
    return w;
}

/* Moves to the next outer frame with a line; internal frames around __init__ have none. Returns 0 at the end.
 */
static int python_next(struct python_walk *w)
{
    const struct mt_python *p = w->p;
    for (const char *frame; (frame = w->frame) && w->left--;) {
        w->frame = python_at(frame, p->frame_previous);
        w->code = python_code(p, frame);
        if (!w->code || python_text(p, python_at(w->code, p->code_file), w->file))
            continue;
        w->byte = (int)(python_at(frame, p->frame_instruction) - (w->code + p->code_instructions));
        w->line = p->line(w->code, w->byte);
        w->skipped = python_is_skipped(p, w->file);
        if (w->line > 0)
            return 1;
    }
    return 0;
}

uint32_t mt_python_look(char *file)
{
    struct python_walk walk, *w = python_begin(&walk);
    int line = 0;
    while (python_next(w)) {
        if (w->skipped && !strncmp(w->file, "<frozen", 7))
            continue;
        line = w->line; /* the outermost, if all are skipped: python3 -m of a package */
        memcpy(file, w->file, strlen(w->file) + 1);
        if (!w->skipped)
            break;
    }
    return line > 0 ? (uint32_t)line : 0;
}

const struct mt_host_site *mt_python_known(const char *file, uint32_t line)
{
    return line ? python_keep(file, line) : NULL;
}

const struct mt_host_site *mt_python_site(void)
{
    char file[PATH];
    return mt_python_known(file, mt_python_look(file));
}

/* Collects the expression that makes the call under way, in the program's innermost function and in its
 * callers, up to the first function of a package. Returns their number. */
static unsigned python_locations(struct mt_python_location *out, unsigned room)
{
    struct python_walk walk, *w = python_begin(&walk);
    unsigned n = 0;
    while (n < room && python_next(w)) {
        int at[4] = {0};
        if (w->skipped && n && *w->file != '<')
            break;
        if (w->skipped || !w->p->place(w->code, w->byte, &at[0], &at[1], &at[2], &at[3]))
            continue;
        const struct mt_host_site *site = at[0] > 0 ? python_keep(w->file, (uint32_t)at[0]) : NULL;
        if (!site)
            break;
        out[n++] = (struct mt_python_location){site->file, at[0], at[1], at[2], at[3]};
    }
    return n;
}

__attribute__((visibility("default"))) unsigned __mt_python_line(char *file, unsigned long size)
{
    const struct mt_host_site *site = mt_python_site();
    if (!site || strlen(site->file) >= size)
        return 0;
    strcpy(file, site->file);
    return site->line;
}

/* Names of allocations in a Python program. Each place that allocates is looked up once by the hook; its name
 * is then stored here. */

enum { NAME_BUCKETS = 1 << 12, CALLS = 1 << 14 };

struct waiting { /* waiting for its name */
    struct waiting *next;
    uint64_t id;
};
struct call {                  /* an expression and those that led to it */
    struct call *next, *later; /* next in its bucket; next to be looked up */
    struct mt_python_asked asked;
    char *name; /* NULL: unknown yet; "": none */
    struct waiting *waiting;
};
static pthread_mutex_t python_names_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(python_names_lock, MT_FORK_TABLES); /* held while names are logged */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct call *buckets[NAME_BUCKETS], *calls[CALLS], *first, **last = &first;
static uint64_t ncalls;
static int closed;

static unsigned names_bucket(const struct mt_python_asked *a)
{
    uint64_t h = 0;
    for (uint32_t i = 0; i < a->places; i++) {
        const struct mt_python_location *p = &a->place[i];
        h = mt_hash_number(h ^ (uintptr_t)p->file ^ (uint64_t)(uint32_t)p->line << 32 ^
                           (uint32_t)(p->column << 16) ^ (uint32_t)p->end_column);
    }
    return (unsigned)(h >> 52);
}

static int names_same(const struct mt_python_asked *a, const struct mt_python_asked *b)
{
    if (a->places != b->places)
        return 0;
    for (uint32_t i = 0; i < a->places; i++) {
        const struct mt_python_location *p = &a->place[i], *q = &b->place[i];
        if (strcmp(p->file, q->file) || p->line != q->line || p->column != q->column ||
            p->end_line != q->end_line || p->end_column != q->end_column)
            return 0;
    }
    return 1;
}

static void names_full(void)
{
    static int said;
    if (!said++)
        mt_say("more than %d places of the Python program make arrays: those of further places have no name",
               CALLS);
}

/* Finds a call. Returns NULL if there are too many, or no memory; such allocations have no name. Called with
 * python_names_lock held. */
static struct call *names_find(struct mt_python_asked *a)
{
    struct call **bucket = &buckets[names_bucket(a)], *c = *bucket;
    while (c && !names_same(&c->asked, a))
        c = c->next;
    if (!c && ncalls == CALLS)
        names_full();
    if (c || ncalls == CALLS || !(c = calloc(1, sizeof *c)))
        return c;
    c->asked = *a;
    c->asked.number = ncalls;
    c->next = *bucket;
    *bucket = calls[ncalls++] = c;
    *last = c;
    last = &c->later;
    pthread_cond_signal(&changed);
    return c;
}

void mt_python_array(uint64_t id, const struct mt_host_site *site)
{
    struct mt_python_asked a = {0};
    if (!python_is(site))
        return;
    a.places = python_locations(a.place, MT_PYTHON_DEPTH);
    if (!a.places)
        return;
    pthread_mutex_lock(&python_names_lock);
    struct call *c = names_find(&a);
    struct waiting *w = c && !c->name ? malloc(sizeof *w) : NULL;
    if (w) {
        *w = (struct waiting){c->waiting, id};
        c->waiting = w;
    }
    if (c && c->name && *c->name)
        mt_event_name(id, c->name);
    pthread_mutex_unlock(&python_names_lock);
}

void mt_python_forget(uint64_t id)
{
    pthread_mutex_lock(&python_names_lock);
    for (uint64_t i = 0; i < ncalls; i++)
        for (struct waiting **at = &calls[i]->waiting, *w; (w = *at);) {
            if (w->id != id) {
                at = &w->next;
                continue;
            }
            *at = w->next;
            free(w);
        }
    pthread_mutex_unlock(&python_names_lock);
}

/* ---- for the hook ---- */

__attribute__((visibility("default"))) int __mt_python_ask(struct mt_python_asked *out)
{
    pthread_mutex_lock(&python_names_lock);
    while (!first && !closed)
        pthread_cond_wait(&changed, &python_names_lock);
    struct call *c = first;
    if (c) {
        *out = c->asked;
        if (!(first = c->later))
            last = &first;
    }
    pthread_mutex_unlock(&python_names_lock);
    return c != NULL;
}

__attribute__((visibility("default"))) void __mt_python_answer(uint64_t number, const char *name)
{
    pthread_mutex_lock(&python_names_lock);
    struct call *c = number < ncalls ? calls[number] : NULL;
    if (c && !c->name && (c->name = strdup(name ? name : ""))) {
        for (struct waiting *w; (w = c->waiting);) {
            c->waiting = w->next;
            if (*c->name)
                mt_event_name(w->id, c->name);
            free(w);
        }
    }
    pthread_mutex_unlock(&python_names_lock);
}

__attribute__((visibility("default"))) void __mt_python_close(void)
{
    pthread_mutex_lock(&python_names_lock);
    closed = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&python_names_lock);
}

static _Thread_local const struct mt_host_site *pending;
_Thread_local const struct mt_host_site *mt_host_site_taken;
const struct mt_host_site *(*_Atomic mt_host_site_ask)(const struct mt_host_site *known);
const char mt_host_code_name[] = "code";

#ifdef DLFO_STRUCT_HAS_EH_DBASE /* in the C library since 2.35 */
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));
#endif

int mt_host_site_there(const struct mt_host_site *site)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
    struct dl_find_object found;
    return site && (!_dl_find_object || !_dl_find_object((void *)(uintptr_t)site, &found));
#else
    return site != NULL;
#endif
}

static int ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && !memcmp(s + n - m, tail, m);
}

/* Returns 1 for a place inside CUDA's own C++ wrappers (cudaMalloc<T> in cuda_runtime.h), or inside a
 * kernel's host stub, which says less than the user's line that led there. */
static int is_inner(const struct mt_host_site *site)
{
    if (ends_with(site->file, "/cuda_runtime.h"))
        return 1;
    return strstr(pending->name, "__device_stub__") && !strncmp(site->name, "cudaLaunchKernel", 16);
}

__attribute__((visibility("default"))) void __mt_host_site(const struct mt_host_site *site)
{
    if (!mt_host_site_there(pending) || !is_inner(site))
        pending = site;
}

const struct mt_host_site *mt_host_site_take(void)
{
    const struct mt_host_site *site = mt_host_site_there(pending) ? pending : mt_python_site();
    const struct mt_host_site *(*ask)(const struct mt_host_site *) =
        python_is(site) ? NULL : mt_host_site_ask;
    const struct mt_host_site *code = ask ? ask(site) : NULL;
    pending = NULL;
    site = code ? code : site;
    mt_host_site_taken = site;
    return site;
}

const struct mt_host_code *mt_host_code_of(const struct mt_host_site *site)
{
    return site && site->name == mt_host_code_name ? (const struct mt_host_code *)site : NULL;
}

const struct mt_host_site *mt_host_site_pending(void)
{
    return mt_host_site_there(pending) ? pending : NULL;
}
