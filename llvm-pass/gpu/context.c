/* Passes a launch's context to the record calls of the GPU's code. A kernel has it as its hidden parameter
 * and hands it on: each function that records, or calls one that does, gets one more parameter. Only
 * functions reached in other ways than a plain call (a pointer, a virtual call, another file with
 * -fgpu-rdc) must find it themselves, in a word of shared memory per CTA, stored by a kernel that can
 * reach such a call. All threads of a CTA store the same value, and each reads it only after its own
 * store, so no barrier is needed. A kernel that would not compile this way is not traced on a GPU: its own
 * shared variables leave no room for the word, its parameters none for one more, or it sets its register
 * count. */
#include "gpu.h"
#include "unit/unit.h"
#include "trace/trace.h"
#include "format/packet.h"
#include "memtrace/grow.h"
#include "trace/plain.h"
#include "format/image.h"
#include "unit/options.h"

#include <llvm-c/Linker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Record calls of shared and local memory in the GPU's code (option spaces): turns addresses into numbers
 * in their space, which the type names. */

#define SPACES_SHARED_SPACE 3
#define LOCAL_SPACE 5

static LLVMValueRef spaces_is(struct mt_unit *u, LLVMBuilderRef b, const char *name, LLVMValueRef pointer)
{
    LLVMValueRef f =
        LLVMGetIntrinsicDeclaration(u->module, LLVMLookupIntrinsicID(name, strlen(name)), NULL, 0);
    return LLVMBuildCall2(b, LLVMGlobalGetValueType(f), f, &pointer, 1, "");
}

/* Returns a pointer's address in a space, as a pointer that is not dereferenced. Needed where the pointer
 * may be to another space, for which LLVM has no cast. */
static LLVMValueRef spaces_number(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef pointer, unsigned space)
{
    const char *text =
        space == SPACES_SHARED_SPACE ? "cvta.to.shared.u64 $0, $1;" : "cvta.to.local.u64 $0, $1;";
    LLVMTypeRef i64 = mt_type_int(u, 64), type = LLVMFunctionType(i64, &i64, 1, 0);
    LLVMValueRef cast =
        LLVMGetInlineAsm(type, text, strlen(text), "=l,l", 4, 0, 0, LLVMInlineAsmDialectATT, 0);
    LLVMValueRef address = LLVMBuildPtrToInt(b, pointer, i64, "");
    LLVMValueRef number = LLVMBuildCall2(b, type, cast, &address, 1, "");
    number = LLVMBuildAnd(b, number, LLVMConstInt(i64, 0xffffffff, 0), "");
    return LLVMBuildIntToPtr(b, number, mt_type_ptr(u), "");
}

/* Handles any space: the type is the last argument but one, alone or with the size; it holds the operation
 * and the wanted spaces. */
static LLVMValueRef spaces_any(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef call, unsigned at)
{
    LLVMValueRef p = LLVMGetOperand(call, 0), what = LLVMGetOperand(call, at);
    uint32_t value = (uint32_t)LLVMConstIntGetZExtValue(what), shift = at == 1 ? 28 : 0;
    uint32_t wanted = value >> (shift + 2), plain = value & ~(3u << (shift + 2));
    LLVMTypeRef type = LLVMTypeOf(what);
    LLVMValueRef is_global = spaces_is(u, b, "llvm.nvvm.isspacep.global", p), here = is_global;
    LLVMValueRef address = p, kind = LLVMConstInt(type, plain, 0);
    static const struct {
        uint32_t bit;
        const char *test;
        unsigned space;
        enum mt_access_space code;
    } others[] = {{MT_SPACES_SHARED, "llvm.nvvm.isspacep.shared", SPACES_SHARED_SPACE, MT_IN_SHARED},
                  {MT_SPACES_LOCAL, "llvm.nvvm.isspacep.local", LOCAL_SPACE, MT_IN_LOCAL}};
    for (unsigned i = 0; i < 2; i++) {
        if (!(wanted & others[i].bit))
            continue;
        LLVMValueRef is = spaces_is(u, b, others[i].test, p);
        LLVMValueRef code = LLVMConstInt(type, plain | (uint32_t)others[i].code << (shift + 2), 0);
        address = LLVMBuildSelect(b, is, spaces_number(u, b, p, others[i].space), address, "");
        kind = LLVMBuildSelect(b, is, code, kind, "");
        here = LLVMBuildOr(b, here, is, "");
    }
    LLVMSetOperand(call, 0, address);
    LLVMSetOperand(call, at, kind);
    return LLVMBuildNot(b, here, "");
}

/* Returns an mbarrier's number with the parity of its phase as the lowest bit; after a wait, that of the
 * phase before. */
