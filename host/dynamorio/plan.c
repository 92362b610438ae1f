/* The plan of insertions into a block of code. */
#include "plan.h"
#include "platform.h"
#include "../machine/elements.h"
#include "../machine/modules.h"
#include <stdlib.h>
#include <string.h>

/* A window keeps one register. Limit of registers that its addresses need or its code changes: drreg loses
 * the value it keeps in a register that the program changes and never reads. */
enum { MOST_REGISTERS = 10 };

static struct mt_spin insns; /* for mt_insn_get: one caller at a time */

static const struct mt_insn *plan_insn(void *drcontext, app_pc pc, enum mt_core_code code)
{
    uint8_t bytes[15];
    int size = decode_sizeof(drcontext, pc, NULL, NULL);
    size_t got = 0;
    if (size <= 0 || size > 15 || !dr_safe_read(pc, (size_t)size, bytes, &got))
        return NULL;
    mt_spin_lock(&insns);
    struct mt_insn *n =
        mt_insn_get((uint64_t)(uintptr_t)pc, bytes, (unsigned)size, mt_client.mode == MT_CORE_INSN, code);
    if (n && !n->elements_known) {
        n->elements = mt_elements_form(n->bytes, n->x86.length);
        n->elements_known = 1;
    }
    mt_spin_unlock(&insns);
    return n;
}

/* ---- operands ---- */

static unsigned plan_register(reg_id_t r)
{
    if (r == DR_REG_NULL || !reg_is_gpr(r))
        return MT_X86_NO_REG;
    return (unsigned)(reg_to_pointer_sized(r) - DR_REG_START_64);
}

static uint32_t plan_bit(reg_id_t r)
{
    unsigned n = plan_register(r);
    return n == MT_X86_NO_REG ? 0 : 1u << n;
}

static uint32_t plan_bits(opnd_t o)
{
    return opnd_is_base_disp(o) ? plan_bit(opnd_get_base(o)) | plan_bit(opnd_get_index(o)) : 0;
}

static int plan_same(opnd_t o, const struct mt_x86_operand *x)
{
    if (!opnd_is_memory_reference(o))
        return 0;
    if (!opnd_is_base_disp(o))
        return x->base == MT_X86_NO_REG;
    return plan_register(opnd_get_base(o)) == x->base;
}

static uint32_t plan_writes(instr_t *instr)
{
    uint32_t bits = 0;
    for (int i = 0; i < instr_num_dsts(instr); i++) {
        opnd_t o = instr_get_dst(instr, (uint)i);
        bits |= opnd_is_reg(o) ? plan_bit(opnd_get_reg(o)) : 0;
    }
    return bits;
}

/* Returns DynamoRIO's operand for one of ours. Returns 0, or -1 if there is none. */
static int plan_operand(instr_t *instr, const struct mt_x86_operand *x, opnd_t *found)
{
    int load = x->op == MT_HOST_LOAD, n = load ? instr_num_srcs(instr) : instr_num_dsts(instr), only = 0;
    opnd_t any = opnd_create_null();
    for (int i = 0; i < n; i++) {
        opnd_t o = load ? instr_get_src(instr, (uint)i) : instr_get_dst(instr, (uint)i);
        if (plan_same(o, x)) {
            *found = o;
            return 0;
        }
        if (opnd_is_memory_reference(o)) {
            any = o;
            only++;
        }
    }
    *found = any;
    return only == 1 ? 0 : -1;
}

static void plan_operands(struct mt_step *s)
{
    const struct mt_insn *n = s->insn;
    for (unsigned i = 0; i < n->x86.count; i++) {
        opnd_t o;
        if (plan_operand(s->instr, &n->x86.operand[i], &o) != 0 || instr_get_opcode(s->instr) == OP_enter) {
            s->kind = MT_STEP_LOST;
            return;
        }
        if (n->operand[i].parts == MT_X86_EACH)
            s->size[s->count] = drutil_opnd_mem_size_in_bytes(o, s->instr);
        s->which[s->count] = (uint8_t)i;
        s->operand[s->count++] = o;
        s->avoid |= plan_bits(o);
    }
}

static enum mt_plan_kind plan_kind(const struct mt_insn *n)
{
    if ((!n->site && n->code != MT_CODE_NONE) || !n->x86.count)
        return MT_STEP_NONE;
    if (n->elements)
        return MT_STEP_ELEMENTS;
    return n->x86.cas ? MT_STEP_SWAP : MT_STEP_APPEND;
}

/* ---- windows ---- */

static unsigned plan_popcount(uint32_t v)
{
    return (unsigned)__builtin_popcount(v);
}

