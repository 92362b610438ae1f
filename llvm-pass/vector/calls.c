/* Warps as vectors: calls that are not inlined, by pointer or of recursive functions. Such a function has
 * one version for warps, for any lanes: its parameters are vectors, and it gets the mask of the calling
 * lanes. In a call by pointer, lanes with the same target make the call together. */
#include "vector.h"
#include "lower/lowering.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "memtrace/grow.h"
#include "format/image.h"

/* Added after the program's arguments: the registers of the CTA, the first thread's number, the mask. */
#define MOST_PARAMETERS 200u
#define MORE (VEC_CTA_REGISTERS + 2)

struct vec_function {
    LLVMValueRef from;     /* code for a thread, */
    LLVMValueRef prepared; /* prepared code, */
    LLVMValueRef to;       /* code for a warp */
    struct vec *v;         /* its state until that exists */
    int meets, waits;      /* 1: it has warp collectives; 1: it waits for others */
    unsigned round;        /* the last search that reached it */
    char why[200];         /* reason for having none */
};

struct vec_functions {
    struct mt_lowering *l;
    struct vec_function **list;
    unsigned count, round;
    size_t cap;
};

struct vec_functions *vec_calls_begin(struct mt_lowering *l)
{
    struct vec_functions *s = calloc(1, sizeof *s);
    if (s)
        s->l = l;
    return s;
}

/* ---- possible callees ---------------------------------------------------------------------------------- */

struct calls_seen {
    LLVMValueRef *list;
    unsigned count;
    size_t cap;
};

static void calls_see(struct calls_seen *seen, LLVMValueRef f)
{
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
            LLVMValueRef callee = LLVMIsACallInst(i) ? mt_callee(i) : NULL;
            unsigned k = 0;
            while (callee && k < seen->count && seen->list[k] != callee)
                k++;
            if (callee && k == seen->count && !mt_grow(&seen->list, &seen->cap, k + 1, sizeof *seen->list))
                seen->list[seen->count++] = callee;
        }
}

int vec_recurs(LLVMValueRef f)
{
    struct calls_seen seen = {0};
    int found = 0;
    calls_see(&seen, f);
    for (unsigned i = 0; i < seen.count && !found; i++) {
        found = seen.list[i] == f;
        calls_see(&seen, seen.list[i]);
    }
    free(seen.list);
    return found;
}

static int calls_by_pointer(LLVMValueRef i)
{
    return LLVMIsACallInst(i) && !LLVMIsAInlineAsm(LLVMGetCalledValue(i)) && !mt_callee(i);
}

/* Returns 1 if a call of this type by pointer can lead there. */
static int calls_may_be(struct vec_functions *s, LLVMValueRef f, LLVMTypeRef type)
{
    if (LLVMIsDeclaration(f) || LLVMGlobalGetValueType(f) != type || !mt_is_address_taken(f))
        return 0;
    for (unsigned k = 0; k < s->l->u->nkernels; k++)
        if (s->l->traced.kernels[k] == f)
            return 0;
    return 1;
}

/* Returns its copy without record calls, if wanted and there is one. */
static LLVMValueRef calls_version(struct vec_functions *s, LLVMValueRef f, int plain)
{
    char name[4300];
    snprintf(name, sizeof name, "%s" MT_PLAIN_SUFFIX, mt_name(f));
    LLVMValueRef copy = plain ? LLVMGetNamedFunction(s->l->module, name) : NULL;
    return copy ? copy : f;
}

/* ---- their versions for warps -------------------------------------------------------------------------- */

