/* Merges the threads' streams of an atomic text trace by timestamp, as they arrive. */
#define _GNU_SOURCE
#include "merge_text.h"
#include "cli/base/kind.h"
#include "merge_queue.h"
#include "base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT ((size_t)1 << 16)
#define MESSAGES 10 /* bad lines that are reported one by one */
/* Offsets and lengths of lines are 32 bits wide. */
#define LONGEST ((size_t)UINT32_MAX)

struct merge_run {
    struct mt_merge merge;
    int keep; /* timestamps */
    const char *path;
    uint64_t number, bad; /* lines: read from this file, not taken as they should be */
    char *out;
    size_t filled;
    struct mt_output *to;
    int error; /* errno of the output */
};

/* ---- output ---- */

static int write_out(struct merge_run *r, const char *data, size_t bytes)
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
    return write_out(r, r->out, n);
}

/* Nothing but printable ASCII and TAB: as all lines are but for names of functions. */
static int line_is_plain(const char *text, size_t bytes)
{
    unsigned char bad = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        bad |= (unsigned char)((c < 0x20 || c > 0x7e) && c != '\t');
    }
    return !bad;
}

static int put_line(struct merge_run *r, const char *text, size_t bytes)
{
    if (bytes + 1 > OUTPUT - r->filled && merge_flush(r) != 0)
        return -1;
    if (bytes + 1 > OUTPUT)
        return write_out(r, text, bytes) != 0 || write_out(r, "\n", 1) != 0 ? -1 : 0;
    memcpy(r->out + r->filled, text, bytes);
    r->out[r->filled + bytes] = '\n';
    r->filled += bytes + 1;
    return 0;
}

/* A name must not command a terminal. */
static int write_line(void *self, const char *text, size_t bytes)
{
    struct merge_run *r = self;
    if (line_is_plain(text, bytes))
        return put_line(r, text, bytes);
    char *out = malloc(4 * bytes + 1), *at = out;
    for (size_t i = 0, n; out && i <= bytes; i += n + 1) { /* TABs stay */
        const char *tab = memchr(text + i, '\t', bytes - i);
        n = tab ? (size_t)(tab - (text + i)) : bytes - i;
        at += mt_text_visible(at, 4 * n + 1, text + i, n);
        if (tab)
            *at++ = '\t';
    }
    if (!out)
        r->error = ENOMEM;
    int rc = out ? put_line(r, out, (size_t)(at - out)) : -1;
    free(out);
    return rc;
}

/* ---- lines ---- */

static void merge_complain(struct merge_run *r, const char *what)
{
    if (++r->bad <= MESSAGES)
        mt_cli_say("%s: line %llu: %s", r->path, (unsigned long long)r->number, what);
}

/* A decimal number that ends at a TAB; the position after it, NULL if there is none. */
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

static enum mt_merge_kind kind_of(const char *p, const char *end)
{
    if (*p != 't') /* most lines are accesses */
        return MT_MERGE_LINE;
    return is_word(p, end, "tr")            ? MT_MERGE_BEGIN
           : is_word(p, end, "tf")          ? MT_MERGE_END
           : is_word(p, end, "thread_sync") ? MT_MERGE_SYNC
                                            : MT_MERGE_LINE;
}

/* One line without its LF. 0; -1: no memory; -2: the output failed. */
static int take_line(struct merge_run *r, struct mt_merge_block *b, const char *begin, const char *end)
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
    int e = mt_merge_add(&r->merge, none ? -1 : (int64_t)thread, kind_of(event, end), &line);
    if (e == MT_MERGE_LATE) {
        merge_complain(r, "older than lines that are merged already: it is too late in the output");
        return 0;
    }
    return e;
}

/* ---- input ---- */

static int no_memory(void)
{
    return mt_cli_fail(
        "no memory; threads whose timestamps lie far apart need much of it (see --lag of memtrace host)");
}

/* A block with room after what is left of an unfinished line, [begin, end) of *block. 0 or an exit code. */
static int make_room(struct merge_run *r, struct mt_merge_block **block, size_t *begin, size_t *end)
{
    size_t left = *end - *begin;
    if (left > LONGEST / 2) {
        mt_cli_say("%s: line %llu is longer than 2 GiB", r->path, (unsigned long long)r->number + 1);
        return MT_EXIT_INPUT;
    }
    struct mt_merge_block *b = mt_merge_block_new(&r->merge, 2 * left);
    if (!b)
        return no_memory();
    memcpy(b->data, (*block)->data + *begin, left);
    mt_merge_block_drop(&r->merge, *block);
    *block = b;
    *begin = 0;
    *end = left;
    return 0;
}

/* All whole lines of [*begin, end); `seen` bytes of it hold no LF. */
static int take_lines(struct merge_run *r, struct mt_merge_block *b, size_t *begin, size_t seen, size_t end)
{
    const char *lf, *p = b->data + *begin, *from = p + seen;
    int e = 0;
    while (!e && (lf = memchr(from, '\n', (size_t)(b->data + end - from)))) {
        e = take_line(r, b, p, lf);
        from = p = lf + 1;
    }
    *begin = (size_t)(p - b->data);
    return e == -1 ? no_memory() : e ? MT_EXIT_FAILURE : 0;
}

/* Reads to the end. 0 or an exit code; the output's error is said later. */
static int take_file(struct merge_run *r, int fd)
{
    struct mt_merge_block *b = mt_merge_block_new(&r->merge, 0);
    size_t begin = 0, end = 0;
    ssize_t n = 0;
    int code = b ? 0 : no_memory();
    while (!code && !mt_cli_stop) {
        if (end == b->size && (code = make_room(r, &b, &begin, &end)) != 0)
            break;
        if (merge_flush(r) != 0) { /* whoever reads us sees all that can be seen before we wait */
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
            code = code ? code : take_lines(r, b, &begin, seen, end);
        }
    }
    if (!code && end > begin && !mt_cli_stop) {
        r->number++;
        merge_complain(r, "does not end: cut off, left out");
    }
    if (b)
        mt_merge_block_drop(&r->merge, b);
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

static int merge_finish(struct merge_run *r, int code)
{
    /* Also when reading failed or was interrupted: what is here is whole. */
    if (!r->error && mt_merge_end(&r->merge) == 0)
        merge_flush(r);
    if (r->error)
        mt_output_failed(r->to, r->error);
    if (r->bad > MESSAGES)
        mt_cli_say("%llu lines like these in all", (unsigned long long)r->bad);
    if (mt_cli_stop)
        mt_cli_say("interrupted: the output ends early");
    if (r->error)
        return MT_EXIT_FAILURE;
    int unended = r->merge.begun && !code && !r->bad && !mt_cli_stop; /* else there is a reason already */
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
    mt_merge_init(&r.merge);
    r.merge.write = write_line;
    r.merge.self = &r;
    r.out = malloc(OUTPUT);
    if (!r.out)
        return no_memory();
    for (size_t i = 0; i < n && !code && !mt_cli_stop; i++)
        code = take_path(&r, paths[i]);
    code = merge_finish(&r, code);
    mt_merge_free(&r.merge);
    free(r.out);
    return code;
}
