/* Host accesses as the atomic and the mat text; the lines are made by the core's own writers, so that a trace
 * reads the same whether it was text from the start or a container first. */
#define _GNU_SOURCE
#include "convert.h"
#include "analysis/base/live_allocs.h"
#include "analysis/base/pairmap.h"
#include "memtrace/grow.h"
#include "format/host_text.h"
#include <stdlib.h>
#include <string.h>

static enum mt_host_op op_of(struct mt_host_reader *r, uint32_t site)
{
    const struct mt_host_site_info *s = mt_host_site(r, site);
    return s ? s->op : MT_HOST_UNKNOWN;
}

/* ---- atomic ---- */

struct line {
    struct mt_text_access access;
    uint64_t time, thread;
    int64_t name;
};

static void line_out(struct line *l, FILE *f)
{
    char text[MT_TEXT_LINE];
    size_t n = mt_text_access(text, sizeof text, l->time, l->name, &l->access);
    fwrite(text, 1, n, f);
    l->access = (struct mt_text_access){.has = 0};
}

/* What a thread calls itself: the name it registered; else its number; calls by threads without any, -1. */
static int64_t *name_of(struct mt_pairmap *names, uint64_t thread)
{
    return (int64_t *)mt_pairmap_get(names, thread, 0, thread);
}

static void event_out(struct mt_host_reader *r, const struct mt_host_item *item, int64_t name, FILE *f)
{
    int call = item->event == MT_HOST_EV_CALL || item->event == MT_HOST_EV_RETURN;
    const struct mt_function_event *fn = call ? mt_host_function(r, item->args[0]) : NULL;
    size_t room = MT_TEXT_LINE + (fn ? strlen(fn->name) : 0);
    char *text = malloc(room);
    if (text)
        fwrite(text, 1,
               mt_text_event(text, room, item->time, name, item->event, item->args, item->nargs,
                             fn ? fn->name : "?"),
               f);
    free(text);
}

/* Threads that have begun and not ended, by what they call themselves. */
struct running {
    int64_t *name;
    size_t count, room;
    uint64_t time; /* of the newest line */
};

static int running_event(struct running *n, enum mt_host_event event, int64_t name)
{
    if (event == MT_HOST_EV_THREAD_START) {
        if (mt_grow(&n->name, &n->room, n->count + 1, sizeof *n->name) != 0)
            return -1;
        n->name[n->count++] = name;
    }
    for (size_t i = 0; event == MT_HOST_EV_THREAD_END && i < n->count; i++)
        if (n->name[i] == name) {
            memmove(&n->name[i], &n->name[i + 1], (--n->count - i) * sizeof *n->name);
            break;
        }
    return 0;
}

/* A whole trace: the program's end is theirs. */
static void running_end(struct running *n, FILE *f)
{
    char text[MT_TEXT_LINE];
    for (size_t i = 0; i < n->count; i++)
        fwrite(text, 1,
               mt_text_event(text, sizeof text, ++n->time, n->name[i], MT_HOST_EV_THREAD_END, NULL, 0, NULL),
               f);
}

int mt_convert_atomic(struct mt_host_reader *r, FILE *f)
{
    const struct mt_companion *c = mt_host_companion(r);
    struct mt_host_item item;
    struct mt_pairmap names = {0};
    struct running running = {0};
    struct line l = {.thread = UINT64_MAX};
    int code = 0;
    while (mt_convert_next(r, &item, &code) > 0 && !ferror(f)) {
        int64_t *name = name_of(&names, item.thread);
        if (item.kind == MT_HOST_ITEM_EVENT && item.event == MT_HOST_EV_THREAD_START && name)
            *name = (int64_t)item.args[0];
        if (!name || (item.kind == MT_HOST_ITEM_EVENT && running_event(&running, item.event, *name) != 0)) {
            code = mt_cli_fail("no memory");
            break;
        }
        if (item.time > running.time)
            running.time = item.time;
        if (item.kind == MT_HOST_ITEM_EVENT) {
            line_out(&l, f);
            event_out(r, &item, *name, f);
            continue;
        }
        for (size_t i = 0; i < item.count; i++) {
            const struct mt_host_record *a = &item.records[i];
            if (a->time != l.time || item.thread != l.thread)
                line_out(&l, f);
            l.time = a->time;
            if (a->time > running.time)
                running.time = a->time;
            l.thread = item.thread;
            l.name = *name;
            mt_text_access_add(&l.access, op_of(r, a->site), a->address, a->size);
        }
    }
    line_out(&l, f);
    if (!code && c->has_end && c->complete)
        running_end(&running, f);
    free(running.name);
    mt_pairmap_free(&names);
    return code;
}

/* ---- mat ---- */

struct mat {
    struct mt_host_reader *r;
    struct mt_live_allocs *live;
    struct mt_pairmap shown; /* instructions whose place is in the text */
    FILE *f;
    int all;
};

static int show_place(struct mat *m, const struct mt_host_site_info *s, uint64_t ip)
{
    uint64_t *seen = mt_pairmap_get(&m->shown, s->site / 4, 0, 0);
    if (!seen)
        return -1;
    if (*seen || !*s->file)
        return 0;
    *seen = 1;
    size_t room = MT_TEXT_LINE + strlen(s->file);
    char *text = malloc(room);
    if (text)
        fwrite(text, 1, mt_text_mat_location(text, room, ip, s->file, s->line), m->f);
    free(text);
    return text ? 0 : -1;
}

static int mat_record(struct mat *m, const struct mt_host_record *a)
{
    char text[2 * MT_TEXT_LINE];
    const struct mt_host_site_info *s = mt_host_site(m->r, a->site);
    const struct mt_alloc_event *in = mt_live_allocs_find(m->live, a->address);
    if (!in && !m->all)
        return 0;
    struct mt_text_mat line = {.ip = s && s->ip ? s->ip : a->site,
                               .address = a->address,
                               .offset = in ? a->address - in->base : 0,
                               .base = in ? in->base : 0,
                               .allocation = in ? in->bytes : 0,
                               .size = a->size,
                               .op = s ? s->op : MT_HOST_UNKNOWN};
    size_t n = mt_text_mat_access(text, sizeof text, &line);
    if (n && s && show_place(m, s, line.ip) != 0)
        return -1;
    fwrite(text, 1, n, m->f);
    return 0;
}

int mt_convert_mat(struct mt_host_reader *r, FILE *f, int all)
{
    const struct mt_companion *c = mt_host_companion(r);
    struct mat m = {.r = r, .live = mt_live_allocs_new(c->allocs, c->nallocs), .f = f, .all = all};
    struct mt_host_item item;
    int code = 0, bad = !m.live || mt_live_allocs_cut(m.live, c->cuts, c->ncuts) != 0;
    while (!bad && mt_convert_next(r, &item, &code) > 0 && !ferror(f)) {
        if (item.kind != MT_HOST_ITEM_RECORDS)
            continue;
        bad = mt_live_allocs_advance(m.live, item.seq) != 0;
        for (size_t i = 0; i < item.count && !bad; i++)
            bad = mat_record(&m, &item.records[i]) != 0;
    }
    char end[MT_TEXT_LINE];
    if (!bad && !code && c->has_end && (c->complete || c->lost))
        fwrite(end, 1, mt_text_mat_end(end, sizeof end, c->lost), f);
    mt_live_allocs_free(m.live);
    mt_pairmap_free(&m.shown);
    return bad ? mt_cli_fail("no memory") : code;
}
