/* Warps as vectors: turns a kernel's code for one thread into code for the 32 threads of a warp. Shared by
 * the files of this folder; others only call mt_vector_kernels (run.c). Each value of the thread's code
 * has a shape: uniform (one value for the warp), rows (one value per row of threads, to which each lane
 * adds a multiple of `stride`), or lanes (a vector of 32). A row is `group` neighbouring threads that
 * differ in threadIdx.x alone: 32 of them, or 16 if CTAs are that narrow. Blocks run one after the other,
 * and loops stay together (blocks.c). A block runs if any lane has reached it (`pending`), with the mask
 * of those lanes; so diverging lanes meet where their ways do. (Ideas: R. Karrenberg and S. Hack,
 * Whole-Function Vectorization, CGO 2011; S. Moll and S. Hack, Partial Control-Flow Linearization, PLDI
 * 2018.) */
#ifndef MT_PASS_VECTOR_H
#define MT_PASS_VECTOR_H
#include "lower/lowering.h"

/* Fills l->vector once the image's builtins are linked. */
void mt_vector_kernels(struct mt_lowering *l);

#define VEC_WIDTH 32u
#define VEC_ROWS_MAX 2u
#define VEC_MANY 64 /* number of low zero bits of 0 */

enum vec_kind { VEC_UNKNOWN, VEC_UNIFORM, VEC_ROWS, VEC_LANES };
/* A row extended (signed: sext, unsigned: zext) is a row of the same stride if its numbers do not wrap: in
 * the lanes active where it is computed; …_ALL: in all lanes of the row. */
enum { VEC_SIGNED = 1, VEC_UNSIGNED = 2, VEC_SIGNED_ALL = 4, VEC_UNSIGNED_ALL = 8, VEC_EXTENDS = 15 };
struct vec_shape {
    uint8_t kind;
    uint8_t zeros;  /* low zero bits of the value, or of the rows' first lanes */
    uint8_t extend; /* set of the above that hold */
    int64_t stride; /* rows: bytes for pointers */
    /* The value is rows if this source value (value[source - 1], extended), of which it contains `scale`
     * times, does not wrap within a row; 0: always. A caller that does not test it (vec_get_row) gets
     * lanes. */
    unsigned source;
    int64_t scale;
};

/* A value in the new code; uniform and lanes only use part[0]. */
struct vec_rep {
    uint8_t kind;
    int64_t stride, scale;
    unsigned source; /* see struct vec_shape */
    LLVMValueRef part[VEC_ROWS_MAX];
};

struct vec_value {
    LLVMValueRef from;
    struct vec_shape shape;
    int block;                       /* index, -1: a parameter */
    int crosses;                     /* 1: used in another block */
    int turn;                        /* 1: a warp function before which the warp lets others run */
    LLVMValueRef slot[VEC_ROWS_MAX]; /* storage of a value used in other blocks; a phi's is written by its
                                      * edges */
    LLVMValueRef keep[VEC_ROWS_MAX]; /* for a phi: `slot` as in other values */
    struct vec_rep now;              /* value in the current block, */
    unsigned now_round;              /* valid if this equals the round */
};

struct vec_block {
    LLVMBasicBlockRef from;
    unsigned loop; /* innermost loop; 0: none */
    int succ[2];
    unsigned nsucc;
    int meet;    /* block where all ways from here meet; -1: the end */
    int branch;  /* index of a branch where lanes diverge, or -1 */
    int masked;  /* 1: not all remaining lanes arrive here together */
    int touched; /* 1: lanes that arrive have accessed memory since the last turn */
    int joins;   /* 1: its phis get values of several edges at once */
    LLVMBasicBlockRef check, body;
    LLVMBasicBlockRef full; /* for a masked block: its code for when all lanes are active, or NULL */
    LLVMValueRef pending;   /* slot: the mask, or an i1 if not masked */
};
struct vec_loop {
    int first, last; /* blocks */
    LLVMBasicBlockRef again;
};
/* A branch where lanes diverge, with the blocks reachable on each way before they meet. */
struct vec_branch {
    int block;
    unsigned char *reach[2];
};

/* Accesses of the current block that become one entry of the trace buffer (region.c). */
struct vec_region {
    LLVMValueRef call[32]; /* their record calls; MT_REGION_ACCESSES */
    unsigned first[32], n, next, bases,
        units;                          /* first: index of the first base; next: access to be recorded */
    int off;                            /* 1: the block has none */
    int loop;                           /* 1: the block is a loop, */
    LLVMValueRef extends[32], step[32]; /* with extensions of numbers that must not wrap; their steps */
    unsigned nextends;
    LLVMValueRef of, word, laps;       /* its description; the entry or null; laps done */
    LLVMValueRef laps_slot, word_slot; /* of all loops; NULL: not made yet */
};

