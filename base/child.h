/* Programs of ours that run beside the traced one: memtrace extract, mt-ptx. The traced program has no child
 * more than before: it sees no signal of it and cannot wait for it by mistake. Ctrl-C does not reach it. Its
 * environment is the program's without what the dynamic linker would load into it. */
#ifndef MT_BASE_CHILD_H
#define MT_BASE_CHILD_H
#include <stddef.h>
#include <sys/types.h>

#define MT_CHILD_FDS 4
struct mt_child {
    const char *file;   /* the program; NULL or "": words[0] in the folder bin beside our lib, then in PATH */
    char *const *words; /* argv, ended by NULL */
    int fd[MT_CHILD_FDS]; /* what becomes 0, 1, 2 and 3; -1: /dev/null, 3: nothing. 2 may be 2: the program's
                           * own. All others are closed. They stay the caller's. */
};
/* Its process number, or -1: *why is a sentence for the user. Nobody waits for it: that it has ended shows in
 * its descriptors. Under qemu the program gets a SIGCHLD, and a file that cannot be run shows there, too. */
pid_t mt_child_start(const struct mt_child *c, char *why, size_t size);
/* The file that mt_child_start would run; "" when only PATH is left. */
void mt_child_file(const struct mt_child *c, char *path, size_t size);
#endif
