/* What goes from device to device, and over the link that needs longest for it. */
#define _GNU_SOURCE
#include "summary.h"
#include "output/rows/links.h"
#include "numbers.h"
#include "table.h"
#include <stdlib.h>
#include <string.h>

static int devices_by_pair(const void *a, const void *b)
{
    const struct mt_device_flow *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static int devices_apart(const struct mt_device_flow *f)
{
    return f->from >= 0 && f->to >= 0 && f->from != f->to;
}

/* " (1 KiB by loads, 2 KiB by copies)" */
static void devices_kinds(FILE *f, const struct mt_device_flow *list, size_t n)
{
    static const struct {
        unsigned how; /* a bit each */
        const char *word;
    } kinds[] = {{1u << MT_FLOW_LOAD | 1u << MT_FLOW_UNKNOWN, "loads"},
                 {1u << MT_FLOW_STORE | 1u << MT_FLOW_ATOMIC, "stores"},
                 {1u << MT_FLOW_COPY, "copies"},
                 {1u << MT_FLOW_COLLECTIVE, "collectives"}};
    const char *between = " (";
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < n; i++)
            bytes += devices_apart(&list[i]) && kinds[k].how >> list[i].how & 1 ? list[i].bytes : 0;
        if (bytes) {
            fprintf(f, "%s%s by %s", between, mt_number_bytes(bytes).text, kinds[k].word);
            between = ", ";
        }
    }
    if (*between == ',')
        fputc(')', f);
}

/* ", most from 0 to 1"; sorts the list by pairs. */
static void devices_most(FILE *f, struct mt_device_flow *list, size_t n)
{
    uint64_t bytes = 0, best = 0;
    size_t at = 0, end;
    qsort(list, n, sizeof *list, devices_by_pair);
    for (size_t i = 0; i < n; i = end) {
        for (bytes = 0, end = i; end < n && devices_by_pair(&list[end], &list[i]) == 0; end++)
            bytes += list[end].bytes;
        if (devices_apart(&list[i]) && bytes > best) {
            best = bytes;
            at = i;
        }
    }
    if (best)
        fprintf(f, ", most from %s to %s", mt_device_flow_place(list[at].from).text,
                mt_device_flow_place(list[at].to).text);
}

/* ---- links ---- */

static const char *link_kernel(const struct mt_link_load *l)
{
    return l->kernel ? l->kernel : mt_device_flow_names[l->how];
}

static int link_by_kernel(const void *a, const void *b)
{
    const struct mt_link_load *x = *(const struct mt_link_load *const *)a,
                              *y = *(const struct mt_link_load *const *)b;
    return strcmp(link_kernel(x), link_kernel(y));
}

/* The kernel (or "copy") with most bytes of the link's loads, of equal ones the first by name; NULL without
 * memory. */
static const char *link_most(const struct mt_link_load *list, size_t n)
{
    const struct mt_link_load **by = calloc(n + 1, sizeof *by), *most = NULL;
    uint64_t best = 0, bytes = 0;
    for (size_t i = 0; by && i < n; i++)
        by[i] = &list[i];
    if (by)
        qsort(by, n, sizeof *by, link_by_kernel);
    for (size_t i = 0; by && i < n; i++) {
        bytes = (i && link_by_kernel(&by[i - 1], &by[i]) == 0 ? bytes : 0) + by[i]->bytes;
        if (bytes > best) {
            best = bytes;
            most = by[i];
        }
    }
    free(by);
    return most ? link_kernel(most) : NULL;
}

static int devices_link(FILE *f, const struct mt_link_load *list, size_t n)
{
    double seconds = 0;
    size_t at = 0, count = 0, end;
    for (size_t i = 0; i < n; i = end) {
        uint64_t bytes = 0;
        for (end = i; end < n && strcmp(list[end].link.name, list[i].link.name) == 0; end++)
            bytes += list[end].bytes;
        if ((double)bytes / list[i].link.speed > seconds) {
            seconds = (double)bytes / list[i].link.speed;
            at = i;
            count = end - i;
        }
    }
    const char *most = count ? link_most(list + at, count) : NULL;
    char *kernel = most ? mt_kernel_short(most) : NULL;
    if (kernel)
        fprintf(f, " The link that takes longest, %s, needs %s at its speed, most of it for %s.",
                list[at].link.name, mt_number_duration(seconds * 1e9).text, kernel);
    free(kernel);
    return count && !kernel ? -1 : 0;
}

int mt_devices_sentence(const struct mt_comm_result *r, char **sentence)
{
    size_t n = 0, nlinks = 0, size;
    uint64_t all = 0, host = 0, outside;
    struct mt_device_flow *list = mt_device_flows(r, 1, &n);
    struct mt_link_load *links = mt_link_loads(r, &nlinks, &outside);
    int rc = list && links ? 0 : -1;
    *sentence = NULL;
    FILE *f = rc == 0 && n ? open_memstream(sentence, &size) : NULL;
    for (size_t i = 0; f && i < n; i++) {
        all += devices_apart(&list[i]) ? list[i].bytes : 0;
        host += list[i].from != list[i].to && !devices_apart(&list[i]) ? list[i].bytes : 0;
    }
    if (f) {
        fprintf(f, "From device to device go %s", mt_number_bytes(all).text);
        devices_kinds(f, list, n);
        devices_most(f, list, n);
        fprintf(f, "; between devices and host %s.", mt_number_bytes(host).text);
        rc = devices_link(f, links, nlinks) | fclose(f);
    }
    free(list);
    free(links);
    return rc == 0 ? 0 : -1;
}
