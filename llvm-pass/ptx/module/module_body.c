/* A function's body: parsed like inline asm, with declarations and labels of modules, then turned
 * statement by statement into IR. Registers are stack slots, which SROA turns into SSA values once all
 * functions exist. */
#include "module_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Turns addresses, which PTX computes with integers, into pointers where they are a variable or a
 * parameter plus an offset, as in clang's code. LLVM and the pass then know the accessed object, and loops
 * can be analysed. */

/* Shared memory accesses at unknown addresses, as inline asm: the CPU device tests there whether an
 * address has lost its high half. */

struct shared_asm {
    LLVMContextRef c;
    LLVMBuilderRef b;
    LLVMTypeRef i32, i64;
    LLVMValueRef access, address;
};

static void ptx_asm_attributes(LLVMContextRef c, LLVMValueRef call);

static LLVMValueRef shared_call(struct shared_asm *s, const char *text, const char *constraints,
                                LLVMTypeRef type, LLVMValueRef *args)
{
    LLVMValueRef body = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints), 1, 0,
                                         LLVMInlineAsmDialectATT, 0);
    LLVMValueRef call = LLVMBuildCall2(s->b, type, body, args, LLVMCountParamTypes(type), "");
    LLVMInstructionSetDebugLoc(call, LLVMInstructionGetDebugLoc(s->access));
    ptx_asm_attributes(s->c, call);
    return call;
}

static char shared_letter(unsigned bits)
{
    return bits <= 16 ? 'h' : bits == 32 ? 'r' : bits == 128 ? 'q' : 'l';
}

/* The loaded or stored value. */
struct shared_value {
    LLVMTypeRef type, element, reg;
    unsigned n, bits;
    int is_vector;
    const char *kind, *lanes; /* words of the opcode */
};

static struct shared_value shared_describe(struct shared_asm *s, LLVMTypeRef type)
{
    struct shared_value v = {.type = type, .element = type, .n = 1};
    v.is_vector = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
    if (v.is_vector) {
        v.n = LLVMGetVectorSize(type);
        v.element = LLVMGetElementType(type);
    }
    v.bits = LLVMGetIntTypeWidth(v.element);
    v.reg = v.bits == 8 ? LLVMInt16TypeInContext(s->c) : v.element;
    v.kind = LLVMGetVolatile(s->access) ? "volatile.shared" : "shared";
    v.lanes = v.n == 4 ? ".v4" : v.n == 2 ? ".v2" : "";
    return v;
}

/* Builds "{$1, $2}" or "$1"; and "r,r" with a prefix for each. */
static void shared_lists(const struct shared_value *v, unsigned first, const char *prefix, char *registers,
                         char *constraints)
{
    registers += sprintf(registers, v->is_vector ? "{" : "");
    for (unsigned i = 0; i < v->n; i++) {
        registers += sprintf(registers, "%s$%u", i ? ", " : "", first + i);
        constraints += sprintf(constraints, "%s%s%c", i ? "," : "", prefix, shared_letter(v->bits));
    }
    sprintf(registers, v->is_vector ? "}" : "");
}

static void shared_load(struct shared_asm *s)
{
    struct shared_value v = shared_describe(s, LLVMTypeOf(s->access));
    LLVMTypeRef types[4] = {v.reg, v.reg, v.reg, v.reg}, from = LLVMTypeOf(s->address);
    char registers[64], outputs[64], text[160], constraints[96];
    shared_lists(&v, 0, "=", registers, outputs);
    snprintf(text, sizeof text, "ld.%s%s.b%u %s, [$%u];", v.kind, v.lanes, v.bits, registers, v.n);
    snprintf(constraints, sizeof constraints, "%s,%c,~{memory}", outputs,
             shared_letter(LLVMGetIntTypeWidth(from)));
    LLVMTypeRef result = v.is_vector ? LLVMStructTypeInContext(s->c, types, v.n, 0) : v.reg;
    LLVMValueRef call = shared_call(s, text, constraints, LLVMFunctionType(result, &from, 1, 0), &s->address),
                 whole;
    if (v.is_vector) {
        whole = LLVMGetUndef(v.type);
        for (unsigned i = 0; i < v.n; i++) {
            LLVMValueRef one = LLVMBuildTrunc(s->b, LLVMBuildExtractValue(s->b, call, i, ""), v.element, "");
            whole = LLVMBuildInsertElement(s->b, whole, one, LLVMConstInt(s->i32, i, 0), "");
        }
    } else {
        whole = LLVMBuildTrunc(s->b, call, v.type, "");
    }
    LLVMReplaceAllUsesWith(s->access, whole);
}

static void shared_store(struct shared_asm *s)
{
    LLVMValueRef value = LLVMGetOperand(s->access, 0), args[5] = {s->address};
    struct shared_value v = shared_describe(s, LLVMTypeOf(value));
    LLVMTypeRef types[5] = {LLVMTypeOf(s->address), v.reg, v.reg, v.reg, v.reg};
    char registers[64], inputs[64], text[160], constraints[96];
    shared_lists(&v, 1, "", registers, inputs);
    snprintf(text, sizeof text, "st.%s%s.b%u [$0], %s;", v.kind, v.lanes, v.bits, registers);
    snprintf(constraints, sizeof constraints, "%c,%s,~{memory}", shared_letter(LLVMGetIntTypeWidth(types[0])),
             inputs);
    for (unsigned i = 0; i < v.n; i++) {
        LLVMValueRef one = value;
        if (v.is_vector)
            one = LLVMBuildExtractElement(s->b, value, LLVMConstInt(s->i32, i, 0), "");
        args[1 + i] = LLVMBuildZExt(s->b, one, v.reg, "");
    }
    shared_call(s, text, constraints, LLVMFunctionType(LLVMVoidTypeInContext(s->c), types, 1 + v.n, 0), args);
}

/* Computes its generic address. */
static void shared_cast(struct shared_asm *s)
{
    LLVMValueRef from = LLVMBuildZExt(s->b, s->address, s->i64, "");
    LLVMValueRef to =
        shared_call(s, "cvta.shared.u64 $0, $1;", "=l,l", LLVMFunctionType(s->i64, &s->i64, 1, 0), &from);
    LLVMReplaceAllUsesWith(s->access, LLVMBuildIntToPtr(s->b, to, LLVMTypeOf(s->access), ""));
}

/* Turns a load, store or cast of shared memory at that integer address into inline asm.
 * Returns 1: the old one is gone; 0: it is something else. */
static int ptx_asm_shared(LLVMValueRef user, LLVMValueRef address)
{
    LLVMBasicBlockRef block = LLVMGetInstructionParent(user);
    struct shared_asm s = {.access = user, .address = address};
    s.c = LLVMGetModuleContext(LLVMGetGlobalParent(LLVMGetBasicBlockParent(block)));
    s.i32 = LLVMInt32TypeInContext(s.c);
    s.i64 = LLVMInt64TypeInContext(s.c);
    s.b = LLVMCreateBuilderInContext(s.c);
    LLVMPositionBuilderBefore(s.b, user);
    int known = 1;
    if (LLVMIsALoadInst(user))
        shared_load(&s);
    else if (LLVMIsAStoreInst(user))
        shared_store(&s);
    else if (LLVMIsAAddrSpaceCastInst(user))
        shared_cast(&s);
    else
        known = 0;
    if (known)
        LLVMInstructionEraseFromParent(user);
    LLVMDisposeBuilder(s.b);
    return known;
}

/* Plain loads, stores and atomics of PTX, and conversions of addresses between spaces, as plain IR.
 * Instructions with an order, a scope or a cache operator are kept as instructions. */

#define ANY (-1) /* a space that plain IR cannot express */

/* Returns the address space of a word; 0 with *found = 0 if it names none. Parameters and local memory are
 * the stack. */
static int memory_space(const char *word, int *found)
{
    static const struct {
        const char *word;
        int space;
    } table[] = {{"global", 1},       {"shared", 3},      {"shared::cta", 3},
                 {"const", 4},        {"local", 0},       {"param", 0},
                 {"param::entry", 0}, {"param::func", 0}, {"shared::cluster", ANY}};
    *found = 1;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(word, table[i].word))
            return table[i].space;
    *found = 0;
    return 0;
}

struct memory_form {
    int space, is_volatile, invariant, on_stack;
    unsigned lanes;
    struct mt_asm_type type;
};

/* Returns 1 for a plain load or store. */
static int memory_is_plain(const struct mt_asm_statement *s, struct memory_form *f)
{
    *f = (struct memory_form){.lanes = 1};
    if (s->nparts < 2 || !mt_asm_type(s->parts[s->nparts - 1], &f->type) || s->noperands != 2)
        return 0;
    for (unsigned i = 1; i + 1 < s->nparts; i++) {
        const char *word = s->parts[i];
        int found, space = memory_space(word, &found);
        if (found && space == ANY)
            return 0;
        if (found) {
            f->space = space;
            f->on_stack = word[0] == 'p' || (word[0] == 'l');
        } else if (!strcmp(word, "volatile"))
            f->is_volatile = 1;
        else if (!strcmp(word, "nc"))
            f->invariant = 1;
        else if (!strcmp(word, "v2") || !strcmp(word, "v4"))
            f->lanes = (unsigned)(word[1] - '0');
        else if (strcmp(word, "weak"))
            return 0;
    }
    return f->lanes * f->type.bits * f->type.lanes <= 128;
}

static LLVMTypeRef memory_pointer_type(struct mt_asm_body *l, int space)
{
    return LLVMPointerTypeInContext(l->c, (unsigned)space);
}

static LLVMValueRef ptx_memory(struct mt_ptx_body *b, const struct mt_asm_operand *o);

/* Returns the variable or parameter that an operand names, as a pointer in that space; NULL: none. */
static LLVMValueRef memory_named(struct mt_ptx_body *b, const struct mt_asm_operand *o, int space)
{
    LLVMValueRef v = NULL;
    if (o->kind == MT_ASM_REG && b->l.a->regs[o->index].memory)
        v = ptx_memory(b, o);
    else if (o->kind == MT_ASM_NAME)
        v = LLVMGetNamedGlobal(b->x->m, o->name);
    return v && LLVMGetPointerAddressSpace(LLVMTypeOf(v)) == (unsigned)space ? v : NULL;
}

static LLVMValueRef memory_address(struct mt_ptx_body *b, const struct mt_asm_operand *o, int space)
{
    struct mt_asm_body *l = &b->l;
    if (o->kind != MT_ASM_MEMORY || o->nitems != 1 || o->second) {
        mt_asm_fail(l, "%s: address form not supported", l->s->opcode);
        return NULL;
    }
    const struct mt_asm_operand *base = &o->items[0];
    LLVMValueRef p = memory_named(b, base, space);
    if (p) {
        LLVMValueRef by = mt_asm_const(l, 64, (uint64_t)(o->offset + base->offset));
        return o->offset + base->offset ? LLVMBuildGEP2(l->b, l->i8, p, &by, 1, "") : p;
    }
    unsigned width = base->kind == MT_ASM_REG && mt_asm_width(l, base) == 32 ? 32 : 64;
    LLVMValueRef v = mt_asm_in(l, base, width);
    if (!v)
        return NULL;
    if (o->offset)
        v = LLVMBuildAdd(l->b, v, mt_asm_const(l, width, (uint64_t)o->offset), "");
    return LLVMBuildIntToPtr(l->b, v, memory_pointer_type(l, space), "");
}

