/* Shared and local memory of the launches of a source that has MT_SOURCE_SPACES: bank conflicts and hazards,
 * and from them the rows that people read. Functions that return int: 0, or -1 without memory. */
#ifndef MT_ANALYSIS_ONCHIP_H
#define MT_ANALYSIS_ONCHIP_H
#include "banks.h"
#include "hazards.h"
#include "analysis/base/runs.h"

/* A launch that was looked at. */
struct mt_onchip_launch {
    uint64_t superstep;
    const char *kernel;                  /* the source's */
    const struct mt_launch_event *event; /* NULL: no companion has it */
};

/* What is at a line with one column and variable, in one kernel, of one type: of all launches. */
struct mt_onchip_place {
    struct mt_bank_cell sum; /* launch, site and input: of the first one */
    const char *kernel;
    const struct mt_site_event *site; /* NULL: not known */
    uint64_t launches;
    size_t first, end; /* its cells, in the order of launches */
};

/* Hazards of copies of the same code (unrolled loops), as one. */
struct mt_onchip_hazard {
    struct mt_hazard h; /* sums; the rest: of one of them */
    const struct mt_site_event *side[2];
    size_t first, end; /* its cells, in the order of launches */
};

struct mt_onchip_rows {
    struct mt_onchip_place *places; /* by kernel, place, type */
    size_t nplaces;
    struct mt_bank_cell *cells; /* of the places */
    struct mt_onchip_hazard *hazards;
    size_t nhazards;
    struct mt_hazard_share *hazard_cells; /* their `hazard` is one of these rows */
};

struct mt_onchip {
    struct mt_banks banks;
    struct mt_hazards hazards;
    struct mt_onchip_launch *launches; /* by number in cells and hazards */
    size_t nlaunches, launch_room;
    uint64_t untraced; /* accesses of these launches without a record, of any memory */
    const struct mt_source *source;
    struct mt_onchip_rows rows; /* when it is finished; strings and sites are the source's */
};

extern const struct mt_analysis mt_onchip_analysis;

/* Adds the figures of a cell; not its key. */
void mt_onchip_add(struct mt_bank_cell *sum, const struct mt_bank_cell *c);
/* The site's line in the companion of that input; NULL: not known. */
const struct mt_site_event *mt_onchip_site(const struct mt_source *s, uint32_t input, uint32_t site);
/* Its variable in short ("transpose(float*, int)::tile" is "tile": the kernel stands beside it), or "". */
const char *mt_onchip_variable(const struct mt_site_event *site);
/* Of what was found. To be freed, whatever is returned. */
int mt_onchip_rows_make(struct mt_onchip_rows *r, const struct mt_onchip *x);
void mt_onchip_rows_free(struct mt_onchip_rows *r);
#endif
