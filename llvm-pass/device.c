/* The device side as a whole: its steps, their order, and the reasons for it. */
#include "unit/modes.h"
#include "cpu/cpu.h"
#include "gpu/gpu.h"
#include "lower/lower.h"
#include "ptx/module/module.h"
#include "trace/trace.h"
#include "vector/vector.h"
#include "unit/pass.h"
#include "format/image.h"
#include <stdio.h>
#include <llvm-c/DebugInfo.h>

/* Selections of steps: the whole device side, mt-ptx, and two for tests, which check the code of one
 * thread. */
enum { DEVICE = 1, PARTS = 2, LOWER = 4, INSTRUMENT = 8 };
/* Options on which steps depend. */
enum { GPU_TRACE = 1, CPU_IMAGE = 2, VERBOSE = 4, STRIP = 8, COUNT = 16, SHARED_NAMES = 32, VECTORS = 64 };

struct device {
    LLVMModuleRef module; /* the compiler's module, */
    struct mt_unit u;     /* module that the steps work on, or a copy */
    struct mt_lowering l; /* state while the CPU image is made */
    unsigned way, has;
    unsigned most, made; /* maximum and actual number of objects of the CPU image */
    LLVMMemoryBufferRef *objects;
};

/* A step sets one of these functions, by what it works on. A step that fails ends the run. */
struct device_step {
    void (*module)(LLVMModuleRef module);
    void (*unit)(struct mt_unit *u);
    void (*lower)(struct mt_lowering *l);
    int (*device)(struct device *d); /* returns 0 or -1 */
    unsigned of, with, without;      /* selections (0: all), options */
};

static int device_walk(struct device *d, const struct device_step *s, size_t n)
{
    int failed = 0;
    for (; n && !failed; n--, s++) {
        if ((s->of && !(s->of & d->way)) || s->with & ~d->has || s->without & d->has)
            continue;
        if (s->module)
            s->module(d->u.module);
        else if (s->unit)
            s->unit(&d->u);
        else if (s->lower)
            s->lower(&d->l);
        failed = s->device ? s->device(d) : s->lower && d->l.failed;
    }
    return failed ? -1 : 0;
}

/* ---- the CPU image ---- */

/* From NVPTX's code to x86-64 code. */
static const struct device_step lower_steps[] = {
    /* First, as ptxas does it, within blocks: before code moves between them. */
    {.lower = mt_lower_contraction},
    {.lower = mt_lower_simplify},
    /* While lines of instructions are known, for warnings. */
    {.lower = mt_lower_calls},
    /* After asm is lowered, which also needs it. */
    {.lower = mt_lower_ranges},
    {.lower = mt_lower_divisions},
    {.lower = mt_lower_exactness},
    /* After exactness, which makes zeros. */
    {.lower = mt_lower_extremes},
    /* On the very loads and stores that run, while lines are known. */
    {.lower = mt_lower_counts, .with = COUNT},
    {.lower = mt_lower_spins},
    /* When lines are no longer needed, and before lists name values removed here. */
    {.lower = mt_lower_metadata},
    /* Variables placed elsewhere: before all others get a value and a linkage. */
    {.lower = mt_lower_shared},
    {.lower = mt_lower_managed},
    /* Before names not meant for other files become internal. */
    {.lower = mt_lower_exports, .with = SHARED_NAMES},
    {.lower = mt_lower_globals},
    {.lower = mt_lower_attributes},
    /* Variables of the program: before the builtins' are linked in. */
    {.lower = mt_image_variables},
    {.lower = mt_lower_plain},
    /* Recording code: after the copies without record calls are made. */
    {.lower = mt_lower_ways, .with = VECTORS},
    {.lower = mt_lower_records},
    /* Needed by builtins. */
    {.lower = mt_lower_site_base},
    /* Only declared builtins are linked, including those that vectors will call. */
    {.lower = mt_declare_registers, .with = VECTORS},
    {.lower = mt_lower_builtins},
    /* Whether a kernel waits shows in the builtins' code, which vectors may inline. */
    {.lower = mt_kernels_wait},
    {.lower = mt_vector_kernels, .with = VECTORS},
    /* For launches that vectors do not take. */
    {.lower = mt_lower_kernels},
    /* Kernels that need their caller are known now; tables name everything made before. */
    {.lower = mt_lower_frames},
    {.lower = mt_image_tables},
};

