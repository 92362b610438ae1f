/* Compact trace as a sequence of chunks: head, meta chunks, the next chunk of a FIFO, end. */
#define _GNU_SOURCE

#include "container.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include "reader/container/container.h"
#include "reader/base/pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* Sizes of a block, in runs: few enough for a processor's caches. A block ends after a step that has lists of
 * addresses. */
enum {
    MT_BLOCK_STEP = 128,
    MT_BLOCK_RUNS = 4 * MT_BLOCK_STEP,
    MT_BLOCKS_AHEAD = 4
}; /* blocks in use fit the cache */

/* Runs of one chunk. The owner releases them with mt_block_put, from any thread. */
struct mt_run_block {
    struct mt_run_block *next;
    struct mt_chunk_queue *of;
    size_t count;
    uint64_t accesses;
    int last; /* 1: last block of a chunk that is intact */
    struct mt_access_run runs[MT_BLOCK_RUNS];
    uint64_t lanes[MT_BLOCK_STEP * MT_MTC_MAX_LANES]; /* addresses that the runs point to */
};

struct mt_chunk_job {
    /* fields of the reader, set before the job is in the queue */
    struct mt_mtc_chunk head;
    uint64_t offset, bytes; /* bytes: amount to add to the progress */
    const char *name;       /* file name, for messages */
    uint64_t features;      /* features of the compact trace */
    int problem;            /* 1: `error` instead of a chunk */
    unsigned char *stored;  /* stored payload; has room for `room` bytes */
    size_t room;
    struct mt_error error;
    /* fields of the decoders */
    struct mt_chunk_payload plain;
    struct mt_device_decoder decoder;
    struct mt_run_block *first, *end; /* decoded blocks that are not taken yet */
    unsigned blocks;                  /* number of blocks that are not taken yet */
    int claimed;                      /* 1: a thread is working on the job */
    int opened, over;                 /* opened: the head is intact; over: nothing more follows */
    int failed;                       /* 1: `error` follows the blocks */
};

struct mt_chunk_queue {
    struct mt_pool *pool;
    struct mt_work work;
    int spaces; /* 1: runs of all spaces are decoded from now on, not only of global memory; atomic */
    struct mt_run_block *spare;
    struct mt_chunk_job *jobs; /* ring buffer of jobs */
    size_t room, head, tail;   /* head: number of jobs removed, tail: number of jobs added */
};

/* Releases a block. NULL is allowed. */
void mt_block_put(struct mt_run_block *b);

/* ---- window on the bytes: anywhere in a regular file, forward only in a FIFO ---- */

enum { AHEAD = 1 << 16 };

static int window_fail(struct mt_error *err, enum mt_code code, int sys, const char *name, const char *what)
{
    return mt_error_set(err, code, sys, 0, name, "%s: %s", what, strerror(sys));
}

int mt_window_open_fd(struct mt_window *w, int fd, const char *name, int owned, struct mt_error *err)
{
    struct stat st;
    memset(w, 0, sizeof *w);
    w->fd = fd;
    if (fstat(fd, &st) != 0 || S_ISDIR(st.st_mode))
        return window_fail(err, MT_E_INPUT, S_ISDIR(st.st_mode) ? EISDIR : errno, name, "cannot read");
    w->regular = S_ISREG(st.st_mode);
    off_t here = w->regular ? lseek(fd, 0, SEEK_CUR) : 0;
    w->start = here > 0 ? (uint64_t)here : 0;
    w->size = w->regular && (uint64_t)st.st_size > w->start ? (uint64_t)st.st_size - w->start : 0;
    w->name = strdup(name);
    if (!w->name)
        return window_fail(err, MT_E_SYSTEM, ENOMEM, name, "no memory for a reader");
    w->owned = owned;
    return 0;
}

int mt_window_open(struct mt_window *w, const char *path, const volatile sig_atomic_t *stop,
                   struct mt_error *err)
{
    int named = strcmp(path, "-") != 0;
    /* Non-blocking, so that waiting for a FIFO's writer can be stopped. */
    int fd = named ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : STDIN_FILENO;
    if (fd < 0)
        return window_fail(err, MT_E_INPUT, errno, path, "cannot open");
    int rc = mt_window_open_fd(w, fd, path, named, err);
    if (rc != 0 && named)
        close(fd);
    w->stop.user = stop;
    return rc;
}

void mt_window_close(struct mt_window *w)
{
    if (w->owned && w->fd >= 0)
        close(w->fd);
    free(w->buffer);
    free(w->name);
    memset(w, 0, sizeof *w);
    w->fd = -1;
}

static int window_grow(struct mt_window *w, size_t want, struct mt_error *err)
{
    if (want <= w->room)
        return 0;
    size_t more = want < AHEAD ? AHEAD : want;
    unsigned char *p = realloc(w->buffer, more);
    if (!p)
        return window_fail(err, MT_E_SYSTEM, ENOMEM, w->name, "no memory for a chunk");
    w->buffer = p;
    w->room = more;
    return 0;
}

/* Appends the bytes of one read; `wanted`: length to reach. Returns 1, 0 at the end, or -1. */
static int read_more(struct mt_window *w, size_t wanted, struct mt_error *err)
{
    for (;;) {
        uint64_t at = w->base + w->length;
        if (mt_stopped(&w->stop) || (!w->regular && !mt_wait_readable(w->fd, &w->stop)))
            return mt_error_set(err, MT_E_STOPPED, EINTR, 0, w->name, "stopped while reading");
        unsigned char *to = w->buffer + w->length;
        size_t n = (wanted > AHEAD ? wanted : AHEAD) - w->length;
        ssize_t got = w->regular ? pread(w->fd, to, n, (off_t)(w->start + at)) : read(w->fd, to, n);
        if (got > 0) {
            w->length += (size_t)got;
            return 1;
        }
        if (got == 0)
            return 0;
        if (errno != EINTR && errno != EAGAIN) {
            int e = errno;
            return mt_error_set(err, MT_E_SYSTEM, e, at, w->name, "read error at byte %llu: %s",
                                (unsigned long long)at, strerror(e));
        }
    }
}

/* Discards the bytes before `offset` that are in the buffer. */
static void window_forget(struct mt_window *w, uint64_t offset)
{
    size_t drop = offset - w->base < w->length ? (size_t)(offset - w->base) : w->length;
    if (drop)
        memmove(w->buffer, w->buffer + drop, w->length - drop);
    w->length -= drop;
    w->base += drop;
}

const unsigned char *mt_window_get(struct mt_window *w, uint64_t offset, size_t n, size_t *got,
                                   struct mt_error *err)
{
    if (w->regular) {
        uint64_t left = offset < w->size ? w->size - offset : 0;
        n = n < left ? n : (size_t)left;
        if (offset < w->base || offset > w->base + w->length)
            w->length = 0, w->base = offset;
    }
    if (offset > w->base) /* a FIFO is asked for bytes beyond its buffer only to skip */
        window_forget(w, offset);
    while (w->base < offset || w->length < n) {
        /* The buffer of a FIFO grows with the bytes that arrived, not with the size in a head. */
        size_t want = w->regular || n < 2 * w->length ? n : 2 * w->length;
        if (window_grow(w, want < AHEAD ? AHEAD : want, err) != 0)
            return NULL;
        int more = w->eof && !w->regular ? 0 : read_more(w, want, err);
        if (more < 0)
            return NULL;
        if (more == 0) {
            w->eof = 1;
            break;
        }
        if (w->base < offset)
            window_forget(w, offset);
    }
    *got = w->base == offset ? (w->length < n ? w->length : n) : 0;
    return w->buffer ? w->buffer : (const unsigned char *)"";
}

/* Returns the number of bytes of [offset, offset + n) that have arrived, without waiting. */
static size_t window_arrived(struct mt_window *w, uint64_t offset, size_t n)
{
    struct mt_error ignored; /* found again by the next read */
    window_forget(w, offset);
    while (w->base == offset && w->length < n && !w->eof) {
        struct pollfd p = {.fd = w->fd, .events = POLLIN};
        if (poll(&p, 1, 0) <= 0 || !(p.revents & POLLIN))
            break;
        size_t want = n < 2 * w->length ? n : 2 * w->length;
        if (window_grow(w, want < AHEAD ? AHEAD : want, &ignored) != 0 || read_more(w, want, &ignored) <= 0)
            break;
    }
    return w->base == offset ? w->length : 0;
}

/* Returns 1 if the whole chunk at `offset` of a FIFO has arrived. Does not wait. */
static int window_has_chunk(struct mt_window *w, uint64_t offset)
{
    struct mt_mtc_chunk head;
    if (window_arrived(w, offset, sizeof head) < sizeof head)
        return 0;
    memcpy(&head, w->buffer, sizeof head);
    return head.magic == MT_MTC_CHUNK_MAGIC && head.stored_bytes <= MT_MTC_MAX_PLAIN &&
           window_arrived(w, offset, sizeof head + head.stored_bytes) >= sizeof head + head.stored_bytes;
}

/* ---- meta lines: through the companion's parser into tables ---- */

enum { BLOCK = 1024 }; /* sites never move: callers keep pointers */

/* 0, or -1 without memory */
static int meta_open(struct mt_host_meta *m, const char *name)
{
    memset(m, 0, sizeof *m);
    m->companion = mt_companion_new(name);
    return m->companion ? 0 : -1;
}

static enum mt_host_op container_op_of(const char *text)
{
    static const struct {
        const char *text;
        enum mt_host_op op;
    } ops[] = {
#define MT_HOST_OP(name, code, reads, writes, text) {text, MT_HOST_##name},
#include "memtrace/container.def"
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(text, ops[i].text) == 0)
            return ops[i].op;
    return MT_HOST_UNKNOWN;
}

