/* Mat mode: entries of a thread, events that need its attention, and single accesses (text, --threshold). */
#include "state.h"
#include "format/host_text.h"

/* Layout of a buffer's end: MT_CORE_SLACK entries that an engine may write after the limit, then events,
 * then a place for unwanted entries. */
#define PARK (MT_CORE_SLACK + 8u)
#define OPERANDS 8u /* maximum further operands after the end of a buffer */
#define RESERVE (PARK + MT_CORE_SLACK + OPERANDS + 8u)
#define END(b) (&(b)->entry[MT_BUFFER_ENTRIES_MAX])
#define PIECE 2048u /* entries until the next search for repeats: they are in the first-level cache */
#define ITEMS_MAX (1u << 18) /* accesses of a buffer, including those left out */

int mt_mat_active(const struct mt_core_thread_state *t)
{
    return __atomic_load_n(&mt_g.switched, __ATOMIC_RELAXED) &&
           (!mt_g.o->roi || __atomic_load_n(&mt_g.in_roi, __ATOMIC_RELAXED)) &&
           (!mt_g.o->routine.count || t->depth);
}

static enum mt_core_window mat_wanted(const struct mt_core_thread_state *t)
{
    if (!mt_mat_active(t))
        return MT_DISCARD;
    return mt_g.o->container && !mt_g.o->threshold ? MT_APPEND : MT_EACH;
}

static void set_cur(struct mt_core_thread_state *t, struct mt_host_entry *e)
{
    __atomic_store_n(&t->pub.cur, e, __ATOMIC_RELEASE);
}

static void mat_append(struct mt_core_thread_state *t, uint64_t address, uint32_t site, uint32_t size)
{
    struct mt_host_entry *e = t->pub.cur;
    *e = (struct mt_host_entry){address, site, size};
    set_cur(t, e + 1);
}

/* Appends an event, for which RESERVE entries are free. */
static void mat_event(struct mt_core_thread_state *t, enum mt_host_event kind, const uint64_t *args,
                      unsigned n)
{
    mat_append(t, n ? args[0] : 0, 0, (uint32_t)kind);
    for (unsigned i = 1; i < n; i++)
        mat_append(t, args[i], 0, 0);
}

static void clock_event(struct mt_core_thread_state *t)
{
    uint64_t now = mt_plat_now_ns();
    mat_event(t, MT_HOST_EV_CLOCK, &now, 1);
}

/* Hands the buffer to the sink; cur is then at the start of another one. */
static void hand_over(struct mt_core_thread_state *t)
{
    struct mt_buffer *b = t->buffer, *other;
    clock_event(t);
    b->count = (uint64_t)(t->pub.cur - b->entry);
    other = mt_core_sink_buffer(MT_BUFFER_ENTRIES, t->number, t->seq);
    if (other) {
        mt_core_sink_put(b);
        t->buffer = other;
    } else {
        mt_thread_lost(t, b->count + b->left_out);
        b->left_out = 0;
    }
    set_cur(t, t->buffer->entry);
    t->looked = t->pub.cur;
}

/* Removes repeats from the newest piece. */
static void mat_shorten(struct mt_core_thread_state *t)
{
    struct mt_buffer *b = t->buffer;
    uint64_t before = t->repeats.left_out;
    if (!mt_g.o->container || t->window != MT_APPEND || t->pub.cur - t->looked < PIECE)
        return;
    set_cur(t, mt_mtc_shorten(&t->repeats, b->entry, t->looked, t->pub.cur));
    b->left_out += t->repeats.left_out - before;
    t->looked = t->pub.cur;
}

static int mat_full(const struct mt_core_thread_state *t)
{
    const struct mt_buffer *b = t->buffer;
    return t->pub.cur >= END(b) - RESERVE ||
           (uint64_t)(t->pub.cur - b->entry) + b->left_out > ITEMS_MAX - 2 * PIECE;
}

/* Parks a thread after the end: its entries go nowhere, away from memory that is still being written out. */
static void mat_park(struct mt_core_thread_state *t)
{
    if (t->live && t->buffer && !t->parked) {
        t->parked = 1;
        t->buffer->count = (uint64_t)((t->window == MT_DISCARD ? t->kept : t->pub.cur) - t->buffer->entry);
    }
    t->window = MT_DISCARD;
    if (!t->live || !t->buffer) {
        set_cur(t, NULL);
        __atomic_store_n(&t->pub.limit, NULL, __ATOMIC_RELAXED);
        return;
    }
    t->kept = END(t->buffer) - PARK;
    set_cur(t, t->kept);
    __atomic_store_n(&t->pub.limit, END(t->buffer) - MT_CORE_SLACK, __ATOMIC_RELAXED);
}

