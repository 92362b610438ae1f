/* Writer of compact traces (.mtc). Runs inside traced programs: never aborts, reports through `why`, and
 * keeps the file readable at every moment (each chunk is one write). Builds with glibc and, without zstd
 * (MT_CONTAINER_STORED), with PinCRT; chunks are then stored, and memtrace convert packs them.
 *
 * Thread-safe: several threads may call mt_mtc_write; each compresses in its own thread, and only the append
 * to the file takes a lock (a spin lock with yield: no pthread). */
#ifndef MT_CONTAINER_WRITER_H
#define MT_CONTAINER_WRITER_H
#include "memtrace/container.h"
#include "memtrace/device.h"

struct mt_mtc_writer;

/* Access to the file, so that the owner handles FIFOs, O_NOFOLLOW and forks. `write` writes all `bytes` and
 * returns 0 or an errno value. */
struct mt_mtc_file {
    int (*write)(void *self, const void *data, size_t bytes);
    void *self;
};

/* Creates a writer and writes the file head. level: zstd level 1..19, 0 stores. Returns NULL with a sentence
 * for the user in *why. */
struct mt_mtc_writer *mt_mtc_writer_open(const struct mt_mtc_file *file, uint64_t features, int level,
                                         char *why, size_t size);
/* Creates a writer with the head of another compact trace; only the checksum is new. */
struct mt_mtc_writer *mt_mtc_writer_again(const struct mt_mtc_file *file, const struct mt_mtc_head *head,
                                          int level, char *why, size_t size);
/* Writes one chunk. Returns 0, or an errno value; the writer is then disabled and accepts no more chunks. */
int mt_mtc_write(struct mt_mtc_writer *w, enum mt_mtc_chunk_type type, unsigned flags, uint64_t key,
                 uint64_t first, uint64_t last, uint64_t items, const void *plain, size_t bytes);

/* mt_mtc_write in two steps: packing needs neither writer nor lock, so it can run in any thread while another
 * one determines the order in the file. Neither step calls malloc. */
struct mt_packer;                      /* chunk that is not yet in a file; one user at a time */
struct mt_packer *mt_packer_new(void); /* returns NULL without memory */
void mt_packer_free(struct mt_packer *p);
int mt_packer_reserve(struct mt_packer *p,
                      size_t bytes); /* makes room for payloads of `bytes`; 0, or -1 without memory */
/* Packs a chunk. level: 0 stores. Returns 0 or an errno value. */
int mt_mtc_pack(struct mt_packer *p, int level, enum mt_mtc_chunk_type type, unsigned flags, uint64_t key,
                uint64_t first, uint64_t last, uint64_t items, const void *plain, size_t bytes);
/* Appends a packed chunk; `p` can then be reused. Returns as mt_mtc_write does. */
int mt_mtc_append(struct mt_mtc_writer *w, const struct mt_packer *p);

/* Returns the bytes written so far. */
uint64_t mt_mtc_writer_bytes(const struct mt_mtc_writer *w);
/* Writes index and tail and frees the writer, not the file. Returns 0 or an errno value. */
int mt_mtc_writer_close(struct mt_mtc_writer *w);

/* ---- encoder of host chunks: entries of a thread to payload ---- */

struct mt_mtc_encoder; /* one per thread of the program or per worker; keeps its tables between chunks */

struct mt_mtc_encoder *mt_mtc_encoder_new(void); /* returns NULL without memory */
void mt_mtc_encoder_free(struct mt_mtc_encoder *e);
/* Encodes `count` entries (whole events, whole instructions with their operands; at most MT_MTC_MAX_ITEMS) as
 * one self-contained payload, owned by the encoder and valid until the next call. More entries compress
 * better: use about 256 Ki; 16 Ki cost some half a byte more per access in large programs. *items is the
 * number of accesses and events; *seq is the sequence number in force, updated by SEQ events. Returns the
 * number of bytes, or 0 without memory or with too many entries. */
size_t mt_mtc_encode(struct mt_mtc_encoder *e, const struct mt_host_entry *entries, size_t count,
                     uint64_t *items, uint64_t *seq, const void **payload);
size_t mt_mtc_encode_timed(struct mt_mtc_encoder *e, const struct mt_host_timed_entry *entries, size_t count,
                           uint64_t *items, uint64_t *seq, const void **payload);
/* Variant of mt_mtc_encode_timed with implicit times. Time starts at 0; an access by operand 0 of its
 * instruction is 1 later than the entry before it; all others have the time of the entry before. An entry
 * with site 0 and size MT_MTC_SHIFT is not an item: its address is added to the time of the next entry
 * (modulo 2^64). */
