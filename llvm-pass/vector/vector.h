/* Warps as vectors: a kernel's code for one thread becomes code for the 32 threads of a warp. What its parts
 * share; nothing outside knows more than mt_vector_kernels (run.c).
 *
 * Each value of the thread's code has a shape: uniform (one value for the warp), rows (for each row of
 * threads one value, to which each lane adds `stride`), or lanes (a vector of 32). A row is `group`
 * neighbouring threads that differ in threadIdx.x alone: 32 of them, or 16 where CTAs are as narrow.
 *
 * Blocks run one after the other, loops together (blocks.c). A block runs when any lane has come to it
 * (`pending`), with the mask of those; so lanes that parted meet where their ways do. (Ideas: R. Karrenberg
 * and S. Hack, Whole-Function Vectorization, CGO 2011; S. Moll and S. Hack, Partial Control-Flow
 * Linearization, PLDI 2018.) */
#ifndef MT_PASS_VECTOR_H
#define MT_PASS_VECTOR_H
#include "lower/lowering.h"

/* Fills l->vector, when the image's builtins are linked. */
void mt_vector_kernels(struct mt_lowering *l);

#define VEC_WIDTH 32u
#define VEC_ROWS_MAX 2u
#define VEC_MANY 64 /* low zero bits of 0 */

enum vec_kind { VEC_UNKNOWN, VEC_UNIFORM, VEC_ROWS, VEC_LANES };
/* A row made wider (signed: sext, unsigned: zext) is a row of the same stride, as its numbers do not wrap
 * round: in the lanes that are here where it is computed; …_ALL: in all of the row, here or not. */
enum { VEC_SIGNED = 1, VEC_UNSIGNED = 2, VEC_SIGNED_ALL = 4, VEC_UNSIGNED_ALL = 8, VEC_EXTENDS = 15 };
struct vec_shape {
    uint8_t kind;
    uint8_t zeros;  /* low bits that are zero: of the value, of the rows' first ones */
    uint8_t extend; /* which of the above hold */
    int64_t stride; /* rows: bytes for pointers */
    /* Rows if this value's number (value[source - 1], made wider) does not wrap round within a row, of which
     * the value has `scale` in it; 0: they are. Who does not ask (vec_get_row) gets lanes. */
    unsigned source;
    int64_t scale;
};

/* A value in the new code: uniform and lanes have part[0] alone. */
struct vec_rep {
    uint8_t kind;
    int64_t stride, scale;
    unsigned source; /* as in vec_shape */
    LLVMValueRef part[VEC_ROWS_MAX];
};

struct vec_value {
    LLVMValueRef from;
    struct vec_shape shape;
    int block;                       /* index, -1: a parameter */
    int crosses;                     /* another block uses it */
    int turn;                        /* a warp function before which the warp lets others go on */
    LLVMValueRef slot[VEC_ROWS_MAX]; /* where it is kept for those; a phi: where its edges put it */
    LLVMValueRef keep[VEC_ROWS_MAX]; /* a phi: as slot of other values */
    struct vec_rep now;              /* in the block that is being written, */
    unsigned now_round;              /* if this is it */
};

struct vec_block {
    LLVMBasicBlockRef from;
    unsigned loop; /* innermost, 0: none */
    int succ[2];
    unsigned nsucc;
    int meet;    /* where all ways from here meet; -1: the end */
    int branch;  /* index of a branch on which lanes part, or -1 */
    int masked;  /* not all lanes that are left come here together */
    int touched; /* memory, since the last turn, by those who come to it */
    int joins;   /* its phis get values of several edges at once */
    LLVMBasicBlockRef check, body;
    LLVMBasicBlockRef full; /* of a masked one: its code for when all lanes are here, or NULL */
    LLVMValueRef pending;   /* slot: the mask, or i1 when it is not masked */
};
struct vec_loop {
    int first, last; /* blocks */
    LLVMBasicBlockRef again;
};
/* A branch on which lanes part: which blocks can be reached on each way before they meet. */
struct vec_branch {
    int block;
    unsigned char *reach[2];
};

