/* Two runs side by side: which kernel, line and buffer of one is which of the other (docs/definitions.md,
 * "Before and after"). */
#ifndef MT_ANALYSIS_VERSUS_H
#define MT_ANALYSIS_VERSUS_H
#include "side.h"

/* Of run a and of run b; NULL: the run has none that fits. */
struct mt_versus_row {
    const struct mt_side_row *a, *b;
};
struct mt_versus_kernel {
    struct mt_versus_row row;
    struct mt_versus_row
        *part[MT_SIDE_BY]; /* lines and buffers, in the order of b, then those that only a has */
    size_t count[MT_SIDE_BY];
    double change; /* the most that it has of the difference of a figure of mt_versus_moved: 1 is all there is
                    * of the figure; 0: none of them moved */
};
enum mt_verdict { MT_VERDICT_SAME, MT_VERDICT_BETTER, MT_VERDICT_WORSE, MT_VERDICT_MIXED, MT_VERDICT_NONE };
extern const char *const mt_verdict_words[5];

struct mt_versus {
    struct mt_versus_row all;
    struct mt_versus_kernel *kernels; /* by `change`, then most sectors (bytes where these are not known) */
    size_t count;
    enum mt_verdict verdict;
    int other_work; /* the two do not access the same number of bytes */
    /* The kernel of which the two have the most different parts of the CTAs; NULL: they have the same of all.
     * Then the figures are of different things, and there is no verdict. */
    const struct mt_side_row *unlike;
    const struct mt_run_part *part[2];
    struct mt_untraced untraced[2]; /* of the kernels that are compared; no figure counts them */
    int unseen; /* they are not as many in both, by what the verdict would take for a change: there is none */
    size_t moved; /* lines that were found again elsewhere */
    int no_lines; /* a bit for each run that knows no source lines: then none are compared */
};

/* Less than this part is no change for the verdict. */
#define MT_VERSUS_SLACK 0.01

/* `a` and `b` stay the caller's, and as they are. 0, or -1 without memory. */
int mt_versus_make(struct mt_versus *p, const struct mt_run_side *a, const struct mt_run_side *b);
void mt_versus_free(struct mt_versus *p);
/* (b - a) / a of a figure in *change: 1; 0: one of the two is not known or does not exist, or a is 0. */
int mt_versus_change(const struct mt_versus_row *r, enum mt_figure f, double *change);
/* Both are there and know the figure. */
int mt_versus_both(const struct mt_versus_row *r, enum mt_figure f);
/* 1: the figure is more in b, -1: less, by MT_VERSUS_SLACK or more. 0: neither, or not known, or it is none
 * that says that something changed: these are the judged ones, and bytes. What a run does not have at all is
 * 0. */
int mt_versus_moved(const struct mt_versus_row *r, enum mt_figure f);
/* The most that the row has of the larger run's sum (`all`) of a figure that moved: 0 to 1. */
double mt_versus_share(const struct mt_versus_row *all, const struct mt_versus_row *r);
#endif
