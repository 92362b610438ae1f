/* Turns an engine's events (an instruction begins; bytes were accessed) into records of the core. */
#define _GNU_SOURCE

#include "record.h"
#include "../machine/follow.h"
#include "../machine/decode.h"
#include "../machine/guest.h"
#include "../machine/modules.h"
#include "base/thread.h"
#include "../core/core.h"
#include "registers.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- The plugin's arguments ---- */

enum { WORDS = 64 };

int mt_arguments_parse(struct mt_core_options *o, int argc, char **argv, char *why, unsigned size)
{
    static char *word[WORDS];
    const char *host = NULL;
    int n = 1;
    for (int i = 0; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!strncmp(argv[i], "mode=", 5)) {
            word[0] = argv[i] + 5;
            continue;
        }
        if (!strncmp(argv[i], "follow=", 7)) {
            host = argv[i] + 7;
            continue;
        }
        if (value && (!strcmp(value, "=on") || !strcmp(value, "=off")))
            strcpy(value, !strcmp(value, "=on") ? "=1" : "=0");
        if (n == WORDS || asprintf(&word[n++], "--%s", argv[i]) < 0)
            return snprintf(why, size, "too many plugin arguments"), -1;
    }
    if (!word[0])
        return snprintf(why, size, "the plugin needs mode=mat, mode=insn or mode=atomic"), -1;
    if (mt_core_options_parse(o, n, word, why, size) != 0)
        return -1;
    mt_follow_start(host, "qemu", word, n, o);
    return 0;
}

/* Instructions that qemu cannot run: it raises SIGILL there without naming the instruction. */

#define PAGE 4096u

/* Formats "file:line, in function of module", as far as known. */
static void refused_place(uint64_t ip, char *text, size_t size)
{
    struct mt_core_location p = {.line = 0};
    size_t n = 0;
    mt_modules_locate(ip, &p);
    *text = 0;
    if (*p.file)
        n += (size_t)snprintf(text, size, "%s:%u, ", p.file, p.line);
    if (*p.function && n < size)
        n += (size_t)snprintf(text + n, size - n, "in %s ", p.function);
    if (n < size)
        snprintf(text + n, size - n, "at 0x%llx of %s", (unsigned long long)ip,
                 *p.module ? p.module : "no file");
}

void mt_refused_look(uint64_t ip, unsigned size, enum mt_core_mode mode)
{
    static uint32_t said;
    struct mt_x86_words words;
    struct mt_x86_insn insn;
    unsigned room = PAGE - (unsigned)(ip % PAGE); /* the next page may not exist */
    char place[1600];
    room = room > 15 ? 15 : room < size ? size : room;
    if (mt_x86_decode(&insn, ip, mt_guest(ip), room) != 0 || insn.length <= size ||
        __atomic_exchange_n(&said, 1, __ATOMIC_SEQ_CST))
        return;
    mt_x86_words(&words, ip, mt_guest(ip), room);
    refused_place(ip, place, sizeof place);
    fprintf(stderr, "memtrace: qemu cannot run '%s' (%s) %s: the program gets SIGILL there; %s\n", words.text,
            mt_x86_extension(mt_guest(ip), room), place,
            mode == MT_CORE_INSN
                ? "compile it for a processor without such instructions, or trace it with --engine=pin"
                : "compile it with mt-cc --host, whose programs run on the processor itself "
                  "(--engine=llvm), or for a processor without such instructions");
}

/* A thread of our own inside qemu, for mt_core_engine.spawn and join. It takes no signals, as those are
 * the guest's. */

struct worker {
    pthread_t thread;
    void (*run)(void *);
    void *arg;
};

static void *worker_work(void *worker)
{
    struct worker *w = worker;
    w->run(w->arg);
    return NULL;
}

int mt_worker_spawn(void (*run)(void *), void *arg, void **handle)
{
    struct worker *w = malloc(sizeof *w);
    if (!w)
        return ENOMEM;
    *w = (struct worker){.run = run, .arg = arg};
    int e = mt_base_thread_start(&w->thread, 0, worker_work, w); /* signals are the guest's */
    if (e)
        free(w);
    else
        *handle = w;
    return e;
}

void mt_worker_join(void *handle)
{
    struct worker *w = handle;
    pthread_join(w->thread, NULL);
    free(w);
}

