/* Parser of MEMTRACE_CTAS and MEMTRACE_SAMPLE, and number of CTAs of a grid that they select. No state. */
#ifndef MT_COMMON_CTAS_H
#define MT_COMMON_CTAS_H
#include <stddef.h>
#include "format/cta_rule.h"

/* Parses SPEC of MEMTRACE_CTAS: terms joined by `+`; a term is a range of linear numbers, or two or three
 * ranges for x, y and z joined by `,` (no z: any); a range is `A`, `A:B`, `A:`, `:B` or `*`. Returns 0 with
 * terms and term of the rule set, or -1 with *why set to the error and its place, and the rule unchanged. */
int mt_ctas_parse(struct mt_cta_rule *rule, const char *text, char *why, size_t size);
/* Parses MEMTRACE_SAMPLE: `N`, `cta:N`, `launch:N`, or the last two joined by `,`. Missing ones are 1. */
int mt_sample_parse(uint32_t *ctas, uint32_t *launches, const char *text, char *why, size_t size);
/* Returns the number of CTAs of a grid that the rule's terms select and whose linear number is a multiple of
 * `every`. */
uint64_t mt_ctas_count(const struct mt_cta_rule *rule, uint32_t every, const uint32_t grid[3]);
#endif
