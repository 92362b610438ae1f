/* Interface between the pass, the CPU image that it emits, the builtins compiled to bitcode and
 * libmemtrace.so.
 *
 * A CPU image is an x86-64 shared object made from the *instrumented* device module. It exports one symbol,
 * `mt_image` (struct mt_image_head). It imports mt_cpu_tls and the mt_cpu_* functions below from
 * libmemtrace.so. It is stored after NVIDIA's fatbin: at fatbin data + header size + fatbin size (both in the
 * fatbin header), rounded up to 8, is struct mt_carrier. Included by C code of the host and, compiled to LLVM
 * bitcode, by runtime/cpu/builtins. */
#ifndef MT_CPU_ABI_H
#define MT_CPU_ABI_H
#include <stdint.h>

#define MT_IMAGE_MAGIC 0x474d544du /* "MTMG" */
#define MT_IMAGE_VERSION 23u
/* Oldest image version for a GPU: in older ones the program's own kernels have the hidden parameter. */
#define MT_IMAGE_VERSION_OWN_NAMES 9u

#define MT_PAYLOAD_MAGIC "MTCPUIM1" /* magic of 8 bytes, without NUL */
#define MT_PAYLOAD_LIST "MTCPUIMN"  /* several images: u64 size, bytes, zeros up to 8, for each */
struct mt_payload {
    char magic[8];
    uint64_t size; /* bytes of the shared object or of the list, which follows */
    /* followed by the image: unsigned char image[size]; */
};
/* Fatbin that carries the payload. NVIDIA's tools read a section fatbin by fatbin and stop at anything else,
 * so the payload is the only entry of a fatbin, of a kind unknown to them. Output of mt-ptx has the payload
 * alone. */
#define MT_CARRIER_MAGIC 0xba55ed50u
#define MT_CARRIER_KIND 0x4d54u
#define MT_CARRIER_ENTRY 64u /* bytes of the head of the entry */
struct mt_carrier {
    uint32_t magic;
    uint16_t version, header_size; /* version 1; size of the fields before `kind` */
    uint64_t size;                 /* bytes of the fatbin after these fields */
    uint16_t kind, entry_version;  /* first fields of the entry */
    uint32_t entry_header_size;
    uint64_t entry_size; /* bytes of the payload and its image, padded to 8 */
    uint32_t compressed[2], code_version, arch;
    uint64_t name, flags, more[2];
    struct mt_payload payload;
};
_Static_assert(sizeof(struct mt_carrier) == 16 + MT_CARRIER_ENTRY + sizeof(struct mt_payload), "no gaps");

/* Prefix of the comment line of device PTX that carries the image: after it the object in base64, then LF.
 * The object is relocatable; fatbinary of the overlay links it into the shared object. */
#define MT_PTX_PREFIX "// @memtrace-cpu-image "

/* Prefix of a line with the cluster size of a kernel: the kernel's name and three numbers, each after a
 * blank. LLVM 19 cannot write the directives of __cluster_dims__; the tools of the overlay put them after the
 * parameters. */
#define MT_PTX_CLUSTER "// @memtrace-cluster "

/* Prefixes of device symbols that the images of one program share (-fgpu-rdc), to distinguish them from
 * symbols of the host; the second is for shared variables. An image defines some and needs others. */
#define MT_DEVICE_PREFIX "mtd."
#define MT_SHARED_PREFIX "mts."
/* Positions of the shared variables of such an image in a CTA's shared memory; set by the loader. */
struct mt_image_shared {
    uint64_t base;    /* offset of this image's static variables */
    uint64_t dynamic; /* offset of `extern __shared__` arrays: after the static variables of all images */
};

/* Place of a variable that has one in the whole program: offset after the static variables of its image. */
struct mt_image_shared_place {
    uint64_t offset;
    const struct mt_image_shared *home;
};

/* Suffix of a kernel of the GPU's code that has record calls (MT_KERNEL_GPU_RECORDS) and the hidden
 * parameter. The kernel with the program's own name has the program's parameters, for any caller. */
#define MT_TRACED_SUFFIX "__memtrace_traced"

