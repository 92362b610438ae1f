/* Growing arrays. Not installed. */
#ifndef MT_GROW_H
#define MT_GROW_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes the array `*(void **)array`, which has room for *room elements of `size` bytes, hold at least `want`.
 * The room doubles, so that growing by one element is cheap on average. New elements are not initialised.
 * NULL with room 0 is an empty array; the caller frees the array. Returns 0, or -1 without memory, with the
 * array unchanged. */
static inline int mt_grow(void *array, size_t *room, size_t want, size_t size)
{
    enum { AT_LEAST = 4 };
    void *p;
    if (want <= *room)
        return 0;
    size_t more = *room <= SIZE_MAX / 2 && want < 2 * *room ? 2 * *room : want;
    if (more < AT_LEAST)
        more = AT_LEAST;
    memcpy(&p, array, sizeof p); /* copied as bytes: C does not allow pointers of different types to alias */
    if (more > PTRDIFF_MAX / size || !(p = realloc(p, more * size)))
        return -1;
    memcpy(array, &p, sizeof p);
    *room = more;
    return 0;
}
#endif
