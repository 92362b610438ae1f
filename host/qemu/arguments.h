/* The plugin's arguments. */
#ifndef MT_HOST_QEMU_ARGUMENTS_H
#define MT_HOST_QEMU_ARGUMENTS_H
#include "../core/core.h"

/* "name=value" words as qemu hands them on -> options. What they point to lives as long as the process. 0, or
 * -1: *why is a sentence for the user. */
int mt_arguments_parse(struct mt_core_options *o, int argc, char **argv, char *why, unsigned size);
#endif
