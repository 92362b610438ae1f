/* The device room for others: which device this process runs on and its limits, its memory, what the program
 * has registered or loaded, and what MEMTRACE_CHECK finds. All of it is thread-safe. */
#ifndef MT_API_DEVICE_H
#define MT_API_DEVICE_H
#include "api/crt.h"
#include "base/fd.h"
#include "cpu/cpu.h"
#include "made_image.h"
#include "trace/site.h"
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

struct mt_range;

/* ---- device.c: the device of this process, chosen at the first CUDA call that needs one ---- */

/* 1: calls go to the real CUDA runtime. */
int mt_device_is_gpu(void);
/* The same without choosing: 0 when nobody has asked yet. */
int mt_device_chosen_gpu(void);
/* dlopen handle of the real CUDA runtime; NULL on the CPU device, or when there is none. */
void *mt_device_cudart(void);

/* dlopen handle of NVIDIA's driver, never of our own library in its place; NULL when there is none. */
void *mt_device_driver(void);
/* A library of the CUDA toolkit that memtrace was built with, opened, if base/trust.h lets it be; NULL. */
void *mt_device_toolkit(const char *file, int flags);

/* Limits of the CPU device: those of an sm_90 GPU. */
enum {
    MT_DEV_MAJOR = 9,
    MT_DEV_MINOR = 0,
    MT_DEV_THREADS_PER_BLOCK = 1024,
    MT_DEV_BLOCK_Z = 64,
    MT_DEV_GRID_YZ = 65535,
    MT_DEV_SHARED_BLOCK = 48 << 10,
    MT_DEV_SHARED_OPTIN = 227 << 10,
    MT_DEV_SHARED_SM = 228 << 10,
    MT_DEV_SHARED_RESERVED = 1 << 10, /* per block, by the system */
    MT_DEV_THREADS_PER_SM = 2048,
    MT_DEV_BLOCKS_PER_SM = 32,
    MT_DEV_CLUSTER = 8,              /* CTAs of a cluster; */
    MT_DEV_CLUSTER_NONPORTABLE = 16, /* of a kernel that is allowed to have more */
    MT_DEV_REGISTERS = 64 << 10,     /* per SM and per block */
    MT_DEV_KERNEL_REGISTERS = 32,
    MT_DEV_PITCH = 512,
    MT_DEV_ALIGN = 512, /* of allocations; what textures and surfaces of linear memory need */
    MT_DEV_TEXTURE_PITCH = 32,
    MT_DEV_TEXTURE_LINEAR = 1 << 28, /* texels in linear memory */
    MT_DEV_L2 = 4 << 20,
    MT_DEV_L2_PERSISTING = 3 << 20,
};
#define MT_DEV_GRID_X 0x7fffffffu
#define MT_DEV_KERNEL_HEAP (8u << 20) /* bytes for malloc in kernels, if nothing else is set */
#define MT_DEV_NAME "memtrace CPU device"
unsigned mt_device_sms(void);
uint64_t mt_device_memory(void); /* bytes in all, of each device */
/* Starts the worker pool once. 0 or an errno value. */
int mt_device_start(void);

/* ---- cudaLimit of each GPU, on the CPU device ---- */

/* 0: there is no such limit. */
int mt_limit_there(enum cudaLimit limit);
size_t mt_limit_get(int device, enum cudaLimit limit);
/* Whether the value may be, who calls has asked. */
void mt_limit_set(int device, enum cudaLimit limit, size_t value);
/* As at first. */
void mt_limits_reset(int device);

/* ---- heap.c: memory of the CPU device, which kernels may touch and cudaMemcpy may name. All of it lies in
 * the process's own address space, so device pointers are host pointers. ---- */

