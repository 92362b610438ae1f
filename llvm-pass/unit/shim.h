/* The few things that llvm-c 19 lacks, as C functions; shim.cpp is their only C++. */
#ifndef MT_PASS_SHIM_H
#define MT_PASS_SHIM_H
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Where an instruction comes from: the innermost place outside the toolchain's headers, of those it was
 * inlined through. Strings are owned by LLVM's context (file: by the structure); "" and 0 when unknown.
 * `function` is the linkage name of the source function at that place. */
struct mt_source_location {
    const char *file, *function;
    char path[1024]; /* file with its directory, when the file is relative */
    unsigned line, column;
};
void mt_shim_location(LLVMValueRef inst, struct mt_source_location *place);
/* File and line of a function, where they are known. */
void mt_shim_function_place(LLVMValueRef function, struct mt_source_location *place);
/* Is this function's source one of the toolchain's headers? (Debug information needed.) */
int mt_shim_from_toolchain(LLVMValueRef function);

/* Reports through the compiler's own diagnostics, at the instruction's place if it
 * has one (NULL: no place). */
enum mt_severity { MT_DIAG_ERROR, MT_DIAG_WARNING, MT_DIAG_NOTE };
void mt_shim_diag(LLVMContextRef context, LLVMValueRef inst, enum mt_severity severity, const char *message);

/* Demangles: pretty without parameters ("ns::k<float>") or whole; Numba's as Python names. malloc'ed;
 * a plain C name comes back as it is. */
char *mt_shim_demangle(const char *name, int whole);

/* Constant expressions that use any of the globals become instructions in the functions that use them. */
void mt_shim_expand_constant_users(LLVMValueRef *globals, unsigned n);
/* Drops dead constant expressions that still hang on a global. */
void mt_shim_drop_dead_users(LLVMValueRef global);
/* The byval type of argument i of a function or of a call; NULL: it is not passed so. */
LLVMTypeRef mt_shim_byval_type(LLVMValueRef function, unsigned param);
/* Alignment that a call says its argument has; 1: nothing said. */
unsigned mt_shim_param_align(LLVMValueRef call, unsigned param);
/* Copies all parameter, return and function attributes of one function
 * to another (same leading parameters). */
void mt_shim_copy_attributes(LLVMValueRef to, LLVMValueRef from);
/* Removes attributes and operand bundles that say "touches no memory", "does not synchronise",
 * "may be moved". */
void mt_shim_make_impure(LLVMValueRef function_or_call);
/* The call reads memory, which changes none and is not missed when its result is not used. */
void mt_shim_only_reads(LLVMValueRef call);
/* Does a call of inline asm have no side effect and, for all that LLVM was told,
 * only read memory, if that? */
int mt_shim_asm_only_reads(LLVMValueRef asm_call);
/* Removes a comdat. */
void mt_shim_drop_comdat(LLVMValueRef global);
/* Out of its module, for ever: its memory is not given back. */
void mt_shim_detach_function(LLVMValueRef function);
/* Copies the byval and alignment attributes of a function's parameters to a call of it. */
void mt_shim_copy_param_attributes(LLVMValueRef call, LLVMValueRef function);
/* The same call of another function, which has one more parameter; the old call is gone. */
void mt_shim_call_with(LLVMValueRef call, LLVMValueRef function, LLVMValueRef last);
/* A copy of a function, internal, named like it with a suffix. */
LLVMValueRef mt_shim_clone_function(LLVMValueRef function, const char *suffix);
/* Inlines the callee at this call; 1 if it could. */
int mt_shim_inline(LLVMValueRef call);
/* Runs passes of LLVM on one function; 0, or -1: there is no such pass. */
int mt_shim_run_passes(LLVMValueRef function, const char *passes);
/* How the form for vectors of an intrinsic has its argument, or -1: its result; 0: as a vector of no type of
 * its own. With -2: is there one? */
enum { MT_VECTOR_SCALAR = 1, MT_VECTOR_OVERLOADED = 2 };
int mt_shim_vector_intrinsic(unsigned id, int argument);
/* What an instruction promises of its result (no wrap, exact, in bounds …) goes, or is as that of another. */
void mt_shim_drop_promises(LLVMValueRef inst);
void mt_shim_copy_flags(LLVMValueRef to, LLVMValueRef from);
/* Links what `to` declares and `from` defines, and what that needs; `from` is gone. 0, or -1. */
int mt_shim_link_needed(LLVMModuleRef to, LLVMModuleRef from);
void mt_shim_set_pic(LLVMModuleRef module);
void mt_shim_set_dso_local(LLVMValueRef global, int on);
/* Drops nvvm.annotations, module flags and other named metadata that mean nothing to x86-64. */
void mt_shim_drop_named_metadata(LLVMModuleRef module);
void mt_shim_erase_named_metadata(LLVMModuleRef module, const char *name);
/* Contents of a constant byte array (annotation strings); 0 when it is not one. Without the final NUL. */
int mt_shim_constant_string(LLVMValueRef global, const char **text, size_t *length);
/* 1 if the module is compiled for a GPU of NVIDIA. */
int mt_shim_is_nvptx(LLVMModuleRef module);
/* 1 if both instructions are the same operation on the same operands; uses of `again` are then those of
 * `first`, which says of itself only what held for both. What reads no memory keeps its uses in other blocks,
 * and the answer is 0 then: to instruction selection they are two values there. */
