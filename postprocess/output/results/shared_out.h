/* Shared and local memory (analysis/onchip/) as tables for people and as JSON. */
#ifndef MT_OUTPUT_SHARED_OUT_H
#define MT_OUTPUT_SHARED_OUT_H
#include <stdint.h>
#include <stdio.h>
#include "analysis/onchip/onchip.h"

struct mt_json;

struct mt_shared {
    const struct mt_onchip *found;
    const struct mt_onchip_rows *rows;
    const struct mt_source *source; /* of the sites */
    uint64_t top;                   /* rows of a table */
};

/* Three tables, after what is to be said of them. 0, or -1 without memory. */
int mt_shared_text(FILE *f, const struct mt_shared *x);
/* What figures of shared memory should be read with. */
void mt_shared_notes(const struct mt_onchip *x, void (*say)(void *arg, const char *note), void *arg);
/* The section "shared": {"launches", "banks", "hazards", "local", …}. */
void mt_shared_json(struct mt_json *j, const struct mt_shared *x);
#endif