static LLVMValueRef spaces_phase(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef number, int before)
{
    static const char text[] = "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [$1], $2; "
                               "selp.u32 $0, 1, 0, p; }",
                      ties[] = "=r,r,n,~{memory}";
    LLVMTypeRef i32 = mt_type_int(u, 32), i64 = mt_type_int(u, 64);
    LLVMTypeRef type = LLVMFunctionType(i32, (LLVMTypeRef[]){i32, i32}, 2, 0);
    LLVMValueRef ask = LLVMGetInlineAsm(type, text, sizeof text - 1, ties, sizeof ties - 1, 1, 0,
                                        LLVMInlineAsmDialectATT, 0);
    LLVMValueRef at = LLVMBuildPtrToInt(b, number, i64, "");
    /* parity 0 is over: the phase is odd */
    LLVMValueRef args[] = {LLVMBuildTrunc(b, at, i32, ""), LLVMConstInt(i32, (unsigned)before, 0)};
    LLVMValueRef odd = LLVMBuildZExt(b, LLVMBuildCall2(b, type, ask, args, 2, ""), i64, "");
    return LLVMBuildIntToPtr(b, LLVMBuildOr(b, at, odd, ""), mt_type_ptr(u), "");
}

/* Turns the address of a record call into a number in its space. Returns an i1, built before the call,
 * that says there is nothing to record; or NULL if no test is needed. */
static LLVMValueRef gpu_narrow_space(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef call)
{
    const char *name = mt_name(mt_callee(call));
    LLVMPositionBuilderBefore(b, call);
    if (mt_starts(name, "__mt_access_any"))
        return spaces_any(u, b, call, mt_ends(name, "_n") ? 2 : 1);
    int phase = mt_starts(name, "__mt_access_phase");
    if (phase || mt_starts(name, "__mt_access_mbarrier") || mt_starts(name, "__mt_access_shared"))
        LLVMSetOperand(call, 0, spaces_number(u, b, LLVMGetOperand(call, 0), SPACES_SHARED_SPACE));
    if (phase) {
        uint64_t what = LLVMConstIntGetZExtValue(LLVMGetOperand(call, mt_ends(name, "_n") ? 2 : 1));
        uint64_t kind = mt_ends(name, "_n") ? what : what >> 28;
        LLVMSetOperand(call, 0, spaces_phase(u, b, LLVMGetOperand(call, 0), kind == MT_SYNC_BARRIER));
    }
    return NULL;
}

#define CONTEXT_WORD "__mt_launch_ctx"
#define STATIC_SHARED_MAX 0xc000u /* ptxas's limit, on every GPU */
#define WORD_BYTES 8u
#define PARAMETERS_MAX 32764u /* bytes with the hidden one: ptxas's limit since sm_70 */
#define SHARED_SPACE 3u

/* ---- sets of functions -------------------------------------------------------------------------- */

struct member {
    LLVMValueRef function, wider, context;
    LLVMValueRef left_out; /* kernels: i1, true if this CTA is not traced */
};
struct set {
    struct member *list;
    unsigned n;
    size_t cap;
};

static struct member *context_find(const struct set *s, LLVMValueRef function)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->list[i].function == function)
            return &s->list[i];
    return NULL;
}

static void context_add(struct set *s, LLVMValueRef function)
{
    if (context_find(s, function))
        return;
    if (mt_grow(&s->list, &s->cap, s->n + 1, sizeof *s->list))
        return;
    s->list[s->n++] = (struct member){.function = function};
}

static LLVMValueRef context_home(LLVMValueRef instruction)
{
    return LLVMGetBasicBlockParent(LLVMGetInstructionParent(instruction));
}

/* Returns the callee of a plain call, NULL for every other kind of call. */
static LLVMValueRef plain_callee(LLVMValueRef call)
{
    LLVMValueRef f = mt_callee(call);
    return f && LLVMGetCalledFunctionType(call) == LLVMGlobalGetValueType(f) ? f : NULL;
}

static int is_variadic(LLVMValueRef function)
{
    return LLVMIsFunctionVarArg(LLVMGlobalGetValueType(function));
}

static int is_record_function(const char *name)
{
    return mt_starts(name, "__mt_access_") || !strcmp(name, "__mt_untraced");
}

/* Returns 1 for records of a pointer into unknown memory. */
static int is_generic(const char *name)
{
    return mt_starts(name, "__mt_access_generic");
}

/* Returns 1 for records of memory other than global (option spaces). */
static int is_of_space(const char *name)
{
    return !is_generic(name) && !mt_starts(name, "__mt_access_global");
}

/* Finds the record functions and all their direct and indirect callers. */
static void find_recorders(struct mt_unit *u, struct set *s)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f))
        if (is_record_function(mt_name(f)))
            context_add(s, f);
    for (unsigned at = 0; at < s->n; at++) {
        LLVMValueRef f = s->list[at].function;
        for (LLVMUseRef use = LLVMGetFirstUse(f); use; use = LLVMGetNextUse(use)) {
            LLVMValueRef user = LLVMGetUser(use);
            if (LLVMIsACallInst(user) && plain_callee(user) == f)
                context_add(s, context_home(user));
        }
    }
}

