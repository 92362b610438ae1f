/* One run of a program through all analyses, to its figures. */
#include "side_run.h"
#include "output/json/comm_json.h"

static int side_run_sites(struct mt_pipeline *p, struct mt_run_side *side)
{
    for (size_t i = 0; i < p->inputs.npaths; i++) {
        const struct mt_companion *c = mt_source_companion(p->source, i);
        if (c && c->nsites && mt_side_sites(side, c->sites, c->nsites) != 0)
            return -1;
    }
    return 0;
}

static int side_run_fill(struct mt_pipeline *p, const struct mt_onchip *onchip, struct mt_run_side *side)
{
    struct mt_side_of of = {p->comm, &p->more.more, &p->more.sites, &p->more.placement, NULL};
    int bad = mt_run_parts_gather(&side->parts, p->source, p->inputs.npaths) != 0 ||
              mt_comm_merged(p->comm) != 0 || mt_locality_run_finish(&p->more, p->comm) != 0 ||
              side_run_sites(p, side) != 0;
    if (onchip->banks.count || mt_inputs_spaces(&p->inputs))
        of.onchip = &onchip->rows;
    bad = bad || mt_side_fill(side, &of) != 0;
    return bad ? mt_cli_fail("no memory for the comparison") : 0;
}

static void side_run_explain(const struct mt_pipeline *p)
{
    uint64_t chosen = 0;
    for (uint32_t i = 0; i < p->comm->nlaunches; i++)
        chosen += (uint64_t)p->comm->launches[i].selected;
    mt_filter_explain(&p->filter, p->comm->nlaunches, chosen);
}

static int side_run_read(struct mt_pipeline *p, struct mt_onchip *onchip, struct mt_run_side *side,
                         int *complete)
{
    int code;
    p->inputs.flags |= MT_SOURCE_HOST | MT_SOURCE_RUNS | MT_SOURCE_SPACES;
    p->inputs.threads = p->threads;
    p->wants = MT_WANTS_TRANSFERS;
    if ((code = mt_inputs_folders(&p->inputs)) != 0 || (code = mt_pipeline_open(p)) != 0)
        return code;
    mt_feed_add(&p->feed, &mt_onchip_analysis, onchip, "no memory for shared memory");
    if ((code = mt_pipeline_read(p)) != 0)
        return code;
    int input = mt_inputs_finish(p->source, complete);
    side_run_explain(p);
    code = side_run_fill(p, onchip, side);
    return code ? code : input;
}

int mt_two_runs_read(struct mt_two_runs *t)
{
    int worst = 0;
    for (int i = 0; i < 2; i++) {
        int code = side_run_read(t->p[i], &t->onchip[i], &t->side[i], &t->complete[i]);
        if (code && code != MT_EXIT_INPUT)
            return code;
        worst = code ? code : worst;
        if (mt_cli_stop && i == 0) {
            mt_cli_say("interrupted in the first run: nothing is compared");
            return worst;
        }
    }
    return mt_versus_make(&t->versus, &t->side[0], &t->side[1]) == 0
               ? worst
               : mt_cli_fail("no memory for the comparison");
}

void mt_two_runs_free(struct mt_two_runs *t)
{
    mt_versus_free(&t->versus);
    mt_side_free(&t->side[0]);
    mt_side_free(&t->side[1]);
}
