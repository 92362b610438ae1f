/* Pages of shared memory, closed to the host while it has not waited for what uses them. */
#define _GNU_SOURCE
#include "guard.h"
#include "stream.h"
#include "api/device/device.h"
#include "base/options.h"
#include "memtrace/grow.h"
#include "trace/events.h"
#include "trace/last.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <linux/audit.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* A closed page is also closed to system calls: write(2) of it would fail. So while pages are closed, the
 * thread's system calls are dispatched to us first (prctl PR_SET_SYSCALL_USER_DISPATCH, Linux 5.11), and all
 * pages are opened before one that may use them. Only code between these labels makes system calls that are
 * not dispatched; handlers use nothing else. The return from a handler has the bytes by which unwinders know
 * it. */
extern const char mt_guard_code[], mt_guard_code_end[];
long mt_guard_call(long number, ...);
void mt_guard_return(void);
__asm__(".pushsection .text\n"
        ".hidden mt_guard_code, mt_guard_call, mt_guard_return, mt_guard_code_end\n"
        ".globl mt_guard_code, mt_guard_call, mt_guard_return, mt_guard_code_end\n"
        "mt_guard_code:\n"
        ".type mt_guard_call, @function\n"
        "mt_guard_call:\n"
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rdi\n"
        "  mov %rdx, %rsi\n"
        "  mov %rcx, %rdx\n"
        "  mov %r8, %r10\n"
        "  mov %r9, %r8\n"
        "  mov 8(%rsp), %r9\n"
        "  syscall\n"
        "  ret\n"
        ".type mt_guard_return, @function\n"
        "mt_guard_return:\n"
        "  movq $15, %rax\n"
        "  syscall\n"
        "  nop\n" /* the kernel looks at the address after the instruction */
        "mt_guard_code_end:\n"
        ".popsection\n");

enum { DOWN, LOWERING, UP };
enum { FAULTS = 256 };           /* pages of a span opened one by one; then the rest is opened at once */
enum { FRAMES = 24 };            /* of the stack at an access, with our own */
enum { TOUCHES = 1024 };         /* most accesses noted between two calls */
enum { LINES = 20000 };          /* most accesses noted in a process */
enum { FRAMES_ROOM = 12 << 10 }; /* bytes of stack that the handlers use, apart from the kernel's frames */
enum {
    FEW = 64,
    MUCH = 1 << 16,
    PLACES = 1 << 12
}; /* pages that are always closed; pages closed for a place;
    * places of calls that are told apart */
enum { PATIENCE = 1000 }; /* ms without progress after which work is left to run beside the host */

