/* mt-cc --env: lines for a shell in which clang itself does what mt-cc does, so that
 *     clang++ -fplugin=libMemtrace-AA.so kernel.cu
 * needs nothing else. clang 19 takes more options from CCC_OVERRIDE_OPTIONS: there,
 * the configuration file. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "mt-cc.h"

#define OVERRIDES "CCC_OVERRIDE_OPTIONS"
#define CONFIGURATION "memtrace.cfg"

static void cut_name(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash) {
        *slash = 0;
    }
}

/* The program that a shell would run by this name: its real path; NULL if there is none. */
static char *find_program(const char *name)
{
    char real[PATH_MAX];
    const char *path = getenv("PATH");
    if (strchr(name, '/')) {
        return realpath(name, real) ? mt_words_text("%s", real) : NULL;
    }
    for (const char *p = path ? path : ""; *p; p += *p == ':') {
        size_t n = strcspn(p, ":");
        char *file = mt_words_text("%.*s/%s", (int)n, p, name);
        p += n;
        if (access(file, X_OK) == 0 && realpath(file, real)) {
            return mt_words_text("%s", real);
        }
    }
    return NULL;
}

char *mt_cc_find_clang(void)
{
    const char *chosen = getenv("MEMTRACE_CLANG");
    int choice = chosen && *chosen;
    char *clang = find_program(choice ? chosen : "clang++-19");
    if (!clang && !choice) {
        clang = find_program(MT_CLANGXX);
    }
    if (!clang) {
        mt_cli_say(MT_CC_NO_CLANG);
    }
    return clang;
}

/* A folder in which clang 19 is called clang++; NULL after a message. */
static char *clang_folder(void)
{
    char *clang = mt_cc_find_clang();
    if (!clang) {
        return NULL;
    }
    cut_name(clang);
    if (access(mt_words_text("%s/clang++", clang), X_OK) != 0) {
        mt_cli_say("note: %s has no clang++: say clang++-19 instead", clang);
    }
    return clang;
}

/* NAME=value, `value` in front of what was there. */
static void print_path(const char *name, const char *value)
{
    printf("export %s='%s'${%s:+\":$%s\"}\n", name, value, name, name);
}

int mt_cc_print_environment(const struct places *p)
{
    char *bin = mt_words_text("%s", p->include), *lib = mt_words_text("%s", p->plugin),
         *clang = clang_folder();
    cut_name(bin); /* the root */
    cut_name(lib);
    char *file = mt_words_text("%s/../" CONFIGURATION, p->overlay), real[PATH_MAX];
    if (!clang) {
        return 1;
    }
    if (!realpath(file, real)) {
        return mt_cli_fail("%s: no such configuration file; build memtrace first (./setup build)", file);
    }
    if (strpbrk(real, " \t\n'") || strpbrk(bin, ":'") || strpbrk(clang, ":'")) {
        return mt_cli_fail("%s: clang takes no blanks and quotes here; use mt-cc itself", real);
    }
    print_path("PATH", mt_words_text("%s/bin:%s", bin, clang));
    print_path("LD_LIBRARY_PATH", lib);
    printf("export " OVERRIDES "='# ^-Wno-unknown-cuda-version ^--config=%s'\n", real);
    return 0;
}

void mt_cc_forget_environment(void)
{
    const char *overrides = getenv(OVERRIDES);
    if (overrides && strstr(overrides, "/" CONFIGURATION)) {
        unsetenv(OVERRIDES);
    }
}
