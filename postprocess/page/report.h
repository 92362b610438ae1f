/* What memtrace report shows: results of the analyses and events of companions, flat, whoever they come from
 * (report.c: the analyses themselves; cli/report/report.c: a comm.json), and how they are written into
 * the page. All strings belong to others and live longer than the report,
 * except where said. Functions that return int: 0, or -1 without memory. */
#ifndef MT_OUTPUT_REPORT_H
#define MT_OUTPUT_REPORT_H

#include "output/versus/versus.h"
#include "output/text/gaps.h"
#include "output/json/json.h"
#include "memtrace/trace.h"
#include <stddef.h>
#include <stdint.h>

/* ---- The page of two runs side by side: memtrace report A -- B ---- */

/* One HTML document that needs no script, no network and no other file; all of a trace's texts are escaped.
 * 0, or -1 without memory; errors of writing are the stream's. */
int mt_versus_page(FILE *f, const struct mt_versus *p, const struct mt_versus_words *w);

struct mt_stride_graph;
struct mt_comm;
struct mt_onchip;
struct mt_summary;
struct mt_tuples;
struct mt_report_name;
#define MT_REPORT_HOST 0u           /* the kernel number of "<host>" */
#define MT_REPORT_ALL UINT32_MAX    /* in place of a superstep: all of them together */
#define MT_REPORT_NO_CTA UINT64_MAX /* in place of a CTA: the host */

struct mt_report_volume {
    uint64_t load, store, comm_load, comm_store; /* bytes */
    uint64_t same_launch, same_cta; /* of comm_load, by whom (enum mt_sender); the rest: the third one */
};

struct mt_report_launch {
    uint32_t kernel, superstep;
    uint32_t ctas, sms; /* that made an access */
    struct mt_report_volume volume;
    const struct mt_launch_event *event; /* NULL: not known */
};

/* A CTA (key as of mt_cta_order) or SM (key is its number) of one launch. */
struct mt_report_part {
    uint32_t superstep;
    uint64_t key;
    struct mt_report_volume volume;
};

struct mt_report_end {
    uint32_t kernel, superstep; /* of the host: launches before */
    uint64_t cta;               /* mt_cta_order, or MT_REPORT_NO_CTA */
};

struct mt_report_transfer {
    struct mt_report_end src, dst;
    uint64_t size, count;
};

/* A list that grows. */
#define MT_REPORT_LIST(type)                                                                                 \
    struct {                                                                                                 \
        type *at;                                                                                            \
        size_t n, room;                                                                                      \
    }

enum mt_report_has { /* what was asked for or found; the page says what is missing */
                     MT_REPORT_DATA_VOLUMES = 1,
                     MT_REPORT_COMM_VOLUMES = 2,
                     MT_REPORT_CTAS = 4,
                     MT_REPORT_SMS = 8,
                     MT_REPORT_TRANSFERS = 16,
                     MT_REPORT_SENDERS = 32,     /* of launches */
                     MT_REPORT_PART_SENDERS = 64 /* of CTAs and SMs */
};

struct mt_report {
    unsigned has;                                     /* enum mt_report_has */
    MT_REPORT_LIST(const char *) kernels;             /* [0] is "<host>"; of `names` */
    struct mt_report_name *names;                     /* by name; the report's */
    MT_REPORT_LIST(struct mt_report_launch) launches; /* ascending superstep */
    MT_REPORT_LIST(struct mt_report_part) ctas;
    MT_REPORT_LIST(struct mt_report_part) sms;
    MT_REPORT_LIST(struct mt_report_transfer) transfers;
    MT_REPORT_LIST(const struct mt_launch_event *) untraced; /* launches that are in no trace */
    MT_REPORT_LIST(struct mt_copy_event) copies;             /* ascending seq, each once */
    MT_REPORT_LIST(struct mt_site_event) sites;
    MT_REPORT_LIST(struct mt_range_event) ranges; /* each once */
    /* Writes further members of the page's data, as they are in a comm.json; may be NULL. 0,
     * or -1 without memory. */
    int (*more)(void *arg, struct mt_json *j);
    void *more_arg;
    /* Shared and local memory (analysis/onchip/onchip.h), the caller's; NULL: not looked at. */
    const struct mt_onchip *onchip;
    const struct mt_summary *summary; /* "At a glance", the caller's */
    /* words */
    const char *const *inputs;
    size_t ninputs;
    const char *title; /* NULL: the program's name */
    const char *const *notes;
    size_t nnotes;
    struct mt_gaps gaps;
    int complete;            /* 0: no; -1: not known */
    int local, strict, host; /* options of the analysis */
    int threads;             /* it is of a host program */
    int from_json;
    int with_sources;         /* lines of source files go into the page */
    const char *const *roots; /* folders whose files the user means; sources elsewhere need a known hash */
    size_t nroots;
    MT_REPORT_LIST(struct mt_text_event) texts; /* of companions that are the user's own */
    const char *kernels_text, *supersteps_text; /* filters, NULL: none */
    const struct mt_companion *companion; /* the first one that names a device, else the first; NULL: none */
    size_t companions;
    uint64_t run_launches,
        reported; /* launches of the run; records of those that are shown, UINT64_MAX: not known */
    uint64_t records, unknown, untraced_accesses, host_accesses, lost;
    const struct mt_alloc_event *allocs;
    size_t nallocs;
    struct mt_report_graph {
        const struct mt_stride_graph *graph; /* finished; NULL: not made */
        const char *stride;                  /* a sentence on what a stride is */
    } graph, lanes;                          /* by thread or CTA; between the lanes of a warp */
};

int mt_report_init(struct mt_report *r);
void mt_report_free(struct mt_report *r);

/* Number of a kernel's name; UINT32_MAX without memory. */
uint32_t mt_report_kernel(struct mt_report *r, const char *name);

/* Room for one more element of a list, zeroed; NULL without memory. */
void *mt_report_more(void *list, size_t size);

#define MT_REPORT_ADD(list) mt_report_more(&(list), sizeof *(list).at)

/* Takes over what the analysis found in selected launches. */
int mt_report_take_comm(struct mt_report *r, const struct mt_comm *c);

/* Takes over a companion's launches that are in no trace, copies and sites. Call for each companion. */
int mt_report_take_companion(struct mt_report *r, const struct mt_companion *c);

/* The same inside the page, a whole HTML document, to `fd`. 0; -1 without memory or with *error = errno. */
int mt_report_page(int fd, const struct mt_report *r, int *error);

/* Puts parts in the order of supersteps and keys, and equal ones together; how many are left. */
size_t mt_report_merge_parts(struct mt_report_part *parts, size_t n);

#endif
