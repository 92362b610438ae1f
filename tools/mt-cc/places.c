/* Finds memtrace's files from /proc/self/exe, so that a build tree or an installed tree can be moved.
 *   build tree:   bin/mt-cc  lib     cuda-overlay                  include (a link to the sources')
 *   install tree: bin/mt-cc  LIBDIR  LIBDIR/memtrace/cuda-overlay  include */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "mt-cc.h"
#include "base/part.h"

/* Reads key=value lines of the overlay's marker; 0, or -1 when it is not there. */
static int read_marker(struct places *p)
{
    char line[PATH_MAX + 16];
    FILE *f = fopen(mt_words_text("%s/bin/.memtrace-overlay", p->overlay), "re");
    if (!f) {
        return -1;
    }
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "cuda=", 5) == 0) {
            p->toolkit = mt_words_text("%s", line + 5);
        }
        sscanf(line, "version=%u", &p->cuda);
    }
    fclose(f);
    return p->toolkit && p->cuda ? 0 : -1;
}

static void places_set(struct places *p, const char *root, const char *libdir, const char *overlay)
{
    p->overlay = mt_words_text("%s/%s", root, overlay);
    p->plugin = mt_words_text("%s/%s/libMemtrace-AA.so", root, libdir);
    p->runtime = mt_words_text("%s/%s/libmemtrace.so", root, libdir);
    p->host = mt_words_text("%s/%s/libmemtrace-host.so", root, libdir);
    p->include = mt_words_text("%s/include", root);
}

int mt_cc_places_find(struct places *p)
{
    char root[PATH_MAX];
    memset(p, 0, sizeof *p);
    if (mt_files_self(root, 2) != 0) { /* root/bin/mt-cc */
        mt_cli_say("cannot read /proc/self/exe");
        return -1;
    }
    places_set(p, root, "lib", "cuda-overlay");
    if (read_marker(p) == 0) {
        return 0;
    }
    places_set(p, root, MT_INSTALL_LIBDIR, MT_INSTALL_LIBDIR "/memtrace/cuda-overlay");
    if (read_marker(p) == 0) {
        return 0;
    }
    const char *tool = mt_words_text("%s/libexec/memtrace/mt-overlay", root); /* as installed */
    mt_cc_find_clang();
    mt_cli_say("no CUDA overlay: neither %s/cuda-overlay nor %s", root, p->overlay);
    mt_cli_say("%s: %s --cuda /usr/local/cuda --out %s --runtime %s --compiler %s/bin/mt-cc",
               access(tool, X_OK) == 0 ? "make one of your CUDA toolkit"
                                       : "build memtrace (./setup build), or make one",
               access(tool, X_OK) == 0 ? tool : "mt-overlay", p->overlay, p->runtime, root);
    return -1;
}
