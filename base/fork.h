/* fork in programs with several threads. The child has one thread, and locks that others held would stay
 * locked there, with their data half changed. So fork takes our locks first. Each lock that is held only
 * briefly is registered here at its definition. Locks that are held during waits belong to tracing, which a
 * child does not do. */
#ifndef MT_COMMON_FORK_H
#define MT_COMMON_FORK_H
#include <pthread.h>

enum mt_fork_kind { MT_FORK_MUTEX, MT_FORK_RECURSIVE, MT_FORK_RWLOCK };
/* Order in which fork takes locks: a thread that holds a lock may take later ones. */
enum mt_fork_order {
    MT_FORK_MODULES,  /* held while images are loaded */
    MT_FORK_TRACES,   /* list of traces, names of companions */
    MT_FORK_CAPTURES, /* captures and others that read tables under their lock */
    MT_FORK_HEAP,
    MT_FORK_TABLES, /* maps and ranges */
    MT_FORK_LEAVES,
    MT_FORK_ORDERS
};
struct mt_fork_lock {
    void *lock;
    enum mt_fork_kind kind;
    enum mt_fork_order order;
};
extern const int mt_fork_taker; /* Referenced by each entry, so that fork.c is linked. */
/* Registers a lock with fork: `name` is a static mutex; a `table` is a static mt_map or mt_ranges, which
 * begins with its lock. The linker gathers the entries into one table of the library. */
#define MT_FORK_ENTRY(name, lock, kind, order)                                                               \
    static const int *const mt_fork_taker_##name __attribute__((used)) = &mt_fork_taker;                     \
    static const struct mt_fork_lock mt_fork_##name                                                          \
        __attribute__((used, section("mt_fork_locks"))) = {lock, kind, order}
#define MT_FORK_LOCK(name, order) MT_FORK_ENTRY(name, &(name), MT_FORK_MUTEX, order)
#define MT_FORK_TABLE(table) MT_FORK_ENTRY(table, &(table).lock, MT_FORK_RWLOCK, MT_FORK_TABLES)
#endif
