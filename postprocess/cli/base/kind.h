/* What kind of file an input is, by its first bytes. */
#ifndef MT_CLI_KIND_H
#define MT_CLI_KIND_H
#include <stddef.h>

enum mt_kind {
    MT_KIND_TRACE, /* raw trace, or what could have been one: its reader says what is wrong. FIFOs are not
                      looked into */
    MT_KIND_CONTAINER,
    MT_KIND_MAT,       /* MAT text */
    MT_KIND_ATOMIC,    /* text of atomic mode */
    MT_KIND_INSN,      /* instruction log */
    MT_KIND_COMPANION, /* MemTrace-pipe-N.meta */
    MT_KIND_GRAPH,     /* memtrace graph --format=json */
    MT_KIND_COMM,      /* memtrace extract's output */
    MT_KIND_DATABASE,  /* SQLite's: memtrace extract --format=sqlite, or anybody's */
    MT_KIND_OTHER      /* not one of ours: source code, a program */
};

enum mt_kind mt_kind_of(const char *path);
/* The same of a file's first n bytes; head[n] is 0. */
enum mt_kind mt_kind_of_head(const char *head, size_t n);
/* Do they suffice to decide? 0: there should be more of them. */
int mt_kind_is_clear(const char *head, size_t n);
/* "a MAT text trace", and who reads it: "memtrace graph and memtrace compare read it". */
const char *mt_kind_name(enum mt_kind kind);
/* Says that `path` is of this kind and not what is wanted ("a trace of kernels"), and who reads it: exit
 * code 2.
 */
int mt_kind_refuse(const char *path, enum mt_kind kind, const char *wanted);
/* For readers of one kind that say themselves what is wrong with a file: refuses what is surely another one,
 * by the first n bytes of the file (NULL: they are read). 0 or an exit code. */
int mt_kind_expect(const char *path, const char *head, size_t n, enum mt_kind wanted);
#endif