struct guard_span { /* neighbouring pages of shared memory; nothing that the host may use lies between them */
    uint64_t base, bytes;
    unsigned faults;
    int foreign; /* of the program, not ours */
    const struct mt_segment *segment;
};
struct guard_touch {
    uint64_t address, base, bytes; /* base, bytes: opened by it */
    int writes;
    unsigned nframes;
    void *code, *frame[FRAMES]; /* the instruction, and our own frames, it and its callers */
    uint32_t python;            /* line of a Python program, or 0 */
    char file[MT_PYTHON_PATH];
};
struct guard_action { /* struct sigaction of the kernel */
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

static _Atomic int state;
static _Atomic int busy; /* a thread decides whether to close the pages, or a host function is watched; no
                          * mutex, as a thread with closed pages makes no system call to give it back */
static _Thread_local int decides;   /* it is this one */
static _Atomic unsigned gone_on;    /* times that the program went on with work under way */
static pthread_t owner;             /* thread that closed the pages */
static char *raised;                /* its selector */
static _Thread_local char selector; /* read by the kernel at each system call of a thread that is armed */
static _Thread_local int armed;
static struct guard_action old_fault, old_call;
static struct guard_span *spans;
static size_t nspans, span_room;
static uint64_t generation; /* of the heap, when the spans were made */
static struct guard_touch touches[TOUCHES];
static unsigned ntouches, nlines;
static int blind; /* the host has run unwatched since the last line */
static unsigned patience = PATIENCE;
static volatile sig_atomic_t looking; /* a handler looks for the callers of an access */
static sigjmp_buf lost;               /* where it goes on if their frames cannot be read */

/* Why accesses of the host are not seen, or not from some moment on, until the next call. */
#define GUARD_REASONS(X)                                                                                     \
    X(JOB, "the process is a rank of an MPI job")                                                            \
    X(LONG, "20,000 accesses were noted before")                                                             \
    X(LARGE, "there is much shared memory, and the call had been watched before")                            \
    X(THREADS, "another thread of the program was running")                                                  \
    X(BUSY, "a launch did not end")                                                                          \
    X(HANDLERS, "a signal handler blocks SIGSEGV or SIGSYS, handles SIGSYS, or has a small stack")           \
    X(RIGHTS, "registered memory is not readable and writable")                                              \
    X(KERNEL, "Linux before 5.11, or a sandbox, does not redirect system calls")                             \
    X(MANY, "more than 1,024 accesses before the next call")                                                 \
    X(CALL, "from a system call or a signal on")                                                             \
    X(CLOSED, "memory could not be protected")
#define GUARD_NAME(name, words) NOT_##name,
#define GUARD_WORDS(name, words) words,
enum guard_reason { WATCHED, GUARD_REASONS(GUARD_NAME) REASONS };
static const char *const reasons[REASONS] = {"", GUARD_REASONS(GUARD_WORDS)};
static int counted;                             /* the last call is in `unwatched` */
static uint64_t unwatched[REASONS], calls_left; /* calls that left work behind, by reason and all */

static void guard_not(enum guard_reason why)
{
    unwatched[why] += !counted;
    counted = 1;
    blind = 1;
}

/* ---- spans ---- */

static void guard_add(const struct mt_block *b)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = b->base + b->bytes, base = b->base;
    int ours = b->kind == MT_HEAP_MANAGED || b->kind == MT_HEAP_HOST;
    struct guard_span *last = nspans ? &spans[nspans - 1] : NULL;
    /* Of pages with other memory of the program only whole ones. */
    base = ours ? base / page * page : (base + page - 1) / page * page;
    end = ours ? (end + page - 1) / page * page : end / page * page;
    if (base >= end)
        return;
    if (last && b->segment && last->segment == b->segment) { /* between them is memory of the device */
        last->bytes = end - last->base;
        return;
    }
    if (mt_grow((void **)&spans, &span_room, nspans + 1, sizeof *spans) == 0)
        spans[nspans++] = (struct guard_span){base, end - base, 0, !ours, b->segment};
}

/* Returns 1 if all pages of the program's own spans can be read and written, as they will be afterwards. */
static int guard_plain(void)
{
    char line[512];
    size_t at = 0;
    unsigned long long from, to;
    FILE *f = NULL;
    uint64_t reached = 0;
    while (at < nspans && !spans[at].foreign)
        at++;
    if (at == nspans)
        return 1;
    if (!(f = fopen("/proc/self/maps", "re")))
        return 0;
    reached = spans[at].base;
    while (at < nspans && fgets(line, sizeof line, f)) {
        char rights[5] = "";
        if (sscanf(line, "%llx-%llx %4s", &from, &to, rights) != 3 || strncmp(rights, "rw-", 3) ||
            strstr(line, "[stack"))
            continue;
        while (at < nspans && from <= reached && to > reached) {
            reached = to;
            if (reached < spans[at].base + spans[at].bytes)
                break;
            do
                at++;
            while (at < nspans && !spans[at].foreign);
            reached = at < nspans ? spans[at].base : 0;
        }
    }
    fclose(f);
    return at == nspans;
}

static int guard_spans(void)
{
    uint64_t now = mt_heap_generation;
    if (now != generation) {
        nspans = 0;
        mt_heap_each_shared(guard_add);
        generation = now;
    }
    for (size_t i = 0; i < nspans; i++)
        spans[i].faults = 0;
    return nspans > 0;
}

static struct guard_span *guard_find(uint64_t address, uint64_t bytes)
{
    for (size_t i = 0; i < nspans; i++)
        if (address < spans[i].base + spans[i].bytes && spans[i].base < address + bytes)
            return &spans[i];
    return NULL;
}

/* ---- opening ---- */

/* Changes the thread's signal mask, and returns what it was. No handler of the program may run between a
 * look at the state and what follows from it. */
static uint64_t guard_mask(uint64_t mask)
{
    uint64_t before = 0;
    mt_guard_call(SYS_rt_sigprocmask, (long)SIG_SETMASK, &mask, &before, 8L);
    return before;
}

static void guard_open(void)
{
    __atomic_store_n(raised, 0, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < nspans; i++)
        mt_guard_call(SYS_mprotect, spans[i].base, spans[i].bytes, (long)(PROT_READ | PROT_WRITE));
    mt_guard_call(SYS_rt_sigaction, (long)SIGSEGV, &old_fault, NULL, 8L);
    mt_guard_call(SYS_rt_sigaction, (long)SIGSYS, &old_call, NULL, 8L);
    atomic_store(&state, DOWN);
}

