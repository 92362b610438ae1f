/* A streaming JSON writer: nothing is kept but one buffer. Strings come out as valid UTF-8 (what is not
 * becomes U+FFFD); integers have 64 bits; containers are one member a line, or all on one line when begun
 * as `flat`. Write errors are kept and met at mt_json_close. */
#ifndef MT_OUTPUT_JSON_H
#define MT_OUTPUT_JSON_H
#include <stddef.h>
#include <stdint.h>
#include "output/rows/sorted.h"

struct mt_json {
    int fd, error; /* errno of the first failed write, or 0 */
    char *target;  /* memory to write to in place of fd, or NULL */
    unsigned depth;
    int flat;      /* depth of the outermost flat container, 0: none */
    int first;     /* nothing is in the container yet */
    int html;      /* set by the caller after mt_json_open: safe inside an HTML script element */
    char kind[64]; /* closing brackets by depth */
    size_t used;
    char buffer[1 << 16];
};

void mt_json_open(struct mt_json *j, int fd);
/* Ends the text with LF and writes out. 0, or -1 with j->error. */
int mt_json_close(struct mt_json *j);

/* `key` is NULL inside arrays and at the top. */
void mt_json_object(struct mt_json *j, const char *key, int flat);
void mt_json_array(struct mt_json *j, const char *key, int flat);
void mt_json_end(struct mt_json *j);                                      /* of the innermost container */
void mt_json_text(struct mt_json *j, const char *key, const char *value); /* NULL: null */
void mt_json_u64(struct mt_json *j, const char *key, uint64_t value);
void mt_json_i64(struct mt_json *j, const char *key, int64_t value);
/* An array of them (MT_NUMBERS). */
void mt_json_numbers(struct mt_json *j, const char *key, size_t n, const uint64_t *v);
void mt_json_real(struct mt_json *j, const char *key, double value);  /* six decimals; no number: null */
void mt_json_exact(struct mt_json *j, const char *key, double value); /* as many as it takes; the same */
void mt_json_bool(struct mt_json *j, const char *key, int value);
void mt_json_known(struct mt_json *j, const char *key, int value);    /* below 0: not known, null */
void mt_json_hex(struct mt_json *j, const char *key, uint64_t value); /* "0x…" */

/* A member that is JSON already, `count` times, as a line of the array under way. */
void mt_json_raw(struct mt_json *j, const char *text, size_t n, uint32_t count);
/* A string as mt_json_text writes it, quotes included; the caller frees it. NULL without memory. */
char *mt_json_quoted(const char *text);

#endif
