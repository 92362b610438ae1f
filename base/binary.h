/* An ELF file, and which CUDA runtime is in it. Also for memtrace run. malloc is not called, nothing is
 * printed. */
#ifndef MT_COMMON_BINARY_H
#define MT_COMMON_BINARY_H
#include "elfview.h"

struct mt_binary_symbols {
    const Elf64_Sym *entry;
    size_t count;
    const char *strings; /* end in a NUL */
    uint64_t size;
};

/* Of an x86-64 file of 64 bits; a file without sections has none of these. */
struct mt_binary {
    struct mt_elfview view; /* of the file's bytes, mapped */
    const Elf64_Phdr *segments;
    unsigned nsegments;
    const Elf64_Dyn *entries; /* of the dynamic section, and the strings that they name */
    size_t nentries;
    const char *names, *text; /* of sections, of entries; end in a NUL, or NULL */
    uint64_t names_size, text_size;
    struct mt_binary_symbols all, dynamic; /* .symtab, .dynsym */
    const char *soname;                    /* or NULL */
};

/* 0, or an errno value; ENOEXEC: it is no such file. mt_binary_close ends what 0 began. */
int mt_binary_open(struct mt_binary *o, const char *path);
void mt_binary_close(struct mt_binary *o);

/* The dynamic linker that a program asks for; "" for none. */
const char *mt_binary_linker(const struct mt_binary *o);
/* Does the dynamic linker at `path` know auditors, as glibc's does? 1 as well if it cannot be read. */
int mt_binary_has_auditors(const char *path);
/* Its number; 0 without one of this name. */
uint64_t mt_binary_section(const struct mt_binary *o, const char *name);
/* The next string of this kind (DT_NEEDED) in the dynamic section, or NULL; *at is 0 at first. */
const char *mt_binary_entry(const struct mt_binary *o, int64_t tag, size_t *at);
const char *mt_binary_name(const struct mt_binary_symbols *s, const Elf64_Sym *y);

enum mt_binary_cudart {
    MT_CUDART_NONE,
    MT_CUDART_SHARED,  /* asks another object for it */
    MT_CUDART_STATIC,  /* has one, with its symbols */
    MT_CUDART_NAMELESS /* has one, and symbols of it are gone: what they name would be NVIDIA's still */
};
/* For MT_CUDART_STATIC: the table that has its functions, and the major version of CUDA (0: older than 11, or
 * not known) in *major. */
enum mt_binary_cudart mt_binary_cudart(const struct mt_binary *o, const struct mt_binary_symbols **where,
                                       int *major);
/* Whose programs these are, by the first 20 bytes of the file: "x86-64", "AArch64" …; "machine N" (in a
 * static buffer) if it has no name here. */
const char *mt_binary_machine(const Elf64_Ehdr *head);
/* "libcudart.so.12" of 12. */
const char *mt_binary_node(int major);
#endif
