/* A machine with a GPU, for programs that are started with it in LD_PRELOAD: the driver's device file is
 * there, and the kernel's module says MACHINE_DRIVER (empty: nothing). It is also a libcuda.so.1 of CUDA
 * MACHINE_CUDA (12040). MACHINE_GPUS: a folder with an entry for each GPU. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int access(const char *path, int mode)
{
    int (*real)(const char *, int) = (int (*)(const char *, int))dlsym(RTLD_NEXT, "access");
    return strcmp(path, "/dev/nvidiactl") == 0 ? 0 : real(path, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    static char text[256];
    const char *driver = getenv("MACHINE_DRIVER");
    if (strcmp(path, "/proc/driver/nvidia/version") != 0)
        return real(path, mode);
    if (!driver || !*driver) {
        errno = ENOENT;
        return NULL;
    }
    snprintf(
        text, sizeof text,
        "NVRM version: NVIDIA UNIX %s  %s  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc version 12.2.0\n",
        driver[0] == '5' && driver[1] == '3' ? "x86_64 Kernel Module" : "Open Kernel Module for x86_64",
        driver);
    return fmemopen(text, strlen(text), "r");
}

int cuDriverGetVersion(int *version)
{
    const char *cuda = getenv("MACHINE_CUDA");
    *version = cuda ? atoi(cuda) : 0;
    return !cuda;
}

DIR *opendir(const char *path)
{
    DIR *(*real)(const char *) = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
    const char *gpus = getenv("MACHINE_GPUS");
    return real(gpus && strcmp(path, "/proc/driver/nvidia/gpus") == 0 ? gpus : path);
}
