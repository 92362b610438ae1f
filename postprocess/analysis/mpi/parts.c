/* Parts of traces, read where they are: by ranks that share the reading (split.c, rounds.c, share.c). */
#define _GNU_SOURCE
#include "parts.h"
#include "memtrace/grow.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void mt_parts_free(struct mt_parts *p)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->inputs[i].fd >= 0)
            close(p->inputs[i].fd);
        mt_device_parts_close(p->inputs[i].chunks);
    }
    free(p->inputs);
    memset(p, 0, sizeof *p);
}

/* NULL without memory. */
static struct mt_part_input *parts_input_of(struct mt_parts *p, const char *path)
{
    for (size_t i = 0; i < p->count; i++) {
        p->last = p->last < p->count && p->inputs[p->last].path == path ? p->last : i;
        if (p->inputs[p->last].path == path)
            return &p->inputs[p->last];
    }
    if (mt_grow(&p->inputs, &p->room, p->count + 1, sizeof *p->inputs) != 0)
        return NULL;
    p->last = p->count;
    p->inputs[p->count] = (struct mt_part_input){.path = path, .fd = -1};
    return &p->inputs[p->count++];
}

int mt_parts_records(struct mt_parts *p, const char *path, uint64_t offset, struct mt_raw_record *out,
                     size_t n)
{
    struct mt_part_input *in = parts_input_of(p, path);
    if (!in || (in->fd < 0 && (in->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0))
        return -1;
    for (size_t done = 0, bytes = n * sizeof *out; done < bytes;) {
        ssize_t got = pread(in->fd, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (got == 0 || (got < 0 && errno != EINTR))
            return -1;
        done += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

struct mt_device_parts *mt_parts_chunks(struct mt_parts *p, const char *path)
{
    struct mt_part_input *in = parts_input_of(p, path);
    struct mt_error err;
    if (in && !in->chunks)
        in->chunks = mt_device_parts_open(path, &err);
    return in ? in->chunks : NULL;
}
