/* NVIDIA's library, opened at run time, with its version, and the image of our patches for it. */
#define _GNU_SOURCE

#include "inject.h"
#include "base/nvidia.h"
#include "base/options.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- functions used from Compute Sanitizer's API ---- */

#define LIBRARY "libsanitizer-public.so"

static struct mt_sanitizer functions;
static struct mt_nvidia here; /* driver, library and patches of this process */

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
    library_path(here.library, sizeof here.library);
    void *library = dlopen(here.library, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return library_resolve(library, here.library, why, size);
    const char *error = dlerror();
    snprintf(why, size, "%.400s; set MEMTRACE_SANITIZER to NVIDIA's " LIBRARY, error ? error : here.library);
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

/* ---- the driver, and versions ---- */

static const char *library_of_driver(void *cuda)
{
    struct link_map *map = NULL;
    return cuda && !dlinfo(cuda, RTLD_DI_LINKMAP, &map) && map ? map->l_name : NULL;
}

/* Sets the driver's version by files; only where these do not tell, as under WSL, it is asked. */
static void library_driver(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int number = 0;
    mt_nvidia_driver(&here, library_of_driver(cuda));
    CUresult (*get)(int *) =
        cuda && !here.cuda ? (CUresult(*)(int *))dlsym(cuda, "cuDriverGetVersion") : NULL;
    if (get && !get(&number))
        here.cuda = number / 1000;
    if (cuda)
        dlclose(cuda);
}

int mt_sanitizer_driven(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int n, driven = 0;
    CUresult (*get)(int *) = cuda ? (CUresult(*)(int *))dlsym(cuda, "cuDeviceGetCount") : NULL;
    if (get) /* NVIDIA's library opens the driver's, too, and initialises nothing */
        driven = get(&n) != CUDA_ERROR_NOT_INITIALIZED;
    if (cuda)
        dlclose(cuda);
    return driven;
}

/* Returns 1 if the library has an API function of this number. Leaves the callback off. */
static int library_knows(void *subscriber, int of_driver, unsigned function)
{
    return !functions.EnableCallback(
        0, subscriber, of_driver ? SANITIZER_CB_DOMAIN_DRIVER_API : SANITIZER_CB_DOMAIN_RUNTIME_API,
        function);
}

int mt_sanitizer_version(void)
{
    return here.version;
}

void mt_sanitizer_words(char *out, size_t size)
{
    mt_nvidia_words(&here, out, size);
}

/* ---- patches ---- */

static char *image; /* image of all patches, for all devices */

/* Finds the image beside this library. */
static void patches_find(void)
{
    Dl_info info;
    char folder[PATH_MAX];
    const char *self = dladdr((void *)&patches_find, &info) && info.dli_fname ? info.dli_fname : "";
    const char *slash = strrchr(self, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - self) : 1, slash ? self : ".");
    mt_nvidia_patches(&here, folder);
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
    patches_find();
    if (!*here.patches)
        return mt_nvidia_check(&here, why, size);
    FILE *f = fopen(here.patches, "rbe");
    image = f ? patches_read(f) : NULL;
    if (!image)
        snprintf(why, size, "%.400s: %s", here.patches, f ? "cannot be read" : strerror(errno));
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
        return "the GPU's driver does not go with this library: `memtrace run --list` says what does";
    default:
        return mt_sanitizer_text(r);
    }
}

int mt_sanitizer_subscribe(Sanitizer_CallbackFunc f, Sanitizer_SubscriberHandle *s, char *why, size_t size)
{
    library_driver();
    if (library_open(why, size))
        return -1;
    SanitizerResult r = functions.Subscribe(s, f, NULL);
    if (r) {
        snprintf(why, size, "%s", library_why_not(r));
        return -1;
    }
    here.version = mt_nvidia_version(library_knows, *s);
    return patches_load(why, size);
}
