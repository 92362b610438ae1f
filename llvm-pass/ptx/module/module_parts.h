/* Shared by the files that read modules of PTX. Functions that return int give 0, or -1 after x->p.error
 * is filled; results live in the arena of x->p.a. */
#ifndef MT_PASS_MODULE_PARTS_H
#define MT_PASS_MODULE_PARTS_H
#include "memtrace/hash.h"
#include "ptx/asm/asm_lower.h"
#include "ptx/asm/asm_parse.h"
#include "module.h"
#include <llvm-c/DebugInfo.h>

/* ---- map from names to pointers (module_read.c): a name lives as long as its map -------------------- */
struct mt_ptx_map {
    struct mt_hash places; /* index in the list, + 1 */
    struct mt_ptx_entry {
        const char *name;
        void *value;
    } *entries;
    size_t room;
};
void *mt_ptx_map_get(const struct mt_ptx_map *map, const char *name);      /* NULL if absent */
int mt_ptx_map_put(struct mt_ptx_map *map, const char *name, void *value); /* 0, or -1 without memory */
void mt_ptx_map_free(struct mt_ptx_map *map);

/* ---- declarations (module_read.c) ----------------------------------------------------------------- */
struct mt_ptx_variable {
    const char *name;
    char space; /* 'p' parameter, 'r' register, 'g' global, 's' shared, 'c' constant, 'l' local */
    struct mt_asm_type type;
    uint64_t count;                            /* number of elements; vectors count one by one */
    uint64_t row;                              /* array: elements in each entry of its first dimension */
    int is_array, is_unsized, managed, opaque; /* opaque: a texture, sampler or surface */
    unsigned align;
    LLVMValueRef value; /* 'g', 's', 'c': variable of the module */
    int argument;       /* index of a parameter of the function; -1: a result, or neither */
    int result;         /* 1: a result of the function */
};

#define MT_PTX_RESULTS 16 /* maximum of a function; ptxas allows several without its ABI */
struct mt_ptx_signature {
    struct mt_ptx_variable *params, *results;
    unsigned nparams, nresults;
    LLVMTypeRef type;
};

struct mt_ptx_function {
    const char *name;
    struct mt_ptx_signature sig;
    LLVMValueRef value;
    int is_kernel, done; /* done: its body has been read */
    int taken;           /* its address is used: it may be called by pointer */
    size_t at, end;      /* range of the body between its braces; at == 0: only declared */
    size_t place;        /* offset of its name */
    struct mt_ptx_function *next;
};

enum mt_ptx_linkage { MT_PTX_STATIC, MT_PTX_VISIBLE, MT_PTX_WEAK, MT_PTX_EXTERN, MT_PTX_COMMON };

/* ---- the module ---------------------------------------------------------------------------------------- */
struct mt_ptx_debug {
    LLVMDIBuilderRef b;
    LLVMMetadataRef unit, type;
    struct mt_ptx_map functions, blocks; /* subprograms by name and file; blocks of other files by both */
    LLVMMetadataRef *files;              /* by number; NULL: not stated */
    unsigned nfiles;
    LLVMMetadataRef own;   /* the PTX itself */
    int has_lines;         /* 1: there are .loc directives */
    size_t counted;        /* bytes counted so far: `line` is the line there */
    unsigned line, *lines; /* lines after each step of bytes; NULL: not counted yet */
};

struct mt_ptx {
    LLVMContextRef c;
    LLVMModuleRef m;
    const struct mt_ptx_source *source;
    struct mt_ptx_result *result;
    struct mt_parser p; /* over the whole text */
    struct mt_parse_room room;
    struct mt_asm_error error;
    LLVMTargetDataRef layout;
    struct mt_ptx_map functions, aliases, strings; /* records; names; texts of .debug_str by label */
    struct mt_ptx_function *first, *last;
    struct mt_ptx_debug debug;
    unsigned architecture;
    int is_debug;                                  /* .target …, debug: ptxas drops no access */
    struct mt_ptx_pending *pending, **pending_end; /* variables whose initialisers are read last */
};

