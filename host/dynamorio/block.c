/* DynamoRIO's events for a block of code: insertions by mode, and the functions that inserted code calls. */
#include "insert.h"
#include "platform.h"
#include "../machine/elements.h"
#include "../machine/map.h"
#include "../machine/modules.h"
#include "../machine/sequence.h"
#include <string.h>

enum { ZERO_FLAG = 1 << 6, SWAPS = 16 };

/* Returns the calling thread; the caller ends with mt_leave_sometimes. */
static struct mt_client_thread *block_thread(void)
{
    struct mt_client_thread *t = mt_client_thread(dr_get_current_drcontext());
    if (!t || !t->core || mt_client.forked)
        return NULL;
    if (t->calls.silent)
        mt_leave_sometimes(t);
    return t->calls.silent ? NULL : t;
}

static void block_mcontext(dr_mcontext_t *m, dr_mcontext_flags_t flags)
{
    m->size = sizeof *m;
    m->flags = flags;
    dr_get_mcontext(dr_get_current_drcontext(), m);
}

/* ---- one execution in the core's form ---- */

/* Fills in the operands that are recorded. */
static unsigned block_operands(struct mt_client_thread *t, const struct mt_insn *n, unsigned count,
                               const uint64_t *address, const uint32_t *size,
                               struct mt_core_operand o[MT_X86_OPERANDS])
{
    unsigned wanted = 0;
    for (unsigned i = 0; i < count; i++)
        if (mt_core_wants(t->core, n->code, address[i]))
            o[wanted++] = (struct mt_core_operand){address[i], n->operand[i].site,
                                                   size[i] ? size[i] : n->operand[i].size};
    return wanted;
}

void mt_client_record(struct mt_client_thread *t, const struct mt_core_operand *o)
{
    if (mt_client.mode == MT_CORE_MAT)
        mt_core_access(t->core, o->site, o->address, o->size);
    else if (mt_client.mode == MT_CORE_INSN)
        mt_core_insn_operand(t->core, o->site, o->address, o->size);
    else if (mt_client.turns)
        mt_core_atomic_alone_one(t->core, o->address, o->site, o->size);
    else {
        mt_core_atomic_end(t->core, NULL, 0, 0);
        mt_core_atomic_begin_one(t->core, o->address, o->site, o->size);
        mt_core_atomic_end(t->core, NULL, 0, 0);
    }
}

static void block_record(struct mt_client_thread *t, const struct mt_insn *n, const struct mt_core_operand *o)
{
    if (mt_core_wants(t->core, n->code, o->address))
        mt_client_record(t, o);
}

/* ---- called before an instruction ---- */

/* insn mode: takes note that the instruction executes. */
static void block_executed(const struct mt_insn *n)
{
    struct mt_client_thread *t = block_thread();
    if (!t)
        return;
    mt_core_insn(t->core, n->site);
    mt_leave_sometimes(t);
}

static void block_insn(const struct mt_insn *n, uint64_t packed, uint64_t a0, uint64_t a1, uint64_t a2)
{
    struct mt_client_thread *t = block_thread();
    const uint64_t address[] = {a0, a1, a2};
    if (!t)
        return;
    mt_core_insn(t->core, n->site);
    for (unsigned i = 0; i < (packed & 3); i++) {
        uint32_t size = (uint32_t)(packed >> 8);
        mt_core_insn_operand(t->core, n->operand[i].site, address[i], size ? size : n->operand[i].size);
    }
    mt_leave_sometimes(t);
}

static void block_begin_one(const struct mt_insn *n, uint64_t size, uint64_t address)
{
    struct mt_client_thread *t = block_thread();
    if (!t)
        return;
    mt_core_atomic_end(t->core, NULL, 0, 0); /* the previous instruction */
    if (mt_core_wants(t->core, n->code, address))
        mt_core_atomic_begin_one(t->core, address, n->operand[0].site,
                                 size ? (uint32_t)size : n->operand[0].size);
    mt_leave_sometimes(t);
}

static void block_begin(const struct mt_insn *n, uint64_t packed, uint64_t a0, uint64_t a1, uint64_t a2)
{
    struct mt_client_thread *t = block_thread();
    const uint64_t address[] = {a0, a1, a2};
    const uint32_t size[] = {(uint32_t)(packed >> 8), 0, 0};
    struct mt_core_operand o[MT_X86_OPERANDS];
    if (!t)
        return;
    mt_core_atomic_end(t->core, NULL, 0, 0);
    unsigned count = block_operands(t, n, packed & 3, address, size, o);
    if (count)
        mt_core_atomic_begin(t->core, o, count);
    mt_leave_sometimes(t);
}

