/* Lowers an inline-asm call: builds the body into new blocks, which then replace the call. */
#include "asm_lower.h"
#include <llvm-c/DebugInfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mt_asm_fail(struct mt_asm_body *l, const char *format, ...)
{
    va_list list;
    if (l->error->message[0])
        return -1; /* the first error counts */
    va_start(list, format);
    vsnprintf(l->error->message, sizeof l->error->message, format, list);
    va_end(list);
    l->error->offset = l->s ? l->s->offset : 0;
    return -1;
}

int mt_asm_last_type(struct mt_asm_body *l, struct mt_asm_type *t)
{
    for (unsigned i = l->s->nparts; i-- > 1;) /* usually the last word; "atom.v4.f32.add" has more after it */
        if (mt_asm_type(l->s->parts[i], t))
            return 0;
    return mt_asm_fail(l, "%s", l->s->opcode);
}

int mt_asm_count(struct mt_asm_body *l, unsigned min, unsigned max)
{
    if (l->s->noperands >= min && l->s->noperands <= max)
        return 0;
    return mt_asm_fail(l, "%s with %u operands", l->s->opcode, l->s->noperands);
}

LLVMBasicBlockRef mt_asm_block(struct mt_asm_body *l)
{
    return LLVMAppendBasicBlockInContext(l->c, l->function, "asm");
}

/* ---- statements --------------------------------------------------------------------------------- */

/* Returns 1 for words that the host's floating point cannot do directly: builtins then come first. */
static int wants_builtin(const struct mt_asm_statement *s)
{
    struct mt_asm_type t;
    for (unsigned i = 1; i < s->nparts; i++)
        if (mt_asm_type(s->parts[i], &t) && (strchr("fgt", t.kind) || t.lanes > 1))
            return !mt_asm_is(s, MT_ASM_BITS);
    return 0;
}

static int asm_lower_run(struct mt_asm_body *l, mt_asm_lowering *lower, LLVMValueRef builtin,
                         LLVMTypeRef type)
{
    return builtin ? mt_asm_call_builtin(l, builtin, type) : lower(l);
}

/* Runs a guarded statement with side effects in blocks of its own. */
static int run_in_branch(struct mt_asm_body *l, mt_asm_lowering *lower, LLVMValueRef builtin,
                         LLVMTypeRef type)
{
    LLVMBasicBlockRef then = mt_asm_block(l), after = mt_asm_block(l);
    LLVMBuildCondBr(l->b, l->guard, then, after);
    LLVMPositionBuilderAtEnd(l->b, then);
    l->guard = NULL;
    int failed = asm_lower_run(l, lower, builtin, type);
    LLVMBuildBr(l->b, after);
    LLVMPositionBuilderAtEnd(l->b, after);
    return failed;
}

static struct mt_asm_label *find_label(struct mt_asm_body *l, const char *name)
{
    for (unsigned i = 0; i < l->nlabels; i++)
        if (!strcmp(l->labels[i].name, name))
            return &l->labels[i];
    return NULL;
}

static int asm_lower_branch(struct mt_asm_body *l)
{
    const struct mt_asm_operand *to = l->s->noperands == 1 ? &l->s->operands[0] : NULL;
    struct mt_asm_label *label = to && to->kind == MT_ASM_NAME ? find_label(l, to->name) : NULL;
    if (!label)
        return mt_asm_fail(l, "%s to an unknown label", l->s->opcode);
    LLVMBasicBlockRef next = mt_asm_block(l), taken = label->block;
    if (label->passed) { /* a loop, usually one that waits: others must run */
        LLVMBasicBlockRef again = mt_asm_block(l), from = LLVMGetInsertBlock(l->b);
        LLVMPositionBuilderAtEnd(l->b, again);
        if (!mt_asm_call_by_name(l, "mt_cpu_yield", l->none, NULL, 0))
            return -1;
        LLVMBuildBr(l->b, taken);
        LLVMPositionBuilderAtEnd(l->b, from);
        taken = again;
    }
    if (l->guard)
        LLVMBuildCondBr(l->b, l->guard, taken, next);
    else
        LLVMBuildBr(l->b, taken);
    LLVMPositionBuilderAtEnd(l->b, next);
    return 0;
}

int mt_asm_statement(struct mt_asm_body *l)
{
    const struct mt_asm_statement *s = l->s;
    l->guard = NULL;
    if (s->label) {
        struct mt_asm_label *label = find_label(l, s->label);
        label->passed = 1;
        LLVMBuildBr(l->b, label->block);
        LLVMPositionBuilderAtEnd(l->b, label->block);
        return 0;
    }
    if (s->predicate && !(l->guard = mt_asm_in(l, s->predicate, 1)))
        return -1;
    if (!strcmp(s->parts[0], "bra"))
        return asm_lower_branch(l);
    mt_asm_lowering *lower = mt_asm_find_lowering(s);
    LLVMTypeRef type = NULL;
    LLVMValueRef builtin = !lower || wants_builtin(s) ? mt_asm_find_builtin(l, &type) : NULL;
    if (!lower && !builtin)
        return mt_asm_fail(l, "%s", s->opcode);
    if (l->guard && (builtin || !mt_asm_is(s, MT_ASM_SELECTS)))
        return run_in_branch(l, lower, builtin, type);
    return asm_lower_run(l, lower, builtin, type);
}

