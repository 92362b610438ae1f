/* Calls made for inline assembly: builtins by name, special registers, and functions of the CPU device. */
#include "asm_lower.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static LLVMValueRef asm_call_lookup(struct mt_asm_body *l, const char *name, LLVMTypeRef *type)
{
    return l->builtins->lookup ? l->builtins->lookup(l->builtins->ctx, name, type) : NULL;
}

/* Converts an integer to the type that a callee needs; NULL if impossible. */
static LLVMValueRef asm_call_fit(struct mt_asm_body *l, LLVMValueRef v, LLVMTypeRef want)
{
    LLVMTypeKind kind = LLVMGetTypeKind(want);
    v = mt_asm_bits_of(l, v);
    if (!v)
        return NULL;
    if (kind == LLVMPointerTypeKind) {
        v = LLVMBuildIntCast2(l->b, v, l->i64, 0, "");
        return LLVMBuildIntToPtr(l->b, v, want, "");
    }
    if (kind == LLVMIntegerTypeKind)
        return LLVMBuildIntCast2(l->b, v, want, 0, "");
    unsigned bits = (unsigned)LLVMSizeOfTypeInBits(l->layout, want);
    v = LLVMBuildIntCast2(l->b, v, mt_asm_int(l, bits), 0, "");
    return LLVMBuildBitCast(l->b, v, want, "");
}

LLVMValueRef mt_asm_call_by_name(struct mt_asm_body *l, const char *name, LLVMTypeRef result,
                                 LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef type, types[8], params[8];
    LLVMValueRef fitted[8], f = asm_call_lookup(l, name, &type);
    if (n > 8)
        return NULL;
    for (unsigned i = 0; i < n; i++)
        types[i] = LLVMTypeOf(args[i]);
    if (!f && (f = LLVMGetNamedFunction(l->m, name)))
        type = LLVMGlobalGetValueType(f);
    if (!f) {
        type = LLVMFunctionType(result, types, n, 0);
        f = LLVMAddFunction(l->m, name, type);
    }
    if (LLVMCountParamTypes(type) != n) {
        mt_asm_fail(l, "%s has %u parameters, not %u", name, LLVMCountParamTypes(type), n);
        return NULL;
    }
    LLVMGetParamTypes(type, params);
    for (unsigned i = 0; i < n; i++)
        if (!(fitted[i] = asm_call_fit(l, args[i], params[i])))
            return NULL;
    return LLVMBuildCall2(l->b, type, f, fitted, n, "");
}

LLVMValueRef mt_asm_special(struct mt_asm_body *l, const char *name)
{
    static const char *const prefixes[] = {"mtb_ptx_sreg_", "mtb_nvvm_read_ptx_sreg_"};
    for (unsigned i = 0; i < 2; i++) {
        char full[160];
        LLVMTypeRef type;
        snprintf(full, sizeof full, "%s%s", prefixes[i], name);
        for (char *c = full; *c; c++)
            if (*c == '.')
                *c = '_';
        LLVMValueRef f = asm_call_lookup(l, full, &type);
        if (f && !LLVMCountParamTypes(type))
            return mt_asm_bits_of(l, LLVMBuildCall2(l->b, type, f, NULL, 0, ""));
    }
    mt_asm_fail(l, "special register %%%.60s", name);
    return NULL;
}

int mt_asm_is_shared(const struct mt_asm_statement *s)
{
    for (unsigned i = 1; i < s->nparts; i++)
        if (!strncmp(s->parts[i], "shared", 6))
            return 1;
    return mt_asm_is(s, MT_ASM_SHARED);
}

/* ---- builtins for the whole statement ----------------------------------------------------------- */

static int asm_call_is_optional(const char *part)
{
    return !strcmp(part, "sync") || !strcmp(part, "aligned") || !strncmp(part, "L1::", 4) ||
           !strncmp(part, "L2::", 4);
}

static LLVMValueRef asm_call_find(struct mt_asm_body *l, int short_form, LLVMTypeRef *type)
{
    char name[400] = "mtb_ptx";
    size_t n = strlen(name);
    for (unsigned i = 0; i < l->s->nparts; i++) {
        if (short_form && i && asm_call_is_optional(l->s->parts[i]))
            continue;
        int more = snprintf(name + n, sizeof name - n, "_%s", l->s->parts[i]);
        if (more < 0 || (size_t)more >= sizeof name - n)
            return NULL;
        n += (size_t)more;
    }
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
    return asm_call_lookup(l, name, type);
}

LLVMValueRef mt_asm_find_builtin(struct mt_asm_body *l, LLVMTypeRef *type)
{
    LLVMValueRef f = asm_call_find(l, 0, type);
    return f ? f : asm_call_find(l, 1, type);
}

int mt_asm_has_destination(const struct mt_asm_statement *s)
{
    if (!s->noperands || s->operands[0].kind == MT_ASM_MEMORY)
        return 0;
    if (mt_asm_has(s, "red") && (!strcmp(s->parts[0], "bar") || !strcmp(s->parts[0], "barrier")))
        return 1;
    return !mt_asm_is(s, MT_ASM_NO_RESULT);
}

#define MAX_ARGS 80
struct args {
    LLVMTypeRef params[MAX_ARGS];
    LLVMValueRef values[MAX_ARGS];
    unsigned n, want;
};

