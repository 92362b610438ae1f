/* What each rank did: processor time by phase, bytes sent and received. */
#define _GNU_SOURCE
#include "stats.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char *const stats_names[MT_RANK_PHASES] = {"start",   "launches", "sort",    "exchange",
                                                        "analyse", "further",  "results", "write"};

struct stats {
    double elapsed[MT_RANK_PHASES], busy[MT_RANK_PHASES]; /* seconds */
    double sent, received, accesses;
    char host[MPI_MAX_PROCESSOR_NAME];
};
static struct stats stats;
static enum mt_rank_phase stats_now;
static double stats_elapsed, stats_busy; /* when it began; processor time is counted from the start on */

static double stats_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum mt_rank_phase mt_stats_phase(enum mt_rank_phase phase)
{
    enum mt_rank_phase before = stats_now;
    double elapsed = stats_clock(CLOCK_MONOTONIC), busy = stats_clock(CLOCK_PROCESS_CPUTIME_ID);
    stats.elapsed[before] += stats_elapsed > 0 ? elapsed - stats_elapsed : 0;
    stats.busy[before] += busy - stats_busy;
    stats_elapsed = elapsed;
    stats_busy = busy;
    stats_now = phase;
    return before;
}

void mt_stats_bytes(uint64_t sent, uint64_t received)
{
    stats.sent += (double)sent;
    stats.received += (double)received;
}

void mt_stats_accesses(uint64_t accesses)
{
    stats.accesses += (double)accesses;
}

static void stats_line(const struct stats *s, int rank)
{
    double elapsed = 0, busy = 0;
    for (int i = 0; i < MT_RANK_PHASES; i++) {
        elapsed += s->elapsed[i];
        busy += s->busy[i];
    }
    fprintf(stderr, "%4d  %-16s %11.0f %9.2f %9.2f", rank, s->host, s->accesses, s->sent * 1e-6,
            s->received * 1e-6);
    for (int i = 0; i < MT_RANK_PHASES; i++)
        fprintf(stderr, " %8.3f", s->busy[i]);
    fprintf(stderr, " %9.3f %8.3f\n", busy, elapsed);
}

void mt_stats_print(void)
{
    int rank, size, length;
    mt_stats_phase(MT_RANK_START);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(stats.host, &length);
    struct stats *all = rank == 0 ? malloc((size_t)size * sizeof *all) : NULL;
    int ok = rank != 0 || all;
    MPI_Bcast(&ok, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!ok)
        return;
    MPI_Gather(&stats, sizeof stats, MPI_BYTE, all, sizeof stats, MPI_BYTE, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++) {
        if (i == 0) {
            fprintf(stderr, "rank  %-16s %11s %9s %9s", "host", "accesses", "MB sent", "MB got");
            for (int k = 0; k < MT_RANK_PHASES; k++)
                fprintf(stderr, " %8s", stats_names[k]);
            fprintf(stderr, " %9s %8s\n", "processor", "elapsed");
        }
        stats_line(&all[i], i);
    }
    free(all);
}