/* Under MEMTRACE_CHECK: bytes that belong to nobody after a block; more after a large one. */
#define MT_HEAP_GAP (16u << 10)
enum mt_heap_kind {
    MT_HEAP_DEVICE, /* cudaMalloc and its kind */
    MT_HEAP_MANAGED,
    MT_HEAP_HOST,       /* cudaMallocHost, cudaHostAlloc */
    MT_HEAP_REGISTERED, /* the program's own, cudaHostRegister */
    MT_HEAP_SYMBOL,     /* device variables; flags: enum mt_var_kind */
    MT_HEAP_IPC,        /* another process's, cudaIpcOpenMemHandle */
};

struct mt_block {
    uint64_t base, bytes;
    enum mt_heap_kind kind;
    int device;           /* whose memory it is; of the host's: that was current */
    uint64_t readers;     /* bit: that device may touch it; 0: the device and those whose peer it is */
    unsigned flags;       /* as given to the API; device memory: its pool, 0 for none */
    uint64_t mapped_base; /* mapping after it, 0: small or not ours */
    uint64_t mapped_bytes;
    struct mt_segment *segment;              /* of a small block (arena.h), or NULL */
    struct mt_fd shared;                     /* the file that a large one lies on; ino 0: none */
    uint32_t serial;                         /* among those that were shared; 0: it was not */
    int64_t id;                              /* of its `alloc` line, + 1; 0: it has none, or is not known */
    int condemned;                           /* to be freed when a stream is so far */
    const struct mt_host_site *site, *freed; /* of the calls that made and freed it, or NULL */
    struct mt_block *next;                   /* heap.c's own */
};

/* `bytes` > 0 of fresh memory, aligned to 512. NULL: the device's memory is used up. */
void *mt_heap_alloc(int device, size_t bytes, enum mt_heap_kind kind, unsigned flags);
/* Puts memory that is not ours into the table. 0, EEXIST when part of it is there, ENOMEM. */
int mt_heap_adopt(int device, void *base, size_t bytes, enum mt_heap_kind kind, unsigned flags);
/* Frees the block that begins at `base` when its kind is in `kinds` (bits 1 << kind). 1, or 0:
 * no such block. */
int mt_heap_free(void *base, unsigned kinds);
/* The same in two steps: from the first one on nobody else can free it,
 * kernels may use it until the second. */
int mt_heap_condemn(void *base, unsigned kinds);
int mt_heap_free_condemned(void *base);
/* Puts the block that begins at `base` on a shared file: its descriptor, which stays ours, where in it, and a
 * number that no other block had. 0; EINVAL: no device memory begins there; ENOTSUP: the program has closed
 * it; another errno. */
struct mt_heap_file {
    uint64_t offset, bytes;
    int fd;
    uint32_t serial;
};
int mt_heap_share(void *base, struct mt_heap_file *f);
/* The block that holds `p`. 1 and *out, or 0. */
int mt_heap_find(const void *p, struct mt_block *out);
/* The block that begins at `p` has this `alloc` line; id -1: none. */
void mt_heap_identify(const void *p, int64_t id);
/* Bytes from `p` to the end of its block, and *out; 0: nothing holds `p`. Memory of cuMemMap goes on in what
 * is mapped right behind it, as accesses across such borders are allowed; with a device of 0 or more only in
 * what that may touch. */
uint64_t mt_heap_reach(const void *p, int device, struct mt_block *out);
/* The last block that begins at or below `address` and the first one above; bytes 0: there is none. */
void mt_heap_around(uint64_t address, struct mt_block *below, struct mt_block *above);
/* Under MEMTRACE_CHECK=1: the block, freed some time ago, that held `address`. 1 and *out, or 0. */
int mt_heap_find_freed(uint64_t address, struct mt_block *out);
/* Counts changes of the table, from 1. */
extern _Atomic uint64_t mt_heap_generation;
uint64_t mt_heap_used(int device);
/* The device whose own memory is at `p`; -1: it is everybody's, or nobody's. */
int mt_heap_owner(const void *p);
/* May kernels of the device touch the block? */
int mt_heap_reaches(int device, const struct mt_block *b);
/* These may, and no others: the block that begins at `base`; all of this pool. */
void mt_heap_open(const void *base, uint64_t readers);
void mt_heap_open_pool(unsigned pool, uint64_t readers);
/* Frees all blocks of the device but symbols and registered memory. */
void mt_heap_reset(int device);

