/* Names of variables. Optimised code has only values; names survive if clang keeps them
 * (-fno-discard-value-names, set by mt-cc --host). So, before optimisation, values and addresses of
 * members are named after their variables, with a mark. */
#include "host.h"
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    unsigned kind = LLVMGetEnumAttributeKindForName("noinline", 8);
    unsigned always = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
    if (regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB))
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

void mt_host_name_values(LLVMModuleRef module)
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
