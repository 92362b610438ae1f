/* Turns addresses, which PTX computes with integers, into pointers where they are a variable or a
 * parameter plus an offset, as in clang's code. LLVM and the pass then know the accessed object, and loops
 * can be analysed. */
#include "module_parts.h"
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 200
#define MAX_VISITS 4000 /* maximum integers visited to find out whether one is an address */

/* Certainty that an integer is an address. */
enum { POINTER_NO, POINTER_MAYBE, POINTER_SURE };

struct pointers {
    LLVMContextRef c;
    LLVMBuilderRef b;
    LLVMTypeRef i8, i64;
    unsigned space;         /* wanted space */
    struct mt_hash memo[6]; /* pointers of integers, by address space */
    unsigned depth, visits;
    LLVMValueRef *dead; /* loads that were replaced */
    unsigned ndead, dead_cap;
};

static LLVMValueRef pointer_known(struct pointers *p, LLVMValueRef integer)
{
    return (LLVMValueRef)mt_hash_find(&p->memo[p->space], (uintptr_t)integer);
}

/* Remembers the result; without memory it is computed again. */
static void pointer_remember(struct pointers *p, LLVMValueRef integer, LLVMValueRef pointer)
{
    if (pointer)
        (void)mt_hash_put(&p->memo[p->space], (uintptr_t)integer, (uintptr_t)pointer);
}

static LLVMOpcode pointer_opcode(LLVMValueRef v)
{
    return LLVMIsAInstruction(v)    ? LLVMGetInstructionOpcode(v)
           : LLVMIsAConstantExpr(v) ? LLVMGetConstOpcode(v)
                                    : (LLVMOpcode)0;
}

/* Returns how many low bits are certainly 0. */
static unsigned pointer_zeros(LLVMValueRef v, unsigned depth)
{
    LLVMValueRef c = LLVMIsAConstantInt(v), of;
    LLVMOpcode op = pointer_opcode(v);
    if (c)
        return LLVMConstIntGetZExtValue(c) ? (unsigned)__builtin_ctzll(LLVMConstIntGetZExtValue(c)) : 64;
    if (op == LLVMPtrToInt) {
        of = LLVMGetOperand(v, 0);
        return LLVMIsAAllocaInst(of) || LLVMIsAGlobalVariable(of)
                   ? (unsigned)__builtin_ctz(LLVMGetAlignment(of) | 1u << 16)
                   : 0;
    }
    if (!depth || (op != LLVMAdd && op != LLVMOr))
        return 0;
    unsigned a = pointer_zeros(LLVMGetOperand(v, 0), depth - 1),
             b = pointer_zeros(LLVMGetOperand(v, 1), depth - 1);
    return a < b ? a : b;
}

/* Returns the opcode; an or of disjoint bits is a sum. */
static LLVMOpcode pointer_sum_opcode(LLVMValueRef v)
{
    LLVMOpcode op = pointer_opcode(v);
    LLVMValueRef bits = op == LLVMOr ? LLVMIsAConstantInt(LLVMGetOperand(v, 1)) : NULL;
    if (!bits || LLVMGetIntTypeWidth(LLVMTypeOf(v)) > 64)
        return op;
    uint64_t n = LLVMConstIntGetZExtValue(bits);
    unsigned zeros = pointer_zeros(LLVMGetOperand(v, 0), 8);
    return zeros >= 64 || n >> zeros == 0 ? LLVMAdd : op;
}

/* Generic and global addresses are the same numbers. */
static int pointer_same_numbers(unsigned a, unsigned b)
{
    return a == b || (a <= 1 && b <= 1);
}

static int pointer_how_sure(struct pointers *p, LLVMValueRef v, unsigned depth);

static int pointer_phi_how_sure(struct pointers *p, LLVMValueRef phi, unsigned depth)
{
    int narrow = p->space == 3, sure = narrow ? POINTER_SURE : POINTER_NO, any = 0;
    for (unsigned i = 0, n = LLVMCountIncoming(phi); i < n; i++) {
        LLVMValueRef v = LLVMGetIncomingValue(phi, i);
        /* an increment of the phi itself tells nothing */
        if (v == phi ||
            (pointer_opcode(v) == LLVMAdd && (LLVMGetOperand(v, 0) == phi || LLVMGetOperand(v, 1) == phi)))
            continue;
        int one = pointer_how_sure(p, v, depth);
        any = 1;
        if (narrow ? one < sure : one > sure)
            sure = one;
    }
    return any ? sure : POINTER_NO;
}

