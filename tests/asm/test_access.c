/* What inline assembly does to global memory, against results written down from the PTX manual's wording. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "harness.h"

const struct asm_symbol asm_symbols[] = {{NULL, NULL, NULL}};

struct expected {
    enum mt_access_type op;
    int argument;
    int64_t offset;
    uint32_t size;
    int size_argument, generic, predicated, only_if, inverted;
};

static int access_accesses(const char *text, const char *constraints, const char *outs, const char *ins,
                           struct mt_asm_access *out, int max)
{
    struct asm_shape shape = {text, constraints, outs, ins};
    LLVMValueRef call;
    LLVMModuleRef m = asm_module(&shape, &call);
    int n = mt_asm_accesses(call, out, max);
    LLVMDisposeModule(m);
    return n;
}

static void access_check(const char *text, const char *constraints, const char *outs, const char *ins, int n,
                         const struct expected *want)
{
    struct mt_asm_access a[4];
    int got = access_accesses(text, constraints, outs, ins, a, 4);
    if (got != n)
        fail_msg("%s: %d accesses, not %d", text, got, n);
    for (int i = 0; i < n; i++) {
        if (a[i].op != want[i].op || a[i].argument != want[i].argument || a[i].offset != want[i].offset ||
            a[i].size != want[i].size || a[i].size_argument != want[i].size_argument ||
            a[i].generic != want[i].generic || a[i].predicated != want[i].predicated ||
            (a[i].predicated && a[i].only_if != want[i].only_if) ||
            (a[i].only_if >= 0 && a[i].only_if_inverted != want[i].inverted))
            fail_msg("%s: op %d argument %d offset %ld size %u/%d generic %d predicated %d by %d inverted %d",
                     text, a[i].op, a[i].argument, (long)a[i].offset, a[i].size, a[i].size_argument,
                     a[i].generic, a[i].predicated, a[i].only_if, a[i].only_if_inverted);
    }
}
/* the rest of struct expected is 0 where nothing is said */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#define ONE(text, constraints, outs, ins, ...)                                                               \
    access_check(text, constraints, outs, ins, 1, &(struct expected){__VA_ARGS__})
#define NONE(text, constraints, outs, ins) access_check(text, constraints, outs, ins, 0, NULL)
#define UNKNOWN(text, constraints, outs, ins) access_check(text, constraints, outs, ins, -1, NULL)

static void loads_and_stores(void **state)
{
    ONE("ld.global.nc.s8 $0, [$1];", "=r,l", "r", "p", MT_LOAD, 0, 0, 1, -1, 0);
    ONE("ld.global.nc.v2.f64 {$0,$1}, [$2+16];", "=d,=d,l", "dd", "p", MT_LOAD, 0, 16, 16, -1, 0);
    ONE("ld.global.L1::evict_last.v4.u32 {$0,$1,$2,$3}, [$4];", "=r,=r,=r,=r,l", "rrrr", "l", MT_LOAD, 0, 0,
        16, -1, 0);
    ONE("ld.acquire.gpu.u32 $0,[$1];", "=r,l,~{memory}", "r", "p", MT_LOAD, 0, 0, 4, -1, 1);
    ONE("ld.volatile.b64 $0,[$1];", "=l,l", "l", "p", MT_LOAD, 0, 0, 8, -1, 1);
    ONE("st.relaxed.gpu.v2.u32 [$0], {$1, $2};", "l,r,r", "", "prr", MT_STORE, 0, 0, 8, -1, 1);
    ONE("st.global.cs.f32 [$0-4], $1;", "l,f", "", "pf", MT_STORE, 0, -4, 4, -1, 0);
    ONE("st.global.b128 [$0], $1;", "l,l", "", "pl", MT_STORE, 0, 0, 16, -1, 0);
    ONE("ldu.global.u16 $0, [$1];", "=h,l", "h", "p", MT_LOAD, 0, 0, 2, -1, 0);
    ONE("st.global.v8.b32 [$0], {$1,$1,$1,$1,$1,$1,$1,$1};", "l,r", "", "pr", MT_STORE, 0, 0, 32, -1, 0);
}

