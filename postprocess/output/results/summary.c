/* The summary: collects the sentences about a run, and orders them. */
#define _GNU_SOURCE
#include "summary.h"
#include "../findings/findings_out.h"
#include "base/text.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

static const char *const sentences[] = {
#define MT_ANALYSIS(NAME, name, ...) mt_##name##_sentences,
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS
    mt_run_sentences, mt_onchip_sentences, mt_placement_sentences};

struct mt_sentence {
    char *id, *panel, *text;
    int place, look;
    size_t number; /* position before sorting */
};

MT_ORDER_FUNCTION(summary_by_place, struct mt_sentence,
                  MT_ORDER_DIFFER(y, x, look) MT_ORDER_DIFFER(x, y, place) MT_ORDER_DIFFER(x, y, number))

static int summary_say(struct mt_summary *s, const char *id, const char *panel, int place, int look,
                       const char *text)
{
    if (mt_grow(&s->list, &s->room, s->n + 1, sizeof *s->list) != 0)
        return -1;
    struct mt_sentence *x = &s->list[s->n];
    *x = (struct mt_sentence){strdup(id), strdup(panel), strdup(text), place, look, s->n};
    s->n++;
    return x->id && x->panel && x->text ? 0 : -1;
}

static const char *summary_text(sqlite3_stmt *x, int column)
{
    const char *text = (const char *)sqlite3_column_text(x, column);
    return text ? text : "";
}

static int summary_rows(struct mt_summary *s, sqlite3_stmt *x)
{
    int rc;
    while ((rc = sqlite3_step(x)) == SQLITE_ROW)
        if (summary_say(s, summary_text(x, 0), summary_text(x, 1), sqlite3_column_int(x, 2),
                        sqlite3_column_int(x, 3), summary_text(x, 4)) != 0)
            return -1;
    return rc == SQLITE_DONE ? 0 : -1;
}

/* Runs all SELECTs of a text and adds their sentences. */
static int summary_ask(struct mt_summary *s, struct mt_sql *sql, const char *text)
{
    int rc = 0;
    while (rc == 0 && *text) {
        sqlite3_stmt *x = NULL;
        sql->reads = 0;
        rc = sqlite3_prepare_v2(sql->db, text, -1, &x, &text) == SQLITE_OK ? 0 : -1;
        if (rc == 0 && !(sql->reads & ~sql->there))
            rc = summary_rows(s, x);
        sqlite3_finalize(x);
    }
    return rc;
}

static int summary_finding(void *arg, int look, const char *sentence)
{
    return summary_say(arg, "finding", "", 160, look, sentence);
}

int mt_summary_make(struct mt_summary *s, struct mt_sql *sql, const struct mt_findings *findings)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof sentences / sizeof *sentences; i++)
        rc = summary_ask(s, sql, sentences[i]);
    if (rc == 0 && findings)
        rc = mt_findings_summary(findings, summary_finding, s);
    if (s->n)
        qsort(s->list, s->n, sizeof *s->list, summary_by_place);
    return rc;
}

/* Returns the tables that the analyses of r have made, a bit each. */
static uint64_t summary_there(const struct mt_comm_result *r)
{
    uint64_t there = 0;
    for (int i = 0; i < MT_TABLES; i++) {
        const unsigned needs = mt_relations_section((enum mt_relation_number)i);
        const int is = mt_relations[i].of == MT_OF_ONCHIP ? r->onchip != NULL : !needs || needs & r->chosen;
        there |= (uint64_t)is << i;
    }
    return there & ~(1ull << MT_REL_ranges);
}

int mt_summary_of(struct mt_summary *s, const struct mt_comm_result *r, const struct mt_findings *findings)
{
    struct mt_sql sql;
    char why[300];
    if (mt_sql_open(&sql, why, sizeof why) != 0)
        return -1;
    sql.r = r;
    sql.there = summary_there(r);
    int rc = mt_summary_make(s, &sql, findings);
    mt_sql_close(&sql);
    return rc;
}

/* ---- output ---- */

/* Replaces marked names by their short forms. */
static void summary_plain(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at += *at != 0) {
        if (*at == '\2')
            at = strchrnul(at, '\3');
        if ((unsigned char)*at > 3)
            *to++ = *at;
    }
    *to = 0;
}

void mt_summary_print(struct mt_summary *s, FILE *f)
{
    for (size_t i = 0; i < s->n; i++) {
        summary_plain(s->list[i].text);
        fputs(s->list[i].look ? "! " : "- ", f);
        mt_text_put(f, s->list[i].text);
        fputc('\n', f);
    }
}

void mt_summary_json(struct mt_json *j, const struct mt_summary *s)
{
    mt_json_array(j, "glance", 0);
    for (size_t i = 0; i < s->n; i++) {
        mt_json_array(j, NULL, 1);
        mt_json_text(j, NULL, s->list[i].id);
        mt_json_text(j, NULL, s->list[i].panel);
        mt_json_u64(j, NULL, (uint64_t)s->list[i].look);
        mt_json_text(j, NULL, s->list[i].text);
        mt_json_end(j);
    }
    mt_json_end(j);
}

void mt_summary_free(struct mt_summary *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->list[i].id);
        free(s->list[i].panel);
        free(s->list[i].text);
    }
    free(s->list);
    *s = (struct mt_summary){.n = 0};
}
