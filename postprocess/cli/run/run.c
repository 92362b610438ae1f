/* memtrace run: traces a program that was not built for memtrace. Manual: docs/man/memtrace-run.md. Functions
 * return 0, or the exit code after a message: 1 failure, 2 usage error or a program that cannot be traced. */
#define _GNU_SOURCE
#include "cli/base/commands.h"
#include "cli/base/cli.h"
#include "base/text.h"
#include "base/trust.h"
#include "base/part.h"
#include "base/words.h"
#include "base/binary.h"
#include "base/near.h"
#include "base/nvidia.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

struct engine {
    int gpu;                  /* 1: there is a GPU, or the user says so */
    int asked;                /* 1: the user asked for the GPU (-d gpu) */
    int refused;              /* 1: the user asked for the CPU device (-d cpu) */
    int fits;                 /* 1: driver, NVIDIA's library and patches go together, as far as is known */
    int injects;              /* 1: traces the unchanged program on the GPU; 0: on the CPU device */
    char injection[PATH_MAX]; /* our library */
    struct mt_nvidia nvidia;  /* driver, NVIDIA's library and our patches */
    char why[3 * PATH_MAX];   /* what is missing or does not fit, and the way out; a sentence; "": nothing */
};

struct program {
    char path[PATH_MAX]; /* file that is started; for a script, the script */
    const char *what;    /* description of its CUDA runtime, for -v */
    int injected;        /* 1: traced on a GPU, so its runtime is unchanged */
};

/* ---- Engines: unchanged kernels on a GPU, through NVIDIA's Compute Sanitizer API, or kernels on the CPU
 * device ---- */

#define LIBRARY "libsanitizer-public.so"
#define INJECTION "memtrace/libmemtrace-inject.so"

/* Detects a GPU as the auditor does; "gpu": the user says that there is one. */
static int engine_has_gpu(void)
{
    const char *device = getenv("MEMTRACE_DEVICE");
    if (device && (strcmp(device, "cpu") == 0 || strcmp(device, "gpu") == 0))
        return *device == 'g';
    return mt_nvidia_is_here();
}

/* ---- Libraries that the dynamic linker would load into a program ---- */

#define LINKER "/lib64/ld-linux-x86-64.so.2"

/* Runs a program and waits for it. Returns the exit code, or MT_EXIT_FAILURE after a message. */
static int run_wait(char *const *argv, const posix_spawn_file_actions_t *actions)
{
    pid_t pid;
    int status, why = posix_spawn(&pid, argv[0], actions, NULL, argv, environ);
    if (why)
        return mt_cli_fail("%s: %s", argv[0], strerror(why));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : MT_EXIT_FAILURE;
}

/* Returns the path in " libx.so.1 => /lib/libx.so.1 (0x…)" or " /lib/ld.so (0x…)", in place; NULL: none. */
static char *libraries_line(char *line, int talk)
{
    char *arrow = strstr(line, " => "), *path = arrow ? arrow + 4 : line + strspn(line, "\t ");
    char *end = strstr(path, " (0x");
    if (!end && talk && strstr(path, "not found")) {
        line[strcspn(line, "\n")] = 0;
        mt_cli_say("%s", line + strspn(line, "\t "));
    }
    if (!end)
        return NULL;
    *end = 0;
    return strchr(path, '/') ? path : NULL; /* entries without a path are the kernel's own */
}

/* Adds the paths of all libraries that the program or library is linked with, and of `more` (empty: none),
 * without running their code. With `talk` reports missing ones. */
