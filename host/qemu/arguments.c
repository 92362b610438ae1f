/* The plugin's arguments. */
#define _GNU_SOURCE
#include "arguments.h"
#include "../machine/follow.h"
#include <stdio.h>
#include <string.h>

enum { WORDS = 64 };

int mt_arguments_parse(struct mt_core_options *o, int argc, char **argv, char *why, unsigned size)
{
    static char *word[WORDS];
    const char *host = NULL;
    int n = 1;
    for (int i = 0; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!strncmp(argv[i], "mode=", 5)) {
            word[0] = argv[i] + 5;
            continue;
        }
        if (!strncmp(argv[i], "follow=", 7)) {
            host = argv[i] + 7;
            continue;
        }
        if (value && (!strcmp(value, "=on") || !strcmp(value, "=off")))
            strcpy(value, !strcmp(value, "=on") ? "=1" : "=0");
        if (n == WORDS || asprintf(&word[n++], "--%s", argv[i]) < 0)
            return snprintf(why, size, "too many plugin arguments"), -1;
    }
    if (!word[0])
        return snprintf(why, size, "the plugin needs mode=mat, mode=insn or mode=atomic"), -1;
    if (mt_core_options_parse(o, n, word, why, size) != 0)
        return -1;
    mt_follow_start(host, "qemu", word, n, o);
    return 0;
}
