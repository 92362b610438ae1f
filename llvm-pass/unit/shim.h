/* C functions for the few things that llvm-c 19 lacks; shim.cpp is their only C++. */
#ifndef MT_PASS_SHIM_H
#define MT_PASS_SHIM_H
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Source location of an instruction: the innermost one outside the toolchain's headers, among those it was
 * inlined through. Strings are owned by LLVM's context (file: by the structure); "" and 0 if unknown.
 * `function` is the linkage name of the source function there. */
struct mt_source_location {
    const char *file, *function;
    char path[1024]; /* file with its directory, if the file is relative */
    unsigned line, column;
};
void mt_shim_location(LLVMValueRef inst, struct mt_source_location *place);
/* Returns where the user's function around the instruction is inlined into, innermost first, each
 * "\nFILE:LINE in FUNCTION", at most eight, none in the toolchain's headers; "" if it is not. To be freed. */
char *mt_shim_inlined_into(LLVMValueRef inst);
/* Finds file and line of a function, if known. */
void mt_shim_function_place(LLVMValueRef function, struct mt_source_location *place);
/* Returns 1 if the function comes from one of the toolchain's headers (needs debug information). */
int mt_shim_from_toolchain(LLVMValueRef function);

/* Reports through the compiler's diagnostics, at the instruction's location if it has one (NULL: none). */
enum mt_severity { MT_DIAG_ERROR, MT_DIAG_WARNING, MT_DIAG_NOTE };
void mt_shim_diag(LLVMContextRef context, LLVMValueRef inst, enum mt_severity severity, const char *message);

/* Demangles: pretty without parameters ("ns::k<float>") or whole; Numba's as Python names. malloc'ed; a
 * plain C name is unchanged. */
char *mt_shim_demangle(const char *name, int whole);

/* Turns constant expressions that use any of the globals into instructions of the functions that use them. */
void mt_shim_expand_constant_users(LLVMValueRef *globals, unsigned n);
/* Drops dead constant expressions that still use a global. */
void mt_shim_drop_dead_users(LLVMValueRef global);
/* Returns the byval type of argument i of a function or call; NULL: not byval. */
LLVMTypeRef mt_shim_byval_type(LLVMValueRef function, unsigned param);
/* Returns the alignment that a call states for its argument; 1: none. */
unsigned mt_shim_param_align(LLVMValueRef call, unsigned param);
/* Copies all parameter, return and function attributes to a function with the same leading parameters. */
void mt_shim_copy_attributes(LLVMValueRef to, LLVMValueRef from);
/* Removes attributes and operand bundles that say "touches no memory", "does not synchronise", "may be
 * moved". */
void mt_shim_make_impure(LLVMValueRef function_or_call);
/* Marks the call as one that only reads memory and may be dropped if its result is unused. */
void mt_shim_only_reads(LLVMValueRef call);
/* Returns 1 if a call of inline asm has no side effect and, as far as LLVM was told, at most reads memory. */
int mt_shim_asm_only_reads(LLVMValueRef asm_call);
/* Removes a comdat. */
void mt_shim_drop_comdat(LLVMValueRef global);
/* Removes a function from its module for ever; its memory is not freed. */
void mt_shim_detach_function(LLVMValueRef function);
/* Copies the byval and alignment attributes of a function's parameters to a call of it. */
void mt_shim_copy_param_attributes(LLVMValueRef call, LLVMValueRef function);
/* Replaces a call by one of another function with one more parameter. */
void mt_shim_call_with(LLVMValueRef call, LLVMValueRef function, LLVMValueRef last);
/* Makes an internal copy of a function, named like it with a suffix. */
LLVMValueRef mt_shim_clone_function(LLVMValueRef function, const char *suffix);
/* Inlines the callee at this call. Returns 1 on success. */
int mt_shim_inline(LLVMValueRef call);
/* Runs LLVM passes on one function. Returns 0, or -1 if there is no such pass. */
int mt_shim_run_passes(LLVMValueRef function, const char *passes);
/* Returns how an intrinsic's vector version takes an argument (-1: its result), as a set of the below; 0: a
 * vector without a type in the name. With -2: 1 if there is such a version. */
enum { MT_VECTOR_SCALAR = 1, MT_VECTOR_OVERLOADED = 2 };
int mt_shim_vector_intrinsic(unsigned id, int argument);
/* Drops promises about an instruction's result (no wrap, exact, in bounds …), or copies those of another. */
void mt_shim_drop_promises(LLVMValueRef inst);
/* Returns 1 if the value follows from `noundef` arguments and constants by operations that make no poison, so
 * that it needs no freeze. LLVM removes such a freeze only after a walk over all blocks before it, for each
 * one. */
