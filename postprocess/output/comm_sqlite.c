/* The results as an SQLite database. Integers are signed there: addresses of 2^63 and more, which no process
 * has, would come out negative. */
#include "comm_formats.h"
#include "comm_parts.h"
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

struct mt_db {
    sqlite3 *db;
    sqlite3_stmt *range;
    char why[300];
};

/* launches.id is the superstep; those that filters leave out are there, too, because they may be the source
 * of transfers, but have no volumes. `kernels` and `ctas` have the names and columns that the tables of
 * cuda-memtrace's cta-sets.py had: what was written for those goes on working. */
static const char tables[] =
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;"
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    "CREATE TABLE launches (id INTEGER PRIMARY KEY, kernel TEXT NOT NULL, mangled TEXT, signature TEXT, seq "
    "INTEGER,"
    " stream INTEGER, grid_x INTEGER, grid_y INTEGER, grid_z INTEGER, block_x INTEGER, block_y INTEGER, "
    "block_z INTEGER,"
    " shared INTEGER, file TEXT, line INTEGER, begin_ns INTEGER, end_ns INTEGER, untraced INTEGER, selected "
    "INTEGER NOT NULL);"
    "CREATE TABLE cta_volumes (launch INTEGER NOT NULL REFERENCES launches(id), x INTEGER, y INTEGER, z "
    "INTEGER,"
    " sm INTEGER, load INTEGER, store INTEGER, comm_load INTEGER, comm_store INTEGER);"
    "CREATE TABLE host_volumes (id INTEGER PRIMARY KEY, superstep INTEGER, place TEXT, load INTEGER, store "
    "INTEGER,"
    " comm_load INTEGER, comm_store INTEGER);"
    "CREATE TABLE transfers (src_launch INTEGER REFERENCES launches(id), src_x INTEGER, src_y INTEGER, src_z "
    "INTEGER,"
    " src_host INTEGER REFERENCES host_volumes(id), dst_launch INTEGER REFERENCES launches(id), dst_x "
    "INTEGER,"
    " dst_y INTEGER, dst_z INTEGER, dst_host INTEGER REFERENCES host_volumes(id), bytes INTEGER, accesses "
    "INTEGER,"
    " unordered INTEGER);"
    "CREATE TABLE sites (id INTEGER PRIMARY KEY, file TEXT, line INTEGER, column INTEGER, function TEXT, op "
    "TEXT,"
    " size INTEGER, variable TEXT);"
    "CREATE TABLE allocations (id INTEGER PRIMARY KEY, base INTEGER, bytes INTEGER, kind TEXT, name TEXT, "
    "file TEXT,"
    " line INTEGER, seq INTEGER, free_seq INTEGER);"
    "CREATE TABLE ranges (launch INTEGER NOT NULL REFERENCES launches(id), x INTEGER, y INTEGER, z INTEGER,"
    " kind INTEGER, start INTEGER, stop INTEGER);";

static const char views[] =
    "CREATE INDEX cta_volumes_launch ON cta_volumes(launch);"
    "CREATE INDEX transfers_dst ON transfers(dst_launch);"
    "CREATE INDEX transfers_src ON transfers(src_launch);"
    "CREATE INDEX launches_kernel ON launches(kernel);"
    "CREATE INDEX ranges_launch ON ranges(launch, x, y, z);"
    "CREATE INDEX ranges_start ON ranges(start);"
    "CREATE INDEX allocations_base ON allocations(base);"
    "CREATE VIEW kernels AS SELECT id, (SELECT value FROM meta WHERE key = 'tag') AS tag, kernel, id AS "
    "launch"
    " FROM launches;"
    "CREATE VIEW ctas AS SELECT launch AS kernel, x, y, z, kind, start, stop FROM ranges;"
    "CREATE VIEW kernel_volumes AS SELECT l.id AS launch, l.kernel, total(load) AS load, total(store) AS "
    "store,"
    " total(comm_load) AS comm_load, total(comm_store) AS comm_store FROM launches l LEFT JOIN cta_volumes v"
    " ON v.launch = l.id WHERE l.selected GROUP BY l.id;"
    "CREATE VIEW sm_volumes AS SELECT launch, sm, sum(load) AS load, sum(store) AS store, sum(comm_load) AS "
    "comm_load,"
    " sum(comm_store) AS comm_store FROM cta_volumes GROUP BY launch, sm;"
    "CREATE VIEW kernel_transfers AS SELECT coalesce(s.kernel, '<host>') AS source, coalesce(d.kernel, "
    "'<host>') AS"
    " reader, sum(bytes) AS bytes, sum(accesses) AS accesses FROM transfers t LEFT JOIN launches s ON s.id ="
    " t.src_launch LEFT JOIN launches d ON d.id = t.dst_launch GROUP BY 1, 2;"
    "COMMIT;";

