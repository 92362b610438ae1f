/* The device side as a whole: instrument, make the CPU image, link the GPU's runtime. */
#include "cpu/cpu.h"
#include "gpu/gpu.h"
#include "trace/trace.h"
#include "ptx/module.h"
#include "pass.h"
#include "../runtime/cpu/abi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <llvm-c/DebugInfo.h>

static char *device_base64(const char *data, size_t n, size_t *length)
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

/* Puts the object into the module as one comment line of its PTX. (One append:
 * LLVM ends each with a line feed.) */
static void device_attach(LLVMModuleRef carrier, LLVMMemoryBufferRef object)
{
    size_t n, prefix = strlen(MT_PTX_PREFIX);
    char *text = device_base64(LLVMGetBufferStart(object), LLVMGetBufferSize(object), &n);
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

static void make_cpu_image(struct mt_unit *u, LLVMModuleRef carrier)
{
    LLVMModuleRef clone = LLVMCloneModule(u->module);
    mt_ptx_release_accesses(clone);
    LLVMMemoryBufferRef object = mt_unit_emit(u, clone);
    if (object) {
        device_attach(carrier, object);
        LLVMDisposeMemoryBuffer(object);
    }
    LLVMDisposeModule(clone);
}

/* verbose=on: what was found, and how each kernel will run. On stderr: clang drops notes that follow no
 * warning, and remarks that no -R asks for. */
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

/* The back end takes dots out of local names, but not where its debug information says where a variable lies,
 * and ptxas refuses the file then (assert() with -g: __PRETTY_FUNCTION__._Z1kv). So they go before. */
static void rename_locals(LLVMModuleRef module)
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

/* With -fgpu-rdc clang keeps what host code names in an array. Kernels of other files become plain functions
 * in it, and nvlink refuses those. */
static void forget_kernels_of_others(LLVMModuleRef module)
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
            mt_shim_detach_function(kernels[i]); /* as in instrument.c */
    }
    free(entries);
    free(kernels);
}

/* NVPTX asks the annotations which functions are kernels and remembers the answers by address, those of
 * functions that are gone since, too: a kernel made where such a one was would become a plain function.
 * Where there are no annotations it asks for the calling convention. */
static void mark_kernels(struct mt_unit *u)
{
    for (unsigned i = 0; i < u->nkernels; i++) {
        LLVMSetFunctionCallConv(u->kernels[i].function, LLVMPTXKernelCallConv);
        if (u->kernels[i].plain)
            LLVMSetFunctionCallConv(u->kernels[i].plain, LLVMPTXKernelCallConv);
    }
}

/* The sizes of clusters for the GPU's code, which LLVM 19 cannot say in PTX. */
static void attach_clusters(struct mt_unit *u)
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

/* Where nothing but a GPU can run it. */
static void device_refuse_managed(struct mt_unit *u)
{
    for (LLVMValueRef g = LLVMGetFirstGlobal(u->module); g; g = LLVMGetNextGlobal(g)) {
        const char *section = LLVMGetSection(g);
        if (section && !strcmp(section, MT_MANAGED_SECTION))
            mt_diag(u, NULL, MT_DIAG_ERROR,
                    "%s: clang 19 has no __managed__ variables for GPUs: compile with nvcc and run the "
                    "program with "
                    "mt-run",
                    mt_name(g));
    }
}

static void device_clean(LLVMModuleRef module)
{
    forget_kernels_of_others(module);
    mt_refuse_unsynchronised(module);
    mt_drop_unused_asm(module);
}

/* Each access gets a record call. */
static void device_instrument(struct mt_unit *u, LLVMModuleRef work)
{
    mt_unit_init(u, work);
    mt_unit_read_facts(u);
    mt_unit_instrument(u);
}

/* What the CPU image says of the GPU's code, before that is made. */
static void device_plan_gpu(struct mt_unit *u)
{
    mt_unit_plan_gpu(u);   /* the image's table says which kernels have no trace there, */
    mt_unit_plan_plain(u); /* and which have a second version */
    mt_unit_name_sites(u);
}

/* Below this many kernels a process more costs more than it saves. */
#define KERNELS_OF_A_PART 4

unsigned mt_pass_image_parts(LLVMModuleRef module, unsigned n, LLVMMemoryBufferRef *objects)
{
    struct mt_unit u;
    if (!mt_shim_is_nvptx(module))
        return 0;
    device_clean(module);
    device_instrument(&u, module);
    unsigned most = 1 + u.nkernels / KERNELS_OF_A_PART;
    mt_ptx_release_accesses(module);
    LLVMModuleRef clone = LLVMCloneModule(module);
    unsigned have = mt_unit_emit_parts(&u, clone, n < most ? n : most, objects);
    LLVMDisposeModule(clone);
    if (have && mt_pass_options.verbose)
        device_tell(&u);
    mt_unit_free(&u);
    return have;
}

int mt_pass_device(LLVMModuleRef module)
{
    const struct mt_pass_options *o = &mt_pass_options;
    struct mt_unit u;
    if (!mt_shim_is_nvptx(module))
        return 0;
    device_clean(module);
    /* With gpu-trace=off only a copy is instrumented, and the GPU runs the program as it is. */
    LLVMModuleRef work = o->gpu_trace ? module : LLVMCloneModule(module);
    rename_locals(work);
    mt_keep_annotations(work); /* of modules that no early pass has seen */
    if (mt_pass_front(work))
        return 1;
    device_instrument(&u, work);
    if (o->gpu_trace)
        device_plan_gpu(&u);
    if (o->cpu_image)
        make_cpu_image(&u, module);
    else
        device_refuse_managed(&u);
    if (o->verbose)
        device_tell(&u);
    if (o->gpu_trace) {
        mt_ptx_spell(module);
        mt_unit_link_gpu(&u);
        mt_unit_settle_kernels(&u);
    }
    if (work == module) {
        mark_kernels(&u);
        attach_clusters(&u);
    }
    mt_unit_free(&u);
    if (work != module) {
        mt_unit_init(&u, module);
        mt_unit_read_facts(&u); /* takes our annotations out */
        mark_kernels(&u);
        attach_clusters(&u);
        mt_unit_free(&u);
        LLVMDisposeModule(work);
    }
    if (o->strip_debug)
        LLVMStripModuleDebugInfo(module);
    rename_locals(module);
    return 1;
}
