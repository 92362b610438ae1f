/* Options from the AST side to the pass. Both live in libMemtrace-AA.so and run in one cc1 process; the
 * AST side fills the one instance before code generation starts. Under `opt` (tests) it is filled from
 * MEMTRACE_PASS_OPTIONS. */
#ifndef MT_PASS_OPTIONS_H
#define MT_PASS_OPTIONS_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* A range of source lines, inclusive, that is not traced (#pragma memtrace off … on). */
struct mt_off_range {
    char *file;
    uint32_t first, last; /* last = UINT32_MAX: to the end of the file */
};

enum mt_host_tracing { MT_HOST_TRACE_OFF, MT_HOST_TRACE_ON, MT_HOST_TRACE_ATOMIC };

/* Sections of __managed__ variables: of clang's code (written by mt_cuda_extras.h of the overlay), of PTX. */
#define MT_MANAGED_SECTION "memtrace_managed"

#define MT_ONLY_NOTHING 0x80000000u
/* Bits of `spaces`, in addition to global memory. */
#define MT_SPACES_SHARED 1u
#define MT_SPACES_LOCAL 2u
struct mt_pass_options {
    char *kernels;     /* POSIX extended regex on the pretty kernel name: trace only these; NULL = all */
    char *exclude;     /* regex of kernels that are not traced */
    uint32_t only;     /* one bit per enum mt_access_type; 0 = all; MT_ONLY_NOTHING: no record calls */
    uint32_t spaces;   /* MT_SPACES_*: further memory spaces with records */
    int level;         /* optimisation level of the code generator, 0 (default) to 3 */
    int contract_all;  /* -ffp-contract=fast: any product and sum may be fused, not only marked ones */
    int strip_debug;   /* 1: we turned on line tables; remove all debug info after the pass */
    int cpu_image;     /* 1 (default): emit the CPU image */
    int gpu_trace;     /* 1 (default): instrument the GPU code */
    char *gpu_runtime; /* bitcode with the GPU's record functions; NULL: runtime/device's */
    int gpu_plain;     /* 1 (default): GPU code also has each kernel without records */
    int verbose;
    int vectors;          /* 1 (default): kernels also get code for whole warps where possible */
    int rdc;              /* -fgpu-rdc: device code of several files is linked into one program */
    int part;             /* 1: part of a module, whose variables are in, or are for, another image */
    int host;             /* enum mt_host_tracing: also trace the host's accesses */
    int host_stack;       /* 1 (default): also those to local variables whose address does not leave the
                           * function */
    char *host_functions; /* regex of functions that are not inlined, so that they can be traced by name;
                           * NULL: none */
    char *cpu;            /* processor of the CPU image, default x86-64-v3; never "native" */
    char *cpu_features;   /* features in LLVM's notation if cpu was "native", else NULL */
    struct mt_off_range *off;
    uint32_t noff;
};
extern struct mt_pass_options mt_pass_options;

/* Sets one option from "key=value"; 0, or -1 with *why set (static text). Used for -fplugin-arg-memtrace-*
 * and for MEMTRACE_PASS_OPTIONS (key=value, separated by ';'). Keys: kernels, exclude, only (comma list of
 * loads, stores, atomics, or nothing), spaces (comma list of global, shared, local), cpu-image (on|off),
 * gpu-trace (on|off), gpu-plain (on|off), count (on|off|only),
 * level (0 to 3; for opt, where no pipeline says it), contract-all (on|off; for opt), verbose (on|off), rdc
 * (on|off), cpu, host (on|off|atomic), host-stack (on|off), host-functions (a regex), gpu-runtime (a file;
 * for benchmarks). */
int mt_pass_option_set(const char *key_value, const char **why);
void mt_pass_option_off_range(const char *file, uint32_t first, uint32_t last);
/* access_names.c: stores the source name and the size (0: unknown) of the memory that the expression at a
 * place accesses. */
enum mt_named_access { MT_NAMED_LOAD, MT_NAMED_STORE, MT_NAMED_ATOMIC };
void mt_pass_name_access(const char *file, uint32_t line, uint32_t column, enum mt_named_access op,
                         uint32_t size, const char *name);
/* Returns NULL for none, or several. */
const char *mt_pass_access_name(const char *file, uint32_t line, uint32_t column, enum mt_named_access op,
                                uint32_t size);
/* Reads MEMTRACE_PASS_OPTIONS: key=value separated by ';', and off=FILE:FIRST-LAST. For opt, where no AST
 * side runs. */
void mt_pass_options_from_environment(void);

/* Second count of accesses: beside the records, or instead of them (option count). */
enum mt_counting { MT_COUNT_OFF, MT_COUNT_ON, MT_COUNT_ONLY };
extern enum mt_counting mt_pass_counting;

/* Annotations (llvm.global.annotations, from __attribute__((annotate(...)))) that the AST side writes and the
 * pass reads and removes. Fields are separated by TAB:
 *   memtrace.kernel    pretty name, file, line, column, parameter names separated by ','
 *   memtrace.device    the same, for __device__ functions
 *   memtrace.skip      the function's own code is not traced; a kernel: its launches are not traced
 *   memtrace.trace     overrides a skip by pragma or filter
 *   memtrace.variable  name, shape, shape, bytes: a host variable or member (clang-plugin/names.cpp)
 *   memtrace.cluster   x, y, z: CTAs of a kernel's clusters (__cluster_dims__) */
#define MT_ANNOTATION "memtrace."
#ifdef __cplusplus
}
#endif
#endif
