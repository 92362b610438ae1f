/* Directives that the compiler could not write into the PTX. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "format/image.h"
#include "cudabin.h"

/* Where the parameters of the kernel end, or NULL. The text ends in a NUL. */
static char *parameters_end(char *text, const char *name)
{
    static const char entry[] = ".entry ";
    size_t length = strlen(name);
    for (char *at = text; (at = strstr(at, entry));) {
        at += sizeof entry - 1;
        at += strspn(at, " \t");
        if (strncmp(at, name, length) == 0 && at[length] == '(') {
            char *end = strchr(at, ')');
            return end ? end + 1 : NULL;
        }
    }
    return NULL;
}

/* Puts `words` at `at`, which is in the text. */
static int ptx_insert(struct bytes *contents, char *at, const char *words)
{
    size_t offset = (size_t)(at - (char *)contents->data), length = strlen(words);
    unsigned char *grown = realloc(contents->data, contents->size + length + 1);
    if (!grown) {
        return -1;
    }
    memmove(grown + offset + length, grown + offset, contents->size + 1 - offset);
    memcpy(grown + offset, words, length);
    contents->data = grown;
    contents->size += length;
    return 0;
}

/* The line at `line`: its kernel gets its directives. The line goes, its end stays. */
static int put_cluster(struct bytes *contents, char *line, const char **why)
{
    char name[4096], words[128];
    unsigned x, y, z;
    char *end = line + strcspn(line, "\r\n");
    if (sscanf(line + sizeof MT_PTX_CLUSTER - 1, "%4095s %u %u %u", name, &x, &y, &z) != 4) {
        *why = "a cluster's size in the PTX is damaged";
        return -1;
    }
    contents->size -= (size_t)(end - line);
    memmove(line, end, contents->size + 1 - (size_t)(line - (char *)contents->data));
    char *at = parameters_end((char *)contents->data, name);
    if (!at) {
        *why = "a kernel with a cluster's size is not in the PTX";
        return -1;
    }
    snprintf(words, sizeof words, " .explicitcluster .reqnctapercluster %u, %u, %u", x, y, z);
    if (ptx_insert(contents, at, words) != 0) {
        *why = "out of memory";
        return -1;
    }
    return 0;
}

int mt_cudabin_ptx_put_clusters(struct bytes *contents, const char **why)
{
    if (!memmem(contents->data, contents->size, MT_PTX_CLUSTER, sizeof MT_PTX_CLUSTER - 1)) {
        return 0;
    }
    unsigned char *text = realloc(contents->data, contents->size + 1);
    if (!text) {
        *why = "out of memory";
        return -1;
    }
    text[contents->size] = 0;
    contents->data = text;
    for (size_t at = 0;;) {
        char *line = strstr((char *)contents->data + at, MT_PTX_CLUSTER);
        if (!line) {
            return 0;
        }
        at = (size_t)(line - (char *)contents->data);
        if (at > 0 && line[-1] != '\n') { /* inside another line: not ours */
            at++;
        } else if (put_cluster(contents, line, why) != 0) {
            return -1;
        } else {
            at = 0; /* what was put in moved the rest */
        }
    }
}
