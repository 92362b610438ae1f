#define _GNU_SOURCE
#include "extract_formats.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRANSFERS (1u << MT_TRANSFERS)
#define ADDRESSES (1u << MT_ADDRESSES)

static int word(const char *value, const char *const *words, const char *option)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(value, words[i]) == 0)
            return i;
    mt_cli_usage("'%s' is nothing for %s", value, option);
    return -1;
}

int mt_formats_option(struct mt_formats *f, int o, const char *value)
{
    static const char *const formats[] = {"json", "sqlite", "csv", "dot", "text", NULL};
    static const char *const nodes[] = {"kernel", "launch", "cta", NULL};
    char *end;
    int i;
    switch (o) {
    case MT_OPT_FORMAT:
        i = word(value, formats, "--format (json, sqlite, csv, dot, text)");
        f->format = i < 0 ? f->format : (enum mt_format)i;
        return i < 0 ? MT_EXIT_USAGE : 0;
    case MT_OPT_BY:
        i = word(value, nodes, "--by (kernel, launch, cta)");
        f->by = i < 0 ? f->by : (enum mt_dot_by)i;
        return i < 0 ? MT_EXIT_USAGE : 0;
    case MT_OPT_TAG:
        f->tag = value;
        return 0;
    default:
        errno = 0;
        f->top = strtoull(value, &end, 10);
        return errno || *end || end == value || *value == '-'
                   ? mt_cli_usage("'%s' is no number of edges", value)
                   : 0;
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
                "the section addresses is no table; take --format=json, or sqlite for ranges");
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
    if (rc)
        return rc;
    int fd = dup(out->fd);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) {
        mt_cli_say("cannot write: %s", strerror(errno));
        return MT_EXIT_FAILURE;
    }
    rc = f->format == MT_FORMAT_CSV ? mt_csv_write(file, r) : mt_dot_write(file, r, f->by, f->top);
    int bad = ferror(file), error = errno;
    if (fclose(file) != 0 && !bad) {
        bad = 1;
        error = errno;
    }
    if (rc != 0)
        mt_cli_say("no memory for the output");
    else if (bad)
        mt_cli_say("%s: cannot write: %s", out->path ? out->path : "standard output", strerror(error));
    return rc || bad ? MT_EXIT_FAILURE : 0;
}

/* ---- database ---- */

/* Another pass over the records. 0, or -1 after saying why. */
static int ranges_pass(struct mt_db *db, const struct mt_comm_result *r, struct mt_progress *progress)
{
    struct mt_ranges ranges = {.nsets = 0};
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
        if ((item.kind == MT_ITEM_BATCH ? mt_ranges_records(&ranges, item.records, item.count)
                                        : mt_ranges_runs(&ranges, item.runs, item.count)) != 0) {
            mt_cli_say("no memory for the ranges of a launch");
            mt_ranges_free(&ranges);
            return -1;
        }
        records += item.count;
        mt_progress_step(progress, r->source, records);
    }
    mt_progress_end(progress);
    if (bad == 0 && launch != UINT64_MAX)
        bad = mt_db_ranges(db, launch, &ranges);
    mt_ranges_free(&ranges);
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
    rc |= mt_db_say(db, "complete", complete ? "1" : "0");
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

/* Beside the output, then renamed: whoever reads there finds the old database or the new one. */
static int write_database(const struct mt_formats *f, const struct mt_comm_result *r, struct mt_output *out,
                          struct mt_progress *progress, int *interrupted)
{
    char *path = NULL, why[300];
    int code = MT_EXIT_FAILURE;
    struct mt_db *db = NULL;
    if (asprintf(&path, "%s.%ld.part", out->path, (long)getpid()) < 0) {
        mt_cli_say("out of memory");
        return code;
    }
    if (!(db = mt_db_open(path, why, sizeof why))) {
        mt_cli_say("%s: %s", path, why);
        goto out;
    }
    if (mt_db_result(db, r) != 0) {
        mt_cli_say("%s: %s", path, mt_db_why(db));
        goto out;
    }
    if (!mt_cli_stop && ranges_pass(db, r, progress) != 0)
        goto out;
    *interrupted = mt_cli_stop != 0;
    if (*interrupted)
        mt_cli_say("interrupted: not all ranges are in the database");
    if (say_meta(db, f, r, r->complete && !*interrupted) != 0 || mt_db_finish(db) != 0) {
        mt_cli_say("%s: %s", path, mt_db_why(db));
        goto out;
    }
    mt_db_close(db);
    db = NULL;
    if (rename(path, out->path) == 0) {
        out->created = 0;
        code = 0;
    } else {
        mt_cli_say("%s: %s", out->path, strerror(errno));
    }
out:
    mt_db_close(db);
    if (code)
        unlink(path);
    free(path);
    return code;
}

int mt_formats_write(const struct mt_formats *f, const struct mt_comm_result *r, struct mt_output *out,
                     struct mt_progress *progress, int *interrupted)
{
    return f->format == MT_FORMAT_SQLITE ? write_database(f, r, out, progress, interrupted)
                                         : write_text(f, r, out);
}
