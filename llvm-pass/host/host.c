/* Host side: reports the source location before each CUDA call (docs/design/pass.md). */
#include "host.h"
#include "format/site.h"
#include "unit/unit.h"
#include "unit/pass.h"

#include <ctype.h>
#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/Target.h>
#include "base/regex.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of variables. Optimised code has only values; names survive if clang keeps them
 * (-fno-discard-value-names, set by mt-cc --host). So, before optimisation, values and addresses of
 * members are named after their variables, with a mark. */

#define MARK "mtv."
#define MEMBER "mtm."
enum { MAX_DEPTH = 32, MEMBERS = 256 };

/* LLVM makes names unique by a number at the end, which must not become part of ours. */
static void name_marked(LLVMValueRef value, const char *mark, const char *name, size_t length)
{
    char *text;
    int n = asprintf(&text, "%s%.*s.", mark, (int)length, name);
    if (n < 0)
        return; /* no memory: no name */
    LLVMSetValueName2(value, text, (size_t)n);
    free(text);
}

static void name_after(LLVMValueRef value, const char *variable)
{
    name_marked(value, MARK, variable, strcspn(variable, "."));
}

static void name_member(LLVMValueRef gep)
{
    char *member = mt_shim_member(gep);
    if (member)
        name_marked(gep, MEMBER, member, strlen(member));
    free(member);
}

/* Returns 1 for clang's own slots, whose names no variable has. */
static int is_temporary(const char *name)
{
    static const char *const own[] = {"retval",           "ref.tmp",  "agg.tmp",         "tmp",
                                      "saved_stack",      "exn.slot", "ehselector.slot", "cleanup.dest.slot",
                                      "cleanup.isactive", "coerce",   "undef.agg.tmp"};
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++)
        if (mt_starts(name, own[i]) && strcmp(name, "tmp"))
            return 1;
    return !*name;
}

/* Keeps optimisation from turning a named realloc(NULL, n) into a malloc, a new value without the name. */
static void name_keeps_realloc(LLVMValueRef value)
{
    unsigned kind = LLVMGetEnumAttributeKindForName("nobuiltin", strlen("nobuiltin"));
    if (LLVMIsACallInst(value) && mt_callee(value) && !strcmp(mt_name(mt_callee(value)), "realloc"))
        LLVMAddCallSiteAttribute(
            value, LLVMAttributeFunctionIndex,
            LLVMCreateEnumAttribute(LLVMGetModuleContext(LLVMGetGlobalParent(mt_callee(value))), kind, 0));
}

static void name_function(LLVMValueRef f)
{
    unsigned n;
    LLVMValueRef *list = mt_instructions(f, &n);
    for (unsigned i = 0; list && i < n; i++)
        if (LLVMIsAAllocaInst(list[i]) && !is_temporary(mt_name(list[i])))
            name_after(list[i], mt_name(list[i]));
    for (unsigned i = 0; list && i < n; i++) {
        LLVMValueRef store = LLVMIsAStoreInst(list[i]);
        LLVMValueRef slot = store ? LLVMIsAAllocaInst(LLVMGetOperand(store, 1)) : NULL;
        LLVMValueRef value = slot ? LLVMIsAInstruction(LLVMGetOperand(store, 0)) : NULL;
        if (value && mt_starts(mt_name(slot), MARK) && !mt_starts(mt_name(value), MARK) &&
            LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMPointerTypeKind) {
            name_after(value, mt_name(slot) + strlen(MARK));
            name_keeps_realloc(value);
        }
    }
    for (unsigned i = 0; list && i < n; i++)
        if (LLVMIsAGetElementPtrInst(list[i]) && !mt_starts(mt_name(list[i]), MARK))
            name_member(list[i]);
    free(list);
}

static void keep_functions(LLVMModuleRef module, const char *pattern)
{
    regex_t re;
    char why[200];
    unsigned kind = LLVMGetEnumAttributeKindForName("noinline", 8);
    unsigned always = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
    if (mt_regex(&re, pattern, why, sizeof why))
        return;
    LLVMAttributeRef noinline = LLVMCreateEnumAttribute(LLVMGetModuleContext(module), kind, 0);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        char *name = LLVMIsDeclaration(f) ? NULL : mt_shim_demangle(mt_name(f), 0);
        if (name && !regexec(&re, name, 0, NULL, 0)) {
            LLVMRemoveEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, always);
            LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, noinline);
        }
        free(name);
    }
    regfree(&re);
}

/* Before optimisation: names values after the variables that hold them, and keeps functions of
 * host-functions from being inlined. */
static void host_name_values(LLVMModuleRef module)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            name_function(f);
    if (mt_pass_options.host_functions)
        keep_functions(module, mt_pass_options.host_functions);
}

/* Returns "a" for "mtv.a.0.i"; NULL if it is not a variable's. */
static char *host_name_marked(LLVMValueRef v)
{
    const char *name = mt_name(v);
    if (!mt_starts(name, MARK))
        return NULL;
    name += strlen(MARK);
    size_t n = strcspn(name, ".");
    return n ? strndup(name, n) : NULL;
}

/* Returns the value's variable, if any. */
static char *host_name_root(LLVMValueRef p, char *members, size_t size)
{
    for (int depth = 0; depth < MAX_DEPTH; depth++) {
        char *name;
        if (LLVMIsAGlobalVariable(p))
            return mt_starts(mt_name(p), ".str") ? strdup("") : mt_shim_demangle(mt_name(p), 0);
        if (LLVMIsAArgument(p))
            return strndup(mt_name(p), strcspn(mt_name(p), "."));
        if ((name = host_name_marked(p)) != NULL)
            return name;
        if (mt_starts(mt_name(p), MEMBER)) { /* the outer one comes later */
            const char *member = mt_name(p) + strlen(MEMBER);
            size_t n = strcspn(member, "."), have = strlen(members);
            if (have + n + 2 <= size) {
                memmove(members + n + 1, members, have + 1);
                members[0] = '.';
                memcpy(members + 1, member, n);
            }
        }
        LLVMOpcode op = LLVMIsAInstruction(p)    ? LLVMGetInstructionOpcode(p)
                        : LLVMIsAConstantExpr(p) ? LLVMGetConstOpcode(p)
                                                 : (LLVMOpcode)0;
        if (op == LLVMGetElementPtr || op == LLVMBitCast || op == LLVMAddrSpaceCast || op == LLVMFreeze ||
            op == LLVMLoad)
            p = LLVMGetOperand(p, 0);
        else if (op == LLVMPHI)
            p = LLVMGetIncomingValue(p, 0);
        else if (op == LLVMSelect)
            p = LLVMGetOperand(p, 1);
        else if (op == LLVMCall && mt_starts(mt_name(mt_callee(p)), "llvm.threadlocal.address"))
            p = LLVMGetOperand(p, 0);
        else
            break;
    }
    return strdup("");
}

