/* Entry and returns of functions traced by name (-f, --routine, the annotation library): a test of a word
 * per function that the runtime sets. Also the locations of calls that allocate. */
#include "host.h"
#include <stdlib.h>
#include <string.h>

static LLVMValueRef id_of(struct mt_host_recorder *r, unsigned index)
{
    LLVMValueRef where[] = {LLVMConstInt(r->i64, index, 0)};
    LLVMValueRef p = LLVMConstGEP2(r->i32, r->table->ids, where, 1);
    LLVMValueRef id = LLVMBuildLoad2(r->builder, r->i32, p, "");
    LLVMSetAlignment(id, 4);
    return id;
}

/* Returns the stack pointer at the call of the function. */
static LLVMValueRef stack_pointer(struct mt_host_recorder *r)
{
    LLVMTypeRef type = LLVMFunctionType(r->ptr, NULL, 0, 0);
    LLVMValueRef f = mt_declare(r->u->module, "llvm.addressofreturnaddress.p0", type);
    return LLVMBuildPtrToInt(r->builder, LLVMBuildCall2(r->builder, type, f, NULL, 0, ""), r->i64, "");
}

/* Converts integers and pointers of up to 64 bits, which are passed in registers; others are no arguments
 * here. */
static LLVMValueRef host_function_plain(struct mt_host_recorder *r, LLVMValueRef v)
{
    LLVMTypeRef type = LLVMTypeOf(v);
    if (LLVMGetTypeKind(type) == LLVMPointerTypeKind && !LLVMGetPointerAddressSpace(type))
        return LLVMBuildPtrToInt(r->builder, v, r->i64, "");
    if (LLVMGetTypeKind(type) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(type) <= 64)
        return LLVMBuildZExtOrBitCast(r->builder, v, r->i64, "");
    return NULL;
}

/* Makes `if (id) call` in front of an instruction, with the builder in the branch. */
static LLVMValueRef when_named(struct mt_host_recorder *r, unsigned index, LLVMValueRef before)
{
    LLVMBasicBlockRef head = LLVMGetInstructionParent(before), tail = mt_shim_split(before);
    LLVMBasicBlockRef named = LLVMAppendBasicBlockInContext(r->u->context, LLVMGetBasicBlockParent(tail), "");
    LLVMInstructionEraseFromParent(LLVMGetBasicBlockTerminator(head));
    LLVMPositionBuilderAtEnd(r->builder, head);
    LLVMValueRef id = id_of(r, index);
    LLVMBuildCondBr(r->builder, LLVMBuildIsNull(r->builder, id, ""), tail, named);
    LLVMPositionBuilderAtEnd(r->builder, named);
    LLVMPositionBuilderBefore(r->builder, LLVMBuildBr(r->builder, tail));
    return id;
}

static void at_entry(struct mt_host_recorder *r, LLVMValueRef f, unsigned index)
{
    LLVMValueRef first = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(f));
    while (LLVMIsAAllocaInst(first)) /* slots stay in the entry block */
        first = LLVMGetNextInstruction(first);
    LLVMValueRef args[5] = {when_named(r, index, first)};
    args[1] = stack_pointer(r);
    unsigned n = 0, i = 0;
    for (LLVMValueRef p = LLVMGetFirstParam(f); p && n < 3; p = LLVMGetNextParam(p), i++) {
        LLVMValueRef v = mt_shim_byval_type(f, i) ? NULL : host_function_plain(r, p);
        if (v)
            args[2 + n++] = v;
    }
    while (n < 3)
        args[2 + n++] = LLVMConstInt(r->i64, 0, 0);
    mt_host_call(r, "__mt_host_enter", args, 5);
}

static void at_return(struct mt_host_recorder *r, LLVMValueRef ret, unsigned index)
{
    LLVMValueRef before = ret, last = LLVMGetPreviousInstruction(ret);
    LLVMValueRef value = LLVMGetNumOperands(ret) ? LLVMGetOperand(ret, 0) : NULL;
    if (last && LLVMIsACallInst(last) && LLVMGetTailCallKind(last) == LLVMTailCallKindMustTail) {
        before = last; /* nothing may come between: its value is not known yet */
        value = NULL;
    }
    LLVMValueRef args[3] = {when_named(r, index, before)};
    args[1] = stack_pointer(r);
    args[2] = value ? host_function_plain(r, value) : NULL;
    if (!args[2])
        args[2] = LLVMConstInt(r->i64, 0, 0);
    mt_host_call(r, "__mt_host_leave", args, 3);
}

