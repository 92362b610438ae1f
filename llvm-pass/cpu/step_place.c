/* Which accesses take part in an exchange between lanes, and where lanes wait for one another.
 *
 * Lanes that part at a branch and have such a wait on the way must all come to the place where they meet
 * again before any goes on, as in a warp with one program counter: otherwise those on the other way would be
 * ahead of what the wait has put in order. */
#include "steps.h"
#include <stdlib.h>
#include <string.h>

#define MAX_MEETINGS 4000000

static void place_add(uint64_t *set, unsigned i)
{
    set[i / 64] |= (uint64_t)1 << i % 64;
}

static int place_has(const uint64_t *set, unsigned i)
{
    return set[i / 64] >> i % 64 & 1;
}

/* ---- what may come before an access with nothing between that orders them ---------------------------- */

/* s->now after an event that is not an access. */
static void place_pass(struct mt_steps *s, enum mt_step_kind kind)
{
    for (unsigned w = 0; w < s->words; w++)
        s->now[w] &= kind == MT_STEP_BARRIER     ? 0
                     : kind == MT_STEP_HAND_OVER ? s->is_volatile[w]
                                                 : s->is_shared_volatile[w];
}

/* s->now at the beginning of a block. */
static void place_join(struct mt_steps *s, unsigned b)
{
    const struct mt_flow *f = &s->flow;
    memset(s->now, 0, s->words * sizeof *s->now);
    for (unsigned e = f->in_at[b]; e < f->in_at[b + 1]; e++)
        for (unsigned w = 0; w < s->words; w++)
            s->now[w] |= s->out[(size_t)f->in[e].from * s->words + w];
    if (s->begins[b])
        place_pass(s, MT_STEP_BARRIER);
}

/* s->now at the end of a block becomes its `out`; 1 when that has changed. */
static int place_leave(struct mt_steps *s, unsigned b)
{
    uint64_t *out = s->out + (size_t)b * s->words;
    int changed = memcmp(out, s->now, s->words * sizeof *out) != 0;
    memcpy(out, s->now, s->words * sizeof *out);
    return changed;
}

/* Does access i depend on access j, which came before it, in another lane? Who writes volatile means that
 * others look. */
static int place_depends(struct mt_steps *s, unsigned j, unsigned i, enum mt_lane_doubt doubt)
{
    const struct mt_lane_access *a = &s->accesses[j], *b = &s->accesses[i];
    if (a->is_atomic && b->is_atomic)
        return 0;
    s->failed |= ++s->meetings > MAX_MEETINGS;
    return mt_lanes_meet(&s->lanes, a, b, a->is_volatile && b->is_volatile ? MT_DOUBT_MEETS : doubt);
}

/* ---- exchanges --------------------------------------------------------------------------------------- */

/* Stores of s->now that load i of another lane may see: both take part. */
static void place_find(struct mt_steps *s, unsigned i)
{
    for (unsigned w = 0; w < s->words; w++)
        for (uint64_t bits = s->now[w]; bits && !s->failed; bits &= bits - 1) {
            unsigned j = w * 64 + (unsigned)__builtin_ctzll(bits);
            if ((!s->takes_part[i] || !s->takes_part[j]) && place_depends(s, j, i, MT_DOUBT_APART))
                s->takes_part[i] = s->takes_part[j] = 1;
        }
}

/* One round over all blocks; `last`: nothing changes any more, exchanges are looked for. */
static int place_round(struct mt_steps *s, int last)
{
    int changed = 0;
    for (unsigned b = 0; b < s->flow.n && !s->failed; b++) {
        place_join(s, b);
        for (unsigned e = s->first[b]; e < s->first[b + 1]; e++) {
            const struct mt_step_event *v = &s->events[e];
            if (v->kind != MT_STEP_ACCESS) {
                place_pass(s, v->kind);
                continue;
            }
            if (last && s->accesses[v->access].is_load)
                place_find(s, v->access);
            if (s->accesses[v->access].is_store)
                place_add(s->now, v->access);
        }
        changed |= place_leave(s, b);
    }
    return changed;
}

static int place_allocate(struct mt_steps *s)
{
    s->words = (s->naccesses + 63) / 64;
    s->out = calloc((size_t)s->flow.n * s->words + 1, sizeof *s->out);
    s->now = calloc(3 * (size_t)s->words + 1, sizeof *s->now);
    s->takes_part = calloc(s->naccesses + 1, 1);
    s->waits = calloc(s->nevents + 1, 1);
    s->begins = calloc(s->flow.n + 1, 1);
    if (!s->out || !s->now || !s->takes_part || !s->waits || !s->begins)
        return -1;
    s->is_volatile = s->now + s->words;
    s->is_shared_volatile = s->is_volatile + s->words;
    for (unsigned i = 0; i < s->naccesses; i++) {
        const struct mt_lane_access *a = &s->accesses[i];
        if (a->is_volatile)
            place_add(s->is_volatile, i);
        if (a->is_volatile && a->is_shared)
            place_add(s->is_shared_volatile, i);
    }
    return 0;
}

int mt_step_exchanges(struct mt_steps *s)
{
    int any = 0;
    if (place_allocate(s)) {
        s->failed = 1;
        return 0;
    }
    while (place_round(s, 0))
        ;
    place_round(s, 1);
    for (unsigned i = 0; i < s->naccesses; i++)
        any |= s->takes_part[i];
    return any && !s->failed;
}

