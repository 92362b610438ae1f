/* Source facts: kernels from nvvm.annotations, the AST side's entries from llvm.global.annotations. */
#include "trace.h"
#include "unit/pass.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Works around kernel parameters that LLVM 19 reads wrongly: 16 bits for each element of a vector of two
 * bytes, and a byte for each element of a vector of bools, where the host passes bytes and bits. Before
 * that they become integers of the same bytes. */

static int narrow_is_misread(LLVMTypeRef type)
{
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind ||
        LLVMGetTypeKind(LLVMGetElementType(type)) != LLVMIntegerTypeKind)
        return 0;
    unsigned bits = LLVMGetIntTypeWidth(LLVMGetElementType(type));
    return bits < 8 || (bits == 8 && LLVMGetVectorSize(type) == 2);
}

static unsigned narrow_bits(LLVMTypeRef type)
{
    return LLVMGetIntTypeWidth(LLVMGetElementType(type)) * LLVMGetVectorSize(type);
}

/* Returns the integer type as passed. */
static LLVMTypeRef narrow_integer(LLVMTypeRef type)
{
    unsigned all = 8;
    while (all < narrow_bits(type))
        all *= 2;
    return LLVMIntTypeInContext(LLVMGetTypeContext(type), all);
}

static LLVMTypeRef narrow_type(LLVMValueRef kernel)
{
    unsigned n = LLVMCountParams(kernel), i = 0, found = 0;
    LLVMTypeRef *types = malloc((n + 1) * sizeof *types), made = NULL;
    for (LLVMValueRef p = LLVMGetFirstParam(kernel); types && p; p = LLVMGetNextParam(p), i++) {
        int misread = narrow_is_misread(LLVMTypeOf(p));
        found |= misread;
        types[i] = misread ? narrow_integer(LLVMTypeOf(p)) : LLVMTypeOf(p);
    }
    if (found)
        made = LLVMFunctionType(LLVMGetReturnType(LLVMGlobalGetValueType(kernel)), types, n, 0);
    free(types);
    return made;
}

static LLVMValueRef narrow_value(LLVMBuilderRef b, LLVMValueRef integer, LLVMTypeRef type)
{
    LLVMTypeRef all = LLVMIntTypeInContext(LLVMGetTypeContext(type), narrow_bits(type));
    return LLVMBuildBitCast(b, LLVMBuildTrunc(b, integer, all, ""), type, "");
}

static void narrow_take_params(LLVMValueRef kernel, LLVMValueRef old)
{
    LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetTypeContext(LLVMTypeOf(kernel)));
    LLVMPositionBuilderBefore(b, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(kernel)));
    LLVMValueRef to = LLVMGetFirstParam(kernel);
    for (LLVMValueRef p = LLVMGetFirstParam(old); p; p = LLVMGetNextParam(p), to = LLVMGetNextParam(to)) {
        size_t length;
        const char *name = LLVMGetValueName2(p, &length);
        LLVMSetValueName2(to, name, length);
        int same = LLVMTypeOf(p) == LLVMTypeOf(to);
        LLVMReplaceAllUsesWith(p, same ? to : narrow_value(b, to, LLVMTypeOf(p)));
    }
    LLVMDisposeBuilder(b);
}

static int narrow_kernel(LLVMModuleRef module, LLVMValueRef old)
{
    LLVMTypeRef type = LLVMIsDeclaration(old) ? NULL : narrow_type(old);
    if (!type)
        return 0;
    char *name = strdup(mt_name(old));
    LLVMValueRef kernel = LLVMAddFunction(module, "", type);
    mt_move_function(kernel, old);
    narrow_take_params(kernel, old);
    LLVMReplaceAllUsesWith(old, kernel);
    mt_shim_detach_function(old); /* for the reason in instrument.c */
    LLVMSetValueName2(kernel, name, strlen(name));
    free(name);
    return 1;
}