static LLVMTypeRef memory_type(struct mt_asm_body *l, const struct memory_form *f)
{
    LLVMTypeRef one = mt_asm_int(l, f->type.bits * f->type.lanes);
    return f->lanes > 1 ? LLVMVectorType(one, f->lanes) : one;
}

static const char memory_kept[] = "memtrace.kept";

static unsigned memory_kept_kind(LLVMValueRef inst)
{
    return LLVMGetMDKindIDInContext(LLVMGetTypeContext(LLVMTypeOf(inst)), memory_kept,
                                    sizeof memory_kept - 1);
}

/* Keeps a product, sum or difference of floats from being fused, except by ptxas. */
static void ptx_keep_word(LLVMValueRef inst, const char *opcode)
{
    LLVMContextRef c = LLVMGetTypeContext(LLVMTypeOf(inst));
    LLVMMetadataRef word = LLVMMDStringInContext2(c, opcode, strlen(opcode));
    LLVMSetMetadata(inst, memory_kept_kind(inst), LLVMMetadataAsValue(c, LLVMMDNodeInContext2(c, &word, 1)));
}

void mt_ptx_keep_access(LLVMValueRef inst, const char *opcode)
{
    if (LLVMGetVolatile(inst))
        return;
    LLVMSetVolatile(inst, 1);
    ptx_keep_word(inst, opcode);
}

const char *mt_ptx_kept_as(LLVMValueRef inst)
{
    LLVMValueRef data = LLVMGetMetadata(inst, memory_kept_kind(inst)), word;
    unsigned n;
    if (!data || LLVMGetMDNodeNumOperands(data) != 1)
        return NULL;
    LLVMGetMDNodeOperands(data, &word);
    return LLVMGetMDString(word, &n);
}

void mt_ptx_release_access(LLVMValueRef inst)
{
    LLVMSetVolatile(inst, 0);
    LLVMSetMetadata(inst, memory_kept_kind(inst), NULL);
}

void mt_ptx_release_accesses(LLVMModuleRef module)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
                if ((LLVMIsALoadInst(i) || LLVMIsAStoreInst(i)) && mt_ptx_kept_as(i))
                    mt_ptx_release_access(i);
}

static void memory_qualify(struct mt_ptx_body *b, LLVMValueRef access, const struct memory_form *f)
{
    struct mt_asm_body *l = &b->l;
    LLVMSetAlignment(access, f->lanes * f->type.bits * f->type.lanes / 8);
    if (f->is_volatile)
        LLVMSetVolatile(access, 1);
    if (f->invariant)
        LLVMSetMetadata(access, LLVMGetMDKindIDInContext(l->c, "invariant.load", 14),
                        LLVMMetadataAsValue(l->c, LLVMMDNodeInContext2(l->c, NULL, 0)));
    if ((b->x->is_debug || !f->on_stack) && f->space <= 1)
        mt_ptx_keep_access(access, l->s->opcode);
}

/* Returns element i of a register operand; NULL on failure. */
static const struct mt_asm_operand *memory_lane(struct mt_asm_body *l, const struct mt_asm_operand *o,
                                                unsigned lanes, unsigned i)
{
    if (o->kind == MT_ASM_VECTOR && o->nitems == lanes)
        return &o->items[i];
    if (lanes == 1 && o->kind != MT_ASM_VECTOR)
        return o;
    mt_asm_fail(l, "%s: %u registers are expected", l->s->opcode, lanes);
    return NULL;
}

static int pointer_memory_load(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    struct memory_form f;
    if (!memory_is_plain(l->s, &f))
        return 0;
    LLVMValueRef p = memory_address(b, &l->s->operands[1], f.space);
    if (!p)
        return -1;
    LLVMValueRef all = LLVMBuildLoad2(l->b, memory_type(l, &f), p, "");
    memory_qualify(b, all, &f);
    for (unsigned i = 0; i < f.lanes; i++) {
        const struct mt_asm_operand *to = memory_lane(l, &l->s->operands[0], f.lanes, i);
        LLVMValueRef one = f.lanes > 1 ? LLVMBuildExtractElement(l->b, all, mt_asm_const(l, 32, i), "") : all;
        if (!to || mt_asm_out(l, to, one, f.type.kind == 's'))
            return -1;
    }
    return 1;
}

static LLVMValueRef memory_value(struct mt_asm_body *l, const struct mt_asm_operand *o, struct mt_asm_type t)
{
    if (o->kind == MT_ASM_F64 && t.kind == 'f' && t.bits == 32)
        return mt_asm_bits_of(l, mt_asm_in_float(l, o, 32));
    return mt_asm_in(l, o, t.bits * t.lanes);
}

static int pointer_memory_store(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    struct memory_form f;
    if (!memory_is_plain(l->s, &f))
        return 0;
    LLVMValueRef p = memory_address(b, &l->s->operands[0], f.space), all = NULL;
    if (!p)
        return -1;
    if (f.lanes > 1)
        all = LLVMGetUndef(memory_type(l, &f));
    for (unsigned i = 0; i < f.lanes; i++) {
        const struct mt_asm_operand *from = memory_lane(l, &l->s->operands[1], f.lanes, i);
        LLVMValueRef one = from ? memory_value(l, from, f.type) : NULL;
        if (!one)
            return -1;
        all = f.lanes > 1 ? LLVMBuildInsertElement(l->b, all, one, mt_asm_const(l, 32, i), "") : one;
    }
    memory_qualify(b, LLVMBuildStore(l->b, all, p), &f);
    return 1;
}

/* Returns the integer operation of plain IR; -1: none. */
static int memory_rmw(const char *word, char kind)
{
    static const struct {
        const char *word;
        int is_signed, other; /* min and max: first for s32 and s64, second for u32 and u64 */
    } table[] = {{"add", LLVMAtomicRMWBinOpAdd, LLVMAtomicRMWBinOpAdd},
                 {"and", LLVMAtomicRMWBinOpAnd, LLVMAtomicRMWBinOpAnd},
                 {"or", LLVMAtomicRMWBinOpOr, LLVMAtomicRMWBinOpOr},
                 {"xor", LLVMAtomicRMWBinOpXor, LLVMAtomicRMWBinOpXor},
                 {"exch", LLVMAtomicRMWBinOpXchg, LLVMAtomicRMWBinOpXchg},
                 {"min", LLVMAtomicRMWBinOpMin, LLVMAtomicRMWBinOpUMin},
                 {"max", LLVMAtomicRMWBinOpMax, LLVMAtomicRMWBinOpUMax}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(word, table[i].word))
            return kind == 's' ? table[i].is_signed : table[i].other;
    return -1;
}

/* atom.global.op.type d, [a], b and red, as in clang's CUDA code: without order or scope, of 32 and 64
 * bits. */
static int pointer_memory_atomic(struct mt_ptx_body *b, int has_result)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_asm_statement *s = l->s;
    struct mt_asm_type type;
    if (s->nparts != 4 || s->noperands != 2u + (unsigned)has_result || strcmp(s->parts[1], "global") != 0 ||
        !mt_asm_type(s->parts[3], &type) || type.kind == 'f' || type.lanes != 1 ||
        (type.bits != 32 && type.bits != 64))
        return 0;
    int op = memory_rmw(s->parts[2], type.kind);
    if (op < 0)
        return 0;
    LLVMValueRef p = memory_address(b, &s->operands[has_result], 1);
    LLVMValueRef v = p ? mt_asm_in(l, &s->operands[1 + has_result], type.bits) : NULL;
    if (!v)
        return -1;
    LLVMValueRef old =
        LLVMBuildAtomicRMW(l->b, (LLVMAtomicRMWBinOp)op, p, v, LLVMAtomicOrderingSequentiallyConsistent, 0);
    return has_result && mt_asm_out(l, &s->operands[0], old, type.kind == 's') ? -1 : 1;
}

/* cvta{.to}.space.u64 d, a */
static int memory_convert(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_asm_statement *s = l->s;
    int to = s->nparts == 4 && !strcmp(s->parts[1], "to"), found;
    if (s->nparts != 3u + (unsigned)to || s->noperands != 2 || strcmp(s->parts[s->nparts - 1], "u64"))
        return 0;
    int space = memory_space(s->parts[1 + to], &found);
    if (!found || space == ANY)
        return 0;
    const struct mt_asm_operand *from = &s->operands[1];
    LLVMValueRef v = mt_asm_in(l, from, 64);
    if (!v)
        return -1;
    if (space) {
        LLVMTypeRef generic = l->ptr, own = memory_pointer_type(l, space);
        v = LLVMBuildIntToPtr(l->b, v, to ? generic : own, "");
        v = LLVMBuildAddrSpaceCast(l->b, v, to ? own : generic, "");
        v = LLVMBuildPtrToInt(l->b, v, l->i64, "");
    }
    return mt_asm_out(l, &s->operands[0], v, 0) ? -1 : 1;
}

/* Returns 1: the statement is done; 0: it is another kind; -1: failed. */
static int ptx_move(struct mt_ptx_body *b)
{
    const char *op = b->l.s->parts[0];
    if (!strcmp(op, "ld"))
        return pointer_memory_load(b);
    if (!strcmp(op, "st"))
        return pointer_memory_store(b);
    if (!strcmp(op, "atom") || !strcmp(op, "red"))
        return pointer_memory_atomic(b, op[0] == 'a');
    return !strcmp(op, "cvta") ? memory_convert(b) : 0;
}

#define MAX_DEPTH 200
#define MAX_VISITS 4000 /* maximum integers visited to find out whether one is an address */

/* Certainty that an integer is an address. */
enum { POINTER_NO, POINTER_MAYBE, POINTER_SURE };

struct pointers {
    LLVMContextRef c;
    LLVMBuilderRef b;
    LLVMTypeRef i8, i64;
    unsigned space;         /* wanted space */
    struct mt_hash memo[6]; /* pointers of integers, by address space */
    unsigned depth, visits;
    LLVMValueRef *dead; /* loads that were replaced */
    unsigned ndead, dead_cap;
};

static LLVMValueRef pointer_known(struct pointers *p, LLVMValueRef integer)
{
    return (LLVMValueRef)mt_hash_find(&p->memo[p->space], (uintptr_t)integer);
}

/* Remembers the result; without memory it is computed again. */
static void pointer_remember(struct pointers *p, LLVMValueRef integer, LLVMValueRef pointer)
{
    if (pointer)
        (void)mt_hash_put(&p->memo[p->space], (uintptr_t)integer, (uintptr_t)pointer);
}

static LLVMOpcode pointer_opcode(LLVMValueRef v)
{
    return LLVMIsAInstruction(v)    ? LLVMGetInstructionOpcode(v)
           : LLVMIsAConstantExpr(v) ? LLVMGetConstOpcode(v)
                                    : (LLVMOpcode)0;
}