static int run_libraries(const char *path, const char *more, struct words *files, int talk)
{
    char *argv[] = {(char *)LINKER, (char *)"--preload", (char *)more, (char *)"--list", (char *)path, NULL};
    char *line = NULL, *found;
    size_t room = 0;
    posix_spawn_file_actions_t actions;
    FILE *f = tmpfile();
    if (!f)
        return mt_cli_fail("no temporary file: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(f), STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
    run_wait(argv, &actions); /* fails for a static program, which has none */
    posix_spawn_file_actions_destroy(&actions);
    rewind(f);
    while (getline(&line, &room, f) > 0)
        if ((found = libraries_line(line, talk)) != NULL)
            mt_words_add(files, found);
    free(line);
    fclose(f);
    return 0;
}

/* ---- NVIDIA's driver ----------------------------------------------------------------------------- */

/* Returns what `f` says of the library at `path`, asked in a child, as the library's code should not run
 * here; 0 if there is no answer in time. */
static int engine_ask(int (*f)(const char *path), const char *path)
{
    int ends[2], answer = 0;
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return 0;
    if ((pid = fork()) == 0) {
        alarm(20);
        answer = f(path);
        _exit(write(ends[1], &answer, sizeof answer) != sizeof answer);
    }
    close(ends[1]);
    if (pid < 0 || read(ends[0], &answer, sizeof answer) != sizeof answer)
        answer = 0;
    close(ends[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return answer;
}

/* Returns the driver's own answer, 12040 for CUDA 12.4; 0: none. */
static int engine_cuda(const char *path)
{
    void *cuda = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*get)(int *) = cuda ? (int (*)(int *))dlsym(cuda, "cuDriverGetVersion") : NULL, version = 0;
    return get && get(&version) == 0 ? version : 0;
}

/* Finds the libcuda.so.1 that a program would get. Its code is run only if files do not tell its version.
 * Returns 0 if there is none. */
static int engine_driver(struct mt_nvidia *n)
{
    struct words files = {0};
    const char *cuda = NULL;
    char self[PATH_MAX];
    if (mt_files_self(self, 0) == 0 && run_libraries(self, "libcuda.so.1", &files, 0) == 0)
        for (size_t i = 0; i < files.count; i++)
            cuda = strstr(files.word[i], "/libcuda.so") ? files.word[i] : cuda;
    mt_nvidia_driver(n, cuda);
    if (!n->cuda && cuda)
        n->cuda = engine_ask(engine_cuda, cuda) / 1000;
    n->missing = !cuda && !*n->driver;
    mt_words_free(&files);
    return cuda != NULL;
}

/* ---- NVIDIA's library ---------------------------------------------------------------------------- */

/* The library's functions, with the types that its headers have for C. */
typedef int engine_subscribe(void **subscriber, void (*f)(void *, int, uint32_t, const void *), void *data);
typedef int engine_enable(uint32_t on, void *subscriber, int domain, uint32_t function);
struct engine_library {
    engine_enable *enable;
    void *subscriber;
};

static void engine_called(void *data, int domain, uint32_t function, const void *more)
{
    (void)data, (void)domain, (void)function, (void)more;
}

static int engine_knows(void *arg, int of_driver, unsigned function)
{
    const struct engine_library *l = arg;
    return l->enable(0, l->subscriber, of_driver ? 1 : 2, function) == 0;
}

/* Returns the version of the library at `path` as 1300; 0: unknown. For a process of its own. */
static int engine_version(const char *path)
{
    struct engine_library l = {0};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    engine_subscribe *subscribe = library ? (engine_subscribe *)dlsym(library, "sanitizerSubscribe") : NULL;
    l.enable = library ? (engine_enable *)dlsym(library, "sanitizerEnableCallback") : NULL;
    return subscribe && l.enable && subscribe(&l.subscriber, engine_called, NULL) == 0
               ? mt_nvidia_version(engine_knows, &l)
               : 0;
}

/* Folders that may contain it below a root: that of ./setup, a toolkit, Python packages. */
static const char *const engine_places[] = {"13", "12", "compute-sanitizer", "lib", "extras/Sanitizer", NULL};
static const char *const engine_packages[] = {"nvidia/cu*/compute-sanitizer", "nvidia/cu*/lib",
                                              "nvidia/cuda_sanitizer_api/lib", NULL};

/* Takes a library if the driver lets it in. The first one that is refused stays, with the reason, until
 * another one is taken. */
static int engine_take(struct engine *e, const char *path)
{
    struct mt_nvidia *n = &e->nvidia, found = *n;
    char why[sizeof e->why] = "";
    snprintf(found.library, sizeof found.library, "%s", path);
    if (mt_trust_file(path, why, sizeof why) != 0)
        *found.library = 0;
    else
        found.version = engine_ask(engine_version, path);
    if (*found.library && (!*n->library || mt_nvidia_fits(&found)))
        *n = found;
    if (!*e->why)
        snprintf(e->why, sizeof e->why, "%s", why);
    return *found.library && mt_nvidia_fits(&found);
}

/* Tries the last file that matches the pattern, which is the newest version. */
static int engine_glob(struct engine *e, const char *pattern)
{
    glob_t found = {0};
    int took = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc &&
               strlen(found.gl_pathv[found.gl_pathc - 1]) < PATH_MAX &&
               engine_take(e, found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    return took;
}

static int engine_below(struct engine *e, const char *root, const char *between, const char *const *places)
{
    char pattern[PATH_MAX];
    for (; root && *root && *places; places++)
        if (snprintf(pattern, sizeof pattern, "%s/%s%s/" LIBRARY, root, between, *places) <
                (int)sizeof pattern &&
            engine_glob(e, pattern))
            return 1;
    return 0;
}

/* Returns the folder above that of a program in PATH, with links resolved; NULL: no such program. */
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

/* Handles MEMTRACE_SANITIZER, the file or its folder. */
static void engine_named(struct engine *e, const char *name)
{
    struct stat st;
    char path[PATH_MAX];
    int folder = stat(name, &st) == 0 && S_ISDIR(st.st_mode);
    snprintf(path, sizeof path, folder ? "%s/" LIBRARY : "%s", name);
    if (access(path, R_OK) == 0)
        engine_take(e, path);
    else
        snprintf(e->why, sizeof e->why, "MEMTRACE_SANITIZER: there is no " LIBRARY " at %s", name);
}

static void engine_search(struct engine *e)
{
    static const char site[] = "lib/python3*/site-packages/";
    char own[PATH_MAX], tool[PATH_MAX], python[PATH_MAX];
    const char *named = getenv("MEMTRACE_SANITIZER");
    if (named && *named)
        engine_named(e, named);
    else
        (void)(engine_below(e, engine_root_of("/proc/self/exe", own), "sanitizer/", engine_places) ||
               engine_below(e, own, "../../", engine_packages) || /* packages beside our own wheel */
               engine_below(e, getenv("CUDA_PATH"), "", engine_places) ||
               engine_below(e, getenv("CUDA_HOME"), "", engine_places) ||
               engine_below(e, engine_root_of("nvcc", tool), "", engine_places) ||
               engine_below(e, "/usr/local/cuda", "", engine_places) ||
               engine_below(e, getenv("VIRTUAL_ENV"), site, engine_packages) ||
               engine_below(e, engine_root_of("python3", python), site, engine_packages));
}

/* ---- the choice ---------------------------------------------------------------------------------- */

/* Returns the package of PyPI with the library for this driver. */
static const char *engine_package(const struct mt_nvidia *n)
{
    return n->cuda == 12 ? "nvidia-cuda-sanitizer-api-cu12" : "nvidia-cuda-sanitizer-api";
}

/* Finds driver, library and patches, or the sentence why one is missing. A library that the user names is
 * tried whatever its version. */
static void engine_look(struct engine *e)
{
    const char *named = getenv("MEMTRACE_SANITIZER");
    char folder[PATH_MAX];
    if (mt_files_part(INJECTION, e->injection) != 0) {
        snprintf(
            e->why, sizeof e->why,
            "this memtrace was built without NVIDIA's Compute Sanitizer API: ./setup gpu gets it and builds");
        return;
    }
    int driver = engine_driver(&e->nvidia);
    engine_search(e);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(e->injection, '/') - e->injection), e->injection);
    mt_nvidia_patches(&e->nvidia, folder);
    if (*e->nvidia.library) {
        *e->why = 0; /* of another one, which was passed over */
        e->fits = mt_nvidia_check(&e->nvidia, e->why, sizeof e->why) == 0 ||
                  (named && *named && *e->nvidia.patches);
    } else if (!*e->why)
        snprintf(e->why, sizeof e->why,
                 "NVIDIA's " LIBRARY " is not found: ./setup gpu gets it, or pip install %s, or a CUDA "
                 "toolkit (its folder compute-sanitizer), or MEMTRACE_SANITIZER names it",
                 engine_package(&e->nvidia));
    if (!driver && e->gpu && !e->asked) {
        e->fits = 0;
        snprintf(
            e->why, sizeof e->why,
            "there is a GPU's device file, but libcuda.so.1, the library of NVIDIA's driver, is not found: "
            "install the driver, let the container have it (docker run --gpus all), or name its folder in "
            "LD_LIBRARY_PATH; -d gpu if programs find it elsewhere");
    }
}

/* Without a GPU there is nothing to look for, unless `always`. */
static void engine_find(struct engine *e, int always)
{
    const char *device = getenv("MEMTRACE_DEVICE");
    *e = (struct engine){0};
    e->gpu = engine_has_gpu();
    e->asked = device && strcmp(device, "gpu") == 0;
    e->refused = device && strcmp(device, "cpu") == 0;
    if (e->gpu || always)
        engine_look(e);
    e->injects = e->gpu && e->fits;
}

static int engine_is_ours(const char *path)
{
    const char *slash = strrchr(path, '/');
    return !strcmp(slash ? slash + 1 : path, strrchr(INJECTION, '/') + 1);
}

/* Notes what may surprise the user; refuses what is impossible. A machine with a GPU is not left for the CPU
 * device unasked: the user would take one for the other. */
static int engine_check(const struct engine *e)
{
    const char *other = getenv("CUDA_INJECTION64_PATH");
    char words[2 * PATH_MAX];
    mt_nvidia_words(&e->nvidia, words, sizeof words);
    if (e->injects && other && *other && !engine_is_ours(other))
        return mt_cli_refuse(
            "CUDA_INJECTION64_PATH already names %s: a program takes one such tool alone; unset "
            "it, or trace on the CPU device with -d cpu",
            other);
    if (e->gpu && !e->injects)
        return mt_cli_refuse("nothing is traced on the GPU: %s; or trace on the CPU device with -d cpu (%s)",
                             e->why, words);
    if (e->asked && !mt_nvidia_is_here())
        mt_cli_say("no GPU was found here (neither /dev/nvidiactl nor /dev/dxg): if there is none, the "
                   "program's calls of CUDA fail");
    if (e->injects && *e->why)
        mt_cli_say("tried all the same, as MEMTRACE_SANITIZER names the library: %s (%s)", e->why, words);
    return 0;
}

/* ---- --list -------------------------------------------------------------------------------------- */

static void engine_list_here(const struct engine *e)
{
    printf("here: %s\n", e->injects && *e->why
                             ? "there is a GPU, and kernels run there; whether they are traced shows when "
                               "they run"
                         : e->injects ? "there is a GPU, and kernels run and are traced there"
                         : e->refused
                             ? "the CPU device is asked for (-d cpu, MEMTRACE_DEVICE): kernels run on "
                               "it, from their PTX"
                         : e->gpu ? "there is a GPU, and programs are refused; -d cpu traces them on the CPU "
                                    "device, from their PTX"
                                  : "no GPU (neither /dev/nvidiactl nor /dev/dxg): kernels run on the CPU "
                                    "device, from their PTX");
}

/* Prints for --list what would happen on a GPU, and what happens here. */
static void engine_list(const struct engine *e)
{
    char words[2 * PATH_MAX];
    mt_nvidia_words(&e->nvidia, words, sizeof words);
    if (e->fits && *e->why)
        printf("on a GPU: %s is tried, as MEMTRACE_SANITIZER names it: %s\n", e->nvidia.library, e->why);
    else if (e->fits)
        printf("on a GPU: all machine code that runs there is traced as it is, by %s\n", e->nvidia.library);
    else
        printf("on a GPU: nothing would be traced: %s\n", e->why);
    printf("versions: %s: %s\n", words,
           *e->why && (e->nvidia.missing || !*e->nvidia.library) ? "not all are here"
           : *e->why                                             ? "they do not go together"
           : e->nvidia.cuda && e->nvidia.version                 ? "they fit"
                                                                 : "not known whether they fit");
    if (e->asked && !mt_nvidia_is_here())
        printf("here: a GPU is asked for, but none was found (neither /dev/nvidiactl nor /dev/dxg)\n");
    else
        engine_list_here(e);
}

/* ---- Environment that makes the dynamic linker load memtrace into a program ---- */

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

/* Returns the bytes of static thread-local storage that a library needs, or 0. */
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

/* Enlarges glibc's reserve of static thread-local storage for dlopen. With an auditor glibc takes the storage
 * of all libraries from this reserve of a few hundred bytes, so it must grow by what they need. */
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
    run_libraries(program, "", &files, 0);
    for (size_t i = 0; i < files.count; i++)
        bytes += environment_static_tls(files.word[i]);
    mt_words_free(&files);
    char *now = mt_words_text("%s%s" RESERVE "=%zu", was ? was : "", was && *was ? ":" : "", bytes);
    setenv("GLIBC_TUNABLES", now, 1);
    free(now);
}

