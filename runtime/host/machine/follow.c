/* exec: the traced program becomes another one. */
#define _GNU_SOURCE
#include "follow.h"
#include "../core/output.h"
#include <ctype.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OWN = 6 }; /* mt-host --engine=ENGINE --exec --argv0=… … -- PATH */

static const char *follower;
static char engine_word[64];
static char *const *word;
static int words;
static char output[PATH_MAX];
static char program[PATH_MAX];

void mt_follow_start(const char *host, const char *engine, char *const *w, int count,
                     const struct mt_core_options *o)
{
    char folder[PATH_MAX / 2];
    follower = host;
    snprintf(engine_word, sizeof engine_word, "--engine=%s", engine);
    word = w;
    words = count;
    int whole = *o->output == '/' || mt_core_output_number(o->output) >= 0;
    int there = whole || getcwd(folder, sizeof folder);
    int n = snprintf(output, sizeof output, "%s%s%s",
                     whole   ? ""
                     : there ? folder
                             : ".",
                     whole ? "" : "/", o->output);
    if (n < 0 || (size_t)n >= sizeof output)
        follower = NULL;
}

void mt_follow_program(const char *path)
{
    snprintf(program, sizeof program, "%s", path ? path : "");
}

/* What another process of this engine runs: its command line is mt-host's, with the program behind -0 ARGV0.
 */
static int follow_other(const char *pid, char out[PATH_MAX])
{
    char name[64], text[PATH_MAX * 2], *word = text;
    snprintf(name, sizeof name, "/proc/%.20s/cmdline", pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return -1;
    text[n] = 0;
    for (int i = 0; i < 5; i++) { /* qemu -plugin WORDS -0 ARGV0 PROGRAM */
        word += strlen(word) + 1;
        if (word >= text + n || (i == 0 && strcmp(word, "-plugin")) || (i == 2 && strcmp(word, "-0")))
            return -1;
    }
    n = *word == '/' ? snprintf(out, PATH_MAX, "%s", word)
                     : snprintf(out, PATH_MAX, "/proc/%.20s/cwd/%s", pid, word);
    return n < PATH_MAX ? 0 : -1;
}

const char *mt_follow_file(const char *path, char out[PATH_MAX])
{
    struct stat named, own;
    char pid[24];
    int end = 0;
    if (sscanf(path, "/proc/%20[^/]/exe%n", pid, &end) != 1 || !end || path[end] || stat(path, &named) ||
        stat("/proc/self/exe", &own) || named.st_dev != own.st_dev || named.st_ino != own.st_ino)
        return path;
    if (!strcmp(pid, "self") || !strcmp(pid, "thread-self") || strtol(pid, NULL, 10) == getpid())
        snprintf(out, PATH_MAX, "%s", program);
    else if (follow_other(pid, out) != 0)
        return path;
    return *out ? out : path;
}

int mt_follow_can(const char *path)
{
    union {
        Elf64_Ehdr elf;
        char text[64];
    } head;
    struct stat st;
    int can = 0, fd = follower ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !(st.st_mode & (S_ISUID | S_ISGID)) &&
        read(fd, &head, sizeof head) >= 2)
        can = !memcmp(head.text, "#!", 2) ||
              (!memcmp(head.elf.e_ident, ELFMAG, SELFMAG) && head.elf.e_ident[EI_CLASS] == ELFCLASS64 &&
               head.elf.e_machine == EM_X86_64);
    if (fd >= 0)
        close(fd);
    return can;
}

/* "a/x.mtc" -> "a/x.exec1.mtc" -> "a/x.exec2.mtc"; a FIFO's name stays. */
static int next_output(char next[PATH_MAX])
{
    struct stat st;
    char *slash = strrchr(output, '/'), *dot = strrchr(output, '.'), *mark;
    size_t stem = dot && dot > slash + 1 ? (size_t)(dot - output) : strlen(output), end = stem;
    unsigned number = 1;
    if (mt_core_output_number(output) >= 0 || (stat(output, &st) == 0 && !S_ISREG(st.st_mode)))
        return snprintf(next, PATH_MAX, "%s", output) < PATH_MAX ? 0 : -1;
    while (end > 0 && isdigit((unsigned char)output[end - 1]))
        end--;
    mark = output + end - strlen(".exec");
    if (end < stem && mark > slash && !strncmp(mark, ".exec", 5)) {
        number = (unsigned)strtoul(output + end, NULL, 10) + 1;
        end -= strlen(".exec");
    } else {
        end = stem;
    }
    int n = snprintf(next, PATH_MAX, "%.*s.exec%u%s", (int)end, output, number, output + stem);
    return n > 0 && n < PATH_MAX ? 0 : -1;
}

void mt_follow(const char *path, char *const *argv, char *const *envp)
{
    static char *no_words[] = {NULL};
    char next[PATH_MAX], name[PATH_MAX + 16], file[PATH_MAX + 2], *first = NULL;
    size_t n = 0, count = 0;
    if (!follower || next_output(next) != 0)
        return;
    argv = argv ? argv : no_words;
    while (argv[count])
        count++;
    char **line = malloc((OWN + (size_t)words + 2 + count + 1) * sizeof *line);
    if (!line || asprintf(&first, "--argv0=%s", count ? argv[0] : path) < 0)
        goto out;
    snprintf(name, sizeof name, "--output=%s", next);
    int fd = !strncmp(path, "/proc/", 6) || !strncmp(path, "/dev/fd/", 8) ? open(path, O_RDONLY) : -1;
    if (fd >= 0)
        snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
    else
        snprintf(file, sizeof file, "%s%s", strchr(path, '/') ? "" : "./", path);
    line[n++] = "mt-host";
    line[n++] = engine_word;
    line[n++] = "--exec";
    line[n++] = first;
    line[n++] = word[0];
    for (int i = 1; i < words; i++)
        if (strncmp(word[i], "--output=", 9) != 0)
            line[n++] = word[i];
    line[n++] = name;
    line[n++] = "--";
    line[n++] = file;
    for (size_t i = 1; i < count; i++)
        line[n++] = argv[i];
    line[n] = NULL;
    execve(follower, line, envp);
out:
    free(first);
    free(line);
}
