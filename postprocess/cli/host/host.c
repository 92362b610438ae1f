/* memtrace host: traces the memory accesses of a host program. Manual: docs/man/memtrace-host.md. Exit
 * status: that of the traced program (128 + number if a signal ended it); 2 for a wrong command line or a
 * program that cannot be traced; 1 if the engine cannot run. Functions that return an int return 0 or one of
 * these two, after a message on stderr that says what is wrong and the way out. */
#define _GNU_SOURCE
#include "cli/base/commands.h"
#include "cli/base/cli.h"
#include "memtrace/host.h"
#include "base/host_options.h"
#include "base/near.h"
#include "output/text/table.h"
#include "base/binary.h"
#include "base/run.h"
#include "base/file.h"
#include "base/part.h"
#include "base/words.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct request {
    const char *engine; /* auto, llvm, dynamorio, qemu or pin */
    const char *mode;   /* mat, insn or atomic */
    int unasked;        /* 1: no mode was named, so it is the default one with --library=data */
    struct words given; /* options of the mode: "threshold", "4096", "signal", "1" … */
    struct words core;  /* options for mt_core_options_parse: "mat", "--threshold=4096" … */
    const char *output; /* as given, or the mode's default */
    int container;      /* 1: the output is a compact trace */
    int signals;        /* 1: signals turn tracing on and off (--signal 1) */
    int show, verbose, quiet;
    int exec;           /* 1: replaces this process by the program, since it was traced before its exec */
    const char *argv0;  /* argv[0] for the program; NULL: its name as given */
    char *const *words; /* whole command line */
    char **program;     /* argv of the program */
};

/* ---- the program to trace ---- */
struct program {
    char path[PATH_MAX]; /* ELF file to run; for a script, its interpreter */
    struct words argv;   /* argv as the program will see it */
    int instrumented;    /* 1: built with mt-cc --host */
    int ordered;         /* 1: built with --host=atomic */
    int script;
};

/* ---- engines ---- */
struct command {
    char path[PATH_MAX]; /* program to run */
    struct words argv;
    struct words env; /* environment as "NAME=value" strings */
};

/* State of the output before the run, so that an old trace is not taken for the new one. */
struct trace_before {
    int there;
    struct stat st;
    struct timespec now;
};

/* ---- Help of memtrace host, for all modes and for each ---- */

static const char *const modes[] = {"mat", "insn", "atomic", NULL};
static const char *const engines[] = {"auto", "llvm", "dynamorio", "qemu", "pin", NULL};

#define OF_KIND(letter, word, text, examples)                                                                \
    {.of = MT_OF_HOST,                                                                                       \
     .kind = letter,                                                                                         \
     .before =                                                                                               \
         "Usage: memtrace host [--engine=ENGINE] " word " [OPTION]... [--] PROGRAM [ARGUMENT]...\n" text,    \
     .after = "examples:\n" examples "\nmemtrace host --help lists options of all kinds. Manual: "           \
              "docs/man/memtrace-host.md\n",                                                                 \
     .stops = 1}
static const struct mt_command commands[] = {
    {
        .of = MT_OF_HOST,
        .before =
            "Usage: memtrace host [OPTION]... [mat|insn|atomic [OPTION]...] [--] PROGRAM [ARGUMENT]...\n"
            "Runs PROGRAM and writes its memory accesses to a trace. The program needs no change.\n"
            "\n"
            "  memtrace host ./app               into memory_trace.mtc, without accesses of the loader and "
            "the C library\n                                    to their own data: then  memtrace report "
            "memory_trace.mtc -o "
            "report.html\n"
            "  memtrace host mat -- ls -l        buffers and strides: then  memtrace graph "
            "mat_trace.mtc\n"
            "  memtrace host insn -- /bin/true   each instruction, its registers and operands: less "
            "insn_trace.out\n"
            "  memtrace host atomic -- ./threads all threads' accesses in an order that the machine could "
            "have executed:\n"
            "                                    then  memtrace convert --order=time < memory_trace.out | "
            "./my-simulator\n"
            "\n"
            "  memtrace host mat --help          (insn, atomic) shows the options of that kind\n",
        .after =
            "Environment: MEMTRACE_QEMU (the qemu-x86_64 to run), PIN_ROOT (the Pin kit), MEMTRACE_PIN_TOOL "
            "(the built tool).\n"
            "Exit status: the program's (128 + number after a signal); 2 wrong command line; 1 the engine "
            "cannot run.\n",
        .stops = 1,
    },
    OF_KIND(
        'M', "mat",
        "Allocations (malloc family, new, mmap, brk) and the accesses to them, each thread in its order.\n"
        "memtrace graph draws the strides in which buffers are walked.\n",
        "  memtrace host mat -- ./app && memtrace graph mat_trace.mtc | dot -Tsvg > graph.svg\n"
        "  memtrace host mat --threshold=4096 --routine=solve -- ./app     large buffers, inside solve() and "
        "what it "
        "calls\n"
        "  memtrace host mat --signal -- ./server &                        silent until: kill -USR1 %1; "
        "until "
        "kill "
        "-USR2 %1\n"
        "  memtrace host mat -o mat.txt -- ./app                           text: ip address offset base type "
        "size "
        "allocsize\n"),
    OF_KIND('I', "insn",
            "Each instruction of the main program that was executed, by address: its text, the registers it "
            "reads "
            "and\n"
            "writes, and for each execution its number in the order of all and its memory operands.\n",
            "  memtrace host insn -o log.txt -- /bin/true && less log.txt\n"
            "  memtrace host insn -o log.mtc -- ./app                          compact; memtrace dump shows "
            "it\n"),
    OF_KIND(
        'A', "atomic",
        "All threads' accesses with Lamport timestamps: sorted by them they are in an order that the machine "
        "could\n"
        "have executed. An access and its record happen under one lock of a bank of address locks, as in a "
        "simulated\n"
        "cache (--locks of them, each for blocks of --block bytes).\n",
        "  mkfifo pipe; memtrace convert --order=time pipe | ./simulator & memtrace host atomic -o pipe -- "
        "./app\n"
        "  memtrace host atomic -i 1 -f functions.txt -- ./app     between start_roi() and end_roi(); calls "
        "of "
        "these "
        "functions\n"
        "  memtrace host atomic -t 1 -- ./app                      without the locks: the order may be "
        "wrong\n"),
};