/* On the CPU device libmemtrace.so replaces the CUDA runtime and the driver. */
static int environment_takes_over(const char *program)
{
    for (unsigned i = 0; i < PARTS; i++) {
        const char *variable = environment_parts[i].variable, *was = getenv(variable);
        char path[PATH_MAX];
        if (mt_files_part(environment_parts[i].file, path) != 0)
            return mt_cli_fail("there is no %s: build memtrace (./setup build) or install it whole", path);
        if (strpbrk(path, ":; $"))
            return mt_cli_fail(
                "%s: folder names with a blank, colon, semicolon or $ do not work in %s: move memtrace", path,
                variable);
        if (was && environment_has(was, path, environment_parts[i].separators))
            continue;
        char *now = was && *was ? mt_words_text("%s:%s", path, was) : mt_words_text("%s", path);
        setenv(variable, now, 1);
        free(now);
    }
    environment_set_reserve(program);
    return 0;
}

/* On a GPU the driver (or the dynamic linker, MEMTRACE_ENGINE=preload) and NVTX load our library. */
static const char *const environment_injected[] = {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"};

static int environment_is_preload(void)
{
    const char *engine = getenv("MEMTRACE_ENGINE");
    return engine && strcmp(engine, "preload") == 0;
}

/* Puts the library before others in LD_PRELOAD, once. */
static int environment_preload(const char *injection)
{
    const char *was = getenv("LD_PRELOAD");
    if (strpbrk(injection, ": "))
        return mt_cli_fail("%s: paths with a blank or colon do not work in LD_PRELOAD: move memtrace",
                           injection);
    if (was && environment_has(was, injection, ": "))
        return 0;
    char *now = was && *was ? mt_words_text("%s:%s", injection, was) : mt_words_text("%s", injection);
    setenv("LD_PRELOAD", now, 1);
    free(now);
    return 0;
}

static int environment_inject(const struct engine *e)
{
    setenv("NVTX_INJECTION64_PATH", e->injection, 1);
    setenv("MEMTRACE_SANITIZER", e->nvidia.library, 1);
    if (environment_is_preload())
        return environment_preload(e->injection);
    setenv("CUDA_INJECTION64_PATH", e->injection, 1);
    setenv("MEMTRACE_ENGINE", "inject", 1);
    return 0;
}

/* Sets the variables for the program at `path`; puts our entries before existing ones, once. */
static int environment_set(const char *program, const struct engine *e)
{
    const char *only = getenv("MEMTRACE_ONLY");
    if (!e->injects && only && *only)
        return mt_cli_refuse(
            "--only is for a GPU, which counts these results itself; kernels run on the CPU device "
            "here: without --only the trace has them all (memtrace extract -s lines,coalescing)");
    return e->injects ? environment_inject(e) : environment_takes_over(program);
}

/* Prints the variables on stdout, quoted for a shell. */
static void environment_print(void)
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

/* ---- --list: device code of a program and its libraries; mt-ptx prints the contents of each file and of its
 * cache ---- */

#define STATIC_WHOLE                                                                                         \
    "is linked statically as a whole (-static): nothing can be loaded into it; link it without -static"

/* Returns 1 for a program with device code that no dynamic linker loads. */
static int binary_is_static(const struct mt_binary *o)
{
    int program = o->view.head.e_type == ET_EXEC;
    for (size_t i = 0; i < o->nentries; i++)
        program |= o->entries[i].d_tag == DT_FLAGS_1 && o->entries[i].d_un.d_val & DF_1_PIE;
    return program && !*mt_binary_linker(o) && mt_binary_section(o, ".nv_fatbin");
}

/* On a GPU the runtime does not matter. */
static const char *list_runtime_on_gpu(const struct mt_binary *o)
{
    const struct mt_binary_symbols *where;
    int major;
    enum mt_binary_cudart kind = mt_binary_cudart(o, &where, &major);
    return kind == MT_CUDART_NONE ? NULL : kind == MT_CUDART_SHARED ? "shared runtime" : "static runtime";
}

static const char *list_runtime(const struct mt_binary *o, int on_gpu)
{
    const struct mt_binary_symbols *where;
    int major;
    if (binary_is_static(o))
        return STATIC_WHOLE;
    if (on_gpu)
        return list_runtime_on_gpu(o);
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

/* Returns 1 for a library of NVIDIA's that libmemtrace-libraries.so replaces, so that its kernels do not run.
 */
static int list_is_stood_in_for(const char *path)
{
    static const char *const names[] = {MT_LIBRARY_NAMES};
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(slash ? slash + 1 : path, names[i]))
            return 1;
    return 0;
}

/* Returns 1 if the file has device code or a runtime and was listed, 0 if not, or a negative exit code. */
static int list_file(const char *tool, const char *path, int on_gpu)
{
    struct mt_binary o;
    if (list_is_stood_in_for(path)) {
        printf("%s: %s\n", mt_visible(path).text,
               on_gpu ? "its kernels are traced"
                      : "on the CPU device memtrace computes its results, and its calls are launches of the "
                        "trace; on a GPU its own kernels are traced");
        return 1;
    }
    int code = 0, why = mt_binary_open(&o, path);
    if (why)
        return 0;
    const char *runtime = list_runtime(&o, on_gpu);
    int has = mt_binary_section(&o, ".nv_fatbin") || mt_binary_section(&o, "__nv_relfatbin");
    mt_binary_close(&o);
    if (!has && !runtime)
        return 0;
    printf("%s: %s\n", mt_visible(path).text, runtime ? runtime : "no CUDA runtime of its own");
    fflush(stdout);
    if (has) {
        char *argv[] = {(char *)tool, (char *)"--list", (char *)path, NULL};
        code = run_wait(argv, NULL);
    }
    return code ? -code : 1;
}

static int list_tool(char tool[PATH_MAX])
{
    if (mt_files_part("../libexec/memtrace/mt-ptx", tool) == 0)
        return 0;
    return mt_cli_fail("there is no %s, which reads device code", tool);
}

/* Runs --cache-list or --cache-clear for the folder in which programs cache images. Returns the exit code. */
static int run_cache(const char *what)
{
    char tool[PATH_MAX];
    char *argv[] = {tool, (char *)what, NULL};
    int code = list_tool(tool);
    return code ? code : run_wait(argv, NULL);
}

/* Prints which engine traces here, and the device code of the file and its libraries; NULL: only the engine.
 */
static int run_list(const char *name)
{
    char path[PATH_MAX], tool[PATH_MAX];
    struct words files = {0};
    int found = 0, code = 0;
    struct engine e;
    engine_find(&e, 1);
    engine_list(&e);
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
    setenv("MEMTRACE_DEVICE", e.injects ? "gpu" : "cpu", 1); /* mt-ptx says what holds there */
    mt_words_add(&files, path);
    code = run_libraries(path, "", &files, 1);
    for (size_t i = 0; i < files.count && code == 0; i++) {
        int one = list_file(tool, files.word[i], e.injects);
        found += one > 0;
        code = one < 0 ? -one : 0;
    }
    if (!found && !code)
        printf("%s: no device code, nor in the libraries that it is linked to\n", mt_visible(path).text);
    mt_words_free(&files);
    return code ? code : mt_near_told();
}

/* ---- Kinds of program, and reasons why one cannot be traced ---- */

#define RELINK                                                                                               \
    "build it with NVCC_APPEND_FLAGS=\"--cudart=shared\" in the environment (or nvcc --cudart=shared)"
enum { HEAD = 256, NESTING = 4 }; /* as in the kernel: length of a #! line, and nesting of scripts */

/* A setuid program runs with rights that its caller lacks, so the dynamic linker ignores the environment. */
static int program_check_rights(const char *path, const struct stat *st)
{
    const char *bit = st->st_mode & S_ISUID && st->st_uid != getuid() ? "set-user-id"
                      : (st->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st->st_gid != getgid()
                          ? "set-group-id"
                      : getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0
                          ? "a file with capabilities"
                          : NULL;
    return bit ? mt_cli_refuse(
                     "%s is %s: nothing can be loaded into such a program; run a copy of it without that",
                     path, bit)
               : 0;
}

static int program_check_version(const char *path, int major)
{
    char name[64], file[PATH_MAX];
    snprintf(name, sizeof name, "memtrace/cudart/%s", mt_binary_node(major));
    return major && mt_files_part(name, file) == 0
               ? 0
               : mt_cli_refuse("%s has the runtime of a CUDA version that this memtrace does not take over",
                               path);
}

static int program_check_cudart(struct program *p, const char *path, const struct mt_binary *o)
{
    const struct mt_binary_symbols *where;
    int major;
    switch (mt_binary_cudart(o, &where, &major)) {
    case MT_CUDART_NAMELESS:
        return mt_cli_refuse(
            "%s has a static CUDA runtime whose symbols were stripped, so that it cannot be taken "
            "over: do not strip it, or " RELINK,
            path);
    case MT_CUDART_STATIC:
        p->what = "its static CUDA runtime is taken over in memory";
        return program_check_version(path, major);
    case MT_CUDART_SHARED:
        p->what = "its shared CUDA runtime is replaced";
        return 0;
    default:
        p->what = "it has no CUDA runtime itself; its libraries are examined as they are loaded";
        return 0;
    }
}

/* On a GPU the driver loads our library into any program that loads the driver. */
static int program_check_injected(struct program *p, const char *path, const struct mt_binary *o)
{
    if (binary_is_static(o))
        return mt_cli_refuse("%s " STATIC_WHOLE, path);
    p->what = "its kernels are traced on the GPU as they are";
    return 0;
}

/* Returns 1 if the dynamic linker at `path` supports auditors as glibc's does, or if it cannot be read. */
static int binary_has_auditors(const char *path)
{
    static const char called[] = "la_version"; /* glibc looks this name up in auditors */
    struct mt_binary o;
    if (mt_binary_open(&o, path) != 0)
        return 1;
    int has = memmem(o.view.data, o.view.size, called, sizeof called) != NULL;
    mt_binary_close(&o);
    return has;
}

static int program_check_object(struct program *p, const char *path, const struct mt_binary *o)
{
    const char *linker = mt_binary_linker(o);
    if (p->injected)
        return program_check_injected(p, path, o);
    if (*linker && !binary_has_auditors(linker))
        return mt_cli_refuse("%s asks for the dynamic linker %s, which has no auditors as glibc's has: link "
                             "it with glibc",
                             path, linker);
    if (binary_is_static(o))
        return mt_cli_refuse("%s " STATIC_WHOLE, path);
    if (!*linker && o->soname) {
        p->what = "it is a dynamic linker: the program that it runs is examined as it is loaded";
        return 0;
    }
    if (!*linker) {
        p->what = "it is linked statically: only programs that it starts are traced";
        return 0;
    }
    return program_check_cudart(p, path, o);
}

/* Handles files that mt_binary_open does not read: a text, or a program for another machine. */
static int program_check_other(const char *path, const char *head, size_t n)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)head; /* these fields are at the same offsets in 32-bit files */
    if (n < 20 || memcmp(head, ELFMAG, SELFMAG) != 0)
        return 0; /* a shell runs it */
    return mt_cli_refuse("%s is a program for %s: only x86-64 programs of 64 bits can be traced", path,
                         mt_binary_machine(h));
}

