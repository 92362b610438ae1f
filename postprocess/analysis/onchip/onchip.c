/* See onchip.h: items in. */
#include "onchip.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

static int onchip_init(void *self, const struct mt_run_options *o)
{
    struct mt_onchip *x = self;
    *x = (struct mt_onchip){.source = o->source};
    return mt_banks_init(&x->banks);
}

static int onchip_finish(void *self)
{
    struct mt_onchip *x = self;
    return mt_onchip_rows_make(&x->rows, x);
}

static void onchip_free(void *self)
{
    struct mt_onchip *x = self;
    mt_onchip_rows_free(&x->rows);
    mt_banks_free(&x->banks);
    mt_hazards_free(&x->hazards);
    free(x->launches);
    memset(x, 0, sizeof *x);
}

static int onchip_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_onchip *x = self;
    if (mt_grow(&x->launches, &x->launch_room, x->nlaunches + 1, sizeof *x->launches) != 0)
        return -1;
    x->launches[x->nlaunches] = (struct mt_onchip_launch){l->superstep, l->kernel, l->event};
    x->untraced += l->event ? l->event->untraced : 0;
    mt_banks_launch(&x->banks, (uint32_t)x->nlaunches, (uint32_t)l->input);
    mt_hazards_launch(&x->hazards, (uint32_t)x->nlaunches, (uint32_t)l->input, l->kernel);
    x->nlaunches++;
    return 0;
}

static int onchip_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_onchip *x = self;
    return mt_banks_runs(&x->banks, runs, n) == 0 && mt_hazards_runs(&x->hazards, runs, n) == 0 ? 0 : -1;
}

const struct mt_analysis mt_onchip_analysis = {.needs = MT_NEEDS_SPACES,
                                               .init = onchip_init,
                                               .launch = onchip_launch,
                                               .runs = onchip_runs,
                                               .finish = onchip_finish,
                                               .free = onchip_free};
