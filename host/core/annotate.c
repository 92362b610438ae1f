/* Calls and returns of traced functions; those of the annotation library are commands to us. */
#include "atomic.h"

struct event {
    enum mt_host_event kind;
    uint64_t args[5];
    unsigned n;
};

static void log_event(struct mt_core_thread_state *t, uint64_t time, void *arg)
{
    const struct event *e = arg;
    mt_atomic_event(t, time, e->kind, e->args, e->n);
    mt_atomic_publish(t);
}

/* Logs in the order of its thread. Nameless threads have none, so there all threads are moved to one time. */
static void log_in_thread(struct mt_core_thread_state *t, struct event *e)
{
    if (!t || t->name < 0) {
        mt_order_sync(NULL, log_event, e);
        return;
    }
    mt_spin_lock(&t->lock);
    uint64_t time = t->time + 1;
    mt_atomic_event(t, time, e->kind, e->args, e->n);
    int due = mt_atomic_due(t);
    mt_spin_unlock(&t->lock);
    if (due)
        mt_atomic_write(t, time);
}

/* Gives later times to accesses of a thread that gets memory freed by another. A free is logged before it
 * happens, an allocation after. */
static void annotate_meet(struct mt_core_thread_state *t)
{
    static uint64_t last;
    uint64_t seen = __atomic_load_n(&last, __ATOMIC_ACQUIRE);
    while (seen < t->time &&
           !__atomic_compare_exchange_n(&last, &seen, t->time, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    if (seen > t->time)
        t->time = seen;
}

void mt_atomic_moved(struct mt_core_thread_state *t)
{
    uint64_t seq = mt_seq_now();
    if (!t->live || t->name < 0 || !t->buffer)
        return;
    mt_spin_lock(&t->lock);
    mt_turns_close(t); /* its time is then known */
    annotate_meet(t);
    mt_atomic_event(t, t->time, MT_HOST_EV_SEQ, &seq, 1); /* takes no time: text has no such line */
    int due = mt_atomic_due(t);
    uint64_t time = t->time;
    mt_spin_unlock(&t->lock);
    if (due)
        mt_atomic_write(t, time);
}

static int annotate_taken(const struct mt_core_thread_state *t, int64_t name)
{
    for (uint32_t i = 0; i < mt_g.slots; i++)
        if (mt_g.slot[i] != t && mt_g.slot[i]->live && mt_g.slot[i]->name == name)
            return 1;
    return 0;
}

static void log_register(struct mt_core_thread_state *t, uint64_t time, void *arg)
{
    uint64_t name = *(uint64_t *)arg;
    static int said;
    if ((int64_t)name < 0 || annotate_taken(t, (int64_t)name)) {
        if (!said++)
            mt_plat_report("register_thread(%lld): %s; the call is ignored", (long long)name,
                           (int64_t)name < 0 ? "a name is 0 or more"
                                             : "another running thread has this name");
        return;
    }
    if (t->name >= 0) {
        mt_atomic_event(t, time, MT_HOST_EV_THREAD_END, NULL, 0);
        mt_atomic_publish(t);
    }
    t->name = (int64_t)name;
    mt_atomic_event(t, time, MT_HOST_EV_THREAD_START, &name, 1);
    mt_atomic_publish(t);
}

static void log_roi(struct mt_core_thread_state *t, uint64_t time, void *arg)
{
    int on = *(int *)arg;
    __atomic_store_n(&mt_g.in_roi, on ? 1u : 0u, __ATOMIC_SEQ_CST);
    mt_atomic_event(t, time, on ? MT_HOST_EV_START_ROI : MT_HOST_EV_END_ROI, NULL, 0);
    mt_atomic_publish(t);
}

static void annotate_run(struct mt_core_thread_state *t, uint32_t function, uint64_t argument)
{
    int on = function == MT_CORE_FN_START_ROI;
    if (function != MT_CORE_FN_REGISTER)
        mt_order_sync(t && t->name >= 0 ? t : NULL, log_roi, &on);
    else if (t && mt_g.o->registered && t->name != (int64_t)argument)
        mt_order_sync(t, log_register, &argument);
}

/* Enters a callback, which holds no address locks as the instruction is over. Returns 0 if not possible
 * now. */
static int annotate_enter(struct mt_core_thread_state *t)
{
    if (!mt_on() || (t && (t->busy || !t->live)))
        return 0;
    if (!t)
        return 1;
    t->busy = 1;
    t->pending = 0;
    mt_spin_lock(&t->lock); /* a thread that starts may change it (mt_alone_join) */
    mt_turns_close(t);
    mt_spin_unlock(&t->lock);
    if (t->held)
        mt_order_release(t, 0);
    return 1;
}

static void annotate_leave(struct mt_core_thread_state *t)
{
    if (t)
        t->busy = 0;
}

/* Handles functions in mat mode: those of --routine. A frame left by longjmp or an exception is noticed at
 * the next entry above it. */
static void mat_call(struct mt_core_thread *pub, uint32_t function, uint64_t sp)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (function == MT_CORE_FN_START_ROI || function == MT_CORE_FN_END_ROI) {
        mt_mat_roi(t, function == MT_CORE_FN_START_ROI);
    } else if (t && function > MT_CORE_FN_END_ROI) {
        if (t->depth && sp && t->outer && sp > t->outer)
            t->depth = 0;
        if (!t->depth)
            t->outer = sp;
        mt_core_routine_enter(pub);
    }
}

void mt_core_call(struct mt_core_thread *pub, uint32_t function, uint64_t sp, const uint64_t a[3])
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (mt_on() && mt_g.o->mode == MT_CORE_MAT)
        mat_call(pub, function, sp);
    if (!function || mt_g.o->mode != MT_CORE_ATOMIC || !annotate_enter(t))
        return;
    struct event e = {MT_HOST_EV_CALL, {function, sp, a[0], a[1], a[2]}, 5};
    if (function <= MT_CORE_FN_END_ROI)
        annotate_run(t, function, a[0]);
    else
        log_in_thread(t, &e);
    annotate_leave(t);
}

void mt_core_return(struct mt_core_thread *pub, uint32_t function, uint64_t sp, uint64_t value)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (function <= MT_CORE_FN_END_ROI || !mt_on())
        return;
    if (mt_g.o->mode == MT_CORE_MAT)
        mt_core_routine_leave(pub);
    if (mt_g.o->mode != MT_CORE_ATOMIC || !annotate_enter(t))
        return;
    struct event e = {MT_HOST_EV_RETURN, {function, sp, value}, 3};
    log_in_thread(t, &e);
    annotate_leave(t);
}

void mt_core_context_change(struct mt_core_thread *pub)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (!mt_on() || mt_g.o->mode != MT_CORE_ATOMIC || !annotate_enter(t))
        return;
    struct event e = {MT_HOST_EV_CONTEXT, {0}, 0};
    log_in_thread(t, &e);
    annotate_leave(t);
}
