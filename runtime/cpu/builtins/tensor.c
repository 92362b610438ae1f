/* Tensor copies: move a box of a tensor that a CUtensorMap describes (tensor_map.h) between global memory
 * and the shared memory of a CTA, row by row. A copy is complete when its instruction returns here. */
#include "access.h"
#include "half.h"
#include "tensor_map.h"

/* Finds the elements of row r of the box at these coordinates that are inside the tensor: returns their
 * number, with the first one (*first, counted in the box) and its address. */
static uint32_t tensor_row(const struct mt_tensor_map *m, const int32_t *at, uint64_t r, uint32_t *first,
                           uint64_t *address)
{
    int64_t begin = at[0] < 0 ? -(int64_t)at[0] : 0, end = (int64_t)m->last[0] + 1 - at[0];
    end = end < m->box[0] ? end : m->box[0];
    *address = m->address;
    for (uint32_t i = 1; i < m->rank; i++) {
        uint32_t n = mt_tensor_count(m, i);
        int64_t where = at[i] + (int64_t)(r % n) * m->step[i];
        r /= n;
        if (where < 0 || where > m->last[i])
            return 0;
        *address += (uint64_t)where * m->stride[i - 1];
    }
    if (begin >= end)
        return 0;
    *address += (uint64_t)(at[0] + begin) * mt_tensor_element(m);
    *first = (uint32_t)begin;
    return (uint32_t)(end - begin);
}

/* Returns the offset of the box byte that is at address p + at without swizzle: 16-byte chunks within a
 * span are permuted by the address bits from the seventh up. */
static uint64_t tensor_swizzle(const struct mt_tensor_map *m, uint64_t p)
{
    return p ^ (p >> 7 & ((1u << m->swizzle) - 1)) << 4;
}

static uint64_t tensor_rows(const struct mt_tensor_map *m)
{
    uint64_t n = 1;
    for (uint32_t i = 1; i < m->rank; i++)
        n *= mt_tensor_count(m, i);
    return n;
}

#define ROW_BYTES (256 * 8) /* longest row of a box */
#define SHARED_ALIGN 128
#define FAULT_ADDRESS 700 /* CUDA's error numbers */
#define FAULT_MISALIGNED 716

void mtb_ptx_mbarrier_complete_tx_b64(uint64_t *bar, uint32_t bytes);
uint64_t mtb_ptx_mapa_u64(uint64_t p, uint32_t rank);

/* Returns an error in a map, or NULL. */
static const char *tensor_wrong(const struct mt_tensor_map *m, uint32_t rank)
{
    if (m->magic != MT_TENSOR_MAGIC)
        return "a tensor copy by what cuTensorMapEncodeTiled has not made";
    if (m->type >= MT_TENSOR_TYPES || m->interleave || m->swizzle > 3)
        return "a tensor copy by a map with a packed type, an interleaved layout or a swizzle of larger "
               "atoms";
    if (m->rank != rank)
        return "a tensor copy of another number of dimensions than its map has";
    for (uint32_t i = 0; i < rank; i++)
        if (!m->box[i] || m->box[i] > 256 || !m->step[i])
            return "a tensor copy by a map whose box or element strides are out of range";
    if (m->swizzle && m->box[0] * mt_tensor_element(m) > mt_tensor_pitch(m))
        return "a tensor copy whose rows are longer than the swizzle";
    return NULL;
}

static MT_INLINE bool tensor_fits(const struct mt_tensor_map *m)
{
    return tensor_rows(m) * mt_tensor_pitch(m) <= mt_cpu_tls.shared_bytes;
}

/* Returns whether there is anything to record. An invalid map fails in the copy. */
static MT_INLINE bool tensor_records(const struct mt_tensor_map *m, uint32_t rank)
{
    return ((uint64_t)m & (MT_TENSOR_ALIGN - 1)) == 0 && !tensor_wrong(m, rank) && tensor_fits(m);
}

/* ---- records ---- */

