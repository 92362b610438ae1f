/* mt-extract-mpi: the one command that is linked with MPI. */
#include "analysis/mpi/ranks.h"
#include "cli/extract/extract.h"

int main(int argc, char **argv)
{
    return mt_extract_run(argc, argv, &mt_ranks_session);
}
