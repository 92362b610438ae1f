/* mt-extract's part in what it says to a program whose MEMTRACE_SINK started it (memtrace/live.h). */
#ifndef MT_CLI_EXTRACT_LIVE_H
#define MT_CLI_EXTRACT_LIVE_H
#include <stddef.h>
#include "cli/base/cli.h"
#include "memtrace/live.h"

/* Whole traces, in the order of their streams. */
struct mt_live_traces {
    char **paths; /* only their names */
    int *fds;     /* open; of who reads them */
    size_t n, room;
};

/* Keeps the output, a regular file, from other processes of the same program until this one ends. 0, or an
 * exit code: another one has it. */
int mt_live_hold(const struct mt_output *out);
/* One byte to the program. 0, or -1: it is gone. */
int mt_live_say(int fd, char word);
/* Waits for all of the program's traces. 0, or -1: it was killed, or there is no memory. */
int mt_live_traces(struct mt_live_traces *t, int fd);
void mt_live_traces_free(struct mt_live_traces *t);
#endif