/* ---- setup, replacing the call, undoing --------------------------------------------------------- */

static LLVMTypeRef result_type(struct mt_asm_body *l, unsigned i)
{
    LLVMTypeRef type = LLVMTypeOf(l->call);
    return LLVMGetTypeKind(type) == LLVMStructTypeKind ? LLVMStructGetTypeAtIndex(type, i) : type;
}

static int make_slots(struct mt_asm_body *l)
{
    unsigned nout = l->ties->noutputs, have = 0;
    LLVMTypeRef type = LLVMTypeOf(l->call);
    if (LLVMGetTypeKind(type) == LLVMStructTypeKind)
        have = LLVMCountStructElementTypes(type);
    else if (LLVMGetTypeKind(type) != LLVMVoidTypeKind)
        have = 1;
    if (have != nout)
        return mt_asm_fail(l, "outputs and constraints disagree");
    l->regs = calloc(l->a->nregs + 1, sizeof *l->regs);
    l->outputs = calloc(nout + 1, sizeof *l->outputs);
    l->output_bits = calloc(nout + 1, sizeof *l->output_bits);
    if (!l->regs || !l->outputs || !l->output_bits)
        return mt_asm_fail(l, "out of memory");
    for (unsigned i = 0; i < nout; i++) {
        l->output_bits[i] = (unsigned)LLVMSizeOfTypeInBits(l->layout, result_type(l, i));
        LLVMTypeRef bits = mt_asm_int(l, l->output_bits[i]);
        if (!(l->outputs[i] = mt_asm_slot(l, bits, "")))
            return -1;
        if (l->ties->operands[i].argument >= 0) {
            LLVMValueRef v = LLVMGetOperand(l->call, (unsigned)l->ties->operands[i].argument);
            if (!(v = mt_asm_bits_of(l, v)))
                return -1;
            LLVMBuildStore(l->b, LLVMBuildIntCast2(l->b, v, bits, 0, ""), l->outputs[i]);
        }
    }
    return 0;
}

static int make_labels(struct mt_asm_body *l)
{
    l->labels = calloc(l->a->nstatements + 1, sizeof *l->labels);
    if (!l->labels)
        return mt_asm_fail(l, "out of memory");
    for (unsigned i = 0; i < l->a->nstatements; i++) {
        const char *name = l->a->statements[i].label;
        if (!name)
            continue;
        if (find_label(l, name))
            return mt_asm_fail(l, "label %.60s is defined twice", name);
        l->labels[l->nlabels++] = (struct mt_asm_label){name, mt_asm_block(l), 0};
    }
    return 0;
}

/* Returns the call's value from the output slots; NULL for a void call. */
static LLVMValueRef asm_lower_gather(struct mt_asm_body *l)
{
    LLVMTypeRef type = LLVMTypeOf(l->call);
    int is_struct = LLVMGetTypeKind(type) == LLVMStructTypeKind;
    LLVMValueRef whole = is_struct ? LLVMGetUndef(type) : NULL;
    for (unsigned i = 0; i < l->ties->noutputs; i++) {
        LLVMTypeRef want = result_type(l, i);
        LLVMValueRef v = LLVMBuildLoad2(l->b, mt_asm_int(l, l->output_bits[i]), l->outputs[i], "");
        if (LLVMGetTypeKind(want) == LLVMPointerTypeKind)
            v = LLVMBuildIntToPtr(l->b, v, want, "");
        else
            v = LLVMBuildBitCast(l->b, v, want, "");
        whole = is_struct ? LLVMBuildInsertValue(l->b, whole, v, i, "") : v;
    }
    return whole;
}

/* Moves the instructions from `first` up to (not including) `end` to the builder's place. */
static void asm_lower_move(struct mt_asm_body *l, LLVMValueRef first, LLVMValueRef end)
{
    LLVMSetCurrentDebugLocation2(l->b, NULL); /* each keeps its own */
    for (LLVMValueRef i = first, next; i && i != end; i = next) {
        LLVMMetadataRef place = LLVMInstructionGetDebugLoc(i);
        next = LLVMGetNextInstruction(i);
        LLVMInstructionRemoveFromParent(i);
        size_t length;
        LLVMInsertIntoBuilderWithName(l->b, i, LLVMGetValueName2(i, &length));
        LLVMInstructionSetDebugLoc(i, place);
    }
}

/* Moves the code before the call to a new block in front of the call's block, which keeps its terminator,
 * so that its successors' phis stay valid. All jumps to the block now go to the new one. */