struct vec {
    struct mt_lowering *l;
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMBuilderRef b;
    LLVMTargetDataRef layout;
    LLVMTypeRef mask_type;
    unsigned group, rows;
    int any;                  /* for CTAs of any shape: threads have no rows, and lanes may be missing */
    int called;               /* no kernel, but what is called (calls.c): parameters are lanes, */
    LLVMValueRef here;        /* the mask of those that call it comes as a number, */
    LLVMTypeRef result;       /* and what it gives back, or NULL, */
    LLVMValueRef result_slot; /* is collected here */
    struct vec_functions *functions; /* of the module */
    int plain;                       /* what is called by pointer records nothing */
    int meets;                       /* there are warp collectives in what is called */
    LLVMValueRef from, to;
    LLVMBasicBlockRef entry, done; /* of `to`: slots; the end */
    struct vec_block *block;
    unsigned nblocks;
    struct vec_loop *loop; /* from 1 */
    uint32_t *parents;     /* of loops, from 0 */
    unsigned nloops;
    struct vec_branch *branch;
    unsigned nbranches;
    struct vec_value *value;
    unsigned nvalues;
    unsigned *table; /* hash of values: index + 1 */
    unsigned table_size;
    LLVMValueRef linear;                  /* number of lane 0's thread */
    LLVMValueRef thread[3][VEC_ROWS_MAX]; /* first of each row; any: [][0], those of the lanes */
    LLVMValueRef cta[9];                  /* registers from %ntid.x on, read once */
    int now;                              /* the block that is being written, */
    unsigned round;                       /* the how manyth that is */
    int twice;                            /* masked blocks have code for all lanes, too */
    LLVMValueRef mask;                    /* its lanes; NULL: all */
    LLVMValueRef scratch;                 /* memory that nobody reads */
    /* Memory that lanes lie in while an instruction is done lane by lane; the next one has it again. */
    struct vec_spilled {
        LLVMTypeRef type;
        LLVMValueRef slot;
        LLVMValueRef user; /* the instruction */
    } spilled[64];
    unsigned nspilled;
    LLVMValueRef inst; /* that is being written */
    LLVMValueRef bad;  /* lanes whose access by `bad_for` must not be made, i32 (MEMTRACE_CHECK) */
    LLVMValueRef bad_for;
    LLVMValueRef recorded, recorder; /* where the addresses of that access's lanes lie, if they are lanes, by
                                        its record call */
    int waits;                       /* there is a barrier: a fiber for each warp */
    int has_masks;                   /* the processor has registers for masks (AVX-512) */
    uint64_t frame;                  /* bytes of local variables of a thread */
    const char *why;                 /* cannot be done, or NULL */
    char why_text[200];
};

/* prepare.c: a copy of the kernel, or of what is called, with what it calls inlined, in the form that the
 * rest needs; NULL: *why. */
LLVMValueRef vec_prepare(struct mt_lowering *l, LLVMValueRef kernel, int called, const char **why);
/* calls.c: what is called, but not inlined. */
struct vec_functions *vec_calls_begin(struct mt_lowering *l);
void vec_calls_end(struct vec_functions *s); /* makes those that are called now */
/* Of all that prepared code can come to by such calls. NULL, or why not. plain: in its version without
 * records. */
struct vec_called {
    int meets, waits, plain;
};
const char *vec_calls_find(struct vec_functions *s, LLVMValueRef code, int plain, struct vec_called *out);
/* What a direct call leads to, if that is no builtin that is called lane by lane. */
LLVMValueRef vec_own_callee(LLVMValueRef inst);
int vec_recurs(LLVMValueRef f); /* does it come to call itself, not by pointer? */
int vec_is_called(LLVMValueRef inst);
void vec_emit_call(struct vec *v, LLVMValueRef call);
void vec_emit_return(struct vec *v, LLVMValueRef end);
/* run.c: for rows of 32. */
struct vec vec_new(struct mt_lowering *l, struct vec_functions *functions, LLVMValueRef prepared);
void vec_free(struct vec *v);
void vec_set_target(struct mt_lowering *l, LLVMValueRef f);
/* record.c: record calls as the rest knows them. NULL, or why not. */
const char *vec_prepare_records(struct mt_lowering *l, LLVMValueRef f);
/* Is it a call that only counts or records? */
int vec_is_record(LLVMValueRef inst);
int vec_emit_record(struct vec *v, LLVMValueRef call); /* 0: it is none */
/* Is the instruction a call of a function by this name? */
int vec_calls(LLVMValueRef inst, const char *name);
const char *vec_callee(LLVMValueRef inst); /* "": it is no direct call */
/* Special registers that differ between threads, as calls in what is prepared. */
enum vec_register {
    VEC_TID_X,
    VEC_TID_Y,
    VEC_TID_Z,
    VEC_LANE_ID,
    VEC_WARP_ID,
    VEC_EQ,
    VEC_LT,
    VEC_LE,
    VEC_GT,
    VEC_GE,
    VEC_NTID_X,
    VEC_REGISTERS = VEC_NTID_X + 9
}; /* from ntid.x on: of the CTA, the grid */
#define VEC_CTA_REGISTERS (VEC_REGISTERS - VEC_NTID_X)
int vec_register(const char *callee); /* -1: none */
const char *vec_register_name(int reg);

