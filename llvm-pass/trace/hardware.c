/* Memory accesses as the hardware will make them. NVPTX's back end still changes them after the optimiser:
 * it puts neighbours together to vectors, drops what is loaded twice, splits what has no instruction. Record
 * calls would keep it from that, and would record accesses that never happen. So those of its passes that
 * touch memory instructions run before the record calls are placed; when it runs them again nothing is left
 * for them to do. */
#include "base/unit.h"
#include "pass.h"
#include <string.h>

/* Passes by the names that LLVM 19 gives them, in any order; the target says which of them run at a level. */
static int hardware_wants(const char *pass)
{
    static const char *const names[] = {
        "Pre-ISel Intrinsic Lowering",
        "Lower pointer arguments of CUDA kernels",
        "SROA",
        "convert address space of alloca'ed memory to local",
        "Infer address spaces",
        "NVPTX lower atomics of local memory",
        "Split GEPs to a variadic base and a constant offset for better CSE",
        "Speculatively execute instructions",
        "Straight line strength reduction",
        "Early CSE",
        "Global Value Numbering",
        "Nary reassociation",
        "Expand Atomic instructions",
        "Canonicalize natural loops",
        "Canonicalize Freeze Instructions in Loops",
        "Induction Variable Users",
        "Loop Strength Reduction",
        "Merge contiguous icmps into a memcmp",
        "Expand memcmp() to load/stores",
        "Remove unreachable blocks from the CFG",
        "Expand vector predication intrinsics",
        "Scalarize Masked Memory Intrinsics",
        "GPU Load and Store Vectorizer",
        "Lower aggregate copies/intrinsics into loops",
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(pass, names[i]))
            return 1;
    return 0;
}

/* Where the program says what a block does that says nothing of it: at a branch on the way in. */
static LLVMMetadataRef hardware_way_in(LLVMBasicBlockRef block, int blocks)
{
    LLVMMetadataRef place = NULL;
    LLVMUseRef use = LLVMGetFirstUse(LLVMBasicBlockAsValue(block));
    for (; use && blocks && !place; use = LLVMGetNextUse(use)) {
        LLVMValueRef end = LLVMGetUser(use);
        if (!LLVMIsATerminatorInst(end) || LLVMGetInstructionParent(end) == block)
            continue;
        place = LLVMInstructionGetDebugLoc(end);
        if (!place)
            place = hardware_way_in(LLVMGetInstructionParent(end), blocks - 1);
    }
    return place;
}

/* The loops that copies have become have no place in the source; they get that of the copy. */
static void hardware_place(LLVMModuleRef module)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetSubprogram(f) ? LLVMGetFirstBasicBlock(f) : NULL; b;
             b = LLVMGetNextBasicBlock(b)) {
            LLVMMetadataRef place = NULL;
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
                if (LLVMInstructionGetDebugLoc(i))
                    place = LLVMInstructionGetDebugLoc(i);
                else if (LLVMIsALoadInst(i) || LLVMIsAStoreInst(i))
                    LLVMInstructionSetDebugLoc(i, place ? place : (place = hardware_way_in(b, 3)));
            }
        }
}

int mt_settle_accesses(LLVMModuleRef module)
{
    int rc = mt_shim_backend_passes(module, mt_pass_options.level, hardware_wants);
    hardware_place(module);
    return rc;
}

/* What marks the parts of a load that could be ld.global.nc: their addresses are a step farther from where
 * they come from, and the back end looks back a certain number of steps only. */
static unsigned hardware_part_mark(struct mt_unit *u)
{
    static const char name[] = "memtrace.constant";
    return LLVMGetMDKindIDInContext(u->context, name, sizeof name - 1);
}

static int hardware_is_constant(struct mt_unit *u, LLVMValueRef load)
{
    LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInstructionParent(load));
    return LLVMGetPointerAddressSpace(LLVMTypeOf(LLVMGetOperand(load, 0))) == 1 && !LLVMGetVolatile(load) &&
           LLVMGetOrdering(load) == LLVMAtomicOrderingNotAtomic &&
           (LLVMGetMetadata(load, hardware_part_mark(u)) ||
            mt_shim_reads_constants(load, mt_unit_kernel(u, function) != NULL));
}

