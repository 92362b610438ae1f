/* Regular expressions from users. */
#include "regex.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_OPEN = 200, MOST_REPEATS = 100000 };

/* Returns the greatest of the numbers in "{2,5}", at least 1. */
static unsigned long regex_repeats(const char *text)
{
    unsigned long most = 1;
    for (char *end; *text && *text != '}'; text = end == text ? text + 1 : end) {
        unsigned long n = strtoul(text, &end, 10);
        most = n > most ? n : most;
    }
    return most;
}

static const char *regex_too_much(const char *text)
{
    unsigned open = 0;
    double repeats = 1;
    for (; *text; text++) {
        open += *text == '(';
        open -= *text == ')' && open;
        if (*text == '{')
            repeats *= (double)regex_repeats(text + 1);
        if (open > MOST_OPEN)
            return "more than 200 parentheses are open";
        if (repeats > MOST_REPEATS)
            return "its repeat counts multiply to more than 100,000";
    }
    return NULL;
}

int mt_regex(regex_t *re, const char *text, char *why, size_t size)
{
    const char *limit = regex_too_much(text);
    int bad = limit ? REG_ESPACE : regcomp(re, text, REG_EXTENDED | REG_NOSUB);
    if (limit)
        snprintf(why, size, "%s", limit);
    else if (bad)
        regerror(bad, re, why, size);
    return bad ? -1 : 0;
}
