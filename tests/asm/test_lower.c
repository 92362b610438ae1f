/* Lowered inline assembly that touches memory, calls the CPU device or jumps, compiled and run,
 * and what is refused. */
#include "lower_cases.h"

/* ---- functions of the CPU device, as far as these tests need them ------------------------------- */

static char shared_memory[4096] __attribute__((aligned(64)));
static uint64_t seen[8];
static unsigned yields;

static void *shared_base(void)
{
    return shared_memory;
}
static uint32_t lower_laneid(void)
{
    return 21;
}
static uint64_t lower_clock64(void)
{
    return 0x123456789abcdef0;
}
static uint64_t lower_shfl(uint32_t mask, uint32_t value, uint32_t lane, uint32_t c, uint32_t mode)
{
    memcpy(seen, (uint64_t[]){mask, value, lane, c, mode}, 40);
    return 1ull << 32 | (value ^ 0xffffffff);
}
static uint32_t lower_vote(uint32_t mask, uint32_t predicate, uint32_t mode)
{
    memcpy(seen, (uint64_t[]){mask, predicate, mode}, 24);
    return predicate ? mask : 0;
}
static uint32_t lower_barrier(uint32_t kind, uint32_t id, uint32_t count, uint32_t value)
{
    memcpy(seen, (uint64_t[]){kind, id, count, value}, 32);
    return 40 + value;
}
static void lower_yield(void)
{
    yields++;
}
static uint32_t words_seen[12];
static void lower_texture(uint64_t object, uint32_t what, const uint32_t *in, uint64_t *out)
{
    memcpy(seen, (uint64_t[]){object, what}, 16);
    memcpy(words_seen, in, what >> 9 ? 16 : 48); /* surfaces have a count of elements there, and 4 words */
    for (uint64_t i = 0; i < 4; i++)
        out[i] = 0x1234567890ull + i;
}
static void surface_store(uint64_t object, uint32_t what, const uint32_t *in, const uint64_t *value)
{
    memcpy(seen, (uint64_t[]){object, what, value[0], value[1]}, 32);
    memcpy(words_seen, in, 16);
}
static uint32_t texture_size(uint64_t object, uint32_t dimension)
{
    return (uint32_t)object + dimension;
}
static float lower_scaled(float a, uint32_t b)
{
    return a * (float)b;
}
static void lower_split(uint64_t a, uint32_t b, uint64_t *out)
{
    out[0] = a & 0xffff;
    out[1] = b;
    out[2] = 1;
}
static uint32_t lower_reads(void *p)
{
    return *(uint32_t *)p + 1;
}

static uint64_t lower_arrive(void *p, uint32_t count)
{
    seen[0] = (uintptr_t)p;
    return count;
}
static _Bool try_wait(void *p, uint64_t state)
{
    return p == shared_memory + 8 && state == 1;
}

const struct asm_symbol asm_symbols[] = {
    {"mtb_shared_base", shared_base, "p"},
    {"mtb_ptx_sreg_laneid", lower_laneid, "r"},
    {"mtb_nvvm_read_ptx_sreg_clock64", lower_clock64, "l"},
    {"mt_cpu_shfl", lower_shfl, "lrrrrr"},
    {"mt_cpu_vote", lower_vote, "rrrr"},
    {"mt_cpu_barrier", lower_barrier, "rrrrr"},
    {"mt_cpu_yield", lower_yield, "v"},
    {"mt_cpu_tex", lower_texture, "vlrpp"},
    {"mt_cpu_surf_load", lower_texture, "vlrpp"},
    {"mt_cpu_surf_store", surface_store, "vlrpp"},
    {"mt_cpu_tex_size", texture_size, "rlr"},
    {"mtb_ptx_frob_f32", lower_scaled, "ffr"},
    {"mtb_ptx_split_x3_b32", lower_split, "vlrp"},
    {"mtb_ptx_mbarrier_peek_shared_b32", lower_reads, "rp"},
    {"mtb_ptx_mbarrier_arrive_noComplete_shared__cta_b64", lower_arrive, "lpr"},
    {"mtb_ptx_mbarrier_try_wait_shared_b64", try_wait, "bpl"},
    {NULL, NULL, NULL}};

