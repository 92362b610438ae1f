// Thin C++ over LLVM 19: what llvm-c lacks (shim.h). All logic is in C.
#include "shim.h"
#include "base/source_name.h"
#include "options.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Analysis/CaptureTracking.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/PostDominators.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/Constants.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"
#include <llvm-c/Target.h>
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include <dlfcn.h>
#include <map>
#include <string>
using namespace llvm;

static SmallString<256> fullPath(StringRef file, StringRef directory)
{
    SmallString<256> path(file);
    if (sys::path::is_relative(path) && !directory.empty()) {
        path = directory;
        sys::path::append(path, file);
    }
    sys::path::remove_dots(path, true); // one file, one name, however it was given to the compiler
    return path;
}

// Returns the user's location: outside of the toolchain's own headers (atomicAdd, tex2D, cooperative groups,
// CUB).
static DILocation *userPlace(DILocation *L)
{
    for (DILocation *O = L; O; O = O->getInlinedAt())
        if (!mt_is_toolchain_file(fullPath(O->getFilename(), O->getDirectory()).c_str()))
            return O;
    return L;
}

static void setFile(mt_source_location &place, StringRef file, StringRef directory)
{
    SmallString<256> path = fullPath(file, directory);
    size_t n = std::min(path.size(), sizeof place.path - 1);
    memcpy(place.path, path.data(), n);
    place.path[n] = 0;
    place.file = place.path;
}

void mt_shim_function_place(LLVMValueRef function, struct mt_source_location *place)
{
    if (DISubprogram *S = unwrap<Function>(function)->getSubprogram()) {
        setFile(*place, S->getFilename(), S->getDirectory());
        place->line = S->getLine();
    }
}

void mt_shim_location(LLVMValueRef inst, struct mt_source_location *place)
{
    place->file = place->function = "";
    place->path[0] = 0;
    place->line = place->column = 0;
    auto *I = dyn_cast<Instruction>(unwrap(inst));
    if (!I || !I->getDebugLoc())
        return;
    DILocation *L = userPlace(I->getDebugLoc().get());
    place->line = L->getLine();
    place->column = L->getColumn();
    setFile(*place, L->getFilename(), L->getDirectory());
    DISubprogram *S = L->getScope()->getSubprogram();
    if (S && !place->line) // one instruction made from several lines: the function's own
        place->line = S->getLine();
    if (S)
        place->function = (S->getLinkageName().empty() ? S->getName() : S->getLinkageName()).data();
}

char *mt_shim_inlined_into(LLVMValueRef inst)
{
    const unsigned most = 8;
    std::string out;
    unsigned n = 0;
    auto *I = dyn_cast<Instruction>(unwrap(inst));
    DILocation *L = I && I->getDebugLoc() ? userPlace(I->getDebugLoc().get()) : nullptr;
    while (L && (L = L->getInlinedAt()) && n < most) {
        DISubprogram *S = L->getScope()->getSubprogram();
        SmallString<256> file = fullPath(L->getFilename(), L->getDirectory());
        if (mt_is_toolchain_file(file.c_str()))
            continue;
        n++;
        out += "\n";
        out += file;
        out += ":" + std::to_string(L->getLine());
        if (S) { // PTX has mangled names alone
            char *plain = mt_shim_demangle(S->getName().str().c_str(), 0);
            out += std::string(" in ") + (plain ? plain : "");
            free(plain);
        }
    }
    return strdup(out.c_str());
}

int mt_shim_from_toolchain(LLVMValueRef function)
{
    DISubprogram *S = unwrap<Function>(function)->getSubprogram();
    return S && mt_is_toolchain_file(fullPath(S->getFilename(), S->getDirectory()).c_str());
}

