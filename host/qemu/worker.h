/* A thread of our own inside qemu, for mt_core_engine.spawn and join. It takes no signals, as those are
 * the guest's. */
#ifndef MT_HOST_QEMU_WORKER_H
#define MT_HOST_QEMU_WORKER_H
/* Returns 0 or an errno value. */
int mt_worker_spawn(void (*run)(void *), void *arg, void **handle);
void mt_worker_join(void *handle);
#endif
