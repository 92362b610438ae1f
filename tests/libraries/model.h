/* A model of memory that notes which bytes are read and written: naive algorithms over it say what a
 * library's call must compute and touch. Shared by the cases of all libraries. */
#ifndef TEST_LIBRARIES_MODEL_H
#define TEST_LIBRARIES_MODEL_H
#include <stddef.h>
#include <stdint.h>

typedef double _Complex number;

/* Device memory, and what it must contain. Letters of types: S D C Z, H half, B bfloat16, I int32, i int8. */
struct memory {
    char letter;
    size_t count; /* elements */
    char *device, *expected;
    unsigned char *read, *written; /* by byte */
};

extern int failures;
void *function(const char *format, ...) __attribute__((format(printf, 1, 2)));
void check(int good, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Does the letter name complex numbers? */
int is_complex(char letter);
/* A call of `name` that must return 0. */
#define CALL(name, ...)                                                                                      \
    do {                                                                                                     \
        int status_ = __VA_ARGS__;                                                                           \
        check(!status_, "%s: status %d", name, status_);                                                     \
    } while (0)

/* Filled with numbers that are small and differ. */
struct memory *memory_new(char letter, size_t count);
/* The same with these contents. */
struct memory *memory_of(char letter, size_t count, const number *values);
number get(struct memory *m, long i);
void put(struct memory *m, long i, number v);
/* The value without noting a read. */
number peek(const struct memory *m, long i);
size_t element(char letter);

/* A call is about to be made: nothing has been touched. */
void begin(void);
/* It has been made: what was noted is printed for `kernel`, and the device's memory compared. `tolerance`:
 * relative. */
void end(const char *kernel, double tolerance);
/* The same where the call made no launch. */
void end_without(void);
double tolerance_of(char letter);
/* Writes element i of host memory. */
void set(char letter, void *p, long i, number v);
#endif
