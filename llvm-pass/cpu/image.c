/* The image's tables as LLVM constants, in the order of format/image.def. */
#include "cpu.h"
#include "trace/trace.h"
#include "ptx/module/module.h"
#include "format/image.h"
#include "lower/lowering.h"
#include "unit/pass.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Compiles the CPU module to an x86-64 object ---- */

LLVMTargetMachineRef mt_set_cpu_target(struct mt_unit *u, LLVMModuleRef clone)
{
    static const char triple[] = "x86_64-pc-linux-gnu";
    LLVMTargetRef target;
    char *message = NULL;
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    if (LLVMGetTargetFromTriple(triple, &target, &message)) {
        mt_diag(u, NULL, MT_DIAG_ERROR, "no x86-64 back end in this LLVM: %s", message);
        LLVMDisposeMessage(message);
        return NULL;
    }
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
        target, triple, mt_image_cpu(u), u->options->cpu_features ? u->options->cpu_features : "",
        LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetTarget(clone, triple);
    LLVMSetModuleDataLayout(clone, layout);
    LLVMDisposeTargetData(layout);
    return machine;
}

#define LONG_BLOCK 4096 /* instructions */
#define PIECE 256

/* Splits long blocks. The inliner moves the code after a call in its block, once per call: thousands of
 * unrolled mma in one block take quadratic time. simplifycfg joins the pieces again. Such a function is
 * also kept from the SLP vectoriser, which takes a quarter of the time and finds nothing. */
static int emit_cut_block(LLVMBasicBlockRef block)
{
    unsigned n = 0, i = 0;
    for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
        n++;
    if (n < LONG_BLOCK)
        return 0;
    for (LLVMValueRef at = LLVMGetLastInstruction(block), before; at; at = before, i++) {
        before = LLVMGetPreviousInstruction(at); /* from the end: one piece moves each time */
        if (LLVMIsAPHINode(at) || LLVMIsAAllocaInst(at))
            break; /* these are not moved */
        if (before && i % PIECE == PIECE - 1)
            mt_shim_split(at);
    }
    return 1;
}

static int emit_cut_blocks(LLVMModuleRef module)
{
    unsigned off = LLVMGetEnumAttributeKindForName("noimplicitfloat", 15);
    int any = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        int cut = 0;
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            cut |= emit_cut_block(b);
        if (cut)
            LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex,
                                    LLVMCreateEnumAttribute(LLVMGetModuleContext(module), off, 0));
        any |= cut;
    }
    return any;
}

/* Lets accesses to null be, at which a GPU faults: LLVM takes code that leads to one for dead. */
static void emit_keep_nulls(LLVMModuleRef module)
{
    static const char name[] = "null_pointer_is_valid";
    LLVMAttributeRef a = LLVMCreateEnumAttribute(LLVMGetModuleContext(module),
                                                 LLVMGetEnumAttributeKindForName(name, sizeof name - 1), 0);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, a);
}

/* Passes of LLVM's default<O2> that help code which was already optimised, as the program's was; the other
 * two thirds find nothing. */
#define SIMPLIFY                                                                                             \
    "simplifycfg<bonus-inst-threshold=1;no-forward-switch-cond;switch-range-to-icmp;no-switch-to-lookup;"    \
    "keep-loops;no-hoist-common-insts;no-sink-common-insts;speculate-blocks;simplify-cond-branch>"
#define SIMPLIFY_LAST                                                                                        \
    "simplifycfg<bonus-inst-threshold=1;forward-switch-cond;switch-range-to-icmp;switch-to-lookup;"          \
    "no-keep-loops;hoist-common-insts;sink-common-insts;speculate-blocks;simplify-cond-branch>"