/* endless.c: takes loops without an end out of a function, which nobody comes to. */
void vec_cut_endless(LLVMValueRef f);

/* blocks.c */
int vec_blocks(struct vec *v); /* 0, or -1 with v->why */
/* Lanes part at this block's branch. 0 or -1. */
int vec_part(struct vec *v, int block);
/* After all of them: which blocks are masked. */
void vec_find_masks(struct vec *v);
/* What a volatile or atomic access, or any store, touches, behind casts. NULL: it is none. */
LLVMValueRef vec_touched(LLVMValueRef inst, int *writes);
/* warp.c: which warp functions are turns. */
void vec_turns(struct vec *v);
/* Can b's lanes go straight to block `to`, as nobody waits at a block before it? */
int vec_is_direct(const struct vec *v, int b, int to);
void vec_blocks_free(struct vec *v);

/* shape.c */
int vec_shapes(struct vec *v); /* 0, or -1 with v->why */
struct vec_shape vec_shape_of(const struct vec *v, LLVMValueRef value);
/* One of VEC_SIGNED … VEC_UNSIGNED_ALL: how the row of a sext or zext is made wider. */
unsigned vec_extends_as(const struct vec *v, LLVMValueRef inst);
/* Does only what it is computed from tell a row's numbers, made wider by `how`? */
int vec_is_made_of(const struct vec *v, LLVMValueRef value, LLVMOpcode how);
/* Has each lane of a warp another number? */
int vec_lanes_differ(const struct vec *v, LLVMValueRef value);
/* From a lane's local variable to the next lane's. */
int64_t vec_alloca_step(const struct vec *v, LLVMValueRef alloca);
int vec_is_lockstep_call(const char *callee); /* a warp collective */
int vec_is_wait(const char *callee);          /* for others than the lanes of the warp: a barrier, a spin */

/* value.c */
int vec_values(struct vec *v); /* lists them, parameters first. 0 or -1 */
struct vec_value *vec_find(const struct vec *v, LLVMValueRef value); /* NULL: a constant or global */
LLVMTypeRef vec_wide(struct vec *v, LLVMTypeRef type);               /* of lanes; NULL: cannot be */
unsigned vec_count(LLVMTypeRef type); /* elements of a scalar (1) or a vector */
/* Of a structure or an array; 0: it is none. */
unsigned vec_members(LLVMTypeRef type);
/* The lanes of `mask` from the one, the others from the other; type: a thread's. */
LLVMValueRef vec_merge(struct vec *v, LLVMTypeRef type, LLVMValueRef mask, LLVMValueRef from,
                       LLVMValueRef others);
struct vec_rep vec_get(struct vec *v, LLVMValueRef value);
/* … as a row, also where that is only known when it runs: then vec_is_row says it, an i1. */
struct vec_rep vec_get_row(struct vec *v, LLVMValueRef value);
LLVMValueRef vec_is_row(struct vec *v, const struct vec_rep *r);
LLVMOpcode vec_extension(struct vec *v,
                         LLVMValueRef inst); /* of a row: sext or zext, as vec_extends_as says */
