// Queries to the NVPTX back end before it does its part: the PTX of a module (front.c), and whether it sees a
// kernel's annotations (gpu/context.c).
#include "shim.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/DIBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "llvm/CodeGen/SchedulerRegistry.h"
#include "llvm/CodeGen/SelectionDAG.h"
#include "llvm/CodeGen/SelectionDAGISel.h"
#include "llvm/Support/CommandLine.h"
using namespace llvm;

namespace
{
// Block size above which instruction selection uses a simple order: LLVM's own is quadratic, half of the time
// for kernels unrolled to thousands of instructions. The machine scheduler orders them again.
constexpr size_t longBlock = 2000;

// Returns whether a node has a used result in a physical register (flags) and cannot be duplicated where that
// register is needed in between: it reads another such register (adc), or writes memory.
bool isTied(const SDNode &N, const TargetInstrInfo &TII)
{
    if (!N.isMachineOpcode() || !N.getNumOperands())
        return false;
    const MCInstrDesc &D = TII.get(N.getMachineOpcode());
    if (N.getOperand(N.getNumOperands() - 1).getValueType() != MVT::Glue && !D.mayStore())
        return false;
    for (unsigned i = D.getNumDefs(); i < N.getNumValues(); i++)
        if (N.getValueType(i) != MVT::Glue && N.getValueType(i) != MVT::Other && N.hasAnyUseOfValue(i))
            return true;
    return false;
}

// Returns whether the simple order is safe: it copies the register of a tied node, and LLVM 19 crashes on the
// copy.
bool isSimple(const SelectionDAG &DAG)
{
    const TargetInstrInfo &TII = *DAG.getSubtarget().getInstrInfo();
    return none_of(DAG.allnodes(), [&](const SDNode &N) { return isTied(N, TII); });
}

ScheduleDAGSDNodes *createScheduler(SelectionDAGISel *IS, CodeGenOptLevel level)
{
    SelectionDAG &DAG = *IS->CurDAG;
    return DAG.allnodes_size() > longBlock && isSimple(DAG) ? createFastDAGScheduler(IS, level)
                                                            : createSourceListDAGScheduler(IS, level);
}

RegisterScheduler scheduler("memtrace", "LLVM's own, but for long blocks", createScheduler);

void setScheduler(const char *name)
{
    if (auto *O = cl::getRegisteredOptions().lookup("pre-RA-sched")) {
        O->reset();
        O->addOccurrence(0, "pre-RA-sched", name);
    }
}
} // namespace

LLVMMemoryBufferRef mt_shim_emit_object(LLVMModuleRef module, LLVMTargetMachineRef machine, char **message)
{
    LLVMMemoryBufferRef object = nullptr;
    setScheduler("memtrace");
    bool failed = LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, message, &object);
    setScheduler("default");
    return failed ? nullptr : object;
}

namespace
{
std::unique_ptr<TargetMachine> machineOf(Module &M, int level)
{
    std::string why;
    const Target *T = TargetRegistry::lookupTarget(M.getTargetTriple(), why);
    StringRef cpu, features;
    for (Function &F : M)
        if (!F.isDeclaration()) {
            cpu = F.getFnAttribute("target-cpu").getValueAsString();
            features = F.getFnAttribute("target-features").getValueAsString();
            break;
        }
    if (!T)
        return nullptr;
    return std::unique_ptr<TargetMachine>(T->createTargetMachine(M.getTargetTriple(), cpu, features,
                                                                 TargetOptions(), std::nullopt, std::nullopt,
                                                                 (CodeGenOptLevel)level));
}
} // namespace

namespace
{
// Returns whether the back end takes this function, not queried before, for a kernel. It reads annotations at
// the first query and caches the answer, even none, by the function's address. The calling convention must be
// unset.
bool isKnownKernel(TargetMachine &TM, Function &F)
{
    const Argument any(PointerType::get(F.getContext(), 0), "", &F);
    return !TM.getTargetTransformInfo(F).isSourceOfDivergence(&any);
}

// Moves a function to another address, with its first n parameters. The old memory is not freed, since its
// address is in the cache.
Function *moved(Function &F, unsigned n)
{
    auto *T = F.getFunctionType();
    T = FunctionType::get(T->getReturnType(), T->params().take_front(n), T->isVarArg());
    Function *G = Function::Create(T, F.getLinkage(), F.getAddressSpace());
    F.getParent()->getFunctionList().insert(F.getIterator(), G);
    G->copyAttributesFrom(&F);
    for (unsigned i = n; i < F.arg_size(); i++)
        G->setAttributes(G->getAttributes().removeParamAttributes(F.getContext(), i));
    G->setComdat(F.getComdat());
    G->copyMetadata(&F, 0);
    F.clearMetadata();
    G->splice(G->begin(), &F);
    for (unsigned i = 0; i < F.arg_size(); i++) {
        Argument *A = F.getArg(i);
        A->replaceAllUsesWith(i < n ? cast<Value>(G->getArg(i)) : Constant::getNullValue(A->getType()));
        if (i < n)
            G->getArg(i)->takeName(A);
    }
    F.replaceAllUsesWith(G);
    G->takeName(&F);
    mt_shim_detach_function(wrap(&F));
    return G;
}
} // namespace

