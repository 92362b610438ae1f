/* Jumps, calls and returns of PTX. */
#include "module_parts.h"
#include <stdlib.h>
#include <string.h>

static int flow_branch(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_asm_operand *to = l->s->noperands == 1 ? &l->s->operands[0] : NULL;
    LLVMBasicBlockRef taken = to && to->kind == MT_ASM_NAME ? mt_ptx_label(b, l->s->scope, to->name) : NULL;
    if (!taken)
        return mt_asm_fail(l, "%s: a label is expected", l->s->opcode);
    if (!l->guard) {
        LLVMBuildBr(l->b, taken);
        return 1;
    }
    LLVMBasicBlockRef next = mt_asm_block(l);
    LLVMBuildCondBr(l->b, l->guard, taken, next);
    LLVMPositionBuilderAtEnd(l->b, next);
    return 1;
}

/* Returns the i-th result, which are stored after the parameters. NULL on failure. */
static LLVMValueRef flow_result(struct mt_ptx_body *b, unsigned i)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_ptx_variable *r = &b->f->sig.results[i];
    struct mt_asm_operand o = {.kind = MT_ASM_REG, .index = b->f->sig.nparams + i};
    if (r->space == 'r')
        return mt_asm_in(l, &o, l->a->regs[o.index].bits);
    LLVMValueRef slot = mt_ptx_memory(b, &o);
    LLVMValueRef v = slot ? LLVMBuildLoad2(l->b, mt_ptx_type_of(b->x, r), slot, "") : NULL;
    if (v)
        LLVMSetAlignment(v, r->align);
    return v;
}

static int flow_return(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_ptx_signature *sig = &b->f->sig;
    LLVMValueRef all = sig->nresults > 1 ? LLVMGetUndef(LLVMGetReturnType(sig->type)) : NULL;
    for (unsigned i = 0; i < sig->nresults; i++) {
        LLVMValueRef v = flow_result(b, i);
        if (!v)
            return -1;
        all = sig->nresults > 1 ? LLVMBuildInsertValue(l->b, all, v, i, "") : v;
    }
    if (all)
        LLVMBuildRet(l->b, all);
    else
        LLVMBuildRetVoid(l->b);
    return 1;
}

/* Ends the thread: in a kernel by return; in other functions by a call unknown to LLVM, so that earlier
 * stores stay. */
