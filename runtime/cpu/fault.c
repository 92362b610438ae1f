/* Device code that fails: traps, assertions, unsupported instructions, and hardware faults (a bad address, a
 * division by zero, a stack that ran into its guard page). The launch fails with an error code and a message,
 * the program goes on. Signals that are not the doing of device code go to whoever handled them before. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include "local.h"
#include "scheduler.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void mt_fault_where(char *text, size_t size)
{
    const struct mt_cpu_tls *t = &mt_cpu_tls;
    snprintf(text, size, "CTA (%u,%u,%u), thread (%u,%u,%u)", t->ctaid[0], t->ctaid[1], t->ctaid[2],
             t->tid[0], t->tid[1], t->tid[2]);
}

void mt_fault_record(struct mt_run *run, int code, const char *text)
{
    pthread_mutex_lock(&lock);
    if (!run->launch->message[0])
        snprintf(run->launch->message, sizeof run->launch->message, "%s", text);
    atomic_compare_exchange_strong(&run->failed, &(int){0}, code);
    pthread_mutex_unlock(&lock);
}

/* Leaves the running fiber for good. */
static _Noreturn void leave(void)
{
    struct mt_worker *w = mt_worker_self;
    void *dead;
    w->status = MT_CTA_FAILED;
    mt_fiber_switch(&dead, w->sched_sp, 0);
    __builtin_unreachable();
}

void mt_fault_fail(int code, const char *format, ...)
{
    struct mt_cta *cta = mt_cta_current();
    char where[256], what[256], text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    mt_fault_where(where, sizeof where);
    snprintf(text, sizeof text, "%.250s: %.250s", where, what);
    mt_fault_record(cta->run, code, text);
    leave();
}

void mt_cpu_trap(void)
{
    mt_fault_fail(MT_ERR_LAUNCH, "trap instruction");
}

void mt_cpu_unsupported(const char *what, const char *file, uint32_t line)
{
    mt_fault_fail(MT_ERR_UNSUPPORTED, "the CPU device cannot run %s (%s:%u)",
                  what ? what : "this instruction", file && *file ? file : "?", line);
}

void mt_cpu_assertfail(const char *message, const char *file, uint32_t line, const char *function)
{
    const struct mt_cpu_tls *t = &mt_cpu_tls;
    char text[512]; /* made before stderr is locked: the strings are the kernel's, and may be bad pointers */
    snprintf(text, sizeof text, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
             file, line, function, t->ctaid[0], t->ctaid[1], t->ctaid[2], t->tid[0], t->tid[1], t->tid[2],
             message);
    fflush(stdout);
    fputs(text, stderr);
    mt_fault_fail(MT_ERR_ASSERT, "assertion `%s` failed (%s:%u)", message, file, line);
}

/* ---- hardware faults
 * ----------------------------------------------------------------------------------------------- */

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
#define NSIGNALS (sizeof signals / sizeof signals[0])
static struct sigaction before[NSIGNALS];

static void describe(char *text, size_t size, int sig, const siginfo_t *info)
{
    const struct mt_worker *w = mt_worker_self;
    const struct mt_cta *cta = mt_cta_current();
    const struct mt_fiber *f = w && cta ? cta->current : NULL;
    uint64_t address = (uint64_t)(uintptr_t)info->si_addr;
    uint64_t low = f && f->stack ? (uint64_t)(uintptr_t)f->stack->low : 0;
    if (sig == SIGFPE)
        snprintf(text, size, "integer division by zero or overflow");
    else if (sig == SIGILL)
        snprintf(text, size, "invalid instruction (a trap, or code the compiler held for unreachable)");
    else if (low && address < low && address >= low - 4096)
        snprintf(text, size, "stack overflow of a device thread (MEMTRACE_CPU_STACK sets more)");
    else
        snprintf(text, size, "illegal address 0x%llx", (unsigned long long)address);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
    struct mt_worker *w = mt_worker_self;
    struct mt_cta *cta = w ? mt_cta_current() : NULL;
    if (w && w->in_device && cta && info->si_code > 0) {
        ucontext_t *uc = context;
        char where[256], what[128], text[512];
        mt_fault_where(where, sizeof where);
        describe(what, sizeof what, sig, info);
        snprintf(text, sizeof text, "%.250s: %s", where, what);
        mt_fault_record(cta->run, sig == SIGFPE || sig == SIGILL ? MT_ERR_LAUNCH : MT_ERR_ADDRESS, text);
        /* Return from the handler into leave(), on a stack of its own: the fiber's may be used up. */
        uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)leave;
        uc->uc_mcontext.gregs[REG_RSP] =
            (greg_t)(((uintptr_t)w->fault_stack + 4 * MT_FAULT_STACK) & ~(uintptr_t)63) - 8;
        return;
    }
    for (size_t i = 0; i < NSIGNALS; i++) {
        if (signals[i] != sig)
            continue;
        if (before[i].sa_flags & SA_SIGINFO) {
            before[i].sa_sigaction(sig, info, context);
        } else if (before[i].sa_handler != SIG_DFL && before[i].sa_handler != SIG_IGN) {
            before[i].sa_handler(sig);
        } else { /* the fault happens again, now with the default action */
            sigaction(sig, &before[i], NULL);
            if (info->si_code <= 0)
                raise(sig);
        }
    }
}

void mt_fault_install(void)
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_sigaction = on_signal;
    sa.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (size_t i = 0; i < NSIGNALS; i++)
        sigaction(signals[i], &sa, &before[i]);
}

void mt_fault_thread(struct mt_worker *w)
{
    /* The upper quarter is where a faulting fiber ends; the rest serves the handler. */
    stack_t ss = {.ss_sp = w->fault_stack, .ss_size = 3 * MT_FAULT_STACK};
    sigaltstack(&ss, NULL);
}
