/* Device module to CPU module: the order of the steps. See docs/internals.md,
 * "The pass and what it emits". */
#include "lower/lower.h"
#include "cpu.h"
#include "trace/trace.h"
#include "pass.h"
#include <stddef.h>

static void (*const lower_steps[])(struct mt_lowering *l) = {
    mt_lower_contraction, mt_lower_simplify, mt_lower_calls,   mt_lower_ranges,    mt_lower_divisions,
    mt_lower_exactness,   mt_lower_extremes, mt_lower_counts,  mt_lower_spins,     mt_lower_metadata,
    mt_lower_shared,      mt_lower_managed,  mt_lower_exports, mt_lower_globals,   mt_lower_attributes,
    mt_image_variables,   mt_lower_plain,    mt_lower_places,  mt_lower_site_base, mt_declare_registers,
    mt_lower_builtins,    mt_lower_kernels,  mt_lower_frames,  mt_image_tables};

int mt_unit_lower(struct mt_unit *u, LLVMModuleRef clone)
{
    struct mt_lowering l;
    l.failed = mt_lowering_begin(&l, u, clone) != 0;
    for (unsigned i = 0; i < sizeof lower_steps / sizeof *lower_steps && !l.failed; i++)
        if (lower_steps[i] != mt_lower_exports || u->options->rdc || u->options->part)
            lower_steps[i](&l);
    mt_lowering_end(&l);
    return l.failed ? -1 : 0;
}

unsigned mt_unit_emit_parts(struct mt_unit *u, LLVMModuleRef clone, unsigned n, LLVMMemoryBufferRef *objects)
{
    unsigned have = 0;
    LLVMTargetMachineRef machine = mt_set_cpu_target(u, clone);
    if (machine && !mt_unit_lower(u, clone)) {
        mt_shim_set_pic(clone);
        have = mt_unit_compile_parts(u, clone, machine, n, objects);
    }
    if (machine)
        LLVMDisposeTargetMachine(machine);
    return have;
}

LLVMMemoryBufferRef mt_unit_emit(struct mt_unit *u, LLVMModuleRef clone)
{
    LLVMMemoryBufferRef object;
    return mt_unit_emit_parts(u, clone, 1, &object) ? object : NULL;
}

int mt_pass_lower_only(LLVMModuleRef module)
{
    struct mt_unit u;
    mt_unit_init(&u, module);
    mt_unit_read_facts(&u);
    mt_unit_instrument(&u);
    mt_set_cpu_target(&u, module);
    mt_pass_options.vectors = 0; /* the tests look at the code of one thread */
    mt_unit_lower(&u, module);
    mt_unit_free(&u);
    return 1;
}
