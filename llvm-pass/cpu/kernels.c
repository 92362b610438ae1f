/* The functions that the CPU device calls, per kernel:
 *   entry(void **args)  one thread; its coordinates are in thread-local state
 *   loop(void **args)   a whole CTA as three nested loops, when no thread of the kernel can wait for another
 * In a loop, threadIdx and its relatives are the loop's own values, so that LLVM can hoist, vectorise and
 * forward them; thread-local state is kept up to date only if something that is not inlined could read it. */
#include "lower.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SREG "mtb_nvvm_read_ptx_sreg_"

/* One function (ptr args) -> void, internal, for the image's CPU. */
static LLVMValueRef add_runner(struct mt_lowering *l, const char *prefix, const char *kernel)
{
    char name[4200];
    snprintf(name, sizeof name, "%s%s", prefix, kernel);
    LLVMTypeRef type = LLVMFunctionType(l->none, &l->ptr, 1, 0);
    LLVMValueRef f = LLVMAddFunction(l->module, name, type);
    LLVMSetLinkage(f, LLVMInternalLinkage);
    mt_set_image_cpu(l->u, f);
    LLVMAddAttributeAtIndex(
        f, LLVMAttributeFunctionIndex,
        LLVMCreateEnumAttribute(l->u->context, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
    return f;
}

/* Loads the kernel's arguments from args[]; by-value structures stay where they are. malloc'ed array. */
static LLVMValueRef *load_arguments(struct mt_lowering *l, LLVMValueRef kernel, LLVMValueRef args)
{
    unsigned n = LLVMCountParams(kernel);
    LLVMValueRef *values = malloc((n + 1) * sizeof *values);
    for (unsigned i = 0; values && i < n; i++) {
        LLVMValueRef index = LLVMConstInt(l->i64, i, 0);
        LLVMValueRef slot = LLVMBuildGEP2(l->builder, l->ptr, args, &index, 1, "");
        LLVMValueRef p = LLVMBuildLoad2(l->builder, l->ptr, slot, "");
        LLVMTypeRef type = LLVMTypeOf(LLVMGetParam(kernel, i));
        values[i] = mt_shim_byval_type(kernel, i) ? p : LLVMBuildLoad2(l->builder, type, p, "");
    }
    return values;
}

static LLVMValueRef call_kernel(struct mt_lowering *l, LLVMValueRef kernel, LLVMValueRef *values)
{
    LLVMValueRef call = LLVMBuildCall2(l->builder, LLVMGlobalGetValueType(kernel), kernel, values,
                                       LLVMCountParams(kernel), "");
    mt_shim_copy_param_attributes(call, kernel);
    return call;
}

static LLVMValueRef build_entry(struct mt_lowering *l, LLVMValueRef kernel)
{
    LLVMValueRef f = add_runner(l, MT_RUN_ENTRY, mt_name(kernel));
    LLVMPositionBuilderAtEnd(l->builder, LLVMAppendBasicBlockInContext(l->u->context, f, ""));
    LLVMValueRef *values = load_arguments(l, kernel, LLVMGetParam(f, 0));
    if (values)
        call_kernel(l, kernel, values);
    LLVMBuildRetVoid(l->builder);
    free(values);
    return f;
}

/* Special registers that the loop knows. */
enum {
    TID_X,
    TID_Y,
    TID_Z,
    NTID_X,
    NTID_Y,
    NTID_Z,
    CTA_X,
    CTA_Y,
    CTA_Z,
    NCTA_X,
    NCTA_Y,
    NCTA_Z,
    LANE,
    WARP,
    NREGS
};
static const char *const reg_names[NREGS] = {"tid_x",    "tid_y",    "tid_z",   "ntid_x",  "ntid_y",
                                             "ntid_z",   "ctaid_x",  "ctaid_y", "ctaid_z", "nctaid_x",
                                             "nctaid_y", "nctaid_z", "laneid",  "warpid"};

struct loop {
    LLVMBasicBlockRef head, latch;
    LLVMValueRef index;
};

/* for (i = 0; i < n; i++): leaves the builder in the body. */
static struct loop open_loop(struct mt_lowering *l, LLVMValueRef f)
{
    struct loop o;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->builder);
    o.head = LLVMAppendBasicBlockInContext(l->u->context, f, "");
    LLVMBuildBr(l->builder, o.head);
    LLVMPositionBuilderAtEnd(l->builder, o.head);
    o.index = LLVMBuildPhi(l->builder, l->i32, "");
    LLVMValueRef zero = LLVMConstInt(l->i32, 0, 0);
    LLVMAddIncoming(o.index, &zero, &before, 1);
    return o;
}

static void close_loop(struct mt_lowering *l, LLVMValueRef f, struct loop *o, LLVMValueRef n)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->builder);
    LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(l->u->context, f, "");
    LLVMValueRef next = LLVMBuildNUWAdd(l->builder, o->index, LLVMConstInt(l->i32, 1, 0), "");
    LLVMAddIncoming(o->index, &next, &here, 1);
    LLVMBuildCondBr(l->builder, LLVMBuildICmp(l->builder, LLVMIntULT, next, n, ""), o->head, after);
    LLVMPositionBuilderAtEnd(l->builder, after);
}