#define MT_MTC_SHIFT 63u
/* An entry with site 0 and MT_MTC_REPEAT in the lower 6 bits of size is not an item either: it replaces
 * `address` omitted accesses, which continue a pattern with period size >> 6. The two periods before it and
 * the two after it have the same sites, all different, and the same sizes, and each address is as far from
 * the one a period before as that is from the one two periods before. Not with times. */
#define MT_MTC_REPEAT 62u
size_t mt_mtc_encode_counted(struct mt_mtc_encoder *e, const struct mt_host_entry *entries, size_t count,
                             uint64_t *items, uint64_t *seq, const void **payload);

/* State of mt_mtc_shorten, which omits such accesses, in place and in order, while they are still in the
 * processor's cache. */
struct mt_mtc_repeats {
    uint64_t left_out; /* accesses omitted so far */
    uint32_t period;   /* latest period; 0: none */
    uint32_t patience, rest;
};
/* Shortens the entries from `from` to `end`; the buffer begins at `first`. Returns the new end. Only for
 * entries passed to mt_mtc_encode or mt_mtc_encode_counted; not for accesses of different threads or
 * times. */
struct mt_host_entry *mt_mtc_shorten(struct mt_mtc_repeats *r, const struct mt_host_entry *first,
                                     struct mt_host_entry *from, const struct mt_host_entry *end);

/* ---- encoder of device chunks: runs of a launch to payload ---- */

struct mt_mtc_device_encoder; /* one per worker, one user at a time; keeps its tables between chunks */

struct mt_mtc_device_encoder *mt_mtc_device_encoder_new(void); /* returns NULL without memory */
void mt_mtc_device_encoder_free(struct mt_mtc_device_encoder *e);
/* Encodes `count` runs of one launch (memtrace/device.h), in order, as one self-contained payload, owned by
 * the encoder and valid until the next call. 0 runs are allowed: a launch without accesses has one empty
 * chunk. *accesses is the `items` of mt_mtc_write. 64 Ki to 256 Ki runs per call are good. Returns the number
 * of bytes, or 0 with *why set (a constant sentence): no memory, more than MT_MTC_MAX_RUNS or
 * MT_MTC_MAX_ACCESSES (a run whose lanes have addresses but no mask counts once per 32), or an invalid run
 * (no count, a mask with another number of bits, size 0, type above 3).
 *
 * Then call mt_mtc_write(w, MT_MTC_DEVICE, flags, MT_MTC_DEVICE_KEY(stream, kernel), seq, seq, accesses,
 * payload, bytes), with MT_MTC_BEGIN in the launch's first chunk and MT_MTC_END in its last one (both in an
 * only chunk). Before the first chunk of a kernel's first launch a meta chunk has a line {"ev": "kernel",
 * "id": K, "name": "as in a raw trace"}. Chunks of one launch are in the file in the order in which readers
 * see its accesses; those of launches of different streams may be interleaved. */
size_t mt_mtc_encode_device(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs, size_t count,
                            uint64_t *accesses, const void **payload, const char **why);
/* Incremental variant, so that runs need not stay in memory until the chunk is full. begin makes room for
 * `runs` runs; it returns NULL, or the reason for failure. add takes runs, and entries of regions
 * (format/container/region.h), from *at on, which it moves on. If at->run is then below `count`, the others
 * do not fit: end the chunk and begin another one. It returns 1 if it took any, else 0; *why is set on
 * failure, and the chunk is then unusable, or NULL. end returns the payload. */
const char *mt_mtc_device_begin(struct mt_mtc_device_encoder *e, size_t runs);
struct mt_mtc_place {
    size_t run;        /* first run or region that has not been added, */
    uint64_t lap;      /* and for a loop the number of its laps that have been */
    uint64_t accesses; /* number of those that have been */
};
int mt_mtc_device_add(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs, size_t count,
                      struct mt_mtc_place *at, const char **why);
size_t mt_mtc_device_end(struct mt_mtc_device_encoder *e, uint64_t *accesses, const void **payload);

/* ---- Compression and checksums of chunks; with MT_CONTAINER_STORED there is no zstd ---- */

/* Chunk on its way into the file, with its buffer and compression context. One user at a time. */
struct mt_packer {
    struct mt_packer *next;   /* next in the writer's list of idle packers */
    struct mt_mtc_chunk head; /* chunk head, as in the buffer */
    size_t bytes;             /* size of the whole chunk */
    unsigned char *buffer;    /* chunk head, payload, padding */
    size_t room;
    void *context; /* compression context (ZSTD_CCtx) */
};

struct mt_packer *mt_packer_new(void); /* returns NULL without memory */
void mt_packer_free(struct mt_packer *p);
/* Writes the 128-bit XXH3 hash, high half first. */
void mt_pack_digest(const void *text, size_t bytes, uint64_t digest[2]);

#endif
