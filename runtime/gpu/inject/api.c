/* The functions of Compute Sanitizer's API that we call. */
#include "api.h"
#include "base/options.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define LIBRARY "libsanitizer-public.so"

static struct mt_sanitizer functions;

static const struct {
    const char *name;
    size_t at;
} api_rows[] = {
#define MT_SANITIZER_ROW(name) {"sanitizer" #name, offsetof(struct mt_sanitizer, name)},
    MT_SANITIZER_FUNCTIONS(MT_SANITIZER_ROW)};

/* The path that the option means. */
static void api_path(char *out, size_t size)
{
    const char *option = mt_options()->sanitizer;
    struct stat st;
    int folder = *option && stat(option, &st) == 0 && S_ISDIR(st.st_mode);
    snprintf(out, size, folder ? "%s/" LIBRARY : "%s", *option ? option : LIBRARY);
}

static int api_resolve(void *library, const char *path, char *why, size_t size)
{
    for (size_t i = 0; i < sizeof api_rows / sizeof *api_rows; i++) {
        void *f = dlsym(library, api_rows[i].name);
        if (!f) {
            snprintf(why, size, "%s has no %s: it is of another version than CUDA 11 to 13", path,
                     api_rows[i].name);
            return -1;
        }
        *(void **)((char *)&functions + api_rows[i].at) = f;
    }
    return 0;
}

int mt_sanitizer_open(char *why, size_t size)
{
    char path[PATH_MAX];
    api_path(path, sizeof path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return api_resolve(library, path, why, size);
    const char *error = dlerror();
    snprintf(why, size, "%s; set MEMTRACE_SANITIZER to NVIDIA's " LIBRARY, error ? error : path);
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
