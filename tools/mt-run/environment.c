/* The environment in which the dynamic linker loads memtrace into a program. */
#include "mt-run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "files.h"
#include "words.h"

static const struct {
    const char *variable, *file, *separators;
} environment_parts[] = {{"LD_AUDIT", "libmemtrace-attach.so", ":"}, {"LD_PRELOAD", "libmemtrace.so", ": "}};
enum { PARTS = sizeof environment_parts / sizeof *environment_parts };

static int environment_has(const char *list, const char *path, const char *separators)
{
    size_t n = strlen(path);
    for (const char *at = list; (at = strstr(at, path)) != NULL; at += n)
        if ((at == list || strchr(separators, at[-1])) && (!at[n] || strchr(separators, at[n])))
            return 1;
    return 0;
}

int mt_run_environment_set(void)
{
    for (unsigned i = 0; i < PARTS; i++) {
        const char *variable = environment_parts[i].variable, *was = getenv(variable);
        char path[PATH_MAX];
        if (mt_files_part(environment_parts[i].file, path) != 0) {
            mt_run_say("there is no %s: build memtrace (./setup build) or install it whole", path);
            return EXIT_FAILED;
        }
        if (strpbrk(path, ": $")) {
            mt_run_say("%s: a folder whose name has a blank, a colon or a $ cannot be named in %s: move memtrace",
                       path, variable);
            return EXIT_FAILED;
        }
        if (was && environment_has(was, path, environment_parts[i].separators))
            continue;
        char *now = was && *was ? mt_words_text("%s:%s", path, was) : mt_words_text("%s", path);
        setenv(variable, now, 1);
        free(now);
    }
    return 0;
}

void mt_run_environment_print(void)
{
    struct words w = {0};
    for (unsigned i = 0; i < PARTS; i++)
        mt_words_addf(&w, "%s=%s", environment_parts[i].variable, getenv(environment_parts[i].variable));
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "MEMTRACE_", 9) == 0)
            mt_words_add(&w, *e);
    mt_words_print(&w);
    mt_words_free(&w);
}
