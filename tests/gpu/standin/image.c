/* For programs of nvcc's on the stand-in: in place of the fatbin that the program registers, the file
 * MEMTRACE_TEST_IMAGE (mt-ptx --gpu) goes to the runtime, as whoever gives such code to a GPU would do it.
 * Preloaded. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct wrapper {
    int magic, version;
    const void *data, *more;
};

static const void *image_map(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    void *at =
        fd < 0 || fstat(fd, &st) ? MAP_FAILED : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    close(fd);
    return at;
}

__attribute__((visibility("default"))) void **__cudaRegisterFatBinary(void *given)
{
    static struct wrapper made;
    void **(*next)(void *) = (void **(*)(void *))dlsym(RTLD_NEXT, "__cudaRegisterFatBinary");
    const char *path = getenv("MEMTRACE_TEST_IMAGE");
    if (!path || made.data) {
        fputs(path ? "stand-in: more than one fatbin\n" : "stand-in: no MEMTRACE_TEST_IMAGE\n", stderr);
        exit(1);
    }
    made = *(struct wrapper *)given;
    made.version = 1;
    made.data = image_map(path);
    made.more = NULL;
    return next(&made);
}