int mt_shim_merge(LLVMValueRef first, LLVMValueRef again);
int mt_shim_reads_memory(LLVMValueRef inst);
/* 1 if instruction selection keeps what reads memory before and after the instruction apart: it writes,
 * waits, is volatile, is a call of a function or asm with side effects. */
int mt_shim_orders_memory(LLVMValueRef inst);
/* What constant distances in bytes lead from to the pointer, and their sum. */
LLVMValueRef mt_shim_base(LLVMValueRef pointer, int64_t *distance);
/* The bits of an integer of up to 64 that are known to be 0. */
uint64_t mt_shim_zero_bits(LLVMValueRef value);
/* 1 if nothing uses the instruction and it does nothing. */
int mt_shim_is_dead(LLVMValueRef inst);
/* Removes an instruction that nothing uses, and what then nothing uses. */
void mt_shim_delete_dead(LLVMValueRef inst);
/* Cuts the instruction's block in two before it; returns the second. The first ends in a branch to it. */
LLVMBasicBlockRef mt_shim_split(LLVMValueRef before);
/* The instruction that an invoke goes on with, and only it, when it returns. */
LLVMValueRef mt_shim_behind_invoke(LLVMValueRef invoke);
/* The member of a struct whose address the GEP (of a struct, by a constant index) takes, as debug
 * information calls it; free it. NULL: not known. */
char *mt_shim_member(LLVMValueRef gep);
/* 1 if the pointer leads into a local variable of its function whose address goes nowhere else. */
int mt_shim_private_slot(LLVMValueRef pointer);
/* 1 if the inline asm reads or writes memory that its operands do not show, or by an indirect operand. */
int mt_shim_asm_memory(LLVMValueRef asm_call);
/* The loops of a function, outer ones before inner ones. innermost[i] is that of list[i], counted from 1, 0:
 * none. Returns how many there are; *parents, to be freed, is the loop around each, or 0 (NULL: none,
 * or no memory). */
unsigned mt_shim_loops(LLVMValueRef function, const LLVMValueRef *list, unsigned n, uint32_t *innermost,
                       uint32_t **parents);
/* Has this x86-64 processor (NAME, and features over those of the name) all of "+a,+b"? -1:
 * there is no such processor. */
int mt_shim_x86_has(const char *name, const char *features, const char *wanted);
#define MT_CPU_V3 "+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"
#define MT_CPU_V4 MT_CPU_V3 ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
/* Where the ways from the end of list[i] meet again, whichever is taken; NULL: nowhere. Ways that do not lead
 * to the function's end, as they trap or cannot be, do not count. */
void mt_shim_post_dominators(LLVMValueRef function, const LLVMBasicBlockRef *list, unsigned n,
                             LLVMBasicBlockRef *meeting);
/* Gives each loop one block in front, one at its end, and blocks after it that are reached from it alone. 1
 * when something changed. */
int mt_shim_simplify_loops(LLVMValueRef function);
/* A kernel whose annotations are all there, as one whose annotations NVPTX will see: a function that was
 * deleted may have left word at this one's address that it has none. `narrow`: without its last parameter, a
 * pointer, which is NULL then. */
LLVMValueRef mt_shim_new_kernel(LLVMValueRef kernel, int narrow);
/* What names the one names the other, but for its annotations; the one is gone. */
void mt_shim_replace_kernel(LLVMValueRef kernel, LLVMValueRef other);
/* x86-64 code. NULL: *message, to be disposed of. */
LLVMMemoryBufferRef mt_shim_emit_object(LLVMModuleRef module, LLVMTargetMachineRef machine, char **message);
/* The PTX that the back end makes of a copy of the module, at a level of 0 to 3; each instruction with a
 * place has a number as its line, and (*places)[number - 1] is its location in the module. NULL: not
 * possible. */
LLVMMemoryBufferRef mt_shim_emit_ptx(LLVMModuleRef module, int level, int contract_all,
                                     LLVMMetadataRef **places, unsigned *nplaces);
/* The debug information that `from` has is `to`'s, too: both are of one context. */
void mt_shim_share_debug(LLVMModuleRef to, LLVMModuleRef from);
/* What `from` lists in llvm.used and llvm.compiler.used `to` does, by name. */
void mt_shim_keep_used(LLVMModuleRef to, LLVMModuleRef from);
/* All of `module` but its debug information and flags goes, and all of `from` comes. 0 or -1. */
int mt_shim_replace_module(LLVMModuleRef module, LLVMModuleRef from);
/* Path of the shared object this code is in. */
const char *mt_shim_self(void);
#ifdef __cplusplus
}
#endif
#endif
