/* Compact trace as a sequence of chunks: head, meta chunks, the next chunk of a FIFO, end. */
#define _GNU_SOURCE

#include "container.h"
#include "memtrace/grow.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

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

int mt_window_has_chunk(struct mt_window *w, uint64_t offset)
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

int mt_meta_open(struct mt_host_meta *m, const char *name)
{
    memset(m, 0, sizeof *m);
    m->companion = mt_companion_new(name);
    return m->companion ? 0 : -1;
}

static enum mt_host_op op_of(const char *text)
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
                                    .op = op_of(e->op),
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

void mt_meta_sort(struct mt_host_meta *m)
{
    mt_companion_sort(m->companion);
}

const struct mt_host_site_info *mt_meta_site(const struct mt_host_meta *m, uint32_t site)
{
    uint64_t at = mt_hash_find(&m->sites, site);
    return at ? &m->blocks[(at - 1) / BLOCK][(at - 1) % BLOCK] : NULL;
}

void mt_meta_free(struct mt_host_meta *m)
{
    for (size_t i = 0; i < m->nblocks; i++)
        free(m->blocks[i]);
    free(m->blocks);
    mt_hash_free(&m->sites);
    mt_companion_free(m->companion);
    memset(m, 0, sizeof *m);
}

/* ---- chunks: verification, resynchronisation after damage, contents ---- */

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

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

static int make_room(struct mt_chunk_payload *p, size_t bytes)
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
    if (!why && make_room(p, plain) != 0)
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

int mt_problem_add(struct mt_problems *p, const struct mt_error *e)
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
        return mt_problem_add(problems, err) ? chunk_memory(w, err) : 0;
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
        return mt_problem_add(problems, err) ? chunk_memory(w, err) : rc;
    }
    if (rc == 0) {
        mt_error_set(err, MT_E_CORRUPT, 0, tail.index, w->name,
                     "the index is damaged; the chunks are found without it");
        return mt_problem_add(problems, err) ? chunk_memory(w, err) : 0;
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
        if (mt_problem_add(problems, &damage) != 0)
            return chunk_memory(w, err);
        if (found <= 0)
            return found;
    }
}

int mt_chunks_find(struct mt_chunk_list *l, struct mt_window *w, uint64_t first, struct mt_problems *problems,
                   struct mt_error *err)
{
    int rc = by_index(l, w, first, problems, err);
    l->indexed = rc > 0;
    return rc ? (rc > 0 ? 0 : -1) : by_scan(l, w, first, problems, err);
}

#include <xxhash.h>

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
    uint64_t known =
        MT_MTC_HAS_HOST | MT_MTC_HAS_TIMES | MT_MTC_HAS_DEVICE | MT_MTC_HAS_SPACES | MT_MTC_HAS_COPIES;
    uint64_t unknown = (h->features & UINT32_MAX) & ~known;
    if (h->version != MT_MTC_VERSION || unknown)
        return mt_error_set(
            err, MT_E_INPUT, 0, 0, w->name,
            "a container of version %u with features 0x%llx: this reader knows version %u and "
            "features 0x%llx; a newer memtrace reads it",
            h->version, (unsigned long long)h->features, MT_MTC_VERSION, (unsigned long long)known);
    return 0;
}

int mt_container_take_meta(struct mt_host_reader *r, uint64_t offset, const struct mt_mtc_chunk *head,
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

int mt_container_stopped(struct mt_host_reader *r, struct mt_error *err)
{
    if (!mt_stopped(&r->window.stop))
        return 0;
    mt_error_set(err, MT_E_STOPPED, EINTR, 0, r->window.name, "stopped while reading");
    return 1;
}

int mt_container_next_live(struct mt_host_reader *r, uint64_t *offset, struct mt_mtc_chunk *head,
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
