/* Machine code of the modules that a GPU has loaded: from a program counter to a site of the companions, that
 * is function, offset, file and line. Cubins are somebody else's data: what is damaged in them costs lines
 * and names, nothing else. All functions may be called from several threads at once; only the thread that
 * unloads a code may use it at that time. */
#ifndef MT_INJECT_CODE_H
#define MT_INJECT_CODE_H
#include <stddef.h>
#include <stdint.h>

struct mt_gpu_code;

/* Keeps what it needs of the cubin (an ELF file in memory). NULL: there is no memory, or it is no cubin. */
struct mt_gpu_code *mt_code_new(const void *cubin, size_t bytes);
/* Asks for each function of the cubin, by its symbol, where it lies on the GPU: `where` sets both and returns
 * 0, or returns something else where it does not know. A size of 0 stands for the symbol's. */
void mt_code_place(struct mt_gpu_code *c,
                   int (*where)(void *data, const char *function, uint64_t *pc, uint64_t *size), void *data);
/* Calls `f` for each kernel, until it returns something other than 0, which is then the result; else 0. The
 * names stay as long as the code. */
int mt_code_each_kernel(const struct mt_gpu_code *c, int (*f)(void *data, const char *mangled), void *data);
/* The module is gone: its program counters may be another's from now on. Its sites stay. Frees `c`; NULL is
 * nothing. */
void mt_code_unload(struct mt_gpu_code *c);
/* The id of the `site` line of the instruction at `pc` that makes accesses of this type and size
 * (mt_rec_meta). The line is written when both are seen for the first time. 0: nobody knows the place. Fast,
 * and without a lock, where it was asked before. */
uint32_t mt_code_site(uint64_t pc, uint32_t meta);
#endif
