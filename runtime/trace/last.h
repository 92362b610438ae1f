/* A process ends with its last thread when main has called pthread_exit. Ours never end by themselves, so
 * somebody has to see that no other one is left: a thread that begins when main ends this way, looks at the
 * process's threads, and then calls exit(0) as the last of them would have done. */
#ifndef MT_COMMON_LAST_H
#define MT_COMMON_LAST_H

/* The calling thread is the runtime's, and does not keep the process alive; until it says that it ends. */
void mt_last_ours(void);
void mt_last_ours_end(void);
#endif