enum mt_kernel_flags {
    MT_KERNEL_TRACED = 2,        /* accesses are recorded; clear: skipped by attribute, pragma or filter */
    MT_KERNEL_PRINTF = 4,        /* the kernel may print */
    MT_KERNEL_COUNTED = 32,      /* accesses are counted as well (mt_cpu_tls.counts) */
    MT_KERNEL_NO_RECORDS = 64,   /* accesses are counted instead of recorded */
    MT_KERNEL_GPU_UNTRACED = 16, /* traced, but not on a GPU */
    MT_KERNEL_GPU_RECORDS = 128, /* the GPU's code has a version with record calls, under MT_TRACED_SUFFIX */
    MT_KERNEL_GPU_ALONE = 512,   /* the GPU's code has no version without record calls */
    MT_KERNEL_FLUSH = 256,       /* computes with float only, and flushes denormals to zero */
    MT_KERNEL_WARPS = 1024,      /* vector code runs one warp at a time, and warps wait for each other */
    MT_KERNEL_BARRIERS = 2048,   /* barriers and accesses of shared memory are recorded */
    MT_KERNEL_PARTED = 4096,     /* lanes that hardware runs separately may be joined in records */
    MT_KERNEL_GPU_LEFT_OUT = 8192, /* with GPU_UNTRACED: compiled so (gpu-trace=off) */
    MT_KERNEL_FRAMES = 8,          /* functions keep frame pointers, since activemask walks the call stack */
};
/* Prefix of the name of the pointer that belongs to a MT_VAR_MANAGED variable. */
#define MT_MANAGED_PREFIX "managed."
enum mt_var_kind {
    MT_VAR_DEVICE = 0,
    MT_VAR_CONSTANT = 1,
    MT_VAR_MANAGED = 3, /* `address` is that of a pointer to the variable. Code loads it, and the runtime may
                         * set it before the first launch; until then it points into the image */
};
enum mt_note_kind {
    MT_NOTE_UNTRACED = 0,    /* accesses global memory without a record; counted when executed */
    MT_NOTE_UNSUPPORTED = 1, /* cannot run on the CPU device: executing it fails the launch */
    MT_NOTE_PLACE = 2,       /* a call that memtrace check may report: mt_cpu_tls.place */
};

/* Memory of a variable that accesses must stay in. */
enum mt_object_space {
    MT_OBJECT_GLOBAL, /* __device__ or __constant__ */
    MT_OBJECT_SHARED,
    MT_OBJECT_LOCAL,
};

#define MT_F_PTR(n) const void *n;
#define MT_F_U32(n) uint32_t n;
#define MT_F_U64(n) uint64_t n;
#define MT_F(kind, name) MT_F_##kind(name)
#define MT_IMAGE_KERNEL MT_F
struct mt_image_kernel {
#include "image.def"
};
#define MT_IMAGE_PARAM MT_F
struct mt_image_param {
#include "image.def"
};
#define MT_IMAGE_SITE MT_F
struct mt_image_site {
#include "image.def"
};
#define MT_IMAGE_OBJECT MT_F
struct mt_image_object {
#include "image.def"
};
#define MT_IMAGE_VAR MT_F
struct mt_image_var {
#include "image.def"
};
#define MT_IMAGE_NOTE MT_F
struct mt_image_note {
#include "image.def"
};
#define MT_IMAGE_HEAD MT_F
struct mt_image_head {
#include "image.def"
};
#undef MT_F

/* Shared addresses of 32 bits. The shared memory of all CTAs of a cluster and the hole below it span less
 * than this, and the low half of their addresses is not near 0 or 2^32. So a 32-bit address is the low half
 * of a pointer if it is as near as this to the CTA's own, else an offset. */
#define MT_SHARED_WINDOW (8u << 20)
/* Returns the address that a 32-bit shared address stands for in a CTA whose shared memory begins at `base`.
 * The pass emits equivalent code (mt_asm_shared_address). */
static inline uint64_t mt_shared_whole(uint32_t p, uint64_t base)
{
    uint32_t delta = p - (uint32_t)base;
    return base + (delta + MT_SHARED_WINDOW < 2 * MT_SHARED_WINDOW ? (uint64_t)(int32_t)delta : p);
}

/* Bytes below a cluster's shared memory that nothing may access: a CTA that the cluster lacks would have its
 * shared memory there, so that an access faults. Large enough for an offset plus an index of 227 KiB each. */
