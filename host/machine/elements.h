/* The elements of memory that one execution of an instruction touches, where its operands alone do not say
 * it: gathers, scatters, masked moves and anything under a mask of AVX-512, compressing and expanding ones,
 * strings of bits, enter, xsave and its like.
 * Knows no engine. Rules: Intel SDM vol. 2 (VPGATHERDD, VMASKMOV, VPCOMPRESSD; vol. 1, 15.6 on masked
 * faults). */
#ifndef MT_HOST_MACHINE_ELEMENTS_H
#define MT_HOST_MACHINE_ELEMENTS_H
#include <stdint.h>

enum { MT_ELEMENTS_MAX = 64 };

/* Before the instruction. */
struct mt_elements_registers {
    uint64_t general[16];   /* as encoded */
    uint64_t mask[8];       /* k0 to k7 */
    uint8_t vector[32][64]; /* xmm, ymm, zmm: the lowest bytes */
    uint64_t segment;       /* base of FS or GS, if the instruction has one */
    uint64_t ip;            /* of the instruction */
    /* `bytes` at an address that may not be there: 0, or -1. */
    int (*read)(uint64_t address, void *to, unsigned bytes);
};

struct mt_element {
    uint64_t address;
    uint32_t size; /* bytes */
};

/* An instruction of that kind, decoded; by free() when it is not needed any more. NULL: what it touches
 * is what its operands say, or there is no memory. */
struct mt_elements_form;
struct mt_elements_form *mt_elements_form(const void *bytes, unsigned size);
/* What is touched, in the order of the elements' numbers: of a gather or scatter each element, of others each
 * run of neighbours. Their count, 0 when the mask leaves none. */
unsigned mt_elements(const struct mt_elements_form *form, const struct mt_elements_registers *r,
                     struct mt_element e[MT_ELEMENTS_MAX]);
#endif
