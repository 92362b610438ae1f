/* main writes an array of 1,024 bytes, one thread sums it into a variable, main prints that. */
#include <pthread.h>
#include <stdio.h>

static int data[256], sum;

static void *add(void *arg)
{
    int own = 0;
    for (int i = 0; i < 256; i++)
        own += data[i];
    sum = own;
    return arg;
}

int main(void)
{
    pthread_t t;
    for (int i = 0; i < 256; i++)
        data[i] = i;
    pthread_create(&t, 0, add, 0);
    pthread_join(t, 0);
    printf("%d\n", sum);
    return 0;
}
