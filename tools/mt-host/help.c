/* What memtrace host --help says. */
#include "cli.h"
#include "base/command.h"
#include <stdio.h>
#include <string.h>

static const struct mt_command command = {
    .of = MT_OF_HOST,
    .before = "Usage: memtrace host [OPTION]... [mat|insn|atomic [OPTION]...] [--] PROGRAM [ARGUMENT]...\n"
              "Runs PROGRAM and writes its memory accesses to a trace. The program needs no change.\n"
              "\n"
              "  memtrace host ./app               into memory_trace.mtc, without what the loader and the C "
              "library do for\n"
              "                                    themselves: then  memtrace report memory_trace.mtc -o "
              "report.html\n"
              "  memtrace host mat -- ls -l        which buffers, in which strides: then  memtrace graph "
              "mat_trace.mtc\n"
              "  memtrace host insn -- /bin/true   each instruction, its registers and operands: less "
              "insn_trace.out\n"
              "  memtrace host atomic -- ./threads all threads' accesses in an order that the machine could "
              "have executed:\n"
              "                                    then  memtrace convert --order=time < memory_trace.out | "
              "./my-simulator\n"
              "\n"
              "  memtrace host mat --help          (insn, atomic) shows the options of that kind\n",
    .after = "Environment: MEMTRACE_QEMU (the qemu-x86_64 to run), PIN_ROOT (the Pin kit), MEMTRACE_PIN_TOOL "
             "(the built tool).\n"
             "Exit status: the program's (128 + number after a signal); 2 wrong command line; 1 the engine "
             "cannot run.\n",
};

static const struct {
    const char *mode, *text, *examples;
} modes[] = {
    {"mat",
     "Allocations (malloc family, new, mmap, brk) and the accesses to them, each thread in its order.\n"
     "memtrace graph draws from it which buffer is walked in which strides.\n",
     "  memtrace host mat -- ./app && memtrace graph mat_trace.mtc | dot -Tsvg > graph.svg\n"
     "  memtrace host mat --threshold=4096 --routine=solve -- ./app     large buffers, inside solve() and "
     "what it "
     "calls\n"
     "  memtrace host mat --signal -- ./server &                        silent until: kill -USR1 %1; until "
     "kill "
     "-USR2 %1\n"
     "  memtrace host mat -o mat.txt -- ./app                           text: ip address offset base type "
     "size "
     "allocsize\n"},
    {"insn",
     "Each instruction of the main program that was executed, by address: its text, the registers it reads "
     "and\n"
     "writes, and for each execution its number in the order of all and its memory operands.\n",
     "  memtrace host insn -o log.txt -- /bin/true && less log.txt\n"
     "  memtrace host insn -o log.mtc -- ./app                          compact; memtrace dump shows it\n"},
    {"atomic",
     "All threads' accesses with Lamport timestamps: sorted by them they are in an order that the machine "
     "could\n"
     "have executed. An access and its record happen under one lock of a bank of address locks, as in a "
     "simulated\n"
     "cache (--locks of them, each for blocks of --block bytes).\n",
     "  mkfifo pipe; memtrace convert --order=time pipe | ./simulator & memtrace host atomic -o pipe -- "
     "./app\n"
     "  memtrace host atomic -i 1 -f functions.txt -- ./app     between start_roi() and end_roi(); calls of "
     "these "
     "functions\n"
     "  memtrace host atomic -t 1 -- ./app                      without the locks: see what goes wrong\n"},
};

/* `text` in lines of at most `width` characters, the first one where the cursor is,
 * the others after `indent`. */
static void help_wrapped(const char *text, int indent, int width)
{
    int column = 0;
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (column && column + 1 + n > width) {
            printf("\n%*s", indent, "");
            column = 0;
        }
        if (column) {
            putchar(' ');
            column++;
        }
        printf("%.*s", n, text);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void option_print(const struct option_row *row)
{
    char head[64], text[400];
    snprintf(head, sizeof head, "  %c%c%c --%s%s%s", row->letter ? '-' : ' ', row->letter ? row->letter : ' ',
             row->letter ? ',' : ' ', row->name, row->kind == 'B' ? "" : "=",
             row->kind == 'B' ? "" : row->values);
    snprintf(text, sizeof text, "%s%s%s%s", row->help, *row->standard ? " (default " : "", row->standard,
             *row->standard ? ")" : "");
    printf("%-28s ", head);
    if (strlen(head) > 28)
        printf("\n%29s", "");
    help_wrapped(text, 29, 82);
}

void mt_hostrun_help_print(const char *mode)
{
    if (!mode) {
        mt_command_help(&command);
        return;
    }
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(mode, modes[i].mode) != 0)
            continue;
        printf("Usage: memtrace host [--engine=ENGINE] %s [OPTION]... [--] PROGRAM [ARGUMENT]...\n%s\n", mode,
               modes[i].text);
        char letter = *mode == 'm' ? 'M' : *mode == 'i' ? 'I' : 'A';
        for (size_t k = 0; k < option_count; k++)
            if (strchr(option_rows[k].modes, letter))
                option_print(&option_rows[k]);
        printf("\nexamples:\n%s\n", modes[i].examples);
        fputs("memtrace host --help has what is the same for all kinds. Manual: docs/man/memtrace-host.md\n",
              stdout);
    }
}