namespace
{
struct Message : DiagnosticInfoWithLocationBase {
    std::string text;
    static int kind()
    {
        static int k = getNextAvailablePluginDiagnosticKind();
        return k;
    }
    Message(const Function &F, const DiagnosticLocation &L, DiagnosticSeverity S, const char *T)
        : DiagnosticInfoWithLocationBase((DiagnosticKind)kind(), S, F, L), text(T)
    {
    }
    void print(DiagnosticPrinter &P) const override
    {
        if (isLocationAvailable())
            P << getLocationStr() << ": ";
        P << "memtrace: " << text;
    }
};
struct Plain : DiagnosticInfo {
    std::string text;
    Plain(DiagnosticSeverity S, const char *T) : DiagnosticInfo(Message::kind(), S), text(T)
    {
    }
    void print(DiagnosticPrinter &P) const override
    {
        P << "memtrace: " << text;
    }
};
} // namespace

void mt_shim_diag(LLVMContextRef context, LLVMValueRef inst, enum mt_severity severity, const char *message)
{
    DiagnosticSeverity S = severity == MT_DIAG_ERROR     ? DS_Error
                           : severity == MT_DIAG_WARNING ? DS_Warning
                                                         : DS_Note;
    auto *I = inst ? dyn_cast<Instruction>(unwrap(inst)) : nullptr;
    if (I)
        unwrap(context)->diagnose(
            Message(*I->getFunction(), DiagnosticLocation(userPlace(I->getDebugLoc().get())), S, message));
    else
        unwrap(context)->diagnose(Plain(S, message));
}

char *mt_shim_demangle(const char *name, int whole)
{
    ItaniumPartialDemangler D;
    char *text = nullptr, *symbol = mt_source_symbol(name);
    size_t n = 0;
    if (symbol && !whole && !D.partialDemangle(symbol) && D.isFunction())
        text = D.getFunctionName(nullptr, &n);
    if (!text)
        text = strdup(demangle(symbol ? symbol : name).c_str());
    free(symbol);
    if (text)
        mt_source_text(text);
    return text;
}

void mt_shim_expand_constant_users(LLVMValueRef *globals, unsigned n)
{
    SmallVector<Constant *, 16> list;
    for (unsigned i = 0; i < n; i++)
        list.push_back(cast<Constant>(unwrap(globals[i])));
    if (!list.empty())
        convertUsersOfConstantsToInstructions(list);
}

void mt_shim_drop_dead_users(LLVMValueRef global)
{
    cast<Constant>(unwrap(global))->removeDeadConstantUsers();
}

LLVMTypeRef mt_shim_byval_type(LLVMValueRef function, unsigned param)
{
    if (auto *C = dyn_cast<CallBase>(unwrap(function)))
        return wrap(C->getParamByValType(param));
    return wrap(unwrap<Function>(function)->getParamByValType(param));
}

unsigned mt_shim_param_align(LLVMValueRef call, unsigned param)
{
    return std::min<uint64_t>(unwrap<CallBase>(call)->getParamAlign(param).valueOrOne().value(), 1u << 31);
}

void mt_shim_copy_attributes(LLVMValueRef to, LLVMValueRef from)
{
    auto *T = unwrap<Function>(to);
    auto *F = unwrap<Function>(from);
    T->copyAttributesFrom(F);
    T->setComdat(F->getComdat());
}

void mt_shim_make_impure(LLVMValueRef value)
{
    static const Attribute::AttrKind drop[] = {Attribute::Memory,       Attribute::NoSync,
                                               Attribute::Speculatable, Attribute::WillReturn,
                                               Attribute::NoFree,       Attribute::NoRecurse};
    auto strip = [](auto &x) {
        for (auto k : drop)
            x.removeFnAttr(k);
    };
    if (auto *F = dyn_cast<Function>(unwrap(value)))
        strip(*F);
    else if (auto *C = dyn_cast<CallBase>(unwrap(value)))
        strip(*C);
}

void mt_shim_only_reads(LLVMValueRef call)
{
    unwrap<CallBase>(call)->setMemoryEffects(MemoryEffects::readOnly());
}