/* ---- memory ------------------------------------------------------------------------------------- */

#define CALL(out, text, constraints, outs, ins, ...)                                                         \
    for (int opt = 0; opt < 2; opt++) {                                                                      \
        uint64_t in_[16] = {__VA_ARGS__};                                                                    \
        compile(text, constraints, outs, ins, opt)(out, in_);                                                \
    }

static void loads_and_stores(void **state)
{
    uint32_t words[8] = {0x80, 0x12345678, 3, 4, 5, 6, 7, 8};
    uint64_t out[16] = {0}, p = (uintptr_t)words;
    CALL(out, "ld.global.nc.v4.u32 {$0,$1,$2,$3}, [$4+4];", "=r,=r,=r,=r,l", "rrrr", "p", p);
    assert_true(out[0] == 0x12345678 && out[1] == 3 && out[2] == 4 && out[3] == 5);
    CALL(out, "ld.s8 $0, [$1];", "=r,l", "r", "l", p);
    assert_int_equal(out[0], 0xffffff80);
    CALL(out, "ld.u8 $0, [$1];", "=r,l", "r", "l", p);
    assert_int_equal(out[0], 0x80);
    CALL(out, "ld.acquire.sys.v2.b32 {$0, $1}, [$2];", "=r,=r,l", "rr", "l", p + 8);
    assert_true(out[0] == 3 && out[1] == 4);
    CALL(out, "st.release.gpu.v2.u32 [$0], {$1, $2};", "l,r,r", "", "prr", p, 77, 78);
    assert_true(words[0] == 77 && words[1] == 78);
    CALL(out, "st.volatile.global.u16 [$0+2], $1;", "l,r", "", "pr", p, 0xabcd1234);
    assert_int_equal(words[0], 0x1234004d);
    /* the address register is a destination too */
    CALL(out, "ld.v2.b64 {$0, $1}, [$0];", "=l,=l,0", "ll", "l", p + 16);
    assert_true(out[0] == (6ull << 32 | 5) && out[1] == (8ull << 32 | 7));
    CALL(out, "{ .reg .b128 q; ld.b128 q, [$0]; st.b128 [$1], q; }", "l,l", "", "ll", p + 16,
         (uintptr_t)shared_memory);
    assert_memory_equal(shared_memory, words + 4, 16);
}

static void shared_addresses(void **state)
{
    uint64_t out[16] = {0}, p = (uintptr_t)shared_memory;
    *(uint32_t *)(shared_memory + 24) = 0xfeed;
    /* the low half of the pointer, an offset from the base, the whole pointer */
    CALL(out, "ld.shared.u32 $0, [$1+8];", "=r,r", "r", "r", (uint32_t)(p + 16));
    assert_int_equal(out[0], 0xfeed);
    CALL(out, "ld.shared.u32 $0, [$1];", "=r,r", "r", "r", 24);
    assert_int_equal(out[0], 0xfeed);
    CALL(out, "ld.shared::cta.u32 $0, [$1];", "=r,l", "r", "l", p + 24);
    assert_int_equal(out[0], 0xfeed);
    CALL(out, "ld.shared.u32 $0, [$1];", "=r,l", "r", "l", (uint32_t)(p + 24));
    assert_int_equal(out[0], 0xfeed);
    CALL(out, "cvta.shared.u64 $0, $1;", "=l,l", "l", "l", (uint32_t)(p + 24));
    assert_true(out[0] == p + 24);
    CALL(out, "{ .reg .u64 t; cvta.to.shared.u64 t, $1; cvt.u32.u64 $0, t; }", "=r,l", "r", "l", p + 24);
    assert_true(out[0] == (uint32_t)(p + 24));
}

