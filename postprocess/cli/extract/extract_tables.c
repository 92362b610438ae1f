/* memtrace extract's tables: a database, a folder of files, or one of the tables. */
#define _GNU_SOURCE
#include "extract_tables.h"
#include "cli/base/feed.h"
#include "cli/base/stop.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the ranges ---- */

struct tables_pass {
    struct mt_tuples *w;
    const struct mt_comm_result *r;
    struct mt_touched ranges;
    uint64_t launch; /* UINT64_MAX: none yet */
    const char *why; /* of a failure that is not the table's */
};

/* The launch so far is over. */
static int tables_flush(struct tables_pass *x)
{
    return x->launch != UINT64_MAX ? mt_tuples_ranges(x->w, x->launch, &x->ranges) : 0;
}

static int tables_launch(void *self, const struct mt_run_launch *l)
{
    struct tables_pass *x = self;
    int bad = tables_flush(x);
    x->launch = l->superstep;
    return bad;
}

static int tables_selected(const struct tables_pass *x)
{
    return x->launch < x->r->comm->nlaunches && x->r->comm->launches[x->launch].selected;
}

static int tables_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct tables_pass *x = self;
    if (!tables_selected(x) || mt_touched_analysis.runs(&x->ranges, runs, n) == 0)
        return 0;
    x->why = "no memory for the ranges of a launch";
    return -1;
}

static const struct mt_analysis extract_ranges = {
    .needs = MT_NEEDS_ALL, .launch = tables_launch, .runs = tables_runs};

/* Another pass over the records. 0, or -1 after saying why. */
static int extract_tables_pass(struct mt_tuples *w, const struct mt_comm_result *r,
                               struct mt_progress *progress)
{
    struct tables_pass x = {.w = w, .r = r, .launch = UINT64_MAX};
    struct mt_feed f = {.source = r->source, .progress = progress, .again = 1};
    mt_feed_add(&f, &extract_ranges, &x, NULL);
    int rc = mt_feed_read(&f);
    if (rc != MT_FEED_FAILED && tables_flush(&x) != 0)
        rc = MT_FEED_FAILED;
    mt_touched_free(&x.ranges);
    if (x.why)
        mt_cli_say("%s", x.why);
    else if (rc == MT_FEED_FAILED)
        mt_cli_say("the table ranges: %s", w->why);
    else if (rc)
        mt_cli_say("%s", f.err.message);
    return rc ? -1 : 0;
}

/* The whole table; *interrupted becomes 1 when not all of it could be read. 0, or -1 after saying why. */
static int extract_tables_ranges(struct mt_tuples *w, const struct mt_comm_result *r,
                                 struct mt_progress *progress, int *interrupted)
{
    int rc = mt_tuples_begin(w, MT_REL_ranges);
    if (rc != 0)
        mt_cli_say("the table ranges: %s", w->why);
    if (rc == 0 && !mt_cli_stop)
        rc = extract_tables_pass(w, r, progress);
    if (rc == 0 && mt_tuples_end(w) != 0) {
        mt_cli_say("the table ranges: %s", w->why);
        rc = -1;
    }
    if (rc == 0 && mt_cli_stop) {
        *interrupted = 1;
        mt_cli_say("interrupted: not all ranges are in the output");
    }
    return rc;
}

/* One table. 0, or -1 after saying why. */
static int extract_tables_one(struct mt_tuples *w, enum mt_relation_number number,
                              const struct mt_comm_result *r, struct mt_progress *progress, int *interrupted)
{
    if (number == MT_REL_ranges)
        return extract_tables_ranges(w, r, progress, interrupted);
    if (mt_relation_write(w, number, r) == 0)
        return 0;
    mt_cli_say("the table %s: %s", mt_relations[number].name, w->why);
    return -1;
}

/* The order of the tables: meta is last, when it is known whether all is there. */
static enum mt_relation_number extract_tables_nth(int i)
{
    return i + 1 < MT_RELATIONS ? (enum mt_relation_number)(i + 1) : MT_REL_meta;
}

/* ---- database ---- */

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
    mt_stop_scratch(m->folder);
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
    return mt_output_end(out, rc, errno);
}

static void making_free(struct making *m)
{
    mt_stop_scratch(NULL);
    if (m->folder)
        mt_stop_remove(m->folder); /* the database is gone already if it was renamed */
    free(m->path);
    free(m->folder);
    free(m->target);
}

