/* Runs inline assembly on the host: makes a function around one or more asm calls, lowers them, compiles with
 * LLVM's JIT. For tests only: one process-wide context, no threads. */
#ifndef MT_TEST_ASM_HARNESS_H
#define MT_TEST_ASM_HARNESS_H
#include "ptx/asm/asm.h"

/* One letter per value: 'h' i16, 'r' i32, 'l' i64, 'f' float, 'd' double, 'p' pointer. */
struct asm_shape {
    const char *text, *constraints, *outs, *ins;
};

/* A module with `void run(uint64_t *out, uint64_t *in)` that calls the asm; the call is in *call. Dispose of
 * the module. */
LLVMModuleRef asm_module(const struct asm_shape *shape, LLVMValueRef *call);

typedef void asm_function(uint64_t *out, const uint64_t *in);
/* Lowers and compiles; NULL with *error filled. Lives until the process ends. `optimise` runs default<O2>. */
asm_function *asm_compile(const struct asm_shape *shape, int optimise, struct mt_asm_error *error);
/* Several asm calls in one function: call i reads in[16 * i…] and writes out[16 * i…]. */
asm_function *asm_compile_many(const struct asm_shape *shapes, unsigned n, int optimise,
                               struct mt_asm_error *error);
/* Compiles a module as it is; the address of one of its functions, or NULL with *error filled. */
void *asm_jit(LLVMModuleRef m, const char *name, struct mt_asm_error *error);
void asm_host(LLVMModuleRef m); /* it is for the machine that the test runs on */
LLVMContextRef asm_context(void);

/* Functions that compiled code may call, found by the lowering as builtins. */
struct asm_symbol {
    const char *name;
    void *address;
    const char *type; /* result and parameters: 'v' void and the letters above, 'b' i1, 'c' i8 */
};
extern const struct asm_symbol asm_symbols[]; /* the test's own; ended by name == NULL */
#endif
