/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The TCG plugin: memtrace's engine for unmodified x86-64 binaries under qemu-user.
 *
 *     qemu-x86_64 -plugin LIBDIR/memtrace/mt-host-qemu.so,mode=MODE[,NAME=VALUE]... PROGRAM [ARGUMENT]...
 *
 * MODE is mat, insn or atomic. NAME is a long option of base/host_options.def without the dashes
 * (output=FILE, threshold=4096, locks=1); `routine` may be given several times; a switch takes 0, 1, on or
 * off or no value. A comma in a value is written twice. follow=MT-HOST: when the program becomes
 * another one (exec), that one is traced, too (follow.h). No environment variable is read.
 *
 * Needs QEMU 7.0 or newer, built with plugins, for x86-64 guests on x86-64. Features missing in a version
 * are reported once on stderr: without guest registers there are no allocations, traced functions and
 * annotations. Tested with 7.2 (Debian 12); code for 9.0 and later (plugin interface 2 and later) follows
 * their documentation and has not been run.
 *
 * qemu reports each access of an instruction after it was made, with 8 bytes at most (wider ones are joined
 * here), and each iteration of a rep instruction as an execution. Blocks begin at the targets of jumps, calls
 * and returns; there, and at each access, its copy of the guest's registers is valid. */
#define _GNU_SOURCE

#include "registers.h"
#include "api.h"
#include "record.h"
#include "base/elffile.h"
#include "../machine/follow.h"
#include "../machine/guest.h"
#include "../machine/modules.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- SPDX-License-Identifier: GPL-2.0-or-later ---- */

enum { COUNT = 17, FARTHEST = 1 << 18, UNKNOWN = 0 };

int mt_registers_live;

static qemu_get_cpu_f *cpu_of;
static qemu_gdb_read_register *gdb_read;
static qemu_get_registers *list;
static qemu_read_register *read_one;
static struct glib_bytes *(*bytes_new)(void);
static struct glib_bytes *(*bytes_resize)(struct glib_bytes *, unsigned);
static struct glib_bytes *(*bytes_free)(struct glib_bytes *, int);
static long offset; /* offset of rax from the vCPU's object; the others follow by number */

/* gdb's numbering -> the instructions' numbering */
static const uint8_t number_of[COUNT] = {0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const char *const names[COUNT] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8",
                                         "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip"};

/* Returns 0, or -1 if this QEMU gives no registers. */
static int registers_start(void)
{
    *(void **)&bytes_new = dlsym(RTLD_DEFAULT, "g_byte_array_new");
    *(void **)&bytes_resize = dlsym(RTLD_DEFAULT, "g_byte_array_set_size");
    *(void **)&bytes_free = dlsym(RTLD_DEFAULT, "g_byte_array_free");
    *(void **)&list = dlsym(RTLD_DEFAULT, "qemu_plugin_get_registers");
    *(void **)&read_one = dlsym(RTLD_DEFAULT, "qemu_plugin_read_register");
    *(void **)&cpu_of = dlsym(RTLD_DEFAULT, "qemu_get_cpu");
    *(void **)&gdb_read = dlsym(RTLD_DEFAULT, "x86_cpu_gdb_read_register");
    if (!bytes_new || !bytes_resize || !bytes_free)
        return -1;
    if (list && read_one)
        return 0;
    mt_registers_live = cpu_of && gdb_read;
    return mt_registers_live ? 0 : -1;
}

static int ask_debugger(void *cpu, uint64_t value[COUNT])
{
    struct glib_bytes *b = bytes_new();
    int n = 0;
    for (; n < COUNT; n++) {
        bytes_resize(b, 0);
        if (gdb_read(cpu, b, n) != 8 || b->len < 8)
            break;
        memcpy(&value[number_of[n]], b->data, 8);
    }
    bytes_free(b, 1);
    return n == COUNT ? 0 : -1;
}

