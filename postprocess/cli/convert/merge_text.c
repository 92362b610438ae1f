/* Merges an atomic text trace's lines by timestamp as they arrive. */
#define _GNU_SOURCE

#include "merge_text.h"
#include "memtrace/grow.h"
#include "cli/base/kind.h"
#include "base/text.h"
#include "memtrace/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A block of input. Lines stay in place until they are written; a block is free when it has no lines left. */
struct mt_merge_block {
    struct mt_merge_block *next; /* next free block */
    size_t size;
    size_t lines; /* pending lines, plus one while the reader reads into the block */
    char data[];
};

struct mt_merge_line {
    uint64_t time;
    struct mt_merge_block *block;
    uint32_t at, bytes; /* offset and length of the text to write, without LF */
};

struct mt_merge_heap {
    struct mt_merge_thread **item;
    size_t count, room, which;
};

struct mt_merge {
    struct mt_hash threads;      /* struct mt_merge_thread by number */
    struct mt_merge_heap first;  /* threads with pending lines, by their first one */
    struct mt_merge_heap newest; /* running threads, by the newest time they have shown */
    struct mt_merge_block *spare;
    size_t nspare;
    uint64_t out_time; /* time of the line written last */
    int64_t out_thread;
    int out_any;
    uint64_t begun; /* number of tr minus number of tf events, for all threads */
    int (*write)(void *self, const char *text,
                 size_t bytes); /* writes a line without LF; returns 0, or -1 to stop */
    void *self;
};

enum mt_merge_kind {
    MT_MERGE_LINE,
    MT_MERGE_BEGIN /* event tr */,
    MT_MERGE_END /* event tf */,
    MT_MERGE_SYNC
};

enum { MT_MERGE_OK = 0, MT_MERGE_LATE = 1 /* accepted, but later lines have been written already */ };

/* ---- Streaming merge of lines from many threads, by time, thread and order of arrival: convert --order=time
 * without the files ---- */

#define BLOCK ((size_t)1 << 18)
#define SPARES 16

enum { FIRST, NEWEST };

struct mt_merge_thread {
    int64_t number;
    uint64_t newest;
    uint64_t key[2];            /* key in heap FIRST and in heap NEWEST */
    size_t place[2];            /* position in each heap, from 1; 0: not in it */
    struct mt_merge_line *ring; /* pending lines, a ring buffer */
    size_t head, count, room;   /* room: a power of two, or 0 */
    uint64_t begun;             /* number of tr minus number of tf; several threads may share a number */
};

static void merge_init(struct mt_merge *m)
{
    memset(m, 0, sizeof *m);
    m->first.which = FIRST;
    m->newest.which = NEWEST;
}

/* ---- blocks ---- */

/* Returns a block for at least `size` bytes of data, with lines = 1; NULL without memory. */
static struct mt_merge_block *merge_block_new(struct mt_merge *m, size_t size)
{
    struct mt_merge_block *b = m->spare;
    if (b && size <= b->size) {
        m->spare = b->next;
        m->nspare--;
    } else {
        size = size < BLOCK ? BLOCK : size;
        b = malloc(sizeof *b + size);
        if (!b)
            return NULL;
        b->size = size;
    }
    b->next = NULL;
    b->lines = 1;
    return b;
}

/* Removes one line from the block's count. */
static void merge_block_drop(struct mt_merge *m, struct mt_merge_block *b)
{
    if (--b->lines)
        return;
    if (b->size != BLOCK || m->nspare == SPARES) {
        free(b);
        return;
    }
    b->next = m->spare;
    m->spare = b;
    m->nspare++;
}

/* ---- heaps of threads, with the smallest (key, number) on top; threads store their positions ---- */

static int merge_queue_before(const struct mt_merge_thread *a, const struct mt_merge_thread *b, size_t w)
{
    return a->key[w] != b->key[w] ? a->key[w] < b->key[w] : a->number < b->number;
}

static void merge_queue_put(struct mt_merge_heap *h, size_t i, struct mt_merge_thread *t)
{
    h->item[i - 1] = t;
    t->place[h->which] = i;
}

