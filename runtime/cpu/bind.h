/* Loads the shared objects of CPU images; those of one program with relocatable device code bind to one
 * another. Thread-safe. */
#ifndef MT_CPU_BIND_H
#define MT_CPU_BIND_H
#include <stddef.h>
#include <stdint.h>

/* One shared object: in, where its bytes are; out, dlopen's handle and where it was loaded, and the name by
 * which the dynamic linker knows it. */
#define MT_BIND_PATH 96
struct mt_bind_piece {
    const void *object;
    uint64_t size;
    void *handle;
    uint64_t base, bytes;
    char path[MT_BIND_PATH];
};

/* Loads the pieces of one program. What one leaves undefined another one defines; a weak definition gives way
 * to a strong one. `under`: the path of one that is loaded, whose symbols these may use; or NULL. 0, or -1
 * with *why (static or thread-local); then none is loaded. */
int mt_bind_load(struct mt_bind_piece *piece, size_t n, const char *under, const char **why);
#endif