static void lower_atomics(void **state)
{
    uint32_t word;
    uint64_t out[16] = {0}, p = (uintptr_t)&word;
#define ATOM(start, text, constraints, ins, operand, want_old, want_new)                                     \
    do {                                                                                                     \
        for (int opt = 0; opt < 2; opt++) {                                                                  \
            uint64_t in_[16] = {p, operand, 9};                                                              \
            word = start;                                                                                    \
            compile(text, constraints, "r", ins, opt)(out, in_);                                             \
            if (out[0] != (want_old) || word != (want_new))                                                  \
                fail_msg("%s: %lx %x", text, out[0], word);                                                  \
        }                                                                                                    \
    } while (0)
    ATOM(5, "atom.global.add.u32 $0, [$1], $2;", "=r,l,r", "lr", 7, 5, 12);
    ATOM(5, "atom.acq_rel.gpu.max.s32 $0, [$1], $2;", "=r,l,r", "lr", 0xffffffff, 5, 5);
    ATOM(5, "atom.max.u32 $0, [$1], $2;", "=r,l,r", "lr", 0xffffffff, 5, 0xffffffff);
    ATOM(5, "atom.inc.u32 $0, [$1], $2;", "=r,l,r", "lr", 5, 5, 0);
    ATOM(0, "atom.dec.u32 $0, [$1], $2;", "=r,l,r", "lr", 6, 0, 6);
    ATOM(6, "atom.xor.b32 $0, [$1], $2;", "=r,l,r", "lr", 3, 6, 5);
    ATOM(6, "atom.exch.release.sys.b32 $0, [$1], $2;", "=r,l,r", "lr", 3, 6, 3);
    ATOM(6, "atom.acquire.cta.cas.b32 $0, [$1], $2, $3;", "=r,l,r,r", "lrr", 6, 6, 9);
    ATOM(7, "atom.relaxed.gpu.cas.b32 $0, [$1], $2, $3;", "=r,l,r,r", "lrr", 6, 7, 7);
    ATOM(float_bits(1.5f), "atom.add.f32 $0, [$1], $2;", "=r,l,r", "lr", float_bits(2.25f), float_bits(1.5f),
         float_bits(3.75f));
    /* f16x2: {1.0, 2.0} + {0.5, -4.0} */
    ATOM(0x40003c00, "atom.add.noftz.f16x2 $0, [$1], $2;", "=r,l,r", "lr", 0xc4003800, 0x40003c00,
         0xc0003e00);
    /* bf16x2: {1.0, 256.0} + {2^-8 (a tie: stays even), 1.0 (a tie: stays)} */
    ATOM(0x43803f80, "atom.global.add.noftz.bf16x2 $0, [$1], $2;", "=r,l,r", "lr", 0x3f803b80, 0x43803f80,
         0x43803f80);
    /* bf16 1.0 + 0.0117 rounds up */
    ATOM(0x3f80, "{ .reg .b16 o, v; cvt.u16.u32 v, $2; atom.add.noftz.bf16 o, [$1], v; cvt.u32.u16 $0, o; }",
         "=r,l,r", "lr", 0x3c40, 0x3f80, 0x3f82);
    ATOM(5, "{ .reg .pred p; setp.gt.u32 p, $2, 100; mov.u32 $0, 1; @p atom.add.u32 $0, [$1], $2; }",
         "=&r,l,r", "lr", 7, 1, 5);
    ATOM(5, "{ .reg .pred p; setp.gt.u32 p, $2, 100; mov.u32 $0, 1; @!p red.add.u32 [$1], $2; }", "=&r,l,r",
         "lr", 7, 1, 12);
    ATOM(5, "mov.u32 $0, 1; red.async.release.gpu.global.add.u32 [$1], $2;", "=&r,l,r", "lr", 7, 1, 12);
    ATOM(5, "mov.u32 $0, 1; st.async.release.gpu.global.b32 [$1], $2;", "=&r,l,r", "lr", 7, 1, 7);
    float f[4] = {1, 2, 3, 4};
    for (int opt = 0; opt < 2; opt++) {
        uint64_t in_[16] = {(uintptr_t)f, float_bits(0.5f)};
        compile("red.global.v4.f32.add [$0], {$1,$1,$1,$1};", "l,f", "", "lf", opt)(out, in_);
    }
    assert_true(f[0] == 2 && f[1] == 3 && f[2] == 4 && f[3] == 5);
}