#define COMBINE "instcombine<max-iterations=1;no-use-loop-info;no-verify-fixpoint>"
static const char emit_passes[] =
    "always-inline,function(sroa),cgscc(inline),globaldce,function(sroa<modify-cfg>,early-cse<memssa>,"
    "sccp," SIMPLIFY "," COMBINE
    ",jump-threading,correlated-propagation,loop-mssa(loop-rotate,licm),gvn,dse," COMBINE
    ",adce," SIMPLIFY_LAST ")";

/* Optimises and compiles a lowered module. Returns NULL after a diagnostic. */
static LLVMMemoryBufferRef unit_compile(struct mt_unit *u, LLVMModuleRef m, LLVMTargetMachineRef machine)
{
    LLVMMemoryBufferRef object = NULL;
    char *message = NULL;
    emit_keep_nulls(m);
    if (mt_run_passes(u, m, "globaldce", machine) ||
        (emit_cut_blocks(m) && mt_run_passes(u, m, "always-inline", machine)) ||
        mt_run_passes(u, m, emit_passes, machine))
        return NULL;
    if (!(object = mt_shim_emit_object(m, machine, &message))) {
        mt_diag(u, NULL, MT_DIAG_ERROR, "cannot compile the CPU image: %s", message);
        LLVMDisposeMessage(message);
        return NULL;
    }
    return object;
}

#define MAX_FIELDS 32

/* A row under construction: constants in field order. */
struct row {
    LLVMValueRef field[MAX_FIELDS];
    unsigned n;
};

static LLVMValueRef image_text(struct mt_lowering *l, const char *s)
{
    if (!s)
        s = "";
    return mt_private_text(l->module, s, "mt.str");
}

static LLVMValueRef image_plain(struct mt_lowering *l, LLVMValueRef pointer)
{
    if (!pointer)
        return LLVMConstNull(l->ptr);
    return LLVMGetPointerAddressSpace(LLVMTypeOf(pointer)) ? LLVMConstAddrSpaceCast(pointer, l->ptr)
                                                           : pointer;
}

/* Field constants by kind: PTR takes an LLVMValueRef, U32 and U64 numbers. */
#define PUT_PTR(x) r.field[r.n++] = image_plain(l, (x));
#define PUT_U32(x) r.field[r.n++] = LLVMConstInt(l->i32, (x), 0);
#define PUT_U64(x) r.field[r.n++] = LLVMConstInt(l->i64, (x), 0);
#define DECLARE_PTR(name) LLVMValueRef name;
#define DECLARE_U32(name) uint32_t name;
#define DECLARE_U64(name) uint64_t name;
#define DECLARE(kind, name) DECLARE_##kind(name)
#define EMIT(kind, name) PUT_##kind(v.name)

static LLVMValueRef image_row(struct mt_lowering *l, struct row *r)
{
    return LLVMConstStructInContext(l->u->context, r->field, r->n, 0);
}

/* Makes an internal constant array of rows; null pointer if empty. */
static LLVMValueRef image_table(struct mt_lowering *l, const char *name, LLVMValueRef *rows, unsigned n)
{
    if (!n)
        return NULL;
    LLVMValueRef value = LLVMConstArray2(LLVMTypeOf(rows[0]), rows, n);
    LLVMValueRef g = LLVMAddGlobal(l->module, LLVMTypeOf(value), name);
    LLVMSetInitializer(g, value);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetLinkage(g, LLVMInternalLinkage);
    return g;
}