char *mt_host_variable(LLVMValueRef p)
{
    char members[MEMBERS] = "", *root = host_name_root(p, members, sizeof members), *all;
    if (!root || !*root || !*members)
        return root;
    if (asprintf(&all, "%s%s", root, members) < 0)
        return root;
    free(root);
    return all;
}

/* Host side, before optimisation: calls that may allocate device memory tell the runtime the candidate
 * variables of their caller (docs/design/pass.md). After the call it checks whether one of them has the
 * address of a new allocation. So any wrapper works, and the outermost name counts. */

enum { HOST_NAMES_MOST_DEPTH = 300, MOST_BYTES = 4096 };

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
    if (!r || depth > HOST_NAMES_MOST_DEPTH)
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

static int host_is_cuda_call(const char *name);

static int names_may_allocate(struct names *n, LLVMValueRef call, unsigned depth)
{
    LLVMValueRef callee = mt_callee(call);
    const char *name = callee ? mt_name(callee) : "";
    if (!callee)
        return !LLVMIsAInlineAsm(LLVMGetCalledValue(call));
    if (host_is_cuda_call(name))
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

static int host_holder_of(const struct mt_host_variables *v, LLVMValueRef pointer, struct mt_host_holder *h);

/* Finds the object that a constructor makes of the value: unique_ptr p(make(n)). Returns 1 with
 * out->holder set, as if it held the pointer itself. */
static int names_of_owner(const struct mt_host_variables *v, LLVMValueRef value, struct asked *out)
{
    for (LLVMUseRef u = LLVMGetFirstUse(value); u; u = LLVMGetNextUse(u)) {
        LLVMValueRef call = LLVMGetUser(u);
        const char *name = LLVMIsACallInst(call) || LLVMIsAInvokeInst(call) ? mt_name(mt_callee(call)) : "";
        if (!names_is_constructor(name) || LLVMGetNumArgOperands(call) < 2 ||
            LLVMGetOperand(call, 1) != value || !host_holder_of(v, LLVMGetOperand(call, 0), &out->holder))
            continue;
        out->holder.shape = 'p';
        return 1;
    }
    return 0;
}

static LLVMValueRef host_stored(LLVMValueRef value, unsigned depth);

/* Handles a returned pointer; records are returned through memory, or have no name. */
static unsigned names_of_result(const struct mt_host_variables *v, LLVMValueRef call, struct asked *out)
{
    LLVMValueRef slot = names_is_address(LLVMTypeOf(call)) ? host_stored(call, 0) : NULL;
    if (slot ? !host_holder_of(v, slot, &out->holder) : !names_of_owner(v, call, out))
        return 0;
    out->holder.index = NULL; /* it may be computed after the call */
    out->slot = out->pointer = NULL;
    out->value = call;
    return 1;
}

static void host_pointed_read(struct mt_host_pointed *p, const struct mt_host_variables *v,
                              LLVMValueRef function);

/* Names the variable "*p" to which a known pointer variable p may lead; its name comes after p's. */
static unsigned names_of_pointed(const struct mt_host_variables *v, struct mt_host_pointed *p,
                                 LLVMValueRef call, struct asked *out, unsigned room)
{
    LLVMValueRef pointer = out[-1].slot;
    unsigned count = 0;
    if (*out[-1].holder.name != '*')
        return 0;
    if (!p->known)
        host_pointed_read(p, v, LLVMGetBasicBlockParent(LLVMGetInstructionParent(call)));
    for (unsigned i = 0; i < p->n && count < room; i++) {
        out[count] = (struct asked){.slot = p->list[i], .pointer = pointer};
        count += (unsigned)host_holder_of(v, p->list[i], &out[count].holder);
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
            !LLVMIsAConstantPointerNull(a->slot) && host_holder_of(v, a->slot, &a->holder)) {
            count++;
            count += names_of_pointed(v, p, call, a + 1, MOST - 1 - count);
        }
    }
    count += names_of_result(v, call, &list[count]);
    if (count && names_may_allocate(n, call, 0))
        names_ask(n, call, list, count);
}

static int host_variables_read(struct mt_host_variables *v, LLVMTargetDataRef layout, LLVMValueRef function);
static void host_variables_drop(struct mt_host_variables *v);

