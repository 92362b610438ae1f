/* The wrappers of NVIDIA's ptxas and fatbinary: carry the CPU image from the PTX, where the compiler pass
 * leaves it as a comment line, to the place after the fatbin
 * where the runtime looks for it (format/image.h).
 *
 * Two stations, since clang runs two programs and may keep the PTX from the second one:
 *   ptxas      takes the line out, assembles the rest, and puts the object (decoded) at the end of the cubin
 *   fatbinary  takes line or object out of its inputs, links the object, and puts the payload
 *              after the fatbin
 *
 * Exit codes are those of the real tools; 1 when the wrapper itself fails. Messages: "memtrace: ptxas: …" on
 * stderr. Signals: temporary files are removed, the child is ended,
 * then the signal takes its default course. */
#ifndef MT_TOOLS_CUDABIN_H
#define MT_TOOLS_CUDABIN_H
#include <stddef.h>
#include <stdint.h>
#include "base/say.h"

/* ---- file.c: whole files, temporary files
 * ------------------------------------------------------------------ */

/* Bytes on the heap; data is NULL when size is 0. Zero-initialise; bytes_free is safe to repeat. */
struct bytes {
    unsigned char *data;
    size_t size;
};
void mt_cudabin_bytes_free(struct bytes *b);
/* 0, or -1 with errno. */
int mt_cudabin_file_read(const char *path, struct bytes *out);
int mt_cudabin_file_append(const char *path, const void *data, size_t size);
int mt_cudabin_file_is_regular(const char *path);

/* A new temporary file with these contents in TMPDIR (or /tmp); NULL with errno.
 * The name lives until temp_remove. */
const char *mt_cudabin_temp_write(const char *suffix, const void *data, size_t size);
/* Removes all temporary files. Safe in a signal handler. */
void mt_cudabin_temp_remove(void);

/* ---- process.c
 * ---------------------------------------------------------------------------------------------- */

/* Installs the handlers that clean up. Call before the first temp_write. */
void mt_cudabin_process_guard(void);
/* Runs argv[0] (searched in PATH when it has no '/') and waits. Returns the exit code, 128 + signal when a
 * signal ended it, or -1 with errno when it could not be started. */
int mt_cudabin_process_run(char *const argv[]);
/* Ends with a code of process_run: by the same signal, if it was one,
 * so that the caller sees what it would see. */
int mt_cudabin_process_exit_code(int code);

/* ---- tool.c: which overlay this is, and where the real tools are ---------------------------------- */

struct tool {
    const char *name; /* "ptxas" or "fatbinary" */
    char *real;       /* the real tool, resolved */
    unsigned cuda;    /* CUDA_VERSION of the toolkit, e.g. 13000 */
};
/* Fills `tool` from the overlay that this executable lies in, and mt_cli_name; 0, or 1 after a message. */
int mt_cudabin_tool_find(struct tool *tool);
/* ---- image.c
 * ------------------------------------------------------------------------------------------------ */

/* Takes the CPU image out of the contents of a PTX file (comment lines) or of a cubin (trailer) in place.
 * `image` gets the relocatable object, empty when there is none; the last one when a PTX has several.
 * 0, or -1 with *why (static) when an image is there but damaged. PTX keeps its line count. What the compiler
 * could not write into the PTX is there then, too. */
int mt_cudabin_image_take(struct bytes *contents, struct bytes *image, const char **why);
/* ptx.c: the directives of kernels with __cluster_dims__. 0, or -1 with *why. */
int mt_cudabin_ptx_put_clusters(struct bytes *contents, const char **why);
/* Appends `object` to the cubin at path in the form that image_take finds; 0, or -1 with errno. */
int mt_cudabin_image_append(const char *path, const struct bytes *object);

/* ---- the two tools: take main's arguments, return the exit code ----------------------------------- */
int mt_cudabin_ptxas_main(const struct tool *tool, int argc, char **argv);
int mt_cudabin_fatbinary_main(const struct tool *tool, int argc, char **argv);
#endif
