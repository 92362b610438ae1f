/* mt-report A -- B: the page of two runs. */
#include "report_versus.h"
#include "cli/base/two_runs.h"
#include "page/versus_page.h"

int mt_report_versus(const struct mt_report_versus *r)
{
    static struct mt_pipeline b;
    static struct mt_two_runs t;
    int code = mt_two_runs_ask(&b, r->a);
    t.words =
        (struct mt_versus_words){{r->paths[0], r->paths[1]}, {r->npaths[0], r->npaths[1]}, .title = r->title};
    b.inputs.paths = r->paths[1];
    b.inputs.npaths = r->npaths[1];
    for (size_t i = 0; i < r->npaths[1]; i++) /* the first run's are known */
        mt_output_spare(r->paths[1][i]);
    t.p[0] = r->a;
    t.p[1] = &b;
    if (code == 0)
        code = mt_output_open(&r->a->out, r->output);
    if (code == 0)
        code = mt_two_runs_run(&t, &r->a->out, mt_versus_page);
    mt_pipeline_free(&b);
    return code;
}
