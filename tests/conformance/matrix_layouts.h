/* Where each element of a fragment lies, for every shape of mma.sync (PTX ISA,
 * "matrix fragments for mma"). */
#ifndef MATRIX_LAYOUTS_H
#define MATRIX_LAYOUTS_H
#define POSITION(name, expression)                                                                           \
    __host__ __device__ static int name(int lane, int i)                                                     \
    {                                                                                                        \
        int g = lane >> 2, t = lane & 3;                                                                     \
        (void)g, (void)t, (void)i;                                                                           \
        return expression;                                                                                   \
    }
// Elements per lane of a, b, c; bits of an element of a and b; row of a, column of a, row of b (its column is
// g), row of c, column of c.
#define LAYOUT(name, m_, n_, k_, ea, eb, ec, bits_, ra, ca, rb, rc, cc)                                      \
    struct name {                                                                                            \
        enum { M = m_, N = n_, K = k_, EA = ea, EB = eb, EC = ec, BITS = bits_ };                            \
        POSITION(row_a, ra)                                                                                  \
        POSITION(col_a, ca) POSITION(row_b, rb) POSITION(col_b, g) POSITION(row_c, rc) POSITION(col_c, cc)   \
    };
LAYOUT(m16n8k16_16, 16, 8, 16, 8, 4, 4, 16, i < 2 || (i >= 4 && i < 6) ? g : g + 8,
       t * 2 + (i & 1) + (i < 4 ? 0 : 8), t * 2 + (i & 1) + (i < 2 ? 0 : 8), i < 2 ? g : g + 8,
       t * 2 + (i & 1))
LAYOUT(m16n8k8_16, 16, 8, 8, 4, 2, 4, 16, i < 2 ? g : g + 8, t * 2 + (i & 1), t * 2 + i, i < 2 ? g : g + 8,
       t * 2 + (i & 1))
LAYOUT(m16n8k4_32, 16, 8, 4, 2, 1, 4, 32, i == 0 ? g : g + 8, t, t, i < 2 ? g : g + 8, t * 2 + (i & 1))
LAYOUT(m16n8k8_32, 16, 8, 8, 4, 2, 4, 32, i == 0 || i == 2 ? g : g + 8, i < 2 ? t : t + 4, i == 0 ? t : t + 4,
       i < 2 ? g : g + 8, t * 2 + (i & 1))
LAYOUT(m8n8k4_64, 8, 8, 4, 1, 1, 2, 64, g, t, t, g, t * 2 + i)
LAYOUT(m16n8k8_64, 16, 8, 8, 4, 2, 4, 64, i == 0 || i == 2 ? g : g + 8, i < 2 ? t : t + 4, t + i * 4,
       i < 2 ? g : g + 8, t * 2 + (i & 1))
LAYOUT(m8n8k16_8, 8, 8, 16, 4, 4, 2, 8, g, t * 4 + i, t * 4 + i, g, t * 2 + i)
LAYOUT(m16n8k16_8, 16, 8, 16, 8, 4, 4, 8, i < 4 ? g : g + 8, t * 4 + (i & 3), t * 4 + i, i < 2 ? g : g + 8,
       t * 2 + (i & 1))
LAYOUT(m16n8k32_8, 16, 8, 32, 16, 8, 4, 8, i < 4 || (i >= 8 && i < 12) ? g : g + 8,
       t * 4 + (i & 3) + (i < 8 ? 0 : 16), t * 4 + (i & 3) + (i < 4 ? 0 : 16), i < 2 ? g : g + 8,
       t * 2 + (i & 1))
LAYOUT(m8n8k32_4, 8, 8, 32, 8, 8, 2, 4, g, t * 8 + i, t * 8 + i, g, t * 2 + i)
LAYOUT(m16n8k64_4, 16, 8, 64, 32, 16, 4, 4, i < 8 || (i >= 16 && i < 24) ? g : g + 8,
       t * 8 + (i & 7) + (i < 16 ? 0 : 32), t * 8 + (i & 7) + (i < 8 ? 0 : 32), i < 2 ? g : g + 8,
       t * 2 + (i & 1))
LAYOUT(m8n8k128_1, 8, 8, 128, 32, 32, 2, 1, g, t * 32 + i, t * 32 + i, g, t * 2 + i)
LAYOUT(m16n8k256_1, 16, 8, 256, 128, 64, 4, 1, i < 32 || (i >= 64 && i < 96) ? g : g + 8,
       t * 32 + (i & 31) + (i < 64 ? 0 : 128), t * 32 + (i & 31) + (i < 32 ? 0 : 128), i < 2 ? g : g + 8,
       t * 2 + (i & 1))
#endif