static int names_in_function(struct names *n, LLVMValueRef f)
{
    struct mt_host_variables v;
    struct mt_host_pointed p = {.n = 0};
    int any = host_variables_read(&v, n->layout, f);
    for (unsigned i = 0; v.inst && v.list && i < v.ninst; i++)
        if (LLVMIsACallInst(v.inst[i]) || LLVMIsAInvokeInst(v.inst[i]))
            names_in_call(n, &v, &p, v.inst[i]);
    host_variables_drop(&v);
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

/* Makes calls that may allocate name the variables that get the memory, and removes the AST side's
 * annotations. Returns 1 if anything changed. */
static int host_names(LLVMModuleRef module)
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

/* Variables to which a pointer of unoptimised host code may lead: for (float **v : {&x, &y}) cudaMalloc(v,
 * n). Candidates are those whose address the function stores; at run time the actual target counts. */

enum { HOST_POINTED_MOST_DEPTH = 4, MOST_ELEMENTS = 64 };

static int pointed_is_pointer(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMPointerTypeKind;
}

/* Returns 1 for a variable that exists in the whole function and holds a pointer. */
static int pointed_fits(LLVMValueRef variable, LLVMValueRef function)
{
    if (LLVMIsAAllocaInst(variable))
        return pointed_is_pointer(LLVMGetAllocatedType(variable)) &&
               LLVMGetInstructionParent(variable) == LLVMGetEntryBasicBlock(function);
    return LLVMIsAGlobalVariable(variable) && !LLVMIsGlobalConstant(variable) &&
           pointed_is_pointer(LLVMGlobalGetValueType(variable));
}

static void pointed_add(struct mt_host_pointed *p, LLVMValueRef function, LLVMValueRef variable)
{
    for (unsigned i = 0; i < p->n; i++)
        if (p->list[i] == variable)
            return;
    if (p->n < MT_HOST_POINTED && pointed_fits(variable, function))
        p->list[p->n++] = variable;
}

/* Adds the elements of a table. */
static void pointed_in_constant(struct mt_host_pointed *p, LLVMValueRef function, LLVMValueRef c,
                                unsigned depth)
{
    LLVMValueRef table = LLVMIsAGlobalVariable(c) ? LLVMGetInitializer(c) : c;
    if (!table || depth > HOST_POINTED_MOST_DEPTH || !LLVMIsAConstant(table))
        return;
    if (LLVMIsAConstantExpr(table) || LLVMIsAConstantArray(table) || LLVMIsAConstantStruct(table))
        for (int i = 0; i < LLVMGetNumOperands(table) && i < MOST_ELEMENTS; i++) {
            LLVMValueRef part = LLVMGetOperand(table, (unsigned)i);
            if (LLVMIsAGlobalVariable(part) && !LLVMIsAConstantExpr(table))
                pointed_add(p, function, part);
            else
                pointed_in_constant(p, function, part, depth + 1);
        }
}

static void host_pointed_read(struct mt_host_pointed *p, const struct mt_host_variables *v,
                              LLVMValueRef function)
{
    p->known = 1;
    for (unsigned i = 0; i < v->ninst; i++) {
        if (LLVMIsAStoreInst(v->inst[i]))
            pointed_add(p, function, LLVMGetOperand(v->inst[i], 0));
        for (int k = 0; k < LLVMGetNumOperands(v->inst[i]); k++)
            pointed_in_constant(p, function, LLVMGetOperand(v->inst[i], (unsigned)k), 0);
    }
}

/* Host side: a program linked to NVIDIA's runtime by mistake reports so at its start, in one line, and
 * continues. A constructor after the registration of the file's device code asks memtrace's runtime
 * whether it knows the handle. */

static const char words[] = "memtrace: this program's kernels are registered with another CUDA runtime than "
                            "memtrace's, and nothing of them is traced: "
                            "link with mt-cc, or with the cuda-overlay's lib64 in front of NVIDIA's\n";

struct foreign {
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMBuilderRef b;
    LLVMTypeRef ptr, i8, i32, i64, none;
};

/* Makes void __mt_foreign_runtime(void), which reports it the first time. */
static LLVMValueRef foreign_add_teller(struct foreign *f)
{
    LLVMTypeRef type = LLVMFunctionType(f->none, NULL, 0, 0), write_args[] = {f->i32, f->ptr, f->i64};
    LLVMTypeRef write_type = LLVMFunctionType(f->i64, write_args, 3, 0);
    LLVMValueRef teller = LLVMAddFunction(f->module, "__mt_foreign_runtime", type);
    LLVMSetLinkage(teller, LLVMLinkOnceODRLinkage);
    LLVMSetVisibility(teller, LLVMHiddenVisibility);
    LLVMValueRef said = LLVMAddGlobal(f->module, f->i8, "__mt_foreign_runtime_said");
    LLVMSetInitializer(said, LLVMConstNull(f->i8));
    LLVMSetLinkage(said, LLVMLinkOnceODRLinkage);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(f->context, teller, "");
    LLVMBasicBlockRef say = LLVMAppendBasicBlockInContext(f->context, teller, "");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(f->context, teller, "");
    LLVMPositionBuilderAtEnd(f->b, entry);
    LLVMValueRef before = LLVMBuildLoad2(f->b, f->i8, said, "");
    LLVMBuildStore(f->b, LLVMConstInt(f->i8, 1, 0), said);
    LLVMBuildCondBr(f->b, LLVMBuildIsNull(f->b, before, ""), say, done);
    LLVMPositionBuilderAtEnd(f->b, say);
    LLVMValueRef args[] = {LLVMConstInt(f->i32, 2, 0), LLVMBuildGlobalStringPtr(f->b, words, ""),
                           LLVMConstInt(f->i64, sizeof words - 1, 0)};
    LLVMBuildCall2(f->b, write_type, mt_declare(f->module, "write", write_type), args, 3, "");
    LLVMBuildBr(f->b, done);
    LLVMPositionBuilderAtEnd(f->b, done);
    LLVMBuildRetVoid(f->b);
    return teller;
}

/* Returns the result of the registration; with relocatable device code another file has it. */
static LLVMValueRef foreign_handle(struct foreign *f)
{
    LLVMValueRef handle = LLVMGetNamedGlobal(f->module, "__cuda_gpubin_handle");
    return handle ? LLVMBuildLoad2(f->b, f->ptr, handle, "") : LLVMConstNull(f->ptr);
}

/* Adds a constructor that reports device code registered with another runtime. */
static LLVMValueRef host_add_check(LLVMModuleRef module)
{
    LLVMContextRef c = LLVMGetModuleContext(module);
    struct foreign f = {module,
                        c,
                        LLVMCreateBuilderInContext(c),
                        LLVMPointerTypeInContext(c, 0),
                        LLVMInt8TypeInContext(c),
                        LLVMInt32TypeInContext(c),
                        LLVMInt64TypeInContext(c),
                        LLVMVoidTypeInContext(c)};
    LLVMTypeRef type = LLVMFunctionType(f.none, NULL, 0, 0), ask_type = LLVMFunctionType(f.i32, &f.ptr, 1, 0);
    LLVMValueRef teller = foreign_add_teller(&f), ask = mt_declare(module, "__mt_is_registered", ask_type);
    LLVMSetLinkage(ask, LLVMExternalWeakLinkage);
    LLVMValueRef check = LLVMAddFunction(module, "__mt_check_runtime_ctor", type);
    LLVMSetLinkage(check, LLVMInternalLinkage);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(c, check, "");
    LLVMBasicBlockRef there = LLVMAppendBasicBlockInContext(c, check, "");
    LLVMBasicBlockRef foreign = LLVMAppendBasicBlockInContext(c, check, "");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(c, check, "");
    LLVMPositionBuilderAtEnd(f.b, entry);
    LLVMBuildCondBr(f.b, LLVMBuildIsNull(f.b, ask, ""), foreign, there);
    LLVMPositionBuilderAtEnd(f.b, there);
    LLVMValueRef handle = foreign_handle(&f);
    LLVMValueRef known = LLVMBuildCall2(f.b, ask_type, ask, &handle, 1, "");
    LLVMBuildCondBr(f.b, LLVMBuildIsNull(f.b, known, ""), foreign, done);
    LLVMPositionBuilderAtEnd(f.b, foreign);
    LLVMBuildCall2(f.b, type, teller, NULL, 0, "");
    LLVMBuildBr(f.b, done);
    LLVMPositionBuilderAtEnd(f.b, done);
    LLVMBuildRetVoid(f.b);
    LLVMDisposeBuilder(f.b);
    return check;
}

/* Host side: registration of a file's device code. It comes before the program's own constructors, so that
 * these may launch kernels, even of other files. A file with relocatable device code (-fgpu-rdc) calls
 * __cudaRegisterLinkedBinary__nv_ID, made by the device linker. It gets a weak definition here, so that
 * programs also link without that step; the device linker's is strong and wins. A reference to
 * __mt_device_linker, defined by mt-cc's device link or by libmemtrace.so, pulls the device linker's
 * object from an archive. */

#define FIRST 101 /* first of the program's priorities: lower ones belong to the implementation */

/* Calls `to` (of type `type`) with the arguments of `f`, if the runtime is linked in. */
static void call_if_linked(LLVMModuleRef module, LLVMValueRef f, const char *to, LLVMTypeRef type)
{
    LLVMContextRef context = LLVMGetModuleContext(module);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(context);
    LLVMValueRef target = mt_declare(module, to, type), args[8];
    LLVMSetLinkage(target, LLVMExternalWeakLinkage);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(context, f, "");
    LLVMBasicBlockRef call = LLVMAppendBasicBlockInContext(context, f, "");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(context, f, "");
    LLVMPositionBuilderAtEnd(b, entry);
    LLVMBuildCondBr(b, LLVMBuildIsNull(b, target, ""), done, call);
    LLVMPositionBuilderAtEnd(b, call);
    unsigned n = LLVMCountParams(f);
    for (unsigned i = 0; i < n && i < 8; i++)
        args[i] = LLVMGetParam(f, i);
    LLVMBuildCall2(b, type, target, args, n, "");
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
    LLVMBuildRetVoid(b);
    LLVMDisposeBuilder(b);
}

static void define_weakly(LLVMModuleRef module, LLVMValueRef f)
{
    LLVMSetLinkage(f, LLVMWeakAnyLinkage);
    LLVMSetVisibility(f, LLVMHiddenVisibility);
    call_if_linked(module, f, "__mt_register_linked_binary", LLVMGlobalGetValueType(f));
}

/* Refers to it from the constructor's own code, so that it counts as used. */
static void refer_to_linker(LLVMModuleRef module, LLVMValueRef done)
{
    LLVMContextRef context = LLVMGetModuleContext(module);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(context);
    LLVMTypeRef byte = LLVMInt8TypeInContext(context);
    LLVMValueRef linker = LLVMAddGlobal(module, byte, "__mt_device_linker");
    LLVMPositionBuilderBefore(b, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(done)));
    LLVMValueRef load = LLVMBuildLoad2(b, byte, linker, "");
    LLVMSetVolatile(load, 1);
    LLVMDisposeBuilder(b);
}

