/* See onchip.h: items in. */
#include "onchip.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

int mt_onchip_init(struct mt_onchip *x)
{
    memset(x, 0, sizeof *x);
    return mt_banks_init(&x->banks);
}

void mt_onchip_free(struct mt_onchip *x)
{
    mt_banks_free(&x->banks);
    mt_hazards_free(&x->hazards);
    free(x->launches);
    memset(x, 0, sizeof *x);
}

static int onchip_begin(struct mt_onchip *x, const struct mt_item *item)
{
    if (mt_grow(&x->launches, &x->launch_room, x->nlaunches + 1, sizeof *x->launches) != 0)
        return -1;
    x->launches[x->nlaunches] = (struct mt_onchip_launch){item->superstep, item->kernel, item->launch};
    x->untraced += item->launch ? item->launch->untraced : 0;
    mt_banks_launch(&x->banks, (uint32_t)x->nlaunches, (uint32_t)item->input);
    mt_hazards_launch(&x->hazards, (uint32_t)x->nlaunches, (uint32_t)item->input, item->kernel);
    x->nlaunches++;
    return 0;
}

int mt_onchip_item(struct mt_onchip *x, const struct mt_item *item, int selected)
{
    if (item->kind != MT_ITEM_RUNS || !selected)
        return 0;
    if ((item->flags & MT_BATCH_BEGIN) && onchip_begin(x, item) != 0)
        return -1;
    return mt_banks_runs(&x->banks, item->runs, item->count) == 0 &&
                   mt_hazards_runs(&x->hazards, item->runs, item->count) == 0
               ? 0
               : -1;
}
