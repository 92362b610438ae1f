/* memtrace: one program for all commands. `memtrace extract …` and `mt-extract …` are equivalent. */
#include "cli/base/cli.h"
#include "cli/base/commands.h"
#include "base/near.h"
#include "base/part.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command {
    const char *word, *sentence;
    int (*main)(int argc, char **argv);
} commands[] = {
#define COMMAND(word, sentence) {#word, sentence, mt_##word##_command},
#include "cli/base/commands.def"
#undef COMMAND
};
#define COMMANDS (sizeof commands / sizeof *commands)

static const char first_help[] =
    "memtrace: which CTA wrote and read each byte, with which strides, on which source line\n"
    "\n"
    "Three things to begin with:\n"
    "  memtrace run ./app             trace a CUDA program, or python script.py, unchanged\n"
    "  memtrace cc app.cu -o app      or compile it so that ./app traces itself\n"
    "  memtrace report /tmp -o a.html then look at the newest trace\n"
    "\n"
    "Commands (memtrace help COMMAND says more, man memtrace-COMMAND all):\n";

static const char last_help[] = "\nUsage: memtrace COMMAND [OPTION]... [FILE]...\n"
                                "       memtrace help [COMMAND]\n"
                                "       memtrace --version\n";

static int memtrace_help(void)
{
    fputs(first_help, stdout);
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-9s %s\n", commands[i].word, commands[i].sentence);
    fputs(last_help, stdout);
    return mt_near_told();
}

static const struct command *memtrace_find(const char *word)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(word, commands[i].word) == 0)
            return &commands[i];
    return NULL;
}

int mt_cc_command(int argc, char **argv)
{
    char path[PATH_MAX];
    if (mt_files_beside(path, "mt-cc") == 0)
        execv(path, argv);
    int missing = errno == ENOENT;
    mt_cli_say("cc: %s: %s", path, strerror(errno));
    return missing ? mt_cli_left_out("tools") : MT_EXIT_FAILURE;
}

/* Calls a command. `called`: its name on the command line; "memtrace check" calls `memtrace run` under its
 * own name. */
static int memtrace_call(const struct command *c, const char *called, int argc, char **argv)
{
    static char name[32];
    int for_another = strchr(called, ' ') != NULL;
    snprintf(name, sizeof name, "%s%s", for_another ? called : "memtrace ", for_another ? "" : c->word);
    mt_cli_name = argv[0] = name;
    return c->main(argc, argv);
}

static int memtrace_unknown(const char *word)
{
    const char *words[COMMANDS + 2] = {"help"};
    for (size_t i = 0; i < COMMANDS; i++)
        words[i + 1] = commands[i].word;
    const char *near = mt_near_word(word, strlen(word), words);
    if (access(word, F_OK) == 0)
        return mt_cli_usage(
            "'%s' is a file, not a command: memtrace report, extract and dump read traces, memtrace "
            "run runs programs",
            word);
    if (strcmp(word, "summary") == 0)
        return mt_cli_usage("the summary is a format: memtrace extract -f summary TRACE");
    return near ? mt_cli_usage("there is no command '%s'; did you mean '%s'?", word, near)
                : mt_cli_usage("there is no command '%s'", word);
}

int main(int argc, char **argv)
{
    const char *slash = argc ? strrchr(argv[0], '/') : NULL, *called = slash  ? slash + 1
                                                                       : argc ? argv[0]
                                                                              : "";
    const struct command *c = strncmp(called, "mt-", 3) == 0 ? memtrace_find(called + 3) : NULL;
    mt_cli_name = c ? called : "memtrace";
    if (c)
        return c->main(argc, argv);
    const char *word = argc > 1 ? argv[1] : "help";
    if (strcmp(word, "--completion-options") == 0) { /* first suggestions for shells */
        for (size_t i = 0; i < COMMANDS; i++)
            puts(commands[i].word);
        puts("help\n--help\n--version");
        return mt_near_told();
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("%s (memtrace) %s\n", mt_cli_name, MEMTRACE_VERSION);
        return mt_near_told();
    }
    int help = strcmp(word, "help") == 0;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
        (help && (argc < 3 || strcmp(argv[2], "help") == 0)))
        return memtrace_help();
    c = memtrace_find(help ? argv[2] : word);
    if (!c)
        return memtrace_unknown(help ? argv[2] : word);
    if (help) {
        char option[] = "--help", *asked[] = {NULL, option, NULL};
        return memtrace_call(c, "", 2, asked);
    }
    return memtrace_call(c, called, argc - 1, argv + 1);
}
