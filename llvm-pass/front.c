/* Gives the device module the form that ptxas would get: the back end makes PTX of a copy, and the IR that
 * ptx/ reads from that text replaces the module. Records thus match the hardware's accesses, whatever
 * instruction selection did. Source locations do not travel as text: in the copy each instruction has a
 * number as its line; read back, the number stands for the module's location with all its inlining. */
#include "trace/trace.h"
#include "ptx/module/module.h"
#include "unit/pass.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/Transforms/PassBuilder.h>

/* The text comes from optimised code. Registers become values; nothing is inlined or moved, and no loop
 * changes: accesses stay as in the text. */
#define FRONT_PASSES "function(adce,sroa,early-cse,instsimplify,adce)"
#define FRONT_LIMIT (1u << 30) /* the text is our own */

struct front {
    LLVMModuleRef module;
    LLVMMemoryBufferRef text;
    LLVMMetadataRef *places;
    unsigned nplaces;
    int failed;
};

/* ---- callbacks of the reader --------------------------------------------------------------------------- */

static void front_begin(void *ctx, LLVMModuleRef made)
{
    struct front *f = ctx;
    mt_shim_share_debug(made, f->module);
}

static LLVMMetadataRef front_location(void *ctx, unsigned line)
{
    struct front *f = ctx;
    return line && line <= f->nplaces ? f->places[line - 1] : NULL;
}

static int front_never(void *ctx, unsigned line)
{
    struct front *f = ctx;
    return line && line <= f->nplaces && !f->places[line - 1];
}

static LLVMMetadataRef front_subprogram(void *ctx, const char *name)
{
    struct front *f = ctx;
    LLVMValueRef function = LLVMGetNamedFunction(f->module, name);
    return function ? LLVMGetSubprogram(function) : NULL;
}

/* Returns the location for a line of the text, the last one stated before it; NULL: none. */
static LLVMMetadataRef front_place_of(const struct front *f, unsigned line)
{
    static const char word[] = ".loc\t1 ";
    const char *text = LLVMGetBufferStart(f->text), *end = text, *at, *found = NULL;
    for (unsigned i = 0; end && i < line; i++) {
        end = strchr(end, '\n');
        end = end ? end + 1 : NULL;
    }
    for (at = text; end && (at = strstr(at, word)) && at < end; at++)
        found = at + sizeof word - 1;
    return found ? front_location((void *)(uintptr_t)f, (unsigned)strtoul(found, NULL, 10)) : NULL;
}

static void front_tell(void *ctx, unsigned line, const char *message)
{
    struct front *f = ctx;
    char text[600], place[300] = "";
    LLVMMetadataRef at = front_place_of(f, line),
                    file = at ? LLVMDIScopeGetFile(LLVMDILocationGetScope(at)) : NULL;
    unsigned n;
    const char *name = file ? LLVMDIFileGetFilename(file, &n) : NULL;
    if (name)
        snprintf(place, sizeof place, "%.*s:%u: ", (int)(n < 250 ? n : 250), name, LLVMDILocationGetLine(at));
    snprintf(text, sizeof text, "%sthe PTX of this is not understood: %s", place, message);
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
    mt_shim_diag(LLVMGetModuleContext(f->module), NULL, MT_DIAG_ERROR, text);
    f->failed = 1;
}

/* ---- transfer from the old module to the new one
 * --------------------------------------------------------- */

/* Aligns arrays on the stack to 16 bytes, as nvcc does: programs read them as float4. clang's code relies
 * on where ptxas puts them. */
static void front_align_arrays(LLVMModuleRef module)
{
    LLVMTargetDataRef layout = LLVMGetModuleDataLayout(module);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++)
            if (LLVMIsAAllocaInst(list[i]) && LLVMGetAlignment(list[i]) < 16 &&
                LLVMABISizeOfType(layout, LLVMGetAllocatedType(list[i])) >= 16)
                LLVMSetAlignment(list[i], 16);
        free(list);
    }
}

