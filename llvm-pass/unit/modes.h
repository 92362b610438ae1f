/* Options of the pass that have more values than on and off, and that the AST side does not use. */
#ifndef MT_PASS_MODES_H
#define MT_PASS_MODES_H

/* Second count of accesses: beside the records, or instead of them (option count). */
enum mt_counting { MT_COUNT_OFF, MT_COUNT_ON, MT_COUNT_ONLY };
extern enum mt_counting mt_pass_counting;

#endif
