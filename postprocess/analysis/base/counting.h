/* Functions that count bits, or add in rows: nearly every processor has instructions for that. The thread
 * sanitizer's calls would be in the resolver, too, where they cannot be made yet. */
#ifndef MT_ANALYSIS_COUNTING_H
#define MT_ANALYSIS_COUNTING_H
#if defined __x86_64__ && !defined __SANITIZE_THREAD__
#define MT_WITH_COUNTING __attribute__((target_clones("avx2", "popcnt", "default")))
#else
#define MT_WITH_COUNTING
#endif
#define MT_ALWAYS_INLINE static inline __attribute__((always_inline))
#endif
