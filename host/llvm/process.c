/* Start: MEMTRACE_HOST selects what is traced. */
#include "entry.h"
#include "base/report.h"
#include "base/thread.h"
#include "base/options.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One order for host accesses and CUDA calls: the numbers of libmemtrace.so if the program has it. */

static uint64_t (*cuda_sequence)(int next);
static uint64_t own;
static uint64_t cuda_low, cuda_high; /* code range of libmemtrace.so */

static uint64_t llvm_sequence(int next)
{
    if (cuda_sequence)
        return cuda_sequence(next);
    return next ? __atomic_add_fetch(&own, 1, __ATOMIC_SEQ_CST) : __atomic_load_n(&own, __ATOMIC_ACQUIRE);
}

/* Called when a CUDA call has taken a number. */
static void sequence_moved(void)
{
    if (mt_phase != MT_PHASE_ON || mt_self.busy)
        return;
    /* Threads without a traced access, such as the runtime's own, are not traced because of this. */
    mt_enter();
    struct mt_core_thread *t = mt_self.state == 1 ? mt_llvm_thread() : NULL;
    mt_core_moved(t);
    mt_leave();
}

/* Records memory of the program that a copy of the CUDA runtime reads; location of the call, or NULL. */
static void sequence_read(uint64_t address, uint64_t bytes, const char *file, uint32_t line)
{
    struct mt_core_site s = {.op = MT_HOST_LOAD, .file = file, .line = line};
    uint64_t key = ((uint64_t)(uintptr_t)file << 16) + line + 1;
    if (mt_phase != MT_PHASE_ON || mt_self.busy)
        return;
    mt_enter();
    mt_self.busy++;
    uint32_t site = mt_core_site_of(key, &s);
    mt_self.busy--;
    mt_leave();
    if (!site)
        return;
    mt_begin(site, address, bytes);
    mt_end(0);
}

static int process_find_range(struct dl_phdr_info *info, size_t size, void *symbol)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t low = info->dlpi_addr + p->p_vaddr, high = low + p->p_memsz;
        if (p->p_type == PT_LOAD && (uint64_t)(uintptr_t)symbol >= low &&
            (uint64_t)(uintptr_t)symbol < high) {
            cuda_low = low;
            cuda_high = high;
            return 1;
        }
    }
    return 0;
}

static void llvm_sequence_open(void)
{
    void *sequence = dlsym(RTLD_DEFAULT, "__mt_sequence");
    void (*on_move)(void (*)(void)) = (void (*)(void (*)(void)))dlsym(RTLD_DEFAULT, "__mt_sequence_moved");
    typedef void tell_type(uint64_t, uint64_t, const char *, uint32_t);
    void (*reads)(tell_type *);
    if (!sequence || !on_move)
        return;
    cuda_sequence = (uint64_t (*)(int))sequence;
    dl_iterate_phdr(process_find_range, sequence);
    on_move(sequence_moved);
    reads = (void (*)(tell_type *))dlsym(RTLD_DEFAULT, "__mt_host_reads");
    if (reads)
        reads(sequence_read);
}

int mt_not_for_us(uint64_t ip)
{
    return ip >= cuda_low && ip < cuda_high;
}

/* Wrappers for programs that close all descriptors, or reuse the number of one of ours: they act as if
 * ours did not exist. */

#define CLOSE_ON_EXEC 4 /* CLOSE_RANGE_CLOEXEC, which ours have anyway */

