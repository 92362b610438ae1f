/* Warps as vectors: regions (format/container/region.h). Where all lanes are active, the records of accesses
 * in a row become one entry of the trace buffer: each access stores where it is, and the last one completes
 * the entry. In a loop of one block whose addresses move by the same distance each time, only the first lap
 * stores, and one entry is made behind the loop, where lanes part, or after MOST_LAPS laps. Accesses whose
 * lanes turn out not to be evenly spaced, and all under MEMTRACE_CHECK, are recorded by themselves
 * (record.c). */
#include "vector.h"
#include "format/container/region.h"
#include <string.h>
#include "trace/trace.h"

#define DEEPEST 24u
/* Accesses of a block beyond which they are not worth the code: each has two ways to be recorded. */
#define MOST_ACCESSES 64u
/* Laps of an entry: a kernel that is killed in a long loop has its accesses but for the last ones. */
#define MOST_LAPS 4096u

/* ---- which accesses ---- */

/* Returns the shape of an access's addresses, which may be rows that are only known as such at run time. */
static struct vec_shape region_shape(const struct vec *v, LLVMValueRef call)
{
    struct vec_value *x = vec_find(v, LLVMGetOperand(call, 0));
    return x ? x->shape : vec_shape_of(v, LLVMGetOperand(call, 0));
}

/* Returns 1 for an access that can be part of a region. */
static int region_takes(const struct vec *v, LLVMValueRef call)
{
    if (!mt_starts(vec_callee(call), "mt.record.global") || !LLVMIsAConstantInt(LLVMGetOperand(call, 1)) ||
        !LLVMIsAConstantInt(LLVMGetOperand(call, 2)))
        return 0;
    struct vec_shape s = region_shape(v, call);
    return s.kind == VEC_UNIFORM || (s.kind == VEC_ROWS && s.stride == (int32_t)s.stride);
}

/* Returns 1 for an instruction that records nothing and lets no other warp run. */
static int region_passes(LLVMValueRef inst)
{
    LLVMValueRef callee;
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMAtomicRMW:
    case LLVMAtomicCmpXchg:
    case LLVMFence:
    case LLVMAlloca:
        return 0;
    case LLVMCall:
        callee = mt_callee(inst);
        return vec_register(vec_callee(inst)) >= 0 || (callee && vec_is_plain_call(inst));
    default:
        return 1;
    }
}

/* Adds an access to the region. Returns 0 if it cannot have it. */
static int region_note(struct vec *v, LLVMValueRef call)
{
    struct vec_region *g = &v->region;
    if (!region_takes(v, call) || g->n == MT_REGION_ACCESSES)
        return 0;
    int rows = region_shape(v, call).kind == VEC_ROWS;
    g->call[g->n] = call;
    g->first[g->n++] = g->bases;
    g->bases += rows ? v->rows : 1;
    return 1;
}

/* ---- loops: by how much a value changes from lap to lap ---- */

static int region_is_outside(const struct vec *v, LLVMValueRef x)
{
    return !LLVMIsAInstruction(x) || LLVMGetInstructionParent(x) != v->block[v->now].from;
}

static int region_is_fixed(const struct vec *v, LLVMValueRef x)
{
    return region_is_outside(v, x) && vec_shape_of(v, x).kind == VEC_UNIFORM;
}

static LLVMValueRef region_next(const struct vec *v, LLVMValueRef phi)
{
    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++)
        if (LLVMGetIncomingBlock(phi, i) == v->block[v->now].from)
            return LLVMGetIncomingValue(phi, i);
    return NULL;
}

/* Returns which operand of a sum leads back to the phi, while all others are fixed; -1: none does. */
static int region_way_back(const struct vec *v, LLVMValueRef x, LLVMValueRef phi, unsigned depth);

static int region_leads_back(const struct vec *v, LLVMValueRef x, LLVMValueRef phi, unsigned depth)
{
    return x == phi ||
           (!region_is_outside(v, x) && depth < DEEPEST && region_way_back(v, x, phi, depth + 1) >= 0);
}

