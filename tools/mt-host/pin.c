/* The command for Intel Pin: pin -t TOOL -mode MODE -option value … -- program. */
#include "cli.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int find_pin(char pin[PATH_MAX])
{
    const char *root = getenv("PIN_ROOT");
    if (root && *root) {
        if (snprintf(pin, PATH_MAX, "%s/pin", root) < PATH_MAX && access(pin, X_OK) == 0)
            return 0;
        mt_cli_say(
            "PIN_ROOT is %s, but %s/pin cannot be run: %s; set PIN_ROOT to the folder of the unpacked Pin "
            "kit",
            root, root, strerror(errno));
        return EXIT_ENGINE;
    }
    if (mt_files_executable("pin", pin) == 0)
        return 0;
    mt_cli_say("Pin is not there: set PIN_ROOT to the folder of the unpacked Pin kit, or put pin into PATH. "
               "Without it: --engine=qemu");
    return EXIT_ENGINE;
}

static int find_tool(char tool[PATH_MAX])
{
    const char *given = getenv("MEMTRACE_PIN_TOOL");
    static const char *const places[] = {"memtrace/mt-host.so", "host/pin/obj-intel64/mt-host.so"};
    if (given && *given) {
        if (strlen(given) < PATH_MAX && access(given, R_OK) == 0) {
            strcpy(tool, given);
            return 0;
        }
        mt_cli_say("MEMTRACE_PIN_TOOL is %s: %s", given, strerror(errno));
        return EXIT_ENGINE;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (mt_files_part(places[i], tool) == 0)
            return 0;
    mt_cli_say("the Pin tool is not built: make -C host/pin PIN_ROOT=… obj-intel64/mt-host.so, then set "
               "MEMTRACE_PIN_TOOL to it");
    return EXIT_ENGINE;
}

int mt_hostrun_pin_command(const struct request *r, const struct program *p, struct command *c)
{
    char tool[PATH_MAX];
    int code = find_pin(c->path);
    if (code == 0)
        code = find_tool(tool);
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
