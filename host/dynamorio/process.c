/* Threads of the program, their system calls and signals, forks. */
#define _GNU_SOURCE
#include "client.h"
#include "insert.h"
#include "platform.h"
#include "../machine/guest.h"
#include "../machine/modules.h"
#include <ctype.h>
#include <dirent.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { SIGNALS = 65 };

/* The program's action for a signal as far as known: address of a handler, SIG_DFL or SIG_IGN. */
static uint64_t handler[SIGNALS];

struct mt_client_thread *mt_client_thread(void *drcontext)
{
    return drmgr_get_tls_field(drcontext, mt_client.field);
}

/* ---- destination of entries ---- */

/* Returns the calling thread's slot. Takes a system call once per thread. */
static struct mt_core_thread **process_slot(void)
{
    return (struct mt_core_thread **)((byte *)dr_get_dr_segment_base(mt_client.segment) + mt_client.slot);
}

static void process_count(struct mt_client_thread *t, int traced)
{
    *(uint64_t **)(void *)((byte *)t->slot + (mt_client.left - mt_client.slot)) =
        traced ? mt_core_left(t->core) : &t->uncounted;
}

static void process_aside(struct mt_client_thread *t)
{
    t->aside.cur = t->spare;
    t->aside.limit = NULL;
    *t->slot = &t->aside;
}

static void process_hand(struct mt_client_thread *t)
{
    struct mt_host_entry *end = t->aside.cur;
    for (struct mt_host_entry *e = t->spare; !t->calls.silent && e < end; e++)
        if (mt_client.mode == MT_CORE_INSN && !MT_HOST_OPERAND(e->site))
            mt_core_insn(t->core, e->site);
        else if (mt_client.mode == MT_CORE_INSN)
            mt_core_insn_operand(t->core, e->site, e->address, e->size);
        else if (mt_client.turns)
            mt_core_atomic_alone_one(t->core, e->address, e->site, e->size);
        else
            mt_core_access(t->core, e->site, e->address, e->size);
}

/* DynamoRIO does close_range itself, and does not report its end. */
static void process_skipped(struct mt_client_thread *t)
{
    if (t->syscall.number == SYS_close_range)
        mt_syscall_return(&t->syscall, t->core, SYS_close_range, 0);
}

void mt_client_look(struct mt_client_thread *t)
{
    process_skipped(t);
    int traced = t->core && !t->calls.silent && !mt_client.forked;
    t->hand.inside++;
    if (t->core && !mt_client.forked) {
        mt_turn_hold(t);
        process_hand(t);
    }
    process_aside(t);
    process_count(t, traced);
    if (mt_client.turns && t->core && !mt_client.forked) {
        mt_turn_yield(t);
        if (traced && mt_core_on())
            mt_core_turn_open(t->core);
    }
    t->hand.inside--;
    if (traced && t->core->cur < __atomic_load_n(&t->core->limit, __ATOMIC_RELAXED))
        *t->slot = t->core;
}

/* ---- threads ---- */

/* glibc sets these pointers when it makes a thread; DynamoRIO's own copy of glibc makes none. */
static const unsigned short *ctype_classes;
static const int *ctype_lower, *ctype_upper;

void mt_process_ctype(void)
{
    if (!ctype_classes) { /* the first thread */
        ctype_classes = *__ctype_b_loc();
        ctype_lower = *__ctype_tolower_loc();
        ctype_upper = *__ctype_toupper_loc();
    }
    *(const unsigned short **)__ctype_b_loc() = ctype_classes;
    *(const int **)__ctype_tolower_loc() = ctype_lower;
    *(const int **)__ctype_toupper_loc() = ctype_upper;
}

/* By turns, others may still read the state of a thread that has ended. */
static struct mt_spin ended_lock;
static struct mt_client_thread *ended;

static struct mt_client_thread *process_new(void)
{
    mt_spin_lock(&ended_lock);
    struct mt_client_thread *t = ended;
    ended = t ? t->next : NULL;
    mt_spin_unlock(&ended_lock);
    if (!t)
        return calloc(1, sizeof *t);
    memset(t, 0, sizeof *t);
    return t;
}

