/* Two texts side by side: of kernels, and of a host program, whose threads are what CTAs are to a kernel. */
#ifndef MT_OUTPUT_WORDS_H
#define MT_OUTPUT_WORDS_H
#include <stddef.h>
#include <stdint.h>

/* 1: the traces are of a host program. Set before anything is written. */
extern int mt_of_threads;
#define MT_EITHER(kernels, threads) (mt_of_threads ? (threads) : (kernels))
/* The word for an access type (a code of record.def): one of a host program that reads and writes, with LOCK
 * or without, is an update. */
const char *mt_words_type(unsigned type);
/* A CTA as "x,y,z", a thread as its number, into out[64]; `order` as mt_cta_order makes it. */
const char *mt_words_cta(char *out, uint64_t order);
/* The name of a column of results, as a head. */
const char *mt_words_head(const char *column);
#endif
