/* mt-extract --format: other forms of the result than JSON. */
#ifndef MT_CLI_EXTRACT_FORMATS_H
#define MT_CLI_EXTRACT_FORMATS_H
#include "cli/base/cli.h"
#include "output/rows/comm_formats.h"

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
    enum mt_relation_number table; /* --table, with `one` */
    int one;
    int folder; /* all tables, a file each; set by mt_formats_check */
};

enum { MT_OPT_BY = 896, MT_OPT_EDGES, MT_OPT_TAG, MT_OPT_TABLE };
#define MT_FORMAT_OPTIONS                                                                                    \
    {"format", required_argument, NULL, 'f'}, {"by", required_argument, NULL, MT_OPT_BY},                    \
        {"edges", required_argument, NULL, MT_OPT_EDGES}, {"table", required_argument, NULL, MT_OPT_TABLE},  \
    {                                                                                                        \
        "tag", required_argument, NULL, MT_OPT_TAG                                                           \
    }

#define MT_FORMAT_HELP                                                                                       \
    "  -f, --format=FORMAT     json (default), or\n"                                                         \
    "                          sqlite: a database with tables and views (needs -o; sqlite3 FILE .schema)\n"  \
    "                          parquet, csv: the same tables as files in the folder that -o names, or one "  \
    "of\n"                                                                                                   \
    "                          them with --table; csv of one section without either: the volumes, or -s "    \
    "transfers\n"                                                                                            \
    "                          dot: who sends how much to whom, for Graphviz: mt-extract --format=dot T | "  \
    "dot -Tsvg\n"                                                                                            \
    "                          text: tables for people: volumes and transfers, the further analyses\n"       \
    "                          perfetto: the timeline, for ui.perfetto.dev and chrome://tracing\n"           \
    "                          summary: what stands out, in sentences\n"                                     \
    "      --table=NAME        csv, parquet: this table only (launches, transfers, lines, coalescing …)\n"   \
    "      --by=NODE           dot: nodes are kernel (default), launch or cta\n"                             \
    "      --edges=N           dot: the N largest transfers only (default 200; 0: all)\n"                    \
    "      --tag=TEXT          sqlite: name of this run in the view kernels (default: the program)\n"

/* 0, or an exit code after saying why. */
int mt_formats_option(struct mt_formats *f, int o, const char *value);
/* After all options: do they go together? Chooses the sections where the user did not (`chosen` 0), the
 * further analyses that a table needs (*more, a bit each) and the source's flags. */
int mt_formats_check(struct mt_formats *f, unsigned *sections, unsigned *more, int chosen, const char *output,
                     unsigned *flags);
/* Is the result tables (extract_tables.h)? After mt_formats_check. */
static inline int mt_formats_tables(const struct mt_formats *f)
{
    return f->format == MT_FORMAT_SQLITE || f->folder || f->one;
}
/* Writes one table of volumes or transfers (CSV), or a graph (DOT). Returns the exit code. */
int mt_formats_write(const struct mt_formats *f, const struct mt_comm_result *r, struct mt_output *out);
#endif
