/* Word lists: command lines of the programs that mt-cc and memtrace host run. */
#include "words.h"
#include "say.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "memtrace/grow.h"

static char *words_must(char *word)
{
    if (!word) {
        mt_cli_say("no memory");
        exit(1);
    }
    return word;
}

static char *words_vtext(const char *format, va_list args)
{
    char *s;
    return words_must(vasprintf(&s, format, args) < 0 ? NULL : s);
}

char *mt_words_text(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *s = words_vtext(format, args);
    va_end(args);
    return s;
}

void mt_words_take(struct words *w, char *word)
{
    if (mt_grow(&w->word, &w->room, w->count + 2, sizeof *w->word) != 0)
        words_must(NULL);
    w->word[w->count++] = word;
    w->word[w->count] = NULL;
}

void mt_words_add(struct words *w, const char *word)
{
    mt_words_take(w, words_must(strdup(word)));
}

void mt_words_addf(struct words *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    mt_words_take(w, words_vtext(format, args));
    va_end(args);
}

void mt_words_append(struct words *w, const struct words *more)
{
    for (size_t i = 0; i < more->count; i++)
        mt_words_take(w, more->word[i]);
}

void mt_words_replace(struct words *w, size_t i, const char *word)
{
    free(w->word[i]);
    w->word[i] = words_must(strdup(word));
}

void mt_words_free(struct words *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->word[i]);
    free(w->word);
    memset(w, 0, sizeof *w);
}

#define NAME_START "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define NAME NAME_START "0123456789"

static void words_print_one(const char *word)
{
    size_t name = strspn(word, NAME);
    if (*word && word[strspn(word, NAME "-+=/.,:@%")] == 0) {
        fputs(word, stdout);
        return;
    }
    if (strspn(word, NAME_START) &&
        word[name] == '=') { /* quoted 'NAME=value' would not be an assignment to a shell */
        fwrite(word, 1, name + 1, stdout);
        word += name + 1;
    }
    putchar('\'');
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    putchar('\'');
}

void mt_words_print(const struct words *w)
{
    for (size_t i = 0; i < w->count; i++) {
        if (i > 0)
            putchar(' ');
        words_print_one(w->word[i]);
    }
}
