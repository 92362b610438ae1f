/* Gives each record call the place of its access: a number that two lanes of a warp have in common when they
 * run the access together, in the same iteration of all loops and by the same calls, and that is greater for
 * what a warp does later. A function's places are laid out along its code: each access has a stretch, a loop
 * has one for each of some 2^bits iterations, a call that of its callee. What a thread adds up is a phi in
 * each loop's header, and a constant.
 *
 * Where loops go on for longer than that, places overlap, and no longer say who is later; nor do they where
 * functions call themselves or unknown ones: there the callee's places begin at a number made of the caller's
 * (join.c of the CPU device sorts such lanes). That two iterations have the same number there takes chance:
 * iterations are odd numbers of steps long, with no common divisor in one nest. */
#include "places.h"
#include "reach.h"
#include "format/image.h"
#include "memtrace/hash.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_BITS 53        /* of all places of a kernel */
#define PLACES_CALLEE_BITS 30 /* of a function that is called */
#define LEAST_STEPS 1021      /* of an iteration: a prime number */
#define MOST_ARGUMENTS 9      /* of a record call: a tensor copy's */

/* A record call, or a call of a function that records. */
struct places_item {
    LLVMValueRef call;
    LLVMValueRef callee; /* whose places are part of these; or NULL */
    int records;
    unsigned block;
    uint64_t at; /* in its loop's iteration */
};

struct places_loop {
    int wanted; /* something in it records */
    uint64_t at, step;
    LLVMValueRef base, next; /* where the places of this iteration begin, and of the next one */
};

struct places_function {
    LLVMValueRef function;
    enum { FUNCTION_NEW, FUNCTION_OPEN, FUNCTION_DONE } state;
    uint64_t width;
    struct mt_loop_shape shape;
    struct places_item *item; /* along the blocks */
    unsigned nitems;
    struct places_loop *loop; /* as in shape; [0] is the function */
};

struct places {
    struct mt_lowering *l;
    struct places_function *function;
    unsigned count;
    unsigned failed;
};

static int places_is_plain(LLVMValueRef f)
{
    return mt_ends(mt_name(f), MT_PLAIN_SUFFIX);
}

static int places_is_record(LLVMValueRef callee)
{
    return mt_starts(mt_name(callee), "__mt_access_");
}

static struct places_function *places_find(struct places *p, LLVMValueRef f)
{
    for (unsigned i = 0; i < p->count; i++)
        if (p->function[i].function == f)
            return &p->function[i];
    return NULL;
}

/* Does the call come to record calls in another function? */
static int places_records_below(struct places *p, LLVMValueRef inst)
{
    if (!LLVMIsACallInst(inst) || LLVMIsAInlineAsm(LLVMGetCalledValue(inst)))
        return 0;
    LLVMValueRef callee = mt_callee(inst);
    if (!callee)
        return 1; /* by a pointer */
    return LLVMIsDeclaration(callee) ? mt_is_shared_name(callee) : places_find(p, callee) != NULL;
}

static int places_has_item(struct places *p, LLVMValueRef f)
{
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            if (places_records_below(p, i) ||
                (LLVMIsACallInst(i) && mt_callee(i) && places_is_record(mt_callee(i))))
                return 1;
    return 0;
}

/* All functions that record, or call one that does. */
static int places_functions(struct places *p)
{
    unsigned n = 0, before;
    for (LLVMValueRef f = LLVMGetFirstFunction(p->l->module); f; f = LLVMGetNextFunction(f))
        n++;
    p->function = calloc(n + 1, sizeof *p->function);
    if (!p->function)
        return -1;
    do {
        before = p->count;
        for (LLVMValueRef f = LLVMGetFirstFunction(p->l->module); f; f = LLVMGetNextFunction(f))
            if (!LLVMIsDeclaration(f) && !places_is_plain(f) && !places_find(p, f) && places_has_item(p, f))
                p->function[p->count++].function = f;
    } while (p->count > before);
    return 0;
}

/* ---- layout ---- */

static uint64_t places_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The loop whose iterations those of loop l are. */
static unsigned places_level(const struct places_function *f, unsigned l)
{
    while (l && f->shape.loop[l - 1].joined)
        l = f->shape.loop[l - 1].parent;
    return l;
}

