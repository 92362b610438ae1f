/* Totals in place of records (MEMTRACE_ONLY): the patches count the accesses of each instruction in a table
 * in the GPU's memory (format/packet.h), and nothing crosses the bus until a context or the process ends. */
#ifndef MT_INJECT_TALLY_H
#define MT_INJECT_TALLY_H
#include "inject.h"

/* Returns 1 if totals are to be made. */
int mt_tally_wanted(void);
/* Returns the device address of a new, empty table, or 0 with m->error set. */
uint64_t mt_tally_make(struct mt_rings_maker *m);
/* Returns the number of a kernel in keys, from 1, or 0 if there are too many. The name must live as long as
 * the process. */
uint64_t mt_tally_kernel(const char *kernel);
/* Copies the table of a context, and finds the sites of new entries, before its memory or some of its code
 * goes. */
void mt_tally_read(struct mt_inject_context *c);
/* Writes the lines of a context's table, as read last. */
void mt_tally_write(const struct mt_inject_context *c);
#endif
