/* mt-extract-mpi: the only command linked with MPI. */
#include "analysis/mpi/ranks.h"
#include "base/say.h"
#include "cli/extract/extract.h"

int main(int argc, char **argv)
{
    mt_cli_name = "mt-extract";
    return mt_extract_run(argc, argv, &mt_ranks_session);
}
