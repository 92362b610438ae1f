/* mt-extract-mpi: the one command that is linked with MPI. */
#include "cli/base/commands.h"

int main(int argc, char **argv)
{
    return mt_extract_command(argc, argv);
}
