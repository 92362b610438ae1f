/* Which file an object came from. The program itself has no name in its link map, and its file may be gone.
 */
#include "attach.h"
#include "base/part.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Did the kernel start the program, or the dynamic linker, which then is /proc/self/exe? */
static int program_is_exe(void)
{
    return getauxval(AT_BASE) != 0;
}

/* "55d0-55d8 r--p 0000 08:01 17    /x/y": is the address in it? range: its first word; path: "" for none. */
static int program_line(const char *line, uintptr_t address, char range[40], char path[PATH_MAX])
{
    char *end;
    uintptr_t begin = strtoull(line, &end, 16), over = *end == '-' ? strtoull(end + 1, &end, 16) : 0;
    const char *slash = strchr(line, '/');
    if (address < begin || address >= over)
        return 0;
    snprintf(range, 40, "%.*s", (int)(end - line), line);
    snprintf(path, PATH_MAX, "%s", slash ? slash : "");
    return 1;
}

/* A line feed in a name is written as \012 there. */
static void program_feeds(char *path)
{
    char *to = path;
    if (access(path, F_OK) == 0)
        return;
    for (const char *at = path; *at; to++) {
        int feed = strncmp(at, "\\012", 4) == 0;
        *to = feed ? '\n' : *at;
        at += feed ? 4 : 1;
    }
    *to = 0;
}

/* The file that is mapped at an address, as /proc/self/maps has it. 0, or -1. */
static int program_mapped(uintptr_t address, char range[40], char path[PATH_MAX])
{
    char text[4 * PATH_MAX], *feed;
    size_t have = 0;
    ssize_t n;
    int found = 0, fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && !found && (n = read(fd, text + have, sizeof text - 1 - have)) > 0) {
        have += (size_t)n;
        text[have] = 0;
        char *line = text;
        for (; !found && (feed = strchr(line, '\n')) != NULL; line = feed + 1) {
            *feed = 0;
            found = program_line(line, address, range, path);
        }
        have -= (size_t)(line - text);
        memmove(text, line, have);
    }
    if (fd >= 0)
        close(fd);
    if (found)
        program_feeds(path);
    return found ? 0 : -1;
}

const char *mt_attach_path(const struct link_map *map, char room[PATH_MAX])
{
    char range[40];
    if (*map->l_name)
        return map->l_name;
    if (program_is_exe() ? mt_files_self(room, 0) : program_mapped((uintptr_t)map->l_ld, range, room))
        *room = 0;
    if (!*room && getauxval(AT_EXECFN)) /* there is no /proc */
        snprintf(room, PATH_MAX, "%s", (const char *)getauxval(AT_EXECFN));
    return room;
}

int mt_attach_program_open(struct mt_binary *o, const struct link_map *map, const char *path)
{
    char range[40], room[PATH_MAX], link[64] = "/proc/self/exe";
    if (*map->l_name)
        return mt_binary_open(o, path);
    if (!program_is_exe() && program_mapped((uintptr_t)map->l_ld, range, room) == 0)
        snprintf(link, sizeof link, "/proc/self/map_files/%s", range); /* not for everybody */
    int first = mt_binary_open(o, program_is_exe() ? link : path);
    return first && mt_binary_open(o, program_is_exe() ? path : link) != 0 ? first : 0;
}
