/* gen_trace PATTERN RECORDS > trace: big regular traces for speed measurements and for tests of length.
 *   stencil   1-D, 3 loads and 1 store of 4 bytes per thread, two buffers swapped at each launch, CTA by CTA
 *   matmul    tiled C = A * B, 32x32 threads per CTA: 2 loads per thread and tile, 1 store at the end
 *   matmul16  the same with 16 x 16 tiles, not 32 x 32
 *   bytes     like stencil with 1-byte elements
 *   histogram each thread loads one byte and adds to one of 256 counters, 2^20 threads a launch, the warps of
 *             8 CTAs in turn: every atomic is communication
 *   random    loads and stores of 4 or 8 bytes anywhere in 256 MiB, CTAs interleaved by warps of 32 records
 * Records are made as the CPU device makes them: CTAs one after another, CTA -> SM round robin over 16. At
 * least RECORDS records, rounded up to whole launches (random: one launch of exactly RECORDS). */
#include "memtrace/record.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMS = 16, BLOCK = 256 };
static struct mt_raw_record buffer[1 << 14];
static size_t used;
static uint64_t made;

static void gen_trace_flush(void)
{
    if (fwrite(buffer, sizeof *buffer, used, stdout) != used) {
        perror("gen_trace");
        exit(1);
    }
    used = 0;
}

static void gen_trace_put(uint32_t sm, uint32_t type, uint32_t size, uint64_t address, uint64_t cta)
{
    buffer[used++] = mt_rec_pack(sm, type, size, address, cta);
    made++;
    if (used == sizeof buffer / sizeof *buffer)
        gen_trace_flush();
}

static void end_kernel(void)
{
    gen_trace_flush();
    struct mt_raw_record eot = {{0, 0, 0}};
    fwrite(&eot, sizeof eot, 1, stdout);
}

static void gen_trace_stencil(uint64_t wanted, uint32_t size)
{
    enum { CTAS = 4096 };
    uint64_t in = 0x7f0000000000, out = in + 2 * (uint64_t)CTAS * BLOCK * size;
    while (made < wanted) {
        fputs("stencil(float const*, float*)\n", stdout);
        for (uint32_t c = 0; c < CTAS; c++)
            for (uint32_t t = 0; t < BLOCK; t++) {
                uint64_t i = (uint64_t)c * BLOCK + t, last = (uint64_t)CTAS * BLOCK - 1;
                uint64_t cta = mt_rec_cta(c, 0, 0);
                gen_trace_put(c % SMS, MT_LOAD, size, in + (i ? i - 1 : 0) * size, cta);
                gen_trace_put(c % SMS, MT_LOAD, size, in + i * size, cta);
                gen_trace_put(c % SMS, MT_LOAD, size, in + (i < last ? i + 1 : last) * size, cta);
                gen_trace_put(c % SMS, MT_STORE, size, out + i * size, cta);
            }
        end_kernel();
        uint64_t swap = in;
        in = out;
        out = swap;
    }
}

static void gen_trace_matmul(uint64_t wanted, const uint32_t tiles)
{
    enum { TILE = 32 };
    const uint32_t n = TILE * tiles;
    uint64_t a = 0x7f0000000000, b = a + 4ull * n * n, c = b + 4ull * n * n;
    while (made < wanted) {
        fputs("matmul<32>(float*, float*, float*)\n", stdout);
        for (uint32_t by = 0; by < tiles; by++)
            for (uint32_t bx = 0; bx < tiles; bx++) {
                uint64_t cta = mt_rec_cta(bx, by, 0);
                uint32_t sm = (by * tiles + bx) % SMS;
                for (uint32_t k = 0; k < tiles; k++)
                    for (uint32_t t = 0; t < TILE * TILE; t++) {
                        uint32_t x = t % TILE, y = t / TILE;
                        gen_trace_put(sm, MT_LOAD, 4, a + 4ull * ((by * TILE + y) * n + k * TILE + x), cta);
                        gen_trace_put(sm, MT_LOAD, 4, b + 4ull * ((k * TILE + y) * n + bx * TILE + x), cta);
                    }
                for (uint32_t t = 0; t < TILE * TILE; t++)
                    gen_trace_put(sm, MT_STORE, 4,
                                  c + 4ull * ((by * TILE + t / TILE) * n + bx * TILE + t % TILE), cta);
            }
        end_kernel();
        uint64_t old = a; /* the next launch reads what this one wrote */
        a = c;
        c = old;
    }
}

static void gen_trace_histogram(uint64_t wanted)
{
    enum { CTAS = 4096, TOGETHER = 8, WARP = 32 };
    uint64_t s = 88172645463325252ull;
    while (made < wanted) {
        fputs("histogram\n", stdout);
        for (uint32_t first = 0; first < CTAS; first += TOGETHER)
            for (uint32_t w = 0; w < BLOCK / WARP; w++)
                for (uint32_t c = first; c < first + TOGETHER; c++)
                    for (uint32_t t = 0; t < 2 * WARP; t++) {
                        uint64_t cta = mt_rec_cta(c, 0, 0), i = (uint64_t)c * BLOCK + w * WARP + t % WARP;
                        s ^= s << 13;
                        s ^= s >> 7;
                        s ^= s << 17;
                        if (t < WARP)
                            gen_trace_put(c % SMS, MT_LOAD, 1, 0x7f0000000000 + i, cta);
                        else
                            gen_trace_put(c % SMS, MT_ATOMIC, 4,
                                          0x7f1000000000 + 4 * (s >> 40 & s >> 48 & 255), cta);
                    }
        end_kernel();
    }
}

static void gen_trace_anywhere(uint64_t wanted)
{
    uint64_t s = 88172645463325252ull, cta = 0;
    fputs("random\n", stdout);
    for (uint64_t i = 0; i < wanted; i++) {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        if (i % 32 == 0)
            cta = s >> 40 & 1023;
        uint32_t size = s >> 60 & 1 ? 8 : 4;
        gen_trace_put((uint32_t)cta % SMS, s >> 61 & 1 ? MT_STORE : MT_LOAD, size,
                      0x7f0000000000 + (s & 0xffffff8), mt_rec_cta((uint32_t)cta, 0, 0));
    }
    end_kernel();
}

int main(int argc, char **argv)
{
    uint64_t wanted = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (wanted)
        putchar(MT_RAW_RECORD_SIZE);
    if (wanted && strcmp(argv[1], "stencil") == 0)
        gen_trace_stencil(wanted, 4);
    else if (wanted && strcmp(argv[1], "bytes") == 0)
        gen_trace_stencil(wanted, 1);
    else if (wanted && strcmp(argv[1], "matmul") == 0)
        gen_trace_matmul(wanted, 32);
    else if (wanted && strcmp(argv[1], "matmul16") == 0)
        gen_trace_matmul(wanted, 16);
    else if (wanted && strcmp(argv[1], "histogram") == 0)
        gen_trace_histogram(wanted);
    else if (wanted && strcmp(argv[1], "random") == 0)
        gen_trace_anywhere(wanted);
    else {
        fputs("usage: gen_trace stencil|matmul|matmul16|bytes|histogram|random RECORDS > trace\n", stderr);
        return 2;
    }
    return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
