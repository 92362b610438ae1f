/* Bank conflicts and hazards of shared memory, a sentence each. */
#define _GNU_SOURCE
#include "summary.h"
#include "analysis/base/sites.h"
#include "output/rows/sorted.h"
#include "numbers.h"
#include "table.h"
#include "memtrace/record.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "kernel.cu:12", "kernel+0x120", or "?" */
static struct mt_number onchip_site(const struct mt_site_event *site)
{
    struct mt_number w;
    char room[1024];
    const char *words = mt_site_words(site, room, sizeof room);
    snprintf(w.text, sizeof w.text, "%.60s", words ? mt_location_short(words) : "?");
    return w;
}

int mt_banks_sentence(const struct mt_onchip_rows *x, char **sentence, int *look)
{
    const struct mt_bank_cell *top = NULL;
    const struct mt_site_event *site = NULL;
    uint64_t lost = 0, all = 0;
    for (size_t i = 0; i < x->nplaces; i++) {
        const struct mt_bank_cell *c = &x->places[i].sum;
        if (mt_rec_space(c->type) != MT_IN_SHARED)
            continue;
        lost += c->wavefronts - c->least;
        all += c->wavefronts;
        if (!top || c->wavefronts - c->least > top->wavefronts - top->least) {
            top = c;
            site = x->places[i].site;
        }
    }
    *sentence = NULL;
    *look = (double)lost > 0.1 * (double)all;
    if (!lost)
        return 0;
    if (asprintf(sentence,
                 "%s of the wavefronts of shared memory are bank conflicts, most of them of the %s at %s "
                 "(%" PRIu32 "-way).",
                 mt_number_percent(lost, all).text, mt_access_types[top->type & 3], onchip_site(site).text,
                 top->worst) < 0)
        *sentence = NULL;
    return *sentence ? 0 : -1;
}

int mt_hazards_sentence(const struct mt_onchip_rows *x, char **sentence, int *look)
{
    *sentence = NULL;
    *look = 1;
    if (!x->nhazards)
        return 0;
    const struct mt_onchip_hazard *top = x->hazards;
    for (size_t i = 0; i < x->nhazards; i++)
        top = x->hazards[i].h.count > top->h.count ? &x->hazards[i] : top;
    char *kernel = mt_kernel_short(top->h.kernel);
    if (asprintf(sentence,
                 "%s in shared memory (no barrier orders two threads of a CTA), the largest in %s: %s %s "
                 "before %s %s on %s.",
                 mt_number_many(x->nhazards, "hazard", "hazards").text, kernel ? kernel : "?",
                 mt_access_types[top->h.type[0] & 3], onchip_site(top->side[0]).text,
                 mt_access_types[top->h.type[1] & 3], onchip_site(top->side[1]).text,
                 mt_number_many(top->h.count, "word", "words").text) < 0)
        *sentence = NULL;
    free(kernel);
    return *sentence ? 0 : -1;
}
