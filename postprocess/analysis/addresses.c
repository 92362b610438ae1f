/* Counting sort of operations by address, in windows of keys. */
#include "addresses.h"
#include <stdlib.h>
#include <string.h>

int mt_addresses_init(struct mt_addresses *a, const uint64_t *keys, size_t nkeys, uint64_t budget)
{
    memset(a, 0, sizeof *a);
    a->keys = keys;
    a->nkeys = nkeys;
    a->budget = budget;
    for (size_t i = 0; i < sizeof a->recent / sizeof *a->recent; i++)
        a->recent[i].page = UINT64_MAX;
    a->count = calloc(nkeys + 1, sizeof *a->count);
    a->filled = calloc(nkeys + 1, sizeof *a->filled);
    a->place = calloc(nkeys + 1, sizeof *a->place);
    return a->count && a->filled && a->place ? 0 : -1;
}

void mt_addresses_free(struct mt_addresses *a)
{
    free(a->count);
    free(a->filled);
    free(a->place);
    free(a->operations);
    memset(a, 0, sizeof *a);
}

static size_t lower_bound(const struct mt_addresses *a, uint64_t address, size_t from)
{
    size_t lo = from, hi = a->nkeys;
    for (size_t step = 16; lo + step < hi; step *= 2) /* gallop: the key is near as a rule */
        if (a->keys[lo + step] >= address) {
            hi = lo + step;
            break;
        }
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (a->keys[mid] < address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The first key at or behind `address`. */
static size_t first_key(struct mt_addresses *a, uint64_t address)
{
    uint64_t page = address >> 12;
    unsigned i = page & 255;
    if (a->recent[i].page != page) {
        a->recent[i].page = page;
        a->recent[i].key = lower_bound(a, page << 12, 0);
    }
    return lower_bound(a, address, a->recent[i].key);
}

/* The keys [*first, end) that bytes [from, last] have. */
static size_t keys_of(struct mt_addresses *a, uint64_t from, uint64_t last, size_t *first)
{
    size_t k = *first = first_key(a, from);
    while (k < a->nkeys && a->keys[k] <= last)
        k++;
    return k;
}

static void each(struct mt_addresses *a, const struct mt_raw_record *r, uint64_t superstep, int collect)
{
    uint64_t from = mt_rec_address(r), last = from + mt_rec_size(r) - 1;
    for (int part = 0; part < 1 + (last < from);
         part++) { /* two parts when it wraps around the address space */
        size_t k, end = keys_of(a, part ? 0 : from, !part && last < from ? UINT64_MAX : last, &k);
        for (; k < end; k++) {
            if (!collect) {
                a->count[k]++;
            } else if (k >= a->first && k < a->end) {
                if (a->filled[k] < a->count[k])
                    a->operations[a->place[k] + a->filled[k]] = (struct mt_operation){*r, superstep};
                a->filled[k]++;
            }
        }
    }
}

void mt_addresses_count(struct mt_addresses *a, const struct mt_raw_record *records, size_t n)
{
    for (size_t i = 0; i < n; i++)
        each(a, &records[i], 0, 0);
}

int mt_addresses_window(struct mt_addresses *a)
{
    a->first = a->end;
    uint64_t n = 0;
    while (a->end < a->nkeys && (a->end == a->first || n + a->count[a->end] <= a->budget)) {
        a->place[a->end] = n;
        n += a->count[a->end++];
    }
    if (a->first == a->nkeys)
        return 0;
    if (n > a->room) {
        free(a->operations);
        a->operations = malloc(n * sizeof *a->operations);
        a->room = a->operations ? n : 0;
        if (!a->operations)
            return -1;
    }
    return 1;
}

void mt_addresses_collect(struct mt_addresses *a, const struct mt_raw_record *records, size_t n,
                          uint64_t superstep)
{
    for (size_t i = 0; i < n; i++)
        each(a, &records[i], superstep, 1);
}

int mt_addresses_full(const struct mt_addresses *a)
{
    for (size_t k = a->first; k < a->end; k++)
        if (a->filled[k] != a->count[k])
            return 0;
    return 1;
}
