/* A CPU image written by hand: what the pass would make of small kernels. Uses the real builtins. */
#include "access.c"
#include "system.c"
#include "ptx.c"
uint32_t __mt_site_base;
#define TID mt_cpu_tls.tid[0]
#define CTA mt_cpu_tls.ctaid[0]
#define N mt_cpu_tls.ntid[0]
#define GRID mt_cpu_tls.nctaid[0]
#define LANE mt_cpu_tls.laneid
#define ARG(type, i) (*(type *)args[i])
#define SHARED ((volatile uint32_t *)mt_cpu_tls.shared)
#define STATIC_SHARED 8192
#define FULL 0xffffffffu
static const uint32_t constant_table[64] = {1, 2, 3};
static uint32_t device_table[64];

#define SHFL(name, mode)                                                                                     \
    static MT_INLINE uint32_t shfl_##name(uint32_t mask, uint32_t v, uint32_t lane, uint32_t c)              \
    {                                                                                                        \
        return (uint32_t)mt_cpu_shfl(mask, v, lane, c, mode);                                                \
    }
SHFL(up, MT_SHFL_UP)
SHFL(down, MT_SHFL_DOWN)
SHFL(bfly, MT_SHFL_BFLY)
SHFL(idx, MT_SHFL_IDX)
static MT_INLINE void shfl_pair(uint64_t both, uint64_t *out)
{
    out[0] = (uint32_t)both;
    out[1] = both >> 32;
}
#define VOTE(name, mode)                                                                                     \
    static MT_INLINE uint32_t vote_##name(uint32_t mask, uint32_t p)                                         \
    {                                                                                                        \
        return mt_cpu_vote(mask, p, mode);                                                                   \
    }
VOTE(all, MT_VOTE_ALL)
VOTE(any, MT_VOTE_ANY)
VOTE(uni, MT_VOTE_UNI)
VOTE(ballot, MT_VOTE_BALLOT)

/* Runs `thread` for each thread of the warps that are to run: what code for whole warps does. */
static MT_INLINE void cta_loop(void (*thread)(void **), void **args)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    uint32_t nx = t->ntid[0], ny = t->ntid[1], n = nx * ny * t->ntid[2];
    for (uint32_t i = 32 * t->warp_first; i < 32 * t->warp_end && i < n; i++) {
        t->tid[0] = i % nx;
        t->tid[1] = i / nx % ny;
        t->tid[2] = i / nx / ny;
        t->laneid = i & 31;
        t->warpid = i >> 5;
        thread(args);
    }
}

/* out[i] = i, one recorded store per thread */
static void fill(void **args)
{
    uint32_t *out = ARG(uint32_t *, 0), n = ARG(uint32_t, 1), i = CTA * N + TID;
    if (i < n) {
        __mt_access_global(&out[i], 1u << 28 | 4, 0);
        out[i] = i;
    }
}
static void fill_loop(void **args)
{
    cta_loop(fill, args);
}

/* Coordinates of every thread of a 3-D launch. */
static void coordinates(void **args)
{
    const struct mt_cpu_tls *t = &mt_cpu_tls;
    uint64_t cta =
        t->ctaid[0] + (uint64_t)t->nctaid[0] * (t->ctaid[1] + (uint64_t)t->nctaid[1] * t->ctaid[2]);
    uint32_t thread = t->tid[0] + t->ntid[0] * (t->tid[1] + t->ntid[1] * t->tid[2]);
    uint32_t *p = ARG(uint32_t *, 0) + (cta * t->ntid[0] * t->ntid[1] * t->ntid[2] + thread) * 4;
    p[0] += 1;
    p[1] = t->laneid == thread % 32 && t->warpid == thread / 32;
    p[2] = t->smid == cta % t->nsmid;
    p[3] = t->run_cta == ((uint64_t)t->ctaid[0] << 32 | t->ctaid[1] << 16 | t->ctaid[2]);
}
static void coordinates_loop(void **args)
{
    cta_loop(coordinates, args);
}

