/* The variable that an access's address is computed from: one in device, constant or shared memory, or an
 * array on the stack. An access outside of it is an error, whatever else lies there (memtrace check). A wrong
 * variable would be a false alarm: if several are possible, or numbers of other addresses take part, there is
 * none. */
#include "trace.h"
#include "unit/pass.h"
#include "format/image.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"
#include <stdlib.h>
#include <string.h>

#define MAX_BASES 64
#define MAX_NUMBERS 256
#define SPACE_SHARED 3
#define SPACE_CONSTANT 4

struct seen {
    LLVMValueRef list[MAX_NUMBERS];
    unsigned n;
};

struct objects_walk {
    struct mt_unit *u;
    struct seen bases;
    LLVMValueRef base; /* the only one so far */
    int unclear;       /* 1: there is something else, too */
};

static LLVMOpcode objects_opcode(LLVMValueRef v)
{
    return LLVMIsAInstruction(v)    ? LLVMGetInstructionOpcode(v)
           : LLVMIsAConstantExpr(v) ? LLVMGetConstOpcode(v)
                                    : (LLVMOpcode)0;
}

/* Returns 1 if the value is new, 0 if it was seen, -1 if there are more than `most`. */
static int objects_see(struct seen *s, LLVMValueRef v, unsigned most)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->list[i] == v)
            return 0;
    if (s->n == most)
        return -1;
    s->list[s->n++] = v;
    return 1;
}

/* Returns 1 if no variable's address takes part in the number. */
static int objects_is_plain(struct seen *s, LLVMValueRef v)
{
    if (LLVMIsAGlobalVariable(v) || LLVMIsAAllocaInst(v))
        return 0;
    LLVMOpcode op = objects_opcode(v);
    if (!op || op == LLVMLoad || op == LLVMAtomicRMW || op == LLVMAtomicCmpXchg ||
        (op == LLVMCall && !LLVMIsAInlineAsm(LLVMGetCalledValue(v))))
        return 1;
    int new = objects_see(s, v, MAX_NUMBERS);
    if (new <= 0)
        return new == 0;
    int n = LLVMIsAPHINode(v) ? (int)LLVMCountIncoming(v) : LLVMGetNumOperands(v) - (op == LLVMCall);
    for (int i = 0; i < n; i++)
        if (!objects_is_plain(s, LLVMIsAPHINode(v) ? LLVMGetIncomingValue(v, (unsigned)i)
                                                   : LLVMGetOperand(v, (unsigned)i)))
            return 0;
    return 1;
}

static int objects_plain(LLVMValueRef v)
{
    struct seen s = {.n = 0};
    return objects_is_plain(&s, v);
}

static void objects_visit(struct objects_walk *w, LLVMValueRef v);

/* Visits what the callers pass. */
static void objects_argument(struct objects_walk *w, LLVMValueRef argument)
{
    LLVMValueRef f = LLVMGetParamParent(argument);
    unsigned at = 0;
    for (LLVMValueRef a = LLVMGetFirstParam(f); a && a != argument; a = LLVMGetNextParam(a))
        at++;
    if (mt_unit_kernel(w->u, f) || LLVMGetLinkage(f) != LLVMInternalLinkage || !LLVMGetFirstUse(f))
        w->unclear = 1;
    for (LLVMUseRef use = LLVMGetFirstUse(f); use && !w->unclear; use = LLVMGetNextUse(use)) {
        LLVMValueRef call = LLVMGetUser(use);
        if (LLVMIsACallInst(call) && mt_callee(call) == f)
            objects_visit(w, LLVMGetOperand(call, at));
        else
            w->unclear = 1;
    }
}

/* Visits the operand that is an address, if the other one is a number. */
static void objects_sum(struct objects_walk *w, LLVMValueRef a, LLVMValueRef b, int either)
{
    if (objects_plain(b))
        objects_visit(w, a);
    else if (either && objects_plain(a))
        objects_visit(w, b);
    else
        w->unclear = 1;
}

static void objects_element(struct objects_walk *w, LLVMValueRef v)
{
    for (int i = 1; i < LLVMGetNumOperands(v); i++)
        w->unclear |= !objects_plain(LLVMGetOperand(v, (unsigned)i));
    objects_visit(w, LLVMGetOperand(v, 0));
}

