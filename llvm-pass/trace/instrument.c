/* Puts a record call before each access to global memory (with the option spaces, also to others), and
 * gives each kernel its hidden parameter. */
#include "trace.h"
#include "ptx/asm/asm.h"
#include "tensor.h"
#include "format/image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tracer {
    struct mt_unit *u;
    LLVMBuilderRef builder;
    LLVMTypeRef ptr, i32, i64, fixed_type, block_type, note_type;
};

static LLVMValueRef record_function(struct tracer *t, const char *name, LLVMTypeRef type)
{
    return mt_declare(t->u->module, name, type);
}

static int instrument_wants(const struct tracer *t, enum mt_access_type op)
{
    return !t->u->options->only || t->u->options->only >> op & 1;
}

static LLVMValueRef as_pointer(struct tracer *t, const struct mt_access *a)
{
    LLVMValueRef p = a->pointer;
    LLVMTypeRef type = LLVMTypeOf(p);
    unsigned as = a->space == MT_SPACE_SHARED ? 3 : 0; /* an address of asm is a number */
    if (LLVMGetTypeKind(type) == LLVMIntegerTypeKind) {
        p = LLVMBuildIntToPtr(t->builder, LLVMBuildZExtOrBitCast(t->builder, p, t->i64, ""),
                              LLVMPointerTypeInContext(t->u->context, as), "");
        type = LLVMTypeOf(p);
    }
    if (LLVMGetPointerAddressSpace(type))
        p = LLVMBuildAddrSpaceCast(t->builder, p, t->ptr, "");
    if (a->offset) {
        LLVMValueRef offset = LLVMConstInt(t->i64, (uint64_t)a->offset, 1);
        p = LLVMBuildGEP2(t->builder, mt_type_int(t->u, 8), p, &offset, 1, "");
    }
    return p;
}

/* Returns the alignment without which the access faults on a GPU: that of the code, as far as one
 * instruction of the size needs it. The back end splits code with less. 0: unknown (inline asm, blocks). */
static uint32_t needed_alignment(LLVMValueRef inst, uint32_t size)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    if (op != LLVMLoad && op != LLVMStore && op != LLVMAtomicRMW && op != LLVMAtomicCmpXchg)
        return 0;
    uint32_t align = mt_alignment(inst), natural = size & -size;
    align = align < natural ? align : natural;
    return align < 16 ? align : 16;
}

/* Returns an i32, not 0 if the lane is one of the first `lanes`. */
static LLVMValueRef instrument_is_lane(struct tracer *t, unsigned lanes)
{
    static const char name[] = "llvm.nvvm.read.ptx.sreg.laneid";
    LLVMValueRef f =
        LLVMGetIntrinsicDeclaration(t->u->module, LLVMLookupIntrinsicID(name, sizeof name - 1), NULL, 0);
    LLVMValueRef lane = LLVMBuildCall2(t->builder, LLVMGlobalGetValueType(f), f, NULL, 0, "");
    LLVMValueRef is = LLVMBuildICmp(t->builder, LLVMIntULT, lane, LLVMConstInt(t->i32, lanes, 0), "");
    return LLVMBuildZExt(t->builder, is, t->i32, "");
}

