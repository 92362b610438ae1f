/* Trusted files: memtrace loads code and text that it finds by name only from files of the user and of root,
 * as ssh and sudo do. Each file, and each folder above it, must belong to the user or root and not be
 * writable by others. A sticky folder like /tmp may be above, but not be the folder itself. Symbolic links on
 * the way must belong to the user or root, too. The user's own group may write. Folders above memtrace's own
 * are not checked: whoever can write there could have changed memtrace itself. Files that the system finds
 * (PATH, LD_LIBRARY_PATH) and files named on a command line are not checked. Thread-safe; used by the runtime
 * and by mt-ptx. */
#ifndef MT_BASE_TRUST_H
#define MT_BASE_TRUST_H
#include <stddef.h>

enum mt_trust {
    MT_TRUST_FILE,   /* any kind of file; the descriptor is O_PATH */
    MT_TRUST_FOLDER, /* folder; it and those above are created (mode 0700) if missing */
};
/* Opens a trusted file or folder. Returns a descriptor (close-on-exec), or -1 with errno (EPERM: refused) and
 * a sentence in *why. */
int mt_trust_open(const char *path, enum mt_trust what, char *why, size_t size);
/* Checks a file without opening it. Returns 0 or -1. A name without a slash is for the dynamic linker or a
 * shell to find: returns 0. */
int mt_trust_file(const char *path, char *why, size_t size);
/* Checks that everything in a folder and its subfolders belongs to the user or root, since files may be older
 * than the folder's mode. Returns 0, or -1 with *why. */
int mt_trust_contents(int folder, char *why, size_t size);
#endif
