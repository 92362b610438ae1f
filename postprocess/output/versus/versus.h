/* Two runs side by side: which kernel, line and buffer of one is which of the other (docs/definitions.md,
 * "Before and after"). */
#ifndef MT_OUTPUT_VERSUS_H
#define MT_OUTPUT_VERSUS_H

#include "analysis/base/parts.h"
#include "output/results/sql.h"
#include <stdlib.h>

enum mt_figure {
#define MT_FIGURE(NAME, name, fold, known, in, judged, words, head) MT_FIGURE_##NAME,
#include "figures.def"
    MT_FIGURES,
    MT_FIGURE_EFFICIENCY = MT_FIGURES, /* of docs/definitions.md, made of others */
    MT_FIGURES_ALL
};

struct mt_figure_words {
    const char *name, *words[2], *head[2]; /* of kernels and of host programs; head: as a column is called */
    const char *in;                        /* figures.def */
    int judged;
};

extern const struct mt_figure_words mt_figure_words[MT_FIGURES_ALL];

/* What of A is what of B: the whole runs, a kernel, a line or a buffer. Texts are NULL where the run has none
 * that fits, or does not know the figure. */
struct mt_versus_row {
    char *of, *by; /* one number for a kernel, its lines and its buffers; "a": all; "k", "l", "b" */
    char *kernel[2], *place[2]; /* a line as "file:line", a buffer's name; "?": not known; "" of a kernel */
    char *v[MT_FIGURES][2];
};

struct mt_versus_list {
    const struct mt_versus_row *row; /* in the order of B, then those that only A has */
    size_t n;
};

struct mt_versus_kernel {
    const struct mt_versus_row *row;
    struct mt_versus_list lines, buffers;
    double change; /* the most that it has of the difference of a figure of mt_versus_moved: 1 is all there is
                    * of the figure; 0: none of them moved */
};

enum mt_verdict { MT_VERDICT_SAME, MT_VERDICT_BETTER, MT_VERDICT_WORSE, MT_VERDICT_MIXED, MT_VERDICT_NONE };
extern const char *const mt_verdict_words[5];

/* Zero-initialised is empty. */
struct mt_versus {
    struct mt_sql sql; /* of the run that is taken; and tables of both */
    struct mt_run_parts parts[2];
    char **table;                     /* the rows, as SQLite has them */
    const struct mt_versus_row *all;  /* NULL: nothing is compared */
    struct mt_versus_kernel *kernels; /* by `change`, then most sectors (bytes where these are not known) */
    size_t count;
    enum mt_verdict verdict;
    int other_work; /* the two do not access the same number of bytes */
    /* The kernel of which the two have the most different parts of the CTAs; NULL: they have the same of all.
     * Then the figures are of different things, and there is no verdict. */
    const char *unlike;
    const struct mt_run_part *part[2];
    struct mt_untraced untraced[2]; /* of the kernels that are compared; no figure counts them */
    int unseen; /* they are not as many in both, by what the verdict would take for a change: there is none */
    size_t moved; /* lines that were found again elsewhere */
    int no_lines; /* a bit for each run that knows no source lines: then none are compared */
};

/* Less than this part is no change for the verdict. */
#define MT_VERSUS_SLACK 0.01

/* Figures of run 0, then of run 1; its results are finished. 0, or -1 without memory. */
int mt_versus_take(struct mt_versus *p, int run, const struct mt_comm_result *r);

/* Puts them side by side; one that was not taken has none. The inputs of both runs are still there. 0, or -1
 * without memory. */
int mt_versus_make(struct mt_versus *p);

void mt_versus_free(struct mt_versus *p);

static inline uint64_t mt_versus_number(const struct mt_versus_row *r, int run, int figure)
{
    return r->v[figure][run] ? strtoull(r->v[figure][run], NULL, 10) : 0;
}

/* One of the two knows it, or it is made of others. */
static inline int mt_versus_has(const struct mt_versus_row *r, int figure)
{
    return figure == MT_FIGURE_EFFICIENCY || r->v[figure][0] || r->v[figure][1];
}

/* Of 'k' (itself), 'l' or 'b'. */
static inline struct mt_versus_list mt_versus_rows(const struct mt_versus_kernel *k, char by)
{
    return by == 'k' ? (struct mt_versus_list){k->row, 1} : by == 'l' ? k->lines : k->buffers;
}

/* B's, or A's if that has none that fits. */
static inline const char *mt_versus_kernel_name(const struct mt_versus_row *r)
{
    return r->kernel[r->kernel[1] != NULL];
}

/* Of run 0 or 1; negative: not known, or the run has no such row. */
double mt_versus_value(const struct mt_versus_row *r, int run, enum mt_figure f);

/* Both know the figure. */
int mt_versus_both(const struct mt_versus_row *r, enum mt_figure f);

/* (b - a) / a of a figure in *change: 1; 0: one of the two is not known or does not exist, or a is 0. */
int mt_versus_change(const struct mt_versus_row *r, enum mt_figure f, double *change);

/* 1: the figure is more in b, -1: less, by MT_VERSUS_SLACK or more. 0: neither, or not known, or it is none
 * that says that something changed: these are the judged ones, and bytes. What a run does not have at all is
 * 0. */
int mt_versus_moved(const struct mt_versus_row *r, enum mt_figure f);

/* ---- told (docs/man/memtrace-compare.md) ---- */

struct mt_versus_words {
    const char *const *paths[2]; /* of a and b */
    size_t npaths[2];
    int complete[2];   /* below 0: not known */
    const char *title; /* of the page; NULL: its own */
};

/* `page` in what follows: numbers as pages have them, "8,192 → 2,048 (−75.0 %)". */

/* The verdict as a sentence: the caller frees it; NULL without memory. */
char *mt_versus_sentence(const struct mt_versus *p, int page);

enum { MT_VERSUS_CELL = 96 };

/* A figure of run 0 or 1; "-" where it is not known. Returns out. */
const char *mt_versus_side(char out[MT_VERSUS_CELL], const struct mt_versus_row *r, int run, enum mt_figure f,
                           int page);

/* Of both: "8192 -> 2048 (-75.0 %)", "12" where they are equal. Returns out. */
const char *mt_versus_cell(char out[MT_VERSUS_CELL], const struct mt_versus_row *r, enum mt_figure f,
                           int page);

/* 1: B is better, -1: worse; 0: neither, or not known. */
int mt_versus_turn(const struct mt_versus_row *r, enum mt_figure f);

/* The columns of a table (a letter of `in`, figures.def): those of which a run has any in these rows. How
 * many. */
size_t mt_versus_columns(struct mt_versus_list list, char in, enum mt_figure out[MT_FIGURES_ALL]);

/* Why there are no source lines; NULL: there are. */
const char *mt_versus_no_lines(const struct mt_versus *p);

/* Everything as tables. 0, or -1 without memory. */
int mt_versus_text(FILE *f, const struct mt_versus *p, const struct mt_versus_words *w);

/* One whole document. 0, or -1 without memory. */
int mt_versus_json(struct mt_json *j, const struct mt_versus *p, const struct mt_versus_words *w);

#endif