static int device_lower(struct device *d, LLVMModuleRef module)
{
    int failed = mt_lowering_begin(&d->l, &d->u, module) ||
                 device_walk(d, lower_steps, sizeof lower_steps / sizeof *lower_steps);
    mt_lowering_end(&d->l);
    return failed ? -1 : 0;
}

/* Minimum number of kernels per process: with fewer it costs more than it saves. */
#define KERNELS_OF_A_PART 4

static int device_image(struct device *d)
{
    LLVMModuleRef clone = LLVMCloneModule(d->u.module);
    unsigned most = 1 + d->u.nkernels / KERNELS_OF_A_PART;
    mt_ptx_release_accesses(clone);
    LLVMTargetMachineRef machine = mt_set_cpu_target(&d->u, clone);
    if (machine && !device_lower(d, clone)) {
        mt_shim_set_pic(clone);
        d->made = mt_unit_compile_parts(&d->u, clone, machine, d->most < most ? d->most : most, d->objects);
    }
    if (machine)
        LLVMDisposeTargetMachine(machine);
    LLVMDisposeModule(clone);
    return d->made || d->way == DEVICE ? 0 : -1; /* the GPU's code works without it */
}

/* Lowers the module itself, for tests to check. */
static int device_lower_here(struct device *d)
{
    mt_set_cpu_target(&d->u, d->module);
    return device_lower(d, d->module);
}

static int device_attach(struct device *d)
{
    if (d->made) {
        mt_image_attach(d->module, d->objects[0]);
        LLVMDisposeMemoryBuffer(d->objects[0]);
    }
    return 0;
}

/* ---- the rest ---- */

static int device_copy(struct device *d)
{
    mt_unit_init(&d->u, LLVMCloneModule(d->module));
    return 0;
}

static void device_free(struct device *d)
{
    LLVMModuleRef copy = d->u.module != d->module ? d->u.module : NULL;
    mt_unit_free(&d->u);
    if (copy)
        LLVMDisposeModule(copy);
}

static int device_drop_copy(struct device *d)
{
    device_free(d);
    mt_unit_init(&d->u, d->module);
    mt_unit_read_facts(&d->u); /* removes our annotations */
    return 0;
}

static int device_front(struct device *d)
{
    mt_keep_annotations(d->u.module); /* for modules without an early pass */
    return mt_pass_front(d->u.module);
}

/* Prints with verbose=on the findings, and how each kernel will run. On stderr: clang drops notes without
 * a warning, and remarks without -R. */
static void device_tell(struct mt_unit *u)
{
    unsigned untraced = 0, unsupported = 0;
    for (unsigned i = 0; i < u->nnotes; i++)
        if (u->notes[i].kind == MT_NOTE_UNTRACED)
            untraced++;
        else
            unsupported++;
    fprintf(stderr,
            "memtrace: %u kernels, %u sites, %u accesses without a record, %u places the CPU device "
            "cannot run\n",
            u->nkernels, u->nsites, untraced, unsupported);
    for (unsigned i = 0; i < u->nkernels; i++) {
        const struct mt_kernel *k = &u->kernels[i];
        const char *how = k->vector == MT_VECTOR_ALL ? ", warps are vectors"
                          : k->vector == MT_VECTOR_SOME
                              ? ", warps are vectors where they are whole and rows of "
                                "32 or 16, else fibers"
                          : k->vector == MT_VECTOR_PLAIN
                              ? ", warps are vectors when not traced, else each thread is a fiber"
                              : ", each thread is a fiber";
        fprintf(stderr, "memtrace: kernel %s: %s%s%s%s\n", k->pretty, k->traced ? "traced" : "not traced",
                u->options->cpu_image ? how : "", u->options->cpu_image && k->no_vector[0] ? ": " : "",
                u->options->cpu_image ? k->no_vector : "");
    }
}

static void device_strip(struct mt_unit *u)
{
    LLVMStripModuleDebugInfo(u->module);
}

