/* The GPUs shown by the CPU device (MEMTRACE_CPU_DEVICES): their number, the current one of a thread, and
 * peer access. On a real GPU there is only number 0 here. Thread-safe. */
#ifndef MT_COMMON_DEVICES_H
#define MT_COMMON_DEVICES_H

#define MT_DEVICES_MAX 64

int mt_devices(void);
/* Sets the number of devices that lines are written for when a real GPU was chosen. */
void mt_devices_of_gpu(int n);
/* Returns the device's number in traces: CUDA_VISIBLE_DEVICES may give a process others than 0, 1 … */
int mt_device_number(int device);
/* Returns 1 if traces give device numbers. */
int mt_devices_numbered(void);
/* Returns 1 if there is a device of this number. */
int mt_device_there(int device);
/* Returns the current device of this thread; 0 at first. */
int mt_device_current(void);
/* Makes a device current. Returns the previous one. */
int mt_device_select(int device);

/* Returns 1 if kernels of `device` may access the memory of `owner`. */
int mt_device_reaches(int device, int owner);
/* Allows or forbids this access. Returns whether it was allowed. */
int mt_device_reach(int device, int owner, int on);
/* cudaDeviceReset: ends the device's access to all others. */
void mt_device_alone(int device);
#endif