#define MT_SHARED_HOLE (1u << 20)
#define MT_SHARED_NOWHERE (640u << 10)

/* Bytes after a CTA's shared memory for cooperative groups (%reserved_smem_offset_*), zero at the start. */
#define MT_SHARED_RESERVED 1024

/* Sums of the second count: accesses and bytes of loads, of stores, of atomics. */
#define MT_COUNTS 6u

#define MT_WORKSPACE 64u /* bytes of the counters of a grid's barrier */

struct mt_access_run; /* memtrace/device.h */

/* State of the device thread that runs on this OS thread, and of its trace buffer. Device threads never
 * change OS threads. The pass reads no field by offset: all access is through builtins. */
struct mt_cpu_tls {
    uint32_t tid[3], ctaid[3], ntid[3], nctaid[3];
    uint32_t laneid, warpid, smid, nsmid;
    char *shared;          /* start of this CTA's shared memory: static part, then dynamic part */
    uint64_t shared_bytes; /* static + dynamic bytes, rounded up to 16, + MT_SHARED_RESERVED */
    /* Reserved range for everything that has an address but is not global memory (stacks of OS threads and
     * fibers, shared memory, kernel arguments). There is one for the process, so one comparison tells whether
     * a generic pointer is global (constants apart, see mt_cpu_is_constant). */
    uint64_t local_base, local_bytes;
    /* Trace buffer of runs, from code for whole warps and from threads: appended at run; at run == run_end
     * mt_cpu_run_room is called. Under MEMTRACE_CHECK=1 run is always run_end, so that each access is
     * checked. Addresses of a run that is not evenly spaced go to run_address, which always has room for
     * them. */
    struct mt_access_run *run, *run_end;
    uint64_t *run_address;
    uint64_t run_cta; /* CTA as in raw records */
    uint64_t grid_id;
    uint32_t dyn_shared; /* bytes of dynamic shared memory (%dynamic_smem_size) */
    uint32_t cooperative;
    void *cta_state; /* state owned by the scheduler */
    void *launch;    /* state owned by the launch */
    /* Smallest range with all __constant__ variables of all images; an address outside is not constant. */
    uint64_t const_base, const_bytes;
#define MT_GRID_BARRIER 1 /* index of the word that is the grid's barrier */
    void *grid_workspace; /* cooperative launches: MT_WORKSPACE bytes, target of %envreg1 (high half) and
                           * %envreg2 (low half) */
    uint64_t untraced;    /* accesses without a record, in CTAs that this thread has not reported yet */
    uint64_t counts[MT_COUNTS]; /* counted since the worker started on this launch */
    /* Shared memory of the cluster's CTAs: start of rank 0, and distance between ranks. Without clusters the
     * CTA forms one alone. */
    char *cluster_shared;
    uint64_t cluster_stride;
    uint32_t cluster[3];           /* size of the cluster, in CTAs, per dimension */
    uint32_t in_cluster;           /* 1 if the launch or the kernel requests clusters */
    uint32_t warp_first, warp_end; /* range of threads for code of whole warps, set at its call */
    uint32_t checked;              /* 1: MEMTRACE_CHECK, each access has a call of its own */
    uint32_t compact;              /* 1: records include shared and local memory and barriers */
    uint32_t
        site_base;  /* added to the sites of records, unless the image does so (mt_image_head.site_base) */
    uint32_t place; /* note of the last barrier, warp function, malloc or printf, from 1 (with records of
                     * shared memory); 0: not known */
};

#pragma GCC visibility push(default)
#ifdef __cplusplus
#define MT_THREAD thread_local
#else
#define MT_THREAD _Thread_local
#endif
extern MT_THREAD struct mt_cpu_tls mt_cpu_tls __attribute__((tls_model("initial-exec")));

/* Kinds of record calls (builtins/access.c); the pass uses these names in __mt_access_…. */
enum mt_record_of {
    MT_RECORD_GLOBAL,
    MT_RECORD_GENERIC,
    MT_RECORD_SHARED,
    MT_RECORD_NUMBER,
    MT_RECORD_ANY,
    MT_RECORD_MBARRIER,
    MT_RECORD_PHASE,
    MT_RECORD_CONSTANT, /* of no trace: only checked */
};

/* ---- functions that images import from libmemtrace.so ----------------------------------------------- */