/* ---- the heap of malloc and free in kernels ---- */

/* Before the first launch: kernels' malloc and free come here from then on. */
void mt_device_heap_start(void);
/* cudaLimitMallocHeapSize. 0; -1: a kernel has used the heap already. */
int mt_device_heap_limit(size_t bytes);
/* As mt_ranges_find and mt_ranges_around. */
int mt_device_heap_find(uint64_t address, struct mt_range *out);
void mt_device_heap_around(uint64_t address, struct mt_range *below, struct mt_range *above);
/* Frees all; the limit may be set again. */
void mt_device_heap_reset(void);

/* ---- module.c: fat binaries that the program registered, with their kernels and variables. They are kept
 * for both devices, and never freed: kernels may run until the process ends. ---- */

/* The state of a module, which only goes forward:
 *
 *   OPEN -> ENDED -> READ -> LOADED -> GONE
 *
 *   OPEN   registers its kernels and variables        __cudaRegisterFatBinary
 *   ENDED  all of them are registered                 __cudaRegisterFatBinaryEnd
 *   READ   its image's tables are bound, or it carries no image (foreign)
 *   LOADED the device in use knows it                 when something of any module is first needed
 *   GONE   nothing finds it any more                  __cudaUnregisterFatBinary
 *
 * A library (cudaLibrary*, cuModule*) begins as LOADED. */
enum { MT_MODULE_OPEN, MT_MODULE_ENDED, MT_MODULE_READ, MT_MODULE_LOADED, MT_MODULE_GONE };

/* An image that mt-ptx makes when it is first needed (made_image.h): of a module that carries none, or of one
 * kernel of a large module. Its state, which only goes forward:
 *
 *   UNASKED -> BEGUN -> CLAIMED -> ASKED -> SETTLED
 *
 *   BEGUN   mt-ptx is at it, and nobody has asked for it
 *   CLAIMED a thread waits for mt-ptx, or the module goes: nobody may begin it ahead of time
 *   ASKED   `code` is there, or the reason why not
 *   SETTLED the image is loaded, or will never be
 *
 * A state may be passed over. */
enum { MT_MADE_UNASKED, MT_MADE_BEGUN, MT_MADE_CLAIMED, MT_MADE_ASKED, MT_MADE_SETTLED };
struct mt_made_image {
    _Atomic unsigned state;
    _Atomic int loading; /* threads that load it */
    struct mt_making *begun;
    struct mt_made_code *_Atomic code;
};

struct mt_module {
    _Atomic unsigned state; /* MT_MODULE_... */
    _Atomic int loading;    /* threads that read its image */
    const void *wrapper;    /* what __cudaRegisterFatBinary got */
    /* Relocatable device code that no device linker saw: the files' fatbins instead of a wrapper, and the
     * shared object that they are in. */
    const void **fatbins;
    size_t nfatbins;
    const void *object;
    struct mt_image *image;
    const char *why; /* the reason why there is no image; or mt_image_too_old: there is, and a GPU cannot run
                        its kernels */
    int said;        /* the missing image was reported */
    int foreign;     /* no image came with it: one is made when something of it is needed */
    struct mt_made_image made;
    void *later; /* kernels that have images of their own (mt_made_kernel_next); its own image is what they
                    share. NULL: all are in it */
    size_t later_end; /* bytes of `later` */
    void **real;      /* the real runtime's handle */
    struct mt_function *functions;
    struct mt_variable *variables;
    struct mt_module *next;
};

