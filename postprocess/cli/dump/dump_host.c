/* memtrace dump on containers of host accesses. */
#define _GNU_SOURCE
#include "dump_host.h"
#include "memtrace/grow.h"
#include "cli/base/cli.h"
#include "dump.h"
#include "memtrace/host.h"
#include "reader/container/container.h" /* the chunks themselves are not part of the public interface */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int mt_dump_is_host(const char *path)
{
    struct stat st;
    size_t n = strlen(path);
    return (mt_is_container(path) && !(mt_container_features(path) & MT_MTC_HAS_DEVICE)) ||
           (n > 4 && strcmp(path + n - 4, ".mtc") == 0 && stat(path, &st) == 0 && S_ISFIFO(st.st_mode));
}

static const char *op_name(enum mt_host_op op)
{
    static const char *const names[] = {
#define MT_HOST_OP(name, code, reads, writes, text) [code] = text,
#include "memtrace/container.def"
    };
    return (unsigned)op < sizeof names / sizeof *names ? names[op] : "unknown";
}

static const char *event_name(unsigned event)
{
    static const char *const names[64] = {
#define MT_HOST_EVENT(name, code, args, text) [code] = text,
#include "memtrace/container.def"
    };
    return event < 64 && names[event] ? names[event] : "?";
}

static int op_of(struct mt_host_reader *r, uint32_t site)
{
    const struct mt_host_site_info *s = mt_host_site(r, site);
    return (int)(s ? s->op : MT_HOST_UNKNOWN);
}

/* ---- what a thread did ---- */

struct thread {
    uint64_t number, records, events, of_op[8], read, written, lowest, highest, shown;
};
struct threads {
    struct thread *list;
    size_t n, room;
    struct mt_pairmap at;
};

static struct thread *thread_of(struct threads *t, uint64_t number)
{
    uint64_t *at = mt_pairmap_get(&t->at, number, 0, UINT64_MAX);
    if (!at)
        return NULL;
    if (*at == UINT64_MAX) {
        if (mt_grow(&t->list, &t->room, t->n + 1, sizeof *t->list) != 0)
            return NULL;
        t->list[t->n] = (struct thread){.number = number, .lowest = UINT64_MAX};
        *at = t->n++;
    }
    return &t->list[*at];
}

static void dump_host_count(struct mt_host_reader *r, struct thread *t, const struct mt_host_record *a)
{
    static const unsigned char does[8] = {
#define MT_HOST_OP(name, code, reads, writes, text) [code] = (reads) | (writes) << 1,
#include "memtrace/container.def"
    };
    int op = op_of(r, a->site);
    t->records++;
    t->of_op[op]++;
    if (op == MT_HOST_EXEC)
        return;
    t->read += does[op] & 1 ? a->size : 0;
    t->written += does[op] & 2 ? a->size : 0;
    t->lowest = a->address < t->lowest ? a->address : t->lowest;
    uint64_t last = a->address + (a->size ? a->size - 1 : 0);
    t->highest = last > t->highest ? last : t->highest;
}

static void show_stat(FILE *f, const struct threads *t)
{
    fprintf(f, "%8s %12s %8s %12s %12s %10s %10s %14s %14s %18s %18s\n", "thread", "records", "events",
            "loads", "stores", "atomics", "others", "read", "written", "lowest", "highest");
    for (size_t i = 0; i < t->n; i++) {
        const struct thread *x = &t->list[i];
        uint64_t atomics = x->of_op[MT_HOST_ATOMIC] + x->of_op[MT_HOST_CAS] + x->of_op[MT_HOST_CAS_FAILED];
        fprintf(
            f, "%8" PRId64 " %12" PRIu64 " %8" PRIu64 " %12" PRIu64 " %12" PRIu64 " %10" PRIu64 " %10" PRIu64,
            (int64_t)x->number, x->records, x->events, x->of_op[MT_HOST_LOAD], x->of_op[MT_HOST_STORE],
            atomics, x->of_op[MT_HOST_UNKNOWN] + x->of_op[MT_HOST_EXEC]);
        fprintf(f, " %14" PRIu64 " %14" PRIu64, x->read, x->written);
        if (x->lowest <= x->highest)
            fprintf(f, " %#18" PRIx64 " %#18" PRIx64 "\n", x->lowest, x->highest);
        else
            fprintf(f, " %18s %18s\n", "-", "-");
    }
}

/* ---- items ---- */

