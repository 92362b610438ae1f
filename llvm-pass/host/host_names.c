/* Host side, before optimisation: calls that may allocate device memory tell the runtime the candidate
 * variables of their caller (docs/design/pass.md). After the call it checks whether one of them has the
 * address of a new allocation. So any wrapper works, and the outermost name counts. */
#include "host.h"
#include "format/site.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 300, MOST_BYTES = 4096 };

struct reach {
    LLVMValueRef function;
    enum { REACH_UNKNOWN, REACH_OPEN, REACH_NO, REACH_YES } state;
};

struct names {
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMBuilderRef builder;
    LLVMTargetDataRef layout;
    LLVMTypeRef ptr, i32, i64, before_type, after_type;
    LLVMValueRef before, after; /* linkonce helpers; NULL: not made yet */
    struct reach *reach;        /* sorted by function */
    size_t nreach;
};

/* ---- calls that may allocate ---- */

static int by_function(const void *a, const void *b)
{
    const struct reach *x = a, *y = b;
    return x->function < y->function ? -1 : x->function > y->function;
}

static int names_list_functions(struct names *n)
{
    size_t count = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(n->module); f; f = LLVMGetNextFunction(f))
        count++;
    n->reach = calloc(count + 1, sizeof *n->reach);
    if (!n->reach)
        return -1;
    for (LLVMValueRef f = LLVMGetFirstFunction(n->module); f; f = LLVMGetNextFunction(f))
        n->reach[n->nreach++].function = f;
    qsort(n->reach, n->nreach, sizeof *n->reach, by_function);
    return 0;
}

/* Returns 1 for names that never lead to device memory. */
static int names_is_other(const char *name)
{
    static const char *const begin[] = {"llvm.", "__",  "_ZNSt", "_ZNKSt",       "_ZSt",
                                        "_ZNK",  "_Zn", "_Zd",   "_ZN9__gnu_cxx"};
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (mt_starts(name, begin[i]))
            return 1;
    return 0;
}

static int names_may_allocate(struct names *n, LLVMValueRef call, unsigned depth);

static int names_reaches(struct names *n, LLVMValueRef function, unsigned depth)
{
    struct reach key = {.function = function};
    struct reach *r = bsearch(&key, n->reach, n->nreach, sizeof key, by_function);
    if (!r || depth > MOST_DEPTH)
        return 1;
    if (r->state != REACH_UNKNOWN)
        return r->state == REACH_YES;
    r->state = REACH_OPEN;
    int yes = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b && !yes; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i && !yes; i = LLVMGetNextInstruction(i))
            yes = (LLVMIsACallInst(i) || LLVMIsAInvokeInst(i)) && names_may_allocate(n, i, depth + 1);
    r->state = yes ? REACH_YES : REACH_NO;
    return yes;
}

static int names_may_allocate(struct names *n, LLVMValueRef call, unsigned depth)
{
    LLVMValueRef callee = mt_callee(call);
    const char *name = callee ? mt_name(callee) : "";
    if (!callee)
        return !LLVMIsAInlineAsm(LLVMGetCalledValue(call));
    if (mt_host_is_cuda_call(name))
        return strcasestr(name, "alloc") || strstr(name, "Ipc");
    if (LLVMIsDeclaration(callee) || (names_is_other(name) && !depth))
        return !names_is_other(name);
    return names_reaches(n, callee, depth);
}

/* ---- the calls of the runtime ---- */

/* Makes a helper that calls `target` of the runtime if linked in, and else returns zero: one copy per
 * program. */
static LLVMValueRef names_helper(struct names *n, const char *target, const char *helper, LLVMTypeRef type)
{
    LLVMValueRef to = LLVMAddFunction(n->module, target, type), f = LLVMAddFunction(n->module, helper, type),
                 arg[5];
    LLVMSetLinkage(to, LLVMExternalWeakLinkage);
    LLVMSetLinkage(f, LLVMLinkOnceODRLinkage);
    LLVMSetVisibility(f, LLVMHiddenVisibility);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(n->context, f, "");
    LLVMBasicBlockRef call = LLVMAppendBasicBlockInContext(n->context, f, "");
    LLVMBasicBlockRef none = LLVMAppendBasicBlockInContext(n->context, f, "");
    int result = LLVMGetReturnType(type) == n->i64;
    LLVMPositionBuilderAtEnd(n->builder, entry);
    LLVMSetCurrentDebugLocation2(n->builder, NULL);
    LLVMBuildCondBr(n->builder, LLVMBuildIsNull(n->builder, to, ""), none, call);
    LLVMPositionBuilderAtEnd(n->builder, call);
    LLVMGetParams(f, arg);
    LLVMValueRef made = LLVMBuildCall2(n->builder, type, to, arg, LLVMCountParams(f), "");
    result ? LLVMBuildRet(n->builder, made) : LLVMBuildRetVoid(n->builder);
    LLVMPositionBuilderAtEnd(n->builder, none);
    result ? LLVMBuildRet(n->builder, LLVMConstInt(n->i64, 0, 0)) : LLVMBuildRetVoid(n->builder);
    return f;
}

