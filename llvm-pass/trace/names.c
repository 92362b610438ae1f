/* Source names for the base of an access. A wrong name is worse than none: if several are possible, or it
 * is unclear which, there is no name. The AST side lists a function's parameters, `this` included.
 * Optimisation drops and splits parameters, so the names are attached to them before, as attributes, which
 * stay with a parameter wherever it goes. */
#include "trace.h"
#include <stdlib.h>
#include <string.h>

#define PARAM_NAME "memtrace-name"
#define MAX_SEEN 64

LLVMOpcode mt_opcode(LLVMValueRef v)
{
    return LLVMIsAInstruction(v)    ? LLVMGetInstructionOpcode(v)
           : LLVMIsAConstantExpr(v) ? LLVMGetConstOpcode(v)
                                    : (LLVMOpcode)0;
}

LLVMValueRef mt_base_of(LLVMValueRef v)
{
    for (;;) {
        LLVMOpcode op = mt_opcode(v);
        if (op != LLVMGetElementPtr && op != LLVMBitCast && op != LLVMAddrSpaceCast)
            return v;
        v = LLVMGetOperand(v, 0);
    }
}

/* Returns the start of the list of names in an annotation of a function (clang-plugin/facts.cpp); NULL:
 * there is none. */
static const char *names_list(const char *text, const char *end)
{
    static const char kernel[] = MT_ANNOTATION "kernel\t", device[] = MT_ANNOTATION "device\t";
    size_t n = (size_t)(end - text);
    if (n < sizeof kernel - 1 ||
        (memcmp(text, kernel, sizeof kernel - 1) && memcmp(text, device, sizeof device - 1)))
        return NULL;
    for (int tabs = 5; tabs && text; tabs--) {
        text = memchr(text, '\t', (size_t)(end - text));
        text = text ? text + 1 : NULL;
    }
    return text;
}

static unsigned names_count(const char *list, const char *end)
{
    unsigned n = list < end;
    for (; list < end; list++)
        n += *list == ',';
    return n;
}

static int names_returns_through(LLVMValueRef function)
{
    unsigned sret = LLVMGetEnumAttributeKindForName("sret", 4);
    return LLVMCountParams(function) && LLVMGetEnumAttributeAtIndex(function, 1, sret) != NULL;
}

void mt_name_params(LLVMValueRef function, const char *text, size_t length)
{
    const char *end = memchr(text, 0, length), *list = names_list(text, end ? end : text + length);
    end = end ? end : text + length;
    unsigned first = (unsigned)names_returns_through(function), n = list ? names_count(list, end) : 0;
    /* Constructors of classes with virtual bases have one more, and there may be others that the source
     * lacks. */
    if (!n || first + n != LLVMCountParams(function))
        return;
    LLVMContextRef c = LLVMGetTypeContext(LLVMTypeOf(function));
    for (unsigned i = 0; i < n; i++) {
        const char *comma = memchr(list, ',', (size_t)(end - list)), *stop = comma ? comma : end;
        if (stop > list)
            LLVMAddAttributeAtIndex(function, first + i + 1,
                                    LLVMCreateStringAttribute(c, PARAM_NAME, sizeof PARAM_NAME - 1, list,
                                                              (unsigned)(stop - list)));
        list = stop + 1;
    }
}

void mt_copy_param_names(LLVMValueRef from, LLVMValueRef to)
{
    unsigned n = LLVMCountParams(to);
    for (unsigned i = 1; n == LLVMCountParams(from) && i <= n; i++) {
        LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(from, i, PARAM_NAME, sizeof PARAM_NAME - 1);
        if (a)
            LLVMAddAttributeAtIndex(to, i, a);
    }
}

char *mt_param_name(LLVMValueRef param)
{
    LLVMValueRef f = LLVMGetParamParent(param);
    unsigned i = 1, length;
    for (LLVMValueRef p = LLVMGetFirstParam(f); p && p != param; p = LLVMGetNextParam(p))
        i++;
    LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(f, i, PARAM_NAME, sizeof PARAM_NAME - 1);
    if (a) {
        const char *name = LLVMGetStringAttributeValue(a, &length);
        return strndup(name, length);
    }
    /* Functions of system headers have no annotation; LLVM's own names for parts of a parameter have a
     * dot. */
    const char *name = mt_name(param);
    return *name && !strchr(name, '.') ? strdup(name) : NULL;
}

struct naming {
    LLVMValueRef seen[MAX_SEEN];
    unsigned nseen;
    char *name;  /* common name of all found so far */
    int unclear; /* 1: there is something else, too */
};

static void naming_found(struct naming *w, char *name)
{
    if (!name || (w->name && strcmp(w->name, name))) {
        w->unclear = 1;
        free(name);
    } else {
        free(w->name);
        w->name = name;
    }
}

/* A variable that unoptimised code keeps in stack memory: the size of a pointer. */
struct slot {
    LLVMValueRef memory; /* an alloca, perhaps a function's whole frame */
    uint64_t at;
    LLVMValueRef stored[MAX_SEEN];
    unsigned n;
};
#define SLOT_BYTES 8

