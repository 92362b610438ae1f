/* Matrix operations of a warp in inline assembly: registers as words on the stack, and a call of
 * mtb_matrix. */
#include "asm_matrix.h"
#include "asm.h"
#include "asm_lower.h"

#include <stdio.h>
#include <string.h>

/* Reads the words of wmma, mma, ldmatrix, stmatrix and movmatrix; the names of intrinsics have the same
 * ones in another order. */

struct reading {
    struct mt_matrix_op *op;
    unsigned types[4], ntypes;
    int layouts[2];
    unsigned nlayouts;
    int is_wmma, shapes, element; /* element: "b16" was seen */
};

static unsigned matrix_type_of(const char *word)
{
    static const struct {
        const char *word;
        unsigned type;
    } table[] = {{"f16", MT_MATRIX_F16},  {"bf16", MT_MATRIX_BF16}, {"tf32", MT_MATRIX_TF32},
                 {"f32", MT_MATRIX_F32},  {"f64", MT_MATRIX_F64},   {"s8", MT_MATRIX_S8},
                 {"u8", MT_MATRIX_U8},    {"s4", MT_MATRIX_S4},     {"u4", MT_MATRIX_U4},
                 {"b1", MT_MATRIX_B1},    {"s32", MT_MATRIX_S32},   {"e4m3", MT_MATRIX_E4M3},
                 {"e5m2", MT_MATRIX_E5M2}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(word, table[i].word))
            return table[i].type;
    return MT_MATRIX_NONE;
}

static unsigned matrix_bits_of(unsigned type)
{
    switch (type) {
    case MT_MATRIX_F16:
    case MT_MATRIX_BF16:
        return 16;
    case MT_MATRIX_F64:
        return 64;
    case MT_MATRIX_S8:
    case MT_MATRIX_U8:
    case MT_MATRIX_E4M3:
    case MT_MATRIX_E5M2:
        return 8;
    case MT_MATRIX_S4:
    case MT_MATRIX_U4:
        return 4;
    case MT_MATRIX_B1:
        return 1;
    default:
        return 32;
    }
}

/* Returns 1 for words without a meaning of their own here: the memory's space, and words of every form. */
static int is_idle(const char *word)
{
    static const char *const idle[] = {"sync", "aligned", "stride",      "p0",   "p1",
                                       "p3",   "global",  "shared::cta", "popc", "rn"};
    for (unsigned i = 0; i < sizeof idle / sizeof *idle; i++)
        if (!strcmp(word, idle[i]))
            return 1;
    return !strcmp(word, "shared");
}

static int read_shape(struct reading *r, const char *word)
{
    unsigned m, n, k = 0;
    int all = 0, two = 0;
    if (sscanf(word, "m%un%uk%u%n", &m, &n, &k, &all) != 3 && sscanf(word, "m%un%u%n", &m, &n, &two) != 2)
        return -1;
    if (word[all ? all : two] || m > 32 || n > 32 || k > 256 || r->shapes++)
        return -1;
    r->op->m = (uint16_t)m;
    r->op->n = (uint16_t)n;
    r->op->k = (uint16_t)k;
    return 0;
}

static int read_word(struct reading *r, const char *word)
{
    struct mt_matrix_op *op = r->op;
    unsigned type = matrix_type_of(word);
    if (is_idle(word))
        return 0;
    if (type) {
        if (r->ntypes == 4)
            return -1;
        r->types[r->ntypes++] = type;
    } else if (!strcmp(word, "row") || !strcmp(word, "col")) {
        if (r->nlayouts == 2)
            return -1;
        r->layouts[r->nlayouts++] = *word == 'r';
    } else if (r->is_wmma && strlen(word) == 1 && *word >= 'a' && *word <= 'd') {
        op->matrix = (uint16_t)*word;
    } else if (r->is_wmma && (!strcmp(word, "load") || !strcmp(word, "store") || !strcmp(word, "mma"))) {
        op->kind = *word == 'l' ? MT_MATRIX_LOAD : *word == 's' ? MT_MATRIX_STORE : MT_MATRIX_MULTIPLY;
    } else if (!strcmp(word, "x1") || !strcmp(word, "x2") || !strcmp(word, "x4")) {
        op->count = (uint16_t)(word[1] - '0');
    } else if (!strcmp(word, "trans")) {
        op->flags |= MT_MATRIX_TRANS;
    } else if (!strcmp(word, "satfinite")) {
        op->flags |= MT_MATRIX_SATURATE;
    } else if (!strcmp(word, "and")) {
        op->flags |= MT_MATRIX_AND;
    } else if (!strcmp(word, "b16")) {
        r->element = 1;
    } else if (strcmp(word, "xor")) {
        return read_shape(r, word);
    }
    return 0;
}

