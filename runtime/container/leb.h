/* LEB128 and bits, as payloads have their numbers. */
#ifndef MT_CONTAINER_LEB_H
#define MT_CONTAINER_LEB_H
#include <stdint.h>
#include <string.h>

/* Writes at most 10 bytes and returns what is after them. */
static inline unsigned char *mt_leb(unsigned char *out, uint64_t v)
{
    while (v >= 0x80) {
        *out++ = (unsigned char)(v | 0x80);
        v >>= 7;
    }
    *out++ = (unsigned char)v;
    return out;
}

/* The same of a two's complement number, zigzag-coded. */
static inline unsigned char *mt_leb_signed(unsigned char *out, uint64_t v)
{
    return mt_leb(out, v << 1 ^ (0 - (v >> 63)));
}

/* Numbers as multiples of 1 << shift above the anchor, `width` (0 to 56, or 64) bits each, and up to 8 bytes
 * that are not meant. Returns what is after. */
static inline unsigned char *mt_bits_put(unsigned char *out, const uint64_t *a, uint32_t n, uint64_t anchor,
                                         unsigned shift, unsigned width)
{
    uint64_t bits = 0;
    unsigned have = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t v = (a[i] - anchor) >> shift;
        if (width == 64) {
            memcpy(out, &v, sizeof v);
            out += sizeof v;
            continue;
        }
        bits |= v << have; /* have < 8 and width <= 56 */
        have += width;
        memcpy(out, &bits, sizeof bits);
        out += have / 8;
        bits >>= have / 8 * 8;
        have %= 8;
    }
    return out + (have != 0);
}
#endif
