/* PTX to IR, through LLVM's pipeline and our pass to an object, and with the linker to what the runtime
 * loads: a fatbin with nothing in it and the image after, as bin/fatbinary of the overlay writes for
 * programs without GPU code. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <llvm-c/Core.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include "../../llvm-pass/base/options.h"
#include "../../llvm-pass/pass.h"
#include "../../llvm-pass/ptx/module.h"
#include "../../runtime/cpu/abi.h"
#include "mt-ptx.h"

struct messages {
    const char *name;
    int errors;
};

static void image_tell(void *ctx, unsigned line, const char *message)
{
    struct messages *m = ctx;
    if (line) {
        fprintf(stderr, "%s:%u: %s\n", m->name, line, message);
    } else {
        fprintf(stderr, "%s: %s\n", m->name, message);
    }
}

static void image_diagnose(LLVMDiagnosticInfoRef info, void *ctx)
{
    struct messages *m = ctx;
    LLVMDiagnosticSeverity severity = LLVMGetDiagInfoSeverity(info);
    if (severity == LLVMDSRemark) {
        return;
    }
    char *text = LLVMGetDiagInfoDescription(info);
    m->errors += severity == LLVMDSError;
    fprintf(stderr, "%s%s\n",
            severity == LLVMDSError     ? "error: "
            : severity == LLVMDSWarning ? "warning: "
                                        : "",
            text);
    LLVMDisposeMessage(text);
}

/* ---- the pipeline ------------------------------------------------------------------------------------- */

/* The back end that device code is optimised for; NULL after a message. */
static LLVMTargetMachineRef image_machine(unsigned arch)
{
    static const char triple[] = "nvptx64-nvidia-cuda";
    LLVMTargetRef target;
    char *message = NULL, cpu[16];
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    if (LLVMGetTargetFromTriple(triple, &target, &message)) {
        fprintf(stderr, "mt-ptx: no NVPTX back end in this LLVM: %s\n", message);
        LLVMDisposeMessage(message);
        return NULL;
    }
    snprintf(cpu, sizeof cpu, "sm_%u", arch < 90 ? arch : 90);
    return LLVMCreateTargetMachine(target, triple, cpu, "+ptx83", LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                   LLVMCodeModelDefault);
}

/* What clang does with device code between its own IR and the pass. */
static int image_optimise(LLVMModuleRef module, unsigned arch, char level)
{
    char passes[] = "default<O2>";
    LLVMTargetMachineRef machine = image_machine(arch);
    if (!machine) {
        return 1;
    }
    passes[sizeof passes - 3] = level;
    mt_pass_options.level = level - '0';
    mt_pass_early(module);
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMErrorRef e = LLVMRunPasses(module, passes, machine, o);
    LLVMDisposePassBuilderOptions(o);
    LLVMDisposeTargetMachine(machine);
    if (e) {
        char *text = LLVMGetErrorMessage(e);
        fprintf(stderr, "mt-ptx: %s\n", text);
        LLVMDisposeErrorMessage(text);
        return 1;
    }
    return 0;
}

/* ---- files -------------------------------------------------------------------------------------------- */

static int image_failed(const char *name)
{
    fprintf(stderr, "mt-ptx: %s: %s\n", name, strerror(errno));
    return 1;
}

static int image_run_linker(const char *object, const char *out)
{
    const char *set = getenv("MEMTRACE_LD");
    const char *linkers[] = {set && *set ? set : "ld", "ld.lld-19", "ld.lld"};
    int code = -1;
    for (size_t i = 0; i < (set && *set ? 1 : sizeof linkers / sizeof *linkers) && code < 0; i++) {
        char *argv[] = {
            (char *)linkers[i], "-shared", "--hash-style=gnu", "--build-id=none", "-z", "now", "-z",
            "noexecstack",      "-o",      (char *)out,        (char *)object,    NULL};
        code = mt_cudabin_process_run(argv);
    }
    return code;
}

/* An empty fatbin, the payload's head and the shared object. */
static int image_write(const char *output, const struct bytes *linked)
{
    struct {
        uint32_t magic;
        uint16_t version, header_size;
        uint64_t size;
        struct mt_payload payload;
    } head = {.magic = 0xba55ed50u, .version = 1, .header_size = 16, .payload.size = linked->size};
    memcpy(head.payload.magic, MT_PAYLOAD_MAGIC, sizeof head.payload.magic);
    FILE *f = fopen(output, "we");
    if (!f) {
        return image_failed(output);
    }
    size_t n = fwrite(&head, sizeof head, 1, f);
    n += fwrite(linked->data, linked->size, 1, f);
    if (fclose(f) != 0 || n != 2) {
        unlink(output);
        return image_failed(output);
    }
    return 0;
}

