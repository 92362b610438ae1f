/* What libmemtrace-libraries.so and libmemtrace.so agree on: a call of a library (cublasSgemm) as an
 * operation of a stream, which the trace has as a launch. */
#ifndef MT_LIBRARIES_ABI_H
#define MT_LIBRARIES_ABI_H
#include <stddef.h>
#include <stdint.h>

struct mt_library_notes; /* libmemtrace.so's */

/* What a call of a collective is, for the trace. op NULL: it is none. */
struct mt_library_collective {
    uint64_t comm;   /* the communicator: the same number in all of its processes */
    const char *op;  /* "allreduce" … */
    int rank, ranks; /* its own, and how many there are */
    int root, peer;  /* -1: it has none */
    uint64_t count;  /* of elements, as the call has it */
    uint32_t size;   /* bytes of an element */
};
/* What `run` returns, and __mt_library_end takes. */
enum {
    MT_LIBRARY_DONE,
    MT_LIBRARY_LATER,    /* it is under way, on another thread that calls __mt_library_end */
    MT_LIBRARY_GIVEN_UP, /* it ended without its result, which was said: the trace is incomplete, the stream
                            goes on */
    MT_LIBRARY_FAILED = -1
};

/* The beginning of one block of `bytes` that points to nothing inside itself: it is copied, and in a graph it
 * runs many times. Strings last. Both functions run in the stream's order, on any thread, and may not wait.
 * On a GPU they run once, on the calling thread, while it submits: `run` calls the real library. */
struct mt_library_call {
    size_t bytes;
    const char *name, *library; /* "cublasSgemm", "cublas" */
    /* Notes what will be read and written (__mt_library_note), reads first. It is in the trace once the call
     * has run: nothing is there of one that fails. */
    void (*ranges)(struct mt_library_call *c, struct mt_library_notes *n);
    /* Computes. One of the values above; MT_LIBRARY_FAILED: it could not, which was said; the stream then has
     * an error as of a kernel, and the trace is incomplete, as something may have been done. */
    int (*run)(struct mt_library_call *c);
    /* At the end, run or not: its block is about to be freed. May be NULL. */
    void (*drop)(struct mt_library_call *c);
    struct mt_library_collective collective;
    const void *site; /* __mt_library_site's; NULL: the call is being made now */
};

enum { MT_LIBRARY_READ, MT_LIBRARY_WRITE }; /* as the types of records */

/* Puts a copy of it into the stream; what a launch there would return: a cudaError_t. On a GPU what `run`
 * returns. */
int __mt_library_submit(void *stream, struct mt_library_call *c);
/* `count` pieces of `bytes`, `stride` bytes apart. 0; -1: a piece is not in memory of the device; then the
 * call will not run, and the program gets cudaErrorIllegalAddress. */
int __mt_library_note(struct mt_library_notes *n, int type, const void *p, size_t bytes, size_t count,
                      int64_t stride);
/* The same for what cannot be right, with the reason. */
void __mt_library_refuse(struct mt_library_notes *n, const char *why);
/* On the CPU device: the call for which `run` returned MT_LIBRARY_LATER has ended. Begins what is behind it:
 * call it without a lock that `run` takes. */
void __mt_library_end(struct mt_library_call *c, int how);
/* The place of the call under way, for one that is submitted later. */
const void *__mt_library_site(void);
/* A rank of a communicator, and its device. */
void __mt_library_communicator(uint64_t comm, int rank, int ranks, int device);

enum { MT_LIBRARY_HANDLE = 64 };
/* An unnamed file of zeros for processes of this user; `handle` names it, in any of them, while this process
 * lives and has not called __mt_library_unshare. 0, or -1. */
int __mt_library_share(size_t bytes, void *handle);
/* Maps it. NULL: it is gone, or the handle is none. */
void *__mt_library_map(const void *handle);
/* Nobody will map it any more. Nothing happens in another process. */
void __mt_library_unshare(const void *handle);

/* 1: calls go to the real libraries. */
int __mt_library_on_gpu(void);
/* On a GPU: what is in its memory when the stream comes to the next operation. 0; -1: that is not known, as
 * the stream is being captured or does not end. */
int __mt_library_fetch(void *stream, void *to, const void *from, size_t bytes);
/* On a GPU: calls c->run for a call that is in no trace. Calls of libraries from there are not the program's.
 */
int __mt_library_forward(struct mt_library_call *c);
/* What `name` reads and writes is in no trace: they are incomplete. Said once. */
void __mt_library_miss(const char *name);
/* Where the program would have found cuRAND; "": that is not known. */
const char *__mt_library_curand(void);
/* A library of the CUDA toolkit, opened; NULL: it is not there, or not to be trusted, which is said. */
void *__mt_library_toolkit(const char *file);
/* One line on stderr. */
void __mt_library_say(const char *text);
#endif