static LLVMValueRef read_register(struct mt_lowering *l, int reg)
{
    char name[64];
    LLVMTypeRef type;
    snprintf(name, sizeof name, SREG "%s", reg_names[reg]);
    LLVMValueRef f = mt_builtin(l, name, &type);
    return f ? LLVMBuildCall2(l->builder, type, f, NULL, 0, "") : LLVMConstInt(l->i32, 0, 0);
}

void mt_declare_registers(struct mt_lowering *l)
{
    char name[64];
    LLVMTypeRef type;
    for (int r = 0; r < NREGS; r++) {
        snprintf(name, sizeof name, SREG "%s", reg_names[r]);
        mt_builtin(l, name, &type);
    }
    mt_builtin(l, "mtb_set_thread", &type);
    mt_builtin(l, "mtb_set_thread_number", &type);
    for (int size = 1; l->u->vector && size <= 16; size *= 2)
        for (int store = 0; store < 2; store++) {
            snprintf(name, sizeof name, "mtb_%s_%d", store ? "scatter" : "gather", size);
            mt_builtin(l, name, &type);
        }
    static const char *const records[] = {
        "__mt_warp_global",       "__mt_warp_generic",      "__mt_warp_global_rows",
        "__mt_warp_generic_rows", "__mt_warp_global_lanes", "__mt_warp_generic_lanes",
        "__mt_warp_undefined",    "__mt_warp_turn",         "__mt_warp_matrix",
        "__mt_warp_each",         "mtb_warp_first",         "mtb_warp_end"};
    for (unsigned i = 0; l->u->vector && i < sizeof records / sizeof *records; i++)
        mt_builtin(l, records[i], &type);
}

static int register_of(const char *callee)
{
    if (!mt_starts(callee, SREG))
        return -1;
    for (int r = 0; r < NREGS; r++)
        if (!strcmp(callee + strlen(SREG), reg_names[r]))
            return r;
    return -1;
}

/* Are there record calls in this function, or in one that it calls? */
static int kernels_records(struct mt_lowering *l, LLVMValueRef function)
{
    struct mt_reach reach = {0};
    int any = 0;
    mt_reach_from(l, function, &reach);
    for (unsigned i = 0; i < reach.count; i++)
        any |= mt_starts(mt_name(reach.functions[i]), "__mt_access_") ||
               (LLVMIsDeclaration(reach.functions[i]) && mt_is_shared_name(reach.functions[i]));
    mt_reach_free(&reach);
    return any;
}

static LLVMValueRef build_loop(struct mt_lowering *l, LLVMValueRef kernel)
{
    LLVMTypeRef set_type, number_type;
    LLVMValueRef set = mt_builtin(l, "mtb_set_thread", &set_type), reg[NREGS];
    LLVMValueRef set_number = mt_builtin(l, "mtb_set_thread_number", &number_type);
    LLVMValueRef f = add_runner(l, MT_RUN_LOOP, mt_name(kernel));
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(l->u->context, f, "");
    LLVMPositionBuilderAtEnd(l->builder, entry);
    LLVMValueRef *values = load_arguments(l, kernel, LLVMGetParam(f, 0));
    if (!values)
        return f;
    for (int r = NTID_X; r <= NCTA_Z; r++)
        reg[r] = read_register(l, r);
    struct loop z = open_loop(l, f), y = open_loop(l, f), x = open_loop(l, f);
    reg[TID_X] = x.index;
    reg[TID_Y] = y.index;
    reg[TID_Z] = z.index;
    LLVMValueRef row =
        LLVMBuildAdd(l->builder, LLVMBuildMul(l->builder, z.index, reg[NTID_Y], ""), y.index, "");
    LLVMValueRef linear =
        LLVMBuildAdd(l->builder, LLVMBuildMul(l->builder, row, reg[NTID_X], ""), x.index, "");
    reg[LANE] = LLVMBuildAnd(l->builder, linear, LLVMConstInt(l->i32, 31, 0), "");
    reg[WARP] = LLVMBuildLShr(l->builder, linear, LLVMConstInt(l->i32, 5, 0), "");
    LLVMValueRef where[] = {x.index, y.index, z.index, linear};
    LLVMValueRef setter = LLVMBuildCall2(l->builder, set_type, set, where, 4, "");
    LLVMValueRef number = LLVMBuildCall2(l->builder, number_type, set_number, &linear, 1, "");
    LLVMValueRef call = call_kernel(l, kernel, values);
    close_loop(l, f, &x, reg[NTID_X]);
    close_loop(l, f, &y, reg[NTID_Y]);
    close_loop(l, f, &z, reg[NTID_Z]);
    LLVMBuildRetVoid(l->builder);
    free(values);

    if (!mt_shim_inline(call))
        return f;
    int others = 0;
    unsigned n;
    LLVMValueRef *list = mt_instructions(f, &n);
    for (unsigned i = 0; list && i < n; i++) {
        if (!LLVMIsACallInst(list[i]))
            continue;
        LLVMValueRef callee = mt_callee(list[i]);
        int r = callee ? register_of(mt_name(callee)) : -1;
        int entry_read = LLVMGetInstructionParent(list[i]) == entry;
        if (r >= 0 && !entry_read) {
            LLVMReplaceAllUsesWith(list[i], reg[r]);
            LLVMInstructionEraseFromParent(list[i]);
        } else if (!callee ||
                   (!LLVMGetIntrinsicID(callee) && !mt_starts(mt_name(callee), "__mt_") &&
                    list[i] != setter && list[i] != number && r < 0 && !mt_reads_no_thread(l, callee)))
            others++;
    }
    free(list);
    if (!others)
        LLVMInstructionEraseFromParent(setter);
    if (!kernels_records(l, f))
        LLVMInstructionEraseFromParent(number);
    struct mt_row threads = {.before = y.head, .head = x.head, .x = x.index, .count = reg[NTID_X]};
    mt_stride_row(l, &threads);
    mt_narrow_row(l, &threads);
    return f;
}

