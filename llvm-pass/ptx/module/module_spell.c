/* Accesses and arithmetic for the GPU as inline asm of the instructions they were read from, which the
 * back end leaves alone when it sees them again. */
#include "module.h"
#include <llvm-c/DebugInfo.h>
#include <llvm-c/Target.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES 4

struct spell {
    LLVMContextRef c;
    LLVMBuilderRef b;
    LLVMValueRef inst;
    const char *opcode;
    LLVMTypeRef type, one; /* moved type, and its element */
    unsigned lanes;
};

static LLVMTypeRef spell_register(const struct spell *s, char *letter)
{
    LLVMTargetDataRef layout = LLVMGetModuleDataLayout(
        LLVMGetGlobalParent(LLVMGetBasicBlockParent(LLVMGetInstructionParent(s->inst))));
    unsigned bits = (unsigned)LLVMABISizeOfType(layout, s->one) * 8;
    *letter = bits == 64 ? 'l' : bits == 32 ? 'r' : 'h';
    return bits > 64 ? NULL : LLVMIntTypeInContext(s->c, bits < 16 ? 16 : bits);
}

/* Returns the address as a number: in the space of the opcode, else generic. */
static LLVMValueRef spell_address(struct spell *s, LLVMValueRef pointer)
{
    int named = strstr(s->opcode, "global") || strstr(s->opcode, "shared") || strstr(s->opcode, "const");
    if (!named && LLVMGetPointerAddressSpace(LLVMTypeOf(pointer)))
        pointer = LLVMBuildAddrSpaceCast(s->b, pointer, LLVMPointerTypeInContext(s->c, 0), "");
    return LLVMBuildPtrToInt(s->b, pointer, LLVMInt64TypeInContext(s->c), "");
}

/* Builds "{$0, $1}" or "$0", from number `first` on. */
static void spell_operands(char *out, unsigned lanes, unsigned first)
{
    out += sprintf(out, lanes > 1 ? "{" : "");
    for (unsigned i = 0; i < lanes; i++)
        out += sprintf(out, "%s$%u", i ? ", " : "", first + i);
    sprintf(out, lanes > 1 ? "}" : "");
}

static LLVMValueRef spell_to_bits(struct spell *s, LLVMValueRef v, LLVMTypeRef reg)
{
    LLVMTypeKind kind = LLVMGetTypeKind(s->one);
    if (kind == LLVMPointerTypeKind)
        return LLVMBuildPtrToInt(s->b, v, reg, "");
    return kind == LLVMIntegerTypeKind ? LLVMBuildZExt(s->b, v, reg, "") : LLVMBuildBitCast(s->b, v, reg, "");
}

static LLVMValueRef spell_from_bits(struct spell *s, LLVMValueRef v)
{
    LLVMTypeKind kind = LLVMGetTypeKind(s->one);
    if (kind == LLVMPointerTypeKind)
        return LLVMBuildIntToPtr(s->b, v, s->one, "");
    return kind == LLVMIntegerTypeKind ? LLVMBuildTrunc(s->b, v, s->one, "")
                                       : LLVMBuildBitCast(s->b, v, s->one, "");
}

