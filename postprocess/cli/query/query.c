/* memtrace query: runs an SQL statement on traces. The statement is parsed first, and only the tables that it
 * reads are computed. */
#define _GNU_SOURCE
#include "cli/base/commands.h"
#include "cli/base/kind.h"
#include "cli/base/pipeline.h"
#include "base/near.h"
#include "base/text.h"
#include "memtrace/grow.h"
#include "output/results/sql.h"
#include "output/rows/relations.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct mt_command command = {
    .of = MT_OF_QUERY,
    .before =
        "Usage: memtrace query [OPTION]... TRACE... 'SELECT ...'\n"
        "       memtrace query --list\n"
        "Answers a question about traces in SQL, as SQLite has it, without a database in between.\n"
        "\n"
        "  memtrace query run-2 'SELECT * FROM uncoalesced_lines LIMIT 5'\n"
        "  memtrace query /tmp/MemTrace-pipe-0 'SELECT kernel, sum(load) FROM cta_volumes\n"
        "                                       JOIN launches ON launch = id GROUP BY kernel'\n"
        "  memtrace query --csv run-2 'SELECT * FROM transfers' > transfers.csv\n"
        "  memtrace query --json run-2 \"SELECT * FROM lines WHERE file LIKE '%.cu'\" | jq .\n"
        "\n"
        "Tables and views are those of memtrace extract -f sqlite, but for `ranges` and what is made of it: "
        "--list names\n"
        "them with their columns. The statement can only read, and no files. TRACE is a file, a folder (the "
        "newest run in it), a\n"
        "FIFO, or - for standard input; or one comm.json or database of memtrace extract, which has what it "
        "was made with.\n",
    .after =
        "Exit code: 0 fine, 1 failure, 2 wrong usage (also of SQL), 3 the trace is truncated, corrupt or "
        "incomplete, or\n"
        "reading was interrupted (Ctrl-C): the answer covers the part that was whole.\n",
};

struct query {
    struct mt_pipeline p;
    enum { BOX, CSV, JSON } form;
    int list;
    const char *text, *output;
    struct mt_sql sql;
    sqlite3_stmt *statement;
};

static int query_option(void *arg, int o)
{
    struct query *x = arg;
    switch (o) {
    case MT_OPT_LIST:
        x->list = 1;
        return 0;
    case MT_OPT_CSV:
    case MT_OPT_JSON:
        if (x->form != BOX && x->form != (o == MT_OPT_CSV ? CSV : JSON))
            return mt_cli_usage("--csv or --json, not both");
        x->form = o == MT_OPT_CSV ? CSV : JSON;
        return 0;
    case MT_OPT_OUTPUT:
        x->output = optarg;
        return 0;
    default:
        return mt_pipeline_option(&x->p, o);
    }
}

/* ---- results ---- */

/* Returns a value as text, to be freed; bytes become two hexadecimal digits each. NULL: SQL's NULL, or no
 * memory. */
static char *query_text(sqlite3_stmt *s, int i)
{
    if (sqlite3_column_type(s, i) != SQLITE_BLOB)
        return sqlite3_column_text(s, i) ? strdup((const char *)sqlite3_column_text(s, i)) : NULL;
    const unsigned char *bytes = sqlite3_column_blob(s, i);
    const size_t n = (size_t)sqlite3_column_bytes(s, i);
    char *text = calloc(2 * n + 1, 1);
    for (size_t k = 0; text && k < n; k++)
        snprintf(text + 2 * k, 3, "%02x", bytes[k]);
    return text;
}

/* Returns a cell of a box, safe for a terminal. NULL: no memory. */
static char *query_cell(sqlite3_stmt *s, int i)
{
    char *text = query_text(s, i), *visible = mt_text_visible_copy(text ? text : "", text ? strlen(text) : 0);
    free(text);
    return visible;
}

