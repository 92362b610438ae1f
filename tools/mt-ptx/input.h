/* Device code in a file: fatbins, or PTX text. Functions return 0, or the exit code after a message: 1
 * failure, 3 damaged input. */
#ifndef MT_PTX_INPUT_H
#define MT_PTX_INPUT_H
#include <stddef.h>
#include <stdint.h>
#include "../cudabin/process.h"

struct fatbin_header {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size; /* bytes after the header */
};
struct entry_header {
    uint16_t kind, version;
    uint32_t header_size;
    uint64_t size; /* bytes after this header, padded */
    uint32_t packed_size, options;
    uint16_t minor, major;
    uint32_t arch, name_offset, name_size;
    uint64_t flags, reserved, unpacked_size;
};
_Static_assert(sizeof(struct fatbin_header) == 16, "as in the file");
_Static_assert(sizeof(struct entry_header) == 64, "as in the file");
#define FATBIN_PTX 1
#define FATBIN_ELF 2
#define FATBIN_LTO 8            /* LLVM IR of nvcc's, for its device linker */
#define FATBIN_ALONE 0x100000u  /* flag: for this architecture only (compute_90a) */
#define FATBIN_FAMILY 0x200000u /* flag: for its family only (compute_100f) */
struct fatbin_entry {
    unsigned kind, arch; /* kind: FATBIN_…; arch: N of compute_N or sm_N */
    uint64_t flags;
    const unsigned char *data; /* data as stored in the file */
    size_t size, unpacked;     /* size as stored, and when unpacked; 0: not packed */
};
/* Most bytes that a small input may unpack to, or reserve implicitly (--limit). */
extern uint64_t mt_ptxtool_limit;
/* Unpacks the entry's bytes; the caller frees out. */
int mt_ptxtool_fatbin_unpack(const char *name, const struct fatbin_entry *e, struct bytes *out);

struct module { /* device code of one source file: a fatbin, or PTX text */
    unsigned number, n;
    struct fatbin_entry *entries;
};
struct input {
    const char *name;
    struct bytes file;
    struct module *modules;
    unsigned n;
};
int mt_ptxtool_input_read(const char *name, struct input *in);
void mt_ptxtool_input_free(struct input *in);
unsigned mt_ptxtool_module_has(const struct module *m, unsigned kind); /* number of entries of this kind */

/* Calls `each` with the name of each kernel in machine code. Returns 0, or 3 if it is damaged. */
int mt_ptxtool_cubin_kernels(const struct bytes *cubin, void (*each)(void *ctx, const char *name), void *ctx);
#endif