/* Returns struct mt_host_name as a constant. */
static LLVMValueRef names_constant(struct names *n, const struct mt_host_holder *h)
{
    const char *rest = h->name + h->root;
    char after_root[sizeof h->name + 2];
    int arrow = mt_starts(rest, "->"), bare = !h->root;
    unsigned record = h->shape != 'r' ? MT_NAME_POINTER : h->pointed ? MT_NAME_POINTED : MT_NAME_RECORD;
    strcpy(after_root, arrow || bare ? "." : "");
    strcat(after_root, rest + (arrow ? 2 : 0));
    uint64_t bytes = !h->bytes || h->shape == 'p' ? 8 : h->bytes < MOST_BYTES ? h->bytes : MOST_BYTES;
    LLVMValueRef field[] = {mt_private_text(n->module, h->name, ""),
                            mt_private_text(n->module, after_root, ""), LLVMConstInt(n->i32, bytes, 0),
                            LLVMConstInt(n->i32, record, 0)};
    _Static_assert(sizeof(struct mt_host_name) == 2 * sizeof(char *) + 2 * sizeof(uint32_t),
                   "as written here");
    return mt_private_constant(n->module, LLVMConstStructInContext(n->context, field, 4, 0), "");
}

struct asked { /* a query after a call */
    struct mt_host_holder holder;
    LLVMValueRef slot, value; /* one of the two is set */
    LLVMValueRef pointer;     /* or NULL; otherwise the slot counts only if this leads to it */
};

static LLVMValueRef names_behind(LLVMValueRef call)
{
    if (LLVMIsAInvokeInst(call))
        return mt_shim_behind_invoke(call);
    LLVMValueRef next =
        LLVMGetTailCallKind(call) == LLVMTailCallKindMustTail ? NULL : LLVMGetNextInstruction(call);
    return next && !LLVMIsAUnreachableInst(next) ? next : NULL;
}

static void names_ask(struct names *n, LLVMValueRef call, const struct asked *list, unsigned count)
{
    if (!n->before) {
        n->before =
            names_helper(n, "__mt_host_allocations", "__mt_host_allocations_if_linked", n->before_type);
        n->after = names_helper(n, "__mt_host_named", "__mt_host_named_if_linked", n->after_type);
    }
    LLVMValueRef behind = names_behind(call);
    if (!behind)
        return;
    LLVMMetadataRef place = LLVMInstructionGetDebugLoc(call);
    LLVMPositionBuilderBefore(n->builder, call);
    LLVMSetCurrentDebugLocation2(n->builder, place);
    LLVMValueRef before = LLVMBuildCall2(n->builder, n->before_type, n->before, NULL, 0, "");
    LLVMPositionBuilderBefore(n->builder, behind);
    LLVMSetCurrentDebugLocation2(n->builder, place);
    for (unsigned i = 0; i < count; i++) {
        const struct asked *a = &list[i];
        LLVMValueRef index = a->holder.index, value = a->value, zero = LLVMConstInt(n->i64, 0, 0);
        if (value && LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMPointerTypeKind)
            value = LLVMBuildPtrToInt(n->builder, value, n->i64, "");
        index = index ? LLVMBuildIntCast2(n->builder, index, n->i64, 1, "") : LLVMConstAllOnes(n->i64);
        LLVMValueRef slot = a->slot ? a->slot : LLVMConstNull(n->ptr);
        if (a->pointer)
            slot = LLVMBuildSelect(n->builder, LLVMBuildICmp(n->builder, LLVMIntEQ, a->pointer, slot, ""),
                                   slot, LLVMConstNull(n->ptr), "");
        LLVMValueRef arg[] = {names_constant(n, &a->holder), before, slot, value ? value : zero, index};
        LLVMBuildCall2(n->builder, n->after_type, n->after, arg, 5, "");
    }
    LLVMSetCurrentDebugLocation2(n->builder, NULL);
}

/* ---- candidate variables ---- */

static int names_is_address(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMPointerTypeKind ||
           (LLVMGetTypeKind(type) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(type) == 64);
}

/* Recognises a constructor by its mangled name: C1 or C2 after a class's name or arguments. (A class named
 * C1 has its length before the name.) */
static int names_is_constructor(const char *name)
{
    for (const char *p = mt_starts(name, "_ZN") ? name + 3 : ""; (p = strchr(p, 'C')); p++)
        if ((p[1] == '1' || p[1] == '2') && (p[2] == 'E' || p[2] == 'I') && !(p[-1] >= '0' && p[-1] <= '9'))
            return 1;
    return 0;
}

/* Finds the object that a constructor makes of the value: unique_ptr p(make(n)). Returns 1 with
 * out->holder set, as if it held the pointer itself. */
static int names_of_owner(const struct mt_host_variables *v, LLVMValueRef value, struct asked *out)
{
    for (LLVMUseRef u = LLVMGetFirstUse(value); u; u = LLVMGetNextUse(u)) {
        LLVMValueRef call = LLVMGetUser(u);
        const char *name = LLVMIsACallInst(call) || LLVMIsAInvokeInst(call) ? mt_name(mt_callee(call)) : "";
        if (!names_is_constructor(name) || LLVMGetNumArgOperands(call) < 2 ||
            LLVMGetOperand(call, 1) != value || !mt_host_holder_of(v, LLVMGetOperand(call, 0), &out->holder))
            continue;
        out->holder.shape = 'p';
        return 1;
    }
    return 0;
}