/* Returns the interpreter of a #! line, cut out in place, or NULL. */
static char *program_interpreter(char *head)
{
    if (strncmp(head, "#!", 2) != 0)
        return NULL;
    head[strcspn(head, "\n")] = 0;
    char *name = head + 2 + strspn(head + 2, " \t");
    name[strcspn(name, " \t\r")] = 0;
    return name;
}

static int run_program_look(struct program *p, const char *path, int depth)
{
    struct stat st;
    struct mt_binary o;
    _Alignas(8) char head[HEAD + 1] = "";
    char *interpreter;
    int fd = open(path, O_RDONLY | O_CLOEXEC), code = 0;
    ssize_t n = fd < 0 ? -1 : pread(fd, head, HEAD, 0);
    if (fd < 0 || n < 0 || fstat(fd, &st) != 0) {
        mt_cli_say("%s cannot be read, so its device code is not known: %s", path, strerror(errno));
    } else if ((interpreter = program_interpreter(head)) != NULL) {
        p->what = "it is a script: its interpreter is examined as it loads libraries";
        code = depth < NESTING ? run_program_look(p, interpreter, depth + 1) : 0;
    } else if ((code = program_check_rights(path, &st)) == 0) {
        int why = mt_binary_open(&o, path);
        if (why == 0) {
            code = program_check_object(p, path, &o);
            mt_binary_close(&o);
        } else if (why == ENOEXEC) {
            code = program_check_other(path, head, (size_t)n);
        } else {
            mt_cli_say("%s cannot be read, so its device code is not known: %s", path, strerror(why));
        }
    }
    if (fd >= 0)
        close(fd);
    return code;
}