/* Adds a constructor that runs once all files of the program or library are registered. */
static LLVMValueRef add_done(LLVMModuleRef module)
{
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(LLVMGetModuleContext(module)), NULL, 0, 0);
    LLVMValueRef f = LLVMAddFunction(module, "__mt_linked_binaries_ctor", type);
    LLVMSetLinkage(f, LLVMInternalLinkage);
    call_if_linked(module, f, "__mt_linked_binaries_done", type);
    refer_to_linker(module, f);
    return f;
}

static LLVMValueRef with_priority(LLVMValueRef entry, LLVMValueRef function, unsigned priority)
{
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(function));
    LLVMValueRef field[] = {LLVMConstInt(LLVMInt32TypeInContext(context), priority, 0), function,
                            LLVMGetOperand(entry, 2)};
    return LLVMConstStructInContext(context, field, 3, 0);
}

/* Rewrites the list of constructors: CUDA's first, then `done` (or NULL) and the check of the runtime. */
static int move_constructors(LLVMModuleRef module, LLVMValueRef done)
{
    LLVMValueRef old = LLVMGetNamedGlobal(module, "llvm.global_ctors");
    LLVMValueRef list = old ? LLVMGetInitializer(old) : NULL, ours = NULL;
    int n = list && LLVMIsAConstantArray(list) ? LLVMGetNumOperands(list) : 0, out = 0;
    LLVMValueRef *entries = malloc(((size_t)n + 2) * sizeof *entries);
    for (int i = 0; entries && i < n; i++) {
        LLVMValueRef entry = LLVMGetOperand(list, (unsigned)i), f = LLVMGetOperand(entry, 1);
        if (!strcmp(mt_name(f), "__cuda_module_ctor"))
            entry = ours = with_priority(entry, f, FIRST);
        entries[out++] = entry;
    }
    if (ours) {
        if (done)
            entries[out++] = with_priority(ours, done, FIRST + 1);
        entries[out++] = with_priority(ours, host_add_check(module), FIRST + 2);
        LLVMValueRef value = LLVMConstArray2(LLVMTypeOf(entries[0]), entries, (uint64_t)out);
        LLVMValueRef new = LLVMAddGlobal(module, LLVMTypeOf(value), "");
        LLVMSetInitializer(new, value);
        LLVMSetLinkage(new, LLVMAppendingLinkage);
        LLVMDeleteGlobal(old);
        LLVMSetValueName2(new, "llvm.global_ctors", strlen("llvm.global_ctors"));
    }
    free(entries);
    return ours != NULL;
}

/* Makes the fatbins' names local: they depend on the file only, and a program and a library may both
 * contain it, compiled in two ways. */
