/* Every form of instruction that Zydis knows: registers, operands in memory, their sizes and directions as
 * host/machine/decode.c has them are Zydis's own, but for the rows below, where Zydis 4.0 is not
 * right. A row that nothing needs any more fails, too. */
#include "decode.h"
#include "forms.h"
#include <Zydis/Zydis.h>
#include <stdio.h>
#include <string.h>

/* By Intel's and AMD's manuals. `more` is what we say beyond Zydis, "-" what we leave out; "string": the
 * pointers of its operands in memory; "pair": the other one of two masks; "memory": no access; "operands":
 * not all of them are there. */
static struct row {
    const char *mnemonic, *what, *more, *reason;
    unsigned long met;
} rows[] = {
    {"cmpsb", "writes", "string", "both pointers move", 0},
    {"cmpsw", "writes", "string", "both pointers move", 0},
    {"cmpsd", "writes", "string", "both pointers move", 0},
    {"cmpsq", "writes", "string", "both pointers move", 0},
    {"scasb", "writes", "string", "the pointer moves", 0},
    {"scasw", "writes", "string", "the pointer moves", 0},
    {"scasd", "writes", "string", "the pointer moves", 0},
    {"scasq", "writes", "string", "the pointer moves", 0},
    {"insb", "writes", "string", "the pointer moves", 0},
    {"insw", "writes", "string", "the pointer moves", 0},
    {"insd", "writes", "string", "the pointer moves", 0},
    {"outsb", "writes", "string", "the pointer moves", 0},
    {"outsw", "writes", "string", "the pointer moves", 0},
    {"outsd", "writes", "string", "the pointer moves", 0},
    {"xlat", "reads", "al", "the index", 0},
    {"adcx", "writes", "rflags", "the carry", 0},
    {"adox", "writes", "rflags", "the overflow flag is its carry", 0},
    {"cmc", "writes", "rflags", "the carry", 0},
    {"rdpru", "writes", "rflags", "carry: the register is there", 0},
    {"rstorssp", "writes", "rflags", "carry: alignment", 0},
    {"clrssbsy", "writes", "rflags", "carry: a bad token", 0},
    {"syscall", "reads", "rflags", "kept in r11", 0},
    {"saveprevssp", "reads", "rflags", "carry: alignment", 0},
    {"vzeroall", "writes", "ymm0-15", "all of them", 0},
    {"vzeroupper", "writes", "ymm0-15", "their upper halves", 0},
    {"fnsave", "reads", "st0-7", "what it saves", 0},
    {"frstor", "writes", "st0-7", "what it restores", 0},
    {"fxsave", "reads", "st0-7 xmm0-15 mxcsr", "what it saves", 0},
    {"fxsave64", "reads", "st0-7 xmm0-15 mxcsr", "what it saves", 0},
    {"fxrstor", "writes", "st0-7 xmm0-15 mxcsr", "what it restores", 0},
    {"fxrstor64", "writes", "st0-7 xmm0-15 mxcsr", "what it restores", 0},
    {"vp2intersectd", "writes", "pair", "two masks", 0},
    {"vp2intersectq", "writes", "pair", "two masks", 0},
    {"*", "reads", "-k0", "without a mask there is none", 0},
    {"ud0", "memory", "", "an exception, no access", 0},
    {"ud1", "memory", "", "an exception, no access", 0},
    {"cldemote", "memory", "", "a hint", 0},
    {"vgatherpf0dps", "memory", "", "a prefetch", 0},
    {"vgatherpf0dpd", "memory", "", "a prefetch", 0},
    {"vgatherpf0qps", "memory", "", "a prefetch", 0},
    {"vgatherpf0qpd", "memory", "", "a prefetch", 0},
    {"vgatherpf1dps", "memory", "", "a prefetch", 0},
    {"vgatherpf1dpd", "memory", "", "a prefetch", 0},
    {"vgatherpf1qps", "memory", "", "a prefetch", 0},
    {"vgatherpf1qpd", "memory", "", "a prefetch", 0},
    {"vscatterpf0dps", "memory", "", "a prefetch", 0},
    {"vscatterpf0dpd", "memory", "", "a prefetch", 0},
    {"vscatterpf0qps", "memory", "", "a prefetch", 0},
    {"vscatterpf0qpd", "memory", "", "a prefetch", 0},
    {"vscatterpf1dps", "memory", "", "a prefetch", 0},
    {"vscatterpf1dpd", "memory", "", "a prefetch", 0},
    {"vscatterpf1qps", "memory", "", "a prefetch", 0},
    {"vscatterpf1qpd", "memory", "", "a prefetch", 0},
    /* VIA's only, and a site has room for three. */
    {"xcrypt_ecb", "operands", "", "its fourth one is left out", 0},
    {"xcrypt_cbc", "operands", "", "its fourth one is left out", 0},
    {"xcrypt_ctr", "operands", "", "its fourth one is left out", 0},
    {"xcrypt_cfb", "operands", "", "its fourth one is left out", 0},
    {"xcrypt_ofb", "operands", "", "its fourth one is left out", 0},
};