/* Block sum through shared memory with a tree of barriers. */
static void block_sum(void **args)
{
    uint32_t *in = ARG(uint32_t *, 0), *out = ARG(uint32_t *, 1);
    SHARED[TID] = in[CTA * N + TID];
    mt_cpu_barrier(0, 0, 0, 0);
    for (uint32_t s = N / 2; s > 0; s /= 2) {
        if (TID < s)
            SHARED[TID] += SHARED[TID + s];
        mt_cpu_barrier(0, 0, 0, 0);
    }
    if (TID == 0)
        out[CTA] = SHARED[0];
}

/* `rounds` barriers and nothing else. */
static void barriers(void **args)
{
    for (uint32_t i = ARG(uint32_t, 0); i > 0; i--)
        mt_cpu_barrier(0, 0, 0, 0);
}

static void shuffles(void **args)
{
    for (uint32_t i = ARG(uint32_t, 0); i > 0; i--)
        shfl_bfly(FULL, i, 1, 31);
}

/* Half of each warp's lanes take one branch with its own shuffle, half another; then all vote. */
static void divergent(void **args)
{
    uint32_t *out = ARG(uint32_t *, 0), r;
    if (LANE % 2) {
        r = shfl_idx(0xaaaaaaaa, LANE * 10, 3, 31);
        r += vote_ballot(0xaaaaaaaa, LANE > 15) == 0xaaaa0000 ? 1000 : 0;
    } else {
        r = shfl_idx(0x55555555, LANE * 10, 4, 31);
        r += mt_cpu_redux(0x55555555, LANE, MT_REDUX_ADD);
    }
    uint32_t all = vote_ballot(FULL, LANE % 2);
    out[CTA * N + TID] = all == 0xaaaaaaaa ? r : 0;
}

static void warp_ops(void **args)
{
    uint32_t *out = ARG(uint32_t *, 0) + (uint64_t)(CTA * N + TID) * 16;
    uint64_t two[2];
    out[0] = shfl_up(FULL, LANE, 3, 0);
    out[1] = shfl_down(FULL, LANE, 5, 31);
    out[2] = shfl_bfly(FULL, LANE, 6, 31);
    out[3] = shfl_idx(FULL, LANE, 9, 31);
    out[4] = shfl_down(FULL, LANE, 1, (32 - 8) << 8 | 31); /* width 8 */
    shfl_pair(mt_cpu_shfl(FULL, LANE, 4, (32 - 16) << 8, MT_SHFL_UP), two);
    out[5] = (uint32_t)two[0] | (uint32_t)two[1] << 31;
    out[6] = mt_cpu_match_any(FULL, LANE / 5);
    two[0] = mt_cpu_match_all(FULL, 7);
    out[7] = (uint32_t)two[0];
    two[0] = mt_cpu_match_all(FULL, LANE == 9);
    out[8] = (uint32_t)two[0];
    out[9] = mt_cpu_redux(FULL, LANE - 16, MT_REDUX_MIN);
    out[10] = mt_cpu_redux(FULL, LANE - 16, MT_REDUX_UMAX);
    out[11] =
        !!vote_any(FULL, LANE == 31) + 2 * !!vote_all(FULL, LANE == 31) + 4 * !!vote_uni(FULL, LANE < 32);
    out[12] = mt_u32(mt_f32(shfl_idx(FULL, mt_u32((float)LANE), 2, 31)));
    out[13] = mt_cpu_redux(FULL, 1u << LANE, MT_REDUX_XOR);
}

/* activemask in diverged code: the lanes of one branch see each other only. */
static void active(void **args)
{
    uint32_t *out = ARG(uint32_t *, 0), r = 0;
    if (TID % 32 < 7) {
        r = mt_cpu_activemask();
    } else {
        if (TID % 3 == 0)
            return;
        r = mt_cpu_activemask();
        r ^= vote_ballot(r, 1); /* those lanes can do a collective together: r becomes 0 */
        r |= mt_cpu_activemask();
    }
    out[CTA * N + TID] = r;
}

/* The same question through a function that is not inlined, from two branches. */
static __attribute__((noinline, convergent, nomerge)) uint32_t who(uint32_t x)
{
    uint32_t r = mt_cpu_activemask();
    return r ^ x;
}
static void active_calls(void **args)
{
    volatile uint32_t r;
    if (TID % 32 < 7)
        r = who(1) ^ 1;
    else
        r = who(2) ^ 2;
    ARG(uint32_t *, 0)[CTA * N + TID] = r;
}

