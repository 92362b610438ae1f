/* Source file names, as traces and debug information have them. */
#include "source_file.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int mt_is_toolchain_file(const char *path)
{
    static char last[PATH_MAX];
    static int answer;
    static const char include[] = "/usr/include/";
    char probe[PATH_MAX + 32];
    /* CUDA's headers may be in another place, or missing, on the machine that runs the code */
    if (strstr(path, "/lib/clang/") || strstr(path, "/targets/x86_64-linux/include/"))
        return 1;
    /* glibc's inline functions, which wrap its calls */
    if (!strncmp(path, include, sizeof include - 1) && strstr(path, "/bits/") && !strstr(path, "/c++/"))
        return 1;
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (!n || n >= sizeof last)
        return 0;
    if (strlen(last) == n && !memcmp(last, path, n))
        return answer;
    memcpy(last, path, n);
    last[n] = 0;
    answer = 0;
    /* a parent folder that contains cuda_runtime.h is a CUDA include folder */
    for (int level = 0; level < 8 && n && !answer; level++) {
        snprintf(probe, sizeof probe, "%.*s/cuda_runtime.h", (int)n, path);
        answer = !access(probe, F_OK);
        while (n && path[n - 1] != '/')
            n--;
        while (n && path[n - 1] == '/')
            n--;
    }
    return answer;
}

/* Removes the last component, unless it is a leading "..". Returns the new length. */
static size_t source_file_up(char *out, size_t n)
{
    size_t at = n;
    while (at && out[at - 1] != '/')
        at--;
    if (n - at == 2 && !memcmp(out + at, "..", 2))
        return n;
    return at > 1 || *out != '/' ? (at ? at - 1 : 0) : 1;
}

/* Appends a component to a path of n bytes. Returns the new length. */
static size_t source_file_add(char *out, size_t bytes, size_t n, const char *name, size_t length)
{
    int up = length == 2 && !memcmp(name, "..", 2);
    size_t less = up && n ? source_file_up(out, n) : n;
    if (length == 0 || (length == 1 && *name == '.') || less < n || (up && n == 1 && *out == '/'))
        return less;
    if (n && out[n - 1] != '/' && n + 1 < bytes)
        out[n++] = '/';
    if (length > bytes - 1 - n)
        length = bytes - 1 - n;
    memcpy(out + n, name, length);
    return n + length;
}

void mt_source_full(char *out, size_t bytes, const char *folder, const char *file)
{
    const char *parts[] = {*file == '/' ? "" : folder, file};
    size_t n = 0;
    if (bytes > 1 && (*parts[0] == '/' || *file == '/'))
        out[n++] = '/';
    for (unsigned i = 0; i < 2; i++)
        for (const char *at = parts[i]; *at;) {
            size_t length = strcspn(at, "/");
            n = source_file_add(out, bytes, n, at, length);
            at += length + (at[length] == '/');
        }
    out[n] = 0;
}
