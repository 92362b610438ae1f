/* Lists of words. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mt-cc.h"

static void no_memory(void)
{
    fputs("mt-cc: out of memory\n", stderr);
    exit(1);
}

static char *words_vtext(const char *format, va_list args)
{
    char *s = NULL;
    if (vasprintf(&s, format, args) < 0) {
        no_memory();
    }
    return s;
}

char *mt_cc_text(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *s = words_vtext(format, args);
    va_end(args);
    return s;
}

static void words_push(struct words *w, char *word)
{
    if (w->count + 1 >= w->room) {
        w->room = w->room ? 2 * w->room : 32;
        char **grown = realloc(w->word, w->room * sizeof *w->word);
        if (!grown) {
            no_memory();
        }
        w->word = grown;
    }
    w->word[w->count++] = word;
    w->word[w->count] = NULL;
}

void mt_cc_words_add(struct words *w, const char *word)
{
    words_push(w, mt_cc_text("%s", word));
}

void mt_cc_words_addf(struct words *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    words_push(w, words_vtext(format, args));
    va_end(args);
}

void mt_cc_words_append(struct words *w, const struct words *more)
{
    for (size_t i = 0; i < more->count; i++) {
        words_push(w, more->word[i]);
    }
}

void mt_cc_words_take(struct words *w, char *word)
{
    words_push(w, word);
}

static void print_quoted(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%^";
    if (*word && word[strspn(word, plain)] == 0) {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word; word++) {
        if (*word == '\'') {
            fputs("'\\''", stdout);
        } else {
            putchar(*word);
        }
    }
    putchar('\'');
}

void mt_cc_words_print(const struct words *w)
{
    for (size_t i = 0; i < w->count; i++) {
        if (i > 0) {
            putchar(' ');
        }
        print_quoted(w->word[i]);
    }
    putchar('\n');
}