/* Makes room at run == run_end, before the access of these lanes: returns the new `run`, with room for one
 * run and 32 addresses. meta: type << 28 | bytes; site: number in the image. A full buffer is passed on. The
 * lanes are at base + i * stride, or at lane[i] if that is not NULL. bad: lanes that must not access, under
 * MEMTRACE_CHECK=1. */
struct mt_run_room {
    struct mt_access_run *run;
    uint64_t bad;
};
struct mt_run_room mt_cpu_run_room(uint64_t base, int64_t stride, const uint64_t *lane, uint32_t mask,
                                   uint32_t meta, uint32_t site);
/* Makes room for the entry of a region (region.h), of `units` runs, and returns it: the new `run`. */
struct mt_access_run *mt_cpu_region_room(uint32_t units);
/* Checks loads of constant memory by these lanes, of which no trace has records. Returns lanes that must not
 * load. */
uint32_t mt_cpu_check_constant(const uint64_t *lane, uint32_t mask, uint32_t meta, uint32_t site);
/* Ends the warp or thread, for code that cannot leave out bad lanes. */
void mt_cpu_run_bad(void);
/* Returns the address for a thread's bad access of this meta: zeroed memory, private to the thread until its
 * next record call. Ends the thread if the access is too large. */
uint64_t mt_cpu_run_nowhere(uint32_t meta);
/* Returns 1 if this address is __constant__ data of any image. (Only called for generic pointers inside the
 * range of constants.) */
int mt_cpu_is_constant(const void *p);

/* Attributes of calls that depend on which other threads make them: the optimiser must not move them under
 * other conditions. */
#ifdef __clang__
#define MT_CONVERGENT __attribute__((convergent, nomerge))
#else
#define MT_CONVERGENT
#endif

/* CTA barriers. kind: 0 plain, 1 popc, 2 and, 3 or; returns the reduction. id 0..15, count 0 = whole CTA. */
#define MT_BARRIER_SOME 4u /* or-ed to kind: lanes of a warp may arrive separately (not PTX's .aligned) */
/* First bit, in kind, of the number of a warp barrier's place in the code; 0: not known. */
#define MT_BARRIER_PLACE 8
MT_CONVERGENT uint32_t mt_cpu_barrier(uint32_t kind, uint32_t id, uint32_t count, uint32_t value);
/* Barrier for all lanes of a warp that have not exited. `said`: number of lanes whose value is not 0 (for
 * kind 2: is 0). `count` is rounded up to whole warps. Only for code of whole warps. */
MT_CONVERGENT uint32_t mt_cpu_warp_barrier(uint32_t kind, uint32_t id, uint32_t count, uint32_t said);
/* bar.arrive: counts the thread without waiting. */
MT_CONVERGENT void mt_cpu_barrier_arrive(uint32_t id, uint32_t count, uint32_t aligned);

/* Barrier of a cluster: completes when all its threads that have not exited have arrived. */
MT_CONVERGENT void mt_cpu_cluster_arrive(void);
MT_CONVERGENT void mt_cpu_cluster_wait(void);

/* Warp collectives: wait until all lanes of mask that have not exited arrive at the same kind of
 * operation. */
enum mt_shfl_mode { MT_SHFL_UP, MT_SHFL_DOWN, MT_SHFL_BFLY, MT_SHFL_IDX };
enum mt_vote_mode { MT_VOTE_ALL, MT_VOTE_ANY, MT_VOTE_UNI, MT_VOTE_BALLOT };
enum mt_redux_op {
    MT_REDUX_ADD,
    MT_REDUX_UMIN,
    MT_REDUX_UMAX,
    MT_REDUX_MIN,
    MT_REDUX_MAX,
    MT_REDUX_AND,
    MT_REDUX_OR,
    MT_REDUX_XOR
};
MT_CONVERGENT void mt_cpu_syncwarp(uint32_t mask);
/* Returns the value in the low 32 bits and the predicate (source lane in range) in bit 32. `c` is PTX's
 * clamp/segment operand. */
