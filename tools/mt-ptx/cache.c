/* What is kept of images that programs had made: --cache-list, --cache-clear. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/cache.h"
#include "mt-ptx.h"
#include "base/near.h"

static void cache_print(const struct mt_cache_file *f, void *sum)
{
    char when[32] = "?";
    time_t used = (time_t)f->used;
    struct tm tm;
    if (localtime_r(&used, &tm)) {
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    }
    printf("%s  %12llu  %s\n", when, (unsigned long long)f->bytes, f->name);
    *(uint64_t *)sum += f->bytes;
}

int mt_ptxtool_cache(const struct request *r)
{
    char path[4096], why[4200];
    const char *set = r->cache ? r->cache : getenv("MEMTRACE_CACHE");
    uint64_t sum = 0;
    struct stat st;
    if ((set && strcmp(set, "off") == 0) || mt_cache_path(set, path, sizeof path) != 0) {
        fprintf(stderr, "memtrace: there is no cache folder: set MEMTRACE_CACHE or HOME\n");
        return 1;
    }
    if (stat(path, &st) != 0 && errno == ENOENT) {
        printf("0 images, 0 bytes in %s\n", path);
        return 0;
    }
    int folder = mt_cache_open(path, why, sizeof why), n = -1;
    if (folder < 0) {
        fprintf(stderr, "memtrace: %s\n", why);
        return 1;
    }
    if (!r->cache_clear || mt_cache_clear(folder) == 0) {
        n = mt_cache_walk(folder, cache_print, &sum);
    }
    if (n < 0) {
        fprintf(stderr, "memtrace: %s: %s\n", path, strerror(errno));
    } else {
        printf("%d images, %llu bytes in %s\n", n, (unsigned long long)sum, path);
    }
    close(folder);
    return n < 0 || mt_near_told();
}
