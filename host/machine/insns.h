/* Translated instructions with the sites of their operands. */
#ifndef MT_HOST_MACHINE_INSNS_H
#define MT_HOST_MACHINE_INSNS_H
#include "../core/core.h"
#include "decode.h"

struct mt_insn;

struct mt_operand {
    struct mt_insn *insn;
    uint32_t site, size; /* size: as in mt_x86_operand */
    uint8_t parts, op;
    uint8_t last;  /* 1: the operand that qemu reports last */
    uint8_t spare; /* see struct mt_x86_operand */
};

struct mt_insn {
    struct mt_insn *older; /* other bytes at the same address (generated code) */
    struct mt_x86_insn x86;
    uint8_t bytes[15];
    uint8_t code;    /* enum mt_core_code */
    uint8_t runtime; /* code of the C library */
    uint32_t site;   /* site of operand 0; 0: none */
    uint32_t failed; /* site of operand 0 of a compare-and-swap that did not write */
    struct mt_operand operand[MT_X86_OPERANDS];
    struct mt_elements_form *elements; /* elements.h; made once, */
    int elements_known;                /* by engines that need it */
};

/* Returns the instruction with these bytes; a new one gets sites if such code is recorded. In insn mode
 * (`whole`) operand 0 is the instruction itself, followed by its memory operands. Returns NULL without
 * memory. One caller at a time. */
struct mt_insn *mt_insn_get(uint64_t ip, const uint8_t *bytes, unsigned size, int whole,
                            enum mt_core_code code);
#endif
