/* The words of the results, and keys made of numbers: the same in JSON, text and tables. */
#define _GNU_SOURCE
#include "names.h"
#include "analysis/base/order.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const mt_section_names[MT_SECTIONS] = {"KCV", "KDV", "CCV",       "CDV",     "SCV",      "SDV",
                                                   "HCV", "HDV", "transfers", "senders", "addresses"};

const char *const mt_sender_names[MT_SENDER_KINDS] = {"same_launch", "earlier_launch", "same_cta"};

const char *const mt_sender_words[MT_SENDER_KINDS][2] = {
    {"another CTA of the same launch", "another thread"},
    {"another CTA of an earlier launch", "another thread of an earlier program"},
    {"the same CTA of an earlier launch", "the same thread of an earlier program"}};

const char *const mt_access_types[4] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = text,
#include "memtrace/record.def"
};

const char *const mt_reuse_levels[MT_REUSE_LEVELS] = {"CTA", "SM", "device"};

const char *const mt_sharing_kinds[MT_SHARING_KINDS] = {"private", "read", "true", "false"};

const char *const mt_placement_policies[MT_PLACE_POLICIES] = {"block", "robin", "mincut"};

/* ---- keys ---- */

char *mt_digits(char *end, uint64_t v)
{
    do
        *--end = (char)('0' + v % 10);
    while (v /= 10);
    return end;
}

const char *mt_key_u64(char *out, uint64_t value)
{
    char d[20], *s = mt_digits(d + sizeof d, value);
    size_t n = (size_t)(d + sizeof d - s);
    memcpy(out, s, n);
    out[n] = 0;
    return out;
}
const char *mt_key_hex(char *out, uint64_t value)
{
    int shift = 60;
    size_t n = 2;
    memcpy(out, "0x", 2);
    while (shift > 0 && value >> shift == 0)
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        out[n++] = "0123456789abcdef"[value >> shift & 15];
    out[n] = 0;
    return out;
}

const char *mt_key_cta(char *out, uint64_t x, uint64_t y, uint64_t z)
{
    mt_key_u64(out, x);
    size_t n = strlen(out);
    out[n++] = ',';
    mt_key_u64(out + n, y);
    n += strlen(out + n);
    out[n++] = ',';
    mt_key_u64(out + n, z);
    return out;
}

const char *mt_cta_key(char *out, uint64_t order)
{
    return mt_key_cta(out, order & 0xffffffff, order >> 32 & 0xffff, order >> 48);
}

/* ---- places and buffers ---- */

const char *mt_comm_location_name(const struct mt_comm *c, uint32_t place)
{
    return place || c->options.host ? c->places.names[place] : "0,0,0";
}

const char *mt_alloc_label(char *out, const struct mt_locality *m, uint64_t alloc)
{
    return alloc < m->nallocs ? mt_alloc_event_label(out, &m->allocs[alloc]) : strcpy(out, "?");
}

const char *mt_alloc_event_label(char *out, const struct mt_alloc_event *a)
{
    const char *slash = strrchr(a->file, '/'), *file = slash ? slash + 1 : a->file;
    int n = snprintf(out, MT_ALLOC_LABEL, "#%" PRIu64 " %.200s", a->id, *a->name ? a->name : a->kind);
    if (!*a->name && *file && n < MT_ALLOC_LABEL)
        n += snprintf(out + n, MT_ALLOC_LABEL - (size_t)n, " %.60s:%" PRIu64, file, a->line);
    if (!*a->name && !*file && a->at && *a->at && n < MT_ALLOC_LABEL)
        n += snprintf(out + n, MT_ALLOC_LABEL - (size_t)n, " %.120s", a->at);
    if (a->like > 1 && n < MT_ALLOC_LABEL)
        snprintf(out + n, MT_ALLOC_LABEL - (size_t)n, " ×%" PRIu64, a->like);
    return out;
}

int mt_locality_has_sites(const struct mt_locality *m, enum mt_lines_by by)
{
    if (by == MT_BY_ALLOC)
        return m->nallocs > 0;
    for (size_t i = 0; i < m->lines.count[by]; i++)
        if (m->lines.cells[by][i].place)
            return 1;
    return 0;
}

int mt_locality_has_masks(const struct mt_locality *m)
{
    return m->coalescing.masked || !m->coalescing.unmasked;
}