static void hide_fatbins(LLVMModuleRef module)
{
    for (LLVMValueRef a = LLVMGetFirstGlobalAlias(module); a; a = LLVMGetNextGlobalAlias(a))
        if (mt_starts(mt_name(a), "__fatbinwrap__nv_"))
            LLVMSetVisibility(a, LLVMHiddenVisibility);
}

/* Registers a __managed__ variable with our runtime's own function: NVIDIA's runtime would take it for one
 * of the device alone. */
static void register_managed(LLVMModuleRef module, LLVMValueRef call)
{
    LLVMContextRef context = LLVMGetModuleContext(module);
    LLVMTypeRef ptr = LLVMPointerTypeInContext(context, 0), word = LLVMInt64TypeInContext(context);
    LLVMTypeRef type =
        LLVMFunctionType(LLVMVoidTypeInContext(context), (LLVMTypeRef[]){ptr, ptr, ptr, word}, 4, 0);
    LLVMValueRef args[] = {LLVMGetOperand(call, 0), LLVMGetOperand(call, 1), LLVMGetOperand(call, 3),
                           LLVMGetOperand(call, 5)};
    LLVMBuilderRef b = LLVMCreateBuilderInContext(context);
    LLVMPositionBuilderBefore(b, call);
    LLVMBuildCall2(b, type, mt_declare(module, "__mt_register_managed", type), args, 4, "");
    LLVMInstructionEraseFromParent(call);
    LLVMDisposeBuilder(b);
}

static void find_managed(LLVMModuleRef module)
{
    LLVMValueRef f = LLVMGetNamedFunction(module, "__cudaRegisterVar");
    for (LLVMUseRef use = f ? LLVMGetFirstUse(f) : NULL, next; use; use = next) {
        LLVMValueRef call = LLVMGetUser(use);
        next = LLVMGetNextUse(use);
        LLVMValueRef variable = LLVMIsACallInst(call) ? LLVMIsAGlobalVariable(LLVMGetOperand(call, 1)) : NULL;
        const char *section = variable ? LLVMGetSection(variable) : NULL;
        if (section && !strcmp(section, MT_MANAGED_SECTION))
            register_managed(module, call);
    }
    for (LLVMValueRef g = LLVMGetFirstGlobal(module); g; g = LLVMGetNextGlobal(g)) {
        const char *section = LLVMGetSection(g);
        if (section && !strcmp(section, MT_MANAGED_SECTION))
            LLVMSetSection(g, "");
    }
}

static int host_registration(LLVMModuleRef module)
{
    find_managed(module);
    LLVMValueRef done = NULL;
    hide_fatbins(module);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        if (LLVMIsDeclaration(f) && mt_starts(mt_name(f), "__cudaRegisterLinkedBinary__nv_")) {
            define_weakly(module, f);
            done = done ? done : add_done(module);
        }
    return move_constructors(module, done);
}

/* Finds the source variable to which a pointer of unoptimised host code leads. The AST side has annotated
 * local variables and members with their names (clang-plugin/names.cpp). */

#define VARIABLE MT_ANNOTATION "variable\t"
enum { MOST_STEPS = 24 };

/* Returns the text if this call is an annotation of ours, else NULL. */
static const char *holder_annotation(LLVMValueRef call, size_t *length)
{
    const char *name = LLVMIsACallInst(call) ? mt_name(mt_callee(call)) : "", *text;
    if ((!mt_starts(name, "llvm.var.annotation") && !mt_starts(name, "llvm.ptr.annotation")) ||
        !mt_shim_constant_string(LLVMGetOperand(call, 1), &text, length) || *length < strlen(VARIABLE) ||
        strncmp(text, VARIABLE, strlen(VARIABLE)))
        return NULL;
    *length -= strlen(VARIABLE);
    return text + strlen(VARIABLE);
}

/* ---- a function's annotated variables ---- */

