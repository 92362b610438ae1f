/* What memtrace host must know of an ELF file. */
#ifndef MT_HOST_CLI_ELF_H
#define MT_HOST_CLI_ELF_H
#include <stddef.h>

struct elf_facts {
    int is_elf;
    int bits;            /* 32, 64 */
    const char *machine; /* "x86-64", "AArch64" …; "machine N" in a static buffer if it has no name here */
    int traceable;       /* a 64-bit x86-64 program */
    int instrumented;    /* needs libmemtrace-host.so: built with mt-cc --host */
    int ordered;         /* its accesses are put in order: --host=atomic */
};
/* `data`: what the file begins with, aligned. Damaged headers give traceable 0 or instrumented 0, never more.
 */
void mt_hostrun_elf_read(const void *data, size_t bytes, const char *path, struct elf_facts *facts);
#endif