/* ---- checks of the words together ---- */

static int matrix_is_float(unsigned type)
{
    return type == MT_MATRIX_F16 || type == MT_MATRIX_BF16 || type == MT_MATRIX_TF32 ||
           type == MT_MATRIX_E4M3 || type == MT_MATRIX_E5M2;
}

static int is_sum(unsigned type)
{
    return type == MT_MATRIX_F16 || type == MT_MATRIX_F32;
}

/* Sets the types from words for d, a, b, c; or only for a and b (or both); or, for halves, those of d and
 * c. */
static int set_types(struct reading *r)
{
    uint16_t *t = r->op->type;
    unsigned *have = r->types, n = r->ntypes;
    if (n == 4) {
        memcpy(t, (uint16_t[]){(uint16_t)have[0], (uint16_t)have[1], (uint16_t)have[2], (uint16_t)have[3]},
               4 * sizeof *t);
    } else if (n == 2 && is_sum(have[0]) && is_sum(have[1])) {
        t[0] = (uint16_t)have[0];
        t[3] = (uint16_t)have[1];
        t[1] = t[2] = MT_MATRIX_F16;
    } else if (n == 1 || n == 2) {
        t[1] = (uint16_t)have[0];
        t[2] = (uint16_t)have[n - 1];
        t[0] = t[3] = t[1] == MT_MATRIX_F64   ? MT_MATRIX_F64
                      : matrix_is_float(t[1]) ? MT_MATRIX_F32
                                              : MT_MATRIX_S32;
    } else {
        return -1;
    }
    if (matrix_bits_of(t[1]) != matrix_bits_of(t[2]) || t[1] == MT_MATRIX_S32 || t[1] == MT_MATRIX_F32)
        return -1;
    if (matrix_is_float(t[1]))
        return matrix_is_float(t[2]) && is_sum(t[0]) && is_sum(t[3]) ? 0 : -1;
    unsigned sum = t[1] == MT_MATRIX_F64 ? MT_MATRIX_F64 : MT_MATRIX_S32;
    return !matrix_is_float(t[2]) && t[0] == sum && t[3] == sum ? 0 : -1;
}

/* Returns the number of registers of operand 'a', 'b', 'c' or 'd'. */
static unsigned matrix_registers(const struct mt_matrix_op *op, int matrix)
{
    unsigned type = op->kind != MT_MATRIX_MULTIPLY ? op->type[0] : op->type[strchr("dabc", matrix) - "dabc"];
    int is_factor = matrix == 'a' || matrix == 'b';
    unsigned share = op->flags & MT_MATRIX_QUADS ? 4 : 1; /* each group of eight lanes has a matrix */
    if (is_factor && type == MT_MATRIX_F16 && op->flags & MT_MATRIX_WMMA)
        return 8;
    unsigned elements = share * (matrix == 'b' ? op->n : op->m) * (is_factor ? op->k : op->n);
    return type == MT_MATRIX_F64 ? elements / 32 : elements * matrix_bits_of(type) / 1024;
}

/* Returns 1 for sizes that PTX has; others would not fit the runtime's arrays. */
static int matrix_is_shape(const struct mt_matrix_op *op, unsigned factor)
{
    unsigned bits = matrix_bits_of(factor), m = op->m, n = op->n, k = op->k;
    if (op->flags & MT_MATRIX_WMMA) {
        if (bits == 64 || bits <= 4)
            return m == 8 && n == 8 && k == (bits == 64 ? 4 : 128 / bits);
        if (bits == 32)
            return m == 16 && n == 16 && k == 8;
        return k == 16 && ((m == 16 && n == 16) || (m == 8 && n == 32) || (m == 32 && n == 8));
    }
    if (op->flags & MT_MATRIX_QUADS)
        return 1;
    if (n != 8 || (m != 8 && m != 16))
        return 0;
    if (m == 8) /* one register per lane */
        return k == (bits == 64 ? 4 : 128 / bits);
    if (bits == 64)
        return k == 4 || k == 8 || k == 16;
    return k * bits == 128 || k * bits == 256;
}

