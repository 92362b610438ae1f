/* Of which job this process is: what mpirun, srun or torchrun started together. */
#ifndef MT_BASE_JOB_H
#define MT_BASE_JOB_H

struct mt_job {
    char name[128]; /* "": it is alone, or nobody says */
    unsigned rank, ranks;
};
/* MEMTRACE_JOB's name, else the launcher's; looked up once. */
const struct mt_job *mt_job(void);
#endif