/* ---- kernels that need the word ------------------------------------------------------------------ */

/* Returns 1 for external functions of the device library, which call none of ours. */
static int is_known_external(const char *name)
{
    static const char *const known[] = {"vprintf", "malloc", "free", "__assertfail", NULL};
    for (unsigned i = 0; known[i]; i++)
        if (!strcmp(name, known[i]))
            return 1;
    return mt_starts(name, "__mt_") || mt_starts(name, "__nv_");
}

/* Returns 1 if the program sets its warps' register count itself (setmaxnreg): record functions need
 * registers of their own, which do not fit. */
static int context_sets_registers(LLVMValueRef call)
{
    LLVMValueRef called = LLVMGetCalledValue(call);
    size_t n;
    if (LLVMIsAInlineAsm(called))
        return strstr(LLVMGetInlineAsmAsmString(called, &n), "setmaxnreg") != NULL;
    return mt_starts(mt_name(called), "llvm.nvvm.setmaxnreg.");
}

static int context_any_sets_registers(const struct set *reached)
{
    int found = 0;
    for (unsigned at = 0; at < reached->n && !found; at++) {
        unsigned n;
        LLVMValueRef *list = mt_instructions(reached->list[at].function, &n);
        for (unsigned i = 0; list && i < n && !found; i++)
            found = LLVMIsACallInst(list[i]) && context_sets_registers(list[i]);
        free(list);
    }
    return found;
}

/* Returns the bytes of a kernel's parameters in PTX's layout. */
static uint64_t context_parameters(struct mt_unit *u, LLVMValueRef kernel)
{
    unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5),
             align_kind = LLVMGetEnumAttributeKindForName("align", 5);
    uint64_t at = 0;
    for (unsigned i = 0; i < LLVMCountParams(kernel); i++) {
        LLVMAttributeRef whole = LLVMGetEnumAttributeAtIndex(kernel, i + 1, byval);
        LLVMAttributeRef given = LLVMGetEnumAttributeAtIndex(kernel, i + 1, align_kind);
        LLVMTypeRef type = whole ? LLVMGetTypeAttributeValue(whole) : LLVMTypeOf(LLVMGetParam(kernel, i));
        uint64_t align =
            whole && given ? LLVMGetEnumAttributeValue(given) : LLVMABIAlignmentOfType(u->layout, type);
        at = (at + align - 1) / align * align + LLVMABISizeOfType(u->layout, type);
    }
    return at;
}

/* Finds functions that a kernel reaches by plain calls. Returns 1 if there is a call of another kind on
 * the way. */
static int context_reach(LLVMValueRef kernel, const struct set *recorders, struct set *out)
{
    int other = 0;
    context_add(out, kernel);
    for (unsigned at = 0; at < out->n; at++) {
        unsigned n;
        LLVMValueRef *list = mt_instructions(out->list[at].function, &n);
        for (unsigned i = 0; list && i < n; i++) {
            if (!LLVMIsACallInst(list[i]) || LLVMIsAInlineAsm(LLVMGetCalledValue(list[i])))
                continue;
            LLVMValueRef callee = plain_callee(list[i]);
            if (callee && LLVMIsDeclaration(callee))
                other |= !LLVMGetIntrinsicID(callee) && !is_known_external(mt_name(callee));
            else if (callee) {
                other |= is_variadic(callee) && context_find(recorders, callee);
                context_add(out, callee);
            } else
                other = 1;
        }
        free(list);
    }
    return other;
}

/* Returns 1 if a variable is used by one of these functions, or by any function that is not a kernel (a
 * pointer may lead there). */
static int is_used(struct mt_unit *u, LLVMValueRef value, const struct set *by)
{
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        if (LLVMIsAInstruction(user)
                ? context_find(by, context_home(user)) || !mt_unit_kernel(u, context_home(user))
                : is_used(u, user, by))
            return 1;
    }
    return 0;
}

/* Returns a lower bound of ptxas's count, for any order of the variables. */
static uint64_t shared_bytes(struct mt_unit *u, const struct set *reached)
{
    uint64_t sum = 0;
    for (LLVMValueRef g = LLVMGetFirstGlobal(u->module); g; g = LLVMGetNextGlobal(g)) {
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(g)) != SHARED_SPACE || !is_used(u, g, reached))
            continue;
        uint64_t align = LLVMGetAlignment(g) > 1 ? LLVMGetAlignment(g) : 1;
        sum += (LLVMABISizeOfType(u->layout, LLVMGlobalGetValueType(g)) + align - 1) / align * align;
    }
    return sum;
}