/* Opens all pages, and returns 1 if they were closed. Any thread may call it, signal handlers too. */
static int guard_lift(void)
{
    uint64_t mask = guard_mask(UINT64_MAX);
    int up = UP, closed = atomic_compare_exchange_strong(&state, &up, LOWERING);
    if (closed)
        guard_open();
    else /* by another thread */
        while (atomic_load(&state) == LOWERING)
            mt_guard_call(SYS_sched_yield);
    guard_mask(mask);
    return closed;
}

/* Opens them because the host goes on unwatched. */
static void guard_give_up(enum guard_reason why)
{
    if (guard_lift())
        guard_not(why);
}

/* ---- signals ---- */

/* Fills in who made the access. Frames of code with wrong unwind tables may lead anywhere. */
static void guard_look(struct guard_touch *t)
{
    t->nframes = 0;
    t->python = 0;
    looking = 1;
    if (!sigsetjmp(lost, 0)) {
        t->nframes = (unsigned)backtrace(t->frame, FRAMES);
        t->python = mt_python_look(t->file);
    }
    looking = 0;
}

static void guard_note(struct guard_span *s, uint64_t address, int writes, void *code)
{
    uint64_t page = address & ~4095ull;
    struct guard_touch *t = ntouches < TOUCHES ? &touches[ntouches++] : NULL;
    int all = ++s->faults >= FAULTS || !t;
    uint64_t base = all ? s->base : page, bytes = all ? s->bytes : 4096;
    if (t) {
        t->address = address;
        t->base = base;
        t->bytes = bytes;
        t->writes = writes;
        t->code = code;
        guard_look(t);
    } else {
        guard_not(NOT_MANY);
    }
    if (mt_guard_call(SYS_mprotect, base, bytes, (long)(writes || all ? PROT_READ | PROT_WRITE : PROT_READ)))
        guard_give_up(NOT_CLOSED);
    else if (atomic_load(&state) != UP) /* opened meanwhile by another thread, for writing, too */
        mt_guard_call(SYS_mprotect, base, bytes, (long)(PROT_READ | PROT_WRITE));
}

/* Sends a signal again that is not ours, for the handler that it was for. */
static void guard_again(int sig, siginfo_t *info)
{
    mt_guard_call(SYS_rt_tgsigqueueinfo, mt_guard_call(SYS_getpid), mt_guard_call(SYS_gettid), (long)sig,
                  info);
}

/* Whatever is not ours happens again after the handlers have been put back. */
static void guard_on_fault(int sig, siginfo_t *info, void *context)
{
    const ucontext_t *uc = context;
    uint64_t address = (uint64_t)(uintptr_t)info->si_addr;
    struct guard_span *s =
        info->si_code == SEGV_ACCERR && atomic_load(&state) == UP && pthread_equal(owner, pthread_self())
            ? guard_find(address, 1)
            : NULL;
    if (s) {
        guard_note(s, address, (uc->uc_mcontext.gregs[REG_ERR] & 2) != 0,
                   (void *)(uintptr_t)uc->uc_mcontext.gregs[REG_RIP]);
        return;
    }
    if (looking && info->si_code > 0 && pthread_equal(owner, pthread_self()))
        siglongjmp(lost, 1);
    guard_give_up(NOT_CALL);
    if (info->si_code <= 0)
        guard_again(sig, info);
}

/* System calls that use no memory but that of these arguments: `at` and `bytes` are argument numbers, from 1.
 * Others than these open all pages. */
static const struct {
    long number;
    unsigned at, bytes;
} harmless[] = {
    {SYS_write, 2, 3},         {SYS_read, 2, 3},         {SYS_pwrite64, 2, 3},    {SYS_pread64, 2, 3},
    {SYS_lseek, 0, 0},         {SYS_close, 0, 0},        {SYS_fstat, 0, 0},       {SYS_newfstatat, 0, 0},
    {SYS_openat, 0, 0},        {SYS_brk, 0, 0},          {SYS_nanosleep, 0, 0},   {SYS_clock_nanosleep, 0, 0},
    {SYS_clock_gettime, 0, 0}, {SYS_gettimeofday, 0, 0}, {SYS_sched_yield, 0, 0}, {SYS_getpid, 0, 0},
    {SYS_gettid, 0, 0},        {SYS_getrandom, 1, 2},    {SYS_mmap, 1, 2},        {SYS_munmap, 1, 2},
    {SYS_mprotect, 1, 2},      {SYS_madvise, 1, 2},
};
enum { SMALL = 4096 }; /* no structure or path behind any argument is larger */

