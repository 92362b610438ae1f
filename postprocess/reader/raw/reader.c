/* Reader of raw traces: from bytes to batches of checked, aligned records. */
#define _GNU_SOURCE

#include "memtrace/trace.h"
#include "reader/base/internal.h"
#include "memtrace/grow.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- joining of evenly spaced records into runs ---- */

/* Returns how many records from r[0] on make one run (at most count, which is at least 1). */
static size_t runs_even(const struct mt_raw_record *r, size_t count)
{
    size_t n = 1;
    uint64_t step = count > 1 ? r[1].w[1] - r[0].w[1] : 0;
    while (n < count && r[n].w[0] == r[0].w[0] && r[n].w[2] == r[0].w[2] && r[n].w[1] - r[n - 1].w[1] == step)
        n++;
    return n;
}

size_t mt_runs_from_records(const struct mt_raw_record *r, size_t count, struct mt_access_run *runs,
                            size_t room, size_t *taken)
{
    size_t n = 0, i = 0;
    while (i < count && n < room) {
        size_t length = runs_even(r + i, count - i < UINT32_MAX ? count - i : UINT32_MAX);
        runs[n++] = (struct mt_access_run){.base = r[i].w[1],
                                           .stride = length > 1 ? (int64_t)(r[i + 1].w[1] - r[i].w[1]) : 0,
                                           .cta = r[i].w[2],
                                           .smid = (uint32_t)(r[i].w[0] >> 32),
                                           .meta = (uint32_t)r[i].w[0],
                                           .count = (uint32_t)length,
                                           .mask = MT_RUN_NO_MASK,
                                           .warp = MT_RUN_NO_WARP};
        i += length;
    }
    *taken = i;
    return n;
}

size_t mt_records_from_runs(const struct mt_access_run *runs, size_t count, size_t *run, uint32_t *lane,
                            struct mt_raw_record *records, size_t capacity)
{
    size_t n = 0;
    while (*run < count && n < capacity) {
        const struct mt_access_run *r = &runs[*run];
        uint64_t w0 = (uint64_t)r->smid << 32 | r->meta, w2 = r->cta, stride = (uint64_t)r->stride;
        uint32_t from = *lane, left = r->count - from;
        uint32_t take = left < capacity - n ? left : (uint32_t)(capacity - n);
        struct mt_raw_record *to = records + n;
        for (uint32_t i = 0; i < take; i++) {
            to[i].w[0] = w0;
            to[i].w[1] = r->addresses ? r->addresses[from + i] : r->base + (from + i) * stride;
            to[i].w[2] = w2;
        }
        n += take;
        *lane = take == left ? 0 : from + take;
        *run += take == left;
    }
    return n;
}

/* ---- ends of launches, found from any place in a raw trace ----
 * Only an end mark has 24 zero bytes in a row: type and size of a record are never all zero, and two records
 * can have at most 23 zero bytes in a row at usual addresses. Results are checked against the launches' names
 * and the record size. */

enum { PIECE = 1 << 17 /* fits into the processor's cache */, ENDS_NAME_PIECE = 4096 };

/* Reads up to n bytes at `at`. Returns their number, or -1 with *err set. */
static ssize_t read_at(int fd, const char *path, void *out, size_t n, uint64_t at, struct mt_error *err)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, (char *)out + done, n - done, (off_t)(at + done));
        if (got < 0 && errno != EINTR) {
            int e = errno;
            return mt_error_set(err, MT_E_SYSTEM, e, at, path, "read error at byte %llu: %s",
                                (unsigned long long)at, strerror(e));
        }
        if (got == 0)
            break;
        done += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)done;
}

struct list {
    uint64_t *at;
    size_t n, room;
};

static int ends_append(struct list *l, uint64_t at)
{
    if (mt_grow(&l->at, &l->room, l->n + 1, sizeof *l->at) != 0)
        return -1;
    l->at[l->n++] = at;
    return 0;
}