#define REAL(name, type)                                                                                     \
    static type name##_real;                                                                                 \
    if (!__atomic_load_n(&name##_real, __ATOMIC_ACQUIRE))                                                    \
    __atomic_store_n(&name##_real, (type)mt_next(#name), __ATOMIC_RELEASE)

static int process_is_ours(int fd)
{
    return fd >= 0 && mt_core_descriptor((uint32_t)fd, (uint32_t)fd) >= 0;
}

static int not_open(void)
{
    errno = EBADF;
    return -1;
}

MT_ENTRY int close(int fd)
{
    typedef int function(int);
    REAL(close, function *);
    return process_is_ours(fd) ? not_open() : close_real(fd);
}

static void make_way(int fd)
{
    if (fd >= 0)
        mt_core_descriptors_closing((uint32_t)fd, (uint32_t)fd);
}

MT_ENTRY int dup2(int fd, int to)
{
    typedef int function(int, int);
    REAL(dup2, function *);
    if (process_is_ours(fd))
        return not_open();
    make_way(to);
    return dup2_real(fd, to);
}

MT_ENTRY int dup3(int fd, int to, int flags)
{
    typedef int function(int, int, int);
    REAL(dup3, function *);
    if (process_is_ours(fd))
        return not_open();
    make_way(to);
    return dup3_real(fd, to, flags);
}

/* Closes all but ours. */
MT_ENTRY int close_range(unsigned first, unsigned last, int flags)
{
    typedef int function(unsigned, unsigned, int);
    REAL(close_range, function *);
    for (;;) {
        int ours = first <= last && !(flags & CLOSE_ON_EXEC) ? mt_core_descriptor(first, last) : -1;
        if (!close_range_real) {
            errno = ENOSYS; /* an old C library */
            return -1;
        }
        if (ours < 0)
            return close_range_real(first, last, flags);
        if ((unsigned)ours > first && close_range_real(first, (unsigned)ours - 1, flags))
            return -1;
        if ((unsigned)ours == last)
            return 0;
        first = (unsigned)ours + 1;
    }
}

MT_ENTRY void closefrom(int first)
{
    typedef void function(int);
    REAL(closefrom, function *);
    if (close_range(first < 0 ? 0 : (unsigned)first, ~0u, 0) && closefrom_real)
        closefrom_real(first);
}

/* Signals. A handler may interrupt a thread in the middle of an append, so its records go into a buffer of
 * its own, which the thread takes over at its next access. For this our handlers stand between the kernel
 * and the program's. A signal that would end the program ends the trace first. */

/* Instrumented modules (the program and its libraries), which register their tables when loaded. */

#define CODES 256u

static struct {
    uint64_t low, high;
} code[CODES];
static uint32_t codes; /* CODES: perhaps more than we know */

/* Returns 1 if the address is in an object with instrumented code. */
static int module_code(uint64_t ip)
{
    uint32_t n = __atomic_load_n(&codes, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n && n < CODES; i++)
        if (ip >= code[i].low && ip < code[i].high)
            return 1;
    return n == CODES;
}

/* Stores the code range of the object that contains `module`. The dynamic linker lets in one thread at a
 * time. */
static int keep_code(struct dl_phdr_info *info, size_t size, void *module)
{
    int ours = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        ours |=
            p->p_type == PT_LOAD && (uint64_t)(uintptr_t)module - info->dlpi_addr - p->p_vaddr < p->p_memsz;
    }
    for (int i = 0; ours && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t low = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || codes == CODES || module_code(low))
            continue;
        code[codes].low = low;
        code[codes].high = low + p->p_memsz;
        __atomic_store_n(&codes, codes + 1, __ATOMIC_RELEASE);
    }
    return ours;
}

static void define_rows(const struct mt_host_module *m, const char *name)
{
    for (uint32_t i = 0; i < m->nrows; i++) {
        const struct mt_host_row *r = &m->rows[i];
        struct mt_core_site s = {.op = (enum mt_host_op)(r->op & ~MT_HOST_STRONG),
                                 .strong = (r->op & MT_HOST_STRONG) != 0,
                                 .size = r->size,
                                 .line = r->line,
                                 .column = r->column,
                                 .file = m->strings + r->file,
                                 .function = m->strings + r->function,
                                 .module = name,
                                 .variable = m->strings + r->variable};
        mt_core_site_define(*m->base + r->site, &s);
    }
}

static void warn_plain(const char *name)
{
    static int said;
    if (!said++)
        mt_report("%s was built with mt-cc --host: its accesses cannot be put in order with those of other "
                  "threads, and are missing; build it with mt-cc --host=atomic",
                  name);
}

void __mt_host_register(const struct mt_host_module *m)
{
    Dl_info info;
    if (m->abi != MT_HOST_ABI) {
        mt_report("a module of the program was built with another version of memtrace; build it again");
        return;
    }
    if (mt_phase != MT_PHASE_ON)
        return;
    mt_enter();
    mt_self.busy++;
    dl_iterate_phdr(keep_code, (void *)(uintptr_t)m);
    const char *name = dladdr(m, &info) && info.dli_fname ? info.dli_fname : "";
    uint32_t base = mt_core_sites_reserve(m->instructions);
    if (base) {
        *m->base = base;
        define_rows(m, name);
    } else {
        mt_report("%s: no memory for the places of its accesses; they have none in the trace", name);
    }
    for (uint32_t i = 0; i < m->nfunctions; i++)
        m->function_ids[i] = mt_core_function(m->strings + m->function_names[i]);
    if (mt_atomic && !(m->flags & MT_HOST_MODULE_ATOMIC))
        warn_plain(name);
    mt_self.busy--;
    mt_leave();
}

#define END_MS 10000 /* maximum wait of a second signal for the end of the trace */

static struct sigaction program[NSIG]; /* handlers that the program believes to be installed */
static unsigned char stands_in[NSIG];  /* 1: the kernel calls our handler for the signal */
static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);

