/* A growing list of words, NULL-terminated as argv is. Without memory the command reports it and exits with
 * code 1. */
#ifndef MT_TOOLS_WORDS_H
#define MT_TOOLS_WORDS_H
#include <stddef.h>

struct words {
    char **word;
    size_t count, room;
};

/* Returns a formatted string on the heap, owned by the caller. */
char *mt_words_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Adds a copy. */
void mt_words_add(struct words *w, const char *word);
void mt_words_addf(struct words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Add the pointer itself, or all pointers of another list. */
void mt_words_take(struct words *w, char *word);
void mt_words_append(struct words *w, const struct words *more);
/* Replaces word i, which must exist, by a copy and frees the old one. */
void mt_words_replace(struct words *w, size_t i, const char *word);
/* Frees the list and its words. */
void mt_words_free(struct words *w);
/* Prints the words on stdout without a newline, so that a shell reads back the same words, NAME=value as an
 * assignment. */
void mt_words_print(const struct words *w);
#endif
