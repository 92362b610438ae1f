/* What host tracing is asked for: the words of memtrace host, of MEMTRACE_HOST, of the qemu plugin and of
 * Pin's knobs (host_options.def). C11 that builds with PinCRT, too. */
#ifndef MT_BASE_HOST_OPTIONS_H
#define MT_BASE_HOST_OPTIONS_H
#include <stddef.h>
#include <stdint.h>

enum mt_core_mode { MT_CORE_MAT, MT_CORE_INSN, MT_CORE_ATOMIC };

/* What is recorded of a piece of code. */
enum mt_core_code {
    MT_CODE_HIDDEN, /* nothing, and nobody asks for it */
    MT_CODE_NONE,   /* nothing; its accesses are counted (mt_core_left_out) */
    MT_CODE_DATA,   /* accesses to the program's data; the others are counted */
    MT_CODE_ALL
};

struct mt_core_list {
    const char **item;
    unsigned count;
};

struct mt_core_options {
    enum mt_core_mode mode;
    int container;            /* output ends in .mtc */
    enum mt_core_code others; /* of code of libraries that --library does not name; DATA: ALL outside of the C
                                 runtime */
    /* fields of host_options.def: STRING const char *, NUMBER and POWER uint64_t, SWITCH int, LIST
     * mt_core_list */
#define MT_CORE_FIELD_STRING(f) const char *f;
#define MT_CORE_FIELD_NUMBER(f) uint64_t f;
#define MT_CORE_FIELD_POWER(f) uint64_t f;
#define MT_CORE_FIELD_SWITCH(f) int f;
#define MT_CORE_FIELD_LIST(f) struct mt_core_list f;
#define MT_HOST_OPTION(kind, field, letter, name, modes, def, values, help) MT_CORE_FIELD_##kind(field)
#include "host_options.def"
};

/* Parses "mat" "-o" "x" "--threshold=4096" "--routine" "main" … (no program name; the mode first; a SWITCH
 * may be without value, then it is 1). Strings are kept, not copied. 0, or -1: *why is a sentence that
 * names the option, what was given and what is wanted. */
int mt_core_options_parse(struct mt_core_options *o, int argc, char *const *argv, char *why, unsigned size);
/* Frees the lists. */
void mt_core_options_free(struct mt_core_options *o);
/* The code that --library's word stands for; -1: it is a name. */
int mt_core_code_word(const char *word);
#endif
