/* Random runs for tests of device chunks. */
#ifndef TESTS_SOME_RUNS_H
#define TESTS_SOME_RUNS_H
#include "memtrace/device.h"

enum { SOME_LANES = 200 };
extern uint64_t some_seed;
uint32_t some_draw(uint32_t below);
/* Anything that a run may be, with as much repetition as `tame` (>= 1) asks for;
 * room for SOME_LANES addresses. */
void some_run(struct mt_access_run *r, uint64_t *lanes, uint32_t tame);
#endif
