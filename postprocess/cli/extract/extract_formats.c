/* mt-extract --format: other forms of the result than JSON. */
#define _GNU_SOURCE
#include "extract_formats.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRANSFERS (1u << MT_TRANSFERS)
#define ADDRESSES (1u << MT_ADDRESSES)

static int extract_formats_word(const char *value, const char *const *words, const char *option)
{
    int i = mt_cli_word(value, words);
    if (i < 0)
        mt_cli_usage("'%s' is nothing for %s", value, option);
    return i;
}

int mt_formats_option(struct mt_formats *f, int o, const char *value)
{
    static const char *const formats[] = {"json", "sqlite", "csv", "dot", "text", NULL};
    static const char *const nodes[] = {"kernel", "launch", "cta", NULL};
    int i;
    switch (o) {
    case 'f':
        i = extract_formats_word(value, formats, "--format (json, sqlite, csv, dot, text)");
        f->format = i < 0 ? f->format : (enum mt_format)i;
        return i < 0 ? MT_EXIT_USAGE : 0;
    case MT_OPT_BY:
        i = extract_formats_word(value, nodes, "--by (kernel, launch, cta)");
        f->by = i < 0 ? f->by : (enum mt_dot_by)i;
        return i < 0 ? MT_EXIT_USAGE : 0;
    case MT_OPT_TAG:
        f->tag = value;
        return 0;
    default:
        return mt_cli_number(value, 0, UINT64_MAX, &f->top)
                   ? 0
                   : mt_cli_usage("'%s' is not a number of edges", value);
    }
}

int mt_formats_check(const struct mt_formats *f, unsigned *sections, int chosen, const char *output,
                     unsigned *flags)
{
    switch (f->format) {
    case MT_FORMAT_SQLITE:
        if (!output || strcmp(output, "-") == 0)
            return mt_cli_usage("a database needs a file: --format=sqlite -o FILE");
        if (chosen)
            return mt_cli_usage(
                "--sections is nothing for --format=sqlite: a database has all but addresses");
        *sections = TRANSFERS;
        *flags |= MT_SOURCE_REWIND;
        return 0;
    case MT_FORMAT_CSV:
        if (!chosen)
            *sections = TRANSFERS - 1;
        if (*sections & ADDRESSES)
            return mt_cli_usage(
                "the section addresses is not a table; take --format=json, or sqlite for ranges");
        if (mt_csv_tables(*sections) > 1)
            return mt_cli_usage("a CSV file holds one table: volumes (-s KCV,…) or -s transfers");
        return 0;
    case MT_FORMAT_TEXT:
        *sections &= ~ADDRESSES;
        return 0;
    case MT_FORMAT_DOT:
        if (chosen && *sections != TRANSFERS)
            return mt_cli_usage("--format=dot draws transfers, no other section");
        *sections = TRANSFERS;
        return 0;
    default:
        return 0;
    }
}

/* ---- text ---- */

static int write_text(const struct mt_formats *f, const struct mt_comm_result *r, struct mt_output *out)
{
    int rc = mt_output_ready(out);
    FILE *file = rc ? NULL : mt_output_stream(out);
    if (!file)
        return rc ? rc : MT_EXIT_FAILURE;
    int failed = f->format == MT_FORMAT_CSV ? mt_csv_write(file, r) : mt_dot_write(file, r, f->by, f->top);
    if (failed)
        mt_cli_say("no memory for the output");
    rc = mt_output_close(out, file);
    return failed ? MT_EXIT_FAILURE : rc;
}

/* ---- database ---- */

/* Another pass over the records. 0, or -1 after saying why. */
static int ranges_pass(struct mt_db *db, const struct mt_comm_result *r, struct mt_progress *progress)
{
    struct mt_touched ranges = {.nsets = 0};
    struct mt_item item;
    struct mt_error err;
    uint64_t launch = UINT64_MAX, records = 0;
    int rc, bad = 0;
    if (mt_source_rewind(r->source, &err) != 0) {
        mt_cli_say("%s", err.message);
        return -1;
    }
    while (bad == 0 && (rc = mt_source_next(r->source, &item, &err)) > 0) {
        if (item.kind != MT_ITEM_BATCH && item.kind != MT_ITEM_RUNS)
            continue;
        if (item.superstep != launch && launch != UINT64_MAX)
            bad = mt_db_ranges(db, launch, &ranges);
        launch = item.superstep;
        if (bad || launch >= r->comm->nlaunches || !r->comm->launches[launch].selected)
            continue;
        if ((item.kind == MT_ITEM_BATCH ? mt_touched_records(&ranges, item.records, item.count)
                                        : mt_touched_runs(&ranges, item.runs, item.count)) != 0) {
            mt_cli_say("no memory for the ranges of a launch");
            mt_touched_free(&ranges);
            return -1;
        }
        records += item.count;
        mt_progress_step(progress, r->source, records);
    }
    mt_progress_end(progress);
    if (bad == 0 && launch != UINT64_MAX)
        bad = mt_db_ranges(db, launch, &ranges);
    mt_touched_free(&ranges);
    if (bad)
        mt_cli_say("the database: %s", mt_db_why(db));
    else if (rc < 0)
        mt_cli_say("%s", err.message);
    return bad || rc < 0 ? -1 : 0;
}

