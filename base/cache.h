/* A cache folder of the user's, for results that took time to compute. A file's name is a key, hashed from
 * the inputs. The folder must belong to the user alone (see trust.h), or it is not used. Files appear
 * complete or not at all, and are verified when read; a damaged file counts as missing. Several processes may
 * use the folder at once. Thread-safe; used by the runtime and by mt-ptx. */
#ifndef MT_BASE_CACHE_H
#define MT_BASE_CACHE_H
#include <stddef.h>
#include <stdint.h>

#define MT_CACHE_KEY 33 /* hexadecimal digits and NUL */
/* Extends a key by the next `bytes` of input. The key begins as "". */
void mt_cache_key(char key[MT_CACHE_KEY], const void *data, size_t bytes);

/* An entry: words printed when the result was made, and the result. */
struct mt_cache_entry {
    void *block; /* malloc'ed; contains both */
    const char *words;
    const void *made; /* result, aligned to 16 bytes */
    uint64_t nwords, bytes;
};
/* Writes an entry to a descriptor from its start, or reads one. Return 0, or -1 with errno (EBADMSG:
 * damaged). The caller frees the block. */
int mt_cache_write(int fd, const char *words, size_t nwords, const void *made, size_t bytes);
int mt_cache_read(int fd, struct mt_cache_entry *out);

/* Finds the folder's path: `set`, or $XDG_CACHE_HOME/memtrace, or ~/.cache/memtrace. Returns 0, or -1 if
 * there is none. */
int mt_cache_path(const char *set, char *path, size_t size);
/* Opens the folder, and creates it if it is missing. Returns a descriptor (close-on-exec), or -1 with a
 * sentence in *why. */
int mt_cache_open(const char *path, char *why, size_t size);
/* Reads the entry with this key. Returns 0, or -1 if it is missing. */
int mt_cache_find(int folder, const char *key, struct mt_cache_entry *out);
/* Stores the entry in the descriptor `from` (see mt_cache_write) under a key. Removes the least recently used
 * entries to keep the folder within `limit` bytes. Returns 0, or -1 with errno if the entry is not kept. */
int mt_cache_store(int folder, const char *key, int from, uint64_t limit);
/* Calls `each` for every entry, the most recently used first. Returns their number, or -1 with errno. */
struct mt_cache_file {
    char name[64];
    uint64_t bytes;
    int64_t used; /* seconds since 1970 */
};
int mt_cache_walk(int folder, void (*each)(const struct mt_cache_file *f, void *ctx), void *ctx);
/* Removes everything in the folder, but not the folder. */
int mt_cache_clear(int folder);
#endif