MT_CONVERGENT uint64_t mt_cpu_shfl(uint32_t mask, uint32_t value, uint32_t lane, uint32_t c, uint32_t mode);
MT_CONVERGENT uint32_t mt_cpu_vote(uint32_t mask, uint32_t pred, uint32_t mode);
MT_CONVERGENT uint32_t mt_cpu_match_any(uint32_t mask, uint64_t value);
MT_CONVERGENT uint32_t mt_cpu_match_all(uint32_t mask, uint64_t value); /* returns the mask, or 0 */
MT_CONVERGENT uint32_t mt_cpu_redux(uint32_t mask, uint32_t value, uint32_t op);
/* Returns the lanes of this warp at this very call (site = return address), once no fiber can run. */
MT_CONVERGENT uint32_t mt_cpu_activemask(void);
/* Reports lanes whose result CUDA does not define, for code of whole warps. from: for each of the 32 lanes
 * the missing lane that it shuffles from; NULL: the mask of the warp function does not name the lanes. */
void mt_cpu_warp_undefined(uint32_t warp, uint32_t lanes, const uint32_t *from);

/* Reports that these lanes reach a barrier while others are elsewhere, or (others 0) may have ended, for code
 * of whole warps. */
void mt_cpu_warp_apart(uint32_t warp, uint32_t lanes, uint32_t others);
/* Reports lanes of one store that write different values to one word. from: value of each lane. */
void mt_cpu_same_word(void *const *at, uint32_t mask, const void *from, uint32_t size);

/* Lets other runnable warps run first, for code of whole warps that waits. */
MT_CONVERGENT void mt_cpu_warp_turn(void);

/* ---- matrices of a warp ----
 *
 * One wmma, mma, ldmatrix, stmatrix or movmatrix. All lanes of the warp meet; the last to arrive works for
 * all, so memory is as all lanes left it. `in`: input registers of the lane (multiply: of a, b, c one after
 * the other); `out`: its output registers, as bits, zero-extended. `p`: this lane's address (load, store,
 * ldmatrix, stmatrix); `stride`: elements from row to row (column to column) of a wmma load or store. */
enum mt_matrix_type {
    MT_MATRIX_NONE,
    MT_MATRIX_F16,
    MT_MATRIX_BF16,
    MT_MATRIX_TF32,
    MT_MATRIX_F32,
    MT_MATRIX_F64,
    MT_MATRIX_S8,
    MT_MATRIX_U8,
    MT_MATRIX_S4,
    MT_MATRIX_U4,
    MT_MATRIX_B1,
    MT_MATRIX_S32,
    MT_MATRIX_E4M3,
    MT_MATRIX_E5M2,
};
enum mt_matrix_kind {
    MT_MATRIX_LOAD,     /* wmma.load */
    MT_MATRIX_STORE,    /* wmma.store */
    MT_MATRIX_MULTIPLY, /* wmma.mma, mma */
    MT_MATRIX_LDMATRIX,
    MT_MATRIX_STMATRIX,
    MT_MATRIX_MOVMATRIX,
};
enum {
    MT_MATRIX_WMMA = 1,     /* fragments of a and b in half precision have 16 elements in any shape */
    MT_MATRIX_SATURATE = 2, /* .satfinite: integers are clamped */
    MT_MATRIX_AND = 4,      /* b1: and.popc; else xor.popc */
    MT_MATRIX_QUADS = 8, /* mma.m8n8k4 of half precision: four products, one for each group of eight lanes */
    MT_MATRIX_TRANS = 16,
};
struct mt_matrix_op {
    uint16_t kind, m, n, k;
    uint16_t matrix;       /* load, store: 'a', 'b', 'c' or 'd' */
    uint16_t row_a, row_b; /* row-major; load and store: row_a */
    uint16_t type[4];      /* types of d, a, b, c; load and store: type[0] */
    uint16_t flags, count; /* count: matrices of ldmatrix, stmatrix */
    uint16_t nin, nout;    /* number of registers of a lane: at most 32 */
};
#define MT_MATRIX_FIELDS (sizeof(struct mt_matrix_op) / sizeof(uint16_t))
MT_CONVERGENT void mt_cpu_matrix(const struct mt_matrix_op *op, void *p, uint64_t stride, const uint64_t *in,
                                 uint64_t *out);

/* Variant for code of whole warps, with the operands of each lane. */
MT_CONVERGENT void mt_cpu_warp_matrix(const struct mt_matrix_op *op, void *const *p, const uint64_t *stride,
                                      const uint64_t *const *in, uint64_t *const *out, uint32_t lanes);