/* Before optimisation and before kernels are named by text. Returns 1 if anything changed. */
static int narrow_params(LLVMModuleRef module)
{
    static const char name[] = "nvvm.annotations";
    unsigned n = LLVMGetNamedMetadataNumOperands(module, name), length;
    LLVMValueRef *nodes = malloc((n + 1) * sizeof *nodes), op[3];
    int changed = 0;
    if (nodes)
        LLVMGetNamedMetadataOperands(module, name, nodes);
    for (unsigned i = 0; nodes && i < n; i++) {
        if (LLVMGetMDNodeNumOperands(nodes[i]) != 3)
            continue;
        LLVMGetMDNodeOperands(nodes[i], op);
        const char *key = LLVMGetMDString(op[1], &length);
        if (op[0] && LLVMIsAFunction(op[0]) && key && length == 6 && !memcmp(key, "kernel", 6))
            changed |= narrow_kernel(module, op[0]);
    }
    free(nodes);
    return changed;
}

/* Works around a bug in LLVM 19, which takes integer to floating-point conversions that round towards zero
 * (llvm.nvvm.i2f.rz and the like) for those that round to nearest. Before that they become conversions
 * that round down, or up for negative numbers. */

static LLVMValueRef rounding_convert(LLVMBuilderRef b, LLVMValueRef call, const char *name, const char *mode)
{
    LLVMValueRef x = LLVMGetOperand(call, 0);
    char other[64];
    snprintf(other, sizeof other, "llvm.nvvm.%s.%s", name, mode);
    LLVMModuleRef m = LLVMGetGlobalParent(mt_callee(call));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(m, LLVMLookupIntrinsicID(other, strlen(other)), NULL, 0);
    return LLVMBuildCall2(b, LLVMGlobalGetValueType(f), f, &x, 1, "");
}

static void rounding_replace(LLVMBuilderRef b, LLVMValueRef call, const char *name)
{
    LLVMValueRef x = LLVMGetOperand(call, 0), r;
    LLVMPositionBuilderBefore(b, call);
    r = rounding_convert(b, call, name, "rm");
    if (*name != 'u') {
        LLVMValueRef negative = LLVMBuildICmp(b, LLVMIntSLT, x, LLVMConstNull(LLVMTypeOf(x)), "");
        r = LLVMBuildSelect(b, negative, rounding_convert(b, call, name, "rp"), r, "");
    }
    LLVMReplaceAllUsesWith(call, r);
    LLVMInstructionEraseFromParent(call);
}

/* Swaps the operands of redux.sync: clang 19's headers pass its mask as the value and its value as the
 * mask. */
static int rounding_swap_masks(LLVMModuleRef module)
{
    int changed = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        if (!mt_starts(mt_name(f), "llvm.nvvm.redux.sync."))
            continue;
        for (LLVMUseRef use = LLVMGetFirstUse(f); use; use = LLVMGetNextUse(use)) {
            LLVMValueRef call = LLVMGetUser(use),
                         home = LLVMGetBasicBlockParent(LLVMGetInstructionParent(call));
            if (!strstr(mt_name(home), "__reduce_"))
                continue;
            LLVMValueRef first = LLVMGetOperand(call, 0);
            LLVMSetOperand(call, 0, LLVMGetOperand(call, 1));
            LLVMSetOperand(call, 1, first);
            changed = 1;
        }
    }
    return changed;
}

/* Before optimisation. Returns 1 if anything changed. */
static int keep_rounding(LLVMModuleRef module)
{
    static const char *const names[] = {"i2f", "ui2f", "ll2f", "ull2f", "ll2d", "ull2d"};
    LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetModuleContext(module));
    int changed = rounding_swap_masks(module);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "llvm.nvvm.%s.rz", names[i]);
        LLVMValueRef f = LLVMGetNamedFunction(module, name);
        for (LLVMUseRef use = f ? LLVMGetFirstUse(f) : NULL, next; use; use = next) {
            LLVMValueRef call = LLVMGetUser(use);
            next = LLVMGetNextUse(use);
            if (!LLVMIsACallInst(call) || mt_callee(call) != f)
                continue;
            rounding_replace(b, call, names[i]);
            changed = 1;
        }
    }
    LLVMDisposeBuilder(b);
    return changed;
}

