/* Suggests words for misspelt ones, and lists options and values for shells. Used by all programs. */
#include "near.h"
#include "say.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 32, WRONG = 2 };

static size_t near_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int near_same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Returns the edit distance of `a` and `b`; swapped neighbours count as one edit. */
static size_t near_distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][LONGEST + 1];
    for (size_t k = 0; k <= m; k++)
        rows[0][k] = k;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t k = 1; k <= m; k++) {
            now[k] = near_least(near_least(before[k], now[k - 1]) + 1,
                                before[k - 1] + !near_same(a[i - 1], b[k - 1]));
            if (i > 1 && k > 1 && near_same(a[i - 1], b[k - 2]) && near_same(a[i - 2], b[k - 1]))
                now[k] = near_least(now[k], earlier[k - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

struct near_search {
    const char *text, *best;
    size_t n, distance;
    int several;
};

static void near_try(struct near_search *s, const char *word)
{
    size_t m = strlen(word);
    if (s->n == 0 || s->n > LONGEST || m > LONGEST || m == 0)
        return;
    size_t d = near_distance(s->text, s->n, word, m);
    if (d > WRONG || 3 * d > (s->n > m ? s->n : m) || d > s->distance)
        return;
    s->several = d == s->distance && strcmp(word, s->best) != 0;
    s->best = word;
    s->distance = d;
}

static char no_word[] = "?";
static int near_listing; /* 1: completion, so the values are printed */

const char *mt_near_word(const char *text, size_t n, const char *const *list)
{
    for (; near_listing && *list; list++)
        if (**list)
            puts(*list);
    struct near_search s = {.text = text, .n = n, .distance = WRONG + 1};
    for (; *list; list++)
        near_try(&s, *list);
    return s.several ? NULL : s.best;
}

const char *mt_near_option(const char *argument, const struct option *list)
{
    if (strncmp(argument, "--", 2) != 0)
        return NULL;
    struct near_search s = {.text = argument + 2, .n = strcspn(argument + 2, "="), .distance = WRONG + 1};
    const char *begun = NULL;
    for (; list->name; list++) {
        if (strncmp(list->name, s.text, s.n) != 0) {
            near_try(&s, list->name);
            continue;
        }
        if (!list->name[s.n] || begun) /* it is correct, or an abbreviation of several */
            return NULL;
        begun = list->name;
    }
    return begun ? begun : s.several ? NULL : s.best;
}

int mt_near_completion(int argc, char **argv, const char *letters, const struct option *list)
{
    if (argc != 2 || strcmp(argv[1], "--completion-options") != 0)
        return 0;
    for (; list->name; list++)
        printf("--%s%s\n", list->name, list->has_arg == required_argument ? "=" : "");
    for (; *letters; letters++)
        if (isalnum((unsigned char)*letters))
            printf("-%c\n", *letters);
    return 1;
}

int mt_near_values(int argc, char **argv, const char *letters, const struct option *list)
{
    if (argc != 3 || strcmp(argv[1], "--completion-values") != 0)
        return 0;
    const char *word = argv[2];
    const char *letter = word[0] == '-' && word[1] && !word[2] ? strchr(letters, word[1]) : NULL;
    int option = letter && isalnum((unsigned char)*letter) && letter[1] == ':' ? *letter : -1;
    for (; strncmp(word, "--", 2) == 0 && list->name; list++)
        if (list->has_arg == required_argument && strcmp(word + 2, list->name) == 0)
            option = list->val;
    near_listing = 1;
    optarg = no_word;
    return option == 'o' ? -1 : option; /* no file is created for completion */
}

int mt_near_told(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    fprintf(stderr, "%s: standard output: cannot write: %s\n", mt_cli_name, strerror(errno));
    return 1;
}
