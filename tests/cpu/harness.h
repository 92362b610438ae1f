/* Loads the test image the way libmemtrace.so does, and launches its kernels. */
#ifndef HARNESS_H
#define HARNESS_H
#include <stdint.h>
#include "cpu.h"
struct mt_image *load_test_image(void);
/* Wraps any bytes as a fatbin with a payload after it; the result lives for ever. */
void *wrap_fatbin(const void *object, size_t size, const char *magic);

struct dim {
    uint32_t x, y, z;
};
/* Runs the launch to its end. Returns 0 or a cudaError_t value. */
int run(struct mt_cpu_launch *l);
/* Launches `name` untraced; args: pointers to the parameters. Returns the error code,
 * message in l->message. */
int launch(struct mt_cpu_launch *l, const struct mt_image *image, const char *name, struct dim grid,
           struct dim block, uint32_t dyn_shared, void **args);
double now(void);
#endif