/* `function` is NULL if optimisation has removed it. */
static struct mt_facts *facts_for(struct mt_unit *u, const char *name, LLVMValueRef function)
{
    for (unsigned i = 0; i < u->nfacts; i++)
        if (function ? u->facts[i].function == function : !strcmp(u->facts[i].name, name))
            return &u->facts[i];
    struct mt_facts *grown = realloc(u->facts, (u->nfacts + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    u->facts = grown;
    u->facts[u->nfacts] = (struct mt_facts){.function = function, .name = strdup(name)};
    return &u->facts[u->nfacts++];
}

static const struct mt_facts *unit_facts(const struct mt_unit *u, LLVMValueRef function)
{
    for (unsigned i = 0; i < u->nfacts; i++)
        if (u->facts[i].function == function)
            return &u->facts[i];
    return NULL;
}

const struct mt_facts *mt_unit_facts_by_name(const struct mt_unit *u, const char *mangled)
{
    for (unsigned i = 0; i < u->nfacts; i++)
        if (u->facts[i].name && !strcmp(u->facts[i].name, mangled))
            return &u->facts[i];
    return NULL;
}

struct mt_kernel *mt_unit_kernel(struct mt_unit *u, LLVMValueRef function)
{
    for (unsigned i = 0; i < u->nkernels; i++)
        if (u->kernels[i].function == function || !strcmp(u->kernels[i].name, mt_name(function)))
            return &u->kernels[i]; /* by name: also for the clone */
    return NULL;
}

/* Cuts the next TAB field off *text; malloc'ed. */
static char *facts_field(const char **text, const char *end)
{
    const char *tab = memchr(*text, '\t', (size_t)(end - *text));
    const char *stop = tab ? tab : end;
    char *copy = strndup(*text, (size_t)(stop - *text));
    *text = tab ? tab + 1 : end;
    return copy;
}

static void read_facts(struct mt_unit *u, const char *name, LLVMValueRef function, const char *text,
                       size_t length)
{
    const char *end = text + length;
    char *word = facts_field(&text, end);
    struct mt_facts *f = facts_for(u, name, function);
    if (!word || !f) {
        free(word);
        return;
    }
    if (!strcmp(word, "memtrace.skip"))
        f->skip = 1;
    else if (!strcmp(word, "memtrace.trace"))
        f->trace = 1;
    else if ((!strcmp(word, "memtrace.kernel") || !strcmp(word, "memtrace.device")) && !f->pretty) {
        f->pretty = facts_field(&text, end);
        f->file = facts_field(&text, end);
        char *line = facts_field(&text, end), *column = facts_field(&text, end);
        f->line = line ? (unsigned)atoi(line) : 0;
        f->column = column ? (unsigned)atoi(column) : 0;
        free(line);
        free(column);
    } else if (!strcmp(word, "memtrace.cluster"))
        for (int i = 0; i < 3; i++) {
            char *n = facts_field(&text, end);
            f->cluster[i] = n ? (unsigned)atoi(n) : 0;
            free(n);
        }
    free(word);
}

/* Removes our entries, hands each to `taken`, and leaves those of others. Returns their number. */
static int take_annotations(LLVMModuleRef module,
                            void (*taken)(void *, LLVMValueRef function, const char *text, size_t length),
                            void *arg)
{
    LLVMValueRef list = LLVMGetNamedGlobal(module, "llvm.global.annotations");
    LLVMValueRef init = list ? LLVMGetInitializer(list) : NULL;
    int n = init ? LLVMGetNumOperands(init) : 0, kept = 0;
    LLVMValueRef *keep = malloc((size_t)(n + 1) * sizeof *keep);
    for (int i = 0; keep && i < n; i++) {
        LLVMValueRef entry = LLVMGetOperand(init, (unsigned)i);
        const char *text;
        size_t length;
        if (LLVMGetNumOperands(entry) < 2 ||
            !mt_shim_constant_string(LLVMGetOperand(entry, 1), &text, &length) ||
            length < strlen(MT_ANNOTATION) || strncmp(text, MT_ANNOTATION, strlen(MT_ANNOTATION))) {
            keep[kept++] = entry;
            continue;
        }
        LLVMValueRef function = LLVMIsAFunction(LLVMGetOperand(entry, 0));
        if (function)
            taken(arg, function, text, length);
    }
    if (keep && kept < n) {
        LLVMTypeRef type = LLVMGetElementType(LLVMGlobalGetValueType(list));
        LLVMDeleteGlobal(list);
        if (kept) {
            LLVMValueRef a = LLVMConstArray2(type, keep, (uint64_t)kept);
            list = LLVMAddGlobal(module, LLVMTypeOf(a), "llvm.global.annotations");
            LLVMSetInitializer(list, a);
            LLVMSetLinkage(list, LLVMAppendingLinkage);
            LLVMSetSection(list, "llvm.metadata");
        }
    }
    free(keep);
    return n - kept;
}

/* llvm.global.annotations refers to functions, which would keep them from being inlined for good, losing
 * an unused parameter or being removed: the program would be compiled differently than without us. So
 * early in the pipeline the entries become metadata that names functions by text, and device code is
 * optimised as if they did not exist. */
#define FACTS_METADATA "memtrace.facts"

static void keep_as_metadata(void *module, LLVMValueRef function, const char *text, size_t length)
{
    LLVMContextRef c = LLVMGetModuleContext(module);
    const char *name = mt_name(function);
    LLVMMetadataRef fields[2] = {LLVMMDStringInContext2(c, name, strlen(name)),
                                 LLVMMDStringInContext2(c, text, length)};
    LLVMAddNamedMetadataOperand(module, FACTS_METADATA,
                                LLVMMetadataAsValue(c, LLVMMDNodeInContext2(c, fields, 2)));
    mt_name_params(function, text, length);
}

/* Keeps malloc calls: LLVM may remove one and assume that it succeeded. nvcc calls it, the heap of kernels
 * is small, and stores to it are traced. */
static int facts_keep_malloc(LLVMModuleRef module)
{
    LLVMValueRef f = LLVMGetNamedFunction(module, "malloc");
    if (f)
        LLVMAddAttributeAtIndex(
            f, LLVMAttributeFunctionIndex,
            LLVMCreateEnumAttribute(LLVMGetModuleContext(module),
                                    LLVMGetEnumAttributeKindForName("nobuiltin", strlen("nobuiltin")), 0));
    return f != NULL;
}

int mt_keep_annotations(LLVMModuleRef module)
{
    if (!take_annotations(module, keep_as_metadata, module))
        return 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        mt_shim_drop_dead_users(f); /* the entries' constants */
    return 1;
}

int mt_pass_early(LLVMModuleRef module)
{
    int device = mt_shim_is_nvptx(module), changed = 0;
    if (device)
        changed = narrow_params(module) | keep_rounding(module) | mt_show_asm_effects(module) |
                  facts_keep_malloc(module);
    return ((device || mt_pass_options.host) && mt_keep_annotations(module)) || changed;
}

static void read_taken(void *unit, LLVMValueRef function, const char *text, size_t length)
{
    read_facts(unit, mt_name(function), function, text, length);
    mt_name_params(function, text, length);
}

static void read_metadata(struct mt_unit *u)
{
    unsigned n = LLVMGetNamedMetadataNumOperands(u->module, FACTS_METADATA);
    LLVMValueRef *nodes = malloc((n + 1) * sizeof *nodes), fields[2];
    if (nodes)
        LLVMGetNamedMetadataOperands(u->module, FACTS_METADATA, nodes);
    for (unsigned i = 0; nodes && i < n; i++) {
        unsigned name_length, length;
        if (LLVMGetMDNodeNumOperands(nodes[i]) != 2)
            continue;
        LLVMGetMDNodeOperands(nodes[i], fields);
        const char *name = LLVMGetMDString(fields[0], &name_length);
        const char *text = LLVMGetMDString(fields[1], &length);
        char *function = name && text ? strndup(name, name_length) : NULL;
        if (function)
            read_facts(u, function, LLVMGetNamedFunction(u->module, function), text, length);
        free(function);
    }
    free(nodes);
    mt_shim_erase_named_metadata(u->module, FACTS_METADATA);
}

/* Removes functions made superfluous by inlining that only annotations kept. */
static void drop_unused(struct mt_unit *u)
{
    for (unsigned i = 0; i < u->nfacts; i++) {
        LLVMValueRef f = u->facts[i].function;
        if (!f)
            continue;
        mt_shim_drop_dead_users(f);
        LLVMLinkage l = LLVMGetLinkage(f);
        if (LLVMGetFirstUse(f) || !(l == LLVMInternalLinkage || l == LLVMPrivateLinkage ||
                                    l == LLVMLinkOnceODRLinkage || l == LLVMLinkOnceAnyLinkage))
            continue;
        u->facts[i].function = NULL;
        LLVMDeleteFunction(f);
    }
}

static int facts_matches(const char *pattern, const char *text)
{
    regex_t re;
    if (regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB))
        return 0;
    int hit = !regexec(&re, text, 0, NULL, 0);
    regfree(&re);
    return hit;
}

static void add_kernel(struct mt_unit *u, LLVMValueRef function)
{
    if (LLVMIsDeclaration(function) || mt_unit_kernel(u, function))
        return;
    struct mt_kernel *grown = realloc(u->kernels, (u->nkernels + 1) * sizeof *grown);
    if (!grown)
        return;
    u->kernels = grown;
    struct mt_kernel *k = &u->kernels[u->nkernels++];
    const struct mt_facts *f = unit_facts(u, function);
    *k = (struct mt_kernel){.function = function, .name = strdup(mt_name(function))};
    k->nparams = LLVMCountParams(function);
    k->pretty = mt_shim_demangle(k->name, 0);
    k->signature = mt_shim_demangle(k->name, 1);
    k->file = strdup(f && f->file ? f->file : "");
    k->line = f ? f->line : 0;
    if (f)
        memcpy(k->cluster, f->cluster, sizeof k->cluster);
    k->traced = 1;
    if (u->options->kernels && !facts_matches(u->options->kernels, k->pretty))
        k->traced = 0;
    if (u->options->exclude && facts_matches(u->options->exclude, k->pretty))
        k->traced = 0;
    if (f && f->skip)
        k->traced = 0;
    if (f && f->trace)
        k->traced = 1;
}

static void read_kernels(struct mt_unit *u)
{
    unsigned n = LLVMGetNamedMetadataNumOperands(u->module, "nvvm.annotations");
    LLVMValueRef *nodes = malloc((n + 1) * sizeof *nodes);
    if (!nodes)
        return;
    LLVMGetNamedMetadataOperands(u->module, "nvvm.annotations", nodes);
    for (int round = 0; round < 2; round++) /* first all kernels, then their bounds */
        for (unsigned i = 0; i < n; i++) {
            unsigned count = LLVMGetMDNodeNumOperands(nodes[i]);
            LLVMValueRef op[32];
            if (count < 3 || count > 32)
                continue;
            LLVMGetMDNodeOperands(nodes[i], op);
            LLVMValueRef function = op[0] ? LLVMIsAFunction(op[0]) : NULL;
            for (unsigned j = 1; function && j + 1 < count; j += 2) {
                unsigned length;
                const char *key = LLVMGetMDString(op[j], &length);
                LLVMValueRef number = op[j + 1] ? LLVMIsAConstantInt(op[j + 1]) : NULL;
                if (!key || !number)
                    continue;
                unsigned value = (unsigned)LLVMConstIntGetZExtValue(number);
                struct mt_kernel *k = mt_unit_kernel(u, function);
                if (!round && length == 6 && !memcmp(key, "kernel", 6))
                    add_kernel(u, function);
                else if (round && k && length == 7 && !memcmp(key, "maxntid", 7))
                    k->max_threads = (k->max_threads ? k->max_threads : 1) * value;
                else if (round && k && length == 8 && !memcmp(key, "maxntidx", 8))
                    k->max_threads = (k->max_threads ? k->max_threads : 1) * value;
                else if (round && k && length == 8 && !memcmp(key, "minctasm", 8))
                    k->min_blocks = value;
            }
        }
    free(nodes);
}

void mt_unit_read_facts(struct mt_unit *u)
{
    read_metadata(u);
    take_annotations(u->module, read_taken, u); /* for modules without an early pass */
    drop_unused(u);
    read_kernels(u);
}