static int image_link(const struct request *r, LLVMMemoryBufferRef object)
{
    struct bytes linked = {0};
    const char *from = mt_cudabin_temp_write(".o", LLVMGetBufferStart(object), LLVMGetBufferSize(object));
    const char *to = from ? mt_cudabin_temp_write(".so", "", 0) : NULL;
    if (!to) {
        return image_failed("temporary file");
    }
    int code = image_run_linker(from, to);
    if (code < 0) {
        fprintf(stderr, "mt-ptx: no linker (%s): install binutils or lld-19, or set MEMTRACE_LD\n",
                strerror(errno));
    } else if (code > 0) {
        fprintf(stderr, "mt-ptx: the CPU image does not link\n");
    }
    if (code != 0) {
        return 1;
    }
    if (mt_cudabin_file_read(to, &linked) != 0) {
        return image_failed(to);
    }
    code = image_write(r->output, &linked);
    mt_cudabin_bytes_free(&linked);
    return code;
}

static void image_stage(const struct request *r, const char *name)
{
    if (r->stage) {
        r->stage(name);
    }
}

static int image_emit_ir(const struct request *r, LLVMModuleRef module)
{
    char *message = NULL;
    if (strcmp(r->output, "-") == 0) {
        char *text = LLVMPrintModuleToString(module);
        int bad = fputs(text, stdout) < 0 || fflush(stdout) != 0;
        LLVMDisposeMessage(text);
        return bad ? image_failed("standard output") : 0;
    }
    if (LLVMPrintModuleToFile(module, r->output, &message)) {
        fprintf(stderr, "mt-ptx: %s\n", message);
        LLVMDisposeMessage(message);
        return 1;
    }
    return 0;
}

/* The module is used up. */
static int image_of_module(const struct request *r, LLVMModuleRef module, unsigned arch,
                           const struct messages *m)
{
    if (r->emit_ir) {
        return image_emit_ir(r, module);
    }
    image_stage(r, "optimising");
    if (image_optimise(module, arch, r->level) != 0) {
        return 1;
    }
    image_stage(r, "compiling");
    LLVMMemoryBufferRef object = mt_pass_image(module);
    int code = !object || m->errors ? 1 : image_link(r, object);
    if (object) {
        LLVMDisposeMemoryBuffer(object);
    }
    return code;
}

/* One text; NULL after messages. */
static LLVMModuleRef image_read(const struct request *r, LLVMContextRef context, const struct ptx *p,
                                struct mt_ptx_result *result)
{
    struct messages m = {.name = p->name};
    struct mt_ptx_source source = {
        .name = p->name, .text = p->text, .length = p->size, .tell = image_tell, .ctx = &m};
    LLVMModuleRef module = mt_ptx_read(context, &source, result);
    if (module && r->verbose) {
        fprintf(stderr, "mt-ptx: %s: %u kernels, %u other functions, %u not understood; lines of the %s\n",
                p->name, result->kernels, result->functions - result->kernels, result->failed,
                result->lines ? "source" : "PTX");
    }
    return module;
}

/* All texts as one module; NULL after messages. */
static LLVMModuleRef image_read_all(const struct request *r, LLVMContextRef context, const struct ptx *ptx,
                                    unsigned n, unsigned *arch)
{
    LLVMModuleRef all = NULL;
    *arch = 0;
    for (unsigned i = 0; i < n; i++) {
        struct mt_ptx_result result;
        LLVMModuleRef module = image_read(r, context, &ptx[i], &result);
        int bad = !module || (all && LLVMLinkModules2(all, module)); /* which says why */
        if (bad) {
            if (all) {
                LLVMDisposeModule(all);
            }
            return NULL;
        }
        all = all ? all : module;
        *arch = result.architecture > *arch ? result.architecture : *arch;
    }
    return all;
}

int mt_ptxtool_image_make(const struct request *r, const struct ptx *ptx, unsigned n)
{
    struct messages m = {.name = ptx->name};
    unsigned arch;
    LLVMContextRef context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(context, image_diagnose, &m);
    image_stage(r, "reading");
    LLVMModuleRef module = image_read_all(r, context, ptx, n, &arch);
    int code = 3;
    if (module) {
        code = image_of_module(r, module, arch, &m);
        LLVMDisposeModule(module);
    }
    LLVMContextDispose(context);
    return code;
}