void mt_shim_replace_kernel(LLVMValueRef kernel, LLVMValueRef other)
{
    auto *F = unwrap<Function>(kernel), *G = unwrap<Function>(other);
    if (NamedMDNode *N = F->getParent()->getNamedMetadata("nvvm.annotations")) {
        SmallVector<MDNode *, 16> kept;
        auto *of = ValueAsMetadata::getIfExists(F);
        for (MDNode *O : N->operands())
            if (!of || !O->getNumOperands() || O->getOperand(0) != of)
                kept.push_back(O);
        N->clearOperands();
        for (MDNode *O : kept)
            N->addOperand(O);
    }
    F->replaceAllUsesWith(G);
    F->setName("");
    mt_shim_detach_function(kernel);
}

LLVMValueRef mt_shim_new_kernel(LLVMValueRef function, int narrow)
{
    auto *Old = unwrap<Function>(function);
    Function *F = moved(*Old, Old->arg_size() - (narrow ? 1 : 0));
    auto TM = machineOf(*F->getParent(), 0);
    auto convention = F->getCallingConv();
    F->setCallingConv(CallingConv::C);
    for (int i = 0; TM && i < 1000 && !isKnownKernel(*TM, *F); i++)
        F = moved(*F, F->arg_size());
    F->setCallingConv(convention);
    return wrap(F);
}

uint64_t mt_shim_zero_bits(LLVMValueRef value)
{
    auto *V = unwrap(value);
    auto *I = dyn_cast<Instruction>(V);
    return I                     ? computeKnownBits(V, I->getModule()->getDataLayout()).Zero.getZExtValue()
           : isa<ConstantInt>(V) ? ~cast<ConstantInt>(V)->getZExtValue()
                                 : 0;
}

namespace
{
// Numbers in place of lines.
struct Numbering {
    DIBuilder B;
    DIFile *file;
    DenseMap<DILocation *, unsigned> number;
    std::vector<DILocation *> places;

    explicit Numbering(Module &M) : B(M)
    {
        file = B.createFile("m", ".");
        B.createCompileUnit(dwarf::DW_LANG_C_plus_plus, file, "", true, "", 0, "",
                            DICompileUnit::DebugDirectivesOnly);
    }
    unsigned numberOf(DILocation *L)
    {
        auto [at, isNew] = number.try_emplace(L, places.size() + 1);
        if (isNew)
            places.push_back(L);
        return at->second;
    }
    // Marks unreachable code, for which the back end makes an `exit`: another one before it has a number that
    // stands for no place of the program.
    void mark(UnreachableInst *U, DISubprogram *S)
    {
        auto *T = FunctionType::get(Type::getVoidTy(U->getContext()), false);
        auto *C = CallInst::Create(T, InlineAsm::get(T, "exit;", "", true), "", U->getIterator());
        places.push_back(nullptr);
        C->setDebugLoc(DILocation::get(U->getContext(), places.size(), 0, S));
    }
    // Numbers the function's instructions in `copy`, its copy without debug information.
    void run(Function &F, Function &copy)
    {
        auto *T = B.createSubroutineType(B.getOrCreateTypeArray({}));
        auto *S =
            B.createFunction(file, "f", "f", file, 0, T, 0, DINode::FlagZero, DISubprogram::SPFlagDefinition);
        copy.setSubprogram(S);
        auto I = inst_begin(F);
        for (Instruction &C : instructions(copy)) {
            while (isa<DbgInfoIntrinsic>(&*I))
                ++I;
            if (DILocation *L = (I++)->getDebugLoc())
                C.setDebugLoc(DILocation::get(F.getContext(), numberOf(L), 0, S));
        }
        for (BasicBlock &B : copy)
            if (auto *U = dyn_cast<UnreachableInst>(B.getTerminator()))
                mark(U, S);
    }
};
} // namespace

