/* Folder of this program, and memtrace's own files relative to it. file.h finds programs by name. */
#ifndef MT_TOOLS_FILES_H
#define MT_TOOLS_FILES_H
#include <limits.h>
#include "file.h"

/* Writes the path of this program without its last `up` components: 0 for the program, 1 for its folder.
 * Returns 0, or -1 with errno and "". */
int mt_files_self(char path[PATH_MAX], unsigned up);
/* Writes a path relative to this program's folder; the file need not exist. Returns 0, or -1 with errno and
 * the link that cannot be read. */
int mt_files_beside(char path[PATH_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Finds a file of memtrace: `name` in this program's folder, in ../lib or in the installed library folder.
 * Returns 0, or -1 with the first place tried in `path`. */
int mt_files_part(const char *name, char path[PATH_MAX]);
#endif
