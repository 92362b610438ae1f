/* Memory elements touched by one execution of an instruction whose operands alone do not tell: gathers,
 * scatters, masked moves and all else under an AVX-512 mask, compressing and expanding moves, bit strings,
 * enter, xsave and the like. Knows no engine. Rules: Intel SDM vol. 2 (VPGATHERDD, VMASKMOV, VPCOMPRESSD;
 * vol. 1, 15.6 on masked faults). */
#ifndef MT_HOST_MACHINE_ELEMENTS_H
#define MT_HOST_MACHINE_ELEMENTS_H
#include <stdint.h>

enum { MT_ELEMENTS_MAX = 64 };

/* Register values before the instruction. */
struct mt_elements_registers {
    uint64_t general[16];   /* as encoded */
    uint64_t mask[8];       /* k0 to k7 */
    uint8_t vector[32][64]; /* xmm, ymm, zmm: lowest bytes first */
    uint64_t segment;       /* base of FS or GS, if used */
    uint64_t ip;            /* address of the instruction */
    /* Reads `bytes` from an address that may not exist. Returns 0 or -1. */
    int (*read)(uint64_t address, void *to, unsigned bytes);
};

struct mt_element {
    uint64_t address;
    uint32_t size; /* bytes of the element */
};

/* Decodes an instruction of that kind; the caller frees the result. Returns NULL if its operands tell all
 * that it touches, or without memory. */
struct mt_elements_form;
struct mt_elements_form *mt_elements_form(const void *bytes, unsigned size);
/* Lists the touched memory by element number: each element of a gather or scatter, else each run of
 * neighbours. Returns their number, 0 if the mask leaves none. */
unsigned mt_elements(const struct mt_elements_form *form, const struct mt_elements_registers *r,
                     struct mt_element e[MT_ELEMENTS_MAX]);
#endif