typedef struct {
    unsigned char has[ZYDIS_REGISTER_MAX_VALUE + 1];
} set;

static unsigned long instructions, wrong;
static unsigned char met[ZYDIS_MNEMONIC_MAX_VALUE + 1];

static struct row *row_of(const char *mnemonic, const char *what)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].mnemonic, mnemonic) && !strcmp(rows[i].what, what))
            return &rows[i];
    return NULL;
}

static ZydisRegister forms_named(const char *name, size_t n)
{
    for (int r = 1; r <= ZYDIS_REGISTER_MAX_VALUE; r++) {
        const char *s = ZydisRegisterGetString((ZydisRegister)r);
        if (s && strlen(s) == n && !strncmp(s, name, n))
            return (ZydisRegister)r;
    }
    return ZYDIS_REGISTER_NONE;
}

/* "rax xmm0* …"; a vector register, and no other, has the mark. 0, or -1. */
static int forms_parse(const char *text, set *s)
{
    static ZydisRegister known[4096]; /* by a hash of the word; registers' names do not collide often */
    memset(s, 0, sizeof *s);
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, " "), bare = n - (n && p[n - 1] == '*');
        unsigned h = 0;
        for (size_t i = 0; i < bare; i++)
            h = h * 31 + (unsigned char)p[i];
        ZydisRegister *r = &known[h % 4096];
        const char *have = *r ? ZydisRegisterGetString(*r) : NULL;
        if (!have || strlen(have) != bare || strncmp(have, p, bare))
            *r = forms_named(p, bare);
        if (!*r || s->has[*r]++)
            return -1;
        ZydisRegisterClass c = ZydisRegisterGetClass(*r);
        int vector = c == ZYDIS_REGCLASS_X87 || c == ZYDIS_REGCLASS_MMX || c == ZYDIS_REGCLASS_XMM ||
                     c == ZYDIS_REGCLASS_YMM || c == ZYDIS_REGCLASS_ZMM || c == ZYDIS_REGCLASS_MASK;
        int control = *r == ZYDIS_REGISTER_MXCSR || *r == ZYDIS_REGISTER_X87CONTROL ||
                      *r == ZYDIS_REGISTER_X87STATUS || *r == ZYDIS_REGISTER_X87TAG;
        if ((bare != n) != (vector || control))
            return -1;
        p += n + (p[n] == ' ');
    }
    return 0;
}

static void forms_include(set *s, ZydisRegister r, int condition)
{
    if (r != ZYDIS_REGISTER_NONE && condition)
        s->has[r] = 1;
}

/* The row's registers. */
static void forms_extend(set *s, const struct row *row, const ZydisDecodedInstruction *i,
                         const ZydisDecodedOperand *o)
{
    if (!strcmp(row->more, "-k0"))
        s->has[ZYDIS_REGISTER_K0] = 0;
    for (int k = 0; k < i->operand_count && !strcmp(row->more, "string"); k++)
        forms_include(s, o[k].mem.base, o[k].type == ZYDIS_OPERAND_TYPE_MEMORY);
    if (!strcmp(row->more, "pair"))
        s->has[ZYDIS_REGISTER_K0 + ((o[0].reg.value - ZYDIS_REGISTER_K0) ^ 1)] = 1;
    for (int r = 0; r < 8 && strstr(row->more, "st0-7"); r++)
        s->has[ZYDIS_REGISTER_ST0 + r] = 1;
    for (int r = 0; r < 16 && strstr(row->more, "mm0-15"); r++)
        s->has[(strstr(row->more, "ymm") ? ZYDIS_REGISTER_YMM0 : ZYDIS_REGISTER_XMM0) + r] = 1;
    forms_include(s, ZYDIS_REGISTER_MXCSR, strstr(row->more, "mxcsr") != NULL);
    forms_include(s, ZYDIS_REGISTER_RFLAGS, strstr(row->more, "rflags") != NULL);
    forms_include(s, ZYDIS_REGISTER_AL, !strcmp(row->more, "al"));
}

