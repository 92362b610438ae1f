/* From a program counter to a site: modules, where their functions lie, which sites there are. */
#define _GNU_SOURCE
#include "code.h"
#include "cubin.h"
#include "known.h"
#include "lines.h"
#include "base/demangle.h"
#include "base/fork.h"
#include "base/options.h"
#include "base/source_file.h"
#include "trace/events.h"
#include "trace/ranges.h"
#include "trace/sources.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#include <xxhash.h>

enum { FRAMES = 64, MOST_UNKNOWN = 1 << 16 };

struct section { /* a code section on the GPU */
    struct mt_gpu_code *code;
    uint64_t pc;
    int known, guess; /* guess: from where the others lie */
};

struct mt_gpu_code {
    struct mt_cubin cubin;
    struct mt_code_lines *lines;
    int looked; /* for lines */
    uint64_t hash;
    uint64_t bytes;         /* of all code sections */
    struct section *places; /* of each section */
    char kept[48];          /* the file beside the traces, or "" */
};

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* all below, and what codes read when it is needed */
MT_FORK_LOCK(lock, MT_FORK_CAPTURES);
static struct mt_ranges placed = MT_RANGES_INIT; /* struct section */
MT_FORK_TABLE(placed);
static struct mt_known by_pc,
    by_content;            /* the latter: a module that comes again has the sites that it had */
static uint32_t sites = 1; /* the next id */
static uint32_t unsure;    /* program counters in by_pc that are to be asked for again when a module comes */

/* ---- modules ---- */

static void code_keep(struct mt_gpu_code *c, const void *cubin, size_t bytes)
{
    char name[sizeof c->kept];
    snprintf(name, sizeof name, "MemTrace-%016llx.cubin", (unsigned long long)c->hash);
    if (mt_options()->sass && mt_source_put(name, cubin, bytes) == 0)
        memcpy(c->kept, name, sizeof name);
}

struct mt_gpu_code *mt_code_new(const void *cubin, size_t bytes)
{
    struct mt_gpu_code *c = calloc(1, sizeof *c);
    if (!c || mt_cubin_read(&c->cubin, cubin, bytes) != 0) {
        free(c);
        return NULL;
    }
    c->places = calloc(c->cubin.nsections + 1, sizeof *c->places);
    if (!c->places) {
        mt_cubin_drop(&c->cubin);
        free(c);
        return NULL;
    }
    for (size_t i = 0; i < c->cubin.nsections; i++)
        c->bytes += c->cubin.sections[i].bytes;
    c->hash = XXH3_64bits(cubin, bytes);
    code_keep(c, cubin, bytes);
    return c;
}

int mt_code_each_kernel(const struct mt_gpu_code *c, int (*f)(void *data, const char *mangled), void *data)
{
    int rc = 0;
    for (size_t i = 0; i < c->cubin.nfunctions && !rc; i++)
        if (c->cubin.functions[i].kernel)
            rc = f(data, c->cubin.functions[i].name);
    return rc;
}

/* ---- where they lie ---- */

/* A range that another one needs the place of: its module has gone, or it was a guess. */
static void code_take(const struct mt_range *r)
{
    struct mt_range taken;
    struct section *p = r->data;
    if (mt_ranges_take(&placed, r->base, &taken))
        p->known = 0;
    unsure++; /* what was asked there is another's now */
}

/* 1: nothing is at the place, or nothing any more; 0: guesses give way. */
static int code_clear(uint64_t pc, uint64_t bytes, int guess)
{
    struct mt_range below, above;
    for (;;) {
        mt_ranges_around(&placed, pc, &below, &above);
        int under = below.bytes && pc - below.base < below.bytes,
            over = above.bytes && above.base - pc < bytes;
        if (!under && !over)
            return 1;
        if (guess)
            return 0;
        code_take(under ? &below : &above);
    }
}

static void code_put(struct mt_gpu_code *c, size_t section, uint64_t pc, uint64_t bytes, int guess)
{
    struct section *p = &c->places[section];
    if (!bytes || pc + bytes < pc || !code_clear(pc, bytes, guess))
        return;
    *p = (struct section){c, pc, 1, guess};
    if (mt_ranges_add(&placed, pc, bytes, p) != 0)
        p->known = 0;
}