/* Finds the registers' values, which are consecutive in the object; otherwise the offset stays unknown. */
static void registers_find(const char *cpu)
{
    uint64_t value[COUNT];
    if (ask_debugger((void *)(uintptr_t)cpu, value) != 0 || value[MT_RSP] == 0)
        return;
    for (long at = 0; at < FARTHEST; at += 8)
        if (!memcmp(cpu + at, value, sizeof value)) {
            offset = at;
            return;
        }
}

void mt_registers_attach(struct mt_thread *t, unsigned vcpu)
{
    if (!mt_registers_live)
        return;
    const char *cpu = cpu_of((int)vcpu);
    if (cpu && offset == UNKNOWN)
        registers_find(cpu);
    if (cpu && offset != UNKNOWN)
        t->registers = (const uint64_t *)(const void *)(cpu + offset);
}

static void *registers_handle(unsigned k)
{
    static void *handles[COUNT]; /* the same for all vCPUs of an x86-64 guest */
    if (!handles[k]) {
        struct glib_array *all = list();
        const qemu_reg_descriptor *d = all ? (const void *)all->data : NULL;
        for (unsigned i = 0; all && i < all->len; i++)
            for (unsigned n = 0; n < COUNT; n++)
                if (!strcmp(d[i].name, names[n]))
                    handles[n] = d[i].handle;
    }
    return handles[k];
}

/* Makes t->registers valid, in a callback registered with QEMU_PLUGIN_CB_R_REGS. */
static void registers_read(struct mt_thread *t)
{
    if (mt_registers_live || !list || !read_one)
        return;
    struct glib_bytes *b = bytes_new();
    t->registers = t->copy;
    for (unsigned k = 0; k < COUNT; k++) {
        bytes_resize(b, 0);
        if (!registers_handle(k) || read_one(registers_handle(k), b) < 0 || b->len < 8)
            t->registers = NULL;
        else
            memcpy(&t->copy[k], b->data, 8);
    }
    bytes_free(b, 1);
}

static struct mt_thread *plugin_thread_of(unsigned vcpu)
{
    struct mt_thread *t = mt_threads[vcpu];
    return __builtin_expect(t != NULL, 1) ? t : mt_thread_start(vcpu);
}

/* Returns the operand meant by an access of any other instruction. */
static const struct mt_operand *mt_which(const struct mt_insn *n, int store)
{
    if (n->x86.count < 2)
        return &n->operand[0];
    for (unsigned i = 0; i < n->x86.count; i++)
        if ((n->operand[i].op != MT_HOST_LOAD) == store)
            return &n->operand[i];
    return NULL;
}

/* Returns 1 for two loads (cmps), of which qemu makes the second operand's first. */
static int is_pair(const struct mt_insn *n)
{
    return n->x86.count == 2 && n->operand[0].op == MT_HOST_LOAD && n->operand[1].op == MT_HOST_LOAD;
}

MT_EXPORT int qemu_plugin_version = 1;

static int calls, has_registers;
static struct mt_guest_map call_of; /* address behind a call -> address of the call */
static qemu_insn_data_1 *data_1;    /* either of the two is set */
static qemu_insn_data_3 *data_3;

/* Chooses the interface version. QEMU refuses a plugin for an older interface than it supports; the
 * constructor runs before its check. */
__attribute__((constructor)) static void choose_version(void)
{
    if (!dlsym(RTLD_DEFAULT, "qemu_plugin_read_register"))
        return;
    qemu_plugin_version = dlsym(RTLD_DEFAULT, "qemu_plugin_read_memory_vaddr") ? 4 : 2;
}

/* ---- threads ---- */

/* Called in the parent's thread. */
static void on_vcpu_init(qemu_plugin_id_t id, unsigned vcpu)
{
    (void)id;
    if (vcpu < MT_VCPUS) {
        mt_threads[vcpu] = NULL;
        mt_cores[vcpu] = NULL;
    }
    if (vcpu > 0)
        mt_plugin.parallel = 1; /* qemu now translates everything anew */
}