/* Returns the first byte from i on at which a row of 24 zeros may begin, or n. Such a row contains a whole
 * 8-byte word at one of the places 16 bytes apart, so only those are checked. */
static size_t ends_skip(const unsigned char *p, size_t i, size_t n)
{
    size_t word = i;
    for (uint64_t value = 1; word + sizeof value <= n; word += 16) {
        memcpy(&value, p + word, sizeof value);
        if (value == 0)
            break;
    }
    return word == i ? i : word - 15; /* the word before has a non-zero byte */
}

/* Finds ends of rows of zeros in p[0 .. n), which is at `base`; *zeros: length of the current row. */
static int ends_scan(struct list *l, const unsigned char *p, size_t n, uint64_t base, uint64_t from,
                     uint64_t *zeros)
{
    for (size_t i = 0; i < n;) {
        if (*zeros == 0)
            i = ends_skip(p, i, n);
        if (p[i++] == 0) {
            ++*zeros;
            continue;
        }
        if (*zeros >= MT_RAW_RECORD_SIZE && base + i - 1 > from && ends_append(l, base + i - 1) != 0)
            return -1;
        *zeros = 0;
    }
    return 0;
}

int mt_raw_ends(const char *path, uint64_t from, uint64_t to, uint64_t **ends, size_t *count,
                struct mt_error *err)
{
    struct list l = {NULL, 0, 0};
    unsigned char *buffer = malloc(PIECE);
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = -1;
    uint64_t at = from < MT_RAW_RECORD_SIZE ? 0 : from - MT_RAW_RECORD_SIZE, zeros = 0, last = to + 1;
    if (fd < 0 || !buffer) {
        mt_error_set(err, fd < 0 ? MT_E_INPUT : MT_E_SYSTEM, errno, 0, path, "cannot read: %s",
                     strerror(errno));
        goto out;
    }
    while (at < last) {
        size_t want = last - at < PIECE ? (size_t)(last - at) : PIECE;
        ssize_t n = read_at(fd, path, buffer, want, at, err);
        if (n < 0)
            goto out;
        rc = ends_scan(&l, buffer, (size_t)n, at, from, &zeros);
        at += (uint64_t)n;
        if (rc == 0 && (size_t)n < want) { /* end of the file was reached */
            if (zeros >= MT_RAW_RECORD_SIZE && at > from && at <= to)
                rc = ends_append(&l, at);
            break;
        }
        if (rc != 0)
            break;
    }
    if (rc != 0)
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory for its launches");
out:
    free(buffer);
    if (fd >= 0)
        close(fd);
    if (rc != 0) {
        free(l.at);
        return -1;
    }
    *ends = l.at;
    *count = l.n;
    return 0;
}

/* Returns 1 if bytes [from, end) are a launch. */
static int is_launch(int fd, const char *path, uint64_t from, uint64_t end)
{
    char piece[ENDS_NAME_PIECE];
    struct mt_error err;
    for (uint64_t at = from; at < end;) {
        ssize_t n =
            read_at(fd, path, piece, end - at < sizeof piece ? (size_t)(end - at) : sizeof piece, at, &err);
        const char *lf = n > 0 ? memchr(piece, '\n', (size_t)n) : NULL;
        if (n <= 0)
            return 0;
        if (lf)
            return (end - (at + (uint64_t)(lf - piece) + 1)) % MT_RAW_RECORD_SIZE == 0 &&
                   end - (at + (uint64_t)(lf - piece) + 1) >= MT_RAW_RECORD_SIZE;
        at += (uint64_t)n;
    }
    return 0;
}

int mt_raw_ends_fit(const char *path, uint64_t size, const uint64_t *ends, size_t count, size_t first,
                    size_t step)
{
    unsigned char byte = 0;
    struct mt_error err;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int fit = fd >= 0 && read_at(fd, path, &byte, 1, 0, &err) == 1 && byte == MT_RAW_RECORD_SIZE &&
              size == (count ? ends[count - 1] : 1);
    for (size_t i = first; i < count && fit; i += step)
        fit = is_launch(fd, path, i ? ends[i - 1] : 1, ends[i]);
    if (fd >= 0)
        close(fd);
    return fit;
}