struct mt_function {
    const void *host; /* the address that the program launches */
    char *name;       /* mangled */
    char *device;     /* as registered */
    int thread_limit;
    struct mt_module *module;
    const struct mt_image_kernel *kernel; /* NULL: not in the image; valid once the module is loaded, */
    struct mt_image *image;               /* which it is in */
    struct mt_made_image made;            /* that image, where it has one of its own; */
    const char *why;                      /* why it has none */
    int dynamic_shared_max;               /* attribute; -1: the default */
    int carveout;
    int cluster[3];          /* attributes: the size that its clusters must have, 0: any; */
    int cluster_must;        /* a launch must say a size; */
    int cluster_nonportable; /* it may be above MT_DEV_CLUSTER */
    int cluster_policy;
    /* On a GPU: its version with record calls (gpu_function.c),
     * known to the real runtime by traced_key's address. */
    int has_traced;
    _Atomic int told; /* that the version without runs in its place; on the CPU device: that it cannot run */
    char traced_key;
    cudaKernel_t traced_handle;
    struct mt_function *_Atomic before;       /* registered with the same address */
    _Atomic int told_folded;                  /* that it is another kernel */
    char *_Atomic pretty, *_Atomic signature; /* without a table: its name; made when it is first needed */
    const char *_Atomic shown;                /* what traces call it; NULL: not asked for yet */
    struct mt_function *next;                 /* of the module */
};

struct mt_variable {
    const void *host;
    void **managed; /* pointer to set to the variable's address, or NULL */
    int own;        /* a __managed__ variable of clang's code: `host` is the variable itself */
    char *name, *device;
    size_t size;
    int ext, constant, global;
    void *address; /* on the CPU device, its first GPU's, once loaded; NULL: not in the image */
    struct mt_module *module;
    struct mt_variable *next;
};

/* The function launched as `f`: a host stub's address or a handle from mt_function_handle. NULL: not
 * registered. Its module is loaded, which may take a while where an image has to be made. */
struct mt_function *mt_function_find(const void *f);
cudaKernel_t mt_function_handle(struct mt_function *f);
/* 1: it is the address of several kernels, which is said once; mt_function_find knows none of them by it. */
int mt_function_is_folded(const void *host);
/* Another name for a function: the real runtime's kernel handle. */
void mt_function_alias(const void *alias, struct mt_function *f);

/* Gives a module its image and all that the image's tables name; or the reason why there is none, which the
 * module keeps. */
void mt_module_bind(struct mt_module *m, struct mt_image *image, const char *why);
/* A module's image as one of several GPUs has it, with variables of its own. NULL: there is none, which was
 * said. */
struct mt_image *mt_module_image_on(struct mt_image *image, int device);
/* Its kernels and variables are known no longer. */
void mt_module_forget(struct mt_module *m);
/* The module's fatbins; NULL: what it registered is not one. */
const void *const *mt_module_fatbins(const struct mt_module *m, size_t *n);
/* Says once per module why its kernels cannot run; f is the kernel that was called. Of a foreign module each
 * kernel is named once. */
void mt_function_complain(struct mt_function *f);
/* Says once per module why its kernels run on a GPU without a trace. */
void mt_module_untraced(struct mt_module *m, const char *kernel);
/* Registers everything with the real runtime, and what comes later as it comes. */
void mt_modules_to_gpu(void);
/* Logs the addresses of device variables on a GPU, once. */
void mt_modules_log_symbols(void);

/* ---- gpu_function.c: the two versions that a kernel has on a GPU, without record calls and with ---- */

struct mt_launch_config {
    dim3 grid, block;
    size_t shared; /* dynamic bytes */
    cudaStream_t stream;
    int cooperative;
    dim3 cluster; /* CTAs of a cluster, x 0: the launch does not say */
};

/* Registers f with the real runtime, and its version with record calls, if the GPU's code has one; f's module
 * is loaded. */
void mt_function_register(void **real, struct mt_function *f);
/* What to launch for records, which takes the launch context after the program's arguments. */
const void *mt_function_traced(const struct mt_function *f);
/* What to launch without, which is what the program launches; NULL: there is one version only. */
const void *mt_function_plain(const struct mt_function *f);
/* Why the current device cannot run it with record calls in this configuration, though it can without:
 * cudaErrorLaunchOutOfResources or cudaErrorCooperativeLaunchTooLarge; cudaSuccess:
 * it can, or nothing is known. */