static void on_vcpu_exit(qemu_plugin_id_t id, unsigned vcpu)
{
    (void)id;
    mt_thread_exit(vcpu);
}

static void on_block(unsigned vcpu, void *arg)
{
    struct mt_thread *t = mt_threads[vcpu];
    (void)arg;
    if (__builtin_expect(t && mt_baton_holder == &t->hand && --t->hand.blocks, 1))
        return;
    if (t || (t = plugin_thread_of(vcpu)))
        mt_turn_wait(t);
}

/* ---- accesses ---- */

static __attribute__((noinline)) void first_one(unsigned vcpu, uint64_t address, uint32_t site)
{
    if (mt_threads[vcpu])
        return; /* inside the CUDA runtime */
    struct mt_thread *t = mt_thread_start(vcpu);
    if (t)
        mt_core_access(t->core, site, address, 0);
}

/* mat mode: the only operand, read or written but not both, in one access */
static void on_one(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *site)
{
    struct mt_core_thread *t = mt_cores[vcpu];
    (void)info;
    if (__builtin_expect(!t, 0)) {
        first_one(vcpu, address, (uint32_t)(uintptr_t)site);
        return;
    }
    mt_core_access(t, (uint32_t)(uintptr_t)site, address, 0);
}

static void on_changed(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *site)
{
    if (qemu_plugin_mem_is_store(info)) /* one record for both */
        on_one(vcpu, info, address, site);
}

static void atomic_access(struct mt_thread *t, const struct mt_operand *o, uint64_t address, uint32_t bytes,
                          int store)
{
    t->hand.inside = 1;
    mt_atomic_access(t, o, address, bytes, store);
    t->hand.inside = 0;
}

static __attribute__((noinline)) void one_more(unsigned vcpu, uint64_t address, const struct mt_operand *o)
{
    struct mt_thread *t = plugin_thread_of(vcpu);
    if (!t || t->calls.silent)
        return;
    if (mt_takes_turns() && mt_baton_holder != &t->hand) /* it was taken away */
        mt_turn_wait(t);
    t->hand.inside = 1;
    mt_core_atomic_alone_one(t->core, address, o->site, o->size);
    t->hand.inside = 0;
}

/* Atomic mode: the only operand, read or written but not both, in one access. */
static void on_atomic_one(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *operand)
{
    struct mt_core_thread *t = mt_cores[vcpu];
    const struct mt_operand *o = operand;
    (void)info;
    if (__builtin_expect(!t || !mt_core_append(t, o->site, address, o->size), 0))
        one_more(vcpu, address, o);
}

static void plugin_take(struct mt_thread *t, const struct mt_operand *o, uint64_t address, uint32_t bytes,
                        int store)
{
    if (mt_plugin.mode == MT_CORE_MAT)
        mt_mat_access(t, o, address, bytes, store);
    else if (mt_plugin.mode == MT_CORE_INSN)
        mt_insn_access(t, o, address, bytes, store);
    else
        atomic_access(t, o, address, bytes, store);
}

/* Emits a pair: both loads have come once one was waiting; the operands go out in their order. */
static void plugin_pair(struct mt_thread *t, const struct mt_insn *n, uint64_t address, uint32_t bytes)
{
    if (t->pair != n) {
        t->pair = n;
        t->pair_at = address;
        return;
    }
    t->pair = NULL;
    plugin_take(t, &n->operand[0], address, bytes, 0);
    plugin_take(t, &n->operand[1], t->pair_at, bytes, 0);
}

static void on_access(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *insn)
{
    struct mt_thread *t = plugin_thread_of(vcpu);
    int store = qemu_plugin_mem_is_store(info);
    uint32_t bytes = 1u << qemu_plugin_mem_size_shift(info);
    if (!t || t->calls.silent)
        return;
    if (is_pair(insn)) {
        plugin_pair(t, insn, address, bytes);
        return;
    }
    const struct mt_operand *o = mt_which(insn, store);
    if (o)
        plugin_take(t, o, address, bytes, store);
}

