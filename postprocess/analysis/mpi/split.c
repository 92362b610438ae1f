/* Which launches the inputs have, found by all ranks together: each looks at a part of a raw trace;
 * containers have an index. */
#define _GNU_SOURCE
#include "memtrace/host.h"
#include "ranks.h"
#include <mpi.h>
#include <stdlib.h>
#include <sys/stat.h>

/* All ranks say the same, and it is not 0. */
static int split_all(int ok)
{
    int every;
    MPI_Allreduce(&ok, &every, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return every;
}

static int split_same(uint64_t value)
{
    uint64_t range[2] = {value, ~value}, least[2];
    MPI_Allreduce(range, least, 2, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    return least[0] == value && least[1] == ~value;
}

/* A container: 0, or -1 when it cannot be read by parts. */
static int split_container(const char *path, struct mt_launch_ends *out)
{
    struct mt_error err;
    struct mt_device_parts *p = mt_device_parts_open(path, &err);
    int ok = split_all(p != NULL), equal = split_same(p ? mt_device_parts_digest(p) : 0);
    mt_device_parts_close(p);
    *out = (struct mt_launch_ends){.chunks = 1};
    return ok && split_all(equal) ? 0 : -1;
}

/* A raw trace. */
static int split_raw(const char *path, struct mt_launch_ends *out)
{
    struct stat st;
    struct mt_error err;
    uint64_t *part = NULL, *ends = NULL;
    size_t n = 0, total = 0;
    int rank, size, ok, every;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    uint64_t bytes = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0, least;
    MPI_Allreduce(&bytes, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    uint64_t from = (uint64_t)((__uint128_t)least * (unsigned)rank / (unsigned)size),
             to = (uint64_t)((__uint128_t)least * ((unsigned)rank + 1) / (unsigned)size);
    int *counts = calloc((size_t)size, 2 * sizeof *counts);
    ok = counts && bytes == least && least > 0 && mt_raw_ends(path, from, to, &part, &n, &err) == 0 &&
         n < 1u << 30;
    if (!(every = split_all(ok)))
        goto out;
    int mine = (int)n;
    MPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        counts[size + i] = (int)total;
        total += (size_t)counts[i];
    }
    ends = malloc((total + 1) * sizeof *ends);
    if (!(every = split_all(ends && total < 1u << 30)))
        goto out;
    MPI_Allgatherv(part, mine, MPI_UINT64_T, ends, counts, counts + size, MPI_UINT64_T, MPI_COMM_WORLD);
    if ((every = split_all(mt_raw_ends_fit(path, least, ends, total, (size_t)rank, (size_t)size)))) {
        *out = (struct mt_launch_ends){.ends = ends, .count = total};
        ends = NULL;
    }
out:
    free(ends);
    free(part);
    free(counts);
    return every ? 0 : -1;
}

struct mt_launch_ends *mt_ranks_split(const char *const *paths, size_t npaths)
{
    mt_stats_phase(MT_RANK_LAUNCHES);
    struct mt_launch_ends *ends = mt_ranks_members() > 1 ? calloc(npaths + 1, sizeof *ends) : NULL;
    int every = split_all(ends != NULL);
    for (size_t i = 0; every && i < npaths; i++) {
        int container = mt_is_container(paths[i]);
        every = split_all(split_same((uint64_t)container)) &&
                (container ? split_container(paths[i], &ends[i]) : split_raw(paths[i], &ends[i])) == 0;
    }
    mt_stats_phase(MT_RANK_START);
    if (every)
        return ends;
    mt_ranks_unsplit(ends, npaths);
    return NULL;
}

void mt_ranks_unsplit(struct mt_launch_ends *ends, size_t npaths)
{
    for (size_t i = 0; ends && i < npaths; i++)
        free((void *)ends[i].ends);
    free(ends);
}
