/* mt-report A -- B: the page of two runs. */
#include "report_versus.h"
#include "cli/base/side_run.h"
#include "page/versus_page.h"
#include <stdlib.h>

/* The second run is asked for the same. */
static int versus_prepare(struct mt_pipeline *b, const struct mt_report_versus *r)
{
    const struct mt_pipeline *a = r->a;
    int code = 0;
    mt_pipeline_init(b);
    b->more.options = a->more.options;
    b->more.devices = a->more.devices;
    b->more.quiet = a->more.quiet;
    b->options = a->options;
    b->threads = a->threads;
    b->inputs.flags = a->inputs.flags;
    b->inputs.paths = r->paths[1];
    b->inputs.npaths = r->npaths[1];
    if (a->filter.kernels_text)
        code = mt_filter_kernels(&b->filter, a->filter.kernels_text);
    if (code == 0 && a->filter.supersteps_text)
        code = mt_filter_supersteps(&b->filter, a->filter.supersteps_text);
    return code;
}

static int versus_write(const struct mt_report_versus *r, const struct mt_two_runs *t)
{
    struct mt_versus_words w = {
        {r->paths[0], r->paths[1]}, {r->npaths[0], r->npaths[1]}, {t->complete[0], t->complete[1]}};
    int code = mt_output_ready(&r->a->out);
    FILE *f = code ? NULL : mt_output_stream(&r->a->out);
    if (!f)
        return code ? code : MT_EXIT_FAILURE;
    int bad = mt_versus_page(f, &t->versus, &w, r->title);
    code = mt_output_close(&r->a->out, f);
    return bad ? mt_cli_fail("no memory for the report") : code;
}

int mt_report_versus(const struct mt_report_versus *r)
{
    static struct mt_pipeline b;
    static struct mt_two_runs t;
    int code = versus_prepare(&b, r);
    for (size_t i = 0; i < r->npaths[1]; i++) /* the first run's are known */
        mt_output_spare(r->paths[1][i]);
    t.p[0] = r->a;
    t.p[1] = &b;
    if (code == 0)
        code = mt_output_open(&r->a->out, r->output);
    if (code == 0)
        code = mt_two_runs_read(&t);
    if (t.versus.all.b && (code == 0 || code == MT_EXIT_INPUT)) {
        int written = versus_write(r, &t);
        code = written ? written : code;
    }
    mt_two_runs_free(&t);
    mt_pipeline_free(&b);
    return code;
}
