/* The tables of results (relations.def) and their views (views.def) to SQL: virtual tables of SQLite that ask
 * who has the rows, one row at a time; nothing is copied. A statement can only read, and no files. */
#ifndef MT_OUTPUT_SQL_H
#define MT_OUTPUT_SQL_H
#include "output/json/rows_read.h"
#include "results.h"
#include <sqlite3.h>

struct mt_sql {
    sqlite3 *db;
    const struct mt_comm_result *r; /* what there is to read; before the first step */
    int declares;                   /* a table of ours: SQLite takes it for CREATE TABLE */
    uint64_t
        reads; /* tables that statements read, a bit each (enum mt_relation_number); who asks makes it 0 */
    uint64_t there; /* tables whose analyses were made, or that a comm.json has, the same; sentences read no
                       others */
};

/* Of tables: those that the analyses of r made, a bit each. */
uint64_t mt_sql_there(const struct mt_comm_result *r);
/* 0, or -1 with a sentence in why. */
int mt_sql_open(struct mt_sql *s, char *why, size_t room);
/* The same of a database that memtrace extract has made: its tables and views, and s->there. */
int mt_sql_open_file(struct mt_sql *s, const char *path, char *why, size_t room);
/* In place of s->r: the tables of these that a comm.json has, as tables of their own; those that it lacks
 * stay as they are, and statements that read them say so in s->reads. 0, or -1 with a sentence in why. */
int mt_sql_fill(struct mt_sql *s, const json_t *root, uint64_t which, char *why, size_t room);
/* The results of another run; no statement is prepared. An error code of SQLite. */
int mt_sql_take(struct mt_sql *s, const struct mt_comm_result *r);
/* One statement, which reads no table yet: s->reads says which it will. NULL with a sentence in why. */
sqlite3_stmt *mt_sql_prepare(struct mt_sql *s, const char *text, char *why, size_t room);
void mt_sql_close(struct mt_sql *s);
/* Tables and views, with columns, types and meanings, for people; without `ranges`, whose rows come from a
 * pass of their own. */
void mt_sql_list(struct mt_sql *s, FILE *f);
#endif
