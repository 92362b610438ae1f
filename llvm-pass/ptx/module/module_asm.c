/* Turns an instruction of PTX into one call of inline asm, understood by asm.h's readers. */
#include "module_parts.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIDES 300 /* maximum registers and symbols of one instruction */

struct asm_text {
    struct mt_ptx_body *b;
    char *text;
    size_t n, cap;
    int failed;
    const struct mt_asm_operand *outputs[MAX_SIDES];
    LLVMValueRef inputs[MAX_SIDES];
    LLVMTypeRef input_types[MAX_SIDES];
    unsigned noutputs, ninputs;
};

int mt_ptx_is_pure(const struct mt_asm_statement *s)
{
    return mt_asm_is(s, MT_ASM_PURE) ||
           (s->parts[0][0] == 'v' && strcmp(s->parts[0], "vote") != 0); /* vadd, vmin4 … */
}

static void asm_put(struct asm_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void asm_put(struct asm_text *t, const char *format, ...)
{
    for (;;) {
        va_list list;
        va_start(list, format);
        int n = vsnprintf(t->text + t->n, t->cap - t->n, format, list);
        va_end(list);
        if (n < 0 || t->failed)
            return;
        if ((size_t)n < t->cap - t->n) {
            t->n += (size_t)n;
            return;
        }
        char *more = realloc(t->text, 2 * t->cap + (size_t)n);
        if (!more) {
            t->failed = mt_asm_fail(&t->b->l, "out of memory");
            return;
        }
        t->text = more;
        t->cap = 2 * t->cap + (size_t)n;
    }
}

/* Doubles '$', which is special there. */
static void asm_put_name(struct asm_text *t, const char *name)
{
    for (; *name; name++)
        asm_put(t, *name == '$' ? "$$" : "%c", *name);
}

/* Numbers inputs after all outputs, whose number is known at the end: "\1<n>;" stands for them until then. */
static void asm_put_input(struct asm_text *t, LLVMValueRef v)
{
    if (!v || t->ninputs == MAX_SIDES) {
        t->failed = mt_asm_fail(&t->b->l, "%s: too many operands", t->b->l.s->opcode);
        return;
    }
    t->inputs[t->ninputs] = v;
    t->input_types[t->ninputs] = LLVMTypeOf(v);
    asm_put(t, "\1%u;", t->ninputs++);
}

static void asm_put_register(struct asm_text *t, const struct mt_asm_operand *o, int is_output)
{
    struct mt_asm_body *l = &t->b->l;
    unsigned bits = mt_asm_width(l, o);
    if (is_output) {
        if (t->noutputs == MAX_SIDES) {
            t->failed = mt_asm_fail(l, "%s: too many operands", l->s->opcode);
            return;
        }
        asm_put(t, "$%u", t->noutputs);
        t->outputs[t->noutputs++] = o;
        return;
    }
    struct mt_asm_operand plain = *o; /* its sign, or "not", belongs to the instruction */
    plain.inverted = 0;
    *plain.part = 0;
    asm_put_input(t, mt_asm_in(l, &plain, bits == 8 ? 16 : bits));
}

static void asm_put_operand(struct asm_text *t, const struct mt_asm_operand *o, int is_output);

static void asm_put_list(struct asm_text *t, const struct mt_asm_operand *o, unsigned from, int is_output)
{
    for (unsigned i = from; i < o->nitems; i++) {
        if (i > from)
            asm_put(t, ", ");
        asm_put_operand(t, &o->items[i], is_output);
    }
}

static void asm_put_memory(struct asm_text *t, const struct mt_asm_operand *o)
{
    asm_put(t, "[");
    if (o->nitems)
        asm_put_operand(t, &o->items[0], 0);
    if (o->second) {
        asm_put(t, "+");
        asm_put_operand(t, o->second, 0);
    }
    if (o->offset)
        asm_put(t, "%+lld", (long long)o->offset);
    if (o->nitems > 1) {
        asm_put(t, ", ");
        asm_put_list(t, o, 1, 0);
    }
    asm_put(t, "]");
}

static void asm_put_symbol(struct asm_text *t, const struct mt_asm_operand *o)
{
    struct mt_asm_body *l = &t->b->l;
    if (o->kind == MT_ASM_NAME && !strcmp(o->name, "WARP_SZ")) {
        asm_put(t, "WARP_SZ");
        return;
    }
    LLVMValueRef v = l->symbol(l, o);
    if (!v)
        t->failed = mt_asm_fail(l, "%s: '%.100s' is not declared", l->s->opcode, o->name);
    else
        asm_put_input(t, v);
}

static void asm_put_operand(struct asm_text *t, const struct mt_asm_operand *o, int is_output)
{
    struct mt_asm_body *l = &t->b->l;
    if (t->failed)
        return;
    if (o->inverted)
        asm_put(t, mt_asm_width(l, o) == 1 ? "!" : "-");
    switch (o->kind) {
    case MT_ASM_REG:
        if (l->a->regs[o->index].memory)
            asm_put_symbol(t, o);
        else
            asm_put_register(t, o, is_output);
        if (*o->part)
            asm_put(t, ".%s", o->part);
        break;
    case MT_ASM_NAME:
        asm_put_symbol(t, o);
        break;
    case MT_ASM_SREG:
        asm_put_symbol(t, o); /* in a register: few instructions take a special one */
        break;
    case MT_ASM_INT:
        asm_put(t, "%lld", (long long)o->bits);
        break;
    case MT_ASM_F32:
        asm_put(t, "0f%08X", (unsigned)o->bits);
        break;
    case MT_ASM_F64:
        asm_put(t, "0d%016llX", (unsigned long long)o->bits);
        break;
    case MT_ASM_SINK:
        asm_put(t, "_");
        break;
    case MT_ASM_VECTOR:
        asm_put(t, "{");
        asm_put_list(t, o, 0, is_output);
        asm_put(t, "}");
        break;
    case MT_ASM_MEMORY:
        asm_put_memory(t, o);
        break;
    default:
        t->failed = mt_asm_fail(l, "%s: operand not understood", l->s->opcode);
    }
    if (o->second && o->kind != MT_ASM_MEMORY) {
        asm_put(t, "|");
        asm_put_operand(t, o->second, is_output);
    }
}

/* ---- the call ------------------------------------------------------------------------------------------ */

static char asm_letter(unsigned bits)
{
    return bits == 1 ? 'b' : bits <= 16 ? 'h' : bits == 32 ? 'r' : bits == 128 ? 'q' : 'l';
}

/* Returns the text with inputs numbered after the outputs; malloc'ed. */
static char *asm_number(const struct asm_text *t, size_t *length)
{
    char *out = malloc(2 * t->n + 16 * (size_t)t->ninputs + 16), *o = out;
    for (const char *c = t->text; out && *c; c++) {
        if (*c != '\1') {
            *o++ = *c;
            continue;
        }
        char *end;
        unsigned long n = strtoul(c + 1, &end, 10);
        o += sprintf(o, "$%lu", t->noutputs + n);
        c = end; /* at the ';' */
    }
    if (out)
        *o = 0;
    *length = out ? (size_t)(o - out) : 0;
    return out;
}

static LLVMTypeRef asm_output_type(struct asm_text *t, unsigned i)
{
    unsigned bits = mt_asm_width(&t->b->l, t->outputs[i]);
    return mt_asm_int(&t->b->l, bits == 8 ? 16 : bits);
}

static LLVMTypeRef asm_result_type(struct asm_text *t)
{
    LLVMTypeRef types[MAX_SIDES];
    for (unsigned i = 0; i < t->noutputs; i++)
        types[i] = asm_output_type(t, i);
    return !t->noutputs       ? t->b->l.none
           : t->noutputs == 1 ? types[0]
                              : LLVMStructTypeInContext(t->b->l.c, types, t->noutputs, 0);
}

static void asm_constrain(const struct asm_text *t, int acts, char *text, size_t room)
{
    size_t n = 0;
    for (unsigned i = 0; i < t->noutputs; i++)
        n += (size_t)snprintf(text + n, room - n, "%s=%c", n ? "," : "",
                              asm_letter(mt_asm_width(&t->b->l, t->outputs[i])));
    for (unsigned i = 0; i < t->ninputs; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%c", n ? "," : "",
                              asm_letter(LLVMGetIntTypeWidth(t->input_types[i])));
    if (acts)
        snprintf(text + n, room - n, "%s~{memory}", n ? "," : "");
}

static int asm_take_results(struct asm_text *t, LLVMValueRef call)
{
    struct mt_asm_body *l = &t->b->l;
    for (unsigned i = 0; i < t->noutputs; i++) {
        struct mt_asm_operand plain = *t->outputs[i];
        plain.second = NULL;
        *plain.part = 0; /* the instruction writes the whole register */
        LLVMValueRef v = t->noutputs == 1 ? call : LLVMBuildExtractValue(l->b, call, i, "");
        if (mt_asm_out(l, &plain, v, 0))
            return -1;
    }
    return 0;
}

void mt_ptx_asm_attributes(LLVMContextRef c, LLVMValueRef call)
{
    static const char *const words[] = {"convergent", "nounwind"};
    for (int i = 0; i < 2; i++)
        LLVMAddCallSiteAttribute(
            call, LLVMAttributeFunctionIndex,
            LLVMCreateEnumAttribute(c, LLVMGetEnumAttributeKindForName(words[i], strlen(words[i])), 0));
}

static int asm_build(struct asm_text *t)
{
    struct mt_asm_body *l = &t->b->l;
    int acts = !mt_ptx_is_pure(l->s);
    size_t length, room = 4 * (size_t)(t->noutputs + t->ninputs) + 16;
    char *constraints = calloc(1, room), *text = asm_number(t, &length);
    int failed = -1;
    if (!constraints || !text) {
        mt_asm_fail(l, "out of memory");
        goto out;
    }
    asm_constrain(t, acts, constraints, room);
    LLVMTypeRef type = LLVMFunctionType(asm_result_type(t), t->input_types, t->ninputs, 0);
    LLVMValueRef body = LLVMGetInlineAsm(type, text, length, constraints, strlen(constraints), acts, 0,
                                         LLVMInlineAsmDialectATT, 0);
    LLVMValueRef call = LLVMBuildCall2(l->b, type, body, t->inputs, t->ninputs, "");
    mt_ptx_asm_attributes(l->c, call);
    failed = asm_take_results(t, call);
out:
    free(constraints);
    free(text);
    return failed;
}

/* Keeps a function with activemask from being inlined: its result depends on the lanes at one place. */
static void asm_keep_place(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    LLVMValueRef f = LLVMGetBasicBlockParent(LLVMGetInsertBlock(l->b));
    if (strcmp(l->s->opcode, "activemask.b32") == 0)
        LLVMAddAttributeAtIndex(
            f, LLVMAttributeFunctionIndex,
            LLVMCreateEnumAttribute(l->c, LLVMGetEnumAttributeKindForName("noinline", 8), 0));
}

int mt_ptx_asm(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_asm_statement *s = l->s;
    struct asm_text *t = calloc(1, sizeof *t);
    int writes = mt_asm_has_destination(s), failed;
    if (!t || !(t->text = calloc(1, 256))) {
        free(t);
        return mt_asm_fail(l, "out of memory");
    }
    t->b = b;
    t->cap = 256;
    asm_put_name(t, s->opcode);
    for (unsigned i = 0; i < s->noperands && !t->failed; i++) {
        asm_put(t, i ? ", " : " ");
        asm_put_operand(t, &s->operands[i], writes && i == 0);
    }
    asm_put(t, ";");
    failed = t->failed || asm_build(t) ? -1 : 0;
    asm_keep_place(b);
    free(t->text);
    free(t);
    return failed;
}