static void access_atomics(void **state)
{
    ONE("atom.add.release.gpu.u32 $0,[$1],$2;", "=r,l,r,~{memory}", "r", "pr", MT_ATOMIC, 0, 0, 4, -1, 1);
    ONE("atom.global.cas.b64 $0,[$1],$2,$3;", "=l,l,l,l", "l", "pll", MT_ATOMIC, 0, 0, 8, -1, 0);
    ONE("red.global.add.noftz.f16x2 [$0], $1;", "l,r", "", "pr", MT_ATOMIC, 0, 0, 4, -1, 0);
    ONE("{ atom.add.noftz.f16 $0,[$1],$2; }", "=h,l,h", "h", "ph", MT_ATOMIC, 0, 0, 2, -1, 1);
    ONE("atom.global.v4.f32.add {$0,$1,$2,$3}, [$4], {$5,$5,$5,$5};", "=f,=f,=f,=f,l,f", "ffff", "pf",
        MT_ATOMIC, 0, 0, 16, -1, 0);
    ONE("red.relaxed.sys.global.add.v2.bf16x2 [$0], {$1,$1};", "l,r", "", "pr", MT_ATOMIC, 0, 0, 8, -1, 0);
    NONE("atom.shared.add.u32 $0,[$1],$2;", "=r,r,r", "r", "rr");
    NONE(
        "red.async.relaxed.cluster.global.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [$0],$1,[$0];",
        "r,r", "", "rr");
    ONE("red.async.release.gpu.global.add.u64 [$0], $1;", "l,l", "", "pl", MT_ATOMIC, 0, 0, 8, -1, 0);
    NONE("redux.sync.add.s32 $0, $1, $2;", "=r,r,r", "r", "rr");
}

static void no_access(void **state)
{
    NONE("", "~{memory}", "", "");
    NONE("mov.u32 $0, %laneid;", "=r", "r", "");
    NONE("ld.shared.v4.u32 {$0,$1,$2,$3}, [$4];", "=r,=r,=r,=r,r", "rrrr", "r");
    NONE("ld.shared::cta.u32 $0, [$1];", "=r,r", "r", "r");
    NONE("st.local.u32 [$0], $1;", "l,r", "", "lr");
    NONE("ld.const.f32 $0, [$1];", "=f,l", "f", "l");
    NONE("prefetch.global.L2 [$0];", "l", "", "p");
    NONE("discard.global.L2 [$0], 128;", "l", "", "p");
    NONE("cp.async.commit_group;", "", "", "");
    NONE("cp.async.wait_group $0;", "n", "", "r");
    NONE("cp.async.bulk.prefetch.L2.global [$0], $1;", "l,r", "", "lr");
    NONE("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0,$1,$2,$3}, [$4];", "=r,=r,=r,=r,r", "rrrr", "r");
    NONE("mbarrier.arrive.shared.b64 $0, [$1];", "=l,r", "l", "r");
    NONE("fence.acq_rel.gpu;", "", "", "");
    NONE("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {$0}, [$1], 16;", "=r,r", "r", "r");
}

static void access_copies(void **state)
{
    ONE("cp.async.ca.shared.global [$0], [$1], 4, 4;", "r,l", "", "rp", MT_LOAD, 1, 0, 4, -1, 0);
    ONE("cp.async.cg.shared.global.L2::128B [$0], [$1+32], $2, $3;", "r,l,n,r", "", "rprr", MT_LOAD, 1, 32, 0,
        3, 0);
    ONE("cp.async.cg.shared.global [$0], [$1], 16;", "r,l", "", "rp", MT_LOAD, 1, 0, 16, -1, 0);
    NONE("cp.async.cg.shared.global [$0], [$1], 16, 0;", "r,l", "", "rp");
    ONE("cp.async.cg.shared.global.L2::cache_hint [$0], [$1], 16, $2;", "r,l,l", "", "rpl", MT_LOAD, 1, 0, 16,
        -1, 0);
    ONE("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];", "r,l,r,r",
        "", "rlrr", MT_LOAD, 1, 0, 0, 2, 0);
    ONE("cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], 256;", "l,r", "", "lr", MT_STORE, 0, 0, 256,
        -1, 0);
    ONE("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [$0], [$1], $2;", "l,r,r", "", "lrr",
        MT_ATOMIC, 0, 0, 0, 2, 0);
    NONE("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];",
         "r,r,r,r", "", "rrrr");
    UNKNOWN("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, "
            "{$2}], [$3];",
            "r,l,r,r", "", "rlrr");
}

