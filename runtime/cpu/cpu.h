/* The CPU device: runs the CTAs of a launch on a pool of worker threads. Internal to libmemtrace.so.
 * Used by runtime/api; knows nothing of files: records leave through mt_cpu_launch.flush. */
#ifndef MT_CPU_CPU_H
#define MT_CPU_CPU_H
#include <stddef.h>
#include <stdint.h>
#include "format/finding.h"
#include "format/image.h"
#include "memtrace/device.h"

/* A loaded image. Never unloaded while the process lives (kernels may still run at exit). */
struct mt_image {
    const struct mt_image_head *head;
    void *handle;                   /* dlopen's */
    uint32_t site_base;             /* global id of sites[0], unique in the process */
    struct mt_image *next;          /* of all images */
    struct mt_image *peer;          /* the next image of the same program (-fgpu-rdc), or NULL */
    uint64_t base, bytes;           /* where it was loaded, */
    char path[96];                  /* and by which name the dynamic linker knows it */
    uint64_t shared_size;           /* static shared memory of all of the program's images */
    struct mt_image_copies *copies; /* where there are several GPUs: image.c's */
};

/* The fatbins of what __cudaRegisterFatBinary gets: one, or those of files with relocatable device code that
 * make one program. NULL and 0: it is something else. */
const void *const *mt_image_fatbins(const void *wrapper, size_t *n);
/* Has one of them an image after it? */
int mt_image_carried(const void *const *fatbins, size_t n);
/* Finds the payloads after fatbins of one program, loads them (memfd + dlopen), registers their constants.
 * Those without a payload are left out, unless none has one. The result is the first image, its peers the
 * others. They may use the variables and functions of `base`, the last peer then; or NULL. NULL: *why says
 * what is missing, as a sentence for the user (static or thread-local). */
struct mt_image *mt_image_load(const void *wrapper, const char **why); /* of mt_image_fatbins */
struct mt_image *mt_image_load_all(const void *const *fatbins, size_t n, struct mt_image *base,
                                   const char **why);
/* *why of images that are beside GPU code in which kernels have the hidden
 * parameter under the program's names. */
extern const char mt_image_too_old[];
extern const char mt_image_limit[]; /* of the process: the image is as it should be */
/* Images are loaded for what their tables say: their code will not run, and may be for any processor. */
void mt_image_tables_only(void);
/* Is this address in the image itself (a variable in its table may be another one's)? */
int mt_image_owns(const struct mt_image *image, const void *address);
/* Kernel or variable by mangled name in an image or its peers, NULL if absent. */
const struct mt_image_kernel *mt_image_find_kernel(const struct mt_image *image, const char *name);
const struct mt_image_var *mt_image_find_var(const struct mt_image *image, const char *name);
void *mt_image_var_address(const struct mt_image_var *v);
/* Each of several GPUs has variables of its own: the same image for `device`, loaded when it is first asked
 * for; then *loaded is the first of those that came with it, else NULL. NULL: no memory, *why as above. Sites
 * have the numbers of the first one's, and managed variables lie where those lie. */
struct mt_image *mt_image_on(struct mt_image *image, int device, struct mt_image **loaded, const char **why);
/* The kernel of a row of one GPU's image in that of another one. */
const struct mt_image_kernel *mt_image_kernel_on(const struct mt_image *from, const struct mt_image *to,
                                                 const struct mt_image_kernel *kernel);
/* Puts a variable of MT_VAR_MANAGED, with its first value, into `bytes` of the host's; before any launch.
 */
void mt_image_move_var(const struct mt_image_var *v, void *to, uint64_t bytes);

/* Threads: worker threads (0 = online CPUs); sms: simulated SMs. Safe to call again;
 * returns 0 or an errno. */
int mt_cpu_init(unsigned threads, unsigned sms);
/* How many threads run CTAs. */
unsigned mt_cpu_workers(void);
/* Bytes of a worker's trace buffer (default 1 MiB) and of one device thread's stack (default 64 KiB; kernels
 * without waits have at least 1 MiB). Both before the first launch; later calls have no effect. */
void mt_cpu_set_buffer(size_t bytes);
void mt_cpu_set_stack(size_t bytes);
/* From now on shared and local memory and barriers have records, too, and mt_cpu_launch.flush_runs gets all
 * of them; before the first launch. */
void mt_cpu_set_compact(void);
/* What malloc (bytes > 0; NULL: there is no more) and free (0; -1: it gave no such block) in kernels call,
 * from worker threads. NULL: those of the C library. */
void mt_cpu_set_heap(void *(*get)(uint64_t bytes), int (*put)(void *p));