/* Records each row of the box, as far as it is inside the tensor. */
MT_BUILTIN void __mt_access_tensor(const void *map, uint32_t rank, uint32_t type, int32_t c0, int32_t c1,
                                   int32_t c2, int32_t c3, int32_t c4, uint32_t site)
{
    const struct mt_tensor_map *m = map;
    const int32_t at[MT_TENSOR_RANK] = {c0, c1, c2, c3, c4};
    if (!tensor_records(m, rank))
        return;
    uint64_t rows = tensor_rows(m), address;
    uint32_t first, n;
    for (uint64_t r = 0; r < rows; r++)
        if ((n = tensor_row(m, at, r, &first, &address)))
            access_record(address, type << 28 | n * mt_tensor_element(m), site);
}

void __mt_access_shared_n(void *p, uint64_t bytes, uint32_t type, uint32_t site);

/* Records the shared memory side: the whole box, unless a swizzle leaves gaps between its rows. */
static void tensor_shared(const struct mt_tensor_map *m, uint64_t p, uint32_t type, uint32_t site)
{
    uint64_t rows = tensor_rows(m);
    uint32_t pitch = mt_tensor_pitch(m), bytes = m->box[0] * mt_tensor_element(m);
    if (bytes == pitch) {
        __mt_access_shared_n((void *)p, rows * bytes, type, site);
        return;
    }
    for (uint64_t r = 0; r < rows; r++)
        for (uint32_t at = 0; at < bytes; at += 16)
            __mt_access_shared_n((void *)tensor_swizzle(m, p + r * pitch + at), 16, type, site);
}

MT_BUILTIN void __mt_access_tensor_shared(const void *map, uint32_t rank, void *shared, uint32_t ctas,
                                          uint32_t type, uint32_t site)
{
    uint64_t p = (uint64_t)shared;
    if (!tensor_records(map, rank))
        return;
    p = p >> 32 ? p : mt_shared_whole((uint32_t)p, (uint64_t)mt_cpu_tls.shared);
    if (!ctas)
        tensor_shared(map, p, type, site);
    for (; ctas; ctas &= ctas - 1)
        tensor_shared(map, mtb_ptx_mapa_u64((uint64_t)p, (uint32_t)__builtin_ctz(ctas)), type, site);
}

/* Second count: number of indices inside the tensor per dimension, and their product. */
MT_BUILTIN void __mt_count_tensor(const void *map, uint32_t rank, const int32_t *at, uint32_t kind)
{
    const struct mt_tensor_map *m = map;
    uint64_t rows = 1, inner = 0;
    if (!tensor_records(m, rank))
        return;
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t inside = 0;
        for (uint32_t k = 0; k < m->box[i]; k += i ? m->step[i] : 1)
            inside += (uint64_t)((int64_t)at[i] + k) <= m->last[i];
        inner = i ? inner : inside;
        rows *= i ? inside : inside != 0;
    }
    mt_cpu_tls.counts[2 * kind] += rows;
    mt_cpu_tls.counts[2 * kind + 1] += rows * inner * mt_tensor_element(m);
}

/* ---- conversion of elements ---- */

static void tensor_fill(const struct mt_tensor_map *m, uint8_t *row)
{
    static const uint8_t nan[2] = {0xff, 0x7f}; /* upper bytes of each format's NaN */
    uint32_t size = mt_tensor_element(m), n = m->box[0] * size;
    __builtin_memset(row, m->fill ? 0xff : 0, n);
    for (uint32_t i = size; m->fill && size > 1 && i <= n; i += size)
        __builtin_memcpy(row + i - 2, nan, 2);
}

/* Converts the types whose loads are not plain copies: flushed denormals, and tf32 with ten bits. */
static void tensor_convert(const struct mt_tensor_map *m, uint8_t *row)
{
    bool flush = m->type == MT_TENSOR_F32_FTZ || m->type == MT_TENSOR_TF32_FTZ;
    bool round = m->type == MT_TENSOR_TF32 || m->type == MT_TENSOR_TF32_FTZ;
    for (uint32_t i = 0; (flush || round) && i < m->box[0]; i++) {
        uint32_t u;
        __builtin_memcpy(&u, row + 4 * i, 4);
        if (flush && !(u & 0x7f800000))
            u &= 0x80000000;
        if (round && (u & 0x7f800000) != 0x7f800000)
            u = (u + 0xfff + (u >> 13 & 1)) & ~0x1fffu;
        __builtin_memcpy(row + 4 * i, &u, 4);
    }
}