/* Finds the program in PATH as a shell does, and checks that this engine can trace it. */
static int run_program_find(struct program *p, const char *name, const struct engine *e)
{
    *p = (struct program){.what = "", .injected = e->injects};
    int why = mt_files_executable(name, p->path);
    if (why == ENOENT && !strchr(name, '/'))
        return access(name, X_OK) == 0
                   ? mt_cli_refuse("%s: there is no such program in PATH; did you mean ./%s?", name, name)
                   : mt_cli_refuse("%s: there is no such program in PATH", name);
    if (why)
        return mt_cli_refuse("%s: %s", name, strerror(why));
    return run_program_look(p, p->path, 0);
}

/* ---- The command line ---- */

static const struct mt_command command = {
    .of = MT_OF_RUN,
    .before =
        "Usage: memtrace run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
        "Runs a CUDA program as it is, built by nvcc or another compiler, and traces its kernels: on a "
        "GPU all\n"
        "machine code, with NVIDIA's libsanitizer-public.so; without a GPU on the CPU device.\n"
        "\n"
        "  nvcc -O3 -arch=sm_90 -lineinfo app.cu -o app     or whatever the Makefile does\n"
        "  memtrace run ./app                               writes MemTrace-pipe-N.mtc to /tmp\n"
        "  memtrace report /tmp -o report.html              a page about it\n"
        "\n"
        "  memtrace run -o run-1 ./app                      traces in a folder of their own\n"
        "  memtrace run python3 train.py                    what a script loads is traced, too\n"
        "  mpirun -n 4 memtrace run ./app                   each rank\n"
        "  memtrace run --list ./app                        device code in it, and what can be traced\n",
    .after = "MEMTRACE_... variables set the rest; memtrace env lists them. Exit status: the program's; 2: "
             "wrong\ncommand line, or PROGRAM cannot be traced; 1: it could not be started.\n",
    .stops = 1,
};