static LLVMValueRef image_params(struct mt_lowering *l, unsigned k)
{
    struct mt_kernel *kernel = &l->u->kernels[k];
    unsigned align_kind = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMValueRef *rows = malloc((kernel->nparams + 1) * sizeof *rows);
    for (unsigned i = 0; rows && i < kernel->nparams; i++) {
        LLVMTypeRef byval = mt_shim_byval_type(l->traced.kernels[k], i);
        LLVMTypeRef type = byval ? byval : LLVMTypeOf(LLVMGetParam(l->traced.kernels[k], i));
        char *name = mt_param_name(LLVMGetParam(l->traced.kernels[k], i));
        struct {
#define MT_IMAGE_PARAM DECLARE
#include "format/image.def"
        } v = {.name = image_text(l, name),
               .size = (uint32_t)LLVMABISizeOfType(l->u->layout, type),
               .align = LLVMABIAlignmentOfType(l->u->layout, type)};
        LLVMAttributeRef align =
            byval ? LLVMGetEnumAttributeAtIndex(l->traced.kernels[k], i + 1, align_kind) : NULL;
        if (align && LLVMGetEnumAttributeValue(align) > v.align)
            v.align = (uint32_t)LLVMGetEnumAttributeValue(align);
        free(name);
        struct row r = {.n = 0};
#define MT_IMAGE_PARAM EMIT
#include "format/image.def"
        rows[i] = image_row(l, &r);
    }
    LLVMValueRef t = rows ? image_table(l, "mt.params", rows, kernel->nparams) : NULL;
    free(rows);
    return t;
}

static LLVMValueRef image_kernels(struct mt_lowering *l)
{
    LLVMValueRef *rows = malloc((l->u->nkernels + 1) * sizeof *rows);
    for (unsigned i = 0; rows && i < l->u->nkernels; i++) {
        struct mt_kernel *k = &l->u->kernels[i];
        struct {
#define MT_IMAGE_KERNEL DECLARE
#include "format/image.def"
        } v = {.name = image_text(l, k->name),
               .pretty = image_text(l, k->pretty),
               .signature = image_text(l, k->signature),
               .file = image_text(l, k->file),
               .line = k->line,
               .flags =
                   (k->traced ? MT_KERNEL_TRACED : 0) | (k->gpu_untraced ? MT_KERNEL_GPU_UNTRACED : 0) |
                   (k->traced && !l->u->options->gpu_trace ? MT_KERNEL_GPU_UNTRACED | MT_KERNEL_GPU_LEFT_OUT
                                                           : 0) |
                   (k->frames ? MT_KERNEL_FRAMES : 0) | (k->gpu_records ? MT_KERNEL_GPU_RECORDS : 0) |
                   (k->gpu_records && !k->has_plain ? MT_KERNEL_GPU_ALONE : 0) |
                   (k->flush ? MT_KERNEL_FLUSH : 0) | (mt_pass_counting ? MT_KERNEL_COUNTED : 0) |
                   (mt_pass_counting == MT_COUNT_ONLY ? MT_KERNEL_NO_RECORDS : 0) |
                   (l->u->options->spaces & MT_SPACES_SHARED ? MT_KERNEL_BARRIERS : 0) |
                   (l->vector[i].waits ? MT_KERNEL_WARPS : 0) | (k->parted ? MT_KERNEL_PARTED : 0),
               .entry = l->traced.entries[i],
               .plain_entry = l->plain.entries[i],
               .vector_rows = l->vector[i].rows,
               .vector_tiles = l->vector[i].tiles,
               .record_rows = l->vector[i].record_rows,
               .record_tiles = l->vector[i].record_tiles,
               .record_any = l->vector[i].record_any,
               .params = image_params(l, i),
               .nparams = k->nparams,
               .shared_static = k->shared_static,
               .max_threads = k->max_threads,
               .min_blocks = k->min_blocks,
               .cluster_x = k->cluster[0],
               .cluster_y = k->cluster[1],
               .cluster_z = k->cluster[2]};
        struct row r = {.n = 0};
#define MT_IMAGE_KERNEL EMIT
#include "format/image.def"
        rows[i] = image_row(l, &r);
    }
    LLVMValueRef t = rows ? image_table(l, "mt.kernels", rows, l->u->nkernels) : NULL;
    free(rows);
    return t;
}

