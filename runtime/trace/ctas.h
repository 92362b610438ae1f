/* The texts of MEMTRACE_CTAS and MEMTRACE_SAMPLE, and how many CTAs of a grid they leave. No state. */
#ifndef MT_COMMON_CTAS_H
#define MT_COMMON_CTAS_H
#include <stddef.h>
#include "format/cta_rule.h"

/* SPEC of MEMTRACE_CTAS: terms joined by `+`; a term is a range of linear numbers, or two or three ranges for
 * x, y and z joined by `,` (no z: any); a range is `A`, `A:B`, `A:`, `:B` or `*`. 0; -1: *why says what is
 * wrong and where, and the rule is as it was. Sets terms and term of the rule. */
int mt_ctas_parse(struct mt_cta_rule *rule, const char *text, char *why, size_t size);
/* MEMTRACE_SAMPLE: `N`, `cta:N`, `launch:N`, or the last two joined by `,`. What is not there is 1. */
int mt_sample_parse(uint32_t *ctas, uint32_t *launches, const char *text, char *why, size_t size);
/* CTAs of a grid that the rule's terms choose and whose linear number is a multiple of `every`. */
uint64_t mt_ctas_count(const struct mt_cta_rule *rule, uint32_t every, const uint32_t grid[3]);
#endif
