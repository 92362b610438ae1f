/* Memory accesses as the hardware will make them. NVPTX's back end still changes them behind the optimiser:
 * it puts neighbours together to vectors, drops what is loaded twice, splits what has no instruction. Record
 * calls would keep it from that, and would tell of accesses that never happen. So those of its passes that
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

static void hardware_mark(struct mt_unit *u, LLVMValueRef load, int in_kernel)
{
    unsigned as = LLVMGetPointerAddressSpace(LLVMTypeOf(LLVMGetOperand(load, 0)));
    if (as != 1 || LLVMGetVolatile(load) || LLVMGetOrdering(load) != LLVMAtomicOrderingNotAtomic ||
        !mt_shim_reads_constants(load, in_kernel))
        return;
    LLVMMetadataRef none = LLVMMDNodeInContext2(u->context, NULL, 0);
    LLVMSetMetadata(load, LLVMGetMDKindIDInContext(u->context, "invariant.load", 14),
                    LLVMMetadataAsValue(u->context, none));
}

void mt_unit_mark_constant_loads(struct mt_unit *u)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
                if (LLVMIsALoadInst(i))
                    hardware_mark(u, i, mt_unit_kernel(u, f) != NULL);
}

int mt_pass_hardware_only(LLVMModuleRef module)
{
    struct mt_unit u;
    mt_settle_accesses(module);
    mt_unit_init(&u, module);
    mt_unit_merge_repeated(&u);
    mt_unit_fuse(&u);
    mt_unit_narrow_accesses(&u);
    mt_unit_split_accesses(&u);
    mt_unit_free(&u);
    return 1;
}
