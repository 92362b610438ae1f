/* Launches that are not traced run kernels without record calls: each kernel that can reach one gets a second
 * version, with copies of the functions on the way. Functions whose address is taken stay as they are, so
 * that pointers to them compare as before; called by pointer, they record into a buffer that nobody reads. So
 * do functions of other files (-fgpu-rdc), and weak ones, which another file's may replace. */
#include "lower.h"
#include <stdlib.h>
#include <string.h>

struct set {
    LLVMValueRef *function, *copy;
    unsigned count, cap;
};

static int is_record_call(LLVMValueRef inst)
{
    LLVMValueRef callee = LLVMIsACallInst(inst) ? mt_callee(inst) : NULL;
    return callee && (mt_starts(mt_name(callee), "__mt_access_") ||
                      !strcmp(mt_name(callee), "__mt_untraced") || !strcmp(mt_name(callee), "__mt_count"));
}

static int find(const struct set *s, LLVMValueRef function)
{
    for (unsigned i = 0; i < s->count; i++)
        if (s->function[i] == function)
            return (int)i;
    return -1;
}

static int is_weak(LLVMValueRef function)
{
    LLVMLinkage l = LLVMGetLinkage(function);
    return l == LLVMWeakAnyLinkage || l == LLVMLinkOnceAnyLinkage;
}

static void add(struct set *s, LLVMValueRef function)
{
    if (find(s, function) >= 0 || is_weak(function))
        return;
    if (s->count == s->cap) {
        unsigned cap = s->cap ? s->cap * 2 : 64;
        LLVMValueRef *grown = realloc(s->function, cap * sizeof *grown);
        if (!grown)
            return;
        s->function = grown;
        s->cap = cap;
    }
    s->function[s->count++] = function;
}

/* Functions with a record call, and those that call one of them directly. */
static void collect(struct mt_lowering *l, struct set *s)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        int records = 0;
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b && !records; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i && !records; i = LLVMGetNextInstruction(i))
                records = is_record_call(i);
        if (records)
            add(s, f);
    }
    for (unsigned i = 0; i < s->count; i++)
        for (LLVMUseRef use = LLVMGetFirstUse(s->function[i]); use; use = LLVMGetNextUse(use)) {
            LLVMValueRef call = LLVMIsACallInst(LLVMGetUser(use));
            if (call && mt_callee(call) == s->function[i])
                add(s, LLVMGetBasicBlockParent(LLVMGetInstructionParent(call)));
        }
}

static void strip(const struct set *s, LLVMValueRef copy)
{
    unsigned n;
    LLVMValueRef *list = mt_instructions(copy, &n);
    for (unsigned i = 0; list && i < n; i++) {
        if (!LLVMIsACallInst(list[i]))
            continue;
        LLVMValueRef callee = mt_callee(list[i]);
        int k = callee ? find(s, callee) : -1;
        if (is_record_call(list[i]))
            LLVMInstructionEraseFromParent(list[i]);
        else if (k >= 0 && s->copy[k])
            LLVMSetOperand(list[i], (unsigned)LLVMGetNumOperands(list[i]) - 1, s->copy[k]);
    }
    free(list);
}

void mt_lower_plain(struct mt_lowering *l)
{
    struct set s = {0};
    collect(l, &s);
    s.copy = calloc(s.count + 1, sizeof *s.copy);
    for (unsigned i = 0; s.copy && i < s.count; i++)
        s.copy[i] = mt_shim_clone_function(s.function[i], ".plain");
    for (unsigned i = 0; s.copy && i < s.count; i++)
        strip(&s, s.copy[i]);
    for (unsigned k = 0; s.copy && k < l->u->nkernels; k++) {
        int i = find(&s, l->traced.kernels[k]);
        l->plain.kernels[k] = i < 0 ? NULL : s.copy[i];
    }
    free(s.function);
    free(s.copy);
}
