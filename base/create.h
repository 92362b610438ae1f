/* Output files of option -o: which files are allowed, and how they are opened. Used by every program that
 * writes one. */
#ifndef MT_CLI_CREATE_H
#define MT_CLI_CREATE_H
/* Returns 1 if writing to `output` would change `input`: the paths name the same file (links are followed), a
 * trace and its companion, or a folder and a trace in it. Devices and pipes never count. */
int mt_output_is_input(const char *output, const char *input);
/* Opens `path` for writing without truncating it. Returns a descriptor (close-on-exec), or -1 with *why set
 * to a static string. Symbolic links of other users are refused, since in a shared folder they could lead to
 * the user's own files; root's links, such as /dev/stdout, are followed. */
int mt_create(const char *path, const char **why);
#endif
