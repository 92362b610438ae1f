/* Names of source files: what the runtime and the pass do alike. */
#ifndef MT_BASE_SOURCE_FILE_H
#define MT_BASE_SOURCE_FILE_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Is it one of the toolchain's own headers (CUDA's, CUB's, the C library's), whose accesses belong to the
 * line that calls them? `path` has no dots in it (mt_source_full). Looks for files; not thread-safe. */
int mt_is_toolchain_file(const char *path);
/* `file` in `folder`, unless it is absolute, without "." and "..", so that a file has one name however the
 * compiler got it. What does not fit into `bytes` (at least 1) is cut. */
void mt_source_full(char *out, size_t bytes, const char *folder, const char *file);

#ifdef __cplusplus
}
#endif
#endif
