#define _GNU_SOURCE
#include "words.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"
#include "output/rows/names.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct mt_phrase mt_phrases[] = {
#define MT_PHRASE(kernels, threads) {kernels, threads},
#include "words.def"
#undef MT_PHRASE
};
const size_t mt_phrase_count = sizeof mt_phrases / sizeof *mt_phrases;

static int of_threads;
static struct said {
    char *text, *words;
} *said; /* what was asked for before */
static size_t nsaid, said_room;

void mt_words_of_threads(void)
{
    of_threads = 1;
}

/* The phrase that the text begins with; NULL: none. */
static const struct mt_phrase *words_phrase(const char *text)
{
    for (size_t i = 0; i < mt_phrase_count; i++)
        if (strncmp(text, mt_phrases[i].kernels, strlen(mt_phrases[i].kernels)) == 0)
            return &mt_phrases[i];
    return NULL;
}

static char *words_make(const char *text)
{
    char *out = NULL;
    size_t n;
    FILE *f = open_memstream(&out, &n);
    while (f && *text) {
        const struct mt_phrase *p = words_phrase(text);
        if (p)
            fputs(p->threads, f);
        else
            fputc(*text, f);
        text += p ? strlen(p->kernels) : 1;
    }
    if (f && fclose(f) != 0) {
        free(out);
        out = NULL;
    }
    return out;
}

const char *mt_words(const char *text)
{
    if (!of_threads)
        return text;
    for (size_t i = 0; i < nsaid; i++)
        if (strcmp(said[i].text, text) == 0)
            return said[i].words;
    char *words = words_make(text), *copy = strdup(text);
    if (!words || !copy || mt_grow(&said, &said_room, nsaid + 1, sizeof *said) != 0) {
        free(words);
        free(copy);
        return text;
    }
    said[nsaid++] = (struct said){copy, words};
    return words;
}

const char *mt_words_type(unsigned type)
{
    return of_threads && type == MT_ATOMIC ? "update" : mt_access_types[type];
}

const char *mt_words_cta(char *out, uint64_t order)
{
    return of_threads ? mt_key_u64(out, order & 0xffffffff) : mt_cta_key(out, order);
}
