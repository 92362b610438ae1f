/* The CPU device: runs the CTAs of a launch on a pool of worker threads. Internal to libmemtrace.so and
 * used by runtime/api. It knows no files: records leave through mt_cpu_launch.flush. */
#ifndef MT_CPU_CPU_H
#define MT_CPU_CPU_H
#include <stddef.h>
#include <stdint.h>
#include "format/finding.h"
#include "format/image.h"
#include "memtrace/device.h"

/* A loaded image. Never unloaded during the life of the process (kernels may still run at exit). */
struct mt_image {
    const struct mt_image_head *head;
    void *handle;                   /* handle from dlopen */
    uint32_t site_base;             /* global id of sites[0], unique in the process */
    struct mt_image *next;          /* next of all images */
    struct mt_image *peer;          /* next image of the same program (-fgpu-rdc), or NULL */
    uint64_t base, bytes;           /* loaded range */
    char path[96];                  /* path under which the dynamic linker knows it */
    uint64_t shared_size;           /* bytes of static shared memory of all the program's images */
    struct mt_image_copies *copies; /* copies for other GPUs (image.c), or NULL */
};

/* Returns the fatbins in an argument of __cudaRegisterFatBinary: one, or those of the files with
 * relocatable device code that make one program. Returns NULL with *n = 0 for anything else. */
const void *const *mt_image_fatbins(const void *wrapper, size_t *n);
/* Returns 1 if any fatbin is followed by an image. */
int mt_image_carried(const void *const *fatbins, size_t n);
/* Finds the payloads behind the fatbins of one program, loads them (memfd + dlopen) and registers their
 * constants. Fatbins without a payload are skipped unless none has one. The images may use the variables
 * and functions of `base` (may be NULL), which becomes the last peer. Returns the first image, with the
 * others as peers, or NULL with *why set to a sentence for the user (static or thread-local). */
struct mt_image *mt_image_load(const void *wrapper, const char **why); /* from mt_image_fatbins */
struct mt_image *mt_image_load_all(const void *const *fatbins, size_t n, struct mt_image *base,
                                   const char **why);
/* Texts for *why. too_old: the GPU code beside the image has kernels with the hidden parameter under the
 * program's own names. */
extern const char mt_image_too_old[];
extern const char mt_image_limit[]; /* a limit of the process, the image is valid */
/* Returns 1 if the address is in the image itself (a variable in its table may belong to another image). */
int mt_image_owns(const struct mt_image *image, const void *address);
/* Return the kernel or variable with this mangled name in an image or its peers, or NULL. */
const struct mt_image_kernel *mt_image_find_kernel(const struct mt_image *image, const char *name);
const struct mt_image_var *mt_image_find_var(const struct mt_image *image, const char *name);
/* Returns the image for `device`, since each of several GPUs has variables of its own. The image is loaded
 * at the first request; *loaded is then the first image loaded with it, else NULL. Returns NULL without
 * memory, with *why set as above. Site numbers and the addresses of managed variables are those of the
 * first image. */
struct mt_image *mt_image_on(struct mt_image *image, int device, struct mt_image **loaded, const char **why);

struct mt_cpu_launch;
#define MT_BAD_NO_SITE UINT32_MAX
/* A bad access, or another error in the use of the device. */
struct mt_cpu_bad {
    const struct mt_cpu_launch *launch;
    uint64_t address;
    uint32_t bytes, type;         /* enum mt_access_type */
    const struct mt_image *image; /* image of the code */
    uint32_t site;                /* site of the image */
    uint32_t align;               /* alignment that the access needs */
    uint32_t cta[3], thread[3];
    enum mt_finding_kind kind; /* BOUNDS (also freed memory) or MISALIGNED for an access; other kinds for
                                * other errors */
    const char *words;         /* text of an error that is not an access and has no address; NULL for
                                * accesses */
    const void *place;         /* address of its code */
    uint32_t note;             /* note of the image with its line, from 1, or MT_CHECK_SITE | number of a site
                                * with it; 0: not known */
#define MT_CHECK_SITE (1u << 31)
    /* Variable that the access left, its bytes, and where the access begins in it; NULL: none is known. */
    const struct mt_image_object *object;
    uint64_t object_bytes;
    int64_t object_at;
};

/* Memory that kernels may touch, but for (path > 0) launches that come after operation n of that path. */
struct mt_cpu_memory {
    uint64_t base, bytes;
    int path;
    uint32_t n;
};

