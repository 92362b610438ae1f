/* mt-extract --format: other forms of the result than JSON. */
#ifndef MT_CLI_EXTRACT_FORMATS_H
#define MT_CLI_EXTRACT_FORMATS_H
#include "cli/base/cli.h"
#include "output/comm_formats.h"

enum mt_format { MT_FORMAT_JSON, MT_FORMAT_SQLITE, MT_FORMAT_CSV, MT_FORMAT_DOT, MT_FORMAT_TEXT };

struct mt_formats {
    enum mt_format format;
    enum mt_dot_by by;
    uint64_t top;
    const char *tag;
};

enum { MT_OPT_BY = 896, MT_OPT_EDGES, MT_OPT_TAG };
#define MT_FORMAT_OPTIONS                                                                                    \
    {"format", required_argument, NULL, 'f'}, {"by", required_argument, NULL, MT_OPT_BY},                    \
        {"edges", required_argument, NULL, MT_OPT_EDGES},                                                    \
    {                                                                                                        \
        "tag", required_argument, NULL, MT_OPT_TAG                                                           \
    }

#define MT_FORMAT_HELP                                                                                       \
    "  -f, --format=FORMAT     json (default), or\n"                                                         \
    "                          sqlite: a database with tables and views (needs -o; sqlite3 FILE .schema)\n"  \
    "                          csv: one table, the volumes or -s transfers\n"                                \
    "                          dot: who sends how much to whom, for Graphviz: mt-extract --format=dot T | "  \
    "dot -Tsvg\n"                                                                                            \
    "                          text: tables for people: volumes by kernel, the further analyses\n"           \
    "      --by=NODE           dot: nodes are kernel (default), launch or cta\n"                             \
    "      --edges=N           dot: the N largest transfers only (default 200; 0: all)\n"                    \
    "      --tag=TEXT          sqlite: name of this run in the view kernels (default: the program)\n"

/* 0, or an exit code after saying why. */
int mt_formats_option(struct mt_formats *f, int o, const char *value);
/* After all options: do they go together? Chooses the sections where the user did not (`chosen` 0) and the
 * source's flags. */
int mt_formats_check(const struct mt_formats *f, unsigned *sections, int chosen, const char *output,
                     unsigned *flags);
/* Writes the result. Returns the exit code; `interrupted` says that not all is in it. */
int mt_formats_write(const struct mt_formats *f, const struct mt_comm_result *r, struct mt_output *out,
                     struct mt_progress *progress, int *interrupted);
#endif