static void show_record(FILE *f, struct mt_host_reader *r, const struct mt_host_item *item,
                        const struct mt_host_record *a, int timed)
{
    const struct mt_host_site_info *s = mt_host_site(r, a->site);
    fprintf(f, "%" PRId64 " %s", (int64_t)item->thread, op_name((enum mt_host_op)op_of(r, a->site)));
    if (s && s->op == MT_HOST_EXEC)
        fprintf(f, " 0x%" PRIx64 " %s", s->ip, *s->text ? s->text : "?");
    else
        fprintf(f, " %" PRIu32 " 0x%" PRIx64, a->size, a->address);
    if (timed)
        fprintf(f, " time %" PRIu64, a->time);
    fprintf(f, " seq %" PRIu64 " site %" PRIu32, item->seq, a->site);
    if (s && *s->variable)
        fprintf(f, " of %s", s->variable);
    if (s && *s->file)
        fprintf(f, " at %s:%" PRIu32, s->file, s->line);
    fputc('\n', f);
}

static void show_event(FILE *f, struct mt_host_reader *r, const struct mt_host_item *item, int timed)
{
    fprintf(f, "%" PRId64 " %s", (int64_t)item->thread, event_name(item->event));
    unsigned i = 0;
    if (item->event == MT_HOST_EV_CALL || item->event == MT_HOST_EV_RETURN) {
        const struct mt_function_event *fn = mt_host_function(r, item->args[i++]);
        fprintf(f, " %s", fn ? fn->name : "?");
    }
    for (; i < item->nargs; i++)
        fprintf(f, " %" PRIu64, item->args[i]);
    if (timed)
        fprintf(f, " time %" PRIu64, item->time);
    fprintf(f, " seq %" PRIu64 "\n", item->seq);
}

static int show_items(FILE *f, struct mt_host_reader *r, const struct mt_dump_host *o,
                      struct threads *threads)
{
    int timed = (mt_host_reader_head(r)->features & MT_MTC_HAS_TIMES) != 0, code = 0, rc;
    struct mt_host_item item;
    struct mt_error err;
    while ((rc = mt_host_next(r, &item, &err)) != 0 && !ferror(f)) {
        if (rc < 0) {
            code = mt_cli_failed(&err);
            if (err.code == MT_E_SYSTEM || err.code == MT_E_STOPPED)
                break;
            continue;
        }
        struct thread *t = thread_of(threads, item.thread);
        if (!t)
            return mt_cli_fail("no memory for the threads");
        if (item.kind == MT_HOST_ITEM_EVENT) {
            t->events++;
            if (!o->stat && t->shown < o->head)
                show_event(f, r, &item, timed);
            continue;
        }
        for (size_t i = 0; i < item.count; i++) {
            if (o->stat)
                dump_host_count(r, t, &item.records[i]);
            else if (t->shown < o->head)
                show_record(f, r, &item, &item.records[i], timed);
            t->shown++;
        }
    }
    for (size_t i = 0; i < threads->n && !o->stat; i++)
        if (threads->list[i].shown > o->head)
            fprintf(f, "# %" PRIu64 " more records of thread %" PRId64 "\n", threads->list[i].shown - o->head,
                    (int64_t)threads->list[i].number);
    return code;
}

/* ---- the container ---- */

/* What a chunk's key says; valid until the next call. */
static const char *dump_host_whose(const struct mt_mtc_chunk *head)
{
    static char text[80];
    if (head->type == MT_MTC_DEVICE)
        snprintf(text, sizeof text, " stream %" PRIu32 " kernel %" PRIu32 "%s%s",
                 MT_MTC_KEY_STREAM(head->key), MT_MTC_KEY_KERNEL(head->key),
                 head->flags & MT_MTC_BEGIN ? " begin" : "", head->flags & MT_MTC_END ? " end" : "");
    else
        snprintf(text, sizeof text, " thread %" PRId64, (int64_t)head->key);
    return text;
}

static void show_chunks(FILE *f, struct mt_host_reader *r)
{
    static const char *const types[] = {
#define MT_MTC_CHUNK(name, code, text) [code] = text,
#include "memtrace/container.def"
    };
    for (size_t i = 0; i < r->chunks.count; i++) {
        const struct mt_mtc_index *e = &r->chunks.entries[i];
        struct mt_mtc_chunk head;
        const unsigned char *stored;
        struct mt_error err;
        const char *type = e->type < sizeof types / sizeof *types ? types[e->type] : NULL;
        fprintf(f, "chunk %" PRIu64 " %s", e->offset, type ? type : "unknown");
        if (mt_chunk_at(&r->window, e->offset, &head, &stored, &err) == MT_CHUNK_WHOLE)
            fprintf(f,
                    " items %" PRIu64 "%s seq %" PRIu64 "..%" PRIu64 " bytes %" PRIu64 " of %" PRIu64 "%s\n",
                    head.items, dump_host_whose(&head), head.first, head.last, head.stored_bytes,
                    head.plain_bytes, head.codec == MT_MTC_ZSTD ? " zstd" : "");
        else
            fprintf(f, " damaged\n");
    }
}