/* Returns how many low bits are certainly 0. */
static unsigned pointer_zeros(LLVMValueRef v, unsigned depth)
{
    LLVMValueRef c = LLVMIsAConstantInt(v), of;
    LLVMOpcode op = pointer_opcode(v);
    if (c)
        return LLVMConstIntGetZExtValue(c) ? (unsigned)__builtin_ctzll(LLVMConstIntGetZExtValue(c)) : 64;
    if (op == LLVMPtrToInt) {
        of = LLVMGetOperand(v, 0);
        return LLVMIsAAllocaInst(of) || LLVMIsAGlobalVariable(of)
                   ? (unsigned)__builtin_ctz(LLVMGetAlignment(of) | 1u << 16)
                   : 0;
    }
    if (!depth || (op != LLVMAdd && op != LLVMOr))
        return 0;
    unsigned a = pointer_zeros(LLVMGetOperand(v, 0), depth - 1),
             b = pointer_zeros(LLVMGetOperand(v, 1), depth - 1);
    return a < b ? a : b;
}

/* Returns the opcode; an or of disjoint bits is a sum. */
static LLVMOpcode pointer_sum_opcode(LLVMValueRef v)
{
    LLVMOpcode op = pointer_opcode(v);
    LLVMValueRef bits = op == LLVMOr ? LLVMIsAConstantInt(LLVMGetOperand(v, 1)) : NULL;
    if (!bits || LLVMGetIntTypeWidth(LLVMTypeOf(v)) > 64)
        return op;
    uint64_t n = LLVMConstIntGetZExtValue(bits);
    unsigned zeros = pointer_zeros(LLVMGetOperand(v, 0), 8);
    return zeros >= 64 || n >> zeros == 0 ? LLVMAdd : op;
}

/* Generic and global addresses are the same numbers. */
static int pointer_same_numbers(unsigned a, unsigned b)
{
    return a == b || (a <= 1 && b <= 1);
}

static int pointer_how_sure(struct pointers *p, LLVMValueRef v, unsigned depth);

static int pointer_phi_how_sure(struct pointers *p, LLVMValueRef phi, unsigned depth)
{
    int narrow = p->space == 3, sure = narrow ? POINTER_SURE : POINTER_NO, any = 0;
    for (unsigned i = 0, n = LLVMCountIncoming(phi); i < n; i++) {
        LLVMValueRef v = LLVMGetIncomingValue(phi, i);
        /* an increment of the phi itself tells nothing */
        if (v == phi ||
            (pointer_opcode(v) == LLVMAdd && (LLVMGetOperand(v, 0) == phi || LLVMGetOperand(v, 1) == phi)))
            continue;
        int one = pointer_how_sure(p, v, depth);
        any = 1;
        if (narrow ? one < sure : one > sure)
            sure = one;
    }
    return any ? sure : POINTER_NO;
}

static int pointer_how_sure(struct pointers *p, LLVMValueRef v, unsigned depth)
{
    if (pointer_known(p, v))
        return POINTER_SURE;
    if (depth > MAX_DEPTH || ++p->visits > MAX_VISITS)
        return POINTER_NO;
    switch (pointer_sum_opcode(v)) {
    case LLVMPtrToInt: {
        unsigned from = LLVMGetPointerAddressSpace(LLVMTypeOf(LLVMGetOperand(v, 0)));
        return pointer_same_numbers(from, p->space) ? POINTER_SURE : POINTER_NO;
    }
    case LLVMTrunc: /* shared addresses have 32 bits */
    case LLVMZExt:
        return p->space == 3 ? pointer_how_sure(p, LLVMGetOperand(v, 0), depth + 1) : POINTER_NO;
    case LLVMAdd: {
        int a = pointer_how_sure(p, LLVMGetOperand(v, 0), depth + 1);
        int b = pointer_how_sure(p, LLVMGetOperand(v, 1), depth + 1);
        return a == b ? POINTER_NO : a > b ? a : b;
    }
    case LLVMSub:
        return pointer_how_sure(p, LLVMGetOperand(v, 1), depth + 1)
                   ? POINTER_NO
                   : pointer_how_sure(p, LLVMGetOperand(v, 0), depth + 1);
    case LLVMPHI:
        return pointer_phi_how_sure(p, v, depth + 1);
    case LLVMSelect: {
        int a = pointer_how_sure(p, LLVMGetOperand(v, 1), depth + 1);
        int b = pointer_how_sure(p, LLVMGetOperand(v, 2), depth + 1);
        return a < b ? a : b;
    }
    case LLVMLoad: /* a shared one may have lost its high half on the way */
    case LLVMCall:
        return p->space != 3 && LLVMGetIntTypeWidth(LLVMTypeOf(v)) == 64 ? POINTER_MAYBE : POINTER_NO;
    default:
        return p->space != 3 && LLVMIsAArgument(v) && LLVMGetIntTypeWidth(LLVMTypeOf(v)) == 64 ? POINTER_MAYBE
                                                                                               : POINTER_NO;
    }
}

/* ---- construction -------------------------------------------------------------------------------------- */

static LLVMValueRef pointer_of(struct pointers *p, LLVMValueRef v);

static LLVMTypeRef pointer_type(struct pointers *p)
{
    return LLVMPointerTypeInContext(p->c, p->space);
}

/* Moves the builder to the place for a pointer made from an integer: after it. Constants can be made
 * anywhere. */
static void pointer_stand_behind(struct pointers *p, LLVMValueRef v)
{
    LLVMValueRef at =
        LLVMIsAArgument(v) ? LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(LLVMGetParamParent(v))) : NULL;
    if (LLVMIsAInstruction(v))
        at = LLVMGetNextInstruction(v);
    if (!at)
        return;
    while (at && LLVMIsAPHINode(at))
        at = LLVMGetNextInstruction(at);
    LLVMPositionBuilderBefore(p->b, at);
    LLVMSetCurrentDebugLocation2(p->b, NULL);
}

static LLVMValueRef pointer_cast(struct pointers *p, LLVMValueRef pointer)
{
    if (LLVMGetPointerAddressSpace(LLVMTypeOf(pointer)) == p->space)
        return pointer;
    return LLVMBuildAddrSpaceCast(p->b, pointer, pointer_type(p), "");
}

static LLVMValueRef pointer_sum(struct pointers *p, LLVMValueRef v)
{
    LLVMValueRef a = LLVMGetOperand(v, 0), b = LLVMGetOperand(v, 1), base;
    int minus = pointer_opcode(v) == LLVMSub;
    if (!minus && pointer_how_sure(p, b, 1) > pointer_how_sure(p, a, 1)) {
        LLVMValueRef swap = a;
        a = b;
        b = swap;
    }
    if (!(base = pointer_of(p, a)))
        return NULL;
    pointer_stand_behind(p, v);
    LLVMValueRef by = LLVMBuildSExt(p->b, b, p->i64, "");
    if (minus)
        by = LLVMBuildNeg(p->b, by, "");
    return LLVMBuildGEP2(p->b, p->i8, base, &by, 1, "");
}

/* Returns a value that is no pointer by itself as one. NULL: a shared memory address that may be invalid. */
static LLVMValueRef pointer_or_cast(struct pointers *p, LLVMValueRef v, LLVMValueRef before)
{
    LLVMValueRef made = pointer_of(p, v);
    if (made || p->space == 3)
        return made;
    LLVMPositionBuilderBefore(p->b, before);
    LLVMSetCurrentDebugLocation2(p->b, NULL);
    return LLVMBuildIntToPtr(p->b, v, pointer_type(p), "");
}

/* Returns the number as an address, at worst a wrong one. */
static LLVMValueRef pointer_wide(struct pointers *p, LLVMValueRef v, LLVMValueRef before)
{
    LLVMPositionBuilderBefore(p->b, before);
    LLVMSetCurrentDebugLocation2(p->b, NULL);
    return LLVMBuildIntToPtr(p->b, v, pointer_type(p), "");
}

static LLVMValueRef pointer_phi(struct pointers *p, LLVMValueRef v)
{
    LLVMPositionBuilderBefore(p->b, v);
    LLVMSetCurrentDebugLocation2(p->b, NULL);
    LLVMValueRef phi = LLVMBuildPhi(p->b, pointer_type(p), "");
    pointer_remember(p, v, phi);
    for (unsigned i = 0, n = LLVMCountIncoming(v); i < n; i++) {
        LLVMBasicBlockRef from = LLVMGetIncomingBlock(v, i);
        LLVMValueRef one = pointer_or_cast(p, LLVMGetIncomingValue(v, i), LLVMGetBasicBlockTerminator(from));
        if (!one) /* a wrong guess */
            one = pointer_wide(p, LLVMGetIncomingValue(v, i), LLVMGetBasicBlockTerminator(from));
        LLVMAddIncoming(phi, &one, &from, 1);
    }
    return phi;
}

static LLVMValueRef pointer_select(struct pointers *p, LLVMValueRef v)
{
    LLVMValueRef a = pointer_or_cast(p, LLVMGetOperand(v, 1), v),
                 b = pointer_or_cast(p, LLVMGetOperand(v, 2), v);
    if (!a || !b)
        return NULL;
    pointer_stand_behind(p, v);
    return LLVMBuildSelect(p->b, LLVMGetOperand(v, 0), a, b, "");
}

/* Loads an address from memory as a pointer. */
static LLVMValueRef pointer_load(struct pointers *p, LLVMValueRef v)
{
    if (p->ndead == p->dead_cap) {
        unsigned cap = p->dead_cap ? 2 * p->dead_cap : 64;
        LLVMValueRef *more = realloc(p->dead, cap * sizeof *more);
        if (!more)
            return NULL;
        p->dead = more;
        p->dead_cap = cap;
    }
    LLVMPositionBuilderBefore(p->b, v);
    LLVMSetCurrentDebugLocation2(p->b, LLVMInstructionGetDebugLoc(v));
    LLVMValueRef load = LLVMBuildLoad2(p->b, LLVMPointerTypeInContext(p->c, 0), LLVMGetOperand(v, 0), "");
    unsigned kind = LLVMGetMDKindIDInContext(p->c, "invariant.load", 14);
    LLVMSetAlignment(load, LLVMGetAlignment(v));
    if (LLVMGetMetadata(v, kind))
        LLVMSetMetadata(load, kind, LLVMGetMetadata(v, kind));
    if (mt_ptx_kept_as(v))
        mt_ptx_keep_access(load, mt_ptx_kept_as(v));
    LLVMValueRef integer = LLVMBuildPtrToInt(p->b, load, p->i64, "");
    LLVMReplaceAllUsesWith(v, integer);
    p->dead[p->ndead++] = v;
    pointer_stand_behind(p, integer);
    LLVMValueRef made = pointer_cast(p, load);
    pointer_remember(p, integer, made);
    return made;
}

