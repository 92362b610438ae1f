/* Calls of libraries as operations of a stream (library.h). */
#ifndef MT_API_LIBCALL_H
#define MT_API_LIBCALL_H
#include "library.h"

struct mt_op;
struct mt_stream;
/* Before it is queued in `s`: the trace that its records go to. */
void mt_libcall_bind(struct mt_op *op, struct mt_stream *s);
/* On a GPU: this thread is in a call of a real library, whose own launches are not the program's. */
int mt_libcall_inside(void);
#endif
