/* mt-run: the command line. */
#include "mt-run.h"
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/base/near.h"
#include "words.h"

static const char usage[] =
    "Usage: mt-run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
    "Run a CUDA program as it is, built by nvcc or another compiler, and trace its kernels: on a GPU all "
    "machine code,\n"
    "with NVIDIA's libsanitizer-public.so; without a GPU on the CPU device.\n"
    "\n"
    "  nvcc -O3 -arch=sm_90 -lineinfo app.cu -o app     or whatever the Makefile does\n"
    "  mt-run ./app                                     writes MemTrace-pipe-N to /tmp\n"
    "  mt-report /tmp/MemTrace-pipe-* -o report.html    a page about it\n"
    "\n"
    "  mt-run -o run-1 -f compact ./app                 small traces, in a folder of their own\n"
    "  mt-run python3 train.py                          what a script loads is traced, too\n"
    "  mpirun -n 4 mt-run ./app                         each rank\n"
    "  mt-run --list ./app                              which device code is there, and what can be traced\n"
    "\n"
    "  -o, --output=DIR       folder of the traces, made if it is not there (MEMTRACE_DIR)\n"
    "  -f, --format=FORMAT    raw or compact (MEMTRACE_FORMAT)\n"
    "  -k, --kernels=REGEX    trace only kernels whose name matches (MEMTRACE_KERNELS)\n"
    "  -s, --spaces=LIST      global,shared,local or less: memory of which accesses are recorded; compact "
    "traces\n"
    "                         (default: global; the rest is for mt-shared)\n"
    "  -d, --device=DEVICE    auto, gpu or cpu (MEMTRACE_DEVICE)\n"
    "  -v, --verbose          say what the program is, which device is used and where traces go\n"
    "      --list             say what traces here and on a GPU, what PROGRAM and its libraries carry, and "
    "run "
    "nothing\n"
    "      --show             print the command that would run, as a line for a shell\n"
    "  -q, --quiet            say only what fails or makes a trace incomplete (MEMTRACE_QUIET)\n"
    "  -h, --help; -V, --version\n"
    "\n"
    "All else is set by MEMTRACE_... variables; mt-env lists them. Exit status: the program's; 2: wrong "
    "command line, or\n"
    "PROGRAM cannot be traced, which is said; 1: it could not be started. Manual: docs/man/mt-run.md\n";

enum { OPTION_LIST = 256, OPTION_SHOW };
static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},  {"format", required_argument, NULL, 'f'},
    {"kernels", required_argument, NULL, 'k'}, {"spaces", required_argument, NULL, 's'},
    {"device", required_argument, NULL, 'd'},  {"verbose", no_argument, NULL, 'v'},
    {"list", no_argument, NULL, OPTION_LIST},  {"show", no_argument, NULL, OPTION_SHOW},
    {"quiet", no_argument, NULL, 'q'},         {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},       {NULL, 0, NULL, 0}};
static const char letters[] = "+o:f:k:d:s:vqhV";

struct request {
    int list, show, verbose;
};

static void main_say(const char *format, va_list args)
{
    fputs("mt-run: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void mt_run_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    main_say(format, args);
    va_end(args);
}

int mt_run_refuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    main_say(format, args);
    va_end(args);
    return EXIT_REFUSED;
}

/* The program may go to another folder before it writes: the whole path. */
static int main_output(const char *folder)
{
    char whole[PATH_MAX];
    if ((mkdir(folder, 0777) != 0 && errno != EEXIST) || !realpath(folder, whole)) {
        mt_run_say("%s: %s", folder, strerror(errno));
        return EXIT_FAILED;
    }
    setenv("MEMTRACE_DIR", whole, 1);
    return 0;
}

/* `choices`: `words` as people read them. */
static int main_choice(const char *variable, const char *value, const char *const *words, const char *choices)
{
    const char *const *all = words;
    for (; *words; words++)
        if (strcmp(*words, value) == 0) {
            setenv(variable, value, 1);
            return 0;
        }
    const char *near = mt_near_word(value, strlen(value), all);
    return near ? mt_run_refuse("%s is not what %s can be: did you mean %s?", value, variable, near)
                : mt_run_refuse("%s is not what %s can be: %s", value, variable, choices);
}

