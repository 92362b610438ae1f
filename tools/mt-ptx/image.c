/* PTX to IR, through LLVM's pipeline and our pass to an object, and with the linker to what the runtime
 * loads: a fatbin with nothing in it and the image after, as bin/fatbinary of the overlay writes for
 * programs without GPU code. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <llvm-c/Core.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Support.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include "llvm-pass/unit/options.h"
#include "llvm-pass/unit/pass.h"
#include "ptx/module/module.h"
#include "format/image.h"
#include "runtime/api/device/made_image.h"
#include "base/create.h"
#include "linker.h"
#include "mt-ptx.h"

/* What the pass says of an instruction that the CPU device cannot run was said before, with the function's
 * name (check.c). */
static int image_was_said(const char *text)
{
    return strstr(text, "the CPU device cannot run this: inline asm: ") != NULL;
}

static void image_diagnose(LLVMDiagnosticInfoRef info, void *ctx)
{
    int *errors = ctx;
    LLVMDiagnosticSeverity severity = LLVMGetDiagInfoSeverity(info);
    if (severity == LLVMDSRemark) {
        return;
    }
    char *text = LLVMGetDiagInfoDescription(info);
    *errors += severity == LLVMDSError;
    if (!image_was_said(text))
        fprintf(stderr, "%s%s\n",
                severity == LLVMDSError     ? "error: "
                : severity == LLVMDSWarning ? "warning: "
                                            : "",
                text);
    LLVMDisposeMessage(text);
}

/* ---- files -------------------------------------------------------------------------------------------- */

static int image_failed(const char *name)
{
    fprintf(stderr, "memtrace: %s: %s\n", name, strerror(errno));
    return 1;
}

/* The output, empty; NULL after saying why. */
static FILE *image_create(const char *path)
{
    const char *why;
    int fd = mt_create(path, &why);
    int whole = fd >= 0 && (ftruncate(fd, 0) == 0 || errno == EINVAL); /* a pipe has nothing to cut */
    FILE *f = whole ? fdopen(fd, "w") : NULL;
    if (!f) {
        fprintf(stderr, "memtrace: %s: %s\n", path, why ? why : strerror(errno));
    }
    return f;
}

static int image_run_linker(const char *const *objects, unsigned n, const char *out)
{
    const char *set = getenv("MEMTRACE_LD");
    const char *linkers[] = {set && *set ? set : "ld", "ld.lld-19", "ld.lld"};
    const char *argv[16 + MT_PARTS_MAX] = {"/proc/self/exe",  MT_PTX_LINKER, "-shared", "--hash-style=gnu",
                                           "--build-id=none", "-z",          "now",     "-z",
                                           "noexecstack",     "-o",          out};
    int code = -1;
    memcpy(&argv[11], objects, n * sizeof *argv);
    if (mt_ptxtool_linker && !(set && *set)) {
        return mt_cudabin_process_run((char *const *)argv);
    }
    for (size_t i = 0; i < (set && *set ? 1 : sizeof linkers / sizeof *linkers) && code < 0; i++) {
        argv[1] = linkers[i];
        code = mt_cudabin_process_run((char *const *)argv + 1);
    }
    return code;
}

/* A fatbin with nothing in it, the payload's head and the shared object. */
static int image_write(const struct request *r, const struct bytes *linked)
{
    struct fatbin_header head = {.magic = 0xba55ed50u, .version = 1, .header_size = sizeof head};
    struct mt_payload payload = {.size = linked->size};
    memcpy(payload.magic, MT_PAYLOAD_MAGIC, sizeof payload.magic);
    FILE *f = image_create(r->output);
    if (!f) {
        return 1;
    }
    int bad = fwrite(&head, sizeof head, 1, f) != 1 || fwrite(&payload, sizeof payload, 1, f) != 1 ||
              fwrite(linked->data, linked->size, 1, f) != 1;
    if (fclose(f) != 0 || bad) {
        unlink(r->output);
        return image_failed(r->output);
    }
    return 0;
}

static int image_link(const struct request *r, const LLVMMemoryBufferRef *objects, unsigned n)
{
    struct bytes linked = {0};
    const char *from[MT_PARTS_MAX], *to = mt_cudabin_temp_write(".so", "", 0);
    for (unsigned i = 0; i < n && to; i++) {
        from[i] = mt_cudabin_temp_write(".o", LLVMGetBufferStart(objects[i]), LLVMGetBufferSize(objects[i]));
        to = from[i] ? to : NULL;
    }
    if (!to) {
        return image_failed("temporary file");
    }
    int code = image_run_linker(from, n, to);
    if (code < 0) {
        fprintf(stderr, "memtrace: no linker (%s): install binutils or lld-19, or set MEMTRACE_LD\n",
                strerror(errno));
    } else if (code > 0) {
        fprintf(stderr, "memtrace: the CPU image does not link\n");
    }
    if (code != 0) {
        return 1;
    }
    if (mt_cudabin_file_read(to, &linked) != 0) {
        return image_failed(to);
    }
    code = image_write(r, &linked);
    mt_cudabin_bytes_free(&linked);
    return code;
}

