/* Merges several readers in one order of launches; host copies and accesses precede their next launch. */
#define _GNU_SOURCE

#include "reader/base/internal.h"
#include "memtrace/order.h"
#include "reader/container/container.h"
#include "memtrace/grow.h"

#include <unistd.h>

/* ---- streams of the process that no input has: a part must not pass for the whole run ---- */

static int by_number(const void *a, const void *b)
{
    const struct mt_stream_event *x = a, *y = b;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    return (x->why != NULL) - (y->why != NULL);
}

/* Lists the streams of the inputs, in order; a converted trace may have several. */
static size_t streams_read(const struct mt_source_merge *m, uint64_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        if (!c || mt_input_is_host(&m->inputs[i]))
            continue;
        out[n++] = c->stream;
        for (size_t k = 0; k < c->nlaunches; k++)
            if (c->launches[k].traced && c->launches[k].stream != out[n - 1])
                out[n++] = c->launches[k].stream;
    }
    qsort(out, n, sizeof *out, mt_order_u64);
    return n;
}

/* Returns the path of a file with this name beside the inputs, where the program wrote all. NULL: no
 * memory. */
static char *streams_path(const struct mt_source_merge *m, const char *name, const char *ending)
{
    const char *first = m->inputs[0].path, *slash = strrchr(first, '/');
    char *path;
    int n = asprintf(&path, "%.*s%s%s", slash ? (int)(slash - first) + 1 : 0, first, name, ending);
    return n < 0 ? NULL : path;
}

/* Returns 1 if a raw trace of this name lacks its companion file. Directories leave it out. */
static int streams_alone(const struct mt_source_merge *m, const char *trace)
{
    char *path = streams_path(m, trace, ""), *meta = streams_path(m, trace, ".meta");
    int alone = path && meta && *trace && access(path, F_OK) == 0 && access(meta, F_OK) != 0 &&
                !mt_is_container(path);
    free(path);
    free(meta);
    return alone;
}

/* Reads the streams from the companion file that has the process's events, if another one refers to it. */
static void streams_shared(struct mt_source_merge *m, const struct mt_companion *c)
{
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *d = mt_input_companion(&m->inputs[i]);
        size_t n = d && !mt_input_is_host(&m->inputs[i]) ? strlen(d->trace) : 0;
        if (n && !strncmp(c->shared, d->trace, n) && !strcmp(c->shared + n, ".meta"))
            return;
    }
    char *path = streams_path(m, c->shared, "");
    mt_merge_note(m, 1, "%s: the events of its process are in %s, %s", c->path, c->shared,
                  path && access(path, F_OK) == 0 ? "whose trace is not among the inputs"
                                                  : "which is not there");
    free(path);
}

/* Streams that are missing for one reason: their number, and the file of the first one. */
struct streams_missing {
    const char *trace;
    uint64_t count;
};

static void streams_count(struct streams_missing *s, const char *trace)
{
    if (!s->count++)
        s->trace = trace;
}

/* Notes streams that no companion file names, and streams of unknown order. */
static void streams_part(struct mt_source_merge *m, const struct streams_missing *unnamed,
                         const struct streams_missing *alone)
{
    if (unnamed->count == 1)
        mt_merge_note(
            m, 1,
            "this is a part of the run: the launches of another stream are in %s, which is not among "
            "the inputs; name it, too, or the folder",
            unnamed->trace);
    else if (unnamed->count)
        mt_merge_note(m, 1,
                      "this is a part of the run: the launches of %llu other streams are in %s and the like, "
                      "which are not among the inputs; name them, too, or the folder",
                      (unsigned long long)unnamed->count, unnamed->trace);
    if (alone->count)
        mt_merge_note(m, 1,
                      "this is a part of the run: the launches of %llu other stream%s are in %s%s, whose "
                      "companion %s.meta is missing: without it the launches there cannot be put in order",
                      (unsigned long long)alone->count, alone->count == 1 ? "" : "s", alone->trace,
                      alone->count == 1 ? "" : " and the like", alone->trace);
}

