/* Turns addresses, which PTX computes with integers, into pointers where they are a variable or a
 * parameter plus an offset, as in clang's code. LLVM and the pass then know the accessed object, and loops
 * can be analysed. */
#include "module_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shared memory accesses at unknown addresses, as inline asm: the CPU device tests there whether an
 * address has lost its high half. */

struct shared_asm {
    LLVMContextRef c;
    LLVMBuilderRef b;
    LLVMTypeRef i32, i64;
    LLVMValueRef access, address;
};

static LLVMValueRef shared_call(struct shared_asm *s, const char *text, const char *constraints,
                                LLVMTypeRef type, LLVMValueRef *args)
{
    LLVMValueRef body = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints), 1, 0,
                                         LLVMInlineAsmDialectATT, 0);
    LLVMValueRef call = LLVMBuildCall2(s->b, type, body, args, LLVMCountParamTypes(type), "");
    LLVMInstructionSetDebugLoc(call, LLVMInstructionGetDebugLoc(s->access));
    mt_ptx_asm_attributes(s->c, call);
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

/* Returns the variable or parameter that an operand names, as a pointer in that space; NULL: none. */
static LLVMValueRef memory_named(struct mt_ptx_body *b, const struct mt_asm_operand *o, int space)
{
    LLVMValueRef v = NULL;
    if (o->kind == MT_ASM_REG && b->l.a->regs[o->index].memory)
        v = mt_ptx_memory(b, o);
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

void mt_ptx_keep_word(LLVMValueRef inst, const char *opcode)
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
    mt_ptx_keep_word(inst, opcode);
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

static int memory_load(struct mt_ptx_body *b)
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

static int memory_store(struct mt_ptx_body *b)
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
static int memory_atomic(struct mt_ptx_body *b, int has_result)
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

int mt_ptx_move(struct mt_ptx_body *b)
{
    const char *op = b->l.s->parts[0];
    if (!strcmp(op, "ld"))
        return memory_load(b);
    if (!strcmp(op, "st"))
        return memory_store(b);
    if (!strcmp(op, "atom") || !strcmp(op, "red"))
        return memory_atomic(b, op[0] == 'a');
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
