/* What stands out, in sentences: said once, for terminals ("memtrace summary") and for the page's "At a
 * glance". A sentence is a SELECT on the tables of results (relations.def), in the file of what it is about;
 * its rows are
 *
 *   id, panel of the page that shows it ("lines&line=a.cu:7"; '': none), place among sentences (ascending),
 *   look (1: it deserves one, and comes first), the sentence
 *
 * A sentence is asked only where all tables that it reads are there; one without rows is not said. What is
 * said of kernels and of host programs is told apart by either(kernels, threads); mark(shown, whole) is a
 * name whose whole form the page has, too. Several SELECTs are separated by semicolons. Functions that return
 * int: 0, or -1 without memory. */
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
extern const char mt_run_sentences[], mt_placement_sentences[], mt_onchip_sentences[];

struct mt_sentence;
/* In their order; zero-initialised is empty. */
struct mt_summary {
    struct mt_sentence *list;
    size_t n, room;
};

/* Those of the tables, and of `findings` (NULL: none were looked for) what no other sentence speaks of. */
int mt_summary_make(struct mt_summary *s, struct mt_sql *sql, const struct mt_findings *findings);
/* The same of results whose analyses have all come to their end. */
int mt_summary_of(struct mt_summary *s, const struct mt_comm_result *r, const struct mt_findings *findings);
/* A line each, "! " before those that deserve a look; marks are gone then. */
void mt_summary_print(struct mt_summary *s, FILE *f);
/* Member `glance` of the page's data: [[id, panel, look, sentence], …]; a marked name is U+0001, as shown,
 * U+0002, whole, U+0003. */
void mt_summary_json(struct mt_json *j, const struct mt_summary *s);
void mt_summary_free(struct mt_summary *s);
#endif