enum { DIRECT = 1 << 10 /* minimum number of records to read directly */ };
enum { BUFFER = 1 << 20, NAME_PIECE = 4096, OWN_BATCH = 1 << 14, NAME_MAX_BYTES = BUFFER - 64 };
enum state { AT_SIZE, AT_NAME, AT_RECORDS, AT_END, AT_ERROR };

struct mt_reader {
    int fd, owned, regular;
    char *name;
    struct mt_stop stop;
    enum state state;
    int eof;
    struct mt_error error; /* error, valid in AT_ERROR */
    unsigned char *buffer;
    size_t pos, end;      /* range of unread bytes in the buffer */
    uint64_t base;        /* offset of buffer[0] in the trace */
    uint64_t launch;      /* number of the current launch, or of the next one */
    uint64_t name_offset; /* offset of the current launch's name */
    const char *kernel;
    int begun; /* 1: a batch of the current launch was returned */
    struct mt_intern names;
    struct mt_raw_record *own;
    const struct mt_launch_ends *ends; /* launches whose records are skipped, or NULL */
    off_t start;                       /* with ends: file position of the trace */
};

struct mt_reader *mt_reader_open_fd(int fd, const char *name, int owned, const volatile sig_atomic_t *stop,
                                    struct mt_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) {
        int e = S_ISDIR(st.st_mode) ? EISDIR : errno;
        mt_error_set(err, MT_E_INPUT, e, 0, name, "cannot read: %s", strerror(e));
        goto fail;
    }
    struct mt_reader *r = calloc(1, sizeof *r);
    if (r) {
        r->name = strdup(name);
        r->buffer = malloc(BUFFER);
    }
    if (!r || !r->name || !r->buffer) {
        if (r) {
            r->owned = 0;
            mt_reader_close(r);
        }
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, name, "no memory for a reader");
        goto fail;
    }
    r->fd = fd;
    r->owned = owned;
    r->regular = S_ISREG(st.st_mode);
    r->stop.user = stop;
    return r;
fail:
    if (owned)
        close(fd);
    return NULL;
}