static LLVMValueRef pointer_make(struct pointers *p, LLVMValueRef v)
{
    switch (pointer_sum_opcode(v)) {
    case LLVMPtrToInt:
        pointer_stand_behind(p, v);
        return pointer_cast(p, LLVMGetOperand(v, 0));
    case LLVMTrunc:
    case LLVMZExt:
        return pointer_of(p, LLVMGetOperand(v, 0));
    case LLVMAdd:
    case LLVMSub:
        return pointer_sum(p, v);
    case LLVMPHI:
        return pointer_phi(p, v);
    case LLVMSelect:
        return pointer_select(p, v);
    case LLVMLoad:
        if ((!LLVMGetVolatile(v) || mt_ptx_kept_as(v)) && p->space <= 1)
            return pointer_load(p, v);
        break;
    default:
        break;
    }
    if (LLVMGetIntTypeWidth(LLVMTypeOf(v)) != 64 || !(LLVMIsAInstruction(v) || LLVMIsAArgument(v)))
        return NULL;
    pointer_stand_behind(p, v);
    return LLVMBuildIntToPtr(p->b, v, pointer_type(p), "");
}

/* Returns the integer as a pointer in p->space, or NULL if it is not known to be one. */
static LLVMValueRef pointer_of(struct pointers *p, LLVMValueRef v)
{
    LLVMValueRef made = pointer_known(p, v);
    if (made)
        return made;
    p->visits = 0;
    if (!pointer_how_sure(p, v, 0) || ++p->depth > MAX_DEPTH)
        return NULL;
    made = pointer_make(p, v);
    p->depth--;
    if (made && (LLVMIsAInstruction(v) || LLVMIsAArgument(v)))
        pointer_remember(p, v, made);
    return made;
}

/* ---- the function -------------------------------------------------------------------------------------- */

/* Handles a shared memory access at an unknown address, which may have lost its high half: inline asm, so
 * that the CPU device completes it. */
static void pointer_give_up(LLVMValueRef cast)
{
    LLVMValueRef address = LLVMGetOperand(cast, 0);
    if (LLVMGetPointerAddressSpace(LLVMTypeOf(cast)) != 3)
        return;
    for (LLVMUseRef use = LLVMGetFirstUse(cast), next; use; use = next) {
        next = LLVMGetNextUse(use);
        ptx_asm_shared(LLVMGetUser(use), address);
    }
    if (!LLVMGetFirstUse(cast))
        LLVMInstructionEraseFromParent(cast);
}

static LLVMValueRef *pointer_casts(LLVMValueRef function, unsigned *n)
{
    LLVMValueRef *list = NULL;
    unsigned count = 0, cap = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
            if (LLVMGetInstructionOpcode(i) != LLVMIntToPtr)
                continue;
            if (count == cap) {
                cap = cap ? 2 * cap : 256;
                LLVMValueRef *more = realloc(list, cap * sizeof *more);
                if (!more)
                    break;
                list = more;
            }
            list[count++] = i;
        }
    *n = count;
    return list;
}

void mt_ptx_find_pointers(LLVMValueRef function)
{
    struct pointers p = {.c = LLVMGetModuleContext(LLVMGetGlobalParent(function))};
    unsigned n;
    LLVMValueRef *casts = pointer_casts(function, &n);
    p.b = LLVMCreateBuilderInContext(p.c);
    p.i8 = LLVMInt8TypeInContext(p.c);
    p.i64 = LLVMInt64TypeInContext(p.c);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef address = LLVMGetOperand(casts[i], 0);
        p.space = LLVMGetPointerAddressSpace(LLVMTypeOf(casts[i]));
        p.depth = 0;
        if (p.space > 5)
            continue;
        LLVMPositionBuilderBefore(p.b, casts[i]);
        LLVMValueRef made = pointer_of(&p, address);
        if (made && made != casts[i]) {
            LLVMReplaceAllUsesWith(casts[i], made);
            LLVMInstructionEraseFromParent(casts[i]);
        } else if (!made) {
            pointer_give_up(casts[i]);
        }
    }
    for (unsigned i = 0; i < sizeof p.memo / sizeof *p.memo; i++)
        mt_hash_free(&p.memo[i]);
    while (p.ndead)
        LLVMInstructionEraseFromParent(p.dead[--p.ndead]);
    free(p.dead);
    free(casts);
    LLVMDisposeBuilder(p.b);
}

/* ---- Jumps, calls and returns of PTX ---- */

static LLVMBasicBlockRef ptx_label(struct mt_ptx_body *b, unsigned scope, const char *name);

static int flow_branch(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_asm_operand *to = l->s->noperands == 1 ? &l->s->operands[0] : NULL;
    LLVMBasicBlockRef taken = to && to->kind == MT_ASM_NAME ? ptx_label(b, l->s->scope, to->name) : NULL;
    if (!taken)
        return mt_asm_fail(l, "%s: a label is expected", l->s->opcode);
    if (!l->guard) {
        LLVMBuildBr(l->b, taken);
        return 1;
    }
    LLVMBasicBlockRef next = mt_asm_block(l);
    LLVMBuildCondBr(l->b, l->guard, taken, next);
    LLVMPositionBuilderAtEnd(l->b, next);
    return 1;
}

/* Returns the i-th result, which are stored after the parameters. NULL on failure. */
static LLVMValueRef flow_result(struct mt_ptx_body *b, unsigned i)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_ptx_variable *r = &b->f->sig.results[i];
    struct mt_asm_operand o = {.kind = MT_ASM_REG, .index = b->f->sig.nparams + i};
    if (r->space == 'r')
        return mt_asm_in(l, &o, l->a->regs[o.index].bits);
    LLVMValueRef slot = ptx_memory(b, &o);
    LLVMValueRef v = slot ? LLVMBuildLoad2(l->b, mt_ptx_type_of(b->x, r), slot, "") : NULL;
    if (v)
        LLVMSetAlignment(v, r->align);
    return v;
}

static int flow_return(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_ptx_signature *sig = &b->f->sig;
    LLVMValueRef all = sig->nresults > 1 ? LLVMGetUndef(LLVMGetReturnType(sig->type)) : NULL;
    for (unsigned i = 0; i < sig->nresults; i++) {
        LLVMValueRef v = flow_result(b, i);
        if (!v)
            return -1;
        all = sig->nresults > 1 ? LLVMBuildInsertValue(l->b, all, v, i, "") : v;
    }
    if (all)
        LLVMBuildRet(l->b, all);
    else
        LLVMBuildRetVoid(l->b);
    return 1;
}

static int ptx_asm(struct mt_ptx_body *b);

/* Ends the thread: in a kernel by return; in other functions by a call unknown to LLVM, so that earlier
 * stores stay. */
static int flow_exit(struct mt_ptx_body *b)
{
    const struct mt_ptx_origin *o = b->x->source->origin;
    if (o && o->never(o->ctx, b->here_line)) {
        LLVMBuildUnreachable(b->l.b);
        return 1;
    }
    if (b->f->is_kernel)
        return flow_return(b);
    if (ptx_asm(b))
        return -1;
    LLVMBuildUnreachable(b->l.b);
    return 1;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

struct flow_call {
    const struct mt_asm_operand *results, *callee, *arguments, *prototype; /* NULL if absent */
    struct mt_ptx_signature *sig;
    LLVMValueRef function;
};

/* call{.uni} {(results),} callee{, (arguments)}{, prototype} */
static int flow_read_call(struct mt_ptx_body *b, struct flow_call *call)
{
    const struct mt_asm_statement *s = b->l.s;
    unsigned at = 0;
    if (at < s->noperands && s->operands[at].kind == MT_ASM_VECTOR)
        call->results = &s->operands[at++];
    if (at < s->noperands)
        call->callee = &s->operands[at++];
    if (at < s->noperands && s->operands[at].kind == MT_ASM_VECTOR)
        call->arguments = &s->operands[at++];
    if (at < s->noperands && s->operands[at].kind == MT_ASM_NAME)
        call->prototype = &s->operands[at++];
    return call->callee && at == s->noperands ? 0 : mt_asm_fail(&b->l, "%s is not understood", s->opcode);
}

/* Handles a call by pointer, with the type from a prototype, or from the first possible callee. */
static int flow_by_pointer(struct mt_ptx_body *b, struct flow_call *call)
{
    struct mt_asm_body *l = &b->l;
    const char *label = call->prototype ? call->prototype->name : "";
    struct mt_ptx_targets *t = mt_ptx_map_get(&b->targets, label);
    struct mt_ptx_function *f = t ? mt_ptx_find_function(b->x, t->names[0]) : NULL;
    call->sig = f ? &f->sig : mt_ptx_map_get(&b->prototypes, label);
    if (!call->sig)
        return mt_asm_fail(l, "%s by pointer without a prototype", l->s->opcode);
    LLVMValueRef address = mt_asm_in(l, call->callee, 64);
    if (!address)
        return -1;
    call->function = LLVMBuildIntToPtr(l->b, address, l->ptr, "");
    return 0;
}

static int flow_find_callee(struct mt_ptx_body *b, struct flow_call *call)
{
    if (call->callee->kind != MT_ASM_NAME)
        return flow_by_pointer(b, call);
    struct mt_ptx_function *f = mt_ptx_find_function(b->x, call->callee->name);
    if (!f)
        return mt_asm_fail(&b->l, "function %.100s is not declared", call->callee->name);
    call->sig = &f->sig;
    call->function = f->value;
    return 0;
}

static LLVMValueRef flow_argument(struct mt_ptx_body *b, const struct mt_ptx_variable *v, LLVMTypeRef type,
                                  const struct mt_asm_operand *o)
{
    struct mt_asm_body *l = &b->l;
    int memory = o->kind == MT_ASM_REG && l->a->regs[o->index].memory;
    if (v->is_array)
        return ptx_memory(b, o);
    if (!memory)
        return mt_asm_in(l, o, LLVMGetIntTypeWidth(type));
    LLVMValueRef slot = ptx_memory(b, o);
    return slot ? LLVMBuildLoad2(l->b, type, slot, "") : NULL;
}

static int flow_take_result(struct mt_ptx_body *b, const struct mt_ptx_variable *r,
                            const struct mt_asm_operand *o, LLVMValueRef value)
{
    struct mt_asm_body *l = &b->l;
    if (o->kind == MT_ASM_REG && l->a->regs[o->index].memory) {
        LLVMValueRef slot = ptx_memory(b, o);
        if (slot)
            LLVMSetAlignment(LLVMBuildStore(l->b, value, slot), 1);
        return slot ? 0 : -1;
    }
    if (r->is_array)
        return mt_asm_fail(l, "%s: the result is not a register", l->s->opcode);
    return mt_asm_out(l, o, value, 0);
}

static int flow_take_results(struct mt_ptx_body *b, const struct flow_call *call, LLVMValueRef value)
{
    struct mt_asm_body *l = &b->l;
    unsigned wanted = call->results ? call->results->nitems : 0, n = call->sig->nresults;
    if (wanted && wanted != n)
        return mt_asm_fail(l, "%s takes %u results of %u", l->s->opcode, wanted, n);
    for (unsigned i = 0; i < wanted; i++) {
        LLVMValueRef one = n > 1 ? LLVMBuildExtractValue(l->b, value, i, "") : value;
        if (flow_take_result(b, &call->sig->results[i], &call->results->items[i], one))
            return -1;
    }
    return 0;
}

static int flow_make_call(struct mt_ptx_body *b, struct flow_call *call, LLVMValueRef *values,
                          LLVMTypeRef *types)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_ptx_signature *sig = call->sig;
    unsigned given = call->arguments ? call->arguments->nitems : 0;
    if (given != sig->nparams)
        return mt_asm_fail(l, "%s with %u arguments of %u", l->s->opcode, given, sig->nparams);
    if (mt_ptx_ask(&b->p, sig->params, sig->nparams) || mt_ptx_ask(&b->p, sig->results, sig->nresults))
        return -1;
    LLVMGetParamTypes(sig->type, types);
    for (unsigned i = 0; i < given; i++)
        if (!(values[i] = flow_argument(b, &sig->params[i], types[i], &call->arguments->items[i])))
            return -1;
    LLVMValueRef made = LLVMBuildCall2(l->b, sig->type, call->function, values, given, "");
    LLVMAddCallSiteAttribute(
        made, LLVMAttributeFunctionIndex,
        LLVMCreateEnumAttribute(l->c, LLVMGetEnumAttributeKindForName("convergent", 10), 0));
    for (unsigned i = 0; i < given; i++)
        if (sig->params[i].is_array)
            mt_ptx_pass_in_memory(b->x, made, 1, &sig->params[i], i);
    return flow_take_results(b, call, made);
}

