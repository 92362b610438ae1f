/* The libraries that the dynamic linker would load into a program. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "mt-run.h"
#include "base/words.h"

#define LINKER "/lib64/ld-linux-x86-64.so.2"

int mt_run_wait(char *const *argv, const posix_spawn_file_actions_t *actions)
{
    pid_t pid;
    int status, why = posix_spawn(&pid, argv[0], actions, NULL, argv, environ);
    if (why) {
        mt_cli_say("%s: %s", argv[0], strerror(why));
        return EXIT_FAILED;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

/* "	libx.so.1 => /lib/libx.so.1 (0x…)" or "	/lib/ld.so (0x…)": the path, in place; NULL: none. */
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
    return strchr(path, '/') ? path : NULL; /* not the kernel's own */
}

int mt_run_libraries(const char *path, struct words *files, int talk)
{
    char *argv[] = {(char *)LINKER, (char *)"--list", (char *)path, NULL}, *line = NULL, *found;
    size_t room = 0;
    posix_spawn_file_actions_t actions;
    FILE *f = tmpfile();
    if (!f) {
        mt_cli_say("no temporary file: %s", strerror(errno));
        return EXIT_FAILED;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(f), STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
    mt_run_wait(argv, &actions); /* a static program has none, and is an error to it */
    posix_spawn_file_actions_destroy(&actions);
    rewind(f);
    while (getline(&line, &room, f) > 0)
        if ((found = libraries_line(line, talk)) != NULL)
            mt_words_add(files, found);
    free(line);
    fclose(f);
    return 0;
}
