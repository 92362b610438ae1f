/* Leaks: 40 small blocks of one line, and then a large one. */
#include <stdlib.h>

int main(void)
{
    for (int i = 0; i < 40; i++) {
        volatile char *small = malloc(7);
        small[0] = (char)i;
        (void)small[0];
    }
    volatile char *large = malloc(500000); /* line 11 */
    large[0] = 1;
    return large[0] != 1;
}
