/* memtrace extract: analyses traces, and writes comm.json or another format. */
#define _GNU_SOURCE
#include "base/text.h"
#include "extract.h"
#include "cli/base/cli.h"
#include "base/part.h"
#include "memtrace/grow.h"
#include "output/json/comm_json.h"
#include "output/results/summary.h"
#include "analysis/check/findings.h"
#include "cli/base/commands.h"
#include "memtrace/container.h"
#include "memtrace/host.h"
#include "output/results/results.h"
#include "analysis/comm/session.h"
#include "cli/base/pipeline.h"
#include "analysis/check/memory.h"
#include "analysis/comm/addresses.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum mt_format {
    MT_FORMAT_JSON,
    MT_FORMAT_SQLITE,
    MT_FORMAT_CSV,
    MT_FORMAT_DOT,
    MT_FORMAT_TEXT,
    MT_FORMAT_PARQUET,
    MT_FORMAT_SUMMARY,
    MT_FORMAT_PERFETTO
};

struct mt_formats {
    enum mt_format format;
    enum mt_dot_by by;
    uint64_t top;
    const char *tag;
    enum mt_relation_number table; /* chosen by --table, if `one` */
    int one;
    int folder; /* 1: all tables, one file each; set by extract_formats_check */
};

/* Returns 1 if the result is tables, after extract_formats_check. */
static inline int extract_has_tables(const struct mt_formats *f)
{
    return f->format == MT_FORMAT_SQLITE || f->folder || f->one;
}

/* All launches and their places in the inputs. Zero-initialised is empty. */
struct mt_extract_share {
    struct mt_run_launch *launches; /* indexed by launch number */
    struct mt_span *spans;
    size_t count, room;
};

struct mt_extract {
    struct mt_pipeline p;
    const char *output;
    unsigned sections;           /* chosen sections, a bit per enum mt_section */
    struct mt_launch_ends *ends; /* ends of the inputs' launches, if each member reads a part */
    int by_parts;                /* 1: members may read parts; equal on all members */
    struct mt_json json;
    struct mt_addresses addresses;
    uint64_t superstep;            /* current launch of the members' pass */
    int no_addresses;              /* 1: reading was interrupted, so the section addresses is omitted */
    int many_addresses;            /* 1: too many addresses, so the section is omitted */
    struct mt_extract_share share; /* launches for members that read a part each */
    struct mt_joined joined;       /* traces that are on different machines; else empty */
    int sharing;                   /* 1: the other members wait for this one */
    int no_more;                   /* 1: the further analyses were interrupted */
    struct mt_formats formats;
    int shared;                   /* 1: the section shared is chosen */
    struct mt_check_memory bytes; /* memory checks for the summary, in one process only */
    int judges;                   /* 1: the summary needs these checks */
    struct mt_findings findings;
    int chosen; /* 1: --sections was given */
    int stats;  /* 1: --stats was given */
};

#define MT_MANY_ADDRESSES                                                                                    \
    "addresses are left out: more than 1000000 operations; -s all or -s addresses lists them"

/* ---- mpirun and srun: memtrace extract becomes mt-extract-mpi, which needs the MPI library; memtrace does
 * not ---- */

static long mpirun_number(const char *name)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

/* Returns 1 if Open MPI's mpirun, MPICH's or Slurm's srun started this process as one of several. A batch
 * script itself, in which Slurm sets the number of tasks, too, has no rank. */
static int one_of_several(void)
{
    return mpirun_number("OMPI_COMM_WORLD_SIZE") > 1 || mpirun_number("PMI_SIZE") > 1 ||
           (getenv("PMIX_RANK") && mpirun_number("SLURM_NTASKS") > 1);
}

/* Executes mt-extract-mpi, beside the running program, if this process is one of several ranks. Returns 0 if
 * it is not, or an exit code after a message. */
static int extract_hand_over(char **argv)
{
    char path[PATH_MAX];
    if (!one_of_several())
        return 0;
    if (mt_files_beside(path, "../libexec/memtrace/mt-extract-mpi") == 0)
        execv(path, argv);
    mt_cli_say("is one of several ranks of an MPI program, but mt-extract-mpi cannot be run: %s (it is built "
               "where MPI is found)",
               strerror(errno));
    return mt_cli_left_out("mpi");
}

/* ---- --format: other formats than JSON ---- */

#define TRANSFERS (1u << MT_TRANSFERS)
#define SENDERS (1u << MT_SENDERS)
#define ADDRESSES (1u << MT_ADDRESSES)

static int extract_formats_word(const char *value, const char *const *words, const char *option)
{
    int i = mt_cli_word(value, words);
    if (i < 0)
        mt_cli_usage("'%s' is nothing for %s", value, option);
    return i;
}

/* Returns 0, or an exit code after a message. */
static int extract_formats_option(struct mt_formats *f, int o, const char *value)
{
    static const char *const formats[] = {"json",    "sqlite",  "csv",      "dot", "text",
                                          "parquet", "summary", "perfetto", NULL};
    static const char *const nodes[] = {"kernel", "launch", "cta", NULL};
    int i;
    switch (o) {
    case MT_OPT_FORMAT:
        i = extract_formats_word(value, formats,
                                 "--format (json, sqlite, csv, dot, text, parquet, summary, perfetto)");
        f->format = i < 0 ? f->format : (enum mt_format)i;
        return i < 0 ? MT_EXIT_USAGE : 0;
    case MT_OPT_BY:
        i = extract_formats_word(value, nodes, "--by (kernel, launch, cta)");
        f->by = i < 0 ? f->by : (enum mt_dot_by)i;
        return i < 0 ? MT_EXIT_USAGE : 0;
    case MT_OPT_TAG:
        f->tag = value;
        return 0;
    case MT_OPT_TABLE:
        i = mt_cli_word(value, mt_relation_names);
        f->table = (enum mt_relation_number)i;
        f->one = i >= 0;
        return f->one ? 0 : mt_cli_usage("'%s' is not a table; the manual has a list of them", value);
    default:
        return mt_cli_number(value, 0, UINT64_MAX, &f->top)
                   ? 0
                   : mt_cli_usage("'%s' is not a number of edges", value);
    }
}