static int kernel_action(int sig, const struct sigaction *new, struct sigaction *old)
{
    if (!real_sigaction)
        real_sigaction = (int (*)(int, const struct sigaction *, struct sigaction *))mt_next("sigaction");
    return real_sigaction(sig, new, old);
}

static int on_alternate_stack(uintptr_t sp)
{
    stack_t s;
    return syscall(SYS_sigaltstack, NULL, &s) == 0 && !(s.ss_flags & SS_DISABLE) &&
           sp - (uintptr_t)s.ss_sp < s.ss_size;
}

/* Returns 1 if code with this stack pointer is called by the handler. */
static int below_handler(const struct mt_self *s, uintptr_t sp)
{
    return s->handlers && (s->handler_on_stack ? on_alternate_stack(sp) : sp < s->handler_sp);
}

/* after a longjmp out of a handler: the thread goes on as usual */
static void handler_left(void)
{
    struct mt_self *s = &mt_self;
    if (below_handler(s, (uintptr_t)__builtin_frame_address(0)))
        return;
    s->handlers = 0;
    if (module_code(s->interrupted_ip)) /* a group of accesses may have been interrupted: at most this
                                         * many entries */
        s->lost += MT_SCRATCH - 1;
    s->waiting = (size_t)(s->handler.cur - s->handler_entry);
    if (s->waiting > MT_HANDLER_ROOM)
        s->waiting = MT_HANDLER_ROOM;
    __mt_host_current = s->interrupted;
}

static int open_handler(struct mt_self *s, const ucontext_t *context)
{
    if (!s->handler_entry) {
        size_t bytes = (MT_HANDLER_ROOM + MT_SCRATCH) * sizeof *s->handler_entry;
        void *p = (void *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                  -1, 0L);
        if (p == MAP_FAILED)
            return -1;
        s->handler_entry = p;
        s->handler.limit = s->handler_entry + MT_HANDLER_ROOM;
    }
    s->handler.cur = s->handler_entry + s->waiting;
    s->handler_sp = (uintptr_t)__builtin_frame_address(0);
    s->handler_on_stack = on_alternate_stack(s->handler_sp);
    s->interrupted = __mt_host_current;
    s->interrupted_ip = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
    __mt_host_current = &s->handler;
    return 0;
}

static void close_handler(struct mt_self *s)
{
    size_t n = (size_t)(s->handler.cur - s->handler_entry);
    s->lost += n > MT_HANDLER_ROOM ? n - MT_HANDLER_ROOM : 0;
    s->waiting = n > MT_HANDLER_ROOM ? MT_HANDLER_ROOM : n;
    __mt_host_current = s->interrupted;
    if (s->core && s->waiting)
        __atomic_store_n(&s->core->limit, NULL, __ATOMIC_RELAXED); /* it checks its state at its next
                                                                    * access */
}

/* the thread dies in a handler: its records are taken over */
static void handlers_end(void)
{
    struct mt_self *s = &mt_self;
    if (__mt_host_current == &s->handler) {
        s->handlers = 0;
        close_handler(s);
    }
    mt_llvm_thread();
}

static void call_program(const struct sigaction *a, int sig, siginfo_t *info, void *context)
{
    if (a->sa_handler == SIG_DFL || a->sa_handler == SIG_IGN)
        return;
    if (a->sa_flags & SA_SIGINFO)
        a->sa_sigaction(sig, info, context);
    else
        a->sa_handler(sig);
}

static void install_fatal(int sig);

/* Takes note that the kernel has restored the default, as the program requested. */
static void signal_reset(int sig)
{
    stands_in[sig] = 0;
    program[sig].sa_handler = SIG_DFL;
    if (mt_phase == MT_PHASE_ON)
        install_fatal(sig);
}

static int stand_in(int sig, const struct sigaction *new, struct sigaction *ours);

/* Raises the signal again with its original sender. */
static void signal_again(int sig, siginfo_t *info)
{
    int process = (int)syscall(SYS_getpid), thread = (int)syscall(SYS_gettid);
    if (syscall(SYS_rt_tgsigqueueinfo, process, thread, sig, info))
        syscall(SYS_tgkill, process, thread, sig);
}