static int region_way_back(const struct vec *v, LLVMValueRef x, LLVMValueRef phi, unsigned depth)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(x);
    int n = LLVMGetNumOperands(x), way = -1;
    if (op != LLVMAdd && op != LLVMSub && op != LLVMGetElementPtr)
        return -1;
    for (int i = 0; i < n; i++) {
        if (region_is_fixed(v, LLVMGetOperand(x, (unsigned)i)))
            continue;
        if (way >= 0 || (i && op != LLVMAdd) ||
            !region_leads_back(v, LLVMGetOperand(x, (unsigned)i), phi, depth))
            return -1;
        way = i;
    }
    return way;
}

enum region_moves { REGION_RESTS, REGION_MOVES, REGION_JUMPS }; /* jumps: not by the same distance */

static enum region_moves region_moves(struct vec *v, LLVMValueRef x, unsigned depth);

/* Notes an extension of a moving number: its laps are only evenly spaced if the number does not wrap. */
static enum region_moves region_extends(struct vec *v, LLVMValueRef x, enum region_moves of)
{
    struct vec_region *g = &v->region;
    if (of != REGION_MOVES)
        return of;
    if (LLVMGetIntTypeWidth(LLVMTypeOf(LLVMGetOperand(x, 0))) < 32)
        return REGION_JUMPS; /* counters of 8 and 16 bits do wrap */
    for (unsigned i = 0; i < g->nextends; i++)
        if (g->extends[i] == x)
            return of;
    if (g->nextends == MT_REGION_ACCESSES)
        return REGION_JUMPS;
    g->extends[g->nextends++] = x;
    return of;
}

/* Returns 1 for an operation whose result moves as its operands do, or a product with one fixed number. */
static int region_is_linear(const struct vec *v, LLVMValueRef x)
{
    switch (LLVMGetInstructionOpcode(x)) {
    case LLVMOr:
        return LLVMGetIsDisjoint(x);
    case LLVMMul:
        return region_is_fixed(v, LLVMGetOperand(x, 0)) || region_is_fixed(v, LLVMGetOperand(x, 1));
    case LLVMShl:
        return LLVMIsAConstantInt(LLVMGetOperand(x, 1)) != NULL;
    case LLVMGetElementPtr:
        for (int i = 1; i < LLVMGetNumOperands(x); i++)
            if (LLVMGetTypeKind(LLVMTypeOf(LLVMGetOperand(x, (unsigned)i))) != LLVMIntegerTypeKind)
                return 0;
        return LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMPointerTypeKind;
    case LLVMAdd:
    case LLVMSub:
    case LLVMSExt:
    case LLVMZExt:
    case LLVMTrunc:
    case LLVMAddrSpaceCast:
    case LLVMPtrToInt:
    case LLVMIntToPtr:
    case LLVMFreeze:
        return 1;
    default:
        return 0;
    }
}

static enum region_moves region_moves(struct vec *v, LLVMValueRef x, unsigned depth)
{
    enum region_moves all = REGION_RESTS;
    if (region_is_outside(v, x) || vec_register(vec_callee(x)) >= 0)
        return REGION_RESTS;
    LLVMOpcode op = LLVMGetInstructionOpcode(x);
    if (op == LLVMPHI) {
        LLVMValueRef next = region_next(v, x);
        return next && region_leads_back(v, next, x, 0) ? REGION_MOVES : REGION_JUMPS;
    }
    if (depth > DEEPEST || !region_is_linear(v, x))
        return REGION_JUMPS;
    for (int i = 0; i < LLVMGetNumOperands(x); i++) {
        enum region_moves of = region_moves(v, LLVMGetOperand(x, (unsigned)i), depth + 1);
        int narrow = op == LLVMGetElementPtr && i &&
                     LLVMGetIntTypeWidth(LLVMTypeOf(LLVMGetOperand(x, (unsigned)i))) < 64;
        if (of == REGION_JUMPS || (narrow && of == REGION_MOVES))
            return REGION_JUMPS;
        all = of == REGION_MOVES ? of : all;
    }
    return op == LLVMSExt || op == LLVMZExt ? region_extends(v, x, all) : all;
}

static LLVMTypeRef region_step_type(const struct vec *v, LLVMValueRef x)
{
    return LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMPointerTypeKind ? v->l->i64 : LLVMTypeOf(x);
}