/* By turns: records several operands with one time. */
static void block_alone(const struct mt_insn *n, uint64_t packed, uint64_t a0, uint64_t a1, uint64_t a2)
{
    struct mt_client_thread *t = block_thread();
    const uint64_t address[] = {a0, a1, a2};
    const uint32_t size[] = {(uint32_t)(packed >> 8), 0, 0};
    struct mt_core_operand o[MT_X86_OPERANDS];
    if (!t)
        return;
    mt_client_look(t);
    t->hand.inside++;
    mt_core_atomic_alone(t->core, o, block_operands(t, n, packed & 3, address, size, o), 0);
    t->hand.inside--;
    mt_leave_sometimes(t);
}

static void block_end(void)
{
    struct mt_client_thread *t = block_thread();
    if (t)
        mt_core_atomic_end(t->core, NULL, 0, 0);
}

/* Counts an executed access without address. */
static void block_lost(const struct mt_insn *n)
{
    struct mt_client_thread *t = block_thread();
    if (!t)
        return;
    if (mt_client_appends())
        mt_client_look(t);
    t->hand.inside++;
    if (mt_client.mode == MT_CORE_INSN)
        mt_core_insn(t->core, n->site);
    mt_core_lost(t->core, 1);
    t->hand.inside--;
    mt_leave_sometimes(t);
}

static int block_read(uint64_t address, void *to, unsigned bytes)
{
    size_t got = 0;
    return dr_safe_read((const void *)(uintptr_t)address, bytes, to, &got) ? 0 : -1;
}

static void block_elements(const struct mt_insn *n)
{
    struct mt_client_thread *t = block_thread();
    dr_mcontext_t m;
    struct mt_elements_registers r;
    struct mt_element e[MT_ELEMENTS_MAX];
    if (!t)
        return;
    block_mcontext(&m, DR_MC_ALL);
    const uint64_t general[16] = {m.xax, m.xcx, m.xdx, m.xbx, m.xsp, m.xbp, m.xsi, m.xdi,
                                  m.r8,  m.r9,  m.r10, m.r11, m.r12, m.r13, m.r14, m.r15};
    memset(&r, 0, sizeof r);
    memcpy(r.general, general, sizeof general);
    r.ip = n->x86.ip;
    r.read = block_read;
    for (unsigned i = 0; i < 8 && i < MCXT_NUM_OPMASK_SLOTS; i++)
        r.mask[i] = m.opmask[i];
    for (unsigned i = 0; i < 32 && i < MCXT_NUM_SIMD_SLOTS; i++)
        memcpy(r.vector[i], &m.simd[i], sizeof m.simd[i] < 64 ? sizeof m.simd[i] : 64);
    if (mt_client_appends())
        mt_client_look(t);
    t->hand.inside++;
    if (mt_client.mode == MT_CORE_INSN)
        mt_core_insn(t->core, n->site);
    unsigned count = mt_elements(n->elements, &r, e);
    for (unsigned i = 0; i < count; i++)
        block_record(t, n, &(struct mt_core_operand){e[i].address, n->operand[0].site, e[i].size});
    t->hand.inside--;
    mt_leave_sometimes(t);
}

/* ---- compare-and-swap ---- */

/* Lets other threads run between the load of a value and its swap, but only now and then: otherwise many
 * threads and their locks would make no progress. */
static void block_swap_turn(struct mt_client_thread *t)
{
    int others = ++t->swaps % SWAPS == 0;
    if (others)
        t->asked = 1;
    if (others || *t->slot == &t->aside || mt_baton_holder != &t->hand)
        mt_client_look(t);
}

static void block_swap(const struct mt_insn *n, uint64_t address)
{
    struct mt_client_thread *t = block_thread();
    if (!t)
        return;
    t->swap = NULL;
    if (!mt_core_wants(t->core, n->code, address))
        return;
    t->swap = n;
    t->swap_address = address;
    if (mt_client.turns)
        block_swap_turn(t);
    if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns) {
        mt_core_atomic_end(t->core, NULL, 0, 0);
        mt_core_atomic_begin_one(t->core, address, n->operand[0].site, n->operand[0].size);
    } else if (mt_client.mode == MT_CORE_INSN)
        mt_core_insn(t->core, n->site);
}