/* Registers of the asm's own are not followed: no PTX that was read has them in a call. */
static void access_inside(void **state)
{
    ONE("{ .reg .u64 a; cvta.to.global.u64 a, $1; ld.u32 $0, [a+4]; }", "=r,l", "r", "p", MT_LOAD, -1, 4, 4,
        -1, 1);
    ONE("{ .reg .pred p; setp.ne.b32 p, $2, 0; @p ld.global.u32 $0, [$1]; }", "=r,l,r", "r", "pr", MT_LOAD, 0,
        0, 4, -1, 0, 1, -1, 0);
    struct expected two[] = {{MT_LOAD, 0, 0, 4, -1, 1, 0, -1, 0}, {MT_STORE, 1, 8, 4, -1, 0, 0, -1, 0}};
    access_check("{ .reg .b32 t; ld.b32 t, [$0]; st.global.b32 [$1+8], t; }", "l,l", "", "pp", 2, two);
}

static void access_unknown(void **state)
{
    UNKNOWN("tex.1d.v4.f32.s32 {$0,$1,$2,$3}, [$4, {$5}];", "=f,=f,=f,=f,l,r", "ffff", "lr");
    UNKNOWN("sust.b.1d.b32.trap [$0, {$1}], {$2};", "l,r,r", "", "lrr");
    UNKNOWN("multimem.ld_reduce.relaxed.sys.global.add.u32 $0, [$1];", "=r,l", "r", "l");
    UNKNOWN("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {$0}, [$1], 16;", "=r,l", "r", "p");
    UNKNOWN("frobnicate.global.u32 $0, [$1];", "=r,l", "r", "p");
    NONE("frobnicate.u32 $0, $1;", "=r,r", "r", "r");
    UNKNOWN("ld.global.u32 $0, $1", "=r,l", "r", "p");
    UNKNOWN("ld.global.u32 $0, [$1", "=r,l", "r", "p");
    UNKNOWN("ld.global.frob $0, [$1];", "=r,l", "r", "p");
    UNKNOWN("{ .reg .pred p; L: ld.global.u32 $0, [$1]; setp.eq.u32 p, $0, 0; @p bra L; }", "=r,l", "r", "p");
    struct mt_asm_access a[1];
    assert_int_equal(access_accesses("ld.u32 $0, [$1]; ld.u32 $0, [$1+4];", "=r,l", "r", "p", a, 1), -1);
}

struct strength_case {
    const char *text;
    struct mt_asm_strength is;
};

/* Plain accesses are weak, atomics relaxed at gpu scope if they say nothing else, volatile is relaxed at sys
 * scope, membar a fence.sc (PTX ISA 9.0: memory consistency model, ld, st, atom, red, membar, fence). */
