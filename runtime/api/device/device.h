/* Which device this process runs on, decided at the first CUDA call that needs one. */
#ifndef MT_API_DEVICE_H
#define MT_API_DEVICE_H
#include <stddef.h>
#include <stdint.h>

/* 1: calls go to the real CUDA runtime. */
int mt_device_is_gpu(void);
/* The same without choosing: 0 when nobody has asked yet. */
int mt_device_chosen_gpu(void);
/* dlopen handle of the real CUDA runtime; NULL on the CPU device, or when there is none. */
void *mt_device_cudart(void);

/* dlopen handle of NVIDIA's driver, never of our own library in its place; NULL when there is none. */
void *mt_device_driver(void);
/* A library of the CUDA toolkit that memtrace was built with, opened, if base/trust.h lets it be; NULL. */
void *mt_device_toolkit(const char *file, int flags);

/* Limits of the CPU device: those of an sm_90 GPU. */
enum {
    MT_DEV_MAJOR = 9,
    MT_DEV_MINOR = 0,
    MT_DEV_THREADS_PER_BLOCK = 1024,
    MT_DEV_BLOCK_Z = 64,
    MT_DEV_GRID_YZ = 65535,
    MT_DEV_SHARED_BLOCK = 48 << 10,
    MT_DEV_SHARED_OPTIN = 227 << 10,
    MT_DEV_SHARED_SM = 228 << 10,
    MT_DEV_SHARED_RESERVED = 1 << 10, /* per block, by the system */
    MT_DEV_THREADS_PER_SM = 2048,
    MT_DEV_BLOCKS_PER_SM = 32,
    MT_DEV_CLUSTER = 8,              /* CTAs of a cluster; */
    MT_DEV_CLUSTER_NONPORTABLE = 16, /* of a kernel that is allowed to have more */
    MT_DEV_REGISTERS = 64 << 10,     /* per SM and per block */
    MT_DEV_KERNEL_REGISTERS = 32,
    MT_DEV_PITCH = 512,
    MT_DEV_ALIGN = 512, /* of allocations; what textures and surfaces of linear memory need */
    MT_DEV_TEXTURE_PITCH = 32,
    MT_DEV_TEXTURE_LINEAR = 1 << 28, /* texels in linear memory */
    MT_DEV_L2 = 4 << 20,
    MT_DEV_L2_PERSISTING = 3 << 20,
};
#define MT_DEV_GRID_X 0x7fffffffu
#define MT_DEV_KERNEL_HEAP (8u << 20) /* bytes for malloc in kernels, if nothing else is set */
#define MT_DEV_NAME "memtrace CPU device"
unsigned mt_device_sms(void);
uint64_t mt_device_memory(void); /* bytes in all, of each device */
/* Starts the worker pool once. 0 or an errno value. */
int mt_device_start(void);
#endif