static int flow_call(struct mt_ptx_body *b)
{
    struct flow_call call = {0};
    if (flow_read_call(b, &call) || flow_find_callee(b, &call))
        return -1;
    LLVMValueRef *values = calloc(call.sig->nparams + 1, sizeof *values);
    LLVMTypeRef *types = calloc(call.sig->nparams + 1, sizeof *types);
    int failed =
        values && types ? flow_make_call(b, &call, values, types) : mt_asm_fail(&b->l, "out of memory");
    free(values);
    free(types);
    return failed ? -1 : 1;
}

static int ptx_jump(struct mt_ptx_body *b);

/* Jumps, calls and returns. Returns 1: the statement is done; 0: it is another kind; -1: failed. */
static int ptx_flow(struct mt_ptx_body *b)
{
    static const struct {
        const char *op;
        int (*make)(struct mt_ptx_body *b);
    } table[] = {{"bra", flow_branch},
                 {"brx", ptx_jump},
                 {"call", flow_call},
                 {"ret", flow_return},
                 {"exit", flow_exit}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(b->l.s->parts[0], table[i].op))
            return table[i].make(b);
    return 0;
}

/* Jumps by an index into a list of labels: brx.idx. LLVM's work on a switch, and on a block with several
 * ways from one switch, is quadratic, and a list may have as many entries as the text is long. So all
 * jumps by a list go through one block, a large list is a tree of small switches, and in it a label has
 * one way from each of them. */

enum { WAYS_BITS = 8, WAYS = 1 << WAYS_BITS }; /* limits of one switch */

struct jump_target {
    LLVMBasicBlockRef label, way; /* way: block that the current switch uses for the label; NULL: none yet */
    unsigned entries;             /* number of its entries in that switch */
};

struct jump {
    struct mt_ptx_body *b;
    struct jump_target **entry; /* label of each list entry */
    unsigned n;
    LLVMValueRef index;
};

/* Finds the label of each entry. Returns 0 or -1. */
static int jump_find_targets(struct jump *j, const struct mt_ptx_targets *t)
{
    struct mt_ptx_map map = {0};
    int failed = 0;
    j->n = t->n;
    j->entry = mt_parse_alloc(&j->b->p, t->n * sizeof *j->entry);
    for (unsigned i = 0; j->entry && i < t->n && !failed; i++) {
        struct jump_target *one = mt_ptx_map_get(&map, t->names[i]);
        if (!one && (one = mt_parse_alloc(&j->b->p, sizeof *one)))
            failed = mt_ptx_map_put(&map, t->names[i], one) ||
                     !(one->label = ptx_label(j->b, t->scope, t->names[i]));
        j->entry[i] = one;
        failed |= !one;
    }
    mt_ptx_map_free(&map);
    return j->entry && !failed ? 0 : mt_asm_fail(&j->b->l, "out of memory");
}

/* Makes a block between several entries and their label; the empty asm keeps it. */
static LLVMBasicBlockRef jump_between(struct mt_asm_body *l, LLVMBasicBlockRef label)
{
    LLVMTypeRef type = LLVMFunctionType(l->none, NULL, 0, 0);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b), between = mt_asm_block(l);
    LLVMPositionBuilderAtEnd(l->b, between);
    LLVMBuildCall2(l->b, type, LLVMGetInlineAsm(type, "", 0, "", 0, 1, 0, LLVMInlineAsmDialectATT, 0), NULL,
                   0, "");
    LLVMBuildBr(l->b, label);
    LLVMPositionBuilderAtEnd(l->b, here);
    return between;
}

/* Emits a switch over the entries from `first` on. The most frequent label is the default: an index beyond
 * the list is undefined. */
static void jump_leaf(struct jump *j, unsigned first)
{
    struct mt_asm_body *l = &j->b->l;
    unsigned end = j->n - first < WAYS ? j->n : first + WAYS;
    struct jump_target *most = j->entry[end - 1];
    for (unsigned i = first; i < end; i++)
        *j->entry[i] = (struct jump_target){.label = j->entry[i]->label};
    for (unsigned i = first; i < end; i++)
        if (++j->entry[i]->entries > most->entries)
            most = j->entry[i];
    LLVMValueRef jump = LLVMBuildSwitch(l->b, j->index, most->label, end - first);
    for (unsigned i = first; i < end; i++) {
        struct jump_target *t = j->entry[i];
        if (!t->way)
            t->way = t->entries > 1 && j->n > WAYS ? jump_between(l, t->label) : t->label;
        if (t != most)
            LLVMAddCase(jump, mt_asm_const(l, 32, i), t->way);
    }
}

/* Emits a tree over the entries selected by `bits` more bits of the index. */
static void jump_tree(struct jump *j, unsigned first, unsigned bits)
{
    struct mt_asm_body *l = &j->b->l;
    if (!bits) {
        jump_leaf(j, first);
        return;
    }
    unsigned step = 1u << bits, end = j->n - first > (uint64_t)step * WAYS ? first + step * WAYS : j->n;
    LLVMValueRef high = LLVMBuildLShr(l->b, j->index, mt_asm_const(l, 32, bits), ""), jump = NULL;
    for (unsigned at = first; at<end; at = end - at> step ? at + step : end) {
        LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b), below = mt_asm_block(l);
        if (!jump)
            jump = LLVMBuildSwitch(l->b, high, below, WAYS);
        else
            LLVMAddCase(jump, mt_asm_const(l, 32, at >> bits), below);
        LLVMPositionBuilderAtEnd(l->b, below);
        jump_tree(j, at, bits - WAYS_BITS);
        LLVMPositionBuilderAtEnd(l->b, here);
    }
}

/* Makes the block for all jumps by the list, which leave the index in the slot. Returns 0 or -1. */
static int jump_dispatch(struct mt_ptx_body *b, struct mt_ptx_targets *t)
{
    struct mt_asm_body *l = &b->l;
    struct jump j = {.b = b};
    unsigned bits = 0;
    if (jump_find_targets(&j, t))
        return -1;
    while ((uint64_t)WAYS << bits < t->n)
        bits += WAYS_BITS;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
    t->slot = mt_asm_slot(l, l->i32, "");
    t->dispatch = mt_asm_block(l);
    LLVMPositionBuilderAtEnd(l->b, t->dispatch);
    j.index = LLVMBuildLoad2(l->b, l->i32, t->slot, "");
    jump_tree(&j, 0, bits);
    LLVMPositionBuilderAtEnd(l->b, here);
    return 0;
}

/* brx.idx index, label of .branchtargets */
static int ptx_jump(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_asm_operand *o = l->s->operands;
    struct mt_ptx_targets *t =
        l->s->noperands == 2 && o[1].kind == MT_ASM_NAME ? mt_ptx_map_get(&b->targets, o[1].name) : NULL;
    if (!t)
        return mt_asm_fail(l, "%s without its .branchtargets", l->s->opcode);
    LLVMValueRef index = mt_asm_in(l, &o[0], 32);
    if (!index || (!t->dispatch && jump_dispatch(b, t)))
        return -1;
    LLVMBuildStore(l->b, index, t->slot);
    LLVMBuildBr(l->b, t->dispatch);
    return 1;
}

/* Arithmetic, logic, comparisons and conversions of PTX as plain IR, by the handlers of inline asm. An
 * instruction is kept where plain IR would round, saturate or flush differently, or where the back end
 * would make several of it. */

static int native_is_float(struct mt_asm_type t)
{
    return t.kind == 'f' || t.kind == 'g' || t.kind == 't';
}

/* Returns the operands' type: the last one in the opcode. */
static int native_type(const struct mt_asm_statement *s, struct mt_asm_type *t)
{
    return s->nparts > 1 && mt_asm_type(s->parts[s->nparts - 1], t);
}

/* Returns 1 if the instruction has a variant that flushes f32 denormals. */
static int native_may_flush(const struct mt_asm_statement *s)
{
    struct mt_asm_type t;
    return s->nparts > 1 && mt_asm_is(s, MT_ASM_FLUSHES) && native_type(s, &t) && t.kind == 'f' &&
           t.bits == 32 && t.lanes == 1;
}

static int ptx_flushes(const struct mt_asm *a)
{
    int flushes = 0;
    for (unsigned i = 0; i < a->nstatements; i++) {
        const struct mt_asm_statement *s = &a->statements[i];
        if (s->label || !native_may_flush(s))
            continue;
        if (!mt_asm_has(s, "ftz"))
            return 0;
        flushes = 1;
    }
    return flushes;
}

/* cvt.d.s: between integers, from integers to f32 and f64, between f32, f64 and f16 rounded to nearest,
 * and to integers towards zero. */
static int native_cvt(const struct mt_asm_statement *s)
{
    struct mt_asm_type to, from;
    unsigned n = s->nparts;
    if (n < 3 || !mt_asm_type(s->parts[n - 1], &from) || !mt_asm_type(s->parts[n - 2], &to) ||
        from.lanes > 1 || to.lanes > 1)
        return 0;
    if (mt_asm_has(s, "rni") || mt_asm_has(s, "rmi") || mt_asm_has(s, "rpi"))
        return 0;
    if (!native_is_float(to) && !native_is_float(from))
        return 1;
    if (mt_asm_has(s, "sat") || from.bits == 8 || to.bits == 8)
        return 0;
    if (!native_is_float(to) && (from.bits != 32 || to.bits > 32)) /* NaN is not 0 there */
        return 0;
    return (to.kind == 'f' || !native_is_float(to)) && (from.kind == 'f' || !native_is_float(from)) &&
           !(mt_asm_has(s, "rzi") && native_is_float(to));
}

