/* Memory that this process uses, and how much more it may have. */
#define _GNU_SOURCE
#include "memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH = 4096, TEXT = 16384, RESULTS = 4, LEAST = 64 << 20 };

/* Reads the beginning of a small file of the kernel as text. Returns 0, or -1 if there is none. */
static int memory_text(char text[TEXT], const char *folder, const char *name)
{
    char path[PATH];
    ssize_t n = -1;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path) {
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        n = fd < 0 ? -1 : read(fd, text, TEXT - 1);
        if (fd >= 0)
            close(fd);
    }
    text[n > 0 ? n : 0] = 0;
    return n > 0 ? 0 : -1;
}

/* Returns the number after `key` at the beginning of a line; `absent` if there is none. */
static uint64_t memory_key(const char *text, const char *key, uint64_t absent)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, strlen(key)) == 0)
            return strtoull(line + strlen(key), NULL, 10);
    }
    return absent;
}

/* Returns the number in a file; `absent` if there is none, or a word ("max"). */
static uint64_t memory_number(const char *folder, const char *name, uint64_t absent)
{
    char text[TEXT];
    return memory_text(text, folder, name) == 0 && *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10)
                                                                                : absent;
}

/* ---- limits; each lowers m->left ---- */

static void memory_limit(struct mt_memory *m, uint64_t left, const char *what)
{
    if (left < m->left) {
        m->left = left;
        m->limit = what;
    }
}

static uint64_t memory_minus(uint64_t limit, uint64_t used)
{
    return limit > used ? limit - used : 0;
}

/* A cgroup's memory, without files that the kernel would drop. Version 1 has other names. */
static void memory_of_cgroup(struct mt_memory *m, const char *folder)
{
    char text[TEXT];
    uint64_t limit = memory_number(folder, "memory.max", UINT64_MAX),
             used = memory_number(folder, "memory.current", 0);
    if (limit == UINT64_MAX) {
        limit = memory_number(folder, "memory.limit_in_bytes", UINT64_MAX);
        used = memory_number(folder, "memory.usage_in_bytes", 0);
    }
    if (limit >= UINT64_MAX / 4)
        return;
    uint64_t files = memory_text(text, folder, "memory.stat") == 0
                         ? memory_key(text, "inactive_file ", 0) + memory_key(text, "active_file ", 0)
                         : 0;
    memory_limit(m, memory_minus(limit, memory_minus(used, files)), "the limit of its cgroup");
}

/* The process's own cgroup and all above: "0::/a/b", or of version 1 "4:memory:/a/b". In a container the path
 * may be that of the host; its root is then seen alone. */
static void memory_of_cgroups(struct mt_memory *m, const struct mt_memory_files *files)
{
    char text[TEXT], folder[PATH];
    const char *mount = files->cgroup;
    if (memory_text(text, files->proc, "self/cgroup") != 0)
        return;
    char *path = strstr(text, ":memory:");
    const char *below = path ? "/memory" : "";
    path = path ? path + strlen(":memory:") : strstr(text, "0::");
    if (!path)
        return;
    path += strncmp(path, "0::", 3) == 0 ? 3 : 0;
    path[strcspn(path, "\n")] = 0;
    for (char *end; snprintf(folder, sizeof folder, "%s%s%s", mount, below, path) < (int)sizeof folder;
         *end = 0) {
        memory_of_cgroup(m, folder);
        if (!(end = strrchr(path, '/')))
            return;
    }
}

/* /proc/self/statm: pages of addresses, pages resident. */
static void memory_of_process(struct mt_memory *m, const struct mt_memory_files *files)
{
    char text[TEXT], *next;
    struct rlimit r;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (memory_text(text, files->proc, "self/statm") != 0)
        return;
    const uint64_t addresses = strtoull(text, &next, 10) * page;
    m->used = strtoull(next, NULL, 10) * page;
    if (getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY)
        memory_limit(m, memory_minus(r.rlim_cur, addresses), "ulimit -v");
}

/* The machine's: others use it, too, and it is nearer to the truth the closer it is, so it counts twice. */
static void memory_of_machine(struct mt_memory *m, const struct mt_memory_files *files)
{
    char text[TEXT];
    if (memory_text(text, files->proc, "meminfo") == 0)
        memory_limit(
            m,
            2 * 1024 *
                (memory_key(text, "MemAvailable:", UINT64_MAX >> 14) + memory_key(text, "SwapFree:", 0)),
            "the machine's memory");
}

uint64_t mt_memory_used(void)
{
    static int fd = -1;
    char text[128] = "", *next;
    if (fd < 0)
        fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, text, sizeof text - 1, 0) <= 0)
        return 0;
    (void)strtoull(text, &next, 10);
    return strtoull(next, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

struct mt_memory mt_memory_look(const struct mt_memory_files *files)
{
    static const struct mt_memory_files usual = {"/proc", "/sys/fs/cgroup"};
    struct mt_memory m = {.left = UINT64_MAX};
    files = files ? files : &usual;
    memory_of_process(&m, files);
    memory_of_cgroups(&m, files);
    memory_of_machine(&m, files);
    m.is_short = m.used >= LEAST && m.left < m.used / RESULTS;
    return m;
}
