/* Arrays that grow. Not installed. */
#ifndef MT_GROW_H
#define MT_GROW_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes `*(void **)array`, which has room for *room elements of `size` bytes, hold at least `want`. The room
 * doubles, so that growing by one each time costs little. New elements are not initialised. NULL with room 0
 * is an empty array; the array is the caller's to free. 0, or -1 without memory: all stays as it was. */
static inline int mt_grow(void *array, size_t *room, size_t want, size_t size)
{
    enum { AT_LEAST = 4 };
    void *p;
    if (want <= *room)
        return 0;
    size_t more = *room <= SIZE_MAX / 2 && want < 2 * *room ? 2 * *room : want;
    if (more < AT_LEAST)
        more = AT_LEAST;
    memcpy(&p, array, sizeof p); /* a pointer of any type: those of C may not alias */
    if (more > PTRDIFF_MAX / size || !(p = realloc(p, more * size)))
        return -1;
    memcpy(array, &p, sizeof p);
    *room = more;
    return 0;
}
#endif
