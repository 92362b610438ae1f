/* Threads of instrumented code: the pointer to their append position, and the paths taken when there is no
 * room. */
#include "entry.h"
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum mt_phase mt_phase;
int mt_atomic, mt_silent;
__thread struct mt_self mt_self;
static pthread_key_t key;
static int have_key;
static struct mt_core_thread nobody; /* never written: its limit is NULL, so nothing is appended */
__thread struct mt_core_thread *__mt_host_current = &nobody;
__thread const struct mt_host_alloc_location *__mt_host_place;

/* Directs a thread that is not traced to a buffer that is overwritten again and again, large so that it is
 * called less often. */
static void use_waste(struct mt_self *s)
{
    if (!s->waste && !mt_silent && s->rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
        long p = syscall(SYS_mmap, NULL, (MT_WASTE + MT_SCRATCH) * sizeof *s->waste, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
        s->waste = p == -1 ? NULL : (struct mt_host_entry *)p;
        if (s->waste && have_key)
            pthread_setspecific(key, s); /* to free it at the thread's end */
    }
    s->scratch.cur = s->waste ? s->waste : s->entry;
    s->scratch.limit = s->waste ? s->waste + MT_WASTE : s->entry + MT_SCRATCH;
}

static void use_scratch(struct mt_self *s, int forever)
{
    s->scratch.cur = s->entry;
    s->scratch.limit = NULL;
    if (forever)
        use_waste(s);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __mt_host_current = &s->scratch;
}

void mt_thread_off(void)
{
    mt_self.state = 2;
    mt_self.core = NULL;
    use_scratch(&mt_self, 1);
}

static void thread_hold(void)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mt_self.cancel_state);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &mt_self.cancel_type);
}

void mt_cancel_ask(void)
{
    if (mt_self.state != 1)
        thread_hold();
    else
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &mt_self.cancel_type);
}

/* Wraps the program's calls and ours, so that an access need not ask. */
MT_ENTRY int pthread_setcanceltype(int type, int *old)
{
    static int (*real)(int, int *);
    if (!real)
        real = (int (*)(int, int *))mt_next("pthread_setcanceltype");
    int rc = real(type, old);
    if (!rc)
        mt_self.asynchronous = type == PTHREAD_CANCEL_ASYNCHRONOUS;
    return rc;
}

/* A pending asynchronous cancellation ends the thread here. */
void mt_cancel_restore(void)
{
    if (mt_self.cancel_state >= 0)
        pthread_setcancelstate(mt_self.cancel_state, NULL);
    if (mt_self.cancel_type != PTHREAD_CANCEL_DEFERRED)
        pthread_setcanceltype(mt_self.cancel_type, NULL);
}

