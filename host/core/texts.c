/* Digests of the recorded code's source files at the program's end: `source` lines of a compact trace. A
 * page shows only files that match them. */
#define _GNU_SOURCE
#include "sink.h"
#include "state.h"
#include "format/container/pack.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_FILES = 1024, LARGEST = 1 << 22 };

static const char *seen[MOST_FILES]; /* interned: equal names are equal pointers */
static unsigned nseen;

static int texts_new(const char *file)
{
    for (unsigned i = nseen; i-- > 0;)
        if (seen[i] == file)
            return 0;
    if (nseen == MOST_FILES)
        return 0;
    seen[nseen++] = file;
    return 1;
}

/* Computes the digest of a regular file: a FIFO or terminal by that name has no size. */
static int texts_digest(const char *file, uint64_t *bytes, uint64_t digest[2])
{
    long fd = mt_sys(__NR_open, (long)file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0, 0, 0, 0);
    if (fd < 0)
        return -1;
    long size = mt_sys(__NR_lseek, fd, 0, SEEK_END, 0, 0, 0);
    void *text = size > 0 && size <= LARGEST ? mt_plat_map((size_t)size) : NULL;
    int rc = text ? mt_plat_pread((int)fd, text, (size_t)size, 0) : -1;
    if (rc == 0) {
        *bytes = (uint64_t)size;
        mt_pack_digest(text, (size_t)size, digest);
    }
    if (text)
        mt_plat_unmap(text, (size_t)size);
    mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
    return rc;
}

static void texts_line(const char *file)
{
    uint64_t bytes, digest[2];
    char text[33];
    if (texts_digest(file, &bytes, digest) != 0)
        return;
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)digest[0],
             (unsigned long long)digest[1]);
    mt_core_sink_line(MT_LINE_source, &(struct mt_source_line){file, bytes, text});
}

void mt_core_texts(void)
{
    nseen = 0;
    for (uint32_t i = 1; i < mt_site_instructions(); i++) {
        const struct mt_core_kept_site *s = mt_site_of(i * 4);
        if (s && __atomic_load_n(&s->defined, __ATOMIC_ACQUIRE) && *s->file && texts_new(s->file))
            texts_line(s->file);
    }
}
