/* See banks.h. */
#include "banks.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"
#include "memtrace/hash.h"
#include <stdlib.h>
#include <string.h>

enum { LANES = 32, WORD = 4, MOST_BYTES = 32, KNOWN_BITS = 10 };

/* What an evenly spaced access costs depends on few things. */
struct mt_bank_known {
    int64_t stride;
    uint32_t offset, mask, meta, wavefronts, least, worst;
};

/* The words that a step has asked for so far: by bank those that differ. */
struct step {
    uint32_t words;            /* of all lanes of the step */
    uint64_t word[LANES * 2];  /* a lane's 4 bytes may lie in two, its 8 in three */
    uint8_t in_bank[MT_BANKS]; /* different words */
};

static void banks_add(struct step *s, uint64_t word, int atomic)
{
    for (uint32_t i = 0; i < s->words && !atomic; i++)
        if (s->word[i] == word)
            return;
    s->word[s->words++] = word;
    s->in_bank[word % MT_BANKS]++;
}

static uint32_t banks_ways(const struct step *s)
{
    uint32_t most = 0;
    for (int i = 0; i < MT_BANKS; i++)
        most = s->in_bank[i] > most ? s->in_bank[i] : most;
    return most;
}

/* Wavefronts of one access of a warp to shared memory; *least: without conflicts; *worst: ways of the worst
 * step. 0: it cannot be said (no lanes, more than 32 bytes each). */
static uint32_t bank_wavefronts(const struct mt_access_run *r, uint32_t *least, uint32_t *worst)
{
    uint32_t size = r->meta & MT_RAW_MAX_SIZE, sum = 0, i = 0;
    uint32_t together = size <= WORD       ? LANES
                        : size <= 2 * WORD ? LANES / 2
                        : size <= 4 * WORD ? LANES / 4
                                           : LANES / 8;
    int atomic = (r->meta >> 28 & 3) == MT_ATOMIC;
    *least = *worst = 0;
    if (!r->mask || !size || size > MOST_BYTES)
        return 0;
    for (uint32_t first = 0; first < LANES; first += together) {
        struct step s;
        s.words = 0;
        memset(s.in_bank, 0, sizeof s.in_bank);
        for (uint32_t lane = first; lane < first + together; lane++) {
            if (!(r->mask >> lane & 1))
                continue;
            uint64_t a = r->addresses ? r->addresses[i] : r->base + (uint64_t)r->stride * i;
            i++;
            for (uint64_t w = a / WORD; w <= (a + size - 1) / WORD && s.words < LANES * 2; w++)
                banks_add(&s, w, atomic);
        }
        uint32_t ways = banks_ways(&s);
        sum += ways;
        *least += ways != 0;
        *worst = ways > *worst ? ways : *worst;
    }
    return sum;
}

static uint32_t banks_cost(struct mt_banks *b, const struct mt_access_run *r, uint32_t *least,
                           uint32_t *worst)
{
    uint32_t offset = (uint32_t)(r->base % (MT_BANKS * WORD));
    if (r->addresses || !r->mask)
        return bank_wavefronts(r, least, worst);
    uint64_t h = mt_hash_number((uint64_t)r->stride) ^
                 ((uint64_t)r->mask << 20 ^ offset ^ r->meta) * 0xbf58476d1ce4e5b9u;
    struct mt_bank_known *k = &b->known[h >> (64 - KNOWN_BITS)];
    if (!k->mask || k->stride != r->stride || k->offset != offset || k->mask != r->mask ||
        k->meta != r->meta) {
        *k = (struct mt_bank_known){.stride = r->stride, .offset = offset, .mask = r->mask, .meta = r->meta};
        k->wavefronts = bank_wavefronts(r, &k->least, &k->worst);
    }
    *least = k->least;
    *worst = k->worst;
    return k->wavefronts;
}

/* ---- cells ---- */

int mt_banks_init(struct mt_banks *b)
{
    memset(b, 0, sizeof *b);
    b->known = calloc(1u << KNOWN_BITS, sizeof *b->known);
    return b->known ? 0 : -1;
}

void mt_banks_free(struct mt_banks *b)
{
    free(b->cells);
    mt_pairmap_free(&b->places);
    free(b->known);
    memset(b, 0, sizeof *b);
}

void mt_banks_launch(struct mt_banks *b, uint32_t launch, uint32_t input)
{
    b->launch = launch;
    b->input = input;
    b->last = SIZE_MAX;
}

static struct mt_bank_cell *banks_cell(struct mt_banks *b, uint32_t site, uint32_t type)
{
    if (b->last < b->count && b->cells[b->last].site == site && b->cells[b->last].type == type)
        return &b->cells[b->last];
    uint64_t *at = mt_pairmap_get(&b->places, (uint64_t)b->launch << 32 | site, type, b->count);
    if (!at || mt_grow(&b->cells, &b->room, b->count + 1, sizeof *b->cells) != 0)
        return NULL;
    if (*at == b->count)
        b->cells[b->count++] =
            (struct mt_bank_cell){.launch = b->launch, .input = b->input, .site = site, .type = type};
    b->last = *at;
    return &b->cells[b->last];
}

int mt_banks_runs(struct mt_banks *b, const struct mt_access_run *runs, size_t n)
{
    for (const struct mt_access_run *r = runs, *end = runs + n; r < end; r++) {
        uint32_t type = r->meta >> 28, space = mt_rec_space(type), least = 0, worst = 0, wavefronts = 0;
        if (space != MT_IN_SHARED && space != MT_IN_LOCAL)
            continue;
        struct mt_bank_cell *c = banks_cell(b, r->site, type);
        if (!c)
            return -1;
        if (space == MT_IN_SHARED && !(wavefronts = banks_cost(b, r, &least, &worst)))
            b->blocks += r->count;
        c->requests++;
        c->accesses += r->count;
        c->bytes += (uint64_t)r->count * (r->meta & MT_RAW_MAX_SIZE);
        c->wavefronts += wavefronts;
        c->least += least;
        c->worst = worst > c->worst ? worst : c->worst;
    }
    return 0;
}
