/* Merges atomic text traces (memtrace host atomic) for convert --order=time: the threads' lines by timestamp,
 * as they arrive. */
#ifndef MT_CLI_MERGE_TEXT_H
#define MT_CLI_MERGE_TEXT_H
#include "cli/base/cli.h"

/* Reads the files one after another ("-": standard input) and writes 'thread TAB event ...' lines, with
 * `keep` the timestamp in front. Order: timestamp, then thread, then input; thread_sync lines are omitted.
 * Reports malformed, late and truncated lines. Returns the exit code. */
int mt_merge_text(const char *const *paths, size_t n, int keep, struct mt_output *out);
#endif
