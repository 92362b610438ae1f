/* The min-cut heuristic of placement.c. */
#ifndef MT_ANALYSIS_PLACEMENT_CUT_H
#define MT_ANALYSIS_PLACEMENT_CUT_H
#include "placement.h"

/* Places all nodes anew, launch by launch, each where most of its neighbours are
 * that have a place already. */
int mt_placement_greedy(const struct mt_placement *p, uint16_t *device);
/* Exchanges and moves nodes while that saves bytes (Kernighan-Lin, two devices of one launch at a time). */
int mt_placement_refine(struct mt_placement *p, uint16_t *device);
#endif
