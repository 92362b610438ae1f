/* The allocation index against a brute-force model: one owner per 64 bytes of a small window, for blocks and
 * for maps. Random events of the malloc family, mmap (over existing maps too), munmap of parts, mremap and
 * brk; after each the owners of some addresses are compared, now and then all. usage: test_index EVENTS SEED
 * THRESHOLD FILE */
#include "state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GRAIN 64u
#define PAGES 256u
#define GRAINS (PAGES * 4096u / GRAIN)
#define WINDOW 0x10000000ull
#define HEAP (WINDOW + PAGES * 4096u / 2) /* the program break moves in the upper half */

static uint32_t blocks[GRAINS], maps[GRAINS]; /* serials; 0: nobody */
/* What allocation a serial stands for. */
static struct {
    uint64_t id, start, bytes;
} *allocation;
static uint32_t serials;
static uint64_t ids, threshold, state;

static struct mt_core_thread_state thread;

static uint32_t index_rnd(uint32_t n)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((state >> 33) % n);
}

static void index_paint(uint32_t *layer, uint64_t base, uint64_t bytes, uint32_t serial)
{
    for (uint64_t g = (base - WINDOW) / GRAIN; g < (base - WINDOW + bytes) / GRAIN; g++)
        layer[g] = serial;
}

static void index_made(uint32_t *layer, uint64_t base, uint64_t bytes)
{
    uint32_t s = ++serials;
    allocation[s].id = bytes >= threshold ? ++ids : 0;
    allocation[s].start = base;
    allocation[s].bytes = bytes;
    index_paint(layer, base, bytes, s);
}

/* ---- live blocks of the model, for free and realloc ---- */

#define LIVE 4096u
static uint64_t live[LIVE], live_bytes[LIVE];
static uint32_t live_serial[LIVE], lives;

/* A block that lost its memory to a newer one is not live any more. */
static int index_still(uint32_t i)
{
    return blocks[(live[i] - WINDOW) / GRAIN] == live_serial[i];
}

static void index_forget(uint32_t i)
{
    lives--;
    live[i] = live[lives];
    live_bytes[i] = live_bytes[lives];
    live_serial[i] = live_serial[lives];
}

static void index_remember(uint64_t base, uint64_t bytes)
{
    if (lives == LIVE)
        index_forget(index_rnd(LIVE));
    live[lives] = base;
    live_bytes[lives] = bytes;
    live_serial[lives++] = serials;
}

static uint64_t index_place(uint64_t bytes, uint32_t align)
{
    uint32_t room = (PAGES * 4096u - (uint32_t)bytes) / align;
    return WINDOW + (uint64_t)index_rnd(room + 1) * align;
}

/* All of a block that is left, which may be less than was allocated. */
static void index_unpaint(uint32_t i)
{
    uint64_t g = (live[i] - WINDOW) / GRAIN;
    /* free takes the piece that begins at its start: cut blocks keep their other pieces */
    for (uint64_t end = g + live_bytes[i] / GRAIN; g < end && blocks[g] == live_serial[i]; g++)
        blocks[g] = 0;
}

static void do_malloc(void)
{
    uint64_t bytes = (1 + index_rnd(8)) * GRAIN, base = index_place(bytes, GRAIN);
    mt_core_alloc(NULL,
                  (enum mt_core_alloc_kind[]){MT_CORE_MALLOC, MT_CORE_CALLOC, MT_CORE_MEMALIGN,
                                              MT_CORE_NEW}[index_rnd(4)],
                  base, bytes, 0);
    index_made(blocks, base, bytes);
    index_remember(base, bytes);
}

static void do_free(void)
{
    if (index_rnd(50) == 0) { /* no block begins there: nothing happens */
        mt_core_free(NULL, WINDOW + index_rnd(PAGES * 4096u) / GRAIN * GRAIN + 1);
        return;
    }
    if (!lives)
        return;
    uint32_t i = index_rnd(lives);
    if (index_still(i)) {
        mt_core_free(NULL, live[i]);
        index_unpaint(i);
    }
    index_forget(i);
}

static void do_realloc(void)
{
    if (!lives)
        return;
    uint32_t i = index_rnd(lives);
    uint64_t old = live[i], bytes = (1 + index_rnd(8)) * GRAIN,
             base = index_rnd(2) ? old : index_place(bytes, GRAIN);
    int valid = index_still(i);
    if (base + bytes > WINDOW + PAGES * 4096u)
        return;
    if (valid)
        index_unpaint(i);
    index_forget(i);
    mt_core_realloc(NULL, valid ? old : 0, base, bytes, 0);
    index_made(blocks, base, bytes);
    index_remember(base, bytes);
}

