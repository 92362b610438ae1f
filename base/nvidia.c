#include "nvidia.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the driver ---- */

/* First driver of each version of CUDA. */
static const struct {
    int release, cuda;
} nvidia_drivers[] = {{580, 13}, {525, 12}, {450, 11}};

/* Returns 1 if the text begins with a driver's version, such as 535.183.01, and takes it. */
static int driver_take(struct mt_nvidia *n, const char *text)
{
    size_t length = strspn(text, "0123456789.");
    int release = atoi(text);
    if (release < 100 || !memchr(text, '.', length) || length >= sizeof n->driver)
        return 0;
    snprintf(n->driver, sizeof n->driver, "%.*s", (int)length, text);
    n->cuda = 10;
    for (size_t i = sizeof nvidia_drivers / sizeof *nvidia_drivers; i--;)
        if (release >= nvidia_drivers[i].release)
            n->cuda = nvidia_drivers[i].cuda;
    return 1;
}

/* libcuda.so.1 is a link to libcuda.so.535.183.01, but under WSL, which gives no version. */
static int driver_of_library(struct mt_nvidia *n, const char *libcuda)
{
    static const char name[] = "/libcuda.so.";
    char path[PATH_MAX], *at = libcuda && realpath(libcuda, path) ? strrchr(path, '/') : NULL;
    return at && !strncmp(at, name, sizeof name - 1) && driver_take(n, at + sizeof name - 1);
}

/* Reads "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024". */
static void driver_of_kernel(struct mt_nvidia *n)
{
    char line[512], *word, *rest = line;
    FILE *f = fopen("/proc/driver/nvidia/version", "re");
    if (f && fgets(line, sizeof line, f))
        while ((word = strsep(&rest, " \t\n")) && !driver_take(n, word))
            ;
    if (f)
        fclose(f);
}

void mt_nvidia_driver(struct mt_nvidia *n, const char *libcuda)
{
    *n->driver = 0;
    n->cuda = 0;
    if (!driver_of_library(n, libcuda))
        driver_of_kernel(n);
}

/* ---- the library ---- */

/* No function returns the version, but sanitizerEnableCallback knows the functions of its CUDA version and no
 * others. The highest numbers that the last release of each version knows, tried with NVIDIA's libraries of
 * PyPI; they are SANITIZER_CBID_..._API_SIZE - 1 of its headers. Earlier releases of 13.1 know fewer. */
static const struct {
    int version;
    unsigned driver, runtime;
} nvidia_versions[] = {
    {1108, 676, 433}, {1200, 700, 444}, {1201, 711, 444}, {1202, 717, 447},
    {1203, 732, 464}, {1204, 753, 467}, {1205, 760, 467}, {1206, 762, 479},
    {1208, 781, 479}, {1209, 783, 486}, {1300, 806, 522}, {1301, 845, 549},
    {1302, 845, 558}, {1303, 859, 558}, {1304, 867, 565}, {1305, 872, 566},
};

int mt_nvidia_version(int (*knows)(void *arg, int of_driver, unsigned function), void *arg)
{
    const size_t n = sizeof nvidia_versions / sizeof *nvidia_versions;
    size_t i = 0;
    if (!knows(arg, 1, 1))
        return 0;
    while (i < n - 1 &&
           (knows(arg, 1, nvidia_versions[i].driver + 1) || knows(arg, 0, nvidia_versions[i].runtime + 1)))
        i++;
    return nvidia_versions[i].version;
}

/* ---- what goes together ---- */

int mt_nvidia_fits(const struct mt_nvidia *n)
{
    return !n->cuda || !n->version || n->version / 100 <= n->cuda;
}

static int patches_of(struct mt_nvidia *n, const char *folder, int cuda)
{
    if (snprintf(n->patches, sizeof n->patches, "%s/gpu-patch-%d.fatbin", folder, cuda) >=
            (int)sizeof n->patches ||
        access(n->patches, R_OK) != 0)
        *n->patches = 0;
    return *n->patches != 0;
}

void mt_nvidia_patches(struct mt_nvidia *n, const char *folder)
{
    int library = n->version / 100, cuda = n->cuda ? n->cuda : library ? library : 13;
    int first = library && library < cuda ? library : cuda;
    *n->patches = 0;
    for (int i = first < 13 ? first : 13; i >= 12; i--) /* a driver loads what older ones load */
        if (patches_of(n, folder, i))
            return;
    if (cuda >= 13)
        patches_of(n, folder, 13);
}

/* ---- words ---- */

static void nvidia_driver_words(const struct mt_nvidia *n, char *out, size_t size)
{
    if (*n->driver)
        snprintf(out, size, "driver %s (CUDA %d)", n->driver, n->cuda);
    else if (n->cuda)
        snprintf(out, size, "driver of CUDA %d", n->cuda);
    else
        snprintf(out, size, n->missing ? "no driver" : "driver of unknown version");
}

static void nvidia_library_words(const struct mt_nvidia *n, char *out, size_t size)
{
    if (!*n->library)
        snprintf(out, size, "no libsanitizer-public.so");
    else if (n->version)
        snprintf(out, size, "library %d.%d (%s)", n->version / 100, n->version % 100, n->library);
    else
        snprintf(out, size, "library of unknown version (%s)", n->library);
}

void mt_nvidia_words(const struct mt_nvidia *n, char *out, size_t size)
{
    char driver[64], library[PATH_MAX + 64];
    const char *file = strrchr(n->patches, '/');
    nvidia_driver_words(n, driver, sizeof driver);
    nvidia_library_words(n, library, sizeof library);
    snprintf(out, size, "%s, %s, patches %s", driver, library, file ? file + 1 : "none");
}

int mt_nvidia_check(const struct mt_nvidia *n, char *why, size_t size)
{
    if (n->cuda && n->cuda < 12)
        snprintf(why, size, "the driver is too old: install 525 or newer");
    else if (!mt_nvidia_fits(n))
        snprintf(
            why, size,
            "a library of CUDA %d needs a driver 580 or newer: ./setup gpu gets the one for this driver, or "
            "pip install nvidia-cuda-sanitizer-api-cu12",
            n->version / 100);
    else if (!*n->patches)
        snprintf(why, size, "there are no patches that this driver loads: ./setup gpu makes them%s",
                 n->cuda == 12 ? " (with ptxas of CUDA 12, from PyPI), or install a driver 580 or newer"
                               : "");
    else
        return 0;
    return -1;
}
