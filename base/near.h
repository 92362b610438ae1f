/* Suggestions for misspelt words, and lists of options and values for shells. Used by all programs. */
#ifndef MT_CLI_NEAR_H
#define MT_CLI_NEAR_H
#include <getopt.h>
#include <stddef.h>

/* Returns the word of `list` (NULL-terminated) that the `n` characters of `text` are probably meant to be,
 * ignoring case. At most a third of the characters, and at most two, may be wrong: missing, extra, different,
 * or swapped. Returns NULL if no word is that near, or two are. */
const char *mt_near_word(const char *text, size_t n, const char *const *list);
/* Suggests an option for an argument "--name" or "--name=value" that getopt_long has refused. */
const char *mt_near_option(const char *argument, const struct option *list);
/* Answers `--completion-options` alone: prints the options, one a line, with `--name=` if a value follows.
 * Returns 1, or 0 for other arguments. `letters` as for getopt. */
int mt_near_completion(int argc, char **argv, const char *letters, const struct option *list);
/* Answers `--completion-values OPTION` (-f, --format). Returns getopt_long's number of the option with an
 * impossible value in `optarg`; when the caller parses that value, mt_near_word prints the accepted ones, one
 * a line. Returns -1 if OPTION has no such list ("" stands for the first word of the command line), or 0 for
 * other arguments. */
int mt_near_values(int argc, char **argv, const char *letters, const struct option *list);
/* Ends a command that only printed words on stdout. Returns 0 if they were written, else 1 after an error
 * message. */
int mt_near_told(void);
#endif