struct mt_cta_rule; /* format/cta_rule.h */
struct mt_cpu_launch {
    const struct mt_image *image;
    const struct mt_image_kernel *kernel;
    void **args; /* nparams + 1 pointers, the last one to the hidden launch context */
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* CTAs of a cluster in each direction; all 0: no clusters */
    uint32_t dyn_shared;
    uint64_t printf_bytes; /* of the buffer that printf has on a GPU; 0: any (the checker's) */
    int device;            /* of which GPU of the CPU device (trace/devices.h) */
    int priority;          /* CTAs of a launch with a lower number go first; else the older launch */
    uint32_t cooperative;  /* all CTAs must be co-resident (grid barrier) */
    /* Called with whole records (24 bytes each) of one CTA run, from worker threads, at any time until
     * `done`; calls of different workers may overlap. NULL: not traced. */
    void (*flush)(void *ctx, const void *records, size_t count);
    /* The same under mt_cpu_set_compact: `count` accesses of warps, of one or several CTAs, which are
     * `accesses` of threads; code that runs a thread at a time makes runs of one lane. `flush` is not called
     * then. */
    void (*flush_runs)(void *ctx, const struct mt_access_run *runs, size_t count, uint64_t accesses);
    /* What the calling thread has handed over comes before what others do from now on. NULL: not traced. */
    void (*fence)(void *ctx);
    void *flush_ctx;
    const struct mt_cta_rule *ctas; /* NULL: all CTAs are traced; must last */
    const void *user;               /* the caller's, for the checker */
    /* mt_cpu_start: called once when the launch has ended and its results are set, from a worker thread; the
     * launch may be gone when it returns. */
    void (*done)(void *ctx, int status);
    void *done_ctx;
    /* Results. */
    uint64_t records;   /* records made, counted independently of flush */
    uint64_t untraced;  /* accesses executed that have no record */
    uint64_t undefined; /* results of shuffles, votes and the like that CUDA does not define */
    uint64_t parted;    /* 1: some requests may be several of a GPU's */
    int ungrouped;      /* flush_runs got accesses of single threads, which no warp made together */
    /* Of kernels with MT_KERNEL_COUNTED (zeros else): what the program's own counters say, and the same of
     * the records handed to flush. */
    uint64_t counts[MT_COUNTS], recorded[MT_COUNTS];
    int told;          /* MEMTRACE_CHECK: that why it failed was reported */
    char message[512]; /* why it failed, where: a phrase without the kernel's name; "" otherwise */
};
/* Begins the launch: 0, and `done` gets 0 or a cudaError_t value (e.g. 710 assert, 719 launch failure, 801
 * not supported); or what went wrong, and nothing runs.
 * The arguments are copied, `launch` must stay until `done` is called. CTAs of launches under way share the
 * workers: one that only spins gives way to the others. May be called from `done`. */
int mt_cpu_start(struct mt_cpu_launch *launch);
/* Counts up whenever CTAs end. */
uint64_t mt_cpu_progress(void);

/* ---- MEMTRACE_CHECK=1 ---- */

#define MT_BAD_NO_SITE UINT32_MAX
/* An access that must not happen, or other wrong use. */
struct mt_cpu_bad {
    const struct mt_cpu_launch *launch;
    uint64_t address;
    uint32_t bytes, type;         /* enum mt_access_type */
    const struct mt_image *image; /* whose code it is */
    uint32_t site;                /* of the image */
    uint32_t align;               /* that the access needs */
    uint32_t cta[3], thread[3];
    enum mt_finding_kind kind; /* BOUNDS (FREED, too) or MISALIGNED; of what is no access another one */
    const char *words;         /* of others than accesses, which have no address; NULL of accesses */
    const void *place;         /* and where in the code it was found */
};
struct mt_cpu_checker {
    /* Changes whenever an allocation is made or freed, or one device reaches another's; never 0. */
    const _Atomic uint64_t *generation;
    /* The memory around `address` that kernels of the device may touch. 1, or 0: they may not. From worker
     * threads. */
    int (*find)(int device, uint64_t address, uint64_t *base, uint64_t *bytes);
    /* A bad access; from worker threads. */
    void (*report)(const struct mt_cpu_bad *bad);
    /* A launch with findings has ended. Returns how many accesses were bad. */
    uint64_t (*end)(const struct mt_cpu_launch *launch);
    int stop;          /* a bad access ends its thread */
    int accesses_only; /* nothing else is told */
};
/* Looks at each recorded access from now on; before the first launch. */
void mt_cpu_set_checker(const struct mt_cpu_checker *checker);
/* Words on the memory around an address that faulted; from a signal handler on a worker. */
void mt_cpu_set_describe(void (*describe)(uint64_t address, char *text, size_t size));
#endif