/* Chooses the tables: all available ones, or one. Returns 0, or an exit code after a message. */
static int extract_formats_tables(struct mt_formats *f, unsigned *sections, unsigned *more, int chosen,
                                  const char *output, unsigned *flags)
{
    int to_stdout = !output || strcmp(output, "-") == 0;
    if (f->format == MT_FORMAT_SQLITE && f->one)
        return mt_cli_usage("--table is for csv and parquet: a database has all tables");
    if (f->format == MT_FORMAT_SQLITE && to_stdout)
        return mt_cli_usage("a database needs a file: --format=sqlite -o FILE");
    if (f->folder && to_stdout)
        return mt_cli_usage("tables are a file each: -o FOLDER, or one of them with --table=NAME");
    if (f->one && f->format == MT_FORMAT_PARQUET && to_stdout && isatty(STDOUT_FILENO))
        return mt_cli_usage("a Parquet file is not written to a terminal: give -o FILE");
    if (chosen && *sections == ADDRESSES)
        return mt_cli_usage(
            "the section addresses is not a table; the table ranges says who touched which bytes");
    if (f->one)
        *more |= mt_relations_section(f->table);
    *sections = TRANSFERS;
    if (!f->one || f->table == MT_REL_ranges)
        *flags |= MT_SOURCE_REWIND;
    return 0;
}

/* Checks that the options are compatible, after all were read. Chooses sections unless the user did
 * (`chosen`), the further analyses that a table needs (*more, a bit each), and the source's flags. */
static int extract_formats_check(struct mt_formats *f, unsigned *sections, unsigned *more, int chosen,
                                 const char *output, unsigned *flags)
{
    struct stat st;
    size_t n = output ? strlen(output) : 0;
    if (f->one && f->format != MT_FORMAT_CSV && f->format != MT_FORMAT_PARQUET &&
        f->format != MT_FORMAT_SQLITE)
        return mt_cli_usage("--table is for --format=csv and parquet");
    /* A CSV file contains one table; several are written to a folder, as with Parquet. */
    int several = *more || (chosen && !(*sections & ADDRESSES) && mt_csv_tables(*sections) > 1);
    f->folder =
        !f->one && (f->format == MT_FORMAT_PARQUET ||
                    (f->format == MT_FORMAT_CSV && n && strcmp(output, "-") != 0 &&
                     (several || output[n - 1] == '/' || (stat(output, &st) == 0 && S_ISDIR(st.st_mode)))));
    if (extract_has_tables(f))
        return extract_formats_tables(f, sections, more, chosen, output, flags);
    switch (f->format) {
    case MT_FORMAT_CSV:
        if (*more)
            return mt_cli_usage(
                "the further analyses are several tables: -o FOLDER, or one of them with --table=NAME");
        if (!chosen)
            *sections = TRANSFERS - 1;
        if (*sections & ADDRESSES)
            return mt_cli_usage(
                "the section addresses is not a table; take --format=json, or --table=ranges");
        if (chosen && *sections == SENDERS)
            return mt_cli_usage(
                "the section senders is not a table; take --format=json, or --table=cta_volumes");
        if (mt_csv_tables(*sections) > 1)
            return mt_cli_usage(
                "a CSV file holds one table: volumes (-s KCV,…) or -s transfers; all tables: -o FOLDER");
        return 0;
    case MT_FORMAT_TEXT:
        *sections &= ~ADDRESSES;
        return 0;
    case MT_FORMAT_PERFETTO:
    case MT_FORMAT_SUMMARY:
        if (chosen)
            return mt_cli_usage(
                "--sections does not apply to summary and perfetto: they take what they need");
        *sections = TRANSFERS;
        if (f->format == MT_FORMAT_SUMMARY)
            *more = (1u << MT_LOCALITY_SECTIONS) - 1;
        return 0;
    case MT_FORMAT_DOT:
        if (*more || (chosen && *sections != TRANSFERS))
            return mt_cli_usage("--format=dot draws transfers, no other section");
        *sections = TRANSFERS;
        return 0;
    default:
        return 0;
    }
}

/* Writes one table of volumes or transfers (CSV), or a graph (DOT). Returns the exit code. */
static int extract_formats_write(const struct mt_formats *f, const struct mt_comm_result *r,
                                 struct mt_output *out)
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

/* ---- Tables: a database, a folder of files, or a single table ---- */

/* ---- table of ranges ---- */

struct tables_pass {
    struct mt_tuples *w;
    const struct mt_comm_result *r;
    struct mt_touched ranges;
    uint64_t launch; /* launch being read; UINT64_MAX: none yet */
    const char *why; /* reason of a failure outside the table */
};

/* Writes the ranges of the finished launch. */
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

/* Reads the records again. Returns 0, or -1 after a message. */
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

/* Writes the whole table; *interrupted becomes 1 if not all could be read. Returns 0, or -1 after a message.
 */
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

/* Writes one table. Returns 0, or -1 after a message. */
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

/* Returns the i-th table in output order: meta is last, when completeness is known. */
static enum mt_relation_number extract_tables_nth(int i)
{
    return i + 1 < MT_RELATIONS ? (enum mt_relation_number)(i + 1) : MT_REL_meta;
}

/* ---- database ---- */

/* A database being written to a file in a temporary folder, usually beside the output, since SQLite needs a
 * path. */
struct making {
    char *folder, *path;
    char *target; /* regular file that the database will replace, links resolved; NULL: none */
};

