/* Warps as vectors: the image's functions that run a kernel in this form, for the CTA's warps set in
 * thread-local state. */
#include "vector.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits for kernels whose masked code also exists without masks: instructions and blocks. */
#define MOST_TWICE 300u
#define MOST_BLOCKS_TWICE 24u

/* Declares void body(parameters …, registers of the CTA, first thread's number, then with rows x, y, z of
 * each one's first thread). */
static LLVMValueRef run_body(struct vec *v, const char *name)
{
    unsigned n = LLVMCountParams(v->from), first = n + VEC_CTA_REGISTERS, rows = v->any ? 0 : v->rows,
             all = first + 1 + 3 * rows;
    LLVMTypeRef *types = malloc(all * sizeof *types);
    if (!types)
        return NULL;
    for (unsigned i = 0; i < all; i++)
        types[i] = i < n ? LLVMTypeOf(LLVMGetParam(v->from, i)) : v->l->i32;
    v->to = LLVMAddFunction(v->module, name, LLVMFunctionType(v->l->none, types, all, 0));
    free(types);
    LLVMSetLinkage(v->to, LLVMInternalLinkage);
    for (unsigned i = 0; i < all; i++) /* they come from memory of the runtime */
        LLVMAddAttributeAtIndex(
            v->to, i + 1,
            LLVMCreateEnumAttribute(v->context, LLVMGetEnumAttributeKindForName("noundef", 7), 0));
    for (unsigned i = 0; i < n; i++)
        v->value[i].now = (struct vec_rep){.kind = VEC_UNIFORM, .part = {LLVMGetParam(v->to, i)}};
    for (unsigned i = 0; i < VEC_CTA_REGISTERS; i++)
        v->cta[i] = LLVMGetParam(v->to, n + i);
    v->linear = LLVMGetParam(v->to, first);
    for (unsigned p = 0; p < rows; p++)
        for (unsigned i = 0; i < 3; i++)
            v->thread[i][p] = LLVMGetParam(v->to, first + 1 + 3 * p + i);
    v->twice = !v->any && v->nvalues < MOST_TWICE && v->nblocks < MOST_BLOCKS_TWICE;
    vec_emit(v);
    return v->to;
}

struct run_thread {
    LLVMValueRef x, y, z;
};

static LLVMValueRef run_builtin(struct mt_lowering *l, const char *name)
{
    LLVMTypeRef type;
    LLVMValueRef f = mt_builtin(l, name, &type);
    return LLVMBuildCall2(l->builder, type, f, NULL, 0, "");
}

static LLVMValueRef run_register(struct mt_lowering *l, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "mtb_nvvm_read_ptx_sreg_%s", name);
    return run_builtin(l, full);
}

static void run_call(struct vec *v, LLVMValueRef body, LLVMValueRef *args, unsigned n, LLVMValueRef linear,
                     const struct run_thread *place)
{
    args[n++] = linear;
    for (unsigned p = 0; p < v->rows && place; p++) {
        args[n++] = place[p].x;
        args[n++] = place[p].y;
        args[n++] = place[p].z;
    }
    mt_build_call(v->l, body, args, n);
}

/* Returns the row after the one that begins at `at`. */
static struct run_thread vector_run_next(struct vec *v, struct run_thread at, struct run_thread size)
{
    LLVMBuilderRef b = v->b;
    LLVMValueRef zero = vec_number(v, 0), one = vec_number(v, 1);
    LLVMValueRef x = LLVMBuildAdd(b, at.x, vec_number(v, v->group), "");
    LLVMValueRef end = LLVMBuildICmp(b, LLVMIntEQ, x, size.x, "");
    LLVMValueRef y = LLVMBuildSelect(b, end, LLVMBuildAdd(b, at.y, one, ""), at.y, "");
    LLVMValueRef last = LLVMBuildICmp(b, LLVMIntEQ, y, size.y, "");
    return (struct run_thread){LLVMBuildSelect(b, end, zero, x, ""), LLVMBuildSelect(b, last, zero, y, ""),
                               LLVMBuildSelect(b, last, LLVMBuildAdd(b, at.z, one, ""), at.z, "")};
}