#define INTEGER(a, b, op)                                                                                    \
    ((op) == MT_TENSOR_ADD   ? (a) + (b)                                                                     \
     : (op) == MT_TENSOR_MIN ? ((a) < (b) ? (a) : (b))                                                       \
     : (op) == MT_TENSOR_MAX ? ((a) > (b) ? (a) : (b))                                                       \
     : (op) == MT_TENSOR_INC ? ((a) >= (b) ? 0 : (a) + 1)                                                    \
     : (op) == MT_TENSOR_DEC ? ((a) == 0 || (a) > (b) ? (b) : (a) - 1)                                       \
     : (op) == MT_TENSOR_AND ? ((a) & (b))                                                                   \
     : (op) == MT_TENSOR_OR  ? ((a) | (b))                                                                   \
                             : ((a) ^ (b)))
#define HALF(T, a, b, op)                                                                                    \
    ((op) == MT_TENSOR_ADD ? mt_##T##_add((uint16_t)(a), (uint16_t)(b))                                      \
                           : mt_##T##_extreme((uint16_t)(a), (uint16_t)(b), (op) == MT_TENSOR_MIN, false))

static uint64_t tensor_combine(enum mt_tensor_type type, uint32_t op, uint64_t a, uint64_t b)
{
    switch (type) {
    case MT_TENSOR_U32:
        return INTEGER((uint32_t)a, (uint32_t)b, op);
    case MT_TENSOR_S32:
        return op == MT_TENSOR_ADD ? (uint32_t)a + (uint32_t)b
                                   : (uint32_t)INTEGER((int32_t)a, (int32_t)b, op);
    case MT_TENSOR_U64:
        return INTEGER(a, b, op);
    case MT_TENSOR_S64:
        return op == MT_TENSOR_ADD ? a + b : (uint64_t)INTEGER((int64_t)a, (int64_t)b, op);
    case MT_TENSOR_F16:
        return HALF(f16, a, b, op);
    case MT_TENSOR_BF16:
        return HALF(bf16, a, b, op);
    case MT_TENSOR_F64:
        return mt_u64(mt_f64(a) + mt_f64(b));
    default:
        return mt_u32(mt_f32((uint32_t)a) + mt_f32((uint32_t)b));
    }
}

/* Returns whether this reduction exists, as for cp.reduce.async.bulk. */
static bool tensor_reduces(uint32_t type, uint32_t op)
{
    static const uint16_t logic = 1 << MT_TENSOR_AND | 1 << MT_TENSOR_OR | 1 << MT_TENSOR_XOR;
    static const uint16_t order = 1 << MT_TENSOR_ADD | 1 << MT_TENSOR_MIN | 1 << MT_TENSOR_MAX;
    static const uint16_t known[MT_TENSOR_TYPES] = {
        [MT_TENSOR_U32] = logic | order | 1 << MT_TENSOR_INC | 1 << MT_TENSOR_DEC,
        [MT_TENSOR_S32] = logic | order,
        [MT_TENSOR_U64] = logic | order,
        [MT_TENSOR_S64] = logic | order,
        [MT_TENSOR_F16] = order,
        [MT_TENSOR_BF16] = order,
        [MT_TENSOR_F32] = 1 << MT_TENSOR_ADD,
        [MT_TENSOR_F32_FTZ] = 1 << MT_TENSOR_ADD,
        [MT_TENSOR_F64] = 1 << MT_TENSOR_ADD,
    };
    return known[type] >> op & 1;
}

#define ATOMIC(bits)                                                                                         \
    static void tensor_atomic_##bits(uint64_t address, enum mt_tensor_type type, uint32_t op, uint64_t v)    \
    {                                                                                                        \
        uint##bits##_t *p = (uint##bits##_t *)address, old = __atomic_load_n(p, __ATOMIC_RELAXED);           \
        while (!__atomic_compare_exchange_n(p, &old, (uint##bits##_t)tensor_combine(type, op, old, v), 0,    \
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {                           \
        }                                                                                                    \
    }
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

static void tensor_reduce(const struct mt_tensor_map *m, uint32_t op, uint64_t to, const uint8_t *from,
                          uint32_t n)
{
    uint32_t size = mt_tensor_element(m);
    for (uint32_t i = 0; i < n; i++, to += size, from += size) {
        uint64_t v = 0;
        __builtin_memcpy(&v, from, size);
        if (size == 2)
            tensor_atomic_16(to, m->type, op, v);
        else if (size == 4)
            tensor_atomic_32(to, m->type, op, v);
        else
            tensor_atomic_64(to, m->type, op, v);
    }
}

/* ---- copies ---- */

/* Moves one row of the box between `row` and shared memory. */
static void tensor_move(const struct mt_tensor_map *m, uint64_t shared, uint8_t *row, bool load)
{
    uint32_t n = m->box[0] * mt_tensor_element(m);
    for (uint32_t at = 0; at < n; at += 16) {
        void *p = (void *)tensor_swizzle(m, shared + at);
        if (load)
            __builtin_memcpy(p, row + at, 16);
        else
            __builtin_memcpy(row + at, p, 16);
    }
}

static void tensor_copy(const struct mt_tensor_map *m, uint32_t op, const int32_t *at, uint64_t shared)
{
    uint8_t row[ROW_BYTES];
    uint64_t rows = tensor_rows(m), address;
    uint32_t size = mt_tensor_element(m), first = 0, n;
    for (uint64_t r = 0; r < rows; r++, shared += mt_tensor_pitch(m)) {
        n = tensor_row(m, at, r, &first, &address);
        if (op == MT_TENSOR_LOAD) {
            tensor_fill(m, row);
            __builtin_memcpy(row + first * size, (const void *)address, n * size);
            tensor_convert(m, row);
        }
        tensor_move(m, shared, row, op == MT_TENSOR_LOAD);
        if (op == MT_TENSOR_STORE)
            __builtin_memcpy((void *)address, row + first * size, n * size);
        else if (op != MT_TENSOR_LOAD)
            tensor_reduce(m, op, address, row + first * size, n);
    }
}

/* Returns whether the box is in the shared memory of a CTA of this cluster. */
static bool tensor_inside(const struct mt_tensor_map *m, uint64_t p)
{
    uint64_t bytes = tensor_rows(m) * mt_tensor_pitch(m);
    uint64_t offset = p - (uint64_t)mt_cpu_tls.cluster_shared, stride = mt_cpu_tls.cluster_stride;
    return offset / stride < mt_cpu_tls.cluster[0] * mt_cpu_tls.cluster[1] * mt_cpu_tls.cluster[2] &&
           tensor_fits(m) && offset % stride <= mt_cpu_tls.shared_bytes - bytes;
}

static void tensor_check(const struct mt_tensor_map *m, uint32_t op, uint32_t rank, uint64_t shared)
{
    const char *wrong;
    if ((uint64_t)m % MT_TENSOR_ALIGN)
        mt_cpu_fail(FAULT_MISALIGNED, "a tensor map that is not aligned to 64 bytes");
    if ((wrong = tensor_wrong(m, rank)))
        mt_cpu_unsupported(wrong, "", 0);
    if (op > MT_TENSOR_STORE && !tensor_reduces(m->type, op))
        mt_cpu_unsupported("a reduction of this kind on the element type of its tensor map", "", 0);
    if (shared % SHARED_ALIGN)
        mt_cpu_fail(FAULT_MISALIGNED,
                    "a tensor copy from or to shared memory that is not aligned to 128 bytes");
    if (!tensor_inside(m, shared))
        mt_cpu_fail(FAULT_ADDRESS, "a tensor copy beyond the end of shared memory");
}

/* cp{.reduce}.async.bulk.tensor. bar: barrier that a load reports to; ctas: CTAs of the cluster that each
 * get the box, 0: the one that owns `shared`. */
MT_BUILTIN __attribute__((noinline)) void mtb_tensor(uint32_t op, uint32_t rank, const void *map,
                                                     const int32_t *at, void *shared, uint64_t *bar,
                                                     uint32_t ctas)
{
    const struct mt_tensor_map *m = map;
    uint32_t all = ctas;
    tensor_check(m, op, rank, (uint64_t)shared);
    uint32_t bytes = (uint32_t)tensor_rows(m) * m->box[0] * mt_tensor_element(m);
    do {
        uint32_t rank_of = (uint32_t)__builtin_ctz(ctas | 1u << 31);
        tensor_copy(m, op, at, all ? mtb_ptx_mapa_u64((uint64_t)shared, rank_of) : (uint64_t)shared);
        if (bar)
            mtb_ptx_mbarrier_complete_tx_b64(all ? (uint64_t *)mtb_ptx_mapa_u64((uint64_t)bar, rank_of) : bar,
                                             bytes);
        ctas &= ctas - 1;
    } while (all && ctas);
}

/* ---- tensormap.replace, tensormap.cp_fenceproxy ---- */

/* Converts PTX's type numbers, which differ from cuda.h only in the last types. */
static MT_INLINE uint8_t tensor_type_of(uint32_t ptx)
{
    static const uint8_t last[] = {MT_TENSOR_F32_FTZ, MT_TENSOR_F64, MT_TENSOR_BF16, MT_TENSOR_TF32,
                                   MT_TENSOR_TF32_FTZ};
    return ptx < 8 ? (uint8_t)ptx : ptx < 13 ? last[ptx - 8] : MT_TENSOR_TYPES;
}

#define FIELD(field, space, bits, params, what)                                                              \
    MT_BUILTIN void mtb_ptx_tensormap_replace_tile_##field##space##_b1024_b##bits params                     \
    {                                                                                                        \
        what;                                                                                                \
    }
#define ONE(field, space, value) FIELD(field, space, 32, (struct mt_tensor_map * m, uint32_t v), m->value)
#define ITEM(field, space, list, n)                                                                          \
    FIELD(field, space, 32, (struct mt_tensor_map * m, uint32_t i, uint32_t v), if (i < (n)) m->list)
#define REPLACE(space)                                                                                       \
    FIELD(global_address, space, 64, (struct mt_tensor_map * m, uint64_t v), m->address = v)                 \
    FIELD(global_stride, space, 64, (struct mt_tensor_map * m, uint32_t i, uint64_t v),                      \
          if (i < 4) m->stride[i] = v)                                                                       \
    ITEM(box_dim, space, box[i] = v > 256 ? 0 : (uint16_t)v, MT_TENSOR_RANK)                                 \
    ITEM(global_dim, space, last[i] = v - 1, MT_TENSOR_RANK)                                                 \
    ITEM(element_stride, space, step[i] = v > 8 ? 0 : (uint8_t)v, MT_TENSOR_RANK)                            \
    ONE(rank, space, rank = v < MT_TENSOR_RANK ? (uint8_t)(v + 1) : 0)                                       \
    ONE(elemtype, space, type = tensor_type_of(v))                                                           \
    ONE(interleave_layout, space, interleave = v != 0)                                                       \
    ONE(swizzle_mode, space, swizzle = v > 255 ? 255 : (uint8_t)v)                                           \
    ONE(swizzle_atomicity, space, swizzle = v ? 255 : m->swizzle)                                            \
    ONE(fill_mode, space, fill = v != 0)
REPLACE()
REPLACE(_global)
REPLACE(_shared__cta)

#define CP_FENCE(scope)                                                                                       \
    MT_BUILTIN void                                                                                           \
        mtb_ptx_tensormap_cp_fenceproxy_global_shared__cta_tensormap__generic_release_##scope##_sync_aligned( \
            void *to, const void *from, uint32_t bytes)                                                       \
    {                                                                                                         \
        __builtin_memmove(to, from, bytes);                                                                   \
    }
CP_FENCE(cta)
CP_FENCE(cluster)
CP_FENCE(gpu)
CP_FENCE(sys)
