/* Versions of NVIDIA's driver and of its Compute Sanitizer library, and what goes together: for memtrace run
 * and for the injection library, which both must say the same. Sources of the rules: docs/gpu.md. */
#ifndef MT_BASE_NVIDIA_H
#define MT_BASE_NVIDIA_H
#include <limits.h>
#include <stddef.h>
#include <unistd.h>

struct mt_nvidia {
    char driver[32];        /* "580.65.06"; "": not known */
    int missing;            /* 1: no driver is installed */
    int cuda;               /* major version of CUDA that the driver is of; 0: not known */
    char library[PATH_MAX]; /* libsanitizer-public.so; "": none */
    int version;            /* of the library, major * 100 + minor; 0: not known */
    char patches[PATH_MAX]; /* image of the patches; "": none that this driver loads */
};

/* Returns 1 if this machine has a GPU and a driver for it, by the files that the driver makes (WSL 2: dxg).
 */
static inline int mt_nvidia_is_here(void)
{
    return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
}

/* Sets `driver` and `cuda` by the name of the file that libcuda.so.1 is (path, or NULL), which is what
 * programs get, else by that of the kernel's module. */
void mt_nvidia_driver(struct mt_nvidia *n, const char *libcuda);
/* Returns a library's version by the API functions that it knows, 0: unknown. A newer one than those known
 * here counts as the newest of these. `knows` returns 1 for a number of a function that the library has. */
int mt_nvidia_version(int (*knows)(void *arg, int of_driver, unsigned function), void *arg);
/* Sets `patches` to the file in `folder` that goes with driver and library. */
void mt_nvidia_patches(struct mt_nvidia *n, const char *folder);
/* Returns 1 if the driver lets a library of this version in, or if that cannot be known. */
int mt_nvidia_fits(const struct mt_nvidia *n);
/* Writes driver, library and patches as words. */
void mt_nvidia_words(const struct mt_nvidia *n, char *out, size_t size);
/* Returns 0 if all go together, or -1 with what does not, and what to install; messages add the words above.
 */
int mt_nvidia_check(const struct mt_nvidia *n, char *why, size_t size);
#endif
