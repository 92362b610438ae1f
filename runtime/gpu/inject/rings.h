/* The rings and launch contexts of one CUcontext, and the thread that reads all of them. Launch contexts are
 * lent: a launch has one from before it begins until it has left. Knows the API's memory functions, which the
 * reader never calls. */
#ifndef MT_INJECT_RINGS_H
#define MT_INJECT_RINGS_H
#include "api.h"
#include "gpu/flight.h"
#include <stdint.h>

#ifndef MT_GPU_RINGS /* as in gpu/device.h; tests have less of everything */
#define MT_GPU_RINGS 32u
#define MT_GPU_CONTEXTS 1024u
#define MT_GPU_BATCH 4096u
#endif

struct mt_inject_rings;

/* In the memory of `context`; `code`: a pc in the middle of what will run there, 0: not known. NULL: *why is
 * a sentence. */
struct mt_inject_rings *mt_rings_new(CUcontext context, uint64_t code, char *why, size_t size);
/* Their memory is about to go. Nobody may have one of their contexts. They stay, but are not looked at. */
void mt_rings_retire(struct mt_inject_rings *r);
/* The same of all, for ever: the driver is about to shut down. */
void mt_rings_close(void);
int mt_rings_closed(void);
/* 1: the program wrote into a ring; launches are not to be traced any more. */
int mt_rings_damaged(const struct mt_inject_rings *r);

/* Lends f a context and sets its place and code; waits up to `ms` for one. What the patches get as their
 * data; NULL: none is free, or it cannot be told where the code is, which is at `pc` (0: not known). */
void *mt_rings_lend(struct mt_inject_rings *r, struct mt_flight *f, uint64_t pc,
                    Sanitizer_StreamHandle stream, unsigned ms);
/* Gives it back unused: the launch has not been added to a queue, or never will be. */
void mt_rings_return(struct mt_flight *f);
/* A launch is under way, to be called before it is added: the reader reads. -1: there is no thread. */
int mt_rings_wake(void);

/* What a device said of itself at one time, all work of which it was waited for. */
struct mt_rings_look {
    uint64_t heads[MT_GPU_RINGS];
    unsigned top;                      /* contexts below this number were lent so far */
    uint64_t records[MT_GPU_CONTEXTS]; /* made by each */
    uint32_t lending[MT_GPU_CONTEXTS]; /* the last one that had it; 0: somebody has it */
};
/* 1: contexts were lent whose records have not been compared yet. */
int mt_rings_unseen(const struct mt_inject_rings *r);
/* Copies it, in the order of `stream`. */
SanitizerResult mt_rings_look(struct mt_inject_rings *r, struct mt_rings_look *l,
                              Sanitizer_StreamHandle stream);
/* 1: the reader has taken all that was there then. */
int mt_rings_passed(const struct mt_inject_rings *r, const struct mt_rings_look *l);
/* Records that a launch made, of one that still had its context then. */
uint64_t mt_rings_counted(const struct mt_rings_look *l, const struct mt_flight *f);
/* Compares records that were made with those that came, of contexts that nobody had then nor since. Calls
 * `differs` for each where they are not the same, with what its last launch was; such a difference is told
 * once. */
void mt_rings_compare(struct mt_inject_rings *r, const struct mt_rings_look *l,
                      void (*differs)(struct mt_trace *trace, uint64_t made, uint64_t came));
#endif
