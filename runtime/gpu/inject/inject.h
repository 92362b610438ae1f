/* Interface between the files of the injection library. NVIDIA's driver loads the library, and Compute
 * Sanitizer's API calls the mt_inject_* handlers, the rows of one table (inject.c). Callbacks call sanitizer*
 * functions but no CUDA function. The thread that reads the rings calls neither. */
#ifndef MT_INJECT_INJECT_H
#define MT_INJECT_INJECT_H
#include "gpu/rings.h"
#include "trace/trace.h"
#include <sanitizer.h>
#include <stddef.h>
#include <stdint.h>

/* Functions used from Compute Sanitizer's API, looked up at run time: the build needs no library of NVIDIA's.
 */
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

/* ---- library.c: NVIDIA's library and our patches ---- */
/* Opens MEMTRACE_SANITIZER (the library, or its folder), or libsanitizer-public.so by name, reads the
 * patches, and subscribes. Returns 0, or -1 with *why set to a sentence. */
int mt_sanitizer_subscribe(Sanitizer_CallbackFunc f, Sanitizer_SubscriberHandle *s, char *why, size_t size);
/* Returns the functions; callable from any thread after the library was opened. */
const struct mt_sanitizer *mt_sanitizer(void);
/* Returns the text of a result. */
const char *mt_sanitizer_text(SanitizerResult r);
/* Returns the version of the library that has the subscription, major * 100 + minor; 0: unknown. One that is
 * newer than those known here counts as the newest of these. */
int mt_sanitizer_version(void);
/* Writes the versions of driver and library, and which patches they got, as words. */
void mt_sanitizer_words(char *out, size_t size);
/* Returns 1 if the process has initialised NVIDIA's driver. */
int mt_sanitizer_driven(void);
/* Returns the image of the patches for all devices. */
const void *mt_sanitizer_patches(void);

/* Returns 1 if each word of a comma list is one of these words, between blanks: " lines strides ". */
int mt_inject_is_list(const char *list, const char *words);

struct mt_gpu_code;

/* A CUcontext of the program. Never freed. */
struct mt_inject_context {
    CUcontext handle;       /* NULL: destroyed; its address may be reused */
    uint64_t number;        /* number of the context; the place of its code, above bit 56 of a pc */
    int tried;              /* creation of the fields below was tried; under the lock of patching */
    struct mt_rings *rings; /* NULL: none, or not yet */
    struct mt_inject_tallies *tallies; /* totals as read last; NULL: none */
    struct mt_inject_context *next;
};

/* A module of a context. */
struct mt_inject_module {
    CUmodule handle;
    struct mt_inject_context *context;
    struct mt_gpu_code *code; /* code of a patched module */
    const char *why;          /* reason why it could not be patched; NULL: patched, or no need */
    int patched;
    uint64_t refused; /* bit i: the i-th row of patch.def is unknown to the library */
    uint64_t pc;      /* a pc within it; 0: unknown */
    int launches;     /* its kernels launch kernels, whose records cannot be told apart */
    struct mt_inject_module *next;
};

/* API call of the calling thread, if its function has a row. */
struct mt_inject_call {
    unsigned depth;
    int waits;             /* a waiting call ... */
    int copies;            /* ... for a copy */
    uint64_t launches;     /* number of launches issued when it began */
    uint64_t shared;       /* dynamic bytes of a launch */
    int cooperative;       /* its CTAs may wait for each other */
    uint64_t first, after; /* numbers of the launches it made, if any */
    int full;              /* a node of its graph got no launch context: no other one waits for one */
};
struct mt_inject_call *mt_inject_call(void);

void mt_inject_synchronized(Sanitizer_CallbackId cbid, const void *data);

/* ---- between the files ---- */
/* Returns the context of this handle, or NULL if out of memory or `handle` is NULL. */
struct mt_inject_context *mt_inject_context(CUcontext handle);

/* Returns the trace of this stream if already opened, else NULL. */
struct mt_trace *mt_inject_stream_known(CUcontext context, Sanitizer_StreamHandle stream);

void mt_inject_streams(void (*f)(CUcontext context, Sanitizer_StreamHandle stream,
                                 const struct mt_trace *trace, void *data),
                       void *data);

/* Closes the traces of destroyed streams without launches, after a launch has left. Reader only. */
void mt_inject_streams_close(void);

/* Makes rings in the memory of `context`; `code`: a pc in the middle of the code that will run there, or 0.
 * Returns NULL with *why set to a sentence. */
struct mt_rings *mt_inject_rings(CUcontext context, uint64_t code, char *why, size_t size);
/* Lends f a context of these rings, waiting for a free one, and sets its code. `node`: f is a node of a
 * graph, which waits for earlier launches only: those of its own graph may begin after it. Returns the data
 * for the patches, or NULL if none is free or the code's place cannot be told from `pc` (0: unknown). */
const void *mt_inject_lend(struct mt_inject_context *c, struct mt_flight *f, uint64_t pc,
                           Sanitizer_StreamHandle stream, int node);
/* Handles the end of a wait of the program for `stream` (trace NULL: for the whole context) with `error`. */
void mt_inject_synced(struct mt_inject_context *c, Sanitizer_StreamHandle stream,
                      const struct mt_trace *trace, int error);
/* Returns 1 if launches end by the exits of their threads, 0 if not with this driver. */
int mt_inject_exits_count(void);
/* Waits for the launches of a context (NULL: of all) as long as records arrive, then ends the rest. */
void mt_inject_drain(struct mt_inject_context *c, const char *why);
#endif