/* Computes the starts of a warp's rows. Most calls begin with the first warp. */
static void run_begin(struct vec *v, LLVMValueRef f, LLVMValueRef linear, struct run_thread size,
                      struct run_thread *at)
{
    LLVMBuilderRef b = v->b;
    LLVMValueRef zero = vec_number(v, 0);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b), divide = LLVMAppendBasicBlockInContext(v->context, f, ""),
                      after = LLVMAppendBasicBlockInContext(v->context, f, "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, linear, zero, ""), after, divide);
    LLVMPositionBuilderAtEnd(b, divide);
    LLVMValueRef row = LLVMBuildUDiv(b, linear, size.x, "");
    LLVMValueRef given[3] = {LLVMBuildURem(b, linear, size.x, ""), LLVMBuildURem(b, row, size.y, ""),
                             LLVMBuildUDiv(b, row, size.y, "")},
                 phi[3];
    LLVMBuildBr(b, after);
    LLVMPositionBuilderAtEnd(b, after);
    for (unsigned i = 0; i < 3; i++) {
        phi[i] = LLVMBuildPhi(b, v->l->i32, "");
        LLVMAddIncoming(phi[i], &zero, &here, 1);
        LLVMAddIncoming(phi[i], &given[i], &divide, 1);
    }
    *at = (struct run_thread){phi[0], phi[1], phi[2]};
}

static LLVMValueRef run_least(struct vec *v, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildSelect(v->b, LLVMBuildICmp(v->b, p, a, b, ""), a, b, "");
}

/* Runs the warps from thread `from` to thread `to` of the CTA, if any. */
static void run_warps(struct vec *v, LLVMValueRef f, LLVMValueRef body, LLVMValueRef *args, unsigned n,
                      struct run_thread size, LLVMValueRef from, LLVMValueRef to)
{
    LLVMBuilderRef b = v->b;
    LLVMBasicBlockRef any = LLVMAppendBasicBlockInContext(v->context, f, ""),
                      head = LLVMAppendBasicBlockInContext(v->context, f, ""),
                      after = LLVMAppendBasicBlockInContext(v->context, f, "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, from, to, ""), any, after);
    LLVMPositionBuilderAtEnd(b, any);
    struct run_thread at[VEC_ROWS_MAX + 1] = {{0}};
    if (!v->any)
        run_begin(v, f, from, size, &at[0]);
    LLVMValueRef phi[4], next[4], first[4] = {from, at[0].x, at[0].y, at[0].z};
    unsigned values = v->any ? 1 : 4;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMBuildBr(b, head);
    LLVMPositionBuilderAtEnd(b, head);
    for (unsigned i = 0; i < values; i++) {
        phi[i] = LLVMBuildPhi(b, v->l->i32, "");
        LLVMAddIncoming(phi[i], &first[i], &before, 1);
    }
    if (!v->any) {
        at[0] = (struct run_thread){phi[1], phi[2], phi[3]};
        for (unsigned p = 0; p < v->rows; p++)
            at[p + 1] = vector_run_next(v, at[p], size);
    }
    run_call(v, body, args, n, phi[0], v->any ? NULL : at);
    next[0] = LLVMBuildNUWAdd(b, phi[0], vec_number(v, VEC_WIDTH), "");
    next[1] = at[v->rows].x;
    next[2] = at[v->rows].y;
    next[3] = at[v->rows].z;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b);
    for (unsigned i = 0; i < values; i++)
        LLVMAddIncoming(phi[i], &next[i], &here, 1);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, next[0], to, ""), head, after);
    LLVMPositionBuilderAtEnd(b, after);
}

