/* The environment in which the dynamic linker loads memtrace into a program. */
#include "mt-run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/binary.h"
#include "base/part.h"
#include "base/words.h"

static const struct {
    const char *variable, *file, *separators;
} environment_parts[] = {{"LD_AUDIT", "libmemtrace-attach.so", ":"},
                         {"LD_PRELOAD", "libmemtrace.so", ": "},
                         {"LD_LIBRARY_PATH", "memtrace/driver", ":;"},
                         {"PYTHONPATH", "memtrace/python", ":"}};
#define RESERVE "glibc.rtld.optional_static_tls"
enum { PARTS = sizeof environment_parts / sizeof *environment_parts };

static int environment_has(const char *list, const char *path, const char *separators)
{
    size_t n = strlen(path);
    for (const char *at = list; (at = strstr(at, path)) != NULL; at += n)
        if ((at == list || strchr(separators, at[-1])) && (!at[n] || strchr(separators, at[n])))
            return 1;
    return 0;
}

/* Bytes of static thread-local storage that a library asks for, or 0. */
static size_t environment_static_tls(const char *path)
{
    struct mt_binary o;
    size_t bytes = 0;
    int asks = 0;
    if (mt_binary_open(&o, path) != 0)
        return 0;
    for (unsigned i = 0; i < o.nsegments; i++)
        if (o.segments[i].p_type == PT_TLS)
            bytes = o.segments[i].p_memsz + o.segments[i].p_align;
    for (size_t i = 0; i < o.nentries; i++)
        asks |= o.entries[i].d_tag == DT_FLAGS && o.entries[i].d_un.d_val & DF_STATIC_TLS;
    mt_binary_close(&o);
    return asks ? bytes : 0;
}

/* With an auditor glibc takes the static thread-local storage of all libraries out of a reserve of some
 * hundred bytes, which is there for dlopen, and without one does not: it must be as much larger as they ask
 * for. */
static void environment_set_reserve(const char *program)
{
    enum { FLOOR = 4096 };
    const char *was = getenv("GLIBC_TUNABLES");
    struct words files = {0};
    size_t bytes = FLOOR;
    if (was && strstr(was, RESERVE))
        return;
    for (unsigned i = 0; i < PARTS; i++) {
        char path[PATH_MAX];
        if (mt_files_part(environment_parts[i].file, path) == 0)
            mt_words_add(&files, path);
    }
    mt_run_libraries(program, &files, 0);
    for (size_t i = 0; i < files.count; i++)
        bytes += environment_static_tls(files.word[i]);
    mt_words_free(&files);
    char *now = mt_words_text("%s%s" RESERVE "=%zu", was ? was : "", was && *was ? ":" : "", bytes);
    setenv("GLIBC_TUNABLES", now, 1);
    free(now);
}

/* On the CPU device libmemtrace.so is the CUDA runtime and the driver. */
static int environment_takes_over(const char *program)
{
    for (unsigned i = 0; i < PARTS; i++) {
        const char *variable = environment_parts[i].variable, *was = getenv(variable);
        char path[PATH_MAX];
        if (mt_files_part(environment_parts[i].file, path) != 0) {
            mt_cli_say("there is no %s: build memtrace (./setup build) or install it whole", path);
            return EXIT_FAILED;
        }
        if (strpbrk(path, ":; $")) {
            mt_cli_say("%s: a folder whose name has a blank, a colon, a semicolon or a $ cannot be named in "
                       "%s: move memtrace",
                       path, variable);
            return EXIT_FAILED;
        }
        if (was && environment_has(was, path, environment_parts[i].separators))
            continue;
        char *now = was && *was ? mt_words_text("%s:%s", path, was) : mt_words_text("%s", path);
        setenv(variable, now, 1);
        free(now);
    }
    environment_set_reserve(program);
    return 0;
}

/* On a GPU the driver loads our library into the program, and NVTX does. */
static const char *const environment_injected[] = {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"};

int mt_run_environment_set(const char *program, const struct engine *e)
{
    if (!e->injects) {
        if (e->gpu) /* that it cannot be traced there was said */
            setenv("MEMTRACE_DEVICE", "cpu", 1);
        return environment_takes_over(program);
    }
    for (unsigned i = 0; i < sizeof environment_injected / sizeof *environment_injected; i++)
        setenv(environment_injected[i], e->injection, 1);
    setenv("MEMTRACE_SANITIZER", e->library, 1);
    setenv("MEMTRACE_ENGINE", "inject", 1);
    return 0;
}

void mt_run_environment_print(void)
{
    struct words w = {0};
    for (unsigned i = 0; i < PARTS; i++)
        if (getenv(environment_parts[i].variable))
            mt_words_addf(&w, "%s=%s", environment_parts[i].variable, getenv(environment_parts[i].variable));
    for (unsigned i = 0; i < sizeof environment_injected / sizeof *environment_injected; i++)
        if (getenv(environment_injected[i]))
            mt_words_addf(&w, "%s=%s", environment_injected[i], getenv(environment_injected[i]));
    if (getenv("GLIBC_TUNABLES"))
        mt_words_addf(&w, "GLIBC_TUNABLES=%s", getenv("GLIBC_TUNABLES"));
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "MEMTRACE_", 9) == 0)
            mt_words_add(&w, *e);
    mt_words_print(&w);
    mt_words_free(&w);
}
