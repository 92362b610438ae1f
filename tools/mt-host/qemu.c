/* The command for qemu-user with the plugin memtrace/mt-host-qemu.so.
 * Its argument syntax: host/qemu/plugin.c. */
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "qemu-x86_64"
#define PLUGIN "memtrace/mt-host-qemu.so"
enum { OLDEST_MAJOR = 7 /* older ones lack what the plugin needs */, WHY = PATH_MAX + 256 };

/* The first `size` - 1 bytes that `path option` prints; -1 if it cannot be run. */
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

int mt_hostrun_qemu_find(char path[PATH_MAX], const char **why)
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

/* Appends `text`; for qemu a comma ends a value, and two are one. */
static void qemu_put(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (*text == ',')
            fputc(',', f);
        fputc(*text, f);
    }
}

/* The word after -plugin. */
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
        if (mt_files_self(self, 0) == 0) { /* exec is followed by this program */
            fputs(",follow=", f);
            qemu_put(f, self);
        }
    }
    if (!f || fclose(f) != 0) {
        mt_cli_say("no memory");
        exit(EXIT_ENGINE);
    }
    mt_words_add(w, text);
    free(text);
}

int mt_hostrun_qemu_command(const struct request *r, const struct program *p, struct command *c)
{
    char plugin[PATH_MAX];
    const char *why;
    if (mt_hostrun_qemu_find(c->path, &why) != 0) {
        mt_cli_say("%s", why);
        return EXIT_ENGINE;
    }
    if (mt_files_part(PLUGIN, plugin) != 0) {
        mt_cli_say("%s is missing: build or install memtrace whole (./setup build)", plugin);
        return EXIT_ENGINE;
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