int mt_shim_asm_only_reads(LLVMValueRef asm_call)
{
    auto *C = unwrap<CallBase>(asm_call);
    return !cast<InlineAsm>(C->getCalledOperand())->hasSideEffects() && C->onlyReadsMemory();
}

void mt_shim_detach_function(LLVMValueRef function)
{
    Function *F = unwrap<Function>(function);
    F->dropAllReferences();
    F->removeFromParent();
}

void mt_shim_drop_comdat(LLVMValueRef global)
{
    if (auto *O = dyn_cast<GlobalObject>(unwrap(global)))
        O->setComdat(nullptr);
}

void mt_shim_copy_param_attributes(LLVMValueRef call, LLVMValueRef function)
{
    auto *C = unwrap<CallBase>(call);
    auto *F = unwrap<Function>(function);
    for (unsigned i = 0; i < F->arg_size(); i++)
        if (Type *T = F->getParamByValType(i)) {
            C->addParamAttr(i, Attribute::getWithByValType(F->getContext(), T));
            if (MaybeAlign A = F->getParamAlign(i))
                C->addParamAttr(i, Attribute::getWithAlignment(F->getContext(), *A));
        }
}

void mt_shim_call_with(LLVMValueRef call, LLVMValueRef function, LLVMValueRef last)
{
    auto *C = unwrap<CallInst>(call);
    auto *F = unwrap<Function>(function);
    SmallVector<Value *> args(C->args());
    SmallVector<OperandBundleDef, 1> bundles;
    args.push_back(unwrap(last));
    C->getOperandBundlesAsDefs(bundles);
    auto *N = CallInst::Create(F->getFunctionType(), F, args, bundles, "", C->getIterator());
    N->setAttributes(C->getAttributes()); /* parameters before the last are the same */
    N->setCallingConv(C->getCallingConv());
    N->setTailCallKind(C->getTailCallKind());
    N->copyMetadata(*C);
    N->takeName(C);
    C->replaceAllUsesWith(N);
    C->eraseFromParent();
}

LLVMValueRef mt_shim_clone_function(LLVMValueRef function, const char *suffix)
{
    ValueToValueMapTy map;
    auto *F = unwrap<Function>(function);
    Function *copy = CloneFunction(F, map);
    copy->setName(F->getName() + suffix);
    copy->setLinkage(GlobalValue::InternalLinkage);
    return wrap(copy);
}

int mt_shim_inline(LLVMValueRef call)
{
    InlineFunctionInfo info;
    return InlineFunction(*unwrap<CallBase>(call), info).isSuccess();
}

int mt_shim_link_needed(LLVMModuleRef to, LLVMModuleRef from)
{
    return Linker::linkModules(*unwrap(to), std::unique_ptr<Module>(unwrap(from)),
                               Linker::Flags::LinkOnlyNeeded)
               ? -1
               : 0;
}

void mt_shim_set_pic(LLVMModuleRef module)
{
    unwrap(module)->setPICLevel(PICLevel::BigPIC);
}

void mt_shim_set_dso_local(LLVMValueRef global, int on)
{
    cast<GlobalValue>(unwrap(global))->setDSOLocal(on);
}

void mt_shim_drop_named_metadata(LLVMModuleRef module)
{
    Module *M = unwrap(module);
    for (const char *name : {"nvvm.annotations", "nvvmir.version", "llvm.ident", "llvm.module.flags"})
        if (NamedMDNode *N = M->getNamedMetadata(name))
            N->eraseFromParent();
}

void mt_shim_erase_named_metadata(LLVMModuleRef module, const char *name)
{
    if (NamedMDNode *N = unwrap(module)->getNamedMetadata(name))
        N->eraseFromParent();
}

int mt_shim_constant_string(LLVMValueRef global, const char **text, size_t *length)
{
    auto *G = dyn_cast<GlobalVariable>(unwrap(global)->stripPointerCasts());
    auto *D = G && G->hasInitializer() ? dyn_cast<ConstantDataArray>(G->getInitializer()) : nullptr;
    if (!D || !D->isString())
        return 0;
    *text = D->getAsString().data();
    *length = D->getAsString().size();
    if (*length && (*text)[*length - 1] == 0)
        --*length;
    return 1;
}