static int native_wants(const struct mt_ptx_body *b, const struct mt_asm_statement *s)
{
    static const char *const refused[] = {"rz",     "rm",   "rp",        "rna", "rs",      "relu",
                                          "approx", "full", "satfinite", "NaN", "xorsign", "pack"};
    struct mt_asm_type t;
    if (!native_type(s, &t))
        return 0;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (mt_asm_has(s, refused[i]))
            return 0;
    if (mt_asm_has(s, "ftz") && !b->flush)
        return 0;
    if (!strcmp(s->parts[0], "cvt"))
        return native_cvt(s);
    if (t.lanes > 1 && strcmp(s->parts[0], "mov") != 0)
        return 0;
    if (!native_is_float(t))
        return mt_asm_is(s, MT_ASM_NATIVE);
    if (!mt_asm_is(s, MT_ASM_NATIVE_FLOAT) || mt_asm_has(s, "sat"))
        return 0;
    return !strcmp(s->parts[0], "mov") || !strcmp(s->parts[0], "selp") || (t.kind == 'f' && t.bits >= 32);
}

/* Sets fusing: PTX allows it for a product and a sum without a rounding, but not with one. The word stays
 * on instructions that must not become others for the GPU. */
static void native_contract(struct mt_ptx_body *b, LLVMValueRef before)
{
    const struct mt_asm_statement *s = b->l.s;
    struct mt_asm_type t;
    if (!native_type(s, &t) || t.kind != 'f')
        return;
    LLVMValueRef i = LLVMGetLastInstruction(LLVMGetInsertBlock(b->l.b));
    for (; i && i != before; i = LLVMGetPreviousInstruction(i)) {
        LLVMOpcode op = LLVMGetInstructionOpcode(i);
        if (op != LLVMFAdd && op != LLVMFSub && op != LLVMFMul)
            continue;
        if (!mt_asm_has(s, "rn"))
            LLVMSetFastMathFlags(i, LLVMFastMathAllowContract);
        ptx_keep_word(i, s->opcode);
    }
}

/* Rewrites the statement as in a function that flushes anyway. */
static void native_without_ftz(const struct mt_asm_statement *s, struct mt_asm_statement *out)
{
    *out = *s;
    out->nparts = 0;
    for (unsigned i = 0; i < s->nparts; i++)
        if (strcmp(s->parts[i], "ftz") != 0)
            out->parts[out->nparts++] = s->parts[i];
}

/* Lowers instructions that plain IR can express, by the handlers of inline asm. Returns as ptx_flow. */
static int ptx_native(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_asm_statement *s = l->s;
    mt_asm_lowering *lower = native_wants(b, s) ? mt_asm_find_lowering(s) : NULL;
    struct mt_asm_statement plain;
    if (!lower)
        return 0;
    LLVMValueRef before = LLVMGetLastInstruction(LLVMGetInsertBlock(l->b));
    native_without_ftz(s, &plain);
    l->s = &plain;
    int failed = lower(l);
    l->s = s;
    if (failed) { /* kept as an instruction; IR built so far is unused */
        *l->error = (struct mt_asm_error){0};
        return 0;
    }
    native_contract(b, before);
    return 1;
}

/* Turns an instruction of PTX into one call of inline asm, understood by asm.h's readers. */

#define MAX_SIDES 300 /* maximum registers and symbols of one instruction */

struct asm_text {
    struct mt_ptx_body *b;
    char *text;
    size_t n, cap;
    int failed;
    const struct mt_asm_operand *outputs[MAX_SIDES];
    LLVMValueRef inputs[MAX_SIDES];
    LLVMTypeRef input_types[MAX_SIDES];
    unsigned noutputs, ninputs;
};

static void asm_put(struct asm_text *t, const char *format, ...);

static int ptx_is_pure(const struct mt_asm_statement *s)
{
    return mt_asm_is(s, MT_ASM_PURE) ||
           (s->parts[0][0] == 'v' && strcmp(s->parts[0], "vote") != 0); /* vadd, vmin4 … */
}

