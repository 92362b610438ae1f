/* mt-cc: puts the command line together and becomes clang++-19. docs/man/mt-cc.md is its manual. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "mt-cc.h"

#define DEFAULT_ARCH "sm_90"

static const char help[] =
    "usage: mt-cc [options] files…\n"
    "Compiles and links CUDA, C++ and C programs with clang++-19 so that they trace their memory accesses.\n"
    "Options are clang's; many of nvcc's are understood (-arch, -gencode, -Xcompiler, -rdc=true, -lineinfo, "
    "…).\n"
    "\n"
    "  --show                 print the command that would run, and notes on options translated or dropped\n"
    "  --plain                no plugin: the same program and runtime, untraced\n"
    "  --host                 trace the accesses of host code, too: C, C++ and the host half of CUDA "
    "sources\n"
    "  --host=atomic          the same, and so that those of several threads can be put in order (slower)\n"
    "  --mt-host-stack=on|off local variables whose address stays in their function, too (default on)\n"
    "  --mt-host-functions=REGEX  host functions that are not inlined, to trace them by name\n"
    "  --mt-kernels=REGEX     trace only kernels whose name matches (POSIX extended)\n"
    "  --mt-exclude=REGEX     and not these\n"
    "  --mt-only=LIST         loads, stores, atomics: only these accesses\n"
    "  --mt-cpu-image=on|off  code for the CPU device (default on)\n"
    "  --mt-gpu-trace=on|off  tracing code for the GPU (default on)\n"
    "  --mt-lockstep=on|off   CPU device: each shared-memory store is a warp-synchronous point (default "
    "off)\n"
    "  --mt-cpu=NAME          CPU that the CPU device's code is for (default x86-64-v3)\n"
    "  --mt-verbose=on|off    the pass says what it does\n"
    "  --help, --version\n"
    "\n"
    "environment: MEMTRACE_CLANG  the clang++ 19 to run instead of clang++-19\n"
    "exit codes: clang's; 1 when it cannot be run, 2 for a wrong option\n";

static int exists(const char *path, const char *what)
{
    if (access(path, R_OK) == 0) {
        return 1;
    }
    fprintf(stderr, "mt-cc: %s: no such %s; build memtrace first (./setup build)\n", path, what);
    return 0;
}

/* Flags in front of the user's: what a compilation needs. Later ones win, so the user's stay in force. */
static void add_compile_flags(struct words *line, const struct request *r, const struct places *p)
{
    words_add(line, "-Wno-unknown-cuda-version");
    if (r->cuda) {
        words_addf(line, "--cuda-path=%s", p->overlay);
        if (r->archs.count == 0) {
            words_add(line, "--cuda-gpu-arch=" DEFAULT_ARCH);
        }
        for (size_t i = 0; i < r->archs.count; i++) {
            words_addf(line, "--cuda-gpu-arch=%s", r->archs.word[i]);
        }
    }
    if (r->compiles && !r->plain) {
        words_addf(line, "-fplugin=%s", p->plugin);
        words_append(line, &r->plugin);
        if (r->host) { /* names of variables */
            words_add(line, "-Xarch_host");
            words_add(line, "-fno-discard-value-names");
        }
    }
}

/* Flags behind the user's: header folders that come last, and the runtime. */
static void add_last_flags(struct words *line, const struct request *r, const struct places *p)
{
    if (r->compiles) {
        words_add(line, "-idirafter");
        words_add(line, p->include);
        words_add(line, "-idirafter");
        words_addf(line, "%s/include", p->overlay);
    }
    if (r->links && r->inputs > 0) {
        words_addf(line, "-L%s/lib64", p->overlay);
        if (r->language) {
            words_add(line, "-x");
            words_add(line, "none");
        }
        if (r->host) {
            words_add(line, p->host);
        }
        words_add(line, p->runtime);
        words_add(line, "-pthread");
        words_add(line, "-ldl");
    }
}

static int run(struct words *line)
{
    const char *chosen = getenv("MEMTRACE_CLANG");
    if (!chosen || !*chosen) {
        execvp(line->word[0], line->word);
        line->word[0] = (char *)MT_CLANGXX; /* not in PATH: where it was when memtrace was built */
    }
    execvp(line->word[0], line->word);
    fprintf(stderr, "mt-cc: cannot run %s: %s; install clang-19 or set MEMTRACE_CLANG\n", line->word[0],
            strerror(errno));
    return 1;
}

static void print_version(const struct places *p)
{
    printf("mt-cc (memtrace) %s\n", MT_VERSION);
    printf("CUDA %u.%u: %s\n", p->cuda / 1000, p->cuda % 1000 / 10, p->toolkit);
    printf("overlay: %s\nplugin:  %s\nruntime: %s\n", p->overlay, p->plugin, p->runtime);
}

int main(int argc, char **argv)
{
    struct places places;
    struct request r = {0};
    struct words line = {0};
    const char *chosen = getenv("MEMTRACE_CLANG");

    if (argc < 2) {
        fputs("mt-cc: no files; mt-cc --help says how\n", stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(help, stdout);
        return 0;
    }
    if (places_find(&places) != 0) {
        return 1;
    }
    if (strcmp(argv[1], "--version") == 0 && argc == 2) {
        print_version(&places);
        return 0;
    }
    r.toolkit = places.cuda;
    int code = request_read(&r, argc, argv);
    if (code != 0) {
        return code;
    }
    words_add(&line, chosen && *chosen ? chosen : "clang++-19");
    add_compile_flags(&line, &r, &places);
    words_append(&line, &r.user);
    add_last_flags(&line, &r, &places);
    if (r.show) {
        fflush(stdout);
        for (size_t i = 0; i < r.notes.count; i++) {
            fprintf(stderr, "mt-cc: note: %s\n", r.notes.word[i]);
        }
        words_print(&line);
        return 0;
    }
    if (r.compiles && !r.plain && !exists(places.plugin, "plugin")) {
        return 1;
    }
    if (r.links && r.inputs > 0 &&
        (!exists(places.runtime, "runtime") || (r.host && !exists(places.host, "runtime of host tracing")))) {
        return 1;
    }
    return run(&line);
}