static void instrument_record(struct tracer *t, LLVMValueRef inst, const struct mt_access *a)
{
    struct mt_unit *u = t->u;
    uint32_t size = a->size;
    LLVMValueRef bytes = a->bytes;
    if (bytes && LLVMIsAConstantInt(bytes) && LLVMConstIntGetZExtValue(bytes) <= MT_RAW_MAX_SIZE) {
        size = (uint32_t)LLVMConstIntGetZExtValue(bytes);
        if (!size)
            return;
        bytes = NULL;
    }
    LLVMValueRef condition = a->lanes ? instrument_is_lane(t, a->lanes) : a->only_if;
    if (condition && LLVMIsAConstantInt(condition)) {
        if (!LLVMConstIntGetZExtValue(condition) == !a->only_if_not)
            return;
        condition = NULL;
    }
    if (condition) { /* a block of no bytes has no record */
        LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(condition));
        LLVMValueRef happens =
            LLVMBuildICmp(t->builder, a->only_if_not ? LLVMIntEQ : LLVMIntNE, condition, zero, "");
        LLVMValueRef whole =
            bytes ? LLVMBuildIntCast2(t->builder, bytes, t->i64, 0, "") : LLVMConstInt(t->i64, size, 0);
        bytes = LLVMBuildSelect(t->builder, happens, whole, LLVMConstNull(t->i64), "");
    }
    char name[64];
    const char *word = a->global_only ? "generic" : mt_space_word(u, a->space);
    uint32_t type = a->global_only ? a->op : mt_space_type(u, a),
             shown = a->space == MT_SPACE_GENERIC ? a->op : type;
    uint32_t site = mt_unit_add_site(u, inst, shown, bytes ? 0 : size,
                                     bytes ? 0 : needed_alignment(inst, size), mt_variable_of(a->pointer));
    LLVMValueRef pointer = as_pointer(t, a);
    if (a->space == MT_SPACE_LOCAL)
        pointer = mt_local_number(u, t->builder, pointer);
    LLVMValueRef id = LLVMConstInt(t->i32, site, 0);
    if (bytes) {
        LLVMValueRef args[] = {pointer, LLVMBuildIntCast2(t->builder, bytes, t->i64, 0, ""),
                               LLVMConstInt(t->i32, type, 0), id};
        snprintf(name, sizeof name, "__mt_access_%s_n", word);
        LLVMBuildCall2(t->builder, t->block_type, record_function(t, name, t->block_type), args, 4, "");
    } else {
        LLVMValueRef args[] = {pointer, LLVMConstInt(t->i32, mt_rec_meta(type, size), 0), id};
        snprintf(name, sizeof name, "__mt_access_%s", word);
        LLVMBuildCall2(t->builder, t->fixed_type, record_function(t, name, t->fixed_type), args, 3, "");
    }
}

/* Returns an object's address with MT_MBARRIER_… in its lower bits. *name: name of the record function. */
static LLVMValueRef sync_object(struct tracer *t, const struct mt_sync *s, const char **name)
{
    struct mt_access at = {.pointer = s->what, .offset = s->offset, .space = MT_SPACE_SHARED};
    LLVMValueRef flags = NULL, p;
    *name = s->init || s->parity ? "__mt_access_mbarrier" : "__mt_access_phase";
    if (s->init)
        flags = LLVMConstInt(t->i64, MT_MBARRIER_INIT, 0);
    else if (s->parity)
        flags = LLVMBuildAnd(t->builder, LLVMBuildIntCast2(t->builder, s->parity, t->i64, 0, ""),
                             LLVMConstInt(t->i64, MT_MBARRIER_ODD, 0), "");
    p = as_pointer(t, &at);
    return flags ? LLVMBuildGEP2(t->builder, mt_type_int(t->u, 8), p, &flags, 1, "") : p;
}

/* Returns an i64: `size` if the wait is over, else 0. */
static LLVMValueRef sync_size(struct tracer *t, const struct mt_sync *s, LLVMValueRef inst)
{
    LLVMValueRef over = inst;
    if (LLVMGetTypeKind(LLVMTypeOf(inst)) == LLVMStructTypeKind)
        over = LLVMBuildExtractValue(t->builder, inst, (unsigned)s->output, "");
    over = LLVMBuildICmp(t->builder, LLVMIntNE, over, LLVMConstNull(LLVMTypeOf(over)), "");
    return LLVMBuildSelect(t->builder, over, LLVMConstInt(t->i64, s->size, 0), LLVMConstNull(t->i64), "");
}

