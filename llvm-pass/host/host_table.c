/* Tables of an instrumented host module (format/host_module.h): collected while the code is changed,
 * written at the end with the constructor that registers them. */
#include "host.h"
#include "memtrace/grow.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <llvm-c/Analysis.h>

/* Returns the string's offset in the blob, which has each string once. */
static uint32_t host_table_intern(struct mt_host_table *t, const char *s)
{
    size_t n = strlen(s) + 1, here = t->nstrings;
    uint64_t at, key = mt_hash_text(s);
    if (!s[0])
        return 0;
    for (; (at = mt_hash_find(&t->offsets, key)); key++)
        if (!strcmp(t->strings + at, s))
            return (uint32_t)at;
    if (here + n > UINT32_MAX || mt_grow(&t->strings, &t->strings_cap, here + n, 1) ||
        mt_hash_put(&t->offsets, key, here)) {
        t->failed = 1;
        return 0;
    }
    memcpy(t->strings + here, s, n);
    t->nstrings += n;
    return (uint32_t)here;
}

static LLVMValueRef add_global(struct mt_unit *u, LLVMTypeRef type, const char *name)
{
    LLVMValueRef g = LLVMAddGlobal(u->module, type, name);
    LLVMSetLinkage(g, LLVMInternalLinkage);
    return g;
}

void mt_host_table_init(struct mt_host_table *t, struct mt_unit *u)
{
    memset(t, 0, sizeof *t);
    t->u = u;
    t->strings = calloc(1, 1); /* offset 0: "" */
    t->nstrings = t->strings_cap = t->strings ? 1 : 0;
    t->failed = !t->strings;
    t->base = add_global(u, mt_type_int(u, 32), "memtrace.host.base");
    LLVMSetInitializer(t->base, LLVMConstNull(mt_type_int(u, 32)));
    LLVMSetAlignment(t->base, 4);
    t->ids = add_global(u, LLVMArrayType2(mt_type_int(u, 32), 0), "memtrace.host.ids");
}

void mt_host_table_free(struct mt_host_table *t)
{
    free(t->rows);
    free(t->strings);
    mt_hash_free(&t->offsets);
    free(t->functions);
}

uint32_t mt_host_table_instruction(struct mt_host_table *t)
{
    return ++t->instructions * 4;
}

/* Returns 1 if threads may synchronise by it. */
static int host_table_strong(LLVMValueRef inst, enum mt_host_op op)
{
    if (LLVMIsALoadInst(inst) || LLVMIsAStoreInst(inst))
        return LLVMGetOrdering(inst) != LLVMAtomicOrderingNotAtomic;
    return LLVMIsAAtomicRMWInst(inst) || LLVMIsAAtomicCmpXchgInst(inst) ||
           (LLVMIsACallInst(inst) && op == MT_HOST_ATOMIC) ||
           (LLVMIsAInvokeInst(inst) && op == MT_HOST_ATOMIC);
}

void mt_host_table_row(struct mt_host_table *t, LLVMValueRef inst, uint32_t site, enum mt_host_op op,
                       uint64_t size, LLVMValueRef pointer)
{
    struct mt_source_location place;
    if (mt_grow(&t->rows, &t->rows_cap, t->nrows + 1, sizeof *t->rows)) {
        t->failed = 1;
        return;
    }
    mt_shim_location(inst, &place);
    if (!place.line)
        mt_shim_function_place(LLVMGetBasicBlockParent(LLVMGetInstructionParent(inst)), &place);
    const char *home = mt_name(LLVMGetBasicBlockParent(LLVMGetInstructionParent(inst)));
    char *function = mt_shim_demangle(*place.function ? place.function : home, 0);
    char *variable = pointer ? mt_host_variable(pointer) : NULL;
    t->rows[t->nrows++] = (struct mt_host_row){.site = site,
                                               .op = op | (host_table_strong(inst, op) ? MT_HOST_STRONG : 0),
                                               .size = size > UINT32_MAX ? 0 : (uint32_t)size,
                                               .line = place.line,
                                               .column = place.column,
                                               .file = host_table_intern(t, place.file),
                                               .function = host_table_intern(t, function ? function : ""),
                                               .variable = host_table_intern(t, variable ? variable : "")};
    free(function);
    free(variable);
}

unsigned mt_host_table_function(struct mt_host_table *t, LLVMValueRef function)
{
    if (mt_grow(&t->functions, &t->functions_cap, t->nfunctions + 1, sizeof *t->functions)) {
        t->failed = 1;
        return 0;
    }
    char *name = mt_shim_demangle(mt_name(function), 0);
    t->functions[t->nfunctions] = host_table_intern(t, name ? name : "");
    free(name);
    return t->nfunctions++;
}

static LLVMValueRef constant_data(struct mt_unit *u, LLVMValueRef value, const char *name)
{
    LLVMValueRef g = add_global(u, LLVMTypeOf(value), name);
    LLVMSetInitializer(g, value);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetAlignment(g, 8);
    return g;
}

