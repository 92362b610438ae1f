/* mt-ptx as the runtime of a traced program calls it: descriptors in place of names,
 * and what is made is kept. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../../runtime/base/cache.h"
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

/* The image and all that was said, to descriptor 1; then to the cache. */
static int serve_hand_over(const struct request *r)
{
    struct bytes image = {0}, words = {0};
    char why[4200];
    fflush(stderr);
    int bad = mt_cudabin_file_read(r->output, &image) != 0 ||
              mt_cudabin_file_read("/dev/stderr", &words) != 0 ||
              mt_cache_write(FD_IMAGE, (const char *)words.data, words.size, image.data, image.size) != 0;
    mt_cudabin_bytes_free(&image);
    mt_cudabin_bytes_free(&words);
    if (bad) {
        fprintf(stderr, "mt-ptx: the image cannot be handed over: %s\n", strerror(errno));
        return 1;
    }
    finished = 1;
    serve_stage("done");
    int folder = r->cache && r->cache_key ? mt_cache_open(r->cache, why, sizeof why) : -1;
    if (folder >= 0) {
        mt_cache_store(folder, r->cache_key, FD_IMAGE, r->cache_limit); /* it has its image, kept or not */
        close(folder);
    }
    return 0;
}

/* The best PTX of each module; 0, or the exit code after a message. */
static int serve_unpack(const struct input *in, struct bytes *texts, struct ptx *ptx, unsigned *n)
{
    for (unsigned i = 0; i < in->n; i++) {
        if (!in->modules[i].best.data) {
            continue;
        }
        int code = mt_ptxtool_fatbin_unpack(in->name, &in->modules[i].best, &texts[*n]);
        if (code != 0) {
            return code;
        }
        ptx[*n] = (struct ptx){.name = "PTX", .text = (const char *)texts[*n].data};
        ptx[*n].size = strnlen(ptx[*n].text, texts[*n].size);
        ++*n;
    }
    if (*n) {
        return 0;
    }
    fputs(
        in->n
            ? "it has machine code alone, no PTX: compile it with -gencode=arch=compute_90,code=compute_90\n"
            : "it has no device code\n",
        stderr);
    return 1;
}

static int serve_make(struct request *r, const struct input *in)
{
    struct bytes *texts = calloc(in->n + 1, sizeof *texts);
    struct ptx *ptx = calloc(in->n + 1, sizeof *ptx);
    unsigned n = 0;
    int code = 1;
    r->output = mt_cudabin_temp_write(".image", "", 0);
    if (!texts || !ptx || !r->output) {
        fprintf(stderr, "mt-ptx: temporary file: %s\n", strerror(errno));
    } else {
        code = serve_unpack(in, texts, ptx, &n);
    }
    code = code == 0 ? mt_ptxtool_image_make(r, ptx, n) : code;
    for (unsigned i = 0; texts && i < in->n; i++) {
        mt_cudabin_bytes_free(&texts[i]);
    }
    free(texts);
    free(ptx);
    return code;
}

int mt_ptxtool_serve(struct request *r)
{
    struct input in;
    pthread_t thread;
    fcntl(FD_LINE, F_SETFD, FD_CLOEXEC);
    if (pthread_create(&thread, NULL, serve_watch, NULL) == 0) {
        pthread_detach(thread);
    }
    r->stage = serve_stage;
    int code = mt_ptxtool_input_read("/dev/stdin", &in);
    in.name = "its device code";
    code = code == 0 ? serve_make(r, &in) : code;
    mt_ptxtool_input_free(&in);
    code = code == 0 ? serve_hand_over(r) : code;
    finished = 1;
    mt_cudabin_temp_remove();
    return code;
}
