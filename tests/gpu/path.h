/* Kernels of host threads for the tests of the whole GPU path: what each lane does is a function of its
 * numbers, so that a trace can be checked access by access. */
#ifndef MT_TEST_PATH_H
#define MT_TEST_PATH_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "device/gpu.h"
#include "fake_cuda.h"

#define LANES 6 /* 0 and 1, 5 to 8 of a warp of 32 */

struct access {
    int kind; /* 0 global, 1 generic, 2 global block, 3 generic block, 4 untraced */
    uint32_t type, size;
    uint64_t address, bytes;
    int odd_only; /* only every second lane does it */
};

struct kernel {
    char name[32];
    unsigned ctas, accesses, seed;
    void *context;
    const uint32_t *bases; /* its accesses are in the code of two files by turns, whose bases these are */
    void (*before)(struct kernel *k);
    struct kernel *wait_for; /* runs beside the next one, as programmatic launches do */
    void (*stall)(void);     /* called by each lane that has its packet's place, before it writes there */
};

/* What lane `lane` of CTA `cta` does as its i-th access; and does it make records? */
struct access access_of(const struct kernel *k, unsigned cta, unsigned lane, unsigned i);
int recorded(const struct access *a, unsigned lane);
/* Runs it, as work of a stream or at once. */
void run_kernel(void *kernel);
/* Launches it as the API layer does; with a status it was not issued after all. */
void launch(struct kernel *k, struct fake_stream *s, struct mt_trace *t, cudaError_t status);
/* A wait of the program for a stream with this trace; s NULL: for its current device. */
void synced(struct fake_stream *s, const struct mt_trace *t, cudaError_t e);
/* The same, after waiting until the stream is empty. */
void sync_stream(struct fake_stream *s, const struct mt_trace *t);
/* Is the launch in the trace, whole, in each thread's order? */
void check(const struct kernel *k, const struct fake_launch *got);
/* Work of streams: wait for a semaphore, post it. */
void hold_up(void *semaphore);
void let_go(void *semaphore);
/* test_parts.c: graphs, files, devices, waits. */
void graphs(void **state);
void graphs_without_write_value(void **state);
void graph_not_issued(void **state);
void sites_of_files(void **state);
void two_devices(void **state);
void others_run(void **state);
/* test_late.c: sinks, packets and marks that take their time. */
void slow_sink(void **state);
void stale_packets(void **state);
void late_mark(void **state);
void late_mark_of_node(void **state);
void borrow_all(struct fake_stream *s, struct mt_trace *t); /* all contexts of the device can be lent */
void set_up_beside(void **state);
void damaged_ring(void **state);
void in_a_child(void **state);
/* test_errors.c: contexts and devices that cannot be traced, errors that a device has for good. */
void other_context(void **state);
void not_set_up(void **state);
int check_errors(char **codes);
#endif
