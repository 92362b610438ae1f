/* Programs of memtrace that run beside the traced one: memtrace extract, mt-ptx. They are not children of the
 * traced program, so it gets no signal from them and cannot wait for them by mistake. Ctrl-C does not reach
 * them. Their environment is the program's without variables for the dynamic linker. */
#ifndef MT_BASE_CHILD_H
#define MT_BASE_CHILD_H
#include <stddef.h>
#include <sys/types.h>

#define MT_CHILD_FDS 4
struct mt_child {
    const char *file;     /* program; NULL or "": words[0], in the folder bin beside our lib, then in PATH */
    char *const *words;   /* argv, NULL-terminated */
    int fd[MT_CHILD_FDS]; /* descriptors that become 0 to 3; -1 means /dev/null, for 3 nothing. fd[2] may be
                             2, the program's own. All others are closed. They remain the caller's. */
};
/* Starts a program. Returns its process number, or -1 with a sentence in *why. Nobody waits for the process:
 * its end shows in its descriptors. Under qemu the program gets a SIGCHLD, and a file that cannot be run
 * shows in the descriptors only. */
pid_t mt_child_start(const struct mt_child *c, char *why, size_t size);
/* Finds the file that mt_child_start would run; "" when only PATH is searched. */
void mt_child_file(const struct mt_child *c, char *path, size_t size);
#endif
