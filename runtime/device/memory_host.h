/* Memory operations of warp.h for functions that run on the host, in tests. All host threads form one scope.
 */
#ifndef MT_DEVICE_MEMORY_HOST_H
#define MT_DEVICE_MEMORY_HOST_H
#include <stdint.h>

static inline uint64_t mt_atomic_add(uint64_t *p, uint64_t v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
static inline uint64_t mt_atomic_add_last(uint64_t *p, uint64_t v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_RELEASE);
}
static inline void mt_fence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void mt_fence_near(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline int mt_replace(uint64_t *p, uint64_t old, uint64_t v)
{
    return __atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
#define mt_replace_ordered mt_replace
static inline void mt_atomic_max(uint64_t *p, uint64_t v)
{
    uint64_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (old < v && !__atomic_compare_exchange_n(p, &old, v, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}
static inline void mt_count(uint64_t *p, uint64_t v)
{
    __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
static inline uint64_t mt_load(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
static inline uint64_t mt_load_acquire_system(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
static inline void mt_load_pair(const uint64_t *p, uint64_t *a, uint64_t *b)
{
    *a = p[0];
    *b = p[1];
}
static inline void mt_store(uint64_t *p, uint64_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
#endif