static LLVMValueRef region_plus(struct vec *v, LLVMValueRef a, LLVMValueRef b)
{
    return a && b ? LLVMBuildAdd(v->b, a, b, "") : a ? a : b;
}

static LLVMValueRef region_step(struct vec *v, LLVMValueRef x, LLVMValueRef phi);

/* Returns by how much an index moves an address, as an i64; NULL: not at all. phi: as in region_step; then
 * the fixed index itself counts. */
static LLVMValueRef region_step_index(struct vec *v, LLVMValueRef index, LLVMTypeRef type, LLVMValueRef phi)
{
    LLVMValueRef size = LLVMConstInt(v->l->i64, LLVMABISizeOfType(v->layout, type), 0);
    LLVMValueRef step =
        phi ? LLVMBuildIntCast2(v->b, vec_uniform(v, index), v->l->i64, 1, "") : region_step(v, index, NULL);
    return step ? LLVMBuildMul(v->b, step, size, "") : NULL;
}

static LLVMValueRef region_step_address(struct vec *v, LLVMValueRef x, LLVMValueRef phi)
{
    LLVMValueRef sum = region_step(v, LLVMGetOperand(x, 0), phi);
    LLVMTypeRef type = LLVMGetGEPSourceElementType(x);
    for (int i = 1; i < LLVMGetNumOperands(x); i++) {
        LLVMValueRef index = LLVMGetOperand(x, (unsigned)i);
        if (i > 1 && LLVMGetTypeKind(type) == LLVMStructTypeKind) {
            unsigned member = (unsigned)LLVMConstIntGetZExtValue(index);
            if (phi)
                sum = region_plus(v, sum,
                                  LLVMConstInt(v->l->i64, LLVMOffsetOfElement(v->layout, type, member), 0));
            type = LLVMStructGetTypeAtIndex(type, member);
            continue;
        }
        if (i > 1)
            type = LLVMGetElementType(type);
        sum = region_plus(v, sum, region_step_index(v, index, type, phi));
    }
    return sum;
}

/* Returns what is added on the way from the phi to x (phi given), or by how much x, which does not jump,
 * moves from lap to lap (NULL). In the type of x, an i64 for an address; NULL: nothing. */
static LLVMValueRef region_step(struct vec *v, LLVMValueRef x, LLVMValueRef phi)
{
    LLVMTypeRef type = region_step_type(v, x);
    if (phi && x == phi)
        return NULL;
    if (region_is_outside(v, x) || vec_register(vec_callee(x)) >= 0)
        return phi ? vec_uniform(v, x) : NULL;
    LLVMOpcode op = LLVMGetInstructionOpcode(x);
    if (op == LLVMPHI)
        return region_step(v, region_next(v, x), x);
    if (op == LLVMGetElementPtr)
        return region_step_address(v, x, phi);
    LLVMValueRef a = region_step(v, LLVMGetOperand(x, 0), phi), b = NULL;
    if (op == LLVMMul) {
        int second = region_is_fixed(v, LLVMGetOperand(x, 1));
        a = second ? a : region_step(v, LLVMGetOperand(x, 1), NULL);
        return a ? LLVMBuildMul(v->b, a, vec_uniform(v, LLVMGetOperand(x, (unsigned)second)), "") : NULL;
    }
    if (op == LLVMAdd || op == LLVMSub || op == LLVMOr)
        b = region_step(v, LLVMGetOperand(x, 1), phi);
    if (op == LLVMShl)
        return a ? LLVMBuildShl(v->b, a, LLVMGetOperand(x, 1), "") : NULL;
    if (op == LLVMSub && b)
        return LLVMBuildSub(v->b, a ? a : LLVMConstNull(type), b, "");
    a = region_plus(v, a, b);
    return a && LLVMTypeOf(a) != type ? LLVMBuildIntCast2(v->b, a, type, 1, "") : a;
}

/* ---- where ---- */

/* Returns 1 if the block is a loop by itself. */
static int region_is_loop(const struct vec *v)
{
    const struct vec_block *b = &v->block[v->now];
    const struct vec_loop *l = &v->loop[b->loop];
    return b->loop && l->first == v->now && l->last == v->now && b->nsucc == 2 &&
           (b->succ[0] == v->now) != (b->succ[1] == v->now);
}