static void say_untraced(struct mt_unit *u, const struct mt_kernel *k, const struct mt_kernel *full)
{
    if (k == full)
        mt_diag(u, NULL, MT_DIAG_WARNING,
                "kernel %s runs on a GPU without a trace: it calls functions by pointer or of other files, "
                "for which tracing needs %u bytes of static shared memory, and it leaves less of the %u",
                k->pretty, WORD_BYTES, STATIC_SHARED_MAX);
    else
        mt_diag(u, NULL, MT_DIAG_WARNING,
                "kernel %s runs on a GPU without a trace: it calls functions by pointer or of other files, "
                "and kernel %s, compiled with it, leaves no shared memory for tracing those",
                k->pretty, full->pretty);
}

/* Returns a reason why a kernel cannot have record calls on a GPU, whatever else is compiled with it;
 * NULL: none. */
static const char *context_refusal(struct mt_unit *u, const struct mt_kernel *k, const struct set *reached)
{
    /* The hidden parameter is already the last one. */
    if (context_parameters(u, k->function) > PARAMETERS_MAX)
        return "its parameters leave no room for one more";
    if (context_any_sets_registers(reached))
        return "it sets the number of its registers (setmaxnreg), and record calls need some of their own";
    return NULL;
}

void mt_unit_plan_gpu(struct mt_unit *u)
{
    struct set recorders = {0};
    const struct mt_kernel *full = NULL;
    find_recorders(u, &recorders);
    for (unsigned i = 0; i < u->nkernels; i++) {
        struct mt_kernel *k = &u->kernels[i];
        struct set reached = {0};
        k->word = context_reach(k->function, &recorders, &reached) ? MT_WORD_STORED : MT_WORD_NONE;
        if (k->word && shared_bytes(u, &reached) + WORD_BYTES > STATIC_SHARED_MAX) {
            k->word = MT_WORD_NO_ROOM;
            full = full ? full : k;
        }
        const char *why = k->traced ? context_refusal(u, k, &reached) : NULL;
        k->gpu_untraced = why != NULL;
        if (why)
            mt_diag(u, NULL, MT_DIAG_WARNING, "kernel %s runs on a GPU without a trace: %s", k->pretty, why);
        free(reached.list);
    }
    u->no_word = full != NULL;
    for (unsigned i = 0; full && i < u->nkernels; i++) {
        struct mt_kernel *k = &u->kernels[i];
        if (!k->word || !k->traced || k->gpu_untraced)
            continue;
        k->gpu_untraced = 1;
        say_untraced(u, k, k->word == MT_WORD_NO_ROOM ? k : full);
    }
    free(recorders.list);
}

static int unit_needs_gpu_runtime(struct mt_unit *u)
{
    for (unsigned i = 0; i < u->nkernels; i++)
        if (u->kernels[i].word == MT_WORD_STORED)
            return 1;
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f))
        if (is_record_function(mt_name(f)) && LLVMGetFirstUse(f))
            return 1;
    return 0;
}

/* ---- the word ----------------------------------------------------------------------------------- */

static LLVMValueRef context_word(struct mt_unit *u)
{
    LLVMValueRef g = LLVMGetNamedGlobal(u->module, CONTEXT_WORD);
    if (g)
        return g;
    LLVMTypeRef type = mt_type_int(u, 64);
    g = LLVMAddGlobalInAddressSpace(u->module, type, CONTEXT_WORD, SHARED_SPACE);
    LLVMSetInitializer(g, LLVMGetUndef(type));
    LLVMSetAlignment(g, WORD_BYTES);
    LLVMSetLinkage(g, LLVMWeakAnyLinkage); /* shared by files linked into one program (-fgpu-rdc) */
    return g;
}

/* Loads the word at the builder's place; volatile like the store, which is in another function. */
static LLVMValueRef load_word(struct mt_unit *u, LLVMBuilderRef b)
{
    if (u->no_word)
        return LLVMConstNull(mt_type_ptr(u));
    LLVMValueRef load = LLVMBuildLoad2(b, mt_type_int(u, 64), context_word(u), "");
    LLVMSetVolatile(load, 1);
    LLVMSetAlignment(load, WORD_BYTES);
    return LLVMBuildIntToPtr(b, load, mt_type_ptr(u), "");
}

static void to_entry(LLVMBuilderRef b, LLVMValueRef function)
{
    LLVMValueRef at = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(function));
    while (LLVMIsAAllocaInst(at))
        at = LLVMGetNextInstruction(at);
    LLVMPositionBuilderBefore(b, at);
    LLVMSetCurrentDebugLocation2(b, NULL);
}

/* Returns the kernel's hidden parameter for the record calls of its CTA: NULL if only other CTAs are
 * traced. Leaves the builder after it. */
static LLVMValueRef context_begin(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef kernel)
{
    LLVMValueRef f = LLVMGetNamedFunction(u->module, "__mt_gpu_begin"), parameter = LLVMGetLastParam(kernel);
    to_entry(b, kernel);
    return f ? LLVMBuildCall2(b, LLVMGlobalGetValueType(f), f, &parameter, 1, "") : parameter;
}