struct vec {
    struct mt_lowering *l;
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMBuilderRef b;
    LLVMTargetDataRef layout;
    LLVMTypeRef mask_type;
    unsigned group, rows;
    int any;                  /* 1: for CTAs of any shape, whose threads have no rows; lanes may be missing */
    int called;               /* 1: a called function (calls.c), not a kernel: parameters are lanes, */
    LLVMValueRef here;        /* the mask of the calling lanes comes as a number, */
    LLVMTypeRef result;       /* its result type, or NULL, */
    LLVMValueRef result_slot; /* and the slot that collects the result */
    struct vec_functions *functions; /* functions of the module */
    int plain;                       /* 1: functions called by pointer do not record */
    int meets;                       /* 1: called functions have warp collectives */
    LLVMValueRef from, to;
    LLVMBasicBlockRef entry, done; /* blocks of `to`: slots; the end */
    struct vec_block *block;
    unsigned nblocks;
    struct vec_loop *loop; /* loops, counted from 1 */
    uint32_t *parents;     /* parents of loops, counted from 0 */
    unsigned nloops;
    struct vec_branch *branch;
    unsigned nbranches;
    struct vec_value *value;
    unsigned nvalues;
    unsigned *table; /* hash of values: index + 1 */
    unsigned table_size;
    LLVMValueRef linear;                  /* number of lane 0's thread */
    LLVMValueRef thread[3][VEC_ROWS_MAX]; /* coordinates of each row's first thread; any: [][0], those of
                                           * the lanes */
    LLVMValueRef cta[9];                  /* registers from %ntid.x on, read once */
    int now;                              /* current block, */
    unsigned round;                       /* number of blocks written so far */
    int twice;                            /* 1: masked blocks also have code for all lanes */
    LLVMValueRef mask;                    /* its active lanes; NULL: all */
    LLVMValueRef scratch;                 /* memory that is never read */
    /* Memory for lanes while an instruction is executed lane by lane; reused by the next one. */
    struct vec_spilled {
        LLVMTypeRef type;
        LLVMValueRef slot;
        LLVMValueRef user; /* the instruction */
    } spilled[64];
    unsigned nspilled;
    LLVMValueRef inst; /* current instruction */
    LLVMValueRef bad;  /* i32: lanes whose access by `bad_for` must not be made (MEMTRACE_CHECK) */
    LLVMValueRef bad_for;
    struct vec_region region;
    LLVMValueRef left, left_bits;    /* the last mask without bad lanes, as an i32 */
    LLVMValueRef recorded_as;        /* access of the last record call, if it is one of each thread */
    LLVMValueRef recorded, recorder; /* addresses of that access's lanes in memory (if lanes), stored by
                                      * its record call */
    int waits;                       /* 1: there is a barrier, so each warp is a fiber */
    int has_masks;                   /* 1: the processor has mask registers (AVX-512) */
    uint64_t frame;                  /* bytes of a thread's local variables */
    const char *why;                 /* reason for a failure, or NULL */
    char why_text[200];
};

/* prepare.c: returns a copy of the kernel or called function with its callees inlined, in the form that
 * the rest needs; NULL: *why is set. */
LLVMValueRef vec_prepare(struct mt_lowering *l, LLVMValueRef kernel, int called, const char **why);
/* calls.c: called functions that are not inlined. */
struct vec_functions *vec_calls_begin(struct mt_lowering *l);
void vec_calls_end(struct vec_functions *s); /* makes the functions that are called by now */
/* Facts about everything that prepared code can reach by such calls. Returns NULL, or a reason for
 * failure. plain: in the version without records. */