static int by_value(const void *a, const void *b)
{
    const struct mt_host_variable *x = a, *y = b;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* Reads our annotations. Returns 1 if there are any. `v` must be dropped in any case, which removes them. */
static int host_variables_read(struct mt_host_variables *v, LLVMTargetDataRef layout, LLVMValueRef function)
{
    *v = (struct mt_host_variables){.layout = layout};
    v->inst = mt_instructions(function, &v->ninst);
    v->list = malloc((v->ninst + 1) * sizeof *v->list);
    for (unsigned i = 0; v->inst && v->list && i < v->ninst; i++) {
        size_t length;
        const char *text = holder_annotation(v->inst[i], &length);
        if (!text)
            continue;
        v->annotations++;
        if (mt_starts(mt_name(mt_callee(v->inst[i])), "llvm.var"))
            v->list[v->n++] = (struct mt_host_variable){LLVMGetOperand(v->inst[i], 0), text, length};
    }
    if (v->n)
        qsort(v->list, v->n, sizeof *v->list, by_value);
    return v->annotations != 0;
}

static void host_variables_drop(struct mt_host_variables *v)
{
    size_t length;
    for (unsigned i = 0; v->annotations && i < v->ninst; i++) {
        if (!holder_annotation(v->inst[i], &length))
            continue;
        if (LLVMGetTypeKind(LLVMTypeOf(v->inst[i])) == LLVMPointerTypeKind)
            LLVMReplaceAllUsesWith(v->inst[i], LLVMGetOperand(v->inst[i], 0));
        LLVMInstructionEraseFromParent(v->inst[i]);
    }
    free(v->inst);
    free(v->list);
}

/* ---- from a pointer to its variable ---- */

static LLVMOpcode holder_opcode(LLVMValueRef p)
{
    return LLVMIsAInstruction(p)    ? LLVMGetInstructionOpcode(p)
           : LLVMIsAConstantExpr(p) ? LLVMGetConstOpcode(p)
                                    : (LLVMOpcode)0;
}

static void holder_add(struct mt_host_holder *h, const char *text, size_t length)
{
    if (h->length + length >= sizeof h->name) { /* too long to be readable */
        h->cut = 1;
        return;
    }
    memcpy(h->name + h->length, text, length);
    h->name[h->length += length] = 0;
}

static void holder_be(const struct mt_host_variables *v, struct mt_host_holder *h, LLVMTypeRef type)
{
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    h->shape = kind == LLVMStructTypeKind || kind == LLVMArrayTypeKind ? 'r' : 'p';
    h->inner = '?';
    h->bytes = LLVMTypeIsSized(type) ? LLVMABISizeOfType(v->layout, type) : 0;
}

/* Adds an annotation's name, and takes its shapes and size. */
static void holder_take(struct mt_host_holder *h, const char *text, size_t length)
{
    const char *end = text + length, *tab = memchr(text, '\t', length);
    holder_add(h, text, tab ? (size_t)(tab - text) : length);
    h->shape = tab && end - tab > 3 ? tab[1] : '?';
    h->inner = tab && end - tab > 3 ? tab[3] : '?';
    h->bytes = 0;
    for (const char *c = tab && end - tab > 5 ? tab + 5 : end; c < end && *c >= '0' && *c <= '9'; c++)
        h->bytes = h->bytes * 10 + (uint64_t)(*c - '0');
}

static int holder_find(const struct mt_host_variables *v, LLVMValueRef p, struct mt_host_holder *h,
                       unsigned step);

/* Returns 1 for the slot in which a member function keeps `this`: it has no annotation, and its only store
 * is the first parameter. */
static int holder_is_this(LLVMValueRef slot)
{
    LLVMValueRef f = LLVMGetBasicBlockParent(LLVMGetInstructionParent(slot)), stored = NULL;
    for (LLVMUseRef u = LLVMGetFirstUse(slot); u; u = LLVMGetNextUse(u)) {
        LLVMValueRef store = LLVMIsAStoreInst(LLVMGetUser(u));
        if (store && LLVMGetOperand(store, 1) == slot) {
            if (stored)
                return 0;
            stored = LLVMGetOperand(store, 0);
        }
    }
    for (unsigned i = 0; stored && i < 2 && i < LLVMCountParams(f); i++)
        if (LLVMGetParam(f, i) == stored)
            return mt_starts(mt_name(f), "_ZN");
    return 0;
}

/* Names a temporary object after the variable it is assigned to. */
static int holder_of_temporary(const struct mt_host_variables *v, LLVMValueRef slot, struct mt_host_holder *h,
                               unsigned step)
{
    for (LLVMUseRef u = LLVMGetFirstUse(slot); u; u = LLVMGetNextUse(u)) {
        LLVMValueRef call = LLVMGetUser(u);
        if ((LLVMIsACallInst(call) || LLVMIsAInvokeInst(call)) && strstr(mt_name(mt_callee(call)), "aSE") &&
            LLVMGetNumArgOperands(call) == 2 && LLVMGetOperand(call, 1) == slot)
            return holder_find(v, LLVMGetOperand(call, 0), h, step);
    }
    return 0;
}

/* Finds the object of a pointer in this slot. */
static int holder_of_slot(const struct mt_host_variables *v, LLVMValueRef slot, struct mt_host_holder *h,
                          unsigned step)
{
    if (!holder_find(v, slot, h, step)) {
        if (!LLVMIsAAllocaInst(slot) || !holder_is_this(slot))
            return 0;
        h->length = h->root = 0;
        h->pointed = 1;
        return 1;
    }
    h->pointed = h->shape != '&';
    h->shape = h->inner;
    h->inner = '?';
    return 1;
}

/* Returns the place where the value, or a cast of it, is stored first; NULL: nowhere. */
static LLVMValueRef host_stored(LLVMValueRef value, unsigned depth)
{
    for (LLVMUseRef u = LLVMGetFirstUse(value); u && depth < 4; u = LLVMGetNextUse(u)) {
        LLVMValueRef user = LLVMGetUser(u), found = NULL;
        if (LLVMIsAStoreInst(user))
            found = LLVMGetOperand(user, 0) == value ? LLVMGetOperand(user, 1) : NULL;
        else if (LLVMIsACastInst(user))
            found = host_stored(user, depth + 1);
        if (found)
            return found;
    }
    return NULL;
}

static int holder_in_member(const struct mt_host_variables *v, LLVMValueRef call, struct mt_host_holder *h,
                            unsigned step)
{
    size_t length;
    const char *text = holder_annotation(call, &length);
    LLVMValueRef base = LLVMGetOperand(call, 0), gep = holder_opcode(base) == LLVMGetElementPtr ? base : NULL;
    if (!text) /* an annotation of the program's own */
        return holder_find(v, base, h, step);
    if (gep && LLVMGetTypeKind(LLVMGetGEPSourceElementType(gep)) == LLVMStructTypeKind)
        base = LLVMGetOperand(gep, 0);
    if (holder_find(v, base, h, step))
        holder_add(h, h->pointed ? "->" : ".", !h->length ? 0 : h->pointed ? 2 : 1);
    else
        h->length = h->root = 0;
    h->pointed = 0;
    holder_take(h, text, length);
    return 1;
}

static void holder_index(struct mt_host_holder *h, LLVMValueRef index)
{
    char text[32];
    if (index && LLVMIsAConstantInt(index))
        snprintf(text, sizeof text, "[%lld]", LLVMConstIntGetSExtValue(index));
    else
        strcpy(text, "[]");
    h->index = index && !LLVMIsAConstantInt(index) ? index : h->index;
    h->pointed = 0;
    holder_add(h, text, strlen(text));
}

/* Returns the type behind a GEP; NULL: another instruction. */
static LLVMTypeRef holder_type(LLVMValueRef gep)
{
    LLVMTypeRef type = holder_opcode(gep) == LLVMGetElementPtr ? LLVMGetGEPSourceElementType(gep) : NULL;
    for (unsigned i = 2; type && i < (unsigned)LLVMGetNumOperands(gep); i++) {
        LLVMValueRef index = LLVMGetOperand(gep, i);
        type = LLVMGetTypeKind(type) == LLVMStructTypeKind
                   ? LLVMStructGetTypeAtIndex(type, (unsigned)LLVMConstIntGetZExtValue(index))
                   : LLVMGetElementType(type);
    }
    return type;
}

/* Handles an offset from an element, a[k] + i: it is another one of the array, so the [k] is removed. */
static LLVMValueRef holder_behind(struct mt_host_holder *h, LLVMValueRef gep)
{
    LLVMValueRef index = LLVMGetOperand(gep, 1);
    char *last = strrchr(h->name, '[');
    LLVMTypeRef type = LLVMTypeOf(index);
    if (holder_type(LLVMGetOperand(gep, 0)) != LLVMGetGEPSourceElementType(gep) || h->cut || !last ||
        h->name[h->length - 1] != ']')
        return index;
    long long k = last[1] == ']' ? 0 : atoll(last + 1);
    int known = LLVMIsAConstantInt(index) && last[1] != ']';
    LLVMValueRef sum = known      ? LLVMConstInt(type, (uint64_t)(LLVMConstIntGetSExtValue(index) + k), 1)
                       : k        ? NULL
                       : h->index ? NULL
                                  : index;
    h->length = (size_t)(last - h->name);
    *last = 0;
    h->index = NULL;
    return sum;
}

/* Handles p + i, an element of an array, or a nameless part of a record (a base class). */
static int holder_in_gep(const struct mt_host_variables *v, LLVMValueRef gep, struct mt_host_holder *h,
                         unsigned step)
{
    LLVMTypeRef type = LLVMGetGEPSourceElementType(gep);
    unsigned n = (unsigned)LLVMGetNumOperands(gep);
    LLVMValueRef first = LLVMGetOperand(gep, 1);
    if (!holder_find(v, LLVMGetOperand(gep, 0), h, step))
        return 0;
    if (n == 2 || !LLVMIsAConstantInt(first) || LLVMConstIntGetZExtValue(first))
        holder_index(h, n == 2 ? holder_behind(h, gep) : first);
    for (unsigned i = 2; i < n; i++) {
        LLVMValueRef index = LLVMGetOperand(gep, i);
        if (LLVMGetTypeKind(type) == LLVMStructTypeKind) {
            type = LLVMStructGetTypeAtIndex(type, (unsigned)LLVMConstIntGetZExtValue(index));
            h->pointed = 0;
        } else if (LLVMGetTypeKind(type) == LLVMArrayTypeKind) {
            type = LLVMGetElementType(type);
            holder_index(h, index);
        } else {
            return 0;
        }
    }
    holder_be(v, h, type);
    return 1;
}

/* Handles objects made by new, and accessors of an object: v[i], v.at(i), v.front() … */
static int holder_in_call(const struct mt_host_variables *v, LLVMValueRef call, struct mt_host_holder *h,
                          unsigned step)
{
    const char *name = mt_name(mt_callee(call));
    if (mt_starts(name, "_Zn")) { /* operator new */
        LLVMValueRef slot = host_stored(call, 0);
        return slot && holder_of_slot(v, slot, h, step);
    }
    if (!mt_starts(name, "_ZN") || !LLVMGetNumArgOperands(call) ||
        !holder_find(v, LLVMGetOperand(call, 0), h, step))
        return 0;
    LLVMValueRef index = LLVMGetNumArgOperands(call) == 2 ? LLVMGetOperand(call, 1) : NULL;
    if (index && LLVMGetTypeKind(LLVMTypeOf(index)) != LLVMIntegerTypeKind)
        index = NULL;
    if (strstr(name, "ixE") || strstr(name, "2atE"))
        holder_index(h, index);
    h->shape = 'p';
    h->bytes = 8;
    h->pointed = 0;
    return 1;
}

static int holder_in_global(const struct mt_host_variables *v, LLVMValueRef global, struct mt_host_holder *h)
{
    char *name = LLVMIsGlobalConstant(global) ? NULL : mt_shim_demangle(mt_name(global), 0);
    if (!name || !*name) {
        free(name);
        return 0;
    }
    holder_add(h, name, strlen(name));
    free(name);
    h->root = h->length;
    holder_be(v, h, LLVMGlobalGetValueType(global));
    return 1;
}

static int holder_find(const struct mt_host_variables *v, LLVMValueRef p, struct mt_host_holder *h,
                       unsigned step)
{
    struct mt_host_variable key = {.value = p};
    const struct mt_host_variable *found = v->n ? bsearch(&key, v->list, v->n, sizeof key, by_value) : NULL;
    if (step > MOST_STEPS)
        return 0;
    if (found) {
        holder_take(h, found->text, found->length);
        h->root = h->length;
        if (h->shape == '?' && LLVMIsAAllocaInst(p))
            holder_be(v, h, LLVMGetAllocatedType(p));
        return 1;
    }
    if (LLVMIsAGlobalVariable(p))
        return holder_in_global(v, p, h);
    switch (holder_opcode(p)) {
    case LLVMAlloca:
        return holder_of_temporary(v, p, h, step + 1);
    case LLVMLoad:
        return holder_of_slot(v, LLVMGetOperand(p, 0), h, step + 1);
    case LLVMGetElementPtr:
        return holder_in_gep(v, p, h, step + 1);
    case LLVMCall:
        if (mt_starts(mt_name(mt_callee(p)), "llvm.ptr.annotation"))
            return holder_in_member(v, p, h, step + 1);
        return holder_in_call(v, p, h, step + 1);
    case LLVMInvoke:
        return holder_in_call(v, p, h, step + 1);
    case LLVMBitCast:
    case LLVMIntToPtr:
    case LLVMPtrToInt:
    case LLVMAddrSpaceCast:
        return holder_find(v, LLVMGetOperand(p, 0), h, step + 1);
    default:
        return 0;
    }
}

/* Returns 1 if the pointer leads to a variable or a part of one. */
static int host_holder_of(const struct mt_host_variables *v, LLVMValueRef pointer, struct mt_host_holder *h)
{
    *h = (struct mt_host_holder){0};
    if (!holder_find(v, pointer, h, 0) || h->cut || (!h->length && !h->pointed))
        return 0;
    if (h->pointed && h->length && h->shape != 'r') { /* *p */
        if (h->length + 2 > sizeof h->name)
            return 0;
        memmove(h->name + 1, h->name, h->length + 1);
        *h->name = '*';
        h->root++;
        h->length++;
    }
    if (h->shape == '?')
        h->shape = 'p';
    return h->length && (h->shape == 'p' || h->shape == 'r');
}

/* Matches "cudaMalloc", or the C++ wrapper templates of cuda_runtime.h:
 * "_ZL10cudaMallocIfE9cudaErrorPPT_m". */
static int host_is_cuda_call(const char *name)
{
    if (mt_starts(name, "_Z")) {
        name += 2;
        if (*name == 'L')
            name++;
        while (isdigit((unsigned char)*name))
            name++;
    }
    static const char *const begin[] = {"cuda", "cublas", "cufft", "curand", "cusparse", "cusolver", "nccl"};
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (mt_starts(name, begin[i]) && isupper((unsigned char)name[strlen(begin[i])]))
            return 1;
    return 0;
}

static int is_stub(const char *name)
{
    return strstr(name, "__device_stub__") != NULL;
}

struct host {
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMBuilderRef builder;
    LLVMTypeRef ptr, i32, hook_type;
    LLVMValueRef hook;
};

/* Makes `hook(site)`, which calls __mt_host_site if the runtime is linked in. One linkonce copy per
 * program. */
static LLVMValueRef make_hook(struct host *h)
{
    LLVMTypeRef type = h->hook_type;
    LLVMValueRef target = LLVMAddFunction(h->module, "__mt_host_site", type);
    LLVMSetLinkage(target, LLVMExternalWeakLinkage);
    LLVMValueRef f = LLVMAddFunction(h->module, "__mt_host_site_if_linked", type);
    LLVMSetLinkage(f, LLVMLinkOnceODRLinkage);
    LLVMSetVisibility(f, LLVMHiddenVisibility);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(h->context, f, "");
    LLVMBasicBlockRef call = LLVMAppendBasicBlockInContext(h->context, f, "");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(h->context, f, "");
    LLVMPositionBuilderAtEnd(h->builder, entry);
    LLVMBuildCondBr(h->builder, LLVMBuildIsNull(h->builder, target, ""), done, call);
    LLVMPositionBuilderAtEnd(h->builder, call);
    LLVMValueRef site = LLVMGetParam(f, 0);
    LLVMBuildCall2(h->builder, type, target, &site, 1, "");
    LLVMBuildBr(h->builder, done);
    LLVMPositionBuilderAtEnd(h->builder, done);
    LLVMBuildRetVoid(h->builder);
    return f;
}

/* Returns struct mt_host_site as a constant. */
static LLVMValueRef make_site(struct host *h, LLVMValueRef call, const char *callee)
{
    struct mt_source_location place;
    mt_shim_location(call, &place);
    char *function = mt_shim_demangle(place.function, 0);
    LLVMValueRef field[] = {mt_private_text(h->module, place.file, ""),
                            mt_private_text(h->module, function ? function : "", ""),
                            mt_private_text(h->module, callee, ""), LLVMConstInt(h->i32, place.line, 0),
                            LLVMConstInt(h->i32, place.column, 0)};
    free(function);
    _Static_assert(sizeof(struct mt_host_site) == 3 * sizeof(char *) + 2 * sizeof(uint32_t),
                   "as written here");
    return mt_private_constant(h->module, LLVMConstStructInContext(h->context, field, 5, 0), "");
}

static int host_mark_calls(struct host *h, LLVMValueRef function)
{
    unsigned n;
    int marked = 0;
    LLVMValueRef *list = mt_instructions(function, &n);
    for (unsigned i = 0; list && i < n; i++) {
        LLVMOpcode op = LLVMGetInstructionOpcode(list[i]);
        LLVMValueRef callee = op == LLVMCall || op == LLVMInvoke ? mt_callee(list[i]) : NULL;
        const char *name = callee ? mt_name(callee) : "";
        if (!host_is_cuda_call(name) && !is_stub(name))
            continue;
        if (!h->hook)
            h->hook = make_hook(h);
        LLVMPositionBuilderBefore(h->builder, list[i]);
        LLVMSetCurrentDebugLocation2(h->builder, LLVMInstructionGetDebugLoc(list[i]));
        LLVMValueRef site = make_site(h, list[i], name);
        LLVMBuildCall2(h->builder, h->hook_type, h->hook, &site, 1, "");
        LLVMSetCurrentDebugLocation2(h->builder, NULL);
        marked = 1;
    }
    free(list);
    return marked;
}

/* Makes each stub differ. A linker or pass that folds equal code (--icf=all) would give kernels of one
 * signature one stub and one address, by which the runtime knows them. So each stub mentions a variable of
 * its own, as nvcc's do. It is never read, so nothing is traced. A template's variable is in no group that
 * the linker may drop: stubs are inlined into code that stays. */
static void host_keep_stub(struct host *h, LLVMValueRef stub)
{
    LLVMValueRef own = LLVMAddGlobal(h->module, LLVMInt8TypeInContext(h->context), "__mt_stub");
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(h->context), &h->ptr, 1, 0);
    LLVMSetInitializer(own, LLVMConstNull(LLVMGlobalGetValueType(own)));
    LLVMSetLinkage(own, LLVMInternalLinkage);
    LLVMPositionBuilderBefore(h->builder, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(stub)));
    LLVMSetCurrentDebugLocation2(h->builder, NULL);
    LLVMValueRef mention = LLVMGetInlineAsm(type, "", 0, "r", 1, 1, 0, LLVMInlineAsmDialectATT, 0);
    LLVMBuildCall2(h->builder, type, mention, &own, 1, "");
}

