/* Where this program is, and memtrace's own parts from there; programs by name are in files.h. */
#ifndef MT_TOOLS_FILES_H
#define MT_TOOLS_FILES_H
#include <limits.h>
#include "files.h"

/* The path of this program without its last `up` names: 0 itself, 1 its folder. 0, or -1 with errno and "".
 */
int mt_files_self(char path[PATH_MAX], unsigned up);
/* A file from this program's folder, which need not exist. 0, or -1 with errno and the link that cannot be
 * read. */
int mt_files_beside(char path[PATH_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A file that belongs to memtrace: `name` beside this program's folder, in ../lib and in the library folder
 * it was installed to. 0, or -1 with the first place tried in `path`. */
int mt_files_part(const char *name, char path[PATH_MAX]);
#endif