static int guard_harmless(long number, const greg_t *argument)
{
    size_t i = 0, n = sizeof harmless / sizeof *harmless;
    while (i < n && harmless[i].number != number)
        i++;
    if (i == n)
        return 0;
    if (harmless[i].at &&
        guard_find((uint64_t)argument[harmless[i].at - 1], (uint64_t)argument[harmless[i].bytes - 1]))
        return 0;
    for (unsigned k = 0; k < 6; k++)
        if (guard_find((uint64_t)argument[k], SMALL))
            return 0;
    return 1;
}

static void guard_on_call(int sig, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    greg_t *r = uc->uc_mcontext.gregs;
    const greg_t argument[6] = {r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]};
    if (info->si_code != 2 /* SYS_USER_DISPATCH */) {
        guard_give_up(NOT_CALL);
        guard_again(sig, info);
        return;
    }
    if (info->si_arch == AUDIT_ARCH_X86_64 && atomic_load(&state) == UP &&
        guard_harmless(info->si_syscall, argument)) {
        r[REG_RAX] = mt_guard_call(info->si_syscall, argument[0], argument[1], argument[2], argument[3],
                                   argument[4], argument[5]);
        return;
    }
    guard_give_up(NOT_CALL);
    r[REG_RAX] = info->si_syscall;
    r[REG_RIP] -= 2; /* the instruction once more */
}

#define OURS (1ull << (SIGSEGV - 1) | 1ull << (SIGSYS - 1))

/* They use the thread's stack, since a program's signal stack may be too small. mask: signals that wait for
 * the handler to return. Those of system calls must not: a handler of the program may end a read. */
static int guard_install(int sig, void (*handler)(int, siginfo_t *, void *), uint64_t mask,
                         struct guard_action *old)
{
    struct guard_action a = {handler, SA_SIGINFO | SA_NODEFER | 0x04000000 /* SA_RESTORER */, mt_guard_return,
                             mask};
    return mt_guard_call(SYS_rt_sigaction, (long)sig, &a, old, 8L) == 0;
}

/* Returns 1 if the thread has a signal stack without room for the frames of a handler of the program and of
 * ours. */
static int guard_stack_is_small(void)
{
    uint64_t frame = getauxval(51 /* AT_MINSIGSTKSZ */);
    stack_t s = {0};
    return mt_guard_call(SYS_sigaltstack, NULL, &s) ||
           (!(s.ss_flags & SS_DISABLE) && s.ss_size < 2 * frame + FRAMES_ROOM);
}

/* Returns 1 if no signal of the program can be handled with ours blocked: the kernel would end it. Nor with
 * too small a stack. */
static int guard_signals(void)
{
    uint64_t blocked = 0;
    int small = guard_stack_is_small();
    if (mt_guard_call(SYS_rt_sigprocmask, (long)SIG_BLOCK, NULL, &blocked, 8L) || blocked & OURS)
        return 0;
    for (long sig = 1; sig <= 64; sig++) {
        struct guard_action a = {0};
        if (sig == SIGKILL || sig == SIGSTOP || sig == SIGSEGV)
            continue;
        if (mt_guard_call(SYS_rt_sigaction, sig, NULL, &a, 8L) ||
            ((uintptr_t)a.handler > 1 &&
             (a.mask & OURS || sig == SIGSYS || (small && a.flags & (unsigned long)SA_ONSTACK))))
            return 0;
    }
    return 1;
}

/* ---- closing ---- */

static int guard_arm(void)
{
    if (!armed)
        armed = !prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1L, (unsigned long)mt_guard_code,
                       (unsigned long)(mt_guard_code_end - mt_guard_code), (unsigned long)&selector);
    return armed;
}

static void guard_close(void)
{
    raised = &selector;
    atomic_store(&state, UP);
    __atomic_store_n(raised, 1, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < nspans; i++)
        if (mt_guard_call(SYS_mprotect, spans[i].base, spans[i].bytes, (long)PROT_NONE)) {
            guard_give_up(NOT_CLOSED);
            break;
        }
}