/* Code of the C runtime, the same in both modes: only accesses to the program's data. */
static void on_data(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *operand)
{
    struct mt_core_thread *t = mt_cores[vcpu];
    const struct mt_operand *o = operand;
    if (!t)
        on_access(vcpu, info, address, o->insn);
    else if (!mt_core_wants(t, MT_CODE_DATA, address))
        return;
    else if (mt_plugin.mode == MT_CORE_MAT)
        mt_core_access(t, o->site, address, 0);
    else
        on_atomic_one(vcpu, info, address, operand);
}

static void on_insn(unsigned vcpu, void *insn)
{
    struct mt_thread *t = plugin_thread_of(vcpu);
    if (t)
        mt_insn_begin(t, insn, 0);
}

/* Called at the start of a block. */
static void on_repeated(unsigned vcpu, void *insn)
{
    struct mt_thread *t = plugin_thread_of(vcpu);
    if (!t)
        return;
    registers_read(t);
    mt_insn_begin(t, insn, 1);
}

static void on_cas(unsigned vcpu, void *insn)
{
    struct mt_thread *t = plugin_thread_of(vcpu);
    if (t)
        mt_cas_begin(t, insn, 1);
}

/* ---- order with CUDA calls ---- */

static __attribute__((noinline)) void plugin_moved(struct mt_thread *t)
{
    mt_sequence_seen();
    if (!mt_plugin.forked)
        mt_core_moved(t->core);
}

/* ---- calls ---- */

/* Hides the thread from the fast path inside the CUDA runtime. */
static void plugin_hide(unsigned vcpu, struct mt_thread *t)
{
    mt_cores[vcpu] = t->calls.silent ? NULL : t->core;
}

static void on_entry(unsigned vcpu, void *watch)
{
    struct mt_thread *t = plugin_thread_of(vcpu);
    if (!t || mt_plugin.forked)
        return;
    registers_read(t);
    const uint64_t *r = t->registers;
    if (!r)
        return;
    uint64_t args[3] = {r[MT_RDI], r[MT_RSI], r[MT_RDX]};
    uint64_t ip = mt_guest_map_get(&call_of, mt_guest_u64(r[MT_RSP]));
    t->hand.inside = 1;
    if (((const struct mt_watch *)watch)->alloc == MT_FN_READ) {
        if (mt_takes_turns() && mt_baton_holder != &t->hand)
            mt_turn_wait(t);
        mt_record_copied(t, args);
        t->hand.inside = 0;
        return;
    }
    mt_calls_enter(&t->calls, t->core, watch, r[MT_RSP], r[MT_RBP], ip, args);
    t->hand.inside = 0;
    plugin_hide(vcpu, t);
}

static __attribute__((noinline)) void plugin_returned(struct mt_thread *t, void *ip)
{
    if (mt_plugin.forked)
        return;
    registers_read(t);
    t->hand.inside = 1;
    if (t->registers)
        mt_calls_return(&t->calls, t->core, (uint64_t)(uintptr_t)ip, t->registers[MT_RSP],
                        t->registers[MT_RAX]);
    t->hand.inside = 0;
}

static void on_behind_call(unsigned vcpu, void *ip)
{
    struct mt_thread *t = mt_threads[vcpu];
    if (!t)
        return;
    if (t->calls.count) {
        plugin_returned(t, ip);
        plugin_hide(vcpu, t);
    }
    if (mt_plugin.mode == MT_CORE_MAT && mt_sequence_moved())
        plugin_moved(t); /* a CUDA call may have returned here */
}

