/* Writes a compact container (.mtc). Used inside traced programs: never aborts, reports through `why`, keeps
 * the file readable at every moment (each chunk is one write). Builds with glibc and, without zstd
 * (MT_CONTAINER_STORED), with PinCRT; then chunks are stored and memtrace convert packs them.
 *
 * Thread-safe: mt_mtc_write may be called from several threads; compression happens in the caller, only the
 * append to the file is under a lock (a spin lock with yield: no pthread). */
#ifndef MT_CONTAINER_WRITER_H
#define MT_CONTAINER_WRITER_H
#include "memtrace/container.h"
#include "memtrace/device.h"

struct mt_mtc_writer;

/* How the writer reaches its file, so that the owner decides about FIFOs, O_NOFOLLOW and forks. Writes all
 * `bytes`; 0 or an errno value. */
struct mt_mtc_file {
    int (*write)(void *self, const void *data, size_t bytes);
    void *self;
};

/* Writes the file head. level: zstd level 1..19, 0 stores. NULL: *why is a sentence for the user. */
struct mt_mtc_writer *mt_mtc_writer_open(const struct mt_mtc_file *file, uint64_t features, int level,
                                         char *why, size_t size);
/* The same with a head that another container had; its checksum is made anew. */
struct mt_mtc_writer *mt_mtc_writer_again(const struct mt_mtc_file *file, const struct mt_mtc_head *head,
                                          int level, char *why, size_t size);
/* One chunk. 0, or an errno value: the writer is then off
 * and takes no more. */
int mt_mtc_write(struct mt_mtc_writer *w, enum mt_mtc_chunk_type type, unsigned flags, uint64_t key,
                 uint64_t first, uint64_t last, uint64_t items, const void *plain, size_t bytes);

/* The same in two halves: packing needs no writer and no lock, so it can go on anywhere while another decides
 * about the order in the file. None of this calls malloc. */
struct mt_packer;                      /* a chunk that is not yet in a file; one user at a time */
struct mt_packer *mt_packer_new(void); /* NULL: no memory */
void mt_packer_free(struct mt_packer *p);
int mt_packer_reserve(struct mt_packer *p,
                      size_t bytes); /* for payloads of so many bytes. 0, or -1: no memory */
/* level: 0 stores. 0 or an errno value. */
int mt_mtc_pack(struct mt_packer *p, int level, enum mt_mtc_chunk_type type, unsigned flags, uint64_t key,
                uint64_t first, uint64_t last, uint64_t items, const void *plain, size_t bytes);
/* As mt_mtc_write; `p` can then be packed anew. */
int mt_mtc_append(struct mt_mtc_writer *w, const struct mt_packer *p);

/* Bytes written so far. */
uint64_t mt_mtc_writer_bytes(const struct mt_mtc_writer *w);
/* Writes index and tail and frees the writer (not the file). 0 or an errno value. */
int mt_mtc_writer_close(struct mt_mtc_writer *w);

/* ---- entries of a thread -> payload of a host chunk ---- */

struct mt_mtc_encoder; /* one per thread of the program or per worker; keeps its tables between chunks */

struct mt_mtc_encoder *mt_mtc_encoder_new(void); /* NULL: no memory */
void mt_mtc_encoder_free(struct mt_mtc_encoder *e);
/* Encodes `count` entries (whole events, whole instructions with their operands; at most MT_MTC_MAX_ITEMS) as
 * one self-contained payload; it is the encoder's and valid until the next call. More entries in one go
 * compress better: 256 Ki are good, 16 Ki cost about half a byte an access more in large programs. *items
 * counts accesses and events; *seq is the sequence number in force, updated by SEQ events on the way. Returns
 * the bytes; 0 without memory or with too many entries. */
size_t mt_mtc_encode(struct mt_mtc_encoder *e, const struct mt_host_entry *entries, size_t count,
                     uint64_t *items, uint64_t *seq, const void **payload);
size_t mt_mtc_encode_timed(struct mt_mtc_encoder *e, const struct mt_host_timed_entry *entries, size_t count,
                           uint64_t *items, uint64_t *seq, const void **payload);
