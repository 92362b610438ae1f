/* Functions reachable through calls: see reach.h. */
#include "reach.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

/* libmemtrace's functions in which a device thread waits for others: a kernel that reaches one runs as
 * fibers. */
const char *const mt_waiting_functions[] = {
    "mt_cpu_barrier",   "mt_cpu_cluster_arrive", "mt_cpu_cluster_wait", "mt_cpu_barrier_arrive",
    "mt_cpu_syncwarp",  "mt_cpu_shfl",           "mt_cpu_vote",         "mt_cpu_match_any",
    "mt_cpu_match_all", "mt_cpu_redux",          "mt_cpu_activemask",   "mt_cpu_yield",
    "mt_cpu_nanosleep", "mt_cpu_exit_thread",    "mt_cpu_matrix",       NULL};

static int reach_is_waiting(const char *name)
{
    for (unsigned i = 0; mt_waiting_functions[i]; i++)
        if (!strcmp(name, mt_waiting_functions[i]))
            return 1;
    return 0;
}

int mt_reach_has(const struct mt_reach *r, LLVMValueRef function)
{
    for (unsigned i = 0; i < r->count; i++)
        if (r->functions[i] == function)
            return 1;
    return 0;
}

static void reach_push(struct mt_reach *r, LLVMValueRef function)
{
    if (mt_reach_has(r, function))
        return;
    if (mt_grow(&r->functions, &r->cap, r->count + 1, sizeof *r->functions))
        return;
    r->functions[r->count++] = function;
}

int mt_is_address_taken(LLVMValueRef function)
{
    for (LLVMUseRef use = LLVMGetFirstUse(function); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        if (!LLVMIsACallInst(user) || LLVMGetCalledValue(user) != function)
            return 1;
        for (unsigned i = 0, n = LLVMGetNumArgOperands(user); i < n; i++)
            if (LLVMGetOperand(user, i) == function)
                return 1;
    }
    return 0;
}

void mt_reach_from(struct mt_lowering *l, LLVMValueRef function, struct mt_reach *r)
{
    int indirect = 0;
    reach_push(r, function);
    for (unsigned at = 0; at < r->count; at++) {
        LLVMValueRef f = r->functions[at];
        if (LLVMIsDeclaration(f)) {
            if (reach_is_waiting(mt_name(f)) || mt_is_shared_name(f)) /* a function of another file may do
                                                                       * anything */
                r->waits = 1;
            r->gathers |= !strcmp(mt_name(f), "mt_cpu_activemask");
            continue;
        }
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
                if (!LLVMIsACallInst(i) || LLVMIsAInlineAsm(LLVMGetCalledValue(i)))
                    continue;
                LLVMValueRef callee = mt_callee(i);
                if (callee) {
                    if (!LLVMGetIntrinsicID(callee))
                        reach_push(r, callee);
                } else if (!indirect) {
                    indirect = 1;
                    if (l->u->options->rdc)
                        r->waits = 1;
                    for (LLVMValueRef g = LLVMGetFirstFunction(l->module); g; g = LLVMGetNextFunction(g))
                        if (!LLVMIsDeclaration(g) && mt_is_address_taken(g))
                            reach_push(r, g);
                }
            }
    }
}

void mt_reach_free(struct mt_reach *r)
{
    free(r->functions);
    memset(r, 0, sizeof *r);
}
