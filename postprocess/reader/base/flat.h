/* A line of JSON, an object, read in one pass without a tree: its members in order, whose texts stay in the
 * line. Lookups in about the order of the line cost next to nothing, since each goes on where the last one
 * ended. Strict (RFC 8259), with integers of 64 bits. */
#ifndef MT_READER_FLAT_H
#define MT_READER_FLAT_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum mt_flat_kind {
    MT_FLAT_ABSENT,
    MT_FLAT_NULL,
    MT_FLAT_BOOL,
    MT_FLAT_INTEGER,
    MT_FLAT_REAL, /* without its value */
    MT_FLAT_TEXT,
    MT_FLAT_LIST,
    MT_FLAT_OBJECT /* without its members */
};

struct mt_flat_value {
    enum mt_flat_kind kind;
    int64_t number;   /* INTEGER, BOOL */
    const char *text; /* TEXT: without quotes and escapes, in the line or the struct; not terminated */
    size_t bytes;     /* TEXT: of the text. LIST: number of elements */
    size_t first;     /* LIST: of its elements in the line's `elements`. What is in an element that is a list
                       * itself is left out */
};

struct mt_flat_member {
    uint64_t begin; /* the key's first 8 bytes, or fewer and zeros */
    const char *key;
    size_t bytes; /* of the key */
    struct mt_flat_value value;
};

/* Zero-initialised is empty. */
struct mt_flat {
    struct mt_flat_member *members;
    struct mt_flat_value *elements;
    size_t count, nelements;
    const char *why; /* after a failure: what is wrong, and where */
    size_t at;
    /* state */
    size_t room, element_room, next;
    char *plain; /* texts that had escapes */
    size_t plain_used, plain_room;
};

/* Reads a line of n bytes, which the result refers to. Returns 0; 1 if it is not JSON or no object, with
 * `why`; or -1 without memory. */
int mt_flat_read(struct mt_flat *l, const char *text, size_t n);
void mt_flat_free(struct mt_flat *l);

/* Returns the value of a key of n bytes, or one of kind ABSENT; any of them if the line has several. l: NULL
 * is a line without members. */
const struct mt_flat_value *mt_flat_find(struct mt_flat *l, uint64_t begin, const char *key, size_t n);
static inline const struct mt_flat_value *mt_flat_get(struct mt_flat *l, const char *key)
{
    uint64_t begin = 0;
    size_t n = strlen(key);
    memcpy(&begin, key, n < sizeof begin ? n : sizeof begin);
    return mt_flat_find(l, begin, key, n);
}

/* Returns an element of a list, or a value of kind ABSENT. */
const struct mt_flat_value *mt_flat_element(const struct mt_flat *l, const struct mt_flat_value *list,
                                            size_t i);
/* Returns 1 if the value is this text. */
int mt_flat_is(const struct mt_flat_value *v, const char *text);
#endif