static void objects_step(struct objects_walk *w, LLVMValueRef v)
{
    switch (objects_opcode(v)) {
    case LLVMGetElementPtr:
        objects_element(w, v);
        break;
    case LLVMBitCast:
    case LLVMAddrSpaceCast:
    case LLVMFreeze:
    case LLVMIntToPtr:
    case LLVMPtrToInt:
    case LLVMTrunc:
    case LLVMZExt:
        objects_visit(w, LLVMGetOperand(v, 0));
        break;
    case LLVMAdd:
        objects_sum(w, LLVMGetOperand(v, 0), LLVMGetOperand(v, 1), 1);
        break;
    case LLVMOr:  /* a sum without carries */
    case LLVMAnd: /* rounds */
    case LLVMSub:
        objects_sum(w, LLVMGetOperand(v, 0), LLVMGetOperand(v, 1), 0);
        break;
    case LLVMPHI:
        for (unsigned i = 0, n = LLVMCountIncoming(v); i < n; i++)
            objects_visit(w, LLVMGetIncomingValue(v, i));
        break;
    case LLVMSelect:
        objects_visit(w, LLVMGetOperand(v, 1));
        objects_visit(w, LLVMGetOperand(v, 2));
        break;
    default:
        w->unclear = 1;
    }
}

static void objects_visit(struct objects_walk *w, LLVMValueRef v)
{
    int new = w->unclear ? 0 : objects_see(&w->bases, v, MAX_BASES);
    w->unclear |= new < 0;
    if (new <= 0 || LLVMIsUndef(v) || LLVMIsPoison(v))
        return;
    if (LLVMIsAGlobalVariable(v) || LLVMIsAAllocaInst(v)) {
        w->unclear |= w->base && w->base != v;
        w->base = v;
    } else if (LLVMIsAArgument(v)) {
        objects_argument(w, v);
    } else {
        objects_step(w, v);
    }
}

/* ---- table ---- */

static uint64_t objects_bytes(struct mt_unit *u, LLVMValueRef base)
{
    if (!LLVMIsAAllocaInst(base))
        return LLVMABISizeOfType(u->layout, LLVMGlobalGetValueType(base));
    LLVMValueRef count = LLVMIsAConstantInt(LLVMGetOperand(base, 0));
    return count ? LLVMABISizeOfType(u->layout, LLVMGetAllocatedType(base)) * LLVMConstIntGetZExtValue(count)
                 : 0;
}

/* Managed variables are elsewhere, and constants of the compiler may have several copies. */
static int objects_is_elsewhere(LLVMValueRef global)
{
    const char *section = LLVMGetSection(global);
    return LLVMGetLinkage(global) == LLVMPrivateLinkage || (section && *section);
}

static int objects_describe(struct mt_unit *u, LLVMValueRef base, struct mt_bounds *o)
{
    int local = LLVMIsAAllocaInst(base) != NULL;
    unsigned space = LLVMGetPointerAddressSpace(LLVMTypeOf(base));
    *o = (struct mt_bounds){.base = base, .bytes = objects_bytes(u, base)};
    if (local) {
        o->space = MT_OBJECT_LOCAL;
        o->offset = mt_unit_local_at(u, base);
        return o->bytes ? 0 : -1;
    }
    o->space = space == SPACE_SHARED ? MT_OBJECT_SHARED : MT_OBJECT_GLOBAL;
    o->dynamic = o->space == MT_OBJECT_SHARED && !o->bytes;
    o->symbol = strdup(mt_name(base));
    o->name = mt_shim_demangle(mt_name(base), 0);
    return (o->bytes || o->dynamic) && !(o->space == MT_OBJECT_GLOBAL && objects_is_elsewhere(base)) ? 0 : -1;
}

/* Returns the number of the variable, from 1; 0: it has none. */
static uint32_t objects_number(struct mt_unit *u, LLVMValueRef base)
{
    struct mt_bounds o;
    for (unsigned i = 0; i < u->nobjects; i++)
        if (u->objects[i].base == base)
            return i + 1;
    if (objects_describe(u, base, &o) || mt_grow(&u->objects, &u->objects_cap, u->nobjects + 1, sizeof o)) {
        free(o.symbol);
        free(o.name);
        return 0;
    }
    u->objects[u->nobjects] = o;
    return ++u->nobjects;
}

uint32_t mt_unit_object_of(struct mt_unit *u, LLVMValueRef pointer)
{
    struct objects_walk w = {.u = u};
    objects_visit(&w, pointer);
    return w.base && !w.unclear ? objects_number(u, w.base) : 0;
}