/* Declares the warp version; fails if a type has no vector form. `leading`: a parameter before the others. */
static LLVMValueRef calls_declare(struct mt_lowering *l, LLVMTypeRef from, LLVMTypeRef leading,
                                  const char *name)
{
    struct vec v = {.l = l, .context = l->u->context};
    unsigned n = LLVMCountParamTypes(from), at = 0;
    LLVMTypeRef *types = malloc((n + MORE + 1) * sizeof *types),
                result = vec_wide(&v, LLVMGetReturnType(from));
    LLVMValueRef f = NULL;
    int ok = types && result && n <= MOST_PARAMETERS && !LLVMIsFunctionVarArg(from);
    if (ok) {
        LLVMGetParamTypes(from, types + (leading != NULL));
        if (leading)
            types[at++] = leading;
        for (unsigned i = 0; i < n; i++, at++)
            ok = ok && (types[at] = vec_wide(&v, types[at]));
        for (unsigned i = 0; i < MORE; i++)
            types[at++] = l->i32;
    }
    if (ok) {
        f = LLVMAddFunction(l->module, name, LLVMFunctionType(result, types, at, 0));
        LLVMSetLinkage(f, LLVMInternalLinkage);
        vec_set_target(l, f);
    }
    free(types);
    return f;
}

static void calls_look(struct vec_function *x)
{
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(x->prepared); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
            x->meets |= vec_is_lockstep_call(vec_callee(i));
            x->waits |= vec_is_wait(vec_callee(i));
        }
}

static struct vec_function *calls_find(const struct vec_functions *s, LLVMValueRef f)
{
    for (unsigned i = 0; i < s->count; i++)
        if (s->list[i]->from == f)
            return s->list[i];
    return NULL;
}

static struct vec_function *calls_get(struct vec_functions *s, LLVMValueRef f)
{
    const char *why = NULL;
    char name[4300];
    struct vec_function *x = calls_find(s, f);
    if (x || mt_grow(&s->list, &s->cap, s->count + 1, sizeof(struct vec_function *)) ||
        !(x = calloc(1, sizeof *x)))
        return x;
    s->list[s->count++] = x;
    x->from = f;
    x->prepared = vec_prepare(s->l, f, 1, &why);
    if (x->prepared) {
        snprintf(name, sizeof name, "mt.warp.%s.called", mt_name(f));
        x->to = calls_declare(s->l, LLVMGlobalGetValueType(f), NULL, name);
        calls_look(x);
        why = x->to ? NULL : "a type of its parameters";
    }
    if (why)
        snprintf(x->why, sizeof x->why, "%.150s in a function that is called", why);
    return x;
}

static const char *calls_visit(struct vec_functions *s, LLVMValueRef code, int plain, struct vec_called *out);

static const char *calls_come_to(struct vec_functions *s, LLVMValueRef f, int plain, struct vec_called *out)
{
    struct vec_function *x = calls_get(s, f);
    if (!x)
        return "no memory";
    if (x->why[0] || x->round == s->round)
        return x->why[0] ? x->why : NULL;
    x->round = s->round;
    out->meets |= x->meets;
    out->waits |= x->waits;
    return calls_visit(s, x->prepared, plain, out);
}

static const char *calls_visit(struct vec_functions *s, LLVMValueRef code, int plain, struct vec_called *out)
{
    const char *why = NULL;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(code); b && !why; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i && !why; i = LLVMGetNextInstruction(i)) {
            LLVMValueRef callee = vec_own_callee(i);
            if (callee) { /* it is recursive, or LLVM has found the target of a pointer */
                why = calls_come_to(s, calls_version(s, callee, plain), plain, out);
                continue;
            }
            if (!calls_by_pointer(i))
                continue;
            if (s->l->u->options->rdc || s->l->u->options->part)
                return "a call by pointer, which may lead to another file";
            LLVMTypeRef type = LLVMGetCalledFunctionType(i);
            for (LLVMValueRef f = LLVMGetFirstFunction(s->l->module); f && !why; f = LLVMGetNextFunction(f))
                if (calls_may_be(s, f, type))
                    why = calls_come_to(s, calls_version(s, f, plain), plain, out);
        }
    return why;
}

/* Decides once whether a warp version is possible, given those of its callees. */
static void calls_accept(struct vec_functions *s, struct vec_function *x, const struct vec_called *called)
{
    if (x->v || x->why[0])
        return;
    struct vec *v = x->v = malloc(sizeof *v);
    if (!v) {
        snprintf(x->why, sizeof x->why, "no memory");
        return;
    }
    *v = vec_new(s->l, s, x->prepared);
    v->any = v->called = v->plain = 1;
    v->meets = called->meets;
    if (vec_blocks(v) || vec_shapes(v) || vec_accept(v))
        snprintf(x->why, sizeof x->why, "%.150s in a function that is called", v->why ? v->why : "no memory");
    else
        vec_turns(v);
}

