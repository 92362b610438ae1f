/* Descriptors of cuBLASLt. Programs may keep them in memory of their own, of 64 and 256 bytes. */
#ifndef MT_LIBRARIES_LT_H
#define MT_LIBRARIES_LT_H
#include <stddef.h>
#include <stdint.h>

struct mt_lt_layout {
    int32_t type, order, batches; /* order: 0 columns, 1 rows */
    int32_t unused;
    uint64_t rows, cols;
    int64_t ld, stride; /* elements */
};

struct mt_lt_desc {
    int32_t compute, scale, pointer_mode, transa, transb, transc, fill, bias_type;
    uint32_t epilogue, unused;
    const void *bias;
    int64_t bias_stride;
};

struct mt_lt_preference {
    uint64_t workspace;
};

_Static_assert(sizeof(struct mt_lt_layout) <= 64 && sizeof(struct mt_lt_preference) <= 64,
               "room in the program's");
_Static_assert(sizeof(struct mt_lt_desc) <= 256, "room in the program's");

/* On a GPU: what NVIDIA's descriptors say. 0; -1: something that is not known here. */
int mt_lt_read_desc(struct mt_lt_desc *d, const void *real);
int mt_lt_read_layout(struct mt_lt_layout *l, const void *real);
/* Can it be done? A status; `name` says why not, NULL: nobody. */
int mt_lt_check(const struct mt_lt_desc *d, const struct mt_lt_layout *a, const struct mt_lt_layout *b,
                const struct mt_lt_layout *c, const struct mt_lt_layout *out, const char *name);
#endif
