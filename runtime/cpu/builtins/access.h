/* One record of the running thread. */
#ifndef MT_BUILTIN_ACCESS_H
#define MT_BUILTIN_ACCESS_H
#include "builtin.h"
#define RECORD_MAX ((1u << 28) - 1) /* bytes one record can say */

/* The pass defines it: 0, but for images of several files that make one program (-fgpu-rdc), where a kernel
 * of one runs functions of another. */
extern uint32_t __mt_site_base;

static MT_INLINE void access_record(uint64_t address, uint32_t meta, uint32_t site, uint64_t place)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    uint64_t *cur = t->cur;
    site += __mt_site_base;
    if (__builtin_expect(cur == t->end, 0))
        cur = mt_cpu_trace_room(address, meta, site, place);
    cur[0] = (((uint64_t)site << 32 | meta) & t->site_mask) | t->smid_hi;
    cur[1] = address;
    cur[2] = t->third | (place & t->place_mask);
    t->cur = cur + 3;
}

/* The same before an access that is made where this returns. */
static MT_INLINE uint64_t access_place(uint64_t address, uint32_t meta, uint32_t site, uint64_t place)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    struct mt_room room = {t->cur, address};
    site += __mt_site_base;
    if (__builtin_expect(room.cur == t->end, 0))
        room = mt_cpu_trace_room_to(address, meta, site, place);
    room.cur[0] = (((uint64_t)site << 32 | meta) & t->site_mask) | t->smid_hi;
    room.cur[1] = address;
    room.cur[2] = t->third | (place & t->place_mask);
    t->cur = room.cur + 3;
    return room.address;
}

/* Of a long block several. */
static MT_INLINE void access_block(uint64_t address, uint64_t bytes, uint32_t type, uint32_t site,
                                   uint64_t place)
{
    while (bytes) {
        uint64_t n = bytes < RECORD_MAX ? bytes : RECORD_MAX;
        access_record(address, (uint32_t)(type << 28 | n), site, place);
        address += n;
        bytes -= n;
    }
}
#endif