static void lower_copies(void **state)
{
    char from[16] = "0123456789abcde", zeros[16] = {0};
    uint64_t out[16] = {0}, p = (uintptr_t)shared_memory, q = (uintptr_t)from;
    CALL(out, "cp.async.cg.shared.global.L2::128B [$0], [$1], 16;", "r,l", "", "rl", (uint32_t)p, q);
    assert_memory_equal(shared_memory, from, 16);
    CALL(out, "cp.async.ca.shared.global [$0], [$1], $2, $3;", "r,l,n,r", "", "rlrr", (uint32_t)p, q, 8, 3);
    assert_memory_equal(shared_memory, "012\0\0\0\0\00089abcde", 16);
    CALL(out, "cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r", "", "rlr", (uint32_t)p, q, 0);
    assert_memory_equal(shared_memory, zeros, 16);
    CALL(out,
         "cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all; fence.acq_rel.gpu; membar.sys;",
         "", "", "", 0);
    CALL(out, "prefetch.global.L2 [$0];", "l", "", "l", 8);
}

/* ---- calls and control -------------------------------------------------------------------------- */

static void lower_builtins(void **state)
{
    uint64_t out[16] = {0};
    CALL(out, "mov.u32 $0, %laneid; mov.u64 $1, %clock64;", "=r,=l", "rl", "", 0);
    assert_true(out[0] == 21 && out[1] == 0x123456789abcdef0);
    CALL(out, "frob.f32 $0, $1, $2;", "=f,f,r", "f", "fr", float_bits(1.5f), 4);
    assert_int_equal(out[0], float_bits(6));
    CALL(out, "{ .reg .pred p; split.sync.aligned.x3.b32 {$0, $1}|p, $2, $3; @p add.u32 $1, $1, 1; }",
         "=h,=r,l,r", "hr", "lr", 0xabcdef, 6);
    assert_true(out[0] == 0xcdef && out[1] == 7);
    *(uint32_t *)(shared_memory + 40) = 99;
    CALL(out, "mbarrier.peek.shared.b32 $0, [$1+8];", "=r,r", "r", "r",
         (uint32_t)(uintptr_t)shared_memory + 32);
    assert_int_equal(out[0], 100);
    seen[0] = 0;
    CALL(out, "mbarrier.arrive.release.cta.shared::cta.b64 $0, [$1], $2;", "=l,r,r", "l", "rr", 8, 7);
    assert_true(out[0] == 7 && seen[0] == (uintptr_t)shared_memory + 8);
    CALL(out, "{ .reg .pred p; mbarrier.try_wait.shared.b64 p, [$1], $2, $3; selp.u32 $0, 1, 0, p; }",
         "=r,r,l,r", "r", "rlr", 8, 1, 1000000);
    assert_int_equal(out[0], 1);
    CALL(out, "shfl.sync.down.b32 $0, $1, 3, 0x1f, 0xff;", "=r,r", "r", "r", 0xf0f0f0f0);
    assert_int_equal(out[0], 0x0f0f0f0f);
    assert_true(seen[0] == 0xff && seen[1] == 0xf0f0f0f0 && seen[2] == 3 && seen[3] == 31 && seen[4] == 1);
    CALL(out, "{ .reg .pred p; shfl.sync.bfly.b32 $0|p, $1, 1, 31, -1; @!p mov.u32 $0, 0; }", "=r,r", "r",
         "r", 5);
    assert_int_equal(out[0], 0xfffffffa);
    CALL(out, "{ .reg .pred p, q; setp.ne.u32 p, $1, 0; vote.sync.any.pred q, !p, 7; selp.u32 $0, 1, 0, q; }",
         "=r,r", "r", "r", 0);
    assert_true(out[0] == 1 && seen[0] == 7 && seen[1] == 1 && seen[2] == 1);
    CALL(out, "{ .reg .pred p; setp.ne.u32 p, $1, 0; barrier.cta.red.popc.aligned.u32 $0, 2, 64, p; }",
         "=r,r", "r", "r", 8);
    assert_true(out[0] == 41 && seen[0] == 1 && seen[1] == 2 && seen[2] == 64 && seen[3] == 1);
    CALL(out, "bar.sync 0;", "~{memory}", "", "", 0);
    assert_true(seen[0] == 0 && seen[1] == 0 && seen[2] == 0);
}