/* Returns the site's row, created if new. NULL: no memory. */
static struct mt_host_site_info *meta_row(struct mt_host_meta *m, uint32_t site)
{
    uint64_t known = mt_hash_find(&m->sites, site);
    if (known)
        return &m->blocks[(known - 1) / BLOCK][(known - 1) % BLOCK];
    if (m->nsites == m->nblocks * BLOCK) {
        if (mt_grow(&m->blocks, &m->block_room, m->nblocks + 1, sizeof *m->blocks) != 0 ||
            !(m->blocks[m->nblocks] = malloc(BLOCK * sizeof **m->blocks)))
            return NULL;
        m->nblocks++;
    }
    if (mt_hash_put(&m->sites, site, m->nsites + 1) != 0)
        return NULL;
    m->nsites++;
    return &m->blocks[(m->nsites - 1) / BLOCK][(m->nsites - 1) % BLOCK];
}

static int take_site(struct mt_host_meta *m, const struct mt_site_event *e)
{
    if (e->id < 4 || e->id > UINT32_MAX)
        return 0; /* a record cannot have this site */
    struct mt_host_site_info *s = meta_row(m, (uint32_t)e->id);
    if (!s)
        return -1;
    *s = (struct mt_host_site_info){.site = (uint32_t)e->id,
                                    .op = container_op_of(e->op),
                                    .size = e->size > UINT32_MAX ? 0 : (uint32_t)e->size,
                                    .line = (uint32_t)e->line,
                                    .column = (uint32_t)e->column,
                                    .ip = e->ip,
                                    .file = e->file,
                                    .function = e->function,
                                    .module = e->module,
                                    .variable = e->var,
                                    .text = e->text,
                                    .reads = e->reads,
                                    .writes = e->writes};
    return 0;
}

int mt_meta_bound(struct mt_meta_bound *b, const char *name, uint64_t offset, const struct mt_mtc_chunk *head,
                  struct mt_error *err)
{
    uint64_t stored = b->stored + sizeof *head + head->stored_bytes;
    if (head->plain_bytes <= MT_MTC_MAX_PLAIN && /* larger ones are refused for their size */
        b->plain + head->plain_bytes > MT_MTC_FREE_LINES + MT_MTC_META_RATIO * stored)
        return mt_error_set(err, MT_E_CORRUPT, 0, offset, name,
                            "%llu bytes stand for %llu bytes of lines, more than %d times as many: the meta "
                            "chunk is skipped; stored without compression it would be read",
                            (unsigned long long)head->stored_bytes, (unsigned long long)head->plain_bytes,
                            MT_MTC_META_RATIO);
    b->plain += head->plain_bytes;
    b->stored = stored;
    return 0;
}

/* Adds the lines of a chunk at `offset`. Returns 0, or -1 without memory. */
static int meta_add(struct mt_host_meta *m, const char *text, size_t bytes, uint64_t offset)
{
    struct mt_companion *c = m->companion;
    if (m->lines && m->lines(m->lines_arg, text, bytes) != 0)
        return -1;
    int rc = mt_companion_add(c, text, bytes, offset);
    for (; rc == 0 && m->taken < c->nsites; m->taken++)
        rc = take_site(m, &c->sites[m->taken]);
    return rc;
}

/* Sorts the events. May be called again after more lines. */
static void meta_sort(struct mt_host_meta *m)
{
    mt_companion_sort(m->companion);
}

static const struct mt_host_site_info *meta_site(const struct mt_host_meta *m, uint32_t site)
{
    uint64_t at = mt_hash_find(&m->sites, site);
    return at ? &m->blocks[(at - 1) / BLOCK][(at - 1) % BLOCK] : NULL;
}

static void meta_free(struct mt_host_meta *m)
{
    for (size_t i = 0; i < m->nblocks; i++)
        free(m->blocks[i]);
    free(m->blocks);
    mt_hash_free(&m->sites);
    mt_companion_free(m->companion);
    memset(m, 0, sizeof *m);
}

/* ---- chunks: verification, resynchronisation after damage, contents ---- */

enum { HEAD = sizeof(struct mt_mtc_chunk), TAIL = sizeof(struct mt_mtc_tail) };
enum { LOOK = 1 << 16, PROBLEMS_MAX = 1000 };

static int is_tail(const unsigned char *p, size_t n, struct mt_mtc_tail *tail)
{
    if (n < TAIL)
        return 0;
    memcpy(tail, p, TAIL);
    return tail->magic == MT_MTC_TAIL_MAGIC &&
           tail->check == XXH3_64bits(tail, offsetof(struct mt_mtc_tail, check));
}

static int chunk_matches(const struct mt_mtc_chunk *head, const unsigned char *stored)
{
    uint64_t seed = XXH3_64bits(head, offsetof(struct mt_mtc_chunk, check));
    return head->check == XXH3_64bits_withSeed(stored, head->stored_bytes, seed);
}

/* Returns 1 if the chunk has the highest number, which stands for none. */
static int chunk_unnumbered(uint32_t type, uint64_t first)
{
    return type == MT_MTC_DEVICE && first == MT_SEQ_NONE;
}

enum mt_chunk_state mt_chunk_at(struct mt_window *w, uint64_t offset, struct mt_mtc_chunk *head,
                                const unsigned char **stored, struct mt_error *err)
{
    size_t got;
    struct mt_mtc_tail tail;
    const unsigned char *p = mt_window_get(w, offset, HEAD, &got, err);
    if (!p)
        return MT_CHUNK_SYSTEM;
    if (got == 0 || (got == TAIL && is_tail(p, got, &tail)))
        return MT_CHUNK_END;
    if (got < HEAD) {
        mt_error_set(err, MT_E_TRUNCATED, 0, offset, w->name,
                     "the container ends inside the head of a chunk");
        return MT_CHUNK_CUT;
    }
    memcpy(head, p, HEAD);
    if (head->magic != MT_MTC_CHUNK_MAGIC) {
        mt_error_set(err, MT_E_CORRUPT, 0, offset, w->name, "no chunk begins here");
        return MT_CHUNK_BAD;
    }
    if (head->stored_bytes > MT_MTC_MAX_PLAIN) {
        mt_error_set(err, MT_E_CORRUPT, 0, offset, w->name, "a chunk of %llu bytes: more than any has",
                     (unsigned long long)head->stored_bytes);
        return MT_CHUNK_BAD;
    }
    p = mt_window_get(w, offset, HEAD + head->stored_bytes, &got, err);
    if (!p)
        return MT_CHUNK_SYSTEM;
    if (got < HEAD + head->stored_bytes) {
        mt_error_set(err, MT_E_TRUNCATED, 0, offset, w->name,
                     "the container ends inside a chunk (%zu of %llu bytes)", got,
                     (unsigned long long)head->stored_bytes + HEAD);
        return MT_CHUNK_CUT;
    }
    *stored = p + HEAD;
    const char *why = !chunk_matches(head, *stored)               ? "the checksum of a chunk does not match"
                      : chunk_unnumbered(head->type, head->first) ? "a chunk of a launch without a number"
                                                                  : NULL;
    if (why)
        mt_error_set(err, MT_E_CORRUPT, 0, offset, w->name, "%s, it is skipped", why);
    return why ? MT_CHUNK_BAD : MT_CHUNK_WHOLE;
}

int mt_chunk_resync(struct mt_window *w, uint64_t *offset, uint64_t likely, struct mt_error *err)
{
    /* Data that looks like a head may have any length: bounds the work of the search. */
    uint64_t budget = MT_MTC_MAX_PLAIN * 4, at = *offset + 8, cost;
    struct mt_mtc_chunk head;
    const unsigned char *stored;
    struct mt_error ignored;
    if (likely > *offset && w->regular &&
        mt_chunk_at(w, likely, &head, &stored, &ignored) == MT_CHUNK_WHOLE) {
        *offset = likely;
        return 1;
    }
    for (;;) {
        size_t got, i;
        const unsigned char *p = mt_window_get(w, at, LOOK, &got, err);
        uint32_t magic = 0;
        if (!p)
            return -1;
        for (i = 0; i + HEAD <= got; i += 8) {
            memcpy(&magic, p + i, sizeof magic);
            if (magic == MT_MTC_CHUNK_MAGIC)
                break;
        }
        if (i + HEAD > got) {
            if (got < HEAD || i == 0)
                return 0;
            at += i;
            continue;
        }
        at += i;
        switch (mt_chunk_at(w, at, &head, &stored, err)) {
        case MT_CHUNK_WHOLE:
            *offset = at;
            return 1;
        case MT_CHUNK_SYSTEM:
            return -1;
        default:
            cost = head.stored_bytes > LOOK ? head.stored_bytes : LOOK;
            if (cost >= budget)
                return 0;
            budget -= cost;
            at += 8;
        }
    }
}

/* ---- payloads ---- */

static int container_make_room(struct mt_chunk_payload *p, size_t bytes)
{
    if (p->data && bytes <= p->room)
        return 0;
    free(p->data);
    p->data = malloc(bytes ? bytes : 1); /* never NULL: an empty payload is valid */
    p->room = p->data ? bytes : 0;
    return p->data ? 0 : -1;
}

