/* Files by name: programs as a shell finds them, and memtrace's own parts. */
#ifndef MT_TOOLS_FILES_H
#define MT_TOOLS_FILES_H
#include <limits.h>

/* 0: the file can be run; or an errno value. */
int mt_files_runs(const char *path);
/* The full path of an executable file: `name` itself if it has a slash, else as in PATH. 0, or an errno
 * value. */
int mt_files_executable(const char *name, char path[PATH_MAX]);
/* A file that belongs to memtrace: `name` beside this program's folder, in ../lib and in the library folder
 * it was installed to. 0, or -1 with the first place tried in `path`. */
int mt_files_part(const char *name, char path[PATH_MAX]);
#endif