LLVMValueRef vec_uniform(struct vec *v, LLVMValueRef value);
LLVMValueRef vec_lanes(struct vec *v, LLVMValueRef value);
LLVMValueRef vec_rep_lanes(struct vec *v, const struct vec_rep *r, LLVMTypeRef type);
/* The value of an instruction of the block that is being written. */
void vec_set(struct vec *v, LLVMValueRef inst, struct vec_rep rep);
void vec_set_lanes(struct vec *v, LLVMValueRef inst, LLVMValueRef lanes);
void vec_set_uniform(struct vec *v, LLVMValueRef inst, LLVMValueRef value);
void vec_crossings(struct vec *v); /* after all shapes are known */
int vec_slots(struct vec *v);
/* A loop's round begins: nobody uses what the one before has computed, but through phis. */
void vec_forget_round(struct vec *v, const struct vec_loop *loop);
void vec_store_phi(struct vec *v, struct vec_value *phi, const struct vec_rep *rep, LLVMValueRef edge);
void vec_load_phi(struct vec *v, struct vec_value *phi, int kill);
LLVMValueRef vec_slot(struct vec *v, LLVMTypeRef type); /* an alloca in the entry */
LLVMValueRef vec_splat(struct vec *v, LLVMValueRef scalar, unsigned n);
LLVMValueRef vec_shuffle(struct vec *v, LLVMValueRef a, LLVMValueRef b, const int *mask, unsigned n);
LLVMValueRef vec_number(struct vec *v, uint64_t n); /* i32 */
LLVMValueRef vec_iota(LLVMTypeRef integer, unsigned n, unsigned group, int64_t stride);
void vec_set_seldom(struct vec *v, LLVMValueRef branch); /* its second way is hardly ever taken */
LLVMValueRef vec_intrinsic(struct vec *v, const char *name, LLVMTypeRef *types, unsigned ntypes,
                           LLVMValueRef *args, unsigned nargs);
LLVMValueRef vec_concat(struct vec *v, LLVMValueRef *part, unsigned n_each);
LLVMValueRef vec_row_of(struct vec *v, LLVMValueRef lanes, unsigned row, unsigned each);

/* masks, emit.c */
LLVMValueRef vec_mask(struct vec *v);                            /* of the block, as a vector */
LLVMValueRef vec_mask_bits(struct vec *v, LLVMValueRef mask);    /* i32 */
LLVMValueRef vec_masked_bits(struct vec *v, LLVMValueRef flags); /* flags of lanes that are here, i32 */
LLVMValueRef vec_replicate_mask(struct vec *v, LLVMValueRef mask, unsigned lanes, unsigned each);
void vec_emit(struct vec *v);

/* plain.c: arithmetic. memory.c, lane.c, warp.c */
void vec_emit_plain(struct vec *v, LLVMValueRef inst);
void vec_emit_rows(struct vec *v, LLVMValueRef inst);
int vec_takes_rows(const struct vec *v, LLVMValueRef inst);
void vec_emit_copy(struct vec *v, LLVMValueRef inst);
int vec_is_plain_call(LLVMValueRef call);           /* of an intrinsic of which there is one for vectors */
int vec_plain_ok(struct vec *v, LLVMValueRef inst); /* 0: v->why */
void vec_emit_load(struct vec *v, LLVMValueRef load);
void vec_emit_store(struct vec *v, LLVMValueRef store);
void vec_emit_atomic(struct vec *v, LLVMValueRef rmw);
void vec_emit_alloca(struct vec *v, LLVMValueRef alloca);
void vec_by_lane(struct vec *v, LLVMValueRef inst);
/* The same for each lane of the mask: the builder is in the loop, `lane` is an i32. */
struct vec_each {
    LLVMValueRef lane, bits;
    LLVMBasicBlockRef head;
};
void vec_each_begin(struct vec *v, struct vec_each *e);
void vec_each_end(struct vec *v, struct vec_each *e);
/* The same for each group of lanes of the mask that have the same `value`, an integer for each lane: the
 * builder is in the loop, where the mask is the group's and `one` is its value. What it computes for its
 * lanes is collected in a slot (NULL: nothing is), which vec_groups_end gives back. */
struct vec_groups {
    LLVMValueRef value, one, bits, group, all, slot;
    LLVMTypeRef type;
    LLVMBasicBlockRef head;
};
void vec_groups_begin(struct vec *v, struct vec_groups *g, LLVMValueRef value, LLVMTypeRef result);
LLVMValueRef vec_groups_end(struct vec *v, struct vec_groups *g, LLVMValueRef lanes);
/* Memory with the lanes of a value, one after the other; lane i's is at vec_lane_at. */
LLVMValueRef vec_spill(struct vec *v, LLVMValueRef lanes);
/* For the instruction that is being written, too. 0: the memory has other lanes by now. */
int vec_keep_spilled(struct vec *v, LLVMValueRef slot, LLVMValueRef user);
LLVMValueRef vec_result_slot(struct vec *v, LLVMTypeRef type); /* for lanes of it; not i1 */
LLVMValueRef vec_lane_of(struct vec *v, LLVMValueRef slot, LLVMTypeRef type, LLVMValueRef lane);
int vec_emit_warp(struct vec *v, LLVMValueRef call); /* 0: it is no collective */

/* accept.c */
int vec_accept(struct vec *v); /* 0, or -1 with v->why */
void vec_refuse(struct vec *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