static int say_meta(struct mt_db *db, const struct mt_formats *f, const struct mt_comm_result *r,
                    int complete)
{
    const struct mt_companion *c = r->ninputs ? mt_source_companion(r->source, 0) : NULL;
    const char *program = c ? strrchr(c->program, '/') : NULL;
    size_t notes;
    int ignored, rc = 0;
    const char *const *note = mt_source_notes(r->source, &notes, &ignored);
    char key[40];
    rc |= mt_db_say(db, "format", "memtrace-comm");
    rc |= mt_db_say(db, "version", "1");
    rc |= mt_db_say(db, "tool", "mt-extract " MEMTRACE_VERSION);
    rc |= mt_db_say(db, "complete", complete > 0 ? "1" : complete ? "not known" : "0");
    rc |= mt_db_say(db, "tag",
                    f->tag             ? f->tag
                    : program          ? program + 1
                    : c && *c->program ? c->program
                                       : r->inputs[0]);
    for (size_t i = 0; i < r->ninputs; i++) {
        snprintf(key, sizeof key, "input %zu", i);
        rc |= mt_db_say(db, key, r->inputs[i]);
    }
    for (size_t i = 0; i < notes; i++) {
        snprintf(key, sizeof key, "note %zu", i);
        rc |= mt_db_say(db, key, note[i]);
    }
    return rc;
}

/* A database needs a path while it is made: a file in a folder of our own, beside the output as a rule. */
struct making {
    char *folder, *path;
    char *target; /* the regular file that the database takes the place of, links resolved; NULL: there is
                     none */
};

/* Is `path` itself the regular file behind `fd`? */
static int is_file_of(const char *path, int fd, mode_t *mode)
{
    struct stat a, b;
    if (lstat(path, &a) != 0 || fstat(fd, &b) != 0 || !S_ISREG(a.st_mode))
        return 0;
    *mode = b.st_mode & 0777;
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* 0, or -1 after saying why. */
static int making_begin(struct making *m, const struct mt_output *out)
{
    const char *dir = getenv("TMPDIR");
    mode_t mode = 0600;
    mt_cli_results();
    m->target = realpath(out->path, NULL);
    if (m->target && !is_file_of(m->target, out->fd, &mode)) {
        free(m->target);
        m->target = NULL;
    }
    if (m->target && asprintf(&m->folder, "%s.XXXXXX", m->target) < 0)
        m->folder = NULL;
    if (!m->folder || !mkdtemp(m->folder)) { /* nothing can be made beside it */
        free(m->folder);
        free(m->target);
        m->target = NULL;
        if (asprintf(&m->folder, "%s/mt-extract.XXXXXX", dir && *dir ? dir : "/tmp") < 0)
            m->folder = NULL;
        if (!m->folder || !mkdtemp(m->folder)) {
            mt_cli_say("no temporary folder (its place is $TMPDIR): %s", strerror(errno));
            free(m->folder);
            m->folder = NULL;
            return -1;
        }
    }
    if (asprintf(&m->path, "%s/database", m->folder) < 0)
        m->path = NULL;
    int fd = m->path ? open(m->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (fd < 0 || fchmod(fd, mode) != 0 || close(fd) != 0) {
        mt_cli_say("%s: %s", m->path ? m->path : out->path, strerror(errno));
        return -1;
    }
    return 0;
}

static int copy_through(const char *path, int to)
{
    static char piece[1 << 16];
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && ((n = read(fd, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR)))
        for (ssize_t done = 0, put; done < n; done += put > 0 ? put : 0)
            if ((put = write(to, piece + done, (size_t)(n - done))) < 0 && errno != EINTR) {
                close(fd);
                return -1;
            }
    if (fd >= 0)
        close(fd);
    return n == 0 ? 0 : -1;
}

/* Whoever reads there finds the old database or the new one. What is not a regular file is written through: a
 * rename would put a file in the place of a device. 0, or an exit code. */
static int making_end(struct making *m, struct mt_output *out)
{
    mode_t mode;
    int rc;
    if (m->target && is_file_of(m->target, out->fd, &mode)) {
        if ((rc = rename(m->path, m->target)) == 0)
            out->created = 0;
    } else {
        if ((rc = mt_output_ready(out)) != 0)
            return rc;
        rc = copy_through(m->path, out->fd);
    }
    if (rc == 0)
        return 0;
    return mt_output_failed(out, errno);
}

static void making_free(struct making *m)
{
    if (m->path)
        unlink(m->path); /* gone already if it was renamed */
    if (m->folder)
        rmdir(m->folder);
    free(m->path);
    free(m->folder);
    free(m->target);
}

static int write_database(const struct mt_formats *f, const struct mt_comm_result *r, struct mt_output *out,
                          struct mt_progress *progress, int *interrupted)
{
    struct making m = {NULL, NULL, NULL};
    char why[300];
    int code = MT_EXIT_FAILURE;
    struct mt_db *db = NULL;
    if (making_begin(&m, out) != 0)
        goto out;
    if (!(db = mt_db_open(m.path, why, sizeof why))) {
        mt_cli_say("%s: %s", m.path, why);
        goto out;
    }
    if (mt_db_result(db, r) != 0) {
        mt_cli_say("%s: %s", m.path, mt_db_why(db));
        goto out;
    }
    if (!mt_cli_stop && ranges_pass(db, r, progress) != 0)
        goto out;
    *interrupted = mt_cli_stop != 0;
    if (*interrupted)
        mt_cli_say("interrupted: not all ranges are in the database");
    if (say_meta(db, f, r, *interrupted ? 0 : r->complete) != 0 || mt_db_finish(db) != 0) {
        mt_cli_say("%s: %s", m.path, mt_db_why(db));
        goto out;
    }
    mt_db_close(db);
    db = NULL;
    code = making_end(&m, out);
out:
    mt_db_close(db);
    making_free(&m);
    return code;
}

int mt_formats_write(const struct mt_formats *f, const struct mt_comm_result *r, struct mt_output *out,
                     struct mt_progress *progress, int *interrupted)
{
    return f->format == MT_FORMAT_SQLITE ? write_database(f, r, out, progress, interrupted)
                                         : write_text(f, r, out);
}
