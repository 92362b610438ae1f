/* The functions of Compute Sanitizer's API that we call. They are looked up while the program runs: what is
 * built here needs no library of NVIDIA's. */
#ifndef MT_INJECT_API_H
#define MT_INJECT_API_H
#include <sanitizer.h>
#include <stddef.h>

#define MT_SANITIZER_FUNCTIONS(F)                                                                            \
    F(Subscribe)                                                                                             \
    F(EnableCallback)                                                                                        \
    F(EnableDomain)                                                                                          \
    F(GetResultString)                                                                                       \
    F(Alloc)                                                                                                 \
    F(AllocHost)                                                                                             \
    F(MemcpyHostToDeviceAsync)                                                                               \
    F(MemcpyDeviceToHost)                                                                                    \
    F(StreamSynchronize)                                                                                     \
    F(GetStreamHandle)                                                                                       \
    F(AddPatches)                                                                                            \
    F(PatchInstructions)                                                                                     \
    F(PatchModule)                                                                                           \
    F(SetLaunchCallbackData)                                                                                 \
    F(GetFunctionPcAndSize)                                                                                  \
    F(GetCallbackPcAndSize)

struct mt_sanitizer {
#define MT_SANITIZER_MEMBER(name) __typeof__(sanitizer##name) *name;
    MT_SANITIZER_FUNCTIONS(MT_SANITIZER_MEMBER)
};

/* Opens MEMTRACE_SANITIZER (the library, or a folder that has it), or libsanitizer-public.so by its name. 0;
 * -1: *why is a sentence. */
int mt_sanitizer_open(char *why, size_t size);
/* After mt_sanitizer_open was 0; may be called from any thread. */
const struct mt_sanitizer *mt_sanitizer(void);
/* What a result means. */
const char *mt_sanitizer_text(SanitizerResult r);
#endif
