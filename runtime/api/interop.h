/* Graphics interoperation (OpenGL, EGL, VDPAU): declared here because NVIDIA's headers need those of the
 * graphics libraries. The CPU device returns an error for all of it; on a GPU the calls are forwarded
 * unchanged, so only the names matter. gen_entries.py reads this file like CUDA's own header. */
#ifndef MT_API_INTEROP_H
#define MT_API_INTEROP_H
#include <cuda_runtime_api.h>

extern cudaError_t cudaGLGetDevices(unsigned *count, int *devices, unsigned room, int list);
extern cudaError_t cudaGraphicsGLRegisterImage(struct cudaGraphicsResource **resource, unsigned image,
                                               unsigned target, unsigned flags);
extern cudaError_t cudaGraphicsGLRegisterBuffer(struct cudaGraphicsResource **resource, unsigned buffer,
                                                unsigned flags);
extern cudaError_t cudaGLSetGLDevice(int device);
extern cudaError_t cudaGLRegisterBufferObject(unsigned buffer);
extern cudaError_t cudaGLMapBufferObject(void **out, unsigned buffer);
extern cudaError_t cudaGLUnmapBufferObject(unsigned buffer);
extern cudaError_t cudaGLUnregisterBufferObject(unsigned buffer);
extern cudaError_t cudaGLSetBufferObjectMapFlags(unsigned buffer, unsigned flags);
extern cudaError_t cudaGLMapBufferObjectAsync(void **out, unsigned buffer, cudaStream_t stream);
extern cudaError_t cudaGLUnmapBufferObjectAsync(unsigned buffer, cudaStream_t stream);

/* Frames are passed by value on the stack; nothing here reads them. */
extern cudaError_t cudaGraphicsEGLRegisterImage(struct cudaGraphicsResource **resource, void *image,
                                                unsigned flags);
extern cudaError_t cudaEGLStreamConsumerConnect(void *connection, void *stream);
extern cudaError_t cudaEGLStreamConsumerConnectWithFlags(void *connection, void *stream, unsigned flags);
extern cudaError_t cudaEGLStreamConsumerDisconnect(void *connection);
extern cudaError_t cudaEGLStreamConsumerAcquireFrame(void *connection, void *resource, void *stream,
                                                     unsigned timeout);
extern cudaError_t cudaEGLStreamConsumerReleaseFrame(void *connection, void *resource, void *stream);
extern cudaError_t cudaEGLStreamProducerConnect(void *connection, void *stream, int width, int height);
extern cudaError_t cudaEGLStreamProducerDisconnect(void *connection);
extern cudaError_t cudaEGLStreamProducerPresentFrame(void *connection);
extern cudaError_t cudaEGLStreamProducerReturnFrame(void *connection, void *frame, void *stream);
extern cudaError_t cudaGraphicsResourceGetMappedEglFrame(void *frame, void *resource, unsigned index,
                                                         unsigned level);
extern cudaError_t cudaEventCreateFromEGLSync(void *event, void *sync, unsigned flags);

extern cudaError_t cudaVDPAUGetDevice(int *device, unsigned vdp, void *get);
extern cudaError_t cudaVDPAUSetVDPAUDevice(int device, unsigned vdp, void *get);
extern cudaError_t cudaGraphicsVDPAURegisterVideoSurface(struct cudaGraphicsResource **resource,
                                                         unsigned surface, unsigned flags);
extern cudaError_t cudaGraphicsVDPAURegisterOutputSurface(struct cudaGraphicsResource **resource,
                                                          unsigned surface, unsigned flags);
#endif