/* Asks for the sections that are not placed yet, by one of their functions. */
static void code_ask(struct mt_gpu_code *c,
                     int (*where)(void *data, const char *function, uint64_t *pc, uint64_t *size), void *data)
{
    for (size_t i = 0; i < c->cubin.nfunctions; i++) {
        const struct mt_cubin_function *f = &c->cubin.functions[i];
        uint64_t pc = 0, size = 0, bytes = c->cubin.sections[f->section].bytes;
        if ((c->places[f->section].known && !c->places[f->section].guess) || *f->name == '$' ||
            where(data, f->name, &pc, &size) != 0 || pc < f->offset)
            continue;
        size = size <= UINT64_MAX - f->offset ? size + f->offset : size;
        pthread_mutex_lock(&lock);
        code_put(c, f->section, pc - f->offset, size > bytes ? size : bytes, 0);
        pthread_mutex_unlock(&lock);
    }
}

/* Are code sections on the GPU as far from each other as in the file, all that are known? Then the others
 * most likely are, too. 1 and what to add to a section's offset in the file. */
static int code_is_block(const struct mt_gpu_code *c, uint64_t *add)
{
    size_t n = 0;
    for (size_t i = 0; i < c->cubin.nsections; i++) {
        const struct section *p = &c->places[i];
        if (!p->known || p->guess)
            continue;
        if (n++ && p->pc - c->cubin.sections[i].offset != *add)
            return 0;
        *add = p->pc - c->cubin.sections[i].offset;
    }
    return n > 1;
}

static void code_guess(struct mt_gpu_code *c)
{
    uint64_t add = 0;
    pthread_mutex_lock(&lock);
    int block = code_is_block(c, &add);
    for (size_t i = 0; block && i < c->cubin.nsections; i++)
        if (!c->places[i].known)
            code_put(c, i, c->cubin.sections[i].offset + add, c->cubin.sections[i].bytes, 1);
    if (unsure) { /* some may be known now; the others are met again, and cost little */
        mt_known_forget(&by_pc, 0, UINT64_MAX);
        unsure = 0;
    }
    pthread_mutex_unlock(&lock);
}

void mt_code_place(struct mt_gpu_code *c,
                   int (*where)(void *data, const char *function, uint64_t *pc, uint64_t *size), void *data)
{
    code_ask(c, where, data);
    code_guess(c);
}

void mt_code_unload(struct mt_gpu_code *c)
{
    struct mt_range r;
    uint64_t low = UINT64_MAX, high = 0;
    if (!c)
        return;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < c->cubin.nsections; i++)
        if (c->places[i].known && mt_ranges_take(&placed, c->places[i].pc, &r)) {
            low = r.base < low ? r.base : low;
            high = r.base + r.bytes > high ? r.base + r.bytes : high;
        }
    if (low < high) /* what is another's between them is found again */
        mt_known_forget(&by_pc, low - c->bytes, high - low + 2 * c->bytes);
    pthread_mutex_unlock(&lock);
    mt_code_lines_close(c->lines);
    mt_cubin_drop(&c->cubin);
    free(c->places);
    free(c);
}

/* ---- sites ---- */

struct spot {
    struct mt_gpu_code *code;
    uint32_t section; /* UINT32_MAX: none that is known */
    int64_t offset;   /* in it, else from the module's first kernel that is known */
    int guess;
};

/* The module whose code is next to the place, if it is not further away than all its code is long. */
static int spot_near(uint64_t pc, struct spot *s)
{
    struct mt_range below, above;
    mt_ranges_around(&placed, pc, &below, &above);
    struct section *b = below.data, *a = above.data, *p;
    uint64_t up = b ? pc - below.base : UINT64_MAX, down = a ? above.base - pc : UINT64_MAX;
    p = up < down ? b : a;
    if (!p || (up < down ? up : down) > p->code->bytes)
        return 0;
    size_t first = 0;
    while (!p->code->places[first].known)
        first++;
    *s = (struct spot){p->code, UINT32_MAX, (int64_t)(pc - p->code->places[first].pc), 1};
    return 1;
}

static int spot_find(uint64_t pc, struct spot *s)
{
    struct mt_range r;
    if (!mt_ranges_find(&placed, pc, &r))
        return spot_near(pc, s);
    struct section *p = r.data;
    *s = (struct spot){p->code, (uint32_t)(p - p->code->places), (int64_t)(pc - p->pc), p->guess};
    return 1;
}

/* The same wherever the module is loaded. */
static uint64_t spot_key(const struct spot *s)
{
    const struct {
        uint64_t section;
        int64_t offset;
    } what = {s->section, s->offset};
    uint64_t h = XXH3_64bits_withSeed(&what, sizeof what, s->code->hash);
    return h ? h : 1;
}