/* Has loop `in` a stretch of places in an iteration of loop l? */
static int places_is_part(const struct places_function *f, unsigned in, unsigned l)
{
    return in && f->loop[in].wanted && !f->shape.loop[in - 1].joined &&
           places_level(f, f->shape.loop[in - 1].parent) == l;
}

static int places_shares_divisor(const struct places_function *f, unsigned l, uint64_t step)
{
    for (unsigned in = 1; in <= f->shape.nloops; in++)
        if (places_is_part(f, in, l) && places_divisor(step, f->loop[in].step) != 1)
            return 1;
    return 0;
}

struct places_layout {
    struct places_function *f;
    unsigned bits; /* iterations of a loop that have places of their own, as a power of two */
    double all;    /* all places, without the wrapping around of the numbers */
};

/* Lays out what is in loop l (0: the function) and returns how many places one iteration has. */
static uint64_t places_lay(struct places_layout *y, struct places *p, unsigned l, double *exact)
{
    struct places_function *f = y->f;
    uint64_t at = 1;
    double sum = 1;
    for (unsigned b = 0, i = 0; b < f->shape.nblocks; b++) {
        unsigned in = f->shape.block[b].loop;
        if (places_is_part(f, in, l) && f->shape.loop[in - 1].header == b) {
            double inner;
            f->loop[in].at = at;
            f->loop[in].step = places_lay(y, p, in, &inner);
            at += f->loop[in].step << y->bits;
            sum += inner * (double)(1ull << y->bits);
        }
        for (; i < f->nitems && f->item[i].block < b; i++)
            ;
        for (in = places_level(f, in); in == l && i < f->nitems && f->item[i].block == b; i++) {
            struct places_function *callee = f->item[i].callee ? places_find(p, f->item[i].callee) : NULL;
            uint64_t width = callee ? callee->width : 1;
            f->item[i].at = at;
            at += width;
            sum += (double)width;
        }
    }
    at = at < LEAST_STEPS ? LEAST_STEPS : at | 1;
    while (places_shares_divisor(f, l, at))
        at += 2;
    *exact = sum < (double)at ? (double)at : sum;
    return at;
}

static void places_prepare(struct places *p, struct places_function *f);

/* What a call adds: nothing of its own where the callee's places are not known,
 * or would be its own caller's. */
static void places_add_call(struct places *p, struct places_item *item)
{
    struct places_function *callee = mt_callee(item->call) ? places_find(p, mt_callee(item->call)) : NULL;
    if (!callee || callee->state == FUNCTION_OPEN)
        return;
    places_prepare(p, callee);
    item->callee = callee->state == FUNCTION_DONE ? callee->function : NULL;
}

static void places_items(struct places *p, struct places_function *f)
{
    for (unsigned b = 0; b < f->shape.nblocks; b++)
        for (LLVMValueRef i = LLVMGetFirstInstruction(f->shape.block[b].block); i;
             i = LLVMGetNextInstruction(i)) {
            LLVMValueRef callee = LLVMIsACallInst(i) ? mt_callee(i) : NULL;
            int records = callee && places_is_record(callee);
            if (!records && !places_records_below(p, i))
                continue;
            struct places_item *item = &f->item[f->nitems++];
            *item = (struct places_item){.call = i, .records = records, .block = b};
            for (unsigned l = f->shape.block[b].loop; l; l = f->shape.loop[l - 1].parent)
                f->loop[l].wanted = 1;
            if (!records)
                places_add_call(p, item);
        }
    for (int changed = 1; changed;) {
        changed = 0;
        for (unsigned l = 1; l <= f->shape.nloops; l++)
            if (f->shape.loop[l - 1].joined && !f->loop[l].wanted &&
                f->loop[f->shape.loop[l - 1].parent].wanted)
                changed = f->loop[l].wanted = 1;
    }
}

static int places_is_kernel(struct places *p, LLVMValueRef f)
{
    for (unsigned k = 0; k < p->l->u->nkernels; k++)
        if (p->l->traced.kernels[k] == f)
            return 1;
    return 0;
}

static unsigned places_calls(LLVMValueRef f)
{
    unsigned n = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            n += LLVMIsACallInst(i) != NULL;
    return n;
}