/* Returns 1 if `path` itself is the regular file behind `fd`. */
static int is_file_of(const char *path, int fd, mode_t *mode)
{
    struct stat a, b;
    if (lstat(path, &a) != 0 || fstat(fd, &b) != 0 || !S_ISREG(a.st_mode))
        return 0;
    *mode = b.st_mode & 0777;
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Returns 0, or -1 after a message. */
static int extract_making_begin(struct making *m, const struct mt_output *out)
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
    if (!m->folder || !mkdtemp(m->folder)) { /* nothing can be created beside it */
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

/* Replaces the target, so that readers find either the old or the new database. Output that is no regular
 * file is written by copying, since a rename would replace a device by a file. Returns 0, or an exit code. */
static int extract_making_end(struct making *m, struct mt_output *out)
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
        mt_stop_remove(m->folder); /* after a rename the database is no longer there */
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
    if (extract_making_begin(&m, out) != 0)
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
    code = extract_making_end(&m, out);
out:
    mt_db_close(db);
    making_free(&m);
    return code;
}

/* ---- files ---- */

/* Writes a table to an open output. Returns the exit code. */
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

/* Writes a file for each table, FOLDER/NAME.csv. Returns the exit code. */
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
                mt_cli_say("%s: is of another run and was not written now", path);
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

static int folder_made; /* 1: we created the folder */

/* Creates FOLDER if it is missing. Returns 0, or an exit code after a message. */
static int extract_tables_folder(const char *folder)
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

/* Writes the tables (see extract_has_tables) to `output`, FILE or FOLDER. Returns the exit code; *interrupted
 * 1: not all ranges were read. */
static int extract_tables_write(const struct mt_formats *f, const struct mt_comm_result *r,
                                struct mt_output *out, const char *output, struct mt_progress *progress,
                                int *interrupted)
{
    if (f->format == MT_FORMAT_SQLITE)
        return extract_tables_database(r, out, progress, interrupted);
    if (!f->folder)
        return extract_tables_file(f->format, f->table, r, out, progress, interrupted);
    int code = extract_tables_files(f->format, r, output, progress, interrupted);
    if (code && folder_made)
        rmdir(output); /* succeeds only if the folder is empty */
    return code;
}

/* ---- The further analyses in parts: each member of the team analyses its part of the trace, and the
 * reporting member combines all ---- */

/* Notes a launch that nobody has read, just passed to `x`. Returns 0, or -1 without memory. Does nothing if
 * no analysis of runs was chosen. */
static int extract_share_note(struct mt_extract_share *s, const struct mt_locality_run *x,
                              const struct mt_span *span)
{
    if (!mt_locality_run_of_runs(x))
        return 0;
    size_t room = s->room; /* capacity of both arrays */
    if (mt_grow(&s->launches, &room, s->count + 1, sizeof *s->launches) != 0 ||
        mt_grow(&s->spans, &s->room, s->count + 1, sizeof *s->spans) != 0)
        return -1;
    s->launches[s->count] = x->launch;
    s->spans[s->count++] = *span;
    return 0;
}

static char *extract_share_pack(const struct mt_share *s, size_t *n)
{
    const struct mt_locality_run *x = s->self;
    struct mt_parcel p;
    mt_parcel_init(&p, s->launches, s->n);
    mt_locality_pack(&p, &x->more);
    char *data = p.failed ? NULL : p.data;
    *n = p.used;
    if (data)
        p.data = NULL;
    mt_parcel_free(&p);
    return data;
}

static int extract_share_merge(const struct mt_share *s, const char *data, size_t n)
{
    struct mt_locality_run *x = s->self;
    struct mt_locality *m = &x->more, from;
    struct mt_unpack u = {data, data + n, 0, s->launches, s->n};
    int rc = mt_locality_init(&from, &m->options, m->allocs, m->nallocs);
    if (rc == 0)
        mt_locality_unpack(&u, &from);
    rc = rc == 0 && !u.failed ? mt_locality_merge(m, &from) : -1;
    mt_locality_free(&from);
    return rc;
}

/* Analyses all parts, on all members together, after the last launch; `apart`: each has analysed its traces
 * already. The reporting member receives the results. Returns 0, 1 if the user stopped it (no results), or
 * -1, see mt_team_why. */
static int mt_extract_share(struct mt_extract_share *s, struct mt_locality_run *x,
                            const struct mt_session *session, struct mt_team *team, int apart)
{
    const struct mt_share share = {&mt_locality_run_analysis, x, s->launches, s->count, extract_share_pack,
                                   extract_share_merge};
    if (!mt_locality_run_of_runs(x))
        return 0;
    int rc = apart ? 0 : session->share(team, s->spans, &share);
    return rc ? rc : session->fold(team, &share);
}

static void extract_share_free(struct mt_extract_share *s)
{
    free(s->launches);
    free(s->spans);
    memset(s, 0, sizeof *s);
}

/* ---- The command line ---- */

static const struct mt_command command = {
    .of = MT_OF_EXTRACT,
    .before =
        "Usage: memtrace extract [OPTION]... TRACE...\n"
        "Extracts communication between CTAs from memory traces. A loaded byte is communication "
        "if its\n"
        "last writer is another CTA of the same launch or any CTA of an earlier launch.\n"
        "\n"
        "  memtrace extract /tmp/MemTrace-pipe-0 > comm.json     one CUDA stream\n"
        "  memtrace extract -o comm.json /tmp/MemTrace-pipe-*    all streams of a program, in launch order\n"
        "  memtrace extract -o comm.json run-2                   a folder: all of the newest run in it\n"
        "  mkfifo /tmp/MemTrace-pipe-0; ./app & memtrace extract /tmp/MemTrace-pipe-0 > comm.json   while it "
        "runs\n"
        "  zstd -dc trace.zst | memtrace extract - > comm.json   from a pipe\n"
        "  memtrace extract MemTrace-pipe-0 MemTrace-host.mtc > comm.json   kernels and the host code around "
        "them\n"
        "  jq '.KCV' comm.json                                   loads and stores per kernel and launch\n"
        "\n"
        "TRACE is a file, a FIFO, or - for standard input. TRACE.meta, the companion that the traced program "
        "wrote, is\n"
        "read when it exists: it orders the launches of several streams and says what the host copied. A "
        "host trace\n"
        "(compact container, .mtc) of the same process may be among the TRACEs: then the host is shown by "
        "file and\n"
        "line, and copied bytes keep their writers.\n"
        "\n"
        "What comes out:\n"
        "  KDV CDV SDV   data volume: all bytes loaded and stored, per kernel, CTA and SM of each superstep "
        "(launch)\n"
        "  KCV CCV SCV   communication volume: of these, the bytes that are communication\n"
        "  HDV HCV       the same for host code, per file:line (with a host trace only)\n"
        "  transfers     source kernel, CTA, superstep -> reader's kernel, CTA, superstep: bytes and "
        "accesses\n"
        "  senders       the communication loaded by each launch, by who wrote it: the three kinds, told "
        "apart\n"
        "  addresses     each address involved in communication with all operations on it (a second pass: "
        "the slow one)\n"
        "Without being named, of a trace made with MEMTRACE_SAMPLE: estimates, data volumes scaled to all "
        "CTAs.\n"
        "Further analyses, only when --sections names them:\n"
#define MT_ANALYSIS(NAME, name, cost, every, what) what
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS
        "  placement     bytes that would cross between devices if the CTAs ran on several\n"
        "  shared        bank conflicts and hazards of shared memory, and bytes of local memory (only JSON "
        "and text,\n                for programs built with --mt-spaces=global,shared,local)\n",
    .after = "Under mpirun or srun the ranks share the work: raw traces and compact ones with an index are "
             "read by parts,\n"
             "damaged ones and host traces by every rank, those of a job on several machines where they "
             "lie (docs/mpi.md).\n"
             "\n"
             "Exit code: 0 fine, 1 failure, 2 wrong usage, 3 the trace is truncated, corrupt or incomplete, "
             "or reading was\n"
             "interrupted (Ctrl-C): what was whole is in the output, which then says \"complete\": false and "
             "why.\n"
             "Definitions with a worked example: docs/definitions.md.\n",
};

static int no_section(const char *text, size_t n)
{
    const char *all[MT_SECTIONS + MT_LOCALITY_SECTIONS + 5] = {"all", "quick", "more", "shared"};
    memcpy(all + 4, mt_section_names, sizeof mt_section_names);
    memcpy(all + 4 + MT_SECTIONS, mt_locality_names, sizeof mt_locality_names);
    mt_cli_hint(text, n, all);
    return mt_cli_usage("'%.*s' is not a section", (int)n, text);
}

static int parse_sections(struct mt_extract *x, const char *text)
{
    x->sections = x->p.more.options.chosen = 0;
    x->shared = 0;
    while (*text) {
        size_t n = strcspn(text, ",");
        unsigned i = 0;
        while (i < MT_SECTIONS &&
               (strlen(mt_section_names[i]) != n || strncasecmp(text, mt_section_names[i], n) != 0))
            i++;
        if (i < MT_SECTIONS)
            x->sections |= 1u << i;
        else if (n == 3 && strncasecmp(text, "all", 3) == 0)
            x->sections |= (1u << MT_SECTIONS) - 1;
        else if (n == 5 && strncasecmp(text, "quick", 5) == 0)
            x->sections |= ((1u << MT_SECTIONS) - 1) & ~(1u << MT_ADDRESSES);
        else if (n == 6 && strncasecmp(text, "shared", 6) == 0)
            x->shared = 1;
        else if (!mt_locality_run_section(&x->p.more, text, n))
            return no_section(text, n);
        text += n + (text[n] == ',');
    }
    return x->sections | x->p.more.options.chosen | (unsigned)x->shared ? 0
                                                                        : mt_cli_usage("no section chosen");
}

static int extract_option(void *arg, int o)
{
    struct mt_extract *x = arg;
    switch (o) {
    case MT_OPT_OUTPUT:
        x->output = optarg;
        return 0;
    case MT_OPT_SECTIONS:
        x->chosen = 1;
        return parse_sections(x, optarg);
    case MT_OPT_FORMAT:
    case MT_OPT_BY:
    case MT_OPT_EDGES:
    case MT_OPT_TAG:
    case MT_OPT_TABLE:
        return extract_formats_option(&x->formats, o, optarg);
    case MT_OPT_STATS:
        x->stats = 1;
        return 0;
    default:
        return mt_pipeline_option(&x->p, o);
    }
}

/* ---- Writing the result: JSON, text, or another format ---- */

/* Reports the failure; returns the exit code. */
static int extract_addresses_failed(const struct mt_addresses *a)
{
    return mt_cli_fail("%s%s%s", a->why ? a->why : "no memory for the addresses", a->sys ? ": " : "",
                       a->sys ? strerror(a->sys) : "");
}

/* Writes launches that are library calls: {"cublasSgemm": "cublas"}. */
static void write_libraries(struct mt_extract *x)
{
    const char *seen[512];
    size_t n = 0;
    for (size_t i = 0; x->p.events && i < x->p.comm->nlaunches && n < sizeof seen / sizeof *seen; i++) {
        const struct mt_launch_event *e = x->p.events[i];
        size_t k = 0;
        if (!e || !*e->library)
            continue;
        while (k < n && strcmp(seen[k], e->kernel) != 0)
            k++;
        if (k < n)
            continue;
        if (!n)
            mt_json_object(&x->json, "libraries", 1);
        seen[n++] = e->kernel;
        mt_json_text(&x->json, e->kernel, e->library);
    }
    if (n)
        mt_json_end(&x->json);
}

static int extract_gaps(struct mt_extract *x, struct mt_gaps *gaps)
{
    return mt_gaps_find(gaps, x->p.source, x->p.comm, mt_locality_run_traffic(&x->p.more));
}

static void write_head(struct mt_extract *x, int complete, uint64_t untraced, uint64_t untraced_launches,
                       const struct mt_gaps *gaps)
{
    struct mt_json *j = &x->json;
    size_t notes;
    int ignored;
    const char *const *note = mt_source_notes(x->p.source, &notes, &ignored);
    mt_json_text(j, "format", "memtrace-comm");
    mt_json_u64(j, "version", 1);
    mt_json_array(j, "inputs", 1);
    for (size_t i = 0; i < x->p.inputs.npaths; i++)
        mt_json_text(j, NULL, x->p.inputs.paths[i]);
    mt_json_end(j);
    mt_json_known(j, "complete", complete);
    mt_json_array(j, "notes", 0);
    for (size_t i = 0; i < notes; i++)
        mt_json_text(j, NULL, note[i]);
    if (x->no_addresses)
        mt_json_text(j, NULL, "addresses are left out: reading was interrupted");
    if (x->many_addresses)
        mt_json_text(j, NULL, MT_MANY_ADDRESSES);
    if (x->no_more)
        mt_json_text(j, NULL, "the further analyses are left out: reading was interrupted");
    for (int i = 0; i < MT_LOCALITY_RUN_NOTES; i++)
        if (x->p.more.notes[i][0])
            mt_json_text(j, NULL, x->p.more.notes[i]);
    mt_json_end(j);
    mt_json_object(j, "options", 1);
    mt_json_text(j, "same-cta", x->p.options.local ? "local" : "instance");
    mt_json_bool(j, "strict", x->p.options.strict);
    mt_json_bool(j, "host", !(x->p.inputs.flags & MT_SOURCE_NO_HOST));
    mt_json_text(j, "kernels", x->p.filter.kernels_text);
    mt_json_text(j, "supersteps", x->p.filter.supersteps_text);
    mt_json_end(j);
    mt_json_u64(j, "launches", x->p.comm->nlaunches);
    mt_json_u64(j, "records", x->p.comm->records);
    if (x->p.options.host)
        mt_json_u64(j, "host_accesses", x->p.comm->host_accesses);
    mt_json_u64(j, "unknown", x->p.comm->unknown);
    mt_json_u64(j, "untraced", untraced);
    mt_json_u64(j, "untraced_launches", untraced_launches);
    mt_gaps_write(j, gaps);
    write_libraries(x);
}

/* Writes the section addresses. Returns 0, 1 if it was cut short, or -1 with *code after a message. */
static int write_addresses(struct mt_extract *x, int *code)
{
    struct mt_json *j = &x->json;
    mt_json_object(j, mt_section_names[MT_ADDRESSES], 0);
    int rc = x->no_addresses ? 0 : mt_addresses_write(j, &x->addresses, x->p.comm, &mt_cli_stop);
    mt_json_end(j);
    if (rc < 0)
        *code = extract_addresses_failed(&x->addresses);
    if (rc > 0 && !j->error) { /* the head was written */
        mt_cli_say("interrupted: not all addresses are in the output");
        mt_json_bool(j, "interrupted", 1);
    }
    return rc;
}

/* Returns the input of the writers; notes has room for MT_LOCALITY_RUN_NOTES. */
static struct mt_comm_result extract_result(const struct mt_extract *x, int complete, const char **notes)
{
    struct mt_comm_result r = mt_pipeline_result(&x->p, complete, notes);
    r.sections = x->sections;
    r.tag = x->formats.tag;
    return r;
}

static int extract_sentences(struct mt_extract *x, FILE *f, const struct mt_comm_result *r)
{
    struct mt_summary s = {.n = 0};
    int rc = mt_summary_of(&s, r, &x->findings);
    if (rc == 0)
        mt_summary_print(&s, f);
    mt_summary_free(&s);
    return rc;
}

static void extract_locality_head(const struct mt_locality_run *x, FILE *f, const struct mt_comm *comm,
                                  const struct mt_extract_text *head)
{
    const size_t launches = mt_comm_reported_launches(comm);
    if (launches < comm->nlaunches)
        fprintf(f, "%zu of the run's ", launches);
    if (!comm->options.threads)
        fprintf(f, "%zu launches, ", comm->nlaunches);
    else if (comm->nlaunches > 1)
        fprintf(f, "%zu programs, ", comm->nlaunches);
    if (comm->reported < comm->records)
        fprintf(f, "%" PRIu64 " of its ", comm->reported);
    fprintf(f, "%" PRIu64 " accesses%s", comm->records, comm->reported > comm->records ? " in all" : "");
    if (comm->options.threads)
        fputs(" of host code", f);
    else if (comm->options.host)
        fprintf(f, ", %" PRIu64 " of host code", comm->host_accesses);
    fprintf(f, "%s\n",
            head->complete > 0 ? ""
            : head->complete   ? "; it is not known whether that is all"
                               : "; INCOMPLETE");
    for (size_t i = 0; i < head->nnotes; i++)
        fprintf(f, "note: %s\n", head->notes[i]);
    for (int i = 0; i < MT_LOCALITY_RUN_NOTES; i++)
        if (x->notes[i][0])
            fprintf(f, "note: %s\n", x->notes[i]);
    for (int i = 0; i < MT_GAPS; i++)
        if (head->gaps.sentence[i]) {
            fputs("note: ", f);
            mt_text_put(f, head->gaps.sentence[i]);
            fputc('\n', f);
        }
}

/* Writes text tables or the summary. Returns 0, or -1 without memory. */
static int extract_text(struct mt_extract *x, FILE *f, int complete)
{
    int ignored, rc;
    const char *more[MT_LOCALITY_RUN_NOTES];
    struct mt_extract_text head = {.complete = complete};
    head.notes = mt_source_notes(x->p.source, &head.nnotes, &ignored);
    if ((rc = extract_gaps(x, &head.gaps)) == 0 &&
        (rc = mt_estimates_gather(&x->p.estimates, x->p.source, x->p.inputs.npaths)) == 0 &&
        (rc = mt_comm_merged(x->p.comm)) == 0) {
        const struct mt_comm_result r = extract_result(x, complete, more);
        extract_locality_head(&x->p.more, f, x->p.comm, &head);
        rc = x->formats.format == MT_FORMAT_TEXT
                 ? mt_results_text(f, &r, x->p.more.rows, x->shared ? &x->p.onchip : NULL)
                 : extract_sentences(x, f, &r);
    }
    mt_gaps_free(&head.gaps);
    return rc;
}

static int extract_write_text(struct mt_extract *x, int complete)
{
    int code = mt_output_ready(&x->p.out);
    FILE *f = code ? NULL : mt_output_stream(&x->p.out);
    if (!f)
        return code ? code : MT_EXIT_FAILURE;
    int failed = extract_text(x, f, complete);
    if (failed)
        mt_cli_say("no memory to sort the results");
    code = mt_output_close(&x->p.out, f);
    return failed ? MT_EXIT_FAILURE : code;
}

/* Writes the result as JSON, as text, or in another format. Returns the exit code; `complete` becomes 0 if
 * not all was written. */
static int extract_write(struct mt_extract *x, int complete)
{
    struct mt_json *j = &x->json;
    uint64_t untraced, untraced_launches;
    const char *notes[MT_LOCALITY_RUN_NOTES];
    struct mt_error err;
    struct mt_gaps gaps;
    int cut = 0, code = mt_output_ready(&x->p.out);
    if (code)
        return code;
    if (mt_source_untraced(x->p.source, &untraced, &untraced_launches, &err) != 0)
        return mt_cli_failed(&err);
    if (extract_gaps(x, &gaps) != 0) {
        mt_gaps_free(&gaps);
        return mt_cli_fail("no memory for the notes");
    }
    mt_json_open(j, x->p.out.fd);
    mt_json_object(j, NULL, 0);
    write_head(x, complete, untraced, untraced_launches, &gaps);
    mt_gaps_free(&gaps);
    const struct mt_comm_result r = extract_result(x, complete, notes);
    if (mt_estimates_gather(&x->p.estimates, x->p.source, x->p.inputs.npaths) != 0 ||
        mt_estimates_write(j, &r) != 0 || mt_comm_write(j, x->p.comm, x->sections) != 0 ||
        mt_locality_write(j, &r, 1) != 0)
        return mt_cli_fail("no memory to sort the results");
    if (x->shared)
        mt_shared_json(j, &x->p.onchip);
    if (x->sections & 1u << MT_ADDRESSES && !x->many_addresses)
        cut = write_addresses(x, &code);
    mt_json_end(j);
    int failed = mt_output_json(&x->p.out, j);
    return failed ? failed : code ? code : cut ? MT_EXIT_INPUT : 0;
}

static int extract_timeline(struct mt_extract *x, const struct mt_comm_result *r)
{
    int code = mt_output_ready(&x->p.out);
    if (code)
        return code;
    mt_json_open(&x->json, x->p.out.fd);
    int failed = mt_timeline_write(&x->json, r);
    if ((code = mt_output_json(&x->p.out, &x->json)) != 0)
        return code;
    return failed ? mt_cli_fail("no memory for the timeline") : 0;
}

static int extract_write_other(struct mt_extract *x, int *complete)
{
    const char *notes[MT_LOCALITY_RUN_NOTES];
    struct mt_comm_result r = extract_result(x, *complete, notes);
    if (mt_comm_merged(x->p.comm) != 0)
        return mt_cli_fail("no memory for the transfers");
    if (x->formats.format == MT_FORMAT_PERFETTO)
        return extract_timeline(x, &r);
    if (!extract_has_tables(&x->formats))
        return extract_formats_write(&x->formats, &r, &x->p.out);
    int interrupted = 0,
        code = extract_tables_write(&x->formats, &r, &x->p.out, x->output, &x->p.progress, &interrupted);
    if (interrupted)
        *complete = 0;
    return code;
}

static int session_agree(const struct mt_session *s, int code)
{
    return s ? s->agree(code) : code;
}

static int session_members(const struct mt_session *s)
{
    return s ? s->members() : 1;
}

static int session_reports(const struct mt_session *s)
{
    return !s || s->reports();
}

enum { ADDRESSES_BUDGET = 1 << 30 }; /* bytes of memory for the operations of section addresses */
enum { ADDRESSES_MOST = 1000000 };   /* operations that are listed by default, about 100 MB of JSON */
#define DATA_VOLUMES (1u << MT_KDV | 1u << MT_CDV | 1u << MT_SDV | 1u << MT_HDV)

/* ---- reading ---- */

/* Notes parts for the members to read, which are not read here. */
static int extract_place(void *self, const struct mt_item *item)
{
    struct mt_extract *x = self;
    const struct mt_run_launch *l = &x->p.feed.launch;
    const struct mt_span span = {x->p.inputs.paths[item->input], item->offset, item->count,
                                 item->kind == MT_ITEM_RUNS, l->selected};
    if (x->p.session->span(x->p.team, &span) != 0)
        return -1;
    if (extract_share_note(&x->share, &x->p.more, &span) == 0)
        return 0;
    x->p.why = "no memory for the further analyses";
    return -1;
}

/* Notes launches for members that have traces of their own. */
static int extract_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_extract *x = self;
    const struct mt_span none = {.count = 0};
    return extract_share_note(&x->share, &x->p.more, &none);
}

