/* The record calls that the pass puts before each access; `place`: see lower/places.c of the pass. */
#include "access.h"

MT_INLINED void __mt_access_global_at(void *p, uint32_t meta, uint32_t site, uint64_t place)
{
    access_record((uint64_t)p, meta, site, place);
}

MT_INLINED void __mt_access_generic_at(void *p, uint32_t meta, uint32_t site, uint64_t place)
{
    if (mt_is_global((uint64_t)p))
        access_record((uint64_t)p, meta, site, place);
}

MT_INLINED void *__mt_access_global_to(void *p, uint32_t meta, uint32_t site, uint64_t place)
{
    return (void *)access_place((uint64_t)p, meta, site, place);
}

MT_INLINED void *__mt_access_generic_to(void *p, uint32_t meta, uint32_t site, uint64_t place)
{
    return mt_is_global((uint64_t)p) ? (void *)access_place((uint64_t)p, meta, site, place) : p;
}

MT_BUILTIN void __mt_access_global_n_at(void *p, uint64_t bytes, uint32_t type, uint32_t site, uint64_t place)
{
    access_block((uint64_t)p, bytes, type, site, place);
}

MT_BUILTIN void __mt_access_generic_n_at(void *p, uint64_t bytes, uint32_t type, uint32_t site,
                                         uint64_t place)
{
    if (mt_is_global((uint64_t)p))
        __mt_access_global_n_at(p, bytes, type, site, place);
}

/* Calls of functions that record (lower/places.c): the caller sets where the callee is. */
MT_INLINED void __mt_place_set(uint64_t place)
{
    mt_cpu_tls.place = place;
}

MT_INLINED uint64_t __mt_place_get(void)
{
    return mt_cpu_tls.place;
}

/* The second count (llvm-pass/lower/count.c). */
MT_INLINED void __mt_count(void *p, uint64_t accesses, uint64_t bytes, uint32_t kind)
{
    if (accesses && mt_is_global((uint64_t)p)) {
        mt_cpu_tls.counts[2 * kind] += accesses;
        mt_cpu_tls.counts[2 * kind + 1] += bytes;
    }
}

/* Texture reads and the like: counted per launch. */
MT_INLINED void __mt_untraced(uint32_t note)
{
    mt_cpu_tls.untraced++;
}
