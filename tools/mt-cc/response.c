/* Files of options: nvcc's --options-file and clang's @FILE. Their words take the place of the argument. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mt-cc.h"

#define DEEPEST 16 /* files that name files */

/* The next word at *p, without its quotes; NULL at the end. A backslash keeps the character after it,
 * but not in single quotes. */
static char *response_next(const char **p)
{
    while (isspace((unsigned char)**p)) {
        ++*p;
    }
    if (!**p) {
        return NULL;
    }
    char *word = mt_words_text("%s", *p), *out = word, quote = 0;
    for (; **p && (quote || !isspace((unsigned char)**p)); ++*p) {
        if (quote ? **p == quote : **p == '"' || **p == '\'') {
            quote = quote ? 0 : **p;
        } else {
            if (**p == '\\' && quote != '\'' && (*p)[1]) {
                ++*p;
            }
            *out++ = **p;
        }
    }
    *out = 0;
    return word;
}

/* The file's contents as a string on the heap, or NULL with errno. */
static char *response_read(const char *path)
{
    FILE *f = fopen(path, "re");
    char *contents = NULL;
    size_t room = 0;
    if (!f) {
        return NULL;
    }
    if (getdelim(&contents, &room, 0, f) < 0) {
        free(contents);
        contents = feof(f) ? mt_words_text("%s", "") : NULL;
    }
    fclose(f);
    return contents;
}

static int response_add(struct words *out, int argc, char **argv, int depth);

/* optional: without such a file the argument stays as it is, as with clang. */
static int response_add_file(struct words *out, const char *path, int optional, int depth)
{
    struct words inside = {0};
    char *contents = response_read(path), *word;
    if (!contents && optional) {
        mt_words_addf(out, "@%s", path);
        return 0;
    }
    if (!contents || depth == DEEPEST) {
        mt_cli_say("options file %s: %s", path,
                   contents ? "too many files that name files" : strerror(errno));
        return -1;
    }
    for (const char *p = contents; (word = response_next(&p));) {
        mt_words_take(&inside, word);
    }
    return response_add(out, (int)inside.count, inside.word, depth + 1);
}

/* A list of files, joined by commas. */
static int response_add_files(struct words *out, const char *list, int depth)
{
    char *copy = mt_words_text("%s", list), *save = NULL;
    for (char *path = strtok_r(copy, ",", &save); path; path = strtok_r(NULL, ",", &save)) {
        if (response_add_file(out, path, 0, depth) != 0) {
            return -1;
        }
    }
    return 0;
}

static int response_add(struct words *out, int argc, char **argv, int depth)
{
    for (int i = 0; i < argc; i++) {
        int used = 0;
        char *list = mt_cc_option_value(argc, argv, i, "-optf", &used);
        if (!used) {
            list = mt_cc_option_value(argc, argv, i, "-options-file", &used);
        }
        if (used && !list) {
            mt_cli_say("%s needs a value", argv[i]);
            return -1;
        }
        if (used ? response_add_files(out, list, depth) != 0
                 : argv[i][0] == '@' && argv[i][1] && response_add_file(out, argv[i] + 1, 1, depth) != 0) {
            return -1;
        }
        if (used) {
            i += used - 1;
        } else if (argv[i][0] != '@' || !argv[i][1]) {
            mt_words_take(out, argv[i]);
        }
    }
    return 0;
}

int mt_cc_response_expand(struct words *out, int argc, char **argv)
{
    return response_add(out, argc, argv, 0);
}