static int comm_sqlite_fail(struct mt_db *d)
{
    snprintf(d->why, sizeof d->why, "%s", sqlite3_errmsg(d->db));
    return -1;
}

struct mt_db *mt_db_open(const char *path, char *why, size_t size)
{
    struct mt_db *d = calloc(1, sizeof *d);
    if (!d) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    if (sqlite3_open_v2(path, &d->db, SQLITE_OPEN_READWRITE, NULL) ||
        sqlite3_exec(d->db, tables, NULL, NULL, NULL) ||
        sqlite3_prepare_v2(d->db, "INSERT INTO ranges VALUES (?,?,?,?,?,?,?)", -1, &d->range, NULL)) {
        snprintf(why, size, "%s", d->db ? sqlite3_errmsg(d->db) : "out of memory");
        mt_db_close(d);
        return NULL;
    }
    return d;
}

void mt_db_close(struct mt_db *d)
{
    if (!d)
        return;
    sqlite3_finalize(d->range);
    sqlite3_close(d->db);
    free(d);
}

const char *mt_db_why(const struct mt_db *d)
{
    return d->why;
}

/* ---- rows ---- */

/* Columns are bound from left to right, then row() inserts. */
struct table {
    sqlite3_stmt *s;
    int column;
};

static int comm_sqlite_table(struct mt_db *d, struct table *t, const char *sql)
{
    *t = (struct table){.column = 0};
    return sqlite3_prepare_v2(d->db, sql, -1, &t->s, NULL) ? comm_sqlite_fail(d) : 0;
}

static void comm_sqlite_number(struct table *t, uint64_t v)
{
    sqlite3_bind_int64(t->s, ++t->column, (sqlite3_int64)v);
}