/* The same as mt_mtc_encode_timed for entries whose times need not be written down: at the start it is time
 * 0; an access by operand 0 of its instruction is 1 later than what is before it, all else is at the same
 * time. An entry with site 0, size MT_MTC_SHIFT is not an item: its address is how much later (modulo 2^64)
 * the next one is. */
#define MT_MTC_SHIFT 63u
/* Nor is one with site 0 and lower 6 bits of size MT_MTC_REPEAT: `address` accesses are left out in its
 * place. They go on with the period of size >> 6 that the two periods before it and the two after it have:
 * the same sites, all different, and sizes, each address as far from that one period before as that is from
 * the one two periods before. Not with times. */
#define MT_MTC_REPEAT 62u
size_t mt_mtc_encode_counted(struct mt_mtc_encoder *e, const struct mt_host_entry *entries, size_t count,
                             uint64_t *items, uint64_t *seq, const void **payload);

/* Leaves out such accesses, in place and in order: a loop's entries are compared while the processor still
 * has them at hand, and nobody reads or writes them again. */
struct mt_mtc_repeats {
    uint64_t left_out; /* accesses so far */
    uint32_t period;   /* found last; 0: none */
    uint32_t patience, rest;
};
/* The entries from `from` to `end`, of which those from `first` on are in the same buffer. Returns the new
 * end. Only for entries that go to mt_mtc_encode or mt_mtc_encode_counted; not for accesses of different
 * threads or times. */
struct mt_host_entry *mt_mtc_shorten(struct mt_mtc_repeats *r, const struct mt_host_entry *first,
                                     struct mt_host_entry *from, const struct mt_host_entry *end);

/* ---- runs of a kernel launch -> payload of a device chunk ---- */

struct mt_mtc_device_encoder; /* one per worker; keeps its tables between chunks; one user at a time */

struct mt_mtc_device_encoder *mt_mtc_device_encoder_new(void); /* NULL: no memory */
void mt_mtc_device_encoder_free(struct mt_mtc_device_encoder *e);
/* Encodes `count` runs of one launch (memtrace/device.h), in order, as one self-contained payload; it is the
 * encoder's and valid until the next call. 0 runs are fine: a launch that touched nothing has one empty
 * chunk. *accesses is what mt_mtc_write wants as `items`. 64 Ki to 256 Ki runs in one go are good. Returns
 * the bytes; 0 with *why (a constant sentence): no memory, more than MT_MTC_MAX_RUNS or MT_MTC_MAX_ACCESSES
 * (a run whose lanes have addresses but no mask counts as one for each 32), or a run that is not one (no
 * count, a mask with another number of bits, size 0, type above 3).
 *
 * Then: mt_mtc_write(w, MT_MTC_DEVICE, flags, MT_MTC_DEVICE_KEY(stream, kernel), seq, seq, accesses, payload,
 * bytes) with MT_MTC_BEGIN in the first chunk of the launch and MT_MTC_END in the last one (both when it is
 * the only one). Before the first chunk of a kernel's first launch a meta chunk has a line
 * {"ev": "kernel", "id": K, "name": "as in a raw trace"}. The chunks of one launch are in the file in the
 * order in which readers see its accesses; those of launches of different streams may be mixed. */
size_t mt_mtc_encode_device(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs, size_t count,
                            uint64_t *accesses, const void **payload, const char **why);
/* The same chunk bit by bit, so that runs need not lie in memory until it is full: begin with room for `runs`
 * runs (NULL, or why not); add says 1, or 0: there is no room for these, end the chunk and begin another one,
 * or -1 with *why (the chunk is of no use then); end gives the payload. */
const char *mt_mtc_device_begin(struct mt_mtc_device_encoder *e, size_t runs);
int mt_mtc_device_add(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs, size_t count,
                      const char **why);
size_t mt_mtc_device_end(struct mt_mtc_device_encoder *e, uint64_t *accesses, const void **payload);
#endif