struct request {
    int list, show, verbose;
    const char *of_cache; /* cache option for mt-ptx */
};

/* Creates a folder, with its parents. */
static int run_make(const char *folder)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s", folder) >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        mkdir(path, 0777); /* a failure shows in the next mkdir */
        *slash = '/';
    }
    return mkdir(folder, 0777) != 0 && errno != EEXIST ? -1 : 0;
}

/* Sets the output folder, as an absolute path since the program may change folders before it writes. */
static int run_output(const char *folder)
{
    char whole[PATH_MAX];
    if (run_make(folder) != 0 || !realpath(folder, whole))
        return mt_cli_fail("%s: %s", folder, strerror(errno));
    setenv("MEMTRACE_DIR", whole, 1);
    return 0;
}

/* Sets the cache folder as an absolute path; the runtime creates it and checks its owner. */
static int run_cache_folder(const char *folder)
{
    char here[PATH_MAX] = "", *whole;
    if ((*folder != '/' && !getcwd(here, sizeof here)) ||
        asprintf(&whole, "%s%s%s", here, *here ? "/" : "", folder) < 0)
        return mt_cli_fail("%s: %s", folder, strerror(errno));
    setenv("MEMTRACE_CACHE", whole, 1);
    free(whole);
    return 0;
}

/* Checks the pattern here, since the program would only report the error and trace all kernels. */
static int run_kernels(const char *text)
{
    char why[200];
    regex_t regex;
    if (mt_regex(&regex, text + (*text == '!'), why, sizeof why))
        return mt_cli_usage("'%.200s' is not a regular expression: %s", text, why);
    regfree(&regex);
    setenv("MEMTRACE_KERNELS", text, 1);
    return 0;
}

