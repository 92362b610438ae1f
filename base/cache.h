/* A user's folder of things that took time to make: files named by a key, which says what they were made of.
 * It is the user's alone (and trust.h's), or it is not used. A file is there whole or not at all, and is
 * looked through when it is taken: what is damaged counts as not there. Several processes may use it at once.
 * Thread-safe; used by the runtime and by mt-ptx. */
#ifndef MT_BASE_CACHE_H
#define MT_BASE_CACHE_H
#include <stddef.h>
#include <stdint.h>

#define MT_CACHE_KEY 33 /* hexadecimal, and NUL */
/* Of what comes after each other in `data`, `bytes` long, which begins with what is hashed so far (""). */
void mt_cache_key(char key[MT_CACHE_KEY], const void *data, size_t bytes);

/* What is kept: words that were said when it was made, and what was made. */
struct mt_cache_entry {
    void *block; /* malloc'ed: both lie in it */
    const char *words;
    const void *made; /* aligned to 16 */
    uint64_t nwords, bytes;
};
/* Writes an entry to a descriptor from its beginning; reads one. 0, or -1 with errno (EBADMSG: damaged). The
 * block is the caller's to free. */
int mt_cache_write(int fd, const char *words, size_t nwords, const void *made, size_t bytes);
int mt_cache_read(int fd, struct mt_cache_entry *out);

/* The folder's path: `set`, or $XDG_CACHE_HOME/memtrace, or ~/.cache/memtrace. 0; -1: there is none. */
int mt_cache_path(const char *set, char *path, size_t size);
/* Opens it, and makes it when it is not there. A descriptor, close-on-exec; -1: *why is a sentence. */
int mt_cache_open(const char *path, char *why, size_t size);
/* Takes what has this key. 0, or -1: it is not there. */
int mt_cache_find(int folder, const char *key, struct mt_cache_entry *out);
/* Puts what is in the descriptor (mt_cache_write) there. What was used least recently goes, so that the
 * folder has no more than `limit` bytes. 0, or -1 with errno: it is not kept. */
int mt_cache_store(int folder, const char *key, int from, uint64_t limit);
/* Calls `each` for all that is there, what was used last first. Returns how many, or -1 with errno. */
struct mt_cache_file {
    char name[64];
    uint64_t bytes;
    int64_t used; /* seconds since 1970 */
};
int mt_cache_walk(int folder, void (*each)(const struct mt_cache_file *f, void *ctx), void *ctx);
/* Removes all of it but the folder. */
int mt_cache_clear(int folder);
#endif