/* --signal: SIGUSR1 turns tracing on, SIGUSR2 off. Also the end of a program killed by a signal. */

static int on;
static void (*on_death)(void);
static struct sigaction theirs[2]; /* qemu's handlers of SIGUSR1 and SIGUSR2 */
static volatile char handled[2];   /* 1: the guest has a handler */

static int signals_which(int signal)
{
    return signal == SIGUSR1 ? 0 : signal == SIGUSR2 ? 1 : -1;
}

static void signals_switched(int signal, siginfo_t *info, void *context)
{
    int k = signals_which(signal);
    mt_core_switch(signal == SIGUSR1);
    if (k >= 0 && handled[k] && (theirs[k].sa_flags & SA_SIGINFO) && theirs[k].sa_sigaction)
        theirs[k].sa_sigaction(signal, info, context);
}

static void put_in_front(int signal)
{
    struct sigaction now, ours;
    int k = signals_which(signal);
    if (sigaction(signal, NULL, &now) != 0 || now.sa_sigaction == signals_switched)
        return;
    theirs[k] = now;
    ours = now;
    ours.sa_sigaction = signals_switched;
    ours.sa_flags = (now.sa_flags | SA_SIGINFO | SA_RESTART) & ~SA_RESETHAND;
    if (!(now.sa_flags & SA_SIGINFO)) /* default or ignored */
        sigfillset(&ours.sa_mask);
    sigaction(signal, &ours, NULL);
}

void mt_signals_changed(int signal, uint64_t handler)
{
    int k = signals_which(signal);
    if (k < 0 || !on)
        return;
    handled[k] = handler > 1;
    put_in_front(signal);
}

/* ---- death ---- */

/* qemu ends a guest killed by a signal by sending itself that signal with the default action, which no
 * plugin callback sees. Nothing else in qemu-user calls kill() on itself. */
static int signals_killing(pid_t pid, int signal)
{
    static pthread_mutex_t once =
        PTHREAD_MUTEX_INITIALIZER; /* a second thread waits for the end of the first one */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    if (signal > 0 && pid == getpid()) {
        /* The same signal may come twice (terminals and timeout send it to the group); the second one
         * waits for us. */
        int changed = sigaction(signal, &ignore, &before) == 0;
        pthread_mutex_lock(&once);
        on_death();
        pthread_mutex_unlock(&once);
        if (changed)
            sigaction(signal, &before, NULL);
    }
    return kill(pid, signal);
}

static int signals_fixed(const struct dl_phdr_info *info, uintptr_t slot)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO &&
            slot - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            return 1;
    return 0;
}

static void signals_replace(const struct dl_phdr_info *info, uintptr_t *slot)
{
    uintptr_t page = (uintptr_t)slot & ~(uintptr_t)4095;
    if (mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) != 0)
        return;
    *slot = (uintptr_t)signals_killing;
    if (signals_fixed(info, (uintptr_t)slot))
        mprotect((void *)page, 4096, PROT_READ);
}

static int in_program(struct dl_phdr_info *info, size_t size, void *arg)
{
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    const ElfW(Rela) *r = NULL;
    size_t bytes = 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            for (const ElfW(Dyn) *d = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
                 d->d_tag != DT_NULL; d++) {
                if (d->d_tag == DT_SYMTAB)
                    symbols = (const void *)d->d_un.d_ptr;
                if (d->d_tag == DT_STRTAB)
                    strings = (const void *)d->d_un.d_ptr;
                if (d->d_tag == DT_JMPREL)
                    r = (const void *)d->d_un.d_ptr;
                if (d->d_tag == DT_PLTRELSZ)
                    bytes = d->d_un.d_val;
            }
    for (; symbols && strings && r && bytes >= sizeof *r; r++, bytes -= sizeof *r)
        if (!strcmp(strings + symbols[ELF64_R_SYM(r->r_info)].st_name, "kill"))
            signals_replace(info, (uintptr_t *)(info->dlpi_addr + r->r_offset));
    return 1; /* the first one is the program; none after it */
}

void mt_signals_start(int switching, void (*death)(void))
{
    on_death = death;
    dl_iterate_phdr(in_program, NULL);
    on = switching;
    if (on) {
        put_in_front(SIGUSR1);
        put_in_front(SIGUSR2);
    }
}

