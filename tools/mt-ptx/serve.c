/* mt-ptx as the runtime of a traced program calls it: descriptors in place of names,
 * and what is made is kept. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/cache.h"
#include "base/short.h"
#include "mt-ptx.h"

enum { FD_IMAGE = 1, FD_WORDS = 2, FD_LINE = 3 };
static _Atomic int finished;

static void serve_stage(const char *name)
{
    char line[64];
    int n = snprintf(line, sizeof line, "%s\n", name);
    if (send(FD_LINE, line, (size_t)n, MSG_NOSIGNAL) < 0 && errno == EPIPE && !finished) {
        mt_cudabin_temp_remove();
        _exit(1);
    }
}

/* The program has ended, and nobody needs the image: sees it while LLVM works. */
static void *serve_watch(void *unused)
{
    char c;
    (void)unused;
    while (recv(FD_LINE, &c, 1, 0) < 0 && errno == EINTR) {
    }
    if (!finished) {
        mt_cudabin_temp_remove();
        _exit(1);
    }
    return NULL;
}

/* Words name lines of this version. */
static const char *serve_key(const struct request *r, const struct bytes *words, char key[MT_CACHE_KEY])
{
    const char *second = r->cache_key ? strchr(r->cache_key, ',') : NULL;
    int alone = second && (words->size || *r->alone);
    if (!second)
        return r->cache_key;
    snprintf(key, MT_CACHE_KEY, "%.*s", alone ? MT_CACHE_KEY - 1 : (int)(second - r->cache_key),
             alone ? second + 1 : r->cache_key);
    return key;
}

/* The image with texts after it, and all that was said, to descriptor 1; then to the cache. */
static int serve_hand_over(const struct request *r, const struct bytes *texts)
{
    struct bytes image = {0}, words = {0};
    char why[4200], name[MT_CACHE_KEY];
    fflush(stderr);
    int bad =
        mt_cudabin_file_read(r->output, &image) != 0 || mt_cudabin_file_read("/dev/stderr", &words) != 0;
    size_t at = (image.size + 7) & ~(size_t)7;
    unsigned char *all = bad ? NULL : calloc(1, at + texts->size + 1);
    if (all) {
        memcpy(all, image.data, image.size);
        if (texts->size) {
            memcpy(all + at, texts->data, texts->size);
        }
        bad = mt_cache_write(FD_IMAGE, (const char *)words.data, words.size, all, at + texts->size) != 0;
    }
    const char *key = serve_key(r, &words, name);
    free(all);
    mt_cudabin_bytes_free(&image);
    mt_cudabin_bytes_free(&words);
    if (bad || !all) {
        fprintf(stderr, "memtrace: the image cannot be handed over: %s\n", strerror(errno));
        return 1;
    }
    finished = 1;
    serve_stage("done");
    int folder = r->cache && key ? mt_cache_open(r->cache, why, sizeof why) : -1;
    if (folder >= 0) {
        mt_cache_store(folder, key, FD_IMAGE, r->cache_limit); /* it has its image, kept or not */
        close(folder);
    }
    return 0;
}

enum { NAMED = 2 }; /* kernels, of perhaps hundreds */

static void serve_name(void *ctx, const char *name)
{
    unsigned *n = ctx;
    if (++*n <= NAMED) {
        fprintf(stderr, "%s%s", *n > 1 ? ", " : " (kernels ", mt_short(name).text);
    }
}

/* Says of a module without PTX what it has. */
static void serve_lament(const struct module *m)
{
    unsigned n = 0, elf = mt_ptxtool_module_has(m, FATBIN_ELF);
    fputs(elf ? "there is machine code alone" : "there is code for link-time optimisation alone", stderr);
    for (unsigned i = 0; i < m->n && !n; i++) {
        struct bytes cubin = {0};
        if (m->entries[i].kind == FATBIN_ELF &&
            mt_ptxtool_fatbin_unpack("its device code", &m->entries[i], &cubin) == 0) {
            mt_ptxtool_cubin_kernels(&cubin, serve_name, &n);
            mt_cudabin_bytes_free(&cubin);
        }
    }
    if (n > NAMED) {
        fprintf(stderr, " and %u more", n - NAMED);
    }
    fprintf(stderr, "%s, no PTX: compile it with -gencode=arch=compute_90,code=compute_90\n", n ? ")" : "");
}

/* Modules without PTX are left out; when none has any, that is an error. */
static int serve_make(struct request *r, const struct input *in, struct bytes *texts)
{
    unsigned with = 0;
    for (unsigned i = 0; i < in->n; i++) {
        with += mt_ptxtool_module_has(&in->modules[i], FATBIN_PTX) != 0;
    }
    for (unsigned i = 0; i < in->n; i++) {
        if (!mt_ptxtool_module_has(&in->modules[i], FATBIN_PTX) && in->modules[i].n) {
            serve_lament(&in->modules[i]);
        }
    }
    int fd = with ? memfd_create("memtrace-image", MFD_CLOEXEC) : -1; /* a kill leaves nothing behind */
    if (fd >= 0) {
        static char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        r->output = path;
        return mt_ptxtool_image_make(r, "its device code", in->modules, in->n, texts);
    }
    if (with) {
        fprintf(stderr, "memtrace: a file in memory: %s\n", strerror(errno));
    } else if (!in->n) {
        fputs("it has no device code\n", stderr);
    }
    return 1;
}

int mt_ptxtool_serve(struct request *r)
{
    int alone = 0;
    struct input in;
    struct bytes texts = {0};
    pthread_t thread;
    fcntl(FD_LINE, F_SETFD, FD_CLOEXEC);
    if (pthread_create(&thread, NULL, serve_watch, NULL) == 0) {
        pthread_detach(thread);
    }
    r->stage = serve_stage;
    r->alone = &alone;
    int code = mt_ptxtool_input_read("/dev/stdin", &in);
    in.name = "its device code";
    code = code == 0 ? serve_make(r, &in, &texts) : code;
    mt_ptxtool_input_free(&in);
    code = code == 0 ? serve_hand_over(r, &texts) : code;
    mt_cudabin_bytes_free(&texts);
    finished = 1;
    mt_cudabin_temp_remove();
    return code;
}
