/* Shared by the runtime's tests: a fresh folder per test, whole files, children. */
#ifndef TEST_RUNTIME_UTIL_H
#define TEST_RUNTIME_UTIL_H
#include <stddef.h>
#include <stdint.h>
/* A new empty folder, removed when the program ends. Points MEMTRACE_DIR at it. */
const char *fresh_dir(void);
const char *in_dir(const char *dir, const char *name); /* static buffers, four of them */
/* Contents of a file with a NUL at the end; NULL if it cannot be read. *n may be NULL. */
char *slurp(const char *path, size_t *n);
/* Number of lines that contain all of the given pieces (NULL-terminated list). */
int count_lines(const char *text, ...);
/* Runs fn in a child process; its exit status (0..255), or 1000 + signal. */
int in_child(int (*fn)(void *), void *arg);
/* Runs fn with stderr caught; returns what was said. */
char *said(void (*fn)(void *), void *arg);

/* A raw trace, taken apart by the book. */
struct raw_launch {
    char name[256];
    uint64_t records;
    uint64_t sum; /* of all words: order does not matter */
    int ended;
};
struct raw {
    int launches;
    struct raw_launch launch[64];
    size_t whole; /* offset after the last whole record or name */
    size_t bytes;
};
/* 0, or -1 when the header is wrong. */
int raw_read(const char *path, struct raw *r);
#endif
