/* The CPU image inside a PTX file or after a cubin.
 *
 * PTX:   a line MT_PTX_PREFIX + base64 of the object. Lines that the compiler wraps in its inline-asm marks
 * stay. cubin: …, object, trailer; the trailer is at the very end,
 * so it is found without knowing the cubin. */
#include <stdlib.h>
#include <string.h>
#include "format/image.h"
#include "cudabin.h"

#define TRAILER_MAGIC "MTCPUOB1"
struct trailer {
    uint64_t size; /* bytes of the object in front of the trailer */
    char magic[8];
};
_Static_assert(sizeof(struct trailer) == 16, "trailer is 16 bytes on disk");

/* Value of a base64 digit, or -1. */
static int image_digit(unsigned char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes text[0, size); 0, or -1 when it is not base64 (RFC 4648, with or without padding). */
static int image_decode(const unsigned char *text, size_t size, struct bytes *out)
{
    while (size > 0 && (text[size - 1] == '\r' || text[size - 1] == ' ')) {
        size--;
    }
    for (int pad = 0; pad < 2 && size > 0 && text[size - 1] == '='; pad++) {
        size--;
    }
    if (size == 0 || size % 4 == 1) {
        return -1;
    }
    unsigned char *data = malloc(size / 4 * 3 + 3);
    if (!data) {
        return -1;
    }
    size_t n = 0;
    uint32_t word = 0;
    int bits = 0;
    for (size_t i = 0; i < size; i++) {
        int d = image_digit(text[i]);
        if (d < 0) {
            free(data);
            return -1;
        }
        word = word << 6 | (uint32_t)d;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            data[n++] = (unsigned char)(word >> bits);
        }
    }
    out->data = data;
    out->size = n;
    return 0;
}

static int take_trailer(struct bytes *contents, struct bytes *image, const char **why)
{
    struct trailer t;
    if (contents->size < sizeof t) {
        return 0;
    }
    memcpy(&t, contents->data + contents->size - sizeof t, sizeof t);
    if (memcmp(t.magic, TRAILER_MAGIC, sizeof t.magic) != 0) {
        return 0;
    }
    if (t.size == 0 || t.size > contents->size - sizeof t) {
        *why = "the CPU image after the cubin is damaged";
        return -1;
    }
    unsigned char *object = malloc(t.size);
    if (!object) {
        *why = "out of memory";
        return -1;
    }
    contents->size -= sizeof t + t.size;
    memcpy(object, contents->data + contents->size, t.size);
    image->data = object;
    image->size = t.size;
    return 0;
}

static int take_lines(struct bytes *contents, struct bytes *image, const char **why)
{
    const size_t prefix = sizeof MT_PTX_PREFIX - 1;
    unsigned char *at = contents->data;
    for (;;) {
        unsigned char *end = contents->data + contents->size;
        at = memmem(at, (size_t)(end - at), MT_PTX_PREFIX, prefix);
        if (!at) {
            return 0;
        }
        unsigned char *begin = at;
        while (begin > contents->data && (begin[-1] == ' ' || begin[-1] == '\t')) {
            begin--;
        }
        if (begin > contents->data && begin[-1] != '\n') { /* inside another line: not ours */
            at += prefix;
            continue;
        }
        unsigned char *lf = memchr(at, '\n', (size_t)(end - at));
        if (!lf) {
            lf = end;
        }
        mt_cudabin_bytes_free(image);
        if (image_decode(at + prefix, (size_t)(lf - at) - prefix, image) != 0) {
            *why = "the CPU image in the PTX is damaged";
            return -1;
        }
        /* The LF stays: the assembler's messages keep their line numbers. */
        memmove(begin, lf, (size_t)(end - lf));
        contents->size -= (size_t)(lf - begin);
        at = begin;
    }
}

int mt_cudabin_image_take(struct bytes *contents, struct bytes *image, const char **why)
{
    image->data = NULL;
    image->size = 0;
    if (contents->size == 0) {
        return 0;
    }
    int status = take_trailer(contents, image, why);
    if (status == 0 && image->size == 0 &&
        memcmp(contents->data, "\177ELF", contents->size < 4 ? contents->size : 4) != 0) {
        status = take_lines(contents, image, why);
        if (status == 0) {
            status = mt_cudabin_ptx_put_clusters(contents, why);
        }
    }
    return status;
}

int mt_cudabin_image_append(const char *path, const struct bytes *object)
{
    struct trailer t = {.size = object->size};
    memcpy(t.magic, TRAILER_MAGIC, sizeof t.magic);
    if (mt_cudabin_file_append(path, object->data, object->size) != 0) {
        return -1;
    }
    return mt_cudabin_file_append(path, &t, sizeof t);
}
