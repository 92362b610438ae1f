/* The site table (one entry per traced access in the code), the note table (accesses without a record,
 * code that the CPU device cannot run), and the choice of source locations to trace. */
#include "trace.h"
#include "ptx/module/module.h"
#include "memtrace/grow.h"
#include "memtrace/hash.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the expression's name if the pointer has none, or a longer one: `grid.cells` for `grid`, a
 * member for `this`. */
static char *sites_variable(const struct mt_source_location *place, uint32_t op, uint32_t size,
                            char *variable)
{
    static const enum mt_named_access named[] = {
        [MT_LOAD] = MT_NAMED_LOAD, [MT_STORE] = MT_NAMED_STORE, [MT_ATOMIC] = MT_NAMED_ATOMIC};
    size_t n = variable ? strlen(variable) : 0;
    const char *name = NULL;
    if ((op & 3) <= MT_ATOMIC && mt_rec_space(op) <= MT_IN_LOCAL)
        name = mt_pass_access_name(place->file, place->line, place->column, named[op & 3], size);
    if (variable &&
        (!name || (strcmp(variable, "this") && (strncmp(name, variable, n) || !strchr(".-", name[n])))))
        return variable;
    free(variable);
    return strdup(name ? name : "");
}

/* Handles PTX that stays asm. */
static uint32_t sites_strong_asm(LLVMValueRef text)
{
    static const char *const words[] = {".relaxed", ".volatile", ".acquire", ".release", ".mmio"};
    size_t n;
    const char *s = LLVMGetInlineAsmAsmString(text, &n);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(s, n, words[i], strlen(words[i])))
            return 1;
    return 0;
}

/* Returns the strength; an access that is volatile only in our own IR, to stay one access, is not volatile
 * in the program. */
static uint32_t sites_strong(LLVMValueRef inst)
{
    if (LLVMIsACallInst(inst) && LLVMIsAInlineAsm(LLVMGetCalledValue(inst)))
        return sites_strong_asm(LLVMGetCalledValue(inst));
    return (LLVMIsALoadInst(inst) || LLVMIsAStoreInst(inst)) &&
           (LLVMGetOrdering(inst) != LLVMAtomicOrderingNotAtomic ||
            (LLVMGetVolatile(inst) && !mt_ptx_kept_as(inst)));
}

uint32_t mt_unit_add_site(struct mt_unit *u, LLVMValueRef inst, uint32_t op, uint32_t size, uint32_t align,
                          char *variable)
{
    struct mt_source_location place;
    if (mt_grow(&u->sites, &u->sites_cap, u->nsites + 1, sizeof *u->sites)) {
        free(variable);
        return 0;
    }
    mt_shim_location(inst, &place);
    const char *function = place.function;
    if (!*function)
        function = mt_name(LLVMGetBasicBlockParent(LLVMGetInstructionParent(inst)));
    u->sites[u->nsites] = (struct mt_site){.file = strdup(place.file),
                                           .function = mt_shim_demangle(function, 0),
                                           .variable = sites_variable(&place, op, size, variable),
                                           .line = place.line,
                                           .column = place.column,
                                           .op = op,
                                           .size = size,
                                           .align = align,
                                           .strong = sites_strong(inst)};
    return u->nsites++;
}

uint32_t mt_unit_add_note(struct mt_unit *u, LLVMValueRef inst, uint32_t kind, const char *what)
{
    struct mt_source_location place;
    if (mt_grow(&u->notes, &u->notes_cap, u->nnotes + 1, sizeof *u->notes))
        return 0;
    mt_shim_location(inst, &place);
    u->notes[u->nnotes] = (struct mt_note){strdup(what), strdup(place.file), place.line, kind};
    return u->nnotes++;
}

void mt_unit_name_sites(struct mt_unit *u)
{
    uint64_t h = 1469598103934665603u;
    for (unsigned i = 0; i < u->nsites; i++) {
        const struct mt_site *s = &u->sites[i];
        const uint32_t numbers[] = {s->line, s->column, s->op, s->size};
        h = mt_hash_bytes(h, s->file, strlen(s->file) + 1);
        h = mt_hash_bytes(h, s->function, strlen(s->function) + 1);
        h = mt_hash_bytes(h, numbers, sizeof numbers);
    }
    u->site_variable = u->nsites ? malloc(40) : NULL;
    if (u->site_variable)
        snprintf(u->site_variable, 40, "__mt_site_base_%016llx", (unsigned long long)h);
}

static int same_file(const char *a, const char *b)
{
    if (!strcmp(a, b))
        return 1;
    /* One path may be relative: compare whole trailing components. */
    size_t na = strlen(a), nb = strlen(b);
    const char *lo = na > nb ? a : b, *sh = na > nb ? b : a;
    size_t nl = na > nb ? na : nb, ns = na > nb ? nb : na;
    while (ns > 2 && sh[0] == '.' && sh[1] == '/') {
        sh += 2;
        ns -= 2;
    }
    return sh[0] != '/' && nl > ns && lo[nl - ns - 1] == '/' && !strcmp(lo + nl - ns, sh);
}

int mt_unit_wanted(const struct mt_unit *u, LLVMValueRef inst)
{
    struct mt_source_location place;
    mt_shim_location(inst, &place);
    LLVMValueRef home = LLVMGetBasicBlockParent(LLVMGetInstructionParent(inst));
    const struct mt_facts *f = *place.function ? mt_unit_facts_by_name(u, place.function) : NULL;
    if (!f && !*place.function)
        f = mt_unit_facts_by_name(u, mt_name(home)); /* the CPU module's functions are copies */
    if (f && f->trace)
        return 1;
    if (f && f->skip)
        return 0;
    for (unsigned i = 0; i < u->options->noff; i++) {
        const struct mt_off_range *r = &u->options->off[i];
        if (place.line >= r->first && place.line <= r->last && same_file(r->file, place.file))
            return 0;
    }
    return 1;
}