static void split_at_call(struct mt_asm_body *l)
{
    LLVMBasicBlockRef tail = LLVMGetInstructionParent(l->call);
    LLVMBasicBlockRef head = LLVMInsertBasicBlockInContext(l->c, tail, "");
    LLVMValueRef old = LLVMBasicBlockAsValue(tail), new = LLVMBasicBlockAsValue(head);
    for (LLVMUseRef use = LLVMGetFirstUse(old), next; use; use = next) {
        LLVMValueRef user = LLVMGetUser(use);
        next = LLVMGetNextUse(use);
        if (!LLVMIsAInstruction(user))
            continue;
        for (int i = 0, n = LLVMGetNumOperands(user); i < n; i++)
            if (LLVMGetOperand(user, (unsigned)i) == old) {
                LLVMSetOperand(user, (unsigned)i, new);
                next = LLVMGetFirstUse(old); /* the list has changed */
                break;
            }
    }
    LLVMBuildBr(l->b, tail); /* the builder is at the end of the asm's last block */
    LLVMPositionBuilderAtEnd(l->b, head);
    asm_lower_move(l, LLVMGetFirstInstruction(tail), l->call);
    LLVMBuildBr(l->b, l->first);
    LLVMBasicBlockRef after = head;
    for (LLVMBasicBlockRef b = l->first, next; b; b = next) {
        next = LLVMGetNextBasicBlock(b);
        LLVMMoveBasicBlockAfter(b, after);
        after = b;
    }
}

static void asm_insert_before(struct mt_asm_body *l)
{
    if (LLVMGetNextBasicBlock(l->first)) {
        split_at_call(l);
    } else {
        LLVMPositionBuilderBefore(l->b, l->call);
        asm_lower_move(l, LLVMGetFirstInstruction(l->first), NULL);
        LLVMDeleteBasicBlock(l->first);
    }
}

static void take_place(struct mt_asm_body *l, LLVMValueRef value)
{
    asm_insert_before(l);
    if (value)
        LLVMReplaceAllUsesWith(l->call, value);
    LLVMInstructionEraseFromParent(l->call);
}

static void asm_undo(struct mt_asm_body *l)
{
    for (LLVMBasicBlockRef b = l->first; b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i; (i = LLVMGetLastInstruction(b));) {
            if (LLVMGetTypeKind(LLVMTypeOf(i)) != LLVMVoidTypeKind)
                LLVMReplaceAllUsesWith(i, LLVMGetUndef(LLVMTypeOf(i)));
            LLVMInstructionEraseFromParent(i);
        }
    for (LLVMBasicBlockRef b = l->first, next; b; b = next) {
        next = LLVMGetNextBasicBlock(b);
        LLVMDeleteBasicBlock(b);
    }
    for (unsigned i = 0; i < l->nallocas; i++)
        LLVMInstructionEraseFromParent(l->allocas[i]);
}

static void asm_lower_init(struct mt_asm_body *l)
{
    l->c = LLVMGetModuleContext(l->m);
    l->layout = LLVMGetModuleDataLayout(l->m);
    l->function = LLVMGetBasicBlockParent(LLVMGetInstructionParent(l->call));
    l->i1 = mt_asm_int(l, 1);
    l->i8 = mt_asm_int(l, 8);
    l->i16 = mt_asm_int(l, 16);
    l->i32 = mt_asm_int(l, 32);
    l->i64 = mt_asm_int(l, 64);
    l->ptr = LLVMPointerTypeInContext(l->c, 0);
    l->none = LLVMVoidTypeInContext(l->c);
    l->b = LLVMCreateBuilderInContext(l->c);
    l->first = mt_asm_block(l);
    LLVMPositionBuilderAtEnd(l->b, l->first);
    LLVMSetCurrentDebugLocation2(l->b, LLVMInstructionGetDebugLoc(l->call));
}

static int asm_begin(struct mt_asm_body *l)
{
    asm_lower_init(l);
    return make_slots(l) || make_labels(l) ? -1 : 0;
}

void mt_asm_end(struct mt_asm_body *l)
{
    LLVMDisposeBuilder(l->b);
    free(l->regs);
    free(l->outputs);
    free(l->output_bits);
    free(l->labels);
    free(l->allocas);
}

static int asm_lower_lower(struct mt_asm_body *l)
{
    if (asm_begin(l))
        return -1;
    for (unsigned i = 0; i < l->a->nstatements; i++) {
        l->s = &l->a->statements[i];
        if (mt_asm_statement(l))
            return -1;
    }
    return 0;
}

int mt_asm_lower(LLVMModuleRef m, LLVMValueRef call, const struct mt_asm_builtins *b,
                 struct mt_asm_error *error)
{
    struct mt_asm_ties ties;
    struct mt_asm_body l = {.m = m, .call = call, .ties = &ties, .builtins = b, .error = error};
    size_t length;
    int failed = -1;
    *error = (struct mt_asm_error){0};
    if (!LLVMIsACallInst(call)) {
        snprintf(error->message, sizeof error->message, "asm goto");
        return -1;
    }
    const char *text = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(call), &length);
    struct mt_asm *a = mt_asm_parse(text, length, error);
    if (!a || mt_asm_ties_read(call, &ties, error))
        goto out;
    l.a = a;
    failed = asm_lower_lower(&l);
    if (failed)
        asm_undo(&l);
    else
        take_place(&l, asm_lower_gather(&l));
    mt_asm_end(&l);
out:
    mt_asm_free(a);
    return failed;
}
