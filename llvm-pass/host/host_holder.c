/* Finds the source variable to which a pointer of unoptimised host code leads. The AST side has annotated
 * local variables and members with their names (clang-plugin/names.cpp). */
#include "host.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <llvm-c/Target.h>

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

int mt_host_variables_read(struct mt_host_variables *v, LLVMTargetDataRef layout, LLVMValueRef function)
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

void mt_host_variables_drop(struct mt_host_variables *v)
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

LLVMValueRef mt_host_stored(LLVMValueRef value, unsigned depth)
{
    for (LLVMUseRef u = LLVMGetFirstUse(value); u && depth < 4; u = LLVMGetNextUse(u)) {
        LLVMValueRef user = LLVMGetUser(u), found = NULL;
        if (LLVMIsAStoreInst(user))
            found = LLVMGetOperand(user, 0) == value ? LLVMGetOperand(user, 1) : NULL;
        else if (LLVMIsACastInst(user))
            found = mt_host_stored(user, depth + 1);
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
        LLVMValueRef slot = mt_host_stored(call, 0);
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

int mt_host_holder_of(const struct mt_host_variables *v, LLVMValueRef pointer, struct mt_host_holder *h)
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