/* Takes all records of the block, if it is a loop. */
static int region_take_loop(struct vec *v)
{
    if (!region_is_loop(v))
        return 0;
    for (LLVMValueRef i = LLVMGetFirstInstruction(v->block[v->now].from); i; i = LLVMGetNextInstruction(i))
        if (LLVMIsAPHINode(i) || region_passes(i))
            continue;
        else if (!region_note(v, i) || region_moves(v, LLVMGetOperand(i, 0), 0) == REGION_JUMPS)
            return 0;
    return v->region.n > 0;
}

/* Returns 1 if the block has so many accesses that its code would double the time to compile it. */
static int region_is_long(const struct vec *v)
{
    unsigned n = 0;
    for (LLVMValueRef i = LLVMGetFirstInstruction(v->block[v->now].from); i; i = LLVMGetNextInstruction(i))
        n += vec_is_record(i) != 0;
    return n > MOST_ACCESSES;
}

/* Takes the records from this one on, up to one that cannot be part of a region. */
static int region_take(struct vec *v, LLVMValueRef call)
{
    for (LLVMValueRef i = call; i; i = LLVMGetNextInstruction(i))
        if (!region_passes(i) && !region_note(v, i))
            break;
    return v->region.n > 1;
}

/* ---- code ---- */

static LLVMValueRef region_constant(struct vec *v)
{
    struct vec_region *g = &v->region;
    uint64_t number[2 + 2 * MT_REGION_ACCESSES] = {g->n | (uint64_t)g->bases << 32,
                                                   g->units | (uint64_t)g->loop << 32};
    LLVMValueRef word[2 + 2 * MT_REGION_ACCESSES];
    for (unsigned i = 0; i < g->n; i++) {
        struct vec_shape s = region_shape(v, g->call[i]);
        uint64_t rows = s.kind == VEC_ROWS ? v->rows : 1,
                 stride = (uint32_t)(s.kind == VEC_ROWS ? s.stride : 0);
        number[2 + 2 * i] = LLVMConstIntGetZExtValue(LLVMGetOperand(g->call[i], 1)) |
                            LLVMConstIntGetZExtValue(LLVMGetOperand(g->call[i], 2)) << 32;
        number[3 + 2 * i] = rows | (uint64_t)g->first[i] << 16 | stride << 32;
    }
    for (unsigned i = 0; i < 2 + 2 * g->n; i++)
        word[i] = LLVMConstInt(v->l->i64, number[i], 0);
    LLVMValueRef all = LLVMConstArray2(v->l->i64, word, 2 + 2 * g->n),
                 c = LLVMAddGlobal(v->module, LLVMTypeOf(all), "mt.region");
    LLVMSetInitializer(c, all);
    LLVMSetGlobalConstant(c, 1);
    LLVMSetLinkage(c, LLVMPrivateLinkage);
    return c;
}

static LLVMBasicBlockRef region_block(struct vec *v)
{
    return LLVMAppendBasicBlockInContext(v->context, v->to, "");
}

static LLVMValueRef region_call(struct vec *v, const char *name, LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef type;
    return mt_build_call(v->l, mt_builtin(v->l, name, &type), args, n);
}

static void region_store(struct vec *v, LLVMValueRef word, unsigned number, LLVMValueRef value)
{
    LLVMValueRef index = LLVMConstInt(v->l->i64, mt_region_word(number), 0);
    LLVMBuildStore(v->b, value, LLVMBuildGEP2(v->b, v->l->i64, word, &index, 1, ""));
}

/* Sets number and units once all accesses are known. */
static void region_close(struct vec *v)
{
    struct vec_region *g = &v->region;
    unsigned last = g->bases - 1 + (g->loop ? 1 + g->n : 0);
    g->units = mt_region_word(last) / MT_REGION_WORDS + 1;
    g->of = region_constant(v);
    g->next = 0;
}

static LLVMValueRef region_begin_call(struct vec *v)
{
    LLVMValueRef units = vec_number(v, v->region.units);
    return region_call(v, "__mt_region_begin", &units, 1);
}