/* Moves the thread to the position for its key. */
static void merge_queue_settle(struct mt_merge_heap *h, struct mt_merge_thread *t)
{
    size_t i = t->place[h->which], w = h->which;
    while (i > 1 && merge_queue_before(t, h->item[i / 2 - 1], w)) {
        merge_queue_put(h, i, h->item[i / 2 - 1]);
        i /= 2;
    }
    for (size_t child; (child = 2 * i) <= h->count; i = child) {
        child += child < h->count && merge_queue_before(h->item[child], h->item[child - 1], w);
        if (!merge_queue_before(h->item[child - 1], t, w))
            break;
        merge_queue_put(h, i, h->item[child - 1]);
    }
    merge_queue_put(h, i, t);
}

/* Inserts the thread, or changes its key. Returns 0 or -1. */
static int heap_set(struct mt_merge_heap *h, struct mt_merge_thread *t, uint64_t key)
{
    if (!t->place[h->which]) {
        if (mt_grow(&h->item, &h->room, h->count + 1, sizeof *h->item) != 0)
            return -1;
        merge_queue_put(h, ++h->count, t);
    }
    t->key[h->which] = key;
    merge_queue_settle(h, t);
    return 0;
}

static void heap_remove(struct mt_merge_heap *h, struct mt_merge_thread *t)
{
    size_t i = t->place[h->which];
    struct mt_merge_thread *last;
    if (!i)
        return;
    t->place[h->which] = 0;
    last = h->item[--h->count];
    if (last == t)
        return;
    merge_queue_put(h, i, last);
    merge_queue_settle(h, last);
}

/* ---- threads by number ---- */

static struct mt_merge_thread *merge_text_thread_of(struct mt_merge *m, int64_t number)
{
    uint64_t known = mt_hash_find(&m->threads, (uint64_t)number);
    struct mt_merge_thread *t = known ? (struct mt_merge_thread *)known : calloc(1, sizeof *t);
    if (known || !t)
        return t;
    t->number = number;
    if (mt_hash_put(&m->threads, (uint64_t)number, (uintptr_t)t) == 0)
        return t;
    free(t);
    return NULL;
}