/* "" and the path, by the innermost frame that is not the toolchain's; NULL: there are no lines. */
static const struct mt_code_frame *frame_choose(const struct mt_code_frame *f, unsigned n,
                                                char path[PATH_MAX])
{
    for (unsigned i = 0; i < n; i++) {
        mt_source_full(path, PATH_MAX, f[i].folder, f[i].file);
        if (*path && !mt_is_toolchain_file(path))
            return &f[i];
    }
    if (n)
        mt_source_full(path, PATH_MAX, f->folder, f->file);
    return n && *path ? f : NULL;
}

static struct mt_code_lines *code_lines(struct mt_gpu_code *c)
{
    if (!c->looked)
        c->lines = mt_code_lines_open(&c->cubin);
    c->looked = 1;
    return c->lines;
}

/* As in the source. malloc'ed; NULL: no memory. */
static char *name_of(const char *symbol)
{
    const char *name;
    size_t n;
    mt_cubin_name(symbol, &name, &n);
    char *plain = strndup(name, n), *text = plain ? mt_demangle_name(plain) : NULL;
    free(plain);
    return text;
}

/* "kernel+0x120", "module of kernel+0x120". */
static char *spot_text(const struct spot *s, const char *kernel)
{
    char *text = NULL;
    uint64_t far = s->offset < 0 ? 0 - (uint64_t)s->offset : (uint64_t)s->offset;
    if (asprintf(&text, "%s%s%c0x%llx", s->section == UINT32_MAX ? "module of " : "", kernel,
                 s->offset < 0 ? '-' : '+', (unsigned long long)far) < 0)
        return NULL;
    return text;
}

static const char *spot_symbol(const struct spot *s)
{
    size_t first = 0;
    while (s->section == UINT32_MAX && !s->code->places[first].known)
        first++;
    return s->code->cubin.sections[s->section == UINT32_MAX ? first : s->section].name;
}

/* The symbol of the function at the spot; "": not known. */
static const char *spot_function(const struct spot *s, const struct mt_code_frame *f)
{
    const struct mt_cubin_function *around = NULL;
    if (f && f->function && *f->function)
        return f->function;
    if (s->section != UINT32_MAX)
        around = mt_cubin_around(&s->code->cubin, s->section, (uint64_t)s->offset);
    return around ? around->name : "";
}

static void spot_log(const struct spot *s, uint32_t id, uint32_t meta)
{
    struct mt_code_frame frames[FRAMES];
    char path[PATH_MAX];
    struct mt_code_lines *l = s->section == UINT32_MAX ? NULL : code_lines(s->code);
    unsigned n = l ? mt_code_lines_at(l, s->section, (uint64_t)s->offset, frames, FRAMES) : 0;
    const struct mt_code_frame *f = frame_choose(frames, n, path);
    const char *symbol = spot_symbol(s);
    char *kernel = name_of(symbol), *function = name_of(spot_function(s, f)),
         *at = spot_text(s, kernel ? kernel : symbol);
    mt_event_site(&(struct mt_site_line){.id = id,
                                         .line = f ? f->line : 0,
                                         .size = meta & ((1u << 28) - 1),
                                         .file = f ? path : "",
                                         .function = function ? function : "",
                                         .var = "",
                                         .at = at ? at : "",
                                         .symbol = symbol,
                                         .code = *s->code->kept ? s->code->kept : NULL,
                                         .guess = s->guess},
                  meta >> 28);
    free(kernel);
    free(function);
    free(at);
}

/* The id of what is met for the first time, or was met in another place. *sure: not 0 and no guess. With the
 * lock. */
static uint32_t site_find(uint64_t pc, uint32_t meta, int *sure)
{
    struct spot s;
    uint32_t id = 0;
    *sure = 0;
    if (!spot_find(pc, &s))
        return 0;
    *sure = !s.guess;
    uint64_t key = spot_key(&s);
    if (mt_known_get(&by_content, key, meta, &id))
        return id;
    id = sites++;
    spot_log(&s, id, meta);
    mt_known_set(&by_content, key, meta, id);
    return id;
}

static uint32_t site_ask(uint64_t pc, uint32_t meta)
{
    uint32_t id = 0;
    int sure;
    pthread_mutex_lock(&lock);
    if (!mt_known_get(&by_pc, pc, meta, &id)) {
        id = site_find(pc, meta, &sure);
        unsure += !sure;
        if (id || unsure < MOST_UNKNOWN)
            mt_known_set(&by_pc, pc, meta, id);
    }
    pthread_mutex_unlock(&lock);
    return id;
}

uint32_t mt_code_site(uint64_t pc, uint32_t meta)
{
    uint32_t id;
    return mt_known_get(&by_pc, pc, meta, &id) ? id : site_ask(pc, meta);
}
