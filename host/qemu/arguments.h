/* The plugin's arguments. */
#ifndef MT_HOST_QEMU_ARGUMENTS_H
#define MT_HOST_QEMU_ARGUMENTS_H
#include "../core/core.h"

/* Parses qemu's "name=value" words into options. Their strings live as long as the process. Returns 0, or
 * -1 with *why set to a sentence for the user. */
int mt_arguments_parse(struct mt_core_options *o, int argc, char **argv, char *why, unsigned size);
#endif