static void store_word(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef kernel, LLVMValueRef context)
{
    if (context && LLVMIsConstant(context))
        to_entry(b, kernel);
    else if (context)
        LLVMPositionBuilderBefore(b, LLVMGetNextInstruction(context));
    else
        context = context_begin(u, b, kernel);
    LLVMValueRef value = LLVMBuildPtrToInt(b, context, mt_type_int(u, 64), "");
    LLVMValueRef store = LLVMBuildStore(b, value, context_word(u));
    LLVMSetVolatile(store, 1);
    LLVMSetAlignment(store, WORD_BYTES);
}

/* ---- the parameter ------------------------------------------------------------------------------ */

static LLVMValueRef context_widen(struct mt_unit *u, LLVMValueRef old)
{
    char name[4200];
    snprintf(name, sizeof name, "%s.memtrace", mt_name(old));
    LLVMValueRef new = mt_add_widened(u, old, name);
    if (!new)
        return NULL;
    LLVMSetLinkage(new, LLVMInternalLinkage);
    LLVMSetVisibility(new, LLVMDefaultVisibility);
    mt_shim_drop_comdat(new);
    LLVMGlobalEraseMetadata(old, LLVMGetMDKindIDInContext(u->context, "dbg", 3));
    return new;
}

/* Makes the old function, for callers other than by plain calls, read the word and call the wider one. */
static void context_forward(struct mt_unit *u, LLVMBuilderRef b, const struct member *m)
{
    unsigned n = LLVMCountParams(m->function);
    LLVMValueRef *args = malloc((n + 1) * sizeof *args);
    if (!args)
        return;
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(u->context, m->function, ""));
    LLVMSetCurrentDebugLocation2(b, NULL);
    for (unsigned i = 0; i < n; i++)
        args[i] = LLVMGetParam(m->function, i);
    args[n] = load_word(u, b);
    LLVMValueRef call = LLVMBuildCall2(b, LLVMGlobalGetValueType(m->wider), m->wider, args, n + 1, "");
    LLVMSetInstructionCallConv(call, LLVMGetFunctionCallConv(m->wider));
    mt_shim_copy_param_attributes(call, m->wider);
    if (LLVMGetTypeKind(LLVMTypeOf(call)) == LLVMVoidTypeKind)
        LLVMBuildRetVoid(b);
    else
        LLVMBuildRet(b, call);
    free(args);
}

static int can_go(LLVMValueRef function)
{
    LLVMLinkage l = LLVMGetLinkage(function);
    return !LLVMGetFirstUse(function) && (l == LLVMInternalLinkage || l == LLVMPrivateLinkage ||
                                          l == LLVMLinkOnceODRLinkage || l == LLVMLinkOnceAnyLinkage);
}

/* Returns an i1: the pointer is not to global memory. */
static LLVMValueRef leads_elsewhere(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef pointer)
{
    static const char name[] = "llvm.nvvm.isspacep.global";
    unsigned id = LLVMLookupIntrinsicID(name, sizeof name - 1);
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(u->module, id, NULL, 0);
    return LLVMBuildNot(b, LLVMBuildCall2(b, LLVMGlobalGetValueType(f), f, &pointer, 1, ""), "");
}

/* Adds a bit to the site or note if there is nothing to record. The kernel's context would tell as well,
 * but would hold two registers between accesses; its parameter can be reloaded at each access, and a bit
 * of a number that differs per access is not kept in a register either. */
static void say_left_out(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef call, LLVMValueRef left_out)
{
    unsigned last = (unsigned)LLVMGetNumArgOperands(call) - 1;
    LLVMValueRef site = LLVMGetOperand(call, last), none, elsewhere = gpu_narrow_space(u, b, call);
    if (is_generic(mt_name(mt_callee(call))))
        elsewhere = leads_elsewhere(u, b, LLVMGetOperand(call, 0));
    if (elsewhere) {
        left_out = left_out ? LLVMBuildOr(b, left_out, elsewhere, "") : elsewhere;
    }
    if (!left_out)
        return;
    none = LLVMConstInt(LLVMTypeOf(site), LLVMConstIntGetZExtValue(site) | MT_SITE_LEFT_OUT, 0);
    LLVMSetOperand(call, last, LLVMBuildSelect(b, left_out, none, site, ""));
}

static void hand_on(struct mt_unit *u, LLVMBuilderRef b, const struct set *recorders, const struct member *m)
{
    unsigned n;
    LLVMValueRef *list = mt_instructions(m->wider ? m->wider : m->function, &n);
    for (unsigned i = 0; list && i < n; i++) {
        LLVMValueRef callee = LLVMIsACallInst(list[i]) ? plain_callee(list[i]) : NULL;
        const struct member *to = callee ? context_find(recorders, callee) : NULL;
        if (!to || !to->wider)
            continue;
        if (is_record_function(mt_name(callee)))
            say_left_out(u, b, list[i], m->left_out);
        mt_shim_call_with(list[i], to->wider,
                          is_record_function(mt_name(callee)) && m->left_out ? LLVMGetLastParam(m->function)
                                                                             : m->context);
    }
    free(list);
}

