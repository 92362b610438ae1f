/* What a command takes: rows of command.def. Used by all programs. */
#ifndef MT_CLI_COMMAND_H
#define MT_CLI_COMMAND_H

/* Commands that an option belongs to. */
enum {
    MT_OF_RUN = 1,
    MT_OF_HOST = 2,
    MT_OF_EXTRACT = 4,
    MT_OF_REPORT = 8,
    MT_OF_GRAPH = 16,
    MT_OF_COMPARE = 32,
    MT_OF_DUMP = 64,
    MT_OF_CONVERT = 128,
    MT_OF_ENV = 256,
    MT_OF_PTX = 512,
    MT_OF_CC = 1024,
    MT_OF_CHECK = 2048,
    MT_OF_QUERY = 4096,
    MT_OF_ALL = 8191
};

enum mt_option_id {
    MT_OPT_FIRST = 255, /* below: letters, which getopt_long knows */
#define MT_OPTION(id, name, letter) MT_OPT_##id,
#define MT_OPTION_OF(id, argument, commands, group, what)
#include "command.def"
#undef MT_OPTION
#undef MT_OPTION_OF
#define MT_HOST_OPTION(kind, field, letter, name, modes, def, values, help) MT_OPT_HOST_##field,
#include "host_options.def"
    MT_OPT_END,
    MT_OPT_LETTERS = 3 * (MT_OPT_END - MT_OPT_FIRST) /* room for all letters, for getopt_long */
};

struct mt_command {
    unsigned of; /* one of MT_OF_… */
    char kind;   /* of memtrace host: 'M', 'A' or 'I', whose options its help lists; 0: the others */
    const char *before, *after; /* the options in its help; before: begins with "Usage: memtrace extract" */
    int stops;                  /* options end where words begin that are none */
};

/* Options of argv, each to `take` with its argument in optarg: 0: go on; else the exit code. Returns 0, with
 * the words that are no options from optind on; -1: what was asked for (help, version, completion) is on
 * stdout; else the exit code. */
int mt_command_options(const struct mt_command *c, int argc, char **argv, int (*take)(void *arg, int option),
                       void *arg);
struct option;
/* The same as getopt_long wants it, for a caller of getopt_long: into lists with room for MT_OPT_END -
 * MT_OPT_FIRST options and MT_OPT_LETTERS characters. Without those that are in no list, unless `hidden`. */
void mt_command_table(unsigned of, int hidden, struct option *list, char *letters);
/* The name of an option. */
const char *mt_command_option(int id);
/* The help. */
void mt_command_help(const struct mt_command *c);
#endif