int mt_dump_chunks(FILE *f, const char *path)
{
    struct mt_error err;
    struct mt_host_reader *r = mt_host_reader_open(path, &mt_cli_stop, &err);
    if (!r)
        return mt_cli_failed(&err);
    show_chunks(f, r);
    mt_host_reader_close(r);
    return 0;
}

static void show_sites(FILE *f, const struct mt_companion *c)
{
    for (size_t i = 0; i < c->nsites; i++) {
        const struct mt_site_event *s = &c->sites[i];
        fprintf(f, "site %" PRIu64 " %s %" PRIu64 " bytes", s->id, s->op, s->size);
        if (s->ip)
            fprintf(f, " ip 0x%" PRIx64, s->ip);
        if (*s->var)
            fprintf(f, " of %s", s->var);
        if (*s->function)
            fprintf(f, " in %s", s->function);
        if (*s->file)
            fprintf(f, " at %s:%" PRIu64 ":%" PRIu64, s->file, s->line, s->column);
        if (*s->module)
            fprintf(f, " module %s", s->module);
        if (*s->text)
            fprintf(f, " '%s' reads '%s' writes '%s'", s->text, s->reads, s->writes);
        fputc('\n', f);
    }
}

static void show_head(FILE *f, const char *path, struct mt_host_reader *r)
{
    const struct mt_mtc_head *h = mt_host_reader_head(r);
    const struct mt_companion *c = mt_host_companion(r);
    fprintf(f, "container %s version %u.%u%s%s pid %" PRIu32 " start_ns %" PRIu64 " wall_ns %" PRIu64 "\n",
            path, h->version, h->minor, h->features & MT_MTC_HAS_HOST ? " host" : "",
            h->features & MT_MTC_HAS_TIMES ? " times" : "", h->pid, h->start_ns, h->wall_ns);
    if (c->has_header)
        fprintf(f, "# %s of %s by engine %s, tool %s\n", c->mode, c->program, c->engine, c->tool);
}

static int dump_host_finish(FILE *f, const char *path, const struct mt_companion *c)
{
    if (c->has_end)
        fprintf(f, "end %s: %" PRIu64 " records written, %" PRIu64 " counted\n",
                c->complete ? "complete" : "incomplete", c->records_written, c->records_counted);
    else
        fputs("# no end: " MT_NO_END "\n", f);
    if (c->left_out)
        fprintf(f, "left out: %" PRIu64 " accesses of libraries\n", c->left_out);
    if (c->children)
        fprintf(f, "not traced: %" PRIu64 " child processes\n", c->children);
    if (c->lost)
        fprintf(f, "lost %" PRIu64 " records: %s\n", c->lost, c->lost_why);
    if (c->bad_lines)
        mt_cli_say("%s: %llu meta lines cannot be read, the first: %s", path,
                   (unsigned long long)c->bad_lines, c->bad.message);
    if (c->has_end && c->complete && !c->bad_lines)
        return 0;
    mt_cli_say("%s: the trace is incomplete", path);
    return MT_EXIT_INPUT;
}

int mt_dump_host_show(FILE *f, const char *path, const struct mt_dump_host *o, struct mt_source **device)
{
    struct mt_error err;
    struct threads threads = {0};
    struct mt_host_reader *r = mt_host_reader_open(path, &mt_cli_stop, &err);
    if (!r)
        return mt_cli_failed(&err);
    if (mt_host_reader_head(r)->features & MT_MTC_HAS_DEVICE) {
        mt_host_reader_threads(r, mt_cli_processors());
        *device = mt_source_of_container(r, path, o->runs ? MT_SOURCE_RUNS | MT_SOURCE_SPACES : 0,
                                         &mt_cli_stop, &err);
        if (*device)
            return 0;
        return mt_cli_failed(&err);
    }
    if (o->chosen || o->runs) {
        mt_host_reader_close(r);
        return mt_cli_usage("%s: a container of host accesses has no kernels to choose from, and no runs",
                            path);
    }
    show_head(f, path, r);
    if (o->chunks)
        show_chunks(f, r);
    int code = show_items(f, r, o, &threads);
    const struct mt_companion *c = mt_host_companion(r);
    if (o->companion)
        mt_dump_companion(f, path, c);
    else if (o->sites)
        show_sites(f, c);
    if (o->stat)
        show_stat(f, &threads);
    int missing = code == MT_EXIT_FAILURE ? 0 : dump_host_finish(f, path, c);
    free(threads.list);
    mt_pairmap_free(&threads.at);
    mt_host_reader_close(r);
    return code ? code : missing;
}