int mt_pass_host(LLVMModuleRef module)
{
    if (mt_shim_is_nvptx(module))
        return 0;
    struct host h = {.module = module, .context = LLVMGetModuleContext(module)};
    int changed = host_names(module);
    h.builder = LLVMCreateBuilderInContext(h.context);
    h.ptr = LLVMPointerTypeInContext(h.context, 0);
    h.i32 = LLVMInt32TypeInContext(h.context);
    h.hook_type = LLVMFunctionType(LLVMVoidTypeInContext(h.context), &h.ptr, 1, 0);
    for (LLVMValueRef f = LLVMGetFirstFunction(module), next; f; f = next) {
        next = LLVMGetNextFunction(f);
        /* Stubs and header wrappers pass a call on: their caller's location counts. */
        if (LLVMIsDeclaration(f))
            continue;
        if (is_stub(mt_name(f))) {
            host_keep_stub(&h, f);
            changed = 1;
        } else if (!host_is_cuda_call(mt_name(f))) {
            changed |= host_mark_calls(&h, f);
        }
    }
    LLVMDisposeBuilder(h.builder);
    changed |= host_registration(module);
    if (mt_pass_options.host) {
        host_name_values(module);
        return 1; /* mt_pass_host_trace still needs the line tables */
    }
    if (mt_pass_options.strip_debug)
        LLVMStripModuleDebugInfo(module);
    return changed || mt_pass_options.strip_debug;
}
