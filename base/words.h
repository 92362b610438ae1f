/* A growing list of words that ends in NULL as argv does. Without memory the command ends: exit code 1, after
 * it has said so. */
#ifndef MT_TOOLS_WORDS_H
#define MT_TOOLS_WORDS_H
#include <stddef.h>

struct words {
    char **word;
    size_t count, room;
};

/* A string on the heap, the caller's. */
char *mt_words_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Adds a copy. */
void mt_words_add(struct words *w, const char *word);
void mt_words_addf(struct words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds the pointer itself, or those of another list. */
void mt_words_take(struct words *w, char *word);
void mt_words_append(struct words *w, const struct words *more);
/* A copy in the place of number i, which is there and is freed. */
void mt_words_replace(struct words *w, size_t i, const char *word);
/* With the words: the list owns them. */
void mt_words_free(struct words *w);
/* On stdout, so that a shell reads back the same words, NAME=value as an assignment. No line's end. */
void mt_words_print(const struct words *w);
#endif