/* Begins a lap: the first one begins an entry and stores the steps. */
static void region_begin_lap(struct vec *v)
{
    struct vec_region *g = &v->region;
    LLVMValueRef step[MT_REGION_ACCESSES], none = LLVMConstNull(v->l->ptr);
    LLVMBasicBlockRef first = region_block(v), steps = region_block(v), next = region_block(v);
    for (unsigned i = 0; i < g->n; i++)
        step[i] = region_step(v, LLVMGetOperand(g->call[i], 0), NULL);
    g->laps = LLVMBuildLoad2(v->b, v->l->i64, g->laps_slot, "");
    LLVMValueRef going = LLVMBuildICmp(v->b, LLVMIntNE, g->laps, LLVMConstNull(v->l->i64), "");
    vec_set_seldom(v, LLVMBuildCondBr(v->b, going, next, first));
    LLVMPositionBuilderAtEnd(v->b, first);
    LLVMValueRef word = region_begin_call(v);
    LLVMBuildStore(v->b, word, g->word_slot);
    LLVMBuildCondBr(v->b, LLVMBuildICmp(v->b, LLVMIntEQ, word, none, ""), next, steps);
    LLVMPositionBuilderAtEnd(v->b, steps);
    for (unsigned i = 0; i < g->n; i++)
        region_store(v, word, g->bases + 1 + i, step[i] ? step[i] : LLVMConstNull(v->l->i64));
    LLVMBuildBr(v->b, next);
    LLVMPositionBuilderAtEnd(v->b, next);
    g->word = LLVMBuildLoad2(v->b, v->l->ptr, g->word_slot, "");
}

static void region_store_bases(struct vec *v, unsigned i, const struct vec_rep *at)
{
    for (unsigned p = 0; p < (at->kind == VEC_ROWS ? v->rows : 1); p++)
        region_store(v, v->region.word, v->region.first[i] + p,
                     LLVMBuildPtrToInt(v->b, at->part[p], v->l->i64, ""));
}

static void region_complete(struct vec *v, LLVMValueRef warp)
{
    struct vec_region *g = &v->region;
    LLVMValueRef args[] = {g->word, g->of, warp, vec_number(v, g->units)};
    region_call(v, "__mt_region_end", args, 4);
}

/* Records access i where it may be by itself: an entry that was begun ends before it. */
static LLVMValueRef region_by_itself(struct vec *v, unsigned i, const struct vec_rep *at, LLVMValueRef warp)
{
    struct vec_region *g = &v->region;
    LLVMValueRef args[] = {g->word, g->of, warp, g->loop ? g->laps : LLVMConstNull(v->l->i64),
                           vec_number(v, i)};
    if (at->source)
        region_call(v, "__mt_region_leave", args, 5);
    return vec_record_one(v, g->call[i], at);
}

/* Joins the ways to record an access; leaves: the last one may have ended the entry. ways[0] and ways[1] as
 * part of the region, ways[2] by itself. */
static void region_join(struct vec *v, LLVMBasicBlockRef after, const LLVMBasicBlockRef *way,
                        LLVMValueRef bad, int leaves)
{
    struct vec_region *g = &v->region;
    LLVMValueRef none = vec_number(v, 0), nowhere = LLVMConstNull(v->l->ptr), zero = LLVMConstNull(v->l->i64);
    LLVMPositionBuilderAtEnd(v->b, after);
    LLVMValueRef bads = LLVMBuildPhi(v->b, v->l->i32, ""),
                 word = leaves ? LLVMBuildPhi(v->b, v->l->ptr, "") : NULL,
                 laps = leaves && g->loop ? LLVMBuildPhi(v->b, v->l->i64, "") : NULL;
    for (unsigned i = 0; i < 3; i++) {
        LLVMBasicBlockRef from = way[i];
        if (!from)
            continue;
        LLVMValueRef value[] = {i == 2 ? bad : none, i == 2 ? nowhere : g->word, i == 2 ? zero : g->laps};
        LLVMAddIncoming(bads, &value[0], &from, 1);
        if (word)
            LLVMAddIncoming(word, &value[1], &from, 1);
        if (laps)
            LLVMAddIncoming(laps, &value[2], &from, 1);
    }
    v->bad = bads;
    g->word = word ? word : g->word;
    g->laps = laps ? laps : g->laps;
}

