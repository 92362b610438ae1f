/* memtrace extract's tables: a database, a folder of files, or one of the tables. */
#ifndef MT_CLI_EXTRACT_TABLES_H
#define MT_CLI_EXTRACT_TABLES_H
#include "extract_formats.h"

/* FOLDER is made, if it is not there. 0, or an exit code after saying why. */
int mt_tables_folder(const char *folder);
/* Writes the tables (mt_formats_tables); `output`: FILE or FOLDER. Returns the exit code; *interrupted: not
 * all ranges are there. */
int mt_tables_write(const struct mt_formats *f, const struct mt_comm_result *r, struct mt_output *out,
                    const char *output, struct mt_progress *progress, int *interrupted);
#endif
