/* Programs by name, as a shell finds them. */
#ifndef MT_CLI_FILES_H
#define MT_CLI_FILES_H
#include <limits.h>

/* 0: the file can be run; or an errno value. */
int mt_files_runs(const char *path);
/* The full path of an executable file: `name` itself if it has a slash, else as in PATH. 0, or an errno
 * value. */
int mt_files_executable(const char *name, char path[PATH_MAX]);
#endif
