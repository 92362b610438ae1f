/* The overlay around this executable: bin/.memtrace-overlay (key=value lines) and bin/real/. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cudabin.h"
#include "base/part.h"

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
    static char self[PATH_MAX], name[32];
    char path[PATH_MAX + 32];
    /* The executable's own place, not argv[0]: right also when it is called through a
     * link or found in PATH. */
    char *slash = mt_files_self(self, 0) == 0 ? strrchr(self, '/') : NULL;
    mt_cli_name = "memtrace";
    if (!slash) {
        return mt_cli_fail("cannot read /proc/self/exe");
    }
    *slash = 0;
    tool->name = slash + 1;
    if (strcmp(tool->name, "ptxas") != 0 && strcmp(tool->name, "fatbinary") != 0) {
        return mt_cli_fail("%s works as bin/ptxas and bin/fatbinary of a directory made by mt-overlay",
                           tool->name);
    }
    snprintf(name, sizeof name, "memtrace: %s", tool->name);
    mt_cli_name = name;
    snprintf(path, sizeof path, "%s/.memtrace-overlay", self);
    tool->cuda = marker_version(path);
    if (tool->cuda == 0) {
        return mt_cli_fail("%s is missing or damaged: make the overlay again with mt-overlay", path);
    }
    snprintf(path, sizeof path, "%s/real/%s", self, tool->name);
    tool->real = realpath(path, NULL);
    if (!tool->real) {
        return mt_cli_fail("the CUDA toolkit's %s is gone (%s: %s): make the overlay again with mt-overlay",
                           tool->name, path, strerror(errno));
    }
    return 0;
}
