/* Threads of the program, their system calls and signals, forks. */
#include "mt_pin.h"
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
extern "C" {
#include "platform.h"
}

/* PinCRT's headers are older. */
#ifndef SYS_execveat
#define SYS_execveat 322
#endif

enum { PAGE = 4096, TURN_ON = 10 /* SIGUSR1 */, TURN_OFF = 12 /* SIGUSR2 */, NO_CALL = -1 };

static TLS_KEY key;
static struct mt_pin_thread untraced = {~(ADDRINT)0, NULL, NULL, 0, 0, 0, 0, {0, 0, 0}, 0};
static ADDRINT program_break; /* 0: unknown yet */

static struct mt_pin_thread *threads_self(THREADID tid)
{
    struct mt_pin_thread *s = (struct mt_pin_thread *)PIN_GetThreadData(key, tid);
    return s ? s : &untraced;
}

static VOID on_thread_start(THREADID tid, CONTEXT *ctxt, INT32, VOID *)
{
    struct mt_pin_thread *s = (struct mt_pin_thread *)calloc(1, sizeof *s);
    PIN_SetContextReg(ctxt, mt_pin_register, (ADDRINT)(s ? s : &untraced));
    if (!s)
        return;
    s->watch = ~(ADDRINT)0;
    s->syscall = (ADDRINT)NO_CALL;
    s->core = mt_core_thread_start((uint64_t)mt_sys(SYS_gettid, 0, 0, 0, 0, 0, 0));
    PIN_SetThreadData(key, s, tid);
}

static VOID on_thread_end(THREADID tid, const CONTEXT *, INT32, VOID *)
{
    struct mt_pin_thread *s = threads_self(tid);
    if (s == &untraced)
        return;
    mt_pin_finish(s);
    if (s->core)
        mt_core_thread_end(s->core);
    s->core = NULL;
    mt_pin_calls_free(s);
    PIN_SetThreadData(key, NULL, tid);
    free(s);
}

/* ---- system calls ---- */

static ADDRINT threads_pages(ADDRINT bytes)
{
    return (bytes + PAGE - 1) & ~(ADDRINT)(PAGE - 1);
}

static VOID on_syscall(THREADID tid, CONTEXT *ctxt, SYSCALL_STANDARD std, VOID *)
{
    struct mt_pin_thread *s = threads_self(tid);
    mt_pin_finish(s); /* no lock is held while the kernel works */
    if (s == &untraced)
        return;
    s->syscall = PIN_GetSyscallNumber(ctxt, std);
    for (UINT32 i = 0; i < 3; i++)
        s->syscall_args[i] = PIN_GetSyscallArgument(ctxt, std, i);
    s->syscall_ip = PIN_GetContextReg(ctxt, LEVEL_BASE::REG_INST_PTR);
    /* Ends tracing before an exec, which Pin does not follow and our buffers would not survive. */
    if ((s->syscall == SYS_execve && mt_sys(SYS_access, (long)s->syscall_args[0], 1, 0, 0, 0, 0) == 0) ||
        s->syscall == SYS_execveat)
        mt_core_stop(0);
    /* Now: afterwards another thread may have got the range. */
    if (s->core && s->syscall == SYS_munmap && s->syscall_args[0] % PAGE == 0 && s->syscall_args[1])
        mt_core_unmap(s->core, s->syscall_args[0], threads_pages(s->syscall_args[1]));
}

static VOID threads_broke(struct mt_pin_thread *s, ADDRINT now)
{
    ADDRINT was = __atomic_exchange_n(&program_break, now, __ATOMIC_RELAXED);
    if (was && was != now)
        mt_core_brk(s->core, was, now, s->syscall_ip);
}

static VOID on_syscall_done(THREADID tid, CONTEXT *ctxt, SYSCALL_STANDARD std, VOID *)
{
    struct mt_pin_thread *s = threads_self(tid);
    ADDRINT number = s->syscall, result = PIN_GetSyscallReturn(ctxt, std), *a = s->syscall_args;
    if (s == &untraced)
        return;
    s->syscall = (ADDRINT)NO_CALL;
    if (!s->core || result > ~(ADDRINT)4095) /* -1..-4095: errno */
        return;
    if (number == SYS_mmap)
        mt_core_alloc(s->core, MT_CORE_MMAP, result, threads_pages(a[1]), s->syscall_ip);
    else if (number == SYS_mremap)
        mt_core_remap(s->core, a[0], threads_pages(a[1]), result, threads_pages(a[2]), s->syscall_ip);
    else if (number == SYS_brk)
        threads_broke(s, result);
}

/* ---- signals, forks ---- */

static VOID on_context_change(THREADID tid, CONTEXT_CHANGE_REASON reason, const CONTEXT *, CONTEXT *, INT32,
                              VOID *)
{
    struct mt_pin_thread *s = threads_self(tid);
    if (mt_pin_mode == MT_CORE_ATOMIC && s->core) {
        mt_core_atomic_drop(s->core, NULL); /* still held: the instruction faulted and did not execute */
        mt_core_context_change(s->core);
    }
    if (reason == CONTEXT_CHANGE_REASON_FATALSIGNAL)
        mt_core_stop(1);
}

/* Consumes the signal: the program does not see it. */
static BOOL on_switch(THREADID, INT32 signal, CONTEXT *, BOOL, const EXCEPTION_INFO *, VOID *)
{
    mt_core_switch(signal == TURN_ON);
    return FALSE;
}

static VOID on_fork(THREADID tid, const CONTEXT *, VOID *)
{
    mt_pin_finish(threads_self(tid));
}

static VOID on_fork_child(THREADID, const CONTEXT *, VOID *)
{
    mt_core_forked();
}

static VOID on_fork_parent(THREADID, const CONTEXT *, VOID *)
{
    mt_core_child();
}

VOID mt_pin_threads_init(const struct mt_core_options *o)
{
    key = PIN_CreateThreadDataKey(NULL);
    PIN_AddThreadStartFunction(on_thread_start, NULL);
    PIN_AddThreadFiniFunction(on_thread_end, NULL);
    PIN_AddSyscallEntryFunction(on_syscall, NULL);
    PIN_AddSyscallExitFunction(on_syscall_done, NULL);
    PIN_AddContextChangeFunction(on_context_change, NULL);
    PIN_AddForkFunction(FPOINT_BEFORE, on_fork, NULL);
    PIN_AddForkFunction(FPOINT_AFTER_IN_CHILD, on_fork_child, NULL);
    PIN_AddForkFunction(FPOINT_AFTER_IN_PARENT, on_fork_parent, NULL);
    if (o->signal)
        for (INT32 signal : {(INT32)TURN_ON, (INT32)TURN_OFF}) {
            PIN_InterceptSignal(signal, on_switch, NULL);
            PIN_UnblockSignal(signal, TRUE);
        }
}
