/* Interface of the device folder: the device of this process and its limits, device memory, registered and
 * loaded code, and the findings of MEMTRACE_CHECK. Thread-safe. */
#ifndef MT_API_DEVICE_H
#define MT_API_DEVICE_H
#include "api/crt.h"
#include "base/file.h"
#include "cpu/cpu.h"
#include "made_image.h"
#include "trace/site.h"
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

struct mt_range;

/* ---- device.c: the device of this process, chosen at the first CUDA call that needs one ---- */

/* Returns 1 if calls go to the real CUDA runtime. */
int mt_device_is_gpu(void);
/* Same as mt_device_is_gpu, but does not choose a device: returns 0 if none has been chosen yet. */
int mt_device_chosen_gpu(void);
/* Returns the dlopen handle of the real CUDA runtime, or NULL on the CPU device or if there is none. */
void *mt_device_cudart(void);

/* Returns the dlopen handle of NVIDIA's driver, never of our own libcuda.so.1, or NULL if there is none. */
void *mt_device_driver(void);
/* Opens a library of the CUDA toolkit that memtrace was built with, if base/trust.h allows it. Returns its
 * dlopen handle or NULL. */
void *mt_device_toolkit(const char *file, int flags);

/* Limits of the CPU device, equal to those of an sm_90 GPU. */
enum {
    MT_DEV_MAJOR = 9,
    MT_DEV_MINOR = 0,
    MT_DEV_THREADS_PER_BLOCK = 1024,
    MT_DEV_BLOCK_Z = 64,
    MT_DEV_GRID_YZ = 65535,
    MT_DEV_SHARED_BLOCK = 48 << 10,
    MT_DEV_SHARED_OPTIN = 227 << 10,
    MT_DEV_SHARED_SM = 228 << 10,
    MT_DEV_SHARED_RESERVED = 1 << 10, /* bytes per block reserved by the system */
    MT_DEV_THREADS_PER_SM = 2048,
    MT_DEV_BLOCKS_PER_SM = 32,
    MT_DEV_CLUSTER = 8,              /* largest portable cluster, in CTAs */
    MT_DEV_CLUSTER_NONPORTABLE = 16, /* largest cluster of a kernel that allows non-portable sizes */
    MT_DEV_REGISTERS = 64 << 10,     /* per SM and per block */
    MT_DEV_KERNEL_REGISTERS = 32,
    MT_DEV_PITCH = 512,
    MT_DEV_ALIGN = 512, /* alignment of allocations, and of linear memory under textures and surfaces */
    MT_DEV_TEXTURE_PITCH = 32,
    MT_DEV_TEXTURE_LINEAR = 1 << 28, /* most texels of a texture in linear memory */
    MT_DEV_L2 = 4 << 20,
    MT_DEV_L2_PERSISTING = 3 << 20,
};
#define MT_DEV_GRID_X 0x7fffffffu
#define MT_DEV_KERNEL_HEAP (8u << 20) /* default size of the malloc heap in kernels, in bytes */
#define MT_DEV_NAME "memtrace CPU device"
uint64_t mt_device_memory(void); /* total memory of each device, in bytes */
/* Starts the worker pool, once. Returns 0 or an errno value. */
int mt_device_start(void);

/* ---- cudaLimit of each GPU, on the CPU device ---- */

size_t mt_limit_get(int device, enum cudaLimit limit);

/* Resets all limits of a device to their defaults. */
void mt_limits_reset(int device);

/* ---- heap.c: memory of the CPU device that kernels may access and cudaMemcpy accepts. All of it lies in the
 * process's own address space, so device pointers are host pointers. ---- */

/* Unused bytes after each block under MEMTRACE_CHECK; larger blocks have more. */
#define MT_HEAP_GAP (16u << 10)
enum mt_heap_kind {
    MT_HEAP_DEVICE, /* cudaMalloc and variants */
    MT_HEAP_MANAGED,
    MT_HEAP_HOST,       /* cudaMallocHost, cudaHostAlloc */
    MT_HEAP_REGISTERED, /* memory of the program, cudaHostRegister */
    MT_HEAP_SYMBOL,     /* device variables; flags: enum mt_var_kind */
    MT_HEAP_IPC,        /* memory of another process, cudaIpcOpenMemHandle */
};