static LLVMValueRef record_function_of_gpu(struct mt_unit *u, LLVMValueRef f)
{
    char name[64];
    const char *what = mt_name(f), *last = strrchr(what, '_');
    if (mt_starts(what, "__mt_access_"))
        snprintf(name, sizeof name, "__mt_gpu_%s%s",
                 mt_pass_counting == MT_COUNT_ONLY ? "count_global"
                 : is_of_space(what)               ? "access_space"
                                                   : "access_global",
                 strcmp(last, "_n") ? "" : "_n");
    else
        snprintf(name, sizeof name, "__mt_gpu_%s", what + strlen("__mt_"));
    return LLVMGetNamedFunction(u->module, name);
}

static int is_plain_kernel(const struct mt_unit *u, LLVMValueRef function)
{
    for (unsigned i = 0; i < u->nkernels; i++)
        if (u->kernels[i].plain == function)
            return 1;
    return 0;
}

/* Sets where a function has its context from. Kernels and variadic functions keep their types. */
static void give_context(struct mt_unit *u, LLVMBuilderRef b, struct member *m)
{
    if (is_plain_kernel(u, m->function)) { /* calls a weak function */
        m->context = LLVMConstNull(mt_type_ptr(u));
    } else if (mt_unit_kernel(u, m->function)) {
        m->context = context_begin(u, b, m->function);
        m->left_out = LLVMBuildICmp(b, LLVMIntEQ, m->context, LLVMConstNull(mt_type_ptr(u)), "");
    } else if (is_variadic(m->function) || !(m->wider = context_widen(u, m->function))) {
        to_entry(b, m->function);
        m->context = load_word(u, b);
    } else {
        m->context = LLVMGetLastParam(m->wider);
    }
}

/* Turns record calls into calls of the GPU's record functions with the context of their launch. */
static void unit_pass_context(struct mt_unit *u)
{
    LLVMBuilderRef b = LLVMCreateBuilderInContext(u->context);
    struct set s = {0};
    find_recorders(u, &s);
    for (unsigned i = 0; i < s.n; i++)
        if (is_record_function(mt_name(s.list[i].function)))
            s.list[i].wider = record_function_of_gpu(u, s.list[i].function);
        else
            give_context(u, b, &s.list[i]);
    for (unsigned i = 0; i < s.n; i++)
        if (s.list[i].context)
            hand_on(u, b, &s, &s.list[i]);
    for (unsigned i = 0; i < s.n; i++) {
        LLVMValueRef f = s.list[i].function;
        if (!s.list[i].wider)
            continue;
        if (is_record_function(mt_name(f))) {
            if (!LLVMGetFirstUse(f))
                LLVMDeleteFunction(f);
        } else if (!can_go(f)) {
            context_forward(u, b, &s.list[i]);
        } else {
            for (unsigned j = 0; j < u->nfacts; j++)
                if (u->facts[j].function == f)
                    u->facts[j].function = s.list[i].wider;
            LLVMDeleteFunction(f);
        }
    }
    for (unsigned k = 0; k < u->nkernels; k++)
        if (u->kernels[k].word == MT_WORD_STORED) {
            const struct member *m = context_find(&s, u->kernels[k].function);
            store_word(u, b, u->kernels[k].function, m ? m->context : NULL);
            if (u->kernels[k].plain)
                store_word(u, b, u->kernels[k].plain, LLVMConstNull(mt_type_ptr(u)));
        }
    LLVMDisposeBuilder(b);
    free(s.list);
}

/* Kernels of the GPU's code under the program's own names: unchanged by instrumentation, with the
 * program's parameters, so that any launch of them passes the right ones. Kernels with record calls and
 * the hidden parameter have another name, which only the runtime knows. */

#define PLAIN_SUFFIX                                                                                         \
    "__memtrace_plain" /* suffix of functions on the way, and of kernels until they get their name */

/* Finds functions that reach record calls, and kernels that do so by a pointer or in another file. */
static void plain_find_all(struct mt_unit *u, struct mt_plain *p)
{
    mt_plain_find(p, u->module);
    for (unsigned i = 0; i < u->nkernels; i++)
        if (u->kernels[i].word == MT_WORD_STORED)
            mt_plain_add(p, u->kernels[i].function);
}

void mt_unit_plan_plain(struct mt_unit *u)
{
    struct mt_plain p;
    plain_find_all(u, &p);
    for (unsigned i = 0; i < u->nkernels; i++) {
        struct mt_kernel *k = &u->kernels[i];
        int reaches = mt_plain_has(&p, k->function) || k->word == MT_WORD_STORED;
        k->has_plain = (u->options->gpu_plain || k->gpu_untraced) && mt_plain_has(&p, k->function);
        k->gpu_records = reaches && k->traced && !k->gpu_untraced;
    }
    mt_plain_free(&p);
}