/* `choices`: the accepted words, for messages. */
static int run_choice(const char *variable, const char *value, const char *const *words, const char *choices)
{
    const char *const *all = words;
    for (; *words; words++)
        if (strcmp(*words, value) == 0) {
            setenv(variable, value, 1);
            return 0;
        }
    const char *near = mt_near_word(value, strlen(value), all);
    return near ? mt_cli_refuse("%s is not what %s can be: did you mean %s?", value, variable, near)
                : mt_cli_refuse("%s is not what %s can be: %s", value, variable, choices);
}

/* Returns a bit for each of the words in a list, bit 31 for others. */
static unsigned run_words(const char *list, const char *const *words)
{
    unsigned has = 0;
    mt_near_word(list, 0, words); /* lists the words for shell completion */
    while (*list) {
        size_t n = strcspn(list, ","), i = 0;
        while (words[i] && (strlen(words[i]) != n || strncmp(words[i], list, n) != 0))
            i++;
        has |= words[i] ? 1u << i : 1u << 31;
        list += n + (list[n] == ',');
    }
    return has;
}

/* A misspelt MEMTRACE_ENGINE would be the usual way in. */
static int run_engine(void)
{
    static const char *const words[] = {"inject", "preload", "none", NULL};
    const char *engine = getenv("MEMTRACE_ENGINE");
    return engine && *engine ? run_choice("MEMTRACE_ENGINE", engine, words, "inject, preload or none") : 0;
}