/* Returns the distance of the address from its base; -1: unknown. */
static int64_t slot_step(LLVMValueRef address)
{
    LLVMOpcode op = mt_opcode(address);
    LLVMTypeRef unit = op == LLVMGetElementPtr ? LLVMGetGEPSourceElementType(address) : NULL;
    if (op == LLVMAddrSpaceCast || op == LLVMPtrToInt || op == LLVMIntToPtr)
        return 0;
    if (op != LLVMAdd && (!unit || LLVMGetNumOperands(address) != 2 ||
                          LLVMGetTypeKind(unit) != LLVMIntegerTypeKind || LLVMGetIntTypeWidth(unit) != 8))
        return -1;
    LLVMValueRef by = LLVMIsAConstantInt(LLVMGetOperand(address, 1));
    return !by || LLVMConstIntGetSExtValue(by) < 0 ? -1 : LLVMConstIntGetSExtValue(by);
}

/* Finds the value stored into the slot through this pointer, which is `at` bytes into the memory. Returns
 * 0 if others may write to it, too. An address that escapes from behind the slot belongs to another
 * variable. */
static int slot_uses(struct slot *s, LLVMValueRef address, uint64_t at, LLVMTargetDataRef layout)
{
    for (LLVMUseRef use = LLVMGetFirstUse(address); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        int64_t step = slot_step(user);
        if (LLVMIsALoadInst(user))
            continue;
        if (step >= 0) {
            if (!slot_uses(s, user, at + (uint64_t)step, layout))
                return 0;
            continue;
        }
        LLVMValueRef value = LLVMIsAStoreInst(user) ? LLVMGetOperand(user, 0) : NULL;
        if (!value || value == address) {
            if (at <= s->at)
                return 0;
            continue;
        }
        uint64_t bytes = LLVMABISizeOfType(layout, LLVMTypeOf(value));
        if (at >= s->at + SLOT_BYTES || at + bytes <= s->at)
            continue;
        if (at != s->at || bytes != SLOT_BYTES || s->n == MAX_SEEN)
            return 0;
        s->stored[s->n++] = value;
    }
    return 1;
}

static int slot_find(struct slot *s, LLVMValueRef pointer)
{
    *s = (struct slot){.memory = pointer};
    while (!LLVMIsAAllocaInst(s->memory)) {
        int64_t step = slot_step(s->memory);
        if (step < 0)
            return 0;
        s->at += (uint64_t)step;
        s->memory = LLVMGetOperand(s->memory, 0);
    }
    LLVMModuleRef m = LLVMGetGlobalParent(LLVMGetBasicBlockParent(LLVMGetInstructionParent(s->memory)));
    return slot_uses(s, s->memory, 0, LLVMGetModuleDataLayout(m));
}

/* Returns the parameter that a value is: itself, or from a slot that holds nothing else. */
static LLVMValueRef naming_param(LLVMValueRef v)
{
    struct slot s;
    if (LLVMIsAIntToPtrInst(v) || LLVMIsAPtrToIntInst(v))
        v = LLVMGetOperand(v, 0);
    if (LLVMIsALoadInst(v) && slot_find(&s, LLVMGetOperand(v, 0)) && s.n == 1)
        v = mt_base_of(s.stored[0]);
    if (LLVMIsAPtrToIntInst(v))
        v = mt_base_of(LLVMGetOperand(v, 0));
    return LLVMIsAArgument(v);
}

static void naming_walk(struct naming *w, LLVMValueRef v);

/* Names a pointer loaded from memory: from a variable, or a member of a parameter's object, whose name it
 * takes. */
static void naming_load(struct naming *w, LLVMValueRef load)
{
    LLVMValueRef from = LLVMGetOperand(load, 0), param;
    struct slot s;
    if (LLVMIsAAllocaInst(mt_base_of(from))) {
        w->unclear |= !slot_find(&s, from);
        for (unsigned i = 0; !w->unclear && i < s.n; i++)
            naming_walk(w, s.stored[i]);
    } else if ((param = naming_param(mt_base_of(from)))) {
        naming_found(w, mt_param_name(param));
    } else {
        w->unclear = 1;
    }
}

static void naming_walk(struct naming *w, LLVMValueRef v)
{
    v = mt_base_of(v);
    for (unsigned i = 0; i < w->nseen; i++)
        if (w->seen[i] == v)
            return;
    if (w->nseen == MAX_SEEN || w->unclear) {
        w->unclear = 1;
        return;
    }
    w->seen[w->nseen++] = v;
    if (LLVMIsAGlobalVariable(v)) /* a private variable is a constant of clang's: a string, or a local
                                   * variable's initial value */
        naming_found(w, LLVMGetLinkage(v) == LLVMPrivateLinkage ? NULL : mt_shim_demangle(mt_name(v), 0));
    else if (LLVMIsAArgument(v))
        naming_found(w, mt_param_name(v));
    else if (mt_opcode(v) == LLVMIntToPtr || mt_opcode(v) == LLVMPtrToInt ||
             slot_step(v) > 0) /* addresses are numbers in PTX */
        naming_walk(w, LLVMGetOperand(v, 0));
    else if (LLVMIsAPHINode(v)) /* a pointer that advances, or one of several */
        for (unsigned i = 0, n = LLVMCountIncoming(v); i < n; i++)
            naming_walk(w, LLVMGetIncomingValue(v, i));
    else if (LLVMIsASelectInst(v)) {
        naming_walk(w, LLVMGetOperand(v, 1));
        naming_walk(w, LLVMGetOperand(v, 2));
    } else if (LLVMIsALoadInst(v))
        naming_load(w, v);
    else if (!LLVMIsUndef(v) && !LLVMIsNull(v))
        w->unclear = 1;
}

char *mt_variable_of(LLVMValueRef pointer)
{
    struct naming w = {.nseen = 0};
    naming_walk(&w, pointer);
    if (!w.unclear)
        return w.name;
    free(w.name);
    return NULL;
}