int mt_chunk_unpack(struct mt_chunk_payload *p, const char *name, uint64_t offset,
                    const struct mt_mtc_chunk *head, const unsigned char *stored, struct mt_error *err)
{
    uint64_t plain = head->plain_bytes;
    const char *why = NULL;
    if (plain > MT_MTC_MAX_PLAIN)
        why = "a chunk promises more bytes than any has";
    else if (head->codec == MT_MTC_STORED && plain != head->stored_bytes)
        why = "a stored chunk has two lengths";
    else if (head->codec == MT_MTC_ZSTD && ZSTD_getFrameContentSize(stored, head->stored_bytes) != plain)
        why = "a compressed chunk is not as long as its head says";
    else if (head->codec > MT_MTC_ZSTD)
        why = "a chunk is compressed in a way that this reader does not know";
    if (!why && container_make_room(p, plain) != 0)
        goto memory;
    p->bytes = plain;
    if (!why && head->codec == MT_MTC_STORED) {
        if (plain)
            memcpy(p->data, stored, plain);
    } else if (!why) {
        if (!p->context && !(p->context = ZSTD_createDCtx()))
            goto memory;
        if (ZSTD_decompressDCtx(p->context, p->data, plain, stored, head->stored_bytes) != plain)
            why = "a compressed chunk cannot be decompressed";
    }
    if (!why)
        return 0;
    return mt_error_set(err, MT_E_CORRUPT, 0, offset, name, "%s, it is skipped", why);
memory:
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, name, "no memory for a chunk of %llu bytes",
                        (unsigned long long)plain);
}

void mt_chunk_payload_free(struct mt_chunk_payload *p)
{
    ZSTD_freeDCtx(p->context);
    free(p->data);
    memset(p, 0, sizeof *p);
}

/* ---- all chunks of a regular file ---- */

/* 0, or -1 without memory */
static int problem_add(struct mt_problems *p, const struct mt_error *e)
{
    if (p->count == PROBLEMS_MAX)
        return 0; /* further problems are not reported */
    if (mt_grow(&p->list, &p->room, p->count + 1, sizeof *p->list) != 0)
        return -1;
    p->list[p->count++] = *e;
    return 0;
}

static int chunk_memory(const struct mt_window *w, struct mt_error *err)
{
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, w->name, "no memory for the list of chunks");
}

static int list_add(struct mt_chunk_list *l, uint64_t offset, const struct mt_mtc_chunk *head)
{
    if (mt_grow(&l->entries, &l->room, l->count + 1, sizeof *l->entries) != 0)
        return -1;
    l->entries[l->count++] = (struct mt_mtc_index){offset,      head->key,  head->first, head->last,
                                                   head->items, head->type, head->flags};
    return 0;
}

/* Takes over the index as the list, if all entries are valid. */
static int take_index(struct mt_chunk_list *l, const struct mt_chunk_payload *p,
                      const struct mt_mtc_tail *tail, uint64_t first)
{
    if (p->bytes % sizeof *l->entries || p->bytes / sizeof *l->entries != tail->chunks)
        return -1;
    uint64_t lowest = first;
    for (size_t i = 0; i < tail->chunks; i++) {
        struct mt_mtc_index e;
        memcpy(&e, p->data + i * sizeof e, sizeof e);
        if (e.offset < lowest || e.offset % 8 || e.offset > tail->index - HEAD ||
            chunk_unnumbered(e.type, e.first))
            return -1;
        lowest = e.offset + HEAD;
    }
    l->entries = malloc(p->bytes ? p->bytes : 1);
    if (!l->entries)
        return -1;
    if (p->bytes)
        memcpy(l->entries, p->data, p->bytes);
    l->count = l->room = tail->chunks;
    return 0;
}

/* Fills the list from the index. Returns 1, 0 without a valid index, or -1 with *err set. */
static int by_index(struct mt_chunk_list *l, struct mt_window *w, uint64_t first,
                    struct mt_problems *problems, struct mt_error *err)
{
    struct mt_mtc_tail tail;
    struct mt_mtc_chunk head;
    const unsigned char *p, *stored;
    struct mt_chunk_payload plain = {0};
    size_t got;
    int rc = 0;
    if (w->size < first + TAIL || w->size % 8)
        return 0;
    if (!(p = mt_window_get(w, w->size - TAIL, TAIL, &got, err)))
        return -1;
    if (!is_tail(p, got, &tail))
        return 0;
    if (tail.index < first || tail.index % 8 || tail.index > w->size - TAIL) {
        mt_error_set(err, MT_E_CORRUPT, 0, w->size - TAIL, w->name, "the tail points to no index");
        return problem_add(problems, err) ? chunk_memory(w, err) : 0;
    }
    enum mt_chunk_state state = mt_chunk_at(w, tail.index, &head, &stored, err);
    if (state == MT_CHUNK_SYSTEM)
        return -1;
    if (state == MT_CHUNK_WHOLE && head.type == MT_MTC_INDEX) {
        if (mt_chunk_unpack(&plain, w->name, tail.index, &head, stored, err) == 0)
            rc = take_index(l, &plain, &tail, first) == 0;
        else if (err->code == MT_E_SYSTEM)
            rc = -1;
    }
    mt_chunk_payload_free(&plain);
    uint64_t end = mt_chunk_end(tail.index, &head) + TAIL;
    if (rc > 0 && end != w->size) { /* two compact traces were concatenated */
        mt_error_set(err, MT_E_CORRUPT, 0, end, w->name,
                     "the container ends here, the %llu bytes after it are not read; several containers are "
                     "several inputs",
                     (unsigned long long)(w->size - end));
        return problem_add(problems, err) ? chunk_memory(w, err) : rc;
    }
    if (rc == 0) {
        mt_error_set(err, MT_E_CORRUPT, 0, tail.index, w->name,
                     "the index is damaged; the chunks are found without it");
        return problem_add(problems, err) ? chunk_memory(w, err) : 0;
    }
    return rc;
}

static int by_scan(struct mt_chunk_list *l, struct mt_window *w, uint64_t first, struct mt_problems *problems,
                   struct mt_error *err)
{
    struct mt_mtc_chunk head = {0};
    const unsigned char *stored;
    for (uint64_t at = first;;) {
        struct mt_error damage;
        enum mt_chunk_state state = mt_chunk_at(w, at, &head, &stored, &damage);
        int found = 1;
        switch (state) {
        case MT_CHUNK_END:
            return 0;
        case MT_CHUNK_SYSTEM:
            *err = damage;
            return -1;
        case MT_CHUNK_WHOLE:
            if (list_add(l, at, &head) != 0)
                return chunk_memory(w, err);
            at = mt_chunk_end(at, &head);
            continue;
        default:
            break;
        }
        uint64_t likely = damage.code == MT_E_CORRUPT && head.magic == MT_MTC_CHUNK_MAGIC &&
                                  head.stored_bytes <= MT_MTC_MAX_PLAIN
                              ? mt_chunk_end(at, &head)
                              : 0;
        found = mt_chunk_resync(w, &at, likely, err);
        if (found && damage.code == MT_E_TRUNCATED)
            damage.code = MT_E_CORRUPT;
        if (problem_add(problems, &damage) != 0)
            return chunk_memory(w, err);
        if (found <= 0)
            return found;
    }
}

/* Fills the list from the index or, without one, by scanning; damage is added to the problems. Returns 0, or
 * -1 with *err set. */
static int chunks_find(struct mt_chunk_list *l, struct mt_window *w, uint64_t first,
                       struct mt_problems *problems, struct mt_error *err)
{
    int rc = by_index(l, w, first, problems, err);
    l->indexed = rc > 0;
    return rc ? (rc > 0 ? 0 : -1) : by_scan(l, w, first, problems, err);
}

int mt_container_head(struct mt_window *w, struct mt_mtc_head *h, struct mt_error *err)
{
    size_t got;
    const unsigned char *p = mt_window_get(w, 0, sizeof *h, &got, err);
    if (!p)
        return -1;
    memcpy(h, p, got);
    if (got < sizeof h->magic || h->magic != MT_MTC_MAGIC) {
        if (got == 0)
            return mt_error_set(err, MT_E_TRUNCATED, 0, 0, w->name, "the container is empty");
        return mt_error_set(err, MT_E_INPUT, 0, 0, w->name, "not a container: it does not begin like one");
    }
    if (got < sizeof *h)
        return mt_error_set(err, MT_E_TRUNCATED, 0, 0, w->name, "the container ends inside its head");
    if (h->check != XXH3_64bits(h, offsetof(struct mt_mtc_head, check)) || h->head_bytes < sizeof *h ||
        h->head_bytes % 8 || h->head_bytes > 1 << 20)
        return mt_error_set(err, MT_E_CORRUPT, 0, 0, w->name, "the head of the container is damaged");
    uint64_t known = MT_MTC_HAS_HOST | MT_MTC_HAS_TIMES | MT_MTC_HAS_DEVICE | MT_MTC_HAS_SPACES |
                     MT_MTC_HAS_COPIES | MT_MTC_HAS_FENCES | MT_MTC_HAS_BLOCKS;
    uint64_t unknown = (h->features & UINT32_MAX) & ~known;
    if (h->version != MT_MTC_VERSION || unknown)
        return mt_error_set(
            err, MT_E_INPUT, 0, 0, w->name,
            "a container of version %u with features 0x%llx: this reader knows version %u and "
            "features 0x%llx; a newer memtrace reads it",
            h->version, (unsigned long long)h->features, MT_MTC_VERSION, (unsigned long long)known);
    return 0;
}

/* Adds the lines of a meta chunk. Returns -1 with *err set on damage. */
static int container_take_meta(struct mt_host_reader *r, uint64_t offset, const struct mt_mtc_chunk *head,
                               const unsigned char *stored, struct mt_error *err)
{
    struct mt_chunk_payload plain = {0};
    int rc = mt_meta_bound(&r->meta.bound, r->window.name, offset, head, err);
    if (rc == 0)
        rc = mt_chunk_unpack(&plain, r->window.name, offset, head, stored, err);
    if (rc == 0 && meta_add(&r->meta, (char *)plain.data, plain.bytes, offset) != 0)
        rc = mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for reading a container");
    mt_chunk_payload_free(&plain);
    return rc;
}

int mt_companion_speaks(const struct mt_companion *c)
{
    return c->has_header || c->has_end || c->nlaunches || c->nallocs || c->ncopies || c->bad_lines || c->lost;
}

