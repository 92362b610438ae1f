/* Attaches the image as a comment line of PTX, which the overlay's tools extract. */
#include "cpu.h"
#include "format/image.h"
#include <stdlib.h>
#include <string.h>

static char *attach_base64(const char *data, size_t n, size_t *length)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((n + 2) / 3 * 4 + 1), *o = text;
    for (size_t i = 0; text && i < n; i += 3) {
        uint32_t v = (uint32_t)(unsigned char)data[i] << 16;
        if (i + 1 < n)
            v |= (uint32_t)(unsigned char)data[i + 1] << 8;
        if (i + 2 < n)
            v |= (unsigned char)data[i + 2];
        *o++ = digit[v >> 18];
        *o++ = digit[v >> 12 & 63];
        *o++ = i + 1 < n ? digit[v >> 6 & 63] : '=';
        *o++ = i + 2 < n ? digit[v & 63] : '=';
    }
    *length = text ? (size_t)(o - text) : 0;
    return text;
}

/* (One append: LLVM ends each with a line feed.) */
void mt_image_attach(LLVMModuleRef carrier, LLVMMemoryBufferRef object)
{
    size_t n, prefix = strlen(MT_PTX_PREFIX);
    char *text = attach_base64(LLVMGetBufferStart(object), LLVMGetBufferSize(object), &n);
    char *line = text ? malloc(prefix + n + 2) : NULL;
    if (line) {
        memcpy(line, MT_PTX_PREFIX, prefix);
        memcpy(line + prefix, text, n);
        memcpy(line + prefix + n, "\n", 2);
        LLVMAppendModuleInlineAsm(carrier, line, prefix + n + 1);
    }
    free(line);
    free(text);
}