static int flow_exit(struct mt_ptx_body *b)
{
    const struct mt_ptx_origin *o = b->x->source->origin;
    if (o && o->never(o->ctx, b->here_line)) {
        LLVMBuildUnreachable(b->l.b);
        return 1;
    }
    if (b->f->is_kernel)
        return flow_return(b);
    if (mt_ptx_asm(b))
        return -1;
    LLVMBuildUnreachable(b->l.b);
    return 1;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

struct flow_call {
    const struct mt_asm_operand *results, *callee, *arguments, *prototype; /* NULL if absent */
    struct mt_ptx_signature *sig;
    LLVMValueRef function;
};

/* call{.uni} {(results),} callee{, (arguments)}{, prototype} */
static int flow_read_call(struct mt_ptx_body *b, struct flow_call *call)
{
    const struct mt_asm_statement *s = b->l.s;
    unsigned at = 0;
    if (at < s->noperands && s->operands[at].kind == MT_ASM_VECTOR)
        call->results = &s->operands[at++];
    if (at < s->noperands)
        call->callee = &s->operands[at++];
    if (at < s->noperands && s->operands[at].kind == MT_ASM_VECTOR)
        call->arguments = &s->operands[at++];
    if (at < s->noperands && s->operands[at].kind == MT_ASM_NAME)
        call->prototype = &s->operands[at++];
    return call->callee && at == s->noperands ? 0 : mt_asm_fail(&b->l, "%s is not understood", s->opcode);
}

/* Handles a call by pointer, with the type from a prototype, or from the first possible callee. */
static int flow_by_pointer(struct mt_ptx_body *b, struct flow_call *call)
{
    struct mt_asm_body *l = &b->l;
    const char *label = call->prototype ? call->prototype->name : "";
    struct mt_ptx_targets *t = mt_ptx_map_get(&b->targets, label);
    struct mt_ptx_function *f = t ? mt_ptx_find_function(b->x, t->names[0]) : NULL;
    call->sig = f ? &f->sig : mt_ptx_map_get(&b->prototypes, label);
    if (!call->sig)
        return mt_asm_fail(l, "%s by pointer without a prototype", l->s->opcode);
    LLVMValueRef address = mt_asm_in(l, call->callee, 64);
    if (!address)
        return -1;
    call->function = LLVMBuildIntToPtr(l->b, address, l->ptr, "");
    return 0;
}

static int flow_find_callee(struct mt_ptx_body *b, struct flow_call *call)
{
    if (call->callee->kind != MT_ASM_NAME)
        return flow_by_pointer(b, call);
    struct mt_ptx_function *f = mt_ptx_find_function(b->x, call->callee->name);
    if (!f)
        return mt_asm_fail(&b->l, "function %.100s is not declared", call->callee->name);
    call->sig = &f->sig;
    call->function = f->value;
    return 0;
}

static LLVMValueRef flow_argument(struct mt_ptx_body *b, const struct mt_ptx_variable *v, LLVMTypeRef type,
                                  const struct mt_asm_operand *o)
{
    struct mt_asm_body *l = &b->l;
    int memory = o->kind == MT_ASM_REG && l->a->regs[o->index].memory;
    if (v->is_array)
        return mt_ptx_memory(b, o);
    if (!memory)
        return mt_asm_in(l, o, LLVMGetIntTypeWidth(type));
    LLVMValueRef slot = mt_ptx_memory(b, o);
    return slot ? LLVMBuildLoad2(l->b, type, slot, "") : NULL;
}

static int flow_take_result(struct mt_ptx_body *b, const struct mt_ptx_variable *r,
                            const struct mt_asm_operand *o, LLVMValueRef value)
{
    struct mt_asm_body *l = &b->l;
    if (o->kind == MT_ASM_REG && l->a->regs[o->index].memory) {
        LLVMValueRef slot = mt_ptx_memory(b, o);
        if (slot)
            LLVMSetAlignment(LLVMBuildStore(l->b, value, slot), 1);
        return slot ? 0 : -1;
    }
    if (r->is_array)
        return mt_asm_fail(l, "%s: the result is not a register", l->s->opcode);
    return mt_asm_out(l, o, value, 0);
}

static int flow_take_results(struct mt_ptx_body *b, const struct flow_call *call, LLVMValueRef value)
{
    struct mt_asm_body *l = &b->l;
    unsigned wanted = call->results ? call->results->nitems : 0, n = call->sig->nresults;
    if (wanted && wanted != n)
        return mt_asm_fail(l, "%s takes %u results of %u", l->s->opcode, wanted, n);
    for (unsigned i = 0; i < wanted; i++) {
        LLVMValueRef one = n > 1 ? LLVMBuildExtractValue(l->b, value, i, "") : value;
        if (flow_take_result(b, &call->sig->results[i], &call->results->items[i], one))
            return -1;
    }
    return 0;
}

static int flow_make_call(struct mt_ptx_body *b, struct flow_call *call, LLVMValueRef *values,
                          LLVMTypeRef *types)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_ptx_signature *sig = call->sig;
    unsigned given = call->arguments ? call->arguments->nitems : 0;
    if (given != sig->nparams)
        return mt_asm_fail(l, "%s with %u arguments of %u", l->s->opcode, given, sig->nparams);
    if (mt_ptx_ask(&b->p, sig->params, sig->nparams) || mt_ptx_ask(&b->p, sig->results, sig->nresults))
        return -1;
    LLVMGetParamTypes(sig->type, types);
    for (unsigned i = 0; i < given; i++)
        if (!(values[i] = flow_argument(b, &sig->params[i], types[i], &call->arguments->items[i])))
            return -1;
    LLVMValueRef made = LLVMBuildCall2(l->b, sig->type, call->function, values, given, "");
    LLVMAddCallSiteAttribute(
        made, LLVMAttributeFunctionIndex,
        LLVMCreateEnumAttribute(l->c, LLVMGetEnumAttributeKindForName("convergent", 10), 0));
    for (unsigned i = 0; i < given; i++)
        if (sig->params[i].is_array)
            mt_ptx_pass_in_memory(b->x, made, 1, &sig->params[i], i);
    return flow_take_results(b, call, made);
}

static int flow_call(struct mt_ptx_body *b)
{
    struct flow_call call = {0};
    if (flow_read_call(b, &call) || flow_find_callee(b, &call))
        return -1;
    LLVMValueRef *values = calloc(call.sig->nparams + 1, sizeof *values);
    LLVMTypeRef *types = calloc(call.sig->nparams + 1, sizeof *types);
    int failed =
        values && types ? flow_make_call(b, &call, values, types) : mt_asm_fail(&b->l, "out of memory");
    free(values);
    free(types);
    return failed ? -1 : 1;
}

int mt_ptx_flow(struct mt_ptx_body *b)
{
    static const struct {
        const char *op;
        int (*make)(struct mt_ptx_body *b);
    } table[] = {{"bra", flow_branch},
                 {"brx", mt_ptx_jump},
                 {"call", flow_call},
                 {"ret", flow_return},
                 {"exit", flow_exit}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(b->l.s->parts[0], table[i].op))
            return table[i].make(b);
    return 0;
}
