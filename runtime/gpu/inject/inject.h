/* What the files of the injection library know of each other. NVIDIA's driver loads the library, and Compute
 * Sanitizer's API calls mt_inject_* handlers, which are the rows of one table (inject.c). No CUDA function is
 * called in a callback; sanitizer* functions are. The thread that reads the rings calls neither. */
#ifndef MT_INJECT_INJECT_H
#define MT_INJECT_INJECT_H
#include "gpu/rings.h"
#include "trace/trace.h"
#include <sanitizer.h>
#include <stddef.h>
#include <stdint.h>

/* The functions of Compute Sanitizer's API that we call. They are looked up while the program runs: what is
 * built here needs no library of NVIDIA's. */
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

/* From any thread, after the library was opened. */
const struct mt_sanitizer *mt_sanitizer(void);
/* What a result means. */
const char *mt_sanitizer_text(SanitizerResult r);

struct mt_gpu_code;

/* A CUcontext of the program. Never freed. */
struct mt_inject_context {
    CUcontext handle;       /* NULL: it was destroyed, and another one may have its address */
    uint64_t number;        /* of the contexts; the place of its code, above bit 56 of a pc */
    int tried;              /* to make what is below; under the lock of patching */
    struct mt_rings *rings; /* NULL: there are none, or not yet */
    struct mt_inject_context *next;
};

/* A module of a context. */
struct mt_inject_module {
    CUmodule handle;
    struct mt_inject_context *context;
    struct mt_gpu_code *code; /* of patched ones */
    const char *why;          /* it could not be patched: a sentence; NULL: it is, or needs not be */
    int patched;
    uint64_t pc;  /* somewhere in it; 0: not known */
    int launches; /* its kernels launch kernels: whose records those make is not known */
    struct mt_inject_module *next;
};

/* What the calling thread is in, of the functions that have a row: a call of the API. */
struct mt_inject_call {
    unsigned depth;
    int waits;             /* it is one that waits ... */
    int copies;            /* ... for a copy */
    uint64_t launches;     /* so many were issued when it began */
    uint64_t shared;       /* a launch's dynamic bytes */
    int cooperative;       /* its CTAs may wait for each other */
    uint64_t first, after; /* numbers of the launches that it made, if any */
};
struct mt_inject_call *mt_inject_call(void);

/* ---- handlers, with the data that the API has for the callback ---- */
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

/* memory.c: the lines that the CPU device writes */
void mt_inject_memory(Sanitizer_CallbackId cbid, const void *data);
/* Nodes of graphs that allocate and free, when the graph is launched. */
void mt_inject_allocated(const Sanitizer_ResourceMemoryData *m);
void mt_inject_freed(uint64_t address);
void mt_inject_memcpy(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_memset(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_batch(Sanitizer_CallbackId cbid, const void *data);
/* A copy or fill that begins now in the stream of this number (mt_event_copy); also of a graph's node. */
void mt_inject_copied(const Sanitizer_MemcpyData *m, int64_t stream);
void mt_inject_filled(const Sanitizer_MemsetData *m, int64_t stream);
/* Events, what records them and waits for them. */
void mt_inject_event(Sanitizer_CallbackId cbid, const void *data);

/* ---- between the files ---- */
/* The context of this handle; NULL: no memory, or `handle` is. */
struct mt_inject_context *mt_inject_context(CUcontext handle);
/* Before the first trace is opened: traces are of this device. Waits up to 100 ms for its name. */
void mt_inject_device_is(int device);
/* The patches' image; before the first callback. NULL: it cannot be read, *why is a sentence. */
const void *mt_inject_image(char *why, size_t size);

/* NULL: it was not loaded while we were there. */
struct mt_inject_module *mt_inject_module(CUmodule handle);

/* The trace of this stream, opened now if it is not. NULL: there is none. */
struct mt_trace *mt_inject_stream_trace(CUcontext context, Sanitizer_StreamHandle stream);
/* The same if it was opened already. */
struct mt_trace *mt_inject_stream_known(CUcontext context, Sanitizer_StreamHandle stream);
/* Its number; -1: it has no trace yet. `context` may be NULL. */
int64_t mt_inject_stream_number(CUcontext context, Sanitizer_StreamHandle stream);
void mt_inject_streams(void (*f)(CUcontext context, Sanitizer_StreamHandle stream,
                                 const struct mt_trace *trace, void *data),
                       void *data);
/* 1: this version of the API has the context's green context in front of the stream in its data of streams
 * and events (from 13.1 on); 0: it has not; -1: not known yet. */
int mt_inject_green(void);
/* A launch has left: traces of streams that were destroyed are closed when they have none. Reader only. */
void mt_inject_streams_close(void);

/* Rings in the memory of `context`; `code`: a pc in the middle of what will run there, 0: not known. NULL:
 * *why is a sentence. */
struct mt_rings *mt_inject_rings(CUcontext context, uint64_t code, char *why, size_t size);
/* Lends f a context of theirs and sets its code; waits for one if none is free. What the patches get as their
 * data; NULL: there is none, or it cannot be told where the code is, which is at `pc` (0: not known). */
const void *mt_inject_lend(struct mt_inject_context *c, struct mt_flight *f, uint64_t pc,
                           Sanitizer_StreamHandle stream);
/* The program has waited for `stream` (trace NULL: for all of the context) and heard `error`. */
void mt_inject_synced(struct mt_inject_context *c, Sanitizer_StreamHandle stream,
                      const struct mt_trace *trace, int error);
/* 1: launches end by their threads' ends; 0: that is not so on this driver. */
int mt_inject_exits_count(void);
/* Waits for what is under way in a context (NULL: everywhere) as long as records come, and ends the rest. */
void mt_inject_drain(struct mt_inject_context *c, const char *why);
#endif