static void on_syscall(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2,
                       uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    struct mt_thread *t = vcpu < MT_VCPUS ? plugin_thread_of(vcpu) : NULL;
    uint64_t args[6] = {a1, a2, a3, a4, a5, a6};
    (void)id, (void)a7, (void)a8;
    if (mt_plugin.forked)
        mt_syscall_in_child(number, args);
    if (!t || mt_plugin.forked)
        return;
    t->hand.inside = 1;
    uint64_t site = mt_calls_site(&t->calls);
    if (!site && mt_registers_live && t->registers)
        site = t->registers[MT_RIP];
    t->syscall.silent = t->calls.silent != 0;
    mt_record_reads(t, number, args, site);
    mt_syscall_enter(&t->syscall, t->core, number, args, site);
    t->hand.inside = 0;
    mt_core_turn_end(t->core); /* it may wait for others */
    mt_baton_give(&t->hand);
}

static void on_syscall_ret(qemu_plugin_id_t id, unsigned vcpu, int64_t number, int64_t result)
{
    struct mt_thread *t = vcpu < MT_VCPUS ? mt_threads[vcpu] : NULL;
    (void)id;
    if (!t || mt_plugin.forked)
        return;
    if (number == SYS_rt_sigaction && t->syscall.number == number && result == 0 && t->syscall.args[1])
        mt_signals_changed((int)t->syscall.args[0], mt_guest_u64(t->syscall.args[1]));
    mt_syscall_return(&t->syscall, t->core, number, result);
    if (!mt_takes_turns())
        mt_core_turn_begin(t->core);
}

/* ---- translation ---- */

static unsigned plugin_bytes_of(const struct qemu_plugin_insn *insn, uint8_t bytes[16])
{
    size_t size = qemu_plugin_insn_size(insn);
    size = size > 15 ? 15 : size;
    if (data_3)
        return (unsigned)data_3(insn, bytes, size);
    memcpy(bytes, data_1(insn), size);
    return (unsigned)size;
}

/* Returns 1 if the only operand is read or written, but not both, in one access. */
static int plugin_is_plain(const struct mt_insn *n)
{
    const struct mt_operand *o = &n->operand[0];
    return n->x86.count == 1 && o->parts == MT_X86_ONE && o->op <= MT_HOST_STORE;
}

/* Registers one callback for all accesses of an instruction: asked for loads or stores alone, 7.2 reports
 * others. */
static void watch_accesses(struct qemu_plugin_insn *q, struct mt_insn *n)
{
    const struct mt_operand *o = &n->operand[0];
    qemu_cb_mem *f = on_access;
    void *arg = n;
    if (n->x86.count == 0)
        return;
    if (n->code == MT_CODE_DATA) {
        f = plugin_is_plain(n) && !mt_plugin.options.test ? on_data : on_access;
        arg = f == on_data ? (void *)&n->operand[0] : n;
    } else if (mt_plugin.mode == MT_CORE_MAT && n->x86.count == 1 && o->parts == MT_X86_ONE && !n->x86.cas) {
        f = o->op == MT_HOST_LOAD || o->op == MT_HOST_STORE ? on_one : on_changed;
        arg = (void *)(uintptr_t)o->site;
    } else if (mt_plugin.mode == MT_CORE_ATOMIC && plugin_is_plain(n) && !mt_plugin.options.test) {
        f = on_atomic_one;
        arg = &n->operand[0];
    }
    qemu_plugin_register_vcpu_mem_cb(q, f, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, arg);
}

/* Returns the number of accesses left out (--library) that are counted at the start of the block.
 * Instructions that call qemu's helpers count theirs access by access: without a callback 7.2 would call
 * that of the jump that led here. */
static unsigned leave_out(struct qemu_plugin_insn *q, struct mt_insn *n)
{
    if (!n->x86.count || (plugin_is_plain(n) && !n->x86.repeats))
        return n->x86.count;
    qemu_plugin_register_vcpu_mem_cb(q, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, n);
    return 0;
}

static void on_left_out(unsigned vcpu, void *count)
{
    struct mt_core_thread *t = mt_cores[vcpu];
    if (t)
        mt_core_left_out(t, (uintptr_t)count);
}

