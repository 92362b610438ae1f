/* Memory accesses of an x86-64 instruction, by Zydis. */
#include "decode.h"

#include <Zydis/Zydis.h>
#include <stdio.h>
#include <string.h>

enum { MT_EFFECT_READ = 1, MT_EFFECT_WRITE = 2 };

/* Registers that an instruction reads and writes: Zydis's operands, and those that version 4.0 lacks. */

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

/* Calls f for each register, perhaps several times. Registers of an address count as read. A register
 * written in part or conditionally does not count as read. */
static void effects(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o, effect_function *f,
                    void *arg)
{
    for (unsigned k = 0; k < i->operand_count; k++)
        if (o[k].type == ZYDIS_OPERAND_TYPE_MEMORY)
            effects_memory(i, &o[k], f, arg);
        else if (o[k].type == ZYDIS_OPERAND_TYPE_REGISTER)
            effects_register(i, &o[k], f, arg);
    effects_lacking(i, f, arg);
}

/* Returns 1 if the instruction names memory but does not access it. */
static int effects_untouched(const ZydisDecodedInstruction *i)
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

static int decode_one(ZydisDecodedInstruction *i, ZydisDecodedOperand *o, const void *bytes, unsigned size)
{
    ZydisDecoder d;
    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&d, bytes, size, i, o)) ? 0 : -1;
}

static uint8_t decode_general(ZydisRegister r)
{
    ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r);
    if (r == ZYDIS_REGISTER_NONE || ZydisRegisterGetClass(whole) != ZYDIS_REGCLASS_GPR64)
        return MT_X86_NO_REG;
    return (uint8_t)ZydisRegisterGetId(whole);
}

static int decode_accessed(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o)
{
    return o->type == ZYDIS_OPERAND_TYPE_MEMORY && o->actions != 0 && o->mem.type != ZYDIS_MEMOP_TYPE_AGEN &&
           !effects_untouched(i);
}

static int compares_and_swaps(const ZydisDecodedInstruction *i)
{
    return i->mnemonic == ZYDIS_MNEMONIC_CMPXCHG || i->mnemonic == ZYDIS_MNEMONIC_CMPXCHG8B ||
           i->mnemonic == ZYDIS_MNEMONIC_CMPXCHG16B;
}

static int decode_repeats(const ZydisDecodedInstruction *i)
{
    return (i->attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE)) != 0;
}

static int decode_saves(const ZydisDecodedInstruction *i)
{
    switch (i->mnemonic) {
    case ZYDIS_MNEMONIC_XSAVE:
    case ZYDIS_MNEMONIC_XSAVE64:
    case ZYDIS_MNEMONIC_XSAVEC:
    case ZYDIS_MNEMONIC_XSAVEC64:
    case ZYDIS_MNEMONIC_XSAVEOPT:
    case ZYDIS_MNEMONIC_XSAVEOPT64:
        return 1;
    default:
        return 0;
    }
}