static void block_swapped_so(struct mt_client_thread *t, int failed)
{
    const struct mt_insn *n = t->swap;
    t->swap = NULL;
    if (mt_client.turns && mt_client.mode == MT_CORE_ATOMIC) {
        struct mt_core_operand o = {t->swap_address, n->operand[0].site, n->operand[0].size};
        t->hand.inside++;
        mt_core_atomic_alone(t->core, &o, 1, failed);
        t->hand.inside--;
        return;
    }
    if (mt_client.mode == MT_CORE_ATOMIC) {
        mt_core_atomic_end(t->core, NULL, 0, failed);
        return;
    }
    if (mt_client.mode == MT_CORE_MAT)
        mt_client_look(t);
    block_record(t, n,
                 &(struct mt_core_operand){t->swap_address, failed ? n->failed : n->operand[0].site,
                                           n->operand[0].size});
}

static void block_swapped(void)
{
    struct mt_client_thread *t = block_thread();
    dr_mcontext_t m;
    if (!t)
        return;
    if (t->swap) {
        block_mcontext(&m, DR_MC_CONTROL);
        block_swapped_so(t, !(m.xflags & ZERO_FLAG));
    }
    mt_leave_sometimes(t);
}

/* Handles a swap at the end of its block, which only DynamoRIO's limit of a block's length causes: its
 * result is predicted from the present value. */
static void block_swap_last(const struct mt_insn *n, uint64_t address)
{
    struct mt_client_thread *t = block_thread();
    dr_mcontext_t m;
    uint64_t now[2] = {0, 0}, wanted[2] = {0, 0};
    size_t got, bytes = n->operand[0].size > 16 ? 16 : n->operand[0].size;
    if (!t)
        return;
    block_mcontext(&m, DR_MC_INTEGER);
    block_swap(n, address);
    dr_safe_read((const void *)(uintptr_t)address, bytes, now, &got);
    wanted[0] = bytes == 8 && n->x86.cas_register == MT_X86_NO_REG ? m.xdx << 32 | (uint32_t)m.xax : m.xax;
    wanted[1] = m.xdx;
    if (t->swap)
        block_swapped_so(t, memcmp(now, wanted, bytes) != 0);
    mt_leave_sometimes(t);
}

/* ---- returns of calls ---- */

/* The code behind a call of a function of interest checks whether it has returned. Where longjmp and
 * exceptions matter, so does the code behind any call: these leave functions without a return, which the
 * stack pointer shows. drwrap could watch returns, too. But if the code behind the call was executed
 * before, drwrap has DynamoRIO stop all threads and free that code at once: a thread's window is then
 * lost, and a thread that waits for its turn inside of a block returns to code that is gone. */
enum { BEHIND_NOTED = 1, BEHIND_LOOKS };
static struct mt_guest_map behind; /* addresses of instructions behind calls; written under behind_lock */
static struct mt_spin behind_lock;

static void block_note(app_pc pc, uint64_t what)
{
    mt_spin_lock(&behind_lock);
    if (mt_guest_map_get(&behind, (uint64_t)(uintptr_t)pc) < what)
        mt_guest_map_put(&behind, (uint64_t)(uintptr_t)pc, what);
    mt_spin_unlock(&behind_lock);
}

void mt_insert_return(app_pc to)
{
    if (mt_guest_map_get(&behind, (uint64_t)(uintptr_t)to) == BEHIND_LOOKS)
        return;
    block_note(to, BEHIND_NOTED);
    if (dr_fragment_exists_at(dr_get_current_drcontext(), to))
        dr_unlink_flush_region(to, 1); /* threads inside continue; no further one enters */
    block_note(to, BEHIND_LOOKS);
}

static int block_watches_returns(void)
{
    return mt_client.options.routine.count || *mt_client.options.functions;
}

static void block_landed(const void *ip)
{
    struct mt_client_thread *t = mt_client_thread(dr_get_current_drcontext());
    dr_mcontext_t m;
    if (!t || !t->core || !t->calls.count || mt_client.forked)
        return;
    block_mcontext(&m, DR_MC_INTEGER | DR_MC_CONTROL);
    mt_client_look(t);
    t->hand.inside++;
    mt_calls_return(&t->calls, t->core, (uint64_t)(uintptr_t)ip, m.xsp, m.xax);
    if (mt_client.mode == MT_CORE_MAT && mt_sequence_moved()) {
        mt_sequence_seen();
        mt_core_moved(t->core);
    }
    t->hand.inside--;
    mt_client_look(t);
}

static void block_note_call(instrlist_t *bb)
{
    instr_t *last = instrlist_last_app(bb);
    if (last && instr_is_call(last) && block_watches_returns())
        block_note(instr_get_app_pc(last) + instr_length(dr_get_current_drcontext(), last), BEHIND_NOTED);
}

