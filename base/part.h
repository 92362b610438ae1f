/* memtrace's own parts, by name; programs by name are in files.h. */
#ifndef MT_TOOLS_FILES_H
#define MT_TOOLS_FILES_H
#include <limits.h>
#include "files.h"

/* A file that belongs to memtrace: `name` beside this program's folder, in ../lib and in the library folder
 * it was installed to. 0, or -1 with the first place tried in `path`. */
int mt_files_part(const char *name, char path[PATH_MAX]);
#endif