/* Check of each recorded access (MEMTRACE_CHECK=1). */
struct mt_cpu_checker {
    /* A counter that changes at each allocation and free, and when one device gets access to another's
     * memory; never 0. */
    const _Atomic uint64_t *generation;
    /* Finds the memory around `address` that kernels of the device may touch. Returns 1, or 0 if they may
     * not. Called from worker threads. NULL: no check. */
    int (*find)(int device, uint64_t address, struct mt_cpu_memory *out);
    /* Reports a bad access. Called from worker threads. */
    void (*report)(const struct mt_cpu_bad *bad);
    /* Handles the end of a launch with findings. Returns the number of bad accesses. */
    uint64_t (*end)(const struct mt_cpu_launch *launch);
    int stop;          /* 1: a bad access ends its thread */
    int strict;        /* 1: what CUDA forbids and GPUs run is reported, too */
    int accesses_only; /* 1: no other errors are reported */
};

/* Settings, changed before mt_cpu_init. */
extern struct mt_cpu_settings {
    size_t buffer; /* bytes of a worker's trace buffer */
    size_t stack;  /* bytes of a device thread's stack; kernels without waits have at least 1 MiB */
    int compact;   /* records also for shared memory, local memory and barriers, all to
                    * mt_cpu_launch.flush_runs */
    /* malloc (returns NULL when memory is exhausted) and free (returns -1 for a pointer that it did not
     * allocate) of kernels, called from worker threads. NULL: the C library's. */
    void *(*heap_get)(uint64_t bytes);
    int (*heap_put)(void *p);
    /* Describes the memory around an address that faulted; called from a signal handler on a worker. */
    void (*describe)(uint64_t address, char *text, size_t size);
    struct mt_cpu_checker check;
    /* Images are loaded only for their tables: their code will not run, and may be for any processor. */
    int tables_only;
    unsigned workers; /* threads that run CTAs; set by mt_cpu_init */
} mt_cpu_settings;

/* Starts `threads` worker threads (0: number of online CPUs) that simulate `sms` SMs. May be called again.
 * Returns 0 or an errno value. */
int mt_cpu_init(unsigned threads, unsigned sms);

struct mt_cta_rule; /* format/cta_rule.h */
struct mt_cpu_launch {
    const struct mt_image *image;
    const struct mt_image_kernel *kernel;
    void **args; /* nparams + 1 pointers; the last one points to the hidden launch context */
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* CTAs of a cluster in each dimension; all 0: no clusters */
    uint32_t dyn_shared;
    uint64_t printf_bytes; /* bytes of the GPU's printf buffer; 0: no limit (checker) */
    int device;            /* GPU of the CPU device (trace/devices.h) */
    int priority;          /* launches with a lower number have their CTAs run first; ties: the older
                            * launch */
    uint32_t cooperative;  /* all CTAs must be co-resident (grid barrier) */
    /* Receives whole records (24 bytes each) of one CTA from worker threads at any time until `done`;
     * calls of different workers may overlap. NULL: not traced. */
    void (*flush)(void *ctx, const void *records, size_t count);
    /* Replaces `flush` if mt_cpu_settings.compact. Receives `count` warp accesses of one or several CTAs.
     * `single`: each run is the access of one thread, from code that runs a thread at a time. Returns the
     * number of accesses. */
    uint64_t (*flush_runs)(void *ctx, const struct mt_access_run *runs, size_t count, int single);
    /* Orders everything that the calling thread has handed over before all later records of others. NULL:
     * not traced. */
    void (*fence)(void *ctx);
    void *flush_ctx;
    const struct mt_cta_rule *ctas; /* CTAs to trace, which must outlive the launch; NULL: all */
    const void *user;               /* the caller's own data, for the checker */
    const uint32_t *after;          /* by path - 1: operations that come before it; NULL: all */
    /* Called once by a worker thread after mt_cpu_start, when the launch has ended and its results are
     * set; the launch may be freed inside. */
    void (*done)(void *ctx, int status);
    void *done_ctx;
    /* Results. */
    uint64_t records;   /* number of records made, counted independently of flush */
    uint64_t untraced;  /* number of executed accesses without a record */
    uint64_t undefined; /* number of shuffles, votes and the like whose result CUDA does not define */
    uint64_t parted;    /* 1: some requests may be several requests on a GPU */
    int ungrouped;      /* 1: flush_runs got accesses of single threads, not grouped by warp */
    /* Counts for kernels with MT_KERNEL_COUNTED, else zeros: by the program's own counters, and by the
     * records handed to flush. */
    uint64_t counts[MT_COUNTS], recorded[MT_COUNTS];
    int told;          /* MEMTRACE_CHECK: the cause of failure was reported */
    char message[512]; /* cause and place of the failure, a phrase without the kernel's name; "" if none */
};
/* Starts the launch. Returns 0, and `done` gets 0 or a cudaError_t value (e.g. 710 assert, 719 launch
 * failure, 801 not supported); or returns an error, and nothing runs. Arguments are copied; `launch` must
 * live until `done` is called. Launches in flight share the workers: a CTA that only spins yields to
 * others. May be called from `done`. */
int mt_cpu_start(struct mt_cpu_launch *launch);
/* Returns a counter that rises whenever CTAs end. */
uint64_t mt_cpu_progress(void);
#endif