static int block_is_behind_call(instrlist_t *bb, instr_t *instr)
{
    return instr == instrlist_first_app(bb) &&
           mt_guest_map_get(&behind, (uint64_t)(uintptr_t)instr_get_app_pc(instr)) != 0;
}

/* ---- insertion ---- */

static void block_call(void *d, instrlist_t *bb, instr_t *where, void *f, const struct mt_insn *n)
{
    dr_insert_clean_call(d, bb, where, f, false, n ? 1 : 0, OPND_CREATE_INTPTR(n));
}

static void block_app_call(void *d, instrlist_t *bb, instr_t *where, void *f, const struct mt_insn *n)
{
    dr_insert_clean_call_ex(d, bb, where, f, DR_CLEANCALL_READS_APP_CONTEXT | DR_CLEANCALL_SAVE_FLOAT,
                            n ? 1 : 0, OPND_CREATE_INTPTR(n));
}

/* Inserts a call with the operands' addresses. */
static void block_exact(void *d, instrlist_t *bb, const struct mt_step *s)
{
    reg_id_t r[MT_X86_OPERANDS];
    opnd_t a[MT_X86_OPERANDS] = {OPND_CREATE_INT32(0), OPND_CREATE_INT32(0), OPND_CREATE_INT32(0)};
    uint64_t packed = s->count | (uint64_t)s->size[0] << 8;
    for (unsigned i = 0; i < s->count; i++) {
        r[i] = mt_insert_address(d, bb, s, i);
        a[i] = opnd_create_reg(r[i]);
    }
    if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns && s->count == 1)
        dr_insert_clean_call(d, bb, s->instr, (void *)block_begin_one, false, 3, OPND_CREATE_INTPTR(s->insn),
                             OPND_CREATE_INT32((int)s->size[0]), a[0]);
    else
        dr_insert_clean_call(d, bb, s->instr,
                             mt_client.mode == MT_CORE_INSN ? (void *)block_insn
                             : mt_client.turns              ? (void *)block_alone
                                                            : (void *)block_begin,
                             false, 5, OPND_CREATE_INTPTR(s->insn), OPND_CREATE_INTPTR(packed), a[0], a[1],
                             a[2]);
    for (unsigned i = 0; i < s->count; i++)
        drreg_unreserve_register(d, bb, s->instr, r[i]);
    if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns && s->last) /* no entry of this block follows */
        block_call(d, bb, s->instr, (void *)block_end, NULL);
}

static void block_insert_swap(void *d, instrlist_t *bb, const struct mt_step *s)
{
    if (mt_client.mode == MT_CORE_MAT && !s->last && s->insn->code == MT_CODE_ALL) {
        mt_insert_swap(d, bb, s);
        return;
    }
    reg_id_t r = mt_insert_address(d, bb, s, 0);
    dr_insert_clean_call_ex(d, bb, s->instr, s->last ? (void *)block_swap_last : (void *)block_swap,
                            s->last ? DR_CLEANCALL_READS_APP_CONTEXT : 0, 2, OPND_CREATE_INTPTR(s->insn),
                            opnd_create_reg(r));
    drreg_unreserve_register(d, bb, s->instr, r);
}

static void block_insert_swapped(void *d, instrlist_t *bb, instr_t *where, const struct mt_insn *n)
{
    if (mt_client.mode == MT_CORE_MAT && n->code == MT_CODE_ALL)
        mt_insert_swapped(d, bb, where, n);
    else
        block_app_call(d, bb, where, (void *)block_swapped, NULL);
}

struct block {
    struct mt_plan *plan;
    reg_id_t window;
    int repeated;
    int filled;                 /* entries of the window from earlier instructions */
    const struct mt_insn *swap; /* the previous instruction, a compare-and-swap */
};

static void block_step(void *d, instrlist_t *bb, const struct mt_step *s, struct block *b)
{
    if (s->kind == MT_STEP_SWAP && mt_client.mode == MT_CORE_MAT)
        mt_insert_look(d, bb, s->instr); /* code inserted after it may make room, but not leave */
    else if (s->kind != MT_STEP_APPEND && s->kind != MT_STEP_LEFT)
        mt_insert_probe(d, bb, s->instr);
    switch (s->kind) {
    case MT_STEP_NONE:
        block_call(d, bb, s->instr, (void *)block_executed, s->insn); /* insn mode only */
        break;
    case MT_STEP_APPEND:
        mt_insert_append(d, bb, s, &b->window);
        b->filled = b->window == DR_REG_NULL || s->insn->code == MT_CODE_DATA
                        ? 0
                        : (int)(s->slot + s->exec + s->count);
        break;
    case MT_STEP_CALL:
        block_exact(d, bb, s);
        break;
    case MT_STEP_SWAP:
        block_insert_swap(d, bb, s);
        b->swap = s->last ? NULL : s->insn;
        break;
    case MT_STEP_ELEMENTS:
        block_app_call(d, bb, s->instr, (void *)block_elements, s->insn);
        break;
    case MT_STEP_LOST:
        block_call(d, bb, s->instr, (void *)block_lost, s->insn);
        break;
    case MT_STEP_LEFT:
        mt_insert_left(d, bb, s->instr, s->count);
        break;
    }
}