static int run_only(const char *list)
{
    static const char *const words[] = {"lines", "volumes", "strides", NULL};
    unsigned has = run_words(list, words);
    if (!has || has >> 31)
        return mt_cli_refuse("'%s' is not a list of lines, volumes, strides", list);
    setenv("MEMTRACE_ONLY", list, 1);
    return 0;
}

static int run_spaces(const char *list)
{
    static const char *const words[] = {"global", "shared", "local", NULL};
    unsigned has = run_words(list, words);
    if (!(has & 1) || has >> 31)
        return mt_cli_refuse("'%s' is not global, or a list of global, shared, local with global in it",
                             list);
    const char *before = getenv("MEMTRACE_PTX_OPTIONS");
    char *options;
    if (asprintf(&options, "%s%s--mt-spaces=%s", before ? before : "", before && *before ? " " : "", list) <
        0)
        return MT_EXIT_FAILURE;
    setenv("MEMTRACE_PTX_OPTIONS", options, 1);
    setenv("MEMTRACE_SPACES", list, 1);
    setenv("MEMTRACE_FORMAT", "compact", 0);
    free(options);
    return 0;
}

static int run_option(void *arg, int o)
{
    struct request *r = arg;
    static const char *const formats[] = {"raw", "compact", NULL}, *const devices[] = {"auto", "gpu", "cpu",
                                                                                       NULL};
    switch (o) {
    case MT_OPT_OUTPUT:
        return run_output(optarg);
    case MT_OPT_FORMAT:
        return run_choice("MEMTRACE_FORMAT", optarg, formats, "raw or compact");
    case MT_OPT_DEVICE:
        return run_choice("MEMTRACE_DEVICE", optarg, devices, "auto, gpu or cpu");
    case MT_OPT_KERNELS:
        return run_kernels(optarg);
    case MT_OPT_SPACES:
        return run_spaces(optarg);
    case MT_OPT_ONLY:
        return run_only(optarg);
    case MT_OPT_VERBOSE:
        r->verbose = 1;
        setenv("MEMTRACE_VERBOSE", "1", 1);
        return 0;
    case MT_OPT_QUIET:
        setenv("MEMTRACE_QUIET", "1", 1);
        return 0;
    case MT_OPT_CACHE:
        return run_cache_folder(optarg);
    case MT_OPT_CACHE_LIST:
    case MT_OPT_CACHE_CLEAR:
        r->of_cache = o == MT_OPT_CACHE_LIST ? "--cache-list" : "--cache-clear";
        return 0;
    case MT_OPT_LIST:
        r->list = 1;
        return 0;
    default:
        r->show = 1;
        return 0;
    }
}

static int run_show(char **argv)
{
    struct words w = {0};
    environment_print();
    for (; *argv; argv++)
        mt_words_add(&w, *argv);
    putchar(' ');
    mt_words_print(&w);
    putchar('\n');
    mt_words_free(&w);
    return mt_near_told();
}

/* Prints on a terminal where the traces are, and what to do next. */
static void run_find_next(void)
{
    const char *folder = getenv("MEMTRACE_DIR"), *quiet = getenv("MEMTRACE_QUIET");
    folder = folder && *folder ? folder : "/tmp";
    if (isatty(STDERR_FILENO) && !(quiet && strcmp(quiet, "1") == 0))
        mt_cli_say("traces go to %s; then: memtrace report %s -o report.html", folder, folder);
}

static int run_program(const struct request *r, char **argv)
{
    struct program p;
    struct engine e;
    engine_find(&e, 0);
    int code = engine_check(&e);
    if (code == 0)
        code = run_program_find(&p, argv[0], &e);
    if (code == 0)
        code = environment_set(p.path, &e);
    if (code)
        return code;
    if (r->show)
        return run_show(argv);
    if (r->verbose)
        mt_cli_say("%s: %s", p.path, p.what);
    run_find_next();
    execvp(argv[0], argv); /* as p.path; a shell runs a text without #! */
    return mt_cli_fail("%s: %s", p.path, strerror(errno));
}

int mt_run_command(int argc, char **argv)
{
    struct request r = {0};
    int code = mt_cli_options(&command, argc, argv, run_option, &r);
    if (code)
        return code < 0 ? MT_EXIT_OK : code;
    if (r.of_cache)
        return optind < argc ? mt_cli_usage("%s takes no program", r.of_cache) : run_cache(r.of_cache);
    setenv("MEMTRACE_FORMAT", "compact", 0); /* unless another format was requested */
    if (optind == argc && !r.list)
        return mt_cli_usage("no program");
    if (r.list && optind + 1 < argc)
        return mt_cli_usage("--list takes one program or library, or none");
    if ((code = run_engine()) != 0)
        return code;
    return r.list ? run_list(argv[optind]) : run_program(&r, argv + optind);
}