/* Copies launch bounds and the like, which are stored beside the module's functions. */
static void copy_annotations(struct mt_unit *u, LLVMValueRef from, LLVMValueRef to)
{
    static const char name[] = "nvvm.annotations";
    unsigned n = LLVMGetNamedMetadataNumOperands(u->module, name);
    LLVMValueRef *nodes = malloc((n + 1) * sizeof *nodes), op[32];
    if (nodes)
        LLVMGetNamedMetadataOperands(u->module, name, nodes);
    for (unsigned i = 0; nodes && i < n; i++) {
        unsigned count = LLVMGetMDNodeNumOperands(nodes[i]);
        if (count < 3 || count > 32)
            continue;
        LLVMGetMDNodeOperands(nodes[i], op);
        if (op[0] != from)
            continue;
        op[0] = to;
        LLVMAddNamedMetadataOperand(u->module, name, LLVMMDNodeInContext(u->context, op, count));
    }
    free(nodes);
}

/* Drops copies of functions that no kernel calls. */
static void gpu_plain_drop_unused(const struct mt_unit *u, const struct mt_plain *p)
{
    for (int again = 1; again;) {
        again = 0;
        for (unsigned i = 0; i < p->count; i++) {
            int is_kernel = 0;
            for (unsigned k = 0; k < u->nkernels; k++)
                is_kernel |= p->copy[i] && u->kernels[k].plain == p->copy[i];
            if (p->copy[i] && !is_kernel && !LLVMGetFirstUse(p->copy[i])) {
                LLVMDeleteFunction(p->copy[i]);
                p->copy[i] = NULL;
                again = 1;
            }
        }
    }
}

static void unit_make_plain(struct mt_unit *u)
{
    struct mt_plain p;
    int wanted = 0;
    for (unsigned i = 0; i < u->nkernels; i++)
        wanted |= u->kernels[i].has_plain;
    if (!wanted)
        return;
    plain_find_all(u, &p);
    mt_plain_make(&p, PLAIN_SUFFIX);
    for (unsigned i = 0; p.copy && i < u->nkernels; i++) {
        struct mt_kernel *k = &u->kernels[i];
        if (!k->has_plain || !(k->plain = mt_plain_copy(&p, k->function)))
            continue;
        LLVMSetLinkage(k->plain, LLVMGetLinkage(k->function));
        mt_shim_set_dso_local(k->plain, 0);
        LLVMSetVisibility(k->plain, LLVMGetVisibility(k->function));
        copy_annotations(u, k->function, k->plain);
    }
    if (p.copy)
        gpu_plain_drop_unused(u, &p);
    mt_plain_free(&p);
}

/* Finishes a kernel under the program's name with its parameters. */
static LLVMValueRef plain_finish(const struct mt_kernel *k, LLVMValueRef function)
{
    LLVMValueRef f = mt_shim_new_kernel(function, 1);
    LLVMSetValueName2(f, k->name, strlen(k->name));
    return f;
}

/* Sets the final name and parameters of each version. */
static void unit_name_kernel(struct mt_kernel *k)
{
    char name[4200];
    LLVMValueRef plain = k->plain;
    if (k->gpu_records) {
        snprintf(name, sizeof name, "%s%s", k->name, MT_TRACED_SUFFIX);
        k->function = mt_shim_new_kernel(k->function, 0);
        LLVMSetValueName2(k->function, name, strlen(name));
        k->plain = plain ? plain_finish(k, plain) : NULL;
        return;
    }
    if (plain) { /* the other one is never launched */
        mt_shim_replace_kernel(k->function, plain);
        k->function = plain;
    }
    k->plain = NULL;
    k->function = plain_finish(k, k->function);
}

/* The GPU's copy of an instrumented module: links the device runtime (runtime/device, bitcode) and passes
 * each launch's context to the record calls. */

#define MT_GPU_PREFIX "__mt_gpu_"
#define SITE_BASE MT_GPU_PREFIX "site_base"

static void replace_loads(LLVMValueRef variable, LLVMValueRef value)
{
    for (LLVMUseRef use = LLVMGetFirstUse(variable), next; use; use = next) {
        LLVMValueRef load = LLVMGetUser(use); /* its only use */
        next = LLVMGetNextUse(use);
        LLVMReplaceAllUsesWith(load, value);
        LLVMInstructionEraseFromParent(load);
    }
}

/* Sets the number that record functions add to their sites: with -fgpu-rdc the host writes it
 * (runtime/gpu/gpu.c). Otherwise it is 0, and the variable's presence identifies the sites. */