int mt_shim_is_nvptx(LLVMModuleRef module)
{
    return StringRef(unwrap(module)->getTargetTriple()).starts_with("nvptx");
}

void mt_shim_delete_dead(LLVMValueRef inst)
{
    RecursivelyDeleteTriviallyDeadInstructions(unwrap(inst));
}

LLVMBasicBlockRef mt_shim_split(LLVMValueRef before)
{
    auto *I = unwrap<Instruction>(before);
    return wrap(I->getParent()->splitBasicBlock(I));
}

LLVMValueRef mt_shim_behind_invoke(LLVMValueRef invoke)
{
    auto *I = unwrap<InvokeInst>(invoke);
    BasicBlock *next = I->getNormalDest();
    if (next->getSinglePredecessor())
        return wrap(&*next->getFirstInsertionPt());
    BasicBlock *edge = BasicBlock::Create(I->getContext(), "", I->getFunction(), next);
    next->replacePhiUsesWith(I->getParent(), edge);
    I->setNormalDest(edge);
    return wrap(BranchInst::Create(next, edge));
}

int mt_shim_private_slot(LLVMValueRef pointer)
{
    auto *A = dyn_cast<AllocaInst>(getUnderlyingObject(unwrap(pointer)));
    return A && !PointerMayBeCaptured(A, /*ReturnCaptures=*/true, /*StoreCaptures=*/true);
}

int mt_shim_asm_memory(LLVMValueRef asm_call)
{
    auto *C = unwrap<CallBase>(asm_call);
    auto *A = cast<InlineAsm>(C->getCalledOperand());
    if (StringRef(A->getAsmString()).trim().empty())
        return 0; /* a compiler barrier */
    for (const InlineAsm::ConstraintInfo &K : A->ParseConstraints()) {
        if (K.isIndirect)
            return 1;
        for (const std::string &Code : K.Codes)
            if (K.Type == InlineAsm::isClobber && Code == "{memory}")
                return 1;
    }
    return 0;
}

unsigned mt_shim_loops(LLVMValueRef function, const LLVMValueRef *list, unsigned n, uint32_t *innermost,
                       uint32_t **parents)
{
    DominatorTree tree(*unwrap<Function>(function));
    LoopInfo info(tree);
    auto loops = info.getLoopsInPreorder();
    DenseMap<const Loop *, uint32_t> number;
    *parents = loops.empty() ? nullptr : static_cast<uint32_t *>(malloc(loops.size() * sizeof **parents));
    if (!*parents) {
        std::fill_n(innermost, n, 0u);
        return 0;
    }
    for (unsigned i = 0; i < loops.size(); i++) {
        number[loops[i]] = i + 1;
        (*parents)[i] = number.lookup(loops[i]->getParentLoop());
    }
    for (unsigned i = 0; i < n; i++)
        innermost[i] = number.lookup(info.getLoopFor(unwrap<Instruction>(list[i])->getParent()));
    return loops.size();
}

int mt_shim_x86_has(const char *name, const char *features, const char *wanted)
{
    static const char triple[] = "x86_64-pc-linux-gnu";
    std::string error;
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86TargetMC();
    const Target *target = TargetRegistry::lookupTarget(triple, error);
    if (!target)
        return 1; // mt_set_cpu_target reports the error
    std::unique_ptr<MCSubtargetInfo> any(target->createMCSubtargetInfo(triple, "x86-64", ""));
    if (!any->isCPUStringValid(name))
        return -1;
    std::unique_ptr<MCSubtargetInfo> cpu(target->createMCSubtargetInfo(triple, name, features));
    return cpu->checkFeatures(wanted) && cpu->checkFeatures("+64bit");
}

