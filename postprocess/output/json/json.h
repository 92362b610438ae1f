/* Streaming JSON writer with a single buffer. Strings become valid UTF-8 (invalid bytes become U+FFFD);
 * integers have 64 bits. Objects and arrays take a line per member, or a single line if begun with `flat`.
 * The first write error is kept and returned by mt_json_close. */
#ifndef MT_OUTPUT_JSON_H
#define MT_OUTPUT_JSON_H
#include <stddef.h>
#include <stdint.h>
#include "output/rows/sorted.h"

struct mt_json {
    int fd, error; /* errno of the first failed write, or 0 */
    char *target;  /* buffer to write to instead of fd, or NULL */
    unsigned depth;
    int flat;      /* depth of the outermost flat object or array, 0: none */
    int first;     /* 1: the open object or array is empty */
    int html;      /* 1: output is safe inside an HTML script element; set after mt_json_open */
    char kind[64]; /* closing bracket of each depth */
    size_t used;
    char buffer[1 << 16];
};

void mt_json_open(struct mt_json *j, int fd);
/* Ends the text with LF and flushes it. Returns 0, or -1 with j->error. */
int mt_json_close(struct mt_json *j);

/* Begins an object or array. `key` is NULL inside arrays and at the top level. */
void mt_json_object(struct mt_json *j, const char *key, int flat);
void mt_json_array(struct mt_json *j, const char *key, int flat);
void mt_json_end(struct mt_json *j); /* ends the innermost object or array */
void mt_json_text(struct mt_json *j, const char *key, const char *value); /* NULL is written as null */
void mt_json_u64(struct mt_json *j, const char *key, uint64_t value);
void mt_json_i64(struct mt_json *j, const char *key, int64_t value);
/* Writes an array of numbers; MT_NUMBERS gives the last two arguments. */
void mt_json_numbers(struct mt_json *j, const char *key, size_t n, const uint64_t *v);
void mt_json_real(struct mt_json *j, const char *key,
                  double value); /* six decimals; NaN and infinity: null */
void mt_json_exact(struct mt_json *j, const char *key,
                   double value); /* shortest exact form; NaN and infinity: null */
void mt_json_bool(struct mt_json *j, const char *key, int value);
void mt_json_known(struct mt_json *j, const char *key, int value); /* boolean; negative values become null */
void mt_json_hex(struct mt_json *j, const char *key, uint64_t value); /* hexadecimal string, "0x…" */

/* Writes a member that is already JSON `count` times, as lines of the open array. */
void mt_json_raw(struct mt_json *j, const char *text, size_t n, uint32_t count);
/* Returns a string as mt_json_text writes it, with quotes, to be freed; NULL: no memory. */
char *mt_json_quoted(const char *text);

#endif
