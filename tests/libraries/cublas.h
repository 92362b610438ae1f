/* What the cases of cuBLAS share. */
#ifndef TEST_LIBRARIES_CUBLAS_H
#define TEST_LIBRARIES_CUBLAS_H
#include "model.h"

extern void *handle;
extern char name[64]; /* of the function at hand */
typedef const void *in;
typedef void *out;

/* The call of `name` has been made, on elements of this type. */
void done(char t);

void test_vectors_ex(void);
void test_device_scalars(void);
void test_graph(void);
void test_errors(void);
void test_management(void);
#endif
