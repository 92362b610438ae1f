/* Compiles the CPU module to an x86-64 object. */
#include "cpu.h"
#include <stdlib.h>
#include <string.h>

LLVMTargetMachineRef mt_set_cpu_target(struct mt_unit *u, LLVMModuleRef clone)
{
    static const char triple[] = "x86_64-pc-linux-gnu";
    LLVMTargetRef target;
    char *message = NULL;
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    if (LLVMGetTargetFromTriple(triple, &target, &message)) {
        mt_diag(u, NULL, MT_DIAG_ERROR, "no x86-64 back end in this LLVM: %s", message);
        LLVMDisposeMessage(message);
        return NULL;
    }
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
        target, triple, mt_image_cpu(u), u->options->cpu_features ? u->options->cpu_features : "",
        LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetTarget(clone, triple);
    LLVMSetModuleDataLayout(clone, layout);
    LLVMDisposeTargetData(layout);
    return machine;
}

#define LONG_BLOCK 4096 /* instructions */
#define PIECE 256

/* Splits long blocks. The inliner moves the code after a call in its block, once per call: thousands of
 * unrolled mma in one block take quadratic time. simplifycfg joins the pieces again. Such a function is
 * also kept from the SLP vectoriser, which takes a quarter of the time and finds nothing. */
static int emit_cut_block(LLVMBasicBlockRef block)
{
    unsigned n = 0, i = 0;
    for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
        n++;
    if (n < LONG_BLOCK)
        return 0;
    for (LLVMValueRef at = LLVMGetLastInstruction(block), before; at; at = before, i++) {
        before = LLVMGetPreviousInstruction(at); /* from the end: one piece moves each time */
        if (LLVMIsAPHINode(at) || LLVMIsAAllocaInst(at))
            break; /* these are not moved */
        if (before && i % PIECE == PIECE - 1)
            mt_shim_split(at);
    }
    return 1;
}

static int emit_cut_blocks(LLVMModuleRef module)
{
    unsigned off = LLVMGetEnumAttributeKindForName("noimplicitfloat", 15);
    int any = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        int cut = 0;
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            cut |= emit_cut_block(b);
        if (cut)
            LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex,
                                    LLVMCreateEnumAttribute(LLVMGetModuleContext(module), off, 0));
        any |= cut;
    }
    return any;
}

/* Passes of LLVM's default<O2> that help code which was already optimised, as the program's was; the other
 * two thirds find nothing. */
#define SIMPLIFY                                                                                             \
    "simplifycfg<bonus-inst-threshold=1;no-forward-switch-cond;switch-range-to-icmp;no-switch-to-lookup;"    \
    "keep-loops;no-hoist-common-insts;no-sink-common-insts;speculate-blocks;simplify-cond-branch>"
#define SIMPLIFY_LAST                                                                                        \
    "simplifycfg<bonus-inst-threshold=1;forward-switch-cond;switch-range-to-icmp;switch-to-lookup;"          \
    "no-keep-loops;hoist-common-insts;sink-common-insts;speculate-blocks;simplify-cond-branch>"
#define COMBINE "instcombine<max-iterations=1;no-use-loop-info;no-verify-fixpoint>"
static const char emit_passes[] =
    "always-inline,function(sroa),cgscc(inline),globaldce,function(sroa<modify-cfg>,early-cse<memssa>,"
    "sccp," SIMPLIFY "," COMBINE
    ",jump-threading,correlated-propagation,loop-mssa(loop-rotate,licm),gvn,dse," COMBINE
    ",adce," SIMPLIFY_LAST ")";

LLVMMemoryBufferRef mt_unit_compile(struct mt_unit *u, LLVMModuleRef m, LLVMTargetMachineRef machine)
{
    LLVMMemoryBufferRef object = NULL;
    char *message = NULL;
    if (mt_run_passes(u, m, "globaldce", machine) ||
        (emit_cut_blocks(m) && mt_run_passes(u, m, "always-inline", machine)) ||
        mt_run_passes(u, m, emit_passes, machine))
        return NULL;
    if (!(object = mt_shim_emit_object(m, machine, &message))) {
        mt_diag(u, NULL, MT_DIAG_ERROR, "cannot compile the CPU image: %s", message);
        LLVMDisposeMessage(message);
        return NULL;
    }
    return object;
}