static int pointer_how_sure(struct pointers *p, LLVMValueRef v, unsigned depth)
{
    if (pointer_known(p, v))
        return POINTER_SURE;
    if (depth > MAX_DEPTH || ++p->visits > MAX_VISITS)
        return POINTER_NO;
    switch (pointer_sum_opcode(v)) {
    case LLVMPtrToInt: {
        unsigned from = LLVMGetPointerAddressSpace(LLVMTypeOf(LLVMGetOperand(v, 0)));
        return pointer_same_numbers(from, p->space) ? POINTER_SURE : POINTER_NO;
    }
    case LLVMTrunc: /* shared addresses have 32 bits */
    case LLVMZExt:
        return p->space == 3 ? pointer_how_sure(p, LLVMGetOperand(v, 0), depth + 1) : POINTER_NO;
    case LLVMAdd: {
        int a = pointer_how_sure(p, LLVMGetOperand(v, 0), depth + 1);
        int b = pointer_how_sure(p, LLVMGetOperand(v, 1), depth + 1);
        return a == b ? POINTER_NO : a > b ? a : b;
    }
    case LLVMSub:
        return pointer_how_sure(p, LLVMGetOperand(v, 1), depth + 1)
                   ? POINTER_NO
                   : pointer_how_sure(p, LLVMGetOperand(v, 0), depth + 1);
    case LLVMPHI:
        return pointer_phi_how_sure(p, v, depth + 1);
    case LLVMSelect: {
        int a = pointer_how_sure(p, LLVMGetOperand(v, 1), depth + 1);
        int b = pointer_how_sure(p, LLVMGetOperand(v, 2), depth + 1);
        return a < b ? a : b;
    }
    case LLVMLoad: /* a shared one may have lost its high half on the way */
    case LLVMCall:
        return p->space != 3 && LLVMGetIntTypeWidth(LLVMTypeOf(v)) == 64 ? POINTER_MAYBE : POINTER_NO;
    default:
        return p->space != 3 && LLVMIsAArgument(v) && LLVMGetIntTypeWidth(LLVMTypeOf(v)) == 64 ? POINTER_MAYBE
                                                                                               : POINTER_NO;
    }
}

/* ---- construction -------------------------------------------------------------------------------------- */

static LLVMValueRef pointer_of(struct pointers *p, LLVMValueRef v);

static LLVMTypeRef pointer_type(struct pointers *p)
{
    return LLVMPointerTypeInContext(p->c, p->space);
}

/* Moves the builder to the place for a pointer made from an integer: after it. Constants can be made
 * anywhere. */
static void pointer_stand_behind(struct pointers *p, LLVMValueRef v)
{
    LLVMValueRef at =
        LLVMIsAArgument(v) ? LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(LLVMGetParamParent(v))) : NULL;
    if (LLVMIsAInstruction(v))
        at = LLVMGetNextInstruction(v);
    if (!at)
        return;
    while (at && LLVMIsAPHINode(at))
        at = LLVMGetNextInstruction(at);
    LLVMPositionBuilderBefore(p->b, at);
    LLVMSetCurrentDebugLocation2(p->b, NULL);
}

static LLVMValueRef pointer_cast(struct pointers *p, LLVMValueRef pointer)
{
    if (LLVMGetPointerAddressSpace(LLVMTypeOf(pointer)) == p->space)
        return pointer;
    return LLVMBuildAddrSpaceCast(p->b, pointer, pointer_type(p), "");
}

static LLVMValueRef pointer_sum(struct pointers *p, LLVMValueRef v)
{
    LLVMValueRef a = LLVMGetOperand(v, 0), b = LLVMGetOperand(v, 1), base;
    int minus = pointer_opcode(v) == LLVMSub;
    if (!minus && pointer_how_sure(p, b, 1) > pointer_how_sure(p, a, 1)) {
        LLVMValueRef swap = a;
        a = b;
        b = swap;
    }
    if (!(base = pointer_of(p, a)))
        return NULL;
    pointer_stand_behind(p, v);
    LLVMValueRef by = LLVMBuildSExt(p->b, b, p->i64, "");
    if (minus)
        by = LLVMBuildNeg(p->b, by, "");
    return LLVMBuildGEP2(p->b, p->i8, base, &by, 1, "");
}