static const struct device_step device_steps[] = {
    /* On the program's unchanged code. */
    {.module = mt_gpu_forget_kernels, .of = DEVICE | PARTS},
    {.module = mt_refuse_unsynchronised, .of = DEVICE | PARTS},
    {.module = mt_drop_unused_asm, .of = DEVICE | PARTS},
    /* For the PTX that is read and for the GPU's. */
    {.module = mt_gpu_keep_sums, .of = DEVICE},
    /* Only the copy is instrumented; the GPU runs the program unchanged. */
    {.device = device_copy, .of = DEVICE, .without = GPU_TRACE},
    /* The back end makes the PTX that is read, and rejects some names. */
    {.module = mt_gpu_rename_locals, .of = DEVICE},
    {.device = device_front, .of = DEVICE},
    /* Each access of the PTX, not of clang's code, gets a record call. */
    {.unit = mt_unit_read_facts},
    {.unit = mt_unit_instrument},
    /* The CPU image's tables describe the GPU code. */
    {.unit = mt_unit_plan_gpu, .of = DEVICE, .with = GPU_TRACE},
    {.unit = mt_unit_plan_plain, .of = DEVICE, .with = GPU_TRACE},
    {.unit = mt_unit_name_sites, .of = DEVICE, .with = GPU_TRACE},
    /* On a clone: before record calls are the GPU's, and accesses its instructions. */
    {.device = device_image, .of = DEVICE | PARTS, .with = CPU_IMAGE},
    {.device = device_attach, .of = DEVICE, .with = CPU_IMAGE},
    {.device = device_lower_here, .of = LOWER},
    {.unit = mt_unit_refuse_managed, .of = DEVICE, .without = CPU_IMAGE},
    /* Once the image knows how kernels run. */
    {.unit = device_tell, .of = DEVICE | PARTS, .with = VERBOSE},
    {.module = mt_ptx_spell, .of = DEVICE, .with = GPU_TRACE},
    {.unit = mt_unit_link_gpu, .of = DEVICE, .with = GPU_TRACE},
    /* Registers are limited by everything that a kernel calls. */
    {.unit = mt_unit_finish_kernels, .of = DEVICE, .with = GPU_TRACE},
    {.device = device_drop_copy, .of = DEVICE, .without = GPU_TRACE},
    /* By their final names. */
    {.unit = mt_unit_mark_kernels, .of = DEVICE},
    {.unit = mt_unit_attach_clusters, .of = DEVICE},
    {.unit = device_strip, .of = DEVICE, .with = STRIP},
    /* The linked runtime has such names, too. */
    {.module = mt_gpu_rename_locals, .of = DEVICE},
};

/* Returns the number of objects. */
static unsigned device_run(LLVMModuleRef module, unsigned way, unsigned most, LLVMMemoryBufferRef *objects)
{
    const struct mt_pass_options *o = &mt_pass_options;
    struct device d = {.module = module, .way = way, .most = most, .objects = objects};
    d.has = (o->gpu_trace ? GPU_TRACE : 0) | (o->cpu_image || way == PARTS ? CPU_IMAGE : 0) |
            (o->verbose ? VERBOSE : 0) | (o->strip_debug ? STRIP : 0) |
            (mt_pass_counting != MT_COUNT_OFF ? COUNT : 0) | (o->rdc || o->part ? SHARED_NAMES : 0) |
            (o->vectors && way != LOWER ? VECTORS : 0);
    mt_unit_init(&d.u, module);
    device_walk(&d, device_steps, sizeof device_steps / sizeof *device_steps);
    device_free(&d);
    return d.made;
}

int mt_pass_device(LLVMModuleRef module)
{
    LLVMMemoryBufferRef object;
    if (!mt_shim_is_nvptx(module))
        return 0;
    device_run(module, DEVICE, 1, &object);
    return 1;
}

unsigned mt_pass_image_parts(LLVMModuleRef module, unsigned n, LLVMMemoryBufferRef *objects)
{
    return mt_shim_is_nvptx(module) ? device_run(module, PARTS, n, objects) : 0;
}

int mt_pass_instrument_only(LLVMModuleRef module)
{
    device_run(module, INSTRUMENT, 0, NULL);
    return 1;
}

int mt_pass_lower_only(LLVMModuleRef module)
{
    device_run(module, LOWER, 0, NULL);
    return 1;
}
