/* libmemtrace-attach.so: makes libmemtrace.so the CUDA runtime of programs that were not built for it. An
 * auditor of the dynamic linker (LD_AUDIT): docs/design/attach.md.
 *
 * audit.c     what the dynamic linker calls
 * program.c   which file the program is
 * library.c   functions of libmemtrace.so as it lies in memory
 * takeover.c  jumps over the functions of a static CUDA runtime
 *
 * Runs before all constructors and under the dynamic linker's lock: no malloc, no stdio, no calls into the
 * program. */
#ifndef MT_ATTACH_H
#define MT_ATTACH_H
#include <limits.h>
#include <link.h>
#include "base/binary.h"

/* ---- program.c */
/* The object's path, which may be gone: its own, or in `room`. */
const char *mt_attach_path(const struct link_map *map, char room[PATH_MAX]);
/* Its file, also of a program that was deleted or never had a name, or that is run by the dynamic linker as a
 * command; as mt_binary_open. */
int mt_attach_program_open(struct mt_binary *o, const struct link_map *map, const char *path);

/* ---- library.c */
struct mt_attach_library {
    uintptr_t base;
    const Elf64_Sym *symbols;
    const char *strings;
    const uint32_t *hash; /* DT_GNU_HASH */
    const Elf64_Versym *versions;
    const Elf64_Verdef *nodes;
};
/* 0, or -1: it lacks one of these tables. */
int mt_attach_library_read(struct mt_attach_library *l, const struct link_map *map);
/* Number of the version node of this name, or 0. */
unsigned mt_attach_library_node(const struct mt_attach_library *l, const char *name);
/* The function under this node (0: any), or NULL. */
void *mt_attach_library_find(const struct mt_attach_library *l, const char *name, unsigned node);

/* ---- takeover.c */
struct mt_attach_takeover {
    const struct mt_binary *object;
    const struct mt_binary_symbols *symbols;
    uintptr_t base;                          /* where the object lies */
    const struct mt_attach_library *library; /* libmemtrace.so */
    unsigned node;                           /* of the object's version of CUDA */
    unsigned taken, missing;                 /* out: functions */
    const char *why;                         /* out: what went wrong */
    int error;                               /* out: its errno, or 0 */
    char name[80];                           /* out: the function it went wrong with, or "" */
};
/* 0, or -1 and words in t: the object is as it was. */
int mt_attach_takeover(struct mt_attach_takeover *t);
#endif
