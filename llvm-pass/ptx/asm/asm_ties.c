/* Constraint strings of inline assembly ("=r,=&l,0,r,n,~{memory}") and PTX type words. */
#include "asm_lower.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int asm_ties_fail(struct mt_asm_error *error, const char *what, const char *detail)
{
    snprintf(error->message, sizeof error->message, "%s '%.60s'", what, detail);
    return -1;
}

static int asm_ties_add(struct mt_asm_ties *t, const char *one, int *inputs, struct mt_asm_error *error)
{
    if (*one == '~' || *one == '!')
        return 0; /* clobber, label */
    if (t->noperands == MT_ASM_MAX_OPERANDS)
        return asm_ties_fail(error, "too many operands, at", one);
    struct mt_asm_tie *tie = &t->operands[t->noperands];
    if (strchr(one, '*'))
        return asm_ties_fail(error, "operand constraint not supported:", one);
    if (*one == '=') {
        *tie = (struct mt_asm_tie){.output = (int)t->noutputs++, .argument = -1};
    } else {
        *tie = (struct mt_asm_tie){.output = -1, .argument = (*inputs)++};
        if (isdigit((unsigned char)*one)) { /* an output's first value */
            unsigned long n = strtoul(one, NULL, 10);
            if (n >= t->noutputs)
                return asm_ties_fail(error, "operand constraint not understood:", one);
            t->operands[n].argument = tie->argument;
        }
    }
    t->noperands++;
    return 0;
}

int mt_asm_ties_read(LLVMValueRef call, struct mt_asm_ties *t, struct mt_asm_error *error)
{
    size_t length;
    int inputs = 0;
    const char *text = LLVMGetInlineAsmConstraintString(LLVMGetCalledValue(call), &length);
    t->noperands = t->noutputs = 0;
    for (size_t at = 0; at < length;) {
        char one[64];
        size_t n = 0;
        for (; at < length && text[at] != ','; at++)
            if (n < sizeof one - 1)
                one[n++] = text[at];
        one[n] = 0;
        at++;
        if (asm_ties_add(t, one, &inputs, error))
            return -1;
    }
    if ((unsigned)inputs > LLVMGetNumArgOperands(call))
        return asm_ties_fail(error, "constraints and operands disagree:", text);
    return 0;
}

int mt_asm_type(const char *word, struct mt_asm_type *t)
{
    static const struct {
        const char *word;
        struct mt_asm_type type;
    } odd[] = {{"pred", {'p', 1, 1}},    {"f16x2", {'f', 16, 2}}, {"bf16", {'g', 16, 1}},
               {"bf16x2", {'g', 16, 2}}, {"tf32", {'t', 32, 1}},  {"u16x2", {'u', 16, 2}},
               {"s16x2", {'s', 16, 2}},  {"f32x2", {'f', 32, 2}}};
    for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++)
        if (!strcmp(word, odd[i].word)) {
            *t = odd[i].type;
            return 1;
        }
    static const char *const widths[] = {"8", "16", "32", "64", "128"};
    if (*word && strchr("bsuf", *word))
        for (unsigned i = 0; i < 5; i++)
            if (!strcmp(word + 1, widths[i])) {
                *t = (struct mt_asm_type){*word, 8u << i, 1};
                return *word != 'f' || (i >= 1 && i <= 3);
            }
    return 0;
}

unsigned mt_asm_type_bits(const char *word)
{
    struct mt_asm_type t;
    return mt_asm_type(word, &t) ? t.bits * t.lanes : 0;
}