static const struct mt_analysis extract_launches = {.needs = MT_NEEDS_ALL, .launch = extract_launch};

static const struct mt_analysis extract_places = {.needs = MT_NEEDS_ALL | MT_NEEDS_PLACES,
                                                  .place = extract_place};

/* Returns 1 if the section was not requested, and would be longer than most tools can load. */
static int too_many_addresses(struct mt_extract *x)
{
    x->many_addresses =
        !x->chosen && (x->p.comm->keys.count > ADDRESSES_MOST || x->addresses.operations > ADDRESSES_MOST);
    return x->many_addresses;
}

static int address_launch(void *self, const struct mt_run_launch *l)
{
    struct mt_extract *x = self;
    x->superstep = l->superstep;
    return 0;
}

static int address_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_extract *x = self;
    return mt_addresses_runs(&x->addresses, runs, n, x->superstep);
}

static int address_records(void *self, const struct mt_raw_record *records, size_t n)
{
    struct mt_extract *x = self;
    return mt_addresses_records(&x->addresses, records, n, x->superstep);
}

static int address_enough(void *self)
{
    return mt_cli_stop || too_many_addresses(self);
}

static const struct mt_analysis extract_addresses = {.needs = MT_NEEDS_ALL,
                                                     .launch = address_launch,
                                                     .runs = address_runs,
                                                     .records = address_records,
                                                     .enough = address_enough};

