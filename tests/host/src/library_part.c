/* A library of the program's own, with a variable that the C library fills. */
#include <string.h>

static char pool[3000];

char *part_fill(void)
{
    memset(pool, 1, sizeof pool);
    return pool;
}
