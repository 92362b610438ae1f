/* CPU images of device code that came without one: made by mt-ptx, a process beside the program's, and kept
 * in a folder of the user's (base/cache.h). Thread-safe. */
#ifndef MT_CPU_MAKE_H
#define MT_CPU_MAKE_H
#include <stddef.h>
#include <stdint.h>

/* Device code in memory: PTX as text, a fatbin or a cubin. */
struct mt_code {
    const void *data;
    size_t bytes;
};
/* How long such code is, as it says itself; 0: it is not one of these. PTX ends with NUL. */
size_t mt_code_bytes(const void *data);

struct mt_made {
    void *block;        /* the caller's to free when the image is loaded */
    const void *fatbin; /* with the image after: for mt_image_load_all */
    const char *words;  /* what mt-ptx had to say, lines without a prefix; not ended by NUL */
    size_t nwords;
    int kept; /* it was there already */
};
/* Makes one image of all the code, which belongs together (-rdc), or takes it from the folder. May take
 * seconds, and says so then; `what` is what it calls the code. 0, or -1 with a sentence in *why. */
int mt_image_make(const struct mt_code *code, size_t n, const char *what, struct mt_made *out, char *why,
                  size_t size);
#endif