static void streams_tell(struct mt_source_merge *m, const struct mt_stream_event *all, size_t n,
                         const uint64_t *read, size_t nread)
{
    struct streams_missing unnamed = {0}, alone = {0};
    uint64_t refused = 0;
    for (size_t i = 0; i < n; i++) {
        const struct mt_stream_event *e = &all[i];
        if (i && e->stream == all[i - 1].stream)
            continue;
        if (e->why) {
            if (!refused++)
                mt_merge_note(m, 1, "stream %llu of the process has no trace: %s",
                              (unsigned long long)e->stream, e->why);
        } else if (!bsearch(&e->stream, read, nread, sizeof *read, mt_order_u64)) {
            streams_count(streams_alone(m, e->trace) ? &alone : &unnamed, e->trace);
        }
    }
    if (refused > 1)
        mt_merge_note(m, 1, "%llu more streams of the process have no trace",
                      (unsigned long long)refused - 1);
    streams_part(m, &unnamed, &alone);
}

/* Notes streams of the inputs' process that are not among the inputs. Returns 0, or -1 without memory. */
static int note_streams(struct mt_source_merge *m)
{
    size_t nall = 0, nread = 0, n = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        nall += c ? c->nstreams : 0;
        nread += c ? 1 + c->nlaunches : 0;
    }
    struct mt_stream_event *all = malloc((nall + 1) * sizeof *all);
    uint64_t *read = malloc((nread + 1) * sizeof *read);
    for (size_t i = 0; all && read && i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        if (!c || mt_input_is_host(&m->inputs[i]))
            continue;
        if (*c->shared)
            streams_shared(m, c);
        if (c->nstreams)
            memcpy(all + n, c->streams, c->nstreams * sizeof *all);
        n += c->nstreams;
    }
    int rc = all && read ? 0 : -1;
    if (!rc) {
        qsort(all, n, sizeof *all, by_number);
        nread = streams_read(m, read);
        streams_tell(m, all, n, read, nread);
    }
    free(all);
    free(read);
    return rc;
}

void mt_merge_note(struct mt_source_merge *m, int incomplete, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    if (m->again)
        return;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    m->incomplete |= incomplete;
    char *visible = n >= 0 ? mt_text_visible_copy(text, (size_t)n) : NULL; /* the text contains paths */
    if (n >= 0)
        free(text);
    if (visible && mt_grow(&m->notes, &m->note_room, m->nnotes + 1, sizeof *m->notes) == 0) {
        m->notes[m->nnotes++] = visible;
    } else {
        free(visible);
        m->out_of_memory = 1;
    }
}

/* Returns the number of launches with records, from indexes and companion files; 0: not known. */
static uint64_t merge_launches(const struct mt_source_merge *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_input *in = &m->inputs[i];
        const struct mt_companion *c = mt_input_companion(in);
        size_t some = 0;
        if (in->ops == &mt_device_input)
            mt_device_launches(in->container.reader, &some);
        else if (in->ops->pull)
            for (size_t k = 0; c && k < c->nlaunches; k++)
                some += (size_t)c->launches[k].traced;
        if (in->ops->pull && !some)
            return 0;
        n += some;
    }
    return n;
}

/* Notes how far reading got before it stopped; `launches`: total, or 0. */
static void merge_note_stop(struct mt_source_merge *m, const char *message, uint64_t launches)
{
    char bytes[40] = "", of[80] = "";
    if (m->total)
        snprintf(bytes, sizeof bytes, " of %llu", (unsigned long long)m->total);
    if (launches)
        snprintf(of, sizeof of, ", %llu of %llu launches", (unsigned long long)m->superstep,
                 (unsigned long long)launches);
    mt_merge_note(m, 1, "%s: interrupted after %llu%s bytes%s", message,
                  (unsigned long long)__atomic_load_n(&m->done, __ATOMIC_RELAXED), bytes, of);
}

void mt_merge_problem(struct mt_source_merge *m, const struct mt_error *problem)
{
    if (problem->code == MT_E_STOPPED)
        m->stopped = 1;
    if (m->again)
        return;
    if (problem->code == MT_E_STOPPED)
        merge_note_stop(m, problem->message, m->threads ? 0 : merge_launches(m));
    else
        mt_merge_note(m, 1, "%s", problem->message);
    if (mt_grow(&m->problems, &m->problem_room, m->nproblems + 1, sizeof *m->problems) != 0)
        m->out_of_memory = 1;
    else
        m->problems[m->nproblems++] = *problem;
}