/* Operands of texture instructions: every word where format/image.h says, numbers of the enums by hand. */
static void lower_textures(void **state)
{
    uint64_t out[16] = {0};
    CALL(out, "tex.3d.v4.f32.f32 {$0, $1, $2, $3}, [$4, {$5, $6, $7, $7}];", "=r,=r,=r,=r,l,r,r,r", "rrrr",
         "lrrr", 77, 5, 6, 7);
    assert_true(seen[0] == 77 && seen[1] == 2 && !memcmp(words_seen, (uint32_t[]){5, 6, 7}, 12));
    assert_true(out[0] == 0x34567890 && out[1] == 0x34567891 && out[3] == 0x34567893);
    CALL(
        out,
        "{ .reg .pred p; tex.grad.a2d.v4.u32.f32 {_, _, _, $0}|p, [$2, {$3, $4, $5, $5}], {$6, $7}, {$8, $9};"
        " selp.u16 $1, 1, 0, p; }",
        "=r,=h,l,r,r,r,r,r,r,r", "rh", "lrrrrrrr", 1, 2, 3, 4, 5, 6, 7, 8);
    assert_true(out[0] == 0x34567893 && out[1] == 1 && seen[1] == (4 | 2 << 3));
    assert_true(!memcmp(words_seen, (uint32_t[]){2, 3, 4}, 12));
    assert_true(words_seen[4] == 5 && words_seen[5] == 6 && words_seen[8] == 7 && words_seen[9] == 8);
    CALL(out, "tex.level.1d.v4.s32.f32 {$0, _, _, _}, [$1, {$2}], 0f3f800000;", "=r,l,r", "r", "lr", 1, 9);
    assert_true(seen[1] == 1 << 3 && words_seen[0] == 9 && words_seen[4] == 0x3f800000);
    CALL(out, "tex.acube.v4.f32.f32 {$0, _, _, _}, [$1, {$2, $3, $4, $5}];", "=r,l,r,r,r,r", "r", "lrrrr", 1,
         9, 8, 7, 6);
    assert_true(seen[1] == 6 && !memcmp(words_seen, (uint32_t[]){9, 8, 7, 6}, 16));
    CALL(out, "tex.1d.v4.f32.s32 {$0, _, _, _}, [$1, {$2}];", "=r,l,r", "r", "lr", 1, 9);
    assert_int_equal(seen[1], 1 << 5);
    CALL(out, "tld4.b.2d.v4.f32.f32 {$0, _, _, _}, [$1, {$2, $3}];", "=r,l,r,r", "r", "lrr", 1, 9, 8);
    assert_int_equal(seen[1], 1 | 3 << 3 | 2 << 6);
    CALL(out, "suld.b.a1d.v2.b16.clamp {$0, $1}, [$2, {$3, $4}];", "=h,=h,l,r,r", "hh", "lrr", 3, 4, 5);
    assert_true(out[0] == 0x7890 && out[1] == 0x7891 && seen[0] == 3);
    assert_true(seen[1] == (3 | 1 << 3 | 2 << 5 | 2 << 9) && words_seen[0] == 4 && words_seen[1] == 5);
    CALL(out, "sust.b.2d.cg.v2.b8.zero [$0, {$1, $2}], {$3, $4};", "l,r,r,h,h", "", "lrrhh", 3, 4, 5, 0x1ff,
         2);
    assert_true(seen[1] == (1 | 2 << 3 | 1 << 5 | 2 << 9) && seen[2] == 0xff && seen[3] == 2);
    CALL(out, "sust.b.1d.b64.trap [$0, {$1}], $2;", "l,r,l", "", "lrl", 3, 4, 1ull << 40);
    assert_true(seen[1] == (8 << 5 | 1 << 9) && seen[2] == 1ull << 40);
    CALL(out, "txq.height.b32 $0, [$1];", "=r,l", "r", "l", 40);
    assert_int_equal(out[0], 41);
    seen[0] = 0;
    CALL(out, "{ .reg .pred p; setp.ne.u32 p, $2, 0; @p tex.1d.v4.f32.f32 {$0, _, _, _}, [$1, {$2}]; }",
         "=r,l,r", "r", "lr", 5, 0);
    assert_int_equal(seen[0], 0);
}

