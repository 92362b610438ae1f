/* Signals. A handler may interrupt a thread in the middle of an append, so its records go into a buffer of
 * its own, which the thread takes over at its next access. For this our handlers stand between the kernel
 * and the program's. A signal that would end the program ends the trace first. */
#include "entry.h"
#include "base/report.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

void mt_handler_left(void)
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

void mt_handlers_end(void)
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

void mt_signals_release(void)
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

int mt_signals_open(int switches)
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
