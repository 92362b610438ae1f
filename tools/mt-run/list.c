/* --list: the device code of a program and of the libraries that it loads; mt-ptx says what is in each, and
 * what is in its cache. */
#include "mt-run.h"
#include "base/near.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/binary.h"
#include "base/part.h"
#include "base/words.h"

static const char *list_runtime(const struct mt_binary *o)
{
    const struct mt_binary_symbols *where;
    int major;
    switch (mt_binary_cudart(o, &where, &major)) {
    case MT_CUDART_STATIC:
        return major == 11   ? "static runtime of CUDA 11, is taken over"
               : major == 12 ? "static runtime of CUDA 12, is taken over"
               : major == 13 ? "static runtime of CUDA 13, is taken over"
                             : "static runtime of a CUDA version that is not known here: cannot be traced";
    case MT_CUDART_NAMELESS:
        return "static runtime without symbols: cannot be traced; do not strip it, or link with "
               "--cudart=shared";
    case MT_CUDART_SHARED:
        return "shared runtime, is replaced";
    default:
        return NULL;
    }
}

/* A library of NVIDIA's whose place libmemtrace-libraries.so takes: its kernels do not run. */
static int list_is_stood_in_for(const char *path)
{
    static const char *const names[] = {MT_LIBRARY_NAMES};
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(slash ? slash + 1 : path, names[i]))
            return 1;
    return 0;
}

/* 1: it has device code or a runtime, and was listed; less: an exit code, negative. */
static int list_file(const char *tool, const char *path)
{
    struct mt_binary o;
    if (list_is_stood_in_for(path)) {
        printf(
            "%s: on the CPU device memtrace does what it does, and its calls are launches of the trace; on a "
            "GPU its own kernels are traced\n",
            path);
        return 1;
    }
    int code = 0, why = mt_binary_open(&o, path);
    if (why)
        return 0;
    const char *runtime = list_runtime(&o);
    int has = mt_binary_section(&o, ".nv_fatbin") || mt_binary_section(&o, "__nv_relfatbin");
    mt_binary_close(&o);
    if (!has && !runtime)
        return 0;
    printf("%s: %s\n", path, runtime ? runtime : "no CUDA runtime of its own");
    fflush(stdout);
    if (has) {
        char *argv[] = {(char *)tool, (char *)"--list", (char *)path, NULL};
        code = mt_run_wait(argv, NULL);
    }
    return code ? -code : 1;
}

static int list_tool(char tool[PATH_MAX])
{
    if (mt_files_part("../libexec/memtrace/mt-ptx", tool) == 0)
        return 0;
    mt_cli_say("there is no %s, which reads device code", tool);
    return EXIT_FAILED;
}

int mt_run_cache(const char *what)
{
    char tool[PATH_MAX];
    char *argv[] = {tool, (char *)what, NULL};
    int code = list_tool(tool);
    return code ? code : mt_run_wait(argv, NULL);
}

int mt_run_list(const char *name)
{
    char path[PATH_MAX], tool[PATH_MAX];
    struct words files = {0};
    int found = 0, code = 0;
    struct engine e;
    mt_run_engine_find(&e);
    mt_run_engine_list(&e);
    if (!name)
        return mt_near_told();
    int why = strchr(name, '/') || access(name, R_OK) == 0 ? (snprintf(path, sizeof path, "%s", name), 0)
                                                           : mt_files_executable(name, path);
    if (!why && access(path, R_OK) != 0)
        why = errno;
    if (why)
        return mt_cli_refuse("%s: %s", name, strerror(why));
    if ((code = list_tool(tool)) != 0)
        return code;
    mt_words_add(&files, path);
    code = mt_run_libraries(path, &files, 1);
    for (size_t i = 0; i < files.count && code == 0; i++) {
        int one = list_file(tool, files.word[i]);
        found += one > 0;
        code = one < 0 ? -one : 0;
    }
    if (!found && !code)
        printf("%s: no device code, nor in the libraries that it is linked to\n", path);
    mt_words_free(&files);
    return code ? code : mt_near_told();
}
