/* memtrace run: the command line. */
#include "mt-run.h"
#include <errno.h>
#include <getopt.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/command.h"
#include "base/near.h"
#include "base/words.h"

static const struct mt_command command = {
    .of = MT_OF_RUN,
    .before = "Usage: memtrace run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
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
              "  memtrace run --list ./app                        which device code is there, and what can "
              "be traced\n",
    .after = "All else is set by MEMTRACE_... variables; memtrace env lists them. Exit status: the "
             "program's; 2: wrong\n"
             "command line, or PROGRAM cannot be traced, which is said; 1: it could not be started.\n",
    .stops = 1,
    .wrong = mt_cli_usage,
};

struct request {
    int list, show, verbose;
    const char *of_cache; /* what is asked of mt-ptx about the cache */
};

/* With those that it is in. */
static int main_make(const char *folder)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s", folder) >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        mkdir(path, 0777); /* if it is not there then, the next one says it */
        *slash = '/';
    }
    return mkdir(folder, 0777) != 0 && errno != EEXIST ? -1 : 0;
}

/* The program may go to another folder before it writes: the whole path. */
static int main_output(const char *folder)
{
    char whole[PATH_MAX];
    if (main_make(folder) != 0 || !realpath(folder, whole)) {
        mt_cli_say("%s: %s", folder, strerror(errno));
        return EXIT_FAILED;
    }
    setenv("MEMTRACE_DIR", whole, 1);
    return 0;
}

/* As in main_output, but who needs the folder makes it, and looks at whose it is. */
static int main_cache(const char *folder)
{
    char here[PATH_MAX] = "", *whole;
    if ((*folder != '/' && !getcwd(here, sizeof here)) ||
        asprintf(&whole, "%s%s%s", here, *here ? "/" : "", folder) < 0) {
        mt_cli_say("%s: %s", folder, strerror(errno));
        return EXIT_FAILED;
    }
    setenv("MEMTRACE_CACHE", whole, 1);
    free(whole);
    return 0;
}

/* The program itself would only say what is wrong, and trace all. */
static int main_kernels(const char *text)
{
    char why[200];
    regex_t regex;
    int bad = regcomp(&regex, text + (*text == '!'), REG_EXTENDED | REG_NOSUB);
    if (bad) {
        regerror(bad, &regex, why, sizeof why);
        return mt_cli_usage("'%s' is not a regular expression: %s", text, why);
    }
    regfree(&regex);
    setenv("MEMTRACE_KERNELS", text, 1);
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
    return near ? mt_cli_refuse("%s is not what %s can be: did you mean %s?", value, variable, near)
                : mt_cli_refuse("%s is not what %s can be: %s", value, variable, choices);
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
        return mt_cli_refuse("'%s' is not global, or a list of global, shared, local with global in it",
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

static int main_option(void *arg, int o)
{
    struct request *r = arg;
    static const char *const formats[] = {"raw", "compact", NULL}, *const devices[] = {"auto", "gpu", "cpu",
                                                                                       NULL};
    switch (o) {
    case MT_OPT_OUTPUT:
        return main_output(optarg);
    case MT_OPT_FORMAT:
        return main_choice("MEMTRACE_FORMAT", optarg, formats, "raw or compact");
    case MT_OPT_DEVICE:
        return main_choice("MEMTRACE_DEVICE", optarg, devices, "auto, gpu or cpu");
    case MT_OPT_KERNELS:
        return main_kernels(optarg);
    case MT_OPT_SPACES:
        return main_spaces(optarg);
    case MT_OPT_VERBOSE:
        r->verbose = 1;
        setenv("MEMTRACE_VERBOSE", "1", 1);
        return 0;
    case MT_OPT_QUIET:
        setenv("MEMTRACE_QUIET", "1", 1);
        return 0;
    case MT_OPT_CACHE:
        return main_cache(optarg);
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
    return mt_near_told();
}

/* On a terminal: where the traces go, and what comes next. */
static void main_next(void)
{
    const char *folder = getenv("MEMTRACE_DIR"), *quiet = getenv("MEMTRACE_QUIET");
    folder = folder && *folder ? folder : "/tmp";
    if (isatty(STDERR_FILENO) && !(quiet && strcmp(quiet, "1") == 0))
        mt_cli_say("traces go to %s; then: memtrace report %s -o report.html", folder, folder);
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
        mt_cli_say("%s: %s", p.path, p.what);
    main_next();
    execvp(argv[0], argv); /* as p.path, and a text without #! by a shell */
    mt_cli_say("%s: %s", p.path, strerror(errno));
    return EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct request r = {0};
    mt_cli_name = program_invocation_short_name; /* "mt-run", or "memtrace run" */
    mt_words_begin("memtrace run: no memory");
    int code = mt_command_options(&command, argc, argv, main_option, &r);
    if (code)
        return code < 0 ? mt_near_told() : code;
    if (r.of_cache)
        return optind < argc ? mt_cli_usage("%s takes no program", r.of_cache) : mt_run_cache(r.of_cache);
    setenv("MEMTRACE_FORMAT", "compact", 0); /* unless somebody asked for another one */
    if (optind == argc && !r.list)
        return mt_cli_usage("no program");
    if (r.list && optind + 1 < argc)
        return mt_cli_usage("--list takes one program or library, or none");
    return r.list ? mt_run_list(argv[optind]) : main_run(&r, argv + optind);
}
