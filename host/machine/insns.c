/* Translated instructions with the sites of their operands. */
#include "insns.h"
#include "map.h"
#include <stdlib.h>
#include <string.h>

static struct mt_guest_map known; /* ip -> newest instruction */

static void insns_define(struct mt_insn *n, int whole)
{
    struct mt_core_site s[MT_X86_OPERANDS + 1];
    struct mt_x86_words words;
    unsigned count = 0;
    memset(s, 0, sizeof s);
    if (whole) {
        mt_x86_words(&words, n->x86.ip, n->bytes, n->x86.length ? n->x86.length : 1);
        s[count++] = (struct mt_core_site){.ip = n->x86.ip,
                                           .op = MT_HOST_EXEC,
                                           .text = words.text,
                                           .reads = words.reads,
                                           .writes = words.writes};
    }
    for (unsigned i = 0; i < n->x86.count; i++) {
        const struct mt_x86_operand *o = &n->x86.operand[i];
        s[count++] = (struct mt_core_site){
            .ip = n->x86.ip, .op = o->op, .size = o->size, .strong = o->locked, .runtime = n->runtime};
    }
    if (n->x86.cas && whole) /* one instruction, one execution */
        s[count++] =
            (struct mt_core_site){.ip = n->x86.ip, .op = MT_HOST_CAS_FAILED, .size = n->x86.operand[0].size};
    n->site = count ? mt_core_sites(s, count) : 0;
    if (n->x86.cas && whole)
        n->failed = n->site ? n->site + count - 1 : 0;
    else if (n->x86.cas)
        n->failed = mt_core_sites(
            &(struct mt_core_site){.ip = n->x86.ip, .op = MT_HOST_CAS_FAILED, .size = n->x86.operand[0].size},
            1);
}

static void insns_operands(struct mt_insn *n, int whole)
{
    for (unsigned i = 0; i < n->x86.count; i++) {
        const struct mt_x86_operand *o = &n->x86.operand[i];
        n->operand[i] = (struct mt_operand){.insn = n,
                                            .site = n->site ? n->site + i + (whole ? 1 : 0) : 0,
                                            .size = o->size,
                                            .spare = (uint8_t)o->spare,
                                            .parts = (uint8_t)o->parts,
                                            .op = (uint8_t)o->op};
    }
    if (n->x86.count) { /* enter and xsave read in between */
        unsigned last = n->x86.count - 1;
        if (last == 1 && n->operand[0].op == MT_HOST_STORE)
            last = 0;
        n->operand[last].last = 1;
    }
}

struct mt_insn *mt_insn_get(uint64_t ip, const uint8_t *bytes, unsigned size, int whole,
                            enum mt_core_code code)
{
    struct mt_insn *newest = (struct mt_insn *)(uintptr_t)mt_guest_map_get(&known, ip);
    if (size > sizeof newest->bytes)
        size = sizeof newest->bytes;
    for (struct mt_insn *n = newest; n; n = n->older)
        if (!memcmp(n->bytes, bytes, n->x86.length ? n->x86.length : size))
            return n;
    struct mt_insn *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    memcpy(n->bytes, bytes, size);
    mt_x86_decode(&n->x86, ip, bytes, size);
    n->older = newest;
    n->code = (uint8_t)code;
    n->runtime = code == MT_CODE_DATA;
    for (unsigned i = 0; mt_core_options()->mode == MT_CORE_ATOMIC && i < n->x86.count; i++)
        n->code = /* threads synchronise by them: the C library's locks */ code == MT_CODE_DATA &&
                          n->x86.operand[i].locked
                      ? MT_CODE_ALL
                      : n->code;
    if (code >= MT_CODE_DATA)
        insns_define(n, whole);
    insns_operands(n, whole);
    if (mt_guest_map_put(&known, ip, (uint64_t)(uintptr_t)n) != 0) {
        free(n);
        return NULL;
    }
    return n;
}
