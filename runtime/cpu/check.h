/* Checks each recorded access before it happens, for MEMTRACE_CHECK=1 or several devices. Internal to the
 * CPU device; cpu.h has the interface to the API layer. */
#ifndef MT_CPU_CHECK_H
#define MT_CPU_CHECK_H
#include <stdint.h>
#include "format/finding.h"

struct mt_pool_launch;

/* mt_check_on: accesses are checked; mt_check_all: other errors are reported, too (MEMTRACE_CHECK). Set
 * before the first worker starts. */
extern int mt_check_on, mt_check_all;
/* Space of a type, for constants, which records do not have. */
#define MT_CHECK_CONSTANT 12u
/* Checks an access of the running fiber's warp by these lanes at address[lane]. `site` belongs to the
 * image that contains `caller`. Returns the lanes with a bad access, which is reported and must be
 * skipped; under MEMTRACE_CHECK=stop the thread or warp ends. */
uint32_t mt_check_warp(const uint64_t *address, uint32_t lanes, uint32_t meta, uint32_t site,
                       const void *caller);
/* The same for lanes at base + lane * stride. */
uint32_t mt_check_row(uint64_t base, int64_t stride, uint32_t lanes, uint32_t meta, uint32_t site,
                      const void *caller);
/* Ends the running thread or warp, whose access cannot be skipped; the launch fails. */
_Noreturn void mt_check_end(void);
/* Counts a retry of the running thread, which polls for something. */
void mt_check_spins(struct mt_pool_launch *run);
struct mt_cta;
/* Place of an error other than an access: the code's address, and its note in the image (mt_cpu_tls.place).
 */
struct mt_check_place {
    const void *code; /* NULL: not known */
    uint32_t note;    /* from 1, or MT_CHECK_SITE | number of a site; 0: the kernel's line is reported */
};
/* Reports an error other than an access by thread number `thread` of the CTA, with this text. Does nothing
 * without MEMTRACE_CHECK. */
void mt_check_tell(const struct mt_cta *cta, uint32_t thread, enum mt_finding_kind kind,
                   struct mt_check_place place, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Reports such an error of the running thread. */
void mt_check_tell_here(enum mt_finding_kind kind, struct mt_check_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Reports that the running thread has overflowed its stack; the launch fails. */
void mt_check_stack(struct mt_pool_launch *run);
#endif
