/* Accesses of host code, or of kernels, one by one to a simulator's format. */
#define _GNU_SOURCE
#include "convert_sim.h"
#include "cli/base/feed.h"
#include "reader/container/container.h" /* the list of chunks is not part of the public interface */
#include <stdlib.h>
#include <string.h>

struct simulated {
    struct mt_sim_writer w;
    const struct mt_sim_format *to;
    uint64_t thread; /* the one that is wanted; UINT64_MAX: all */
    uint64_t untyped, longer, sizeless;
    int failed;
    /* kernels */
    const struct mt_convert_choice *want;
    struct mt_source *source;
    int chosen; /* the launch under way is */
    uint64_t launches;
};

/* 0, or -1 when nothing can be written any more. */
static int convert_sim_one(struct simulated *x, const struct mt_sim_access *a)
{
    if (x->thread != UINT64_MAX && a->thread != x->thread)
        return 0;
    if (!a->size || a->size > MT_SIM_LONGEST) {
        x->sizeless += !a->size;
        x->longer += a->size != 0;
        return 0;
    }
    x->failed = x->to->access(&x->w, a) != 0;
    x->w.count++;
    x->w.thread = a->thread;
    return x->failed || ferror(x->w.f) ? -1 : 0;
}

static void convert_sim_say(uint64_t n, const char *what)
{
    if (n)
        mt_cli_say("%llu accesses are left out: %s", (unsigned long long)n, what);
}

static int convert_sim_end(struct simulated *x, int code)
{
    if (!x->failed && x->to->end(&x->w) != 0)
        x->failed = 1;
    if (ferror(x->w.f)) /* the caller says it, and nothing else */
        x->untyped = x->longer = x->sizeless = 0;
    convert_sim_say(x->untyped, "it is not known whether they load or store");
    convert_sim_say(x->longer, "they have more than 262144 bytes: block copies by one instruction");
    convert_sim_say(x->sizeless, "their size is not known");
    if (!x->w.count && x->thread != UINT64_MAX)
        mt_cli_say("thread %llu has no access", (unsigned long long)x->thread);
    free(x->w.threads);
    mt_pairmap_free(&x->w.met);
    return x->failed ? mt_cli_fail("no memory") : code;
}

/* ---- host code ---- */

static int convert_sim_record(struct simulated *x, struct mt_host_reader *r, const struct mt_host_item *item,
                              const struct mt_host_record *a)
{
    const struct mt_host_site_info *s = mt_host_site(r, a->site);
    enum mt_host_op op = s ? s->op : MT_HOST_UNKNOWN;
    if (op == MT_HOST_EXEC)
        return 0;
    if (op == MT_HOST_UNKNOWN) {
        x->untyped++;
        return 0;
    }
    struct mt_sim_access access = {.thread = item->thread,
                                   .ip = s->ip ? s->ip : a->site / 4,
                                   .instruction = a->site / 4,
                                   .site = a->site,
                                   .address = a->address,
                                   .size = a->size ? a->size : s->size,
                                   .time = a->time,
                                   .reads = op != MT_HOST_STORE,
                                   .writes = op != MT_HOST_LOAD && op != MT_HOST_CAS_FAILED};
    return convert_sim_one(x, &access);
}

/* Does one of the records load or store? */
static int convert_sim_touches(struct mt_host_reader *r, const struct mt_host_item *item)
{
    for (size_t i = 0; item->kind == MT_HOST_ITEM_RECORDS && i < item->count; i++) {
        const struct mt_host_site_info *s = mt_host_site(r, item->records[i].site);
        if (s && s->op != MT_HOST_EXEC && s->op != MT_HOST_UNKNOWN)
            return 1;
    }
    return 0;
}

/* Damage is said when it is read to be written. */
static int convert_sim_several(struct mt_host_reader *r)
{
    struct mt_host_item item;
    struct mt_error err;
    uint64_t thread = UINT64_MAX;
    int rc;
    while ((rc = mt_host_next(r, &item, &err)) > 0 ||
           (rc < 0 && err.code != MT_E_SYSTEM && err.code != MT_E_STOPPED)) {
        if (rc < 0 || item.thread == thread || !convert_sim_touches(r, &item))
            continue;
        if (thread != UINT64_MAX)
            return 1;
        thread = item.thread;
    }
    return 0;
}

