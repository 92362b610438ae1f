/* mt-cc: puts the command line together and becomes clang++-19. docs/man/mt-cc.md is its manual. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/create.h"
#include "base/command.h"
#include "base/near.h"
#include "device_link.h"
#include "mt-cc.h"
#include "base/trust.h"

#define DEFAULT_ARCH "sm_90"
#define CLANG "clang++-19"

static const struct mt_command command = {
    .of = MT_OF_CC,
    .before = "Usage: mt-cc [OPTION]... FILE...\n"
              "Compiles and links CUDA, C++ and C programs with clang++-19 so that they trace their memory "
              "accesses.\n"
              "Options are clang's and nvcc's (-arch, -gencode, -Xcompiler, -rdc=true, -lineinfo, …), and:\n",
    .after = "Environment: MEMTRACE_CLANG, the clang++ 19 to run instead of clang++-19.\n"
             "Exit code: clang's; 1 when it cannot be run, 2 for a wrong option.\n",
};

static int main_exists(const char *path, const char *what)
{
    if (access(path, R_OK) == 0) {
        return 1;
    }
    mt_cli_say("%s: no such %s; build memtrace first (./setup build)", path, what);
    return 0;
}

static int main_traces_host(const struct request *r, const struct places *p)
{
    if (!r->host || main_exists(p->host, "runtime of host tracing")) {
        return 1;
    }
    mt_cli_left_out("host");
    return 0;
}

static int are_there(const struct request *r, const struct places *p)
{
    if (r->compiles && !r->plain && !main_exists(p->plugin, "plugin")) {
        return 0;
    }
    return !r->links || r->inputs == 0 || (main_exists(p->runtime, "runtime") && main_traces_host(r, p));
}

/* CMake compiles this to ask which compiler it has. It must take mt-cc for clang, whose options mt-cc has. */
static int asks_for_compiler(const struct request *r)
{
    static const char name[] = "CMakeCUDACompilerId.cu";
    for (size_t i = 0; i < r->sources.count; i++) {
        size_t n = strlen(r->sources.word[i]);
        if (n >= sizeof name - 1 && strcmp(r->sources.word[i] + n - (sizeof name - 1), name) == 0) {
            return 1;
        }
    }
    return 0;
}

static int main_compare_archs(const void *a, const void *b)
{
    return atoi(*(char *const *)a + strlen("sm_")) - atoi(*(char *const *)b + strlen("sm_"));
}

/* nvcc's __CUDA_ARCH_LIST__: ten times the architectures' numbers, the smallest first. */
static void main_add_arch_list(struct words *line, const struct request *r)
{
    struct words archs = {0};
    char *list = mt_words_text("%s", "");
    mt_words_append(&archs, &r->archs);
    if (archs.count == 0) {
        mt_words_add(&archs, DEFAULT_ARCH);
    }
    qsort(archs.word, archs.count, sizeof *archs.word, main_compare_archs);
    for (size_t i = 0; i < archs.count; i++) {
        list = mt_words_text("%s%s%d0", list, i > 0 ? "," : "", atoi(archs.word[i] + strlen("sm_")));
    }
    mt_words_addf(line, "-D__CUDA_ARCH_LIST__=%s", list);
}

/* What the host C compilers of today's systems (gcc before 14) warn of, and clang 19 refuses. */
static void main_add_c_dialect(struct words *line)
{
    static const char *const warned[] = {"implicit-function-declaration", "implicit-int", "int-conversion",
                                         "incompatible-function-pointer-types", "return-mismatch"};
    for (size_t i = 0; i < sizeof warned / sizeof *warned; i++) {
        mt_words_addf(line, "-Wno-error=%s", warned[i]);
    }
}

/* Flags in front of the user's: what a compilation needs. Later ones win, so the user's stay in force. */
static void add_compile_flags(struct words *line, const struct request *r, const struct places *p)
{
    mt_words_add(line, "-Wno-unknown-cuda-version");
    if (r->compiles) {
        mt_words_add(line, "-Wno-register"); /* an error in clang's C++17, not in nvcc's */
        main_add_arch_list(line, r);
    }
    if (r->c_files.count > 0) {
        main_add_c_dialect(line);
    }
    if (r->cuda) {
        mt_words_addf(line, "--cuda-path=%s", p->overlay);
        /* clang itself looks there only after /usr/local/include and /usr/include,
         * where there may be CUDA headers. */
        mt_words_add(line, "-isystem");
        mt_words_addf(line, "%s/include", p->overlay);
        if (asks_for_compiler(r)) {
            mt_words_add(line, "-DMT_CUDA_NO_NVCC");
        }
        if (r->archs.count == 0) {
            mt_words_add(line, "--cuda-gpu-arch=" DEFAULT_ARCH);
        }
        for (size_t i = 0; i < (r->first_arch && r->archs.count > 1 ? 1 : r->archs.count); i++) {
            mt_words_addf(line, "--cuda-gpu-arch=%s", r->archs.word[i]);
        }
        mt_cc_math_words(&r->math, line);
        if (r->optimises_device) {
            mt_words_add(line, "-Xarch_device");
            mt_words_add(line, "-O3");
        }
    }
    if (r->compiles && !r->plain) {
        mt_words_addf(line, "-fplugin=%s", p->plugin);
        mt_words_append(line, &r->plugin);
        if (r->host) { /* names of variables */
            mt_words_add(line, "-Xarch_host");
            mt_words_add(line, "-fno-discard-value-names");
        }
    }
}

