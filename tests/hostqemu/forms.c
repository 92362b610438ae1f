#include "forms.h"
#include <string.h>

/* ModRM: memory by a register, by registers with a scale, by the instruction's address; a register. Each with
 * all eight values of its middle field, which is a part of many opcodes. */
static const struct {
    unsigned char mod_rm, sib;
} ways[] = {{0x03, 0}, {0x44, 0x4b}, {0x05, 0}, {0xc1, 0}, {0xc4, 0}};

struct form {
    unsigned char bytes[15];
    unsigned count;
};

static void forms_byte(struct form *f, unsigned b)
{
    if (f->count < sizeof f->bytes)
        f->bytes[f->count++] = (unsigned char)b;
}

/* The opcode and what may follow it: ModRM, SIB, a displacement, an immediate. */
static void forms_opcode(const struct form *head, unsigned opcode, void (*call)(const unsigned char *))
{
    for (unsigned w = 0; w < sizeof ways / sizeof *ways; w++)
        for (unsigned middle = 0; middle < 8; middle++) {
            struct form f = *head;
            forms_byte(&f, opcode);
            forms_byte(&f, ways[w].mod_rm | middle << 3);
            if (ways[w].sib)
                forms_byte(&f, ways[w].sib);
            while (f.count < sizeof f.bytes)
                forms_byte(&f, 0x10);
            call(f.bytes);
        }
    for (unsigned last = 0xc0; last <= 0xff; last++) { /* where the whole byte is a part of the opcode */
        struct form f = *head;
        forms_byte(&f, opcode);
        forms_byte(&f, last);
        call(f.bytes);
    }
}

static void forms_legacy(void (*call)(const unsigned char *))
{
    static const unsigned char prefixes[] = {0, 0x66, 0xf2, 0xf3, 0xf0, 0x67, 0x64};
    static const char *const maps[] = {"", "\x0f", "\x0f\x38", "\x0f\x3a"};
    for (unsigned p = 0; p < sizeof prefixes; p++)
        for (unsigned rex = 0; rex < 3; rex++)
            for (unsigned m = 0; m < 4; m++)
                for (unsigned opcode = 0; opcode < 256; opcode++) {
                    struct form f = {.count = 0};
                    if (prefixes[p])
                        forms_byte(&f, prefixes[p]);
                    if (rex)
                        forms_byte(&f, rex == 1 ? 0x48 : 0x47);
                    for (const char *c = maps[m]; *c; c++)
                        forms_byte(&f, (unsigned char)*c);
                    forms_opcode(&f, opcode, call);
                }
}

static void forms_vex(void (*call)(const unsigned char *))
{
    for (unsigned map = 1; map <= 3; map++)
        for (unsigned rest = 0; rest < 32; rest++) /* W, which other register, L, prefix */
            for (unsigned opcode = 0; opcode < 256; opcode++) {
                struct form f = {.count = 0};
                forms_byte(&f, 0xc4);
                forms_byte(&f, 0xe0 | map);
                forms_byte(&f, (rest >> 4) << 7 | (rest & 8 ? 0x78 : 0x68) | (rest & 7));
                forms_opcode(&f, opcode, call);
            }
}

static void forms_evex(void (*call)(const unsigned char *))
{
    static const unsigned char last[] = {0x08, 0x09, 0x89, 0x18, 0x28, 0x29, 0x48, 0x49, 0x58};
    for (unsigned map = 1; map <= 6; map++)
        for (unsigned rest = 0; rest < 16; rest++)
            for (unsigned l = 0; l < sizeof last; l++)
                for (unsigned opcode = 0; opcode < 256; opcode++) {
                    struct form f = {.count = 0};
                    forms_byte(&f, 0x62);
                    forms_byte(&f, 0xf0 | map);
                    forms_byte(&f, (rest >> 3) << 7 | (rest & 4 ? 0x7c : 0x6c) | (rest & 3));
                    forms_byte(&f, last[l]);
                    forms_opcode(&f, opcode, call);
                }
}

void forms_each(void (*f)(const unsigned char bytes[15]))
{
    forms_legacy(f);
    forms_vex(f);
    forms_evex(f);
}
