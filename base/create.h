/* The file that an option -o names: what it may be, and how it is opened. Used by every program that writes
 * one. */
#ifndef MT_CLI_CREATE_H
#define MT_CLI_CREATE_H
/* 1: whoever writes to `output` changes what `input` names: it is that file (links are followed), its
 * companion or the trace that it is the companion of, or a trace in that folder. Devices and pipes are
 * nobody's. */
int mt_output_is_input(const char *output, const char *input);
/* A descriptor to write to, close-on-exec; what is in the file stays for now. -1: *why says why, and must not
 * be freed. A link of another user is not followed: whoever can write to the folder can put one there that
 * leads to a file of ours. Root's, as /dev/stdout, is. */
int mt_create(const char *path, const char **why);
#endif