/* Flags after the user's: header folders that come last, and the runtime. */
static void add_last_flags(struct words *line, const struct request *r, const struct places *p)
{
    if (r->compiles) {
        mt_words_add(line, "-idirafter");
        mt_words_add(line, p->include);
        mt_words_add(line, "-idirafter");
        mt_words_addf(line, "%s/include", p->overlay);
    }
    if (r->links && !r->relocatable && r->inputs > 0) {
        mt_words_addf(line, "-L%s/lib64", p->overlay);
        if (r->language) {
            mt_words_add(line, "-x");
            mt_words_add(line, "none");
        }
        if (r->host) {
            mt_words_add(line, p->host);
        }
        mt_words_add(line, p->runtime);
        mt_words_add(line, "-pthread");
        mt_words_add(line, "-ldl");
    }
}

/* Becomes clang; returns only when that cannot be. */
static int main_become(struct words *line)
{
    const char *chosen = getenv("MEMTRACE_CLANG");
    int is_clang = strcmp(line->word[0], CLANG) == 0 || (chosen && strcmp(line->word[0], chosen) == 0);
    if (strcmp(line->word[0], CLANG) == 0) {
        execvp(line->word[0], line->word);
        line->word[0] = (char *)MT_CLANGXX; /* not in PATH: where it was when memtrace was built */
    }
    execvp(line->word[0], line->word);
    return mt_cli_fail("cannot run %s: %s%s", line->word[0], strerror(errno),
                       is_clang ? "; " MT_CC_NO_CLANG : "");
}

struct words mt_cc_complete(const struct request *r, const struct words *middle, int links)
{
    const char *chosen = getenv("MEMTRACE_CLANG");
    struct request part = *r;
    struct words line = {0};
    part.links = links;
    mt_words_add(&line, chosen && *chosen ? chosen : CLANG);
    if (!r->compiles) {
        mt_words_add(&line, "-Qunused-arguments"); /* nvcc's users give links what is for compiling */
    }
    add_compile_flags(&line, &part, r->places);
    mt_words_append(&line, middle);
    while (!links && line.count > 2 && strcmp(line.word[line.count - 2], "-x") == 0) {
        line.count -= 2; /* no input follows: clang would warn */
        line.word[line.count] = NULL;
    }
    add_last_flags(&line, &part, r->places);
    return line;
}