int mt_shim_is_certain(LLVMValueRef value);
void mt_shim_copy_flags(LLVMValueRef to, LLVMValueRef from);
/* Links everything that `to` declares and `from` defines, with its dependencies; consumes `from`. Returns
 * 0, or -1. */
int mt_shim_link_needed(LLVMModuleRef to, LLVMModuleRef from);
void mt_shim_set_pic(LLVMModuleRef module);
void mt_shim_set_dso_local(LLVMValueRef global, int on);
/* Drops nvvm.annotations, module flags and other named metadata without meaning for x86-64. */
void mt_shim_drop_named_metadata(LLVMModuleRef module);
void mt_shim_erase_named_metadata(LLVMModuleRef module, const char *name);
/* Reads a constant byte array (annotation strings) without the final NUL. Returns 0 if it is none. */
int mt_shim_constant_string(LLVMValueRef global, const char **text, size_t *length);
/* Returns 1 if the module is compiled for an NVIDIA GPU. */
int mt_shim_is_nvptx(LLVMModuleRef module);
/* Returns the bits of an integer of up to 64 bits that are known to be 0. */
uint64_t mt_shim_zero_bits(LLVMValueRef value);
/* Removes an unused instruction, and those that become unused. */
void mt_shim_delete_dead(LLVMValueRef inst);
/* Splits the instruction's block before it, with a branch from the first half to the second. Returns the
 * second. */
LLVMBasicBlockRef mt_shim_split(LLVMValueRef before);
/* Returns the instruction at which an invoke, and only it, continues on return. */
LLVMValueRef mt_shim_behind_invoke(LLVMValueRef invoke);
/* Returns the name in debug information of the struct member whose address the GEP takes (a struct, with a
 * constant index), to be freed; NULL: unknown. */
char *mt_shim_member(LLVMValueRef gep);
/* Returns 1 if the pointer leads into a local variable whose address does not escape its function. */
int mt_shim_private_slot(LLVMValueRef pointer);
/* Returns 1 if the inline asm accesses memory that its operands do not show, or by an indirect operand. */
int mt_shim_asm_memory(LLVMValueRef asm_call);
/* Lists the loops of a function, outer before inner. innermost[i] is the loop of list[i], counted from 1;
 * 0: none. Returns their number; *parents (to be freed) has each one's enclosing loop, or 0 (NULL: no
 * loops, or no memory). */
unsigned mt_shim_loops(LLVMValueRef function, const LLVMValueRef *list, unsigned n, uint32_t *innermost,
                       uint32_t **parents);
/* Returns 1 if this x86-64 processor (NAME, plus features) has all of "+a,+b"; -1: no such processor. */
int mt_shim_x86_has(const char *name, const char *features, const char *wanted);
#define MT_CPU_V3 "+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"
#define MT_CPU_V4 MT_CPU_V3 ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
/* Finds the block where the ways from the end of list[i] meet again, whichever is taken; NULL: nowhere.
 * Ways that do not lead to the function's end (traps, unreachable) do not count. */
void mt_shim_post_dominators(LLVMValueRef function, const LLVMBasicBlockRef *list, unsigned n,
                             LLVMBasicBlockRef *meeting);
/* Makes a kernel with all its annotations anew, so that NVPTX sees them: a function that was deleted may
 * have left a note at this one's address that it has none. `narrow`: drops its last parameter, a pointer,
 * which becomes NULL. */
LLVMValueRef mt_shim_new_kernel(LLVMValueRef kernel, int narrow);
/* Replaces uses of a kernel, except annotations, by uses of the other, and deletes it. */
void mt_shim_replace_kernel(LLVMValueRef kernel, LLVMValueRef other);
/* Compiles to x86-64. Returns NULL with *message set, to be disposed of. */
LLVMMemoryBufferRef mt_shim_emit_object(LLVMModuleRef module, LLVMTargetMachineRef machine, char **message);
/* Returns the back end's PTX for a copy of the module at optimisation level 0 to 3, or NULL if impossible.
 * Each instruction with a location has a number as its line, and (*places)[number - 1] is its location in
 * the module. */
LLVMMemoryBufferRef mt_shim_emit_ptx(LLVMModuleRef module, int level, int contract_all,
                                     LLVMMetadataRef **places, unsigned *nplaces);
/* Shares the debug information of `from` with `to`, which has the same context. */
void mt_shim_share_debug(LLVMModuleRef to, LLVMModuleRef from);
/* Lists in `to`, by name, everything that `from` lists in llvm.used and llvm.compiler.used. */
void mt_shim_keep_used(LLVMModuleRef to, LLVMModuleRef from);
/* Replaces all of `module`, except its debug information and flags, by `from`. Returns 0 or -1. */
int mt_shim_replace_module(LLVMModuleRef module, LLVMModuleRef from);
/* Returns the path of the shared object with this code. */
const char *mt_shim_self(void);
#ifdef __cplusplus
}
#endif
#endif
