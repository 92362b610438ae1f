/* clang-format off */
/* Calls, and what is said of them, are on one line. Allocates and frees in all the ways there are, and says on standard output what it did:
 *   alloc KIND BASE BYTES LINE, free BASE, cut BASE BYTES (munmap of a part). Threads at the end: then the order is
 * that of each thread only. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SAY(kind, p, bytes) printf("alloc %s %#lx %lu %d\n", kind, (unsigned long)(p), (unsigned long)(bytes), __LINE__)

static void heap_gone(void *p)
{
    printf("free %#lx\n", (unsigned long)p);
}

__attribute__((noinline)) static void *tail(size_t n)
{
    return malloc(n); /* a jump: the call site is the caller's */
}

static void heap_family(void)
{
    void *p = malloc(100); SAY("malloc", p, 100);
    void *q = calloc(7, 30); SAY("calloc", q, 210);
    heap_gone(p); p = realloc(p, 5000); SAY("realloc", p, 5000);
    heap_gone(p); p = realloc(p, 4000); SAY("realloc", p, 4000);
    void *r = realloc(NULL, 40); SAY("realloc", r, 40);
    heap_gone(q); q = reallocarray(q, 9, 11); SAY("realloc", q, 99);
    void *s = memalign(256, 777); SAY("memalign", s, 777);
    void *t = aligned_alloc(64, 640); SAY("memalign", t, 640);
    void *u = NULL; int e = posix_memalign(&u, 128, 333); SAY("memalign", u, 333);
    void *v = valloc(50); SAY("memalign", v, 50);
    void *w = pvalloc(50); SAY("memalign", w, 4096);
    void *x = strdup("a string"); /* the C library's call, not ours */
    void *big = malloc(1000000); SAY("malloc", big, 1000000); /* malloc takes it from mmap */
    void *never = malloc((size_t)-1 / 2); (void)never; /* fails: no event */
    void *stay = realloc(q, (size_t)-1 / 2); (void)stay; /* fails: q stays */
    void *z = malloc(0); (void)e; /* no bytes: no event */
    void *all[] = {p, q, r, s, t, u, v, w, big};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        heap_gone(all[i]);
        free(all[i]);
    }
    free(NULL);
    free(x);
    free(z);
    p = tail(60); SAY("malloc", p, 60);
    heap_gone(p); free(p);
}

static void heap_maps(void)
{
    char *p = mmap(NULL, 10 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); SAY("mmap", p, 40960);
    munmap(p + 4096, 4096); printf("cut %#lx %d\n", (unsigned long)p + 4096, 4096);
    munmap(p, 4096); printf("cut %#lx %d\n", (unsigned long)p, 4096);
    munmap(p + 8192, 8 * 4096); printf("cut %#lx %d\n", (unsigned long)p + 8192, 8 * 4096); heap_gone(p); /* the rest */
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); SAY("mmap", p, 4096);
    heap_gone(p); p = mremap(p, 4096, 1 << 20, MREMAP_MAYMOVE); SAY("mmap", p, 1 << 20);
    munmap(p, 1 << 20); heap_gone(p);
}

static void heap_recurse(int depth)
{
    void *p = malloc((size_t)depth * 10); SAY("malloc", p, depth * 10);
    if (depth > 1)
        heap_recurse(depth - 1);
    heap_gone(p); free(p);
}

static jmp_buf back;
static void heap_jump(int depth)
{
    void *p = malloc(70); SAY("malloc", p, 70);
    heap_gone(p); free(p);
    if (depth == 0)
        longjmp(back, 1);
    heap_jump(depth - 1);
}

static void *heap_worker(void *arg)
{
    long me = (long)arg;
    void *kept[8] = {0};
    for (int i = 0; i < 200; i++) {
        int k = i % 8;
        if (kept[k]) {
            heap_gone(kept[k]); free(kept[k]);
        }
        flockfile(stdout);
        kept[k] = malloc((size_t)(me * 1000 + i + 1)); SAY("malloc", kept[k], me * 1000 + i + 1);
        funlockfile(stdout);
    }
    for (int k = 0; k < 8; k++) {
        heap_gone(kept[k]); free(kept[k]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static char room[1 << 20];
    setvbuf(stdout, room, _IOFBF, sizeof room);
    heap_family();
    heap_maps();
    heap_recurse(5);
    if (setjmp(back) == 0)
        heap_jump(3);
    heap_recurse(2);
    if (argc > 1) {
        pthread_t t[4];
        for (long i = 0; i < 4; i++)
            pthread_create(&t[i], NULL, heap_worker, (void *)i);
        for (long i = 0; i < 4; i++)
            pthread_join(t[i], NULL);
    }
    return 0;
}