static int finish_multiply(struct reading *r)
{
    struct mt_matrix_op *op = r->op;
    if (set_types(r) || r->nlayouts != 2)
        return -1;
    op->row_a = (uint16_t)r->layouts[0];
    op->row_b = (uint16_t)r->layouts[1];
    if (!r->is_wmma && op->type[1] == MT_MATRIX_F16 && op->m == 8 && op->n == 8 && op->k == 4)
        op->flags |= MT_MATRIX_QUADS;
    else if (!r->is_wmma && (!op->row_a || op->row_b))
        return -1;
    if (!matrix_is_shape(op, op->type[1]))
        return -1;
    op->nin = (uint16_t)(matrix_registers(op, 'a') + matrix_registers(op, 'b') + matrix_registers(op, 'c'));
    op->nout = (uint16_t)matrix_registers(op, 'd');
    return 0;
}

static int finish_move(struct reading *r)
{
    struct mt_matrix_op *op = r->op;
    int is_load = op->kind == MT_MATRIX_LOAD, is_factor = op->matrix == 'a' || op->matrix == 'b';
    if (!op->matrix || is_load == (op->matrix == 'd') || (!is_load && is_factor) || r->ntypes != 1 ||
        r->nlayouts != 1)
        return -1;
    op->row_a = (uint16_t)r->layouts[0];
    op->type[0] = (uint16_t)r->types[0];
    /* The type of a sum allows several factors; any with this shape will do. */
    unsigned factor = is_factor     ? r->types[0]
                      : op->k == 16 ? MT_MATRIX_F16
                      : op->k == 8  ? MT_MATRIX_TF32
                      : op->k == 4  ? MT_MATRIX_F64
                      : op->k == 32 ? MT_MATRIX_S4
                                    : MT_MATRIX_B1;
    if (!matrix_is_shape(op, factor) || (!is_factor && matrix_bits_of(op->type[0]) < 16) ||
        (is_factor && (op->type[0] == MT_MATRIX_S32 || op->type[0] == MT_MATRIX_F32)))
        return -1;
    *(is_load ? &op->nout : &op->nin) = (uint16_t)matrix_registers(op, op->matrix);
    return 0;
}

static int finish_small(struct reading *r)
{
    struct mt_matrix_op *op = r->op;
    int moves = op->kind == MT_MATRIX_MOVMATRIX, loads = op->kind == MT_MATRIX_LDMATRIX;
    if (!r->element || op->m != 8 || op->n != 8 || op->k || r->ntypes || r->nlayouts || moves != !op->count ||
        (moves && !(op->flags & MT_MATRIX_TRANS)))
        return -1;
    op->nin = moves ? 1 : loads ? 0 : op->count;
    op->nout = moves ? 1 : loads ? op->count : 0;
    return 0;
}

int mt_matrix_read(const char *const *words, unsigned n, struct mt_matrix_op *op)
{
    static const struct {
        const char *word;
        uint16_t kind;
    } first[] = {{"wmma", MT_MATRIX_MULTIPLY},
                 {"mma", MT_MATRIX_MULTIPLY},
                 {"ldmatrix", MT_MATRIX_LDMATRIX},
                 {"stmatrix", MT_MATRIX_STMATRIX},
                 {"movmatrix", MT_MATRIX_MOVMATRIX}};
    struct reading r = {.op = op};
    unsigned i = 0;
    *op = (struct mt_matrix_op){0};
    while (n && i < sizeof first / sizeof *first && strcmp(words[0], first[i].word))
        i++;
    if (!n || i == sizeof first / sizeof *first)
        return -1;
    op->kind = first[i].kind;
    r.is_wmma = !i;
    op->flags = r.is_wmma ? MT_MATRIX_WMMA : 0;
    for (unsigned j = 1; j < n; j++)
        if (read_word(&r, words[j]))
            return -1;
    return op->kind == MT_MATRIX_MULTIPLY                              ? finish_multiply(&r)
           : op->kind == MT_MATRIX_LOAD || op->kind == MT_MATRIX_STORE ? finish_move(&r)
                                                                       : finish_small(&r);
}

