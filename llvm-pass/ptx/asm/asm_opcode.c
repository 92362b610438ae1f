/* The table of opcodes: the functions that lower statements, and properties of statements. */
#include "asm_lower.h"
#include <string.h>

#define SELECTS MT_ASM_SELECTS
#define PURE MT_ASM_PURE
#define VALUE (SELECTS | PURE)
#define NATIVE MT_ASM_NATIVE
#define NATIVE_FLOAT MT_ASM_NATIVE_FLOAT
#define NATIVE_BOTH (NATIVE | NATIVE_FLOAT)
#define FLUSHES MT_ASM_FLUSHES
#define BITS MT_ASM_BITS
#define NO_RESULT MT_ASM_NO_RESULT
#define SHARED MT_ASM_SHARED
static const struct opcode {
    const char *word;
    mt_asm_lowering *integers, *floats;
    unsigned flags;
} opcodes[] = {
#define OPCODE(word, function, flags) {word, function, function, flags},
#define TYPED(word, integers, floats, flags) {word, integers, floats, flags},
#define INTEGERS(word, function, flags) {word, function, NULL, flags},
#define FLOATS(word, function, flags) {word, NULL, function, flags},
#define BUILTIN(word, flags) {word, NULL, NULL, flags},
#define TOUCH(word, modifier, effect, record)
#include "opcodes.def"
};

static const struct opcode *opcode_find(const struct mt_asm_statement *s)
{
    const char *word = s->parts[0];
    for (const struct opcode *o = opcodes; o < opcodes + sizeof opcodes / sizeof *opcodes; o++)
        if (*o->word == *word && !strcmp(o->word, word))
            return o;
    return NULL;
}

mt_asm_lowering *mt_asm_find_lowering(const struct mt_asm_statement *s)
{
    const struct opcode *o = opcode_find(s);
    struct mt_asm_type t;
    if (!o || o->integers == o->floats)
        return o ? o->integers : NULL;
    return mt_asm_type(s->parts[s->nparts - 1], &t) && strchr("fgt", t.kind) ? o->floats : o->integers;
}

int mt_asm_is(const struct mt_asm_statement *s, enum mt_asm_flag flag)
{
    const struct opcode *o = opcode_find(s);
    return o && o->flags & flag;
}
