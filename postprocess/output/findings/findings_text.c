/* Findings for a terminal. */
#include "findings_out.h"
#include "output/text/finding_words.h"
#include "output/text/numbers.h"
#include "base/text.h"
#include <stdlib.h>

enum { MOST_LINES = 1000 }; /* more than anyone reads */

static void text_colour(FILE *f, int colours, const char *code)
{
    if (colours)
        fprintf(f, "\033[%sm", code);
}

static int text_line(FILE *f, const struct mt_finding *x, int colours)
{
    static const char *const codes[] = {"1;31", "1;35", "1;36"};
    const struct mt_finding_rule *rule = &mt_finding_rules[x->kind];
    char *place = mt_finding_place(&x->here), *sentence = mt_finding_sentence(x);
    if (place && sentence) {
        text_colour(f, colours, "1");
        mt_text_put(f, place);
        fputs(": ", f);
        text_colour(f, colours, codes[rule->level]);
        fprintf(f, "%s%s: ", rule->level == MT_FINDING_HINT ? "hint: " : "", rule->word);
        text_colour(f, colours, "0");
        mt_text_put(f, sentence);
        fputc('\n', f);
    }
    int rc = place && sentence ? 0 : -1;
    free(place);
    free(sentence);
    return rc;
}

int mt_findings_write_text(FILE *f, const struct mt_findings *x, int hints, int colours)
{
    size_t said = 0;
    int rc = 0;
    for (size_t i = 0; i < x->count && rc == 0; i++) {
        if (!hints && mt_finding_rules[x->list[i].kind].level == MT_FINDING_HINT)
            continue;
        if (said++ < MOST_LINES)
            rc = text_line(f, &x->list[i], colours);
    }
    if (said > MOST_LINES)
        fprintf(f, "%s not shown here: --format=json has all\n",
                mt_number_many(said - MOST_LINES, "more finding is", "more findings are").text);
    return rc;
}
