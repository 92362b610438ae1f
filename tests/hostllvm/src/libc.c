/* Calls of the C library whose accesses happen inside it; prints where the buffers lie. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static char a[256], b[256], c[256];
/* Out of the compiler's sight: it must not know the answers. */
static char *volatile pa = a, *volatile pb = b, *volatile pc = c;
static volatile size_t n5 = 5, n100 = 100, zero;

int main(void)
{
    char *x = pa, *y = pb, *z = pc;
    volatile size_t sink = 0;
    printf("%p %p %p\n", (void *)x, (void *)y, (void *)z);
    fflush(stdout);
    memset(x, 'q', n100);
    memcpy(y, x, n100);
    memmove(x + 1, x, n5);
    memcpy(y, x, zero); /* touches nothing */
    strcpy(z, "hello");
    sink += strlen(z);
    sink += strnlen(z, n5);
    sink += (size_t)(strcmp(z, "help") > 0);
    sink += (size_t)memcmp(x, y, n100);
    sink += (size_t)(strchr(z, 'l') - z);
    strcat(z, pc + 200); /* "hello" + "" */
    strncpy(y, z, n5 * 2);
    sink += (size_t)(memchr(x, 'z', n5) != NULL);
    char *d = strdup(z);
    printf("%s %zu %p\n", z, (size_t)sink, (void *)d);
    free(d);
    return 0;
}