/* Lays a function out, those that it calls before. */
static void places_prepare(struct places *p, struct places_function *f)
{
    if (f->state != FUNCTION_NEW)
        return;
    f->state = FUNCTION_OPEN;
    f->item = calloc(places_calls(f->function) + 1, sizeof *f->item);
    if (!f->item || mt_shape_of(&f->shape, f->function) ||
        !(f->loop = calloc(f->shape.nloops + 1, sizeof *f->loop))) {
        p->failed = 1;
        return;
    }
    places_items(p, f);
    double most = (double)(1ull << (places_is_kernel(p, f->function) ? PLACES_BITS : PLACES_CALLEE_BITS)),
           all;
    struct places_layout y = {.f = f, .bits = 40};
    for (f->width = places_lay(&y, p, 0, &all); all > most && y.bits > 6;
         f->width = places_lay(&y, p, 0, &all))
        y.bits -= 2;
    for (unsigned l = 1; l <= f->shape.nloops; l++)
        f->loop[l].step = f->loop[places_level(f, l)].step;
    f->state = FUNCTION_DONE;
}

/* ---- code ---- */

static LLVMValueRef places_number(struct places *p, uint64_t places)
{
    return LLVMConstInt(p->l->i64, places * MT_PLACE_ONE, 0);
}

/* Where the places of loop l begin in the function, iterations apart. */
static uint64_t places_begin(const struct places_function *f, unsigned l)
{
    uint64_t at = 0;
    for (; l; l = f->shape.loop[l - 1].parent)
        at += f->loop[l].at;
    return at;
}

static LLVMValueRef places_base(const struct places_function *f, unsigned l)
{
    while (l && !f->loop[l].wanted)
        l = f->shape.loop[l - 1].parent;
    return f->loop[l].base;
}

/* The counter of loop l's iterations. */
static void places_open(struct places *p, struct places_function *f, unsigned l)
{
    LLVMBuilderRef b = p->l->builder;
    LLVMBasicBlockRef header = f->shape.block[f->shape.loop[l - 1].header].block;
    LLVMValueRef first = LLVMGetFirstInstruction(header);
    LLVMPositionBuilderBefore(b, first);
    f->loop[l].base = LLVMBuildPhi(b, p->l->i64, "");
    while (LLVMIsAPHINode(first))
        first = LLVMGetNextInstruction(first);
    LLVMPositionBuilderBefore(b, first);
    f->loop[l].next = LLVMBuildAdd(b, f->loop[l].base, places_number(p, f->loop[l].step), "");
}

/* The loop that counts at block b for loop l: l, or one inside whose iterations are its own. */
static unsigned places_counter(const struct places_function *f, unsigned b, unsigned l)
{
    unsigned counter = f->shape.block[b].loop;
    for (unsigned in = counter; in != l; in = f->shape.loop[in - 1].parent)
        if (!f->shape.loop[in - 1].joined)
            counter = f->shape.loop[in - 1].parent;
    return counter;
}

/* One more at each way back to the header. */
static void places_count(struct places *p, struct places_function *f, unsigned l)
{
    const struct mt_loop_shape *s = &f->shape;
    LLVMBasicBlockRef header = s->block[s->loop[l - 1].header].block;
    LLVMValueRef outer = places_base(f, s->loop[l - 1].parent), never = LLVMGetUndef(p->l->i64);
    for (LLVMBasicBlockRef from = LLVMGetFirstBasicBlock(f->function); from;
         from = LLVMGetNextBasicBlock(from)) {
        LLVMValueRef t = LLVMGetBasicBlockTerminator(from);
        for (unsigned k = 0, n = LLVMGetNumSuccessors(t); k < n; k++) {
            if (LLVMGetSuccessor(t, k) != header)
                continue;
            unsigned b = mt_shape_number(s, from);
            int back = b < s->nblocks && mt_shape_within(s, b, l);
            LLVMValueRef value = b == s->nblocks ? never
                                 : back          ? f->loop[places_counter(f, b, l)].next
                                                 : outer;
            LLVMAddIncoming(f->loop[l].base, &value, &from, 1);
        }
    }
}

/* Of an instruction, or of a constant that is made of another one: the address of a variable. 0: neither. */
static LLVMOpcode places_opcode(LLVMValueRef p)
{
    return LLVMIsAInstruction(p)    ? LLVMGetInstructionOpcode(p)
           : LLVMIsAConstantExpr(p) ? LLVMGetConstOpcode(p)
                                    : (LLVMOpcode)0;
}

