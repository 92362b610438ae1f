/* Registers that an instruction reads and writes: Zydis's operands, and those that version 4.0 lacks. */
#include "effects.h"

typedef void effect_function(void *arg, ZydisRegister r, unsigned effect);

#define LACK(mnemonic, first, count, effect)                                                                 \
    {ZYDIS_MNEMONIC_##mnemonic, ZYDIS_REGISTER_##first, count, MT_EFFECT_##effect}
/* Registers without an operand, from `first` on. */
static const struct {
    ZydisMnemonic mnemonic;
    ZydisRegister first;
    unsigned count, effect;
} lacks[] = {
    LACK(ADCX, RFLAGS, 1, WRITE),     LACK(ADOX, RFLAGS, 1, WRITE),       LACK(CMC, RFLAGS, 1, WRITE),
    LACK(RDPRU, RFLAGS, 1, WRITE),    LACK(RSTORSSP, RFLAGS, 1, WRITE),   LACK(CLRSSBSY, RFLAGS, 1, WRITE),
    LACK(SYSCALL, RFLAGS, 1, READ),   LACK(SAVEPREVSSP, RFLAGS, 1, READ), LACK(XLAT, AL, 1, READ),
    LACK(VZEROALL, YMM0, 16, WRITE),  LACK(VZEROUPPER, YMM0, 16, WRITE),  LACK(FNSAVE, ST0, 8, READ),
    LACK(FRSTOR, ST0, 8, WRITE),      LACK(FXSAVE, ST0, 8, READ),         LACK(FXSAVE, XMM0, 16, READ),
    LACK(FXSAVE, MXCSR, 1, READ),     LACK(FXSAVE64, ST0, 8, READ),       LACK(FXSAVE64, XMM0, 16, READ),
    LACK(FXSAVE64, MXCSR, 1, READ),   LACK(FXRSTOR, ST0, 8, WRITE),       LACK(FXRSTOR, XMM0, 16, WRITE),
    LACK(FXRSTOR, MXCSR, 1, WRITE),   LACK(FXRSTOR64, ST0, 8, WRITE),     LACK(FXRSTOR64, XMM0, 16, WRITE),
    LACK(FXRSTOR64, MXCSR, 1, WRITE),
};

static void effects_lacking(const ZydisDecodedInstruction *i, effect_function *f, void *arg)
{
    for (unsigned k = 0; k < sizeof lacks / sizeof *lacks; k++)
        for (unsigned r = 0; lacks[k].mnemonic == i->mnemonic && r < lacks[k].count; r++)
            f(arg, (ZydisRegister)(lacks[k].first + r), lacks[k].effect);
}

/* Returns 1 for cmps, scas, ins and outs, which move their pointers like movs. */
static int effects_moves(const ZydisDecodedInstruction *i)
{
    return i->meta.category == ZYDIS_CATEGORY_STRINGOP || i->meta.category == ZYDIS_CATEGORY_IOSTRINGOP;
}

static void effects_memory(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o, effect_function *f,
                           void *arg)
{
    f(arg, o->mem.base, MT_EFFECT_READ | (effects_moves(i) ? MT_EFFECT_WRITE : 0));
    f(arg, o->mem.index, MT_EFFECT_READ);
    if (o->mem.segment == ZYDIS_REGISTER_FS || o->mem.segment == ZYDIS_REGISTER_GS)
        f(arg, o->mem.segment, MT_EFFECT_READ);
}

static void effects_register(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o,
                             effect_function *f, void *arg)
{
    unsigned effect = (o->actions & ZYDIS_OPERAND_ACTION_MASK_READ ? MT_EFFECT_READ : 0) |
                      (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE ? MT_EFFECT_WRITE : 0);
    if (o->encoding == ZYDIS_OPERAND_ENCODING_MASK && o->reg.value == ZYDIS_REGISTER_K0)
        return; /* means: no mask */
    f(arg, o->reg.value, effect);
    int pair = i->mnemonic == ZYDIS_MNEMONIC_VP2INTERSECTD || i->mnemonic == ZYDIS_MNEMONIC_VP2INTERSECTQ;
    if (pair && o->id == 0)
        f(arg, (ZydisRegister)(ZYDIS_REGISTER_K0 + ((o->reg.value - ZYDIS_REGISTER_K0) ^ 1)), effect);
}

void mt_effects(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o, effect_function *f, void *arg)
{
    for (unsigned k = 0; k < i->operand_count; k++)
        if (o[k].type == ZYDIS_OPERAND_TYPE_MEMORY)
            effects_memory(i, &o[k], f, arg);
        else if (o[k].type == ZYDIS_OPERAND_TYPE_REGISTER)
            effects_register(i, &o[k], f, arg);
    effects_lacking(i, f, arg);
}

int mt_effects_untouched(const ZydisDecodedInstruction *i)
{
    switch (i->meta.category) {
    case ZYDIS_CATEGORY_NOP:
    case ZYDIS_CATEGORY_WIDENOP:
    case ZYDIS_CATEGORY_PREFETCH:
    case ZYDIS_CATEGORY_PREFETCHWT1:
        return 1;
    default:
        return i->mnemonic == ZYDIS_MNEMONIC_UD0 || i->mnemonic == ZYDIS_MNEMONIC_UD1 ||
               i->mnemonic == ZYDIS_MNEMONIC_CLDEMOTE || i->meta.isa_set == ZYDIS_ISA_SET_AVX512PF_512;
    }
}
