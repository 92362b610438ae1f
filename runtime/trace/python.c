/* The line of a Python program that makes a CUDA call: reads the thread's frames. */
#include "python.h"
#include "base/fork.h"
#include "base/report.h"
#include "events.h"
#include "sources.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SITES = 1 << 15, BUCKETS = 2 * SITES, PATH = 4096, FRAMES = 1000 };

static const struct mt_python *_Atomic layout;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the places */
MT_FORK_LOCK(lock, MT_FORK_LEAVES);
static struct mt_host_site sites[SITES]; /* in this library, which stays: mt_host_site_there */
static uint32_t nsites, bucket[BUCKETS]; /* the site's number + 1 */

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
    if (c >= 0xdc80 && c < 0xdd00) { /* a byte of a path that is not UTF-8 (PEP 383) */
        *out = (char)c;
        return 1;
    }
    *out = (char)(first[more] | c >> 6 * more);
    for (unsigned i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3f));
    return more + 1;
}

/* A string of Python, as a path. 0; -1: it does not fit. */
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
    pthread_mutex_lock(&lock);
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
    pthread_mutex_unlock(&lock);
    if (fresh)
        mt_source_line(found->file);
    static int said;
    if (!found && !__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        mt_report("CUDA calls come from more than %d lines of Python, or there is no memory: the others have "
                  "no line",
                  SITES);
    return found;
}

int mt_python_is(const struct mt_host_site *site)
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

/* What a frame runs; NULL: the interpreter's own. */
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
    const char *frame, *code; /* the next one; what the last one runs, there at this byte */
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

/* The next frame outwards that has a line; the interpreter's own, around __init__, have none. 0: there is
 * none. */
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

const struct mt_host_site *mt_python_site(void)
{
    struct python_walk walk, *w = python_begin(&walk);
    char file[PATH];
    int line = 0;
    while (python_next(w)) {
        if (w->skipped && !strncmp(w->file, "<frozen", 7))
            continue;
        line = w->line; /* the outermost, if all are skipped: python3 -m of a package */
        memcpy(file, w->file, strlen(w->file) + 1);
        if (!w->skipped)
            break;
    }
    return line > 0 ? python_keep(file, (uint32_t)line) : NULL;
}

unsigned mt_python_locations(struct mt_python_location *out, unsigned room)
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