/* Records an access; in a loop further laps do nothing. */
static void region_record(struct vec *v, unsigned i, const struct vec_rep *at)
{
    struct vec_region *g = &v->region;
    LLVMValueRef warp = LLVMBuildLShr(v->b, v->linear, vec_number(v, 5), ""),
                 is = at->source ? vec_is_row(v, at) : NULL,
                 begun = LLVMBuildICmp(v->b, LLVMIntNE, g->word, LLVMConstNull(v->l->ptr), "");
    LLVMBasicBlockRef store = region_block(v), itself = region_block(v), after = region_block(v);
    LLVMBasicBlockRef way[3] = {NULL, store, NULL};
    begun = is ? LLVMBuildAnd(v->b, begun, is, "") : begun;
    if (g->loop) {
        LLVMBasicBlockRef first = region_block(v);
        LLVMValueRef going = LLVMBuildICmp(v->b, LLVMIntNE, g->laps, LLVMConstNull(v->l->i64), "");
        way[0] = LLVMGetInsertBlock(v->b);
        vec_set_seldom(v,
                       LLVMBuildCondBr(v->b, is ? LLVMBuildAnd(v->b, going, is, "") : going, after, first));
        LLVMPositionBuilderAtEnd(v->b, first);
    }
    LLVMValueRef branch = LLVMBuildCondBr(v->b, begun, store, itself);
    if (!g->loop)
        vec_set_seldom(v, branch);
    LLVMPositionBuilderAtEnd(v->b, store);
    region_store_bases(v, i, at);
    if (!g->loop && i + 1 == g->n)
        region_complete(v, warp);
    LLVMBuildBr(v->b, after);
    LLVMPositionBuilderAtEnd(v->b, itself);
    LLVMValueRef bad = region_by_itself(v, i, at, warp);
    LLVMBuildBr(v->b, after);
    way[2] = LLVMGetInsertBlock(v->b);
    region_join(v, after, way, bad, at->source != 0);
}

void vec_region_block(struct vec *v)
{
    struct vec_region *g = &v->region;
    g->n = g->bases = g->nextends = g->next = 0;
    g->loop = 0;
    g->off = v->mask || v->any || region_is_long(v);
    if (g->off || !region_take_loop(v)) {
        g->n = 0;
        return;
    }
    g->loop = 1;
    if (!g->laps_slot) {
        LLVMBasicBlockRef here = LLVMGetInsertBlock(v->b);
        g->laps_slot = vec_slot(v, v->l->i64);
        g->word_slot = vec_slot(v, v->l->ptr);
        LLVMPositionBuilder(v->b, v->entry, LLVMGetBasicBlockTerminator(v->entry));
        LLVMBuildStore(v->b, LLVMConstNull(v->l->i64), g->laps_slot);
        LLVMPositionBuilderAtEnd(v->b, here);
    }
    region_close(v);
}

int vec_region_record(struct vec *v, LLVMValueRef call, const struct vec_rep *at)
{
    struct vec_region *g = &v->region;
    if (g->off)
        return 0;
    if (g->next == g->n) { /* a new one */
        g->n = g->bases = g->next = 0;
        if (!region_take(v, call)) {
            g->n = 0;
            return 0;
        }
        region_close(v);
    }
    unsigned i = g->next;
    if (g->call[i] != call)
        return 0;
    g->next++;
    if (!i && g->loop)
        region_begin_lap(v);
    else if (!i)
        g->word = region_begin_call(v);
    region_record(v, i, at);
    return 1;
}

/* ---- behind a lap ---- */

/* Returns whether a number that was extended has wrapped within the laps: it moves one way, so then its
 * distance from the first lap's is not that of its steps. */