/* Sum of 1 … n by a loop in the asm, n = 0 leaves at once; each turn back yields. */
static void lower_labels(void **state)
{
    uint64_t out[16] = {0};
    for (uint64_t n = 0; n < 5; n++) {
        yields = 0;
        CALL(out,
             "{ .reg .pred p; .reg .u32 i; mov.u32 $0, 0; mov.u32 i, $1; setp.eq.u32 p, i, 0; @p bra "
             "DONE${:uid};"
             "AGAIN${:uid}: add.u32 $0, $0, i; sub.u32 i, i, 1; setp.ne.u32 p, i, 0; @p bra.uni AGAIN${:uid};"
             "DONE${:uid}: }",
             "=&r,r", "r", "r", n);
        assert_int_equal(out[0], n * (n + 1) / 2);
        assert_int_equal(yields, n ? 2 * (n - 1) : 0);
    }
}

/* The code around a split block keeps its phis: a loop around an asm that needs branches. */
static void split_in_loop(void **state)
{
    LLVMContextRef c = asm_context();
    LLVMTypeRef i32 = LLVMInt32TypeInContext(c), none = LLVMVoidTypeInContext(c);
    struct asm_shape shape = {"{ .reg .pred p; setp.gt.u32 p, $1, 2; @p red.add.u32 [$0], $1; }", "l,r", "",
                              "lr"};
    LLVMValueRef call;
    LLVMModuleRef m = asm_module(&shape, &call);
    LLVMValueRef f = LLVMAddFunction(m, "loop", LLVMFunctionType(i32, (LLVMTypeRef[]){i32}, 1, 0));
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(c, f, ""),
                      body = LLVMAppendBasicBlockInContext(c, f, ""),
                      end = LLVMAppendBasicBlockInContext(c, f, "");
    LLVMBuilderRef b = LLVMCreateBuilderInContext(c);
    LLVMPositionBuilderAtEnd(b, entry);
    LLVMValueRef sum = LLVMBuildAlloca(b, i32, ""), zero = LLVMConstInt(i32, 0, 0),
                 one = LLVMConstInt(i32, 1, 0);
    LLVMBuildStore(b, zero, sum);
    LLVMBuildBr(b, body);
    LLVMPositionBuilderAtEnd(b, body);
    LLVMValueRef i = LLVMBuildPhi(b, i32, "");
    LLVMValueRef at = LLVMBuildPtrToInt(b, sum, LLVMInt64TypeInContext(c), "");
    LLVMTypeRef type = LLVMFunctionType(none, (LLVMTypeRef[]){LLVMTypeOf(at), i32}, 2, 0);
    LLVMValueRef text =
        LLVMGetInlineAsm(type, shape.text, strlen(shape.text), "l,r", 3, 1, 0, LLVMInlineAsmDialectATT, 0);
    LLVMValueRef inner = LLVMBuildCall2(b, type, text, (LLVMValueRef[]){at, i}, 2, "");
    LLVMValueRef next = LLVMBuildAdd(b, i, one, "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, next, LLVMGetParam(f, 0), ""), body, end);
    LLVMAddIncoming(i, (LLVMValueRef[]){zero, next}, (LLVMBasicBlockRef[]){entry, body}, 2);
    LLVMPositionBuilderAtEnd(b, end);
    LLVMValueRef last = LLVMBuildPhi(b, i32, "");
    LLVMAddIncoming(last, &next, &body, 1);
    LLVMBuildRet(b, LLVMBuildAdd(b, LLVMBuildLoad2(b, i32, sum, ""), last, ""));
    LLVMDisposeBuilder(b);
    struct mt_asm_error error;
    struct mt_asm_builtins none_b = {NULL, NULL};
    assert_int_equal(mt_asm_lower(m, inner, &none_b, &error), 0);
    assert_int_equal(mt_asm_lower(m, call, &none_b, &error), 0);
    uint32_t (*loop)(uint32_t) = (uint32_t (*)(uint32_t))asm_jit(m, "loop", &error);
    if (!loop)
        fail_msg("%s", error.message);
    assert_int_equal(loop(6), 3 + 4 + 5 + 6);
}

/* What is not supported says so and leaves the module as it was. */
static void lower_refusals(void **state)
{
    static const struct {
        struct asm_shape shape;
        const char *words;
    } cases[] = {{{"frob.f64 $0, $1;", "=d,d", "d", "d"}, "frob.f64"},
                 {{"mov.u32 $0, 1; add.rz.f32 $0, $0, $0;", "=r", "r", ""}, "add.rz.f32"},
                 {{"{ .reg .pred p; setp.ne.u32 p, $1, 0; @p st.u32 [$0], 1; "
                   "sured.b.add.1d.u32.trap [$0, {$1}], $1; }",
                   "l,r", "", "lr"},
                  "sured.b"},
                 {{"tex.1d.v4.f16.f32 {_,_,_,_}, [$0, {$1}];", "l,f", "", "lf"}, "f16"},
                 {{"bra NOWHERE;", "", "", ""}, "unknown label"},
                 {{"A: A: bra A;", "", "", ""}, "twice"},
                 {{"mov.u32 $0, %nothing;", "=r", "r", ""}, "%nothing"},
                 {{"mov.u64 $0, global_name;", "=l", "l", ""}, "global_name"},
                 {{"add.u32 $0, $1;", "=r,r", "r", "r"}, "2 operands"},
                 {{"add.u32 $1, $0, $0;", "=r,r", "r", "r"}, "destination"},
                 {{"mov.u32 $0, $7;", "=r", "r", ""}, "operand"},
                 {{"mov.u32 $0, 1", "=*m", "", "p"}, "constraint"},
                 {{"{ mov.u32 $0, 1;", "=r", "r", ""}, "'}' missing"}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        LLVMValueRef call;
        LLVMModuleRef m = asm_module(&cases[i].shape, &call);
        struct mt_asm_builtins b = {NULL, NULL};
        struct mt_asm_error error;
        char *before = LLVMPrintModuleToString(m);
        assert_int_equal(mt_asm_lower(m, call, &b, &error), -1);
        if (!strstr(error.message, cases[i].words))
            fail_msg("%s: '%s' does not say '%s'", cases[i].shape.text, error.message, cases[i].words);
        char *after = LLVMPrintModuleToString(m);
        assert_string_equal(before, after);
        LLVMDisposeMessage(before);
        LLVMDisposeMessage(after);
        LLVMDisposeModule(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(loads_and_stores), cmocka_unit_test(shared_addresses),
                                       cmocka_unit_test(lower_atomics),    cmocka_unit_test(lower_copies),
                                       cmocka_unit_test(lower_builtins),   cmocka_unit_test(lower_textures),
                                       cmocka_unit_test(lower_labels),     cmocka_unit_test(split_in_loop),
                                       cmocka_unit_test(lower_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
