/* Walks over buffers of known sizes in known strides; cases_mat.py has the graph, computed by hand. No
 * library call and no access to the stack is between the accesses of walk(). Sizes name the buffers. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef volatile long long *words;
typedef volatile int *ints;

static __attribute__((noinline)) long long walk(words a, ints b, words old)
{
    long long sum = 0;
    for (int i = 0; i < 1000; i++) /* write, stride 8 */
        a[i] = i;
    for (int i = 0; i < 1000; i += 5) /* read, stride 40, after one step back */
        sum += a[i];
    for (int i = 0; i < 300; i++) /* by turns: read 8, write 4 */
        b[i] = (int)a[i];
    for (int i = 625; i >= 0; i -= 2) /* write backwards */
        old[i] = sum;
    return sum;
}

static __attribute__((noinline)) long long again(words fresh, ints grown)
{
    long long sum = 0;
    for (int i = 0; i < 626; i += 3) /* write: a new buffer where an old one was */
        fresh[i] = i;
    for (int i = 0; i < 150; i++) /* read what realloc took along */
        sum += grown[i];
    return sum;
}

static words shared;

static void *strides_stepper(void *arg)
{
    int step = (int)(size_t)arg;
    words p = shared;
    for (int i = 0; i < 900; i += step)
        p[i] = i;
    return NULL;
}

int main(void)
{
    words a = malloc(8000), old = malloc(5008);
    ints b = calloc(300, 4), small = malloc(600);
    shared = malloc(7200);
    for (int i = 0; i < 150; i++)
        small[i] = i;
    long long sum = walk(a, b, old);
    ints grown = realloc((void *)small, 90000);
    free((void *)old);
    words fresh = malloc(5008);
    int reused = fresh == old;
    sum += again(fresh, grown);
    pthread_t one, three;
    pthread_create(&one, NULL, strides_stepper, (void *)1);
    pthread_create(&three, NULL, strides_stepper, (void *)3);
    pthread_join(one, NULL);
    pthread_join(three, NULL);
    printf("%lld %d\n", sum, reused);
    return 0;
}