int mt_container_whole(struct mt_host_reader *r, struct mt_error *err)
{
    if (r->cut_told || r->chunks.indexed || mt_companion_speaks(r->meta.companion))
        return 0;
    r->cut_told = 1;
    return mt_error_set(err, MT_E_TRUNCATED, 0, r->window.regular ? r->window.size : r->done, r->window.name,
                        MT_CONTAINER_CUT);
}

/* returns 1 with *err set if the stop flag is raised */
static int container_stopped(struct mt_host_reader *r, struct mt_error *err)
{
    if (!mt_stopped(&r->window.stop))
        return 0;
    mt_error_set(err, MT_E_STOPPED, EINTR, 0, r->window.name, "stopped while reading");
    return 1;
}

/* Reads the next chunk of a FIFO, with its *offset; *stored is valid until the window's next use. Returns 1,
 * 0 at the end, or -1 with *err set. */
static int container_next_live(struct mt_host_reader *r, uint64_t *offset, struct mt_mtc_chunk *head,
                               const unsigned char **stored, struct mt_error *err)
{
    uint64_t at = *offset = r->next;
    struct mt_error ignored;
    int found;
    if (at == MT_NOTHING_LEFT)
        return 0;
    switch (mt_chunk_at(&r->window, at, head, stored, err)) {
    case MT_CHUNK_END:
        return 0;
    case MT_CHUNK_SYSTEM:
        return -1;
    case MT_CHUNK_WHOLE:
        r->next = mt_chunk_end(at, head);
        return 1;
    default:
        found = mt_chunk_resync(&r->window, &r->next, 0, &ignored);
        if (found > 0)
            err->code = MT_E_CORRUPT;
        else if (found < 0)
            *err = ignored;
        else
            r->next = MT_NOTHING_LEFT; /* the rest is not a chunk */
        return -1;
    }
}

/* Reader of device chunks of a compact trace: launch by launch, or in the order of a FIFO. */

/* ---- decoding ahead ----
 * The pool's lock is taken once per block of runs, whose decoding takes 30 to 100 microseconds. */

enum { MOST = 16 }; /* maximum number of chunks in a queue: no analysis is faster with more threads */

/* ---- one block ---- */

static void decoders_fail(struct mt_chunk_job *j, const char *why, int skipped)
{
    j->failed = 1;
    if (why)
        mt_error_set(&j->error, MT_E_CORRUPT, 0, j->offset, j->name, "a chunk %s%s", why,
                     skipped ? ", it is skipped" : "");
    else
        mt_error_set(&j->error, MT_E_SYSTEM, ENOMEM, 0, j->name, "no memory for reading a chunk");
}

static void open_job(struct mt_chunk_job *j)
{
    struct mt_device_decoder *d = &j->decoder;
    if (mt_chunk_unpack(&j->plain, j->name, j->offset, &j->head, j->stored, &j->error) != 0)
        j->failed = 1;
    else if (j->head.items > MT_MTC_MAX_ACCESSES)
        decoders_fail(j, "promises more accesses than any has", 1);
    else if (mt_device_decode_start(d, j->plain.data, j->plain.bytes) != 0)
        decoders_fail(j, d->why, 1);
    else
        j->opened = 1;
}

/* Decodes a block of the job. Returns 1 if it is to be returned; a block next to damage is not. */
static int decoders_decode(struct mt_chunk_job *j, struct mt_run_block *b)
{
    struct mt_device_decoder *d = &j->decoder;
    uint64_t *lanes = b->lanes;
    int rc;
    d->features = j->features;
    d->spaces = __atomic_load_n(&b->of->spaces, __ATOMIC_RELAXED);
    b->count = 0;
    b->accesses = 0;
    b->last = 0;
    /* Runs with lists of addresses fill a block quickly; runs without are small and numerous. */
    do {
        size_t n;
        rc = mt_device_decode_next(d, b->runs + b->count, lanes, MT_BLOCK_STEP, &n);
        for (const struct mt_access_run *r = b->runs + b->count, *end = r + n; r < end; r++) {
            b->accesses += r->count;
            lanes += r->addresses ? r->count : 0;
        }
        b->count += n;
    } while (rc == 0 && mt_device_decode_more(d) && lanes == b->lanes && b->count < MT_BLOCK_RUNS);
    if (rc != 0) {
        decoders_fail(j, d->why, 0);
    } else if (!mt_device_decode_more(d)) {
        b->last = d->accesses == j->head.items && mt_device_decode_done(d);
        if (!b->last)
            decoders_fail(j, "has other accesses than its head says", 0);
    }
    return !j->failed && (b->count || b->last);
}

/* ---- distribution of work; under the lock ---- */

static int decoders_workable(const struct mt_chunk_job *j)
{
    return !j->claimed && !j->over && j->blocks < MT_BLOCKS_AHEAD;
}

static struct mt_run_block *decoders_spare(struct mt_chunk_queue *q)
{
    struct mt_run_block *b = q->spare;
    if (b)
        q->spare = b->next;
    else if ((b = malloc(sizeof *b)))
        b->of = q;
    return b;
}

/* Opens the job or decodes a block of it, without holding the lock. */
static void decoders_step(struct mt_chunk_queue *q, struct mt_chunk_job *j)
{
    struct mt_run_block *b = decoders_spare(q);
    int good = 0, opened = j->opened;
    j->claimed = 1;
    pthread_mutex_unlock(&q->pool->lock);
    if (!b)
        decoders_fail(j, NULL, 0);
    else if (!opened)
        open_job(j);
    if (b && !j->failed)
        good = decoders_decode(j, b);
    pthread_mutex_lock(&q->pool->lock);
    j->claimed = 0;
    j->over |= j->failed || (good && b->last); /* the reader may have dropped the job */
    if (good) {
        b->next = NULL;
        *(j->first ? &j->end->next : &j->first) = b;
        j->end = b;
        j->blocks++;
    } else if (b) {
        b->next = q->spare;
        q->spare = b;
    }
    if (decoders_workable(j))
        mt_pool_wake(q->pool, 1);
}

static int decoders_piece(void *self)
{
    struct mt_chunk_queue *q = self;
    for (size_t i = q->head; i < q->tail; i++) {
        struct mt_chunk_job *j = &q->jobs[i % q->room];
        if (!decoders_workable(j))
            continue;
        decoders_step(q, j);
        return 1;
    }
    return 0;
}

void mt_block_put(struct mt_run_block *b)
{
    if (!b)
        return;
    struct mt_chunk_queue *q = b->of;
    pthread_mutex_lock(&q->pool->lock);
    b->next = q->spare;
    q->spare = b;
    pthread_mutex_unlock(&q->pool->lock);
}

/* ---- queues ---- */

/* Creates a queue for `threads` threads; with one, its only chunk is the head. Returns 0 or -1. */
static int queue_open(struct mt_chunk_queue *q, struct mt_pool *pool, unsigned threads)
{
    /* One chunk per thread: data decoded long before its use would have left the caches. */
    *q = (struct mt_chunk_queue){.pool = pool, .room = threads < 1 ? 1 : threads < MOST ? threads : MOST};
    if (!(q->jobs = calloc(q->room, sizeof *q->jobs)))
        return -1;
    q->work = (struct mt_work){.piece = decoders_piece, .self = q};
    mt_pool_add(pool, &q->work);
    return 0;
}

static void queue_clear(struct mt_chunk_queue *q);

