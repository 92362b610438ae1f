/* The commands that are one program, `memtrace` (cli/memtrace/): each is a main of its own. */
#ifndef MT_CLI_COMMANDS_H
#define MT_CLI_COMMANDS_H

#define COMMAND(word, sentence) int mt_##word##_command(int argc, char **argv);
#include "commands.def"
#undef COMMAND
#endif