/* Returns a value that is no pointer by itself as one. NULL: a shared memory address that may be invalid. */
static LLVMValueRef pointer_or_cast(struct pointers *p, LLVMValueRef v, LLVMValueRef before)
{
    LLVMValueRef made = pointer_of(p, v);
    if (made || p->space == 3)
        return made;
    LLVMPositionBuilderBefore(p->b, before);
    LLVMSetCurrentDebugLocation2(p->b, NULL);
    return LLVMBuildIntToPtr(p->b, v, pointer_type(p), "");
}

/* Returns the number as an address, at worst a wrong one. */
static LLVMValueRef pointer_wide(struct pointers *p, LLVMValueRef v, LLVMValueRef before)
{
    LLVMPositionBuilderBefore(p->b, before);
    LLVMSetCurrentDebugLocation2(p->b, NULL);
    return LLVMBuildIntToPtr(p->b, v, pointer_type(p), "");
}

static LLVMValueRef pointer_phi(struct pointers *p, LLVMValueRef v)
{
    LLVMPositionBuilderBefore(p->b, v);
    LLVMSetCurrentDebugLocation2(p->b, NULL);
    LLVMValueRef phi = LLVMBuildPhi(p->b, pointer_type(p), "");
    pointer_remember(p, v, phi);
    for (unsigned i = 0, n = LLVMCountIncoming(v); i < n; i++) {
        LLVMBasicBlockRef from = LLVMGetIncomingBlock(v, i);
        LLVMValueRef one = pointer_or_cast(p, LLVMGetIncomingValue(v, i), LLVMGetBasicBlockTerminator(from));
        if (!one) /* a wrong guess */
            one = pointer_wide(p, LLVMGetIncomingValue(v, i), LLVMGetBasicBlockTerminator(from));
        LLVMAddIncoming(phi, &one, &from, 1);
    }
    return phi;
}

static LLVMValueRef pointer_select(struct pointers *p, LLVMValueRef v)
{
    LLVMValueRef a = pointer_or_cast(p, LLVMGetOperand(v, 1), v),
                 b = pointer_or_cast(p, LLVMGetOperand(v, 2), v);
    if (!a || !b)
        return NULL;
    pointer_stand_behind(p, v);
    return LLVMBuildSelect(p->b, LLVMGetOperand(v, 0), a, b, "");
}

/* Loads an address from memory as a pointer. */
static LLVMValueRef pointer_load(struct pointers *p, LLVMValueRef v)
{
    if (p->ndead == p->dead_cap) {
        unsigned cap = p->dead_cap ? 2 * p->dead_cap : 64;
        LLVMValueRef *more = realloc(p->dead, cap * sizeof *more);
        if (!more)
            return NULL;
        p->dead = more;
        p->dead_cap = cap;
    }
    LLVMPositionBuilderBefore(p->b, v);
    LLVMSetCurrentDebugLocation2(p->b, LLVMInstructionGetDebugLoc(v));
    LLVMValueRef load = LLVMBuildLoad2(p->b, LLVMPointerTypeInContext(p->c, 0), LLVMGetOperand(v, 0), "");
    unsigned kind = LLVMGetMDKindIDInContext(p->c, "invariant.load", 14);
    LLVMSetAlignment(load, LLVMGetAlignment(v));
    if (LLVMGetMetadata(v, kind))
        LLVMSetMetadata(load, kind, LLVMGetMetadata(v, kind));
    if (mt_ptx_kept_as(v))
        mt_ptx_keep_access(load, mt_ptx_kept_as(v));
    LLVMValueRef integer = LLVMBuildPtrToInt(p->b, load, p->i64, "");
    LLVMReplaceAllUsesWith(v, integer);
    p->dead[p->ndead++] = v;
    pointer_stand_behind(p, integer);
    LLVMValueRef made = pointer_cast(p, load);
    pointer_remember(p, integer, made);
    return made;
}

