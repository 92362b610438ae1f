/* The line of a Python program that makes a CUDA call.
 *
 * Packages give up the interpreter's lock around such calls, and it must not be asked for here: another
 * thread may hold it and wait for what this one holds. But the thread's own frames stand still meanwhile, so
 * they are read as they lie in memory. How they lie, the hook finds out and tests
 * (runtime/attach/python/memtrace_python/lines.py).
 *
 * The source's name for an allocation needs the source, which the hook reads: a thread of its own waits for
 * places that it has not been asked for yet (python_names.c). */
#ifndef MT_TRACE_PYTHON_H
#define MT_TRACE_PYTHON_H
#include <stdint.h>
#include "site.h"

/* Offsets are bytes in the structure that the name begins with. */
struct mt_python {
    uint32_t bytes;        /* of this structure */
    uint32_t thread_frame; /* the frame that runs, or what has it ... */
    uint32_t holder_frame; /* ... there; UINT32_MAX: it is in the thread's state itself */
    uint32_t frame_code, frame_previous, frame_instruction;
    uint32_t code_file, code_instructions;
    uint32_t string_length, string_state; /* 64 bits, 32 bits */
    uint32_t state_ascii;                 /* this bit: all characters are ASCII */
    uint32_t state_kind;                  /* from this bit on, 3 bits: bytes of a character */
    uint32_t string_ascii, string_other;  /* the characters, if they are, if not */
    const void *code_type;
    void *(*thread)(void);                   /* PyGILState_GetThisThreadState */
    int (*line)(const void *code, int byte); /* PyCode_Addr2Line */
    /* PyCode_Addr2Location: 1, and line, column, end line, end column of the expression */
    int (*place)(const void *code, int byte, int *, int *, int *, int *);
    /* How paths begin whose lines say nothing of the program; '!' before it: they do. The first that fits
     * counts. NULL at the end. */
    const char *const *skip;
};

/* For the hook. `p` stays its own, and as it is, until another or NULL is set; NULL: lines are not looked
 * for. -1: it is of another version of this structure, and nothing has changed. */
int __mt_python_set(const struct mt_python *p);
/* For the hook's test: the line of the Python program that calls this, 0 if not known, and its file. */
unsigned __mt_python_line(char *file, unsigned long size);
/* The place of the call under way; NULL: not known. Valid for ever. */
const struct mt_host_site *mt_python_site(void);

struct mt_python_location {
    const char *file;                       /* valid for ever */
    int line, column, end_line, end_column; /* columns in bytes, from 0; -1: not known */
};
/* The expression of the program that makes the call under way, in its innermost function, then in that one's
 * callers, as long as no package's function is between them. How many there are. */
unsigned mt_python_locations(struct mt_python_location *out, unsigned room);

enum { MT_PYTHON_DEPTH = 4 };
/* What the hook is asked for: what the source calls what is allocated there. */
struct mt_python_asked {
    uint64_t number;
    uint32_t places, unused;
    struct mt_python_location place[MT_PYTHON_DEPTH];
};
/* For the hook's thread. Waits for something to ask; 0: there is nothing, and there will not be. */
int __mt_python_ask(struct mt_python_asked *out);
/* The answer; "" or NULL: it has no name. */
void __mt_python_answer(uint64_t number, const char *name);
/* The process ends: __mt_python_ask waits no more. */
void __mt_python_close(void);
/* The allocation `id` has been made by the call under way. It gets its name, now or when the hook says it. */
void mt_python_array(uint64_t id, const struct mt_host_site *site);
/* It has got another name. */
void mt_python_forget(uint64_t id);
/* 1: the place is one of a Python program. */
int mt_python_is(const struct mt_host_site *site);
#endif
