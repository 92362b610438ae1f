/* The commands of the program `memtrace` (cli/memtrace/); each is a main function. */
#ifndef MT_CLI_COMMANDS_H
#define MT_CLI_COMMANDS_H

#define COMMAND(word, sentence) int mt_##word##_command(int argc, char **argv);
#include "commands.def"
#undef COMMAND
#endif
