/* What the pass, the CPU image it emits, the builtins compiled to bitcode and libmemtrace.so agree on.
 *
 * A CPU image is an x86-64 shared object made from the *instrumented* device module. It exports one symbol,
 * `mt_image` (struct mt_image_head). It imports mt_cpu_tls and the mt_cpu_* functions below from
 * libmemtrace.so. It travels after NVIDIA's fatbin: at fatbin data + header size + fatbin size (both in the
 * fatbin header), rounded up to 8, is struct mt_carrier. Included by C code of the host and, compiled to
 * LLVM bitcode, by runtime/cpu/builtins. */
#ifndef MT_CPU_ABI_H
#define MT_CPU_ABI_H
#include <stdint.h>

#define MT_IMAGE_MAGIC 0x474d544du /* "MTMG" */
#define MT_IMAGE_VERSION 19u
/* Images before this one are refused on a GPU, too: there the program's own kernels have the hidden
 * parameter. */
#define MT_IMAGE_VERSION_OWN_NAMES 9u

#define MT_PAYLOAD_MAGIC "MTCPUIM1" /* 8 bytes, no NUL */
#define MT_PAYLOAD_LIST "MTCPUIMN"  /* several: each a u64 with its size, its bytes, and zeros up to 8 */
struct mt_payload {
    char magic[8];
    uint64_t size; /* bytes of the shared object, or of the list, that follow */
    /* unsigned char image[size]; */
};
/* NVIDIA's tools read a section fatbin by fatbin and end at what is not one: the payload is the one entry of
 * a fatbin, of a kind that they do not know. What mt-ptx makes has the payload alone. */
#define MT_CARRIER_MAGIC 0xba55ed50u
#define MT_CARRIER_KIND 0x4d54u
#define MT_CARRIER_ENTRY 64u /* bytes of the entry's head */
struct mt_carrier {
    uint32_t magic;
    uint16_t version, header_size; /* 1; of the fields up to `kind` */
    uint64_t size;                 /* of what follows them */
    uint16_t kind, entry_version;  /* the entry */
    uint32_t entry_header_size;
    uint64_t entry_size; /* of the payload and its image, and zeros up to 8 */
    uint32_t compressed[2], code_version, arch;
    uint64_t name, flags, more[2];
    struct mt_payload payload;
};
_Static_assert(sizeof(struct mt_carrier) == 16 + MT_CARRIER_ENTRY + sizeof(struct mt_payload), "no gaps");

/* Device PTX carries the image as one comment line: this prefix, then the object in base64, then LF. The
 * object is relocatable; the overlay's fatbinary links it into the shared object. */
#define MT_PTX_PREFIX "// @memtrace-cpu-image "

/* LLVM 19 cannot write the directives of a kernel with __cluster_dims__. A line of this prefix, the kernel's
 * name and three numbers, with a blank before each of these, has the overlay's tools
 * put them after its parameters. */
#define MT_PTX_CLUSTER "// @memtrace-cluster "

/* Device symbols that images of one program share (-fgpu-rdc) have this in front of their name, which keeps
 * them apart from the host's; shared variables have the second. An image defines some and needs others. */
#define MT_DEVICE_PREFIX "mtd."
#define MT_SHARED_PREFIX "mts."
/* Where the shared variables of such an image lie in a CTA's shared memory; the loader fills it in. */
struct mt_image_shared {
    uint64_t base;    /* of this image's static variables */
    uint64_t dynamic; /* of `extern __shared__` arrays: after the static variables of all images */
};

/* After the name of a kernel of the GPU's code: its version with record calls (MT_KERNEL_GPU_RECORDS), which
 * has the hidden parameter. The program's own name has the program's parameters, whoever launches it. */
#define MT_TRACED_SUFFIX "__memtrace_traced"