struct mt_reader *mt_reader_open(const char *path, const volatile sig_atomic_t *stop, struct mt_error *err)
{
    if (strcmp(path, "-") == 0)
        return mt_reader_open_fd(STDIN_FILENO, "-", 0, stop, err);
    /* Non-blocking, so that waiting for a FIFO's writer can be stopped. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        int e = errno;
        mt_error_set(err, MT_E_INPUT, e, 0, path, "cannot open: %s", strerror(e));
        return NULL;
    }
    return mt_reader_open_fd(fd, path, 1, stop, err);
}

void mt_reader_close(struct mt_reader *r)
{
    if (!r)
        return;
    if (r->owned)
        close(r->fd);
    mt_intern_free(&r->names);
    free(r->name);
    free(r->buffer);
    free(r->own);
    free(r);
}

void mt_reader_preload(struct mt_reader *r, const unsigned char *bytes, size_t n)
{
    r->end = n < BUFFER ? n : BUFFER;
    memcpy(r->buffer, bytes, r->end);
}

void mt_reader_set_stop(struct mt_reader *r, const struct mt_stop *stop)
{
    r->stop = *stop;
}

uint64_t mt_reader_offset(const struct mt_reader *r)
{
    return r->base + r->pos;
}

/* Reads more bytes after the unread ones. Returns 1, 0 at the end of the file, or -1 with the error set. */
static int reader_refill(struct mt_reader *r)
{
    if (r->eof)
        return 0;
    memmove(r->buffer, r->buffer + r->pos, r->end - r->pos);
    r->base += r->pos;
    r->end -= r->pos;
    r->pos = 0;
    for (;;) {
        if (mt_stopped(&r->stop) || (!r->regular && !mt_wait_readable(r->fd, &r->stop)))
            return mt_error_set(&r->error, MT_E_STOPPED, EINTR, r->base + r->end, r->name,
                                "stopped while reading");
        size_t room = r->ends ? NAME_PIECE : BUFFER; /* only names of launches are needed */
        ssize_t n = read(r->fd, r->buffer + r->end, r->end + room < BUFFER ? room : BUFFER - r->end);
        if (n > 0) {
            r->end += (size_t)n;
            return 1;
        }
        if (n == 0) {
            r->eof = 1;
            return 0;
        }
        if (errno != EINTR && errno != EAGAIN) {
            int e = errno;
            uint64_t at = r->base + r->end;
            return mt_error_set(&r->error, MT_E_SYSTEM, e, at, r->name, "read error at byte %llu: %s",
                                (unsigned long long)at, strerror(e));
        }
    }
}

static int read_size(struct mt_reader *r)
{
    int got = r->pos < r->end ? 1 : reader_refill(r);
    if (got < 0)
        return -1;
    if (got == 0)
        return mt_error_set(&r->error, MT_E_TRUNCATED, 0, 0, r->name,
                            "the trace is empty, not even a record size");
    unsigned size = r->buffer[r->pos];
    if (size != MT_RAW_RECORD_SIZE)
        return mt_error_set(&r->error, MT_E_CORRUPT, 0, 0, r->name,
                            "record size is %u, not %u: not a raw memory trace%s", size, MT_RAW_RECORD_SIZE,
                            size == (MT_MTC_MAGIC & 0xff) ? "; this is a compact container" : "");
    r->pos++;
    r->state = AT_NAME;
    return 1;
}

static int check_name(struct mt_reader *r, const unsigned char *s, size_t n, uint64_t offset)
{
    for (size_t i = 0; i < n;) {
        size_t step = s[i] ? mt_utf8_length(s + i, n - i) : 0;
        if (step == 0)
            return mt_error_set(&r->error, MT_E_CORRUPT, 0, offset + i, r->name,
                                "kernel name (launch %llu) is not UTF-8 text%s",
                                (unsigned long long)r->launch,
                                s[i] ? "" : ": a program that is killed while it writes leaves zeros");
        i += step;
    }
    return 0;
}

/* Reads a launch's name. Returns 1, 0 at the clean end, or -1 with the error set. */
static int read_name(struct mt_reader *r)
{
    size_t seen = 0;
    unsigned char *lf;
    while (!(lf = memchr(r->buffer + r->pos + seen, '\n', r->end - r->pos - seen))) {
        seen = r->end - r->pos;
        if (seen > NAME_MAX_BYTES)
            return mt_error_set(&r->error, MT_E_CORRUPT, 0, r->base + r->pos, r->name,
                                "kernel name (launch %llu) has no LF within %d bytes",
                                (unsigned long long)r->launch, (int)NAME_MAX_BYTES);
        int got = reader_refill(r);
        if (got < 0)
            return -1;
        if (got == 0 && seen == 0)
            return 0;
        if (got == 0) {
            if (check_name(r, r->buffer + r->pos, seen, r->base + r->pos) != 0)
                return -1;
            return mt_error_set(&r->error, MT_E_TRUNCATED, 0, r->base + r->pos, r->name,
                                "the trace ends inside a kernel name (launch %llu, no LF)",
                                (unsigned long long)r->launch);
        }
    }
    size_t n = (size_t)(lf - (r->buffer + r->pos));
    if (check_name(r, r->buffer + r->pos, n, r->base + r->pos) != 0)
        return -1;
    r->kernel = mt_intern_visible(&r->names, (char *)r->buffer + r->pos, n);
    if (!r->kernel)
        return mt_error_set(&r->error, MT_E_SYSTEM, ENOMEM, r->base + r->pos, r->name,
                            "no memory for a kernel name");
    r->name_offset = r->base + r->pos;
    r->pos += n + 1;
    r->begun = 0;
    r->state = AT_RECORDS;
    return 1;
}

/* Returns the number of valid records from p on that are no end mark, at most n. */
static size_t plain_records(const unsigned char *p, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) {
        uint32_t meta;
        memcpy(&meta, p + i * MT_RAW_RECORD_SIZE, sizeof meta);
        if (meta >= 4u << 28 || (meta & MT_RAW_MAX_SIZE) == 0)
            break;
    }
    return i;
}