/* Returns 1 for the end of a block that may jump to itself for ever. */
static int block_is_loop(instrlist_t *bb, instr_t *instr)
{
    instr_t *first = instrlist_first_app(bb);
    return !instr_get_next_app(instr) && (instr_is_cbr(instr) || instr_is_ubr(instr)) &&
           instr_get_branch_target_pc(instr) <= instr_get_app_pc(first);
}

static dr_emit_flags_t on_insertion(void *d, void *tag, instrlist_t *bb, instr_t *instr, bool for_trace,
                                    bool translating, void *user)
{
    struct block *b = user;
    (void)tag, (void)for_trace, (void)translating;
    if (!b || !b->plan || !instr_is_app(instr))
        return DR_EMIT_DEFAULT;
    if (block_is_behind_call(bb, instr))
        dr_insert_clean_call_ex(d, bb, instr, (void *)block_landed, DR_CLEANCALL_READS_APP_CONTEXT, 1,
                                OPND_CREATE_INTPTR(instr_get_app_pc(instr)));
    if (b->plan->left && instr == instrlist_first_app(bb))
        mt_insert_left(d, bb, instr, b->plan->left);
    if (mt_client_appends() && b->plan->count)
        mt_insert_filled(d, bb, instr, b->filled);
    if (b->swap)
        block_insert_swapped(d, bb, instr, b->swap);
    b->swap = NULL;
    const struct mt_step *s = mt_plan_step(b->plan, instr);
    if (s)
        block_step(d, bb, s, b);
    else if (mt_client.turns && !b->plan->count && block_is_loop(bb, instr))
        mt_insert_look(d, bb, instr);
    else if (mt_client.mode == MT_CORE_ATOMIC && !mt_client.turns && !instr_get_next_app(instr) &&
             b->plan->count)
        block_call(d, bb, instr, (void *)block_end, NULL);
    return DR_EMIT_DEFAULT;
}

static dr_emit_flags_t on_app2app(void *d, void *tag, instrlist_t *bb, bool for_trace, bool translating,
                                  void **user)
{
    struct block *b = dr_thread_alloc(d, sizeof *b);
    bool expanded = false;
    static int started;
    (void)tag, (void)for_trace, (void)translating;
    *b = (struct block){.window = DR_REG_NULL};
    *user = b;
    if (mt_client.forked)
        return DR_EMIT_DEFAULT;
    if (!started) {
        started = 1;
        mt_modules_globals();
        mt_client_worker();
    }
    drutil_expand_rep_string_ex(d, bb, &expanded, NULL);
    b->repeated = expanded;
    return DR_EMIT_DEFAULT;
}

static dr_emit_flags_t on_analysis(void *d, void *tag, instrlist_t *bb, bool for_trace, bool translating,
                                   void *user)
{
    struct block *b = user;
    (void)tag, (void)for_trace, (void)translating;
    block_note_call(bb);
    if (!mt_client.forked)
        b->plan = mt_plan_make(d, bb, b->repeated);
    return DR_EMIT_DEFAULT;
}

static dr_emit_flags_t on_inserted(void *d, void *tag, instrlist_t *bb, bool for_trace, bool translating,
                                   void *user)
{
    struct block *b = user;
    (void)tag, (void)bb, (void)for_trace, (void)translating;
    mt_plan_free(b->plan);
    dr_thread_free(d, b, sizeof *b);
    return DR_EMIT_DEFAULT;
}

void mt_insert_start(void)
{
    /* Calls at a function's entry come before the records of its first instruction. */
    static drmgr_priority_t after_calls = {sizeof after_calls, "memtrace", NULL, NULL,
                                           DRMGR_PRIORITY_INSERT_DRWRAP + 1};
    mt_insert_start_room();
    if (!drmgr_register_bb_instrumentation_ex_event(on_app2app, on_analysis, on_insertion, on_inserted,
                                                    &after_calls))
        mt_core_incomplete("DynamoRIO takes no instrumentation; nothing is traced");
}

void mt_insert_stop(void)
{
    mt_insert_stop_room();
}
