/* Preloaded, says which libraries have names in /proc at the end, and how many CPU images there are; as an
 * auditor, which of them are none of this process' files while they are loaded. A debugger opens these names.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_auditor, nimages;

unsigned la_version(unsigned version)
{
    is_auditor = 1;
    return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    char own[32];
    struct stat st;
    (void)space, (void)cookie;
    snprintf(own, sizeof own, "/proc/%d/", (int)getpid());
    if (!strncmp(map->l_name, "/proc/", 6) &&
        (strncmp(map->l_name, own, strlen(own)) != 0 || stat(map->l_name, &st) || !S_ISREG(st.st_mode)))
        dprintf(1, "opened %s\n", map->l_name);
    return 0;
}

static int names_look(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size, (void)data;
    if (!strncmp(info->dlpi_name, "/proc/", 6))
        dprintf(1, "name %s\n", info->dlpi_name);
    nimages += !strcmp(info->dlpi_name, "/memfd:memtrace-cpu-image");
    return 0;
}

__attribute__((destructor)) static void names_end(void)
{
    if (is_auditor)
        return;
    dl_iterate_phdr(names_look, NULL);
    dprintf(1, "images %d\n", nimages);
}