static LLVMValueRef region_wrapped(struct vec *v, unsigned i, LLVMValueRef any)
{
    struct vec_region *g = &v->region;
    LLVMValueRef of = LLVMGetOperand(g->extends[i], 0), one = LLVMConstInt(v->l->i64, 1, 0),
                 far = LLVMBuildMul(v->b, g->step[i], LLVMBuildSub(v->b, g->laps, one, ""), "");
    LLVMOpcode how = LLVMGetInstructionOpcode(g->extends[i]);
    struct vec_rep r = vec_get_row(v, of);
    for (unsigned p = 0; p < (r.kind == VEC_ROWS ? v->rows : 1); p++) {
        LLVMValueRef first = LLVMBuildSub(v->b, r.part[p], LLVMBuildTrunc(v->b, far, LLVMTypeOf(of), ""), "");
        LLVMValueRef now = LLVMBuildCast(v->b, how, r.part[p], v->l->i64, ""),
                     due = LLVMBuildAdd(v->b, LLVMBuildCast(v->b, how, first, v->l->i64, ""), far, ""),
                     not = LLVMBuildICmp(v->b, LLVMIntNE, now, due, "");
        any = any ? LLVMBuildOr(v->b, any, not, "") : not;
    }
    return any;
}

/* Makes an entry of the laps so far, if `now` is true; often: it mostly is. */
static void region_finish(struct vec *v, LLVMValueRef now, int often)
{
    struct vec_region *g = &v->region;
    LLVMBasicBlockRef some = region_block(v), good = region_block(v), lost = region_block(v),
                      after = region_block(v);
    LLVMValueRef wrapped = NULL, branch = LLVMBuildCondBr(v->b, often ? now : LLVMBuildNot(v->b, now, ""),
                                                          often ? some : after, often ? after : some);
    vec_set_seldom(v, branch);
    LLVMPositionBuilderAtEnd(v->b, some);
    for (unsigned i = 0; i < g->nextends; i++)
        wrapped = region_wrapped(v, i, wrapped);
    wrapped = wrapped ? LLVMBuildNot(v->b, wrapped, "") : LLVMConstInt(v->l->i1, 1, 0);
    vec_set_seldom(v, LLVMBuildCondBr(v->b, wrapped, good, lost));
    LLVMPositionBuilderAtEnd(v->b, lost);
    LLVMValueRef args[] = {g->of, g->laps};
    region_call(v, "__mt_region_lost", args, 2);
    LLVMBuildBr(v->b, after);
    LLVMPositionBuilderAtEnd(v->b, good);
    region_store(v, g->word, g->bases, g->laps);
    region_complete(v, LLVMBuildLShr(v->b, v->linear, vec_number(v, 5), ""));
    LLVMBuildBr(v->b, after);
    LLVMPositionBuilderAtEnd(v->b, after);
}

void vec_region_lap(struct vec *v)
{
    struct vec_region *g = &v->region;
    if (!g->loop)
        return;
    LLVMValueRef begun = LLVMBuildICmp(v->b, LLVMIntNE, g->word, LLVMConstNull(v->l->ptr), "");
    g->laps = LLVMBuildAdd(v->b, g->laps, LLVMBuildZExt(v->b, begun, v->l->i64, ""), "");
    for (unsigned i = 0; i < g->nextends; i++) {
        LLVMValueRef of = LLVMGetOperand(g->extends[i], 0), step = region_step(v, of, NULL);
        vec_get_row(v, of); /* here, for both ways */
        g->step[i] = step ? LLVMBuildSExt(v->b, step, v->l->i64, "") : LLVMConstNull(v->l->i64);
    }
    LLVMValueRef most = LLVMConstInt(v->l->i64, MOST_LAPS, 0), none = LLVMConstNull(v->l->i64);
    LLVMValueRef many = LLVMBuildICmp(v->b, LLVMIntEQ, g->laps, most, "");
    region_finish(v, many, 0);
    g->laps = LLVMBuildSelect(v->b, many, none, g->laps, "");
}

int vec_region_is_loop(const struct vec *v)
{
    return v->region.loop;
}

void vec_region_way(struct vec *v, int to)
{
    struct vec_region *g = &v->region;
    if (!g->loop)
        return;
    if (to == v->now) {
        LLVMBuildStore(v->b, g->laps, g->laps_slot);
        LLVMBuildStore(v->b, g->word, g->word_slot);
        return;
    }
    region_finish(v, LLVMBuildICmp(v->b, LLVMIntNE, g->laps, LLVMConstNull(v->l->i64), ""), 1);
    LLVMBuildStore(v->b, LLVMConstNull(v->l->i64), g->laps_slot);
}