static void queue_close(struct mt_chunk_queue *q)
{
    if (!q->jobs)
        return;
    queue_clear(q);
    mt_pool_remove(q->pool, &q->work);
    for (struct mt_run_block *b = q->spare, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    for (size_t i = 0; i < q->room; i++) {
        free(q->jobs[i].stored);
        mt_chunk_payload_free(&q->jobs[i].plain);
        mt_device_decode_free(&q->jobs[i].decoder);
    }
    free(q->jobs);
    memset(q, 0, sizeof *q);
}

/* Returns the next free job, to be filled, or NULL if the queue is full. */
static struct mt_chunk_job *queue_slot(struct mt_chunk_queue *q)
{
    if (q->tail - q->head == q->room)
        return NULL;
    struct mt_chunk_job *j = &q->jobs[q->tail % q->room];
    j->opened = j->failed = j->problem = 0;
    j->bytes = 0;
    return j;
}

/* Adds that job to the queue. */
static void queue_add(struct mt_chunk_queue *q)
{
    struct mt_chunk_job *j = &q->jobs[q->tail % q->room];
    pthread_mutex_lock(&q->pool->lock);
    j->over = j->problem || j->head.type != MT_MTC_DEVICE;
    q->tail++;
    if (!j->over)
        mt_pool_wake(q->pool, 1);
    pthread_mutex_unlock(&q->pool->lock);
}

/* Copies the payload for the job. Returns 0, or -1 without memory. */
static int job_keep(struct mt_chunk_job *j, const unsigned char *stored)
{
    size_t n = j->head.stored_bytes;
    if (n > j->room || !j->stored) {
        free(j->stored);
        j->stored = malloc(n + 1);
        j->room = j->stored ? n : 0;
    }
    if (!j->stored)
        return -1;
    memcpy(j->stored, stored, n);
    return 0;
}

/* Returns the job at the head, or NULL. */
static struct mt_chunk_job *queue_head(const struct mt_chunk_queue *q)
{
    return q->head < q->tail ? &q->jobs[q->head % q->room] : NULL;
}

/* Waits until the head of the first chunk, a device chunk, was checked. Returns 0, or -1 with *err set. */
static int queue_begin(struct mt_chunk_queue *q, struct mt_error *err)
{
    struct mt_chunk_job *j = queue_head(q);
    pthread_mutex_lock(&q->pool->lock);
    while (!j->blocks && !j->over)
        mt_pool_help(q->pool, &q->work);
    int good = j->opened;
    pthread_mutex_unlock(&q->pool->lock);
    if (!good)
        *err = j->error;
    return good ? 0 : -1;
}

/* Returns the next block of that job, or NULL with *err set if it is damaged from here on. Not to be called
 * after its last block. */
static struct mt_run_block *queue_take(struct mt_chunk_queue *q, struct mt_error *err)
{
    struct mt_chunk_job *j = queue_head(q);
    pthread_mutex_lock(&q->pool->lock);
    while (!j->blocks && !j->over)
        mt_pool_help(q->pool, &q->work);
    struct mt_run_block *b = j->first;
    if (b) {
        j->first = b->next;
        j->blocks--;
        if (decoders_workable(j)) /* the job may have been full until now */
            mt_pool_wake(q->pool, 1);
    }
    pthread_mutex_unlock(&q->pool->lock);
    if (!b)
        *err = j->error;
    return b;
}

/* Removes the job at the head. Called under the lock. */
static void decoders_drop(struct mt_chunk_queue *q)
{
    struct mt_chunk_job *j = queue_head(q);
    j->over = 1; /* no thread begins with it any more */
    while (j->claimed)
        pthread_cond_wait(&q->work.done, &q->pool->lock);
    while (j->first) {
        struct mt_run_block *b = j->first;
        j->first = b->next;
        b->next = q->spare;
        q->spare = b;
    }
    j->blocks = 0;
    q->head++;
}

/* Removes the job at the head. Blocks that were taken stay valid. */
static void queue_drop(struct mt_chunk_queue *q)
{
    pthread_mutex_lock(&q->pool->lock);
    decoders_drop(q);
    pthread_mutex_unlock(&q->pool->lock);
}

/* Removes all jobs. Blocks that were taken stay valid. */
static void queue_clear(struct mt_chunk_queue *q)
{
    if (!q->jobs)
        return;
    pthread_mutex_lock(&q->pool->lock);
    while (q->head < q->tail)
        decoders_drop(q);
    pthread_mutex_unlock(&q->pool->lock);
}

static int device_reader_memory(const struct mt_host_reader *r, struct mt_error *err)
{
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for reading a chunk");
}

static void container_device_free(struct mt_device_state *d)
{
    mt_block_put(d->block);
    if (d->queue)
        queue_close(d->queue);
    free(d->queue);
    if (d->own_pool)
        mt_pool_free(d->pool);
    mt_hash_free(&d->kernels);
    mt_intern_free(&d->unnamed);
    free(d->launches);
    free(d->chunks);
    free(d->events);
}

/* ---- names and lines ---- */

/* Returns the kernel's name; *named: a line has it. NULL: no memory. */
static const char *kernel_name(struct mt_host_reader *r, uint32_t id, int *named)
{
    struct mt_device_state *d = &r->device;
    const struct mt_companion *c = r->meta.companion;
    char text[40];
    for (; d->kernels_taken < c->nkernels; d->kernels_taken++) {
        uint64_t k = c->kernels[d->kernels_taken].id;
        if (k && k <= UINT32_MAX && !mt_hash_find(&d->kernels, k) &&
            mt_hash_put(&d->kernels, k, d->kernels_taken + 1) != 0)
            return NULL;
    }
    uint64_t at = mt_hash_find(&d->kernels, id);
    *named = at != 0;
    if (at)
        return c->kernels[at - 1].name;
    int n = snprintf(text, sizeof text, "kernel-%u-without-name", id);
    return mt_intern_add(&d->unnamed, text, (size_t)n);
}

MT_ORDER_POINTED_1(event_by_seq, struct mt_launch_event, seq)

static int list_events(struct mt_host_reader *r)
{
    struct mt_device_state *d = &r->device;
    const struct mt_companion *c = r->meta.companion;
    d->events = malloc((c->nlaunches + 1) * sizeof *d->events);
    if (!d->events)
        return -1;
    for (size_t i = 0; i < c->nlaunches; i++)
        if (c->launches[i].traced)
            d->events[d->nevents++] = &c->launches[i];
    qsort(d->events, d->nevents, sizeof *d->events, event_by_seq);
    return 0;
}

const struct mt_launch_event *mt_device_launch_event(struct mt_host_reader *r, uint64_t seq)
{
    const struct mt_device_state *d = &r->device;
    const struct mt_companion *c = r->meta.companion;
    for (size_t i = r->window.regular ? 0 : c->nlaunches; i-- > 0;)
        if (c->launches[i].seq == seq)
            return &c->launches[i];
    size_t at = MT_FIRST(i, d->nevents, d->events[i]->seq >= seq);
    return at < d->nevents && d->events[at]->seq == seq ? d->events[at] : NULL;
}

/* ---- launches and their chunks ---- */

static int chunk_by_seq(const void *a, const void *b, void *entries)
{
    const struct mt_mtc_index *e = entries;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (e[x].first != e[y].first)
        return e[x].first < e[y].first ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int list_launches(struct mt_host_reader *r)
{
    struct mt_device_state *d = &r->device;
    d->launches = malloc((d->nchunks + 1) * sizeof *d->launches);
    if (!d->launches)
        return -1;
    for (size_t i = 0; i < d->nchunks; i++) {
        const struct mt_mtc_index *e = &r->chunks.entries[d->chunks[i]];
        struct mt_device_launch *l = d->nlaunches ? &d->launches[d->nlaunches - 1] : NULL;
        int named;
        if (!l || l->seq != e->first) {
            const char *kernel = kernel_name(r, MT_MTC_KEY_KERNEL(e->key), &named);
            if (!kernel)
                return -1;
            l = &d->launches[d->nlaunches++];
            *l = (struct mt_device_launch){.seq = e->first,
                                           .kernel = kernel,
                                           .stream = MT_MTC_KEY_STREAM(e->key),
                                           .whole = e->flags & MT_MTC_BEGIN,
                                           .single = (e->flags & MT_MTC_SINGLE) != 0,
                                           .named = named,
                                           .first = i};
        }
        l->accesses += e->items;
        l->chunks++;
        if (i + 1 == d->nchunks || r->chunks.entries[d->chunks[i + 1]].first != e->first)
            l->whole &= (e->flags & MT_MTC_END) != 0;
    }
    return 0;
}

/* Lists launches and chunks of a regular file, after its meta chunks. Returns 0, or -1 without memory. */
static int device_list(struct mt_host_reader *r)
{
    struct mt_device_state *d = &r->device;
    if (r->chunks.count >= UINT32_MAX || !(d->chunks = malloc((r->chunks.count + 1) * sizeof *d->chunks)))
        return -1;
    for (size_t i = 0; i < r->chunks.count; i++)
        if (r->chunks.entries[i].type == MT_MTC_DEVICE)
            d->chunks[d->nchunks++] = (uint32_t)i;
    qsort_r(d->chunks, d->nchunks, sizeof *d->chunks, chunk_by_seq, r->chunks.entries);
    return list_launches(r) == 0 ? list_events(r) : -1;
}

const struct mt_device_launch *mt_device_launches(const struct mt_host_reader *r, size_t *count)
{
    *count = r->device.nlaunches;
    return r->device.launches;
}

/* Discards the current launch and everything decoded ahead. */
static void device_reader_forget(struct mt_device_state *d)
{
    mt_block_put(d->block);
    d->block = NULL;
    if (d->queue)
        queue_clear(d->queue);
    d->open = 0;
}

void mt_device_seek(struct mt_host_reader *r, size_t index)
{
    struct mt_device_state *d = &r->device;
    size_t to = index < d->nlaunches ? d->launches[index].first : d->nchunks;
    d->begun = d->fresh = 0;
    if (to == d->next && !d->open)
        return; /* already there: the chunks decoded ahead are valid */
    device_reader_forget(d);
    d->next = d->fetched = to;
}

uint64_t mt_device_peek(const struct mt_host_reader *r)
{
    const struct mt_device_state *d = &r->device;
    if (d->open)
        return d->head.first;
    return d->next < d->nchunks ? r->chunks.entries[d->chunks[d->next]].first : MT_SEQ_NONE;
}

/* ---- chunks ---- */

void mt_host_reader_threads(struct mt_host_reader *r, unsigned threads)
{
    r->device.threads = threads;
}

void mt_host_reader_spaces(struct mt_host_reader *r, int on)
{
    r->device.spaces = on;
    if (r->device.queue)
        __atomic_store_n(&r->device.queue->spaces, on, __ATOMIC_RELAXED);
}

static int open_queue(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    if (d->queue)
        return 0;
    if (!d->pool) {
        d->pool = mt_pool_new(d->threads > 1 ? d->threads - 1 : 0);
        d->own_pool = 1;
    }
    d->queue = d->pool ? calloc(1, sizeof *d->queue) : NULL;
    if (d->queue && queue_open(d->queue, d->pool, d->threads) == 0) {
        d->queue->spaces = d->spaces;
        return 0;
    }
    free(d->queue);
    d->queue = NULL;
    return device_reader_memory(r, err);
}

static void put_aside(struct mt_host_reader *r, struct mt_chunk_job *j, const unsigned char *stored)
{
    if (job_keep(j, stored) != 0) {
        device_reader_memory(r, &j->error);
        j->problem = 1;
    }
}

/* Turns the next chunk of a regular file into a job. */
static void fetch_listed(struct mt_host_reader *r, struct mt_chunk_job *j)
{
    struct mt_device_state *d = &r->device;
    const unsigned char *stored;
    const struct mt_mtc_index *e = &r->chunks.entries[d->chunks[d->fetched++]];
    enum mt_chunk_state state = mt_chunk_at(&r->window, e->offset, &j->head, &stored, &j->error);
    j->offset = e->offset;
    j->bytes = state == MT_CHUNK_WHOLE ? sizeof j->head + j->head.stored_bytes : 0;
    if (state == MT_CHUNK_WHOLE && j->head.type == e->type && j->head.key == e->key &&
        j->head.first == e->first && j->head.flags == e->flags) {
        put_aside(r, j, stored);
        return;
    }
    j->problem = 1;
    if (state == MT_CHUNK_WHOLE || state == MT_CHUNK_END)
        mt_error_set(&j->error, MT_E_CORRUPT, 0, e->offset, r->window.name,
                     "here is another chunk than the index says");
}

/* Turns the next chunk of a FIFO into a job. Returns 1, or 0 at the end. */
static int fetch_live(struct mt_host_reader *r, struct mt_chunk_job *j)
{
    const unsigned char *stored;
    int rc = container_next_live(r, &j->offset, &j->head, &stored, &j->error);
    if (rc > 0)
        put_aside(r, j, stored);
    j->problem |= rc < 0;
    return rc != 0;
}

/* Fills the queue; from a FIFO with chunks that have arrived, waiting for at most one. */
static void device_reader_fetch(struct mt_host_reader *r)
{
    struct mt_device_state *d = &r->device;
    struct mt_chunk_job *j;
    while ((j = queue_slot(d->queue))) {
        j->name = r->window.name;
        j->features = r->head.features;
        if (r->window.regular) {
            if (d->fetched == d->nchunks)
                break;
            fetch_listed(r, j);
        } else if ((queue_head(d->queue) && !window_has_chunk(&r->window, r->next)) || !fetch_live(r, j)) {
            break;
        }
        queue_add(d->queue);
    }
}

/* Handles a first job without runs. Returns 1 for a chunk of a FIFO that was processed, or -1 with *err
 * set. */
static int take_other(struct mt_host_reader *r, const struct mt_chunk_job *j, struct mt_error *err)
{
    if (j->problem)
        *err = j->error;
    r->chunks.indexed |= !j->problem && j->head.type == MT_MTC_INDEX;
    if (!j->problem && j->head.type == MT_MTC_META)
        return container_take_meta(r, j->offset, &j->head, j->stored, err) == 0 ? 1 : -1;
    return j->problem ? -1 : 1;
}

/* Opens the next chunk. Returns 1, 0 at the end, or -1 with *err set. */
static int next_chunk(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    const struct mt_chunk_job *j;
    if (open_queue(r, err) != 0)
        return -1;
    for (;;) {
        device_reader_fetch(r);
        if (!(j = queue_head(d->queue))) {
            if (!r->window.regular)
                meta_sort(&r->meta);
            return 0;
        }
        d->next += r->window.regular != 0;
        r->done = r->window.regular ? r->done + j->bytes
                  : j->problem      ? r->done
                                    : mt_chunk_end(j->offset, &j->head);
        int other = j->problem || j->head.type != MT_MTC_DEVICE;
        int rc = other ? take_other(r, j, err) : queue_begin(d->queue, err) == 0 ? 1 : -1;
        if (rc > 0 && !other) {
            d->head = j->head;
            d->offset = j->offset;
            d->open = 1;
            return 1;
        }
        queue_drop(d->queue);
        if (rc < 0)
            return -1;
    }
}

/* Reports interleaved launches of several streams in an input that is read in file order. */
static int device_reader_mixed(struct mt_host_reader *r, struct mt_error *err)
{
    r->next = MT_NOTHING_LEFT;
    device_reader_forget(&r->device);
    r->device.begun = 0;
    return mt_error_set(
        err, MT_E_INPUT, 0, 0, r->window.name,
        "launches of several streams take turns: this needs a regular file, not a FIFO or pipe");
}

/* Returns -1 with *err set if the current launch has no end. */
static int without_end(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    if (!d->begun)
        return 0;
    d->begun = 0;
    return mt_error_set(err, MT_E_TRUNCATED, 0, d->end, r->window.name,
                        "the trace ends inside kernel '%.100s' (launch with number %llu)", d->kernel,
                        (unsigned long long)d->seq);
}

/* Begins a launch with its first batch. Returns 0, or -1 with *err set. */
static int device_reader_begin(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    int named;
    d->kernel = kernel_name(r, MT_MTC_KEY_KERNEL(d->head.key), &named);
    if (!d->kernel)
        return device_reader_memory(r, err);
    d->seq = d->head.first;
    d->stream = MT_MTC_KEY_STREAM(d->head.key);
    d->begun = d->fresh = 1;
    if (named)
        return 0;
    return mt_error_set(err, MT_E_CORRUPT, 0, d->offset, r->window.name,
                        "the name of this chunk's kernel is missing");
}

static uint64_t device_reader_sum(const struct mt_access_run *runs, size_t count)
{
    uint64_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += runs[i].count;
    return n;
}

/* Makes sure that the current block has runs left. Returns 0, or -1 with *err set if the chunk is damaged;
 * the chunk then ends. */
static int next_block(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    if (d->block && (d->at < d->block->count))
        return 0;
    mt_block_put(d->block);
    d->at = 0;
    if ((d->block = queue_take(d->queue, err)))
        return 0;
    queue_drop(d->queue);
    d->open = 0;
    if (d->head.flags & MT_MTC_END) /* the launch has an end, and the damage is reported here */
        d->begun = 0;
    return -1;
}

/* Returns 1 with at most `most` runs of the open chunk, 0 at its end, or -1 with *err set. */
static int device_reader_take(struct mt_host_reader *r, size_t most, struct mt_run_batch *b,
                              struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    if (!d->begun && device_reader_begin(r, err) != 0)
        return -1; /* if only the name is missing, the runs come with the next call */
    d->end = d->offset + sizeof d->head + d->head.stored_bytes;
    if (next_block(r, err) != 0)
        return -1;
    size_t left = d->block->count - d->at;
    b->runs = d->block->runs + d->at;
    b->count = left < most ? left : most;
    b->accesses = b->count == d->block->count ? d->block->accesses : device_reader_sum(b->runs, b->count);
    d->at += b->count;
    int through = d->block->last && d->at == d->block->count;
    if (through)
        queue_drop(d->queue);
    d->open = !through;
    b->flags = (d->fresh ? MT_BATCH_BEGIN : 0) | (through && d->head.flags & MT_MTC_END ? MT_BATCH_END : 0) |
               (d->head.flags & MT_MTC_SINGLE ? MT_BATCH_SINGLE : 0);
    d->begun = !(b->flags & MT_BATCH_END);
    d->fresh = 0;
    b->kernel = d->kernel;
    b->seq = d->seq;
    b->stream = MT_MTC_KEY_STREAM(d->head.key);
    b->offset = d->offset;
    return b->count || b->flags & (MT_BATCH_BEGIN | MT_BATCH_END);
}

static int device_reader_next(struct mt_host_reader *r, size_t most, struct mt_run_batch *b,
                              struct mt_error *err)
{
    struct mt_device_state *d = &r->device;
    memset(b, 0, sizeof *b);
    for (;;) {
        int rc = container_stopped(r, err) ? -1 : 1;
        if (rc > 0 && !d->open && (rc = next_chunk(r, err)) == 0) {
            if (without_end(r, err) != 0)
                return -1;
            if (r->problems.told == r->problems.count)
                return 0;
            *err = r->problems.list[r->problems.told++];
            return -1;
        }
        if (rc < 0)
            return -1;
        if (d->begun && d->seq != d->head.first)
            return r->window.regular || d->stream == MT_MTC_KEY_STREAM(d->head.key)
                       ? without_end(r, err)
                       : device_reader_mixed(r, err);
        if ((rc = device_reader_take(r, most, b, err)) != 0)
            return rc;
    }
}

int mt_device_next(struct mt_host_reader *r, struct mt_run_batch *batch, struct mt_error *err)
{
    return device_reader_next(r, MT_BLOCK_RUNS, batch, err);
}

int mt_device_fill(struct mt_host_reader *r, struct mt_access_run *runs, uint64_t *lanes, size_t capacity,
                   struct mt_run_batch *b, struct mt_error *err)
{
    int rc = device_reader_next(r, capacity, b, err);
    for (size_t i = 0; rc > 0 && i < b->count; i++) {
        runs[i] = b->runs[i];
        if (!runs[i].addresses)
            continue;
        memcpy(lanes, runs[i].addresses, runs[i].count * sizeof *lanes);
        runs[i].addresses = lanes;
        lanes += runs[i].count;
    }
    b->runs = runs;
    return rc;
}

/* ---- Public functions of the reader of compact traces, and host chunks in file order ---- */

/* ---- host chunks of many threads in one order ----
 * A heap of lanes, one per thread, each with one chunk in memory. A lane is loaded when its turn may have
 * come, so that ended threads cost nothing. */

enum { LANE_RECORDS = 512 };
enum pending { NOTHING, EVENT, FAILURE };

struct lane {
    struct mt_host_stream stream;
    uint64_t thread;
    const size_t *chunks; /* indices in the reader's list, in file order */
    size_t nchunks, next;
    size_t at, end;       /* range of the unread records */
    uint64_t seq;         /* sequence number of the unread records */
    enum pending pending; /* kind of item after the unread records */
    struct mt_host_item event;
    struct mt_error error;
    int ready; /* 1: `key` is valid for the lane's next item */
    uint64_t key;
};

struct mt_order {
    struct mt_host_reader *r;
    int by_time;
    struct lane *lanes;
    size_t *chunks;      /* indices of the chunks of all lanes */
    size_t *heap, count; /* lanes, lowest (key, thread) first */
};

/* ---- heap ---- */

static int host_order_before(const struct lane *a, const struct lane *b)
{
    return a->key != b->key ? a->key < b->key : a->thread < b->thread;
}

static void host_order_sink(struct mt_order *o, size_t i)
{
    size_t lane = o->heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < o->count &&
            host_order_before(&o->lanes[o->heap[child + 1]], &o->lanes[o->heap[child]]))
            child++;
        if (child >= o->count || !host_order_before(&o->lanes[o->heap[child]], &o->lanes[lane]))
            break;
        o->heap[i] = o->heap[child];
        i = child;
    }
    o->heap[i] = lane;
}

