/* mt-shared: what it found, and how that comes out. */
#ifndef MT_CLI_SHARED_H
#define MT_CLI_SHARED_H
#include "analysis/onchip/banks.h"
#include "analysis/onchip/hazards.h"
#include "cli/base/cli.h"

struct mt_json;

/* A launch that was looked at. */
struct mt_shared_launch {
    uint64_t superstep, seq; /* seq: MT_SEQ_NONE: not known */
    const char *kernel;
};

struct mt_shared {
    struct mt_inputs inputs;
    struct mt_filter filter;
    struct mt_source *source;
    struct mt_banks banks;
    struct mt_hazards hazards;
    struct mt_shared_launch *launches;
    size_t nlaunches, launch_room;
    uint64_t untraced; /* accesses without a record, of any memory */
    uint64_t top;      /* rows of a table */
    int complete;      /* as of mt_inputs_finish */
};

/* The site's line in the companion of that input; NULL: not known. */
const struct mt_site_event *mt_shared_site(const struct mt_shared *x, uint32_t input, uint32_t site);
/* 0, or -1 without memory. */
int mt_shared_text(FILE *f, const struct mt_shared *x);
/* 0, or -1 with j->error. */
int mt_shared_json(struct mt_json *j, const struct mt_shared *x);
#endif
