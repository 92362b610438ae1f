/* The device side as a whole: its steps, their order, and the reasons for it. */
#include "gpu/gpu.h"
#include "trace/trace.h"
#include "format/image.h"
#include "cpu/cpu.h"
#include "lower.h"
#include "ptx/module/module.h"
#include "unit/pass.h"

#include <llvm-c/DebugInfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Workarounds for code that LLVM's GPU back end cannot take, or cannot express in PTX. */

/* Removes kernels of other files from the array in which clang keeps names used by host code (-fgpu-rdc).
 * They become plain functions there, which nvlink rejects. */
static void gpu_forget_kernels(LLVMModuleRef module)
{
    LLVMValueRef g = LLVMGetNamedGlobal(module, MT_CLANG_USED), list = g ? LLVMGetInitializer(g) : NULL;
    if (!list || !LLVMIsAConstantArray(list))
        return;
    int n = LLVMGetNumOperands(list), dropped = 0;
    LLVMValueRef *entries = malloc(((size_t)n + 1) * sizeof *entries),
                 *kernels = malloc(((size_t)n + 1) * sizeof *kernels);
    for (int i = 0; entries && kernels && i < n; i++) {
        entries[i] = LLVMGetOperand(list, (unsigned)i);
        if (LLVMIsAFunction(entries[i]) && LLVMIsDeclaration(entries[i])) {
            kernels[dropped++] = entries[i];
            entries[i] = LLVMConstNull(LLVMTypeOf(entries[i]));
        }
    }
    if (dropped)
        LLVMSetInitializer(g, LLVMConstArray2(LLVMTypeOf(entries[0]), entries, (uint64_t)n));
    for (int i = 0; i < dropped; i++) {
        mt_shim_drop_dead_users(kernels[i]);
        if (!LLVMGetFirstUse(kernels[i]))
            mt_shim_detach_function(kernels[i]); /* for the reason in trace/instrument.c */
    }
    free(entries);
    free(kernels);
}

/* Removes dots from local names. The back end does so, but not in debug information about variables, and
 * ptxas then rejects the file (assert() with -g: __PRETTY_FUNCTION__._Z1kv). */
static void gpu_rename_locals(LLVMModuleRef module)
{
    for (LLVMValueRef g = LLVMGetFirstGlobal(module); g; g = LLVMGetNextGlobal(g)) {
        const char *name = mt_name(g);
        LLVMLinkage linkage = LLVMGetLinkage(g);
        if ((linkage != LLVMInternalLinkage && linkage != LLVMPrivateLinkage) || !strchr(name, '.') ||
            mt_starts(name, "llvm."))
            continue;
        char *plain = malloc(3 * strlen(name) + 1), *o = plain;
        for (const char *c = name; plain && *c; c++) {
            if (*c == '.') {
                memcpy(o, "_$_", 3);
                o += 3;
            } else
                *o++ = *c;
        }
        if (plain)
            LLVMSetValueName2(g, plain, (size_t)(o - plain));
        free(plain);
    }
}

/* Returns 1 if the index is an extended sum with a constant that may wrap before it is extended. */
static int backend_may_wrap(LLVMValueRef index)
{
    unsigned width = LLVMGetIntTypeWidth(LLVMTypeOf(index));
    while (LLVMIsASExtInst(index))
        index = LLVMGetOperand(index, 0);
    if (!LLVMIsAInstruction(index) || LLVMGetInstructionOpcode(index) != LLVMAdd || LLVMGetNSW(index))
        return 0;
    return (width < 64 || LLVMGetIntTypeWidth(LLVMTypeOf(index)) < 64) &&
           (LLVMIsAConstantInt(LLVMGetOperand(index, 0)) || LLVMIsAConstantInt(LLVMGetOperand(index, 1)));
}

/* Drops `inbounds` from an address. The back end takes its index for non-negative and moves a constant out
 * of the sign extension of a sum that wraps: x[(short)(i + 32767)] would become x[i + 32767]
 * (SeparateConstOffsetFromGEP of LLVM 19). Without the flag it leaves the sum alone. */