static void forms_complain(const char *what, const struct mt_x86_words *w, const unsigned char *bytes,
                           unsigned length)
{
    if (++wrong > 40)
        return;
    printf("%s: '%s' reads '%s' writes '%s':", what, w->text, w->reads, w->writes);
    for (unsigned i = 0; i < length; i++)
        printf(" %02x", bytes[i]);
    putchar('\n');
}

/* 0 if `mine` is Zydis's, or the row's. */
static int forms_differ(const char *what, const set *mine, set *zydis, const ZydisDecodedInstruction *i,
                        const ZydisDecodedOperand *o)
{
    const char *const name[] = {ZydisMnemonicGetString(i->mnemonic), "*"};
    for (unsigned k = 0; k < 2; k++) {
        struct row *row = row_of(name[k], what);
        /* Where a mask is an operand like others (kandw k1, k0, k2) k0 is a register. */
        if (!row || (k && (i->encoding != ZYDIS_INSTRUCTION_ENCODING_EVEX || !zydis->has[ZYDIS_REGISTER_K0] ||
                           mine->has[ZYDIS_REGISTER_K0])))
            continue;
        set before = *zydis;
        if (!strcmp(row->more, "string") && i->meta.category != ZYDIS_CATEGORY_STRINGOP &&
            i->meta.category != ZYDIS_CATEGORY_IOSTRINGOP)
            continue; /* SSE's cmpsd */
        forms_extend(zydis, row, i, o);
        row->met += memcmp(&before, zydis, sizeof before) != 0;
    }
    return memcmp(mine, zydis, sizeof *mine) != 0;
}

static int forms_untouched(const ZydisDecodedInstruction *i)
{
    struct row *row = row_of(ZydisMnemonicGetString(i->mnemonic), "memory");
    if (row)
        row->met++;
    return row || i->meta.category == ZYDIS_CATEGORY_NOP || i->meta.category == ZYDIS_CATEGORY_WIDENOP ||
           i->meta.category == ZYDIS_CATEGORY_PREFETCH || i->meta.category == ZYDIS_CATEGORY_PREFETCHWT1;
}

static unsigned forms_number(ZydisRegister r)
{
    ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r);
    return whole >= ZYDIS_REGISTER_RAX && whole <= ZYDIS_REGISTER_R15 ? (unsigned)(whole - ZYDIS_REGISTER_RAX)
                                                                      : MT_X86_NO_REG;
}

/* xsave and its kin, whose read of the header is an operand of its own for us. */
static int forms_saves(const ZydisDecodedInstruction *i)
{
    const char *name = ZydisMnemonicGetString(i->mnemonic);
    return !strncmp(name, "xsave", 5) && strncmp(name, "xsaves", 6) != 0;
}

