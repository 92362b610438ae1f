/* Lines of an image that another version of the program had made: its tables are copied, and stay. */
#include "lines.h"
#include "format/image.h"
#include <stdlib.h>
#include <string.h>

struct lines {
    const struct mt_made_kernel *then, *now;
    const char *ptx; /* now's, to stay */
};

/* A line of a file, which are changed. Files are the same in both versions, but for PTX that is its own
 * source. */
static void lines_change(const struct lines *l, const char **file, uint32_t *line)
{
    int own = !strcmp(*file, l->then->ptx);
    uint32_t hash = own ? 0 : mt_made_file(*file);
    for (uint64_t i = 0; i < l->then->nplaces && *line; i++) {
        const struct mt_made_place *from = &l->then->places[i];
        if (from->file == hash && *line - from->line < from->lines) {
            *line += l->now->places[i].line - from->line;
            break;
        }
    }
    if (own)
        *file = l->ptx;
}

static int lines_are_those(const struct mt_made_kernel *then, const struct mt_made_kernel *now)
{
    return !strcmp(then->ptx, now->ptx) &&
           !memcmp(then->places, now->places, now->nplaces * sizeof *now->places);
}

static void *lines_copy(const void *table, size_t bytes)
{
    void *copy = malloc(bytes ? bytes : 1);
    return copy && bytes ? memcpy(copy, table, bytes) : copy;
}

int mt_lines_move(struct mt_image *image, const struct mt_made_kernel *then, const struct mt_made_kernel *now)
{
    struct lines l = {.then = then, .now = now};
    const struct mt_image_head *old = image->head;
    if (then->nplaces != now->nplaces || lines_are_those(then, now))
        return 0;
    struct mt_image_head *head = lines_copy(old, sizeof *head);
    struct mt_image_kernel *kernels = lines_copy(old->kernels, old->nkernels * sizeof *kernels);
    struct mt_image_site *sites = lines_copy(old->sites, old->nsites * sizeof *sites);
    struct mt_image_note *notes = lines_copy(old->notes, old->nnotes * sizeof *notes);
    l.ptx = strdup(now->ptx);
    if (!head || !kernels || !sites || !notes || !l.ptx) {
        free(head);
        free(kernels);
        free(sites);
        free(notes);
        free((void *)(uintptr_t)l.ptx);
        return -1;
    }
    for (uint32_t i = 0; i < old->nkernels; i++)
        lines_change(&l, (const char **)&kernels[i].file, &kernels[i].line);
    for (uint32_t i = 0; i < old->nsites; i++)
        lines_change(&l, (const char **)&sites[i].file, &sites[i].line);
    for (uint32_t i = 0; i < old->nnotes; i++)
        lines_change(&l, (const char **)&notes[i].file, &notes[i].line);
    head->kernels = kernels;
    head->sites = sites;
    head->notes = notes;
    image->head = head;
    return 0;
}