static void backend_keep_sums(LLVMValueRef gep)
{
    int n = LLVMGetNumOperands(gep);
    for (int i = 1; i < n && LLVMIsInBounds(gep); i++) {
        LLVMValueRef index = LLVMGetOperand(gep, (unsigned)i);
        if (LLVMGetTypeKind(LLVMTypeOf(index)) == LLVMIntegerTypeKind && backend_may_wrap(index))
            LLVMSetIsInBounds(gep, 0);
    }
}

static void gpu_keep_sums(LLVMModuleRef module)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
                if (LLVMIsAGetElementPtrInst(i))
                    backend_keep_sums(i);
}

/* Marks kernels by calling convention. NVPTX looks them up in the annotations and caches the answers by
 * address, even for functions deleted since: a kernel at such an address would become a plain function.
 * Without annotations it uses the calling convention. */
static void unit_mark_kernels(struct mt_unit *u)
{
    for (unsigned i = 0; i < u->nkernels; i++) {
        LLVMSetFunctionCallConv(u->kernels[i].function, LLVMPTXKernelCallConv);
        if (u->kernels[i].plain)
            LLVMSetFunctionCallConv(u->kernels[i].plain, LLVMPTXKernelCallConv);
    }
}

/* Attaches cluster sizes to the GPU's code, which LLVM 19 cannot express in PTX. */
static void unit_attach_clusters(struct mt_unit *u)
{
    for (unsigned i = 0; i < u->nkernels; i++) {
        const struct mt_kernel *k = &u->kernels[i];
        char *line;
        if (!k->cluster[0])
            continue;
        if (mt_unit_architecture(k->function) < 90) {
            mt_diag(u, NULL, MT_DIAG_WARNING, "%s: sm_%d has no clusters: __cluster_dims__ is left out",
                    k->pretty, mt_unit_architecture(k->function));
            continue;
        }
        LLVMValueRef versions[] = {k->function, k->plain};
        for (int v = 0; v < 2 && versions[v]; v++) {
            int n = asprintf(&line, MT_PTX_CLUSTER "%s %u %u %u\n", mt_name(versions[v]), k->cluster[0],
                             k->cluster[1], k->cluster[2]);
            if (n < 0) {
                mt_diag(u, NULL, MT_DIAG_ERROR, "%s: no memory for its cluster size", k->pretty);
                return;
            }
            LLVMAppendModuleInlineAsm(u->module, line, (size_t)n);
            free(line);
        }
    }
}

/* Reports errors for __managed__ variables if only a GPU can run the code. */
static void unit_refuse_managed(struct mt_unit *u)
{
    for (LLVMValueRef g = LLVMGetFirstGlobal(u->module); g; g = LLVMGetNextGlobal(g)) {
        const char *section = LLVMGetSection(g);
        if (section && !strcmp(section, MT_MANAGED_SECTION))
            mt_diag(u, NULL, MT_DIAG_ERROR,
                    "%s: clang 19 has no __managed__ variables for GPUs: compile with nvcc and run the "
                    "program with "
                    "memtrace run",
                    mt_name(g));
    }
}

/* ---- Attaches the image as a comment line of PTX, which the overlay's tools extract ---- */

static char *attach_base64(const char *data, size_t n, size_t *length)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((n + 2) / 3 * 4 + 1), *o = text;
    for (size_t i = 0; text && i < n; i += 3) {
        uint32_t v = (uint32_t)(unsigned char)data[i] << 16;
        if (i + 1 < n)
            v |= (uint32_t)(unsigned char)data[i + 1] << 8;
        if (i + 2 < n)
            v |= (unsigned char)data[i + 2];
        *o++ = digit[v >> 18];
        *o++ = digit[v >> 12 & 63];
        *o++ = i + 1 < n ? digit[v >> 6 & 63] : '=';
        *o++ = i + 2 < n ? digit[v & 63] : '=';
    }
    *length = text ? (size_t)(o - text) : 0;
    return text;
}