/* "" becomes NULL: not known. */
static void comm_sqlite_text(struct table *t, const char *v)
{
    if (v && *v)
        sqlite3_bind_text(t->s, ++t->column, v, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(t->s, ++t->column);
}

static void comm_sqlite_nulls(struct table *t, int n)
{
    while (n-- > 0)
        sqlite3_bind_null(t->s, ++t->column);
}

static int comm_sqlite_row(struct mt_db *d, struct table *t)
{
    int rc = sqlite3_step(t->s);
    sqlite3_reset(t->s);
    t->column = 0;
    return rc == SQLITE_DONE ? 0 : comm_sqlite_fail(d);
}

static void comm_sqlite_cta(struct table *t, uint64_t word)
{
    comm_sqlite_number(t, word >> 32);
    comm_sqlite_number(t, word >> 16 & 0xffff);
    comm_sqlite_number(t, word & 0xffff);
}

/* ---- the tables ---- */

static int comm_sqlite_launches(struct mt_db *d, const struct mt_comm_result *r)
{
    struct table t;
    int rc = comm_sqlite_table(d, &t, "INSERT INTO launches VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; rc == 0 && i < r->comm->nlaunches; i++) {
        const struct mt_launch_event *e = r->events[i];
        comm_sqlite_number(&t, i);
        sqlite3_bind_text(t.s, ++t.column, r->comm->launches[i].kernel, -1, SQLITE_STATIC); /* may be "" */
        if (e) {
            comm_sqlite_text(&t, e->mangled);
            comm_sqlite_text(&t, e->signature);
            comm_sqlite_number(&t, e->seq);
            comm_sqlite_number(&t, e->stream);
            for (int k = 0; k < 3; k++)
                comm_sqlite_number(&t, e->grid[k]);
            for (int k = 0; k < 3; k++)
                comm_sqlite_number(&t, e->block[k]);
            comm_sqlite_number(&t, e->shared);
            comm_sqlite_text(&t, e->file);
            comm_sqlite_number(&t, e->line);
            comm_sqlite_number(&t, e->begin_ns);
            comm_sqlite_number(&t, e->end_ns);
            comm_sqlite_number(&t, e->untraced);
        } else {
            comm_sqlite_nulls(&t, 16);
        }
        comm_sqlite_number(&t, r->comm->launches[i].selected != 0);
        rc = comm_sqlite_row(d, &t);
    }
    sqlite3_finalize(t.s);
    return rc;
}

static int comm_sqlite_volumes(struct mt_db *d, const struct mt_comm *c)
{
    struct table t;
    int rc = comm_sqlite_table(d, &t, "INSERT INTO cta_volumes VALUES (?,?,?,?,?,?,?,?,?)");
    for (uint32_t i = 1; rc == 0 && i < c->nactors; i++) {
        const struct mt_actor *a = &c->actors[i];
        if (!c->launches[a->launch].selected)
            continue;
        comm_sqlite_number(&t, a->launch);
        comm_sqlite_cta(&t, a->cta);
        comm_sqlite_number(&t, a->smid);
        comm_sqlite_number(&t, a->load);
        comm_sqlite_number(&t, a->store);
        comm_sqlite_number(&t, a->comm_load);
        comm_sqlite_number(&t, a->comm_store);
        rc = comm_sqlite_row(d, &t);
    }
    sqlite3_finalize(t.s);
    return rc;
}

static int comm_sqlite_hosts(struct mt_db *d, const struct mt_comm *c)
{
    struct table t;
    int rc = comm_sqlite_table(d, &t, "INSERT INTO host_volumes VALUES (?,?,?,?,?,?,?)");
    for (size_t i = 0; rc == 0 && i < c->nhosts; i++) {
        const struct mt_host_actor *h = &c->hosts[i];
        comm_sqlite_number(&t, i);
        comm_sqlite_number(&t, h->superstep);
        comm_sqlite_text(&t, mt_comm_place_name(c, h->place));
        comm_sqlite_number(&t, h->load);
        comm_sqlite_number(&t, h->store);
        comm_sqlite_number(&t, h->comm_load);
        comm_sqlite_number(&t, h->comm_store);
        rc = comm_sqlite_row(d, &t);
    }
    sqlite3_finalize(t.s);
    return rc;
}

static void end_of(struct table *t, const struct mt_comm *c, uint32_t id)
{
    if (id & MT_ENTRY_HOST) {
        comm_sqlite_nulls(t, 4);
        comm_sqlite_number(t, id & MT_ENTRY_MAX);
    } else {
        comm_sqlite_number(t, c->actors[id].launch);
        comm_sqlite_cta(t, c->actors[id].cta);
        comm_sqlite_nulls(t, 1);
    }
}

static int comm_sqlite_transfers(struct mt_db *d, const struct mt_comm *c)
{
    struct table t;
    size_t *order = mt_transfers_sort(c);
    int rc = comm_sqlite_table(d, &t, "INSERT INTO transfers VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)");
    if (rc == 0 && !order) {
        snprintf(d->why, sizeof d->why, "out of memory");
        rc = -1;
    }
    for (size_t i = 0; rc == 0 && i < c->ntransfers; i++) {
        const struct mt_transfer *x = &c->transfers[order[i]];
        end_of(&t, c, x->src);
        end_of(&t, c, x->dst);
        comm_sqlite_number(&t, x->size);
        comm_sqlite_number(&t, x->count);
        comm_sqlite_number(&t, !((x->src | x->dst) & MT_ENTRY_HOST) &&
                                   c->actors[x->src].launch == c->actors[x->dst].launch);
        rc = comm_sqlite_row(d, &t);
    }
    sqlite3_finalize(t.s);
    free(order);
    return rc;
}

static int comm_sqlite_sites(struct mt_db *d, const struct mt_comm_result *r)
{
    struct table t; /* streams of one process have the same sites */
    int rc = comm_sqlite_table(d, &t, "INSERT OR IGNORE INTO sites VALUES (?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < r->ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(r->source, i);
        for (size_t k = 0; c && !c->engine[0] && rc == 0 && k < c->nsites; k++) {
            const struct mt_site_event *s = &c->sites[k];
            comm_sqlite_number(&t, s->id);
            comm_sqlite_text(&t, s->file);
            comm_sqlite_number(&t, s->line);
            comm_sqlite_number(&t, s->column);
            comm_sqlite_text(&t, s->function);
            comm_sqlite_text(&t, s->op);
            comm_sqlite_number(&t, s->size);
            comm_sqlite_text(&t, s->var);
            rc = comm_sqlite_row(d, &t);
        }
    }
    sqlite3_finalize(t.s);
    return rc;
}

static int comm_sqlite_allocations(struct mt_db *d, struct mt_source *source)
{
    size_t n;
    const struct mt_alloc_event *a = mt_source_allocs(source, &n);
    struct table t;
    int rc = comm_sqlite_table(d, &t, "INSERT OR IGNORE INTO allocations VALUES (?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        comm_sqlite_number(&t, a[i].id);
        comm_sqlite_number(&t, a[i].base);
        comm_sqlite_number(&t, a[i].bytes);
        comm_sqlite_text(&t, a[i].kind);
        comm_sqlite_text(&t, a[i].name);
        comm_sqlite_text(&t, a[i].file);
        comm_sqlite_number(&t, a[i].line);
        comm_sqlite_number(&t, a[i].seq);
        if (a[i].free_seq == MT_SEQ_NONE)
            comm_sqlite_nulls(&t, 1);
        else
            comm_sqlite_number(&t, a[i].free_seq);
        rc = comm_sqlite_row(d, &t);
    }
    sqlite3_finalize(t.s);
    return rc;
}

int mt_db_result(struct mt_db *d, const struct mt_comm_result *r)
{
    return comm_sqlite_launches(d, r) != 0 || comm_sqlite_volumes(d, r->comm) != 0 ||
                   comm_sqlite_hosts(d, r->comm) != 0 || comm_sqlite_transfers(d, r->comm) != 0 ||
                   comm_sqlite_sites(d, r) != 0 || comm_sqlite_allocations(d, r->source) != 0
               ? -1
               : 0;
}

/* ---- ranges ---- */

struct ranges {
    struct mt_db *d;
    uint64_t launch;
};

static int comm_sqlite_range(void *arg, uint64_t word, uint32_t type, const struct mt_touched_range *range)
{
    struct ranges *r = arg;
    struct table t = {.s = r->d->range};
    comm_sqlite_number(&t, r->launch);
    comm_sqlite_cta(&t, word);
    comm_sqlite_number(&t, type);
    comm_sqlite_number(&t, range->start);
    comm_sqlite_number(&t, range->end);
    return comm_sqlite_row(r->d, &t);
}

int mt_db_ranges(struct mt_db *d, uint64_t launch, struct mt_touched *ranges)
{
    struct ranges r = {d, launch};
    return mt_touched_end(ranges, comm_sqlite_range, &r);
}

int mt_db_say(struct mt_db *d, const char *key, const char *value)
{
    struct table t;
    int rc = comm_sqlite_table(d, &t, "INSERT OR REPLACE INTO meta VALUES (?,?)");
    if (rc == 0) {
        comm_sqlite_text(&t, key);
        comm_sqlite_text(&t, value);
        rc = comm_sqlite_row(d, &t);
    }
    sqlite3_finalize(t.s);
    return rc;
}

int mt_db_finish(struct mt_db *d)
{
    return sqlite3_exec(d->db, views, NULL, NULL, NULL) ? comm_sqlite_fail(d) : 0;
}