static void instrument_sync(struct tracer *t, LLVMValueRef inst)
{
    struct mt_sync s;
    const char *name = "__mt_access_number";
    char sized[64];
    LLVMValueRef what;
    if (!mt_sync_of(t->u, inst, &s))
        return;
    int after = s.object && s.kind == MT_SYNC_BARRIER;
    LLVMPositionBuilderBefore(t->builder, after ? LLVMGetNextInstruction(inst) : inst);
    LLVMSetCurrentDebugLocation2(t->builder, LLVMInstructionGetDebugLoc(inst));
    LLVMValueRef site = LLVMConstInt(t->i32, mt_unit_add_site(t->u, inst, s.kind, s.size, 0, NULL), 0);
    if (s.object)
        what = sync_object(t, &s, &name);
    else
        what =
            LLVMBuildIntToPtr(t->builder, LLVMBuildIntCast2(t->builder, s.what, t->i64, 0, ""), t->ptr, "");
    if (s.output < 0) {
        LLVMValueRef args[] = {what, LLVMConstInt(t->i32, mt_rec_meta(s.kind, s.size), 0), site};
        LLVMBuildCall2(t->builder, t->fixed_type, record_function(t, name, t->fixed_type), args, 3, "");
        return;
    }
    LLVMValueRef args[] = {what, sync_size(t, &s, inst), LLVMConstInt(t->i32, s.kind, 0), site};
    snprintf(sized, sizeof sized, "%s_n", name);
    LLVMBuildCall2(t->builder, t->block_type, record_function(t, sized, t->block_type), args, 4, "");
}

static void instrument_untraced(struct tracer *t, LLVMValueRef inst, const char *what)
{
    mt_diag(t->u, inst, MT_DIAG_WARNING, "%s memory access without a record (counted at run time): %s",
            t->u->options->spaces ? "global or shared" : "global", what);
    LLVMValueRef id = LLVMConstInt(t->i32, mt_unit_add_note(t->u, inst, MT_NOTE_UNTRACED, what), 0);
    LLVMBuildCall2(t->builder, t->note_type, record_function(t, "__mt_untraced", t->note_type), &id, 1, "");
}

/* ---- matrices of a warp, tensor copies ---- */

static int record_warp(struct tracer *t, LLVMValueRef inst)
{
    struct mt_asm_warp_access x;
    if (!LLVMIsACallInst(inst) || !LLVMIsAInlineAsm(LLVMGetCalledValue(inst)) ||
        mt_asm_warp_access(t->u->module, t->builder, inst, &x))
        return 0;
    struct mt_access access = {.op = x.op,
                               .pointer = x.address,
                               .size = x.size,
                               .space = x.generic ? mt_space_of(t->u, x.address) : MT_SPACE_GLOBAL};
    if (x.rank)
        mt_record_tensor(t->u, t->builder, inst, &x);
    else if (instrument_wants(t, x.op) && mt_space_is_recorded(t->u, access.space))
        instrument_record(t, inst, &access);
    return 1;
}

/* ---- structs passed in memory ---- */

struct passed {
    struct tracer *t;
    LLVMValueRef call;
    struct mt_access access;
};

static void passed_part(void *ctx, uint64_t offset, uint32_t size)
{
    struct passed *p = ctx;
    p->access.offset = (int64_t)offset;
    p->access.size = size;
    instrument_record(p->t, p->call, &p->access);
}

/* Returns 1 for a struct passed twice, which is loaded once. */
static int instrument_is_passed_again(LLVMValueRef call, unsigned param, LLVMTypeRef type)
{
    for (unsigned i = 0; i < param; i++)
        if (LLVMGetOperand(call, i) == LLVMGetOperand(call, param) && mt_shim_byval_type(call, i) == type)
            return 1;
    return 0;
}

static void record_arguments(struct tracer *t, LLVMValueRef inst)
{
    unsigned n = LLVMIsACallInst(inst) ? LLVMGetNumArgOperands(inst) : 0;
    for (unsigned i = 0; i < n; i++) {
        LLVMTypeRef type = mt_shim_byval_type(inst, i);
        LLVMValueRef pointer = LLVMGetOperand(inst, i);
        struct passed p = {t, inst, {.op = MT_LOAD, .pointer = pointer}};
        if (!type || instrument_is_passed_again(inst, i, type) || !instrument_wants(t, MT_LOAD))
            continue;
        p.access.space = mt_space_of(t->u, pointer);
        if (mt_space_is_recorded(t->u, p.access.space))
            mt_argument_parts(t->u, type, mt_shim_param_align(inst, i), 0, passed_part, &p);
    }
}

