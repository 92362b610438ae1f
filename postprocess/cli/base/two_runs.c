/* Analyses two runs of a program, and compares them. */
#include "two_runs.h"
#include "output/json/comm_json.h"

int mt_two_runs_ask(struct mt_pipeline *p, const struct mt_pipeline *as)
{
    int code = 0;
    mt_pipeline_init(p);
    p->more.options = as->more.options;
    p->more.devices = as->more.devices;
    p->more.quiet = as->more.quiet;
    p->options = as->options;
    p->threads = as->threads;
    p->inputs.flags = as->inputs.flags;
    if (as->filter.kernels_text)
        code = mt_filter_kernels(&p->filter, as->filter.kernels_text);
    if (code == 0 && as->filter.supersteps_text)
        code = mt_filter_supersteps(&p->filter, as->filter.supersteps_text);
    return code;
}

static int two_runs_one(struct mt_two_runs *t, int i)
{
    const char *notes[MT_LOCALITY_RUN_NOTES];
    struct mt_pipeline *p = t->p[i];
    int code, input;
    p->inputs.flags |= MT_SOURCE_HOST | MT_SOURCE_RUNS;
    p->inputs.threads = p->threads;
    p->wants = MT_WANTS_TRANSFERS;
    p->spaces = 1;
    p->more.options.analysis.by_kernel = 1; /* the comparison has no launches, and no cache lines */
    p->more.options.analysis.top = 0;
    if ((code = mt_inputs_folders(&p->inputs)) != 0 || (code = mt_pipeline_open(p)) != 0 ||
        (code = mt_pipeline_read(p)) != 0)
        return code;
    input = mt_pipeline_finish(p, &t->words.complete[i]);
    if (input && input != MT_EXIT_INPUT)
        return input;
    mt_filter_explain(&p->filter, p->comm->nlaunches, mt_comm_reported_launches(p->comm));
    struct mt_comm_result r = mt_pipeline_result(p, t->words.complete[i], notes);
    if (!p->onchip.banks.count && !mt_inputs_spaces(&p->inputs))
        r.onchip = NULL; /* shared memory is not analysed */
    if (mt_versus_take(&t->versus, i, &r) != 0)
        return mt_cli_fail("no memory for the comparison");
    mt_pipeline_forget(p); /* only one run at a time is in memory */
    return input;
}

static int two_runs_read(struct mt_two_runs *t)
{
    int worst = 0;
    for (int i = 0; i < 2; i++) {
        int code = two_runs_one(t, i);
        if (code && code != MT_EXIT_INPUT)
            return code;
        worst = code ? code : worst;
        if (mt_cli_stop && i == 0) {
            mt_cli_say("interrupted in the first run: nothing is compared");
            return worst;
        }
    }
    return mt_versus_make(&t->versus) == 0 ? worst : mt_cli_fail("no memory for the comparison");
}

static int two_runs_write(const struct mt_two_runs *t, struct mt_output *out,
                          int (*write)(FILE *f, const struct mt_versus *v, const struct mt_versus_words *w))
{
    static struct mt_json json; /* static: it contains the output buffer */
    int bad, code = mt_output_ready(out);
    FILE *f = code || !write ? NULL : mt_output_stream(out);
    if (code || (write && !f))
        return code ? code : MT_EXIT_FAILURE;
    if (f) {
        bad = write(f, &t->versus, &t->words);
        code = mt_output_close(out, f);
    } else {
        mt_json_open(&json, out->fd);
        bad = mt_versus_json(&json, &t->versus, &t->words);
        code = mt_output_json(out, &json);
    }
    return bad ? mt_cli_fail("no memory for the comparison") : code;
}

int mt_two_runs_run(struct mt_two_runs *t, struct mt_output *out,
                    int (*write)(FILE *f, const struct mt_versus *v, const struct mt_versus_words *w))
{
    int written = 0, code = two_runs_read(t);
    if (t->versus.all && (code == 0 || code == MT_EXIT_INPUT))
        written = two_runs_write(t, out, write);
    mt_versus_free(&t->versus);
    return written ? written : code;
}
