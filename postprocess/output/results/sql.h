/* SQL over the results: the tables of relations.def as SQLite virtual tables, whose rows are made one at a
 * time without copying, and the views of views.def. Statements can only read, and only these tables, no
 * files. */
#ifndef MT_OUTPUT_SQL_H
#define MT_OUTPUT_SQL_H
#include "output/json/rows_read.h"
#include "results.h"
#include <sqlite3.h>

struct mt_sql {
    sqlite3 *db;
    const struct mt_comm_result *r; /* results to read; set before the first step */
    int declares; /* 1 while a table of ours is declared, which SQLite reports as CREATE TABLE */
    uint64_t
        reads; /* tables that statements have read, a bit each (enum mt_relation_number); callers reset it */
    uint64_t there; /* tables available: their analyses were made, or the comm.json has them; sentences read
                       no others */
};

/* Opens an empty in-memory database with our tables. Returns 0, or -1 with a sentence in why. */
int mt_sql_open(struct mt_sql *s, char *why, size_t room);
/* Opens a database that memtrace extract has written; sets s->there. Returns 0, or -1 with a sentence in why.
 */
int mt_sql_open_file(struct mt_sql *s, const char *path, char *why, size_t room);
/* Fills tables from a comm.json, used instead of s->r. `which` chooses the tables; those missing in the file
 * stay virtual, and statements that read them show in s->reads. Returns 0, or -1 with a sentence in why. */
int mt_sql_fill(struct mt_sql *s, const json_t *root, uint64_t which, char *why, size_t room);
/* Switches to the results of another run, while no statement is prepared. Returns an error code of SQLite. */
int mt_sql_take(struct mt_sql *s, const struct mt_comm_result *r);
/* Prepares one statement. Reads no table yet; s->reads is set to those it will read. Returns NULL with a
 * sentence in why. */
sqlite3_stmt *mt_sql_prepare(struct mt_sql *s, const char *text, char *why, size_t room);
void mt_sql_close(struct mt_sql *s);
/* Prints tables and views with columns, types and descriptions, without `ranges`, whose rows come from a pass
 * of their own. */
void mt_sql_list(struct mt_sql *s, FILE *f);
#endif