static enum mt_host_op decode_op_of(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o)
{
    int reads = (o->actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
    int writes = (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
    if (compares_and_swaps(i))
        return MT_HOST_CAS;
    if (decode_saves(i))
        return MT_HOST_STORE;
    return reads && writes ? MT_HOST_ATOMIC : writes ? MT_HOST_STORE : MT_HOST_LOAD;
}

static int masked_store(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o)
{
    if (!(o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
        return 0; /* qemu reads all of a masked load */
    switch (i->mnemonic) {
    case ZYDIS_MNEMONIC_MASKMOVDQU:
    case ZYDIS_MNEMONIC_MASKMOVQ:
    case ZYDIS_MNEMONIC_VMASKMOVDQU:
    case ZYDIS_MNEMONIC_VMASKMOVPS:
    case ZYDIS_MNEMONIC_VMASKMOVPD:
    case ZYDIS_MNEMONIC_VPMASKMOVD:
    case ZYDIS_MNEMONIC_VPMASKMOVQ:
        return 1;
    default:
        return 0;
    }
}

/* Returns the excess bytes that qemu 7.2 reads: a whole vector for instructions that read a part of
 * `bytes` bytes. */
static uint32_t decode_spare(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o, unsigned bytes)
{
    switch (i->mnemonic) {
    case ZYDIS_MNEMONIC_CVTDQ2PD:
    case ZYDIS_MNEMONIC_VCVTDQ2PD:
        return bytes;
    case ZYDIS_MNEMONIC_VPSLLW:
    case ZYDIS_MNEMONIC_VPSLLD:
    case ZYDIS_MNEMONIC_VPSLLQ:
    case ZYDIS_MNEMONIC_VPSRLW:
    case ZYDIS_MNEMONIC_VPSRLD:
    case ZYDIS_MNEMONIC_VPSRLQ:
    case ZYDIS_MNEMONIC_VPSRAW:
    case ZYDIS_MNEMONIC_VPSRAD:
        return o[0].size == 256 && bytes == 16 ? 16 : 0; /* the count */
    default:
        return i->meta.isa_set == ZYDIS_ISA_SET_FMA && bytes <= 8 ? 16 - bytes : 0;
    }
}

/* Returns 1 for several accesses that the operand does not describe: by mask, levels, words, digits. */
static int decode_scattered(const ZydisDecodedInstruction *i)
{
    switch (i->mnemonic) {
    case ZYDIS_MNEMONIC_FBLD:
    case ZYDIS_MNEMONIC_FBSTP:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_XRSTOR:
    case ZYDIS_MNEMONIC_XRSTOR64:
        return 1;
    case ZYDIS_MNEMONIC_ENTER:
        return i->raw.imm[1].value.u != 0;
    default:
        return decode_saves(i);
    }
}

static enum mt_x86_parts parts_of(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o,
                                  uint32_t spare)
{
    if (o->mem.type == ZYDIS_MEMOP_TYPE_VSIB || masked_store(i, o) || decode_scattered(i))
        return MT_X86_EACH;
    unsigned bytes = o->size / 8u;
    if (spare)
        return MT_X86_WIDE;
    return bytes <= 8 ? MT_X86_ONE : bytes == 10 || bytes == 16 || bytes == 32 ? MT_X86_WIDE : MT_X86_BLOCK;
}

/* Fills in the k-th operand. */
static void decode_fill(struct mt_x86_operand *m, const ZydisDecodedInstruction *i,
                        const ZydisDecodedOperand *all, unsigned k, uint64_t ip)
{
    const ZydisDecodedOperand *o = &all[k];
    m->op = decode_op_of(i, o);
    m->spare = decode_spare(i, all, o->size / 8u);
    m->parts = parts_of(i, o, m->spare);
    m->size = (m->parts == MT_X86_EACH ? o->element_size : o->size) / 8u;
    m->segment = o->mem.segment == ZYDIS_REGISTER_FS || o->mem.segment == ZYDIS_REGISTER_GS;
    m->base = decode_general(o->mem.base);
    m->index = decode_general(o->mem.index);
    m->scale = o->mem.scale;
    m->displacement = o->mem.disp.has_displacement ? o->mem.disp.value : 0;
    ZyanU64 absolute;
    if (o->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT && m->base == MT_X86_NO_REG &&
        m->index == MT_X86_NO_REG && ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(i, o, ip, &absolute))) {
        m->absolute = 1;
        m->displacement = (int64_t)absolute;
    }
}

/* Sorts operands in the manual's order, but reads before writes: movs, and pop into memory. */
static void decode_order(struct mt_x86_insn *insn)
{
    if (insn->count != 2 || insn->operand[0].op != MT_HOST_STORE || insn->operand[1].op != MT_HOST_LOAD)
        return;
    struct mt_x86_operand written = insn->operand[0];
    insn->operand[0] = insn->operand[1];
    insn->operand[1] = written;
}

/* Adds reads without an operand in Zydis: older frames' pointers of enter with two levels or more; xsave's
 * header. */
static void decode_reads(struct mt_x86_insn *insn, const ZydisDecodedInstruction *i)
{
    int levels = i->mnemonic == ZYDIS_MNEMONIC_ENTER && i->raw.imm[1].value.u >= 2;
    if (insn->count != 1 || (!levels && !decode_saves(i)))
        return;
    insn->operand[1] = insn->operand[0];
    insn->operand[1].op = MT_HOST_LOAD;
    insn->count = 2;
}

static void decode_changes(void *insn, ZydisRegister r, unsigned effect)
{
    if ((effect & MT_EFFECT_WRITE) && decode_general(r) != MT_X86_NO_REG)
        ((struct mt_x86_insn *)insn)->writes |= (uint16_t)(1u << decode_general(r));
}

int mt_x86_decode(struct mt_x86_insn *insn, uint64_t ip, const void *bytes, unsigned size)
{
    ZydisDecodedInstruction i;
    ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
    memset(insn, 0, sizeof *insn);
    insn->ip = ip;
    if (decode_one(&i, o, bytes, size) != 0)
        return -1;
    insn->length = i.length;
    insn->call = i.meta.category == ZYDIS_CATEGORY_CALL;
    insn->cas = (uint8_t)compares_and_swaps(&i);
    insn->cas_register = MT_X86_NO_REG;
    insn->repeats = (uint8_t)decode_repeats(&i);
    insn->certain = !insn->repeats;
    effects(&i, o, decode_changes, insn);
    for (unsigned k = 0; k < i.operand_count; k++) {
        if (decode_accessed(&i, &o[k]) && insn->count < MT_X86_OPERANDS) {
            struct mt_x86_operand *m = &insn->operand[insn->count++];
            decode_fill(m, &i, o, k, ip);
            m->locked = (i.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0 || i.mnemonic == ZYDIS_MNEMONIC_XCHG;
            if (m->parts == MT_X86_EACH || m->parts == MT_X86_BLOCK)
                insn->certain = 0;
        }
        if (i.mnemonic == ZYDIS_MNEMONIC_CMPXCHG && k == 1 && o[k].type == ZYDIS_OPERAND_TYPE_REGISTER)
            insn->cas_register = decode_general(o[k].reg.value);
    }
    decode_order(insn);
    decode_reads(insn, &i);
    return 0;
}

static int decode_vector(ZydisRegister r)
{
    switch (ZydisRegisterGetClass(r)) {
    case ZYDIS_REGCLASS_X87:
    case ZYDIS_REGCLASS_MMX:
    case ZYDIS_REGCLASS_XMM:
    case ZYDIS_REGCLASS_YMM:
    case ZYDIS_REGCLASS_ZMM:
    case ZYDIS_REGCLASS_MASK:
        return 1;
    default: /* control and status */
        return r == ZYDIS_REGISTER_MXCSR || r == ZYDIS_REGISTER_X87CONTROL || r == ZYDIS_REGISTER_X87STATUS ||
               r == ZYDIS_REGISTER_X87TAG;
    }
}

static void decode_add(char *list, size_t size, ZydisRegister r)
{
    const char *name = ZydisRegisterGetString(r);
    char word[24];
    size_t have = strlen(list), n;
    if (r == ZYDIS_REGISTER_NONE || !name)
        return;
    n = (size_t)snprintf(word, sizeof word, "%s%s", name, decode_vector(r) ? "*" : "");
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0))
            return;
    if (have + n + 2 <= size)
        snprintf(list + have, size - have, "%s%s", have ? " " : "", word);
}

static void decode_name(void *words, ZydisRegister r, unsigned effect)
{
    struct mt_x86_words *w = words;
    if (effect & MT_EFFECT_READ)
        decode_add(w->reads, sizeof w->reads, r);
    if (effect & MT_EFFECT_WRITE)
        decode_add(w->writes, sizeof w->writes, r);
}

int mt_x86_words(struct mt_x86_words *w, uint64_t ip, const void *bytes, unsigned size)
{
    ZydisDecodedInstruction i;
    ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
    ZydisFormatter f;
    memset(w, 0, sizeof *w);
    if (decode_one(&i, o, bytes, size) != 0) {
        strcpy(w->text, "(bad)");
        return -1;
    }
    ZydisFormatterInit(&f, ZYDIS_FORMATTER_STYLE_INTEL);
    ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE, ZYDIS_PADDING_DISABLED);
    ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_DISP_PADDING, ZYDIS_PADDING_DISABLED);
    ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_IMM_PADDING, ZYDIS_PADDING_DISABLED);
    ZydisFormatterFormatInstruction(&f, &i, o, i.operand_count_visible, w->text, sizeof w->text, ip, NULL);
    effects(&i, o, decode_name, w);
    return 0;
}

const char *mt_x86_extension(const void *bytes, unsigned size)
{
    ZydisDecodedInstruction i;
    ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
    return decode_one(&i, o, bytes, size) == 0 ? ZydisISASetGetString(i.meta.isa_set) : "";
}
