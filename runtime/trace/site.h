/* The place in the source of the CUDA call under way. */
#ifndef MT_COMMON_SITE_H
#define MT_COMMON_SITE_H
#include "format/site.h"
#include <stdint.h>

/* Called from instrumented host code before a CUDA call; keeps `site` for the calling thread. */
void __mt_host_site(const struct mt_host_site *site);
/* The place of the CUDA call under way and forgets it;
 * NULL when unknown (code not compiled with the plugin). */
const struct mt_host_site *mt_host_site_take(void);
/* The same, and it stays; NULL also where only Python's line is known. */
const struct mt_host_site *mt_host_site_pending(void);
/* 1 unless its library has been unloaded. Sites are kept beyond the call they were made for. */
int mt_host_site_there(const struct mt_host_site *site);
/* Where code calls that says no lines: the return address in it, and those of its callers, as
 * "FILE+0xOFFSET". */
#define MT_SITE_CALLERS 6
struct mt_host_code {
    struct mt_host_site site; /* file "", line 0 */
    char *at[1 + MT_SITE_CALLERS];
    unsigned ncallers;
};
/* Asks this for the place of a call that has none; it stays. NULL: is not known. */
void mt_host_site_ask(const struct mt_host_site *(*code)(void));
extern const char mt_host_code_name[]; /* of such sites */
/* NULL: it is another one. */
const struct mt_host_code *mt_host_code_of(const struct mt_host_site *site);
/* What was taken last on this thread: within a CUDA call, its place. */
const struct mt_host_site *mt_host_site_taken(void);

/* ---- The line of a Python program that makes a CUDA call. Packages give up the interpreter's lock
 * around such calls, and it must not be asked for here: another thread may hold it and wait for what this
 * one holds. But the thread's own frames stand still meanwhile, so they are read as they lie in memory. How
 * they lie, the hook finds out and tests (runtime/attach/python/memtrace_python/lines.py). The source's
 * name for an allocation needs the source, which the hook reads: a thread of its own waits for places that
 * it has not been asked for yet ---- */

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
#endif
