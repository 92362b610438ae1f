/* mt-compare --volumes: what two runs moved, side by side. */
#include "volumes.h"
#include "cli/base/side_run.h"
#include "output/text/versus_out.h"

/* What is asked of both, with one of the two paths. */
static int volumes_prepare(struct mt_pipeline *p, const struct mt_volumes *v, size_t i)
{
    int code = 0;
    mt_pipeline_init(p);
    mt_locality_run_section(&p->more, "more", 4);
    p->inputs.paths = &v->inputs->paths[i];
    p->inputs.npaths = 1;
    p->inputs.flags = v->inputs->flags;
    if (i < v->inputs->ncompanions)
        code = mt_inputs_companion(&p->inputs, v->inputs->companions[i]);
    if (code == 0 && v->filter->kernels_text)
        code = mt_filter_kernels(&p->filter, v->filter->kernels_text);
    if (code == 0 && v->filter->supersteps_text)
        code = mt_filter_supersteps(&p->filter, v->filter->supersteps_text);
    return code;
}

static int volumes_write(const struct mt_volumes *v, const struct mt_two_runs *t)
{
    static struct mt_json json; /* holds the output buffer */
    struct mt_versus_words w = {
        {v->inputs->paths, v->inputs->paths + 1}, {1, 1}, {t->complete[0], t->complete[1]}};
    int code = mt_output_ready(v->out);
    FILE *f = code || v->json ? NULL : mt_output_stream(v->out);
    if (code || (!v->json && !f))
        return code ? code : MT_EXIT_FAILURE;
    if (f) {
        int bad = mt_versus_text(f, &t->versus, &w);
        code = mt_output_close(v->out, f);
        return bad ? mt_cli_fail("no memory for the comparison") : code;
    }
    mt_json_open(&json, v->out->fd);
    int bad = mt_versus_json(&json, &t->versus, &w);
    code = mt_output_json(v->out, &json);
    return code ? code : bad ? mt_cli_fail("no memory for the comparison") : 0;
}

int mt_volumes_run(const struct mt_volumes *v)
{
    static struct mt_pipeline p[2];
    static struct mt_two_runs t = {.p = {&p[0], &p[1]}};
    int code = volumes_prepare(&p[0], v, 0), other = volumes_prepare(&p[1], v, 1);
    code = code ? code : other;
    if (code == 0)
        code = mt_two_runs_read(&t);
    if (t.versus.all.b && (code == 0 || code == MT_EXIT_INPUT)) {
        int written = volumes_write(v, &t);
        code = written ? written : code;
    }
    mt_two_runs_free(&t);
    mt_pipeline_free(&p[0]);
    mt_pipeline_free(&p[1]);
    return code;
}