int mt_cc_run_line(const struct request *r, struct words *line, int out)
{
    int status = 0;
    if (r->show) {
        mt_words_print(line);
        putchar('\n');
        return 0;
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (out >= 0 && dup2(out, STDOUT_FILENO) < 0) {
            _exit(1);
        }
        _exit(main_become(line));
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return mt_cli_fail("cannot run %s: %s", line->word[0], strerror(errno));
    }
    if (WIFSIGNALED(status)) {
        raise(WTERMSIG(status));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

char *mt_cc_make_folder(const struct request *r)
{
    const char *tmp = getenv("TMPDIR");
    char *folder = mt_words_text("%s/mt-cc-XXXXXX", tmp && *tmp ? tmp : "/tmp"), why[PATH_MAX + 128];
    if (r->show) {
        return folder;
    }
    if (!mkdtemp(folder)) {
        mt_cli_say("cannot make %s: %s; set TMPDIR to another folder", folder, strerror(errno));
        return NULL;
    }
    if (mt_trust_file(folder, why, sizeof why) != 0) { /* code will be there */
        rmdir(folder);
        mt_cli_say("no temporary folder: %s; set TMPDIR to another folder", why);
        return NULL;
    }
    return folder;
}

/* Is there relocatable device code to be linked, and by us? */
static int links_device_code(const struct request *r)
{
    struct device_code code = {0};
    return r->links && !r->no_device_link && !r->relocatable &&
           (r->dlink || (r->rdc && r->sources.count > 0) ||
            mt_cc_device_code_inputs(&r->user, &code).count > 0);
}

/* CMake takes who says "clang version" for clang, whose options mt-cc has, and asks who names nvcc's driver
 * where the CUDA toolkit is (main_print_toolkit); its FindCUDA reads the release. */
static void main_print_version(const struct places *p)
{
    unsigned major = p->cuda / 1000, minor = p->cuda % 1000 / 10;
    printf("mt-cc (memtrace) %s\n", MT_VERSION);
    printf("clang version %s\n", MT_CLANG_VERSION);
    printf("in the place of nvcc: NVIDIA (R) Cuda compiler driver\n");
    printf("Cuda compilation tools, release %u.%u, V%u.%u.0\n", major, minor, major, minor);
    printf("toolkit: %s\n", p->toolkit);
    printf("overlay: %s\nplugin:  %s\nruntime: %s\n", p->overlay, p->plugin, p->runtime);
}

/* What nvcc says under -v, and build systems read. */
static void main_print_toolkit(const struct request *r)
{
    if (r->verbose) {
        fprintf(stderr, "#$ TOP=%s\n#$ NVVMIR_LIBRARY_DIR=%s/nvvm/libdevice\n", r->places->overlay,
                r->places->overlay);
    }
}

/* Options that ask for words on stdout and nothing else. */
static int main_answers(const struct request *r)
{
    if (r->version) {
        main_print_version(r->places);
    } else if (r->lists) {
        mt_cc_request_print_archs(r, r->lists);
    }
    return r->version || r->lists;
}

/* clang would replace its source. 0, or 2 after a message. */
static int main_clashes(const struct request *r)
{
    const char *output = NULL;
    for (size_t i = 0; i < r->user.count; i++) {
        if (strcmp(r->user.word[i], "-o") == 0 && i + 1 < r->user.count) {
            output = r->user.word[++i];
        } else if (strncmp(r->user.word[i], "-o", 2) == 0 && r->user.word[i][2]) {
            output = r->user.word[i] + 2;
        }
    }
    for (size_t i = 0; output && i < r->files.count; i++) {
        if (mt_output_is_input(output, r->files.word[i])) {
            return mt_cli_refuse("the output %s is one of the inputs", output);
        }
    }
    return 0;
}

/* Runs what was asked for; the exit code. */
static int main_run(const struct request *r)
{
    if (main_clashes(r)) {
        return 2;
    }
    const char *tmp = getenv("TMPDIR");
    if (tmp && *tmp && !r->show &&
        access(tmp, W_OK | X_OK) != 0) { /* clang does not say which folder it means */
        return mt_cli_fail("TMPDIR is %s: %s; set it to another folder", tmp, strerror(errno));
    }
    if (r->depends && r->cuda) {
        return mt_cc_run_depends(r);
    }
    if (links_device_code(r)) {
        return mt_cc_run_device_link(r);
    }
    if (mt_cc_languages_mixed(r)) {
        return mt_cc_run_languages(r);
    }
    struct words line = mt_cc_complete(r, &r->user, r->links);
    return r->show ? mt_cc_run_line(r, &line, -1) : main_become(&line);
}

int main(int argc, char **argv)
{
    struct places places;
    struct request r = {0};
    struct words all = {0};

    mt_cli_name = "mt-cc";
    if (argc < 2) {
        return mt_cli_refuse("no files; mt-cc --help says how");
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        mt_command_help(&command);
        return mt_near_told();
    }
    if (mt_near_completion(argc, argv, "qhV", mt_cc_options()) ||
        mt_near_values(argc, argv, "qhV", mt_cc_options())) {
        return mt_near_told();
    }
    if (mt_cc_places_find(&places) != 0) {
        return 1;
    }
    if (strcmp(argv[1], "--env") == 0 && argc == 2) {
        int code = mt_cc_print_environment(&places);
        return code ? code : mt_near_told();
    }
    mt_cc_forget_environment();
    r.toolkit = places.cuda;
    r.places = &places;
    if (mt_cc_response_expand(&all, argc, argv) != 0) {
        return 2;
    }
    int code = mt_cc_request_read(&r, (int)all.count, all.word);
    if (code != 0 || main_answers(&r)) {
        return code ? code : mt_near_told();
    }
    mt_cc_languages_drop_standard(&r);
    main_print_toolkit(&r);
    if (r.show) {
        fflush(stdout);
        for (size_t i = 0; !r.quiet && i < r.notes.count; i++) {
            mt_cli_say("note: %s", r.notes.word[i]);
        }
    } else if (!are_there(&r, &places)) {
        return 1;
    }
    return main_run(&r);
}
