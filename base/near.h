/* Words that were nearly right, and what a tool's table of options tells shells. Used by all mt- programs. */
#ifndef MT_CLI_NEAR_H
#define MT_CLI_NEAR_H
#include <getopt.h>
#include <stddef.h>

/* Of the list, which NULL ends, the word that the `n` characters of `text` were probably meant to be: at most
 * a third of them, and at most two, are wrong (one more, one less, another one, or two the wrong way round).
 * NULL: no word, or two, are that near. Upper and lower case are alike. */
const char *mt_near_word(const char *text, size_t n, const char *const *list);
/* The same for an argument "--name" or "--name=value", which getopt_long has refused. */
const char *mt_near_option(const char *argument, const struct option *list);
/* argv is `--completion-options` alone: prints the options, one a line, `--name=` where a value follows, and
 * returns 1; else 0. `letters` as for getopt. */
int mt_near_completion(int argc, char **argv, const char *letters, const struct option *list);
/* argv is `--completion-values OPTION` (-f, --format): returns the option's number of getopt_long, with a
 * value in `optarg` that no list has, to be taken as always; mt_near_word then prints the list that it is
 * given, a word a line. -1: OPTION has no such list ("" is what stands first on the command line). 0: argv is
 * something else. */
int mt_near_values(int argc, char **argv, const char *letters, const struct option *list);
/* All that was asked for were words on stdout, and they are there: 0; else 1, after saying why. */
int mt_near_told(void);
#endif
