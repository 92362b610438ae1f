/* The file that an option -o names. Used by mt-ptx and the programs of postprocess. */
#ifndef MT_CLI_CREATE_H
#define MT_CLI_CREATE_H
/* A descriptor to write to, close-on-exec; what is in the file stays for now. -1: *why says why, and must not
 * be freed. A link of another user is not followed: whoever can write to the folder can put one there that
 * leads to a file of ours. Root's, as /dev/stdout, is. */
int mt_create(const char *path, const char **why);
#endif