/* Returns the value that holds the function's address. */
LLVMValueRef mt_ptx_address(struct mt_ptx *x, const struct mt_ptx_function *f);

/* module_read.c. Gives the kernel to the source's `content`. Returns 0 or -1. */
int mt_ptx_content(struct mt_ptx *x, const struct mt_ptx_function *kernel);

/* module_read.c. Returns 1 if the word is a linkage word (".visible"). */
int mt_ptx_linkage_of(const char *word, enum mt_ptx_linkage *linkage);
LLVMTypeRef mt_ptx_type_of(struct mt_ptx *x, const struct mt_ptx_variable *v); /* its type in memory */
/* Reads a declaration after its state space: alignment, type, attributes, name and dimensions. */
int mt_ptx_read_variable(struct mt_ptx *x, struct mt_parser *p, char space, struct mt_ptx_variable *v);
/* Requests room for large results and arguments copied for a call, which become values of words, many
 * times their bytes. */
int mt_ptx_ask(struct mt_parser *p, const struct mt_ptx_variable *list, unsigned n);
/* Reads ".callprototype" up to ';'. */
int mt_ptx_read_prototype(struct mt_ptx *x, struct mt_parser *p, struct mt_ptx_signature *sig);
struct mt_ptx_function *mt_ptx_find_function(struct mt_ptx *x, const char *name);
/* Marks a parameter as passed in memory (byval), as an attribute of `owner` (a function, or with is_call a
 * call). */
void mt_ptx_pass_in_memory(struct mt_ptx *x, LLVMValueRef owner, int is_call, const struct mt_ptx_variable *v,
                           unsigned index);

/* module_read.c */
int mt_ptx_declare_variable(struct mt_ptx *x, struct mt_ptx_variable *v, enum mt_ptx_linkage linkage,
                            int local);
/* Remembers the position of an initialiser if '=' is at the cursor. */
int mt_ptx_remember_initialiser(struct mt_ptx *x, struct mt_parser *p, const struct mt_ptx_variable *v);

/* ---- a function's body (module_body.c) ---------------------------------------------------------------- */
struct mt_ptx_location { /* a .loc directive */
    size_t offset;
    unsigned file, line, column;
    const char *function;                 /* label of its function's name, or NULL */
    unsigned at_file, at_line, at_column; /* inlined_at */
    LLVMMetadataRef location;
};

struct mt_ptx_body {
    struct mt_asm_body l; /* first member: handlers of inline asm get it */
    struct mt_ptx *x;
    struct mt_ptx_function *f;
    struct mt_parser p;
    struct mt_ptx_location *places;
    unsigned nplaces, places_cap, place; /* place: index of the next one */
    LLVMMetadataRef subprogram, here;
    unsigned here_line;                    /* line of the PTX, if lines of the PTX are used */
    struct mt_ptx_map prototypes, targets; /* by label: signatures of prototypes; struct mt_ptx_targets */
    struct mt_ptx_map labels;              /* from "scope name" to blocks */
    int flush;                             /* 1: the function states .ftz for all f32 arithmetic */
};
struct mt_ptx_targets {
    const char **names;
    unsigned n, cap, scope;
    LLVMBasicBlockRef dispatch; /* block that jumps to the index in the slot; made for the first such jump */
    LLVMValueRef slot;
};

int mt_ptx_translate(struct mt_ptx *x, struct mt_ptx_function *f);
/* Puts an instruction that no device has in place of an unreadable part. */
void mt_ptx_refuse(struct mt_ptx *x, struct mt_ptx_function *f);

/* module_read.c */
int mt_ptx_read_location(struct mt_ptx_body *b, struct mt_parser *p); /* after ".loc" */
void mt_ptx_debug_function(struct mt_ptx_body *b);
void mt_ptx_debug_at(struct mt_ptx_body *b, size_t offset); /* sets the builder's location */
#endif