// Returns the blocks from which the function's end is reachable, without those of traps and impossible cases.
static SmallPtrSet<BasicBlock *, 32> endingBlocks(Function &F)
{
    SmallPtrSet<BasicBlock *, 32> ending;
    SmallVector<BasicBlock *, 32> next;
    for (BasicBlock &B : F)
        if (isa<ReturnInst>(B.getTerminator()))
            next.push_back(&B);
    while (!next.empty()) {
        BasicBlock *B = next.pop_back_val();
        if (ending.insert(B).second)
            next.append(pred_begin(B), pred_end(B));
    }
    return ending;
}

void mt_shim_post_dominators(LLVMValueRef function, const LLVMBasicBlockRef *list, unsigned n,
                             LLVMBasicBlockRef *meeting)
{
    Function &F = *unwrap<Function>(function);
    SmallPtrSet<BasicBlock *, 32> ending = endingBlocks(F);
    SmallVector<std::tuple<Instruction *, unsigned, BasicBlock *>, 8> never;
    for (BasicBlock *B : ending) {
        Instruction *T = B->getTerminator();
        auto to = find_if(successors(B), [&](BasicBlock *S) { return ending.count(S) != 0; });
        for (unsigned i = 0; i < T->getNumSuccessors(); i++)
            if (!ending.count(T->getSuccessor(i)))
                never.push_back({T, i, T->getSuccessor(i)}), T->setSuccessor(i, *to);
    }
    PostDominatorTree tree(F);
    for (auto [T, i, S] : never)
        T->setSuccessor(i, S);
    for (unsigned i = 0; i < n; i++) {
        auto *node = tree.getNode(unwrap(list[i]));
        meeting[i] = node && node->getIDom() ? wrap(node->getIDom()->getBlock()) : nullptr;
    }
}

const char *mt_shim_self(void)
{
    static Dl_info info;
    if (!info.dli_fname)
        dladdr((void *)&mt_shim_self, &info);
    return info.dli_fname ? info.dli_fname : "";
}

// Returns the structs in a module's debug information, by names without scopes.
static const std::multimap<std::string, DICompositeType *> &structsOf(Module &M)
{
    static std::multimap<std::string, DICompositeType *> known;
    static Module *of;
    if (of == &M)
        return known;
    DebugInfoFinder finder;
    finder.processModule(M);
    known.clear();
    of = &M;
    for (DIType *T : finder.types())
        if (auto *C = dyn_cast<DICompositeType>(T); C && !C->getName().empty() && C->getSizeInBits())
            known.emplace(C->getName().str(), C);
    return known;
}

extern "C" char *mt_shim_member(LLVMValueRef gep)
{
    auto *G = dyn_cast<GetElementPtrInst>(unwrap(gep));
    auto *S = G && G->getNumIndices() == 2 ? dyn_cast<StructType>(G->getSourceElementType()) : nullptr;
    auto *index = S ? dyn_cast<ConstantInt>(G->getOperand(2)) : nullptr;
    if (!index || S->isOpaque() || !S->hasName())
        return nullptr;
    StringRef name = S->getName(); // "struct.particle", "class.ns::stats.12"
    name = name.drop_front(name.find('.') + 1);
    name = name.take_front(name.find('.'));
    if (size_t scope = name.rfind("::"); scope != StringRef::npos)
        name = name.drop_front(scope + 2);
    const DataLayout &layout = G->getModule()->getDataLayout();
    uint64_t at = layout.getStructLayout(S)->getElementOffset(index->getZExtValue()) * 8;
    auto [begin, end] = structsOf(*G->getModule()).equal_range(name.str());
    for (auto it = begin; it != end; ++it)
        for (DINode *E : it->second->getElements())
            if (auto *D = dyn_cast<DIDerivedType>(E); D && D->getTag() == dwarf::DW_TAG_member &&
                                                      D->getOffsetInBits() == at && !D->isStaticMember() &&
                                                      !D->getName().empty())
                return strdup(D->getName().str().c_str());
    return nullptr;
}
