/* Builds a JSON object as one line of text in a growing buffer. Keys are literals and appear in the order of
 * the calls. Strings are escaped; invalid UTF-8 becomes U+FFFD. Without memory the line stays short and
 * `failed` is set. An object must not be used by two threads at once. */
#ifndef MT_COMMON_JSON_H
#define MT_COMMON_JSON_H

#include <stddef.h>
#include <stdint.h>
#include "memtrace/record.h"

/* JSON lines of companions and meta chunks. Each kind has a struct made from memtrace/events.def; a line
 * looks like {"ev":"free","seq":3, …}. */

struct mt_jsonl;
struct mt_host_site;

/* C types of the keys, for writers. */
typedef uint64_t mt_line_u64, mt_line_id, mt_line_address;

typedef int64_t mt_line_i64, mt_line_stream;
typedef int mt_line_int, mt_line_bool, mt_line_device;
typedef const char *mt_line_string;
typedef uint32_t mt_line_u32x3[3];
typedef enum mt_scope mt_line_scope;
typedef enum mt_order_kind mt_line_order;

typedef struct {
    const char *const *list; /* NULL: the key is omitted */
    size_t n;
} mt_line_strings;

/* A rank's part in a collective operation of a library. */
struct mt_collective_line {
    const char *op; /* "allreduce" …; NULL: not a collective */
    uint64_t comm, count;
    int rank, ranks, root, peer; /* root and peer: -1 if there is none */
    uint32_t size;
};

enum mt_line_kind {
#define MT_EV_ONLY(ev, words) MT_LINE_##ev,
#include "memtrace/events.def"
};

/* clang-format off */
#define MT_EV_ONLY(ev, words) struct mt_##ev##_line {

#define MT_EV_KEY(type, key, when, absent, words) mt_line_##type key;
#define MT_EV_LINE_HAS(...) __VA_ARGS__;
#define MT_EV_END(words) };
#include "memtrace/events.def"

/* clang-format on */

/* Makes `j` this line, with its LF. `line` points to the struct of that kind. */
void mt_line_put(struct mt_jsonl *j, enum mt_line_kind kind, const void *line);

struct mt_jsonl {
    char *text;
    size_t n, capacity;
    int failed;
};

/* Writes the escaped form of a character below U+0100; returns its length. */
size_t mt_json_escape(char out[6], unsigned char c);

void mt_jsonl_begin(struct mt_jsonl *j, const char *ev);
void mt_jsonl_string(struct mt_jsonl *j, const char *key, const char *value); /* NULL is written as "" */
void mt_jsonl_free(struct mt_jsonl *j);

#endif