static void merge_free(struct mt_merge *m)
{
    const struct mt_hash_slot *s;
    for (size_t i = 0; (s = mt_hash_next(&m->threads, &i));) {
        struct mt_merge_thread *t = (struct mt_merge_thread *)s->value;
        for (size_t k = 0; k < t->count; k++)
            merge_block_drop(m, t->ring[(t->head + k) & (t->room - 1)].block);
        free(t->ring);
        free(t);
    }
    mt_hash_free(&m->threads);
    free(m->first.item);
    free(m->newest.item);
    for (struct mt_merge_block *b = m->spare, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    merge_init(m);
}

/* ---- lines ---- */

static int ring_resize(struct mt_merge_thread *t, size_t room)
{
    struct mt_merge_line *ring = malloc(room * sizeof *ring);
    if (!ring)
        return -1;
    for (size_t k = 0; k < t->count; k++)
        ring[k] = t->ring[(t->head + k) & (t->room - 1)];
    free(t->ring);
    t->ring = ring;
    t->head = 0;
    t->room = room;
    return 0;
}

/* Inserts a line after the thread's lines that are not newer: at the end, unless its times went back. */
static int ring_insert(struct mt_merge_thread *t, const struct mt_merge_line *line)
{
    size_t at = t->count;
    if (t->count == t->room && ring_resize(t, t->room ? 2 * t->room : 16) != 0)
        return -1;
    while (at > 0 && t->ring[(t->head + at - 1) & (t->room - 1)].time > line->time) {
        t->ring[(t->head + at) & (t->room - 1)] = t->ring[(t->head + at - 1) & (t->room - 1)];
        at--;
    }
    t->ring[(t->head + at) & (t->room - 1)] = *line;
    t->count++;
    line->block->lines++;
    return 0;
}

/* Handles a thread without pending lines; if it has ended, only its number is kept. */
static void thread_idle(struct mt_merge *m, struct mt_merge_thread *t)
{
    heap_remove(&m->first, t);
    if (t->place[NEWEST])
        return;
    free(t->ring);
    t->ring = NULL;
    t->room = t->head = 0;
}

/* Writes lines up to (time, thread) of the top of `newest`, or all of them if no thread is running. */
static int merge_queue_drain(struct mt_merge *m)
{
    while (m->first.count) {
        struct mt_merge_thread *t = m->first.item[0];
        const struct mt_merge_thread *limit = m->newest.count ? m->newest.item[0] : NULL;
        struct mt_merge_line line = t->ring[t->head];
        if (limit && (line.time > limit->newest || (line.time == limit->newest && t->number > limit->number)))
            return 0;
        m->out_time = line.time;
        m->out_thread = t->number;
        m->out_any = 1;
        int stop = m->write(m->self, line.block->data + line.at, line.bytes);
        merge_block_drop(m, line.block);
        t->head = (t->head + 1) & (t->room - 1);
        if (--t->count)
            heap_set(&m->first, t, t->ring[t->head].time);
        else
            thread_idle(m, t);
        if (stop)
            return -2;
    }
    return 0;
}

/* Updates the thread's newest time. Thread -1 is none and guarantees nothing. */
static int merge_queue_show(struct mt_merge *m, struct mt_merge_thread *t, enum mt_merge_kind kind,
                            uint64_t time)
{
    if (t->number < 0)
        return 0;
    if (kind == MT_MERGE_BEGIN) {
        t->begun++;
        m->begun++;
    }
    if (kind == MT_MERGE_END && t->begun) {
        t->begun--;
        m->begun--;
    }
    if (kind == MT_MERGE_END && !t->begun) {
        heap_remove(&m->newest, t);
        return 0;
    }
    t->newest = t->place[NEWEST] && t->newest > time ? t->newest : time;
    return heap_set(&m->newest, t, t->newest);
}

/* Adds a line of `thread` (-1: none) and writes the lines that are ready. Returns MT_MERGE_OK or
 * MT_MERGE_LATE, -1 without memory, or -2 if `write` failed. A SYNC only shows a time and is not written. */
static int merge_add(struct mt_merge *m, int64_t thread, enum mt_merge_kind kind,
                     const struct mt_merge_line *line)
{
    struct mt_merge_thread *t = merge_text_thread_of(m, thread);
    int late = kind != MT_MERGE_SYNC && m->out_any &&
               (line->time < m->out_time || (line->time == m->out_time && thread < m->out_thread));
    if (!t || merge_queue_show(m, t, kind, line->time) != 0)
        return -1;
    if (kind != MT_MERGE_SYNC) {
        if (ring_insert(t, line) != 0)
            return -1;
        uint64_t first = t->ring[t->head].time;
        if ((!t->place[FIRST] || t->key[FIRST] != first) && heap_set(&m->first, t, first) != 0)
            return -1;
    }
    int e = merge_queue_drain(m);
    return e ? e : late;
}

/* Writes the remaining lines, after the last one was added. Returns 0 or -2. */
static int merge_end(struct mt_merge *m)
{
    while (m->newest.count)
        heap_remove(&m->newest, m->newest.item[0]);
    return merge_queue_drain(m);
}

#define OUTPUT ((size_t)1 << 16)
#define MESSAGES 10 /* bad lines reported individually */
/* Line offsets and lengths have 32 bits. */
#define LONGEST ((size_t)UINT32_MAX)

struct merge_run {
    struct mt_merge merge;
    int keep; /* 1: keeps timestamps */
    const char *path;
    uint64_t number, bad; /* lines read from this file, and malformed ones */
    char *out;
    size_t filled;
    struct mt_output *to;
    int error; /* errno of the output */
};

/* ---- output ---- */

static int merge_text_write_out(struct merge_run *r, const char *data, size_t bytes)
{
    while (bytes && !r->error) {
        ssize_t n = write(r->to->fd, data, bytes);
        if (n < 0 && errno != EINTR)
            r->error = errno;
        if (n > 0) {
            data += n;
            bytes -= (size_t)n;
        }
    }
    return r->error ? -1 : 0;
}

static int merge_flush(struct merge_run *r)
{
    size_t n = r->filled;
    r->filled = 0;
    return merge_text_write_out(r, r->out, n);
}

/* Returns 1 for printable ASCII and TABs only, as in all lines except for function names. */
static int line_is_plain(const char *text, size_t bytes)
{
    unsigned char bad = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        bad |= (unsigned char)((c < 0x20 || c > 0x7e) && c != '\t');
    }
    return !bad;
}