/* Examines a record that is not plain. Returns 1 for the end mark, -1 with the error set. */
static int read_special(struct mt_reader *r, const unsigned char *p)
{
    struct mt_raw_record rec;
    memcpy(&rec, p, sizeof rec);
    if (mt_rec_is_eot(&rec))
        return 1;
    if (mt_rec_type(&rec) > MT_UNKNOWN)
        return mt_error_set(&r->error, MT_E_CORRUPT, 0, r->base + r->pos, r->name,
                            "record of kernel '%.100s' has the reserved access type %u", r->kernel,
                            (unsigned)mt_rec_type(&rec));
    return mt_error_set(&r->error, MT_E_CORRUPT, 0, r->base + r->pos, r->name,
                        "record of kernel '%.100s' says 0 bytes and is not an end mark", r->kernel);
}

static void ends_inside(struct mt_reader *r)
{
    size_t rest = r->end - r->pos;
    if (rest)
        mt_error_set(&r->error, MT_E_TRUNCATED, 0, r->base + r->pos, r->name,
                     "the trace ends inside a record (%zu of %u bytes) of kernel '%.100s' (launch %llu)",
                     rest, MT_RAW_RECORD_SIZE, r->kernel, (unsigned long long)r->launch);
    else
        mt_error_set(&r->error, MT_E_TRUNCATED, 0, r->base + r->pos, r->name,
                     "the trace ends inside kernel '%.100s' (launch %llu, begun at byte %llu): no end mark",
                     r->kernel, (unsigned long long)r->launch, (unsigned long long)r->name_offset);
}

/* Reads records of a file directly to their destination, when the buffer has less than a record. Returns the
 * number of valid records; bytes after them go to the buffer. Returns 0 also if the buffered path must report
 * an error. */
static size_t read_directly(struct mt_reader *r, struct mt_raw_record *room, size_t capacity)
{
    size_t have = r->end - r->pos, most = capacity * sizeof *room;
    unsigned char *bytes = (unsigned char *)room;
    if (!r->regular || r->ends || r->eof || capacity < DIRECT || most > BUFFER || mt_stopped(&r->stop))
        return 0;
    memcpy(bytes, r->buffer + r->pos, have);
    ssize_t n = read(r->fd, bytes + have, most - have);
    if (n <= 0)
        return 0;
    size_t all = have + (size_t)n, count = plain_records(bytes, all / sizeof *room),
           used = count * sizeof *room;
    memcpy(r->buffer, bytes + used, all - used);
    r->base += r->pos + used;
    r->pos = 0;
    r->end = all - used;
    return count;
}

/* Fills *batch. Returns 1, or -1 with the error set; *batch may then have records (count > 0 or a first
 * batch). */
static int read_records(struct mt_reader *r, struct mt_raw_record *room, size_t capacity, struct mt_batch *b)
{
    size_t count = 0;
    b->offset = r->base + r->pos;
    while (count < capacity) {
        size_t whole = (r->end - r->pos) / MT_RAW_RECORD_SIZE;
        if (whole == 0) {
            if (count > 0 && !r->eof)
                break; /* return these records before waiting for more */
            if (count == 0 && (count = read_directly(r, room, capacity)) > 0)
                continue;
            if (r->end - r->pos >= MT_RAW_RECORD_SIZE)
                continue; /* not a plain record */
            int got = reader_refill(r);
            if (got > 0)
                continue;
            if (got == 0)
                ends_inside(r);
            r->state = AT_ERROR;
            break;
        }
        const unsigned char *p = r->buffer + r->pos;
        size_t n = plain_records(p, whole < capacity - count ? whole : capacity - count);
        memcpy(room + count, p, n * MT_RAW_RECORD_SIZE);
        count += n;
        r->pos += n * MT_RAW_RECORD_SIZE;
        if (n == whole || count == capacity)
            continue;
        if (read_special(r, r->buffer + r->pos) < 0) {
            r->state = AT_ERROR;
            break;
        }
        r->pos += MT_RAW_RECORD_SIZE;
        b->flags |= MT_BATCH_END;
        r->state = AT_NAME;
        break;
    }
    b->records = room;
    b->count = count;
    b->kernel = r->kernel;
    b->launch = r->launch;
    if (!r->begun)
        b->flags |= MT_BATCH_BEGIN;
    r->begun = 1;
    if (b->flags & MT_BATCH_END)
        r->launch++;
    return count || b->flags ? 1 : -1;
}

