/* What the source files of a program's code held while it ran: `source` lines of companions. */
#define _GNU_SOURCE
#include "sources.h"
#include "events.h"
#include "base/fd.h"
#include "base/json.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#include <xxhash.h>

enum { MOST_FILES = 256, LARGEST = 4 << 20 };

static char *seen[MOST_FILES];
static unsigned nseen;

/* 1 when the name is new. */
static int sources_note(const char *file)
{
    for (unsigned i = nseen; i-- > 0;) /* sites of one file are together */
        if (strcmp(seen[i], file) == 0)
            return 0;
    if (nseen == MOST_FILES || !(seen[nseen] = strdup(file)))
        return 0;
    nseen++;
    return 1;
}

/* A FIFO or a terminal by that name is not waited for. 0, or -1. */
static int sources_digest(const char *file, uint64_t *bytes, XXH128_hash_t *hash)
{
    struct stat st;
    int fd = mt_fd_up(open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)), rc = -1;
    char *copy = NULL;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size <= LARGEST &&
        (copy = malloc((size_t)st.st_size)))
        rc = pread(fd, copy, (size_t)st.st_size, 0) == (ssize_t)st.st_size ? 0 : -1;
    if (rc == 0) {
        *bytes = (uint64_t)st.st_size;
        *hash = XXH3_128bits(copy, (size_t)st.st_size);
    }
    free(copy);
    close(fd);
    return rc;
}

void mt_source_line(const char *file)
{
    struct mt_jsonl j = {0};
    uint64_t bytes;
    XXH128_hash_t hash;
    char text[33];
    if (!*file || !sources_note(file) || sources_digest(file, &bytes, &hash) != 0)
        return;
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    mt_jsonl_begin(&j, "source");
    mt_jsonl_string(&j, "file", file);
    mt_jsonl_u64(&j, "bytes", bytes);
    mt_jsonl_string(&j, "xxh128", text);
    mt_jsonl_end(&j);
    mt_log_line(&j);
    mt_jsonl_free(&j);
}
