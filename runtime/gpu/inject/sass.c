/* Opcodes in a GPU's machine code (sass.def). */
#include "sass.h"
#include <stdio.h>
#include <string.h>

enum { NONE = -1 };

/* Numbers of the rows of patch.def. */
enum {
#define MT_PATCH(instruction, number, function, what, since) ROW_##instruction,
#include "gpu/patch/patch.def"
    ROWS
};
#define ROW_NONE NONE
_Static_assert(ROWS <= 64, "a bit for each row");

static const int row_since[] = {
#define MT_PATCH(instruction, number, function, what, since) since,
#include "gpu/patch/patch.def"
};

static const struct {
    const char *name;
    uint16_t opcode;
    int row;
} sass_kinds[] = {
#define MT_SASS(name, opcode, row) {#name, opcode, ROW_##row},
#include "sass.def"
};
enum { KINDS = sizeof sass_kinds / sizeof *sass_kinds };
_Static_assert(KINDS <= MT_SASS_KINDS, "a bit for each kind");

/* Bits 0 to 8 of opcodes. Loads have their memory order in bits 77 to 80 of the instruction. */
enum {
    OPCODES = 1 << 9,
    OP_CALL_ABSOLUTE = 0x143,
    OP_CALL_RELATIVE = 0x144,
    OP_LOAD = 0x180,        /* LD */
    OP_LOAD_GLOBAL = 0x181, /* LDG */
    OP_LOAD_WIDE = 0x17e,   /* LDG of 256 bits */
    OP_ATOMIC = 0x18a,      /* ATOM */
    OP_SWAP = 0x18b,        /* ATOM.CAS */
    OP_FLOAT = 0x1a2,       /* ATOM.ADD of floating-point numbers */
    OP_FLOAT_GLOBAL = 0x1a3,
    OP_ATOMIC_GLOBAL = 0x1a8, /* ATOMG */
    OP_SWAP_GLOBAL = 0x1a9,
    OP_CANCEL = 0x1ca, /* UGETNEXTWORKID */
    LEAST_STRONG =
        5 /* weak and constant ones are 0 and 4 from sm_80 on; on sm_75, where weak is 7, all count */
};

static uint32_t sass_of_opcode(unsigned opcode)
{
    uint32_t facts = 0;
    for (unsigned i = 0; i < KINDS; i++)
        facts |= sass_kinds[i].opcode == opcode ? 1u << i : 0;
    switch (opcode) {
    case OP_CALL_ABSOLUTE:
    case OP_CALL_RELATIVE:
        return MT_SASS_CALLS;
    case OP_ATOMIC:
    case OP_SWAP:
    case OP_FLOAT:
    case OP_FLOAT_GLOBAL:
    case OP_ATOMIC_GLOBAL:
    case OP_SWAP_GLOBAL:
        return MT_SASS_POLLS;
    case OP_CANCEL:
        return MT_SASS_CANCELS;
    default:
        return facts;
    }
}

static uint32_t sass_of_load(const uint8_t *at)
{
    uint64_t high;
    memcpy(&high, at + 8, sizeof high);
    return (high >> 13 & 15) >= LEAST_STRONG ? MT_SASS_POLLS : 0;
}

uint32_t mt_sass_scan(const uint8_t *code, uint64_t bytes)
{
    uint8_t seen[OPCODES] = {0};
    uint32_t facts = 0;
    for (; bytes >= 16; code += 16, bytes -= 16) {
        unsigned opcode = (code[0] | (unsigned)code[1] << 8) & (OPCODES - 1);
        seen[opcode] = 1;
        if (opcode == OP_LOAD || opcode == OP_LOAD_GLOBAL || opcode == OP_LOAD_WIDE)
            facts |= sass_of_load(code);
    }
    for (unsigned i = 0; i < OPCODES; i++)
        facts |= seen[i] ? sass_of_opcode(i) : 0;
    return facts;
}

uint32_t mt_sass_unseen(uint64_t refused)
{
    uint32_t kinds = 0;
    for (unsigned i = 0; i < KINDS; i++)
        if (sass_kinds[i].row == NONE || refused >> sass_kinds[i].row & 1)
            kinds |= 1u << i;
    return kinds;
}

const char *mt_sass_names(uint32_t kinds, char *out, size_t size)
{
    const char *last = "";
    size_t at = 0;
    *out = 0;
    for (unsigned i = 0; i < KINDS && at < size; i++)
        if (kinds >> i & 1 && strcmp(last, sass_kinds[i].name)) {
            at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", sass_kinds[i].name);
            last = sass_kinds[i].name;
        }
    return out;
}

int mt_sass_since(uint32_t kinds)
{
    int since = 0;
    for (unsigned i = 0; i < KINDS; i++) {
        int row = kinds >> i & 1 ? sass_kinds[i].row : ROWS;
        if (row == NONE)
            return 0;
        if (row < ROWS && row_since[row] > since)
            since = row_since[row];
    }
    return since;
}
