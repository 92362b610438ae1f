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
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
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
enum { FAULTS = 256 };   /* pages of a span opened one by one; then the rest is opened at once */
enum { FRAMES = 24 };    /* of the stack at an access, with our own */
enum { TOUCHES = 1024 }; /* most accesses noted between two calls */
enum { LINES = 20000 };  /* most accesses noted in a process */
enum {
    FEW = 64,
    MANY = 1 << 16,
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
static pthread_t owner; /* thread that closed the pages */
static char selector;   /* read by the kernel at each system call of a thread that is armed */
static _Thread_local int armed;
static struct guard_action old_fault, old_call;
static struct guard_span *spans;
static size_t nspans, span_room;
static uint64_t generation; /* of the heap, when the spans were made */
static struct guard_touch touches[TOUCHES];
static unsigned ntouches, nlines;
static int blind; /* the host has run unwatched since the last line */
static unsigned patience = PATIENCE;

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

void mt_guard_lift(void)
{
    int up = UP;
    if (!atomic_compare_exchange_strong(&state, &up, LOWERING)) {
        while (atomic_load(&state) == LOWERING)
            mt_guard_call(SYS_sched_yield);
        return;
    }
    __atomic_store_n(&selector, 0, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < nspans; i++)
        mt_guard_call(SYS_mprotect, spans[i].base, spans[i].bytes, (long)(PROT_READ | PROT_WRITE));
    mt_guard_call(SYS_rt_sigaction, (long)SIGSEGV, &old_fault, NULL, 8L);
    mt_guard_call(SYS_rt_sigaction, (long)SIGSYS, &old_call, NULL, 8L);
    atomic_store(&state, DOWN);
}

/* Opens them because the host goes on unwatched. */
static void guard_give_up(void)
{
    mt_guard_lift();
    blind = 1;
}

/* ---- signals ---- */

static void guard_note(struct guard_span *s, uint64_t address, int writes, void *code)
{
    uint64_t page = address & ~4095ull;
    struct guard_touch *t = &touches[ntouches];
    int all = ++s->faults >= FAULTS || ntouches == TOUCHES;
    uint64_t base = all ? s->base : page, bytes = all ? s->bytes : 4096;
    if (ntouches < TOUCHES) {
        t->address = address;
        t->base = base;
        t->bytes = bytes;
        t->writes = writes;
        t->code = code;
        t->nframes = (unsigned)backtrace(t->frame, FRAMES);
        t->python = mt_python_look(t->file);
        ntouches++;
    } else {
        blind = 1;
    }
    mt_guard_call(SYS_mprotect, base, bytes, (long)(writes || all ? PROT_READ | PROT_WRITE : PROT_READ));
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
    guard_give_up();
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
    {SYS_gettid, 0, 0},        {SYS_getrandom, 0, 0},
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
        guard_give_up();
        guard_again(sig, info);
        return;
    }
    if (atomic_load(&state) == UP && guard_harmless(info->si_syscall, argument)) {
        r[REG_RAX] = mt_guard_call(info->si_syscall, argument[0], argument[1], argument[2], argument[3],
                                   argument[4], argument[5]);
        return;
    }
    guard_give_up();
    r[REG_RAX] = info->si_syscall;
    r[REG_RIP] -= 2; /* the instruction once more */
}

/* Handlers nest: a handler of the program that runs meanwhile may make a system call. They use the thread's
 * stack, since a program's signal stack may be too small. */
static int guard_install(int sig, void (*handler)(int, siginfo_t *, void *), struct guard_action *old)
{
    struct guard_action a = {handler, SA_SIGINFO | SA_NODEFER | 0x04000000 /* SA_RESTORER */, mt_guard_return,
                             0};
    return mt_guard_call(SYS_rt_sigaction, (long)sig, &a, old, 8L) == 0;
}

/* Returns 1 if no signal of the program can be handled with ours blocked: the kernel would end it. */
static int guard_signals(void)
{
    const uint64_t ours = 1ull << (SIGSEGV - 1) | 1ull << (SIGSYS - 1);
    uint64_t blocked = 0;
    if (mt_guard_call(SYS_rt_sigprocmask, (long)SIG_BLOCK, NULL, &blocked, 8L) || blocked & ours)
        return 0;
    for (long sig = 1; sig <= 64; sig++) {
        struct guard_action a = {0};
        if (sig == SIGKILL || sig == SIGSTOP || sig == SIGSEGV)
            continue;
        if (mt_guard_call(SYS_rt_sigaction, sig, NULL, &a, 8L) ||
            ((uintptr_t)a.handler > 1 && (a.mask & ours || sig == SIGSYS)))
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

static void guard_raise(void)
{
    owner = pthread_self();
    if (!guard_install(SIGSEGV, guard_on_fault, &old_fault))
        return;
    if (!guard_install(SIGSYS, guard_on_call, &old_call)) {
        mt_guard_call(SYS_rt_sigaction, (long)SIGSEGV, &old_fault, NULL, 8L);
        return;
    }
    atomic_store(&state, UP);
    __atomic_store_n(&selector, 1, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < nspans && atomic_load(&state) == UP; i++)
        if (mt_guard_call(SYS_mprotect, spans[i].base, spans[i].bytes, (long)PROT_NONE))
            guard_give_up();
}

/* Our own threads are known once they run, and others may be about to sleep: waits a moment for them, but not
 * again and again. */
static int guard_alone(void)
{
    static unsigned most = 200;
    const struct timespec moment = {.tv_nsec = 500000};
    unsigned tries = 0;
    while (!mt_last_alone()) {
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
    return pages <= FEW || calls <= 2 || calls * pages <= MANY || !(calls & (calls - 1));
}

static int guard_settled(void)
{
    int idle = mt_stream_settle(patience);
    if (!idle && patience > 1) /* it may wait for the host, perhaps each time */
        patience /= 2;
    return idle;
}

static void guard_after(void)
{
    if (mt_in_host_function() || !mt_order_outstanding() || !guard_spans())
        return;
    void *warm[2];
    if (nlines >= LINES || !guard_due() || !guard_alone() || !guard_settled() || !guard_signals() ||
        !guard_plain() || backtrace(warm, 2) < 1 || !guard_arm())
        blind = 1;
    else if (mt_order_outstanding()) /* host functions may have ended meanwhile */
        guard_raise();
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

static void guard_write(void)
{
    uint64_t op = ntouches ? mt_order_touch() : 0;
    for (unsigned i = 0; op && i < ntouches && nlines < LINES; i++, nlines++) {
        const struct guard_touch *t = &touches[i];
        struct mt_touch_line l = {.op = op,
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
    mt_guard_lift();
    if (!mt_in_host_function())
        guard_write();
}

void mt_guard_finish(void)
{
    mt_call_hooks = NULL;
    guard_before();
}

void mt_guard_forked(void)
{
    atomic_store(&state, DOWN);
    selector = 0;
    armed = 0;
    ntouches = 0;
    generation = 0;
}

void mt_guard_start(void)
{
    static const struct mt_call_hooks hooks = {guard_before, guard_after};
    if (mt_failed_watched() && !mt_event_in_job()) /* MPI reads a rank's memory from another process */
        mt_call_hooks = &hooks;
}