static void guard_raise(void)
{
    uint64_t mask = guard_mask(UINT64_MAX);
    owner = pthread_self();
    if (!guard_install(SIGSEGV, guard_on_fault, ~OURS, &old_fault))
        guard_not(NOT_CLOSED);
    else if (guard_install(SIGSYS, guard_on_call, 0, &old_call))
        guard_close();
    else {
        mt_guard_call(SYS_rt_sigaction, (long)SIGSEGV, &old_fault, NULL, 8L);
        guard_not(NOT_CLOSED);
    }
    guard_mask(mask);
}

/* Our own threads are known once they run, and others may be about to sleep: waits a moment for them, but not
 * again and again. */
static int guard_alone(int (*alone)(void))
{
    static unsigned most = 200;
    const struct timespec moment = {.tv_nsec = 500000};
    unsigned tries = 0;
    while (!alone()) {
        if (tries++ >= most) {
            most /= 2;
            return 0;
        }
        nanosleep(&moment, NULL);
    }
    return 1;
}

/* To close and open a page takes some 3 us. With much memory, the calls of a place are then watched the first
 * few times, and again at each power of two: a race of a loop is one of its first turns, too. */
static int guard_due(void)
{
    static struct {
        const struct mt_host_site *site;
        uint64_t calls;
    } places[PLACES];
    uint64_t pages = 0, calls;
    size_t at = ((uintptr_t)mt_host_site_taken >> 4) % PLACES;
    for (size_t i = 0; i < nspans; i++)
        pages += spans[i].bytes / 4096;
    for (int i = 0; i < 16 && places[at].calls && places[at].site != mt_host_site_taken; i++)
        at = (at + 1) % PLACES;
    places[at].site = mt_host_site_taken;
    calls = ++places[at].calls;
    return pages <= FEW || calls <= 2 || calls * pages <= MUCH || !(calls & (calls - 1));
}

/* Waits until no other thread is busy so, for some ms. Returns 1, and is busy until guard_leave, or 0. */
static int guard_enter(unsigned ms)
{
    const struct timespec moment = {.tv_nsec = 100000};
    unsigned tries = 0;
    while (atomic_exchange(&busy, 1)) {
        if (tries++ >= 10 * ms)
            return 0;
        nanosleep(&moment, NULL);
    }
    decides = 1;
    return 1;
}

static void guard_leave(void)
{
    if (decides)
        atomic_store(&busy, 0);
    decides = 0;
}

/* The program goes on while work is under way, so no host function may be watched. */
static void guard_go_on(void)
{
    if (patience > 1) /* it may wait for the host, perhaps each time */
        patience /= 2;
    atomic_fetch_add(&gone_on, 1);
    guard_lift();
}

static int guard_settled(void)
{
    guard_leave(); /* to host functions */
    if (mt_stream_settle(patience) && guard_enter(patience))
        return 1;
    guard_go_on();
    return 0;
}

/* Returns why the host cannot be watched now, or WATCHED. */
static enum guard_reason guard_obstacle(void)
{
    void *warm[2];
    return mt_event_in_job()                        ? NOT_JOB /* MPI reads its memory from outside */
           : nlines >= LINES                        ? NOT_LONG
           : !guard_due()                           ? NOT_LARGE
           : !guard_alone(mt_last_alone)            ? NOT_THREADS
           : !guard_settled()                       ? NOT_BUSY
           : !guard_signals()                       ? NOT_HANDLERS
           : !guard_plain()                         ? NOT_RIGHTS
           : backtrace(warm, 2) < 1 || !guard_arm() ? NOT_KERNEL
                                                    : WATCHED;
}

static void guard_left(void)
{
    if (!guard_spans())
        return;
    enum guard_reason why = guard_obstacle();
    calls_left++;
    counted = 0;
    if (why)
        guard_not(why);
    else if (mt_order_outstanding()) /* host functions may have ended meanwhile */
        guard_raise();
}

static void guard_after(void)
{
    if (mt_in_host_function() || !mt_order_outstanding())
        return;
    mt_last_waits(1); /* for a host function that is watched */
    int entered = guard_enter(patience);
    mt_last_waits(0);
    if (entered) {
        guard_left();
    } else {
        calls_left++;
        counted = 0;
        guard_not(NOT_BUSY);
        guard_go_on();
    }
    guard_leave();
}

/* ---- lines ---- */