static size_t query_width(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

struct box {
    char **cell; /* cells of all rows, heads first */
    size_t n, room, *width;
    int columns;
    uint64_t right; /* columns of numbers, a bit each */
};

static int query_box_add(struct box *b, char *cell, int i)
{
    if (!cell || mt_grow(&b->cell, &b->room, b->n + 1, sizeof *b->cell) != 0) {
        free(cell);
        return -1;
    }
    const size_t width = query_width(cell);
    b->width[i] = width > b->width[i] ? width : b->width[i];
    b->cell[b->n++] = cell;
    return 0;
}

static void query_box_rule(FILE *f, const struct box *b, const char *left, const char *cross,
                           const char *right)
{
    for (int i = 0; i < b->columns; i++) {
        fputs(i ? cross : left, f);
        for (size_t k = 0; k < b->width[i] + 2; k++)
            fputs("─", f);
    }
    fprintf(f, "%s\n", right);
}

static void query_box_put(FILE *f, const struct box *b)
{
    query_box_rule(f, b, "┌", "┬", "┐");
    for (size_t at = 0; at < b->n; at++) {
        const int i = (int)(at % (size_t)b->columns);
        const int pad = (int)(b->width[i] - query_width(b->cell[at]));
        const int before = b->right >> (i & 63) & 1 ? pad : 0;
        fprintf(f, "│ %*s%s%*s %s", before, "", b->cell[at], pad - before, "",
                i + 1 == b->columns ? "│\n" : "");
        if (at + 1 == (size_t)b->columns)
            query_box_rule(f, b, "├", "┼", "┤");
    }
    query_box_rule(f, b, "└", "┴", "┘");
}

/* Collects all rows, since column widths depend on them. rc: result of the first row's step. */
static int query_box(struct query *x, struct box *b, int rc)
{
    b->columns = sqlite3_column_count(x->statement);
    b->width = calloc((size_t)b->columns, sizeof *b->width);
    if (!b->width)
        return SQLITE_NOMEM;
    for (int i = 0; i < b->columns; i++) {
        const char *name = sqlite3_column_name(x->statement, i);
        if (query_box_add(b, name ? mt_text_visible_copy(name, strlen(name)) : NULL, i) != 0)
            return SQLITE_NOMEM;
        b->right |= 1ull << (i & 63);
    }
    for (; rc == SQLITE_ROW; rc = sqlite3_step(x->statement))
        for (int i = 0; i < b->columns; i++) {
            const int type = sqlite3_column_type(x->statement, i);
            if (type == SQLITE_TEXT || type == SQLITE_BLOB)
                b->right &= ~(1ull << (i & 63));
            if (query_box_add(b, query_cell(x->statement, i), i) != 0)
                return SQLITE_NOMEM;
        }
    return rc;
}

static void query_box_free(struct box *b)
{
    for (size_t i = 0; i < b->n; i++)
        free(b->cell[i]);
    free(b->cell);
    free(b->width);
}

static int query_csv(struct query *x, FILE *f, int rc)
{
    const int columns = sqlite3_column_count(x->statement);
    for (int i = 0; i < columns; i++) {
        fputs(i ? "," : "", f);
        mt_csv_text(f, sqlite3_column_name(x->statement, i));
    }
    fputc('\n', f);
    for (; rc == SQLITE_ROW; rc = sqlite3_step(x->statement)) {
        for (int i = 0; i < columns; i++) {
            char *text = query_text(x->statement, i);
            fputs(i ? "," : "", f);
            if (text && sqlite3_column_type(x->statement, i) == SQLITE_TEXT)
                mt_csv_text(f, text);
            else if (text)
                fputs(text, f);
            free(text);
        }
        fputc('\n', f);
    }
    return rc;
}

static void query_json_value(struct mt_json *j, sqlite3_stmt *s, int i)
{
    const char *name = sqlite3_column_name(s, i);
    char *text;
    switch (sqlite3_column_type(s, i)) {
    case SQLITE_INTEGER:
        mt_json_i64(j, name, sqlite3_column_int64(s, i));
        break;
    case SQLITE_FLOAT:
        mt_json_exact(j, name, sqlite3_column_double(s, i));
        break;
    default: /* SQL's NULL becomes JSON's null */
        text = query_text(s, i);
        mt_json_text(j, name, text);
        free(text);
    }
}

static int query_json(struct query *x, struct mt_json *j, int rc)
{
    mt_json_array(j, NULL, 0);
    for (; rc == SQLITE_ROW; rc = sqlite3_step(x->statement)) {
        mt_json_object(j, NULL, 1);
        for (int i = 0; i < sqlite3_column_count(x->statement); i++)
            query_json_value(j, x->statement, i);
        mt_json_end(j);
    }
    mt_json_end(j);
    return rc;
}

/* Writes the result. *rc: of the first row's step, then of the last one's. Returns the exit code. */
static int query_put(struct query *x, const struct box *b, int *rc)
{
    static struct mt_json j; /* static: it contains the output buffer */
    int code = mt_output_ready(&x->p.out);
    if (code)
        return code;
    if (x->form == JSON) {
        mt_json_open(&j, x->p.out.fd);
        *rc = query_json(x, &j, *rc);
        return mt_output_json(&x->p.out, &j);
    }
    FILE *f = mt_output_stream(&x->p.out);
    if (!f)
        return MT_EXIT_FAILURE;
    if (x->form == CSV)
        *rc = query_csv(x, f, *rc);
    else if (b->n > (size_t)b->columns)
        query_box_put(f, b);
    else
        mt_cli_note("the answer has no rows");
    return mt_output_close(&x->p.out, f);
}

static int query_stopped(void *arg)
{
    return mt_cli_stop != 0;
}

/* Returns the exit code. A failure before the first row leaves the output unchanged. */
static int query_write(struct query *x)
{
    struct box b = {.n = 0};
    if (!mt_cli_stop) /* after an interruption the result covers what was read, and is computed once */
        sqlite3_progress_handler(x->sql.db, 10000, query_stopped, NULL);
    int code = 0, rc = sqlite3_step(x->statement);
    if (x->form == BOX && (rc == SQLITE_ROW || rc == SQLITE_DONE))
        rc = query_box(x, &b, rc);
    if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        code = query_put(x, &b, &rc);
    query_box_free(&b);
    if (rc == SQLITE_INTERRUPT) {
        mt_cli_say("interrupted: not all rows are in the answer");
        return MT_EXIT_INPUT;
    }
    return code || rc == SQLITE_DONE
               ? code
               : mt_cli_fail("%s", rc == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(x->sql.db));
}

/* ---- reading ---- */

/* Chooses the analyses for the tables that the statement reads. */
static void query_needs(struct query *x)
{
    const uint64_t reads = x->sql.reads;
    for (int i = 0; i < MT_TABLES; i++)
        if (reads >> i & 1)
            x->p.more.options.chosen |= mt_relations_section((enum mt_relation_number)i);
    const uint64_t volumes =
        1ull << MT_REL_cta_volumes | 1ull << MT_REL_host_volumes | 1ull << MT_REL_launch_volumes;
    const uint64_t transfers = 1ull << MT_REL_transfers | 1ull << MT_REL_sends;
    x->p.wants = (reads & volumes ? MT_WANTS_COMM : 0) | (reads & transfers ? MT_WANTS_TRANSFERS : 0) |
                 (mt_locality_run_has(&x->p.more, MT_LOCALITY_PLACEMENT) ? MT_WANTS_READERS : 0);
    x->p.spaces = (reads & (1ull << MT_REL_banks | 1ull << MT_REL_hazards)) != 0;
    x->p.inputs.flags |= MT_SOURCE_HOST | MT_SOURCE_OWN_RUNS;
    x->p.inputs.threads = x->p.threads > 2 ? x->p.threads - 1 : 1;
}

static int query_answer(struct query *x)
{
    const char *notes[MT_LOCALITY_RUN_NOTES];
    int complete = 0, input = mt_pipeline_open(&x->p);
    if (input || (input = mt_pipeline_read(&x->p)))
        return input;
    input = mt_pipeline_finish(&x->p, &complete);
    if (input && input != MT_EXIT_INPUT)
        return input;
    const struct mt_comm_result r = mt_pipeline_result(&x->p, complete, notes);
    x->sql.r = &r;
    const uint64_t requests =
        1ull << MT_REL_coalescing | 1ull << MT_REL_coalescing_sites | 1ull << MT_REL_lane_strides;
    const char *remark = x->sql.reads & requests ? mt_coalescing_remark(&r) : NULL;
    if (remark)
        mt_cli_note("%s", remark);
    int code = query_write(x);
    x->sql.r = NULL;
    return code ? code : input;
}

/* Prepares the statement; s->reads becomes the tables that it reads. Returns an exit code. */
static int query_statement(struct query *x)
{
    char why[300];
    sqlite3_finalize(x->statement);
    x->sql.reads = 0;
    x->statement = mt_sql_prepare(&x->sql, x->text, why, sizeof why);
    return x->statement ? 0 : mt_cli_usage("%s", why);
}

/* Checks that all tables that the statement reads exist. Returns an exit code. */
static int query_there(const struct query *x, const char *path, const json_t *file)
{
    const uint64_t missing = x->sql.reads & ~x->sql.there;
    char why[300];
    if (!missing)
        return 0;
    mt_rows_missing((enum mt_relation_number)__builtin_ctzll(missing), file, why, sizeof why);
    return mt_cli_refuse("%s: %s", path, why);
}

/* Loads the tables that the statement reads from a comm.json. Returns an exit code. */
static int query_comm(struct query *x, const char *path, int *complete)
{
    char why[300];
    int code;
    json_t *file = mt_comm_file(path, &code);
    if (!file)
        return code;
    mt_comm_file_complete(file, complete);
    if (mt_sql_fill(&x->sql, file, x->sql.reads, why, sizeof why) != 0) {
        mt_cli_say("%s: %s", path, why);
        code = MT_EXIT_INPUT;
    } else {
        code = query_there(x, path, file);
    }
    json_decref(file);
    return code ? code : query_statement(x);
}

static int query_said(void *arg, int columns, char **value, char **heads)
{
    *(int *)arg = *value && strcmp(*value, "0") != 0;
    return 0;
}

/* Opens a database. Returns an exit code. */
static int query_database(struct query *x, const char *path, int *complete)
{
    char why[300];
    sqlite3_finalize(x->statement);
    x->statement = NULL;
    mt_sql_close(&x->sql);
    if (mt_sql_open_file(&x->sql, path, why, sizeof why) != 0) {
        mt_cli_say("%s: %s", path, why);
        return MT_EXIT_INPUT;
    }
    if (!(x->sql.there >> MT_REL_meta & 1))
        return mt_cli_refuse("%s: is not a database of memtrace extract: it has no table meta", path);
    sqlite3_exec(x->sql.db, "SELECT value FROM meta WHERE key = 'complete'", query_said, complete, NULL);
    const int code = query_statement(x);
    return code ? code : query_there(x, path, NULL);
}

/* Opens a file that contains results. Returns an exit code. */
static int query_file(struct query *x, const char *path, enum mt_kind kind)
{
    int complete = 1;
    if (mt_pipeline_asked(&x->p))
        return mt_cli_usage("%s is already analysed: give filters and analyses to memtrace extract", path);
    mt_output_spare(path);
    int code = kind == MT_KIND_COMM ? query_comm(x, path, &complete) : query_database(x, path, &complete);
    if (code == 0 && !complete)
        mt_cli_say("%s: is of an incomplete trace", path);
    if (code == 0)
        code = mt_output_open(&x->p.out, x->output);
    if (code == 0)
        code = query_write(x);
    return code ? code : complete ? MT_EXIT_OK : MT_EXIT_INPUT;
}

/* Analyses traces. Returns an exit code. */
static int query_traces(struct query *x, int argc, char **argv)
{
    if (x->sql.reads >> MT_REL_ranges & 1)
        return mt_cli_usage(
            "`ranges` is made by a pass of its own: memtrace extract -f sqlite -o FILE TRACE has it");
    query_needs(x);
    mt_inputs_take(&x->p.inputs, argc - 1, argv);
    int code = mt_inputs_folders(&x->p.inputs);
    if (code == 0)
        code = mt_output_open(&x->p.out, x->output);
    return code ? code : query_answer(x);
}

/* Runs the query; the statement is the last word. */
static int query_run(struct query *x, int argc, char **argv)
{
    if (optind >= argc)
        return mt_cli_usage("there is no query: memtrace query TRACE 'SELECT ...'");
    x->text = argv[argc - 1];
    if (optind == argc - 1)
        return mt_cli_usage(strpbrk(x->text, " \n") ? "there is no trace: memtrace query TRACE 'SELECT ...'"
                                                    : "there is no query: memtrace query TRACE 'SELECT ...'");
    const int code = query_statement(x);
    if (code)
        return code;
    const enum mt_kind kind = optind == argc - 2 ? mt_kind_of(argv[optind]) : MT_KIND_TRACE;
    return kind == MT_KIND_COMM || kind == MT_KIND_DATABASE ? query_file(x, argv[optind], kind)
                                                            : query_traces(x, argc, argv);
}

int mt_query_command(int argc, char **argv)
{
    static struct query x;
    char why[300];
    mt_stop_begin();
    mt_pipeline_init(&x.p);
    int code = mt_cli_options(&command, argc, argv, query_option, &x);
    if (code == 0 && mt_sql_open(&x.sql, why, sizeof why) != 0)
        code = mt_cli_fail("%s", why);
    if (code == 0 && x.list) {
        mt_sql_list(&x.sql, stdout);
        code = mt_near_told() ? MT_EXIT_FAILURE : -1;
    }
    if (code == 0)
        code = query_run(&x, argc, argv);
    sqlite3_finalize(x.statement);
    mt_sql_close(&x.sql);
    mt_pipeline_free(&x.p);
    return code < 0 ? MT_EXIT_OK : code;
}