void mt_unit_add_shared(struct mt_unit *u)
{
    for (LLVMValueRef g = LLVMGetFirstGlobal(u->module); g; g = LLVMGetNextGlobal(g))
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(g)) == SPACE_SHARED)
            objects_number(u, g);
}

struct mt_bounds *mt_unit_object_named(struct mt_unit *u, const char *symbol)
{
    for (unsigned i = 0; i < u->nobjects; i++)
        if (u->objects[i].symbol && !strcmp(u->objects[i].symbol, symbol))
            return &u->objects[i];
    return NULL;
}

/* ---- calls for memtrace check alone ---- */

int mt_is_check(const char *name)
{
    return !strcmp(name, MT_CHECK_CONSTANT_CALL) || !strcmp(name, MT_CHECK_PLACE_CALL);
}

static void check_call(struct mt_unit *u, LLVMBuilderRef b, LLVMModuleRef module, const char *name,
                       LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef types[3];
    for (unsigned i = 0; i < n; i++)
        types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(u->context), types, n, 0);
    LLVMBuildCall2(b, type, mt_declare(module, name, type), args, n, "");
}

static int constant_is_wanted(LLVMValueRef inst)
{
    LLVMValueRef pointer = LLVMIsALoadInst(inst) ? LLVMGetOperand(inst, 0) : NULL;
    return pointer && LLVMGetPointerAddressSpace(LLVMTypeOf(pointer)) == SPACE_CONSTANT &&
           !LLVMIsConstant(pointer);
}

static void constant_check(struct mt_unit *u, LLVMBuilderRef b, LLVMModuleRef module, LLVMValueRef load)
{
    LLVMTypeRef i32 = mt_type_int(u, 32);
    uint32_t object = mt_unit_object_of(u, LLVMGetOperand(load, 0)),
             size = (uint32_t)LLVMStoreSizeOfType(u->layout, LLVMTypeOf(load));
    if (!object)
        return;
    uint32_t site = mt_unit_add_site(u, load, MT_LOAD, size, 0, strdup(u->objects[object - 1].name));
    u->sites[site].object = object;
    LLVMValueRef args[] = {LLVMBuildAddrSpaceCast(b, LLVMGetOperand(load, 0), mt_type_ptr(u), ""),
                           LLVMConstInt(i32, mt_rec_meta(MT_LOAD, size), 0), LLVMConstInt(i32, site, 0)};
    check_call(u, b, module, MT_CHECK_CONSTANT_CALL, args, 3);
}

/* Returns what a call is that may be reported at its place; NULL: none. */
static const char *place_of(LLVMValueRef inst)
{
    static const char *const words[] = {"bar", "shfl", "vote", "match", "redux"};
    static const char *const callees[] = {"malloc", "vprintf"};
    LLVMValueRef callee = LLVMIsACallInst(inst) ? LLVMGetCalledValue(inst) : NULL;
    size_t n;
    const char *text = callee && LLVMIsAInlineAsm(callee) ? LLVMGetInlineAsmAsmString(callee, &n) : "";
    if (*text == '@' && strchr(text, ' '))
        text = strchr(text, ' ') + 1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (mt_starts(text, words[i]))
            return words[i];
    for (size_t i = 0; callee && !*text && i < sizeof callees / sizeof *callees; i++)
        if (!strcmp(mt_name(callee), callees[i]))
            return callees[i];
    return NULL;
}

static void check_add(struct mt_unit *u, LLVMBuilderRef b, LLVMModuleRef module, LLVMValueRef inst)
{
    const char *what = place_of(inst);
    if ((!what && !constant_is_wanted(inst)) || !mt_unit_wanted(u, inst))
        return;
    LLVMPositionBuilderBefore(b, inst);
    LLVMSetCurrentDebugLocation2(b, LLVMInstructionGetDebugLoc(inst));
    if (!what) {
        constant_check(u, b, module, inst);
        return;
    }
    LLVMValueRef note = LLVMConstInt(mt_type_int(u, 32), mt_unit_add_note(u, inst, MT_NOTE_PLACE, what), 0);
    check_call(u, b, module, MT_CHECK_PLACE_CALL, &note, 1);
}

void mt_unit_add_checks(struct mt_unit *u, LLVMModuleRef module)
{
    LLVMBuilderRef b = LLVMCreateBuilderInContext(u->context);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        unsigned n;
        LLVMValueRef *list = mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++)
            check_add(u, b, module, list[i]);
        free(list);
    }
    LLVMDisposeBuilder(b);
}