struct vec_called {
    int meets, waits, plain;
};
const char *vec_calls_find(struct vec_functions *s, LLVMValueRef code, int plain, struct vec_called *out);
/* Returns the callee of a direct call, unless it is a builtin called lane by lane. */
LLVMValueRef vec_own_callee(LLVMValueRef inst);
int vec_recurs(LLVMValueRef f); /* 1: it calls itself, perhaps through others, but not by pointer */
int vec_is_called(LLVMValueRef inst);
void vec_emit_call(struct vec *v, LLVMValueRef call);
void vec_emit_return(struct vec *v, LLVMValueRef end);
/* run.c: for rows of 32. */
struct vec vec_new(struct mt_lowering *l, struct vec_functions *functions, LLVMValueRef prepared);
void vec_free(struct vec *v);
void vec_set_target(struct mt_lowering *l, LLVMValueRef f);
/* record.c: turns record calls into the form known to the rest. Returns NULL, or a reason for failure. */
const char *vec_prepare_records(struct mt_lowering *l, LLVMValueRef f);
/* Returns 1 for a call that only counts or records. */
int vec_is_record(LLVMValueRef inst);
int vec_emit_record(struct vec *v, LLVMValueRef call); /* 0: it is none */
/* Records an access by itself. Returns its bad lanes, an i32. */
LLVMValueRef vec_record_one(struct vec *v, LLVMValueRef call, const struct vec_rep *at);
/* region.c. At the beginning of a block's code: */
void vec_region_block(struct vec *v);
/* Records an access of global memory as part of a region, and sets v->bad. Returns 0 if it has to be recorded
 * by itself. */
int vec_region_record(struct vec *v, LLVMValueRef call, const struct vec_rep *at);
void vec_region_lap(struct vec *v);          /* at the end of a block, */
int vec_region_is_loop(const struct vec *v); /* 1: the block's laps are one entry */
void vec_region_way(struct vec *v, int to);  /* on each way from the block; to: -1 if lanes part */
/* Returns 1 if the instruction calls a function of this name. */
int vec_calls(LLVMValueRef inst, const char *name);
const char *vec_callee(LLVMValueRef inst); /* "": no direct call */
/* Special registers that differ between threads, as calls in prepared code. */
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

/* endless.c: removes loops without an end, which are never reached, from a function. */
void vec_cut_endless(LLVMValueRef f);

/* ---- blocks.c ---- */
int vec_blocks(struct vec *v); /* 0, or -1 with v->why */
/* Marks this block's branch as diverging. Returns 0 or -1. */
int vec_part(struct vec *v, int block);
/* Finds the masked blocks, once all diverging branches are known. */
void vec_find_masks(struct vec *v);
/* Returns the memory touched by a volatile or atomic access or a store, without casts; NULL: another
 * instruction. */
LLVMValueRef vec_touched(LLVMValueRef inst, int *writes);
/* warp.c: chooses the warp functions that are turns. */
void vec_turns(struct vec *v);
/* Returns 1 if b's lanes can go straight to block `to`, as none wait at a block before it. */
int vec_is_direct(const struct vec *v, int b, int to);
void vec_blocks_free(struct vec *v);

/* shape.c */
int vec_shapes(struct vec *v); /* 0, or -1 with v->why */
struct vec_shape vec_shape_of(const struct vec *v, LLVMValueRef value);
/* Returns VEC_SIGNED … VEC_UNSIGNED_ALL: how the row of a sext or zext is extended. */
unsigned vec_extends_as(const struct vec *v, LLVMValueRef inst);
/* Returns 1 if a row's numbers, extended by `how`, follow from its operands alone. */
int vec_is_made_of(const struct vec *v, LLVMValueRef value, LLVMOpcode how);
/* Returns 1 if each lane of a warp has a different number. */
int vec_lanes_differ(const struct vec *v, LLVMValueRef value);
/* Returns the distance from a lane's local variable to the next lane's. */
int64_t vec_alloca_step(const struct vec *v, LLVMValueRef alloca);
int vec_is_lockstep_call(const char *callee); /* a warp collective */
int vec_is_wait(const char *callee);          /* waits for others than the lanes of the warp: a barrier, a
                                               * spin loop */

/* value.c */
int vec_values(struct vec *v); /* lists them, parameters first; returns 0 or -1 */
struct vec_value *vec_find(const struct vec *v, LLVMValueRef value); /* NULL: a constant or global */
LLVMTypeRef vec_wide(struct vec *v, LLVMTypeRef type);               /* vector type for lanes; NULL:
                                                                      * impossible */
unsigned vec_count(LLVMTypeRef type);                                /* number of elements: 1 for a scalar */
/* Returns the number of members of a structure or an array; 0: another type. */
unsigned vec_members(LLVMTypeRef type);
/* Returns lanes of the first value where `mask` is set, else of the second; type: a thread's. */
LLVMValueRef vec_merge(struct vec *v, LLVMTypeRef type, LLVMValueRef mask, LLVMValueRef from,
                       LLVMValueRef others);
struct vec_rep vec_get(struct vec *v, LLVMValueRef value);
/* Returns the value as a row, also if it is known only at run time whether it is one: then vec_is_row
 * returns that as an i1. */
