/* Programs by name, found as a shell finds them. */
#ifndef MT_CLI_FILES_H
#define MT_CLI_FILES_H
#include <limits.h>

/* Returns 0 if the file can be run, or an errno value. */
int mt_files_runs(const char *path);
/* Finds the full path of a program: `name` itself if it contains a slash, else in PATH. Returns 0 or an errno
 * value. */
int mt_files_executable(const char *name, char path[PATH_MAX]);
#endif
