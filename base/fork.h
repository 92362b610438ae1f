/* fork in a program with several threads: the child has only one, and locks that others held stay taken
 * there, with what they guard half done. So fork takes our locks first. Each lock that is held for moments
 * only is named here, at its definition; those that are held while something is waited for belong to tracing,
 * which a child does not do. */
#ifndef MT_COMMON_FORK_H
#define MT_COMMON_FORK_H
#include <pthread.h>

enum mt_fork_kind { MT_FORK_MUTEX, MT_FORK_RECURSIVE, MT_FORK_RWLOCK };
/* Taken in this order: who holds a lock may take those after it. */
enum mt_fork_order {
    MT_FORK_MODULES,  /* while images are loaded */
    MT_FORK_TRACES,   /* the list of traces, names of companions */
    MT_FORK_CAPTURES, /* and others that look into tables while they hold theirs */
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
extern const int mt_fork_taker; /* fork.c's: where there is such a lock, it is linked */
/* `name`: of a static mutex; `table`: of a static mt_map or mt_ranges, which begins with its lock. The
 * entries form a table of their own in the library, which the linker puts together. */
#define MT_FORK_ENTRY(name, lock, kind, order)                                                               \
    static const int *const mt_fork_taker_##name __attribute__((used)) = &mt_fork_taker;                     \
    static const struct mt_fork_lock mt_fork_##name                                                          \
        __attribute__((used, section("mt_fork_locks"))) = {lock, kind, order}
#define MT_FORK_LOCK(name, order) MT_FORK_ENTRY(name, &(name), MT_FORK_MUTEX, order)
#define MT_FORK_TABLE(table) MT_FORK_ENTRY(table, &(table).lock, MT_FORK_RWLOCK, MT_FORK_TABLES)
#endif
