/* convert --order=time of atomic text traces (memtrace host atomic): merges the threads' lines by timestamp,
 * as they arrive. */
#ifndef MT_CLI_MERGE_TEXT_H
#define MT_CLI_MERGE_TEXT_H
#include "cli/base/cli.h"

/* Reads the files, one after the other ("-": standard input), and writes 'thread TAB event ...' lines, with
 * `keep` the timestamp in front. Order: timestamp, then thread, then input; thread_sync lines are left out.
 * Returns the exit code; lines that are bad, late or cut off are said. */
int mt_merge_text(const char *const *paths, size_t n, int keep, struct mt_output *out);
#endif