/* ---- The guest's threads, and their turns in atomic mode ---- */

struct mt_plugin_state mt_plugin;
struct mt_thread *mt_threads[MT_VCPUS];
struct mt_core_thread *mt_cores[MT_VCPUS];

/* ---- threads ---- */

static __thread struct mt_thread *current;

struct mt_thread *mt_thread_start(unsigned vcpu)
{
    if (mt_plugin.forked || vcpu >= MT_VCPUS)
        return NULL;
    struct mt_thread *t = calloc(1, sizeof *t);
    if (t) {
        t->hand.thread = gettid();
        if (mt_takes_turns())
            mt_baton_take(&t->hand, 0);
    }
    if (t && !(t->core = mt_core_thread_start((uint64_t)gettid()))) {
        mt_baton_give(&t->hand);
        free(t);
        t = NULL;
    }
    if (!t) {
        mt_plugin.refused = 1;
        return NULL;
    }
    t->core->engine = t;
    mt_core_turn_begin(t->core);
    current = t;
    t->syscall.number = -1;
    mt_registers_attach(t, vcpu);
    mt_cores[vcpu] = t->core;
    return mt_threads[vcpu] = t;
}

void mt_thread_exit(unsigned vcpu)
{
    struct mt_thread *t = vcpu < MT_VCPUS ? mt_threads[vcpu] : NULL;
    if (!t || mt_plugin.forked)
        return;
    mt_threads[vcpu] = NULL;
    mt_cores[vcpu] = NULL;
    if (mt_takes_turns() && mt_baton_holder != &t->hand)
        mt_baton_take(&t->hand, 0);
    mt_core_thread_end(t->core);
    mt_baton_give(&t->hand);
    mt_calls_free(&t->calls);
    free(t);
}

/* Takes the baton first, if possible. */
void mt_plugin_stop(int killed)
{
    if (mt_takes_turns() && current && mt_baton_holder != &current->hand)
        mt_baton_take(&current->hand, 300);
    if (current && !killed)
        mt_core_thread_end(current->core);
    mt_core_stop(killed);
}

void mt_plugin_death(void)
{
    if (!mt_plugin.forked)
        mt_plugin_stop(1);
}

void mt_plugin_in_child(void)
{
    mt_plugin.forked = 1;
    mt_core_forked();
}

/* ---- atomic mode: one thread at a time ---- */

void mt_turn_wait(struct mt_thread *t)
{
    if (mt_plugin.forked)
        return;
    if (mt_baton_holder == &t->hand) {
        t->hand.blocks = mt_baton_blocks;
        if (!mt_baton_wanted(&t->hand))
            return;
        mt_core_turn_end(t->core);
        mt_baton_give(&t->hand);
    }
    mt_baton_take(&t->hand, 0);
    mt_core_turn_begin(t->core);
}

void mt_turn_stolen(struct mt_baton_hand *from)
{
    struct mt_thread *t = (struct mt_thread *)((char *)from - offsetof(struct mt_thread, hand));
    if (t->core)
        mt_core_turn_stolen(t->core);
}

/* Returns 1 for a separate access; 0: it continues the previous part of the operand. */
static int first_part(struct mt_thread *t, const struct mt_operand *o, uint64_t address, uint32_t bytes)
{
    if (o->parts == MT_X86_ONE || o->parts == MT_X86_EACH)
        return 1;
    if (t->part == o) {
        if (o->parts == MT_X86_BLOCK && address != t->part_at && address - t->part_at < o->size)
            return 0;
        if (o->parts == MT_X86_WIDE && t->part_left && address == t->part_at) {
            t->part_at += bytes;
            t->part_left -= bytes < t->part_left ? bytes : t->part_left;
            return 0;
        }
    }
    t->part = o;
    t->part_at = o->parts == MT_X86_WIDE ? address + bytes : address;
    t->part_left = bytes < o->size + o->spare ? o->size + o->spare - bytes : 0;
    return 1;
}

enum { RAX = 0, RCX = 1, RDX = 2, RBX = 3 };

/* Returns 1 for the load of a read-modify-write, whose record is made at the store. */
static int is_half(const struct mt_operand *o, int store)
{
    return !store && (o->op == MT_HOST_ATOMIC || o->op == MT_HOST_CAS);
}