static void log_seq(struct mt_core_thread_state *t)
{
    uint64_t seq = mt_seq_now();
    if (seq == t->seq)
        return;
    if (t->pub.cur == t->buffer->entry)
        t->buffer->seq = seq; /* nothing before it */
    else
        mat_event(t, MT_HOST_EV_SEQ, &seq, 1);
    t->seq = seq;
}

/* Sets the window for the present state. Called by the owner (or before the thread runs), with its lock. */
void mt_mat_look(struct mt_core_thread_state *t)
{
    uint64_t bell = __atomic_load_n(&mt_g.bell, __ATOMIC_SEQ_CST);
    t->bell = bell;
    if (!mt_on() || !t->live) {
        mat_park(t);
        return;
    }
    enum mt_core_window want = mat_wanted(t);
    if (t->window == MT_DISCARD)
        set_cur(t, t->kept);
    mat_shorten(t);
    if (mat_full(t))
        hand_over(t);
    struct mt_host_entry *limit = END(t->buffer) - RESERVE;
    if (limit - t->pub.cur > PIECE)
        limit = t->pub.cur + PIECE;
    if (want != MT_DISCARD && mt_g.o->container)
        log_seq(t);
    t->window = want;
    t->kept = t->pub.cur;
    if (want == MT_DISCARD)
        limit = END(t->buffer) - MT_CORE_SLACK;
    __atomic_store_n(&t->pub.limit, want == MT_EACH ? NULL : limit, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&mt_g.bell, __ATOMIC_SEQ_CST) != bell)
        __atomic_store_n(&t->pub.limit, NULL,
                         __ATOMIC_RELAXED); /* an event came meanwhile: check again at the next access */
}

void mt_mat_start(struct mt_core_thread_state *t)
{
    t->live = 1;
    t->kept = t->looked = t->pub.cur = t->buffer->entry;
    t->window = MT_APPEND;
    if (mt_g.o->container) {
        mat_event(t, MT_HOST_EV_THREAD_START, &t->number, 1);
        clock_event(t);
    }
    t->kept = t->pub.cur;
    mt_mat_look(t);
}

/* ---- one access ---- */

/* Writes the place of a site before its first access, under the file lock. */
static void show_place(struct mt_core_kept_site *s, uint64_t ip)
{
    char line[MT_TEXT_LINE];
    if (s->shown)
        return;
    s->shown = 1;
    if (*s->file && !mt_g.o->mat_files)
        mt_core_sink_text_locked(line, mt_text_mat_location(line, sizeof line, ip, s->file, s->line));
}

static void text_access(const struct mt_meaning *m, uint32_t site, uint64_t address, uint32_t size)
{
    char line[2 * MT_TEXT_LINE];
    struct mt_core_kept_site *s = mt_site_of(site);
    if (!s)
        return;
    struct mt_text_mat a = {.ip = s->ip ? s->ip : site,
                            .address = address,
                            .offset = m->id ? address - m->start : 0,
                            .base = m->start,
                            .size = size ? size : s->size[MT_HOST_OPERAND(site)],
                            .allocation = m->bytes,
                            .op = (enum mt_host_op)s->op[MT_HOST_OPERAND(site)],
                            .mat_files = mt_g.o->mat_files};
    size_t n = mt_text_mat_access(line, sizeof line, &a);
    if (!n)
        return;
    mt_core_sink_text_lock();
    show_place(s, a.ip);
    mt_core_sink_text_locked(line, n);
    mt_core_sink_text_unlock();
}

static void mat_one(struct mt_core_thread_state *t, uint32_t site, uint64_t address, uint32_t size)
{
    static const struct mt_meaning nothing;
    const struct mt_meaning *m = mt_alloc_meaning(t, address);
    if (!m->id && !(mt_g.o->all && !mt_g.o->threshold)) {
        mt_count(&t->outside, 1);
        return;
    }
    if (mt_g.o->container)
        mat_append(t, address, site, size);
    else
        text_access(m->id ? m : &nothing, site, address, size);
    t->kept = t->pub.cur;
}

/* Returns 1 for a further operand of an execution, whose operands stay together, without event or end of
 * buffer between them. */
static int mat_continues(const struct mt_core_thread_state *t, uint32_t site)
{
    return MT_HOST_OPERAND(site) && t->window == MT_APPEND && mt_on() && t->pub.cur > t->buffer->entry &&
           t->pub.cur < END(t->buffer) - RESERVE + MT_CORE_SLACK + OPERANDS;
}