/* One step towards what an address is made of. NULL: it is made of nothing else. */
static LLVMValueRef places_behind(LLVMValueRef p, uint64_t *offset)
{
    LLVMOpcode op = places_opcode(p);
    int element = op == LLVMGetElementPtr;
    LLVMValueRef constant = op == LLVMAdd || element ? LLVMGetOperand(p, 1) : NULL;
    if (op == LLVMAddrSpaceCast || op == LLVMIntToPtr || op == LLVMPtrToInt)
        return LLVMGetOperand(p, 0);
    if (!constant || !LLVMIsAConstantInt(constant) || LLVMGetNumOperands(p) != 2)
        return NULL;
    if (element && LLVMGetTypeKind(LLVMGetGEPSourceElementType(p)) != LLVMIntegerTypeKind)
        return NULL;
    unsigned bits = element ? LLVMGetIntTypeWidth(LLVMGetGEPSourceElementType(p)) : 8;
    *offset += (uint64_t)LLVMConstIntGetSExtValue(constant) * (bits / 8);
    return LLVMGetOperand(p, 0);
}

/* Are they the same address, as far as casts and constants go? */
static int places_same(LLVMValueRef a, LLVMValueRef b)
{
    uint64_t from_a = 0, from_b = 0;
    for (LLVMValueRef next = a; next; next = places_behind(a = next, &from_a))
        ;
    for (LLVMValueRef next = b; next; next = places_behind(b = next, &from_b))
        ;
    return a == b && from_a == from_b;
}

/* The operand by which an instruction accesses memory; -1: it is no access of one thread by one pointer. */
static int places_operand(LLVMValueRef inst)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    return op == LLVMLoad || op == LLVMAtomicRMW || op == LLVMAtomicCmpXchg ? 0 : op == LLVMStore ? 1 : -1;
}

LLVMValueRef mt_recorded_access(LLVMValueRef call, LLVMValueRef p)
{
    for (LLVMValueRef i = LLVMGetNextInstruction(call); i; i = LLVMGetNextInstruction(i)) {
        int operand = places_operand(i);
        if (operand >= 0 && places_same(LLVMGetOperand(i, (unsigned)operand), p))
            return i;
        if (LLVMIsACallInst(i) && mt_callee(i) &&
            (places_is_record(mt_callee(i)) || mt_starts(mt_name(mt_callee(i)), "mt.record.")))
            return NULL;
    }
    return NULL;
}

/* The access of a record call is made where that says (MEMTRACE_CHECK). */
static void places_move(struct places *p, LLVMValueRef access, LLVMValueRef to)
{
    unsigned operand = (unsigned)places_operand(access);
    LLVMTypeRef type = LLVMTypeOf(LLVMGetOperand(access, operand));
    if (LLVMTypeOf(to) != type)
        to = LLVMBuildAddrSpaceCast(p->l->builder, to, type, "");
    LLVMSetOperand(access, operand, to);
}

/* The same call with the place after its arguments. */
static void places_record(struct places *p, LLVMValueRef call, LLVMValueRef place)
{
    LLVMValueRef args[MOST_ARGUMENTS + 1], old = mt_callee(call);
    LLVMTypeRef types[MOST_ARGUMENTS + 1];
    char name[64];
    unsigned n = LLVMGetNumArgOperands(call);
    for (unsigned i = 0; i < n; i++)
        args[i] = LLVMGetOperand(call, i);
    args[n] = place;
    for (unsigned i = 0; i <= n; i++)
        types[i] = LLVMTypeOf(args[i]);
    int fixed = !strcmp(mt_name(old), "__mt_access_global") || !strcmp(mt_name(old), "__mt_access_generic") ||
                !strcmp(mt_name(old), "__mt_access_any");
    LLVMValueRef access = fixed && types[0] == p->l->ptr ? mt_recorded_access(call, args[0]) : NULL;
    snprintf(name, sizeof name, "%s_%s", mt_name(old), access ? "to" : "at");
    LLVMTypeRef type = LLVMFunctionType(access ? p->l->ptr : p->l->none, types, n + 1, 0);
    LLVMValueRef made =
        LLVMBuildCall2(p->l->builder, type, mt_declare(p->l->module, name, type), args, n + 1, "");
    if (access)
        places_move(p, access, made);
    LLVMInstructionEraseFromParent(call);
}