/* Reads all records a second time, to find the operations on addresses found in the first pass. */
static int address_pass(struct mt_extract *x)
{
    struct mt_feed f = {.source = x->p.source, .progress = &x->p.progress, .again = 1};
    if (too_many_addresses(x))
        return 0;
    const uint64_t quarter = mt_memory_look(NULL).left / 4;
    if (mt_keyset_index(&x->p.comm->keys) != 0 ||
        mt_addresses_init(&x->addresses, &x->p.comm->keys,
                          quarter < ADDRESSES_BUDGET ? quarter : ADDRESSES_BUDGET) != 0)
        return extract_addresses_failed(&x->addresses);
    if (x->p.comm->keys.count == 0)
        return 0;
    mt_feed_add(&f, &extract_addresses, x, NULL);
    int rc = mt_feed_read(&f);
    if (rc == MT_FEED_FAILED)
        return extract_addresses_failed(&x->addresses);
    if (rc)
        return mt_feed_failed(&f, rc);
    if (!mt_cli_stop && !x->many_addresses && x->addresses.records != x->p.comm->records)
        return mt_cli_fail("the input changed while it was read");
    return 0;
}

static int once_more(struct mt_extract *x);

/* Finishes the work that members do together. Returns the exit code. */
static int extract_share(struct mt_extract *x)
{
    if ((!x->p.inputs.ends && !x->p.joined) || !mt_locality_run_of_runs(&x->p.more))
        return 0;
    mt_comm_forget(x->p.comm);
    x->sharing = 1;
    int rc = mt_session_stopped(x->p.session, x->p.team)
                 ? 1
                 : mt_extract_share(&x->share, &x->p.more, x->p.session, x->p.team, x->p.joined != NULL);
    if (rc < 0)
        return mt_cli_fail("%s", mt_team_why(x->p.team));
    x->sharing = 0;
    x->no_more = rc > 0;
    if (x->no_more && mt_session_stopped(x->p.session, x->p.team))
        mt_source_stop(x->p.source);
    return 0;
}