/* (One append: LLVM ends each with a line feed.) */
static void image_attach(LLVMModuleRef carrier, LLVMMemoryBufferRef object)
{
    size_t n, prefix = strlen(MT_PTX_PREFIX);
    char *text = attach_base64(LLVMGetBufferStart(object), LLVMGetBufferSize(object), &n);
    char *line = text ? malloc(prefix + n + 2) : NULL;
    if (line) {
        memcpy(line, MT_PTX_PREFIX, prefix);
        memcpy(line + prefix, text, n);
        memcpy(line + prefix + n, "\n", 2);
        LLVMAppendModuleInlineAsm(carrier, line, prefix + n + 1);
    }
    free(line);
    free(text);
}

/* Reports warp functions without _sync (__shfl, __any, __ballot…), which sm_70 removed. clang's headers
 * still have them, and its back end would end in a crash report. */

static const struct {
    const char *intrinsic, *function;
} gone[] = {
    {"llvm.nvvm.shfl.down.", "__shfl_down"}, {"llvm.nvvm.shfl.up.", "__shfl_up"},
    {"llvm.nvvm.shfl.bfly.", "__shfl_xor"},  {"llvm.nvvm.shfl.idx.", "__shfl"},
    {"llvm.nvvm.vote.all", "__all"},         {"llvm.nvvm.vote.any", "__any"},
    {"llvm.nvvm.vote.ballot", "__ballot"},
};

static const char *function_of(const char *intrinsic)
{
    if (strstr(intrinsic, ".sync"))
        return NULL;
    for (unsigned i = 0; i < sizeof gone / sizeof *gone; i++)
        if (mt_starts(intrinsic, gone[i].intrinsic))
            return gone[i].function;
    return NULL;
}

/* Reports at the user's own location: in unoptimised code the header's function has callers, as do header
 * functions that call it. */
static void unsynchronised_say(LLVMValueRef call, const char *text, int depth)
{
    LLVMValueRef home = LLVMGetBasicBlockParent(LLVMGetInstructionParent(call));
    int said = 0;
    if (depth < 8 && mt_shim_from_toolchain(home))
        for (LLVMUseRef use = LLVMGetFirstUse(home); use; use = LLVMGetNextUse(use)) {
            LLVMValueRef user = LLVMIsACallInst(LLVMGetUser(use));
            if (user && mt_callee(user) == home) {
                unsynchronised_say(user, text, depth + 1);
                said = 1;
            }
        }
    if (!said)
        mt_shim_diag(LLVMGetModuleContext(LLVMGetGlobalParent(home)), call, MT_DIAG_ERROR, text);
}

static void unsynchronised_refuse(LLVMValueRef intrinsic, const char *name)
{
    for (LLVMUseRef use = LLVMGetFirstUse(intrinsic), next; use; use = next) {
        char text[128];
        next = LLVMGetNextUse(use);
        LLVMValueRef call = LLVMIsACallInst(LLVMGetUser(use));
        int sm = call ? mt_unit_architecture(LLVMGetBasicBlockParent(LLVMGetInstructionParent(call))) : 0;
        if (sm < 70)
            continue;
        snprintf(text, sizeof text, "%s is not there for sm_70 and above (this is sm_%d): use %s_sync", name,
                 sm, name);
        unsynchronised_say(call, text, 0);
        LLVMReplaceAllUsesWith(call, LLVMGetPoison(LLVMTypeOf(call)));
        LLVMInstructionEraseFromParent(call);
    }
}

/* Reports errors for calls of warp functions that the GPU no longer has, and removes the
 * calls. */
static void refuse_unsynchronised(LLVMModuleRef module)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        const char *name = LLVMGetIntrinsicID(f) ? function_of(mt_name(f)) : NULL;
        if (name)
            unsynchronised_refuse(f, name);
    }
}

/* Selections of steps: the whole device side, mt-ptx, and two for tests, which check the code of one
 * thread. */
