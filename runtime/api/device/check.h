/* MEMTRACE_CHECK=1 on the CPU device: bad accesses are reported, counted per place and written into
 * companions. The accesses themselves are looked at by runtime/cpu/check.c. */
#ifndef MT_API_CHECK_H
#define MT_API_CHECK_H
#include <stddef.h>
#include <stdint.h>

/* Before the first launch; does nothing unless the option is set, or there are several devices. */
void mt_check_start(void);
/* Words on where p lies, as in the `near` of a check. */
void mt_check_words(const void *p, char *text, size_t size);
struct mt_range;
/* A kernel has allocated memory, or freed this. */
void mt_check_device_heap(const struct mt_range *freed);
#endif
