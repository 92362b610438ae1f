/* exec: the traced program becomes another one. memtrace host, whose path the engine was given, then runs
 * the new program under the same engine with the same options in the same process. Its trace is
 * NAME.exec1.EXT, the next one's NAME.exec2.EXT and so on; a FIFO keeps its name. */
#ifndef MT_HOST_MACHINE_FOLLOW_H
#define MT_HOST_MACHINE_FOLLOW_H
#include <limits.h>
#include "../core/core.h"

/* Stores for later: path of memtrace (NULL: exec is not followed), the engine's name, the core's words
 * (mode first) and the output's absolute name. */
void mt_follow_start(const char *host, const char *engine, char *const *words, int count,
                     const struct mt_core_options *o);
/* Sets the traced program's own file, which is open or has an absolute name; NULL: unknown. */
void mt_follow_program(const char *path);
#endif
