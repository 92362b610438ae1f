/* Chunks: are they whole, where do they go on after damage, what is in them. */
#define _GNU_SOURCE
#include "container.h"
#include "memtrace/grow.h"
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

/* The highest number stands for none in all that follows launches by their numbers. */
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
    /* What looks like a head may be data that claims to be long: bound the work of looking. */
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
    p->data = malloc(bytes ? bytes : 1); /* never NULL: an empty payload is one, too */
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
        return 0; /* whoever made such a file need not be told all */
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

/* The list as the index has it, if all in it is possible. */
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

/* 1: the list is filled; 0: no (good) index; -1: *err. */
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
    if (rc > 0 && end != w->size) { /* of a container that was copied behind another one */
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