struct mt_block {
    uint64_t base, bytes;
    enum mt_heap_kind kind;
    int device;           /* device that owns it; for host memory: current device at the allocation */
    uint64_t readers;     /* bit mask of the devices with access; 0: the owner and its peers */
    unsigned flags;       /* flags of the API call; for device memory: its pool, or 0 */
    uint64_t mapped_base; /* base of its own mapping, with the guard; 0: small block, or not ours */
    uint64_t mapped_bytes;
    struct mt_segment *segment;              /* segment of a small block (arena.h), or NULL */
    struct mt_fd shared;                     /* file under a large block; ino 0: none */
    uint32_t serial;                         /* number among the shared blocks; 0: not shared */
    int64_t id;                              /* id of its `alloc` line + 1; 0: none, or unknown */
    int condemned;                           /* set while a free is queued in a stream */
    int pooled;                              /* set once a pool was announced in it */
    const struct mt_host_site *site, *freed; /* sites of the calls that allocated and freed it, or NULL */
    int freed_path;                          /* as in mt_heap_free_condemned */
    uint32_t freed_n;
    struct mt_block *next; /* private to heap.c */
};

/* Allocates `bytes` > 0 of fresh memory, aligned to 512. Returns NULL if the device's memory is exhausted. */
void *mt_heap_alloc(int device, size_t bytes, enum mt_heap_kind kind, unsigned flags);
/* Adds foreign memory to the table. Returns 0, EEXIST if it overlaps a block, or ENOMEM. */
int mt_heap_adopt(int device, void *base, size_t bytes, enum mt_heap_kind kind, unsigned flags);
/* Frees the block that begins at `base` if its kind is in `kinds` (bits 1 << kind). Returns 1, or 0 if there
 * is no such block. */
int mt_heap_free(void *base, unsigned kinds);
/* Frees a block in two steps: after the first, no other call can free it; kernels may use it until the
 * second. path, n: operation that frees it, of streams/stream.h; path 0: not known. Under MEMTRACE_CHECK
 * kernels to which it is not ordered may use it even later. */
int mt_heap_condemn(void *base, unsigned kinds);
int mt_heap_free_condemned(void *base, int path, uint32_t n);
/* Moves the block that begins at `base` onto a shared file and fills *file with its descriptor (owned by the
 * heap), the block's place in it, and a unique serial number. Returns 0, EINVAL if no device memory begins
 * there, ENOTSUP if the program has closed the descriptor, or another errno value. */
struct mt_heap_file {
    uint64_t offset, bytes;
    int fd;
    uint32_t serial;
};
int mt_heap_share(void *base, struct mt_heap_file *f);
/* Finds the block that contains `p`. Returns 1 with *out set, or 0. */
int mt_heap_find(const void *p, struct mt_block *out);
/* Sets the id of the `alloc` line of the block that begins at `p`; -1: none. */
void mt_heap_identify(const void *p, int64_t id);
/* Returns the bytes from `p` to the end of its block, with *out set, or 0 if no block contains `p`. Blocks of
 * cuMemMap mapped directly behind one another count as one, since accesses may cross their borders; with
 * device >= 0, only blocks that this device may access. */
uint64_t mt_heap_reach(const void *p, int device, struct mt_block *out);

/* Calls f for each block that the host and kernels share (managed, pinned and registered memory), by
 * ascending base. */
void mt_heap_each_shared(void (*f)(const struct mt_block *b));

/* number of changes to the table, from 1 */
extern _Atomic uint64_t mt_heap_generation;

extern _Atomic uint64_t mt_heap_used[]; /* bytes of each device in use */

