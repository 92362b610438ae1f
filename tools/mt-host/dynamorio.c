/* The command for DynamoRIO with the client memtrace/mt-host-dynamorio.so: drrun … -c CLIENT WORD… --
 * program. The words' syntax: host/dynamorio/client.c. */
#include "cli.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIENT "memtrace/mt-host-dynamorio.so"
enum { WORDS_MOST = 1500 }; /* DynamoRIO keeps all its options in 2 KiB */

int mt_hostrun_dynamorio_find(char drrun[PATH_MAX], char client[PATH_MAX], const char **why)
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

/* The client's words, each beginning with a blank; NULL without memory. */
static char *dynamorio_words(const struct request *r)
{
    char *text = NULL, self[PATH_MAX + 8] = "follow=";
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    for (size_t i = 0; f && i < r->core.count; i++)
        dynamorio_put(f, r->core.word[i]);
    if (f && mt_files_self(self + strlen(self), 0) == 0)
        dynamorio_put(f, self); /* exec is followed by this program */
    if (f && fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

/* drrun looks the program up as a shell does and hands its first argument on as it is. That one the program
 * sees, if it leads to the same file. */
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

int mt_hostrun_dynamorio_command(const struct request *r, const struct program *p, struct command *c)
{
    char client[PATH_MAX], *words, *rest;
    const char *why;
    if (mt_hostrun_dynamorio_find(c->path, client, &why) != 0) {
        mt_cli_say("DynamoRIO is not there: %s. Without it: --engine=qemu", why);
        return EXIT_ENGINE;
    }
    if (!(words = dynamorio_words(r))) {
        mt_cli_say("no memory");
        return EXIT_ENGINE;
    }
    if (strlen(words) + strlen(client) > WORDS_MOST) {
        free(words);
        return mt_cli_refuse(
            "the options are too long for DynamoRIO: use a shorter --output, or --engine=qemu");
    }
    /* -sandbox_writable: else a store beside code that has run faults, and DynamoRIO goes on after it without
     * what it keeps of the registers that inserted code uses (seen in 11.91: values of ours in the program).
     * -no_enable_reset: else it stops all threads now and then, wherever they are, and frees all code.
     * -disable_traces: code that is put together again for long paths costs more than it saves (python3: a
     * third of all time). */
    static const char *const fixed[] = {"-stack_size",
                                        "512K" /* libdw's lines need 150 */,
                                        "-sandbox_writable",
                                        "-no_enable_reset",
                                        "-disable_traces",
                                        "-no_follow_children",
                                        "-c"};
    mt_words_add(&c->argv, c->path); /* it finds its libraries beside that */
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
