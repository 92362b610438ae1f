/* What memtrace host says about the trace after the run. */
#include "cli.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#ifdef MT_HAVE_READER
#include "memtrace/host.h"
#endif

void mt_hostrun_trace_before(struct trace_before *b, const char *path)
{
    b->there = stat(path, &b->st) == 0;
    clock_gettime(CLOCK_REALTIME_COARSE, &b->now);
}

static int same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static const char *size_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    int unit = 0;
    while (size >= 1024 && unit < 4) {
        size /= 1024;
        unit++;
    }
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
    return text;
}

#ifdef MT_HAVE_READER
/* 1234567 as 1,234,567. */
static const char *trace_grouped(uint64_t n, char text[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n), out = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            text[out++] = ',';
        text[out++] = digits[i];
    }
    text[out] = 0;
    return text;
}

/* How many accesses a container has, and whether it is whole: " 1,234 accesses, complete,". */
static void trace_contents(const char *path, char *text, size_t size)
{
    *text = 0;
    struct mt_error err;
    if (mt_is_container(path) != 1)
        return;
    struct mt_host_reader *reader = mt_host_reader_open(path, NULL, &err);
    if (!reader) {
        snprintf(text, size, ", but it cannot be read: %s", err.message);
        return;
    }
    const struct mt_companion *c = mt_host_companion(reader);
    char n[32], lost[32], left[128] = "";
    if (c && c->left_out)
        snprintf(left, sizeof left, "; %s of libraries left out", trace_grouped(c->left_out, lost));
    if (c && c->children)
        snprintf(left + strlen(left), sizeof left - strlen(left), "; %s child process%s not traced",
                 trace_grouped(c->children, lost), c->children == 1 ? "" : "es");
    if (!c || !c->has_end)
        snprintf(text, size, ", cut off: the program ended without ending it; what is whole can be read");
    else if (c->complete)
        snprintf(text, size, ", %s accesses, complete%s", trace_grouped(c->records_written, n), left);
    else
        snprintf(text, size, ", %s accesses, not complete: %s lost (%s)",
                 trace_grouped(c->records_written, n), trace_grouped(c->lost, lost),
                 c->lost_why && *c->lost_why ? c->lost_why : "see memtrace dump");
    mt_host_reader_close(reader);
}
#else
static void trace_contents(const char *path, char *text, size_t size)
{
    (void)path;
    (void)size;
    *text = 0;
}
#endif

static void next_step(const struct request *r)
{
    switch (*r->mode) {
    case 'm':
        mt_cli_say("next: memtrace graph %s | dot -Tsvg > graph.svg", r->output);
        break;
    case 'i':
        mt_cli_say("next: %s %s", r->container ? "memtrace dump" : "less", r->output);
        break;
    default:
        mt_cli_say(r->container ? "next: memtrace report %s -o report.html"
                                : "next: memtrace convert --order=time %s | less",
                   r->output);
    }
}

/* Whoever has opened it knows what is there. */
static int is_descriptor(const char *path)
{
    static const char *const names[] = {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(path, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

/* The traces of what the program became by exec: x.mtc, x.exec1.mtc … (host/machine/follow.h). */
static void later_traces(const char *path, const struct timespec *since)
{
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    size_t stem = dot && (!slash || dot > slash + 1) && dot > path ? (size_t)(dot - path) : strlen(path);
    for (unsigned i = 1;; i++) {
        struct stat st;
        char name[PATH_MAX], text[700], bytes[32];
        snprintf(name, sizeof name, "%.*s.exec%u%s", (int)stem, path, i, path + stem);
        if (stat(name, &st) != 0 || st.st_mtim.tv_sec < since->tv_sec ||
            (st.st_mtim.tv_sec == since->tv_sec && st.st_mtim.tv_nsec < since->tv_nsec))
            return;
        trace_contents(name, text, sizeof text);
        mt_cli_say("trace after exec: %s, %s%s", name, size_text((uint64_t)st.st_size, bytes), text);
    }
}

void mt_hostrun_trace_words(const struct request *r, const struct trace_before *before, int talk)
{
    struct stat st;
    char text[700], bytes[32];
    if (strstr(r->output, "%p")) { /* the process knows, which may not be our child */
        if (talk)
            mt_cli_say("trace: %s, with the number of the process for %%p", r->output);
        return;
    }
    if (is_descriptor(r->output))
        return;
    if (stat(r->output, &st) != 0) {
        mt_cli_say("no trace was written: %s: %s", r->output, strerror(errno));
        return;
    }
    if (!S_ISREG(st.st_mode)) /* a FIFO or a device: its reader knows */
        return;
    if (before->there && before->st.st_ino == st.st_ino && before->st.st_dev == st.st_dev &&
        before->st.st_size == st.st_size && same_time(&before->st.st_mtim, &st.st_mtim)) {
        mt_cli_say("no trace was written: %s is from an earlier run", r->output);
        return;
    }
    if (!talk)
        return;
    trace_contents(r->output, text, sizeof text);
    mt_cli_say("trace: %s, %s%s", r->output, size_text((uint64_t)st.st_size, bytes), text);
    later_traces(r->output, &before->now);
    next_step(r);
}
