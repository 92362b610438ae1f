/* Volumes of CTAs and SMs, launch by launch; and the axis of all CTAs. */
#include "report.h"
#include "page_list.h"
#include "analysis/base/pairmap.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 400000, SMALL_AXIS = 512 };

struct axis_keys {
    uint64_t *at;
    size_t n, room;
};

/* Once each: there are far fewer CTAs than ends of transfers. 0, or -1 without memory. */
static int add_key(struct axis_keys *keys, struct mt_pairmap *known, uint64_t key)
{
    uint64_t *seen = mt_pairmap_get(known, key, 0, 0), *at;
    if (!seen)
        return -1;
    if (*seen)
        return 0;
    *seen = 1;
    if (!(at = mt_report_more(keys, sizeof *at)))
        return -1;
    *at = key;
    return 0;
}

/* All CTA keys that occur, ascending, each once; the caller's. NULL without memory. */
static uint64_t *report_axis(const struct mt_report *r, size_t *n)
{
    struct mt_pairmap known = {0};
    struct axis_keys keys = {0};
    int bad = add_key(&keys, &known, MT_REPORT_NO_CTA); /* so that there is a list */
    for (size_t i = 0; !bad && i < r->ctas.n; i++)
        bad = add_key(&keys, &known, r->ctas.at[i].key);
    for (size_t i = 0; !bad && i < r->transfers.n; i++)
        bad = add_key(&keys, &known, r->transfers.at[i].src.cta) ||
              add_key(&keys, &known, r->transfers.at[i].dst.cta);
    mt_pairmap_free(&known);
    if (bad) {
        free(keys.at);
        keys = (struct axis_keys){0};
    } else {
        qsort(keys.at, keys.n, sizeof *keys.at, mt_order_u64);
    }
    *n = keys.n ? keys.n - 1 : 0; /* the host's is the last one */
    return keys.at;
}

size_t mt_report_position(const uint64_t *axis, size_t n, uint64_t key)
{
    const uint64_t *at = n ? bsearch(&key, axis, n, sizeof key, mt_order_u64) : NULL;
    return at ? (size_t)(at - axis) : 0;
}

MT_ORDER_2(part_order, struct mt_report_part, superstep, key)

size_t mt_report_merge_parts(struct mt_report_part *parts, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(parts, n, sizeof *parts, part_order);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || part_order(&parts[kept - 1], &parts[i]) != 0) {
            parts[kept++] = parts[i];
            continue;
        }
        mt_report_add_volume(&parts[kept - 1].volume, &parts[i].volume);
    }
    return kept;
}

/* `axis`: of CTAs, whose keys become places; NULL: keys stay as they are. */
static int write_parts(struct mt_json *j, enum mt_page_list list, const struct mt_report_part *all, size_t n,
                       const uint64_t *axis, size_t naxis)
{
    struct mt_report_part *p = malloc((n + 1) * sizeof *p);
    uint32_t bin = 1, step_bin = 1, most = 0;
    if (!p)
        return -1;
    if (n)
        memcpy(p, all, n * sizeof *p);
    for (size_t i = 0; i < n; i++) {
        if (axis)
            p[i].key = mt_report_position(axis, naxis, p[i].key);
        most = p[i].superstep > most ? p[i].superstep : most;
    }
    n = mt_report_merge_parts(p, n);
    while (n > MOST_PARTS) {
        int steps = !axis || (naxis / bin <= SMALL_AXIS && most / step_bin > 0);
        for (size_t i = 0; i < n; i++) {
            p[i].superstep /= 1u + (unsigned)steps;
            p[i].key /= 2u - (unsigned)steps;
        }
        *(steps ? &step_bin : &bin) *= 2;
        n = mt_report_merge_parts(p, n);
    }
    struct mt_page_rows page;
    mt_page_begin(&page, j, list);
    mt_json_u64(j, "bin", bin);
    mt_json_u64(j, "step_bin", step_bin);
    for (size_t i = 0; i < n; i++) {
        mt_tuples_number(&page.w, p[i].superstep);
        mt_tuples_number(&page.w, p[i].key);
        mt_report_write_volume(&page.w, &p[i].volume);
        mt_page_row(&page);
    }
    free(p);
    return mt_page_end(&page);
}

static int write_axis(struct mt_json *j, const uint64_t *axis, size_t n)
{
    struct mt_page_rows p;
    mt_page_begin(&p, j, MT_PAGE_axis);
    for (size_t i = 0; i < n; i++) {
        mt_tuples_numbers(&p.w, MT_NUMBERS(axis[i] >> 48, axis[i] >> 32 & 0xffff, axis[i] & 0xffffffff));
        mt_page_row(&p);
    }
    return mt_page_end(&p);
}

int mt_report_write_volumes(struct mt_json *j, const struct mt_report *r)
{
    size_t n;
    uint64_t *axis = report_axis(r, &n);
    int rc = -1;
    if (axis && write_axis(j, axis, n) == 0 &&
        (!(r->has & MT_REPORT_CTAS) || write_parts(j, MT_PAGE_ctas, r->ctas.at, r->ctas.n, axis, n) == 0) &&
        (!(r->has & MT_REPORT_SMS) || write_parts(j, MT_PAGE_sms, r->sms.at, r->sms.n, NULL, 0) == 0) &&
        (!(r->has & MT_REPORT_TRANSFERS) || mt_report_write_cells(j, r, axis, n) == 0))
        rc = 0;
    free(axis);
    return rc;
}
