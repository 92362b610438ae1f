/* Summary: sentences about what stands out in a run, for terminals ("memtrace summary") and for the page's
 * "At a glance". A sentence comes from a SELECT on the tables of results (relations.def), in the file of its
 * analysis. The columns of its rows are
 *
 *   id; panel of the page with details ("lines&line=a.cu:7"; '': none); position (ascending);
 *   look (1: deserves attention, so it comes first); the sentence
 *
 * A SELECT runs only if all tables that it reads exist; without rows there is no sentence. In a SELECT
 * either(kernels, threads) chooses between words for kernels and for host programs, and mark(shown, whole) is
 * a shortened name whose full form the page shows, too. Semicolons separate several SELECTs. Functions that
 * return int return 0, or -1 without memory. */
#ifndef MT_OUTPUT_SUMMARY_H
#define MT_OUTPUT_SUMMARY_H
#include "sql.h"
#include "analysis/check/findings.h"

#define MT_ANALYSIS(NAME, name, ...)                                                                         \
    int mt_##name##_json(struct mt_json *j, const struct mt_comm_result *r);                                 \
    int mt_##name##_text(struct mt_text *t);                                                                 \
    extern const char mt_##name##_sentences[];
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS
/* Heap of a host program, beside the section traffic. */
int mt_heap_json(struct mt_json *j, const struct mt_comm_result *r);
int mt_heap_text(struct mt_text *t);
extern const char mt_run_sentences[], mt_placement_sentences[], mt_onchip_sentences[];

struct mt_sentence;
/* The sentences in order. Zero-initialised is empty. */
struct mt_summary {
    struct mt_sentence *list;
    size_t n, room;
};

/* Makes the summary from the tables, and from `findings` that no other sentence covers (NULL: not checked).
 */
int mt_summary_make(struct mt_summary *s, struct mt_sql *sql, const struct mt_findings *findings);
/* Makes the summary of results whose analyses have all finished. */
int mt_summary_of(struct mt_summary *s, const struct mt_comm_result *r, const struct mt_findings *findings);
/* Prints a line per sentence, with "! " before those that deserve attention; marked names are shown in short.
 */
void mt_summary_print(struct mt_summary *s, FILE *f);
/* Writes the member `glance` of the page's data: [[id, panel, look, sentence], …]. A marked name is U+0001,
 * short form, U+0002, full form, U+0003. */
void mt_summary_json(struct mt_json *j, const struct mt_summary *s);
void mt_summary_free(struct mt_summary *s);
#endif