static void process_old(struct mt_client_thread *t)
{
    t->core = NULL;
    if (!mt_client.turns) {
        free(t);
        return;
    }
    mt_spin_lock(&ended_lock);
    t->next = ended;
    ended = t;
    mt_spin_unlock(&ended_lock);
}

static void on_thread_start(void *drcontext)
{
    mt_process_ctype();
    struct mt_client_thread *t = process_new();
    drmgr_set_tls_field(drcontext, mt_client.field, t);
    if (!t) { /* its code must not run without it */
        dr_fprintf(STDERR, "memtrace: no memory for a thread\n");
        dr_abort_with_code(1);
        return;
    }
    t->slot = process_slot();
    t->syscall.number = -1;
    /* A child of vfork or posix_spawn runs as a thread in this memory, until it becomes another program. */
    int own = (process_id_t)mt_plat_pid() == mt_client.process;
    t->hand.thread = (int)dr_get_thread_id(drcontext);
    if (!mt_client.forked && own) {
        mt_turn_hold(t);
        t->core = mt_core_thread_start((uint64_t)dr_get_thread_id(drcontext));
        mt_turn_leave(t);
    }
    process_aside(t);
    process_count(t, t->core != NULL);
}

static void process_done(struct mt_client_thread *t)
{
    mt_client_look(t);
    if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns && t->core && !mt_client.forked)
        mt_core_atomic_end(t->core, NULL, 0, 0);
}

static void on_thread_end(void *drcontext)
{
    struct mt_client_thread *t = mt_client_thread(drcontext);
    if (!t)
        return;
    if (t->core && !mt_client.forked) {
        /* At the end of the process another thread may report this: its slot is not this thread's. */
        process_skipped(t);
        t->hand.inside++;
        mt_turn_hold(t);
        process_hand(t);
        if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns)
            mt_core_atomic_end(t->core, NULL, 0, 0);
        mt_core_thread_end(t->core);
        t->core = NULL;
        mt_turn_leave(t);
        t->hand.inside--;
    }
    mt_calls_free(&t->calls);
    drmgr_set_tls_field(drcontext, mt_client.field, NULL);
    process_old(t);
}

/* ---- system calls ---- */

/* Returns the highest descriptor that is, or may be, open. */
static reg_t process_highest(void)
{
    struct rlimit most = {0};
    reg_t highest = 0;
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; d && (e = readdir(d));) {
        reg_t fd = strtoul(e->d_name, NULL, 10);
        highest = fd > highest ? fd : highest;
    }
    if (d)
        closedir(d);
    else if (getrlimit(RLIMIT_NOFILE, &most) == 0)
        highest = most.rlim_max;
    return highest;
}

/* DynamoRIO visits all numbers of the range, and most programs name four thousand millions of them. */
static void process_close_range(void *drcontext, const uint64_t args[6])
{
    reg_t highest = process_highest();
    if (args[0] <= args[1] && args[1] > highest)
        dr_syscall_set_param(drcontext, 1, highest > args[0] ? highest : (reg_t)args[0]);
}

/* seccomp: DynamoRIO makes calls that the program does not. */
static void process_restricted(int number, const uint64_t args[6])
{
    if ((number == SYS_seccomp && args[0] <= SECCOMP_SET_MODE_FILTER) ||
        (number == SYS_prctl && args[0] == PR_SET_SECCOMP)) {
        mt_core_incomplete(
            "the program restricts its system calls (seccomp): the trace ends here, incomplete; "
            "DynamoRIO's own may end the program (--engine=qemu)");
        mt_core_stop(0);
    }
}

static bool on_filter(void *drcontext, int number)
{
    (void)drcontext, (void)number;
    return true;
}