/* Records the shared memory accesses of inline asm. */
static void instrument_asm_shared(struct tracer *t, LLVMValueRef inst)
{
    struct mt_access access[MT_MAX_ACCESSES];
    if (!(t->u->options->spaces & MT_SPACES_SHARED) || !LLVMIsACallInst(inst) ||
        !LLVMIsAInlineAsm(LLVMGetCalledValue(inst)))
        return;
    int n = mt_shared_accesses_of_asm(t->u, inst, access);
    if (n < 0)
        instrument_untraced(t, inst, "inline asm on shared memory");
    for (int i = 0; i < n; i++)
        if (instrument_wants(t, access[i].op))
            instrument_record(t, inst, &access[i]);
}

static void instrument_function(struct tracer *t, LLVMValueRef function)
{
    unsigned n;
    LLVMValueRef *list = mt_instructions(function, &n);
    for (unsigned i = 0; list && i < n; i++) {
        struct mt_access access[MT_MAX_ACCESSES];
        const char *what = "";
        int count = mt_access_of(t->u, list[i], access, &what);
        if ((!count && !LLVMIsACallInst(list[i])) || !mt_unit_wanted(t->u, list[i]))
            continue;
        LLVMPositionBuilderBefore(t->builder, list[i]);
        LLVMSetCurrentDebugLocation2(t->builder, LLVMInstructionGetDebugLoc(list[i]));
        record_arguments(t, list[i]);
        for (int j = 0; j < count; j++)
            if (instrument_wants(t, access[j].op))
                instrument_record(t, list[i], &access[j]);
        instrument_sync(t, list[i]); /* the next site is the one of a copy's access to shared memory */
        LLVMPositionBuilderBefore(t->builder, list[i]);
        if (count < 0 && !record_warp(t, list[i]))
            instrument_untraced(t, list[i], what);
        instrument_asm_shared(t, list[i]);
    }
    free(list);
}

void mt_move_function(LLVMValueRef new, LLVMValueRef old)
{
    mt_shim_copy_attributes(new, old);
    LLVMSetLinkage(new, LLVMGetLinkage(old));
    LLVMSetSubprogram(new, LLVMGetSubprogram(old));
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(old), next; b; b = next) {
        next = LLVMGetNextBasicBlock(b);
        LLVMRemoveBasicBlockFromParent(b);
        LLVMAppendExistingBasicBlock(new, b);
    }
}

LLVMValueRef mt_add_widened(struct mt_unit *u, LLVMValueRef old, const char *name)
{
    unsigned n = LLVMCountParams(old);
    LLVMTypeRef type = LLVMGlobalGetValueType(old), *params = malloc((n + 1) * sizeof *params);
    if (!params)
        return NULL;
    LLVMGetParamTypes(type, params);
    params[n] = mt_type_ptr(u);
    LLVMTypeRef wider = LLVMFunctionType(LLVMGetReturnType(type), params, n + 1, LLVMIsFunctionVarArg(type));
    free(params);
    LLVMValueRef new = LLVMAddFunction(u->module, name, wider);
    mt_move_function(new, old);
    LLVMValueRef to = LLVMGetFirstParam(new);
    for (LLVMValueRef from = LLVMGetFirstParam(old); from; from = LLVMGetNextParam(from)) {
        size_t length;
        const char *text = LLVMGetValueName2(from, &length);
        LLVMSetValueName2(to, text, length);
        LLVMReplaceAllUsesWith(from, to);
        to = LLVMGetNextParam(to);
    }
    LLVMSetValueName2(LLVMGetLastParam(new), "memtrace.ctx", 12);
    return new;
}

/* Metadata that names the kernel follows. */
static void add_hidden_parameter(struct mt_unit *u, struct mt_kernel *k)
{
    LLVMValueRef old = k->function, new = mt_add_widened(u, old, "");
    if (!new)
        return;
    LLVMReplaceAllUsesWith(old, new);
    for (unsigned i = 0; i < u->nfacts; i++)
        if (u->facts[i].function == old)
            u->facts[i].function = new;
    /* NVPTX remembers kernels by address: another function at this address would be one. */
    mt_shim_detach_function(old);
    LLVMSetValueName2(new, k->name, strlen(k->name));
    k->function = new;
}

