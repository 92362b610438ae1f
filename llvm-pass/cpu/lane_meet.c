/* Can two lanes of a warp touch the same byte?
 *
 * Addresses of one array, A of the earlier and B of the later access, are compared as sums. What differs from
 * lane to lane may be the same in both: then B - A, for one thread, says how far apart they are, and the
 * factor of the lane says where other lanes are.
 *
 *   s[t] and s[t + 16]          meet: 16 lanes on
 *   s[t] and s[t + 32]          do not: that is another warp's
 *   s[17 * t + i], s[17 * t + j]  do not: each thread has a part of its own
 *   s[t] and s[t + n * blockDim.x]  do not
 *   s[t] and s[k]               meet
 *   s[t], and s[0] in lane 0    do not: that is its own element; s[1] in lane 0 and s[t] do
 */
#include "lanes.h"
#include <stdlib.h>

#define WARP 32
#define ARRAY_APART 128 /* bytes: different parts of one block of shared memory, if nothing else is alike */

static int meet_overlaps(int64_t distance, const struct mt_lane_access *a, const struct mt_lane_access *b)
{
    return distance < (int64_t)a->bytes && -distance < (int64_t)b->bytes;
}

/* Are there other lanes, 1 to 31 away in a row of threads that lie `e` bytes apart, or in rows of `row` bytes
 * (0: none), whose A overlaps B? */
static int meet_reaches(int64_t e, int64_t row, int64_t distance, const struct mt_lane_access *a,
                        const struct mt_lane_access *b)
{
    int64_t rows = row ? (WARP * e - 1) / row : 0; /* that a warp has a part of, but one */
    for (int64_t r = -rows; r <= rows; r++)
        for (int64_t d = 1 - WARP; d < WARP; d++)
            if ((d || r) && meet_overlaps(distance - e * d - row * r, a, b))
                return 1;
    return 0;
}

/* The terms that differ from lane to lane, as far as the factors go. */
struct meet_shape {
    int64_t e;   /* the smallest factor of the lane's own number; 0: none */
    int64_t row; /* of rows that are shorter than a warp; 0: none */
    unsigned moving, data;
    int rows_move; /* as meet_moves() has it */
    int is_own;    /* the lane's number is among them: no two lanes have the same address */
};

static int64_t meet_size(int64_t x)
{
    return x < 0 ? -x : x;
}

/* Does the term differ from lane to lane? Rows do when there is nothing else, in blocks of one column. */
static int meet_moves(const struct mt_lane_term *t, int rows_move)
{
    return (t->varies & (MT_VARIES_LANE | MT_VARIES_DATA)) || (rows_move && t->varies & MT_VARIES_ROW);
}

static struct meet_shape meet_shape_of(const struct mt_lane_access *a, int rows_move)
{
    struct meet_shape s = {.rows_move = rows_move};
    for (unsigned i = 0; i < a->address.n; i++) {
        const struct mt_lane_term *t = &a->address.term[i];
        int64_t f = meet_size(t->factor);
        s.data += (t->varies & MT_VARIES_DATA) != 0;
        s.moving += meet_moves(t, rows_move);
        if (!meet_moves(t, rows_move) || t->varies & MT_VARIES_DATA)
            continue;
        s.is_own |= mt_lane_is_own(t->symbol);
        if (f == 1 && LLVMGetTypeKind(LLVMTypeOf(t->symbol)) == LLVMPointerTypeKind)
            f = a->bytes; /* a pointer that walks: by elements */
        if (!s.e || f < s.e)
            s.e = f;
    }
    for (unsigned i = 0; s.e && !rows_move && i < a->address.n; i++) {
        int64_t f = meet_size(a->address.term[i].factor);
        if (a->address.term[i].varies == MT_VARIES_ROW && f < WARP * s.e && (!s.row || f < s.row))
            s.row = f;
    }
    return s;
}

/* Is it a step over whole rows of threads, or within what one thread has? */
static int meet_is_apart(const struct mt_lane_term *t, int64_t e)
{
    int64_t f = meet_size(t->factor);
    return f >= WARP * e || f < e || (t->varies == MT_STEPS_OVER && f >= e);
}

/* What moves is the same in both; d = B - A of one thread. */
static int meet_alike(const struct mt_lane_access *a, const struct mt_lane_access *b,
                      const struct mt_lane_sum *d, const struct meet_shape *s, int strict)
{
    if (!s->moving) /* one address for all lanes */
        return d->n || d->is_cut || meet_overlaps(d->offset, a, b);
    if (d->is_cut || (strict && d->n > 1))
        return strict;
    for (unsigned i = 0; i < d->n; i++)
        if (!s->e || !meet_is_apart(&d->term[i], s->e)) {
            if (strict || (s->e && d->term[i].factor % s->e == 0))
                return 1;
        } else if (strict && meet_size(d->term[i].factor) < s->e) {
            return 1;
        }
    if (d->n)
        return 0;
    if (meet_overlaps(d->offset, a, b)) /* the thread's own element */
        return strict && !(s->is_own && !s->data && s->e >= (int64_t)a->bytes);
    if (!s->e || s->moving > 1)
        return strict;
    return meet_reaches(s->e, s->row, d->offset, a, b);
}

