/* -M and -MM of CUDA sources. clang prints a rule for each side and knows no -o then; nvcc prints one rule,
 * with one file on each line, and programs that read it (CMake's FindCUDA) rely on that. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "mt-cc.h"

/* Targets and files as they are in the make file, with its escapes. */
struct rules {
    struct words target;
    struct words *files; /* of each target */
};

/* The next word at *p; NULL at the end. A backslash keeps the character after it; before the end of a line
 * it is a blank. */
static char *depends_next(const char **p)
{
    for (;; ++*p) {
        if (**p == '\\' && (*p)[1] == '\n') {
            ++*p;
        } else if (!isspace((unsigned char)**p)) {
            break;
        }
    }
    const char *start = *p;
    while (**p && !isspace((unsigned char)**p) && !(**p == '\\' && (*p)[1] == '\n')) {
        *p += **p == '\\' && (*p)[1] ? 2 : 1;
    }
    return *p > start ? mt_words_text("%.*s", (int)(*p - start), start) : NULL;
}

static size_t depends_find(const struct words *w, const char *word)
{
    size_t i = 0;
    while (i < w->count && strcmp(w->word[i], word) != 0) {
        i++;
    }
    return i;
}

static size_t depends_add_target(struct rules *rules, const char *name)
{
    size_t at = depends_find(&rules->target, name);
    if (at == rules->target.count) {
        struct words *grown = realloc(rules->files, (at + 1) * sizeof *grown);
        if (!grown) {
            mt_cli_say("out of memory");
            exit(1);
        }
        rules->files = grown;
        memset(&rules->files[at], 0, sizeof rules->files[at]);
        mt_words_add(&rules->target, name);
    }
    return at;
}

static void depends_read(struct rules *rules, const char *contents)
{
    size_t at = 0;
    char *word;
    for (const char *p = contents; (word = depends_next(&p)); free(word)) {
        size_t n = strlen(word);
        if (word[n - 1] == ':') {
            word[n - 1] = 0;
            at = depends_add_target(rules, word);
        } else if (at < rules->target.count &&
                   depends_find(&rules->files[at], word) == rules->files[at].count) {
            mt_words_add(&rules->files[at], word);
        }
    }
}

static int depends_write(const struct rules *rules, const char *path)
{
    FILE *f = path ? fopen(path, "we") : stdout;
    for (size_t t = 0; f && t < rules->target.count; t++) {
        fprintf(f, "%s :", rules->target.word[t]);
        for (size_t i = 0; i < rules->files[t].count; i++) {
            fprintf(f, "%s%s", i == 0 ? " " : " \\\n    ", rules->files[t].word[i]);
        }
        fputc('\n', f);
    }
    if (!f || ferror(f) || (path ? fclose(f) : fflush(f)) != 0) {
        return mt_cli_fail("%s: %s", path ? path : "standard output", strerror(errno));
    }
    return 0;
}

/* The words without -o and -MF; *path gets the file, or NULL. */
static struct words depends_words(const struct request *r, const char **path)
{
    struct words out = {0};
    *path = NULL;
    for (size_t i = 0; i < r->user.count; i++) {
        const char *word = r->user.word[i];
        size_t n = strncmp(word, "-MF", 3) == 0 ? 3 : strncmp(word, "-o", 2) == 0 ? 2 : 0;
        if (n == 0) {
            mt_words_take(&out, r->user.word[i]);
        } else if (word[n]) {
            *path = word + n;
        } else if (i + 1 < r->user.count) {
            *path = r->user.word[++i];
        }
    }
    return out;
}

int mt_cc_run_depends(const struct request *r)
{
    const char *path;
    struct words words = depends_words(r, &path);
    struct words line = mt_cc_complete(r, &words, 0);
    struct rules rules = {0};
    char *contents = NULL;
    size_t room = 0;
    FILE *f = tmpfile();
    if (!f) {
        return mt_cli_fail("no temporary file: %s", strerror(errno));
    }
    int code = mt_cc_run_line(r, &line, r->show ? -1 : fileno(f));
    rewind(f);
    if (code == 0 && !r->show && getdelim(&contents, &room, 0, f) >= 0) {
        depends_read(&rules, contents);
    }
    if (code == 0 && !r->show) {
        code = depends_write(&rules, path);
    }
    free(contents);
    fclose(f);
    return code;
}
