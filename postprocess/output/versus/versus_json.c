/* Two runs side by side, as JSON. */
#include "versus.h"
#include <math.h>
#include <stdlib.h>

static void versus_json_side(struct mt_json *j, const struct mt_versus_row *r, int run, enum mt_figure f)
{
    const double value = mt_versus_value(r, run, f);
    if (value >= 0 && f != MT_FIGURE_EFFICIENCY)
        mt_json_u64(j, run ? "b" : "a", mt_versus_number(r, run, f));
    else
        mt_json_real(j, run ? "b" : "a", value >= 0 ? value : NAN);
}

/* The figures that one of the two knows. */
static void versus_json_figures(struct mt_json *j, const struct mt_versus_row *r)
{
    for (int f = 0; f < MT_FIGURES_ALL; f++) {
        double change = NAN;
        if (!mt_versus_has(r, f))
            continue;
        mt_json_object(j, mt_figure_words[f].name, 1);
        versus_json_side(j, r, 0, f);
        versus_json_side(j, r, 1, f);
        mt_versus_change(r, f, &change);
        if (f != MT_FIGURE_EFFICIENCY)
            mt_json_real(j, "change", change);
        mt_json_end(j);
    }
}

static void versus_json_rows(struct mt_json *j, const char *key, struct mt_versus_list list)
{
    mt_json_array(j, key, 0);
    for (const struct mt_versus_row *r = list.row; r < list.row + list.n; r++) {
        mt_json_object(j, NULL, 1);
        mt_json_text(j, "a", r->place[0]);
        mt_json_text(j, "b", r->place[1]);
        versus_json_figures(j, r);
        mt_json_end(j);
    }
    mt_json_end(j);
}

int mt_versus_json(struct mt_json *j, const struct mt_versus *p, const struct mt_versus_words *w)
{
    char *sentence = mt_versus_sentence(p, 0);
    if (!sentence)
        return -1;
    mt_json_object(j, NULL, 0);
    mt_json_text(j, "format", "memtrace-volumes");
    mt_json_u64(j, "version", 1);
    for (int i = 0; i < 2; i++) {
        mt_json_object(j, i ? "b" : "a", 1);
        mt_json_array(j, "inputs", 1);
        for (size_t k = 0; k < w->npaths[i]; k++)
            mt_json_text(j, NULL, w->paths[i][k]);
        mt_json_end(j);
        mt_json_known(j, "complete", w->complete[i]);
        mt_json_u64(j, "untraced", p->untraced[i].accesses);
        mt_json_end(j);
    }
    mt_json_text(j, "verdict", mt_verdict_words[p->verdict]);
    mt_json_text(j, "sentence", sentence);
    mt_json_bool(j, "same_work", !p->other_work);
    mt_json_bool(j, "same_part", !p->unlike);
    mt_json_object(j, "all", 0);
    versus_json_figures(j, p->all);
    mt_json_end(j);
    mt_json_array(j, "kernels", 0);
    for (size_t i = 0; i < p->count; i++) {
        const struct mt_versus_kernel *k = &p->kernels[i];
        mt_json_object(j, NULL, 0);
        mt_json_text(j, "a", k->row->kernel[0]);
        mt_json_text(j, "b", k->row->kernel[1]);
        versus_json_figures(j, k->row);
        versus_json_rows(j, "lines", k->lines);
        versus_json_rows(j, "buffers", k->buffers);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_end(j);
    free(sentence);
    return 0;
}