/* Is something between them that is the same for all lanes, and in all iterations of a loop? Another array
 * begins there, as a rule. */
static int meet_is_elsewhere(const struct mt_lane_sum *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (!(d->term[i].varies & ~(unsigned)MT_STEPS_OVER) && !LLVMIsAPHINode(d->term[i].symbol))
            return 1;
    return 0;
}

static unsigned meet_moving(const struct mt_lane_sum *d, int rows_move)
{
    unsigned n = 0;
    for (unsigned i = 0; i < d->n; i++)
        n += meet_moves(&d->term[i], rows_move);
    return n;
}

/* Steps by what is loaded, but over whole rows or within a thread's part, change nothing. */
static void meet_drop_apart(struct mt_lane_sum *d, int64_t e)
{
    for (unsigned i = 0; e && i < d->n;)
        if (!(d->term[i].varies & MT_VARIES_LANE) && meet_is_apart(&d->term[i], e))
            d->term[i] = d->term[--d->n];
        else
            i++;
}

static int meet_in_array(const struct mt_lane_access *a, const struct mt_lane_access *b,
                         struct mt_lane_sum *d, const struct meet_shape *s, enum mt_lane_doubt doubt)
{
    int strict = doubt == MT_DOUBT_MEETS;
    if (doubt == MT_DOUBT_APART && !d->is_cut && meet_is_elsewhere(d))
        return 0;
    if (meet_moving(d, s->rows_move) && !strict)
        meet_drop_apart(d, s->e);
    if (!meet_moving(d, s->rows_move))
        return meet_alike(a, b, d, s, strict);
    return doubt != MT_DOUBT_APART || d->is_cut || meet_size(d->offset) < ARRAY_APART;
}

/* In the one lane that the guard lets through the lane's number is known: puts that in. */
static void meet_put_in(struct mt_lane_sum *d, const struct mt_lane_sum *guard)
{
    const struct mt_lane_term *own = NULL;
    struct mt_lane_sum rest = *guard;
    for (unsigned i = 0; i < guard->n; i++)
        if (guard->term[i].varies & MT_VARIES_LANE)
            own = &guard->term[i];
    if (!own || meet_size(own->factor) != 1)
        return;
    for (unsigned i = 0; i < d->n; i++) {
        if (d->term[i].symbol != own->symbol)
            continue;
        int64_t times = d->term[i].factor * own->factor; /* d - times * guard has no such symbol */
        rest.offset *= times;
        for (unsigned k = 0; k < rest.n; k++)
            rest.term[k].factor *= times;
        mt_lane_sum_subtract(d, &rest);
        return;
    }
}

static int meet_is_object(struct mt_lanes *l, LLVMValueRef root)
{
    return LLVMIsAGlobalVariable(root) ||
           (LLVMIsAArgument(root) && mt_unit_kernel(l->u, LLVMGetParamParent(root)) != NULL);
}

int mt_lanes_meet(struct mt_lanes *l, const struct mt_lane_access *a, const struct mt_lane_access *b,
                  enum mt_lane_doubt doubt)
{
    int strict = doubt == MT_DOUBT_MEETS;
    LLVMValueRef x = a->address.root, y = b->address.root;
    if (a->guard != MT_GUARD_NONE && a->guard == b->guard)
        return 0;
    if (!x || !y)
        return strict;
    if (x != y)
        return strict && !(meet_is_object(l, x) && meet_is_object(l, y));
    struct mt_lane_sum d = b->address;
    int rows_move = !strict && a->guard == MT_GUARD_NONE && b->guard == MT_GUARD_NONE &&
                    !meet_moving(&a->address, 0) && !meet_moving(&b->address, 0);
    struct meet_shape s = meet_shape_of(a, rows_move), t = meet_shape_of(b, rows_move);
    if (t.moving > s.moving)
        s = t;
    mt_lane_sum_subtract(&d, &a->address);
    if (a->guard != MT_GUARD_NONE)
        meet_put_in(&d, &l->guards[a->guard]);
    if (b->guard != MT_GUARD_NONE)
        meet_put_in(&d, &l->guards[b->guard]);
    return meet_in_array(a, b, &d, &s, doubt);
}