static void image_stage(const struct request *r, const char *name)
{
    if (r->stage) {
        r->stage(name);
    }
}

static int image_put_text(const struct request *r, const char *text, size_t n)
{
    int named = strcmp(r->output, "-") != 0;
    FILE *f = named ? image_create(r->output) : stdout;
    if (!f) {
        return 1;
    }
    int bad = fwrite(text, 1, n, f) != n || fflush(f) != 0;
    if (named) {
        bad |= fclose(f) != 0;
    }
    return bad ? image_failed(named ? r->output : "standard output") : 0;
}

static int image_emit_ir(const struct request *r, LLVMModuleRef module)
{
    char *text = LLVMPrintModuleToString(module);
    int code = image_put_text(r, text, strlen(text));
    LLVMDisposeMessage(text);
    return code;
}

/* How many this process may use. */
static unsigned image_processors(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < MT_PARTS_MAX ? (unsigned)n : MT_PARTS_MAX;
}

/* The kernel that an annotation of the module names, or NULL. */
static LLVMValueRef image_kernel(LLVMValueRef annotation)
{
    LLVMValueRef part[3];
    unsigned n;
    if (LLVMGetMDNodeNumOperands(annotation) != 3) {
        return NULL;
    }
    LLVMGetMDNodeOperands(annotation, part);
    const char *word = LLVMGetMDString(part[1], &n);
    return part[0] && word && n == 6 && memcmp(word, "kernel", 6) == 0 ? LLVMIsAFunction(part[0]) : NULL;
}

/* A whole program's functions that none of its kernels leads to, as nearly all of libcudadevrt: they go
 * before anybody is told that they cannot run. */
static void image_drop_uncalled(LLVMModuleRef module)
{
    static const char name[] = "nvvm.annotations";
    unsigned n = LLVMGetNamedMetadataNumOperands(module, name);
    LLVMValueRef *kernels = calloc(n + 1, sizeof *kernels), k;
    if (!kernels) {
        return;
    }
    LLVMGetNamedMetadataOperands(module, name, kernels);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        if (!LLVMIsDeclaration(f)) {
            LLVMSetLinkage(f, LLVMInternalLinkage);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        if ((k = image_kernel(kernels[i]))) {
            LLVMSetLinkage(k, LLVMExternalLinkage);
        }
    }
    free(kernels);
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMErrorRef e = LLVMRunPasses(module, "globaldce", NULL, o);
    LLVMDisposePassBuilderOptions(o);
    if (e) {
        LLVMConsumeError(e);
    }
}

/* The module is used up. */
static int image_build(const struct request *r, LLVMModuleRef module, const int *errors)
{
    LLVMMemoryBufferRef objects[MT_PARTS_MAX];
    if (!mt_pass_options.part) {
        image_drop_uncalled(module);
    }
    mt_pass_promote(module);
    image_stage(r, "compiling");
    unsigned n = mt_pass_image_parts(module, image_processors(), objects);
    int code = !n || *errors;
    if (code == 0) {
        code = image_link(r, objects, n);
    }
    while (n) {
        LLVMDisposeMemoryBuffer(objects[--n]);
    }
    return code;
}

static int image_of_module(const struct request *r, LLVMModuleRef module, const int *errors)
{
    return r->emit_ir ? image_emit_ir(r, module) : image_build(r, module, errors);
}

/* Another text for the runtime. */
static int image_add_text(struct bytes *texts, const char *name, const void *data, size_t bytes)
{
    struct mt_made_text head = {.bytes = bytes};
    size_t all = sizeof head + ((head.bytes + 7) & ~(size_t)7);
    unsigned char *more = realloc(texts->data, texts->size + all);
    if (!more) {
        return -1;
    }
    snprintf(head.name, sizeof head.name, "%s", name);
    memset(more + texts->size, 0, all);
    memcpy(more + texts->size, &head, sizeof head);
    memcpy(more + texts->size + sizeof head, data, bytes);
    texts->data = more;
    texts->size += all;
    return 0;
}

/* What the runtime is to have beside the image: the text whose lines are those of accesses, to keep it beside
 * the trace, and the kernels that it may ask for. */
