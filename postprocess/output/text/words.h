/* Our own words where the trace is of a host program: "thread" for "CTA" (words.def). */
#ifndef MT_OUTPUT_WORDS_H
#define MT_OUTPUT_WORDS_H
#include <stddef.h>

struct mt_phrase {
    const char *kernels, *threads;
};
extern const struct mt_phrase mt_phrases[];
extern const size_t mt_phrase_count;

/* From now on the words are those of host programs. Once, before anything is written. */
void mt_words_of_threads(void);
/* A literal of ours in the words that are in force. Lives as long as the process; the text itself where
 * nothing changes or there is no memory. */
__attribute__((format_arg(1))) const char *mt_words(const char *text);
#endif
