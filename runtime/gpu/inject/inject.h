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

/* Returns the functions; callable from any thread after the library was opened. */
const struct mt_sanitizer *mt_sanitizer(void);
/* Returns the text of a result. */
const char *mt_sanitizer_text(SanitizerResult r);

struct mt_gpu_code;

/* A CUcontext of the program. Never freed. */
struct mt_inject_context {
    CUcontext handle;       /* NULL: destroyed; its address may be reused */
    uint64_t number;        /* number of the context; the place of its code, above bit 56 of a pc */
    int tried;              /* creation of the fields below was tried; under the lock of patching */
    struct mt_rings *rings; /* NULL: none, or not yet */
    struct mt_inject_context *next;
};

/* A module of a context. */
struct mt_inject_module {
    CUmodule handle;
    struct mt_inject_context *context;
    struct mt_gpu_code *code; /* code of a patched module */
    const char *why;          /* reason why it could not be patched; NULL: patched, or no need */
    int patched;
    uint64_t pc;  /* a pc within it; 0: unknown */
    int launches; /* its kernels launch kernels, whose records cannot be told apart */
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
};
struct mt_inject_call *mt_inject_call(void);

/* ---- handlers, with the API's data for the callback ---- */
void mt_inject_context_new(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_context_ends(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_module_loaded(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_module_unloads(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_functions(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_launch(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_graph(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_stream_new(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_stream_ends(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_synchronized(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_calls(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_launches(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_runtime_launches(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_profiler_on(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_profiler_off(Sanitizer_CallbackId cbid, const void *data);

/* memory.c: writes the same lines as the CPU device */
void mt_inject_memory(Sanitizer_CallbackId cbid, const void *data);
/* Graph nodes that allocate and free, when the graph is launched. */
void mt_inject_allocated(const Sanitizer_ResourceMemoryData *m);
void mt_inject_freed(uint64_t address);
void mt_inject_memcpy(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_memset(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_batch(Sanitizer_CallbackId cbid, const void *data);
/* Logs a copy or fill that begins now in the stream of this number (mt_event_memcpy, mt_event_memset), also
 * as a graph node. */
void mt_inject_copied(const Sanitizer_MemcpyData *m, int64_t stream);
void mt_inject_filled(const Sanitizer_MemsetData *m, int64_t stream);
/* Event creation, records and waits. */
void mt_inject_event(Sanitizer_CallbackId cbid, const void *data);

/* ---- between the files ---- */
/* Returns the context of this handle, or NULL if out of memory or `handle` is NULL. */
struct mt_inject_context *mt_inject_context(CUcontext handle);
/* Sets the device of the traces before the first is opened. Waits up to 100 ms for its name. */
void mt_inject_device_is(int device);
/* Returns the image of the patches, before the first callback, or NULL with *why set to a sentence. */
const void *mt_inject_image(char *why, size_t size);

/* Returns the module, or NULL if it was loaded before the library. */
struct mt_inject_module *mt_inject_module(CUmodule handle);

/* Returns the trace of this stream, opened on first use, or NULL if there is none. */
struct mt_trace *mt_inject_stream_trace(CUcontext context, Sanitizer_StreamHandle stream);
/* Returns the trace of this stream if already opened, else NULL. */
struct mt_trace *mt_inject_stream_known(CUcontext context, Sanitizer_StreamHandle stream);
/* Returns the number of the stream's trace, or -1 if it has none yet. `context` may be NULL. */
int64_t mt_inject_stream_number(CUcontext context, Sanitizer_StreamHandle stream);
void mt_inject_streams(void (*f)(CUcontext context, Sanitizer_StreamHandle stream,
                                 const struct mt_trace *trace, void *data),
                       void *data);
/* Returns 1 if this version of the API (13.1 and later) puts the context's green context before the stream in
 * its data of streams and events, 0 if not, -1 if not known yet. */
int mt_inject_green(void);
/* Closes the traces of destroyed streams without launches, after a launch has left. Reader only. */
void mt_inject_streams_close(void);

/* Makes rings in the memory of `context`; `code`: a pc in the middle of the code that will run there, or 0.
 * Returns NULL with *why set to a sentence. */
struct mt_rings *mt_inject_rings(CUcontext context, uint64_t code, char *why, size_t size);
/* Lends f a context of these rings, waiting for a free one, and sets its code. Returns the data for the
 * patches, or NULL if none is free or the code's place cannot be told from `pc` (0: unknown). */
const void *mt_inject_lend(struct mt_inject_context *c, struct mt_flight *f, uint64_t pc,
                           Sanitizer_StreamHandle stream);
/* Handles the end of a wait of the program for `stream` (trace NULL: for the whole context) with `error`. */
void mt_inject_synced(struct mt_inject_context *c, Sanitizer_StreamHandle stream,
                      const struct mt_trace *trace, int error);
/* Returns 1 if launches end by the exits of their threads, 0 if not with this driver. */
int mt_inject_exits_count(void);
/* Waits for the launches of a context (NULL: of all) as long as records arrive, then ends the rest. */
void mt_inject_drain(struct mt_inject_context *c, const char *why);
#endif