/* Counts inside the block as long as only one thread runs at a time. */
static void count_left_out(struct qemu_plugin_tb *tb, unsigned count)
{
    qemu_exec_inline *add;
    *(void **)&add = dlsym(RTLD_DEFAULT, "qemu_plugin_register_vcpu_tb_exec_inline");
    if (!count)
        return;
    if (add && mt_core_always() && (!mt_plugin.parallel || mt_takes_turns()))
        add(tb, QEMU_PLUGIN_INLINE_ADD_U64, mt_core_left(NULL), count);
    else
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_left_out, QEMU_PLUGIN_CB_NO_REGS,
                                             (void *)(uintptr_t)count);
}

static unsigned plugin_bit(unsigned r)
{
    return r == MT_X86_NO_REG ? 0 : 1u << r;
}

/* State while a block's instructions are visited. */
struct block {
    unsigned changed; /* registers written since qemu's copy was valid */
    int first;        /* 1: no earlier one */
};

static void watch_insn(struct qemu_plugin_insn *q, struct mt_insn *n, struct block *b)
{
    const struct mt_x86_operand *o = &n->x86.operand[0];
    int addressed = !(b->changed & (plugin_bit(o->base) | plugin_bit(o->index)));
    b->changed = (n->x86.count && n->x86.certain ? 0 : b->changed) | n->x86.writes;
    if (mt_plugin.mode == MT_CORE_INSN && n->site)
        qemu_plugin_register_vcpu_insn_exec_cb(
            q, n->x86.repeats && b->first ? on_repeated : on_insn,
            n->x86.repeats ? QEMU_PLUGIN_CB_R_REGS : QEMU_PLUGIN_CB_NO_REGS, n);
    b->first = 0;
    if (n->x86.cas && mt_takes_turns() &&
        n->site) /* between the load of a value and its swap, in one block */
        qemu_plugin_register_vcpu_insn_exec_cb(q, on_block, QEMU_PLUGIN_CB_NO_REGS, NULL);
    if (n->x86.cas && mt_plugin.parallel && addressed && n->site)
        qemu_plugin_register_vcpu_insn_exec_cb(q, on_cas, QEMU_PLUGIN_CB_NO_REGS, n);
    if (n->site)
        watch_accesses(q, n);
}

static void watch_start(struct qemu_plugin_tb *tb, uint64_t ip)
{
    const struct mt_watch *w = mt_modules_watch(ip);
    uint64_t before = mt_guest_map_get(&call_of, ip);
    if (mt_takes_turns())
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, NULL);
    if (calls && before)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_behind_call, QEMU_PLUGIN_CB_R_REGS,
                                             (void *)(uintptr_t)ip);
    if (calls && w)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_entry, QEMU_PLUGIN_CB_R_REGS, (void *)(uintptr_t)w);
}

/* Called at the first translation: qemu has now read the program and set its own signal handlers. */
static void look_around(const struct qemu_plugin_insn *first)
{
    qemu_path_to_binary *path;
    *(void **)&path = dlsym(RTLD_DEFAULT, "qemu_plugin_path_to_binary");
    mt_guest_base = (uint64_t)(uintptr_t)qemu_plugin_insn_haddr(first) - qemu_plugin_insn_vaddr(first);
    mt_modules_start(path ? path() : NULL, &mt_plugin.options,
                     mt_plugin.mode == MT_CORE_MAT || mt_plugin.options.container ||
                         mt_plugin.options.others == MT_CODE_DATA,
                     NULL);
    mt_modules_globals();
    mt_signals_start(mt_plugin.options.signal, mt_plugin_death);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    static int first = 1;
    (void)id;
    if (mt_plugin.forked || mt_plugin.refused)
        return;
    if (first)
        look_around(qemu_plugin_tb_get_insn(tb, 0));
    first = 0;
    uint64_t ip = qemu_plugin_tb_vaddr(tb);
    watch_start(tb, ip);
    enum mt_core_code code = mt_modules_code(ip);
    struct block b = {0, 1};
    unsigned left = 0;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *q = qemu_plugin_tb_get_insn(tb, i);
        uint8_t bytes[16];
        unsigned size = plugin_bytes_of(q, bytes);
        struct mt_insn *n =
            mt_insn_get(qemu_plugin_insn_vaddr(q), bytes, size, mt_plugin.mode == MT_CORE_INSN, code);
        if (!n)
            continue;
        if (!n->x86.length)
            mt_refused_look(n->x86.ip, size, mt_plugin.mode);
        if (n->x86.call)
            mt_guest_map_put(&call_of, n->x86.ip + n->x86.length, n->x86.ip);
        if (code >= MT_CODE_DATA)
            watch_insn(q, n, &b);
        else if (code == MT_CODE_NONE)
            left += leave_out(q, n);
    }
    count_left_out(tb, left);
}