/* Returns the elements from row to row (column to column) of a dense matrix: the stride of a load or store
 * that names none. */
static unsigned matrix_dense(const struct mt_matrix_op *op)
{
    unsigned height = op->matrix == 'b' ? op->k : op->m, width = op->matrix == 'a' ? op->k : op->n;
    return op->row_a ? width : height;
}

/* ---- in the module ---- */

/* Returns constant data in the module. */
static LLVMValueRef matrix_constant(LLVMModuleRef module, const struct mt_matrix_op *op)
{
    LLVMTypeRef word = LLVMInt16TypeInContext(LLVMGetModuleContext(module));
    LLVMValueRef values[MT_MATRIX_FIELDS];
    uint16_t fields[MT_MATRIX_FIELDS];
    memcpy(fields, op, sizeof fields);
    for (unsigned i = 0; i < MT_MATRIX_FIELDS; i++)
        values[i] = LLVMConstInt(word, fields[i], 0);
    LLVMValueRef data = LLVMConstArray2(word, values, MT_MATRIX_FIELDS);
    LLVMValueRef global = LLVMAddGlobal(module, LLVMTypeOf(data), "mt.matrix");
    LLVMSetInitializer(global, data);
    LLVMSetGlobalConstant(global, 1);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetUnnamedAddress(global, LLVMGlobalUnnamedAddr);
    return global;
}

/* Marks the instructions that the builder makes of `p`, a lane's share of a wmma load or store, for the
 * second count. */
static void matrix_count(LLVMBuilderRef b, LLVMContextRef c, const struct mt_matrix_op *op, LLVMValueRef p)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(c), i64 = LLVMInt64TypeInContext(c);
    unsigned height = op->matrix == 'b' ? op->k : op->m, width = op->matrix == 'a' ? op->k : op->n;
    LLVMValueRef bytes = LLVMConstInt(i64, height * width * matrix_bits_of(op->type[0]) / 8 / 32, 0);
    LLVMValueRef end = LLVMBuildGEP2(b, LLVMInt8TypeInContext(c), p, &bytes, 1, "");
    if (!LLVMIsAInstruction(end))
        return;
    enum mt_access_type kind = op->kind == MT_MATRIX_LOAD ? MT_LOAD : MT_STORE;
    LLVMMetadataRef values[] = {LLVMValueAsMetadata(LLVMConstInt(i32, kind, 0)),
                                LLVMValueAsMetadata(LLVMConstInt(i64, 0, 0))};
    LLVMSetMetadata(end, mt_mark_kind(c), LLVMMetadataAsValue(c, LLVMMDNodeInContext2(c, values, 2)));
}

static unsigned matrix_width_of(const struct mt_matrix_op *op)
{
    return op->type[0] == MT_MATRIX_F64 ? 64 : 32;
}

static LLVMValueRef asm_matrix_word(struct mt_asm_body *l, LLVMValueRef array, unsigned i)
{
    LLVMValueRef index = mt_asm_const(l, 64, i);
    return LLVMBuildGEP2(l->b, l->i64, array, &index, 1, "");
}

static unsigned count_of(const struct mt_asm_operand *o)
{
    return o->kind == MT_ASM_VECTOR ? o->nitems : 1;
}

/* Stores the registers of an operand at array[*at…]. */
static int asm_matrix_put(struct mt_asm_body *l, const struct mt_matrix_op *op,
                          const struct mt_asm_operand *o, LLVMValueRef array, unsigned *at)
{
    for (unsigned i = 0; i < count_of(o); i++) {
        LLVMValueRef v = mt_asm_in(l, o->kind == MT_ASM_VECTOR ? &o->items[i] : o, matrix_width_of(op));
        if (!v)
            return -1;
        LLVMBuildStore(l->b, LLVMBuildIntCast2(l->b, v, l->i64, 0, ""), asm_matrix_word(l, array, (*at)++));
    }
    return 0;
}

