/* Interface between libmemtrace-libraries.so and libmemtrace.so: a library call (cublasSgemm) as an operation
 * of a stream, which the trace shows as a launch. */
#ifndef MT_LIBRARIES_ABI_H
#define MT_LIBRARIES_ABI_H
#include <stddef.h>
#include <stdint.h>

struct mt_library_notes; /* private to libmemtrace.so */

/* Collective performed by a call, for the trace; op NULL: none. */
struct mt_library_collective {
    uint64_t comm;   /* the communicator: the same number in all of its processes */
    const char *op;  /* "allreduce" … */
    int rank, ranks; /* own rank, and number of ranks */
    int root, peer;  /* -1: none */
    uint64_t count;  /* number of elements, as in the call */
    uint32_t size;   /* bytes of an element */
};
/* Results of `run`, and argument of __mt_library_end. */
enum {
    MT_LIBRARY_DONE,
    MT_LIBRARY_LATER,    /* continues on another thread, which will call __mt_library_end */
    MT_LIBRARY_GIVEN_UP, /* ended without its result, as reported: the trace is incomplete, the stream goes on
                          */
    MT_LIBRARY_FAILED = -1
};

/* Head of a block of `bytes` without pointers into itself: it is copied, and runs many times in a graph.
 * Strings are constant. Both functions run in the stream's order on any thread and may not wait. On a GPU
 * they run once, on the calling thread during submission: `run` calls the real library. */
struct mt_library_call {
    size_t bytes;
    const char *name, *library; /* "cublasSgemm", "cublas" */
    /* Notes the memory that will be read and written (__mt_library_note), reads first. It enters the trace
     * once the call has succeeded. */
    void (*ranges)(struct mt_library_call *c, struct mt_library_notes *n);
    /* Computes, and returns one of the values above. MT_LIBRARY_FAILED: failed, as reported; the stream then
     * has an error as from a kernel, and the trace is incomplete, since part may have been done. */
    int (*run)(struct mt_library_call *c);
    /* Called when the block is about to be freed, whether it ran or not. May be NULL. */
    void (*drop)(struct mt_library_call *c);
    struct mt_library_collective collective;
    const void *site; /* from __mt_library_site; NULL: the call is being made now */
};

enum { MT_LIBRARY_READ, MT_LIBRARY_WRITE }; /* same values as the types of records */

/* Puts a copy of the call into the stream. Returns the cudaError_t of a launch there; on a GPU the result of
 * `run`. */
int __mt_library_submit(void *stream, struct mt_library_call *c);
/* Notes `count` pieces of `bytes`, `stride` bytes apart. Returns 0, or -1 if a piece is not in device memory;
 * then the call will not run, and the program gets cudaErrorIllegalAddress. */
int __mt_library_note(struct mt_library_notes *n, int type, const void *p, size_t bytes, size_t count,
                      int64_t stride);
/* Refuses a call with invalid arguments in the same way, for the reason `why`. */
void __mt_library_refuse(struct mt_library_notes *n, const char *why);
/* On the CPU device: ends a call for which `run` returned MT_LIBRARY_LATER, and begins the next one in the
 * stream: hold no lock that `run` takes. */
void __mt_library_end(struct mt_library_call *c, int how);
/* Returns the site of the call under way, for a later submission. */
const void *__mt_library_site(void);
/* Logs a rank of a communicator, and its device. */
void __mt_library_communicator(uint64_t comm, int rank, int ranks, int device);

enum { MT_LIBRARY_HANDLE = 64 };
/* Makes an unnamed file of zeros for processes of this user. Any of them may map it by `handle` while this
 * process lives and has not called __mt_library_unshare. Returns 0 or -1. */
int __mt_library_share(size_t bytes, void *handle);
/* Maps a shared file. Returns NULL if it is gone or the handle is invalid. */
void *__mt_library_map(const void *handle);
/* Closes a file for further mappings. No effect in another process. */
void __mt_library_unshare(const void *handle);

/* Returns 1 if calls go to the real libraries. */
int __mt_library_on_gpu(void);
/* On a GPU: copies memory as it is when the stream reaches the next operation. Returns 0, or -1 if the stream
 * is being captured or does not end. */
int __mt_library_fetch(void *stream, void *to, const void *from, size_t bytes);
/* On a GPU: calls c->run for a call that is in no trace. Library calls made within it do not count as the
 * program's. */
int __mt_library_forward(struct mt_library_call *c);
/* Marks the traces incomplete, since the accesses of `name` are unknown. Reported once. */
void __mt_library_miss(const char *name);
/* Returns MEMTRACE_NETWORK, and MEMTRACE_NCCL_TIMEOUT in *timeout. */
const char *__mt_library_network(uint64_t *timeout);
/* Returns the path of the cuRAND that the program would have used, or "" if unknown. */
const char *__mt_library_curand(void);
/* Opens a library of the CUDA toolkit. Returns NULL after a report if it is missing or not trusted. */
void *__mt_library_toolkit(const char *file);
/* Writes one line to stderr. */
void __mt_library_say(const char *text);
#endif
