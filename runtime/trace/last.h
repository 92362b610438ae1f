/* Process exit with the last thread, after main has called pthread_exit. Threads of the runtime never end by
 * themselves. So a thread begins when main ends this way, looks at the process's threads, and calls exit(0)
 * once all others have ended, as the last of them would have done. */
#ifndef MT_COMMON_LAST_H
#define MT_COMMON_LAST_H

/* Mark the calling thread as the runtime's, which does not keep the process alive, until it ends. */
void mt_last_ours(void);
void mt_last_ours_end(void);
/* Returns 1 if the calling thread is the only one of the program, apart from threads that sleep in a lock or
 * a condition variable and have no time set: only it can wake them. */
int mt_last_alone(void);
/* Returns 1 in a thread of the runtime if all threads of the program sleep so, or wait for its work. */
int mt_last_asleep(void);
/* The calling thread waits for work of the runtime for some time, or (0) no longer. */
void mt_last_waits(int on);
#endif