void mt_reader_set_ends(struct mt_reader *r, const struct mt_launch_ends *ends)
{
    r->ends = ends;
    r->start = lseek(r->fd, 0, SEEK_CUR);
}

/* Skips all records of the launch; *b: their number and place. Returns 1, or -1 with r->error set. */
static int skip_records(struct mt_reader *r, struct mt_batch *b)
{
    uint64_t at = r->base + r->pos, end = r->launch < r->ends->count ? r->ends->ends[r->launch] : 0;
    if (end < at + MT_RAW_RECORD_SIZE || (end - at) % MT_RAW_RECORD_SIZE != 0) {
        mt_error_set(&r->error, MT_E_CORRUPT, 0, at, r->name,
                     "launch %llu does not end where it was found to end", (unsigned long long)r->launch);
        r->state = AT_ERROR;
        return -1;
    }
    *b = (struct mt_batch){.count = (size_t)((end - at) / MT_RAW_RECORD_SIZE - 1),
                           .kernel = r->kernel,
                           .launch = r->launch++,
                           .offset = at,
                           .flags = MT_BATCH_BEGIN | MT_BATCH_END};
    r->state = AT_NAME;
    if (end - r->base <= r->end) {
        r->pos = (size_t)(end - r->base);
        return 1;
    }
    r->base = end;
    r->pos = r->end = 0;
    if (lseek(r->fd, r->start + (off_t)end, SEEK_SET) >= 0)
        return 1;
    mt_error_set(&r->error, MT_E_SYSTEM, errno, end, r->name, "cannot go to byte %llu",
                 (unsigned long long)end);
    r->state = AT_ERROR;
    return -1;
}

int mt_reader_fill(struct mt_reader *r, struct mt_raw_record *room, size_t capacity, struct mt_batch *batch,
                   struct mt_error *err)
{
    memset(batch, 0, sizeof *batch);
    int rc = 1;
    if (r->state == AT_SIZE)
        rc = read_size(r);
    if (rc > 0 && r->state == AT_NAME && (rc = read_name(r)) == 0)
        r->state = AT_END;
    if (rc < 0)
        r->state = AT_ERROR;
    if (r->state == AT_RECORDS && r->ends && skip_records(r, batch) > 0)
        return 1;
    if (r->state == AT_RECORDS && read_records(r, room, capacity, batch) > 0)
        return 1;
    if (r->state == AT_END)
        return 0;
    *err = r->error;
    return -1;
}

int mt_reader_more(struct mt_reader *r)
{
    int rc = 1;
    if (r->state == AT_SIZE)
        rc = read_size(r);
    if (rc > 0 && r->state == AT_NAME && r->pos == r->end && (rc = reader_refill(r)) == 0)
        r->state = AT_END;
    if (rc < 0)
        r->state = AT_ERROR;
    return r->state != AT_END;
}

int mt_reader_next(struct mt_reader *r, struct mt_batch *batch, struct mt_error *err)
{
    if (!r->own && !(r->own = malloc(OWN_BATCH * sizeof *r->own)))
        return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->name, "no memory for a batch");
    return mt_reader_fill(r, r->own, OWN_BATCH, batch, err);
}