/* Runs the warps that a call is for. The last one may be partial in CTAs of any shape. */
static void run_share(struct vec *v, LLVMValueRef f, LLVMValueRef body, LLVMValueRef *args, unsigned n,
                      struct run_thread size)
{
    LLVMBuilderRef b = v->b;
    LLVMValueRef threads = LLVMBuildMul(b, LLVMBuildMul(b, size.x, size.y, ""), size.z, "");
    LLVMValueRef from = LLVMBuildShl(b, run_builtin(v->l, "mtb_warp_first"), vec_number(v, 5), ""),
                 to = LLVMBuildShl(b, run_builtin(v->l, "mtb_warp_end"), vec_number(v, 5), "");
    run_warps(v, f, body, args, n, size, from, run_least(v, LLVMIntULT, to, threads));
}

static LLVMValueRef run_runner(struct vec *v, LLVMValueRef body, const char *name, LLVMValueRef kernel)
{
    struct mt_lowering *l = v->l;
    LLVMValueRef f = LLVMAddFunction(v->module, name, LLVMFunctionType(l->none, &l->ptr, 1, 0));
    LLVMSetLinkage(f, LLVMInternalLinkage);
    LLVMPositionBuilderAtEnd(v->b, LLVMAppendBasicBlockInContext(v->context, f, ""));
    unsigned n = LLVMCountParams(kernel);
    LLVMValueRef *args = malloc((n + VEC_CTA_REGISTERS + 1 + 3 * VEC_ROWS_MAX) * sizeof *args);
    for (unsigned i = 0; args && i < n; i++) {
        LLVMValueRef index = LLVMConstInt(l->i64, i, 0);
        LLVMValueRef slot = LLVMBuildGEP2(v->b, l->ptr, LLVMGetParam(f, 0), &index, 1, "");
        args[i] = LLVMBuildLoad2(v->b, l->ptr, slot, "");
        if (!mt_shim_byval_type(kernel, i))
            args[i] = LLVMBuildLoad2(v->b, LLVMTypeOf(LLVMGetParam(kernel, i)), args[i], "");
    }
    for (int i = 0; args && i < VEC_CTA_REGISTERS; i++)
        args[n++] = run_register(l, vec_register_name(VEC_NTID_X + i));
    struct run_thread size = {0};
    if (args)
        size = (struct run_thread){args[n - VEC_CTA_REGISTERS], args[n - VEC_CTA_REGISTERS + 1],
                                   args[n - VEC_CTA_REGISTERS + 2]};
    if (args)
        run_share(v, f, body, args, n, size);
    LLVMBuildRetVoid(v->b);
    free(args);
    return f;
}

