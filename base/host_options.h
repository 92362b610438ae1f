/* Settings of host tracing, from the words of memtrace host, MEMTRACE_HOST, the qemu plugin and Pin's knobs
 * (host_options.def). C11 that also builds with PinCRT. */
#ifndef MT_BASE_HOST_OPTIONS_H
#define MT_BASE_HOST_OPTIONS_H
#include <stddef.h>
#include <stdint.h>

enum mt_core_mode { MT_CORE_MAT, MT_CORE_INSN, MT_CORE_ATOMIC };

/* What is recorded of some code. */
enum mt_core_code {
    MT_CODE_HIDDEN, /* nothing recorded or counted */
    MT_CODE_NONE,   /* nothing recorded; accesses are counted (mt_core_left_out) */
    MT_CODE_DATA,   /* accesses to the program's data; others are counted */
    MT_CODE_ALL
};

struct mt_core_list {
    const char **item;
    unsigned count;
};

struct mt_core_options {
    enum mt_core_mode mode;
    int container; /* 1: compact trace, for output names that end in .mtc */
    enum mt_core_code
        others; /* for libraries that --library does not name; DATA records ALL outside of the C runtime */
    /* Fields of host_options.def: STRING is const char *, NUMBER and POWER are uint64_t, SWITCH is int, LIST
     * is mt_core_list. */
#define MT_CORE_FIELD_STRING(f) const char *f;
#define MT_CORE_FIELD_NUMBER(f) uint64_t f;
#define MT_CORE_FIELD_POWER(f) uint64_t f;
#define MT_CORE_FIELD_SWITCH(f) int f;
#define MT_CORE_FIELD_LIST(f) struct mt_core_list f;
#define MT_HOST_OPTION(kind, field, letter, name, modes, def, values, help) MT_CORE_FIELD_##kind(field)
#include "host_options.def"
};

/* Parses words such as "mat" "-o" "x" "--threshold=4096": no program name, the mode first; a SWITCH without a
 * value is 1. Keeps the strings without copying. Returns 0, or -1 with *why set to a sentence that names the
 * option, the given value and the accepted ones. */
int mt_core_options_parse(struct mt_core_options *o, int argc, char *const *argv, char *why, unsigned size);
/* Frees the lists. */
void mt_core_options_free(struct mt_core_options *o);
/* Returns the code that a word of --library stands for, or -1 if it is a library's name. */
int mt_core_code_word(const char *word);
#endif
