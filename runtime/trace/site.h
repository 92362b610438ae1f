/* Source location of the CUDA call under way. */
#ifndef MT_COMMON_SITE_H
#define MT_COMMON_SITE_H
#include "format/site.h"
#include <stdint.h>

/* Keeps `site` for the calling thread. Instrumented host code calls this before a CUDA call. */
void __mt_host_site(const struct mt_host_site *site);
/* Returns the site of the CUDA call under way and forgets it, or NULL if unknown (code compiled without the
 * plugin). */
const struct mt_host_site *mt_host_site_take(void);
/* Returns the site of the call and keeps it; NULL also if only the Python line is known. */
const struct mt_host_site *mt_host_site_pending(void);
/* Returns 1 unless the site's library has been unloaded. Sites outlive their call. */
int mt_host_site_there(const struct mt_host_site *site);
/* A call with its return address, and those of its callers, as "FILE+0xOFFSET". */
#define MT_SITE_CALLERS 12
struct mt_host_code {
    struct mt_host_site site; /* file "", line 0 if the code has no line information */
    char *at[1 + MT_SITE_CALLERS];
    unsigned ncallers;
};
/* Finds the code of a call; known: its site, or NULL. Returns NULL if it is unknown. Set for good, under
 * MEMTRACE_CHECK. */
extern const struct mt_host_site *(*_Atomic mt_host_site_ask)(const struct mt_host_site *known);
extern const char mt_host_code_name[]; /* name in such sites */
/* Returns the code of such a site, or NULL for other sites. */
const struct mt_host_code *mt_host_code_of(const struct mt_host_site *site);
/* The site last taken on this thread: within a CUDA call, its site. */
extern _Thread_local const struct mt_host_site *mt_host_site_taken;

/* ---- The Python line that makes a CUDA call. Packages release the interpreter's lock around such calls, and
 * taking it here could deadlock with a thread that holds it and waits for us. But the thread's own frames do
 * not change meanwhile, so they are read in memory. The hook finds and tests their layout
 * (runtime/attach/python/memtrace_python/lines.py). The hook also reads the source for the name of an
 * allocation: its own thread waits for new places to look up ---- */

/* Offsets are bytes in the structure that the name begins with. */
struct mt_python {
    uint32_t bytes;        /* size of this structure */
    uint32_t thread_frame; /* the running frame, or the holder of it ... */
    uint32_t holder_frame; /* ... and the frame in the holder; UINT32_MAX: in the thread state itself */
    uint32_t frame_code, frame_previous, frame_instruction;
    uint32_t code_file, code_instructions;
    uint32_t string_length, string_state; /* 64 bits, 32 bits */
    uint32_t state_ascii;                 /* bit set if all characters are ASCII */
    uint32_t state_kind;                  /* first of 3 bits: bytes per character */
    uint32_t string_ascii, string_other;  /* the characters if ASCII, and if not */
    const void *code_type;
    void *(*thread)(void);                   /* PyGILState_GetThisThreadState */
    int (*line)(const void *code, int byte); /* PyCode_Addr2Line */
    /* PyCode_Addr2Location: returns 1 with line, column, end line, end column of the expression */
    int (*place)(const void *code, int byte, int *, int *, int *, int *);
    /* Path prefixes of files to skip, as their lines are not the program's; after '!', to keep. The first
     * match counts. NULL at the end. */
    const char *const *skip;
};

/* Sets the layout, from the hook, which keeps `p` unchanged until it sets another or NULL (lines are not
 * looked for). Returns -1 without effect if the structure is of another version. */
int __mt_python_set(const struct mt_python *p);
/* Returns the line of the calling Python program and its file, or 0 if unknown. For the hook's test. */
unsigned __mt_python_line(char *file, unsigned long size);
/* Returns the Python site of the call under way, valid for ever, or NULL if unknown. */
const struct mt_host_site *mt_python_site(void);
/* The same in two steps. The first one only reads memory, so that signal handlers may call it; file: of
 * MT_PYTHON_PATH bytes; 0: no line is known. */
#define MT_PYTHON_PATH 4096
uint32_t mt_python_look(char *file);
const struct mt_host_site *mt_python_known(const char *file, uint32_t line);

struct mt_python_location {
    const char *file;                       /* valid for ever */
    int line, column, end_line, end_column; /* columns in bytes, from 0; -1: unknown */
};

enum { MT_PYTHON_DEPTH = 4 };
/* A question to the hook: the source's name for an allocation made at these places. */
struct mt_python_asked {
    uint64_t number;
    uint32_t places, unused;
    struct mt_python_location place[MT_PYTHON_DEPTH];
};
/* Waits for a question, in the hook's thread. Returns 0 if there will be no more. */
int __mt_python_ask(struct mt_python_asked *out);
/* Answers a question; "" or NULL: no name. */
void __mt_python_answer(uint64_t number, const char *name);
/* Ends the waits of __mt_python_ask at process exit. */
void __mt_python_close(void);
/* Names the allocation `id` made by the call under way, at once or when the hook answers. */
void mt_python_array(uint64_t id, const struct mt_host_site *site);
/* Drops the question for an allocation that was named otherwise. */
void mt_python_forget(uint64_t id);
#endif
