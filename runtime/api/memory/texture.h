/* Texture and surface objects of the CPU device. */
#ifndef MT_API_TEXTURE_H
#define MT_API_TEXTURE_H
/* Destroys all of them: cudaDeviceReset. */
void mt_textures_reset(int device);
#endif
