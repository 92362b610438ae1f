/* The record calls of shared and local memory and of barriers (option spaces of the pass). Compact traces
 * alone have them. */
#include "access_spaces.h"

MT_BUILTIN void __mt_access_shared_at(void *p, uint32_t meta, uint32_t site, uint64_t place)
{
    if (spaces_wanted())
        access_record(spaces_shared((uint64_t)p), meta, site, place);
}

MT_BUILTIN void __mt_access_shared_n_at(void *p, uint64_t bytes, uint32_t type, uint32_t site, uint64_t place)
{
    if (spaces_wanted())
        access_block(spaces_shared((uint64_t)p), bytes, type, site, place);
}

/* Local memory, barriers: the address is a number that the pass has made. */
MT_BUILTIN void __mt_access_number_at(void *p, uint32_t meta, uint32_t site, uint64_t place)
{
    if (spaces_wanted())
        access_record((uint64_t)p, meta, site, place);
}

MT_BUILTIN void __mt_access_number_n_at(void *p, uint64_t bytes, uint32_t type, uint32_t site, uint64_t place)
{
    if (spaces_wanted())
        access_block((uint64_t)p, bytes, type, site, place);
}

MT_BUILTIN void __mt_access_any_at(void *p, uint32_t meta, uint32_t site, uint64_t place)
{
    uint64_t a = (uint64_t)p;
    uint32_t type = meta >> 28;
    if (spaces_of(&a, &type))
        access_record(a, type << 28 | (meta & RECORD_MAX), site, place);
}

MT_BUILTIN void *__mt_access_any_to(void *p, uint32_t meta, uint32_t site, uint64_t place)
{
    if (mt_is_global((uint64_t)p))
        return (void *)access_place((uint64_t)p, (meta >> 28 & 3) << 28 | (meta & RECORD_MAX), site, place);
    __mt_access_any_at(p, meta, site, place);
    return p;
}

MT_BUILTIN void __mt_access_any_n_at(void *p, uint64_t bytes, uint32_t type, uint32_t site, uint64_t place)
{
    uint64_t a = (uint64_t)p;
    if (spaces_of(&a, &type))
        access_block(a, bytes, type, site, place);
}

MT_BUILTIN void __mt_access_mbarrier_at(void *p, uint32_t meta, uint32_t site, uint64_t place)
{
    if (spaces_wanted())
        access_record(spaces_object((uint64_t)p), meta, site, place);
}

MT_BUILTIN void __mt_access_mbarrier_n_at(void *p, uint64_t bytes, uint32_t type, uint32_t site,
                                          uint64_t place)
{
    if (spaces_wanted())
        access_block(spaces_object((uint64_t)p), bytes, type, site, place);
}

MT_BUILTIN void __mt_access_phase_at(void *p, uint32_t meta, uint32_t site, uint64_t place)
{
    if (spaces_wanted())
        access_record(spaces_phase((uint64_t)p, meta >> 28), meta, site, place);
}

MT_BUILTIN void __mt_access_phase_n_at(void *p, uint64_t bytes, uint32_t type, uint32_t site, uint64_t place)
{
    if (spaces_wanted() && bytes)
        access_block(spaces_phase((uint64_t)p, type), bytes, type, site, place);
}
