/* Shared memory accesses at unknown addresses, as inline asm: the CPU device tests there whether an
 * address has lost its high half. */
#include "module_parts.h"
#include <stdio.h>
#include <string.h>

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

int mt_ptx_asm_shared(LLVMValueRef user, LLVMValueRef address)
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