static void image_add_texts(struct bytes *texts, const struct wanted *w, const struct reading *reading)
{
    const struct mt_ptx_result *result = &reading->result;
    int bad = 0;
    if (!result->lines && (w->part != MT_PTX_KERNEL || reading->later)) { /* else it has come with the base */
        bad = image_add_text(texts, reading->name, reading->text.data, reading->text.size);
    }
    if (w->part != MT_PTX_WHOLE) {
        bad |= image_add_text(texts, "", reading->kernels.data, reading->kernels.size);
    }
    if (bad) {
        fprintf(stderr, "memtrace: out of memory: the PTX is not kept\n");
    }
}

/* The best PTX of one module; NULL after messages, or as it cannot be divided. `texts` as below. */
static LLVMModuleRef image_read(const struct request *r, const struct wanted *w, LLVMContextRef context,
                                const char *input, const struct module *m, struct bytes *texts,
                                struct mt_ptx_result *sum, int *code)
{
    struct reading reading;
    char numbered[4200];
    snprintf(numbered, sizeof numbered, m->number ? "%s#%u" : "%s", input, m->number);
    *code = mt_ptxtool_read_best(context, input, m, texts ? NULL : numbered, w, &reading);
    if (*code != 0) {
        return NULL;
    }
    const struct mt_ptx_result *result = &reading.result;
    if (!result->undivided) {
        fputs(reading.said, stderr);
    }
    *code = reading.module ? 0 : 3;
    if (reading.module && r->verbose) {
        fprintf(stderr, "memtrace: %s: %u kernels, %u other functions, %u not understood; lines of the %s\n",
                texts ? reading.name : numbered, result->kernels, result->functions - result->kernels,
                result->failed, result->lines ? "source" : "PTX");
    }
    if (r->alone) {
        *r->alone |= reading.later || *reading.said || mt_pass_options.noff;
    }
    if (reading.module && texts) {
        image_add_texts(texts, w, &reading);
    }
    sum->undivided = result->undivided;
    sum->pointers |= result->pointers;
    sum->architecture = result->architecture > sum->architecture ? result->architecture : sum->architecture;
    sum->failed += result->failed;
    mt_ptxtool_reading_free(&reading);
    return reading.module;
}

/* All modules as one; NULL after messages. `sum`: the newest architecture, and what was not understood. */
static LLVMModuleRef image_read_all(const struct request *r, const struct wanted *w, LLVMContextRef context,
                                    const char *input, const struct module *modules, unsigned n,
                                    struct bytes *texts, struct mt_ptx_result *sum, int *code)
{
    LLVMModuleRef all = NULL;
    *sum = (struct mt_ptx_result){0};
    *code = 1;
    for (unsigned i = 0; i < n; i++) {
        if (!mt_ptxtool_module_has(&modules[i], FATBIN_PTX)) {
            continue;
        }
        LLVMModuleRef module = image_read(r, w, context, input, &modules[i], texts, sum, code);
        if (module && all && LLVMLinkModules2(all, module)) { /* says why */
            *code = 1;
            module = NULL;
        }
        if (!module) {
            if (all) {
                LLVMDisposeModule(all);
            }
            return NULL;
        }
        all = all ? all : module;
    }
    return all;
}

static struct wanted image_wanted(const struct request *r, const struct module *modules, unsigned n)
{
    unsigned have = 0;
    for (unsigned i = 0; i < n; i++) {
        have += mt_ptxtool_module_has(&modules[i], FATBIN_PTX) != 0;
    }
    return (struct wanted){.kernel = r->kernel,
                           .divide = r->divide,
                           .part = r->kernel              ? MT_PTX_KERNEL
                                   : r->base && have == 1 ? MT_PTX_BASE
                                                          : MT_PTX_WHOLE};
}

int mt_ptxtool_image_make(const struct request *r, const char *input, const struct module *modules,
                          unsigned n, struct bytes *texts)
{
    int errors = 0, code;
    struct mt_ptx_result sum;
    LLVMContextRef context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(context, image_diagnose, &errors);
    image_stage(r, "reading");
    struct wanted w = image_wanted(r, modules, n);
    LLVMModuleRef module = image_read_all(r, &w, context, input, modules, n, texts, &sum, &code);
    if (!module && sum.undivided) {
        w.part = MT_PTX_WHOLE;
        module = image_read_all(r, &w, context, input, modules, n, texts, &sum, &code);
    }
    if (module) {
        mt_pass_options.part = w.part != MT_PTX_WHOLE;
        mt_pass_options.rdc = w.part != MT_PTX_WHOLE && sum.pointers;
        code = image_of_module(r, module, &errors);
        LLVMDisposeModule(module);
    }
    LLVMContextDispose(context);
    return code;
}