enum mt_kernel_flags {
    MT_KERNEL_TRACED = 2, /* its accesses are to be recorded; clear: skipped by attribute, pragma or filter */
    MT_KERNEL_PRINTF = 4, /* may print */
    MT_KERNEL_COUNTED = 32,      /* its accesses are counted, too (mt_cpu_tls.counts) */
    MT_KERNEL_NO_RECORDS = 64,   /* … instead of being recorded */
    MT_KERNEL_GPU_UNTRACED = 16, /* traced, but not on a GPU */
    MT_KERNEL_GPU_RECORDS = 128, /* the GPU's code has it with record calls, under MT_TRACED_SUFFIX, */
    MT_KERNEL_GPU_ALONE = 512,   /* and not without */
    MT_KERNEL_FLUSH = 256,       /* computes with float alone, whose denormals are zero */
    MT_KERNEL_WARPS = 1024,      /* its vector code runs one warp, and warps wait for one another */
    MT_KERNEL_BARRIERS = 2048,   /* its barriers have records, and so has its shared memory */
    MT_KERNEL_PARTED = 4096,     /* lanes that hardware keeps apart may be put together in records */
    MT_KERNEL_FRAMES = 8,        /* its functions keep frame pointers: activemask looks at all callers */
};
/* Before a variable's name: the pointer of MT_VAR_MANAGED. */
#define MT_MANAGED_PREFIX "managed."
enum mt_var_kind {
    MT_VAR_DEVICE = 0,
    MT_VAR_CONSTANT = 1,
    MT_VAR_MANAGED =
        3, /* its address is a pointer's, which says where the variable lies: code asks that pointer, and
            * the runtime may set it before the first launch. Until then it is the image's own */
};
enum mt_note_kind {
    MT_NOTE_UNTRACED = 0,    /* touches global memory, no record is made: counted when executed */
    MT_NOTE_UNSUPPORTED = 1, /* the CPU device cannot run it: executing it fails the launch */
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

/* Shared memory of all CTAs of a cluster, and the hole below it, lie less than this apart, and the low half
 * of its addresses is not near 0 or 2^32: a shared address of 32 bits is the low half of a pointer when it is
 * as near to the CTA's own, else an offset. */
#define MT_SHARED_WINDOW (8u << 20)
/* What a shared address of 32 bits stands for in a CTA whose shared memory begins at `base`; the pass has the
 * same for code (mt_asm_shared_address). */
static inline uint64_t mt_shared_whole(uint32_t p, uint64_t base)
{
    uint32_t delta = p - (uint32_t)base;
    return base + (delta + MT_SHARED_WINDOW < 2 * MT_SHARED_WINDOW ? (uint64_t)(int32_t)delta : p);
}

/* Below the shared memory of a cluster so many bytes are nobody's: shared memory of a CTA that the cluster
 * does not have lies there, and an access faults. So far below, an offset and an index of 227 KiB each stay
 * inside. */
#define MT_SHARED_HOLE (1u << 20)
#define MT_SHARED_NOWHERE (640u << 10)

/* After a CTA's shared memory, for cooperative groups (%reserved_smem_offset_*),
 * zero when the CTA begins. */
#define MT_SHARED_RESERVED 1024

/* Sums of the second count: accesses and bytes of loads, of stores, of atomics. */
#define MT_COUNTS 6u

struct mt_access_run; /* memtrace/device.h */

/* State of the device thread that runs on this OS thread, and of its trace buffer. Device threads never move
 * between OS threads. The pass reads no field by offset: all access is through builtins. */
struct mt_cpu_tls {
    uint32_t tid[3], ctaid[3], ntid[3], nctaid[3];
    uint32_t laneid, warpid, smid, nsmid;
    char *shared;          /* start of this CTA's shared memory: static part, then dynamic part */
    uint64_t shared_bytes; /* static + dynamic, rounded up to 16, + MT_SHARED_RESERVED */
    /* Everything that is not global memory and has an address (stacks of OS threads and fibers, shared
     * memory, kernel arguments) lies in [local_base, local_base + local_bytes): one reserved range for the
     * whole process, so "is this generic pointer global?" is one
     * comparison (constants apart, see mt_cpu_is_global). */
    uint64_t local_base, local_bytes;
    /* Trace buffer: accesses of warps, by code for whole warps, and of threads are appended at run; run ==
     * run_end calls mt_cpu_run_room. Under MEMTRACE_CHECK=1 run is always run_end: each access asks. The
     * addresses of a run that is not even lie at run_address; there is room for as many as the runs need. */
    struct mt_access_run *run, *run_end;
    uint64_t *run_address;
    uint64_t run_cta; /* as in raw records */
    uint64_t grid_id;
    uint32_t dyn_shared; /* bytes of dynamic shared memory (%dynamic_smem_size) */
    uint32_t cooperative;
    void *cta_state; /* the scheduler's */
    void *launch;    /* the launch's */
    /* Hull of all __constant__ variables of all images: outside it nothing is constant. */
    uint64_t const_base, const_bytes;
#define MT_GRID_BARRIER 1 /* its word that is the grid's barrier */
    void *
        grid_workspace; /* cooperative launches: what %envreg1 (high half) and %envreg2 (low half) point to */
    uint64_t untraced;  /* accesses without a record, of the CTAs that this thread has not reported yet */
    uint64_t counts[MT_COUNTS]; /* since the worker took up the launch it is at */
    /* Shared memory of the cluster's CTAs: that of rank 0, and how far the next one's is. Without clusters
     * the CTA is one by itself. */
    char *cluster_shared;
    uint64_t cluster_stride;
    uint32_t cluster[3];           /* CTAs in each direction */
    uint32_t in_cluster;           /* the launch, or the kernel, says so */
    uint32_t warp_first, warp_end; /* that code for whole warps runs when it is called */
    uint32_t compact;              /* traces have records of shared and local memory and of barriers */
};

#pragma GCC visibility push(default)
#ifdef __cplusplus
#define MT_THREAD thread_local
#else
#define MT_THREAD _Thread_local
#endif
extern MT_THREAD struct mt_cpu_tls mt_cpu_tls __attribute__((tls_model("initial-exec")));

/* What a record call of a warp is of (builtins/access.c): the pass's __mt_access_… by these names. */
enum mt_record_of {
    MT_RECORD_GLOBAL,
    MT_RECORD_GENERIC,
    MT_RECORD_SHARED,
    MT_RECORD_NUMBER,
    MT_RECORD_ANY,
    MT_RECORD_MBARRIER,
    MT_RECORD_PHASE,
};

/* ---- imported by images from libmemtrace.so ---------------------------------------------------------- */

/* run == run_end, before the access of these lanes: the new `run`, always with room for one and 32 addresses.
 * meta: type << 28 | bytes; site: the image's. The buffer is handed on when it is full.
 * The lanes are at base + i * stride, or at lane[i] where that is not NULL. bad: under MEMTRACE_CHECK=1,
 * lanes whose access must not be made. */
struct mt_run_room {
    struct mt_access_run *run;
    uint64_t bad;
};
struct mt_run_room mt_cpu_run_room(uint64_t base, int64_t stride, const uint64_t *lane, uint32_t mask,
                                   uint32_t meta, uint32_t site);
/* Code that cannot leave such lanes out: their warp, or thread, ends. */
void mt_cpu_run_bad(void);
/* Where a thread makes a bad access of this meta instead: zeros that nobody else has until its next record
 * call. The thread ends if they are not enough. */
uint64_t mt_cpu_run_nowhere(uint32_t meta);
/* Is this address __constant__ data of any image? (Only asked for generic pointers
 * inside the hull of constants.) */
int mt_cpu_is_constant(const void *p);

/* Calls that depend on which other threads make them:
 * the optimiser must not move them under other conditions. */
#ifdef __clang__
#define MT_CONVERGENT __attribute__((convergent, nomerge))
#else
#define MT_CONVERGENT
#endif

/* CTA barriers. kind: 0 plain, 1 popc, 2 and, 3 or; returns the reduction. id 0..15, count 0 = whole CTA. */
#define MT_BARRIER_SOME 4u /* or-ed to kind: lanes of a warp may come to it apart (not PTX's .aligned) */
/* Of a warp's: from this bit on a number of its place in the code; 0: not known. */
#define MT_BARRIER_PLACE 8
MT_CONVERGENT uint32_t mt_cpu_barrier(uint32_t kind, uint32_t id, uint32_t count, uint32_t value);
/* The same for all lanes of a warp that have not exited; `said`: how many of them have a value that is not 0,
 * for kind 2 that is 0. Of `count` whole warps are counted. For code of whole warps alone. */
MT_CONVERGENT uint32_t mt_cpu_warp_barrier(uint32_t kind, uint32_t id, uint32_t count, uint32_t said);
/* bar.arrive: counts, does not wait. */
MT_CONVERGENT void mt_cpu_barrier_arrive(uint32_t id, uint32_t count, uint32_t aligned);

/* The barrier of a cluster: all its threads that have not exited arrive; then those that wait go on. */
MT_CONVERGENT void mt_cpu_cluster_arrive(void);
MT_CONVERGENT void mt_cpu_cluster_wait(void);

/* Warp collectives: wait until all lanes of mask that have not exited arrive at
 * the same kind of operation. */
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
/* Low 32 bits: the value; bit 32: the predicate (source lane in range).
 * `c` is PTX's clamp/segment operand. */
MT_CONVERGENT uint64_t mt_cpu_shfl(uint32_t mask, uint32_t value, uint32_t lane, uint32_t c, uint32_t mode);
MT_CONVERGENT uint32_t mt_cpu_vote(uint32_t mask, uint32_t pred, uint32_t mode);
MT_CONVERGENT uint32_t mt_cpu_match_any(uint32_t mask, uint64_t value);
MT_CONVERGENT uint32_t mt_cpu_match_all(uint32_t mask, uint64_t value); /* the mask or 0 */
MT_CONVERGENT uint32_t mt_cpu_redux(uint32_t mask, uint32_t value, uint32_t op);
/* Lanes of this warp that are at this very call (site = return address); waits until no fiber can run. */
MT_CONVERGENT uint32_t mt_cpu_activemask(void);
/* Code for whole warps: results of these lanes that CUDA does not define. from: the lane that each of the 32
 * shuffles from, which is not there; NULL: the mask of the warp function does not name them. */
void mt_cpu_warp_undefined(uint32_t warp, uint32_t lanes, const uint32_t *from);

/* Code for whole warps: these lanes come to a barrier, and others are elsewhere. */
void mt_cpu_warp_apart(uint32_t warp, uint32_t lanes, uint32_t others);

/* The warp lets the others that can run go first. For code of whole warps that waits. */
MT_CONVERGENT void mt_cpu_warp_turn(void);

/* ---- matrices of a warp ----
 *
 * One wmma, mma, ldmatrix, stmatrix or movmatrix. All lanes of the warp meet; the last to come works for all,
 * so memory is as all lanes left it. `in` are the registers that the lane gives (multiply: those of a, b, c
 * one after the other), `out` those that it gets, as bits, zero-extended. `p`: this lane's address (load,
 * store, ldmatrix, stmatrix); `stride`: elements from row to row (column to column)
 * of a wmma load or store. */
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
    MT_MATRIX_WMMA = 1,     /* half fragments of a and b have 16 elements, whatever the shape */
    MT_MATRIX_SATURATE = 2, /* .satfinite: integers are clamped */
    MT_MATRIX_AND = 4,      /* b1: and.popc; else xor.popc */
    MT_MATRIX_QUADS = 8,    /* mma.m8n8k4 of halves: four products, one for each group of eight lanes */
    MT_MATRIX_TRANS = 16,
};
struct mt_matrix_op {
    uint16_t kind, m, n, k;
    uint16_t matrix;       /* load, store: 'a', 'b', 'c' or 'd' */
    uint16_t row_a, row_b; /* row-major; load and store: row_a */
    uint16_t type[4];      /* of d, a, b, c; load and store: type[0] */
    uint16_t flags, count; /* count: matrices of ldmatrix, stmatrix */
    uint16_t nin, nout;    /* registers of a lane: at most 32 */
};
#define MT_MATRIX_FIELDS (sizeof(struct mt_matrix_op) / sizeof(uint16_t))
MT_CONVERGENT void mt_cpu_matrix(const struct mt_matrix_op *op, void *p, uint64_t stride, const uint64_t *in,
                                 uint64_t *out);