/* ---- where lanes that part meet again ---------------------------------------------------------------- */

/* A branch that not all lanes take the same way: the blocks until they meet again,
 * and the one where they do. */
struct place_fork {
    uint64_t *region; /* blocks, as bits */
    unsigned meeting;
};
struct place_forks {
    struct place_fork *list;
    unsigned n;
};

static int place_varies(struct mt_steps *s, LLVMValueRef end)
{
    LLVMValueRef on = LLVMIsASwitchInst(end) || (LLVMIsABranchInst(end) && LLVMIsConditional(end))
                          ? LLVMGetOperand(end, 0)
                          : NULL;
    return on && mt_lane_varies(&s->lanes, on) != 0;
}

static void place_region(struct mt_steps *s, struct place_fork *fork, unsigned from, unsigned *stack)
{
    const struct mt_flow *f = &s->flow;
    unsigned depth = 0;
    stack[depth++] = from;
    while (depth) {
        unsigned b = stack[--depth];
        for (unsigned e = f->out_at[b]; e < f->out_at[b + 1]; e++) {
            unsigned to = f->out[e].to;
            if (to == fork->meeting || place_has(fork->region, to))
                continue;
            place_add(fork->region, to);
            stack[depth++] = to;
        }
    }
}

static void place_free_forks(struct place_forks *forks)
{
    for (unsigned i = 0; i < forks->n; i++)
        free(forks->list[i].region);
    free(forks->list);
}

static int place_find_forks(struct mt_steps *s, struct place_forks *forks)
{
    const struct mt_flow *f = &s->flow;
    LLVMBasicBlockRef *meeting = calloc(f->n + 1, sizeof(LLVMBasicBlockRef));
    unsigned *stack = calloc(f->n + 1, sizeof *stack);
    int rc = -1;
    forks->list = calloc(f->n + 1, sizeof *forks->list);
    if (!meeting || !stack || !forks->list)
        goto out;
    mt_shim_post_dominators(s->function, f->block, f->n, meeting);
    for (unsigned b = 0; b < f->n; b++) {
        struct place_fork *fork = &forks->list[forks->n];
        if (!meeting[b] || !place_varies(s, LLVMGetBasicBlockTerminator(f->block[b])))
            continue;
        fork->meeting = (unsigned)mt_flow_index(f, meeting[b]);
        fork->region = calloc(f->n / 64 + 1, sizeof *fork->region);
        if (!fork->region)
            goto out;
        forks->n++;
        place_region(s, fork, b, stack);
    }
    rc = 0;
out:
    free(meeting);
    free(stack);
    return rc;
}

/* There is a wait in block b: lanes that did not come through it are waited for where they meet again. */
static int place_meet_again(struct mt_steps *s, const struct place_forks *forks, unsigned b)
{
    int changed = 0;
    for (unsigned i = 0; i < forks->n; i++) {
        unsigned to = forks->list[i].meeting;
        if (s->begins[to] || !place_has(forks->list[i].region, b))
            continue;
        s->begins[to] = 1;
        changed = 1;
        place_meet_again(s, forks, to);
    }
    return changed;
}

/* ---- waits ------------------------------------------------------------------------------------------- */

/* Must lanes wait before access i? */
static int place_must_wait(struct mt_steps *s, unsigned i)
{
    for (unsigned w = 0; w < s->words; w++)
        for (uint64_t bits = s->now[w]; bits && !s->failed; bits &= bits - 1) {
            unsigned j = w * 64 + (unsigned)__builtin_ctzll(bits);
            if ((s->takes_part[i] || s->takes_part[j]) &&
                (s->accesses[i].is_store || s->accesses[j].is_store) &&
                place_depends(s, j, i, MT_DOUBT_ARRAY))
                return 1;
        }
    return 0;
}

/* As late as possible, so that one wait serves what comes after it, too. */
static int place_block(struct mt_steps *s, const struct place_forks *forks, unsigned b)
{
    int changed = 0;
    place_join(s, b);
    for (unsigned e = s->first[b]; e < s->first[b + 1]; e++) {
        const struct mt_step_event *v = &s->events[e];
        if (v->kind != MT_STEP_ACCESS) {
            place_pass(s, v->kind);
            continue;
        }
        if (!s->waits[e] && place_must_wait(s, v->access)) {
            s->waits[e] = 1;
            changed |= place_meet_again(s, forks, b);
        }
        if (s->waits[e])
            place_pass(s, MT_STEP_BARRIER);
        place_add(s->now, v->access);
    }
    return changed | place_leave(s, b);
}

void mt_step_place(struct mt_steps *s)
{
    struct place_forks forks = {0};
    s->failed |= place_find_forks(s, &forks) != 0;
    /* Twice: what the first time put where lanes meet again may make other waits superfluous. */
    for (int time = 0; time < 2; time++) {
        memset(s->out, 0, (size_t)s->flow.n * s->words * sizeof *s->out);
        memset(s->waits, 0, s->nevents);
        for (int changed = 1; changed && !s->failed;) {
            changed = 0;
            for (unsigned b = 0; b < s->flow.n; b++)
                changed |= place_block(s, &forks, b);
        }
    }
    place_free_forks(&forks);
}