const char *vec_calls_find(struct vec_functions *s, LLVMValueRef code, int plain, struct vec_called *out)
{
    memset(out, 0, sizeof *out);
    s->round++;
    out->plain = plain;
    const char *why = calls_visit(s, code, plain, out);
    for (unsigned i = 0; i < s->count && !why; i++)
        if (s->list[i]->round == s->round) {
            calls_accept(s, s->list[i], out);
            why = s->list[i]->why[0] ? s->list[i]->why : NULL;
        }
    for (unsigned i = 0; i < s->count && !why; i++)
        if (s->list[i]->round == s->round)
            s->list[i]->v->plain &= plain;
    return why;
}

static void calls_body(struct vec_function *x)
{
    struct vec *v = x->v;
    unsigned n = LLVMCountParams(v->from);
    LLVMTypeRef result = LLVMGetReturnType(LLVMGlobalGetValueType(x->to));
    v->to = x->to;
    for (unsigned i = 0; i < n; i++)
        v->value[i].now = (struct vec_rep){.kind = VEC_LANES, .part = {LLVMGetParam(v->to, i)}};
    for (unsigned i = 0; i < VEC_CTA_REGISTERS; i++)
        v->cta[i] = LLVMGetParam(v->to, n + i);
    v->linear = LLVMGetParam(v->to, n + VEC_CTA_REGISTERS);
    v->here = LLVMGetParam(v->to, n + VEC_CTA_REGISTERS + 1);
    v->result = LLVMGetTypeKind(result) == LLVMVoidTypeKind ? NULL : result;
    vec_emit(v);
    if (v->why)
        mt_diag(v->l->u, NULL, MT_DIAG_ERROR, "%s: %s", mt_name(x->from), v->why);
    vec_free(v);
    free(v);
    x->v = NULL;
}

void vec_calls_end(struct vec_functions *s)
{
    for (int more = 1; s && more;) {
        more = 0;
        for (unsigned i = 0; i < s->count; i++)
            if (s->list[i]->v && !s->list[i]->why[0] && LLVMGetFirstUse(s->list[i]->to)) {
                calls_body(s->list[i]);
                more = 1;
            }
    }
    for (unsigned i = 0; s && i < s->count; i++) {
        struct vec_function *x = s->list[i];
        if (x->v)
            vec_free(x->v);
        free(x->v);
        if (x->prepared)
            LLVMDeleteFunction(x->prepared);
        if (x->to && LLVMIsDeclaration(x->to) && !LLVMGetFirstUse(x->to))
            LLVMDeleteFunction(x->to);
        free(x);
    }
    if (s)
        free(s->list);
    free(s);
}

/* ---- the calls ----------------------------------------------------------------------------------------- */

