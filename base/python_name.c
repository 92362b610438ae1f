/* Translates the names that Numba gives its kernels to Python's. */
#include <ctype.h>
#include <string.h>
#include "python_name.h"

/* Finds the ABI tags, in which Numba encodes a function's number and flags: k[abi:v1][abi:cw51c...]. */
static const char *python_name_tags(const char *text)
{
    for (const char *at = text; (at = strstr(at, "[abi:v")) != NULL; at++) {
        const char *digit = at + 6;
        while (isdigit((unsigned char)*digit))
            digit++;
        if (digit > at + 6 && strncmp(digit, "][abi:c", 7) == 0)
            return at;
    }
    return NULL;
}

/* Replaces `from` by `to` if the text just written ends with `from`. */
static char *python_name_replace(char *begin, char *end, const char *from, const char *to)
{
    size_t n = strlen(from);
    if ((size_t)(end - begin) < n || memcmp(end - n, from, n) != 0)
        return end;
    return stpcpy(end - n, to);
}

int mt_python_name(char *text)
{
    static const char *const outer[] = {"cudapy::", "__main__::"};
    const char *tags = python_name_tags(text), *in = text;
    char *out = text;
    if (!tags)
        return 0;
    for (size_t i = 0; i < sizeof outer / sizeof *outer; i++)
        if (strncmp(in, outer[i], strlen(outer[i])) == 0)
            in += strlen(outer[i]);
    while (in < tags) { /* the output is never longer than the input */
        *out++ = *in++;
        out = python_name_replace(text, out, "::", ".");
        out = python_name_replace(text, out, "_3clocals_3e", "<locals>");
        out = python_name_replace(text, out, "_3clambda_3e", "<lambda>");
    }
    while (strncmp(in, "[abi:", 5) == 0 && strchr(in, ']'))
        in = strchr(in, ']') + 1;
    memmove(out, in, strlen(in) + 1);
    return 1;
}