/* Removes attributes of functions that record, and thus write memory, whatever LLVM had found out about
 * them and their calls: otherwise two calls of a pure helper could still be merged after this pass. */
void mt_forget_purity(LLVMModuleRef module)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        unsigned n;
        if (LLVMIsDeclaration(f))
            continue;
        mt_shim_make_impure(f);
        LLVMValueRef *list = mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            if (!LLVMIsACallInst(list[i]) || LLVMIsAInlineAsm(LLVMGetCalledValue(list[i])))
                continue;
            LLVMValueRef callee = mt_callee(list[i]);
            if (!callee || !LLVMIsDeclaration(callee))
                mt_shim_make_impure(list[i]);
        }
        free(list);
    }
}

static int small_and_accessing(struct mt_unit *u, LLVMValueRef f)
{
    unsigned n;
    int accesses = 0;
    const char *what;
    struct mt_access access[MT_MAX_ACCESSES];
    LLVMValueRef *list = mt_instructions(f, &n);
    for (unsigned i = 0; list && i < n && !accesses; i++)
        accesses = mt_access_of(u, list[i], access, &what) != 0;
    free(list);
    return accesses && n <= 200;
}

static int inline_calls_of(LLVMValueRef f)
{
    int done = 0;
    for (LLVMUseRef use = LLVMGetFirstUse(f), next; use; use = next) {
        next = LLVMGetNextUse(use);
        LLVMValueRef call = LLVMIsACallInst(LLVMGetUser(use));
        if (call && LLVMGetCalledValue(call) == f && LLVMInstructionGetDebugLoc(call) &&
            LLVMGetBasicBlockParent(LLVMGetInstructionParent(call)) != f)
            done += mt_shim_inline(call);
    }
    return done;
}

/* Inlines wrappers: in unoptimised code atomicAdd and the like are functions of the toolchain's headers,
 * some calling others; inlined here, their accesses get the location of the user's call. */
static void inline_wrappers(struct mt_unit *u)
{
    for (int round = 0, changed = 1; changed && round < 8; round++) {
        changed = 0;
        for (LLVMValueRef f = LLVMGetFirstFunction(u->module), next; f; f = next) {
            next = LLVMGetNextFunction(f);
            if (LLVMIsDeclaration(f) || !mt_shim_from_toolchain(f) || !small_and_accessing(u, f))
                continue;
            changed += inline_calls_of(f);
            if (!LLVMGetFirstUse(f) && LLVMGetLinkage(f) == LLVMInternalLinkage)
                LLVMDeleteFunction(f);
        }
    }
}

void mt_unit_instrument(struct mt_unit *u)
{
    struct tracer t = {.u = u, .builder = LLVMCreateBuilderInContext(u->context), .ptr = mt_type_ptr(u)};
    t.i32 = mt_type_int(u, 32);
    t.i64 = mt_type_int(u, 64);
    LLVMTypeRef none = LLVMVoidTypeInContext(u->context);
    t.fixed_type = LLVMFunctionType(none, (LLVMTypeRef[]){t.ptr, t.i32, t.i32}, 3, 0);
    t.block_type = LLVMFunctionType(none, (LLVMTypeRef[]){t.ptr, t.i64, t.i32, t.i32}, 4, 0);
    t.note_type = LLVMFunctionType(none, (LLVMTypeRef[]){t.i32}, 1, 0);
    inline_wrappers(u);
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        struct mt_kernel *k = mt_unit_kernel(u, f);
        if (!LLVMIsDeclaration(f) && (!k || k->traced) && u->options->only != MT_ONLY_NOTHING)
            instrument_function(&t, f);
    }
    LLVMDisposeBuilder(t.builder);
    mt_forget_purity(u->module);
    for (unsigned i = 0; i < u->nkernels; i++)
        add_hidden_parameter(u, &u->kernels[i]);
}
