/* memtrace extract --format: other forms of the result than JSON. */
#ifndef MT_CLI_EXTRACT_FORMATS_H
#define MT_CLI_EXTRACT_FORMATS_H
#include "cli/base/cli.h"
#include "output/results/results.h"

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