static int main_is_spaces(const char *list)
{
    static const char *const words[] = {"global", "shared", "local", NULL};
    unsigned has = 0;
    mt_near_word(list, 0, words); /* a shell may ask for them */
    while (*list) {
        size_t n = strcspn(list, ","), i = 0;
        while (i < 3 && (strlen(words[i]) != n || strncmp(words[i], list, n) != 0))
            i++;
        has |= 1u << i;
        list += n + (list[n] == ',');
    }
    return has & 1 && !(has & 8);
}

static int main_spaces(const char *list)
{
    if (!main_is_spaces(list))
        return mt_run_refuse("'%s' is not global, or a list of global, shared, local with global in it",
                             list);
    const char *before = getenv("MEMTRACE_PTX_OPTIONS");
    char *options;
    if (asprintf(&options, "%s%s--mt-spaces=%s", before ? before : "", before && *before ? " " : "", list) <
        0)
        return EXIT_FAILED;
    setenv("MEMTRACE_PTX_OPTIONS", options, 1);
    setenv("MEMTRACE_SPACES", list, 1);
    setenv("MEMTRACE_FORMAT", "compact", 0);
    free(options);
    return 0;
}

/* -1: go on; otherwise the exit code. */
static int main_option(struct request *r, int c)
{
    static const char *const formats[] = {"raw", "compact", NULL}, *const devices[] = {"auto", "gpu", "cpu",
                                                                                       NULL};
    int code = 0;
    switch (c) {
    case 'o':
        code = main_output(optarg);
        break;
    case 'f':
        code = main_choice("MEMTRACE_FORMAT", optarg, formats, "raw or compact");
        break;
    case 'd':
        code = main_choice("MEMTRACE_DEVICE", optarg, devices, "auto, gpu or cpu");
        break;
    case 'k':
        setenv("MEMTRACE_KERNELS", optarg, 1);
        break;
    case 's':
        code = main_spaces(optarg);
        break;
    case 'v':
        r->verbose = 1;
        setenv("MEMTRACE_VERBOSE", "1", 1);
        break;
    case 'q':
        setenv("MEMTRACE_QUIET", "1", 1);
        break;
    case OPTION_LIST:
        r->list = 1;
        break;
    case OPTION_SHOW:
        r->show = 1;
        break;
    case 'h':
        fputs(usage, stdout);
        return mt_near_told("mt-run");
    case 'V':
        puts("mt-run (memtrace) " MEMTRACE_VERSION);
        return mt_near_told("mt-run");
    default:
        fputs("mt-run: --help says what there is\n", stderr);
        return EXIT_REFUSED;
    }
    return code ? code : -1;
}

static int main_show(char **argv)
{
    struct words w = {0};
    mt_run_environment_print();
    for (; *argv; argv++)
        mt_words_add(&w, *argv);
    putchar(' ');
    mt_words_print(&w);
    putchar('\n');
    mt_words_free(&w);
    return mt_near_told("mt-run");
}

static int main_run(const struct request *r, char **argv)
{
    struct program p;
    struct engine e;
    mt_run_engine_find(&e);
    int code = mt_run_engine_check(&e);
    if (code == 0)
        code = mt_run_program_find(&p, argv[0], &e);
    if (code == 0)
        code = mt_run_environment_set(p.path, &e);
    if (code)
        return code;
    if (r->show)
        return main_show(argv);
    if (r->verbose)
        mt_run_say("%s: %s", p.path, p.what);
    execvp(argv[0], argv); /* as p.path, and a text without #! by a shell */
    mt_run_say("%s: %s", p.path, strerror(errno));
    return EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct request r = {0};
    int c;
    mt_words_begin("mt-run: no memory");
    if (mt_near_completion(argc, argv, letters, options))
        return mt_near_told("mt-run");
    if ((c = mt_near_values(argc, argv, letters, options)) != 0) {
        if (c > 0)
            main_option(&r, c);
        return mt_near_told("mt-run");
    }
    while ((c = getopt_long(argc, argv, letters, options, NULL)) != -1) {
        const char *near = c == '?' ? mt_near_option(argv[optind - 1], options) : NULL;
        if (near)
            mt_run_say("did you mean --%s?", near);
        int code = main_option(&r, c);
        if (code >= 0)
            return code;
    }
    if (optind == argc && !r.list) {
        fputs("mt-run: no program; --help says more\n", stderr);
        return EXIT_REFUSED;
    }
    if (r.list && optind + 1 < argc) {
        fputs("mt-run: --list takes one program or library, or none\n", stderr);
        return EXIT_REFUSED;
    }
    return r.list ? mt_run_list(argv[optind]) : main_run(&r, argv + optind);
}