/* ---- lanes ---- */

static int host_stream_next(struct mt_host_stream *s, struct mt_host_reader *r, size_t keep,
                            struct mt_host_item *item, struct mt_error *err);

/* Reads what follows the lane's records: more records, or `pending`. */
static void host_order_fill(struct mt_order *o, struct lane *l)
{
    struct mt_host_stream *s = &l->stream;
    struct mt_host_item item;
    if (l->at && l->end > l->at)
        memmove(s->room, s->room + l->at, (l->end - l->at) * sizeof *s->room);
    l->end -= l->at;
    l->at = 0;
    int rc = host_stream_next(s, o->r, l->end, &item, &l->error);
    if (rc < 0) {
        l->pending = FAILURE;
    } else if (rc > 0 && item.kind == MT_HOST_ITEM_EVENT) {
        l->pending = EVENT;
        l->event = item;
    } else if (rc > 0) {
        l->end += item.count;
        l->seq = item.seq;
    }
}

/* Returns the number of records at the front of the lane that belong to one execution (have one time); 0:
 * more must be read first. */
static size_t host_order_execution(const struct lane *l)
{
    const struct mt_host_record *r = l->stream.room + l->at;
    size_t n = l->end - l->at, i = 1;
    while (i < n && r[i].time == r[0].time)
        i++;
    return i < n || l->pending || !l->stream.open || n == l->stream.capacity ? i : 0;
}

