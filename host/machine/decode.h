/* Memory accesses of an x86-64 instruction, by Zydis. Knows no engine. */
#ifndef MT_HOST_MACHINE_DECODE_H
#define MT_HOST_MACHINE_DECODE_H
#include <stdint.h>
#include "memtrace/container.h"

enum { MT_X86_OPERANDS = 3, MT_X86_NO_REG = 16 };

/* Ways in which qemu reports the accesses of one operand. */
enum mt_x86_parts {
    MT_X86_ONE,   /* one access of up to 8 bytes */
    MT_X86_WIDE,  /* adjacent accesses, ascending, of `size` bytes in all (SSE, AVX, x87) */
    MT_X86_BLOCK, /* fxsave: accesses within it, the first one lowest */
    MT_X86_EACH,  /* separate accesses: gathers, masked moves, xsave, enter's levels, iret, packed decimals */
};

/* Address: segment base + base + index * scale + displacement. */
struct mt_x86_operand {
    enum mt_host_op op; /* LOAD STORE ATOMIC (any read-modify-write) CAS */
    enum mt_x86_parts parts;
    uint32_t size;              /* bytes of the operand; EACH: of an element */
    uint32_t spare;             /* WIDE: bytes after it that qemu reads and the processor does not */
    uint8_t base, index, scale; /* registers 0..15 as encoded, or MT_X86_NO_REG */
    uint8_t absolute;           /* the displacement is the address (also for rip-relative ones) */
    uint8_t locked;             /* the whole access is atomic */
    uint8_t segment;            /* uses FS or GS: registers alone do not give the address */
    int64_t displacement;
};

struct mt_x86_insn {
    uint64_t ip;
    uint8_t length, count; /* memory operands, without those not accessed (lea, nop, prefetch) */
    uint8_t call;          /* pushes the address after it and jumps */
    uint8_t certain;       /* each operand is accessed exactly once if the instruction completes */
    uint8_t repeats;       /* rep: each iteration is an execution */
    uint16_t writes;       /* general registers that it may write */
    uint8_t cas;           /* compare-and-swap: compares eax, or edx:eax */
    uint8_t cas_register;  /* register of the new value; MT_X86_NO_REG: rcx:rbx (cmpxchg8b, cmpxchg16b) */
    struct mt_x86_operand operand[MT_X86_OPERANDS];
};

/* Returns 0, or -1 if the bytes are not an instruction (ip is set, the rest 0). */
int mt_x86_decode(struct mt_x86_insn *insn, uint64_t ip, const void *bytes, unsigned size);

struct mt_x86_words {
    char text[160];               /* Intel syntax */
    char reads[192], writes[192]; /* registers, also implicit ones; "*" after floating-point and vector
                                   * registers */
};
/* Returns the x86-64 extension of an instruction by Zydis's name ("AVX512F_512"), or "" if it is not one. */
const char *mt_x86_extension(const void *bytes, unsigned size);
/* Disassembles the same bytes. Returns 0 or -1 as above ("(bad)"). */
int mt_x86_words(struct mt_x86_words *w, uint64_t ip, const void *bytes, unsigned size);
#endif