LLVMMemoryBufferRef mt_shim_emit_ptx(LLVMModuleRef module, int level, int contract_all,
                                     LLVMMetadataRef **places, unsigned *nplaces)
{
    Module &M = *unwrap(module);
    ValueToValueMapTy map;
    auto copy = CloneModule(M, map);
    StripDebugInfo(*copy);
    Numbering numbering(*copy);
    for (Function &F : M)
        if (!F.isDeclaration() && F.getSubprogram())
            numbering.run(F, *cast<Function>(map[&F]));
    numbering.B.finalize();
    copy->addModuleFlag(Module::Warning, "Debug Info Version", DEBUG_METADATA_VERSION);
    auto TM = machineOf(*copy, level);
    if (!TM)
        return nullptr;
    bool unsafe = false;
    for (Function &F : *copy)
        unsafe |= F.getFnAttribute("unsafe-fp-math").getValueAsBool();
    TM->Options.UnsafeFPMath = unsafe;
    TM->Options.AllowFPOpFusion = contract_all ? FPOpFusion::Fast : FPOpFusion::Standard;
    TM->Options.MCOptions.AsmVerbose = false;
    SmallVector<char, 0> text;
    raw_svector_ostream out(text);
    legacy::PassManager passes;
    passes.add(new TargetLibraryInfoWrapperPass(Triple(M.getTargetTriple())));
    if (TM->addPassesToEmitFile(passes, out, nullptr, CodeGenFileType::AssemblyFile, true))
        return nullptr;
    passes.run(*copy);
    *nplaces = numbering.places.size();
    *places = (LLVMMetadataRef *)malloc((*nplaces + 1) * sizeof **places);
    for (unsigned i = 0; *places && i < *nplaces; i++)
        (*places)[i] = wrap(numbering.places[i]);
    return wrap(MemoryBuffer::getMemBufferCopy(StringRef(text.data(), text.size())).release());
}

int mt_shim_replace_module(LLVMModuleRef module, LLVMModuleRef from)
{
    Module &M = *unwrap(module);
    SmallVector<NamedMDNode *, 8> gone;
    for (NamedMDNode &N : M.named_metadata())
        if (N.getName() != "llvm.module.flags" && N.getName() != "memtrace.facts")
            gone.push_back(&N);
    for (NamedMDNode *N : gone)
        M.eraseNamedMetadata(N);
    M.setModuleInlineAsm("");
    for (GlobalAlias &A : make_early_inc_range(M.aliases())) {
        A.replaceAllUsesWith(PoisonValue::get(A.getType()));
        A.eraseFromParent();
    }
    for (Function &F : M)
        F.dropAllReferences();
    for (GlobalVariable &G : M.globals())
        G.dropAllReferences();
    for (Function &F : make_early_inc_range(M)) {
        F.replaceAllUsesWith(PoisonValue::get(F.getType()));
        F.removeFromParent();
    }
    for (GlobalVariable &G : make_early_inc_range(M.globals())) {
        G.replaceAllUsesWith(PoisonValue::get(G.getType()));
        G.eraseFromParent();
    }
    return Linker::linkModules(M, std::unique_ptr<Module>(unwrap(from))) ? -1 : 0;
}

void mt_shim_share_debug(LLVMModuleRef to, LLVMModuleRef from)
{
    Module &T = *unwrap(to);
    if (NamedMDNode *N = unwrap(from)->getNamedMetadata("llvm.dbg.cu"))
        for (MDNode *O : N->operands())
            T.getOrInsertNamedMetadata("llvm.dbg.cu")->addOperand(O);
    T.addModuleFlag(Module::Warning, "Debug Info Version", DEBUG_METADATA_VERSION);
}

void mt_shim_keep_used(LLVMModuleRef to, LLVMModuleRef from)
{
    for (bool compiler : {false, true}) {
        SmallVector<GlobalValue *, 16> old, kept;
        collectUsedGlobalVariables(*unwrap(from), old, compiler);
        for (GlobalValue *G : old)
            if (GlobalValue *N = unwrap(to)->getNamedValue(G->getName()))
                kept.push_back(N);
        (compiler ? appendToCompilerUsed : appendToUsed)(*unwrap(to), kept);
    }
}