/* Calls the function that `target` is, among the possible ones. */
static LLVMValueRef calls_dispatcher(struct vec *v, LLVMTypeRef type)
{
    struct mt_lowering *l = v->l;
    char *text = LLVMPrintTypeToString(type), *name;
    LLVMValueRef f = NULL, args[MOST_PARAMETERS + MORE];
    if (asprintf(&name, "mt.warp.by.pointer.%s.%s", v->plain ? "plain" : "traced", text) < 0)
        name = NULL;
    LLVMDisposeMessage(text);
    int there = name && (f = LLVMGetNamedFunction(l->module, name));
    if (!there && name)
        f = calls_declare(l, type, l->ptr, name);
    free(name);
    if (there || !f)
        return f;
    LLVMBuilderRef b = LLVMCreateBuilderInContext(v->context);
    LLVMBasicBlockRef at = LLVMAppendBasicBlockInContext(v->context, f, "");
    unsigned n = LLVMCountParams(f) - 1;
    for (unsigned i = 0; i < n; i++)
        args[i] = LLVMGetParam(f, i + 1);
    LLVMPositionBuilderAtEnd(b, at);
    for (LLVMValueRef g = LLVMGetFirstFunction(l->module); g; g = LLVMGetNextFunction(g)) {
        if (!calls_may_be(v->functions, g, type))
            continue;
        struct vec_function *x = calls_find(v->functions, calls_version(v->functions, g, v->plain));
        if (!x || x->why[0])
            continue;
        LLVMBasicBlockRef here = LLVMAppendBasicBlockInContext(v->context, f, ""),
                          next = LLVMAppendBasicBlockInContext(v->context, f, "");
        LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, LLVMGetParam(f, 0), g, ""), here, next);
        LLVMPositionBuilderAtEnd(b, here);
        LLVMValueRef r = LLVMBuildCall2(b, LLVMGlobalGetValueType(x->to), x->to, args, n, "");
        if (LLVMGetTypeKind(LLVMTypeOf(r)) == LLVMVoidTypeKind)
            LLVMBuildRetVoid(b);
        else
            LLVMBuildRet(b, r);
        LLVMPositionBuilderAtEnd(b, next);
    }
    LLVMTypeRef told = LLVMFunctionType(l->none, (LLVMTypeRef[]){l->ptr, l->ptr, l->i32}, 3, 0);
    LLVMValueRef tell[] = {
        LLVMBuildGlobalStringPtr(b, "a call by pointer of what is no function of that type", "mt.what"),
        LLVMBuildGlobalStringPtr(b, "", "mt.file"), LLVMConstNull(l->i32)};
    LLVMBuildCall2(b, told, mt_declare(l->module, "mt_cpu_unsupported", told), tell, 3, "");
    LLVMBuildUnreachable(b);
    LLVMDisposeBuilder(b);
    return f;
}

void vec_emit_return(struct vec *v, LLVMValueRef end)
{
    if (!LLVMIsAReturnInst(end) || !LLVMGetNumOperands(end))
        return;
    LLVMValueRef value = LLVMGetOperand(end, 0);
    LLVMValueRef old = LLVMBuildLoad2(v->b, v->result, v->result_slot, "");
    LLVMBuildStore(v->b, vec_merge(v, LLVMTypeOf(value), vec_mask(v), vec_lanes(v, value), old),
                   v->result_slot);
}

int vec_is_called(LLVMValueRef inst)
{
    return vec_own_callee(inst) != NULL || calls_by_pointer(inst);
}

void vec_emit_call(struct vec *v, LLVMValueRef call)
{
    LLVMValueRef callee = mt_callee(call), args[MOST_PARAMETERS + MORE + 1], r;
    unsigned n = 0, given = LLVMGetNumArgOperands(call);
    if (!callee)
        args[n++] = NULL;
    for (unsigned i = 0; i < given; i++)
        args[n++] = vec_lanes(v, LLVMGetOperand(call, i));
    for (unsigned i = 0; i < VEC_CTA_REGISTERS; i++)
        args[n++] = v->cta[i];
    args[n++] = v->linear;
    args[n++] = vec_mask_bits(v, vec_mask(v));
    if (callee) {
        callee = calls_version(v->functions, callee, v->plain);
        r = mt_build_call(v->l, calls_find(v->functions, callee)->to, args, n);
    } else {
        LLVMValueRef dispatcher = calls_dispatcher(v, LLVMGetCalledFunctionType(call)),
                     to = LLVMGetCalledValue(call);
        struct vec_groups g;
        int together = vec_shape_of(v, to).kind == VEC_UNIFORM;
        if (!together) {
            LLVMTypeRef wide = LLVMVectorType(v->l->i64, VEC_WIDTH);
            vec_groups_begin(v, &g, LLVMBuildPtrToInt(v->b, vec_lanes(v, to), wide, ""), LLVMTypeOf(call));
            args[n - 1] = g.group;
        }
        args[0] = together ? vec_uniform(v, to) : LLVMBuildIntToPtr(v->b, g.one, v->l->ptr, "");
        r = mt_build_call(v->l, dispatcher, args, n);
        if (!together)
            r = vec_groups_end(v, &g, r);
    }
    if (LLVMGetTypeKind(LLVMTypeOf(call)) != LLVMVoidTypeKind)
        vec_set_lanes(v, call, r);
}