static LLVMValueRef spell_call(struct spell *s, LLVMTypeRef result, LLVMTypeRef *params, LLVMValueRef *args,
                               unsigned n, const char *text, const char *ties)
{
    LLVMTypeRef type = LLVMFunctionType(result, params, n, 0);
    LLVMValueRef code =
        LLVMGetInlineAsm(type, text, strlen(text), ties, strlen(ties), 1, 0, LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(s->b, type, code, args, n, "");
}

static void spell_load(struct spell *s)
{
    char letter, operands[64], text[160], ties[64], *t = ties;
    LLVMTypeRef reg = spell_register(s, &letter), results[LANES], i64 = LLVMInt64TypeInContext(s->c);
    if (!reg)
        return;
    LLVMValueRef address = spell_address(s, LLVMGetOperand(s->inst, 0)), all = LLVMGetPoison(s->type);
    spell_operands(operands, s->lanes, 0);
    snprintf(text, sizeof text, "%.80s %s, [$%u];", s->opcode, operands, s->lanes);
    for (unsigned i = 0; i < s->lanes; i++) {
        results[i] = reg;
        t += sprintf(t, "=%c,", letter);
    }
    sprintf(t, "l,~{memory}");
    LLVMTypeRef result = s->lanes > 1 ? LLVMStructTypeInContext(s->c, results, s->lanes, 0) : reg;
    LLVMValueRef got = spell_call(s, result, &i64, &address, 1, text, ties);
    for (unsigned i = 0; i < s->lanes; i++) {
        LLVMValueRef one = spell_from_bits(s, s->lanes > 1 ? LLVMBuildExtractValue(s->b, got, i, "") : got);
        all = s->lanes > 1 ? LLVMBuildInsertElement(s->b, all, one,
                                                    LLVMConstInt(LLVMInt32TypeInContext(s->c), i, 0), "")
                           : one;
    }
    LLVMReplaceAllUsesWith(s->inst, all);
    LLVMInstructionEraseFromParent(s->inst);
}

static void spell_store(struct spell *s)
{
    char letter, operands[64], text[160], ties[64] = "l,", *t = ties + 2;
    LLVMTypeRef reg = spell_register(s, &letter), params[LANES + 1] = {LLVMInt64TypeInContext(s->c)};
    if (!reg)
        return;
    LLVMValueRef args[LANES + 1] = {spell_address(s, LLVMGetOperand(s->inst, 1))},
                              all = LLVMGetOperand(s->inst, 0);
    spell_operands(operands, s->lanes, 1);
    snprintf(text, sizeof text, "%.80s [$0], %s;", s->opcode, operands);
    for (unsigned i = 0; i < s->lanes; i++) {
        LLVMValueRef one =
            s->lanes > 1
                ? LLVMBuildExtractElement(s->b, all, LLVMConstInt(LLVMInt32TypeInContext(s->c), i, 0), "")
                : all;
        args[i + 1] = spell_to_bits(s, one, reg);
        params[i + 1] = reg;
        t += sprintf(t, "%c,", letter);
    }
    sprintf(t, "~{memory}");
    spell_call(s, LLVMVoidTypeInContext(s->c), params, args, s->lanes + 1, text, ties);
    LLVMInstructionEraseFromParent(s->inst);
}

static void spell_access(struct spell *s)
{
    s->type = LLVMTypeOf(LLVMIsALoadInst(s->inst) ? s->inst : LLVMGetOperand(s->inst, 0));
    int vector = LLVMGetTypeKind(s->type) == LLVMVectorTypeKind;
    s->lanes = vector ? LLVMGetVectorSize(s->type) : 1;
    s->one = vector ? LLVMGetElementType(s->type) : s->type;
    if (s->lanes > LANES)
        return;
    LLVMPositionBuilderBefore(s->b, s->inst);
    LLVMSetCurrentDebugLocation2(s->b, LLVMInstructionGetDebugLoc(s->inst));
    if (LLVMIsALoadInst(s->inst))
        spell_load(s);
    else
        spell_store(s);
}

/* Handles arithmetic. The back end never fuses products, nor sums whose text forbids it; ptxas may still
 * do so, as without us. */
static void spell_arithmetic(struct spell *s)
{
    LLVMTypeRef type = LLVMTypeOf(s->inst), both[] = {type, type};
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    LLVMValueRef args[] = {LLVMGetOperand(s->inst, 0), LLVMGetOperand(s->inst, 1)};
    char text[160];
    if (kind != LLVMFloatTypeKind && kind != LLVMDoubleTypeKind)
        return;
    LLVMPositionBuilderBefore(s->b, s->inst);
    LLVMSetCurrentDebugLocation2(s->b, LLVMInstructionGetDebugLoc(s->inst));
    snprintf(text, sizeof text, "%.80s $0, $1, $2;", s->opcode);
    const char *ties = kind == LLVMFloatTypeKind ? "=f,f,f" : "=d,d,d";
    LLVMTypeRef ftype = LLVMFunctionType(type, both, 2, 0);
    LLVMValueRef code =
        LLVMGetInlineAsm(ftype, text, strlen(text), ties, strlen(ties), 0, 0, LLVMInlineAsmDialectATT, 0);
    LLVMReplaceAllUsesWith(s->inst, LLVMBuildCall2(s->b, ftype, code, args, 2, ""));
    LLVMInstructionEraseFromParent(s->inst);
}

static void spell_instruction(struct spell *s)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(s->inst);
    s->opcode = mt_ptx_kept_as(s->inst);
    if (!s->opcode)
        return;
    if (op == LLVMLoad || op == LLVMStore)
        spell_access(s);
    else if (op == LLVMFMul || ((op == LLVMFAdd || op == LLVMFSub) && strstr(s->opcode, ".rn.")))
        spell_arithmetic(s);
}

void mt_ptx_spell(LLVMModuleRef module)
{
    struct spell s = {.c = LLVMGetModuleContext(module)};
    s.b = LLVMCreateBuilderInContext(s.c);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b), next; i; i = next) {
                next = LLVMGetNextInstruction(i);
                s.inst = i;
                spell_instruction(&s);
            }
    LLVMDisposeBuilder(s.b);
}
