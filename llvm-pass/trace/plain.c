/* Copies without record calls of each function that can reach one by plain calls. Functions whose address
 * is taken are not changed, so that pointers to them compare as before; called by pointer they record into
 * a buffer that is never read, or without a context. So do functions of other files (-fgpu-rdc), and weak
 * ones, which another file's may replace. */
#include "plain.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

static int is_record_call(LLVMValueRef inst)
{
    LLVMValueRef callee = LLVMIsACallInst(inst) ? mt_callee(inst) : NULL;
    return callee && (mt_starts(mt_name(callee), "__mt_access_") ||
                      !strcmp(mt_name(callee), "__mt_untraced") || mt_starts(mt_name(callee), "__mt_count"));
}

static int plain_find(const struct mt_plain *p, LLVMValueRef function)
{
    for (unsigned i = 0; i < p->count; i++)
        if (p->function[i] == function)
            return (int)i;
    return -1;
}

static int is_weak(LLVMValueRef function)
{
    LLVMLinkage l = LLVMGetLinkage(function);
    return l == LLVMWeakAnyLinkage || l == LLVMLinkOnceAnyLinkage;
}

void mt_plain_add(struct mt_plain *p, LLVMValueRef function)
{
    if (plain_find(p, function) >= 0 || is_weak(function))
        return;
    if (mt_grow(&p->function, &p->cap, p->count + 1, sizeof *p->function))
        return;
    p->function[p->count++] = function;
}

void mt_plain_find(struct mt_plain *p, LLVMModuleRef module)
{
    memset(p, 0, sizeof *p);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        int records = 0;
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b && !records; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i && !records; i = LLVMGetNextInstruction(i))
                records = is_record_call(i);
        if (records)
            mt_plain_add(p, f);
    }
    for (unsigned i = 0; i < p->count; i++)
        for (LLVMUseRef use = LLVMGetFirstUse(p->function[i]); use; use = LLVMGetNextUse(use)) {
            LLVMValueRef call = LLVMIsACallInst(LLVMGetUser(use));
            if (call && mt_callee(call) == p->function[i])
                mt_plain_add(p, LLVMGetBasicBlockParent(LLVMGetInstructionParent(call)));
        }
}

static void plain_strip(const struct mt_plain *p, LLVMValueRef copy)
{
    unsigned n;
    LLVMValueRef *list = mt_instructions(copy, &n);
    for (unsigned i = 0; list && i < n; i++) {
        if (!LLVMIsACallInst(list[i]))
            continue;
        LLVMValueRef callee = mt_callee(list[i]);
        int k = callee ? plain_find(p, callee) : -1;
        if (is_record_call(list[i]))
            LLVMInstructionEraseFromParent(list[i]);
        else if (k >= 0 && p->copy[k])
            LLVMSetOperand(list[i], (unsigned)LLVMGetNumOperands(list[i]) - 1, p->copy[k]);
    }
    free(list);
}

void mt_plain_make(struct mt_plain *p, const char *suffix)
{
    p->copy = calloc(p->count + 1, sizeof *p->copy);
    for (unsigned i = 0; p->copy && i < p->count; i++)
        p->copy[i] = mt_shim_clone_function(p->function[i], suffix);
    for (unsigned i = 0; p->copy && i < p->count; i++)
        plain_strip(p, p->copy[i]);
}

int mt_plain_has(const struct mt_plain *p, LLVMValueRef function)
{
    return plain_find(p, function) >= 0;
}

LLVMValueRef mt_plain_copy(const struct mt_plain *p, LLVMValueRef function)
{
    int i = p->copy ? plain_find(p, function) : -1;
    return i < 0 ? NULL : p->copy[i];
}

void mt_plain_free(struct mt_plain *p)
{
    free(p->function);
    free(p->copy);
    memset(p, 0, sizeof *p);
}
