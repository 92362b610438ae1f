/* Comparison of two runs: matches kernels, lines and buffers of one run with those of the other
 * (docs/definitions.md, "Before and after"). */
#ifndef MT_OUTPUT_VERSUS_H
#define MT_OUTPUT_VERSUS_H

#include "analysis/base/parts.h"
#include "output/results/sql.h"
#include <stdlib.h>

enum mt_figure {
#define MT_FIGURE(NAME, name, fold, known, in, judged, words, head) MT_FIGURE_##NAME,
#include "figures.def"
    MT_FIGURES,
    MT_FIGURE_EFFICIENCY = MT_FIGURES, /* figures of docs/definitions.md that are computed from others */
    MT_FIGURES_ALL
};

struct mt_figure_words {
    const char *name, *words[2],
        *head[2];   /* words for kernels and for host programs; head: as a column title */
    const char *in; /* tables with this column, see figures.def */
    int judged;
};

extern const struct mt_figure_words mt_figure_words[MT_FIGURES_ALL];

/* A pair of matching rows of runs A and B: the whole runs, a kernel, a line or a buffer. Texts are NULL if
 * the run has no match or does not know the figure. */
struct mt_versus_row {
    char *of,
        *by; /* of: number shared by a kernel, its lines and its buffers; by: "a" (all), "k", "l" or "b" */
    char *kernel[2], *place[2]; /* a line as "file:line", a buffer's name; "?": unknown; "" for a kernel */
    char *v[MT_FIGURES][2];
};

struct mt_versus_list {
    const struct mt_versus_row *row; /* in the order of B, then rows that only A has */
    size_t n;
};

struct mt_versus_kernel {
    const struct mt_versus_row *row;
    struct mt_versus_list lines, buffers;
    double change; /* largest share of a moved figure (mt_versus_moved), 0 to 1; 0: no figure moved */
};

enum mt_verdict { MT_VERDICT_SAME, MT_VERDICT_BETTER, MT_VERDICT_WORSE, MT_VERDICT_MIXED, MT_VERDICT_NONE };
extern const char *const mt_verdict_words[5];

/* Zero-initialised is empty. */
struct mt_versus {
    struct mt_sql sql; /* database: the current run's tables, and the tables of both runs */
    struct mt_run_parts parts[2];
    char **table;                     /* result of SQLite that owns the rows' texts */
    const struct mt_versus_row *all;  /* comparison of the whole runs; NULL: nothing was compared */
    struct mt_versus_kernel *kernels; /* by `change`, then by sectors, or bytes if sectors are unknown */
    size_t count;
    enum mt_verdict verdict;
    int other_work; /* 1: the runs access different numbers of bytes */
    /* Kernel whose traced CTAs differ most between the runs, or NULL. If set, the figures are not comparable
     * and there is no verdict. */
    const char *unlike;
    const struct mt_run_part *part[2];
    struct mt_untraced untraced[2]; /* untraced accesses of the compared kernels, included in no figure */
    int unseen;   /* 1: untraced accesses differ by more than the verdict's slack, so there is no verdict */
    size_t moved; /* lines matched at another place */
    int no_lines; /* a bit for each run without source lines; if set, no lines are compared */
};

/* Relative difference below which the verdict sees no change. */
#define MT_VERSUS_SLACK 0.01

/* Adds the figures of run 0, then of run 1, from finished results. Returns 0, or -1 without memory. */
int mt_versus_take(struct mt_versus *p, int run, const struct mt_comm_result *r);

/* Compares the runs; a run that was not added has no figures. Returns 0, or -1 without memory. */
int mt_versus_make(struct mt_versus *p);

void mt_versus_free(struct mt_versus *p);

static inline uint64_t mt_versus_number(const struct mt_versus_row *r, int run, int figure)
{
    return r->v[figure][run] ? strtoull(r->v[figure][run], NULL, 10) : 0;
}

/* Returns 1 if a run has the figure, or if it is computed from others. */
static inline int mt_versus_has(const struct mt_versus_row *r, int figure)
{
    return figure == MT_FIGURE_EFFICIENCY || r->v[figure][0] || r->v[figure][1];
}

/* Returns the rows of a kernel: 'k' (itself), 'l' or 'b'. */
static inline struct mt_versus_list mt_versus_rows(const struct mt_versus_kernel *k, char by)
{
    return by == 'k' ? (struct mt_versus_list){k->row, 1} : by == 'l' ? k->lines : k->buffers;
}

/* Returns the kernel's name in B, or in A if B has no match. */
static inline const char *mt_versus_kernel_name(const struct mt_versus_row *r)
{
    return r->kernel[r->kernel[1] != NULL];
}

/* ---- output (docs/man/memtrace-compare.md) ---- */

struct mt_versus_words {
    const char *const *paths[2]; /* paths of the traces of a and b */
    size_t npaths[2];
    int complete[2];   /* 1: complete; negative: unknown */
    const char *title; /* title of the page; NULL: the default */
    const char *style; /* the page's CSS */
    size_t style_bytes;
};

/* Writes everything as text tables. Returns 0, or -1 without memory. */
int mt_versus_text(FILE *f, const struct mt_versus *p, const struct mt_versus_words *w);

/* Writes one whole document. Returns 0, or -1 without memory. */
int mt_versus_json(struct mt_json *j, const struct mt_versus *p, const struct mt_versus_words *w);

/* Writes one HTML document that needs no script, no network and no other file; all texts from traces are
 * escaped. Returns 0, or -1 without memory; write errors are left in the stream. */
int mt_versus_page(FILE *f, const struct mt_versus *p, const struct mt_versus_words *w);

#endif