static int asm_matrix_take(struct mt_asm_body *l, const struct mt_asm_operand *o, LLVMValueRef array)
{
    for (unsigned i = 0; i < count_of(o); i++) {
        LLVMValueRef v = LLVMBuildLoad2(l->b, l->i64, asm_matrix_word(l, array, i), "");
        if (mt_asm_out(l, o->kind == MT_ASM_VECTOR ? &o->items[i] : o, v, 0))
            return -1;
    }
    return 0;
}

/* Operands: results, address, sources (mma: three), stride; NULL or 0 if the operation lacks them. */
struct operands {
    const struct mt_asm_operand *d, *memory, *source[3], *stride;
    unsigned nsources;
};

static int read_operands(struct mt_asm_body *l, const struct mt_matrix_op *op, struct operands *o)
{
    const struct mt_asm_statement *s = l->s;
    int is_multiply = op->kind == MT_MATRIX_MULTIPLY,
        has_memory = !is_multiply && op->kind != MT_MATRIX_MOVMATRIX;
    unsigned i = 0, sources = is_multiply ? 3 : op->nin != 0, registers = 0;
    unsigned least = (op->nout != 0) + (unsigned)has_memory + sources;
    *o = (struct operands){.nsources = sources};
    if (s->noperands < least || s->noperands > least + (op->kind <= MT_MATRIX_STORE))
        return -1;
    if (op->nout)
        o->d = &s->operands[i++];
    if (has_memory)
        o->memory = &s->operands[i++];
    for (unsigned j = 0; j < sources; j++) {
        o->source[j] = &s->operands[i++];
        registers += count_of(o->source[j]);
        if (is_multiply && count_of(o->source[j]) != matrix_registers(op, "abc"[j]))
            return -1;
    }
    if (i < s->noperands)
        o->stride = &s->operands[i];
    return registers == op->nin && (!o->d || count_of(o->d) == op->nout) ? 0 : -1;
}

/* Returns words on the stack, reused by others afterwards. */
static LLVMValueRef asm_matrix_words(struct mt_asm_body *l, unsigned n)
{
    LLVMValueRef slot = mt_asm_slot(l, LLVMArrayType2(l->i64, n), "");
    LLVMValueRef args[] = {mt_asm_const(l, 64, 8ull * n), slot};
    if (slot)
        mt_asm_intrinsic(l, "llvm.lifetime.start", l->ptr, args, 2);
    return slot;
}

static void asm_matrix_forget(struct mt_asm_body *l, LLVMValueRef slot, unsigned n)
{
    LLVMValueRef args[] = {mt_asm_const(l, 64, 8ull * n), slot};
    mt_asm_intrinsic(l, "llvm.lifetime.end", l->ptr, args, 2);
}

int mt_asm_matrix(struct mt_asm_body *l)
{
    struct mt_matrix_op op;
    struct operands o;
    unsigned at = 0;
    if (mt_matrix_read(l->s->parts, l->s->nparts, &op) || read_operands(l, &op, &o))
        return mt_asm_fail(l, "%s", l->s->opcode);
    unsigned nin = op.nin ? op.nin : 1, nout = op.nout ? op.nout : 1;
    LLVMValueRef in = asm_matrix_words(l, nin), out = asm_matrix_words(l, nout), p = LLVMConstNull(l->ptr);
    if (!in || !out)
        return -1;
    if (o.memory && !(p = mt_asm_address(l, o.memory, mt_asm_is_shared(l->s))))
        return -1;
    if (op.kind <= MT_MATRIX_STORE)
        matrix_count(l->b, l->c, &op, p);
    for (unsigned j = 0; j < o.nsources; j++)
        if (asm_matrix_put(l, &op, o.source[j], in, &at))
            return -1;
    LLVMValueRef stride =
        o.stride ? mt_asm_in(l, o.stride, 32) : mt_asm_const(l, 32, o.memory ? matrix_dense(&op) : 0);
    if (!stride)
        return -1;
    LLVMValueRef args[] = {matrix_constant(l->m, &op), p, LLVMBuildZExt(l->b, stride, l->i64, ""), in, out};
    if (!mt_asm_call_by_name(l, "mtb_matrix", l->none, args, 5))
        return -1;
    int failed = o.d ? asm_matrix_take(l, o.d, out) : 0;
    asm_matrix_forget(l, in, nin);
    asm_matrix_forget(l, out, nout);
    return failed;
}
