/* Attributes of functions that count bits or add vectors, compiled for several instruction sets. Not with the
 * thread sanitizer, whose calls cannot be made yet in the resolver. */
#ifndef MT_ANALYSIS_COUNTING_H
#define MT_ANALYSIS_COUNTING_H
#if defined __x86_64__ && !defined __SANITIZE_THREAD__
#define MT_WITH_COUNTING __attribute__((target_clones("avx2", "popcnt", "default")))
#else
#define MT_WITH_COUNTING
#endif
#define MT_ALWAYS_INLINE static inline __attribute__((always_inline))
#endif