/* Threads leave before a barrier; in the last warp before a full-mask collective. */
static void early_exit(void **args)
{
    uint32_t *out = ARG(uint32_t *, 0);
    if (TID >= ARG(uint32_t, 1))
        return;
    uint32_t count = mt_cpu_barrier(1, 0, 0, 1);
    uint32_t ballot = vote_ballot(FULL, 1);
    if (TID % 2)
        mt_cpu_exit_thread();
    mt_cpu_barrier(0, 0, 0, 0);
    out[CTA * N + TID] = count + (ballot & 1);
}

/* Lanes ask for each other with masks that never meet. */
static void incomplete(void **args)
{
    uint32_t r;
    if (LANE < 16)
        r = vote_ballot(FULL, 1);
    else
        r = shfl_idx(FULL, LANE, 20, 31);
    ARG(uint32_t *, 0)[CTA * N + TID] = r;
}

static void deadlock(void **args)
{
    mt_cpu_barrier(0, TID % 2 ? 1 : 2, 0, 0);
}

/* Producer warps and consumer warps: named barriers with counts, sync and arrive. */
static void named(void **args)
{
    uint32_t *out = ARG(uint32_t *, 0), rounds = ARG(uint32_t, 1), half = N / 2;
    for (uint32_t i = 0; i < rounds; i++) {
        if (TID < half) {
            mt_cpu_barrier(0, 1, N, 0); /* the slot is free */
            SHARED[TID] = i * 1000 + TID;
            mt_cpu_barrier_arrive(2, N, 1);
        } else {
            mt_cpu_barrier_arrive(1, N, 1);
            mt_cpu_barrier(0, 2, N, 0); /* the slot is full */
            out[(CTA * rounds + i) * half + TID - half] = SHARED[TID - half];
        }
    }
}

/* Grid barrier by atomics and spinning: each CTA adds to the counter, waits for all,
 * reads what the others wrote. */
static void grid_barrier(void **args)
{
    uint32_t *counter = ARG(uint32_t *, 0), *data = ARG(uint32_t *, 1), *out = ARG(uint32_t *, 2);
    uint32_t rounds = ARG(uint32_t, 3), sum = 0;
    for (uint32_t r = 1; r <= rounds; r++) {
        if (TID == 0)
            __atomic_store_n(&data[CTA], r * (CTA + 1), __ATOMIC_RELAXED);
        mt_cpu_barrier(0, 0, 0, 0);
        for (int phase = 0; phase < 2; phase++) {
            if (TID == 0) {
                uint32_t goal = (2 * (r - 1) + (uint32_t)phase + 1) * GRID;
                __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
                while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < goal)
                    mt_cpu_yield();
            }
            mt_cpu_barrier(0, 0, 0, 0);
            if (phase == 0 && TID < GRID)
                sum += __atomic_load_n(&data[TID], __ATOMIC_RELAXED);
            mt_cpu_barrier(0, 0, 0, 0); /* all have read before their CTA comes again */
        }
    }
    if (TID < GRID)
        out[CTA * GRID + TID] = sum;
}

/* Each CTA waits for the one after it: only right when CTAs in flight give way to new ones. */
static void chain(void **args)
{
    uint32_t *flag = ARG(uint32_t *, 0);
    if (CTA + 1 < GRID)
        while (!__atomic_load_n(&flag[CTA + 1], __ATOMIC_ACQUIRE))
            mt_cpu_yield();
    __atomic_store_n(&flag[CTA], 1, __ATOMIC_RELEASE);
}

