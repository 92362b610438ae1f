/* Data of the page of memtrace report: results of the analyses and events of companion files as flat lists,
 * and the functions that write the page. report.c fills the lists from the analyses, cli/report/report.c from
 * a comm.json. Strings are owned by others and must outlive the report, except where noted. Functions that
 * return int return 0, or -1 without memory. */
#ifndef MT_OUTPUT_REPORT_H
#define MT_OUTPUT_REPORT_H

#include "analysis/base/sites.h"
#include "output/versus/versus.h"
#include "output/text/gaps.h"
#include "output/json/json.h"
#include "memtrace/trace.h"
#include <stddef.h>
#include <stdint.h>

struct mt_stride_graph;
struct mt_comm;
struct mt_onchip;
struct mt_summary;
struct mt_tuples;
#define MT_REPORT_HOST 0u           /* kernel number of "<host>" */
#define MT_REPORT_ALL UINT32_MAX    /* superstep of a total over all launches */
#define MT_REPORT_NO_CTA UINT64_MAX /* CTA of the host */

struct mt_report_volume {
    uint64_t load, store, comm_load, comm_store; /* volumes in bytes */
    uint64_t same_launch, same_cta; /* parts of comm_load by sender (enum mt_sender); the rest is the third */
};

static inline void mt_report_volume_add(struct mt_report_volume *to, const struct mt_report_volume *v)
{
    to->load += v->load;
    to->store += v->store;
    to->comm_load += v->comm_load;
    to->comm_store += v->comm_store;
    to->same_launch += v->same_launch;
    to->same_cta += v->same_cta;
}

struct mt_report_launch {
    uint32_t kernel, superstep;
    uint32_t ctas, sms; /* number of CTAs and SMs with an access */
    struct mt_report_volume volume;
    const struct mt_launch_event *event; /* the launch's line; NULL: not known */
    uint64_t count, busy; /* of a row of several (fold.h): how many, and the sum of their times */
};

/* Returns how long a launch took, in nanoseconds; 0: not known. */
static inline uint64_t mt_report_busy(const struct mt_launch_event *e)
{
    return e && e->end_ns > e->begin_ns ? e->end_ns - e->begin_ns : 0;
}

/* A CTA (key: mt_cta_order) or SM (key: its number) in one launch. */
struct mt_report_part {
    uint32_t superstep;
    uint64_t key;
    struct mt_report_volume volume;
};

struct mt_report_end {
    uint32_t kernel, superstep; /* superstep of the host: number of launches before */
    uint64_t cta;               /* CTA as of mt_cta_order, or MT_REPORT_NO_CTA */
};

struct mt_report_transfer {
    struct mt_report_end src, dst;
    uint64_t size, count;
};

/* Growing list. */
#define MT_REPORT_LIST(type)                                                                                 \
    struct {                                                                                                 \
        type *at;                                                                                            \
        size_t n, room;                                                                                      \
    }

/* Contents that were requested or found; the page reports the others as missing. */
enum mt_report_has {
    MT_REPORT_DATA_VOLUMES = 1,
    MT_REPORT_COMM_VOLUMES = 2,
    MT_REPORT_CTAS = 4,
    MT_REPORT_SMS = 8,
    MT_REPORT_TRANSFERS = 16,
    MT_REPORT_SENDERS = 32,     /* flag: senders of communication, for launches */
    MT_REPORT_PART_SENDERS = 64 /* flag: senders of communication, for CTAs and SMs */
};

struct mt_report {
    unsigned has;                                     /* enum mt_report_has */
    struct mt_names kernels;                          /* [0] is "<host>" */
    MT_REPORT_LIST(struct mt_report_launch) launches; /* launches in ascending order */
    MT_REPORT_LIST(struct mt_report_part) ctas;
    MT_REPORT_LIST(struct mt_report_part) sms;
    MT_REPORT_LIST(struct mt_report_transfer) transfers;
    MT_REPORT_LIST(const struct mt_launch_event *) untraced; /* launches without a trace */
    MT_REPORT_LIST(struct mt_copy_event) copies;             /* copies by ascending seq, each once */
    MT_REPORT_LIST(struct mt_site_event) sites;
    MT_REPORT_LIST(struct mt_range_event) ranges; /* NVTX ranges, each once */
    struct mt_launch_event
        *folded;     /* events of the rows of several launches, and (`first`) by superstep the */
    uint32_t *first; /* superstep of a launch's row; NULL: each launch has its own (fold.h) */
    size_t nfirst;
    /* Writes further members of the page's data, as in comm.json; may be NULL. Returns 0, or -1 without
     * memory. */
    int (*more)(void *arg, struct mt_json *j);
    void *more_arg;
    /* shared and local memory (analysis/onchip/onchip.h), owned by the caller; NULL: not analysed */
    const struct mt_onchip *onchip;
    const struct mt_summary *summary; /* "At a glance", owned by the caller */
    /* texts about the run */
    const char *const *inputs;
    size_t ninputs;
    const char *title; /* title; NULL: name of the program */
    const char *const *notes;
    size_t nnotes;
    struct mt_gaps gaps;
    int complete;            /* 1: the trace is complete; 0: it is not; -1: not known */
    int local, strict, host; /* options of the analysis */
    int threads;             /* 1: the run is of a host program */
    int from_json;
    int with_sources;         /* 1: the page includes lines of source files */
    const char *const *roots; /* folders with sources to show; others need the hash in the trace */
    size_t nroots;
    MT_REPORT_LIST(struct mt_text_event) texts; /* texts from companion files that belong to the user */
    const char *kernels_text, *supersteps_text; /* filters of kernels and launches; NULL: none */
    const struct mt_companion *companion;       /* first one that names a device, or the first; NULL: none */
    size_t companions;
    uint64_t run_launches,
        reported; /* number of launches of the run; records of the launches shown, UINT64_MAX: not known */
    uint64_t records, unknown, untraced_accesses, host_accesses, lost;
    const struct mt_alloc_event *allocs;
    size_t nallocs;
    struct mt_report_graph {
        const struct mt_stride_graph *graph; /* finished graph; NULL: not computed */
        const char *stride;                  /* sentence that defines a stride */
    } graph, lanes;                          /* graph: by thread or CTA; lanes: between the lanes of a warp */
};

void mt_report_free(struct mt_report *r);

/* Returns the number of a kernel's name, or UINT32_MAX without memory. */
static inline uint32_t mt_report_kernel(struct mt_report *r, const char *name)
{
    return (uint32_t)mt_names_number(&r->kernels, name);
}

/* Appends a zeroed element to a list. Returns NULL without memory. */
void *mt_report_more(void *list, size_t size);

#define MT_REPORT_ADD(list) mt_report_more(&(list), sizeof *(list).at)

/* Writes the page, a whole HTML document, to `fd`. Returns 0, or -1 without memory or with *error = errno. */
int mt_report_page(int fd, const struct mt_report *r, int *error);

/* Sorts parts by superstep and key and adds up equal ones. Returns the number of parts left. */
size_t mt_report_merge_parts(struct mt_report_part *parts, size_t n);

/* Style of the page of two runs (output/versus/versus.h). */
extern const char mt_report_versus_css[], mt_report_versus_css_end[];

#endif