/* Reports that an exception or longjmp has passed functions that did not return. */
static void at_landing(struct mt_host_recorder *r, LLVMValueRef pad)
{
    LLVMPositionBuilderBefore(r->builder, LLVMGetNextInstruction(pad));
    LLVMValueRef sp = stack_pointer(r);
    mt_host_call(r, "__mt_host_unwound", &sp, 1);
}

void mt_host_hook_function(struct mt_host_recorder *r, LLVMValueRef f)
{
    if (strstr(mt_name(f), ".cold"))
        return; /* a part that was moved out of its function */
    unsigned n, index = mt_host_table_function(r->table, f);
    LLVMMetadataRef scope = LLVMGetSubprogram(f);
    LLVMValueRef *list = mt_instructions(f, &n);
    LLVMMetadataRef place =
        scope
            ? LLVMDIBuilderCreateDebugLocation(r->u->context, LLVMDISubprogramGetLine(scope), 0, scope, NULL)
            : NULL;
    LLVMSetCurrentDebugLocation2(r->builder, place);
    for (unsigned i = 0; list && i < n; i++)
        if (LLVMIsAReturnInst(list[i]))
            at_return(r, list[i], index);
        else if (LLVMIsALandingPadInst(list[i]) ||
                 (LLVMIsACallInst(list[i]) && strstr(mt_name(mt_callee(list[i])), "setjmp")))
            at_landing(r, list[i]);
    at_entry(r, f, index);
    LLVMSetCurrentDebugLocation2(r->builder, NULL);
    free(list);
}

/* Finds calls of the annotation library, whose functions do nothing: their calls count, wherever the
 * library is. */
static unsigned host_function_annotation(LLVMValueRef callee)
{
    static const char *const names[][3] = {
        {"atomic_trace::register_thread", "mt_register_thread", "atomic_trace_register_thread"},
        {"atomic_trace::start_roi", "mt_start_roi", "atomic_trace_start_roi"},
        {"atomic_trace::end_roi", "mt_end_roi", "atomic_trace_end_roi"},
    };
    char *name = callee && LLVMIsDeclaration(callee) ? mt_shim_demangle(mt_name(callee), 0) : NULL;
    unsigned found = 0;
    for (unsigned i = 0; name && i < 9; i++)
        if (!strcmp(name, names[i / 3][i % 3]))
            found = i / 3 + 1; /* MT_CORE_FN_* */
    free(name);
    return found;
}

/* Returns the callee's stack pointer: after its return address. */
static LLVMValueRef callee_stack_pointer(struct mt_host_recorder *r)
{
    LLVMTypeRef type = LLVMFunctionType(r->ptr, NULL, 0, 0);
    LLVMValueRef f = mt_declare(r->u->module, "llvm.stacksave.p0", type);
    LLVMValueRef now =
        LLVMBuildPtrToInt(r->builder, LLVMBuildCall2(r->builder, type, f, NULL, 0, ""), r->i64, "");
    return LLVMBuildSub(r->builder, now, LLVMConstInt(r->i64, 8, 0), "");
}

/* Returns the first instruction after a call; NULL after an invoke whose continuation has other
 * predecessors. */
static LLVMValueRef host_function_behind(LLVMValueRef call)
{
    if (LLVMIsACallInst(call))
        return LLVMGetNextInstruction(call);
    LLVMBasicBlockRef next = LLVMGetNormalDest(call);
    LLVMUseRef use = LLVMGetFirstUse(LLVMBasicBlockAsValue(next));
    LLVMValueRef first = LLVMGetFirstInstruction(next);
    return use && !LLVMGetNextUse(use) && !LLVMIsAPHINode(first) ? first : NULL;
}

