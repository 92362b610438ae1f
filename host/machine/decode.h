/* What an x86-64 instruction does to memory, by Zydis. Knows no engine. */
#ifndef MT_HOST_MACHINE_DECODE_H
#define MT_HOST_MACHINE_DECODE_H
#include <stdint.h>
#include "memtrace/container.h"

enum { MT_X86_OPERANDS = 3, MT_X86_NO_REG = 16 };

/* How qemu reports the accesses of one operand. */
enum mt_x86_parts {
    MT_X86_ONE,   /* one access of up to 8 bytes */
    MT_X86_WIDE,  /* adjoining accesses, ascending, of `size` bytes together (SSE, AVX, x87) */
    MT_X86_BLOCK, /* fxsave's: accesses within it, the first one lowest */
    MT_X86_EACH,  /* each access on its own: gathers, masked moves, xsave, enter's levels, iret, packed
                     decimals */
};

/* Address: segment base + base + index * scale + displacement. */
struct mt_x86_operand {
    enum mt_host_op op; /* LOAD STORE ATOMIC (any read-modify-write) CAS */
    enum mt_x86_parts parts;
    uint32_t size;  /* bytes of the operand; EACH: of an element */
    uint32_t spare; /* WIDE: bytes behind it that qemu reads as well, and the processor does not */
    uint8_t base, index, scale; /* registers 0..15 as encoded, or MT_X86_NO_REG */
    uint8_t absolute;           /* displacement is the address (rip-relative ones too) */
    uint8_t locked;             /* the whole is atomic */
    uint8_t segment;            /* FS or GS takes part: the address is not known from registers */
    int64_t displacement;
};

struct mt_x86_insn {
    uint64_t ip;
    uint8_t length,
        count;       /* count: memory operands, those that are not accessed (lea, nop, prefetch) left out */
    uint8_t call;    /* pushes its successor's address and goes elsewhere */
    uint8_t certain; /* each operand is accessed exactly once whenever the instruction completes */
    uint8_t repeats; /* rep: each iteration is an execution */
    uint16_t writes; /* general registers that it may write */
    uint8_t cas;     /* compare-and-swap: eax, or edx:eax, is compared */
    uint8_t cas_register; /* its new value's register; MT_X86_NO_REG: rcx:rbx (cmpxchg8b, cmpxchg16b) */
    struct mt_x86_operand operand[MT_X86_OPERANDS];
};

/* 0, or -1 for bytes that are not an instruction (ip is set, all else 0). */
int mt_x86_decode(struct mt_x86_insn *insn, uint64_t ip, const void *bytes, unsigned size);

struct mt_x86_words {
    char text[160];               /* Intel syntax */
    char reads[192], writes[192]; /* registers, implicit ones too; "*" after floating-point and vector ones */
};
/* The extension of x86-64 that an instruction belongs to, in Zydis's words ("AVX512F_512");
 * "" if it is not one. */
const char *mt_x86_extension(const void *bytes, unsigned size);
/* Of the same bytes. 0 or -1 as above ("(bad)"). */
int mt_x86_words(struct mt_x86_words *w, uint64_t ip, const void *bytes, unsigned size);
#endif