static void asm_put(struct asm_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void asm_put(struct asm_text *t, const char *format, ...)
{
    for (;;) {
        va_list list;
        va_start(list, format);
        int n = vsnprintf(t->text + t->n, t->cap - t->n, format, list);
        va_end(list);
        if (n < 0 || t->failed)
            return;
        if ((size_t)n < t->cap - t->n) {
            t->n += (size_t)n;
            return;
        }
        char *more = realloc(t->text, 2 * t->cap + (size_t)n);
        if (!more) {
            t->failed = mt_asm_fail(&t->b->l, "out of memory");
            return;
        }
        t->text = more;
        t->cap = 2 * t->cap + (size_t)n;
    }
}

/* Doubles '$', which is special there. */
static void asm_put_name(struct asm_text *t, const char *name)
{
    for (; *name; name++)
        asm_put(t, *name == '$' ? "$$" : "%c", *name);
}

/* Numbers inputs after all outputs, whose number is known at the end: "\1<n>;" stands for them until then. */
static void asm_put_input(struct asm_text *t, LLVMValueRef v)
{
    if (!v || t->ninputs == MAX_SIDES) {
        t->failed = mt_asm_fail(&t->b->l, "%s: too many operands", t->b->l.s->opcode);
        return;
    }
    t->inputs[t->ninputs] = v;
    t->input_types[t->ninputs] = LLVMTypeOf(v);
    asm_put(t, "\1%u;", t->ninputs++);
}

static void asm_put_register(struct asm_text *t, const struct mt_asm_operand *o, int is_output)
{
    struct mt_asm_body *l = &t->b->l;
    unsigned bits = mt_asm_width(l, o);
    if (is_output) {
        if (t->noutputs == MAX_SIDES) {
            t->failed = mt_asm_fail(l, "%s: too many operands", l->s->opcode);
            return;
        }
        asm_put(t, "$%u", t->noutputs);
        t->outputs[t->noutputs++] = o;
        return;
    }
    struct mt_asm_operand plain = *o; /* its sign, or "not", belongs to the instruction */
    plain.inverted = 0;
    *plain.part = 0;
    asm_put_input(t, mt_asm_in(l, &plain, bits == 8 ? 16 : bits));
}

static void asm_put_operand(struct asm_text *t, const struct mt_asm_operand *o, int is_output);

static void asm_put_list(struct asm_text *t, const struct mt_asm_operand *o, unsigned from, int is_output)
{
    for (unsigned i = from; i < o->nitems; i++) {
        if (i > from)
            asm_put(t, ", ");
        asm_put_operand(t, &o->items[i], is_output);
    }
}

static void asm_put_memory(struct asm_text *t, const struct mt_asm_operand *o)
{
    asm_put(t, "[");
    if (o->nitems)
        asm_put_operand(t, &o->items[0], 0);
    if (o->second) {
        asm_put(t, "+");
        asm_put_operand(t, o->second, 0);
    }
    if (o->offset)
        asm_put(t, "%+lld", (long long)o->offset);
    if (o->nitems > 1) {
        asm_put(t, ", ");
        asm_put_list(t, o, 1, 0);
    }
    asm_put(t, "]");
}

static void asm_put_symbol(struct asm_text *t, const struct mt_asm_operand *o)
{
    struct mt_asm_body *l = &t->b->l;
    if (o->kind == MT_ASM_NAME && !strcmp(o->name, "WARP_SZ")) {
        asm_put(t, "WARP_SZ");
        return;
    }
    LLVMValueRef v = l->symbol(l, o);
    if (!v)
        t->failed = mt_asm_fail(l, "%s: '%.100s' is not declared", l->s->opcode, o->name);
    else
        asm_put_input(t, v);
}

static void asm_put_operand(struct asm_text *t, const struct mt_asm_operand *o, int is_output)
{
    struct mt_asm_body *l = &t->b->l;
    if (t->failed)
        return;
    if (o->inverted)
        asm_put(t, mt_asm_width(l, o) == 1 ? "!" : "-");
    switch (o->kind) {
    case MT_ASM_REG:
        if (l->a->regs[o->index].memory)
            asm_put_symbol(t, o);
        else
            asm_put_register(t, o, is_output);
        if (*o->part)
            asm_put(t, ".%s", o->part);
        break;
    case MT_ASM_NAME:
        asm_put_symbol(t, o);
        break;
    case MT_ASM_SREG:
        asm_put_symbol(t, o); /* in a register: few instructions take a special one */
        break;
    case MT_ASM_INT:
        asm_put(t, "%lld", (long long)o->bits);
        break;
    case MT_ASM_F32:
        asm_put(t, "0f%08X", (unsigned)o->bits);
        break;
    case MT_ASM_F64:
        asm_put(t, "0d%016llX", (unsigned long long)o->bits);
        break;
    case MT_ASM_SINK:
        asm_put(t, "_");
        break;
    case MT_ASM_VECTOR:
        asm_put(t, "{");
        asm_put_list(t, o, 0, is_output);
        asm_put(t, "}");
        break;
    case MT_ASM_MEMORY:
        asm_put_memory(t, o);
        break;
    default:
        t->failed = mt_asm_fail(l, "%s: operand not understood", l->s->opcode);
    }
    if (o->second && o->kind != MT_ASM_MEMORY) {
        asm_put(t, "|");
        asm_put_operand(t, o->second, is_output);
    }
}

/* ---- the call ------------------------------------------------------------------------------------------ */

static char asm_letter(unsigned bits)
{
    return bits == 1 ? 'b' : bits <= 16 ? 'h' : bits == 32 ? 'r' : bits == 128 ? 'q' : 'l';
}

/* Returns the text with inputs numbered after the outputs; malloc'ed. */
static char *asm_number(const struct asm_text *t, size_t *length)
{
    char *out = malloc(2 * t->n + 16 * (size_t)t->ninputs + 16), *o = out;
    for (const char *c = t->text; out && *c; c++) {
        if (*c != '\1') {
            *o++ = *c;
            continue;
        }
        char *end;
        unsigned long n = strtoul(c + 1, &end, 10);
        o += sprintf(o, "$%lu", t->noutputs + n);
        c = end; /* at the ';' */
    }
    if (out)
        *o = 0;
    *length = out ? (size_t)(o - out) : 0;
    return out;
}

static LLVMTypeRef asm_output_type(struct asm_text *t, unsigned i)
{
    unsigned bits = mt_asm_width(&t->b->l, t->outputs[i]);
    return mt_asm_int(&t->b->l, bits == 8 ? 16 : bits);
}

static LLVMTypeRef asm_result_type(struct asm_text *t)
{
    LLVMTypeRef types[MAX_SIDES];
    for (unsigned i = 0; i < t->noutputs; i++)
        types[i] = asm_output_type(t, i);
    return !t->noutputs       ? t->b->l.none
           : t->noutputs == 1 ? types[0]
                              : LLVMStructTypeInContext(t->b->l.c, types, t->noutputs, 0);
}

static void asm_constrain(const struct asm_text *t, int acts, char *text, size_t room)
{
    size_t n = 0;
    for (unsigned i = 0; i < t->noutputs; i++)
        n += (size_t)snprintf(text + n, room - n, "%s=%c", n ? "," : "",
                              asm_letter(mt_asm_width(&t->b->l, t->outputs[i])));
    for (unsigned i = 0; i < t->ninputs; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%c", n ? "," : "",
                              asm_letter(LLVMGetIntTypeWidth(t->input_types[i])));
    if (acts)
        snprintf(text + n, room - n, "%s~{memory}", n ? "," : "");
}

static int asm_take_results(struct asm_text *t, LLVMValueRef call)
{
    struct mt_asm_body *l = &t->b->l;
    for (unsigned i = 0; i < t->noutputs; i++) {
        struct mt_asm_operand plain = *t->outputs[i];
        plain.second = NULL;
        *plain.part = 0; /* the instruction writes the whole register */
        LLVMValueRef v = t->noutputs == 1 ? call : LLVMBuildExtractValue(l->b, call, i, "");
        if (mt_asm_out(l, &plain, v, 0))
            return -1;
    }
    return 0;
}

/* attributes of all calls of inline asm */
static void ptx_asm_attributes(LLVMContextRef c, LLVMValueRef call)
{
    static const char *const words[] = {"convergent", "nounwind"};
    for (int i = 0; i < 2; i++)
        LLVMAddCallSiteAttribute(
            call, LLVMAttributeFunctionIndex,
            LLVMCreateEnumAttribute(c, LLVMGetEnumAttributeKindForName(words[i], strlen(words[i])), 0));
}

static int asm_build(struct asm_text *t)
{
    struct mt_asm_body *l = &t->b->l;
    int acts = !ptx_is_pure(l->s);
    size_t length, room = 4 * (size_t)(t->noutputs + t->ninputs) + 16;
    char *constraints = calloc(1, room), *text = asm_number(t, &length);
    int failed = -1;
    if (!constraints || !text) {
        mt_asm_fail(l, "out of memory");
        goto out;
    }
    asm_constrain(t, acts, constraints, room);
    LLVMTypeRef type = LLVMFunctionType(asm_result_type(t), t->input_types, t->ninputs, 0);
    LLVMValueRef body = LLVMGetInlineAsm(type, text, length, constraints, strlen(constraints), acts, 0,
                                         LLVMInlineAsmDialectATT, 0);
    LLVMValueRef call = LLVMBuildCall2(l->b, type, body, t->inputs, t->ninputs, "");
    ptx_asm_attributes(l->c, call);
    failed = asm_take_results(t, call);
out:
    free(constraints);
    free(text);
    return failed;
}

/* Keeps a function with activemask from being inlined: its result depends on the lanes at one place. */
static void asm_keep_place(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    LLVMValueRef f = LLVMGetBasicBlockParent(LLVMGetInsertBlock(l->b));
    if (strcmp(l->s->opcode, "activemask.b32") == 0)
        LLVMAddAttributeAtIndex(
            f, LLVMAttributeFunctionIndex,
            LLVMCreateEnumAttribute(l->c, LLVMGetEnumAttributeKindForName("noinline", 8), 0));
}

/* Handles any other instruction. */
static int ptx_asm(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_asm_statement *s = l->s;
    struct asm_text *t = calloc(1, sizeof *t);
    int writes = mt_asm_has_destination(s), failed;
    if (!t || !(t->text = calloc(1, 256))) {
        free(t);
        return mt_asm_fail(l, "out of memory");
    }
    t->b = b;
    t->cap = 256;
    asm_put_name(t, s->opcode);
    for (unsigned i = 0; i < s->noperands && !t->failed; i++) {
        asm_put(t, i ? ", " : " ");
        asm_put_operand(t, &s->operands[i], writes && i == 0);
    }
    asm_put(t, ";");
    failed = t->failed || asm_build(t) ? -1 : 0;
    asm_keep_place(b);
    free(t->text);
    free(t);
    return failed;
}

/* ---- declarations in bodies ---------------------------------------------------------------------------- */

static int body_add_memory(struct mt_ptx_body *b, const struct mt_ptx_variable *v)
{
    struct mt_asm_reg reg = {.name = v->name, .type = 'm', .bits = 64, .memory = v};
    if (v->space == 'r')
        reg =
            (struct mt_asm_reg){.name = v->name, .type = v->type.kind, .bits = v->type.bits * v->type.lanes};
    return mt_parse_add_reg(&b->p, &reg);
}

/* Reads .param, .local, .shared, .global, .const: one variable or several of a type. */
static int body_variables(struct mt_ptx_body *b, char space, enum mt_ptx_linkage linkage)
{
    struct mt_parser *p = &b->p;
    struct mt_ptx_variable *v = mt_parse_alloc(p, sizeof *v);
    int in_module = space == 's' || space == 'g' || space == 'c';
    if (!v)
        return mt_parse_no_memory(p);
    if (mt_ptx_read_variable(b->x, p, space, v))
        return -1;
    if (in_module &&
        (mt_ptx_declare_variable(b->x, v, linkage, 1) || mt_ptx_remember_initialiser(b->x, p, v)))
        return -1;
    return body_add_memory(b, v) < 0 || mt_parse_expect(p, ';') ? -1 : 1;
}

/* Takes the label in front of the directive, which is not one of the code's; NULL on failure. */
static const char *body_take_label(struct mt_ptx_body *b)
{
    struct mt_asm *a = b->p.a;
    const char *label = a->nstatements ? a->statements[a->nstatements - 1].label : NULL;
    if (label)
        a->nstatements--;
    else
        mt_parse_fail(&b->p, "a label is missing here");
    return label;
}

static int body_prototype(struct mt_ptx_body *b)
{
    const char *label = body_take_label(b);
    struct mt_ptx_signature *sig = mt_parse_alloc(&b->p, sizeof *sig);
    if (!label || !sig || mt_ptx_read_prototype(b->x, &b->p, sig))
        return -1;
    return mt_ptx_map_put(&b->prototypes, label, sig) ? mt_parse_no_memory(&b->p) : 1;
}

/* Reads .branchtargets and .calltargets: names up to ';'. */
static int body_targets(struct mt_ptx_body *b)
{
    struct mt_parser *p = &b->p;
    const char *label = body_take_label(b);
    struct mt_ptx_targets *t = mt_parse_alloc(p, sizeof *t);
    if (!label || !t)
        return -1;
    do {
        mt_parse_space(p);
        t->scope = p->scope;
        t->names = mt_parse_grow(p, t->names, t->n, &t->cap, sizeof *t->names);
        if (!t->names || !(t->names[t->n++] = mt_parse_name(p, 0)))
            return -1;
    } while (mt_parse_accept(p, ','));
    if (mt_parse_expect(p, ';'))
        return -1;
    return mt_ptx_map_put(&b->targets, label, t) ? mt_parse_no_memory(p) : 1;
}

static int body_directive(struct mt_parser *p, const char *word)
{
    struct mt_ptx_body *b = p->ctx;
    static const char *const spaces[] = {".param", ".local", ".shared", ".global", ".const"};
    enum mt_ptx_linkage linkage = MT_PTX_STATIC;
    while (mt_ptx_linkage_of(word, &linkage)) {
        mt_parse_space(p);
        if (!(word = mt_parse_name(p, 1)))
            return -1;
    }
    for (unsigned i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (!strcmp(word, spaces[i]))
            return body_variables(b, word[1], linkage);
    if (!strcmp(word, ".loc"))
        return mt_ptx_read_location(b, p) ? -1 : 1;
    if (!strcmp(word, ".callprototype"))
        return body_prototype(b);
    if (!strcmp(word, ".branchtargets") || !strcmp(word, ".calltargets"))
        return body_targets(b);
    return 0;
}

/* ---- memory and names ---------------------------------------------------------------------------------- */

/* Returns the pointer to the memory of an 'm' register, or NULL on failure. */
static LLVMValueRef ptx_memory(struct mt_ptx_body *b, const struct mt_asm_operand *o)
{
    const struct mt_ptx_variable *v = o->kind == MT_ASM_REG ? b->l.a->regs[o->index].memory : NULL;
    LLVMValueRef *slot = v ? &b->l.regs[o->index] : NULL;
    if (!v) {
        mt_asm_fail(&b->l, "%s: a parameter or variable is expected", b->l.s->opcode);
        return NULL;
    }
    if (v->value)
        return v->value;
    if (!*slot && (*slot = mt_asm_slot(&b->l, mt_ptx_type_of(b->x, v), "")))
        LLVMSetAlignment(*slot, v->align);
    return *slot;
}

/* Returns the address of a variable or function in its own space as i64; NULL: no such name. */
static LLVMValueRef ptx_symbol(struct mt_ptx *x, const char *name)
{
    struct mt_ptx_function *f = mt_ptx_find_function(x, name);
    LLVMValueRef v = f ? mt_ptx_address(x, f) : LLVMGetNamedGlobal(x->m, name);
    return v ? LLVMConstPtrToInt(v, LLVMInt64TypeInContext(x->c)) : NULL;
}

/* Returns 1 for a special register of PTX, 0 for an undeclared name. */
static int body_is_special(const char *name)
{
    static const char *const whole[] = {"nwarpid",
                                        "smid",
                                        "nsmid",
                                        "gridid",
                                        "clock",
                                        "clock_hi",
                                        "clock64",
                                        "cluster_ctarank",
                                        "tid.w",
                                        "ntid.w",
                                        "ctaid.w",
                                        "nctaid.w",
                                        "globaltimer",
                                        "globaltimer_lo",
                                        "globaltimer_hi",
                                        "cluster_nctarank",
                                        "total_smem_size",
                                        "aggr_smem_size",
                                        "dynamic_smem_size",
                                        "current_graph_exec",
                                        "is_explicit_cluster"};
    static const char *const begin[] = {"lanemask_",       "pm",
                                        "envreg",          "clusterid.",
                                        "nclusterid.",     "cluster_ctaid.",
                                        "cluster_nctaid.", "reserved_smem_offset_"};
    for (unsigned i = 0; i < sizeof whole / sizeof *whole; i++)
        if (!strcmp(name, whole[i]))
            return 1;
    for (unsigned i = 0; i < sizeof begin / sizeof *begin; i++)
        if (!strncmp(name, begin[i], strlen(begin[i])))
            return 1;
    return 0;
}

/* Reads a special register. Those of every device are intrinsics, as in clang's code, which the pass knows
 * in loops over threads. */
static LLVMValueRef body_special(struct mt_asm_body *l, const char *name)
{
    static const char *const known[] = {"tid.x",    "tid.y",    "tid.z",   "ntid.x",  "ntid.y",
                                        "ntid.z",   "ctaid.x",  "ctaid.y", "ctaid.z", "nctaid.x",
                                        "nctaid.y", "nctaid.z", "laneid",  "warpid"};
    static const char *const changing[] = {"clock", "globaltimer", "pm", "smid", "total_smem"};
    char text[128];
    struct mt_asm_type t = {'u', 32, 1};
    int acts = 0;
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i])) {
            snprintf(text, sizeof text, "llvm.nvvm.read.ptx.sreg.%s", name);
            return mt_asm_intrinsic(l, text, NULL, NULL, 0);
        }
    if (!body_is_special(name)) {
        mt_asm_fail(l, "register %%%.100s is not declared", name);
        return NULL;
    }
    for (unsigned i = 0; i < sizeof changing / sizeof *changing; i++)
        acts |= !strncmp(name, changing[i], strlen(changing[i]));
    mt_asm_type(l->s->parts[l->s->nparts - 1], &t);
    LLVMTypeRef type = LLVMFunctionType(mt_asm_int(l, t.bits), NULL, 0, 0);
    int n = snprintf(text, sizeof text, "mov.%s $0, %%%.60s;", l->s->parts[l->s->nparts - 1], name);
    const char *constraint = t.bits == 64 ? "=l" : t.bits == 1 ? "=b" : t.bits == 16 ? "=h" : "=r";
    LLVMValueRef body =
        LLVMGetInlineAsm(type, text, (size_t)n, constraint, 2, acts, 0, LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(l->b, type, body, NULL, 0, "");
}