static void do_mmap(void)
{
    uint64_t bytes = (1 + index_rnd(4)) * 4096u - index_rnd(2) * GRAIN * index_rnd(64),
             base = index_place((bytes + 4095) & ~4095ull, 4096);
    mt_core_alloc(NULL, MT_CORE_MMAP, base, bytes, 0);
    index_made(maps, base, bytes);
}

static void do_munmap(void)
{
    uint64_t bytes = (1 + index_rnd(3)) * 4096u, base = index_place(bytes, 4096);
    mt_core_unmap(NULL, base, bytes - (index_rnd(4) ? 0 : index_rnd(4095)));
    index_paint(maps, base, bytes, 0);
}

static void do_mremap(void)
{
    uint64_t old_bytes = (1 + index_rnd(3)) * 4096u, old = index_place(old_bytes, 4096);
    uint64_t bytes = (1 + index_rnd(4)) * 4096u,
             base = index_rnd(2) && old + bytes <= WINDOW + PAGES * 4096u ? old : index_place(bytes, 4096);
    mt_core_remap(NULL, old, old_bytes, base, bytes, 0);
    index_paint(maps, old, old_bytes, 0);
    index_made(maps, base, bytes);
}

static void do_brk(void)
{
    static uint64_t now = HEAP;
    uint64_t to = HEAP + index_rnd(PAGES / 2 * 4096u / GRAIN) * GRAIN;
    if (to > now + 16384)
        to = now + 16384;
    mt_core_brk(NULL, now, to, 0);
    if (to > now)
        index_made(maps, now, to - now);
    else
        index_paint(maps, to, now - to, 0);
    now = to;
}

/* ---- comparison ---- */

static void index_check(uint64_t address)
{
    struct mt_meaning m;
    uint64_t g = (address - WINDOW) / GRAIN;
    uint32_t s = blocks[g] ? blocks[g] : maps[g];
    m = *mt_alloc_meaning(&thread, address);
    uint64_t id = s ? allocation[s].id : 0;
    if (m.id == id && (!id || (m.start == allocation[s].start && m.bytes == allocation[s].bytes)) &&
        address >= m.base && address < m.end)
        return;
    printf("address %#llx: id %llu (start %#llx, %llu bytes), expected %llu (start %#llx, %llu bytes)\n",
           (unsigned long long)address, (unsigned long long)m.id, (unsigned long long)m.start,
           (unsigned long long)m.bytes, (unsigned long long)id, (unsigned long long)allocation[s].start,
           (unsigned long long)allocation[s].bytes);
    exit(1);
}

static void check_all(void)
{
    for (uint64_t g = 0; g < GRAINS; g++) {
        index_check(WINDOW + g * GRAIN);
        index_check(WINDOW + g * GRAIN + GRAIN - 1);
    }
}

int main(int argc, char **argv)
{
    static void (*const events[])(void) = {do_malloc, do_malloc, do_malloc, do_malloc,  do_free,
                                           do_free,   do_free,   do_free,   do_realloc, do_realloc,
                                           do_mmap,   do_munmap, do_munmap, do_mremap,  do_brk};
    if (argc != 5)
        return 2;
    uint64_t n = strtoull(argv[1], NULL, 10);
    state = strtoull(argv[2], NULL, 10);
    threshold = strtoull(argv[3], NULL, 10);
    allocation = calloc(n + 1, sizeof *allocation);
    struct mt_core_options o;
    struct mt_core_engine e = {.name = "test"};
    char why[300];
    char *const args[] = {"mat", "--threshold", argv[3], "--level", "0", "-o", argv[4]};
    if (mt_core_options_parse(&o, 7, args, why, sizeof why) || mt_core_start(&o, &e, why, sizeof why)) {
        puts(why);
        return 1;
    }
    clock_t start = clock();
    for (uint64_t i = 0; i < n; i++) {
        events[index_rnd(sizeof events / sizeof *events)]();
        index_check(WINDOW + index_rnd(PAGES * 4096u));
        index_check(WINDOW + index_rnd(PAGES * 4096u));
        if (i % (n / 20 + 1) == 0)
            check_all();
    }
    check_all();
    double s = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("%llu events, %llu allocations, %.1f s, %.0f ns an event with model and checks\n",
           (unsigned long long)n, (unsigned long long)ids, s, s * 1e9 / (double)n);
    /* what is live at the end, for those who read the container */
    for (uint64_t g = 0; g < GRAINS && n <= 100000; g++)
        printf("own %llu %llu %llu\n", (unsigned long long)(WINDOW + g * GRAIN),
               (unsigned long long)(blocks[g] ? allocation[blocks[g]].id : 0),
               (unsigned long long)(maps[g] ? allocation[maps[g]].id : 0));
    mt_core_stop(0);
    mt_core_options_free(&o);
    free(allocation);
    return 0;
}
