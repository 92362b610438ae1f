/* What the files of the injection library know of each other. NVIDIA's driver loads the library, and Compute
 * Sanitizer's API calls mt_inject_* handlers, which are the rows of one table (inject.c). No CUDA function is
 * called in a callback; sanitizer* functions are. The thread that reads the rings calls neither. */
#ifndef MT_INJECT_INJECT_H
#define MT_INJECT_INJECT_H
#include "api.h"
#include "gpu/rings.h"
#include "trace/trace.h"
#include <stdint.h>

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
void mt_inject_context_new(Sanitizer_CallbackId cbid, const void *data);    /* context.c */
void mt_inject_context_ends(Sanitizer_CallbackId cbid, const void *data);   /* context.c */
void mt_inject_module_loaded(Sanitizer_CallbackId cbid, const void *data);  /* module.c */
void mt_inject_module_unloads(Sanitizer_CallbackId cbid, const void *data); /* module.c */
void mt_inject_functions(Sanitizer_CallbackId cbid, const void *data);      /* module.c: loaded lazily */
void mt_inject_launch(Sanitizer_CallbackId cbid, const void *data);         /* launch.c */
void mt_inject_graph(Sanitizer_CallbackId cbid, const void *data);          /* graph.c */
void mt_inject_stream_new(Sanitizer_CallbackId cbid, const void *data);     /* stream.c */
void mt_inject_stream_ends(Sanitizer_CallbackId cbid, const void *data);    /* stream.c */
void mt_inject_synchronized(Sanitizer_CallbackId cbid, const void *data);   /* sync.c */
void mt_inject_calls(Sanitizer_CallbackId cbid, const void *data);          /* call.c: functions that wait */
void mt_inject_launches(Sanitizer_CallbackId cbid, const void *data); /* call.c: functions that launch */
void mt_inject_runtime_launches(Sanitizer_CallbackId cbid, const void *data);
void mt_inject_profiler_on(Sanitizer_CallbackId cbid, const void *data); /* call.c */
void mt_inject_profiler_off(Sanitizer_CallbackId cbid, const void *data);

/* ---- between the files ---- */
/* The context of this handle; NULL: no memory, or `handle` is. */
struct mt_inject_context *mt_inject_context(CUcontext handle);
/* It has rings, patches and launch contexts, made now if they are not there. 0; -1: it cannot have, which was
 * said. Called with the lock of patching. */
int mt_inject_context_ready(struct mt_inject_context *c);
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
/* The context is gone, and with it its streams. */
void mt_inject_streams_end(CUcontext context);
/* A launch has left: traces of streams that were destroyed are closed when they have none. Reader only. */
void mt_inject_streams_close(void);

/* A launch that begins now, by itself or as a node of a graph; `stream` is what it belongs to. */
void mt_inject_launched(const Sanitizer_LaunchData *l, CUcontext context, Sanitizer_StreamHandle stream);
/* The call that made launches `first` to `after` - 1 has failed: they will not run. */
void mt_inject_launch_failed(uint64_t first, uint64_t after, int status);

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
