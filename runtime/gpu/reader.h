/* The thread that looks at rings for as long as launches are under way, and who waits for it. */
#ifndef MT_GPU_READER_H
#define MT_GPU_READER_H
#include "flight.h"

/* What it does, turn after turn: on its thread. */
struct mt_reader_ops {
    unsigned (*poll)(void);           /* looks at all rings; returns how many packets came */
    void (*left)(struct mt_flight *); /* a launch has left (mt_flight_retire) */
    void (*retired)(void);            /* some have; may be NULL */
};
/* A launch is under way: the reader reads until it has left. The same ops each time. 0, or -1 when there is
 * no thread. */
int mt_reader_wake(const struct mt_reader_ops *ops);

/* How long nothing has come, in calls of mt_reader_quiet that are MT_READER_STALL_MS apart. */
#define MT_READER_STALL_MS 500
struct mt_patience {
    uint64_t seen, turn;
    unsigned quiet;
};
struct mt_patience mt_reader_patience(void);
/* 1: so many times nothing had come: the reader turned and turned, or has nothing to do. (One that does not
 * turn is writing to a FIFO that nobody reads: that is waited for.) */
int mt_reader_quiet(struct mt_patience *p, unsigned most);
#endif
