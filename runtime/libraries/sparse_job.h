/* Calls of cuSPARSE that make matrices of others: what they have in common. */
#ifndef MT_LIBRARIES_SPARSE_JOB_H
#define MT_LIBRARIES_SPARSE_JOB_H
#include "api/launch/library.h"
#include "sparse.h"

/* Entries of a matrix, as they are computed. */
struct mt_triplet {
    int64_t row, col, order; /* order: as they came */
    double _Complex value;
};
struct mt_triplets {
    struct mt_triplet *at;
    size_t n, room;
    int bad; /* no memory, or an index is not one */
};
void mt_triplets_add(struct mt_triplets *t, int64_t row, int64_t col, double _Complex value);
/* All entries of a, times `by`. turned: of its transpose. */
void mt_triplets_of(struct mt_triplets *t, const struct mt_sparse *a, int turned, double _Complex by);
/* By rows, within a row by columns; those of one place become one. */
void mt_triplets_sort(struct mt_triplets *t);
void mt_triplets_merge(struct mt_triplets *t);
/* Into a matrix with room for n entries. 0, or -1: it has room for another number. */
int mt_triplets_put(const struct mt_triplets *t, const struct mt_sparse *to, int parts);

/* Refuses the call if an index is not one. */
void mt_sparse_look(const struct mt_sparse *a, struct mt_library_notes *notes);

struct mt_sparse_job {
    struct mt_library_call call;
    struct mt_sparse a, b, c;
    struct mt_dense dense;
    char scalar; /* type of alpha and beta */
    int device;
    const void *alpha, *beta;
    unsigned char value[2][16];
    int numeric;              /* with values */
    int *rows, *cols, *order; /* of sorts */
    int major;                /* sorted by: 0 rows, 1 columns */
    void *count;              /* int: entries of the result */
    struct mt_sparse *target; /* whose number of entries is set, on the host */
    struct mt_triplets *kept; /* the host's: a product between its two calls */
};

/* A job of a handle; 0, or NOT_INITIALIZED. */
int mt_sparse_job(struct mt_sparse_job *j, void *handle, const char *name,
                  void (*ranges)(struct mt_library_call *, struct mt_library_notes *),
                  int (*run)(struct mt_library_call *));
void mt_sparse_scalars(struct mt_sparse_job *j, char type, const void *alpha, const void *beta);
double _Complex mt_sparse_scalar(const struct mt_sparse_job *j, int i);
/* Notes them if they are on the device. */
int mt_sparse_note_scalars(const struct mt_sparse_job *j, struct mt_library_notes *notes);
/* wait: it has run when this returns. */
int mt_sparse_submit(struct mt_sparse_job *j, void *handle, int wait);
/* An older function's matrix, with 32-bit indices. */
struct mt_sparse mt_sparse_older(int m, int n, int entries, int base, char letter, const void *values,
                                 const void *offsets, const void *columns);
#endif