static LLVMValueRef by_caller(struct mt_host_recorder *r, LLVMValueRef id)
{
    return LLVMBuildOr(r->builder, id, LLVMConstInt(r->i32, MT_HOST_CALLER, 0), "");
}

/* Reports special_malloc and special_free at their callers: the library itself is seldom compiled with our
 * pass. */
static void mark_special(struct mt_host_recorder *r, LLVMValueRef call)
{
    LLVMValueRef callee = mt_callee(call), zero = LLVMConstInt(r->i64, 0, 0),
                 after = host_function_behind(call);
    if (!LLVMIsDeclaration(callee))
        return;
    unsigned index = mt_host_table_function(r->table, callee);
    LLVMSetCurrentDebugLocation2(r->builder, LLVMInstructionGetDebugLoc(call));
    if (after) {
        LLVMValueRef left[3] = {when_named(r, index, after)};
        left[0] = by_caller(r, left[0]);
        left[1] = callee_stack_pointer(r);
        left[2] = host_function_plain(r, call);
        if (!left[2])
            left[2] = zero;
        mt_host_call(r, "__mt_host_leave", left, 3);
    }
    LLVMValueRef entered[5] = {when_named(r, index, call), NULL, NULL, zero, zero};
    entered[0] = by_caller(r, entered[0]);
    entered[1] = callee_stack_pointer(r);
    entered[2] = host_function_plain(r, LLVMGetOperand(call, 0));
    mt_host_call(r, "__mt_host_enter", entered, 5);
    LLVMSetCurrentDebugLocation2(r->builder, NULL);
}

void mt_host_mark_annotation(struct mt_host_recorder *r, LLVMValueRef call)
{
    LLVMValueRef callee = mt_callee(call), args[2];
    const char *name = mt_name(callee);
    if (!strcmp(name, "_ZN12atomic_trace14special_mallocEm") ||
        !strcmp(name, "_ZN12atomic_trace12special_freeEPv")) {
        mark_special(r, call);
        return;
    }
    if (!strstr(name, "register_thread") && !strstr(name, "_roi"))
        return;
    unsigned function = host_function_annotation(callee);
    if (!function)
        return;
    LLVMPositionBuilderBefore(r->builder, call);
    LLVMSetCurrentDebugLocation2(r->builder, LLVMInstructionGetDebugLoc(call));
    args[0] = LLVMConstInt(r->i32, function, 0);
    args[1] = LLVMGetNumArgOperands(call) ? host_function_plain(r, LLVMGetOperand(call, 0)) : NULL;
    if (!args[1])
        args[1] = LLVMConstInt(r->i64, 0, 0);
    mt_host_call(r, "__mt_host_annotation", args, 2);
    LLVMSetCurrentDebugLocation2(r->builder, NULL);
}

void mt_host_mark_allocation(struct mt_host_recorder *r, LLVMValueRef call)
{
    struct mt_unit *u = r->u;
    struct mt_source_location place;
    mt_shim_location(call, &place);
    if (!place.line)
        return;
    char *function = mt_shim_demangle(place.function, 0);
    LLVMValueRef field[] = {mt_private_text(u->module, place.file, ""),
                            mt_private_text(u->module, function ? function : "", ""),
                            LLVMConstInt(r->i32, place.line, 0), LLVMConstInt(r->i32, place.column, 0)};
    free(function);
    _Static_assert(sizeof(struct mt_host_alloc_location) == 24, "as written here");
    LLVMValueRef g = mt_private_constant(u->module, LLVMConstStructInContext(u->context, field, 4, 0),
                                         "memtrace.host.place");
    LLVMValueRef slot = LLVMGetNamedGlobal(u->module, "__mt_host_place");
    if (!slot) {
        slot = LLVMAddGlobal(u->module, r->ptr, "__mt_host_place");
        LLVMSetThreadLocalMode(slot, LLVMInitialExecTLSModel);
    }
    LLVMPositionBuilderBefore(r->builder, call);
    LLVMSetCurrentDebugLocation2(r->builder, LLVMInstructionGetDebugLoc(call));
    LLVMSetAlignment(LLVMBuildStore(r->builder, g, slot), 8);
    LLVMSetCurrentDebugLocation2(r->builder, NULL);
}
