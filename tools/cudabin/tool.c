/* The overlay around this executable: bin/.memtrace-overlay (key=value lines) and bin/real/. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cudabin.h"
#include "base/part.h"

int mt_cudabin_tool_error(const struct tool *tool, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "memtrace: %s: ", tool->name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return 1;
}

/* The toolkit's version from the overlay's marker file; 0 when it does not say. */
static unsigned marker_version(const char *path)
{
    char line[PATH_MAX + 16];
    unsigned version = 0;
    FILE *f = fopen(path, "re");
    if (!f) {
        return 0;
    }
    while (fgets(line, sizeof line, f)) {
        sscanf(line, "version=%u", &version);
    }
    fclose(f);
    return version;
}

int mt_cudabin_tool_find(struct tool *tool)
{
    static char self[PATH_MAX];
    char path[PATH_MAX + 32];
    /* The executable's own place, not argv[0]: right also when it is called through a
     * link or found in PATH. */
    char *slash = mt_files_self(self, 0) == 0 ? strrchr(self, '/') : NULL;
    if (!slash) {
        fprintf(stderr, "memtrace: cannot read /proc/self/exe\n");
        return -1;
    }
    *slash = 0;
    tool->name = slash + 1;
    if (strcmp(tool->name, "ptxas") != 0 && strcmp(tool->name, "fatbinary") != 0) {
        fprintf(stderr,
                "memtrace: %s works as bin/ptxas and bin/fatbinary of a directory made by mt-overlay\n",
                tool->name);
        return -1;
    }
    snprintf(path, sizeof path, "%s/.memtrace-overlay", self);
    tool->cuda = marker_version(path);
    if (tool->cuda == 0) {
        mt_cudabin_tool_error(tool, "%s is missing or damaged: make the overlay again with mt-overlay", path);
        return -1;
    }
    snprintf(path, sizeof path, "%s/real/%s", self, tool->name);
    tool->real = realpath(path, NULL);
    if (!tool->real) {
        mt_cudabin_tool_error(
            tool, "the CUDA toolkit's %s is gone (%s: %s): make the overlay again with mt-overlay",
            tool->name, path, strerror(errno));
        return -1;
    }
    return 0;
}