/* ---- start and end ---- */

static void on_exit_all(qemu_plugin_id_t id, void *arg)
{
    (void)id, (void)arg;
    if (!mt_plugin.forked)
        mt_plugin_stop(0);
}

static struct mt_core_engine engine = {.name = "qemu",
                                       .locate = mt_modules_locate,
                                       .frame = mt_modules_frame,
                                       .plain = mt_elf_variable,
                                       .sequence = mt_sequence,
                                       .spawn = mt_worker_spawn,
                                       .join = mt_worker_join,
                                       .addresses_late = 1};

/* Returns qemu's name for the program while the guest is not there yet; qemu's own name before 7.x
 * exported it. */
static const char *plugin_called(void)
{
    const char **path = dlsym(RTLD_DEFAULT, "exec_path");
    return path ? *path : NULL;
}

static const char *plugin_program(void)
{
    static char whole[4096];
    const char *path = plugin_called();
    int known = path && realpath(path, whole);
    mt_follow_program(known ? whole : path && *path == '/' ? path : NULL);
    return known ? whole : NULL;
}

static int plugin_refuse(const char *why)
{
    fprintf(stderr, "memtrace: %s\n", why);
    return -1;
}

static int plugin_prepare(const qemu_info_t *info, char *why, unsigned size)
{
    if (strcmp(info->target_name, "x86_64") != 0 || info->system_emulation)
        return snprintf(why, size, "qemu emulates %s%s; the plugin traces x86-64 programs under qemu-x86_64",
                        info->target_name, info->system_emulation ? " systems" : ""),
               -1;
    void *data = dlsym(RTLD_DEFAULT, "qemu_plugin_insn_data");
    if (info->version.cur >= 3)
        *(void **)&data_3 = data;
    else
        *(void **)&data_1 = data;
    if (!data)
        return snprintf(why, size, "this QEMU's plugin interface %d lacks qemu_plugin_insn_data",
                        info->version.cur),
               -1;
    has_registers = registers_start() == 0;
    if (!has_registers)
        fprintf(stderr,
                "memtrace: this QEMU (plugin interface %d) gives no registers: no allocations, traced "
                "functions and annotations; QEMU 7.2 of Debian 12 and QEMU 9 or newer do\n",
                info->version.cur);
    return 0;
}

MT_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    char why[512];
    if (mt_arguments_parse(&mt_plugin.options, argc, argv, why, sizeof why) != 0 ||
        plugin_prepare(info, why, sizeof why) != 0)
        return plugin_refuse(why);
    engine.program = plugin_program();
    engine.called = plugin_called();
    mt_baton_stolen = mt_turn_stolen;
    mt_baton_blocks = (uint32_t)mt_plugin.options.turn;
    if (mt_core_start(&mt_plugin.options, &engine, why, sizeof why) != 0)
        return plugin_refuse(why);
    mt_plugin.mode = mt_plugin.options.mode;
    calls = has_registers;
    pthread_atfork(NULL, NULL, mt_plugin_in_child);
    qemu_plugin_register_vcpu_init_cb(id, on_vcpu_init);
    qemu_plugin_register_vcpu_exit_cb(id, on_vcpu_exit);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_ret);
    qemu_plugin_register_atexit_cb(id, on_exit_all, NULL);
    return 0;
}