/* ---- The command for qemu-user with the plugin memtrace/mt-host-qemu.so; host/qemu/plugin.c defines its
 * arguments ---- */

#define PROGRAM "qemu-x86_64"
#define PLUGIN "memtrace/mt-host-qemu.so"
enum { OLDEST_MAJOR = 7 /* older versions lack what the plugin needs */, WHY = PATH_MAX + 256 };

/* Reads the first `size` - 1 bytes that `path option` prints. Returns -1 if it cannot be run. */
static int qemu_output(const char *path, const char *option, char *text, size_t size)
{
    int out[2], status;
    size_t have = 0;
    if (pipe2(out, O_CLOEXEC) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 2);
        dup2(out[1], 1);
        execl(path, path, option, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    while (pid > 0 && have + 1 < size) {
        ssize_t n = read(out[0], text + have, size - 1 - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    text[have] = 0;
    close(out[0]);
    if (pid < 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return 0;
}

static const char *qemu_lacks(char text[WHY], const char *path)
{
    char said[16384];
    int major = 0, minor = 0;
    const char *version;
    if (qemu_output(path, "--version", said, sizeof said) != 0 || !(version = strstr(said, "version ")) ||
        sscanf(version, "version %d.%d", &major, &minor) != 2)
        snprintf(text, WHY, "%s does not say its version; is it qemu-x86_64? MEMTRACE_QEMU names another one",
                 path);
    else if (major < OLDEST_MAJOR)
        snprintf(text, WHY, "%s is QEMU %d.%d; tracing needs %d.0 or newer. MEMTRACE_QEMU names another one",
                 path, major, minor, OLDEST_MAJOR);
    else if (qemu_output(path, "-h", said, sizeof said) != 0 || !strstr(said, "-plugin"))
        snprintf(
            text, WHY,
            "%s (QEMU %d.%d) was built without plugins, as static builds are; install qemu-user (Debian 12, "
            "Ubuntu), or set MEMTRACE_QEMU to another one",
            path, major, minor);
    else
        return NULL;
    return text;
}

/* Finds a qemu that can trace. Returns 0 with its path, or -1 with the reason. */
static int qemu_find(char path[PATH_MAX], const char **why)
{
    static char text[WHY];
    const char *given = getenv("MEMTRACE_QEMU");
    int error = mt_files_executable(given && *given ? given : PROGRAM, path);
    *why = text;
    if (error == 0)
        *why = qemu_lacks(text, path);
    else if (given && *given)
        snprintf(text, WHY, "MEMTRACE_QEMU is %s: %s", given, strerror(error));
    else
        *why =
            PROGRAM " is not in PATH: install it (apt install qemu-user), set MEMTRACE_QEMU to it, or build "
                    "the program with mt-cc --host, which needs no qemu";
    return *why ? -1 : 0;
}

/* Appends `text` with doubled commas, since a single comma ends a value in qemu. */
static void qemu_put(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (*text == ',')
            fputc(',', f);
        fputc(*text, f);
    }
}

/* Adds the word after -plugin. */
static void add_plugin(struct words *w, const struct request *r, const char *plugin)
{
    char *text, self[PATH_MAX];
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (f) {
        qemu_put(f, plugin);
        fprintf(f, ",mode=%s", r->mode);
        for (size_t i = 0; i + 1 < r->given.count; i += 2) {
            fprintf(f, ",%s=", r->given.word[i]);
            qemu_put(f, r->given.word[i + 1]);
        }
        if (mt_files_self(self, 0) == 0) { /* exec runs this program again */
            fputs(",follow=", f);
            qemu_put(f, self);
        }
    }
    if (!f || fclose(f) != 0)
        exit(mt_cli_fail("no memory"));
    mt_words_add(w, text);
    free(text);
}

static int qemu_command(const struct request *r, const struct program *p, struct command *c)
{
    char plugin[PATH_MAX];
    const char *why;
    if (qemu_find(c->path, &why) != 0)
        return mt_cli_fail("%s", why);
    if (mt_files_part(PLUGIN, plugin) != 0) {
        return mt_cli_fail("%s is missing: build or install memtrace whole (./setup build)", plugin);
    }
    mt_words_add(&c->argv, PROGRAM);
    mt_words_add(&c->argv, "-plugin");
    add_plugin(&c->argv, r, plugin);
    mt_words_add(&c->argv, "-0");
    mt_words_add(&c->argv, p->argv.word[0]);
    mt_words_add(&c->argv, p->path);
    for (size_t i = 1; i < p->argv.count; i++)
        mt_words_add(&c->argv, p->argv.word[i]);
    return 0;
}

/* ---- The command for DynamoRIO with the client memtrace/mt-host-dynamorio.so: drrun … -c CLIENT WORD… --
 * program; host/dynamorio/client.c defines the words ---- */

#define CLIENT "memtrace/mt-host-dynamorio.so"
enum { WORDS_MOST = 1500 }; /* DynamoRIO has 2 KiB for all its options */

/* Returns 0 and both paths, or -1 and the reason why the engine is not usable. */
static int dynamorio_find(char drrun[PATH_MAX], char client[PATH_MAX], const char **why)
{
    const char *home = getenv("DYNAMORIO_HOME");
    if (mt_files_part(CLIENT, client) != 0)
        return *why = "memtrace was built without it (./setup dynamorio FILE builds it)", -1;
    if (!home || !*home)
        home = MT_DYNAMORIO_HOME;
    if (*home && snprintf(drrun, PATH_MAX, "%s/bin64/drrun", home) < PATH_MAX && access(drrun, X_OK) == 0)
        return 0;
    if (mt_files_executable("drrun", drrun) == 0)
        return 0;
    return *why = "DYNAMORIO_HOME names no folder with bin64/drrun", -1;
}

static void dynamorio_put(FILE *f, const char *word)
{
    fputc(' ', f);
    for (; *word; word++)
        if (isalnum((unsigned char)*word) || strchr("=/._-", *word))
            fputc(*word, f);
        else
            fprintf(f, "%%%02X", (unsigned)(unsigned char)*word);
}

/* Returns the client's words, each beginning with a blank; NULL without memory. */
static char *dynamorio_words(const struct request *r)
{
    char *text = NULL, self[PATH_MAX + 8] = "follow=";
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    for (size_t i = 0; f && i < r->core.count; i++)
        dynamorio_put(f, r->core.word[i]);
    if (f && mt_files_self(self + strlen(self), 0) == 0)
        dynamorio_put(f, self); /* exec runs this program again */
    if (f && fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

/* Returns the name to pass to drrun. drrun searches for the program as a shell does and passes its first
 * argument unchanged as argv[0]: the name is the program's argv[0] if that leads to the same file. */
static const char *dynamorio_name(const struct program *p)
{
    char found[PATH_MAX];
    struct stat a, b;
    const char *name = p->argv.word[0];
    if (mt_files_executable(name, found) == 0 && stat(found, &a) == 0 && stat(p->path, &b) == 0 &&
        a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return name;
    return p->path;
}

static int dynamorio_command(const struct request *r, const struct program *p, struct command *c)
{
    char client[PATH_MAX], *words, *rest;
    const char *why;
    if (dynamorio_find(c->path, client, &why) != 0)
        return mt_cli_fail("DynamoRIO was not found: %s. Without it: --engine=qemu", why);
    if (!(words = dynamorio_words(r))) {
        return mt_cli_fail("no memory");
    }
    if (strlen(words) + strlen(client) > WORDS_MOST) {
        free(words);
        return mt_cli_refuse(
            "the options are too long for DynamoRIO: use a shorter --output, or --engine=qemu");
    }
    /* -sandbox_writable: without it, after a store beside executed code faults, DynamoRIO loses the registers
     * that inserted code uses (seen in 11.91: values of ours in the program). -no_enable_reset: without it,
     * DynamoRIO occasionally stops all threads anywhere and frees all code. -disable_traces: code that is
     * rebuilt for long paths costs more than it saves (python3: a third of the time). */
    static const char *const fixed[] = {"-stack_size",
                                        "512K" /* libdw's line tables need 150 KiB */,
                                        "-sandbox_writable",
                                        "-no_enable_reset",
                                        "-disable_traces",
                                        "-no_follow_children",
                                        "-c"};
    mt_words_add(&c->argv, c->path); /* drrun finds its libraries beside itself */
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        mt_words_add(&c->argv, fixed[i]);
    mt_words_add(&c->argv, client);
    for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        mt_words_add(&c->argv, w);
    free(words);
    mt_words_add(&c->argv, "--");
    mt_words_add(&c->argv, dynamorio_name(p));
    for (size_t i = 1; i < p->argv.count; i++)
        mt_words_add(&c->argv, p->argv.word[i]);
    return 0;
}

/* ---- The command for Intel Pin: pin -t TOOL -mode MODE -option value … -- program ---- */

static int pin_find(char pin[PATH_MAX], const char **why)
{
    static char text[PATH_MAX];
    const char *root = getenv("PIN_ROOT");
    *why = "PIN_ROOT names no Pin kit, and pin is not in PATH";
    if (!root || !*root)
        return mt_files_executable("pin", pin) == 0 ? 0 : -1;
    if (snprintf(pin, PATH_MAX, "%s/pin", root) < PATH_MAX && access(pin, X_OK) == 0)
        return 0;
    snprintf(text, sizeof text, "PIN_ROOT names no Pin kit: %s/pin: %s", root, strerror(errno));
    return *why = text, -1;
}

static int pin_tool(char tool[PATH_MAX])
{
    const char *given = getenv("MEMTRACE_PIN_TOOL");
    static const char *const places[] = {"memtrace/mt-host.so", "host/pin/obj-intel64/mt-host.so"};
    if (given && *given) {
        if (strlen(given) < PATH_MAX && access(given, R_OK) == 0) {
            strcpy(tool, given);
            return 0;
        }
        return mt_cli_fail("MEMTRACE_PIN_TOOL is %s: %s", given, strerror(errno));
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (mt_files_part(places[i], tool) == 0)
            return 0;
    return mt_cli_fail(
        "the Pin tool is not built: make -C host/pin PIN_ROOT=… obj-intel64/mt-host.so, then set "
        "MEMTRACE_PIN_TOOL to it");
}

static int pin_command(const struct request *r, const struct program *p, struct command *c)
{
    char tool[PATH_MAX];
    const char *why;
    if (pin_find(c->path, &why) != 0)
        return mt_cli_fail("Pin was not found: %s. Without it: --engine=qemu", why);
    int code = pin_tool(tool);
    if (code != 0)
        return code;
    mt_words_add(&c->argv, c->path);
    mt_words_add(&c->argv, "-t");
    mt_words_add(&c->argv, tool);
    mt_words_add(&c->argv, "-mode");
    mt_words_add(&c->argv, r->mode);
    for (size_t i = 0; i + 1 < r->given.count; i += 2) {
        mt_words_addf(&c->argv, "-%s", r->given.word[i]);
        mt_words_add(&c->argv, r->given.word[i + 1]);
    }
    mt_words_add(&c->argv, "--");
    mt_words_add(&c->argv, p->path);
    for (size_t i = 1; i < p->argv.count; i++)
        mt_words_add(&c->argv, p->argv.word[i]);
    return 0;
}

/* ---- The choice of an engine, and its command ---- */

/* Puts the options into the environment: words of host_options.def separated by blanks; a backslash escapes
 * the next character. */
static void add_environment(const struct request *r, struct command *c)
{
    char *text;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    for (size_t i = 0; f && i < r->core.count; i++) {
        if (i)
            fputc(' ', f);
        for (const char *s = r->core.word[i]; *s; s++) {
            if (strchr(" \t\n\\", *s))
                fputc('\\', f);
            fputc(*s, f);
        }
    }
    if (!f || fclose(f) != 0)
        exit(mt_cli_fail("no memory"));
    mt_words_addf(&c->env, "MEMTRACE_HOST=%s", text);
    free(text);
}

static int llvm_command(const struct request *r, const struct program *p, struct command *c)
{
    if (strcmp(r->mode, "insn") == 0)
        return mt_cli_usage("the compile-time engine knows no machine instructions; use --engine=qemu");
    if (!p->instrumented)
        return mt_cli_refuse("%s was not built with mt-cc --host; build it so, or use --engine=qemu",
                             p->path);
    strcpy(c->path, p->path);
    for (size_t i = 0; i < p->argv.count; i++)
        mt_words_add(&c->argv, p->argv.word[i]);
    add_environment(r, c);
    return 0;
}

/* ---- engines for machine code, the best first ---- */

static int engine_dynamorio(char text[PATH_MAX], const char **why)
{
    char client[PATH_MAX];
    return dynamorio_find(text, client, why);
}

static const struct {
    const char *name;
    int (*usable)(char path[PATH_MAX], const char **why); /* returns 0 with what runs, or -1 */
    int (*command)(const struct request *r, const struct program *p, struct command *c);
    int chosen; /* 1: may be chosen by default */
} machines[] = {
    {"dynamorio", engine_dynamorio, dynamorio_command, 1},
    {"qemu", qemu_find, qemu_command, 1},
    {"pin", pin_find, pin_command, 0},
};

/* Returns the first usable engine among the defaults, or the last one if none is: its command prints what to
 * do. */
static const char *engine_machine(void)
{
    char path[PATH_MAX];
    const char *why, *last = NULL;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (machines[i].chosen) {
            last = machines[i].name;
            if (machines[i].usable(path, &why) == 0)
                break;
        }
    return last;
}

/* Prints for --engines each engine, whether it is usable here, and why not; on stdout. */
static void engines_print(void)
{
    char path[PATH_MAX];
    const char *why;
    printf("%-10s usable: for programs built with mt-cc --host\n", "llvm");
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (machines[i].usable(path, &why) == 0)
            printf("%-10s usable: %s\n", machines[i].name, path);
        else
            printf("%-10s not usable: %s\n", machines[i].name, why);
}

/* Chooses an engine for "auto", and makes the command; *engine is its name. */
static int engine_command(const struct request *r, const struct program *p, struct command *c,
                          const char **engine)
{
    *engine = r->engine;
    if (strcmp(r->engine, "auto") == 0)
        *engine = p->instrumented && strcmp(r->mode, "insn") != 0 ? "llvm" : engine_machine();
    if (strcmp(*engine, "llvm") == 0)
        return llvm_command(r, p, c);
    if (p->instrumented) /* a second engine would write a second trace */
        mt_words_add(&c->env, "MEMTRACE_HOST=off");
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (strcmp(*engine, machines[i].name) == 0)
            return machines[i].command(r, p, c);
    return mt_cli_refuse("unknown engine %s", *engine);
}

/* ---- The command line ---- */

/* Returns the index of a mode in modes[], or -1. */
static int request_mode_of(const char *word)
{
    for (int i = 0; modes[i]; i++)
        if (strcmp(word, modes[i]) == 0)
            return i;
    return -1;
}

/* Stores one option of the mode. */
static void request_keep(struct request *r, int option)
{
    const char *value = optarg, *next = r->words[optind];
    /* A switch may be spelt -r 1, too: only 0 and 1 count as its value. */
    if (!value && next && (!strcmp(next, "0") || !strcmp(next, "1")))
        value = r->words[optind++];
    value = value ? value : "1";
    mt_words_add(&r->given, mt_command_option(option));
    /* "-" gets a name that is a value on each engine's command line */
    mt_words_add(&r->given, option == MT_OPT_HOST_output && strcmp(value, "-") == 0 ? "/dev/stdout" : value);
    if (option == MT_OPT_HOST_signal)
        r->signals = strcmp(value, "0") != 0;
}

static int request_option(void *arg, int o)
{
    struct request *r = arg;
    switch (o) {
    case MT_OPT_ENGINE:
        mt_near_word("", 0, engines); /* lists the engines for shell completion */
        r->engine = optarg;
        return 0;
    case MT_OPT_ENGINES:
        engines_print();
        return -1;
    case MT_OPT_ARGV0:
        r->argv0 = optarg;
        return 0;
    case MT_OPT_SHOW:
        return r->show = 1, 0;
    case MT_OPT_QUIET:
        return r->quiet = 1, 0;
    case MT_OPT_VERBOSE:
        return r->verbose = 1, 0;
    case MT_OPT_EXEC:
        return r->exec = 1, 0;
    default:
        request_keep(r, o);
        return 0;
    }
}

/* Parses the options, the mode and its options. */
static int request_options(struct request *r, int argc, char **argv)
{
    int mode;
    if (argc == 3 && strcmp(argv[1], "--completion-values") == 0 &&
        !*argv[2]) { /* words that may come first */
        puts("mat\ninsn\natomic");
        return -1;
    }
    if (argc > 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) &&
        (mode = request_mode_of(argv[2])) >= 0) {
        mt_command_help(&commands[1 + mode]);
        return -1;
    }
    int code = mt_cli_options(&commands[0], argc, argv, request_option, r);
    if (code != 0 || optind >= argc || (optind > 1 && strcmp(argv[optind - 1], "--") == 0) ||
        (mode = request_mode_of(argv[optind])) < 0)
        return code;
    r->mode = argv[optind++];
    return mt_cli_options(&commands[1 + mode], argc, argv, request_option, r);
}

static int check_engine(const struct request *r)
{
    for (size_t i = 0; engines[i]; i++)
        if (strcmp(r->engine, engines[i]) == 0)
            return 0;
    const char *near = mt_near_word(r->engine, strlen(r->engine), engines);
    if (near)
        return mt_cli_usage("unknown engine %s: did you mean %s?", r->engine, near);
    return mt_cli_usage("unknown engine %s: use auto, llvm, dynamorio, qemu or pin", r->engine);
}

/* Builds the core's words, and lets the core check the values. */
static int check_options(struct request *r)
{
    struct mt_core_options o;
    char why[400];
    mt_words_add(&r->core, r->mode);
    for (size_t i = 0; i + 1 < r->given.count; i += 2)
        mt_words_addf(&r->core, "--%s=%s", r->given.word[i], r->given.word[i + 1]);
    if (mt_core_options_parse(&o, (int)r->core.count, r->core.word, why, sizeof why) != 0)
        return mt_cli_usage("%s", why);
    r->output = o.output;
    r->container = o.container;
    mt_core_options_free(&o);
    return 0;
}

/* Replaces a mode that was not requested. */
static int request_mode(struct request *r, const char *mode)
{
    mt_words_free(&r->core);
    r->mode = mode;
    return check_options(r);
}

static int host_request_has(const struct request *r, const char *option)
{
    for (size_t i = 0; i < r->given.count; i += 2)
        if (strcmp(r->given.word[i], option) == 0)
            return 1;
    return 0;
}

/* Sets the defaults without a mode: what most users want, in a file for memtrace report. */
static void request_unasked(struct request *r)
{
    static const char *const words[] = {"output", "memory_trace.mtc", "library", "data"};
    r->mode = "atomic";
    r->unasked = 1;
    for (int i = 0; i < 4; i += 2)
        if (!host_request_has(r, words[i]) && !host_request_has(r, i ? "own" : "format")) {
            mt_words_add(&r->given, words[i]);
            mt_words_add(&r->given, words[i + 1]);
        }
}

/* Parses the command line. Returns -1 if nothing is left to do: exit with 0. */
static int request_read(struct request *r, int argc, char **argv)
{
    *r = (struct request){.engine = "auto", .words = argv};
    int code = request_options(r, argc, argv);
    if (code != 0)
        return code;
    if (!r->mode && optind >= argc)
        return mt_cli_usage("no program given, as in: memtrace host ls -l");
    if (!r->mode)
        request_unasked(r);
    if ((code = check_engine(r)) != 0 || (code = check_options(r)) != 0)
        return code;
    if (optind >= argc)
        return mt_cli_usage("no program given, as in: memtrace host %s -- ls -l", r->mode);
    r->program = argv + optind;
    return 0;
}

static void request_free(struct request *r)
{
    mt_words_free(&r->given);
    mt_words_free(&r->core);
}

/* ---- Finding the program as a shell and the kernel do: PATH, #! lines, kind of ELF file ---- */

#define RUNTIME "libmemtrace-host.so"
#define ORDERS "__mt_host_begin" /* see entry.h of the compile-time engine */

/* Returns 1 if a DT_NEEDED entry is the compile-time engine's library, by name or by path. *ordered: the
 * program uses a function that puts accesses in order. */
static int needs_runtime(const char *path, int *ordered)
{
    struct mt_binary o;
    const char *name;
    int needs = 0;
    if (mt_binary_open(&o, path) != 0)
        return 0;
    for (size_t at = 0; !needs && (name = mt_binary_entry(&o, DT_NEEDED, &at)) != NULL;) {
        const char *slash = strrchr(name, '/');
        needs = strncmp(slash ? slash + 1 : name, RUNTIME, sizeof RUNTIME - 1) == 0;
    }
    *ordered = o.text && memmem(o.text, o.text_size, ORDERS, sizeof ORDERS - 1) != NULL;
    mt_binary_close(&o);
    return needs;
}

enum { HEAD = 256, NESTING = 4 }; /* as in the kernel: length of a #! line, and nesting of scripts */

/* Replaces the script in p->path by its interpreter, as the kernel does: interpreter, the rest of the line as
 * one word, path of the script, its arguments. */
static int unfold_script(struct program *p, const char *head)
{
    char line[HEAD + 1], interpreter[PATH_MAX], *name, *rest;
    struct words argv = {0};
    snprintf(line, sizeof line, "%s", head + 2);
    line[strcspn(line, "\n")] = 0;
    name = line + strspn(line, " \t");
    rest = name + strcspn(name, " \t");
    if (*rest)
        *rest++ = 0;
    rest += strspn(rest, " \t");
    for (size_t n = strlen(rest); n && strchr(" \t\r", rest[n - 1]);)
        rest[--n] = 0;
    int why = *name ? (snprintf(interpreter, sizeof interpreter, "%s", name), 0) : ENOENT;
    if (why == 0 && (why = mt_files_runs(interpreter)))
        return mt_cli_refuse("%s: its interpreter %s cannot be run: %s", p->path, name, strerror(why));
    if (why)
        return mt_cli_refuse("%s: its first line names no interpreter", p->path);
    mt_words_add(&argv, interpreter);
    if (*rest)
        mt_words_add(&argv, rest);
    mt_words_add(&argv, p->path);
    for (size_t i = 1; i < p->argv.count; i++)
        mt_words_add(&argv, p->argv.word[i]);
    mt_words_free(&p->argv);
    p->argv = argv;
    p->script = 1;
    strcpy(p->path, interpreter);
    return 0;
}

/* Checks the program's file, which begins with `head`. */
static int check_elf(struct program *p, const Elf64_Ehdr *head, size_t bytes, mode_t mode)
{
    const char *machine = mt_binary_machine(head); /* also names the machine of a 32-bit file */
    if (strcmp(machine, "x86-64") != 0)
        return mt_cli_refuse("%s is a program for %s; only x86-64 programs can be traced", p->path, machine);
    if (bytes < sizeof *head || head->e_ident[EI_CLASS] != ELFCLASS64 || !head->e_entry ||
        (head->e_type != ET_EXEC && head->e_type != ET_DYN))
        return mt_cli_refuse("%s is an ELF file, but not a program that can be run", p->path);
    if (mode & (S_ISUID | S_ISGID) && geteuid() != 0)
        mt_cli_say("%s is set-user-id: traced, it runs with your own rights", p->path);
    p->instrumented = needs_runtime(p->path, &p->ordered);
    return 0;
}

/* Returns 0 for an ELF program, 1 if a script was replaced (look again), or a negative exit code. */
static int host_program_look(struct program *p)
{
    struct stat st;
    _Alignas(8) char head[HEAD + 1] = "";
    int code, fd = open(p->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0) {
        code = -mt_cli_refuse("%s cannot be read: %s", p->path, fd < 0 ? strerror(errno) : "it is empty");
        goto out;
    }
    ssize_t got = pread(fd, head, HEAD, 0);
    if (got < 0) {
        code = -mt_cli_refuse("%s cannot be read: %s", p->path, strerror(errno));
        goto out;
    }
    head[got] = 0;
    if (strncmp(head, "#!", 2) == 0) {
        code = unfold_script(p, head) ? -MT_EXIT_USAGE : 1;
        goto out;
    }
    if (got >= (ssize_t)sizeof(Elf32_Ehdr) && memcmp(head, ELFMAG, SELFMAG) == 0)
        code = -check_elf(p, (const Elf64_Ehdr *)head, (size_t)got, st.st_mode);
    else
        code = -mt_cli_usage(
            "%s is neither a program nor a script with a #! line; if it is a shell script: sh %s", p->path,
            p->path);
out:
    if (fd >= 0)
        close(fd);
    return code;
}

/* Finds the program in PATH as a shell does, and checks that it can be traced. */
static int host_program_find(struct program *p, const struct request *r)
{
    char *const *argv = r->program;
    memset(p, 0, sizeof *p);
    int why = mt_files_executable(argv[0], p->path);
    if (why == ENOENT && !strchr(argv[0], '/'))
        return mt_cli_refuse("%s: there is no such program in PATH%s", argv[0],
                             r->unasked ? ", nor such a kind of trace (mat, insn, atomic)" : "");
    if (why)
        return mt_cli_refuse("%s: %s", argv[0], strerror(why));
    for (; *argv; argv++)
        mt_words_add(&p->argv, *argv);
    for (int depth = 0; depth <= NESTING; depth++) {
        int code = host_program_look(p);
        if (code <= 0)
            return -code;
    }
    return mt_cli_refuse("%s: scripts that run scripts, too many levels of them", p->path);
}

/* ---- Running the command ---- */

static int run_failed(const struct command *c, int why)
{
    return mt_cli_fail("%s cannot be run: %s", c->path, strerror(why));
}

/* Executes the command; returns an exit code only if that fails. */
static int command_become(const struct command *c)
{
    for (size_t i = 0; i < c->env.count; i++)
        putenv(c->env.word[i]);
    execv(c->path, c->argv.word);
    return run_failed(c, errno);
}

/* Runs the command and forwards signals to the program. Returns the exit status for memtrace host; *number is
 * the signal that ended the program, or 0. */
static int command_run(const struct command *c, int *number)
{
    struct mt_program_run child = {.path = c->path, .argv = c->argv.word, .env = c->env.word};
    int code = mt_child_run(&child);
    *number = child.ended;
    return code < 0 ? run_failed(c, child.why) : code;
}

/* ---- Messages about the trace after the run ---- */

static void trace_before(struct trace_before *b, const char *path)
{
    b->there = stat(path, &b->st) == 0;
    clock_gettime(CLOCK_REALTIME_COARSE, &b->now);
}

static int same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Writes the number of accesses in a compact trace, and whether it is complete: " 1,234 accesses, complete,".
 */
static void trace_contents(const char *path, char *text, size_t size)
{
    *text = 0;
    struct mt_error err;
    if (mt_is_container(path) != 1)
        return;
    struct mt_host_reader *reader = mt_host_reader_open(path, NULL, &err);
    if (!reader) {
        snprintf(text, size, ", but it cannot be read: %s", err.message);
        return;
    }
    const struct mt_companion *c = mt_host_companion(reader);
    char left[128] = "";
    if (c && c->left_out)
        snprintf(left, sizeof left, "; %s of libraries left out", mt_number_count(c->left_out).text);
    if (c && c->children)
        snprintf(left + strlen(left), sizeof left - strlen(left), "; %s child process%s not traced",
                 mt_number_count(c->children).text, c->children == 1 ? "" : "es");
    if (!c || !c->has_end)
        snprintf(text, size, ", cut off: the program ended without closing it; complete records can be read");
    else if (c->complete)
        snprintf(text, size, ", %s accesses, complete%s", mt_number_count(c->records_written).text, left);
    else
        snprintf(text, size, ", %s accesses, not complete: %s lost (%s)",
                 mt_number_count(c->records_written).text, mt_number_count(c->lost).text,
                 c->lost_why && *c->lost_why ? c->lost_why : "see memtrace dump");
    mt_host_reader_close(reader);
}

static void next_step(const struct request *r)
{
    switch (*r->mode) {
    case 'm':
        mt_cli_say("next: memtrace graph %s | dot -Tsvg > graph.svg", r->output);
        break;
    case 'i':
        mt_cli_say("next: %s %s", r->container ? "memtrace dump" : "less", r->output);
        break;
    default:
        mt_cli_say(r->container ? "next: memtrace report %s -o report.html"
                                : "next: memtrace convert --order=time %s | less",
                   r->output);
    }
}

/* Returns 1 for a descriptor, whose contents its owner knows. */
static int is_descriptor(const char *path)
{
    static const char *const names[] = {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(path, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

/* Lists the traces of programs started by exec: x.mtc, x.exec1.mtc … (host/machine/follow.h). */
static void later_traces(const char *path, const struct timespec *since)
{
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    size_t stem = dot && (!slash || dot > slash + 1) && dot > path ? (size_t)(dot - path) : strlen(path);
    for (unsigned i = 1;; i++) {
        struct stat st;
        char name[PATH_MAX], text[700];
        snprintf(name, sizeof name, "%.*s.exec%u%s", (int)stem, path, i, path + stem);
        if (stat(name, &st) != 0 || st.st_mtim.tv_sec < since->tv_sec ||
            (st.st_mtim.tv_sec == since->tv_sec && st.st_mtim.tv_nsec < since->tv_nsec))
            return;
        trace_contents(name, text, sizeof text);
        mt_cli_say("trace after exec: %s, %s%s", name, mt_number_bytes((uint64_t)st.st_size).text, text);
    }
}

/* Says where the trace is, its size, and what to do next, if `talk`; always reports a missing trace. */
static void trace_words(const struct request *r, const struct trace_before *before, int talk)
{
    struct stat st;
    char text[700];
    if (strstr(r->output, "%p")) { /* only the process knows its number, since it may not be our child */
        if (talk)
            mt_cli_say("trace: %s, with the number of the process for %%p", r->output);
        return;
    }
    if (is_descriptor(r->output))
        return;
    if (stat(r->output, &st) != 0) {
        mt_cli_say("no trace was written: %s: %s", r->output, strerror(errno));
        return;
    }
    if (!S_ISREG(st.st_mode)) /* the reader of a FIFO or a device knows its contents */
        return;
    if (before->there && before->st.st_ino == st.st_ino && before->st.st_dev == st.st_dev &&
        before->st.st_size == st.st_size && same_time(&before->st.st_mtim, &st.st_mtim)) {
        mt_cli_say("no trace was written: %s is from an earlier run", r->output);
        return;
    }
    if (!talk)
        return;
    trace_contents(r->output, text, sizeof text);
    mt_cli_say("trace: %s, %s%s", r->output, mt_number_bytes((uint64_t)st.st_size).text, text);
    later_traces(r->output, &before->now);
    next_step(r);
}

/* ---- memtrace host ---- */

static void host_show(const struct command *c)
{
    struct words path = {0}, rest = {0};
    mt_words_add(&path, c->path);
    for (size_t i = 1; i < c->argv.count; i++)
        mt_words_add(&rest, c->argv.word[i]);
    mt_words_print(&c->env);
    fputs(c->env.count ? " " : "", stdout);
    mt_words_print(&path);
    fputs(rest.count ? " " : "", stdout);
    mt_words_print(&rest);
    putchar('\n');
    mt_words_free(&path);
    mt_words_free(&rest);
}

/* Checks that the output can be written, before the program begins; else each engine would report it later.
 */
static int host_has_place(const struct request *r)
{
    struct stat st;
    char folder[PATH_MAX];
    const char *slash = strrchr(r->output, '/');
    if (!slash || slash == r->output ||
        (size_t)snprintf(folder, sizeof folder, "%.*s", (int)(slash - r->output), r->output) >= sizeof folder)
        return 1;
    return strchr(folder, '%') || (stat(folder, &st) == 0 && S_ISDIR(st.st_mode));
}

/* Checks that the output is no input: the program, a script, or a file argument. The process number is not
 * known yet. */
static int host_reads(const struct request *r, const struct program *p)
{
    const char *script = p->script ? r->program[0] : p->path;
    int reads = mt_output_is_input(r->output, p->path) || mt_output_is_input(r->output, script);
    for (size_t i = 1; i < p->argv.count && !reads; i++)
        reads = mt_output_is_input(r->output, p->argv.word[i]);
    return reads;
}

static int host_trace(const struct request *r, const struct command *c, const char *engine)
{
    struct trace_before before;
    int talk = !r->quiet && (r->verbose || isatty(STDERR_FILENO));
    if (!host_has_place(r))
        return mt_cli_refuse("%s: its folder does not exist: create it or give another -o", r->output);
    trace_before(&before, r->output);
    if (r->verbose)
        mt_cli_say("engine %s: %s", engine, c->path);
    if (talk && r->signals)
        mt_cli_say("silent until: kill -USR1 %d; until kill -USR2 %d", (int)getpid(), (int)getpid());
    int number, code = command_run(c, &number);
    if (talk && number)
        mt_cli_say("the program was ended by signal %d (%s)", number, strsignal(number));
    trace_words(r, &before, talk);
    return code;
}

int mt_host_command(int argc, char **argv)
{
    struct request r;
    struct program p = {.path = ""};
    struct command c = {.path = ""};
    const char *engine;
    int code = request_read(&r, argc, argv);
    if (code == 0)
        code = host_program_find(&p, &r);
    if (code == 0 && r.unasked && p.instrumented && !p.ordered &&
        strchr("al", *r.engine)) /* engine auto or llvm */
        code = request_mode(&r, "mat");
    if (code == 0 && r.argv0 && !p.script)
        mt_words_replace(&p.argv, 0, r.argv0);
    if (code == 0)
        code = engine_command(&r, &p, &c, &engine);
    if (code == 0 && r.show)
        host_show(&c);
    else if (code == 0 && r.exec)
        code = command_become(&c);
    else if (code == 0 && host_reads(&r, &p))
        code = mt_cli_refuse("the output %s is what is run or read; give another -o", r.output);
    else if (code == 0)
        code = host_trace(&r, &c, engine);
    mt_words_free(&c.argv);
    mt_words_free(&c.env);
    mt_words_free(&p.argv);
    request_free(&r);
    return code == -1 ? mt_near_told() : code; /* -1: only words on stdout were requested */
}