/* Returns the device that owns the memory at `p`, or -1 if it belongs to all devices or to none. */
int mt_heap_owner(const void *p);
/* Returns 1 if kernels of the device may access the block. */
int mt_heap_reaches(int device, const struct mt_block *b);
/* Sets the devices that may access the block at `base`, or all blocks of a pool. */
void mt_heap_open(const void *base, uint64_t readers);
void mt_heap_open_pool(unsigned pool, uint64_t readers);
/* Frees all blocks of the device except symbols and registered memory. */
void mt_heap_reset(int device);

/* ---- heap of malloc and free in kernels ---- */

/* Sets cudaLimitMallocHeapSize. Returns 0, or -1 if a kernel has already used the heap. */
int mt_device_heap_limit(size_t bytes);

/* Frees all blocks, and sets the limit to the default. */
void mt_device_heap_reset(void);

/* ---- module.c: fat binaries registered by the program, with their kernels and variables. They are kept for
 * both devices and never freed, since kernels may run until the process ends. ---- */

/* State of a module; it never goes back:
 *
 *   OPEN -> ENDED -> READ -> LOADED -> GONE
 *
 *   OPEN   kernels and variables are being registered   __cudaRegisterFatBinary
 *   ENDED  all of them are registered                   __cudaRegisterFatBinaryEnd
 *   READ   the tables of its image are bound, or it carries no image (foreign)
 *   LOADED known to the device in use                   at the first use of any module
 *   GONE   removed from all tables                      __cudaUnregisterFatBinary
 *
 * A library (cudaLibrary*, cuModule*) begins as LOADED. */
enum { MT_MODULE_OPEN, MT_MODULE_ENDED, MT_MODULE_READ, MT_MODULE_LOADED, MT_MODULE_GONE };

/* An image that mt-ptx makes on first use (made_image.h): of a module without one, or of one kernel of a
 * large module. Its state never goes back:
 *
 *   UNASKED -> BEGUN -> CLAIMED -> ASKED -> SETTLED
 *
 *   BEGUN   mt-ptx is making it ahead of time
 *   CLAIMED a thread waits for mt-ptx, or the module is going: not to be begun ahead of time
 *   ASKED   `code` is set, or the reason for its absence
 *   SETTLED the image is loaded, or will never be
 *
 * States may be skipped. */
enum { MT_MADE_UNASKED, MT_MADE_BEGUN, MT_MADE_CLAIMED, MT_MADE_ASKED, MT_MADE_SETTLED };
struct mt_made_image {
    _Atomic unsigned state;
    _Atomic int loading; /* threads that are loading it */
    struct mt_making *begun;
    struct mt_made_code *_Atomic code;
};

struct mt_module {
    _Atomic unsigned state; /* MT_MODULE_... */
    _Atomic int loading;    /* threads that are reading its image */
    const void *wrapper;    /* argument of __cudaRegisterFatBinary */
    /* Relocatable device code without a device link: fatbins of the files in place of a wrapper, and the
     * shared object that contains them. */
    const void **fatbins;
    size_t nfatbins;
    const void *object;
    struct mt_image *image;
    const char *why; /* reason why there is no image; or mt_image_too_old: image present, but a GPU cannot run
                        its kernels */
    int said;        /* the missing image was reported */
    int foreign;     /* came without an image; one is made when it is first needed */
    struct mt_made_image made;
    void *later;      /* kernels with images of their own (mt_made_kernel_next), while `image` holds what they
                         share; NULL: all are in `image` */
    size_t later_end; /* size of `later` in bytes */
    void **real;      /* handle of the real runtime */
    struct mt_function *functions;
    struct mt_variable *variables;
    struct mt_module *next;
};

