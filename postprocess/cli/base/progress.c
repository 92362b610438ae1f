/* How far the reading is: a line that is overwritten on a terminal, else one now and then for a log. */
#include "cli.h"
#include "output/text/numbers.h"
#include <string.h>
#include <unistd.h>

enum { LOG_SECONDS = 10 };

static double progress_seconds(const struct timespec *a, const struct timespec *b)
{
    return (double)(b->tv_sec - a->tv_sec) + (double)(b->tv_nsec - a->tv_nsec) * 1e-9;
}

void mt_progress_init(struct mt_progress *p)
{
    memset(p, 0, sizeof *p);
    p->on = !mt_cli_brief;
    p->terminal = isatty(STDERR_FILENO);
    clock_gettime(CLOCK_MONOTONIC, &p->begin);
    p->last = p->begin;
}

static void progress_show(struct mt_progress *p, uint64_t records, double share, double seconds)
{
    fprintf(stderr, "\r%s: %.1f million records, %.1f million/s", mt_cli_name, (double)records * 1e-6,
            (double)records * 1e-6 / seconds);
    if (share > 0)
        fprintf(stderr, ", %.0f %%", 100 * share);
    fputs("\033[K", stderr);
    p->shown = 1;
}

/* As the bytes so far went: launches differ, so it is a guess. */
static void progress_log(uint64_t records, double share, double seconds)
{
    const struct mt_number n = mt_number_count(records);
    if (share > 0)
        mt_cli_note("%.0f %% read, %s accesses, about %.0f s left", 100 * share, n.text,
                    seconds / share - seconds);
    else
        mt_cli_note("%s accesses read in %.0f s", n.text, seconds);
}

void mt_progress_step(struct mt_progress *p, struct mt_source *s, uint64_t records)
{
    struct timespec now;
    uint64_t done, total;
    if (!p->on)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double all = progress_seconds(&p->begin, &now), since = progress_seconds(&p->last, &now);
    if (p->terminal ? all < 2 || since < 0.2 : since < LOG_SECONDS)
        return;
    mt_source_progress(s, &done, &total);
    const double share = total ? (double)done / (double)total : 0;
    if (p->terminal)
        progress_show(p, records, share, all);
    else
        progress_log(records, share, all);
    p->last = now;
}

void mt_progress_end(struct mt_progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = 0;
}