int mt_convert_sim_one_thread(const struct mt_host_reader *r)
{
    const struct mt_mtc_index *first = NULL, *other = NULL;
    struct mt_error err;
    for (size_t i = 0; i < r->chunks.count && !other; i++) {
        const struct mt_mtc_index *e = &r->chunks.entries[i];
        if (e->type == MT_MTC_HOST && first && e->key != first->key)
            other = e;
        else if (e->type == MT_MTC_HOST)
            first = e;
    }
    struct mt_host_reader *again = other ? mt_host_reader_open(r->window.name, &mt_cli_stop, &err) : NULL;
    if (other && !again)
        return mt_cli_failed(&err);
    int several = again && convert_sim_several(again); /* some threads have only events */
    mt_host_reader_close(again);
    return several ? mt_cli_usage("ChampSim takes a trace for each core, and there are several threads: give "
                                  "--thread=N")
                   : 0;
}

int mt_convert_sim_host(struct mt_host_reader *r, FILE *f, enum mt_sim to, uint64_t thread)
{
    struct simulated x = {.w = {.f = f, .companion = mt_host_companion(r), .thread = UINT64_MAX},
                          .to = &mt_sim_formats[to],
                          .thread = thread};
    struct mt_host_item item;
    int code = 0, stop = 0;
    if (x.to->begin(&x.w) != 0)
        return mt_cli_fail("no memory");
    while (!stop && mt_convert_next(r, &item, &code) > 0)
        for (size_t i = 0; !stop && item.kind == MT_HOST_ITEM_RECORDS && i < item.count; i++)
            stop = convert_sim_record(&x, r, &item, &item.records[i]) != 0;
    return convert_sim_end(&x, code);
}

/* ---- kernels ---- */

static int convert_sim_launch(void *self, const struct mt_run_launch *l)
{
    struct simulated *x = self;
    const struct mt_companion *c = mt_source_companion(x->source, l->input);
    x->chosen = !x->want->has_stream ||
                (l->event ? l->event->stream == x->want->stream : c && c->stream == x->want->stream);
    x->launches += (uint64_t)x->chosen;
    return 0;
}

static int convert_sim_records(void *self, const struct mt_raw_record *records, size_t n)
{
    struct simulated *x = self;
    int stop = 0;
    for (size_t i = 0; x->chosen && !stop && i < n; i++) {
        const struct mt_raw_record *r = &records[i];
        uint32_t type = mt_rec_type(r);
        struct mt_sim_access a = {.thread = mt_rec_smid(r),
                                  .address = mt_rec_address(r),
                                  .size = (uint32_t)mt_rec_size(r),
                                  .reads = type != MT_STORE,
                                  .writes = type != MT_LOAD};
        if (type == MT_UNKNOWN)
            x->untyped++;
        else
            stop = convert_sim_one(x, &a);
    }
    return 0; /* what failed says the end */
}

static int convert_sim_enough(void *self)
{
    const struct simulated *x = self;
    return x->failed || ferror(x->w.f);
}

static const struct mt_analysis convert_sim = {
    .launch = convert_sim_launch, .records = convert_sim_records, .enough = convert_sim_enough};

int mt_convert_sim_kernels(struct mt_inputs *in, const struct mt_convert_choice *want, FILE *f,
                           enum mt_sim to)
{
    struct simulated x = {
        .w = {.f = f, .thread = UINT64_MAX}, .to = &mt_sim_formats[to], .thread = UINT64_MAX, .want = want};
    struct mt_feed feed = {.filter = want->filter};
    int code = 0, complete;
    in->flags |= MT_SOURCE_NO_HOST | MT_SOURCE_NO_MEMORY;
    struct mt_source *s = x.source = feed.source = mt_inputs_source(in, &code);
    if (!s)
        return code;
    if (x.to->begin(&x.w) != 0) {
        mt_source_close(s);
        return mt_cli_fail("no memory");
    }
    mt_feed_add(&feed, &convert_sim, &x, NULL);
    int rc = mt_feed_read(&feed);
    code = rc ? mt_feed_failed(&feed, rc) : ferror(f) ? MT_EXIT_FAILURE : mt_inputs_finish(s, &complete);
    code = convert_sim_end(&x, code);
    if (!x.launches && want->has_stream)
        mt_cli_note("no launch of stream %u was chosen: the trace has %llu of all streams", want->stream,
                    (unsigned long long)feed.launches);
    else
        mt_filter_explain(want->filter, feed.launches, x.launches);
    mt_source_close(s);
    return code;
}
