/* Our own words where the trace is of a host program: "thread" for "CTA" (words.def). */
#ifndef MT_OUTPUT_WORDS_H
#define MT_OUTPUT_WORDS_H
#include <stddef.h>
#include <stdint.h>

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
/* The word for an access type (a code of record.def): one of a host program that reads and writes, with LOCK
 * or without, is an update. */
const char *mt_words_type(unsigned type);
/* A CTA as "x,y,z", a thread as its number, into out[64]; `order` as mt_cta_order makes it. */
const char *mt_words_cta(char *out, uint64_t order);
#endif