static LLVMValueRef host_table_words(struct mt_unit *u, const uint32_t *data, size_t n, const char *name)
{
    LLVMTypeRef i32 = mt_type_int(u, 32);
    LLVMValueRef *list = malloc((n + 1) * sizeof *list);
    for (size_t i = 0; list && i < n; i++)
        list[i] = LLVMConstInt(i32, data[i], 0);
    LLVMValueRef value = LLVMConstArray2(i32, list, list ? n : 0);
    free(list);
    return constant_data(u, value, name);
}

/* Returns struct mt_host_module as a constant. */
static LLVMValueRef module_record(struct mt_host_table *t)
{
    struct mt_unit *u = t->u;
    LLVMTypeRef i32 = mt_type_int(u, 32);
    _Static_assert(sizeof(struct mt_host_row) == 8 * sizeof(uint32_t) && sizeof(struct mt_host_module) == 64,
                   "as written here");
    LLVMValueRef ids = add_global(u, LLVMArrayType2(i32, t->nfunctions), "memtrace.host.ids");
    LLVMSetInitializer(ids, LLVMConstNull(LLVMArrayType2(i32, t->nfunctions)));
    LLVMReplaceAllUsesWith(t->ids, ids);
    LLVMDeleteGlobal(t->ids);
    t->ids = ids;
    uint32_t flags = u->options->host == MT_HOST_TRACE_ATOMIC ? MT_HOST_MODULE_ATOMIC : 0;
    LLVMValueRef field[] = {
        LLVMConstInt(i32, MT_HOST_ABI, 0),
        LLVMConstInt(i32, flags, 0),
        LLVMConstInt(i32, t->instructions + 1, 0), /* numbers begin at 1 */
        LLVMConstInt(i32, t->nrows, 0),
        LLVMConstInt(i32, t->nfunctions, 0),
        LLVMConstInt(i32, 0, 0),
        host_table_words(u, (const uint32_t *)t->rows, (size_t)t->nrows * 8, "memtrace.host.rows"),
        constant_data(u, LLVMConstStringInContext2(u->context, t->strings, t->nstrings, 1),
                      "memtrace.host.strings"),
        t->base,
        host_table_words(u, t->functions, t->nfunctions, "memtrace.host.names"),
        ids,
    };
    LLVMValueRef value = LLVMConstStructInContext(u->context, field, sizeof field / sizeof *field, 0);
    return constant_data(u, value, "memtrace.host.module");
}

/* Adds an entry of the first priority to llvm.global_ctors: before the module's own constructors. */
static void add_constructor(struct mt_unit *u, LLVMValueRef function)
{
    LLVMValueRef old = LLVMGetNamedGlobal(u->module, "llvm.global_ctors");
    LLVMValueRef init = old ? LLVMGetInitializer(old) : NULL;
    unsigned n = init ? (unsigned)LLVMGetNumOperands(init) : 0;
    LLVMValueRef *list = malloc((n + 1) * sizeof *list);
    if (!list)
        return;
    LLVMValueRef field[] = {LLVMConstInt(mt_type_int(u, 32), 0, 0), function, LLVMConstNull(mt_type_ptr(u))};
    LLVMValueRef entry = LLVMConstStructInContext(u->context, field, 3, 0);
    for (unsigned i = 0; i < n; i++)
        list[i] = LLVMGetOperand(init, i);
    list[n] = entry;
    LLVMValueRef value = LLVMConstArray2(LLVMTypeOf(entry), list, n + 1);
    free(list);
    if (old)
        LLVMDeleteGlobal(old);
    LLVMValueRef g = LLVMAddGlobal(u->module, LLVMTypeOf(value), "llvm.global_ctors");
    LLVMSetInitializer(g, value);
    LLVMSetLinkage(g, LLVMAppendingLinkage);
}

void mt_host_table_emit(struct mt_host_table *t)
{
    struct mt_unit *u = t->u;
    if (t->failed)
        mt_diag(u, NULL, MT_DIAG_ERROR, "no memory for the table of accesses");
    LLVMTypeRef none = LLVMVoidTypeInContext(u->context), ptr = mt_type_ptr(u);
    LLVMTypeRef hand_over = LLVMFunctionType(none, &ptr, 1, 0);
    LLVMValueRef module = module_record(t);
    LLVMValueRef f = LLVMAddFunction(u->module, "memtrace.host.register", LLVMFunctionType(none, NULL, 0, 0));
    LLVMSetLinkage(f, LLVMInternalLinkage);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(u->context);
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(u->context, f, ""));
    LLVMBuildCall2(b, hand_over, mt_declare(u->module, "__mt_host_register", hand_over), &module, 1, "");
    LLVMBuildRetVoid(b);
    LLVMDisposeBuilder(b);
    add_constructor(u, f);
}