/* Lets variables on the stack become values, unless local memory is recorded. */
static void front_release_stack(LLVMModuleRef made)
{
    if (mt_pass_options.spaces & MT_SPACES_LOCAL)
        return;
    for (LLVMValueRef f = LLVMGetFirstFunction(made); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
                if ((LLVMIsALoadInst(i) || LLVMIsAStoreInst(i)) && mt_ptx_kept_as(i) &&
                    LLVMIsAAllocaInst(mt_base_of(LLVMGetOperand(i, LLVMIsAStoreInst(i) != NULL))))
                    mt_ptx_release_access(i);
}

/* Copies properties that PTX cannot express: sections, constants, visibility and interposition. */
static void front_take_global(LLVMValueRef old, LLVMValueRef made)
{
    const char *section = LLVMGetSection(old);
    if (section && *section)
        LLVMSetSection(made, section);
    if (LLVMIsDeclaration(made))
        return;
    LLVMSetLinkage(made, LLVMIsDeclaration(old) ? LLVMInternalLinkage : LLVMGetLinkage(old));
    if (LLVMIsAGlobalVariable(made) && LLVMIsGlobalConstant(old))
        LLVMSetGlobalConstant(made, 1);
}

static void front_take_variables(LLVMModuleRef from, LLVMModuleRef made)
{
    for (LLVMValueRef g = LLVMGetFirstGlobal(from), to; g; g = LLVMGetNextGlobal(g))
        if (!mt_starts(mt_name(g), "llvm.") && (to = LLVMGetNamedGlobal(made, mt_name(g))))
            front_take_global(g, to);
}

static void front_take_functions(LLVMModuleRef from, LLVMModuleRef made)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(from), to; f; f = LLVMGetNextFunction(f))
        if ((to = LLVMGetNamedFunction(made, mt_name(f)))) {
            front_take_global(f, to);
            mt_copy_param_names(f, to);
        }
}

static void front_take_attribute(LLVMValueRef old, LLVMValueRef made, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAttributeRef a = LLVMGetEnumAttributeAtIndex(old, LLVMAttributeFunctionIndex, kind);
    if (a)
        LLVMAddAttributeAtIndex(made, LLVMAttributeFunctionIndex, a);
}

/* Copies attributes: no optimisation, no inlining, loops that end. */
static void front_take_attributes(LLVMModuleRef from, LLVMModuleRef made)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(from), to; f; f = LLVMGetNextFunction(f))
        if ((to = LLVMGetNamedFunction(made, mt_name(f))) && !LLVMIsDeclaration(to)) {
            front_take_attribute(f, to, "noinline");
            front_take_attribute(f, to, "optnone");
            front_take_attribute(f, to, "mustprogress");
        }
}

void mt_pass_promote(LLVMModuleRef made)
{
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    front_release_stack(made);
    mt_ptx_keep_loads(made, 1);
    LLVMErrorRef e = LLVMRunPasses(made, FRONT_PASSES, NULL, o);
    mt_ptx_keep_loads(made, 0);
    LLVMDisposePassBuilderOptions(o);
    if (e)
        LLVMConsumeError(e);
    for (LLVMValueRef f = LLVMGetFirstFunction(made); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            mt_ptx_find_pointers(f);
}

static LLVMModuleRef front_read(struct front *f)
{
    struct mt_ptx_origin origin = {front_begin, front_location, front_subprogram, front_never, f};
    struct mt_ptx_source source = {.name = "device.ptx",
                                   .text = LLVMGetBufferStart(f->text),
                                   .length = LLVMGetBufferSize(f->text),
                                   .tell = front_tell,
                                   .ctx = f,
                                   .limit = FRONT_LIMIT,
                                   .origin = &origin};
    struct mt_ptx_result result;
    return mt_ptx_read(LLVMGetModuleContext(f->module), &source, &result);
}

int mt_pass_front(LLVMModuleRef module)
{
    struct front f = {.module = module};
    front_align_arrays(module);
    f.text =
        mt_shim_emit_ptx(module, mt_pass_options.level, mt_pass_options.contract_all, &f.places, &f.nplaces);
    LLVMModuleRef made = f.text ? front_read(&f) : NULL;
    if (f.text)
        LLVMDisposeMemoryBuffer(f.text);
    if (made) {
        mt_shim_keep_used(made, module);
        front_take_functions(module, made);
        mt_pass_promote(made);
        front_take_attributes(module, made);
        front_take_variables(module, made);
        f.failed |= mt_shim_replace_module(module, made) != 0;
    }
    free(f.places);
    return made && !f.failed ? 0 : -1;
}
