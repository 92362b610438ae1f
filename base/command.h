/* Command lines: options of all commands come from rows of command.def. Used by all programs. */
#ifndef MT_CLI_COMMAND_H
#define MT_CLI_COMMAND_H

/* Commands that an option belongs to, as a mask. */
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
    MT_OPT_FIRST = 255, /* numbers below are letters */
#define MT_OPTION(id, name, letter) MT_OPT_##id,
#define MT_OPTION_OF(id, argument, commands, group, what)
#include "command.def"
#undef MT_OPTION
#undef MT_OPTION_OF
#define MT_HOST_OPTION(kind, field, letter, name, modes, def, values, help) MT_OPT_HOST_##field,
#include "host_options.def"
    MT_OPT_END,
    MT_OPT_LETTERS = 3 * (MT_OPT_END - MT_OPT_FIRST) /* room for all letters in getopt_long's form */
};

struct mt_command {
    unsigned of; /* one of MT_OF_… */
    char kind; /* memtrace host: 'M', 'A' or 'I', the mode whose options the help lists; 0: the other options
                */
    const char *before, *after; /* help before and after the list of options; `before` begins with "Usage:
                                   memtrace extract" */
    int stops;                  /* 1: parsing ends at the first word that is no option */
};

/* Parses argv and calls `take` for each option, with its argument in optarg. `take` returns 0 to continue,
 * else an exit code. Returns 0 with optind at the first other word, -1 if help, version or completion was
 * printed, else the exit code. */
int mt_command_options(const struct mt_command *c, int argc, char **argv, int (*take)(void *arg, int option),
                       void *arg);
struct option;
/* Fills the lists of getopt_long: `list` has room for MT_OPT_END - MT_OPT_FIRST options, `letters` for
 * MT_OPT_LETTERS characters. Options without help are included only with `hidden`. */
void mt_command_table(unsigned of, int hidden, struct option *list, char *letters);
/* Returns the name of an option. */
const char *mt_command_option(int id);
/* Prints the help on stdout. */
void mt_command_help(const struct mt_command *c);
#endif
