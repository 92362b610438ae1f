/* Memory that this process uses, and how much more it may have: of its cgroup and those above, by its limit
 * of addresses (ulimit -v), and in the machine. */
#ifndef MT_CLI_MEMORY_H
#define MT_CLI_MEMORY_H
#include <stdint.h>

/* Where files of the kernel are; tests have their own. */
struct mt_memory_files {
    const char *proc, *cgroup; /* "/proc", "/sys/fs/cgroup" */
};

struct mt_memory {
    uint64_t used;     /* bytes resident */
    uint64_t left;     /* bytes until the nearest limit; UINT64_MAX: none is known */
    const char *limit; /* what that limit is, for messages */
    int is_short;      /* 1: so little is left that results of what was read may just fit */
};

/* Returns the bytes resident; cheap. */
uint64_t mt_memory_used(void);
struct mt_memory mt_memory_look(const struct mt_memory_files *files); /* NULL: the usual ones */
#endif