static void link_site_base(struct mt_unit *u)
{
    LLVMValueRef base = LLVMGetNamedGlobal(u->module, SITE_BASE);
    LLVMTypeRef type = mt_type_int(u, 32);
    if (base && !(u->site_variable && u->options->rdc))
        replace_loads(base, LLVMConstInt(type, 0, 0));
    if (base && u->site_variable) {
        LLVMSetInitializer(base, LLVMConstInt(type, MT_SITE_UNKNOWN, 0));
        LLVMSetExternallyInitialized(base, 1);
        LLVMSetLinkage(base, LLVMWeakAnyLinkage);
        LLVMSetValueName2(base, u->site_variable, strlen(u->site_variable));
    } else if (base) {
        LLVMDeleteGlobal(base);
    }
}

/* Drops unused record functions, which may be the only callers of others. */
static int link_drop_unused(struct mt_unit *u)
{
    int dropped = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module), next; f; f = next) {
        next = LLVMGetNextFunction(f);
        if (!mt_starts(mt_name(f), MT_GPU_PREFIX) || LLVMIsDeclaration(f) || LLVMGetFirstUse(f))
            continue;
        LLVMDeleteFunction(f);
        dropped = 1;
    }
    return dropped;
}

/* Makes record functions weak. NVPTX's call lowering looks at all calls of an internal function, for each
 * call; weak functions give the same code in ptxas. With linked files each one has its own, under a name
 * with its sites' hash: files with the same sites share it, as they share the number added to these. */
static void publish_records(struct mt_unit *u)
{
    const char *hash = u->site_variable ? strrchr(u->site_variable, '_') : NULL;
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        char name[256];
        if (!mt_starts(mt_name(f), MT_GPU_PREFIX) || LLVMIsDeclaration(f))
            continue;
        if (!u->options->rdc) {
            LLVMSetLinkage(f, LLVMWeakODRLinkage);
        } else if (hash && snprintf(name, sizeof name, "%s%s", mt_name(f), hash) < (int)sizeof name) {
            LLVMSetLinkage(f, LLVMWeakODRLinkage);
            LLVMSetValueName2(f, name, strlen(name));
        } else {
            LLVMSetLinkage(f, LLVMInternalLinkage);
        }
    }
}

static void gpu_annotate(struct mt_unit *u, LLVMValueRef kernel, const char *key, uint64_t value)
{
    LLVMValueRef parts[] = {kernel, LLVMMDStringInContext(u->context, key, (unsigned)strlen(key)),
                            LLVMConstInt(mt_type_int(u, 32), value, 0)};
    LLVMAddNamedMetadataOperand(u->module, "nvvm.annotations", LLVMMDNodeInContext(u->context, parts, 3));
}

/* Registers of an SM; a warp's are allocated in units of 8 per thread. */
#define SM_REGISTERS 65536u
#define MOST_THREADS 1024u
#define MOST_REGISTERS 255u

/* Sets a register limit, as a kernel needs more with record calls, and must remain launchable with as many
 * threads: those of its launch bounds, or the maximum. Not by launch bounds of our own: for too small ones
 * ptxas 13.0 uses 32 registers where 64 are possible. With -fgpu-rdc ptxas rejects a limited kernel that
 * calls a function above the limit. */
static void limit_registers(struct mt_unit *u, const struct mt_kernel *k)
{
    unsigned threads = k->max_threads && k->max_threads < MOST_THREADS ? k->max_threads : MOST_THREADS;
    unsigned most = SM_REGISTERS / ((threads + 31) / 32 * 32) / 8 * 8;
    if (!u->options->rdc && !k->min_blocks && most < MOST_REGISTERS)
        gpu_annotate(u, k->function, "maxnreg", most);
}

void mt_unit_finish_kernels(struct mt_unit *u)
{
    for (unsigned i = 0; i < u->nkernels; i++) {
        struct mt_kernel *k = &u->kernels[i];
        if (k->gpu_records)
            limit_registers(u, k);
        unit_name_kernel(k);
    }
}

void mt_unit_link_gpu(struct mt_unit *u)
{
    if (!unit_needs_gpu_runtime(u))
        return;
    LLVMModuleRef runtime =
        mt_load_bitcode(u, mt_pass_options.gpu_runtime ? mt_pass_options.gpu_runtime : "gpu-device.bc");
    if (!runtime)
        return;
    LLVMSetTarget(runtime, LLVMGetTarget(u->module));
    LLVMSetDataLayout(runtime, LLVMGetDataLayoutStr(u->module));
    mt_shim_drop_named_metadata(runtime);
    for (LLVMValueRef g = LLVMGetFirstGlobal(runtime), next; g; g = next) {
        next = LLVMGetNextGlobal(g);
        if (mt_starts(mt_name(g), "llvm."))
            LLVMDeleteGlobal(g);
    }
    if (LLVMLinkModules2(u->module, runtime)) {
        mt_diag(u, NULL, MT_DIAG_ERROR, "cannot link the GPU runtime");
        return;
    }
    link_site_base(u);
    mt_unit_untrace_tensors(u);
    unit_make_plain(u);
    unit_pass_context(u);
    while (link_drop_unused(u)) {
    }
    publish_records(u);
}