/* Returns 1 for code of the C and C++ libraries: the place is then that of the call (memcpy, printf). */
static int guard_is_library(void *code)
{
    static const char *const names[] = {"libc.so", "libc-", "libstdc++.so", "libm.so", "ld-linux"};
    Dl_info info;
    const char *slash = dladdr(code, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    for (size_t i = 0; slash && i < sizeof names / sizeof *names; i++)
        if (!strncmp(slash + 1, names[i], strlen(names[i])))
            return 1;
    return 0;
}

static const struct mt_host_site *guard_place(const struct guard_touch *t)
{
    void *frame[1 + MT_SITE_CALLERS] = {NULL};
    unsigned n = 1, at = 0;
    if (t->python)
        return mt_python_known(t->file, t->python);
    while (at < t->nframes && t->frame[at] != t->code)
        at++;
    frame[0] = (char *)t->code + 1; /* where a place is looked for, addresses are of the code after calls */
    while (at + 1 < t->nframes && guard_is_library((char *)frame[0] - 1))
        frame[0] = t->frame[++at];
    while (++at < t->nframes && n <= MT_SITE_CALLERS)
        frame[n++] = t->frame[at];
    return mt_failed_place(frame, n);
}

/* function: number of the host function that made the accesses, or 0. */
static void guard_write(uint64_t function)
{
    uint64_t op = ntouches ? mt_order_touch() : 0;
    for (unsigned i = 0; op && i < ntouches && nlines < LINES; i++, nlines++) {
        const struct guard_touch *t = &touches[i];
        struct mt_touch_line l = {.op = op,
                                  .function = function,
                                  .address = t->address,
                                  .writes = t->writes,
                                  .base = t->base,
                                  .bytes = t->bytes,
                                  .blind = blind && !i};
        const struct mt_host_site *site = guard_place(t);
        if (site) /* NULL: our own libraries */
            mt_event_touch(&l, site);
    }
    blind &= !ntouches;
    ntouches = 0;
}

static void guard_before(void)
{
    if (atomic_load(&state) == DOWN && !ntouches)
        return;
    guard_lift();
    if (!mt_in_host_function() && pthread_equal(owner, pthread_self()))
        guard_write(0);
}

/* ---- host functions ---- */

enum { FUNCTION_MS = 200 };       /* as long as a host function waits to be watched */
static uint64_t function_blocked; /* SIGSYS, if it was blocked */

static int function_may(void)
{
    void *warm[2];
    return !mt_event_in_job() && nlines < LINES && guard_due() && guard_alone(mt_last_asleep) &&
           guard_signals() && guard_plain() && backtrace(warm, 2) > 0 && guard_arm();
}

static int function_watch(void)
{
    const uint64_t call = 1ull << (SIGSYS - 1);
    if (atomic_load(&state) != DOWN || ntouches || !guard_spans())
        return 0;
    mt_guard_call(SYS_rt_sigprocmask, (long)SIG_UNBLOCK, &call, &function_blocked, 8L);
    function_blocked &= call;
    counted = 1; /* it is no call */
    unsigned before = gone_on;
    if (function_may())
        guard_raise();
    if (gone_on != before) /* now guard_go_on may have found the pages open */
        guard_lift();
    if (pthread_equal(owner, pthread_self()) && atomic_load(&state) == UP)
        return 1;
    mt_guard_call(SYS_rt_sigprocmask, (long)SIG_BLOCK, &function_blocked, NULL, 8L);
    return 0;
}

int mt_guard_function(void)
{
    int watched = mt_call_hooks && guard_enter(FUNCTION_MS) && function_watch();
    if (!watched)
        guard_leave();
    return watched;
}

void mt_guard_function_end(uint64_t op)
{
    guard_lift();
    mt_guard_call(SYS_rt_sigprocmask, (long)SIG_BLOCK, &function_blocked, NULL, 8L);
    guard_write(op);
    guard_leave();
}

void mt_guard_finish(void)
{
    mt_call_hooks = NULL;
    guard_before();
    for (int why = WATCHED + 1; why < REASONS; why++)
        if (unwatched[why])
            mt_event_unwatched(reasons[why], unwatched[why], calls_left);
    memset(unwatched, 0, sizeof unwatched);
}

void mt_guard_forked(void)
{
    atomic_store(&state, DOWN);
    atomic_store(&busy, 0);
    decides = 0;
    selector = 0;
    armed = 0;
    ntouches = 0;
    memset(unwatched, 0, sizeof unwatched);
    generation = 0;
}

void mt_guard_start(void)
{
    static const struct mt_call_hooks hooks = {guard_before, guard_after};
    if (mt_failed_watched())
        mt_call_hooks = &hooks;
}