static void mat_record(struct mt_core_thread_state *t, uint32_t site, uint64_t address, uint32_t size)
{
    if (t->pub.cur < t->buffer->entry ||
        t->pub.cur > END(t->buffer)) { /* an append was interrupted by another */
        set_cur(t, t->kept);
        mt_count(&t->lost, 1);
    }
    if (mat_continues(t, site)) {
        mat_append(t, address, site, size);
        return;
    }
    if (t->window != MT_EACH || t->bell != __atomic_load_n(&mt_g.bell, __ATOMIC_SEQ_CST) ||
        t->pub.cur >= END(t->buffer) - RESERVE)
        mt_mat_look(t);
    if (t->window == MT_APPEND)
        mat_append(t, address, site, size);
    else if (t->window == MT_EACH)
        mat_one(t, site, address, size);
}

void mt_core_record(struct mt_core_thread *pub, uint32_t site, uint64_t address, uint32_t size)
{
    struct mt_core_thread_state *t = pub->state;
    if (t->busy || !t->live) {
        mt_count(&t->lost, t->live && mt_on());
        return;
    }
    t->busy = 1;
    mt_spin_lock(&t->lock);
    if (t->buffer)
        mat_record(t, site, address, size);
    mt_spin_unlock(&t->lock);
    t->busy = 0;
}

int mt_core_room(struct mt_core_thread *pub)
{
    struct mt_core_thread_state *t = pub->state;
    if (mt_g.o->mode != MT_CORE_MAT || t->busy || !t->live)
        return 0;
    t->busy = 1;
    mt_spin_lock(&t->lock);
    if (t->buffer && t->pub.cur >= t->buffer->entry && t->pub.cur <= END(t->buffer))
        mt_mat_look(t);
    int room = t->buffer && t->window == MT_APPEND && t->pub.cur >= t->buffer->entry &&
               t->pub.cur < __atomic_load_n(&t->pub.limit, __ATOMIC_RELAXED);
    mt_spin_unlock(&t->lock);
    t->busy = 0;
    return room;
}

/* ---- events from outside ---- */

void mt_core_moved(struct mt_core_thread *pub)
{
    if (!mt_on() || mt_g.o->mode != MT_CORE_MAT)
        return;
    mt_core_ring();
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (!t || t->busy || !t->live)
        return;
    t->busy = 1;
    mt_spin_lock(&t->lock);
    mt_mat_look(t);
    mt_spin_unlock(&t->lock);
    t->busy = 0;
}

void mt_mat_end(struct mt_core_thread_state *t)
{
    if (t->busy) { /* a jump out of the core, after a fault there: its lock will never be free */
        mt_count(&t->lost, t->buffer ? (uint64_t)(t->pub.cur - t->buffer->entry) + t->buffer->left_out : 0);
        mt_g.incomplete = 1;
        return;
    }
    t->busy = 1;
    mt_spin_lock(&t->lock);
    if (t->live && mt_on()) {
        if (t->window == MT_DISCARD)
            set_cur(t, t->kept);
        t->window = MT_APPEND;
        if (t->pub.cur >= END(t->buffer) - RESERVE)
            hand_over(t);
        mat_event(t, MT_HOST_EV_THREAD_END, NULL, 0);
        clock_event(t);
        t->buffer->count = (uint64_t)(t->pub.cur - t->buffer->entry);
        mt_core_sink_put(t->buffer);
        t->buffer = NULL;
        set_cur(t, NULL);
        __atomic_store_n(&t->pub.limit, NULL, __ATOMIC_RELAXED);
    }
    mt_spin_unlock(&t->lock);
    t->busy = 0;
}

/* Stops a thread after tracing was switched off; the owner may still append beyond the entries taken here. */
void mt_mat_stop(struct mt_core_thread_state *t)
{
    struct mt_host_entry *cur = __atomic_load_n(&t->pub.cur, __ATOMIC_ACQUIRE);
    struct mt_buffer *b = t->buffer;
    if (!t->parked)
        b->count = (uint64_t)((t->window == MT_DISCARD ? t->kept : cur) - b->entry);
    t->parked = 1;
    mt_core_sink_put(b);
}

/* Handles start_roi and end_roi: all threads notice at their next access. */
void mt_mat_roi(struct mt_core_thread_state *t, int on)
{
    __atomic_store_n(&mt_g.in_roi, on ? 1u : 0u, __ATOMIC_SEQ_CST);
    mt_core_ring();
    if (!t || t->busy || !t->live)
        return;
    t->busy = 1;
    mt_spin_lock(&t->lock);
    if (mt_g.o->container && !t->parked) {
        if (t->window == MT_DISCARD)
            set_cur(t, t->kept);
        if (t->pub.cur >= END(t->buffer) - RESERVE)
            hand_over(t);
        mat_event(t, on ? MT_HOST_EV_START_ROI : MT_HOST_EV_END_ROI, NULL, 0);
        t->kept = t->pub.cur;
    }
    mt_mat_look(t);
    mt_spin_unlock(&t->lock);
    t->busy = 0;
}
