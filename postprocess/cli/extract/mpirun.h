/* Under mpirun or srun, memtrace extract is mt-extract-mpi: the one program needs no MPI library,
 * the other one does. */
#ifndef MT_CLI_MPIRUN_H
#define MT_CLI_MPIRUN_H
/* When this process is one of several ranks: becomes mt-extract-mpi, which came with the running program.
 * Returns 0 when it is not, or an exit code after saying why it cannot be done. */
int mt_mpirun_hand_over(char **argv);
#endif
