/* What is compared of one run: its figures by kernel, by source line and by buffer, sums over launches. */
#ifndef MT_ANALYSIS_SIDE_H
#define MT_ANALYSIS_SIDE_H
#include "analysis/comm/comm.h"
#include "analysis/locality/locality.h"
#include "analysis/locality/placement.h"
#include "analysis/base/sites.h"
#include "analysis/onchip/onchip.h"
#include "parts.h"

enum mt_figure {
#define MT_FIGURE(NAME, name, words, head, judged) MT_FIGURE_##NAME,
#include "figures.def"
#undef MT_FIGURE
    MT_FIGURES
};
struct mt_figure_words {
    const char *name, *words[2], *head[2]; /* of kernels and of host programs; head: as a column is called */
    int judged;
};
extern const struct mt_figure_words mt_figure_words[MT_FIGURES];

struct mt_side_row {
    const char *kernel; /* "" in the sum */
    const char *place;  /* a line as "file:line", a buffer's name; "" of a kernel, "?": not known */
    unsigned known;     /* a bit for each figure */
    uint64_t v[MT_FIGURES];
    uint64_t first; /* of buffers: lowest number of an allocation that is called so */
    const uint64_t
        *tokens; /* of lines: its accesses by column, hashed (with variable, then without); NULL: none */
    size_t ntokens;
};
enum mt_side_by { MT_SIDE_KERNELS, MT_SIDE_LINES, MT_SIDE_BUFFERS, MT_SIDE_BY };

struct mt_run_side {
    struct mt_side_row all, *rows[MT_SIDE_BY]; /* by kernel and place */
    size_t count[MT_SIDE_BY], room[MT_SIDE_BY];
    unsigned devices; /* of the figure `crossing` */
    int has_lines;    /* the trace knows source lines */
    struct mt_side_token {
        const char *file;
        uint64_t line, column, hash, weak;
    } *tokens;
    uint64_t *hashes; /* of rows' tokens */
    char **texts;     /* names of buffers and lines */
    size_t ntokens, token_room, nhashes, ntexts, text_room;
    struct mt_run_parts parts; /* gathered by the caller, or empty */
};

/* Results of one run, finished. Texts stay theirs. */
struct mt_side_of {
    const struct mt_comm *comm;
    const struct mt_locality *more;
    const struct mt_sites *sites;
    const struct mt_placement *placement;
    const struct mt_onchip_rows *onchip; /* NULL: the run has no records of shared and local memory */
};

/* Sites of a companion; before the fill. 0, or -1 without memory. */
int mt_side_sites(struct mt_run_side *s, const struct mt_site_event *sites, size_t n);
/* 0, or -1 without memory. */
int mt_side_fill(struct mt_run_side *s, const struct mt_side_of *of);
void mt_side_free(struct mt_run_side *s);
/* The efficiency of docs/definitions.md; negative: not known. */
static inline double mt_side_efficiency(const struct mt_side_row *r)
{
    int known = r && r->known >> MT_FIGURE_SECTORS & 1 && r->v[MT_FIGURE_SECTORS];
    return known ? mt_efficiency(r->v[MT_FIGURE_DISTINCT], r->v[MT_FIGURE_SECTORS]) : -1;
}
#endif
