/* The GPUs that the CPU device shows (MEMTRACE_CPU_DEVICES): how many there are, which one is current in a
 * thread, and which reach whose memory. On a GPU there is one here, number 0. Thread-safe. */
#ifndef MT_COMMON_DEVICES_H
#define MT_COMMON_DEVICES_H

#define MT_DEVICES_MAX 64

int mt_devices(void);
/* A GPU was chosen; its own code runs, and of so many lines are written. */
void mt_devices_of_gpu(int n);
/* What traces call one: CUDA_VISIBLE_DEVICES may show a process others than 0, 1 … */
int mt_device_number(int device);
/* Do traces say which one? */
int mt_devices_numbered(void);
/* Is there one of this number? */
int mt_device_there(int device);
/* This thread's; 0 at first. */
int mt_device_current(void);
/* Returns which one it was. */
int mt_device_select(int device);

/* May kernels of `device` touch the memory of `owner`? */
int mt_device_reaches(int device, int owner);
/* From now on they may, or not. Returns whether they might. */
int mt_device_reach(int device, int owner, int on);
/* cudaDeviceReset: it reaches none but itself. */
void mt_device_alone(int device);
#endif