/* Operation of a tensor copy (builtins/tensor.c): from global to shared memory, back, or a reduction of
 * elements of shared memory into global memory. */
enum mt_tensor_op {
    MT_TENSOR_LOAD,
    MT_TENSOR_STORE,
    MT_TENSOR_ADD,
    MT_TENSOR_MIN,
    MT_TENSOR_MAX,
    MT_TENSOR_INC,
    MT_TENSOR_DEC,
    MT_TENSOR_AND,
    MT_TENSOR_OR,
    MT_TENSOR_XOR,
};

/* ---- textures and surfaces ----
 *
 * `what` encodes the PTX instruction: MT_TEX_GEOMETRY in the low bits, the others or-ed to it. `in` are the
 * operands as bits, one word each, in PTX's order: coordinates (after the layer, if any) at 0, the level of
 * detail or the first gradient at 4, the second gradient at 8. Results are bits, zero-extended. An invalid
 * object ends the launch with an error, and so does a surface coordinate out of range with MT_SURF_TRAP. */
enum mt_tex_geometry {
    MT_TEX_1D,
    MT_TEX_2D,
    MT_TEX_3D,
    MT_TEX_A1D,
    MT_TEX_A2D,
    MT_TEX_CUBE,
    MT_TEX_ACUBE,
};
enum {
    MT_TEX_GEOMETRY = 7,
    MT_TEX_LEVEL = 1 << 3,   /* flag: with a level of detail */
    MT_TEX_GRAD = 2 << 3,    /* flag: with gradients */
    MT_TEX_GATHER = 3 << 3,  /* flag: one channel of four texels */
    MT_TEX_MODE = 3 << 3,    /* mask of the modes of textures */
    MT_TEX_INTEGER = 1 << 5, /* integer coordinates: texels, unfiltered */
    MT_TEX_COMPONENT_AT = 6, /* shift: the channel of MT_TEX_GATHER */
    MT_SURF_TRAP = 0 << 3,   /* out of range: the launch fails */
    MT_SURF_CLAMP = 1 << 3,  /* out of range: the nearest element */
    MT_SURF_ZERO = 2 << 3,   /* reads give 0, writes do nothing */
    MT_SURF_MODE = 3 << 3,   /* mask of the modes of surfaces */
    MT_SURF_BYTES_AT = 5,    /* shift: bytes of one element, 1 to 8 */
    MT_SURF_COUNT_AT = 9,    /* shift: elements, 1 to 4 */
};
/* Reads a texture; out: four channels as 32 bits. */
void mt_cpu_tex(uint64_t object, uint32_t what, const uint32_t *in, uint64_t *out);
/* Load and store surface elements. in[0] (after a layer: in[1]) counts bytes. One value[i] or out[i] each. */
void mt_cpu_surf_load(uint64_t object, uint32_t what, const uint32_t *in, uint64_t *out);
void mt_cpu_surf_store(uint64_t object, uint32_t what, const uint32_t *in, const uint64_t *value);
/* Returns a size of a texture or surface; dimension 0 width, 1 height, 2 depth (in elements), 3 layers. */
uint32_t mt_cpu_tex_size(uint64_t object, uint32_t dimension);

/* Lets other fibers and CTAs run, at the back edge of a spinning loop. */
void mt_cpu_yield(void);
void mt_cpu_nanosleep(uint32_t ns);

/* Ends the launch with an error; never returns. */
#define MT_NORETURN __attribute__((noreturn))
MT_NORETURN void mt_cpu_trap(void);
MT_NORETURN void mt_cpu_unsupported(const char *what, const char *file, uint32_t line);
MT_NORETURN void mt_cpu_fail(int code, const char *what); /* code: a cudaError_t value */
MT_NORETURN void mt_cpu_exit_thread(void); /* PTX exit: ends this device thread; never returns */

int mt_cpu_vprintf(const char *format, const void *args);
MT_NORETURN void mt_cpu_assertfail(const char *message, const char *file, uint32_t line,
                                   const char *function);
void *mt_cpu_malloc(uint64_t bytes);
void mt_cpu_free(void *p);
uint64_t mt_cpu_globaltimer(void);
#pragma GCC visibility pop
#endif