/* A spin lock between the threads of a CTA and between CTAs; the holder waits for its warp inside. */
static void spin_lock(void **args)
{
    uint32_t *lock = ARG(uint32_t *, 0), *count = ARG(uint32_t *, 1);
    for (int done = 0; !done;) {
        uint32_t zero = 0;
        if (__atomic_compare_exchange_n(lock, &zero, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            mt_cpu_activemask();
            *count += 1;
            __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
            done = 1;
        }
        mt_cpu_yield();
    }
}

static void trap_at(void **args)
{
    mt_cpu_barrier(0, 0, 0, 0);
    if (CTA == 3 && TID == 5)
        mt_cpu_trap();
    mt_cpu_barrier(0, 0, 0, 0);
}
static void assert_at(void **args)
{
    if (CTA == 1 && TID == 2)
        mt_cpu_assertfail("x > 0", "file.cu", 42, "assert_at");
}
static void assert_loop(void **args)
{
    cta_loop(assert_at, args);
}
static void unsupported(void **args)
{
    mt_cpu_unsupported("tex.1d", "file.cu", 7);
}
static void unsupported_loop(void **args)
{
    cta_loop(unsupported, args);
}
static void bad_address(void **args)
{
    if (TID == 1)
        *ARG(volatile int *, 0) = 1;
    mt_cpu_barrier(0, 0, 0, 0);
}
static void bad_address_loop_body(void **args)
{
    if (TID == 1)
        *ARG(volatile int *, 0) = 1;
}
static void bad_address_loop(void **args)
{
    cta_loop(bad_address_loop_body, args);
}
static __attribute__((noinline)) uint32_t deep(uint32_t n)
{
    volatile char frame[512];
    frame[n % 512] = (char)n;
    return n ? deep(n - 1) + (uint32_t)frame[n % 512] : 0;
}
static void recurse(void **args)
{
    volatile uint32_t r = deep(ARG(uint32_t, 0));
    (void)r;
    mt_cpu_barrier(0, 0, 0, 0);
}
static void divide(void **args)
{
    volatile int zero = 0;
    volatile int r = (int)TID / zero;
    (void)r;
}

/* Accesses to every kind of memory through generic pointers: only the global ones make records. */
static void spaces(void **args)
{
    uint32_t local = 1;
    uint32_t *p[] = {ARG(uint32_t *, 0),
                     &local,
                     (uint32_t *)mt_cpu_tls.shared,
                     (uint32_t *)&constant_table[3],
                     &device_table[5],
                     (uint32_t *)args[0]};
    for (unsigned i = 0; i < 6; i++)
        __mt_access_generic(p[i], 4, 0);
    __mt_access_generic_n(p[0], 0, 1, 0);
    __mt_access_generic_n(p[0], (1ull << 28) + 10, 1, 0);
    __mt_access_generic_n(p[1], 8, 1, 0);
    __mt_untraced(0);
    mt_cpu_barrier(0, 0, 0, 0);
}

struct big {
    uint32_t v[300];
};
static void by_value(void **args)
{
    struct big *b = args[0];
    uint64_t a = (uint64_t)b;
    ARG(uint32_t *, 1)[0] = b->v[299];
    ARG(uint32_t *, 1)[1] = a - mt_cpu_tls.local_base < mt_cpu_tls.local_bytes;
    ARG(uint32_t *, 1)[2] = (uint64_t)mt_cpu_tls.shared - mt_cpu_tls.local_base < mt_cpu_tls.local_bytes;
    ARG(uint32_t *, 1)[3] = (uint64_t)&a - mt_cpu_tls.local_base < mt_cpu_tls.local_bytes;
    ARG(uint32_t *, 1)[4] = ARG(uint8_t, 2);
}
static void by_value_loop(void **args)
{
    cta_loop(by_value, args);
}

/* What another CTA of the cluster stored before the barrier, round by round;
 * some threads are gone by then. */
static void cluster_rounds(void **args)
{
    const struct mt_cpu_tls *t = &mt_cpu_tls;
    uint32_t ctas = t->cluster[0], rank = CTA % ctas, sum = 0;
    uint32_t *next = (uint32_t *)(t->cluster_shared + (rank + 1) % ctas * t->cluster_stride);
    if (TID % 5 == 4)
        return;
    for (uint32_t r = 0; r < ARG(uint32_t, 1); r++) {
        mt_cpu_cluster_arrive();
        mt_cpu_barrier(0, 0, 0, 0);
        mt_cpu_cluster_wait();
        next[TID] = CTA * 1000 + r;
        mt_cpu_cluster_arrive();
        mt_cpu_cluster_wait();
        sum += SHARED[TID];
    }
    ARG(uint32_t *, 0)[CTA * N + TID] = sum;
}

/* One thread of one CTA waits for what never comes: how = 0: at a barrier of its own, 1: it never arrives. */
static void cluster_deadlock(void **args)
{
    if (CTA == 1 && TID == 0 && ARG(uint32_t, 0) == 0)
        mt_cpu_barrier(0, 5, 0, 0);
    if (CTA != 1 || TID != 0)
        mt_cpu_cluster_arrive();
    mt_cpu_cluster_wait();
    if (CTA == 1 && TID == 0)
        mt_cpu_barrier(0, 5, 0, 0);
}

static void cluster_trap(void **args)
{
    mt_cpu_cluster_arrive();
    if (CTA == 5 && TID == 7)
        mt_cpu_trap();
    mt_cpu_cluster_wait();
}

static const struct mt_image_param p_ptr[] = {{"a", 8, 8}, {"b", 8, 8}, {"c", 8, 8}, {"n", 4, 4}};
static const struct mt_image_param p_ptr_u32[] = {{"a", 8, 8}, {"n", 4, 4}};
static const struct mt_image_param p_u32[] = {{"n", 4, 4}};
static const struct mt_image_param p_big[] = {{"b", 1200, 4}, {"out", 8, 8}, {"c", 1, 1}};
#define K(name, warps, params, n)                                                                            \
    {#name,                                                                                                  \
     #name,                                                                                                  \
     #name "()",                                                                                             \
     "kernels.c",                                                                                            \
     1,                                                                                                      \
     0,                                                                                                      \
     name,                                                                                                   \
     params,                                                                                                 \
     n,                                                                                                      \
     STATIC_SHARED,                                                                                          \
     0,                                                                                                      \
     0,                                                                                                      \
     .vector_rows = warps,                                                                                   \
     .record_rows = warps,                                                                                   \
     .record_any = warps}
static const struct mt_image_kernel kernels[] = {
    K(fill, fill_loop, p_ptr_u32, 2),
    K(coordinates, coordinates_loop, p_ptr, 1),
    K(block_sum, 0, p_ptr, 2),
    K(barriers, 0, p_u32, 1),
    K(shuffles, 0, p_u32, 1),
    K(divergent, 0, p_ptr, 1),
    K(warp_ops, 0, p_ptr, 1),
    K(active, 0, p_ptr, 1),
    K(early_exit, 0, p_ptr_u32, 2),
    K(incomplete, 0, p_ptr, 1),
    K(deadlock, 0, p_ptr, 0),
    K(named, 0, p_ptr_u32, 2),
    K(grid_barrier, 0, p_ptr, 4),
    K(chain, 0, p_ptr, 1),
    K(spin_lock, 0, p_ptr, 2),
    K(trap_at, 0, p_ptr, 0),
    K(assert_at, assert_loop, p_ptr, 0),
    K(unsupported, unsupported_loop, p_ptr, 0),
    K(bad_address, 0, p_ptr, 1),
    K(bad_address_loop_body, bad_address_loop, p_ptr, 1),
    K(recurse, 0, p_u32, 1),
    K(divide, 0, p_ptr, 0),
    K(spaces, 0, p_ptr, 1),
    K(by_value, by_value_loop, p_big, 3),
    K(cluster_rounds, 0, p_ptr_u32, 2),
    K(cluster_deadlock, 0, p_u32, 1),
    K(cluster_trap, 0, p_u32, 1),
    {"active_calls", "active_calls", "", "", 1, MT_KERNEL_FRAMES, active_calls, p_ptr, 1, 0, 0, 0},
    {"spin_coordinates", "spin_coordinates", "", "", 1, 0, coordinates, p_ptr, 1, 0, 0, 0},
};
static const struct mt_image_var vars[] = {
    {"constant_table", constant_table, sizeof constant_table, MT_VAR_CONSTANT, 0},
    {"device_table", device_table, sizeof device_table, MT_VAR_DEVICE, 0}};
__attribute__((visibility("default"))) const struct mt_image_head mt_image = {
    MT_IMAGE_MAGIC,
    MT_IMAGE_VERSION,
    "x86-64-v3",
    "kernels.c",
    kernels,
    0,
    vars,
    0,
    sizeof kernels / sizeof kernels[0],
    0,
    2,
    0,
    STATIC_SHARED,
};
