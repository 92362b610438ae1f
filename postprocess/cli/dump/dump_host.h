/* memtrace dump on containers of host accesses. */
#ifndef MT_CLI_DUMP_HOST_H
#define MT_CLI_DUMP_HOST_H
#include <stdint.h>
#include <stdio.h>

struct mt_dump_host {
    uint64_t head; /* records shown of each thread */
    int stat, companion, sites, chunks, runs;
    int chosen; /* some launches only */
};
/* 1 if the input is a container of host accesses, or a FIFO whose name ends in .mtc. */
int mt_dump_is_host(const char *path);
/* The table of chunks of any container that is a regular file. 0, or an exit code with words said. */
int mt_dump_chunks(FILE *f, const char *path);
/* Exit code; words said. A FIFO may turn out to hold accesses of kernels: then nothing is shown, and *device
 * is a source of it. */
struct mt_source;
int mt_dump_host_show(FILE *f, const char *path, const struct mt_dump_host *o, struct mt_source **device);
#endif
