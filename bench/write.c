/* The floor of writing a trace: plain write(2) to one file, from memory that is already mapped.
 *
 * Usage: mt-bench-write FILE BYTES THREADS [CHUNK]
 * Each thread appends chunks (default 1 MiB) to the file, which is opened with O_APPEND, until BYTES are
 * written in total. Prints the seconds from the first write to the last. Exit code 1 after an error on
 * stderr. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int file;
static size_t chunk = 1 << 20;
static int64_t left; /* bytes that no thread has claimed yet */
static int failed;   /* errno of the first failure */

static double write_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void *write_chunks(void *buffer)
{
    for (;;) {
        int64_t before = __atomic_fetch_sub(&left, (int64_t)chunk, __ATOMIC_RELAXED);
        if (before <= 0)
            return NULL;
        size_t todo = before < (int64_t)chunk ? (size_t)before : chunk;
        for (const char *at = buffer; todo;) {
            ssize_t n = write(file, at, todo);
            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0) {
                __atomic_store_n(&failed, errno, __ATOMIC_RELAXED);
                return NULL;
            }
            at += n;
            todo -= (size_t)n;
        }
    }
}

int main(int argc, char **argv)
{
    enum { MAX_THREADS = 64 };
    pthread_t threads[MAX_THREADS];
    void *buffers[MAX_THREADS];
    int count = argc > 3 ? atoi(argv[3]) : 0;
    if (argc < 4 || argc > 5 || count < 1 || count > MAX_THREADS || (left = atoll(argv[2])) <= 0 ||
        (argc == 5 && (chunk = strtoul(argv[4], NULL, 10)) == 0)) {
        fprintf(stderr, "usage: mt-bench-write FILE BYTES THREADS(1..%d) [CHUNK]\n", MAX_THREADS);
        return 2;
    }
    file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        fprintf(stderr, "mt-bench-write: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    for (int i = 0; i < count; i++) {
        buffers[i] = malloc(chunk);
        if (!buffers[i]) {
            fprintf(stderr, "mt-bench-write: no memory for %zu bytes\n", chunk);
            return 1;
        }
        memset(buffers[i], 0x5a, chunk);
    }
    double begin = write_seconds();
    for (int i = 0; i < count; i++) {
        int error = pthread_create(&threads[i], NULL, write_chunks, buffers[i]);
        if (error) {
            fprintf(stderr, "mt-bench-write: thread %d: %s\n", i, strerror(error));
            return 1;
        }
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    double end = write_seconds();
    if (failed) {
        fprintf(stderr, "mt-bench-write: %s: %s\n", argv[1], strerror(failed));
        return 1;
    }
    printf("%.6f\n", end - begin);
    return 0;
}
