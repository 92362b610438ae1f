/* Builds a JSON object as one line of text in a growing buffer. Keys are literals and appear in the order of
 * the calls. Strings are escaped; invalid UTF-8 becomes U+FFFD. Without memory the line stays short and
 * `failed` is set. An object must not be used by two threads at once. Example:
 *
 *   mt_jsonl_begin(&j, "alloc"); mt_jsonl_u64(&j, "id", 3); mt_jsonl_end(&j);  ->  {"ev":"alloc","id":3}\n */
#ifndef MT_COMMON_JSON_H
#define MT_COMMON_JSON_H
#include <stddef.h>
#include <stdint.h>

struct mt_jsonl {
    char *text;
    size_t n, capacity;
    int failed;
};

/* Writes the escaped form of a character below U+0100; returns its length. */
size_t mt_json_escape(char out[6], unsigned char c);

void mt_jsonl_begin(struct mt_jsonl *j, const char *ev);
void mt_jsonl_u64(struct mt_jsonl *j, const char *key, uint64_t value);
void mt_jsonl_i64(struct mt_jsonl *j, const char *key, int64_t value);
void mt_jsonl_bool(struct mt_jsonl *j, const char *key, int value);
void mt_jsonl_address(struct mt_jsonl *j, const char *key, uint64_t value);   /* "0x…" */
void mt_jsonl_string(struct mt_jsonl *j, const char *key, const char *value); /* NULL is written as "" */
void mt_jsonl_strings(struct mt_jsonl *j, const char *key, const char *const *v, size_t n); /* ["v0",…] */
void mt_jsonl_u32x3(struct mt_jsonl *j, const char *key, const uint32_t v[3]);              /* [x,y,z] */
void mt_jsonl_u64s(struct mt_jsonl *j, const char *key, const uint64_t *v, size_t n);       /* [v0,v1,…] */
void mt_jsonl_end(struct mt_jsonl *j);
void mt_jsonl_free(struct mt_jsonl *j);
#endif