/* A number for calls whose callee's places are not laid out: that of another call, or of this one made by
 * another way, is another one. */
static LLVMValueRef places_beyond(struct places *p, LLVMValueRef place, uint64_t *chance)
{
    *chance = *chance * 6364136223846793005u + 1442695040888963407u;
    LLVMBuilderRef b = p->l->builder;
    LLVMValueRef x = LLVMBuildAdd(b, place, places_number(p, *chance >> 11), "");
    x = LLVMBuildMul(b, x, LLVMConstInt(p->l->i64, mt_hash_number(1), 0), "");
    return LLVMBuildXor(b, x, LLVMBuildLShr(b, x, LLVMConstInt(p->l->i64, 29, 0), ""), "");
}

static void places_build(struct places *p, struct places_function *f, uint64_t *chance)
{
    LLVMBuilderRef b = p->l->builder;
    LLVMTypeRef get_type = LLVMFunctionType(p->l->i64, NULL, 0, 0);
    LLVMTypeRef set_type = LLVMFunctionType(p->l->none, &p->l->i64, 1, 0);
    f->loop[0].base = LLVMConstInt(p->l->i64, 0, 0);
    if (!places_is_kernel(p, f->function)) {
        LLVMPositionBuilderBefore(b, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(f->function)));
        f->loop[0].base =
            LLVMBuildCall2(b, get_type, mt_declare(p->l->module, "__mt_place_get", get_type), NULL, 0, "");
    }
    for (unsigned l = 1; l <= f->shape.nloops; l++)
        if (f->loop[l].wanted)
            places_open(p, f, l);
    for (unsigned l = 1; l <= f->shape.nloops; l++)
        if (f->loop[l].wanted)
            places_count(p, f, l);
    for (unsigned i = 0; i < f->nitems; i++) {
        struct places_item *item = &f->item[i];
        unsigned l = f->shape.block[item->block].loop;
        LLVMPositionBuilderBefore(b, item->call);
        LLVMValueRef place =
            LLVMBuildAdd(b, places_base(f, l), places_number(p, places_begin(f, l) + item->at), "");
        if (item->records) {
            places_record(p, item->call, place);
            continue;
        }
        place = item->callee ? place : places_beyond(p, place, chance);
        LLVMBuildCall2(b, set_type, mt_declare(p->l->module, "__mt_place_set", set_type), &place, 1, "");
    }
}

/* Kernels that come to a function of which some lanes cannot be told apart say so. */
static void places_part(struct places *p, LLVMValueRef function)
{
    for (unsigned k = 0; k < p->l->u->nkernels; k++) {
        struct mt_reach reach = {0};
        mt_reach_from(p->l, p->l->traced.kernels[k], &reach);
        p->l->u->kernels[k].parted |= mt_reach_has(&reach, function);
        mt_reach_free(&reach);
    }
}

void mt_lower_places(struct mt_lowering *l)
{
    struct places p = {.l = l};
    uint64_t chance = 1442695040888963407u;
    size_t length;
    for (const char *c = LLVMGetSourceFileName(l->module, &length); *c;
         c++) /* other files' calls are others */
        chance = (chance ^ (unsigned char)*c) * 1099511628211u;
    if (places_functions(&p))
        p.failed = 1;
    for (unsigned i = 0; i < p.count; i++)
        if (mt_ways_apart(l, p.function[i].function, places_is_kernel(&p, p.function[i].function)))
            places_part(&p, p.function[i].function);
    for (unsigned i = 0; i < p.count; i++)
        places_prepare(&p, &p.function[i]);
    for (unsigned i = 0; i < p.count && !p.failed; i++)
        places_build(&p, &p.function[i], &chance);
    if (p.failed)
        mt_diag(l->u, NULL, MT_DIAG_ERROR, "no memory for the places of accesses");
    for (unsigned i = 0; i < p.count; i++) {
        mt_shape_free(&p.function[i].shape);
        free(p.function[i].item);
        free(p.function[i].loop);
    }
    free(p.function);
}