/* Removes the analyses of runs, because they were not fed. */
static void extract_locality_drop(struct mt_locality_run *x)
{
    x->options.chosen &= 1u << MT_LOCALITY_PLACEMENT;
    x->more.options.chosen = x->options.chosen;
}

/* Returns 1 in the reporting member, after a message, if a trace of another one is damaged. Jointly. */
static int extract_elsewhere(struct mt_extract *x)
{
    char why[512];
    size_t n;
    const struct mt_error *problem = mt_source_problems(x->p.source, &n);
    int reports = session_reports(x->p.session),
        any = x->p.session->any(n && !reports, n ? problem->message : "", why, sizeof why);
    if (any && reports)
        mt_cli_say("%s", why);
    return any;
}

static int extract_run(struct mt_extract *x)
{
    int complete, code = mt_pipeline_read(&x->p);
    if (code && x->p.inputs.ends && mt_session_again(x->p.session, x->p.team))
        code = once_more(x);
    if (code == 0)
        code = extract_share(x);
    int elsewhere = code == 0 && x->p.joined && extract_elsewhere(x);
    if (code || !session_reports(x->p.session))
        return code;
    int input = mt_inputs_finish(x->p.source, &complete), known = complete;
    complete = elsewhere ? 0 : complete;
    if (!x->p.options.host)
        mt_filter_explain(&x->p.filter, x->p.comm->nlaunches, mt_comm_reported_launches(x->p.comm));
    /* Transfers must not depend on the number of threads. */
    if (mt_locality_run_has(&x->p.more, MT_LOCALITY_PLACEMENT) && mt_comm_merged(x->p.comm) != 0)
        x->p.why = "no memory to sort the transfers";
    if (x->no_more) {
        mt_cli_say("interrupted: the further analyses are left out");
        extract_locality_drop(&x->p.more);
    }
    if (!x->p.why && mt_locality_run_finish(&x->p.more, x->p.comm) != 0)
        x->p.why = "no memory for the further analyses";
    if (!x->p.why && x->judges && mt_check_events(&x->findings, x->p.source) != 0)
        x->p.why = "no memory to follow the bytes";
    mt_findings_finish(&x->findings);
    if (x->p.why)
        return mt_cli_fail("%s", x->p.why);
    if (x->sections & 1u << MT_ADDRESSES) {
        mt_comm_forget(x->p.comm);
        if (!mt_cli_stop && (code = address_pass(x)) != 0)
            return code;
        if (x->many_addresses)
            mt_cli_say("%s", MT_MANY_ADDRESSES);
        if (mt_cli_stop) {
            mt_cli_say("interrupted: addresses are left out");
            x->no_addresses = 1;
            complete = 0;
        }
    }
    code = x->formats.format == MT_FORMAT_JSON ? extract_write(x, complete)
           : x->formats.format == MT_FORMAT_TEXT || x->formats.format == MT_FORMAT_SUMMARY
               ? extract_write_text(x, complete)
               : extract_write_other(x, &complete);
    return code ? code : input ? input : complete == known ? MT_EXIT_OK : MT_EXIT_INPUT;
}

