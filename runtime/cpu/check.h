/* MEMTRACE_CHECK=1, or several devices: each recorded access is looked at before it happens. Internal to the
 * CPU device; the interface to the API layer is in cpu.h. */
#ifndef MT_CPU_CHECK_H
#define MT_CPU_CHECK_H
#include <stdint.h>
#include "format/finding.h"

struct mt_pool_launch;

/* Accesses are looked at; and all else that is wrong is told, too (MEMTRACE_CHECK). Set before the first
 * worker starts. */
extern int mt_check_on, mt_check_all;
/* Before an access of the running fiber's warp, by these lanes, at address[lane], at `site` of the image that
 * the code at `caller` is in. Returns the lanes whose access is bad: it is reported, and is to be skipped;
 * under MEMTRACE_CHECK=stop the thread, or warp, ends. */
uint32_t mt_check_warp(const uint64_t *address, uint32_t lanes, uint32_t meta, uint32_t site,
                       const void *caller);
/* The access cannot be skipped: the thread, or warp, that runs ends, and the launch fails. */
_Noreturn void mt_check_end(void);
/* The running thread waits for something by trying again and again. */
void mt_check_spins(struct mt_pool_launch *run);
struct mt_cta;
/* Something else that must not be, by this thread of the CTA (its number), at this place of the code, and
 * words. Nothing without MEMTRACE_CHECK. */
void mt_check_tell(const struct mt_cta *cta, uint32_t thread, enum mt_finding_kind kind, const void *place,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));
/* The same of the thread that runs. */
void mt_check_tell_here(enum mt_finding_kind kind, const void *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The running thread has used up its stack, and the launch fails. */
void mt_check_stack(struct mt_pool_launch *run);
/* The launch has ended: tells the API layer if it had bad accesses. Returns the launch's status. */
int mt_check_result(struct mt_pool_launch *run);
#endif
