#include "cli.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *words_must(void *memory)
{
    if (!memory) {
        mt_hostrun_say("no memory");
        exit(EXIT_ENGINE);
    }
    return memory;
}

static void words_take(struct words *w, char *word)
{
    if (w->count + 2 > w->room) {
        w->room = w->room ? w->room * 2 : 16;
        w->word = words_must(realloc(w->word, w->room * sizeof *w->word));
    }
    w->word[w->count++] = word;
    w->word[w->count] = NULL;
}

void mt_hostrun_words_add(struct words *w, const char *word)
{
    words_take(w, words_must(strdup(word)));
}

void mt_hostrun_words_addf(struct words *w, const char *format, ...)
{
    va_list args;
    char *word;
    va_start(args, format);
    if (vasprintf(&word, format, args) < 0)
        word = NULL;
    va_end(args);
    words_take(w, words_must(word));
}

void mt_hostrun_words_replace(struct words *w, size_t i, const char *word)
{
    free(w->word[i]);
    w->word[i] = words_must(strdup(word));
}

void mt_hostrun_words_free(struct words *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->word[i]);
    free(w->word);
    memset(w, 0, sizeof *w);
}

static int words_plain(const char *word)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=/.,:@%";
    return *word && word[strspn(word, safe)] == 0;
}

void mt_hostrun_words_print(const struct words *w)
{
    for (size_t i = 0; i < w->count; i++) {
        const char *word = w->word[i], *equals = strchr(word, '=');
        if (i)
            putchar(' ');
        if (words_plain(word)) {
            fputs(word, stdout);
            continue;
        }
        if (equals && *word != '-') { /* NAME='value', so that a shell sees an assignment */
            fwrite(word, 1, (size_t)(equals + 1 - word), stdout);
            word = equals + 1;
        }
        putchar('\'');
        for (; *word; word++)
            if (*word == '\'')
                fputs("'\\''", stdout);
            else
                putchar(*word);
        putchar('\'');
    }
}

static void words_line(const char *format, va_list args)
{
    flockfile(stderr);
    fputs("mt-host: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    funlockfile(stderr);
}

void mt_hostrun_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    words_line(format, args);
    va_end(args);
}

int mt_hostrun_refuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    words_line(format, args);
    va_end(args);
    return EXIT_USAGE;
}

int mt_hostrun_usage(const char *mode, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("mt-host: ", stderr);
    vfprintf(stderr, format, args);
    fprintf(stderr, "; mt-host%s%s --help says more\n", mode ? " " : "", mode ? mode : "");
    va_end(args);
    return EXIT_USAGE;
}