/* Returns the input with the next launch, with that launch's seq; ninputs at the end. */
static size_t merge_choose(struct mt_source_merge *m, uint64_t *seq)
{
    size_t best = m->ninputs;
    *seq = MT_SEQ_NONE;
    for (size_t i = 0; i < m->ninputs; i++) {
        struct mt_input *in = &m->inputs[i];
        if (in->pass.finished || !in->ops->pull)
            continue;
        uint64_t s = in->ops->peek(in);
        if (best == m->ninputs || s < *seq) {
            best = i;
            *seq = s;
        }
        if (!m->ordered)
            break;
    }
    return best;
}

static void check_launch(struct mt_source_merge *m, struct mt_input *in)
{
    const struct mt_launch_event *e = m->launch;
    uint64_t records = e ? e->records + (m->spaces ? e->others : 0) : 0;
    if (e && e->has_records && records != in->pass.in_launch && !in->pass.mismatch) {
        in->pass.mismatch = 1;
        mt_merge_note(m, 1, "%s: launch %llu of the trace has %llu records, its companion says %llu",
                      in->path, (unsigned long long)in->pass.launches, (unsigned long long)in->pass.in_launch,
                      (unsigned long long)records);
    }
    if (e && !in->pass.mismatch && mt_raw_input_differs(in, e)) {
        in->pass.mismatch = 1;
        mt_merge_note(m, 1, MT_OTHER_RUN, in->path, (unsigned long long)in->pass.launches,
                      (unsigned long long)in->raw.first, in->companion->path);
    }
}

/* Begins a launch. `e`: its line in the companion file, or NULL. */
static void launch_begins(struct mt_source_merge *m, struct mt_input *in, const char *kernel,
                          const struct mt_launch_event *e)
{
    m->launch = e;
    in->pass.in_launch = 0;
    m->kernel = mt_intern_add(&m->names, kernel, strlen(kernel));
    if (!m->kernel) {
        m->kernel = "";
        m->out_of_memory = 1;
    }
    if (m->launch && strcmp(m->launch->kernel, kernel) != 0) {
        if (!in->pass.mismatch)
            mt_merge_note(
                m, 1, "%s: launch %llu is of '%s', its companion says '%s': the two do not belong together",
                in->path, (unsigned long long)in->pass.launches, kernel, m->launch->kernel);
        in->pass.mismatch = 1;
        m->launch = NULL;
    }
}

static void launch_ends(struct mt_source_merge *m, struct mt_input *in)
{
    if (!m->stopped)
        check_launch(m, in);
    in->pass.launches++;
    m->superstep++;
    m->current = m->ninputs;
}

int mt_merge_start(struct mt_source_merge *m, struct mt_error *err)
{
    for (size_t i = 0; i < m->ninputs; i++)
        if (mt_input_start(&m->inputs[i], &m->stop, err) != 0)
            return -1;
    m->next_copy = 0;
    m->current = m->ninputs;
    m->superstep = 0;
    __atomic_store_n(&m->done, 0, __ATOMIC_RELAXED);
    return 0;
}

/* Completes an item of launch m->superstep, input i. */
static void hand_out(struct mt_source_merge *m, size_t i, uint64_t accesses, unsigned flags,
                     struct mt_item *item)
{
    struct mt_input *in = &m->inputs[i];
    in->pass.in_launch += accesses;
    in->pass.records += accesses;
    item->superstep = m->superstep;
    item->kernel = m->kernel;
    item->flags = flags;
    item->input = i;
    item->launch = m->launch;
    m->current = i;
    if (flags & MT_BATCH_END)
        launch_ends(m, in);
}

/* Pulls the next batch of input i. Returns 1, or 0 if there is none this time; the input may be finished. */
static int merge_pull(struct mt_source_merge *m, size_t i, struct mt_raw_record *room,
                      struct mt_access_run *runs, size_t capacity, struct mt_item *item)
{
    struct mt_input *in = &m->inputs[i];
    struct mt_pulled p = {0};
    struct mt_error problem;
    int rc = m->current == m->ninputs && (m->superstep < m->first || m->superstep >= m->end) &&
             mt_device_input_pass(in, item, &p);
    if (rc > 0)
        item->kind = runs ? MT_ITEM_RUNS : MT_ITEM_BATCH;
    else
        rc = in->ops->pull(in, &m->stop, room, runs, capacity, item, &p, &problem);
    __atomic_fetch_add(&m->done, p.bytes, __ATOMIC_RELAXED);
    if (rc > 0) {
        if (item->flags & MT_BATCH_BEGIN) {
            if (m->current == i) /* the previous launch has no end */
                launch_ends(m, in);
            launch_begins(m, in, p.kernel, p.event);
        }
        hand_out(m, i, p.accesses, item->flags, item);
        return 1;
    }
    in->pass.damaged |= rc < 0;
    if (rc < 0)
        mt_merge_problem(m, &problem);
    if (p.over && m->current == i)
        launch_ends(m, in);
    return 0;
}