/* Does nothing reachable from this function ask for the thread's coordinates? */
int mt_reads_no_thread(struct mt_lowering *l, LLVMValueRef function)
{
    struct mt_reach reach = {0};
    int clean = 1;
    mt_reach_from(l, function, &reach);
    for (unsigned i = 0; clean && i < reach.count; i++) {
        const char *name = mt_name(reach.functions[i]);
        int r = register_of(name);
        if ((r >= 0 && r <= TID_Z) || r >= LANE ||
            (LLVMIsDeclaration(reach.functions[i]) && mt_is_shared_name(reach.functions[i])) ||
            (LLVMIsDeclaration(reach.functions[i]) && mt_starts(name, "mt_cpu_") &&
             strcmp(name, "mt_cpu_trace_room") && strcmp(name, "mt_cpu_is_constant")))
            clean = 0;
        if (mt_starts(name, "mtb_ptx_sreg_") || mt_starts(name, SREG "lanemask"))
            clean = 0;
    }
    mt_reach_free(&reach);
    return clean;
}

/* Recording costs a fiber little beside its waits: large kernels (whole sorting libraries) are not worth
 * compiling twice. */
static int is_large(LLVMValueRef kernel)
{
    unsigned n = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(kernel); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            n++;
    return n > 500;
}

static void kernels_build(struct mt_lowering *l, unsigned k)
{
    int sync = l->u->kernels[k].sync;
    l->traced.entries[k] = build_entry(l, l->traced.kernels[k]);
    if (!sync)
        l->traced.loops[k] = build_loop(l, l->traced.kernels[k]);
    if (!l->plain.kernels[k] || (sync && is_large(l->plain.kernels[k])))
        return;
    if (sync)
        l->plain.entries[k] = build_entry(l, l->plain.kernels[k]);
    else
        l->plain.loops[k] = build_loop(l, l->plain.kernels[k]);
}

static void kernels_vector(struct mt_lowering *l, unsigned k)
{
    struct mt_kernel *kernel = &l->u->kernels[k];
    if (!l->u->vector)
        return;
    l->u->vector(l, l->traced.kernels[k], l->plain.kernels[k], &l->vector[k]);
    kernel->vector = l->vector[k].rows != NULL;
    snprintf(kernel->no_vector, sizeof kernel->no_vector, "%s", l->vector[k].why);
}

/* A group is of lanes that came by the same calls: two calls of a function do not become one. */
static void kernels_keep_callers(struct mt_lowering *l, const struct mt_reach *reach)
{
    unsigned nomerge = LLVMGetEnumAttributeKindForName("nomerge", 7);
    for (unsigned i = 0; reach->gathers && i < reach->count; i++)
        LLVMAddAttributeAtIndex(reach->functions[i], LLVMAttributeFunctionIndex,
                                LLVMCreateEnumAttribute(l->u->context, nomerge, 0));
}

/* Waits may not come to depend on more than they did: simplifycfg would put a barrier on both ways of a
 * branch behind it. */
static void kernels_keep_waits(struct mt_lowering *l)
{
    unsigned convergent = LLVMGetEnumAttributeKindForName("convergent", 10);
    for (unsigned i = 0; mt_waiting_functions[i]; i++) {
        LLVMValueRef f = LLVMGetNamedFunction(l->module, mt_waiting_functions[i]);
        if (f)
            LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex,
                                    LLVMCreateEnumAttribute(l->u->context, convergent, 0));
    }
}

void mt_lower_kernels(struct mt_lowering *l)
{
    kernels_keep_waits(l);
    for (unsigned k = 0; k < l->u->nkernels; k++) {
        struct mt_reach reach = {0};
        mt_reach_from(l, l->traced.kernels[k], &reach);
        l->u->kernels[k].sync = reach.waits;
        l->u->kernels[k].frames = reach.gathers;
        l->u->kernels[k].steps = reach.steps;
        kernels_keep_callers(l, &reach);
        mt_reach_free(&reach);
    }
    for (unsigned k = 0; k < l->u->nkernels; k++) {
        kernels_vector(l, k);
        kernels_build(l, k);
    }
}
