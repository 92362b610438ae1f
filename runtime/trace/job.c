/* Of which job this process is. */
#include "job.h"
#include "base/options.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What launchers tell their processes: rank, how many, and what the job is called (two parts, or one). */
static const struct launcher {
    const char *rank, *ranks, *name[2];
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", {"PMIX_NAMESPACE", NULL}},
    {"PMI_RANK", "PMI_SIZE", {"PMI_JOBID", NULL}},
    {"SLURM_PROCID", "SLURM_NTASKS", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"RANK", "WORLD_SIZE", {"TORCHELASTIC_RUN_ID", "MASTER_PORT"}},
};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct mt_job job;

/* 0, or -1: it is no number. */
static int job_number(const char *name, unsigned *out)
{
    const char *text = name ? getenv(name) : NULL;
    char *end;
    unsigned long n = text ? strtoul(text, &end, 10) : 0;
    if (!text || *text < '0' || *text > '9' || *end || n >= 1u << 20)
        return -1;
    *out = (unsigned)n;
    return 0;
}

static void job_find(void)
{
    const struct launcher *l = NULL;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && !l; i++)
        if (job_number(launchers[i].rank, &job.rank) == 0 &&
            job_number(launchers[i].ranks, &job.ranks) == 0 && job.ranks > 1 && job.rank < job.ranks)
            l = &launchers[i];
    if (!l)
        job.rank = job.ranks = 0;
    const char *given = mt_options()->job, *first = l ? getenv(l->name[0]) : NULL,
               *second = l && l->name[1] ? getenv(l->name[1]) : NULL;
    if (*given)
        snprintf(job.name, sizeof job.name, "%s", given);
    else if (l && (first || second))
        snprintf(job.name, sizeof job.name, "%s%s%s", first ? first : "", first && second ? "." : "",
                 second ? second : "");
    else if (l) /* who started us started the others */
        snprintf(job.name, sizeof job.name, "of %ld", (long)getppid());
}

const struct mt_job *mt_job(void)
{
    pthread_once(&once, job_find);
    return &job;
}