static LLVMValueRef body_symbol(struct mt_asm_body *l, const struct mt_asm_operand *o)
{
    struct mt_ptx_body *b = (struct mt_ptx_body *)l;
    LLVMValueRef v = NULL;
    if (o->kind == MT_ASM_SREG)
        return body_special(l, o->name);
    if (o->kind == MT_ASM_REG) {
        v = ptx_memory(b, o);
        v = v ? LLVMBuildPtrToInt(l->b, v, l->i64, "") : NULL;
    } else {
        v = ptx_symbol(b->x, o->name);
    }
    return v && o->offset ? LLVMBuildAdd(l->b, v, mt_asm_const(l, 64, (uint64_t)o->offset), "") : v;
}

/* ---- labels -------------------------------------------------------------------------------------------- */

static const char *body_label_key(struct mt_ptx_body *b, unsigned scope, const char *name)
{
    size_t n = strlen(name) + 16;
    char *key = mt_parse_alloc(&b->p, n);
    if (key)
        snprintf(key, n, "%u %s", scope, name);
    return key;
}

static int body_make_labels(struct mt_ptx_body *b)
{
    const struct mt_asm *a = b->l.a;
    for (unsigned i = 0; i < a->nstatements; i++) {
        const char *name = a->statements[i].label, *key;
        if (!name)
            continue;
        b->l.s = &a->statements[i];
        if (!(key = body_label_key(b, a->statements[i].scope, name)))
            return mt_asm_fail(&b->l, "out of memory");
        if (mt_ptx_map_get(&b->labels, key))
            return mt_asm_fail(&b->l, "label %.100s is defined twice", name);
        if (mt_ptx_map_put(&b->labels, key, mt_asm_block(&b->l)))
            return mt_asm_fail(&b->l, "out of memory");
    }
    b->l.s = NULL;
    return 0;
}

/* Returns the block of the label visible from that scope, or NULL on failure. */
static LLVMBasicBlockRef ptx_label(struct mt_ptx_body *b, unsigned scope, const char *name)
{
    for (;; scope = b->l.a->scopes[scope]) {
        const char *key = body_label_key(b, scope, name);
        LLVMBasicBlockRef block = key ? mt_ptx_map_get(&b->labels, key) : NULL;
        if (block)
            return block;
        if (!scope) {
            mt_asm_fail(&b->l, "label %.100s is not in this function", name);
            return NULL;
        }
    }
}

/* ---- statements ---------------------------------------------------------------------------------------- */

static int body_ended(const struct mt_ptx_body *b)
{
    return LLVMGetBasicBlockTerminator(LLVMGetInsertBlock(b->l.b)) != NULL;
}

static int body_any(struct mt_ptx_body *b)
{
    int done = ptx_flow(b);
    if (!done)
        done = ptx_move(b);
    if (!done)
        done = ptx_native(b);
    return done ? (done < 0 ? -1 : 0) : ptx_asm(b);
}

/* Emits a statement; with a predicate as a conditional jump, a select, or a block that is jumped over. */
static int body_statement(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    l->guard = NULL;
    if (l->s->predicate && !(l->guard = mt_asm_in(l, l->s->predicate, 1)))
        return -1;
    if (!l->guard || !strcmp(l->s->parts[0], "bra") || ptx_is_pure(l->s))
        return body_any(b);
    LLVMBasicBlockRef then = mt_asm_block(l), after = mt_asm_block(l);
    LLVMBuildCondBr(l->b, l->guard, then, after);
    LLVMPositionBuilderAtEnd(l->b, then);
    l->guard = NULL;
    int failed = body_any(b);
    if (!body_ended(b))
        LLVMBuildBr(l->b, after);
    LLVMPositionBuilderAtEnd(l->b, after);
    return failed;
}

static int body_label(struct mt_ptx_body *b)
{
    LLVMBasicBlockRef block = ptx_label(b, b->l.s->scope, b->l.s->label);
    if (!block)
        return -1;
    if (!body_ended(b))
        LLVMBuildBr(b->l.b, block);
    LLVMMoveBasicBlockAfter(block, LLVMGetLastBasicBlock(b->l.function));
    LLVMPositionBuilderAtEnd(b->l.b, block);
    return 0;
}

static int body_statements(struct mt_ptx_body *b)
{
    const struct mt_asm *a = b->l.a;
    for (unsigned i = 0; i < a->nstatements; i++) {
        b->l.s = &a->statements[i];
        if (b->l.s->label) {
            if (body_label(b))
                return -1;
            continue;
        }
        mt_ptx_debug_at(b, b->l.s->offset);
        if (body_ended(b)) /* unreachable */
            LLVMPositionBuilderAtEnd(b->l.b, mt_asm_block(&b->l));
        if (body_statement(b))
            return -1;
    }
    if (!body_ended(b)) {
        if (b->f->sig.nresults)
            LLVMBuildUnreachable(b->l.b);
        else
            LLVMBuildRetVoid(b->l.b);
    }
    return 0;
}

/* ---- the function -------------------------------------------------------------------------------------- */

/* Makes parameters and results memory, or registers, at the function's start. */
static int body_parse(struct mt_ptx_body *b)
{
    struct mt_ptx_signature *sig = &b->f->sig;
    for (unsigned i = 0; i < sig->nparams; i++)
        if (body_add_memory(b, &sig->params[i]) < 0)
            return -1;
    for (unsigned i = 0; i < sig->nresults; i++)
        if (body_add_memory(b, &sig->results[i]) < 0)
            return -1;
    return mt_parse_body(&b->p, 0);
}

static int body_store_arguments(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_ptx_signature *sig = &b->f->sig;
    for (unsigned i = 0; i < sig->nparams; i++) { /* the first registers are the parameters */
        LLVMValueRef argument = LLVMGetParam(b->f->value, i);
        struct mt_asm_operand o = {.kind = MT_ASM_REG, .index = i};
        if (sig->params[i].is_array) {
            l->regs[i] = argument;
            continue;
        }
        LLVMValueRef slot = sig->params[i].space == 'r'
                                ? (l->regs[i] = mt_asm_slot(l, mt_asm_int(l, l->a->regs[i].bits), ""))
                                : ptx_memory(b, &o);
        if (!slot)
            return -1;
        LLVMBuildStore(l->b, argument, slot);
    }
    return 0;
}

static int body_begin(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    struct mt_ptx *x = b->x;
    static const struct mt_asm_builtins none;
    l->m = x->m;
    l->c = x->c;
    l->layout = x->layout;
    l->function = b->f->value;
    l->a = b->p.a;
    l->builtins = &none;
    l->error = &x->error;
    l->symbol = body_symbol;
    l->i1 = mt_asm_int(l, 1);
    l->i8 = mt_asm_int(l, 8);
    l->i16 = mt_asm_int(l, 16);
    l->i32 = mt_asm_int(l, 32);
    l->i64 = mt_asm_int(l, 64);
    l->ptr = LLVMPointerTypeInContext(x->c, 0);
    l->none = LLVMVoidTypeInContext(x->c);
    l->b = LLVMCreateBuilderInContext(x->c);
    l->regs = calloc(l->a->nregs + 1, sizeof *l->regs);
    if (!l->regs)
        return mt_asm_fail(l, "out of memory");
    LLVMBasicBlockRef entry = mt_asm_block(l);
    l->first = mt_asm_block(l);
    LLVMPositionBuilderAtEnd(l->b, entry);
    LLVMBuildBr(l->b, l->first); /* slots come before it */
    LLVMPositionBuilderAtEnd(l->b, l->first);
    mt_ptx_debug_function(b);
    b->flush = ptx_flushes(l->a);
    if (b->flush)
        LLVMAddTargetDependentFunctionAttr(l->function, "denormal-fp-math-f32",
                                           "preserve-sign,preserve-sign");
    return body_store_arguments(b) || body_make_labels(b) ? -1 : 0;
}

static void body_end(struct mt_ptx_body *b)
{
    if (b->l.b)
        mt_asm_end(&b->l);
    mt_ptx_map_free(&b->prototypes);
    mt_ptx_map_free(&b->targets);
    mt_ptx_map_free(&b->labels);
    mt_asm_free(b->p.a);
}

int mt_ptx_translate(struct mt_ptx *x, struct mt_ptx_function *f)
{
    struct mt_ptx_body b = {.x = x, .f = f};
    b.p = (struct mt_parser){
        .error = &x->error, .directive = body_directive, .ctx = &b, .text = x->p.text, .room = &x->room};
    b.p.at = x->p.text + f->at;
    b.p.end = x->p.text + f->end;
    b.p.a = calloc(1, sizeof *b.p.a);
    int failed = !b.p.a ? mt_parse_no_memory(&b.p) : body_parse(&b);
    if (!failed)
        failed = body_begin(&b) || body_statements(&b) ? -1 : 0;
    body_end(&b);
    return failed;
}

static void body_erase(LLVMValueRef function)
{
    for (LLVMBasicBlockRef at = LLVMGetFirstBasicBlock(function); at; at = LLVMGetNextBasicBlock(at))
        for (LLVMValueRef i; (i = LLVMGetLastInstruction(at));) {
            if (LLVMGetTypeKind(LLVMTypeOf(i)) != LLVMVoidTypeKind)
                LLVMReplaceAllUsesWith(i, LLVMGetUndef(LLVMTypeOf(i)));
            LLVMInstructionEraseFromParent(i);
        }
    for (LLVMBasicBlockRef at; (at = LLVMGetFirstBasicBlock(function));)
        LLVMDeleteBasicBlock(at);
}

void mt_ptx_refuse(struct mt_ptx *x, struct mt_ptx_function *f)
{
    static const char text[] = "unreadable.ptx;";
    struct mt_ptx_body b = {.x = x, .f = f};
    body_erase(f->value);
    b.l.b = LLVMCreateBuilderInContext(x->c);
    LLVMPositionBuilderAtEnd(b.l.b, LLVMAppendBasicBlockInContext(x->c, f->value, ""));
    mt_ptx_debug_function(&b);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(x->c), NULL, 0, 0);
    LLVMValueRef body =
        LLVMGetInlineAsm(type, text, sizeof text - 1, "~{memory}", 9, 1, 0, LLVMInlineAsmDialectATT, 0);
    LLVMBuildCall2(b.l.b, type, body, NULL, 0, "");
    LLVMTypeRef result = LLVMGetReturnType(f->sig.type);
    if (LLVMGetTypeKind(result) == LLVMVoidTypeKind)
        LLVMBuildRetVoid(b.l.b);
    else
        LLVMBuildRet(b.l.b, LLVMConstNull(result));
    LLVMDisposeBuilder(b.l.b);
}
