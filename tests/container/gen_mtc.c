#define _GNU_SOURCE
/* Writes a container of random accesses and events with the real writer, and says on stdout what it put in:
 *   gen_mtc SEED TIMED LEVEL FILE
 *   c THREAD FIRST LAST ITEMS / a SITE ADDRESS SIZE TIME / e KIND TIME ARGUMENT... */
#include "format/container/writer.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 3000, THREADS = 5, SITES = 40 };

static uint64_t state;
static uint64_t gen_mtc_rnd(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = state ^ state >> 29;
    return x * 0xbf58476d1ce4e5b9u >> 7;
}
static uint64_t gen_mtc_below(uint64_t n)
{
    return gen_mtc_rnd() % n;
}
/* All magnitudes, the ends of the range included. */
static uint64_t gen_mtc_any(void)
{
    uint64_t x = gen_mtc_rnd() << 32 ^ gen_mtc_rnd();
    switch (gen_mtc_below(8)) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX - gen_mtc_below(3);
    default:
        return x >> gen_mtc_below(64);
    }
}

static int write_file(void *file, const void *data, size_t bytes)
{
    return fwrite(data, 1, bytes, file) == bytes ? 0 : 5;
}

struct thread {
    uint64_t seq, time;
    struct mt_mtc_encoder *encoder;
};

static struct mt_host_timed_entry *e;
static size_t n;
static struct thread *now;
static uint32_t numbers[SITES];

static void access_(uint32_t site, uint64_t address, uint32_t size)
{
    if (gen_mtc_below(30) == 0)
        now->time += gen_mtc_below(50) ? gen_mtc_below(100) : gen_mtc_any() % 1000000000;
    else if (!MT_HOST_OPERAND(site))
        now->time++;
    e[n++] = (struct mt_host_timed_entry){address, now->time, site, size};
    printf("a %" PRIu32 " %" PRIu64 " %" PRIu32 " %" PRIu64 "\n", site, address, size, now->time);
}

static void gen_mtc_event(unsigned kind, const uint64_t *args, unsigned count)
{
    now->time += gen_mtc_below(3);
    printf("e %u %" PRIu64, kind, now->time);
    for (unsigned i = 0; i < count || i == 0; i++) {
        e[n++] = (struct mt_host_timed_entry){count ? args[i] : 0, now->time, 0, i ? 0 : kind};
        if (count)
            printf(" %" PRIu64, args[i]);
    }
    puts("");
}

static void some_event(void)
{
    static const unsigned char least[] = {
#define MT_HOST_EVENT(name, code, args, text) [code] = args,
#include "memtrace/container.def"
    };
    uint64_t args[8];
    unsigned kind = 1 + (unsigned)gen_mtc_below(13); /* 12 and 13: of the future */
    unsigned count = kind < sizeof least ? least[kind] : (unsigned)gen_mtc_below(9);
    if (gen_mtc_below(10) == 0)
        count = 8;
    for (unsigned i = 0; i < count; i++)
        args[i] = gen_mtc_any();
    if (kind > 11 && count == 1 && args[0] == 0)
        args[0] = 1; /* an entry cannot tell "no argument" from the argument 0 */
    if (kind == MT_HOST_EV_SEQ)
        args[0] = now->seq += gen_mtc_below(4);
    gen_mtc_event(kind, args, count);
}

/* Round and round: each site with a stride of its own or all with the same one,
 * now and then with an exception. */
static void gen_mtc_loop(void)
{
    uint64_t base = gen_mtc_any(), stride = gen_mtc_below(3) ? gen_mtc_below(64) : gen_mtc_any(),
             times = gen_mtc_below(400), strides[20];
    uint32_t first = (uint32_t)gen_mtc_below(SITES),
             length = 1 + (uint32_t)gen_mtc_below(gen_mtc_below(3) ? 4 : 20);
    int each = gen_mtc_below(2) == 0, exceptions = gen_mtc_below(3) == 0;
    for (uint32_t k = 0; k < length; k++)
        strides[k] = each ? gen_mtc_below(5) * 8 : stride;
    for (uint64_t i = 0; i < times && n < ENTRIES; i++)
        for (uint32_t k = 0; k < length; k++) {
            uint64_t wrong = exceptions && gen_mtc_below(90) == 0 ? gen_mtc_below(9) : 0;
            access_(numbers[(first + k + (wrong == 1)) % SITES], base + i * strides[k] + k * 8 + wrong,
                    k % 2 || wrong == 2 ? 0 : 8);
        }
}

static void gen_mtc_chase(void)
{
    uint32_t first = (uint32_t)gen_mtc_below(SITES);
    for (uint64_t times = gen_mtc_below(50); times && n < ENTRIES; times--) {
        uint64_t node = gen_mtc_any();
        access_(numbers[first], node, 8);
        access_(numbers[(first + 1) % SITES], node + 8, 8);
        access_(numbers[(first + gen_mtc_below(3)) % SITES], gen_mtc_any(), (uint32_t)gen_mtc_any());
    }
}

