/* State of the pass for one device module: see unit.h. */
#include "unit.h"
#include "base/part.h"

#include <llvm-c/BitReader.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Members of structs that a call passes in memory (byval), as NVPTX's calls read them. */

void mt_argument_parts(struct mt_unit *u, LLVMTypeRef type, uint64_t align, uint64_t offset,
                       void (*part)(void *ctx, uint64_t offset, uint32_t size), void *ctx)
{
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    if (kind == LLVMStructTypeKind) {
        for (unsigned i = 0; i < LLVMCountStructElementTypes(type); i++)
            mt_argument_parts(u, LLVMStructGetTypeAtIndex(type, i), align,
                              offset + LLVMOffsetOfElement(u->layout, type, i), part, ctx);
        return;
    }
    if (kind == LLVMArrayTypeKind || kind == LLVMVectorTypeKind) {
        LLVMTypeRef element = LLVMGetElementType(type);
        uint64_t n = kind == LLVMArrayTypeKind ? LLVMGetArrayLength2(type) : LLVMGetVectorSize(type);
        for (uint64_t i = 0; i < n; i++)
            mt_argument_parts(u, element, align, offset + i * LLVMABISizeOfType(u->layout, element), part,
                              ctx);
        return;
    }
    uint64_t size = LLVMStoreSizeOfType(u->layout, type), step = size < 8 ? size : 8;
    while (step > 1 && (offset | align) & (step - 1))
        step /= 2;
    for (uint64_t at = 0; at < size; at += step)
        part(ctx, offset + at, (uint32_t)step);
}

/* ---- Small helpers over llvm-c ---- */

int mt_starts(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

int mt_ends(const char *text, const char *suffix)
{
    size_t a = strlen(text), b = strlen(suffix);
    return a >= b && !strcmp(text + a - b, suffix);
}

LLVMValueRef *mt_instructions(LLVMValueRef function, unsigned *count)
{
    unsigned n = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            n++;
    LLVMValueRef *list = malloc((n + 1) * sizeof *list);
    *count = 0;
    if (!list)
        return NULL;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            list[(*count)++] = i;
    return list;
}

LLVMValueRef mt_callee(LLVMValueRef call)
{
    LLVMValueRef f = LLVMGetCalledValue(call);
    return f ? LLVMIsAFunction(f) : NULL;
}

const char *mt_name(LLVMValueRef value)
{
    size_t n;
    return value ? LLVMGetValueName2(value, &n) : "";
}

LLVMTypeRef mt_type_ptr(const struct mt_unit *u)
{
    return LLVMPointerTypeInContext(u->context, 0);
}

LLVMTypeRef mt_type_int(const struct mt_unit *u, unsigned bits)
{
    return LLVMIntTypeInContext(u->context, bits);
}

LLVMValueRef mt_declare(LLVMModuleRef module, const char *name, LLVMTypeRef type)
{
    LLVMValueRef f = LLVMGetNamedFunction(module, name);
    return f ? f : LLVMAddFunction(module, name, type);
}

/* Builds paths for the pass in a program: ROOT/libexec/memtrace/program, ROOT/LIBDIR/memtrace/name. */
static void util_beside_program(char path[PATH_MAX], const char *libdir, const char *name)
{
    char root[PATH_MAX];
    if (mt_files_self(root, 3) == 0 && *root &&
        snprintf(path, PATH_MAX, "%s/%s/memtrace/%s", root, libdir, name) >= PATH_MAX)
        *path = 0;
}

LLVMModuleRef mt_load_bitcode(struct mt_unit *u, const char *name)
{
    /* Bodies are read when they are linked. The module owns the buffer, even of a file that is not
     * bitcode. */
    char path[PATH_MAX];
    const char *self = mt_shim_self(), *slash = strrchr(self, '/');
    if (*name == '/')
        snprintf(path, sizeof path, "%s", name);
    else
        snprintf(path, sizeof path, "%.*smemtrace/%s", slash ? (int)(slash + 1 - self) : 0, self, name);
    for (int i = 0; i < 2 && access(path, R_OK); i++)
        util_beside_program(path, i ? MT_LIBDIR : "lib", name);
    LLVMMemoryBufferRef buffer;
    char *message = NULL;
    if (LLVMCreateMemoryBufferWithContentsOfFile(path, &buffer, &message)) {
        mt_diag(u, NULL, MT_DIAG_ERROR, "cannot read %s: %s; the installation is incomplete", path, message);
        LLVMDisposeMessage(message);
        return NULL;
    }
    LLVMModuleRef m = NULL;
    if (LLVMGetBitcodeModuleInContext2(u->context, buffer, &m)) {
        mt_diag(u, NULL, MT_DIAG_ERROR, "%s is not bitcode of LLVM 19", path);
        return NULL;
    }
    return m;
}

void mt_diag(struct mt_unit *u, LLVMValueRef inst, enum mt_severity severity, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mt_shim_diag(u->context, inst, severity, text);
}

LLVMValueRef mt_private_constant(LLVMModuleRef module, LLVMValueRef value, const char *name)
{
    LLVMValueRef g = LLVMAddGlobal(module, LLVMTypeOf(value), name);
    LLVMSetInitializer(g, value);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetLinkage(g, LLVMPrivateLinkage);
    return g;
}

LLVMValueRef mt_private_text(LLVMModuleRef module, const char *text, const char *name)
{
    LLVMContextRef c = LLVMGetModuleContext(module);
    LLVMValueRef g = mt_private_constant(module, LLVMConstStringInContext2(c, text, strlen(text), 0), name);
    LLVMSetUnnamedAddress(g, LLVMGlobalUnnamedAddr);
    return g;
}

void mt_unit_init(struct mt_unit *u, LLVMModuleRef module)
{
    memset(u, 0, sizeof *u);
    u->module = module;
    u->context = LLVMGetModuleContext(module);
    u->layout = LLVMGetModuleDataLayout(module);
    u->options = &mt_pass_options;
}

void mt_unit_free(struct mt_unit *u)
{
    for (unsigned i = 0; i < u->nfacts; i++) {
        free(u->facts[i].name);
        free(u->facts[i].pretty);
        free(u->facts[i].file);
    }
    for (unsigned i = 0; i < u->nkernels; i++) {
        free(u->kernels[i].name);
        free(u->kernels[i].pretty);
        free(u->kernels[i].signature);
        free(u->kernels[i].file);
    }
    for (unsigned i = 0; i < u->nsites; i++) {
        free(u->sites[i].file);
        free(u->sites[i].function);
        free(u->sites[i].variable);
    }
    for (unsigned i = 0; i < u->nnotes; i++) {
        free(u->notes[i].what);
        free(u->notes[i].file);
    }
    for (unsigned i = 0; i < u->nobjects; i++) {
        free(u->objects[i].symbol);
        free(u->objects[i].name);
    }
    free(u->facts);
    free(u->objects);
    free(u->kernels);
    free(u->sites);
    free(u->site_variable);
    free(u->notes);
    free(u->locals);
}