struct mt_function {
    const void *host; /* address that the program launches */
    char *name;       /* mangled name */
    char *device;     /* name as registered */
    int thread_limit;
    struct mt_module *module;
    const struct mt_image_kernel
        *kernel;               /* entry in `image`, or NULL if not there; valid once the module is loaded */
    struct mt_image *image;    /* image that contains it */
    struct mt_made_image made; /* its own image, if it has one */
    const char *why;           /* reason why it has none */
    int dynamic_shared_max;    /* attribute; -1: the default */
    int carveout;
    int cluster[3];          /* attribute: required cluster size; 0: any */
    int cluster_must;        /* attribute: a launch must give a cluster size */
    int cluster_nonportable; /* attribute: may exceed MT_DEV_CLUSTER */
    int cluster_policy;
    /* On a GPU: has a version with record calls (module.c), which the real runtime knows by the address
     * of traced_key. */
    int has_traced;
    _Atomic int told; /* reported: runs without records (GPU), or cannot run (CPU device) */
    char traced_key;
    cudaKernel_t traced_handle;
    struct mt_function *_Atomic before;       /* registered earlier with the same address */
    _Atomic int told_folded;                  /* reported: address shared with another kernel */
    char *_Atomic pretty, *_Atomic signature; /* names of a kernel without a table, made on first use */
    const char *_Atomic shown;                /* name in traces; NULL: not made yet */
    struct mt_function *next;                 /* next of the module */
};

struct mt_variable {
    const void *host;
    void **managed; /* pointer to receive the variable's address, or NULL */
    int own;        /* a __managed__ variable in clang's code: `host` is the variable itself */
    char *name, *device;
    size_t size;
    int ext, constant, global;
    void *address; /* address on the first GPU of the CPU device once loaded; NULL: not in the image */
    struct mt_module *module;
    struct mt_variable *next;
};

/* Finds the function launched as `f`, a host stub's address or a handle of mt_function_handle, and loads its
 * module, which may take long if an image has to be made. Returns NULL if not registered. */
struct mt_function *mt_function_find(const void *f);
cudaKernel_t mt_function_handle(struct mt_function *f);
/* Returns 1 if several kernels share this address, and reports it once; mt_function_find finds none of them.
 */
int mt_function_is_folded(const void *host);
/* Adds another key for a function: the real runtime's kernel handle. */
void mt_function_alias(const void *alias, struct mt_function *f);

/* Returns the image of a module for one of several GPUs, with its own variables, or NULL after reporting why.
 */
struct mt_image *mt_module_image_on(struct mt_image *image, int device);

/* Returns the fatbins of a module, or NULL if it registered something else. */
const void *const *mt_module_fatbins(const struct mt_module *m, size_t *n);
/* Reports once per module why its kernels cannot run; f is the kernel called. In a module without image,
 * reports each kernel once. */
void mt_function_complain(struct mt_function *f);
/* Reports once per module why its kernels run on a GPU without a trace. */
void mt_module_untraced(struct mt_module *m, const char *kernel);
/* Registers everything with the real runtime, and later registrations as they arrive. */
void mt_modules_to_gpu(void);
/* Logs the addresses of device variables on a GPU, once. */
void mt_modules_log_symbols(void);

/* ---- the two versions of a kernel on a GPU, with and without record calls ---- */

struct mt_launch_config {
    dim3 grid, block;
    size_t shared; /* dynamic bytes */
    cudaStream_t stream;
    int cooperative;
    dim3 cluster; /* CTAs of a cluster; x 0: not given by the launch */
};

/* Returns the version with record calls, which takes the launch context after the program's arguments. */
const void *mt_function_traced(const struct mt_function *f);
/* Returns the version without record calls, the one that the program launches, or NULL if there is only one
 * version. */
const void *mt_function_plain(const struct mt_function *f);
/* Returns why the current device can run f in this configuration only without record calls:
 * cudaErrorLaunchOutOfResources or cudaErrorCooperativeLaunchTooLarge; or cudaSuccess if it can, or if
 * nothing is known. */
cudaError_t mt_function_must_plain(const struct mt_function *f, const struct mt_launch_config *c);
/* Reports once per kernel that for this reason it runs without records. */
void mt_function_tell_plain(struct mt_function *f, const struct mt_launch_config *c, cudaError_t why);

/* ---- device code loaded by the program itself on the CPU device: cudaLibrary*, and modules and
 * libraries of the driver API. A library is a module without registration. ---- */

