/* The public functions of the reader of containers, and chunks of host accesses in file order. */
#define _GNU_SOURCE
#include "reader/container/container.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int host_reader_memory(const struct mt_host_reader *r, struct mt_error *err)
{
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for reading a container");
}

/* All meta chunks of a regular file. Damage goes to the problems. */
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
                     ? mt_container_take_meta(r, e->offset, &head, stored, err)
                     : -1;
        if (rc == 0)
            continue;
        if (state == MT_CHUNK_SYSTEM || (state == MT_CHUNK_WHOLE && err->code == MT_E_SYSTEM))
            return -1;
        if (state == MT_CHUNK_END || (state == MT_CHUNK_WHOLE && head.type != MT_MTC_META))
            mt_error_set(err, MT_E_CORRUPT, 0, e->offset, r->window.name,
                         "here is another chunk than the index says");
        if (mt_problem_add(&r->problems, err) != 0)
            return host_reader_memory(r, err);
    }
    mt_meta_sort(&r->meta);
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
    if (rc == 0 && mt_meta_open(&r->meta, r->window.name) != 0)
        rc = host_reader_memory(r, err);
    struct stat st;
    if (rc == 0 && r->window.regular && fstat(r->window.fd, &st) == 0)
        r->meta.companion->own = st.st_uid == geteuid();
    if (rc == 0 && r->window.regular) {
        rc = mt_chunks_find(&r->chunks, &r->window, r->head.head_bytes, &r->problems, err);
        if (rc == 0)
            rc = load_meta(r, err);
        if (rc == 0 && mt_device_list(r) != 0)
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
    mt_order_free(r->merge);
    mt_host_stream_free(&r->stream);
    mt_device_free(&r->device);
    mt_meta_free(&r->meta);
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

/* Takes the next chunk of a FIFO. Those of kernels are another's business. As mt_container_next_live. */
static int take_live(struct mt_host_reader *r, struct mt_error *err)
{
    struct mt_mtc_chunk head;
    const unsigned char *stored;
    uint64_t at;
    int rc = mt_container_next_live(r, &at, &head, &stored, err);
    if (rc == 0)
        mt_meta_sort(&r->meta);
    if (rc <= 0)
        return rc;
    r->done = r->next;
    r->chunks.indexed |= head.type == MT_MTC_INDEX;
    if (head.type == MT_MTC_HOST)
        return mt_host_stream_start(&r->stream, r, at, &head, stored, err) == 0 ? 1 : -1;
    return head.type != MT_MTC_META || mt_container_take_meta(r, at, &head, stored, err) == 0 ? 1 : -1;
}

static int next_by_file(struct mt_host_reader *r, struct mt_host_item *item, struct mt_error *err)
{
    for (;;) {
        int rc = mt_host_stream_next(&r->stream, r, 0, item, err);
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
        if (mt_host_stream_load(&r->stream, r, &r->chunks.entries[r->next++], err) != 0)
            return -1;
    }
}

static int next_item(struct mt_host_reader *r, struct mt_host_item *item, struct mt_error *err)
{
    if (r->order == MT_HOST_BY_FILE)
        return next_by_file(r, item, err);
    if (!r->merge && !(r->merge = mt_order_new(r, r->order == MT_HOST_BY_TIME, err)))
        return -1;
    return mt_order_next(r->merge, item, err);
}

int mt_host_next(struct mt_host_reader *r, struct mt_host_item *item, struct mt_error *err)
{
    r->begun = 1;
    if (r->fatal) {
        *err = r->error;
        return -1;
    }
    int rc = mt_container_stopped(r, err) ? -1 : next_item(r, item, err);
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
    mt_order_free(r->merge);
    r->merge = NULL;
    r->stream.open = 0;
    mt_device_seek(r, 0);
    r->next = r->done = r->problems.told = 0;
    r->begun = r->fatal = 0;
    return 0;
}

/* ---- what the meta lines say ---- */

const struct mt_host_site_info *mt_host_site(struct mt_host_reader *r, uint32_t site)
{
    return mt_meta_site(&r->meta, site);
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

void mt_host_progress(const struct mt_host_reader *r, uint64_t *done, uint64_t *total)
{
    *done = r->done;
    *total = r->window.size;
}

uint64_t mt_container_features(const char *path)
{
    struct stat st;
    struct mt_mtc_head head = {0};
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = pread(fd, &head, sizeof head, 0);
    close(fd);
    return n == (ssize_t)sizeof head && head.magic == MT_MTC_MAGIC ? head.features : 0;
}

int mt_is_container(const char *path)
{
    struct stat st;
    uint64_t magic = 0;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = pread(fd, &magic, sizeof magic, 0);
    close(fd);
    return n == (ssize_t)sizeof magic && magic == MT_MTC_MAGIC;
}