/* Handles a fault in an access of atomic mode or in the core, for whose end the handler cannot wait.
 * Returns 1 with *what set to an access that begins again if the handler returns. */
static int signal_fault(struct mt_self *s, struct mt_core_operand *what)
{
    int dropped = 0, inside = s->inside != 0;
    if (s->locked || mt_access_open(s))
        dropped = mt_core_atomic_drop(s->core, what);
    else if (inside)
        mt_cancel_back();
    s->locked = 0;
    s->inside = 0;
    return dropped;
}

/* Defers a signal that came inside the core, where a handler might jump out, end the thread or record into
 * data in change: all signals are blocked on return, this one is raised again, and mt_leave lets them in. */
static int signal_hold(struct mt_self *s, int sig, siginfo_t *info, ucontext_t *context)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    struct sigaction ours;
    sigset_t all;
    if ((!s->inside && !mt_access_open(s)) || mt_phase != MT_PHASE_ON)
        return 0;
    sigfillset(&all);
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (sig == faults[i] && info->si_code > 0)
            return 0;
        sigdelset(&all, faults[i]);
    }
    s->held_mask = context->uc_sigmask;
    s->held = 1;
    if (mt_access_open(s)) /* it calls us after the access then */
        __atomic_store_n(&s->core->limit, NULL, __ATOMIC_RELAXED);
    context->uc_sigmask = all;
    sigaddset(&all, sig);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    if ((program[sig].sa_flags & SA_RESETHAND) && stand_in(sig, &program[sig], &ours))
        kernel_action(sig, &ours, NULL);
    signal_again(sig, info);
    return 1;
}

static void signals_release(void)
{
    mt_self.held = 0;
    pthread_sigmask(SIG_SETMASK, &mt_self.held_mask, NULL);
}

static void signal_trampoline(int sig, siginfo_t *info, void *context)
{
    struct mt_self *s = &mt_self;
    struct sigaction a = program[sig];
    int saved = errno, ours = 0, again = 0;
    struct mt_core_operand faulted;
    const greg_t *at = ((const ucontext_t *)context)->uc_mcontext.gregs, ip = at[REG_RIP];
    if (signal_hold(s, sig, info, context)) {
        errno = saved;
        return;
    }
    if ((s->inside || mt_access_open(s)) && mt_phase == MT_PHASE_ON)
        again = signal_fault(s, &faulted);
    if (a.sa_flags & SA_RESETHAND)
        signal_reset(sig);
    if (s->core && mt_phase == MT_PHASE_ON && !s->handlers && !s->ours) {
        /* In atomic mode everything goes through the core, which notices interruptions. */
        if (mt_atomic && !s->busy)
            mt_core_context_change(s->core);
        ours = !mt_atomic && !open_handler(s, context);
    } else if (s->handlers && !mt_atomic && !below_handler(s, (uintptr_t)at[REG_RSP]) &&
               module_code((uint64_t)at[REG_RIP]))
        s->lost += MT_SCRATCH - 1; /* an earlier handler was left by longjmp, its buffer is still in use */
    s->handlers += (unsigned)ours;
    errno = saved;
    call_program(&a, sig, info, context);
    if (ours && s->handlers && __mt_host_current == &s->handler) {
        s->handlers--;
        close_handler(s);
    }
    if (again && mt_phase == MT_PHASE_ON && at[REG_RIP] == ip)
        mt_atomic_begin(&faulted, 1);
}

/* Ends the trace. A signal often comes twice (terminals and timeout send it to the group): the second one
 * waits here until the trace is closed, but not for ever. */
static void end_trace(void)
{
    static int begun, done;
    const struct timespec step = {0, 1000000};
    int first = !__atomic_exchange_n(&begun, 1, __ATOMIC_ACQ_REL);
    if (first) {
        mt_stop(1);
        __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    }
    for (unsigned ms = 0; !__atomic_load_n(&done, __ATOMIC_ACQUIRE) && ms < END_MS; ms++)
        syscall(SYS_nanosleep, &step, NULL);
}

/* Ends the program by a signal after the trace is closed: it is raised again, from its original sender, on
 * return. (Not all would come again by themselves: int3 is behind us, and timers and terminals send once.) */
static void signal_fatal(int sig, siginfo_t *info, void *context)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    int saved = errno;
    if (signal_hold(&mt_self, sig, info, context)) {
        errno = saved;
        return;
    }
    if (mt_self.locked || mt_access_open(&mt_self))
        signal_fault(&mt_self, NULL);
    end_trace();
    stands_in[sig] = 0;
    kernel_action(sig, &plain, NULL);
    signal_again(sig, info);
}

