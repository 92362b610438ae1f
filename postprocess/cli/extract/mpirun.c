/* Under mpirun or srun, memtrace extract is mt-extract-mpi: the one program needs no MPI library,
 * the other one does. */
#define _GNU_SOURCE
#include "mpirun.h"
#include "cli/base/cli.h"
#include "base/part.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long mpirun_number(const char *name)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

/* As Open MPI's mpirun, MPICH's and Slurm's srun say to their processes. In a batch script itself, where
 * Slurm's number of tasks is set, too, there is no rank. */
static int one_of_several(void)
{
    return mpirun_number("OMPI_COMM_WORLD_SIZE") > 1 || mpirun_number("PMI_SIZE") > 1 ||
           (getenv("PMIX_RANK") && mpirun_number("SLURM_NTASKS") > 1);
}

int mt_mpirun_hand_over(char **argv)
{
    char path[PATH_MAX];
    if (!one_of_several())
        return 0;
    if (mt_files_beside(path, "../libexec/memtrace/mt-extract-mpi") == 0)
        execv(path, argv);
    mt_cli_say("is one of several ranks of an MPI program, but mt-extract-mpi cannot be run: %s (it is built "
               "where MPI is found)",
               strerror(errno));
    return mt_cli_left_out("mpi");
}
