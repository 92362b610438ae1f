/* The GPUs shown by the CPU device (MEMTRACE_CPU_DEVICES): their number, the current one of a thread, and
 * peer access. On a real GPU there is only number 0 here. Thread-safe. */
#ifndef MT_COMMON_DEVICES_H
#define MT_COMMON_DEVICES_H

#define MT_DEVICES_MAX 64

int mt_devices(void);
/* Sets the number of devices that lines are written for when a real GPU was chosen. */
void mt_devices_of_gpu(int n);
/* Returns the device's number in traces, as CUDA_VISIBLE_DEVICES may give a process others than 0, 1 …; -1 if
 * traces give no numbers, or for no device. */
int mt_device_number(int device);
/* Returns 1 if there is a device of this number. */
int mt_device_there(int device);
/* Returns the current device of this thread; 0 at first. */
int mt_device_current(void);
/* Makes a device current. Returns the previous one. */
int mt_device_select(int device);

/* [device][owner]: 1 if kernels of `device` may access the memory of `owner`, another one. */
extern _Atomic unsigned char mt_device_peers[MT_DEVICES_MAX][MT_DEVICES_MAX];
#endif