void mt_client_others(struct mt_client_thread *t, const struct mt_core_operand *o, unsigned n, uint64_t ip)
{
    for (unsigned i = 0; i < n && mt_client.mode != MT_CORE_INSN; i++) {
        if (!mt_core_wants(t->core, mt_core_options()->others, o[i].address))
            continue;
        struct mt_core_operand one = {o[i].address, mt_syscall_site(ip), o[i].size};
        mt_turn_hold(t);
        if (one.site)
            mt_client_record(t, &one);
        else
            mt_core_lost(t->core, 1);
    }
}

static void process_reads(struct mt_client_thread *t, int number, const uint64_t args[6], uint64_t ip)
{
    struct mt_core_operand o[MT_CORE_OPERANDS];
    uint64_t at = 0;
    for (unsigned n; !t->calls.silent && (n = mt_syscall_reads(number, args, &at, o)) != 0;)
        mt_client_others(t, o, n, ip);
}

static bool on_syscall(void *drcontext, int number)
{
    struct mt_client_thread *t = mt_client_thread(drcontext);
    uint64_t args[6];
    if (t)
        t->inside_ns = 0;
    for (int i = 0; i < 6; i++)
        args[i] = (uint64_t)dr_syscall_get_param(drcontext, i);
    if (number == SYS_close_range) /* also in a child of vfork, which would take minutes */
        process_close_range(drcontext, args);
    if (!t || !t->core || mt_client.forked)
        return true;
    process_done(t);
    t->hand.inside++;
    uint64_t site = mt_calls_site(&t->calls);
    if (!site) {
        dr_mcontext_t m = {.size = sizeof m, .flags = DR_MC_CONTROL};
        site = dr_get_mcontext(drcontext, &m) ? (uint64_t)(uintptr_t)m.pc : 0;
    }
    t->syscall.silent = t->calls.silent != 0;
    if (number == SYS_exit_group)
        mt_core_stop(0);
    process_restricted(number, args);
    process_reads(t, number, args, site);
    mt_syscall_enter(&t->syscall, t->core, number, args, site);
    t->hand.inside--;
    if (number == SYS_close_range)
        process_aside(t);  /* the next access checks */
    if (mt_client.turns) { /* it may wait for others */
        process_aside(t);
        mt_turn_leave(t);
    }
    return true;
}

static void process_handles(const struct mt_syscall *s)
{
    uint64_t to;
    size_t got;
    if (s->args[1] && s->args[0] < SIGNALS &&
        dr_safe_read((const void *)(uintptr_t)s->args[1], sizeof to, &to, &got))
        __atomic_store_n(&handler[s->args[0]], to, __ATOMIC_RELAXED);
}

static void on_syscall_done(void *drcontext, int number)
{
    struct mt_client_thread *t = mt_client_thread(drcontext);
    int64_t result = (int64_t)dr_syscall_get_result(drcontext);
    if (!t || !t->core || mt_client.forked)
        return;
    if (number == SYS_rt_sigaction && result == 0 && t->syscall.number == number)
        process_handles(&t->syscall);
    mt_syscall_return(&t->syscall, t->core, number, result);
    if (!mt_client.turns) /* the next access takes the turn */
        mt_client_look(t);
}

/* ---- signals ---- */

static int process_kills(int number)
{
    switch (number) {
    case SIGCHLD:
    case SIGURG:
    case SIGWINCH:
    case SIGCONT:
    case SIGSTOP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
        return 0;
    default:
        return 1;
    }
}

/* Called for a signal, but also where the code then continues: only on_signal can tell. */
static bool on_restore(void *drcontext, bool restore_memory, dr_restore_state_info_t *info)
{
    struct mt_client_thread *t = mt_client_thread(drcontext);
    const dr_fault_fragment_info_t *f = &info->fragment_info;
    (void)restore_memory;
    if (!t || !mt_client_appends() || !info->raw_mcontext_valid)
        return true;
    t->stopped = info->raw_mcontext->pc;
    t->filled = f->ilist ? mt_insert_filled_at(drcontext, f->ilist, f->cache_start_pc, t->stopped) : 0;
    return true;
}