/* Returns 1 for a shared address; in copies between both memories a 64-bit address may be global. */
static int asm_call_is_shared(struct mt_asm_body *l, const struct mt_asm_operand *o)
{
    int wide = o->nitems && mt_asm_width(l, &o->items[0]) == 64;
    return mt_asm_is_shared(l->s) && !(wide && mt_asm_has(l->s, "global"));
}

static int asm_call_add(struct mt_asm_body *l, struct args *args, const struct mt_asm_operand *o)
{
    if (o->kind == MT_ASM_VECTOR) {
        for (unsigned i = 0; i < o->nitems; i++)
            if (asm_call_add(l, args, &o->items[i]))
                return -1;
        return 0;
    }
    if (args->n >= args->want)
        return mt_asm_fail(l, "%s: more operands than its builtin takes", l->s->opcode);
    LLVMTypeRef want = args->params[args->n];
    unsigned bits = (unsigned)LLVMSizeOfTypeInBits(l->layout, want);
    LLVMValueRef v;
    if (o->kind == MT_ASM_MEMORY) {
        struct mt_asm_operand plain = *o;
        plain.nitems = o->nitems ? 1 : 0;
        if (bits == 64)
            v = mt_asm_address(l, &plain, asm_call_is_shared(l, o));
        else
            v = o->nitems ? mt_asm_in(l, &o->items[0], bits) : NULL;
    } else if (LLVMGetTypeKind(want) == LLVMFloatTypeKind) {
        v = mt_asm_in_float(l, o, 32);
    } else {
        v = mt_asm_in(l, o, bits);
    }
    if (v)
        v = asm_call_fit(l, v, want);
    if (!v)
        return mt_asm_fail(l, "%s: operand not understood", l->s->opcode);
    args->values[args->n++] = v;
    if (o->kind == MT_ASM_MEMORY)
        for (unsigned i = 1; i < o->nitems; i++)
            if (asm_call_add(l, args, &o->items[i]))
                return -1;
    return 0;
}

/* Reads several results, written by a void builtin to out[0…]. */
static int asm_call_take(struct mt_asm_body *l, LLVMValueRef slots, const struct mt_asm_operand *d)
{
    unsigned n = d->kind == MT_ASM_VECTOR ? d->nitems : 1;
    for (unsigned i = 0; i < n + (d->second != NULL); i++) {
        const struct mt_asm_operand *to = i == n ? d->second : d->kind == MT_ASM_VECTOR ? &d->items[i] : d;
        LLVMValueRef index = mt_asm_const(l, 64, i);
        LLVMValueRef p = LLVMBuildGEP2(l->b, l->i64, slots, &index, 1, "");
        if (mt_asm_out(l, to, LLVMBuildLoad2(l->b, l->i64, p, ""), 0))
            return -1;
    }
    return 0;
}

int mt_asm_call_builtin(struct mt_asm_body *l, LLVMValueRef function, LLVMTypeRef type)
{
    const struct mt_asm_statement *s = l->s;
    struct args args = {.want = LLVMCountParamTypes(type)};
    int dest = mt_asm_has_destination(s), several = 0;
    LLVMValueRef slots = NULL;
    const struct mt_asm_operand *d = NULL;
    if (args.want > MAX_ARGS)
        return mt_asm_fail(l, "%s: too many operands", s->opcode);
    LLVMGetParamTypes(type, args.params);
    if (dest) {
        d = &s->operands[0];
        several = d->second || (d->kind == MT_ASM_VECTOR && d->nitems != 1);
    }
    for (unsigned i = (unsigned)dest; i < s->noperands; i++)
        if (asm_call_add(l, &args, &s->operands[i]))
            return -1;
    if (!strcmp(s->parts[0], "mbarrier") && mt_asm_has(s, "b64") && args.n + 1 == args.want && !several &&
        s->nparts > 1 && !strncmp(s->parts[1], "arrive", 6))
        args.values[args.n++] = mt_asm_const(l, 32, 1); /* the count is optional */
    if (several) {
        unsigned n = (d->kind == MT_ASM_VECTOR ? d->nitems : 1) + (d->second != NULL);
        slots = mt_asm_slot(l, LLVMArrayType2(l->i64, n), "");
        if (!slots)
            return -1;
        if (args.n < args.want)
            args.values[args.n] = slots;
        args.n++;
    }
    if (args.n != args.want)
        return mt_asm_fail(l, "%s: its builtin takes %u operands, not %u", s->opcode, args.want, args.n);
    LLVMValueRef result = LLVMBuildCall2(l->b, type, function, args.values, args.n, "");
    if (several)
        return asm_call_take(l, slots, d);
    if (!dest)
        return 0;
    if (LLVMGetTypeKind(LLVMTypeOf(result)) == LLVMVoidTypeKind)
        return mt_asm_fail(l, "%s: its builtin gives no result", s->opcode);
    struct mt_asm_type t = {0};
    for (unsigned i = 1; i < s->nparts && !mt_asm_type(s->parts[i], &t); i++)
        ;
    result = mt_asm_bits_of(l, result);
    return result ? mt_asm_out(l, d->kind == MT_ASM_VECTOR ? &d->items[0] : d, result, t.kind == 's') : -1;
}

int mt_asm_fallback(struct mt_asm_body *l)
{
    LLVMTypeRef type;
    LLVMValueRef f = mt_asm_find_builtin(l, &type);
    return f ? mt_asm_call_builtin(l, f, type) : mt_asm_fail(l, "%s", l->s->opcode);
}