enum { DEVICE = 1, PARTS = 2, LOWER = 4, INSTRUMENT = 8 };
/* Options on which steps depend. */
enum { GPU_TRACE = 1, CPU_IMAGE = 2, VERBOSE = 4, STRIP = 8 };

struct device {
    LLVMModuleRef module; /* the compiler's module, */
    struct mt_unit u;     /* module that the steps work on, or a copy */
    unsigned way, has;
    unsigned most, made; /* maximum and actual number of objects of the CPU image */
    LLVMMemoryBufferRef *objects;
};

/* A step sets one of these functions, by what it works on. A step that fails ends the run. */
struct device_step {
    void (*module)(LLVMModuleRef module);
    void (*unit)(struct mt_unit *u);
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
        else
            failed = s->device(d);
    }
    return failed ? -1 : 0;
}

/* ---- the CPU image ---- */

/* Minimum number of kernels per process: with fewer it costs more than it saves. */
#define KERNELS_OF_A_PART 4

static int device_image(struct device *d)
{
    LLVMModuleRef clone = LLVMCloneModule(d->u.module);
    unsigned most = 1 + d->u.nkernels / KERNELS_OF_A_PART;
    mt_ptx_release_accesses(clone);
    LLVMTargetMachineRef machine = mt_set_cpu_target(&d->u, clone);
    if (machine && !mt_lower_device(&d->u, clone, d->u.options->vectors)) {
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
    return mt_lower_device(&d->u, d->module, 0);
}

static int device_attach(struct device *d)
{
    if (d->made) {
        image_attach(d->module, d->objects[0]);
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
        else if (u->notes[i].kind == MT_NOTE_UNSUPPORTED)
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
    {.module = gpu_forget_kernels, .of = DEVICE | PARTS},
    {.module = refuse_unsynchronised, .of = DEVICE | PARTS},
    {.module = mt_drop_unused_asm, .of = DEVICE | PARTS},
    /* For the PTX that is read and for the GPU's. */
    {.module = gpu_keep_sums, .of = DEVICE},
    /* Only the copy is instrumented; the GPU runs the program unchanged. */
    {.device = device_copy, .of = DEVICE, .without = GPU_TRACE},
    /* The back end makes the PTX that is read, and rejects some names. */
    {.module = gpu_rename_locals, .of = DEVICE},
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
    {.unit = unit_refuse_managed, .of = DEVICE, .without = CPU_IMAGE},
    /* Once the image knows how kernels run. */
    {.unit = device_tell, .of = DEVICE | PARTS, .with = VERBOSE},
    {.module = mt_ptx_spell, .of = DEVICE, .with = GPU_TRACE},
    {.unit = mt_unit_link_gpu, .of = DEVICE, .with = GPU_TRACE},
    /* Registers are limited by everything that a kernel calls. */
    {.unit = mt_unit_finish_kernels, .of = DEVICE, .with = GPU_TRACE},
    {.device = device_drop_copy, .of = DEVICE, .without = GPU_TRACE},
    /* By their final names. */
    {.unit = unit_mark_kernels, .of = DEVICE},
    {.unit = unit_attach_clusters, .of = DEVICE},
    {.unit = device_strip, .of = DEVICE, .with = STRIP},
    /* The linked runtime has such names, too. */
    {.module = gpu_rename_locals, .of = DEVICE},
};

/* Returns the number of objects. */
static unsigned device_run(LLVMModuleRef module, unsigned way, unsigned most, LLVMMemoryBufferRef *objects)
{
    const struct mt_pass_options *o = &mt_pass_options;
    struct device d = {.module = module, .way = way, .most = most, .objects = objects};
    d.has = (o->gpu_trace ? GPU_TRACE : 0) | (o->cpu_image || way == PARTS ? CPU_IMAGE : 0) |
            (o->verbose ? VERBOSE : 0) | (o->strip_debug ? STRIP : 0);
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
    mt_trap_constants(module);
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