static int merge_text_put_line(struct merge_run *r, const char *text, size_t bytes)
{
    if (bytes + 1 > OUTPUT - r->filled && merge_flush(r) != 0)
        return -1;
    if (bytes + 1 > OUTPUT)
        return merge_text_write_out(r, text, bytes) != 0 || merge_text_write_out(r, "\n", 1) != 0 ? -1 : 0;
    memcpy(r->out + r->filled, text, bytes);
    r->out[r->filled + bytes] = '\n';
    r->filled += bytes + 1;
    return 0;
}

/* Writes a line with control characters made visible. */
static int write_line(void *self, const char *text, size_t bytes)
{
    struct merge_run *r = self;
    if (line_is_plain(text, bytes))
        return merge_text_put_line(r, text, bytes);
    char *out = malloc(4 * bytes + 1), *at = out;
    for (size_t i = 0, n; out && i <= bytes; i += n + 1) { /* keeps TABs */
        const char *tab = memchr(text + i, '\t', bytes - i);
        n = tab ? (size_t)(tab - (text + i)) : bytes - i;
        at += mt_text_visible(at, 4 * n + 1, text + i, n);
        if (tab)
            *at++ = '\t';
    }
    if (!out)
        r->error = ENOMEM;
    int rc = out ? merge_text_put_line(r, out, (size_t)(at - out)) : -1;
    free(out);
    return rc;
}

/* ---- lines ---- */

static void merge_complain(struct merge_run *r, const char *what)
{
    if (++r->bad <= MESSAGES)
        mt_cli_say("%s: line %llu: %s", r->path, (unsigned long long)r->number, what);
}

/* Parses a decimal number that ends at a TAB. Returns the position after it, or NULL. */
static const char *number_field(const char *p, const char *end, uint64_t *n)
{
    const char *begin = p;
    uint64_t v = 0;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return NULL;
    *n = v;
    return p > begin && p < end && *p == '\t' ? p + 1 : NULL;
}

static int is_word(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - p) == n && memcmp(p, word, n) == 0;
}

static enum mt_merge_kind merge_text_kind_of(const char *p, const char *end)
{
    if (*p != 't') /* most lines are accesses */
        return MT_MERGE_LINE;
    return is_word(p, end, "tr")            ? MT_MERGE_BEGIN
           : is_word(p, end, "tf")          ? MT_MERGE_END
           : is_word(p, end, "thread_sync") ? MT_MERGE_SYNC
                                            : MT_MERGE_LINE;
}

/* Handles one line without its LF. Returns 0, -1 without memory, or -2 if the output failed. */
static int merge_text_take_line(struct merge_run *r, struct mt_merge_block *b, const char *begin,
                                const char *end)
{
    struct mt_merge_line line = {.block = b};
    uint64_t thread = 0;
    r->number++;
    const char *who = number_field(begin, end, &line.time), *event = NULL;
    int none = who && end - who > 3 && memcmp(who, "-1\t", 3) == 0;
    if (who)
        event = none ? who + 3 : number_field(who, end, &thread);
    if (!event || event == end || *event < 'a' || *event > 'z' || thread > INT64_MAX) {
        merge_complain(r, "not 'timestamp TAB thread TAB event': left out");
        return 0;
    }
    const char *text = r->keep ? begin : who;
    line.at = (uint32_t)(text - b->data);
    line.bytes = (uint32_t)(end - text);
    int e = merge_add(&r->merge, none ? -1 : (int64_t)thread, merge_text_kind_of(event, end), &line);
    if (e == MT_MERGE_LATE) {
        merge_complain(r, "older than lines that are merged already: it is too late in the output");
        return 0;
    }
    return e;
}

/* ---- input ---- */

static int merge_text_no_memory(void)
{
    return mt_cli_fail(
        "no memory; threads whose timestamps lie far apart need much of it (see --lag of memtrace host)");
}

/* Moves the rest of an unfinished line, [begin, end) of *block, to a new *block with room after it. Returns 0
 * or an exit code. */
static int merge_text_make_room(struct merge_run *r, struct mt_merge_block **block, size_t *begin,
                                size_t *end)
{
    size_t left = *end - *begin;
    if (left > LONGEST / 2) {
        mt_cli_say("%s: line %llu is longer than 2 GiB", r->path, (unsigned long long)r->number + 1);
        return MT_EXIT_INPUT;
    }
    struct mt_merge_block *b = merge_block_new(&r->merge, 2 * left);
    if (!b)
        return merge_text_no_memory();
    memcpy(b->data, (*block)->data + *begin, left);
    merge_block_drop(&r->merge, *block);
    *block = b;
    *begin = 0;
    *end = left;
    return 0;
}

