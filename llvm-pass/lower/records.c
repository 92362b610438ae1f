/* Record calls and their accesses. Under MEMTRACE_CHECK the record call of a bad access returns the
 * address to use for the access instead. */
#include "lowering.h"
#include "lower.h"
#include <stdio.h>
#include <string.h>

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

/* Turns "__mt_access_KIND" into "__mt_access_KIND_to" if its access is found. */
static void records_call(struct mt_lowering *l, LLVMValueRef call, const char *name)
{
    LLVMValueRef access, made, args[3];
    LLVMTypeRef types[] = {l->ptr, l->i32, l->i32}, type = LLVMFunctionType(l->ptr, types, 3, 0);
    char to[64];
    for (unsigned i = 0; i < 3; i++)
        args[i] = LLVMGetOperand(call, i);
    if (LLVMTypeOf(args[0]) != l->ptr || !(access = mt_recorded_access(call, args[0])))
        return;
    snprintf(to, sizeof to, "%s_to", name);
    LLVMPositionBuilderBefore(l->builder, call);
    made = LLVMBuildCall2(l->builder, type, mt_declare(l->module, to, type), args, 3, "");
    records_move(l, access, made);
    LLVMInstructionEraseFromParent(call);
}

void mt_lower_records(struct mt_lowering *l)
{
    static const char *const names[] = {"__mt_access_global", "__mt_access_generic", "__mt_access_any"};
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