static LLVMValueRef image_sites(struct mt_lowering *l)
{
    LLVMValueRef *rows = malloc((l->u->nsites + 1) * sizeof *rows);
    for (unsigned i = 0; rows && i < l->u->nsites; i++) {
        struct mt_site *s = &l->u->sites[i];
        struct {
#define MT_IMAGE_SITE DECLARE
#include "format/image.def"
        } v = {.file = image_text(l, s->file),
               .function = image_text(l, s->function),
               .variable = image_text(l, s->variable),
               .line = s->line,
               .column = s->column,
               .op = s->op,
               .size = s->size,
               .align = s->align,
               .scope = s->scope,
               .order = s->order,
               .object = s->object,
               .overwrites = s->overwrites};
        struct row r = {.n = 0};
#define MT_IMAGE_SITE EMIT
#include "format/image.def"
        rows[i] = image_row(l, &r);
    }
    LLVMValueRef t = rows ? image_table(l, "mt.sites", rows, l->u->nsites) : NULL;
    free(rows);
    return t;
}

/* Returns the variable in the image; NULL: it has no place of its own there, or several. */
static LLVMValueRef image_variable_named(struct mt_lowering *l, const char *symbol)
{
    char name[4200];
    snprintf(name, sizeof name, MT_DEVICE_PREFIX "%s", symbol);
    LLVMValueRef g = LLVMGetNamedGlobal(l->module, symbol);
    g = g ? g : LLVMGetNamedGlobal(l->module, name);
    return g && LLVMGetUnnamedAddress(g) == LLVMNoUnnamedAddr ? g : NULL;
}

static LLVMValueRef image_objects(struct mt_lowering *l)
{
    LLVMValueRef *rows = malloc((l->u->nobjects + 1) * sizeof *rows);
    for (unsigned i = 0; rows && i < l->u->nobjects; i++) {
        const struct mt_bounds *o = &l->u->objects[i];
        struct {
#define MT_IMAGE_OBJECT DECLARE
#include "format/image.def"
        } v = {.name = image_text(l, o->name),
               .address = o->space == MT_OBJECT_GLOBAL ? image_variable_named(l, o->symbol) : NULL,
               .place = o->place,
               .offset = o->offset,
               .bytes = o->bytes,
               .space = o->space,
               .dynamic = o->dynamic};
        struct row r = {.n = 0};
#define MT_IMAGE_OBJECT EMIT
#include "format/image.def"
        rows[i] = image_row(l, &r);
    }
    LLVMValueRef t = rows ? image_table(l, "mt.objects", rows, l->u->nobjects) : NULL;
    free(rows);
    return t;
}

static LLVMValueRef image_vars(struct mt_lowering *l)
{
    LLVMValueRef *rows = malloc((l->nvars + 1) * sizeof *rows);
    for (unsigned i = 0; rows && i < l->nvars; i++) {
        LLVMValueRef g = l->vars[i].global;
        struct {
#define MT_IMAGE_VAR DECLARE
#include "format/image.def"
        } v = {.name = image_text(l, l->vars[i].name),
               .address = g,
               .size = LLVMABISizeOfType(l->u->layout, l->vars[i].type),
               .kind = l->vars[i].kind};
        struct row r = {.n = 0};
#define MT_IMAGE_VAR EMIT
#include "format/image.def"
        rows[i] = image_row(l, &r);
    }
    LLVMValueRef t = rows ? image_table(l, "mt.vars", rows, l->nvars) : NULL;
    free(rows);
    return t;
}

static LLVMValueRef image_notes(struct mt_lowering *l)
{
    LLVMValueRef *rows = malloc((l->u->nnotes + 1) * sizeof *rows);
    for (unsigned i = 0; rows && i < l->u->nnotes; i++) {
        struct mt_note *n = &l->u->notes[i];
        struct {
#define MT_IMAGE_NOTE DECLARE
#include "format/image.def"
        } v = {
            .what = image_text(l, n->what), .file = image_text(l, n->file), .line = n->line, .kind = n->kind};
        struct row r = {.n = 0};
#define MT_IMAGE_NOTE EMIT
#include "format/image.def"
        rows[i] = image_row(l, &r);
    }
    LLVMValueRef t = rows ? image_table(l, "mt.notes", rows, l->u->nnotes) : NULL;
    free(rows);
    return t;
}