/* Checks that each rank reads the inputs itself. */
static int check_inputs(const struct mt_extract *x)
{
    struct stat st;
    for (size_t i = 0; session_members(x->p.session) > 1 && i < x->p.inputs.npaths; i++)
        if (strcmp(x->p.inputs.paths[i], "-") == 0 ||
            (stat(x->p.inputs.paths[i], &st) == 0 && !S_ISREG(st.st_mode)))
            return mt_cli_usage("%s is not a regular file: several ranks cannot all read it",
                                x->p.inputs.paths[i]);
    return 0;
}

/* Returns 0, or MT_EXIT_USAGE after a message if no input can contain accesses to shared or local memory. */
static int extract_has_spaces(const struct mt_inputs *in)
{
    for (size_t i = 0; i < in->npaths; i++)
        if (strcmp(in->paths[i], "-") == 0)
            return 0;
    if (mt_inputs_spaces(in))
        return 0;
    return mt_cli_usage(
        "%s: has no records of shared or local memory: its kernels use none, or were not compiled with "
        "--mt-spaces=global,shared,local (memtrace run: --spaces) and run with MEMTRACE_FORMAT=compact",
        in->npaths ? in->paths[0] : "no input");
}

/* Decides whether launches excluded by the filter are skipped in a trace with an index. They are read if
 * results need them: earlier launches write what is transferred, later loads make stores communication, and
 * the footprint and placement cover the whole run. */
static void extract_passes(struct mt_extract *x)
{
    const int text = x->formats.format == MT_FORMAT_TEXT; /* text shows both kinds of volume */
    const unsigned few = 1u << MT_TRANSFERS | (text ? 0 : DATA_VOLUMES);
    if ((x->formats.format != MT_FORMAT_JSON && !text) || x->sections & ~few ||
        mt_locality_run_has(&x->p.more, MT_LOCALITY_REUSE) ||
        mt_locality_run_has(&x->p.more, MT_LOCALITY_PLACEMENT))
        return;
    x->p.inputs.first = x->sections & 1u << MT_TRANSFERS ? 0 : x->p.filter.first;
    x->p.inputs.end = x->p.filter.end;
}

static void extract_wants(struct mt_extract *x)
{
    static const unsigned wants[MT_SECTIONS] = {
        [MT_KCV] = MT_WANTS_COMM,           [MT_CCV] = MT_WANTS_COMM,     [MT_SCV] = MT_WANTS_COMM,
        [MT_HCV] = MT_WANTS_COMM,           [MT_SENDERS] = MT_WANTS_COMM, [MT_TRANSFERS] = MT_WANTS_TRANSFERS,
        [MT_ADDRESSES] = MT_WANTS_ADDRESSES};
    if (x->formats.format != MT_FORMAT_JSON)
        x->p.wants |= MT_WANTS_COMM; /* for both kinds of volume, side by side */
    if (mt_locality_run_has(&x->p.more, MT_LOCALITY_PLACEMENT))
        x->p.wants |= MT_WANTS_READERS;
    for (int i = 0; i < MT_SECTIONS; i++)
        x->p.wants |= x->sections >> i & 1 ? wants[i] : 0;
}

/* Sets what follows from the options. Returns the exit code. */
static int extract_prepare(struct mt_extract *x, int argc, char **argv)
{
    extract_wants(x);
    if (x->sections & 1u << MT_ADDRESSES)
        x->p.inputs.flags |= MT_SOURCE_REWIND;
    x->p.inputs.flags |= MT_SOURCE_HOST;
    x->p.inputs.flags |= MT_SOURCE_OWN_RUNS; /* with lane masks and sites, if the trace has them */
    x->p.inputs.threads = x->p.threads > 2 ? x->p.threads - 1 : 1; /* one thread is for the analysis */
    x->p.inputs.on = session_members(x->p.session) > 1;            /* members must stop together */
    x->by_parts = session_members(x->p.session) > 1;
    int alone = session_members(x->p.session) == 1;
    if (x->shared && (!alone || (x->formats.format != MT_FORMAT_JSON && x->formats.format != MT_FORMAT_TEXT)))
        return alone ? mt_cli_usage("the section shared is for --format=json and text")
                     : mt_cli_usage("the section shared is one process's work: start it without mpirun");
    if (alone)
        extract_passes(x);
    if (x->shared || (x->formats.format == MT_FORMAT_SUMMARY && alone)) {
        x->p.spaces = 1;
    }
    mt_inputs_take(&x->p.inputs, argc, argv);
    int code = mt_inputs_folders(&x->p.inputs);
    if (!code)
        code = check_inputs(x);
    if (!code && x->shared)
        code = extract_has_spaces(&x->p.inputs);
    if (code || !session_reports(x->p.session))
        return code;
    if (x->formats.folder)
        return extract_tables_folder(x->output);
    return mt_output_open(&x->p.out, x->output);
}

