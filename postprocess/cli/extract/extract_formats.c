/* memtrace extract --format: other forms of the result than JSON. */
#define _GNU_SOURCE
#include "extract_formats.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

int mt_formats_option(struct mt_formats *f, int o, const char *value)
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

/* Tables: all that there are, or one. 0, or an exit code after saying why. */
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
        return mt_cli_usage("a Parquet file is nothing for a terminal: -o FILE");
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

int mt_formats_check(struct mt_formats *f, unsigned *sections, unsigned *more, int chosen, const char *output,
                     unsigned *flags)
{
    struct stat st;
    size_t n = output ? strlen(output) : 0;
    if (f->one && f->format != MT_FORMAT_CSV && f->format != MT_FORMAT_PARQUET &&
        f->format != MT_FORMAT_SQLITE)
        return mt_cli_usage("--table is for --format=csv and parquet");
    /* A CSV file has room for one table: more of them are a folder, as with Parquet. */
    int several = *more || (chosen && !(*sections & ADDRESSES) && mt_csv_tables(*sections) > 1);
    f->folder =
        !f->one && (f->format == MT_FORMAT_PARQUET ||
                    (f->format == MT_FORMAT_CSV && n && strcmp(output, "-") != 0 &&
                     (several || output[n - 1] == '/' || (stat(output, &st) == 0 && S_ISDIR(st.st_mode)))));
    if (mt_formats_tables(f))
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
            return mt_cli_usage("--sections is nothing for summary and perfetto: they take what they need");
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

int mt_formats_write(const struct mt_formats *f, const struct mt_comm_result *r, struct mt_output *out)
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
