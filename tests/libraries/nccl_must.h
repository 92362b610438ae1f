/* What the programs for NCCL share. */
#ifndef MT_TEST_NCCL_MUST_H
#define MT_TEST_NCCL_MUST_H
#include "nccl.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MUST(call)                                                                                           \
    do {                                                                                                     \
        int status_ = (int)(call);                                                                           \
        if (status_) {                                                                                       \
            printf("line %d: %s is %d\n", __LINE__, #call, status_);                                         \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define SAME(call, want)                                                                                     \
    do {                                                                                                     \
        long long is_ = (long long)(call);                                                                   \
        if (is_ != (long long)(want)) {                                                                      \
            printf("line %d: %s is %lld, not %lld\n", __LINE__, #call, is_, (long long)(want));              \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* Processes that know each other by a file alone: the first one makes it. */
static inline ncclUniqueId id_of(int rank, const char *file)
{
    ncclUniqueId id;
    char made[4096];
    snprintf(made, sizeof made, "%s.new", file);
    if (!rank) {
        MUST(ncclGetUniqueId(&id));
        int fd = open(made, O_CREAT | O_WRONLY, 0600);
        SAME(write(fd, &id, sizeof id), sizeof id);
        close(fd);
        MUST(rename(made, file));
        return id;
    }
    for (int fd; (fd = open(file, O_RDONLY)) < 0 || read(fd, &id, sizeof id) != sizeof id;)
        usleep(1000);
    return id;
}
#endif