void mt_enter(void)
{
    if (!mt_self.inside++)
        thread_hold();
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void mt_leave(void)
{
    struct mt_self *s = &mt_self;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (s->inside == 1)
        mt_cancel_back();
    s->inside--;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (!s->inside && __builtin_expect(s->held, 0))
        mt_signals_release();
}

/* Cleans up after pthread_cancel ended the thread as it left the core, or in an access of atomic mode. */
static void thread_free(struct mt_self *s)
{
    if (s->core && (s->locked || mt_access_open(s)))
        mt_core_atomic_drop(s->core, NULL);
    s->locked = 0;
    s->inside = 0;
    if (s->held)
        mt_signals_release();
}

/* Ends a thread; other destructors may run traced code, so this comes last. */
static void at_end(void *self)
{
    struct mt_self *s = self;
    thread_free(s);
    if (++s->rounds < PTHREAD_DESTRUCTOR_ITERATIONS && !pthread_setspecific(key, s))
        return;
    mt_enter();
    struct mt_core_thread *t = mt_llvm_thread();
    mt_thread_off();
    if (t)
        mt_core_thread_end(t);
    if (s->first) { /* pthread_exit in main: the process lasts as long as any thread, including ours */
        s->busy++;
        mt_core_worker_end();
        s->busy--;
    }
    if (mt_phase == MT_PHASE_ON) { /* the last thread runs the program's exit handlers: it begins anew then */
        s->state = 0;
        __mt_host_current = &nobody;
    } else {
        use_scratch(s, 0);
        s->scratch.limit = s->entry + MT_SCRATCH;
    }
    if (s->waste && !mt_silent)
        syscall(SYS_munmap, s->waste, (MT_WASTE + MT_SCRATCH) * sizeof *s->waste);
    s->waste = NULL;
    mt_leave();
}

int mt_threads_open(void)
{
    have_key = !pthread_key_create(&key, at_end);
    mt_self.first = have_key && getpid() == (pid_t)syscall(SYS_gettid) && !pthread_setspecific(key, &mt_self);
    return have_key ? 0 : -1;
}

static void thread_begin(struct mt_self *s)
{
    s->state = 1;
    s->busy++;
    use_scratch(s, 0);
    if (!s->ours && mt_phase == MT_PHASE_ON) {
        s->core = mt_core_thread_start((uint64_t)syscall(SYS_gettid));
        if (s->core)
            pthread_setspecific(key, s);
    }
    s->busy--;
    if (s->core)
        __mt_host_current = s->core;
    else
        mt_thread_off();
}

/* Takes entries that signal handlers left. */
static void take_handlers(struct mt_self *s)
{
    for (size_t i = 0; i < s->waiting; i++) {
        const struct mt_host_entry *e = &s->handler_entry[i];
        mt_core_record(s->core, e->site, e->address, e->size);
    }
    s->waiting = 0;
}

/* Takes entries of the group in the scratch buffer. After the end of the trace they are in `waste` and
 * dropped. */
static void take_scratch(struct mt_self *s)
{
    size_t bytes = (uintptr_t)s->scratch.cur - (uintptr_t)s->entry, n = bytes / sizeof *s->entry;
    if (bytes > sizeof s->entry)
        return;
    s->scratch.cur = s->entry;
    __mt_host_current = s->core;
    if (mt_atomic && n) /* a module not built for atomic mode */
        mt_core_lost(s->core, n);
    for (size_t i = 0; i < n && !mt_atomic; i++)
        mt_core_record(s->core, s->entry[i].site, s->entry[i].address, s->entry[i].size);
}

struct mt_core_thread *mt_llvm_thread(void)
{
    struct mt_self *s = &mt_self;
    if (s->state == 0 && mt_phase == MT_PHASE_ON && !s->handlers)
        thread_begin(s);
    if (__mt_host_current == &s->handler)
        mt_handler_left();
    if (!s->core || s->busy || __mt_host_current == &s->handler)
        return NULL;
    if (__mt_host_current == &s->scratch) /* left in the middle of a group */
        take_scratch(s);
    if (s->waiting)
        take_handlers(s);
    if (s->lost) {
        mt_core_lost(s->core, s->lost);
        s->lost = 0;
    }
    return s->core;
}

/* Handles a full buffer of a handler: its entries behind the limit are lost, and overwritten. */
static void thread_overflow(struct mt_self *s)
{
    s->lost += (uint64_t)(s->handler.cur - s->handler.limit);
    s->handler.cur = s->handler.limit;
}

void mt_waste(void)
{
    use_scratch(&mt_self, 1);
}

void mt_slow(void)
{
    struct mt_self *s = &mt_self;
    mt_enter();
    struct mt_core_thread *t = mt_llvm_thread();
    if (__mt_host_current == &s->handler)
        thread_overflow(s);
    else if (!t || mt_phase == MT_PHASE_OFF || !mt_core_room(t)) {
        int off = s->state == 2 || mt_phase == MT_PHASE_OFF;
        s->lost += !t && !off; /* too early, or inside the tracer */
        use_scratch(s, off);
    }
    mt_leave();
}

void mt_drain(void)
{
    struct mt_self *s = &mt_self;
    mt_enter();
    if (__mt_host_current == &s->scratch && s->core && !s->busy)
        take_scratch(s);
    mt_leave();
}

void mt_record(uint64_t address, uint64_t word)
{
    struct mt_self *s = &mt_self;
    mt_enter();
    struct mt_core_thread *t = mt_llvm_thread();
    if (mt_phase == MT_PHASE_OFF)
        t = NULL; /* NULL: appends to a buffer that fills less often */
    if (t && !mt_atomic)
        mt_core_record(t, (uint32_t)word, address, (uint32_t)(word >> 32));
    else if (t || __mt_host_current == &s->handler || mt_phase == MT_PHASE_EARLY)
        s->lost++;
    else if (!t && __mt_host_current == &nobody)
        mt_thread_off();
    else if (!t)
        use_scratch(s, 1);
    mt_leave();
}

void mt_access(uint32_t site, uint64_t address, uint64_t bytes)
{
    const uint64_t most = 1u << 30;
    if (!bytes)
        return;
    mt_enter();
    struct mt_core_thread *t = mt_llvm_thread();
    if (t && mt_atomic) {
        mt_self.lost++; /* a module not built for atomic mode */
        t = NULL;
    } else if (!t && !mt_atomic && __mt_host_current == &mt_self.handler)
        t = &mt_self.handler;
    for (uint64_t done = 0; t && done < bytes; done += most) {
        uint32_t size = (uint32_t)(bytes - done < most ? bytes - done : most);
        if (t == &mt_self.handler && t->cur >= t->limit)
            mt_self.lost++;
        else
            mt_core_access(t, site, address + done, size);
    }
    mt_leave();
}
