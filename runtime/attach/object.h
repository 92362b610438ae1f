/* An ELF file, and which CUDA runtime is in it. Also for mt-run. No memory is allocated, nothing is printed.
 */
#ifndef MT_ATTACH_OBJECT_H
#define MT_ATTACH_OBJECT_H
#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct mt_attach_object_symbols {
    const Elf64_Sym *entry;
    size_t count;
    const char *strings; /* end in a NUL */
    size_t size;
};

/* Of an x86-64 file of 64 bits; a file without sections has none of these. */
struct mt_attach_object {
    const unsigned char *data; /* the file's bytes, mapped */
    size_t size;
    const Elf64_Phdr *segments;
    unsigned nsegments;
    const Elf64_Shdr *sections;
    unsigned nsections;
    const char *names; /* of sections; end in a NUL */
    size_t names_size;
    struct mt_attach_object_symbols all, dynamic; /* .symtab, .dynsym */
    const char *soname;                           /* or NULL */
};

/* 0, or an errno value; ENOEXEC: it is no such file. mt_attach_object_close ends what 0 began. */
int mt_attach_object_open(struct mt_attach_object *o, const char *path);
void mt_attach_object_close(struct mt_attach_object *o);

/* NULL without one of this name. */
const Elf64_Shdr *mt_attach_object_section(const struct mt_attach_object *o, const char *name);
const char *mt_attach_object_name(const struct mt_attach_object_symbols *s, const Elf64_Sym *y);
/* A function of this name that the file defines, or with `defined` 0, asks others for. */
const Elf64_Sym *mt_attach_object_find(const struct mt_attach_object_symbols *s, const char *name,
                                       int defined);

enum mt_attach_object_cudart {
    MT_CUDART_NONE,
    MT_CUDART_SHARED,  /* asks another object for it */
    MT_CUDART_STATIC,  /* has one, with its symbols */
    MT_CUDART_NAMELESS /* has one, and its symbols are gone */
};
/* For MT_CUDART_STATIC: the table that has its functions, and the major version of CUDA (0: older than 11, or
 * not known) in *major. */
enum mt_attach_object_cudart mt_attach_object_cudart(const struct mt_attach_object *o,
                                                     const struct mt_attach_object_symbols **where,
                                                     int *major);
/* "libcudart.so.12" of 12. */
const char *mt_attach_object_node(int major);
#endif