static int host_stream_load(struct mt_host_stream *s, struct mt_host_reader *r,
                            const struct mt_mtc_index *entry, struct mt_error *err);

/* Determines the lane's next item. Returns 1 if it is ready, 0 if the thread has no more, or -1 with *err
 * set; the caller may call again. */
static int host_order_look(struct mt_order *o, struct lane *l, struct mt_error *err)
{
    for (;;) {
        if (l->at < l->end && (!o->by_time || host_order_execution(l))) {
            l->key = o->by_time ? l->stream.room[l->at].time : l->seq;
            return 1;
        }
        if (l->at == l->end && l->pending == EVENT) {
            l->key = o->by_time ? l->event.time : l->event.seq;
            return 1;
        }
        if (l->at == l->end && l->pending == FAILURE) {
            l->pending = NOTHING;
            *err = l->error;
            return -1;
        }
        if (l->stream.open) {
            host_order_fill(o, l);
            continue;
        }
        if (l->next == l->nchunks)
            return 0;
        l->at = l->end = 0;
        if (host_stream_load(&l->stream, o->r, &o->r->chunks.entries[l->chunks[l->next++]], err) != 0)
            return -1;
    }
}

static void host_order_take(struct mt_order *o, struct lane *l, struct mt_host_item *item)
{
    if (l->at == l->end) {
        *item = l->event;
        l->pending = NOTHING;
    } else {
        const struct mt_host_record *records = l->stream.room + l->at;
        size_t n = o->by_time ? host_order_execution(l) : l->end - l->at;
        *item = (struct mt_host_item){.kind = MT_HOST_ITEM_RECORDS,
                                      .thread = l->thread,
                                      .seq = l->seq,
                                      .time = records[0].time,
                                      .records = records,
                                      .count = n};
        l->at += n;
    }
    l->ready = 0;
}

static void host_stream_free(struct mt_host_stream *s);

static int order_next(struct mt_order *o, struct mt_host_item *item, struct mt_error *err)
{
    while (o->count) {
        struct lane *l = &o->lanes[o->heap[0]];
        if (l->ready) {
            host_order_take(o, l, item);
            return 1;
        }
        int rc = host_order_look(o, l, err);
        if (rc < 0)
            return -1;
        l->ready = rc;
        if (rc == 0) {
            host_stream_free(&l->stream);
            o->heap[0] = o->heap[--o->count];
        }
        if (o->count)
            host_order_sink(o, 0);
    }
    return 0;
}

/* ---- lanes from the list of chunks ---- */

static int by_thread(const void *a, const void *b, void *entries)
{
    const struct mt_mtc_index *e = entries;
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    uint64_t x = e[i].key, y = e[k].key;
    return x != y ? (x < y ? -1 : 1) : i < k ? -1 : i > k;
}

static void make_lanes(struct mt_order *o, size_t n)
{
    const struct mt_mtc_index *e = o->r->chunks.entries;
    for (size_t i = 0; i < n; i++) {
        struct lane *l = o->count ? &o->lanes[o->count - 1] : NULL;
        if (!l || l->thread != e[o->chunks[i]].key) {
            l = &o->lanes[o->count];
            l->thread = e[o->chunks[i]].key;
            l->chunks = &o->chunks[i];
            l->key = o->by_time ? 0 : e[o->chunks[i]].first;
            l->stream.most = LANE_RECORDS;
            o->heap[o->count] = o->count;
            o->count++;
        }
        l->nchunks++;
    }
    for (size_t i = o->count / 2; i-- > 0;)
        host_order_sink(o, i);
}

static void order_free(struct mt_order *o);

static struct mt_order *container_order_new(struct mt_host_reader *r, int by_time, struct mt_error *err)
{
    const struct mt_chunk_list *list = &r->chunks;
    struct mt_order *o = calloc(1, sizeof *o);
    size_t n = 0, threads = 0;
    if (!o || !(o->chunks = malloc((list->count + 1) * sizeof *o->chunks)))
        goto memory;
    for (size_t i = 0; i < list->count; i++)
        if (list->entries[i].type == MT_MTC_HOST)
            o->chunks[n++] = i;
    qsort_r(o->chunks, n, sizeof *o->chunks, by_thread, list->entries);
    for (size_t i = 0; i < n; i++)
        threads += i == 0 || list->entries[o->chunks[i]].key != list->entries[o->chunks[i - 1]].key;
    o->lanes = calloc(threads + 1, sizeof *o->lanes);
    o->heap = malloc((threads + 1) * sizeof *o->heap);
    if (!o->lanes || !o->heap)
        goto memory;
    o->r = r;
    o->by_time = by_time;
    make_lanes(o, n);
    return o;
memory:
    order_free(o);
    mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for putting threads in order");
    return NULL;
}

static void order_free(struct mt_order *o)
{
    if (!o)
        return;
    for (size_t i = 0; o->lanes && o->heap && i < o->count; i++)
        host_stream_free(&o->lanes[o->heap[i]].stream);
    free(o->lanes);
    free(o->heap);
    free(o->chunks);
    free(o);
}

/* ---- host chunks of one thread (or, in file order, of all), one at a time ---- */

enum { RECORDS_MAX = 4096 };

static uint32_t container_size_of(void *arg, uint32_t site)
{
    const struct mt_host_site_info *s = meta_site(arg, site);
    return s ? s->size : 0;
}

static int host_stream_memory(const struct mt_host_reader *r, struct mt_error *err)
{
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for reading a chunk");
}

/* Makes room for the chunk's items, up to a limit: threads may be many and short. */
static int host_reader_make_room(struct mt_host_stream *s, uint64_t items)
{
    size_t most = s->most ? s->most : RECORDS_MAX, want = items < most ? (size_t)items + 1 : most;
    if (want <= s->capacity)
        return 0;
    void *p = realloc(s->room, want * sizeof *s->room);
    if (!p)
        return -1;
    s->room = p;
    s->capacity = want;
    return 0;
}

/* Starts the chunk. Returns 0, or -1 with *err set if it is damaged or without memory. */
static int host_stream_start(struct mt_host_stream *s, struct mt_host_reader *r, uint64_t offset,
                             const struct mt_mtc_chunk *head, const unsigned char *stored,
                             struct mt_error *err)
{
    int timed = (r->head.features & MT_MTC_HAS_TIMES) != 0;
    s->open = 0;
    if (head->items > MT_MTC_MAX_ITEMS)
        return mt_error_set(err, MT_E_CORRUPT, 0, offset, r->window.name,
                            "a chunk of %llu items: more than any has, it is skipped",
                            (unsigned long long)head->items);
    if (mt_chunk_unpack(&s->plain, r->window.name, offset, head, stored, err) != 0)
        return -1;
    if (host_reader_make_room(s, head->items) != 0 ||
        mt_decode_start(&s->decoder, s->plain.data, s->plain.bytes, timed, head->first) != 0)
        return host_stream_memory(r, err);
    s->decoder.size_of = container_size_of;
    s->decoder.arg = &r->meta;
    s->offset = offset;
    s->thread = head->key;
    s->items = head->items;
    s->last = head->last;
    s->open = 1;
    return 0;
}

/* Loads the chunk of an index entry. */
static int host_stream_load(struct mt_host_stream *s, struct mt_host_reader *r,
                            const struct mt_mtc_index *entry, struct mt_error *err)
{
    struct mt_mtc_chunk head;
    const unsigned char *stored;
    enum mt_chunk_state state = mt_chunk_at(&r->window, entry->offset, &head, &stored, err);
    s->open = 0;
    r->done += state == MT_CHUNK_WHOLE ? sizeof head + head.stored_bytes : 0;
    if (state == MT_CHUNK_WHOLE && head.type == entry->type && head.key == entry->key)
        return host_stream_start(s, r, entry->offset, &head, stored, err);
    if (state == MT_CHUNK_WHOLE || state == MT_CHUNK_END)
        return mt_error_set(err, MT_E_CORRUPT, 0, entry->offset, r->window.name,
                            "here is another chunk than the index says");
    return -1;
}

static int container_at_end(struct mt_host_stream *s, struct mt_host_reader *r, struct mt_error *err)
{
    const struct mt_decoder *d = &s->decoder;
    s->open = 0;
    if (d->items == s->items && d->seq == s->last)
        return 0;
    return mt_error_set(
        err, MT_E_CORRUPT, 0, s->offset, r->window.name,
        "a chunk has %llu items and ends at sequence number %llu, its head says %llu and %llu",
        (unsigned long long)d->items, (unsigned long long)d->seq, (unsigned long long)s->items,
        (unsigned long long)s->last);
}