/* Sites with and without size, place and text; allocations that do not overlap,
 * in a map that holds most; an end. */
static int gen_mtc_meta(struct mt_mtc_writer *w, int timed)
{
    static const char *const ops[] = {
#define MT_HOST_OP(name, code, reads, writes, text) text,
#include "memtrace/container.def"
    };
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    fprintf(f, "{\"ev\": \"header\", \"version\": 1, \"tool\": \"gen\", \"mode\": \"%s\"}\n",
            timed ? "atomic" : "mat");
    for (unsigned i = 1; i < SITES; i++)
        fprintf(f,
                "{\"ev\": \"site\", \"id\": %u, \"op\": \"%s\", \"size\": %u, \"ip\": \"0x%x\", \"file\": "
                "\"%s\", "
                "\"line\": %u, \"text\": \"insn %u\", \"reads\": \"rax\"}\n",
                numbers[i], ops[i % 7], i % 3 ? 0 : 4, i % 5 ? 0x1000 + i * 29 % 13 : 0, i % 2 ? "a.c" : "",
                i, i);
    fprintf(f, "{\"ev\": \"function\", \"id\": 0, \"name\": \"zero\"}\n");
    fprintf(f,
            "{\"ev\": \"alloc\", \"seq\": 1, \"id\": 0, \"base\": 0, \"bytes\": %" PRIu64
            ", \"kind\": \"mmap\"}\n",
            UINT64_C(1) << 62);
    for (unsigned i = 1; i < 60; i++) {
        uint64_t begin = gen_mtc_below(20), end = begin + 1 + gen_mtc_below(20);
        fprintf(f,
                "{\"ev\": \"alloc\", \"seq\": %" PRIu64 ", \"id\": %u, \"base\": \"%" PRIu64
                "\", \"bytes\": %" PRIu64 ", \"kind\": \"malloc\"}\n",
                begin, i, UINT64_C(1) << i, (UINT64_C(1) << i) / 2 + 1);
        if (gen_mtc_below(2))
            fprintf(f, "{\"ev\": \"free\", \"seq\": %" PRIu64 ", \"id\": %u}\n", end, i);
    }
    fprintf(f, "{\"ev\": \"end\", \"records_written\": 0, \"complete\": true}\n");
    fclose(f);
    int rc = mt_mtc_write(w, MT_MTC_META, 0, 0, 0, 0, 1, text, bytes);
    free(text);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    state = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
    int timed = atoi(argv[2]);
    FILE *f = fopen(argv[4], "wb");
    struct mt_mtc_file file = {write_file, f};
    struct mt_host_entry *plain = malloc((ENTRIES + 64) * sizeof *plain);
    e = malloc((ENTRIES + 64) * sizeof *e);
    char why[200];
    struct mt_mtc_writer *w = f ? mt_mtc_writer_open(&file, MT_MTC_HAS_HOST | (timed ? MT_MTC_HAS_TIMES : 0),
                                                     atoi(argv[3]), why, sizeof why)
                                : NULL;
    struct thread threads[THREADS] = {{0}};
    if (!w || !plain || !e)
        return 1;
    for (size_t i = 0; i < SITES; i++)
        numbers[i] = i < 4 ? UINT32_MAX >> (10 + i) : 4 + (uint32_t)gen_mtc_below(400);
    int rc = gen_mtc_meta(w, timed);
    for (uint64_t chunks = gen_mtc_below(12); chunks && !rc; chunks--) {
        uint64_t thread = gen_mtc_below(THREADS),
                 want = gen_mtc_below(8) ? gen_mtc_below(ENTRIES) : gen_mtc_below(3), items, seq, first;
        const void *payload;
        now = &threads[thread];
        seq = first = now->seq += gen_mtc_below(3);
        if (!now->encoder && !(now->encoder = mt_mtc_encoder_new()))
            return 1;
        printf("c %" PRIu64 "\n", thread);
        for (n = 0; n < want;)
            switch (gen_mtc_below(4)) {
            case 0:
                some_event();
                break;
            case 1:
                gen_mtc_chase();
                break;
            default:
                gen_mtc_loop();
            }
        size_t bytes;
        for (size_t i = 0; i < n; i++)
            plain[i] = (struct mt_host_entry){e[i].address, e[i].site, e[i].size};
        bytes = timed ? mt_mtc_encode_timed(now->encoder, e, n, &items, &seq, &payload)
                      : mt_mtc_encode(now->encoder, plain, n, &items, &seq, &payload);
        if (seq != now->seq)
            return 1;
        rc = mt_mtc_write(w, MT_MTC_HOST, 0, thread, first, seq, items, payload, bytes);
    }
    rc |= mt_mtc_writer_close(w);
    for (size_t i = 0; i < THREADS; i++)
        mt_mtc_encoder_free(threads[i].encoder);
    free(plain);
    free(e);
    return rc || fclose(f) != 0;
}
