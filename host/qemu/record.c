/* Turns an engine's events (an instruction begins; bytes were accessed) into records of the core. */
#include "record.h"
#include "../machine/guest.h"

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

static uint32_t size_of(const struct mt_operand *o, uint32_t bytes)
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

static uint32_t site_of(struct mt_thread *t, const struct mt_operand *o, uint64_t address)
{
    return o->op == MT_HOST_CAS && cas_failed(t, o, address) ? o->insn->failed : o->site;
}

void mt_mat_access(struct mt_thread *t, const struct mt_operand *o, uint64_t address, uint32_t bytes,
                   int store)
{
    if (is_half(o, store))
        load_half(t, o, address);
    else if (first_part(t, o, address, bytes) && mt_core_wants(t->core, o->insn->code, address))
        mt_core_access(t->core, site_of(t, o, address), address, o->parts == MT_X86_EACH ? bytes : 0);
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
        mt_core_insn_operand(t->core, site_of(t, o, address), address, size_of(o, bytes));
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
        t->operand[t->count++] = (struct mt_core_operand){address, o->site, size_of(o, bytes)};
    if (!o->last || (o->parts == MT_X86_WIDE && t->part_left > o->spare))
        return;
    t->pending = NULL;
    if (t->count) /* else: the rest of a state area, or bytes that only qemu reads */
        log_operands(t, o->op == MT_HOST_CAS && cas_failed(t, o, t->operand[0].address));
}