static uint32_t record_size_of(const struct mt_operand *o, uint32_t bytes)
{
    return o->parts == MT_X86_EACH ? bytes : o->size;
}

/* ---- compare-and-swap: did it write? ---- */

static uint64_t of_size(uint64_t v, uint32_t bytes)
{
    return bytes >= 8 ? v : v & ((1ull << (8 * bytes)) - 1);
}

static void read_value(uint64_t address, uint32_t bytes, uint64_t v[2])
{
    v[0] = v[1] = 0;
    memcpy(v, mt_guest(address), bytes > 16 ? 16 : bytes);
}

static void remember_old(struct mt_thread *t, uint64_t address, uint32_t bytes)
{
    read_value(address, bytes, t->old);
    t->old_at = address;
    t->old_known = 1;
}

/* Joins two registers, as for cmpxchg8b and cmpxchg16b. */
static void record_pair(uint64_t low, uint64_t high, uint32_t bytes, uint64_t v[2])
{
    v[0] = bytes == 8 ? (high << 32 | (uint32_t)low) : low;
    v[1] = bytes == 8 ? 0 : high;
}

/* Computes the values that the instruction compares with (old) and would write (new). */
static void record_wanted(const struct mt_thread *t, const struct mt_insn *n, uint32_t bytes, uint64_t old[2],
                          uint64_t new[2])
{
    const uint64_t *r = t->registers;
    if (n->x86.cas_register == MT_X86_NO_REG) {
        record_pair(r[RAX], r[RDX], bytes, old);
        record_pair(r[RBX], r[RCX], bytes, new);
        return;
    }
    old[0] = of_size(r[RAX], bytes);
    new[0] = of_size(r[n->x86.cas_register], bytes);
    old[1] = new[1] = 0;
}

/* Called after the access, with the registers from before the instruction. With the old value the result
 * is exact. Without it, a swap of a value for an equal one that was not expected counts as a success. */
static int cas_failed(struct mt_thread *t, const struct mt_operand *o, uint64_t address)
{
    const struct mt_insn *n = o->insn;
    uint64_t old[2], new[2], now[2];
    int known = t->old_known && t->old_at == address;
    t->old_known = 0;
    if (!n->x86.cas || !t->registers)
        return 0;
    record_wanted(t, n, o->size, old, new);
    if (known)
        return old[0] != t->old[0] || old[1] != t->old[1];
    read_value(address, o->size, now);
    return now[0] != new[0] || now[1] != new[1];
}

/* Stores a load's part: the first one is the lowest; the old value is kept until the store. */
static void load_half(struct mt_thread *t, const struct mt_operand *o, uint64_t address)
{
    if (o->op != MT_HOST_CAS || (t->old_known && address - t->old_at < o->size))
        return;
    remember_old(t, address, o->size);
}

static int record_predict(const struct mt_thread *t, const struct mt_x86_operand *o, uint64_t *address)
{
    const uint64_t *r = t->registers;
    if (o->segment || !r)
        return 0;
    *address = (uint64_t)o->displacement;
    if (o->absolute)
        return 1;
    if (o->base != MT_X86_NO_REG)
        *address += r[o->base];
    if (o->index != MT_X86_NO_REG)
        *address += r[o->index] * o->scale;
    return o->base != MT_X86_NO_REG || o->index != MT_X86_NO_REG;
}

void mt_cas_begin(struct mt_thread *t, const struct mt_insn *n, int addressed)
{
    uint64_t address;
    t->old_known = 0;
    if (n->x86.cas && addressed && record_predict(t, &n->x86.operand[0], &address))
        remember_old(t, address, n->operand[0].size);
}

/* ---- mat and insn mode ---- */

static uint32_t record_site_of(struct mt_thread *t, const struct mt_operand *o, uint64_t address)
{
    return o->op == MT_HOST_CAS && cas_failed(t, o, address) ? o->insn->failed : o->site;
}

void mt_mat_access(struct mt_thread *t, const struct mt_operand *o, uint64_t address, uint32_t bytes,
                   int store)
{
    if (is_half(o, store))
        load_half(t, o, address);
    else if (first_part(t, o, address, bytes) && mt_core_wants(t->core, o->insn->code, address))
        mt_core_access(t->core, record_site_of(t, o, address), address, o->parts == MT_X86_EACH ? bytes : 0);
}

