/* Matrix loads and stores of a warp (wmma.load, wmma.store): the share of each lane. PTX does not define
 * which lane holds which element, and some GPUs load elements twice. Certain is only the memory that the
 * warp touches: the matrix. Its elements, in memory order, are assigned to the lanes in equal runs: lane i
 * of 32 has the i-th run. In every shape a run is within one row (column, if column-major), so that each
 * lane makes one access, and all lanes together touch each element once. */
#include "asm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int element_bits(const char *word)
{
    static const struct {
        const char *word;
        int bits;
    } table[] = {{"f16", 16}, {"bf16", 16}, {"tf32", 32}, {"f32", 32}, {"f64", 64}, {"s8", 8},
                 {"u8", 8},   {"s32", 32},  {"s4", 4},    {"u4", 4},   {"b1", 1}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(word, table[i].word))
            return table[i].bits;
    return 0;
}

int mt_wmma_read(const char *const *words, unsigned n, struct mt_wmma *out)
{
    unsigned m = 0, nn = 0, k = 0, lines, line;
    char matrix = 0;
    int rows = -1, bits = 0, is_store = 0, moves = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned a, b, c;
        if (sscanf(words[i], "m%un%uk%u", &a, &b, &c) == 3) {
            m = a;
            nn = b;
            k = c;
        } else if (!strcmp(words[i], "load") || !strcmp(words[i], "store")) {
            moves = 1;
            is_store = *words[i] == 's';
        } else if (strlen(words[i]) == 1 && *words[i] >= 'a' && *words[i] <= 'd') {
            matrix = *words[i];
        } else if (!strcmp(words[i], "row") || !strcmp(words[i], "col")) {
            rows = *words[i] == 'r';
        } else if (!bits) {
            bits = element_bits(words[i]);
        }
    }
    if (!moves || !m || !nn || !k || !matrix || rows < 0 || !bits)
        return -1;
    unsigned height = matrix == 'b' ? k : m, width = matrix == 'a' ? k : nn;
    lines = rows ? height : width;
    line = rows ? width : height;
    unsigned share = lines * line / 32;
    if (!share || line % share || share * (unsigned)bits % 8)
        return -1;
    *out = (struct mt_wmma){.op = is_store ? MT_STORE : MT_LOAD,
                            .share = share,
                            .line = line,
                            .bits = (unsigned)bits,
                            .size = share * (unsigned)bits / 8};
    return 0;
}

static LLVMValueRef asm_wmma_number(LLVMContextRef c, uint64_t n)
{
    return LLVMConstInt(LLVMInt64TypeInContext(c), n, 0);
}

LLVMValueRef mt_wmma_address(LLVMModuleRef module, LLVMBuilderRef b, const struct mt_wmma *w,
                             LLVMValueRef base, LLVMValueRef stride)
{
    static const char name[] = "llvm.nvvm.read.ptx.sreg.laneid";
    LLVMContextRef c = LLVMGetModuleContext(module);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(c);
    unsigned id = LLVMLookupIntrinsicID(name, sizeof name - 1);
    LLVMValueRef lane = LLVMBuildCall2(b, LLVMIntrinsicGetType(c, id, NULL, 0),
                                       LLVMGetIntrinsicDeclaration(module, id, NULL, 0), NULL, 0, "");
    stride = stride ? LLVMBuildIntCast2(b, stride, i64, 0, "") : asm_wmma_number(c, w->line);
    LLVMValueRef first = LLVMBuildMul(b, LLVMBuildZExt(b, lane, i64, ""), asm_wmma_number(c, w->share), "");
    LLVMValueRef line = LLVMBuildUDiv(b, first, asm_wmma_number(c, w->line), "");
    LLVMValueRef within = LLVMBuildURem(b, first, asm_wmma_number(c, w->line), "");
    LLVMValueRef at = LLVMBuildAdd(b, LLVMBuildMul(b, line, stride, ""), within, "");
    at = LLVMBuildUDiv(b, LLVMBuildMul(b, at, asm_wmma_number(c, w->bits), ""), asm_wmma_number(c, 8), "");
    return LLVMBuildAdd(b, base, at, "");
}