void vec_set_target(struct mt_lowering *l, LLVMValueRef f)
{
    LLVMAddAttributeAtIndex(
        f, LLVMAttributeFunctionIndex,
        LLVMCreateEnumAttribute(l->u->context, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
    mt_set_image_cpu(l->u, f);
}

struct vec vec_new(struct mt_lowering *l, struct vec_functions *functions, LLVMValueRef prepared)
{
    const char *features = l->u->options->cpu_features;
    return (struct vec){.l = l,
                        .module = l->module,
                        .context = l->u->context,
                        .b = l->builder,
                        .layout = LLVMGetModuleDataLayout(l->module),
                        .mask_type = LLVMVectorType(l->i1, VEC_WIDTH),
                        .has_masks =
                            mt_shim_x86_has(mt_image_cpu(l->u), features ? features : "", MT_CPU_V4) > 0,
                        .group = VEC_WIDTH,
                        .rows = 1,
                        .functions = functions,
                        .from = prepared};
}

void vec_free(struct vec *v)
{
    free(v->value);
    free(v->table);
    vec_blocks_free(v);
}

/* A version of a kernel. */
struct version {
    struct vec_functions *functions;
    LLVMValueRef prepared;
    const char *name;
    struct vec_called called;
};

/* Builds the code for rows of `group` threads; 0: for CTAs of any shape. Returns NULL with out->why set. */
static LLVMValueRef run_build(struct mt_lowering *l, const struct version *of, unsigned group,
                              struct mt_vector *out)
{
    const char *form = !group ? "any" : group == VEC_WIDTH ? "32" : "16", *name = of->name;
    struct vec v = vec_new(l, of->functions, of->prepared);
    v.any = !group;
    v.group = group ? group : VEC_WIDTH;
    v.rows = VEC_WIDTH / v.group;
    v.plain = of->called.plain;
    v.meets = of->called.meets;
    v.waits = of->called.waits;
    LLVMValueRef body = NULL, runner = NULL;
    char full[4300];
    if (!vec_blocks(&v) && !vec_shapes(&v) && !vec_accept(&v)) {
        vec_turns(&v);
        snprintf(full, sizeof full, "mt.warp.%s.%s", name, form);
        body = run_body(&v, full);
    }
    if (body && !v.why) {
        vec_set_target(l, body);
        snprintf(full, sizeof full, MT_RUN_WARPS "%s.%s", name, form);
        runner = run_runner(&v, body, full, of->prepared);
        vec_set_target(l, runner);
    }
    if (v.why)
        snprintf(out->why, sizeof out->why, "%s", v.why);
    out->waits |= v.waits;
    vec_free(&v);
    return runner;
}

/* Returns 1 if the kernel distinguishes rows of a CTA; otherwise CTAs are seldom narrow. */
static int run_has_rows(LLVMValueRef f)
{
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
            int reg = vec_register(vec_callee(i));
            if (reg == VEC_TID_Y || reg == VEC_TID_Z)
                return 1;
        }
    return 0;
}

/* Builds the forms of one version of the kernel; `any`: NULL, or the destination of that form. */
static void run_version(struct vec_functions *functions, struct mt_lowering *l, LLVMValueRef kernel,
                        int plain, LLVMValueRef *rows, LLVMValueRef *tiles, LLVMValueRef *any,
                        struct mt_vector *out)
{
    const char *refused = NULL;
    char name[4300];
    struct version v = {.functions = functions, .name = name};
    snprintf(name, sizeof name, "%s%s", mt_name(kernel), rows == &out->rows ? "" : ".record");
    v.prepared = vec_prepare(l, kernel, 0, &refused);
    if (v.prepared)
        refused = vec_calls_find(functions, v.prepared, plain, &v.called);
    if (refused) {
        snprintf(out->why, sizeof out->why, "%s", refused);
    } else {
        *rows = run_build(l, &v, VEC_WIDTH, out);
        if (*rows && run_has_rows(v.prepared))
            *tiles = run_build(l, &v, VEC_WIDTH / 2, out);
        if (*rows && any)
            *any = run_build(l, &v, 0, out);
    }
    if (v.prepared)
        LLVMDeleteFunction(v.prepared);
}

static void run_kernel(struct vec_functions *functions, struct mt_lowering *l, unsigned k)
{
    struct mt_vector *out = &l->vector[k];
    LLVMValueRef kernel = l->traced.kernels[k], plain = l->plain.kernels[k];
    run_version(functions, l, plain ? plain : kernel, plain != NULL, &out->rows, &out->tiles,
                plain ? NULL : &out->record_any, out);
    if (plain && out->rows)
        run_version(functions, l, kernel, 0, &out->record_rows, &out->record_tiles, &out->record_any, out);
    else if (out->rows) {
        out->record_rows = out->rows;
        out->record_tiles = out->tiles;
    }
    if (out->record_any)
        out->why[0] = 0; /* reason of one form only */
}

void mt_vector_kernels(struct mt_lowering *l)
{
    struct vec_functions *functions = vec_calls_begin(l);
    for (unsigned k = 0; functions && k < l->u->nkernels; k++)
        run_kernel(functions, l, k);
    vec_calls_end(functions);
}