/* qemu executes a rep instruction once more when it has counted down to 0; the processor does not. */
void mt_insn_begin(struct mt_thread *t, const struct mt_insn *n, int counted)
{
    if (counted && n->x86.repeats && t->executed == n && t->registers && t->registers[RCX] == 0)
        return;
    t->executed = n;
    t->taken = 0;
    t->part = NULL;
    t->pair = NULL;
    mt_core_insn(t->core, n->site);
}

/* Returns 1 for the instruction's own access. qemu 7.2 leaves the callbacks of a jump through memory on
 * after it, and an unwatched instruction that calls qemu's helpers (xsave in the loader) then reports
 * under the jump's name. */
static int is_own(struct mt_thread *t, const struct mt_operand *o)
{
    unsigned bit = 1u << (o - o->insn->operand);
    if (o->insn != t->executed || (t->taken & bit))
        return 0;
    if (o->parts != MT_X86_EACH)
        t->taken |= bit;
    return 1;
}

void mt_insn_access(struct mt_thread *t, const struct mt_operand *o, uint64_t address, uint32_t bytes,
                    int store)
{
    if (is_half(o, store))
        load_half(t, o, address);
    else if (first_part(t, o, address, bytes) && is_own(t, o))
        mt_core_insn_operand(t->core, record_site_of(t, o, address), address, record_size_of(o, bytes));
}

/* ---- atomic mode ---- */

static void record_atomic(struct mt_thread *t, const struct mt_core_operand *o, unsigned count, int failed)
{
    if (mt_core_options()->test) { /* other threads run at the same time */
        mt_core_atomic_begin(t->core, o, count);
        mt_core_atomic_end(t->core, NULL, 0, failed);
    } else if (count == 1 && !failed) {
        mt_core_atomic_alone_one(t->core, o[0].address, o[0].site, o[0].size);
    } else {
        mt_core_atomic_alone(t->core, o, count, failed);
    }
}

static void log_operands(struct mt_thread *t, int failed)
{
    record_atomic(t, t->operand, t->count, failed);
    t->count = 0;
}

/* Records loads made by no code, for the code at `ip`. */
static void record_others(struct mt_thread *t, const struct mt_core_operand *o, unsigned n, uint64_t ip)
{
    const struct mt_core_options *given = mt_core_options();
    for (unsigned i = 0; i < n && given->mode != MT_CORE_INSN; i++) {
        if (!mt_core_wants(t->core, given->others, o[i].address))
            continue;
        struct mt_core_operand one = {o[i].address, mt_syscall_site(ip), o[i].size};
        if (one.site && given->mode == MT_CORE_MAT)
            mt_core_access(t->core, one.site, one.address, one.size);
        else if (one.site)
            record_atomic(t, &one, 1, 0);
        else
            mt_core_lost(t->core, 1);
    }
}

void mt_record_reads(struct mt_thread *t, int64_t number, const uint64_t args[6], uint64_t ip)
{
    struct mt_core_operand o[MT_CORE_OPERANDS];
    uint64_t at = 0;
    for (unsigned n; !t->calls.silent && (n = mt_syscall_reads(number, args, &at, o)) != 0;)
        record_others(t, o, n, ip);
}

void mt_record_copied(struct mt_thread *t, const uint64_t args[3])
{
    struct mt_core_operand o = {args[0], 0, (uint32_t)args[1]};
    record_others(t, &o, 1, mt_calls_site(&t->calls));
}

void mt_atomic_access(struct mt_thread *t, const struct mt_operand *o, uint64_t address, uint32_t bytes,
                      int store)
{
    if (is_half(o, store)) {
        load_half(t, o, address);
        return;
    }
    if (t->pending != o->insn) /* it begins */
        t->count = 0;
    t->pending = o->insn;
    if (first_part(t, o, address, bytes) && t->count < MT_X86_OPERANDS &&
        mt_core_wants(t->core, o->insn->code, address))
        t->operand[t->count++] = (struct mt_core_operand){address, o->site, record_size_of(o, bytes)};
    if (!o->last || (o->parts == MT_X86_WIDE && t->part_left > o->spare))
        return;
    t->pending = NULL;
    if (t->count) /* else: the rest of a state area, or bytes that only qemu reads */
        log_operands(t, o->op == MT_HOST_CAS && cas_failed(t, o, t->operand[0].address));
}