cudaError_t mt_function_must_plain(const struct mt_function *f, const struct mt_launch_config *c);
/* For that reason it runs without although it was to be traced: says so, once per kernel. */
void mt_function_tell_plain(struct mt_function *f, const struct mt_launch_config *c, cudaError_t why);
/* mt_function_traced for launches by handle; NULL: there is one version only. */
cudaKernel_t mt_function_traced_handle(struct mt_function *f);

/* ---- library.c: device code that the program loads by itself, on the CPU device: cudaLibrary*, and the
 * modules and libraries of the driver API. A library is a module that nothing registered. ---- */

enum mt_library_error {
    MT_LIBRARY_OK,
    MT_LIBRARY_MEMORY,
    MT_LIBRARY_IMAGE,
    MT_LIBRARY_PTX,
    MT_LIBRARY_NO_BINARY
};
/* Makes a library of PTX text, fatbins and cubins that belong together (n >= 1; copied). The image is made
 * now, which may take seconds. What went wrong, and *why as a sentence, the caller's to free, or NULL; it was
 * reported, too. */
enum mt_library_error mt_library_load(struct mt_module **out, const struct mt_device_code *code, size_t n,
                                      char **why);
/* Is it one, and not unloaded? */
int mt_library_is(const struct mt_module *m);
/* What is in its streams ends first; its kernels and variables are known no longer. */
void mt_library_unload(struct mt_module *m);
/* NULL: it has none of this name. */
struct mt_function *mt_library_kernel(struct mt_module *m, const char *name);
/* The address and size of a variable. 1, or 0: there is none. */
int mt_library_variable(struct mt_module *m, const char *name, void **address, size_t *bytes);
/* A file's contents with a NUL behind them; the caller's to free. NULL with errno. */
void *mt_library_file(const char *path, size_t *bytes);

/* ---- check.c: MEMTRACE_CHECK=1 on the CPU device. Bad accesses are reported, counted per place and written
 * into companions; the accesses themselves are looked at by runtime/cpu/check.c. ---- */

/* Before the first launch; does nothing unless the option is set, or there are several devices. */
void mt_check_start(void);
/* A kernel has allocated memory, or freed this. */
void mt_check_device_heap(const struct mt_range *freed);

/* ---- failed calls of CUDA, which become `failed` lines of companions. A call that the runtime itself makes
 * within another one does not count. ---- */

/* 1: calls are watched, on the CPU device. */
int mt_failed_watched(void);
/* This thread enters the function `name`, and leaves it. caller: return address in the program's code; if
 * that is one of our own functions for per-thread default streams, what mt_failed_caller said counts. */
void mt_failed_enter(const char *name, const void *caller);
/* code: as returned, 0 for success; error: its name. */
void mt_failed_leave(int code, const char *error);
void mt_failed_caller(const void *caller);

struct mt_cpu_launch;
struct mt_launch_line;
/* A launch ended with this status: an event of its own, as the call returned long ago. */
void mt_failed_launch(const struct mt_cpu_launch *l, const struct mt_launch_line *line, int status);

/* ---- more exact words, for the call under way; nothing where it is not watched ---- */

void mt_failed_why(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* [p, p + bytes) is not in one allocation. what: "destination". */
void mt_failed_range(const char *what, const void *p, uint64_t bytes);
/* A copy of this kind ("DeviceToHost") has memory of the device where it says that of the host is, or of the
 * host where it says the device's. */
void mt_failed_turned(const char *kind, const char *what, const void *p);
/* No block of these kinds (1 << enum mt_heap_kind) begins at p. */
void mt_failed_free(const void *p, unsigned kinds);

/* The process ends: what was counted beyond the first of each place. */
void mt_failed_finish(void);
#endif
