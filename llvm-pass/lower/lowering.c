/* Shared base of the lowering's steps: its state, builtins by name, the image's processor. */
#include "lowering.h"
#include "format/image.h"
#include "memtrace/grow.h"

#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Functions reachable through calls: see lowering.h ---- */

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

LLVMValueRef mt_builtin(struct mt_lowering *l, const char *name, LLVMTypeRef *type)
{
    LLVMModuleRef home = l->builtins ? l->builtins : l->module;
    LLVMValueRef f = LLVMGetNamedFunction(home, name);
    if (!f)
        return NULL;
    *type = LLVMGlobalGetValueType(f);
    return mt_declare(l->module, name, *type);
}

LLVMValueRef mt_build_call(struct mt_lowering *l, LLVMValueRef function, LLVMValueRef *args, unsigned n)
{
    LLVMValueRef call = LLVMBuildCall2(l->builder, LLVMGlobalGetValueType(function), function, args, n, "");
    LLVMSetInstructionCallConv(call,
                               LLVMGetFunctionCallConv(function)); /* some builtins preserve all registers */
    return call;
}

int mt_is_shared_name(LLVMValueRef global)
{
    return mt_starts(mt_name(global), MT_DEVICE_PREFIX) || mt_starts(mt_name(global), MT_SHARED_PREFIX);
}