/* Reads the next item of the chunk. Returns 1, 0 at its end, or -1 with *err set; the chunk then ends.
 * Records go to s->room + `keep`. */
static int host_stream_next(struct mt_host_stream *s, struct mt_host_reader *r, size_t keep,
                            struct mt_host_item *item, struct mt_error *err)
{
    struct mt_decoder *d = &s->decoder;
    size_t count;
    if (!s->open)
        return 0;
    int rc = mt_decode_next(d, s->room + keep, s->capacity - keep, &count, item);
    if (rc == 0)
        return container_at_end(s, r, err);
    if (rc > 0 && d->items <= s->items) {
        if (count)
            *item = (struct mt_host_item){.kind = MT_HOST_ITEM_RECORDS,
                                          .records = s->room + keep,
                                          .count = count,
                                          .seq = d->seq,
                                          .time = s->room[keep].time};
        item->thread = s->thread;
        return 1;
    }
    s->open = 0;
    if (rc < 0 && !d->why)
        return host_stream_memory(r, err);
    return mt_error_set(
        err, MT_E_CORRUPT, 0, s->offset, r->window.name, "a chunk %s (byte %llu of its payload)",
        rc < 0 ? d->why : "has more items than its head says", (unsigned long long)(d->at - d->begin));
}

static void host_stream_free(struct mt_host_stream *s)
{
    mt_chunk_payload_free(&s->plain);
    mt_decode_free(&s->decoder);
    free(s->room);
    memset(s, 0, sizeof *s);
}

static int host_reader_memory(const struct mt_host_reader *r, struct mt_error *err)
{
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for reading a container");
}

/* Reads all meta chunks of a regular file. Damage is added to the problems. */
static int load_meta(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_mtc_chunk head;
    const unsigned char *stored;
    for (size_t i = 0; i < r->chunks.count; i++) {
        const struct mt_mtc_index *e = &r->chunks.entries[i];
        if (e->type != MT_MTC_META)
            continue;
        enum mt_chunk_state state = mt_chunk_at(&r->window, e->offset, &head, &stored, err);
        int rc = state == MT_CHUNK_WHOLE && head.type == MT_MTC_META
                     ? container_take_meta(r, e->offset, &head, stored, err)
                     : -1;
        if (rc == 0)
            continue;
        if (state == MT_CHUNK_SYSTEM || (state == MT_CHUNK_WHOLE && err->code == MT_E_SYSTEM))
            return -1;
        if (state == MT_CHUNK_END || (state == MT_CHUNK_WHOLE && head.type != MT_MTC_META))
            mt_error_set(err, MT_E_CORRUPT, 0, e->offset, r->window.name,
                         "here is another chunk than the index says");
        if (problem_add(&r->problems, err) != 0)
            return host_reader_memory(r, err);
    }
    meta_sort(&r->meta);
    return 0;
}

struct mt_host_reader *mt_container_open(struct mt_window *w, struct mt_error *err)
{
    struct mt_host_reader *r = calloc(1, sizeof *r);
    if (!r) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, w->name, "no memory for a reader");
        mt_window_close(w);
        return NULL;
    }
    r->window = *w;
    int rc = mt_container_head(&r->window, &r->head, err);
    if (rc == 0 && meta_open(&r->meta, r->window.name) != 0)
        rc = host_reader_memory(r, err);
    struct stat st;
    if (rc == 0 && r->window.regular && fstat(r->window.fd, &st) == 0)
        r->meta.companion->own = st.st_uid == geteuid();
    if (rc == 0 && r->window.regular) {
        rc = chunks_find(&r->chunks, &r->window, r->head.head_bytes, &r->problems, err);
        if (rc == 0)
            rc = load_meta(r, err);
        if (rc == 0 && device_list(r) != 0)
            rc = host_reader_memory(r, err);
    }
    r->next = r->window.regular ? 0 : r->head.head_bytes;
    if (rc == 0)
        return r;
    mt_host_reader_close(r);
    return NULL;
}

struct mt_host_reader *mt_host_reader_open(const char *path, const volatile sig_atomic_t *stop,
                                           struct mt_error *err)
{
    struct mt_window w;
    return mt_window_open(&w, path, stop, err) == 0 ? mt_container_open(&w, err) : NULL;
}

void mt_host_reader_close(struct mt_host_reader *r)
{
    if (!r)
        return;
    order_free(r->merge);
    host_stream_free(&r->stream);
    container_device_free(&r->device);
    meta_free(&r->meta);
    free(r->chunks.entries);
    free(r->problems.list);
    mt_window_close(&r->window);
    free(r);
}

const struct mt_mtc_head *mt_host_reader_head(const struct mt_host_reader *r)
{
    return &r->head;
}

int mt_host_reader_order(struct mt_host_reader *r, enum mt_host_order order, struct mt_error *err)
{
    const char *why = NULL;
    if (order != MT_HOST_BY_FILE && !r->window.regular)
        why = "records of a FIFO come in file order only";
    else if (order == MT_HOST_BY_TIME && !(r->head.features & MT_MTC_HAS_TIMES))
        why = "its records have no times: only traces of memtrace host atomic and insn do";
    else if (r->begun)
        why = "the order is chosen before the first record";
    if (why)
        return mt_error_set(err, MT_E_INPUT, 0, 0, r->window.name, "%s", why);
    r->order = order;
    return 0;
}

/* ---- file order ---- */

/* Reads the next chunk of a FIFO and skips those of kernels. Returns as container_next_live does. */
static int take_live(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_mtc_chunk head;
    const unsigned char *stored;
    uint64_t at;
    int rc = container_next_live(r, &at, &head, &stored, err);
    if (rc == 0)
        meta_sort(&r->meta);
    if (rc <= 0)
        return rc;
    r->done = r->next;
    r->chunks.indexed |= head.type == MT_MTC_INDEX;
    if (head.type == MT_MTC_HOST)
        return host_stream_start(&r->stream, r, at, &head, stored, err) == 0 ? 1 : -1;
    return head.type != MT_MTC_META || container_take_meta(r, at, &head, stored, err) == 0 ? 1 : -1;
}

static int next_by_file(struct mt_host_reader *r, struct mt_host_item *item, struct mt_error *err)
{
    for (;;) {
        int rc = host_stream_next(&r->stream, r, 0, item, err);
        if (rc)
            return rc;
        if (!r->window.regular) {
            if ((rc = take_live(r, err)) <= 0)
                return rc;
            continue;
        }
        while (r->next < r->chunks.count && r->chunks.entries[r->next].type != MT_MTC_HOST)
            r->next++;
        if (r->next == r->chunks.count)
            return 0;
        if (host_stream_load(&r->stream, r, &r->chunks.entries[r->next++], err) != 0)
            return -1;
    }
}

static int next_item(struct mt_host_reader *r, struct mt_host_item *item, struct mt_error *err)
{
    if (r->order == MT_HOST_BY_FILE)
        return next_by_file(r, item, err);
    if (!r->merge && !(r->merge = container_order_new(r, r->order == MT_HOST_BY_TIME, err)))
        return -1;
    return order_next(r->merge, item, err);
}

int mt_host_next(struct mt_host_reader *r, struct mt_host_item *item, struct mt_error *err)
{
    r->begun = 1;
    if (r->fatal) {
        *err = r->error;
        return -1;
    }
    int rc = container_stopped(r, err) ? -1 : next_item(r, item, err);
    if (rc == 0 && r->problems.told < r->problems.count) {
        *err = r->problems.list[r->problems.told++];
        return -1;
    }
    if (rc < 0 && (err->code == MT_E_SYSTEM || err->code == MT_E_STOPPED)) {
        r->fatal = 1;
        r->error = *err;
    }
    return rc;
}

int mt_host_rewind(struct mt_host_reader *r, struct mt_error *err)
{
    if (!r->window.regular)
        return mt_error_set(err, MT_E_INPUT, 0, 0, r->window.name, "a FIFO cannot be read twice");
    order_free(r->merge);
    r->merge = NULL;
    r->stream.open = 0;
    mt_device_seek(r, 0);
    r->next = r->done = r->problems.told = 0;
    r->begun = r->fatal = 0;
    return 0;
}

/* ---- meta lines ---- */

const struct mt_host_site_info *mt_host_site(struct mt_host_reader *r, uint32_t site)
{
    return meta_site(&r->meta, site);
}

const struct mt_function_event *mt_host_function(struct mt_host_reader *r, uint64_t id)
{
    const struct mt_companion *c = r->meta.companion;
    for (size_t i = 0; i < c->nfunctions; i++)
        if (c->functions[i].id == id)
            return &c->functions[i];
    return NULL;
}

const struct mt_companion *mt_host_companion(struct mt_host_reader *r)
{
    return r->meta.companion;
}

/* Reads the first `bytes` of the head of a regular file. Returns 1 if they are those of a compact trace. */
static int container_peek(const char *path, struct mt_mtc_head *head, size_t bytes)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = pread(fd, head, bytes, 0);
    close(fd);
    return n == (ssize_t)bytes && head->magic == MT_MTC_MAGIC;
}

uint64_t mt_container_features(const char *path)
{
    struct mt_mtc_head head;
    return container_peek(path, &head, sizeof head) ? head.features : 0;
}

int mt_is_container(const char *path)
{
    struct mt_mtc_head head;
    return container_peek(path, &head, sizeof head.magic);
}

struct mt_run_block *mt_device_keep(struct mt_host_reader *r)
{
    struct mt_run_block *b = r->device.block;
    if (b && r->device.at < b->count)
        return NULL;
    r->device.block = NULL;
    return b;
}
