/* Source lines of the program's own calls, where the compiler has not told them (nvcc): by the return
 * addresses and the program's line tables. Only of a program that was run just now: a trace may name any
 * file. */
#define _GNU_SOURCE
#include "check.h"
#ifdef MT_WITH_ELF
#include "host/machine/elffile.h"
#include <stdlib.h>
#include <string.h>

/* The file of the last address: most are of one program. */
struct opened {
    char *path;
    struct mt_elf *elf;
};

static struct mt_elf *place_open(struct opened *o, const char *path, size_t n)
{
    if (!o->path || strlen(o->path) != n || strncmp(o->path, path, n) != 0) {
        free(o->path);
        o->path = strndup(path, n);
        o->elf = o->path ? mt_elf_open(o->path) : NULL; /* there is no close: the program ends soon */
    }
    return o->elf;
}

/* Of CUDA's own headers: who calls them is meant. */
static int place_is_toolkit(const char *file)
{
    return strstr(file, "cuda_runtime") || strstr(file, "/crt/") || strstr(file, "/usr/include/") ||
           strstr(file, "device_launch");
}

/* Both in one file: the library's that called that one are not meant. */
static int place_same(const char *a, const char *b)
{
    size_t n = (size_t)(strchrnul(a, '+') - a);
    return strncmp(a, b, n + 1) == 0;
}

/* "path+0x12". 0, or -1: not known. */
static int place_of(struct mt_findings *f, struct opened *o, const char *at, struct mt_finding_side *side)
{
    const char *plus = at ? strrchr(at, '+') : NULL;
    struct mt_elf *elf = plus ? place_open(o, at, (size_t)(plus - at)) : NULL;
    struct mt_elf_location l;
    char path[4096];
    /* of the call, which ends where it returns to */
    if (!elf || mt_elf_line(elf, strtoull(plus + 1, NULL, 16) - 1, &l) != 0 || !l.line ||
        place_is_toolkit(l.file))
        return -1;
    snprintf(path, sizeof path, "%s%s%s", l.folder, *l.folder ? "/" : "", l.file);
    if (!(side->file = mt_findings_text(f, path, strlen(path))))
        return -1;
    side->line = l.line;
    return 0;
}

void mt_check_places(struct mt_findings *f)
{
    struct opened o = {0};
    for (size_t i = 0; i < f->count; i++) {
        struct mt_finding_side *s = &f->list[i].here;
        if ((s->file && *s->file) || !s->callers || place_of(f, &o, s->at, s) == 0)
            continue;
        for (int k = 0; k < MT_FAILED_CALLERS; k++)
            if (place_same(s->at, s->callers[k]) && place_of(f, &o, s->callers[k], s) == 0)
                break;
    }
    free(o.path);
}
#else
void mt_check_places(struct mt_findings *f)
{
    (void)f;
}
#endif