static void image_variable(struct mt_var *v, LLVMValueRef g, const char *name)
{
    v->global = g;
    v->type = LLVMGlobalGetValueType(g);
    v->kind = LLVMGetPointerAddressSpace(LLVMTypeOf(g)) == 4 ? MT_VAR_CONSTANT : MT_VAR_DEVICE;
    LLVMSetSection(g, "");
    if (mt_starts(name, MT_MANAGED_PREFIX)) { /* lower.c */
        name += strlen(MT_MANAGED_PREFIX);
        v->kind = MT_VAR_MANAGED;
        v->type = LLVMGlobalGetValueType(LLVMGetOperand(LLVMGetInitializer(g), 0));
    }
    v->name = strdup(name);
}

void mt_image_variables(struct mt_lowering *l)
{
    unsigned n = 0;
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module); g; g = LLVMGetNextGlobal(g))
        n++;
    l->vars = calloc(n + 1, sizeof *l->vars);
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module); l->vars && g; g = LLVMGetNextGlobal(g)) {
        const char *name = mt_name(g);
        if (LLVMIsDeclaration(g) || mt_starts(name, "llvm.") || mt_starts(name, ".str") ||
            mt_starts(name, "mt.") || mt_starts(name, MT_SHARED_PREFIX))
            continue;
        if (mt_is_shared_name(g))
            name += strlen(MT_DEVICE_PREFIX);
        image_variable(&l->vars[l->nvars++], g, name);
    }
}

/* Writes the processor, and the minimum level for one that the runtime does not know by name. */
static LLVMValueRef image_cpu(struct mt_lowering *l)
{
    const char *name = mt_image_cpu(l->u), *features = l->u->options->cpu_features;
    char with_level[256];
    int v4 = mt_shim_x86_has(name, features ? features : "", MT_CPU_V4) > 0;
    snprintf(with_level, sizeof with_level, "%s (x86-64-v%d)", name, v4 ? 4 : 3);
    return image_text(l, mt_starts(name, "x86-64-v") ? name : with_level);
}

/* Returns the architecture that programs query: CUB chooses the number of threads by it. */
static int image_architecture(const struct mt_unit *u)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, MT_PTX_ARCHITECTURE,
                                                           strlen(MT_PTX_ARCHITECTURE));
        unsigned n;
        if (!LLVMIsDeclaration(f) && mt_unit_architecture(f))
            return a ? atoi(LLVMGetStringAttributeValue(a, &n)) : mt_unit_architecture(f);
    }
    return 0;
}

void mt_image_tables(struct mt_lowering *l)
{
    struct mt_unit *u = l->u;
    size_t length;
    struct {
#define MT_IMAGE_HEAD DECLARE
#include "format/image.def"
    } v = {.magic = MT_IMAGE_MAGIC,
           .version = MT_IMAGE_VERSION,
           .cpu = image_cpu(l),
           .source = image_text(l, LLVMGetSourceFileName(l->module, &length)),
           .kernels = image_kernels(l),
           .sites = image_sites(l),
           .vars = image_vars(l),
           .notes = image_notes(l),
           .nkernels = u->nkernels,
           .nsites = u->nsites,
           .nvars = l->nvars,
           .nnotes = u->nnotes,
           .shared_size = u->shared_size,
           .shared = l->shared,
           .site_base = l->site_base,
           .arch = (uint32_t)image_architecture(u),
           .nobjects = u->nobjects,
           .objects = image_objects(l),
           .site_variable = u->site_variable ? image_text(l, u->site_variable) : LLVMConstNull(l->ptr)};
    struct row r = {.n = 0};
#define MT_IMAGE_HEAD EMIT
#include "format/image.def"
    LLVMValueRef value = image_row(l, &r);
    LLVMValueRef g = LLVMAddGlobal(l->module, LLVMTypeOf(value), "mt_image");
    LLVMSetInitializer(g, value);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetVisibility(g, LLVMDefaultVisibility);
    for (unsigned i = 0; i < l->nvars; i++)
        free(l->vars[i].name);
}

