/* LEB128 numbers, plain and zigzag, of payloads. */
#ifndef MT_CONTAINER_LEB_H
#define MT_CONTAINER_LEB_H
#include <stdint.h>
#include <string.h>

/* Writes a number in at most 10 bytes and returns the position after it. */
static inline unsigned char *mt_leb(unsigned char *out, uint64_t v)
{
    while (v >= 0x80) {
        *out++ = (unsigned char)(v | 0x80);
        v >>= 7;
    }
    *out++ = (unsigned char)v;
    return out;
}

/* Writes a two's complement number, zigzag-coded. */
static inline unsigned char *mt_leb_signed(unsigned char *out, uint64_t v)
{
    return mt_leb(out, v << 1 ^ (0 - (v >> 63)));
}

#endif
