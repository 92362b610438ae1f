/* Kinds of input files, detected by their first bytes. */
#ifndef MT_CLI_KIND_H
#define MT_CLI_KIND_H

#include <jansson.h>
#include <stddef.h>

/* ---- A comm.json as an input of commands ---- */

/* Parses the file ("-": standard input). Returns it, to be freed by json_decref, or NULL after a message,
 * with the exit code in *code. */
json_t *mt_comm_file(const char *path, int *code);
/* Returns MT_EXIT_OK, or MT_EXIT_INPUT if the file says that the trace was incomplete. */
int mt_comm_file_complete(const json_t *file, int *complete);

enum mt_kind {
    MT_KIND_TRACE, /* raw trace, or a file that may be one, whose reader reports errors; also all FIFOs, which
                      are not inspected */
    MT_KIND_CONTAINER,
    MT_KIND_MAT,       /* MAT text */
    MT_KIND_ATOMIC,    /* text of atomic mode */
    MT_KIND_INSN,      /* instruction log */
    MT_KIND_COMPANION, /* MemTrace-pipe-N.meta, the companion: JSON lines beside a trace */
    MT_KIND_GRAPH,     /* memtrace graph --format=json */
    MT_KIND_COMM,      /* memtrace extract's output */
    MT_KIND_DATABASE,  /* SQLite database, of memtrace extract --format=sqlite or of others */
    MT_KIND_OTHER      /* none of ours: source code, a program */
};

enum mt_kind mt_kind_of(const char *path);
/* Returns the kind of a file from its first n bytes; head[n] is 0. */
enum mt_kind mt_kind_of_head(const char *head, size_t n);
/* Returns 1 if these bytes suffice to decide, 0 if more are needed. */
int mt_kind_is_clear(const char *head, size_t n);
/* Returns "a MAT text trace", and "memtrace graph and memtrace compare read it". */
const char *mt_kind_name(enum mt_kind kind);
/* Reports that `path` is of this kind instead of `wanted` ("a trace of kernels"), and which command reads it.
 * Returns exit code 2. */
int mt_kind_refuse(const char *path, enum mt_kind kind, const char *wanted);
/* Refuses files that are clearly of another kind, for readers that report other errors themselves. `head`:
 * first n bytes of the file; NULL: reads them. Returns 0 or an exit code. */
int mt_kind_expect(const char *path, const char *head, size_t n, enum mt_kind wanted);

#endif