/* Returns 1 if an input whose next launch has no number has more; otherwise it is finished. */
static int merge_more(struct mt_source_merge *m, size_t i)
{
    struct mt_input *in = &m->inputs[i];
    struct mt_item none;
    struct mt_raw_record room[1];
    int more = in->ops->more(in);
    while (more < 0 && !in->pass.finished &&
           merge_pull(m, i, room, NULL, 1, &none) == 0) /* there was nothing but problems */
        ;
    in->pass.finished |= !more;
    return !in->pass.finished;
}

/* Kind of the next item between launches. */
enum next { NEXT_END, NEXT_COPY, NEXT_HOST, NEXT_LAUNCH };

/* Chooses the next item. *launch and *host: inputs with the next launch and the next host accesses. At equal
 * numbers the call itself comes first: host accesses with its number happened after it began. */
static enum next merge_decide(struct mt_source_merge *m, size_t *launch, size_t *host)
{
    for (;;) {
        uint64_t seq, host_seq = MT_SEQ_NONE;
        size_t i = *launch = merge_choose(m, &seq);
        size_t h = *host = m->hosts ? mt_merge_host(m, &host_seq) : m->ninputs;
        if (m->next_copy < m->ncopies && m->copies[m->next_copy].seq < seq &&
            (h == m->ninputs || m->copies[m->next_copy].seq <= host_seq)) {
            if (h == m->ninputs && i == m->ninputs)
                return NEXT_END; /* copies after the last launch are not needed */
            if (h == m->ninputs && seq == MT_SEQ_NONE && !merge_more(m, i))
                continue;
            return NEXT_COPY;
        }
        if (h < m->ninputs && (i == m->ninputs || host_seq < seq))
            return NEXT_HOST;
        return i < m->ninputs ? NEXT_LAUNCH : NEXT_END;
    }
}

/* Returns 1 if new memory precedes the next accesses of host code, within its launch. */
static int merge_copy_within(struct mt_source_merge *m, size_t i)
{
    uint64_t seq;
    return m->threads && m->next_copy < m->ncopies &&
           (seq = mt_threads_input_seq(&m->inputs[i])) != MT_SEQ_NONE && m->copies[m->next_copy].seq <= seq;
}

int mt_merge_next(struct mt_source_merge *m, struct mt_raw_record *room, struct mt_access_run *runs,
                  size_t capacity, struct mt_item *item, struct mt_error *err)
{
    _Static_assert(sizeof(struct mt_host_access) == sizeof(struct mt_raw_record), "both use the same room");
    while (!m->stopped) {
        size_t i = m->current, host = i;
        if (i == m->ninputs || merge_copy_within(m, i)) {
            switch (i < m->ninputs ? NEXT_COPY : merge_decide(m, &i, &host)) {
            case NEXT_END:
                return 0;
            case NEXT_COPY:
                *item = (struct mt_item){.kind = MT_ITEM_COPY,
                                         .superstep = m->superstep,
                                         .input = i < m->ninputs ? i : host,
                                         .copy = &m->copies[m->next_copy++]};
                return 1;
            case NEXT_HOST:
                mt_merge_host_take(m, host, (struct mt_host_access *)(void *)room, capacity, item);
                return 1;
            case NEXT_LAUNCH:
                break;
            }
        }
        int got = merge_pull(m, i, room, runs, capacity, item);
        if (m->out_of_memory)
            return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, m->inputs[i].path, "no memory while reading");
        if (got)
            return 1;
    }
    return 0;
}

/* Returns the lines on the input's end, if a compact trace lacks them those of the companion file beside
 * it. */
static const struct mt_companion *merge_ending(const struct mt_input *in)
{
    const struct mt_companion *c = mt_input_companion(in);
    return c && !c->has_end && in->beside && in->beside->has_end ? in->beside : c;
}