void mt_copy_load_metadata(struct mt_unit *u, LLVMValueRef from, LLVMValueRef to)
{
    static const char *const kept[] = {"invariant.load", "nontemporal", "alias.scope", "noalias"};
    for (unsigned i = 0; i < sizeof kept / sizeof *kept; i++) {
        unsigned kind = LLVMGetMDKindIDInContext(u->context, kept[i], (unsigned)strlen(kept[i]));
        LLVMValueRef data = LLVMGetMetadata(from, kind);
        if (data)
            LLVMSetMetadata(to, kind, data);
    }
    if (hardware_is_constant(u, from))
        LLVMSetMetadata(to, hardware_part_mark(u),
                        LLVMMetadataAsValue(u->context, LLVMMDNodeInContext2(u->context, NULL, 0)));
}

/* Does another load of the same have the mark already?
 * Marked loads are as one to the back end's optimisations. */
static int hardware_is_again(LLVMValueRef load, unsigned mark)
{
    LLVMUseRef use = LLVMGetFirstUse(LLVMGetOperand(load, 0));
    for (; use; use = LLVMGetNextUse(use)) {
        LLVMValueRef other = LLVMGetUser(use);
        if (other != load && LLVMIsALoadInst(other) && LLVMTypeOf(other) == LLVMTypeOf(load) &&
            LLVMGetMetadata(other, mark))
            return 1;
    }
    return 0;
}

/* The intrinsic that loads such a value by ld.global.nc; NULL: none does. */
static const char *hardware_constant_load(LLVMTypeRef type)
{
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    if (kind == LLVMVectorTypeKind) {
        unsigned n = LLVMGetVectorSize(type);
        type = LLVMGetElementType(type);
        kind = LLVMGetTypeKind(type);
        if ((n != 2 && n != 4) || kind == LLVMPointerTypeKind || kind == LLVMHalfTypeKind)
            return NULL;
    }
    if (kind == LLVMIntegerTypeKind) {
        unsigned bits = LLVMGetIntTypeWidth(type);
        return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? "llvm.nvvm.ldg.global.i" : NULL;
    }
    if (kind == LLVMHalfTypeKind || kind == LLVMFloatTypeKind || kind == LLVMDoubleTypeKind)
        return "llvm.nvvm.ldg.global.f";
    return kind == LLVMPointerTypeKind ? "llvm.nvvm.ldg.global.p" : NULL;
}

static void hardware_load_again(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef load)
{
    const char *name = hardware_constant_load(LLVMTypeOf(load));
    if (!name)
        return;
    LLVMValueRef pointer = LLVMGetOperand(load, 0);
    LLVMTypeRef types[] = {LLVMTypeOf(load), LLVMTypeOf(pointer)};
    LLVMValueRef function =
        LLVMGetIntrinsicDeclaration(u->module, LLVMLookupIntrinsicID(name, strlen(name)), types, 2);
    LLVMValueRef args[] = {pointer, LLVMConstInt(mt_type_int(u, 32), LLVMGetAlignment(load), 0)};
    LLVMPositionBuilderBefore(b, load);
    LLVMSetCurrentDebugLocation2(b, LLVMInstructionGetDebugLoc(load));
    LLVMReplaceAllUsesWith(load, LLVMBuildCall2(b, LLVMGlobalGetValueType(function), function, args, 2, ""));
    LLVMInstructionEraseFromParent(load);
}

void mt_unit_mark_constant_loads(struct mt_unit *u)
{
    static const char name[] = "invariant.load";
    unsigned mark = LLVMGetMDKindIDInContext(u->context, name, sizeof name - 1);
    LLVMValueRef none = LLVMMetadataAsValue(u->context, LLVMMDNodeInContext2(u->context, NULL, 0));
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(u->context);
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b), next; i; i = next) {
                next = LLVMGetNextInstruction(i);
                if (!LLVMIsALoadInst(i) || !hardware_is_constant(u, i))
                    continue;
                if (hardware_is_again(i, mark))
                    hardware_load_again(u, builder, i);
                else
                    LLVMSetMetadata(i, mark, none);
            }
    LLVMDisposeBuilder(builder);
}

int mt_pass_hardware_only(LLVMModuleRef module)
{
    struct mt_unit u;
    mt_settle_accesses(module);
    mt_unit_init(&u, module);
    mt_unit_merge_repeated(&u);
    mt_unit_fuse(&u);
    mt_unit_mask_loads(&u);
    mt_unit_narrow_accesses(&u);
    mt_unit_split_accesses(&u);
    mt_unit_narrow_accesses(&u); /* what it was taken apart into */
    mt_unit_forward_stores(&u);
    mt_unit_free(&u);
    return 1;
}
