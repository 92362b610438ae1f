/* NVIDIA's library, opened at run time, with its version, and the image of our patches for it. */
#define _GNU_SOURCE

#include "inject.h"
#include "base/options.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- functions used from Compute Sanitizer's API ---- */

#define LIBRARY "libsanitizer-public.so"

static struct mt_sanitizer functions;

static const struct {
    const char *name;
    size_t at;
} library_rows[] = {
#define MT_SANITIZER_ROW(name) {"sanitizer" #name, offsetof(struct mt_sanitizer, name)},
    MT_SANITIZER_FUNCTIONS(MT_SANITIZER_ROW)};

/* Builds the path given by the option. */
static void library_path(char *out, size_t size)
{
    const char *option = mt_options()->sanitizer;
    struct stat st;
    int folder = *option && stat(option, &st) == 0 && S_ISDIR(st.st_mode);
    snprintf(out, size, folder ? "%s/" LIBRARY : "%s", *option ? option : LIBRARY);
}

static int library_resolve(void *library, const char *path, char *why, size_t size)
{
    for (size_t i = 0; i < sizeof library_rows / sizeof *library_rows; i++) {
        void *f = dlsym(library, library_rows[i].name);
        if (!f) {
            snprintf(why, size, "%.400s has no %s: it is of another version than CUDA 11 to 13", path,
                     library_rows[i].name);
            return -1;
        }
        *(void **)((char *)&functions + library_rows[i].at) = f;
    }
    return 0;
}

static int library_open(char *why, size_t size)
{
    char path[PATH_MAX];
    library_path(path, sizeof path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return library_resolve(library, path, why, size);
    const char *error = dlerror();
    snprintf(why, size, "%.400s; set MEMTRACE_SANITIZER to NVIDIA's " LIBRARY, error ? error : path);
    return -1;
}

const struct mt_sanitizer *mt_sanitizer(void)
{
    return &functions;
}

const char *mt_sanitizer_text(SanitizerResult r)
{
    const char *text = NULL;
    return functions.GetResultString && !functions.GetResultString(r, &text) && text ? text : "unknown error";
}

/* ---- the version ---- */

/* No function returns the version, but EnableCallback knows the API functions of its CUDA version and no
 * others. The highest numbers that the last release of each version knows, tried with NVIDIA's libraries of
 * PyPI; they are SANITIZER_CBID_..._API_SIZE - 1 of its headers. Earlier releases of 13.1 know fewer. */
static const struct {
    int version;
    Sanitizer_CallbackId driver, runtime;
} library_versions[] = {
    {1108, 676, 433}, {1200, 700, 444}, {1201, 711, 444}, {1202, 717, 447},
    {1203, 732, 464}, {1204, 753, 467}, {1205, 760, 467}, {1206, 762, 479},
    {1208, 781, 479}, {1209, 783, 486}, {1300, 806, 522}, {1301, 845, 549},
    {1302, 845, 558}, {1303, 859, 558}, {1304, 867, 565}, {1305, 872, 566},
};
static int version;

/* Returns 1 if the library has an API function of this number. Leaves the callback off. */
static int library_knows(Sanitizer_SubscriberHandle s, Sanitizer_CallbackDomain d, Sanitizer_CallbackId id)
{
    return !functions.EnableCallback(0, s, d, id);
}

static int library_version(Sanitizer_SubscriberHandle s)
{
    const size_t n = sizeof library_versions / sizeof *library_versions;
    size_t i = 0;
    if (!library_knows(s, SANITIZER_CB_DOMAIN_DRIVER_API, 1))
        return 0;
    while (i < n - 1 && (library_knows(s, SANITIZER_CB_DOMAIN_DRIVER_API, library_versions[i].driver + 1) ||
                         library_knows(s, SANITIZER_CB_DOMAIN_RUNTIME_API, library_versions[i].runtime + 1)))
        i++;
    return library_versions[i].version;
}

int mt_sanitizer_version(void)
{
    return version;
}

/* ---- patches ---- */

static char *image; /* image of all patches, for all devices */

/* Path of the patches, beside this library. */
static void patches_path(char *out, size_t size)
{
    Dl_info info;
    const char *self = dladdr((void *)&patches_path, &info) && info.dli_fname ? info.dli_fname : "";
    const char *slash = strrchr(self, '/');
    snprintf(out, size, "%.*sgpu-patch.fatbin", slash ? (int)(slash + 1 - self) : 0, self);
}

static char *patches_read(FILE *f)
{
    long bytes = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
    char *text = bytes > 0 && !fseek(f, 0, SEEK_SET) ? malloc((size_t)bytes) : NULL;
    if (text && fread(text, 1, (size_t)bytes, f) != (size_t)bytes) {
        free(text);
        text = NULL;
    }
    return text;
}

/* Returns 0, or -1 with *why set to a sentence. */
static int patches_load(char *why, size_t size)
{
    char path[PATH_MAX];
    patches_path(path, sizeof path);
    FILE *f = fopen(path, "rbe");
    image = f ? patches_read(f) : NULL;
    if (!image)
        snprintf(why, size, "%.400s: %s", path, f ? "cannot be read" : strerror(errno));
    if (f)
        fclose(f);
    return image ? 0 : -1;
}

const void *mt_sanitizer_patches(void)
{
    return image;
}

/* ---- the subscription ---- */

static const char *library_why_not(SanitizerResult r)
{
    switch ((int)r) {
    case SANITIZER_ERROR_MAX_LIMIT_REACHED:
        return "another tool on NVIDIA's Compute Sanitizer API is in the process (compute-sanitizer?), and "
               "there can be one only";
    case SANITIZER_ERROR_NOT_INITIALIZED:
    case SANITIZER_ERROR_NOT_COMPATIBLE:
        return "the GPU's driver is too old, or does not go with this libsanitizer-public.so";
    default:
        return mt_sanitizer_text(r);
    }
}

int mt_sanitizer_subscribe(Sanitizer_CallbackFunc f, Sanitizer_SubscriberHandle *s, char *why, size_t size)
{
    if (library_open(why, size) || patches_load(why, size))
        return -1;
    SanitizerResult r = functions.Subscribe(s, f, NULL);
    if (r) {
        snprintf(why, size, "%s", library_why_not(r));
        return -1;
    }
    version = library_version(*s);
    return 0;
}