enum mt_library_error {
    MT_LIBRARY_OK,
    MT_LIBRARY_MEMORY,
    MT_LIBRARY_IMAGE,
    MT_LIBRARY_PTX,
    MT_LIBRARY_NO_BINARY
};
/* Makes a library of n >= 1 PTX texts, fatbins and cubins that belong together (copied). Makes the image at
 * once, which may take seconds. Returns an error kind with *why set to a sentence (freed by the caller) or
 * NULL; errors are also reported on stderr. */
enum mt_library_error mt_library_load(struct mt_module **out, const struct mt_device_code *code, size_t n,
                                      char **why);
/* Returns 1 if m is a library that was not unloaded. */
int mt_library_is(const struct mt_module *m);
/* Unloads a library after the work in its streams has ended, and forgets its kernels and variables. */
void mt_library_unload(struct mt_module *m);
/* Returns the kernel of this name, or NULL. */
struct mt_function *mt_library_kernel(struct mt_module *m, const char *name);
/* Finds the address and size of a variable. Returns 1, or 0 if there is none. */
int mt_library_variable(struct mt_module *m, const char *name, void **address, size_t *bytes);
/* Returns the contents of a file with a terminating NUL, freed by the caller, or NULL with errno set. */
void *mt_library_file(const char *path, size_t *bytes);

/* ---- MEMTRACE_CHECK=1 on the CPU device. Reports bad accesses, counts them per place and writes
 * them to companion files; runtime/cpu/check.c detects them. ---- */

/* Pools that the program announces (NVTX): in one, kernels may access its regions only, each of which is an
 * allocation in the trace. All of these return 1, or 0 without effect if there is no such pool or region, or
 * if it would overlap another one. Regions end with their pool, and pools with their block. */
int mt_heap_pool_begin(uint64_t base, uint64_t bytes); /* within one block */
int mt_heap_pool_end(uint64_t base);
int mt_heap_pool_clear(uint64_t base); /* ends its regions */
int mt_heap_region_begin(uint64_t pool, uint64_t base, uint64_t bytes, const struct mt_host_site *site);
int mt_heap_region_end(uint64_t base);
int mt_heap_region_resize(uint64_t base, uint64_t bytes);
/* At process exit: the memory of a pool without regions is its block's again, which may be a leak. */
void mt_heap_pools_finish(void);

/* Directs malloc and free of kernels to the heap above, and starts the checks, if there are any. Call before
 * the first launch. */
void mt_heap_start(void);

/* ---- failed CUDA calls, which become `failed` lines of companion files. Calls that the runtime makes within
 * another call do not count. ---- */

/* Called before and after each watched call of the program. Set for good; NULL: nothing is called. */
struct mt_call_hooks {
    void (*before)(void), (*after)(void);
};
extern const struct mt_call_hooks *_Atomic mt_call_hooks;

/* Returns 1 if calls are watched; only on the CPU device. */
int mt_failed_watched(void);
/* Begin and end of the function `name` on this thread. caller: return address in the program's code; if it is
 * in one of our functions for per-thread default streams, the address given to mt_failed_caller is used. */
void mt_failed_enter(const char *name, const void *caller);
/* code: the value returned, 0 for success; error: its name. */
void mt_failed_leave(int code, const char *error);
void mt_failed_caller(const void *caller);
/* Returns the place of these code addresses, the innermost first, followed by its callers (up to
 * MT_SITE_CALLERS) and NULLs: valid for ever; NULL if it is our own code, or at too many places. */
const struct mt_host_site *mt_failed_place(void *const *frame, unsigned n);
struct mt_cpu_launch;
struct mt_launch_line;

/* ---- details for the call under way; no effect if calls are not watched ---- */
void mt_failed_why(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says that [p, p + bytes) is not within one allocation. what: "destination" or the like. */
void mt_failed_range(const char *what, const void *p, uint64_t bytes);
/* Says that a copy of this kind ("DeviceToHost") has host and device memory the wrong way round. */
void mt_failed_turned(const char *kind, const char *what, const void *p);
/* Says that no block of these kinds (1 << enum mt_heap_kind) begins at p. */
void mt_failed_free(const void *p, unsigned kinds);

/* Writes at process exit how often each place failed again after its first report. */
void mt_failed_finish(void);
#endif
