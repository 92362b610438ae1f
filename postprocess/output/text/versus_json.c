/* Two runs side by side, as JSON. */
#include "versus_out.h"
#include <stdlib.h>

static void versus_json_side(struct mt_json *j, const char *key, const struct mt_side_row *r,
                             enum mt_figure f)
{
    if (r && r->known >> f & 1)
        mt_json_u64(j, key, r->v[f]);
    else
        mt_json_text(j, key, NULL);
}

static void versus_json_real(struct mt_json *j, const char *key, int known, double value)
{
    if (known)
        mt_json_real(j, key, value);
    else
        mt_json_text(j, key, NULL);
}

/* The figures that one of the two knows. */
static void versus_json_figures(struct mt_json *j, const struct mt_versus_row *r)
{
    double change = 0, a = mt_side_efficiency(r->a), b = mt_side_efficiency(r->b);
    unsigned known = (r->a ? r->a->known : 0) | (r->b ? r->b->known : 0);
    for (int f = 0; f < MT_FIGURES; f++) {
        if (!(known >> f & 1))
            continue;
        mt_json_object(j, mt_figure_words[f].name, 1);
        versus_json_side(j, "a", r->a, (enum mt_figure)f);
        versus_json_side(j, "b", r->b, (enum mt_figure)f);
        int has = mt_versus_change(r, (enum mt_figure)f, &change);
        versus_json_real(j, "change", has, change);
        mt_json_end(j);
    }
    mt_json_object(j, "efficiency", 1);
    versus_json_real(j, "a", a >= 0, a);
    versus_json_real(j, "b", b >= 0, b);
    mt_json_end(j);
}

static void versus_json_rows(struct mt_json *j, const char *key, const struct mt_versus_kernel *k,
                             enum mt_side_by by)
{
    mt_json_array(j, key, 0);
    for (size_t i = 0; i < k->count[by]; i++) {
        const struct mt_versus_row *r = &k->part[by][i];
        mt_json_object(j, NULL, 1);
        mt_json_text(j, "a", r->a ? r->a->place : NULL);
        mt_json_text(j, "b", r->b ? r->b->place : NULL);
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
    versus_json_figures(j, &p->all);
    mt_json_end(j);
    mt_json_array(j, "kernels", 0);
    for (size_t i = 0; i < p->count; i++) {
        const struct mt_versus_kernel *k = &p->kernels[i];
        mt_json_object(j, NULL, 0);
        mt_json_text(j, "a", k->row.a ? k->row.a->kernel : NULL);
        mt_json_text(j, "b", k->row.b ? k->row.b->kernel : NULL);
        versus_json_figures(j, &k->row);
        versus_json_rows(j, "lines", k, MT_SIDE_LINES);
        versus_json_rows(j, "buffers", k, MT_SIDE_BUFFERS);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_end(j);
    free(sentence);
    return 0;
}