/* Compiles a lowered module in several processes at once: each takes the kernels of its part with all
 * functions they call and makes an object; one linker run makes the image. Shared variables and tables are
 * defined in the first part. */

/* Returns the name of the kernel, or of its version without records, that this runtime function runs;
 * NULL: none. */
static const char *split_kernel(LLVMValueRef f)
{
    static const char *const prefixes[] = {MT_RUN_ENTRY, MT_RUN_WARPS};
    for (size_t i = 0; !LLVMIsDeclaration(f) && i < sizeof prefixes / sizeof *prefixes; i++)
        if (mt_starts(mt_name(f), prefixes[i]))
            return mt_name(f) + strlen(prefixes[i]);
    return NULL;
}

/* Returns the part of a kernel: everything that runs it is in one part, as it shares functions. */
static unsigned split_part(const struct mt_unit *u, const char *kernel, unsigned n)
{
    for (unsigned i = 0; i < u->nkernels; i++) {
        size_t length = strlen(u->kernels[i].name);
        if (!strncmp(u->kernels[i].name, kernel, length) && (!kernel[length] || kernel[length] == '.'))
            return i % n;
    }
    return 0;
}

/* Returns 1 for texts and the like, of which each part may have a copy. */
static int split_is_copied(LLVMValueRef g)
{
    return LLVMIsGlobalConstant(g) && LLVMGetUnnamedAddress(g) == LLVMGlobalUnnamedAddr &&
           (LLVMGetLinkage(g) == LLVMPrivateLinkage || LLVMGetLinkage(g) == LLVMInternalLinkage);
}

/* Makes a name of this image visible to all its objects. */
static void split_show(LLVMValueRef g)
{
    if (LLVMGetLinkage(g) != LLVMInternalLinkage && LLVMGetLinkage(g) != LLVMPrivateLinkage)
        return;
    if (!*mt_name(g))
        LLVMSetValueName2(g, "mt.shared", 9);
    LLVMSetLinkage(g, LLVMExternalLinkage);
    LLVMSetVisibility(g, LLVMHiddenVisibility);
}

/* Returns 1 if the function must have one address in all parts, the first one's. */
static int split_is_pointed(LLVMValueRef f)
{
    return !LLVMIsDeclaration(f) && !mt_is_shared_name(f) && !split_kernel(f) && mt_is_address_taken(f);
}

static void split_prepare(LLVMModuleRef m)
{
    for (LLVMValueRef g = LLVMGetFirstGlobal(m); g; g = LLVMGetNextGlobal(g))
        if (!LLVMIsDeclaration(g) && !split_is_copied(g))
            split_show(g);
    for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
        if (split_kernel(f) || split_is_pointed(f))
            split_show(f);
}

static void split_declare(LLVMModuleRef m, LLVMValueRef f)
{
    char *name = strdup(mt_name(f));
    LLVMSetValueName2(f, "", 0);
    LLVMValueRef other = LLVMAddFunction(m, name, LLVMGlobalGetValueType(f));
    LLVMSetVisibility(other, LLVMHiddenVisibility);
    LLVMReplaceAllUsesWith(f, other);
    LLVMDeleteFunction(f);
    free(name);
}

