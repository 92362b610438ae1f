/* C files beside C++ and CUDA sources, and a standard for one of them. clang has one -std for all inputs of a
 * command, and refuses C++'s for C and C's for C++. */
#include <string.h>
#include "mt-cc.h"

static int is_cxx_standard(const char *word)
{
    return strncmp(word, "-std=c++", 8) == 0 || strncmp(word, "-std=gnu++", 10) == 0;
}

static int is_c_standard(const char *word)
{
    return strncmp(word, "-std=", 5) == 0 && !is_cxx_standard(word) && strncmp(word, "-std=cuda", 9) != 0;
}

static int languages_holds(const struct words *list, const char *pointer)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->word[i] == pointer) {
            return 1;
        }
    }
    return 0;
}

/* Is there a standard that is for C (cxx 0) or for C++ (cxx 1)? */
static int languages_has_standard(const struct request *r, int cxx)
{
    for (size_t i = 0; i < r->user.count; i++) {
        if (cxx ? is_cxx_standard(r->user.word[i]) : is_c_standard(r->user.word[i])) {
            return 1;
        }
    }
    return 0;
}

int mt_cc_languages_mixed(const struct request *r)
{
    return r->c_files.count > 0 && r->cxx_sources > 0 &&
           (languages_has_standard(r, 0) || languages_has_standard(r, 1));
}

void mt_cc_languages_drop_standard(struct request *r)
{
    size_t kept = 0;
    int c = r->c_files.count > 0;
    if (c == (r->cxx_sources > 0)) {
        return;
    }
    for (size_t i = 0; i < r->user.count; i++) {
        if (c ? is_cxx_standard(r->user.word[i]) : is_c_standard(r->user.word[i])) {
            mt_cc_request_note(r, "%s dropped: the sources are %s", r->user.word[i], c ? "C" : "C++");
        } else {
            r->user.word[kept++] = r->user.word[i];
        }
    }
    r->user.count = kept;
}

struct words mt_cc_languages_c(const struct request *r, size_t file, const char *object)
{
    struct words out = {0};
    mt_words_add(&out, "-Qunused-arguments"); /* what is for linking or for CUDA */
    if (object) {
        mt_words_add(&out, "-c");
        mt_words_add(&out, "-o");
        mt_words_add(&out, object);
    }
    for (size_t i = 0; i < r->user.count; i++) {
        char *word = r->user.word[i];
        if (languages_holds(&r->files, word)) {
            if (object ? word == r->c_files.word[file] : languages_holds(&r->c_files, word)) {
                mt_words_take(&out, word);
            }
        } else if (object && strcmp(word, "-o") == 0) {
            i++;
        } else if (!is_cxx_standard(word) && !(object && strncmp(word, "-o", 2) == 0)) {
            mt_words_take(&out, word);
        }
    }
    return out;
}

/* "-x c -x none": nothing between them any more, and clang would warn. */
static struct words without_idle_languages(const struct words *list)
{
    struct words out = {0};
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->word[i], "-x") == 0 &&
            (i + 2 >= list->count || strcmp(list->word[i + 2], "-x") == 0)) {
            i++;
        } else {
            mt_words_take(&out, list->word[i]);
        }
    }
    return out;
}

struct words mt_cc_languages_one(const struct request *r, const char *source, const char *object)
{
    struct words out = {0};
    int is_c = languages_holds(&r->c_files, source);
    mt_words_add(&out, "-Qunused-arguments");
    mt_words_add(&out, "-c");
    mt_words_add(&out, "-o");
    mt_words_add(&out, object);
    for (size_t i = 0; i < r->user.count; i++) {
        char *word = r->user.word[i];
        if (strcmp(word, "-o") == 0) {
            i++;
        } else if (languages_holds(&r->files, word) ? word == source
                                                    : !(is_c ? is_cxx_standard(word) : is_c_standard(word)) &&
                                                          strncmp(word, "-o", 2) != 0) {
            mt_words_take(&out, word);
        }
    }
    return without_idle_languages(&out);
}

struct words mt_cc_languages_linked(const struct request *r, const struct words *objects)
{
    struct words out = {0};
    size_t next = 0;
    mt_words_add(&out, "-Qunused-arguments");
    for (size_t i = 0; i < r->user.count; i++) {
        char *word = r->user.word[i];
        if (strcmp(word, "-x") == 0) {
            i++;
        } else if (!is_c_standard(word)) {
            mt_words_take(&out, languages_holds(&r->sources, word) ? objects->word[next++] : word);
        }
    }
    return out;
}

struct words mt_cc_languages_rest(const struct request *r, const struct words *objects)
{
    struct words out = {0};
    size_t next = 0;
    for (size_t i = 0; i < r->user.count; i++) {
        char *word = r->user.word[i];
        if (!languages_holds(&r->c_files, word)) {
            if (!is_c_standard(word)) {
                mt_words_take(&out, word);
            }
        } else if (objects) {
            mt_words_add(&out, "-x");
            mt_words_add(&out, "none");
            mt_words_take(&out, objects->word[next++]);
            mt_words_add(&out, "-x");
            mt_words_add(&out, "c");
        }
    }
    return out;
}