/* Handles a returned pointer; records are returned through memory, or have no name. */
static unsigned names_of_result(const struct mt_host_variables *v, LLVMValueRef call, struct asked *out)
{
    LLVMValueRef slot = names_is_address(LLVMTypeOf(call)) ? mt_host_stored(call, 0) : NULL;
    if (slot ? !mt_host_holder_of(v, slot, &out->holder) : !names_of_owner(v, call, out))
        return 0;
    out->holder.index = NULL; /* it may be computed after the call */
    out->slot = out->pointer = NULL;
    out->value = call;
    return 1;
}

/* Names the variable "*p" to which a known pointer variable p may lead; its name comes after p's. */
static unsigned names_of_pointed(const struct mt_host_variables *v, struct mt_host_pointed *p,
                                 LLVMValueRef call, struct asked *out, unsigned room)
{
    LLVMValueRef pointer = out[-1].slot;
    unsigned count = 0;
    if (*out[-1].holder.name != '*')
        return 0;
    if (!p->known)
        mt_host_pointed_read(p, v, LLVMGetBasicBlockParent(LLVMGetInstructionParent(call)));
    for (unsigned i = 0; i < p->n && count < room; i++) {
        out[count] = (struct asked){.slot = p->list[i], .pointer = pointer};
        count += (unsigned)mt_host_holder_of(v, p->list[i], &out[count].holder);
    }
    return count;
}

static void names_in_call(struct names *n, const struct mt_host_variables *v, struct mt_host_pointed *p,
                          LLVMValueRef call)
{
    enum { MOST = MT_HOST_POINTED + 8 };
    struct asked list[MOST];
    unsigned count = 0;
    for (unsigned i = 0; i < LLVMGetNumArgOperands(call) && count < MOST - 1; i++) {
        struct asked *a = &list[count];
        *a = (struct asked){.slot = LLVMGetOperand(call, i)};
        if (LLVMGetTypeKind(LLVMTypeOf(a->slot)) == LLVMPointerTypeKind &&
            !LLVMIsAConstantPointerNull(a->slot) && mt_host_holder_of(v, a->slot, &a->holder)) {
            count++;
            count += names_of_pointed(v, p, call, a + 1, MOST - 1 - count);
        }
    }
    count += names_of_result(v, call, &list[count]);
    if (count && names_may_allocate(n, call, 0))
        names_ask(n, call, list, count);
}

static int names_in_function(struct names *n, LLVMValueRef f)
{
    struct mt_host_variables v;
    struct mt_host_pointed p = {.n = 0};
    int any = mt_host_variables_read(&v, n->layout, f);
    for (unsigned i = 0; v.inst && v.list && i < v.ninst; i++)
        if (LLVMIsACallInst(v.inst[i]) || LLVMIsAInvokeInst(v.inst[i]))
            names_in_call(n, &v, &p, v.inst[i]);
    mt_host_variables_drop(&v);
    return any;
}

/* Removes the annotations' texts, which are now unused. */
static void names_drop_texts(LLVMModuleRef module)
{
    for (LLVMValueRef g = LLVMGetFirstGlobal(module), next; g; g = next) {
        next = LLVMGetNextGlobal(g);
        const char *section = LLVMGetSection(g);
        if (section && !strcmp(section, "llvm.metadata") && LLVMGetLinkage(g) == LLVMPrivateLinkage &&
            !LLVMGetFirstUse(g))
            LLVMDeleteGlobal(g);
    }
}

int mt_host_names(LLVMModuleRef module)
{
    struct names n = {.module = module, .context = LLVMGetModuleContext(module)};
    LLVMTypeRef none = LLVMVoidTypeInContext(n.context);
    int changed = 0;
    n.builder = LLVMCreateBuilderInContext(n.context);
    n.layout = LLVMCreateTargetData(LLVMGetDataLayoutStr(module));
    n.ptr = LLVMPointerTypeInContext(n.context, 0);
    n.i32 = LLVMInt32TypeInContext(n.context);
    n.i64 = LLVMInt64TypeInContext(n.context);
    n.before_type = LLVMFunctionType(n.i64, NULL, 0, 0);
    n.after_type = LLVMFunctionType(none, (LLVMTypeRef[]){n.ptr, n.i64, n.ptr, n.i64, n.i64}, 5, 0);
    if (names_list_functions(&n) == 0) {
        for (size_t i = 0; i < n.nreach; i++)
            if (!LLVMIsDeclaration(n.reach[i].function))
                changed |= names_in_function(&n, n.reach[i].function);
    }
    if (changed)
        names_drop_texts(module);
    free(n.reach);
    LLVMDisposeTargetData(n.layout);
    LLVMDisposeBuilder(n.builder);
    return changed || n.before;
}