struct vec_rep vec_get_row(struct vec *v, LLVMValueRef value);
LLVMValueRef vec_is_row(struct vec *v, const struct vec_rep *r);
LLVMOpcode vec_extension(struct vec *v, LLVMValueRef inst); /* extension of a row: sext or zext by
                                                             * vec_extends_as */
LLVMValueRef vec_uniform(struct vec *v, LLVMValueRef value);
LLVMValueRef vec_lanes(struct vec *v, LLVMValueRef value);
LLVMValueRef vec_rep_lanes(struct vec *v, const struct vec_rep *r, LLVMTypeRef type);
/* Sets the value of an instruction of the current block. */
void vec_set(struct vec *v, LLVMValueRef inst, struct vec_rep rep);
void vec_set_lanes(struct vec *v, LLVMValueRef inst, LLVMValueRef lanes);
void vec_set_uniform(struct vec *v, LLVMValueRef inst, LLVMValueRef value);
void vec_crossings(struct vec *v); /* once all shapes are known */
int vec_slots(struct vec *v);
/* Begins a loop's round: values of the previous round are used only through phis. */
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
LLVMValueRef vec_mask(struct vec *v);                            /* mask of the block, as a vector */
LLVMValueRef vec_mask_bits(struct vec *v, LLVMValueRef mask);    /* as an i32 */
LLVMValueRef vec_masked_bits(struct vec *v, LLVMValueRef flags); /* flags of the active lanes, i32 */
LLVMValueRef vec_replicate_mask(struct vec *v, LLVMValueRef mask, unsigned lanes, unsigned each);
void vec_emit(struct vec *v);

/* plain.c: arithmetic. memory.c, lane.c, warp.c */
void vec_emit_plain(struct vec *v, LLVMValueRef inst);
void vec_emit_rows(struct vec *v, LLVMValueRef inst);
int vec_takes_rows(const struct vec *v, LLVMValueRef inst);
void vec_emit_copy(struct vec *v, LLVMValueRef inst);
int vec_is_plain_call(LLVMValueRef call);           /* call of an intrinsic with a vector form */
int vec_plain_ok(struct vec *v, LLVMValueRef inst); /* 0: v->why is set */
void vec_emit_load(struct vec *v, LLVMValueRef load);
void vec_emit_store(struct vec *v, LLVMValueRef store);
void vec_emit_atomic(struct vec *v, LLVMValueRef rmw);
void vec_emit_alloca(struct vec *v, LLVMValueRef alloca);
void vec_by_lane(struct vec *v, LLVMValueRef inst);
/* A loop over the lanes of the mask; the builder is inside, `lane` is an i32. */
struct vec_each {
    LLVMValueRef lane, bits;
    LLVMBasicBlockRef head;
};
void vec_each_begin(struct vec *v, struct vec_each *e);
void vec_each_end(struct vec *v, struct vec_each *e);
/* A loop over groups of lanes of the mask with the same `value` (an integer per lane); the builder is
 * inside, where the mask is the group's and `one` is its value. The result for its lanes is collected in a
 * slot (NULL: none), which vec_groups_end returns. */
struct vec_groups {
    LLVMValueRef value, one, bits, group, all, slot;
    LLVMTypeRef type;
    LLVMBasicBlockRef head;
};
void vec_groups_begin(struct vec *v, struct vec_groups *g, LLVMValueRef value, LLVMTypeRef result);
LLVMValueRef vec_groups_end(struct vec *v, struct vec_groups *g, LLVMValueRef lanes);
/* Stores the lanes of a value consecutively; vec_lane_of loads lane i. */
LLVMValueRef vec_spill(struct vec *v, LLVMValueRef lanes);
/* The same of the addresses that a pointer has, as i64, by a call if they are rows: far less code than
 * vectors where it is seldom reached. */
LLVMValueRef vec_spill_addresses(struct vec *v, const struct vec_rep *r, LLVMTypeRef pointer);
/* Keeps them for the current instruction. Returns 0 if the memory has other lanes by now. */
int vec_keep_spilled(struct vec *v, LLVMValueRef slot, LLVMValueRef user);
LLVMValueRef vec_result_slot(struct vec *v, LLVMTypeRef type); /* for its lanes; not i1 */
LLVMValueRef vec_lane_of(struct vec *v, LLVMValueRef slot, LLVMTypeRef type, LLVMValueRef lane);
int vec_emit_warp(struct vec *v, LLVMValueRef call); /* 0: no collective */

/* accept.c */
int vec_accept(struct vec *v); /* 0, or -1 with v->why */
void vec_refuse(struct vec *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
