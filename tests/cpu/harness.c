#include "harness.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void *wrap_fatbin(const void *object, size_t size, const char *magic)
{
    static const size_t header = 16, fatbin = 43; /* not a multiple of 8: the payload is aligned */
    struct wrapper {
        int magic, version;
        const void *data, *more;
    } *w = calloc(1, sizeof *w);
    size_t at = (header + fatbin + 7) & ~7ull;
    char *data = calloc(1, at + 16 + size);
    uint32_t m = 0xba55ed50;
    uint16_t version = 1, header_size = (uint16_t)header;
    uint64_t bytes = fatbin, image_bytes = size;
    memcpy(data, &m, 4);
    memcpy(data + 4, &version, 2);
    memcpy(data + 6, &header_size, 2);
    memcpy(data + 8, &bytes, 8);
    memcpy(data + at, magic, 8);
    memcpy(data + at + 8, &image_bytes, 8);
    memcpy(data + at + 16, object, size);
    w->magic = 0x466243b1;
    w->version = 1;
    w->data = data;
    return w;
}

struct mt_image *load_test_image(void)
{
    const char *why = NULL;
    FILE *f = fopen(TEST_IMAGE, "rb");
    if (!f) {
        perror(TEST_IMAGE);
        exit(1);
    }
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    char *object = malloc(size);
    rewind(f);
    if (fread(object, 1, size, f) != size)
        exit(1);
    fclose(f);
    struct mt_image *image = mt_image_load(wrap_fatbin(object, size, MT_PAYLOAD_MAGIC), &why);
    free(object);
    if (!image) {
        fprintf(stderr, "test image: %s\n", why);
        exit(1);
    }
    return image;
}

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int done, status;
};

static void harness_wake(void *ctx, int status)
{
    struct waiter *w = ctx;
    pthread_mutex_lock(&w->lock);
    w->status = status;
    w->done = 1;
    pthread_cond_signal(&w->moved);
    pthread_mutex_unlock(&w->lock);
}

int run(struct mt_cpu_launch *l)
{
    struct waiter w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
    l->done = harness_wake;
    l->done_ctx = &w;
    int rc = mt_cpu_start(l);
    if (rc)
        return rc;
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.moved, &w.lock);
    pthread_mutex_unlock(&w.lock);
    pthread_mutex_destroy(&w.lock);
    pthread_cond_destroy(&w.moved);
    return w.status;
}

int launch(struct mt_cpu_launch *l, const struct mt_image *image, const char *name, struct dim grid,
           struct dim block, uint32_t dyn_shared, void **args)
{
    void *all[16] = {0};
    const struct mt_image_kernel *k = mt_image_find_kernel(image, name);
    if (!k) {
        fprintf(stderr, "no kernel %s\n", name);
        exit(1);
    }
    for (uint32_t i = 0; i < k->nparams; i++)
        all[i] = args[i];
    l->image = image;
    l->kernel = k;
    l->args = all;
    memcpy(l->grid, &grid, sizeof grid);
    memcpy(l->block, &block, sizeof block);
    l->dyn_shared = dyn_shared;
    int rc = run(l);
    l->args = NULL;
    return rc;
}

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