static LLVMValueRef pointer_make(struct pointers *p, LLVMValueRef v)
{
    switch (pointer_sum_opcode(v)) {
    case LLVMPtrToInt:
        pointer_stand_behind(p, v);
        return pointer_cast(p, LLVMGetOperand(v, 0));
    case LLVMTrunc:
    case LLVMZExt:
        return pointer_of(p, LLVMGetOperand(v, 0));
    case LLVMAdd:
    case LLVMSub:
        return pointer_sum(p, v);
    case LLVMPHI:
        return pointer_phi(p, v);
    case LLVMSelect:
        return pointer_select(p, v);
    case LLVMLoad:
        if ((!LLVMGetVolatile(v) || mt_ptx_kept_as(v)) && p->space <= 1)
            return pointer_load(p, v);
        break;
    default:
        break;
    }
    if (LLVMGetIntTypeWidth(LLVMTypeOf(v)) != 64 || !(LLVMIsAInstruction(v) || LLVMIsAArgument(v)))
        return NULL;
    pointer_stand_behind(p, v);
    return LLVMBuildIntToPtr(p->b, v, pointer_type(p), "");
}

/* Returns the integer as a pointer in p->space, or NULL if it is not known to be one. */
static LLVMValueRef pointer_of(struct pointers *p, LLVMValueRef v)
{
    LLVMValueRef made = pointer_known(p, v);
    if (made)
        return made;
    p->visits = 0;
    if (!pointer_how_sure(p, v, 0) || ++p->depth > MAX_DEPTH)
        return NULL;
    made = pointer_make(p, v);
    p->depth--;
    if (made && (LLVMIsAInstruction(v) || LLVMIsAArgument(v)))
        pointer_remember(p, v, made);
    return made;
}

/* ---- the function -------------------------------------------------------------------------------------- */

/* Handles a shared memory access at an unknown address, which may have lost its high half: inline asm, so
 * that the CPU device completes it. */
static void pointer_give_up(LLVMValueRef cast)
{
    LLVMValueRef address = LLVMGetOperand(cast, 0);
    if (LLVMGetPointerAddressSpace(LLVMTypeOf(cast)) != 3)
        return;
    for (LLVMUseRef use = LLVMGetFirstUse(cast), next; use; use = next) {
        next = LLVMGetNextUse(use);
        mt_ptx_asm_shared(LLVMGetUser(use), address);
    }
    if (!LLVMGetFirstUse(cast))
        LLVMInstructionEraseFromParent(cast);
}

static LLVMValueRef *pointer_casts(LLVMValueRef function, unsigned *n)
{
    LLVMValueRef *list = NULL;
    unsigned count = 0, cap = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
            if (LLVMGetInstructionOpcode(i) != LLVMIntToPtr)
                continue;
            if (count == cap) {
                cap = cap ? 2 * cap : 256;
                LLVMValueRef *more = realloc(list, cap * sizeof *more);
                if (!more)
                    break;
                list = more;
            }
            list[count++] = i;
        }
    *n = count;
    return list;
}

void mt_ptx_find_pointers(LLVMValueRef function)
{
    struct pointers p = {.c = LLVMGetModuleContext(LLVMGetGlobalParent(function))};
    unsigned n;
    LLVMValueRef *casts = pointer_casts(function, &n);
    p.b = LLVMCreateBuilderInContext(p.c);
    p.i8 = LLVMInt8TypeInContext(p.c);
    p.i64 = LLVMInt64TypeInContext(p.c);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef address = LLVMGetOperand(casts[i], 0);
        p.space = LLVMGetPointerAddressSpace(LLVMTypeOf(casts[i]));
        p.depth = 0;
        if (p.space > 5)
            continue;
        LLVMPositionBuilderBefore(p.b, casts[i]);
        LLVMValueRef made = pointer_of(&p, address);
        if (made && made != casts[i]) {
            LLVMReplaceAllUsesWith(casts[i], made);
            LLVMInstructionEraseFromParent(casts[i]);
        } else if (!made) {
            pointer_give_up(casts[i]);
        }
    }
    for (unsigned i = 0; i < sizeof p.memo / sizeof *p.memo; i++)
        mt_hash_free(&p.memo[i]);
    while (p.ndead)
        LLVMInstructionEraseFromParent(p.dead[--p.ndead]);
    free(p.dead);
    free(casts);
    LLVMDisposeBuilder(p.b);
}
