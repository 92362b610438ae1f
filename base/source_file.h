/* Source file names, for the runtime and the compiler pass. */
#ifndef MT_BASE_SOURCE_FILE_H
#define MT_BASE_SOURCE_FILE_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Returns 1 for a header of the toolchain (CUDA, CUB, the C library), whose accesses are attributed to the
 * calling line. `path` comes from mt_source_full. Looks for files; not thread-safe. */
int mt_is_toolchain_file(const char *path);
/* Writes the path of `file` in `folder` (unless it is absolute) without "." and "..", so that a file has one
 * name. Truncates it to `bytes` (at least 1). */
void mt_source_full(char *out, size_t bytes, const char *folder, const char *file);

#ifdef __cplusplus
}
#endif
#endif