static int same_operand(const struct mt_x86_operand *m, const ZydisDecodedInstruction *i,
                        const ZydisDecodedOperand *o)
{
    int r = (o->actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0,
        w = (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
    int cas = !strncmp(ZydisMnemonicGetString(i->mnemonic), "cmpxchg", 7);
    enum mt_host_op op = cas              ? MT_HOST_CAS
                         : forms_saves(i) ? MT_HOST_STORE
                         : r && w         ? MT_HOST_ATOMIC
                         : w              ? MT_HOST_STORE
                                          : MT_HOST_LOAD;
    unsigned size = m->parts == MT_X86_EACH ? o->element_size : o->size;
    int rip = o->mem.base == ZYDIS_REGISTER_RIP || o->mem.base == ZYDIS_REGISTER_EIP;
    int64_t displacement = o->mem.disp.has_displacement ? o->mem.disp.value : 0;
    if (m->op != op || m->size != size / 8 || m->base != forms_number(o->mem.base) ||
        m->index != forms_number(o->mem.index) ||
        m->segment != (o->mem.segment == ZYDIS_REGISTER_FS || o->mem.segment == ZYDIS_REGISTER_GS))
        return 0;
    if (m->index != MT_X86_NO_REG && m->scale != o->mem.scale)
        return 0;
    return rip ? m->absolute &&
                     m->displacement == (o->mem.base == ZYDIS_REGISTER_RIP
                                             ? (int64_t)(0x1000 + i->length + displacement)
                                             : (int64_t)(uint32_t)(0x1000 + i->length + displacement))
               : m->displacement == displacement || m->absolute;
}

/* Two operands in memory, of which the first one is written and the second one read: ours are in that order
 * in which the processor comes to them. */
static int forms_turned(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o)
{
    const ZydisDecodedOperand *m[2] = {NULL, NULL};
    unsigned n = 0;
    for (int k = 0; k < i->operand_count; k++)
        if (o[k].type == ZYDIS_OPERAND_TYPE_MEMORY && o[k].actions && o[k].mem.type != ZYDIS_MEMOP_TYPE_AGEN)
            m[n++ & 1] = &o[k];
    return n == 2 && !(m[0]->actions & ZYDIS_OPERAND_ACTION_MASK_READ) &&
           !(m[1]->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE);
}

static int same_memory(const struct mt_x86_insn *mine, const ZydisDecodedInstruction *i,
                       const ZydisDecodedOperand *o)
{
    unsigned n = 0, turned = (unsigned)forms_turned(i, o);
    for (int k = 0; k < i->operand_count; k++) {
        if (o[k].type != ZYDIS_OPERAND_TYPE_MEMORY || !o[k].actions ||
            o[k].mem.type == ZYDIS_MEMOP_TYPE_AGEN || forms_untouched(i))
            continue;
        struct row *row =
            n == MT_X86_OPERANDS ? row_of(ZydisMnemonicGetString(i->mnemonic), "operands") : NULL;
        if (row) {
            row->met++;
            continue;
        }
        if (n >= mine->count || !same_operand(&mine->operand[n++ ^ turned], i, &o[k]))
            return 0;
    }
    /* enter's reads of older frames: no operand of Zydis */
    int levels = i->mnemonic == ZYDIS_MNEMONIC_ENTER && i->raw.imm[1].value.u >= 2;
    return n + (levels || forms_saves(i)) == mine->count;
}

static void forms_check(const unsigned char *bytes)
{
    static ZydisDecoder d;
    ZydisDecodedInstruction i;
    ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
    static set reads, writes, r, w;
    struct mt_x86_insn insn;
    struct mt_x86_words words;
    if (!d.machine_mode)
        ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    int ok = ZYAN_SUCCESS(ZydisDecoderDecodeFull(&d, bytes, 15, &i, o));
    if (ok != (mt_x86_decode(&insn, 0x1000, bytes, 15) == 0)) {
        memset(&words, 0, sizeof words);
        forms_complain("is an instruction for one only", &words, bytes, 15);
    }
    if (!ok)
        return;
    instructions++;
    met[i.mnemonic] = 1;
    mt_x86_words(&words, 0x1000, bytes, 15);
    memset(&r, 0, sizeof r);
    memset(&w, 0, sizeof w);
    for (int k = 0; k < i.operand_count; k++)
        if (o[k].type == ZYDIS_OPERAND_TYPE_MEMORY) {
            forms_include(&r, o[k].mem.base, 1);
            forms_include(&r, o[k].mem.index, 1);
            forms_include(&r, o[k].mem.segment,
                          o[k].mem.segment == ZYDIS_REGISTER_FS || o[k].mem.segment == ZYDIS_REGISTER_GS);
        } else if (o[k].type == ZYDIS_OPERAND_TYPE_REGISTER) {
            forms_include(&r, o[k].reg.value, (o[k].actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0);
            forms_include(&w, o[k].reg.value, (o[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0);
        }
    if (forms_parse(words.reads, &reads) || forms_parse(words.writes, &writes))
        forms_complain("a register twice, unknown, or with the wrong mark", &words, bytes, i.length);
    if (forms_differ("reads", &reads, &r, &i, o))
        forms_complain("reads", &words, bytes, i.length);
    if (forms_differ("writes", &writes, &w, &i, o))
        forms_complain("writes", &words, bytes, i.length);
    unsigned general = 0;
    for (int k = 0; k <= ZYDIS_REGISTER_MAX_VALUE; k++)
        if (writes.has[k] && forms_number((ZydisRegister)k) != MT_X86_NO_REG)
            general |= 1u << forms_number((ZydisRegister)k);
    if (general != insn.writes)
        forms_complain("general registers", &words, bytes, i.length);
    if (insn.length != i.length || !same_memory(&insn, &i, o))
        forms_complain("memory", &words, bytes, i.length);
}

int main(void)
{
    unsigned mnemonics = 0, stale = 0;
    forms_each(forms_check);
    for (int m = 1; m <= ZYDIS_MNEMONIC_MAX_VALUE; m++)
        mnemonics += met[m];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!rows[i].met) {
            printf("the row %s %s %s (%s) is not needed\n", rows[i].mnemonic, rows[i].what, rows[i].more,
                   rows[i].reason);
            stale++;
        }
    printf("%lu forms of %u of Zydis's %u mnemonics, %lu wrong\n", instructions, mnemonics,
           ZYDIS_MNEMONIC_MAX_VALUE, wrong);
    return wrong || stale || instructions < 1000000 || mnemonics < 1400;
}