/* Sets a text attribute. */
void mt_set_text(const struct mt_unit *u, LLVMValueRef function, const char *key, const char *value)
{
    LLVMAddAttributeAtIndex(
        function, LLVMAttributeFunctionIndex,
        LLVMCreateStringAttribute(u->context, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}

void mt_set_image_cpu(const struct mt_unit *u, LLVMValueRef function)
{
    mt_set_text(u, function, "target-cpu", mt_image_cpu(u));
    if (u->options->cpu_features)
        mt_set_text(u, function, "target-features", u->options->cpu_features);
}

const char *mt_image_cpu(const struct mt_unit *u)
{
    return u->options->cpu ? u->options->cpu : "x86-64-v3";
}

int mt_run_passes(struct mt_unit *u, LLVMModuleRef m, const char *passes, LLVMTargetMachineRef machine)
{
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMPassBuilderOptionsSetLoopVectorization(o, 1);
    LLVMPassBuilderOptionsSetSLPVectorization(o, 1);
    LLVMPassBuilderOptionsSetLoopUnrolling(o, 1);
    LLVMErrorRef e = LLVMRunPasses(m, passes, machine, o);
    LLVMDisposePassBuilderOptions(o);
    if (!e)
        return 0;
    char *text = LLVMGetErrorMessage(e);
    mt_diag(u, NULL, MT_DIAG_ERROR, "CPU image: %s", text);
    LLVMDisposeErrorMessage(text);
    return -1;
}

static int lowering_versions(const struct mt_unit *u, struct mt_versions *v)
{
    v->kernels = calloc(u->nkernels + 1, sizeof *v->kernels);
    v->entries = calloc(u->nkernels + 1, sizeof *v->entries);
    return v->kernels && v->entries ? 0 : -1;
}

static void lowering_free(struct mt_versions *v)
{
    free(v->kernels);
    free(v->entries);
}

int mt_lowering_begin(struct mt_lowering *l, struct mt_unit *u, LLVMModuleRef clone)
{
    *l = (struct mt_lowering){.u = u, .module = clone, .builder = LLVMCreateBuilderInContext(u->context)};
    l->ptr = mt_type_ptr(u);
    l->i1 = mt_type_int(u, 1);
    l->i8 = mt_type_int(u, 8);
    l->i32 = mt_type_int(u, 32);
    l->i64 = mt_type_int(u, 64);
    l->none = LLVMVoidTypeInContext(u->context);
    l->builtins = mt_load_bitcode(u, "cpu-builtins.bc");
    l->vector = calloc(u->nkernels + 1, sizeof *l->vector);
    if (!l->builtins || !l->vector || lowering_versions(u, &l->traced) || lowering_versions(u, &l->plain))
        return -1;
    for (unsigned i = 0; i < u->nkernels; i++)
        l->traced.kernels[i] = LLVMGetNamedFunction(clone, u->kernels[i].name);
    return 0;
}

void mt_lowering_end(struct mt_lowering *l)
{
    if (l->builtins)
        LLVMDisposeModule(l->builtins);
    LLVMDisposeBuilder(l->builder);
    lowering_free(&l->traced);
    lowering_free(&l->plain);
    free(l->vars);
    free(l->vector);
}

/* ---- Record calls and their accesses. Under MEMTRACE_CHECK the record call of a bad access returns the
 * address to use for the access instead. ---- */

/* Returns the opcode of an instruction, or of a constant made from another one (the address of a
 * variable). 0: neither. */
static LLVMOpcode records_opcode(LLVMValueRef p)
{
    return LLVMIsAInstruction(p)    ? LLVMGetInstructionOpcode(p)
           : LLVMIsAConstantExpr(p) ? LLVMGetConstOpcode(p)
                                    : (LLVMOpcode)0;
}

/* Goes one step towards the base of an address. NULL: there is no further one. */
static LLVMValueRef records_behind(LLVMValueRef p, uint64_t *offset)
{
    LLVMOpcode op = records_opcode(p);
    int element = op == LLVMGetElementPtr;
    LLVMValueRef constant = op == LLVMAdd || element ? LLVMGetOperand(p, 1) : NULL;
    if (op == LLVMAddrSpaceCast || op == LLVMIntToPtr || op == LLVMPtrToInt)
        return LLVMGetOperand(p, 0);
    if (!constant || !LLVMIsAConstantInt(constant) || LLVMGetNumOperands(p) != 2)
        return NULL;
    if (element && LLVMGetTypeKind(LLVMGetGEPSourceElementType(p)) != LLVMIntegerTypeKind)
        return NULL;
    unsigned bits = element ? LLVMGetIntTypeWidth(LLVMGetGEPSourceElementType(p)) : 8;
    *offset += (uint64_t)LLVMConstIntGetSExtValue(constant) * (bits / 8);
    return LLVMGetOperand(p, 0);
}

/* Returns 1 if both are the same address, as far as casts and constants go. */
static int records_same(LLVMValueRef a, LLVMValueRef b)
{
    uint64_t from_a = 0, from_b = 0;
    for (LLVMValueRef next = a; next; next = records_behind(a = next, &from_a))
        ;
    for (LLVMValueRef next = b; next; next = records_behind(b = next, &from_b))
        ;
    return a == b && from_a == from_b;
}

/* Returns the operand by which an instruction accesses memory; -1: no access of one thread by one pointer. */
static int records_operand(LLVMValueRef inst)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    return op == LLVMLoad || op == LLVMAtomicRMW || op == LLVMAtomicCmpXchg ? 0 : op == LLVMStore ? 1 : -1;
}

LLVMValueRef mt_recorded_access(LLVMValueRef call, LLVMValueRef p)
{
    for (LLVMValueRef i = LLVMGetNextInstruction(call); i; i = LLVMGetNextInstruction(i)) {
        int operand = records_operand(i);
        if (operand >= 0 && records_same(LLVMGetOperand(i, (unsigned)operand), p))
            return i;
        if (LLVMIsACallInst(i) && mt_callee(i) &&
            (mt_starts(mt_name(mt_callee(i)), "__mt_access_") ||
             mt_starts(mt_name(mt_callee(i)), "mt.record.")))
            return NULL;
    }
    return NULL;
}

/* Moves a record call's access to the address that it returns (MEMTRACE_CHECK). */
static void records_move(struct mt_lowering *l, LLVMValueRef access, LLVMValueRef to)
{
    unsigned operand = (unsigned)records_operand(access);
    LLVMTypeRef type = LLVMTypeOf(LLVMGetOperand(access, operand));
    if (LLVMTypeOf(to) != type)
        to = LLVMBuildAddrSpaceCast(l->builder, to, type, "");
    LLVMSetOperand(access, operand, to);
}

/* Returns the pointer that the number of a record of local memory was made from (trace/instrument.c); NULL:
 * it cannot be seen, or is a constant's. */
static LLVMValueRef records_local(LLVMValueRef number)
{
    for (;;) {
        LLVMOpcode op = LLVMIsAInstruction(number) ? LLVMGetInstructionOpcode(number) : (LLVMOpcode)0;
        if (op == LLVMPtrToInt)
            return LLVMGetOperand(number, 0);
        if (op != LLVMIntToPtr && op != LLVMAdd && op != LLVMSub && op != LLVMAnd)
            return NULL;
        number = LLVMGetOperand(number, 0);
    }
}

/* Turns "__mt_access_KIND" into "__mt_access_KIND_to" if its access is found; the pointer of a number
 * follows as one more argument. */
static void records_call(struct mt_lowering *l, LLVMValueRef call, const char *name)
{
    unsigned n = mt_ends(name, "_number") ? 4 : 3;
    LLVMValueRef access, made, args[4];
    LLVMTypeRef types[] = {l->ptr, l->i32, l->i32, l->ptr}, type = LLVMFunctionType(l->ptr, types, n, 0);
    char to[64];
    for (unsigned i = 0; i < 3; i++)
        args[i] = LLVMGetOperand(call, i);
    args[3] = n == 4 ? records_local(args[0]) : args[0];
    if (!args[3] || LLVMTypeOf(args[3]) != l->ptr || !(access = mt_recorded_access(call, args[3])))
        return;
    snprintf(to, sizeof to, "%s_to", name);
    LLVMPositionBuilderBefore(l->builder, call);
    made = LLVMBuildCall2(l->builder, type, mt_declare(l->module, to, type), args, n, "");
    records_move(l, access, made);
    LLVMInstructionEraseFromParent(call);
}

void mt_lower_records(struct mt_lowering *l)
{
    static const char *const names[] = {"__mt_access_global", "__mt_access_generic", "__mt_access_any",
                                        "__mt_access_number"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        LLVMValueRef f = LLVMGetNamedFunction(l->module, names[i]);
        for (LLVMUseRef u = f ? LLVMGetFirstUse(f) : NULL, next; u; u = next) {
            LLVMValueRef call = LLVMGetUser(u);
            next = LLVMGetNextUse(u);
            if (LLVMIsACallInst(call) && mt_callee(call) == f)
                records_call(l, call, names[i]);
        }
    }
}