static int extract_tables_database(const struct mt_comm_result *r, struct mt_output *out,
                                   struct mt_progress *progress, int *interrupted)
{
    struct making m = {NULL, NULL, NULL};
    struct mt_comm_result result = *r;
    char why[300];
    int code = MT_EXIT_FAILURE, rc = 0;
    unsigned which = mt_relations_of(r->chosen);
    struct mt_db *db = NULL;
    if (making_begin(&m, out) != 0)
        goto out;
    if (!(db = mt_db_open(m.path, why, sizeof why))) {
        mt_cli_say("%s: %s", m.path, why);
        goto out;
    }
    for (int i = 0; rc == 0 && i < MT_RELATIONS; i++) {
        enum mt_relation_number number = extract_tables_nth(i);
        result.complete = *interrupted ? 0 : r->complete;
        if (which >> number & 1)
            rc = extract_tables_one(mt_db_rows(db), number, &result, progress, interrupted);
    }
    if (rc != 0)
        goto out;
    if (mt_db_finish(db) != 0) {
        mt_cli_say("%s: %s", m.path, mt_db_rows(db)->why);
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

/* ---- files ---- */

/* A table into an open output. Returns the exit code. */
static int extract_tables_file(enum mt_format format, enum mt_relation_number number,
                               const struct mt_comm_result *r, struct mt_output *out,
                               struct mt_progress *progress, int *interrupted)
{
    int code = mt_output_ready(out);
    FILE *f = code ? NULL : mt_output_stream(out);
    if (!f)
        return code ? code : MT_EXIT_FAILURE;
    struct mt_tuples_parquet parquet = {f, NULL};
    struct mt_tuples w = {.ops = format == MT_FORMAT_CSV ? &mt_tuples_as_csv : &mt_tuples_as_parquet,
                          .arg = format == MT_FORMAT_CSV ? (void *)f : &parquet};
    int failed = extract_tables_one(&w, number, r, progress, interrupted);
    mt_tuples_parquet_free(&parquet);
    code = mt_output_close(out, f);
    return failed ? MT_EXIT_FAILURE : code;
}

/* A file for each table, FOLDER/NAME.csv. Returns the exit code. */
static int extract_tables_files(enum mt_format format, const struct mt_comm_result *r, const char *folder,
                                struct mt_progress *progress, int *interrupted)
{
    struct mt_comm_result result = *r;
    unsigned which = mt_relations_of(r->chosen);
    int code = 0;
    for (int i = 0; code == 0 && i < MT_RELATIONS; i++) {
        enum mt_relation_number number = extract_tables_nth(i);
        struct mt_output out;
        char *path;
        if (asprintf(&path, "%s/%s.%s", folder, mt_relations[number].name,
                     format == MT_FORMAT_CSV ? "csv" : "parquet") < 0)
            return mt_cli_fail("no memory for a path");
        if (!(which >> number & 1)) {
            if (access(path, F_OK) == 0)
                mt_cli_say("%s: is of another run, it was not asked for now", path);
            free(path);
            continue;
        }
        result.complete = *interrupted ? 0 : r->complete;
        code = mt_output_open(&out, path);
        if (code == 0) {
            code = extract_tables_file(format, number, &result, &out, progress, interrupted);
            mt_output_abandon(&out);
            close(out.fd);
        }
        free(path);
    }
    return code;
}

static int folder_made; /* by us */

int mt_tables_folder(const char *folder)
{
    struct stat st;
    folder_made = mkdir(folder, 0777) == 0;
    if (!folder_made && errno != EEXIST)
        return mt_cli_refuse("%s: cannot be made: %s", folder, strerror(errno));
    if (stat(folder, &st) != 0 || !S_ISDIR(st.st_mode) || access(folder, W_OK | X_OK) != 0)
        return mt_cli_usage(
            "%s is not a folder to write to: tables are a file each; --table=NAME -o FILE writes one of them",
            folder);
    return 0;
}

int mt_tables_write(const struct mt_formats *f, const struct mt_comm_result *r, struct mt_output *out,
                    const char *output, struct mt_progress *progress, int *interrupted)
{
    if (f->format == MT_FORMAT_SQLITE)
        return extract_tables_database(r, out, progress, interrupted);
    if (!f->folder)
        return extract_tables_file(f->format, f->table, r, out, progress, interrupted);
    int code = extract_tables_files(f->format, r, output, progress, interrupted);
    if (code && folder_made)
        rmdir(output); /* if nothing is in it */
    return code;
}