static struct sigaction fatal_action(void)
{
    struct sigaction a = {.sa_sigaction = signal_fatal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&a.sa_mask);
    return a;
}

/* Returns 1 if the signal ends a program without handler. (Nothing can be done about SIGKILL.) */
static int ends_program(int sig)
{
    switch (sig) {
    case SIGKILL:
    case SIGSTOP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGCONT:
    case SIGCHLD:
    case SIGURG:
    case SIGWINCH:
        return 0;
    default:
        return sig < __SIGRTMIN || sig >= SIGRTMIN; /* those between belong to the C library */
    }
}

static void install_fatal(int sig)
{
    struct sigaction now, ours = fatal_action();
    if (kernel_action(sig, NULL, &now) || now.sa_handler != SIG_DFL)
        return;
    program[sig] = now;
    if (!kernel_action(sig, &ours, NULL))
        stands_in[sig] = 1;
}

void mt_signals_close(void)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    for (int i = 1; i < NSIG; i++)
        if (stands_in[i] && program[i].sa_handler == SIG_DFL)
            stands_in[i] = kernel_action(i, &plain, NULL) != 0;
}

static void signal_turn(int sig)
{
    mt_core_switch(sig == SIGUSR1);
}

/* switches: SIGUSR1 and SIGUSR2 turn tracing on and off */
static int signals_open(int switches)
{
    for (int i = 1; i < NSIG; i++)
        if (ends_program(i))
            install_fatal(i);
    struct sigaction a = {.sa_handler = signal_turn, .sa_flags = SA_RESTART};
    if (switches && (kernel_action(SIGUSR1, &a, NULL) || kernel_action(SIGUSR2, &a, NULL)))
        return -1;
    return 0;
}

/* Chooses the kernel's handler for the program's wish. Returns 1 if it is one of ours. */
static int stand_in(int sig, const struct sigaction *new, struct sigaction *ours)
{
    *ours = *new;
    if (new->sa_handler != SIG_DFL &&new->sa_handler != SIG_IGN) { /* flags do not matter for these */
        ours->sa_flags |= SA_SIGINFO;
        ours->sa_sigaction = signal_trampoline;
    } else if (new->sa_handler == SIG_DFL && ends_program(sig)) {
        *ours = fatal_action();
    } else {
        return 0;
    }
    return 1;
}

MT_ENTRY int sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
    struct sigaction ours, was, kernel;
    if (sig <= 0 || sig >= NSIG || mt_phase == MT_PHASE_EARLY)
        return kernel_action(sig, new, old);
    was = program[sig];
    int stood = stands_in[sig], stands = new && mt_phase == MT_PHASE_ON &&stand_in(sig, new, &ours);
    if (stands)
        program[sig] = *new; /* before the kernel knows: a signal may come at once */
    int rc = kernel_action(sig, stands ? &ours : new, &kernel);
    if (rc) {
        program[sig] = was;
        return rc;
    }
    if (old)
        *old = stood ? was : kernel;
    if (new) {
        program[sig] = *new;
        stands_in[sig] = (unsigned char)stands;
    }
    return 0;
}

MT_ENTRY sighandler_t signal(int sig, sighandler_t handler)
{
    struct sigaction new = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
    sigemptyset(&new.sa_mask);
    sigaddset(&new.sa_mask, sig);
    return sigaction(sig, &new, &old) ? SIG_ERR : old.sa_handler;
}

/* Threads of instrumented code: the pointer to their append position, and the paths taken when there is no
 * room. */

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

/* this thread: in the child of a fork */
static void thread_off(void)
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
        signals_release();
}

/* Cleans up after pthread_cancel ended the thread as it left the core, or in an access of atomic mode. */
static void thread_free(struct mt_self *s)
{
    if (s->core && (s->locked || mt_access_open(s)))
        mt_core_atomic_drop(s->core, NULL);
    s->locked = 0;
    s->inside = 0;
    if (s->held)
        signals_release();
}