static void check_end(struct mt_source_merge *m, const struct mt_input *in)
{
    const struct mt_companion *c = merge_ending(in);
    uint64_t traced = 0;
    for (size_t i = 0; i < c->nlaunches; i++)
        traced += (uint64_t)c->launches[i].traced;
    if (c != mt_input_companion(in))
        mt_merge_note(m, 1, "%s: its last lines are missing, %s says how it ended", in->path, c->path);
    if (c->bad_lines)
        mt_merge_note(m, 1, "%s (%llu line%s of the companion left out)", c->bad.message,
                      (unsigned long long)c->bad_lines, c->bad_lines == 1 ? "" : "s");
    if (c->lost)
        mt_merge_note(m, 1, "%s: %llu records were lost: %s", c->path, (unsigned long long)c->lost,
                      c->lost_why);
    if (!c->has_end) {
        mt_merge_note(m, 1, "%s: has no end: " MT_NO_END, c->path);
        return;
    }
    if (!c->complete && !c->lost)
        mt_merge_note(m, 1, "%s: says that the trace is incomplete%s%s", c->path, *c->lost_why ? ": " : "",
                      c->lost_why);
    if (c->records_counted != c->records_written)
        mt_merge_note(m, 1, "%s: %s %llu records, %llu were written", c->path,
                      mt_input_is_host(in) ? "the program made" : "the device counted",
                      (unsigned long long)c->records_counted, (unsigned long long)c->records_written);
    if (mt_input_is_host(in))
        return; /* its chunks are counted one by one */
    uint64_t records = c->records_written + (m->spaces ? c->others_written : 0);
    if (c->has_written && records != in->pass.records)
        mt_merge_note(m, 1, "%s: has %llu records, its companion says %llu", in->path,
                      (unsigned long long)in->pass.records, (unsigned long long)records);
    if (traced != in->pass.launches)
        mt_merge_note(m, 1, "%s: has %llu launches, its companion says %llu", in->path,
                      (unsigned long long)in->pass.launches, (unsigned long long)traced);
}

/* Checks a compact trace against the companion file beside it: each may be an older state of the other. */
static void check_beside(struct mt_source_merge *m, const struct mt_input *in)
{
    const struct mt_companion *c = in->companion, *b = in->beside;
    if (!b || b == c || !c->has_end || (b->complete >= c->complete && b->lost <= c->lost && !b->bad_lines))
        return;
    if (b->lost)
        mt_merge_note(m, 1, "%s: says otherwise than %s: %llu records were lost: %s", b->path, in->path,
                      (unsigned long long)b->lost, b->lost_why);
    else
        mt_merge_note(m, 1, "%s: says otherwise than %s: that the trace is incomplete%s%s", b->path, in->path,
                      *b->lost_why ? ": " : "", b->lost_why);
}

/* Notes that volumes are of a part only. */
static void note_parts(struct mt_source_merge *m)
{
    uint64_t parts = 0;
    for (size_t i = 0; i < m->ninputs; i++) {
        const struct mt_companion *c = mt_input_companion(&m->inputs[i]);
        for (size_t k = 0; c && k < c->nlaunches; k++) {
            const struct mt_launch_event *l = &c->launches[k];
            parts += l->traced && l->has_ctas && l->traced_ctas < l->grid[0] * l->grid[1] * l->grid[2];
        }
    }
    if (parts)
        mt_merge_note(m, 0,
                      "%llu launch%s not traced whole (MEMTRACE_CTAS, MEMTRACE_SAMPLE): records and volumes "
                      "are those of the traced CTAs",
                      (unsigned long long)parts, parts == 1 ? " is" : "es are");
}

void mt_merge_finish(struct mt_source_merge *m)
{
    if (m->finished)
        return;
    m->finished = 1;
    for (size_t i = 0; i < m->ninputs && !m->stopped; i++) {
        struct mt_input *in = &m->inputs[i];
        struct mt_error err;
        if (in->ops->end(in, &m->stop, &err) != 0)
            mt_merge_note(m, 1, "%s", err.message);
        struct mt_host_reader *container = mt_input_container(in);
        if (mt_input_companion(in))
            check_end(m, in);
        else if (!in->pass.damaged && !(container && mt_companion_speaks(mt_host_companion(container))))
            mt_merge_note(m, MT_NOT_KNOWN, "%s: is read without companion: nothing says whether it is whole",
                          in->path);
        check_beside(m, in);
    }
    note_parts(m);
    if (!m->stopped && note_streams(m) != 0)
        m->out_of_memory = 1;
}