static void access_strength(void **state)
{
    enum { CTA = MT_SCOPE_CTA, CLUSTER = MT_SCOPE_CLUSTER, GPU = MT_SCOPE_GPU, SYS = MT_SCOPE_SYS };
    enum { RELAXED = MT_ORDER_RELAXED, ACQUIRE, RELEASE, ACQ_REL, SC, VOLATILE };
    static const struct strength_case cases[] = {
        {"ld.global.u32 $1, [$0];", {0, 0, 0}},
        {"ld.weak.global.u32 $1, [$0];", {0, 0, 0}},
        {"ld.shared::cta.u32 $1, [$0];", {0, 0, 0}},
        {"ld.global.nc.L1::no_allocate.u32 $1, [$0];", {0, 0, 0}},
        {"st.shared::cluster.u32 [$0], $1;", {0, 0, 0}},
        {"ld.volatile.shared.u32 $1, [$0];", {SYS, VOLATILE, 0}},
        {"st.volatile.global.u32 [$0], $1;", {SYS, VOLATILE, 0}},
        {"ld.relaxed.cta.u32 $1, [$0];", {CTA, RELAXED, 0}},
        {"ld.relaxed.cluster.shared::cluster.u32 $1, [$0];", {CLUSTER, RELAXED, 0}},
        {"ld.acquire.gpu.global.L1::evict_last.u32 $1, [$0];", {GPU, ACQUIRE, 0}},
        {"ld.mmio.relaxed.sys.global.u32 $1, [$0];", {SYS, RELAXED, 0}},
        {"st.release.sys.u32 [$0], $1;", {SYS, RELEASE, 0}},
        {"st.relaxed.gpu.shared::cta.u32 [$0], $1;", {GPU, RELAXED, 0}},
        {"atom.global.add.u32 $1, [$0], $1;", {GPU, RELAXED, 0}},
        {"atom.shared.cas.b32 $1, [$0], $1, $1;", {GPU, RELAXED, 0}},
        {"atom.sys.global.inc.u32 $1, [$0], $1;", {SYS, RELAXED, 0}},
        {"atom.acq_rel.cta.exch.b32 $1, [$0], $1;", {CTA, ACQ_REL, 1}},
        {"atom.global.release.cluster.or.b32 $1, [$0], $1;", {CLUSTER, RELEASE, 0}},
        {"atom.acquire.global.add.u32 $1, [$0], $1;", {GPU, ACQUIRE, 0}},
        {"red.cta.global.add.u32 [$0], $1;", {CTA, RELAXED, 0}},
        {"red.release.gpu.global.add.u32 [$0], $1;", {GPU, RELEASE, 0}},
        {"red.relaxed.sys.global.add.v2.bf16x2 [$0], {$1, $1};", {SYS, RELAXED, 0}},
        {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [$0], [$1], 16;", {GPU, RELAXED, 0}},
        {"cp.async.ca.shared.global [$1], [$0], 4;", {0, 0, 0}},
        {"fence.acq_rel.cta;", {CTA, ACQ_REL, 0}},
        {"fence.acq_rel.cluster;", {CLUSTER, ACQ_REL, 0}},
        {"fence.gpu;", {GPU, ACQ_REL, 0}},
        {"fence.sc.sys;", {SYS, SC, 0}},
        {"fence.acquire.gpu;", {GPU, ACQUIRE, 0}},
        {"fence.release.sync_restrict::shared::cta.cluster;", {CLUSTER, RELEASE, 0}},
        {"membar.cta;", {CTA, SC, 0}},
        {"membar.gl;", {GPU, SC, 0}},
        {"membar.sys;", {SYS, SC, 0}},
        {"membar.proxy.alias;", {0, 0, 0}},
        {"fence.proxy.async.shared::cta;", {0, 0, 0}},
        {"fence.proxy.tensormap::generic.release.gpu;", {0, 0, 0}},
        {"fence.mbarrier_init.release.cluster;", {0, 0, 0}},
        {"bar.sync 0;", {0, 0, 0}},
        {"mov.u32 $1, %laneid;", {0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asm_shape shape = {cases[i].text, "l,r", "", "pr"};
        LLVMValueRef call;
        LLVMModuleRef m = asm_module(&shape, &call);
        struct mt_asm_strength got = mt_asm_strength_of(call);
        LLVMDisposeModule(m);
        if (got.scope != cases[i].is.scope || got.order != cases[i].is.order ||
            got.exchanges != cases[i].is.exchanges)
            fail_msg("%s: scope %d, order %d, exchanges %d", cases[i].text, got.scope, got.order,
                     got.exchanges);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(loads_and_stores), cmocka_unit_test(access_atomics),
                                       cmocka_unit_test(no_access),        cmocka_unit_test(access_copies),
                                       cmocka_unit_test(access_inside),    cmocka_unit_test(access_unknown),
                                       cmocka_unit_test(access_strength)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