static void plan_close(struct mt_plan *p)
{
    unsigned last = p->count;
    if (!p->used)
        return;
    for (unsigned i = p->begin; i < p->count; i++)
        if (p->step[i].kind == MT_STEP_APPEND)
            last = i;
    for (unsigned i = p->begin; i <= last && i < p->count; i++)
        p->step[i].avoid = p->avoid;
    p->step[last].close = 1;
    p->used = 0;
    p->avoid = 0;
}

/* Plans a window; the step has not been counted yet. */
static void plan_window(struct mt_plan *p, struct mt_step *s)
{
    if (s->kind == MT_STEP_NONE)
        return;
    if (s->kind != MT_STEP_APPEND) {
        plan_close(p);
        return;
    }
    unsigned entries = s->exec + s->count;
    if (p->used && (p->used + entries > MT_CORE_SLACK ||
                    plan_popcount(p->avoid | p->written | s->avoid) > MOST_REGISTERS))
        plan_close(p);
    if (!p->used) {
        s->open = 1;
        p->begin = p->count;
        p->written = 0;
    }
    s->slot = p->used;
    p->used += entries;
    p->avoid |= p->written | s->avoid;
}

/* ---- a block ---- */

/* Plans code that is left out: an instruction that must be handled where it executes gets a step. */
static void plan_left(struct mt_plan *p, struct mt_step *s)
{
    if (s->kind != MT_STEP_ELEMENTS && !p->repeated) {
        p->left += s->insn->x86.count;
        return;
    }
    s->kind = s->kind == MT_STEP_ELEMENTS ? s->kind : MT_STEP_LEFT;
    s->count = s->insn->x86.count;
    p->step[p->count++] = *s;
}

static void plan_add(struct mt_plan *p, void *drcontext, instr_t *instr)
{
    app_pc pc = instr_get_app_pc(instr);
    const struct mt_insn *n = pc ? plan_insn(drcontext, pc, p->code) : NULL;
    struct mt_step s = {.instr = instr, .insn = n};
    if (!n || (p->repeated && !instr_reads_memory(instr) && !instr_writes_memory(instr)))
        return;
    if (mt_modules_watch(n->x86.ip)) /* a call comes here, which may check the buffer */
        plan_close(p);
    s.kind = plan_kind(n);
    if (p->code == MT_CODE_NONE) {
        if (s.kind != MT_STEP_NONE)
            plan_left(p, &s);
        return;
    }
    if (s.kind == MT_STEP_APPEND || s.kind == MT_STEP_SWAP)
        plan_operands(&s);
    int insn = mt_client.mode == MT_CORE_INSN;
    if (s.kind == MT_STEP_APPEND && (!mt_client_appends() || (mt_client.turns && !insn && s.count != 1)))
        s.kind = MT_STEP_CALL;
    if (insn && mt_client.turns && (s.kind == MT_STEP_NONE || s.kind == MT_STEP_APPEND)) {
        s.kind = MT_STEP_APPEND;
        s.exec = 1;
    }
    if (s.kind == MT_STEP_NONE && mt_client.mode != MT_CORE_INSN)
        return;
    plan_window(p, &s);
    p->step[p->count++] = s;
}

struct mt_plan *mt_plan_make(void *drcontext, instrlist_t *bb, int repeated)
{
    unsigned room = 0;
    for (instr_t *i = instrlist_first_app(bb); i; i = instr_get_next_app(i))
        room++;
    struct mt_plan *p = calloc(1, sizeof *p);
    if (!p || (room && !(p->step = calloc(room, sizeof *p->step)))) {
        free(p);
        return NULL;
    }
    p->repeated = repeated;
    instr_t *first = instrlist_first_app(bb);
    p->code = first ? mt_modules_code((uint64_t)(uintptr_t)instr_get_app_pc(first)) : MT_CODE_HIDDEN;
    if (p->code == MT_CODE_HIDDEN)
        return p;
    for (instr_t *i = first; i; i = instr_get_next_app(i)) {
        unsigned before = p->count;
        plan_add(p, drcontext, i);
        p->written |= plan_writes(i);
        if (p->count > before && !instr_get_next_app(i))
            p->step[before].last = 1;
    }
    plan_close(p);
    return p;
}

const struct mt_step *mt_plan_step(struct mt_plan *p, const instr_t *instr)
{
    if (p->next < p->count && p->step[p->next].instr == instr)
        return &p->step[p->next++];
    return NULL;
}

void mt_plan_free(struct mt_plan *p)
{
    if (p)
        free(p->step);
    free(p);
}
