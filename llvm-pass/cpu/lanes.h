/* Which accesses of one lane meet those of other lanes of its warp: addresses as sums, what in them differs
 * from lane to lane, and branches that one lane alone takes. For lower_steps.c. */
#ifndef MT_PASS_LANES_H
#define MT_PASS_LANES_H
#include "base/unit.h"

/* What a value depends on. 0: it is the same for all lanes of a warp, as far as one can say. */
enum {
    MT_VARIES_ROW = 1,  /* threadIdx.y or z, the warp's number: the same in warps that are one row */
    MT_VARIES_LANE = 2, /* threadIdx.x, the lane */
    MT_VARIES_DATA = 4, /* memory, atomics, shuffles: anything */
    /* Of terms: the same for all lanes, in steps over what a whole block of threads has, or a warp. */
    MT_STEPS_OVER = 8,
};

#define MT_LANE_TERMS 10
/* root + offset + the sum of factor * symbol, in bytes. */
struct mt_lane_sum {
    LLVMValueRef root; /* a variable, an argument …; NULL: the sum is not an address */
    int64_t offset;
    struct mt_lane_term {
        LLVMValueRef symbol; /* a value; for a special register the function that reads it */
        int64_t factor;
        unsigned varies;
    } term[MT_LANE_TERMS]; /* each symbol once, in no order */
    unsigned n;
    int is_cut; /* there were more terms */
};

struct mt_lanes {
    struct mt_unit *u;
    struct mt_lane_memo *memo; /* what is known of values */
    unsigned nmemo, memo_cap;
    struct mt_lane_sum *guards; /* each is 0 in one lane of a warp */
    unsigned nguards;
    size_t guards_cap;
};
void mt_lanes_free(struct mt_lanes *l);

/* lane_sum.c */
void mt_lane_sum_of(struct mt_lanes *l, LLVMValueRef value, struct mt_lane_sum *sum);
void mt_lane_sum_subtract(struct mt_lane_sum *from, const struct mt_lane_sum *other);
unsigned mt_lane_varies(struct mt_lanes *l, LLVMValueRef value);
/* Two lanes of a warp never have the same value of it. */
int mt_lane_is_own(LLVMValueRef symbol);

/* lane_guard.c. A branch's condition, when it is `taken`: the number of a guard that only one lane of a warp
 * gets through, or MT_GUARD_NONE. */
#define MT_GUARD_NONE (-1)
int mt_lane_guard(struct mt_lanes *l, LLVMValueRef condition, int taken);

/* lane_meet.c */
struct mt_lane_access {
    LLVMValueRef inst;
    struct mt_lane_sum address; /* root NULL: not known */
    uint32_t bytes;
    int guard;
    unsigned is_store : 1, is_load : 1, is_atomic : 1, is_volatile : 1, is_shared : 1, is_call : 1;
};
/* Can two different lanes of a warp touch the same byte, one with a and one with b? What cannot be known: */
enum mt_lane_doubt {
    MT_DOUBT_APART, /* what looks like the usual ways of giving each thread, or each purpose, its own part of
                     * an array is taken for that */
    MT_DOUBT_ARRAY, /* the same, but an array has one purpose */
    MT_DOUBT_MEETS, /* the lanes do meet */
};
int mt_lanes_meet(struct mt_lanes *l, const struct mt_lane_access *a, const struct mt_lane_access *b,
                  enum mt_lane_doubt doubt);
#endif