/* Handles a block that will not continue: its entries count up to the instruction that did not end. */
static void process_broken_off(struct mt_client_thread *t, const dr_siginfo_t *info)
{
    if (!info->raw_mcontext_valid || info->raw_mcontext->pc != t->stopped)
        return;
    struct mt_core_thread *to = *t->slot;
    if (mt_leave_asked(t)) /* nothing is filled there */
        return;
    __atomic_store_n(&to->cur, to->cur + t->filled, __ATOMIC_RELEASE);
    t->stopped = NULL;
    t->filled = 0;
}

/* DynamoRIO stops threads by SIGILL, but has returned it to the system when the program dies of it: its
 * own end would wait for ever for the writing thread. */
static void process_die(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    kill(mt_plat_pid(), number);
}

/* The thread left the cache: its pending signals are delivered before it continues. */
static dr_signal_action_t process_left(struct mt_client_thread *t)
{
    t->stopped = NULL;
    if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns && t->core)
        mt_core_atomic_end(t->core, NULL, 0, 0);
    process_aside(t);
    return DR_SIGNAL_REDIRECT;
}

static dr_signal_action_t on_signal(void *drcontext, dr_siginfo_t *info)
{
    struct mt_client_thread *t = mt_client_thread(drcontext);
    int number = info->sig;
    uint64_t to = number > 0 && number < SIGNALS ? __atomic_load_n(&handler[number], __ATOMIC_RELAXED) : 1;
    if (mt_client.forked || !t)
        return DR_SIGNAL_DELIVER;
    if (number == SIGSEGV && mt_leave_is(t, info))
        return process_left(t);
    if (mt_client.options.signal && (number == SIGUSR1 || number == SIGUSR2)) {
        mt_core_switch(number == SIGUSR1);
        return to > 1 ? DR_SIGNAL_DELIVER : DR_SIGNAL_SUPPRESS;
    }
    if (to != 1)
        process_broken_off(t, info);
    if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns && t->core) {
        mt_core_atomic_drop(t->core, NULL);
        mt_core_context_change(t->core);
    }
    if (to == 0 && process_kills(number) && !info->blocked) {
        mt_turn_last(t);
        if (!mt_client.turns || mt_baton_holder == &t->hand)
            mt_client_look(t);
        mt_core_stop(1);
        if (number == SIGILL)
            process_die(number);
    }
    return DR_SIGNAL_DELIVER;
}

/* ---- forks ---- */

static void on_fork(void *drcontext)
{
    struct mt_client_thread *t = mt_client_thread(drcontext);
    mt_client.forked = 1;
    mt_core_forked();
    if (t)
        process_aside(t);
    dr_delay_flush_region(NULL, ~(size_t)0, 0, NULL); /* code without records from here on */
}

void mt_process_start(void)
{
    struct sigaction now;
    mt_process_ctype();
    mt_leave_start();
    for (int i = 1; i < SIGNALS; i++) /* actions that the program inherited */
        if (sigaction(i, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            handler[i] = 1;
    mt_client.field = drmgr_register_tls_field();
    if (mt_client.field < 0 || !dr_raw_tls_calloc(&mt_client.segment, &mt_client.slot, 5, 0)) {
        dr_fprintf(STDERR, "memtrace: DynamoRIO has no thread-local memory left\n");
        dr_abort_with_code(1);
    }
    mt_client.back = mt_client.slot + (uint)sizeof(void *);
    mt_client.address = mt_client.back + (uint)sizeof(void *);
    mt_client.site = mt_client.address + (uint)sizeof(void *);
    mt_client.left = mt_client.site + (uint)sizeof(void *);
    drmgr_register_filter_syscall_event(on_filter);
    drmgr_register_thread_init_event(on_thread_start);
    drmgr_register_thread_exit_event(on_thread_end);
    drmgr_register_pre_syscall_event(on_syscall);
    drmgr_register_post_syscall_event(on_syscall_done);
    drmgr_register_restore_state_ex_event(on_restore);
    drmgr_register_signal_event(on_signal);
    dr_register_fork_init_event(on_fork);
}