/* … for code of whole warps: what each lane would give. */
MT_CONVERGENT void mt_cpu_warp_matrix(const struct mt_matrix_op *op, void *const *p, const uint64_t *stride,
                                      const uint64_t *const *in, uint64_t *const *out, uint32_t lanes);

/* What a tensor copy does (builtins/tensor.c): from global to shared memory, back, or combines what is there
 * with the elements of shared memory. */
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
 * `what` says which PTX instruction it is: MT_TEX_GEOMETRY in the low bits, the others or-ed to it. `in` are
 * its operands as bits, one word each, in the order in which PTX has them: coordinates (and the layer in
 * front of them) at 0, the level of detail or the first gradient at 4, the second gradient at 8. Results are
 * bits, zero-extended. An object that is not one, and a surface coordinate out of range with MT_SURF_TRAP,
 * end the launch with an error. */
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
    MT_TEX_LEVEL = 1 << 3,   /* the level of detail is given */
    MT_TEX_GRAD = 2 << 3,    /* gradients are */
    MT_TEX_GATHER = 3 << 3,  /* one channel of four texels */
    MT_TEX_MODE = 3 << 3,    /* mask of these */
    MT_TEX_INTEGER = 1 << 5, /* coordinates are integers: texels, unfiltered */
    MT_TEX_COMPONENT_AT = 6, /* shift: the channel of MT_TEX_GATHER */
    MT_SURF_TRAP = 0 << 3,   /* out of range: the launch fails */
    MT_SURF_CLAMP = 1 << 3,  /* the nearest element */
    MT_SURF_ZERO = 2 << 3,   /* reads give 0, writes do nothing */
    MT_SURF_MODE = 3 << 3,   /* mask of these */
    MT_SURF_BYTES_AT = 5,    /* shift: bytes of one element, 1 to 8 */
    MT_SURF_COUNT_AT = 9,    /* shift: elements, 1 to 4 */
};
/* out: four channels as 32 bits. */
void mt_cpu_tex(uint64_t object, uint32_t what, const uint32_t *in, uint64_t *out);
/* in[0] (after a layer: in[1]) counts bytes. One value[i] or out[i] per element. */
void mt_cpu_surf_load(uint64_t object, uint32_t what, const uint32_t *in, uint64_t *out);
void mt_cpu_surf_store(uint64_t object, uint32_t what, const uint32_t *in, const uint64_t *value);
/* Of texture or surface; dimension 0 width, 1 height, 2 depth (all in elements), 3 layers. */
uint32_t mt_cpu_tex_size(uint64_t object, uint32_t dimension);

/* A spinning loop's back edge: let other fibers and CTAs go on. */
void mt_cpu_yield(void);
void mt_cpu_nanosleep(uint32_t ns);

/* Ends the launch with an error; never returns. */
#define MT_NORETURN __attribute__((noreturn))
MT_NORETURN void mt_cpu_trap(void);
MT_NORETURN void mt_cpu_unsupported(const char *what, const char *file, uint32_t line);
MT_NORETURN void mt_cpu_fail(int code, const char *what); /* code: as cudaError_t */
MT_NORETURN void mt_cpu_exit_thread(void); /* PTX exit: ends this device thread; never returns */

int mt_cpu_vprintf(const char *format, const void *args);
MT_NORETURN void mt_cpu_assertfail(const char *message, const char *file, uint32_t line,
                                   const char *function);
void *mt_cpu_malloc(uint64_t bytes);
void mt_cpu_free(void *p);
uint64_t mt_cpu_globaltimer(void);
#pragma GCC visibility pop
#endif