/* Adds rows besides those of the pipeline. */
static void extract_rows(struct mt_extract *x)
{
    if (x->p.inputs.ends)
        mt_feed_add(&x->p.feed, &extract_places, x, NULL);
    if (x->p.joined)
        mt_feed_add(&x->p.feed, &extract_launches, x, "no memory for the further analyses");
    x->bytes.findings = &x->findings;
    if (x->judges)
        mt_feed_add(&x->p.feed, &mt_check_memory_analysis, &x->bytes, "no memory to follow the bytes");
}

/* Opens the inputs and begins the analysis. Returns the exit code. */
static int open_all(struct mt_extract *x)
{
    if (!x->p.inputs.ends && !x->p.joined && !session_reports(x->p.session))
        x->p.more.options.chosen = 0; /* rank 0 runs the analyses alone */
    x->judges =
        x->formats.format == MT_FORMAT_SUMMARY && x->p.spaces && !(x->p.inputs.flags & MT_SOURCE_NO_HOST);
    int code = mt_pipeline_open(&x->p);
    if (code == 0)
        extract_rows(x);
    return code;
}

/* Resets x to its state before init. */
static void extract_locality_again(struct mt_locality_run *x)
{
    const struct mt_locality_run old = *x;
    mt_locality_run_free(x);
    mt_locality_run_init(x);
    x->options = old.options;
    x->devices = old.devices;
    x->topology = old.topology;
    x->way = old.way;
    x->quiet = old.quiet;
    x->rows = old.rows;
}

/* Restarts after damage found by members that read parts: each reads everything, as a single process does,
 * and finds the intact part. */
static int once_more(struct mt_extract *x)
{
    mt_feed_free(&x->p.feed);
    x->p.team = NULL;
    extract_locality_again(&x->p.more);
    mt_source_close(x->p.source);
    x->p.inputs.ends = NULL;
    x->p.nevents = 0;
    extract_share_free(&x->share);
    int code = open_all(x);
    return code ? code : mt_pipeline_read(&x->p);
}

/* Each member reads the traces of its machine. What needs all accesses in one order is left out. */
static void extract_join(struct mt_extract *x)
{
    static const unsigned whole = 1u << MT_LOCALITY_REUSE | 1u << MT_LOCALITY_PLACEMENT;
    const unsigned lost = x->p.more.options.chosen & whole;
    x->p.joined = &x->joined;
    x->p.inputs.paths = x->joined.paths;
    x->p.inputs.npaths = x->p.inputs.ncompanions = x->joined.n;
    x->p.inputs.companions = x->joined.companions;
    x->p.inputs.absent = x->joined.absent;
    x->p.more.options.chosen &= ~whole;
    if ((lost || x->sections & 1u << MT_ADDRESSES) && session_reports(x->p.session))
        mt_cli_say("traces are on several machines: %s%s%s left out",
                   x->sections & 1u << MT_ADDRESSES ? "addresses" : "",
                   lost && x->sections & 1u << MT_ADDRESSES ? ", " : "", lost ? "reuse and placement" : "");
    x->sections &= ~(1u << MT_ADDRESSES);
}

/* Opens the inputs in step, since all members need all inputs if each reads a part. */
static int open_together(struct mt_extract *x)
{
    int joined = x->by_parts ? x->p.session->join(x->p.inputs.paths, x->p.inputs.npaths, &x->joined) : 0;
    if (joined < 0)
        return mt_cli_fail("the ranks' traces cannot be joined");
    if (joined)
        extract_join(x);
    else if (x->by_parts)
        x->p.inputs.ends = x->ends = x->p.session->split(x->p.inputs.paths, x->p.inputs.npaths);
    return session_agree(x->p.session, open_all(x));
}

static void close_all(struct mt_extract *x)
{
    size_t n = x->p.inputs.npaths;
    mt_addresses_free(&x->addresses);
    extract_share_free(&x->share);
    if (x->p.joined)
        x->p.inputs.companions = NULL; /* those are not its own */
    mt_pipeline_free(&x->p);
    if (x->p.joined)
        x->p.session->unjoin(&x->joined);
    mt_findings_free(&x->findings);
    if (x->ends)
        x->p.session->unsplit(x->ends, n);
}

/* Prints --stats. */
static void extract_stats(const struct mt_extract *x)
{
    struct timespec busy;
    if (x->p.session) {
        x->p.session->stats();
        return;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &busy);
    mt_cli_say("%.3f s of processor time for %llu accesses",
               (double)busy.tv_sec + (double)busy.tv_nsec * 1e-9,
               x->p.team ? (unsigned long long)mt_team_count(x->p.team) : 0);
}

int mt_extract_command(int argc, char **argv)
{
    int other = extract_hand_over(argv);
    return other ? other : mt_extract_run(argc, argv, NULL);
}

int mt_extract_run(int argc, char **argv, const struct mt_session *session)
{
    static struct mt_extract x; /* static: it contains the output buffer */
    mt_stop_begin();
    x.p.session = session;
    if (session)
        session->begin(&argc, &argv, &mt_cli_stop);
    mt_cli_quiet = !session_reports(x.p.session); /* else each member would print it */
    mt_pipeline_init(&x.p);
    x.formats.top = 200;
    x.sections = (1u << MT_SECTIONS) - 1;
    int code = mt_cli_options(&command, argc, argv, extract_option, &x);
    x.p.more.options.chosen |= x.p.more.meant;
    if (code == 0)
        code = extract_formats_check(&x.formats, &x.sections, &x.p.more.options.chosen, x.chosen, x.output,
                                     &x.p.inputs.flags);
    if (code == 0)
        code = extract_prepare(&x, argc, argv);
    code = session_agree(x.p.session, code);
    if (code == 0)
        code = open_together(&x);
    mt_cli_quiet = 0;
    int together = code != 0;
    if (code == 0)
        code = extract_run(&x);
    together |=
        code == 0 || (x.p.comm != NULL && !x.sharing); /* after the analysis no member waits for another */
    if (!together)
        mt_output_abandon(&x.p.out);
    code = code < 0 ? MT_EXIT_OK : code;
    if (x.stats && together)
        extract_stats(&x);
    if (x.p.session)
        code = x.p.session->end(code, together);
    close_all(&x);
    return code;
}