/* Handles all complete lines of [*begin, end), whose first `seen` bytes contain no LF. */
static int merge_text_take_lines(struct merge_run *r, struct mt_merge_block *b, size_t *begin, size_t seen,
                                 size_t end)
{
    const char *lf, *p = b->data + *begin, *from = p + seen;
    int e = 0;
    while (!e && (lf = memchr(from, '\n', (size_t)(b->data + end - from)))) {
        e = merge_text_take_line(r, b, p, lf);
        from = p = lf + 1;
    }
    *begin = (size_t)(p - b->data);
    return e == -1 ? merge_text_no_memory() : e ? MT_EXIT_FAILURE : 0;
}

/* Reads to the end. Returns 0 or an exit code; an output error is reported later. */
static int take_file(struct merge_run *r, int fd)
{
    struct mt_merge_block *b = merge_block_new(&r->merge, 0);
    size_t begin = 0, end = 0;
    ssize_t n = 0;
    int code = b ? 0 : merge_text_no_memory();
    while (!code && !mt_cli_stop) {
        if (end == b->size && (code = merge_text_make_room(r, &b, &begin, &end)) != 0)
            break;
        if (merge_flush(r) != 0) { /* flushes before waiting, so that readers see all lines that are ready */
            code = MT_EXIT_FAILURE;
            break;
        }
        n = read(fd, b->data + end, b->size - end);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR) {
            mt_cli_say("%s: cannot read: %s", r->path, strerror(errno));
            code = MT_EXIT_FAILURE;
        } else if (n > 0) {
            size_t seen = end - begin;
            if (r->number == 0 && seen == 0)
                code = mt_kind_expect(r->path, b->data + end, (size_t)n, MT_KIND_ATOMIC);
            end += (size_t)n;
            code = code ? code : merge_text_take_lines(r, b, &begin, seen, end);
        }
    }
    if (!code && end > begin && !mt_cli_stop) {
        r->number++;
        merge_complain(r, "does not end: cut off, left out");
    }
    if (b)
        merge_block_drop(&r->merge, b);
    return code;
}

static int take_path(struct merge_run *r, const char *path)
{
    mt_cli_waits(path);
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    r->path = fd == STDIN_FILENO ? "standard input" : path;
    r->number = 0;
    if (fd < 0)
        return mt_cli_refuse("%s: cannot read: %s", path, strerror(errno));
    int code = take_file(r, fd);
    if (fd != STDIN_FILENO)
        close(fd);
    return code;
}

/* ---- main ---- */

static int merge_text_finish(struct merge_run *r, int code)
{
    /* Also after a failure or an interruption, since the lines are intact. */
    if (!r->error && merge_end(&r->merge) == 0)
        merge_flush(r);
    if (r->error)
        mt_output_failed(r->to, r->error);
    if (r->bad > MESSAGES)
        mt_cli_say("%llu lines like these in all", (unsigned long long)r->bad);
    if (mt_cli_stop)
        mt_cli_say("interrupted: the output ends early");
    if (r->error)
        return MT_EXIT_FAILURE;
    int unended =
        r->merge.begun && !code && !r->bad && !mt_cli_stop; /* else the reason is already reported */
    if (unended)
        mt_cli_say(
            "%llu threads have no end (tf): the program was killed or still runs, and the trace is not whole",
            (unsigned long long)r->merge.begun);
    return code ? code : r->bad || unended || mt_cli_stop ? MT_EXIT_INPUT : MT_EXIT_OK;
}

int mt_merge_text(const char *const *paths, size_t n, int keep, struct mt_output *out)
{
    struct merge_run r = {.keep = keep, .to = out};
    int code = mt_output_ready(out);
    if (code)
        return code;
    merge_init(&r.merge);
    r.merge.write = write_line;
    r.merge.self = &r;
    r.out = malloc(OUTPUT);
    if (!r.out)
        return merge_text_no_memory();
    for (size_t i = 0; i < n && !code && !mt_cli_stop; i++)
        code = take_path(&r, paths[i]);
    code = merge_text_finish(&r, code);
    merge_free(&r.merge);
    free(r.out);
    return code;
}