/* Ends a thread; other destructors may run traced code, so this comes last. */
static void process_at_end(void *self)
{
    struct mt_self *s = self;
    thread_free(s);
    if (++s->rounds < PTHREAD_DESTRUCTOR_ITERATIONS && !pthread_setspecific(key, s))
        return;
    mt_enter();
    struct mt_core_thread *t = mt_llvm_thread();
    thread_off();
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

static int threads_open(void)
{
    have_key = !pthread_key_create(&key, process_at_end);
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
        thread_off();
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
        handler_left();
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
        thread_off();
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

/* Wrappers for the ways out of a program: each closes the trace. (exit and a return from main: our
 * destructor, after all others.) */

static pid_t owner; /* a child of vfork shares our memory, and must not close the trace */

void mt_stop(int killed)
{
    int saved = errno;
    if (mt_phase != MT_PHASE_ON || (pid_t)syscall(SYS_getpid) != owner)
        return;
    struct mt_core_thread *t = NULL;
    if (killed && mt_self.inside) { /* a fault of the tracer: nobody will release this thread's locks */
        mt_phase = MT_PHASE_OFF;
        mt_core_incomplete("stopped inside the tracer; the trace has no end");
        return;
    }
    mt_enter();
    if (!killed)
        t = mt_llvm_thread();
    else if (mt_self.core)
        handlers_end(); /* their entries would wait for an access that never comes */
    mt_self.busy++;
    mt_phase = MT_PHASE_OFF;
    if (t) { /* the thread that ends the program ends with it */
        thread_off();
        mt_core_thread_end(t);
    }
    mt_core_stop(killed);
    mt_self.busy--;
    mt_leave();
    errno = saved;
}

static void exit_quick(void)
{
    mt_stop(0);
}

static void process_in_child(void)
{
    if (mt_phase != MT_PHASE_ON)
        return;
    mt_phase = MT_PHASE_OFF;
    mt_core_forked();
    thread_off();
}

static void exit_open(void)
{
    owner = getpid();
    pthread_atfork(NULL, mt_core_child, process_in_child);
    at_quick_exit(exit_quick);
}

__attribute__((destructor)) static void at_unload(void)
{
    mt_stop(0);
}

MT_ENTRY void _exit(int status)
{
    mt_stop(0);
    for (;;)
        syscall(SYS_exit_group, status);
}

MT_ENTRY void _Exit(int status)
{
    _exit(status);
}

/* ---- exec: the program goes on only if it fails, untraced ---- */

#define EXEC(name, params, types, ...)                                                                       \
    MT_ENTRY int name params                                                                                 \
    {                                                                                                        \
        int(*real) types = (int(*) types)mt_next(#name);                                                     \
        mt_stop(0);                                                                                          \
        return real(__VA_ARGS__);                                                                            \
    }

EXEC(execve, (const char *path, char *const argv[], char *const env[]),
     (const char *, char *const *, char *const *), path, argv, env)
EXEC(execv, (const char *path, char *const argv[]), (const char *, char *const *), path, argv)
EXEC(execvp, (const char *file, char *const argv[]), (const char *, char *const *), file, argv)
EXEC(execvpe, (const char *file, char *const argv[], char *const env[]),
     (const char *, char *const *, char *const *), file, argv, env)
EXEC(fexecve, (int fd, char *const argv[], char *const env[]), (int, char *const *, char *const *), fd, argv,
     env)

/* Returns the number of words with the NULL after them. */
static size_t exit_count(const char *first, va_list args)
{
    size_t n = 1;
    for (const char *word = first; word; n++)
        word = va_arg(args, const char *);
    return n;
}

/* Copies the list that follows `first` into `argv`; the environment follows it if `env`. */
static void exit_gather(char **argv, const char *first, va_list args, char *const **env)
{
    argv[0] = (char *)(uintptr_t)first;
    for (size_t n = 0; argv[n]; n++)
        argv[n + 1] = va_arg(args, char *);
    if (env)
        *env = va_arg(args, char *const *);
}

/* A list of the length that the program passed: on its stack, as it may be between vfork and exec. */
#define EXEC_LIST(name, call, env)                                                                           \
    MT_ENTRY int name(const char *path, const char *first, ...)                                              \
    {                                                                                                        \
        char *const *environment = NULL;                                                                     \
        va_list args;                                                                                        \
        va_start(args, first);                                                                               \
        char *argv[exit_count(first, args)];                                                                 \
        va_end(args);                                                                                        \
        va_start(args, first);                                                                               \
        exit_gather(argv, first, args, env);                                                                 \
        va_end(args);                                                                                        \
        (void)environment;                                                                                   \
        return call;                                                                                         \
    }

EXEC_LIST(execl, execv(path, argv), NULL)
EXEC_LIST(execlp, execvp(path, argv), NULL)
EXEC_LIST(execle, execve(path, argv, environment), &environment)

/* Location of a call that allocates: set by the pass just before it, or at least its module and symbol. */
static int mt_locate(uint64_t ip, struct mt_core_location *place)
{
    const struct mt_host_alloc_location *known = mt_self.place;
    Dl_info info = {0};
    *place = (struct mt_core_location){0};
    int found = dladdr((void *)(uintptr_t)ip, &info) != 0;
    if (found && info.dli_fname)
        snprintf(place->module, sizeof place->module, "%s", info.dli_fname);
    if (known) {
        snprintf(place->file, sizeof place->file, "%s", known->file);
        snprintf(place->function, sizeof place->function, "%.*s", (int)strcspn(known->function, "\n"),
                 known->function);
        place->line = known->line;
        place->column = known->column;
    } else if (found && info.dli_sname) {
        snprintf(place->function, sizeof place->function, "%s", info.dli_sname);
    }
    return known || found ? 0 : -1;
}

/* The allocating call is known with what it is inlined into; of other callers there is the function alone. */
static int process_inlined(const char *functions, unsigned level, struct mt_core_location *place)
{
    const char *s = functions;
    while (level-- && (s = strchr(s, '\n')))
        s++;
    const char *end = s ? s + strcspn(s, "\n") : s, *in = s ? strstr(s, " in ") : NULL,
               *colon = in && in < end ? in : end;
    while (s && colon > s && *colon != ':')
        colon--;
    if (!s || colon == s)
        return -1;
    snprintf(place->file, sizeof place->file, "%.*s", (int)(colon - s), s);
    place->line = (uint32_t)strtoul(colon + 1, NULL, 10);
    if (in && in < end)
        snprintf(place->function, sizeof place->function, "%.*s", (int)(end - in - 4), in + 4);
    return 0;
}

static const char *globals_name(const char *symbol, char *room, unsigned size);

static int process_frame(uint64_t ip, unsigned level, struct mt_core_location *place)
{
    struct link_map *map;
    char symbol[256], room[256], path[512];
    Dl_info info = {0};
    if (level)
        return __mt_host_place ? process_inlined(__mt_host_place->function, level, place) : -1;
    if (!dladdr1((void *)(uintptr_t)ip, &info, (void **)&map, RTLD_DL_LINKMAP) || !info.dli_fname)
        return -1;
    snprintf(path, sizeof path, "%s", *map->l_name ? map->l_name : "/proc/self/exe");
    snprintf(place->module, sizeof place->module, "%s", info.dli_fname);
    mt_core_symbol(path, ip - map->l_addr, symbol, sizeof symbol);
    snprintf(place->function, sizeof place->function, "%s",
             globals_name(*symbol          ? symbol
                          : info.dli_sname ? info.dli_sname
                                           : "",
                          room, sizeof room));
    return 0;
}

/* ---- Global variables of the program, from its file and load address ---- */

/* Takes the first object, which is the program. */
static int globals_first(struct dl_phdr_info *info, size_t size, void *first)
{
    (void)size;
    *(struct dl_phdr_info *)first = *info;
    return 1;
}

/* Gives the program's variables to mt_core_globals. No code of the program has run yet. */
static void globals_put(void)
{
    struct dl_phdr_info program = {0};
    Dl_info known = {0};
    const char *path = "/proc/self/exe";
    dl_iterate_phdr(globals_first, &program);
    /* No interpreter in the process: the dynamic linker was started with the program's name. */
    if (!getauxval(AT_BASE) && dladdr(program.dlpi_phdr, &known) && known.dli_fname)
        path = known.dli_fname;
    mt_core_globals(path, program.dlpi_addr);
}

/* Returns the source spelling of a symbol: `room` or `symbol`. */
static const char *globals_name(const char *symbol, char *room, unsigned size)
{
    static char *(*demangle)(const char *, char *, size_t *, int *);
    int status = -1;
    if (strncmp(symbol, "_Z", 2) != 0)
        return symbol;
    if (!demangle) /* a program with such names usually has the C++ library */
        *(void **)&demangle = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    char *plain = demangle ? demangle(symbol, NULL, NULL, &status) : NULL;
    if (plain && status == 0)
        snprintf(room, size, "%s", plain);
    free(plain);
    return status == 0 ? room : symbol;
}

#define MAX_WORDS 256

static struct mt_core_options options;

/* Splits `text` into words at blanks; a backslash quotes the next character. Returns -1 if there are too
 * many. */
static int process_split(char *text, char **word, int room)
{
    int n = 0;
    for (char *in = text, *out = text;;) {
        while (isspace((unsigned char)*in))
            in++;
        if (!*in)
            return n;
        if (n == room)
            return -1;
        word[n++] = out = in;
        while (*in && !isspace((unsigned char)*in)) {
            if (*in == '\\' && in[1])
                in++;
            *out++ = *in++;
        }
        in += *in != 0;
        *out = 0;
    }
}

struct thread_start {
    void (*run)(void *);
    void *arg;
};

static void *run_thread(void *start)
{
    struct thread_start s = *(struct thread_start *)start;
    mt_self.ours = 1;
    free(start);
    s.run(s.arg);
    return NULL;
}

/* Starts a thread of the core, which gets no signals of the program. */
static int process_spawn(void (*run)(void *), void *arg, void **handle)
{
    pthread_t *thread = malloc(sizeof *thread);
    struct thread_start *s = malloc(sizeof *s);
    int rc = thread && s ? 0 : ENOMEM;
    if (!rc) {
        *s = (struct thread_start){run, arg};
        rc = mt_base_thread_start(thread, 0, run_thread, s);
    }
    if (rc) {
        free(thread);
        free(s);
        return rc;
    }
    *handle = thread;
    return 0;
}

static void process_join(void *handle)
{
    pthread_join(*(pthread_t *)handle, NULL);
    free(handle);
}

static void process_report(const char *line)
{
    mt_report("%s", line);
}

static struct mt_core_engine engine = {.name = "llvm",
                                       .locate = mt_locate,
                                       .frame = process_frame,
                                       .plain = globals_name,
                                       .sequence = llvm_sequence,
                                       .spawn = process_spawn,
                                       .join = process_join,
                                       .report = process_report,
                                       .marks = 1,
                                       .places = 1};

/* Reads settings like the CUDA runtime, which reports bad ones if present. */
static const char *process_from_environment(const char *name, void *context)
{
    (void)context;
    return secure_getenv(name);
}

static void process_complain(const char *line, void *context)
{
    (void)context;
    if (!dlsym(RTLD_DEFAULT, "mt_runtime_version"))
        mt_report("%s", line);
}

/* Returns 0, or -1 if nothing is traced (reported if it is an error). */
static int process_read_options(const struct mt_options *env)
{
    char *word[MAX_WORDS], why[512], *text;
    int n;
    if (!env->enable || !strcmp(env->host, "off"))
        return -1;
    if (*env->host) {
        text = strdup(env->host);
        unsetenv("MEMTRACE_HOST"); /* hidden from the program and those it starts: one file, one trace */
    } else if (asprintf(&text, "mat") < 0)
        text = NULL;
    n = text ? process_split(text, word, MAX_WORDS - 2) : -1;
    if (n > 0 && !*env->host) {
        char *path;
        if (asprintf(&path, "%s/MemTrace-host.mtc", env->dir) < 0)
            return -1;
        word[n++] = "-o";
        word[n++] = path; /* kept */
    }
    if (n < 0) {
        mt_report("MEMTRACE_HOST: too many options; the host is not traced");
        return -1;
    }
    if (mt_core_options_parse(&options, n, word, why, sizeof why)) {
        mt_report("MEMTRACE_HOST: %s; the host is not traced", why);
        return -1;
    }
    if (options.mode == MT_CORE_INSN) {
        mt_report(
            "MEMTRACE_HOST: mode insn is not for programs built with mt-cc --host, which know no machine "
            "instructions: use mat or atomic, or memtrace host insn --engine=qemu; the host is not traced");
        return -1;
    }
    return 0;
}

__attribute__((constructor(101))) static void process_start(void)
{
    struct mt_options env;
    char why[512];
    mt_self.busy++;
    mt_options_parse(&env, process_from_environment, process_complain, NULL);
    if (process_read_options(&env))
        goto off;
    llvm_sequence_open();
    mt_atomic = options.mode == MT_CORE_ATOMIC;
    if (threads_open()) {
        mt_report("no thread-specific data is left; the host is not traced");
        goto off;
    }
    engine.called = (const char *)getauxval(AT_EXECFN);
    if (mt_core_start(&options, &engine, why, sizeof why)) {
        mt_report("%s; the host is not traced", why);
        goto off;
    }
    globals_put();
    exit_open();
    mt_phase = MT_PHASE_ON;
    signals_open(options.signal);
    mt_self.busy--;
    return;
off:
    mt_phase = MT_PHASE_OFF;
    mt_self.busy--;
}
