/* From whom memtrace takes code and text that it looks for by a name: from the user and from root alone. One
 * rule for all such folders and files, as ssh and sudo have it: each of them, and each folder above, belongs
 * to the user or to root, and others cannot write there (a sticky folder like /tmp may be above, not be the
 * one); a symbolic link on the way belongs to one of them, too. A group may write if it is the user's own.
 * The folders above memtrace's own are not looked at: who can write there has changed memtrace itself.
 * Not asked for what the system finds (PATH, LD_LIBRARY_PATH) and for programs and traces that the user names
 * on a command line. Thread-safe; used by the runtime and by mt-ptx. */
#ifndef MT_BASE_TRUST_H
#define MT_BASE_TRUST_H
#include <stddef.h>

enum mt_trust {
    MT_TRUST_FILE,   /* whatever it is; the descriptor names it only (O_PATH) */
    MT_TRUST_FOLDER, /* it and those above are made (mode 0700) when they are not there */
};
/* A descriptor, close-on-exec; -1 with errno (EPERM: refused), and *why is a sentence. */
int mt_trust_open(const char *path, enum mt_trust what, char *why, size_t size);
/* The same where only that is asked: 0 or -1. A name without a slash is the dynamic linker's or a shell's to
 * find: 0. */
int mt_trust_file(const char *path, char *why, size_t size);
/* Whether all that lies in the folder, and in those below, belongs to the user or to root: it may be older
 * than the folder's mode. 0, or -1 with *why. */
int mt_trust_contents(int folder, char *why, size_t size);
#endif
