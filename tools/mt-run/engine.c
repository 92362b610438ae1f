/* Where a program's kernels run and how they are traced: on a GPU as they are, through NVIDIA's Compute
 * Sanitizer API, or on the CPU device. */
#include "mt-run.h"
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/trust.h"
#include "base/part.h"

#define LIBRARY "libsanitizer-public.so"
#define INJECTION "memtrace/libmemtrace-inject.so"

static int engine_sees_gpu(void)
{
    return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
}

/* As the auditor has it; "gpu": the user says that there is one. */
static int engine_has_gpu(void)
{
    const char *device = getenv("MEMTRACE_DEVICE");
    if (device && (strcmp(device, "cpu") == 0 || strcmp(device, "gpu") == 0))
        return *device == 'g';
    return engine_sees_gpu();
}

/* ---- NVIDIA's library ---------------------------------------------------------------------------- */

/* Where it may be below a root: a toolkit, what ./setup took from PyPI, a Python's packages. */
static const char *const engine_places[] = {"compute-sanitizer", "lib", "extras/Sanitizer", NULL};
static const char *const engine_packages[] = {"nvidia/cu*/compute-sanitizer", "nvidia/cu*/lib",
                                              "nvidia/cuda_sanitizer_api/lib", NULL};

/* The last file that the pattern has: with versions in it, the newest. */
static int engine_glob(const char *pattern, char path[PATH_MAX])
{
    glob_t found = {0};
    int has = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc && strlen(found.gl_pathv[0]) < PATH_MAX;
    if (has)
        snprintf(path, PATH_MAX, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    return has;
}

static int engine_below(const char *root, const char *between, const char *const *places, char path[PATH_MAX])
{
    char pattern[PATH_MAX];
    for (; root && *root && *places; places++)
        if (snprintf(pattern, sizeof pattern, "%s/%s%s/" LIBRARY, root, between, *places) <
                (int)sizeof pattern &&
            engine_glob(pattern, path))
            return 1;
    return 0;
}

/* The folder above that of a program in PATH, its links followed; NULL: there is no such program. */
static const char *engine_root_of(const char *program, char root[PATH_MAX])
{
    char path[PATH_MAX];
    if (mt_files_executable(program, path) != 0 || !realpath(path, root))
        return NULL;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(root, '/');
        if (slash)
            *slash = 0;
    }
    return root;
}

/* MEMTRACE_SANITIZER: the file, or its folder. */
static int engine_named(const char *name, char path[PATH_MAX])
{
    struct stat st;
    int folder = stat(name, &st) == 0 && S_ISDIR(st.st_mode);
    snprintf(path, PATH_MAX, folder ? "%s/" LIBRARY : "%s", name);
    return access(path, R_OK) == 0;
}

static int engine_search(char path[PATH_MAX])
{
    char own[PATH_MAX], tool[PATH_MAX], python[PATH_MAX];
    const char *named = getenv("MEMTRACE_SANITIZER");
    if (named && *named)
        return engine_named(named, path);
    return engine_below(engine_root_of("/proc/self/exe", own), "sanitizer/", engine_places, path) ||
           engine_below(own, "../../", engine_packages, path) || /* a wheel's neighbours */
           engine_below(getenv("CUDA_PATH"), "", engine_places, path) ||
           engine_below(getenv("CUDA_HOME"), "", engine_places, path) ||
           engine_below(engine_root_of("nvcc", tool), "", engine_places, path) ||
           engine_below("/usr/local/cuda", "", engine_places, path) ||
           engine_below(getenv("VIRTUAL_ENV"), "lib/python3*/site-packages/", engine_packages, path) ||
           engine_below(engine_root_of("python3", python), "lib/python3*/site-packages/", engine_packages,
                        path);
}

/* ---- the choice ---------------------------------------------------------------------------------- */

/* Sets what can be known without a GPU: both libraries, or the sentence why one is missing. */
static void engine_look(struct engine *e)
{
    const char *named = getenv("MEMTRACE_SANITIZER");
    if (mt_files_part(INJECTION, e->injection) != 0) {
        snprintf(
            e->why, sizeof e->why,
            "this memtrace was built without NVIDIA's Compute Sanitizer API: ./setup gpu gets it and builds");
        return;
    }
    if (!engine_search(e->library)) {
        snprintf(e->why, sizeof e->why,
                 named && *named
                     ? "MEMTRACE_SANITIZER: there is no " LIBRARY " at %s"
                     : "NVIDIA's " LIBRARY " is not found: ./setup gpu gets it, or pip install "
                       "nvidia-cuda-sanitizer-api, or a CUDA toolkit (its folder compute-sanitizer), or "
                       "MEMTRACE_SANITIZER names it",
                 named);
        *e->library = 0;
    } else if (mt_trust_file(e->library, e->why, sizeof e->why) != 0) {
        *e->library = 0;
    }
}

void mt_run_engine_find(struct engine *e)
{
    const char *device = getenv("MEMTRACE_DEVICE");
    *e = (struct engine){0};
    e->gpu = engine_has_gpu();
    e->asked = device && strcmp(device, "gpu") == 0;
    engine_look(e);
    e->injects = e->gpu && *e->library;
}

static int engine_is_ours(const char *path)
{
    const char *slash = strrchr(path, '/');
    return !strcmp(slash ? slash + 1 : path, strrchr(INJECTION, '/') + 1);
}

int mt_run_engine_check(const struct engine *e)
{
    const char *other = getenv("CUDA_INJECTION64_PATH");
    if (e->injects && other && *other && !engine_is_ours(other))
        return mt_cli_refuse(
            "CUDA_INJECTION64_PATH already names %s: a program takes one such tool alone; unset "
            "it, or trace on the CPU device with -d cpu",
            other);
    if (e->gpu && !e->injects && e->asked)
        return mt_cli_refuse("nothing is traced on a GPU: %s", e->why);
    if (e->asked && !engine_sees_gpu())
        mt_cli_say("no GPU is to be seen here (neither /dev/nvidiactl nor /dev/dxg): if there is none, the "
                   "program's calls of CUDA fail");
    if (e->gpu && !e->injects)
        mt_cli_say("kernels run on the CPU device, not on the GPU: %s", e->why);
    return 0;
}

/* ---- --list -------------------------------------------------------------------------------------- */

static void engine_list_here(const struct engine *e)
{
    printf("here: %s\n", e->injects ? "there is a GPU, and kernels run and are traced there"
                         : e->gpu   ? "there is a GPU, but kernels run on the CPU device, from their PTX"
                                    : "no GPU (neither /dev/nvidiactl nor /dev/dxg): kernels run on the CPU "
                                      "device, from their PTX");
}

void mt_run_engine_list(const struct engine *e)
{
    if (*e->library)
        printf("on a GPU: all machine code that runs there is traced as it is, by %s\n", e->library);
    else
        printf("on a GPU: nothing would be traced: %s\n", e->why);
    if (e->asked && !engine_sees_gpu())
        printf("here: a GPU is asked for, but none is to be seen (neither /dev/nvidiactl nor /dev/dxg)\n");
    else
        engine_list_here(e);
}