/* Keeps only the contents of part p. */
static void split_take(struct mt_unit *u, LLVMModuleRef m, unsigned p, unsigned n)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(m), next; f; f = next) {
        next = LLVMGetNextFunction(f);
        const char *kernel = split_kernel(f);
        if (kernel && split_part(u, kernel, n) != p)
            split_declare(m, f);
        else if (p && !kernel && !LLVMIsDeclaration(f) && LLVMGetVisibility(f) == LLVMHiddenVisibility)
            LLVMSetLinkage(f, LLVMAvailableExternallyLinkage); /* split_prepare has made it visible */
    }
    for (LLVMValueRef g = LLVMGetFirstGlobal(m), next; p && g; g = next) {
        next = LLVMGetNextGlobal(g);
        if (LLVMIsDeclaration(g) || split_is_copied(g))
            continue;
        if (LLVMGetLinkage(g) == LLVMAppendingLinkage) {
            LLVMDeleteGlobal(g);
            continue;
        }
        LLVMSetInitializer(g, NULL);
        LLVMSetLinkage(g, LLVMExternalLinkage);
    }
}

/* ---- processes ---- */

struct part {
    int pid, file;
};

static int split_write(int file, const char *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(file, data + done, size - done);
        if (n <= 0 && errno != EINTR)
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Never returns. */
static void split_child(struct mt_unit *u, LLVMModuleRef m, LLVMTargetMachineRef machine, unsigned p,
                        unsigned n, int file)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    split_take(u, m, p, n);
    LLVMMemoryBufferRef object = unit_compile(u, m, machine);
    _exit(!object || split_write(file, LLVMGetBufferStart(object), LLVMGetBufferSize(object)));
}

/* *number: the signal that ended it. */
static LLVMMemoryBufferRef split_collect(struct part *part, int *number)
{
    LLVMMemoryBufferRef object = NULL;
    struct stat st;
    int status = -1, got;
    while ((got = waitpid(part->pid, &status, 0)) < 0 && errno == EINTR) {
    }
    if (got == part->pid && status == 0 && fstat(part->file, &st) == 0 && st.st_size) {
        void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, part->file, 0);
        if (at != MAP_FAILED) {
            object = LLVMCreateMemoryBufferWithMemoryRangeCopy(at, (size_t)st.st_size, "part");
            munmap(at, (size_t)st.st_size);
        }
    }
    if (got == part->pid && WIFSIGNALED(status))
        *number = WTERMSIG(status);
    return object;
}

static int split_start(struct mt_unit *u, LLVMModuleRef m, LLVMTargetMachineRef machine, unsigned p,
                       unsigned n, struct part *part)
{
    part->pid = -1;
    part->file = memfd_create("memtrace-part", MFD_CLOEXEC);
    if (part->file >= 0)
        part->pid = fork();
    if (part->pid == 0)
        split_child(u, m, machine, p, n, part->file);
    return part->pid < 0 ? -1 : 0;
}

unsigned mt_unit_compile_parts(struct mt_unit *u, LLVMModuleRef m, LLVMTargetMachineRef machine, unsigned n,
                               LLVMMemoryBufferRef *objects)
{
    struct part parts[MT_PARTS_MAX];
    unsigned started = 1, have = 0;
    int number = 0;
    n = n > MT_PARTS_MAX ? MT_PARTS_MAX : n;
    if (n > 1)
        split_prepare(m);
    for (; started < n; started++)
        if (split_start(u, m, machine, started, n, &parts[started]))
            break;
    if (n > 1 && started == n)
        split_take(u, m, 0, n);
    else if (n > 1) /* not all processes could be started: all of it here */
        for (unsigned p = 1; p < started; p++)
            kill(parts[p].pid, SIGKILL);
    if ((objects[0] = unit_compile(u, m, machine)))
        have = 1;
    for (unsigned p = 1; p < started; p++) {
        LLVMMemoryBufferRef object = split_collect(&parts[p], &number);
        close(parts[p].file);
        if (object && have == p && started == n)
            objects[have++] = object;
        else if (object)
            LLVMDisposeMemoryBuffer(object);
    }
    if (started == n && have && have < n) {
        mt_diag(u, NULL, MT_DIAG_ERROR, "a part of the CPU image could not be compiled: %s",
                number && number != SIGKILL ? strsignal(number) : "out of memory?");
        while (have)
            LLVMDisposeMemoryBuffer(objects[--have]);
    }
    return have;
}
