/* Shared by the files that read modules of PTX. Functions that return int give 0, or -1 after x->p.error is
 * filled; what is read lives in the arena of x->p.a. */
#ifndef MT_PASS_MODULE_PARTS_H
#define MT_PASS_MODULE_PARTS_H
#include "memtrace/hash.h"
#include "ptx/asm/asm_lower.h"
#include "ptx/asm/asm_parser.h"
#include "module.h"
#include <llvm-c/DebugInfo.h>

/* ---- names to pointers (module_map.c): a name lives as long as its map ------------------------------ */
struct mt_ptx_map {
    struct mt_hash places; /* in the list, + 1 */
    struct mt_ptx_entry {
        const char *name;
        void *value;
    } *entries;
    size_t room;
};
void *mt_ptx_map_get(const struct mt_ptx_map *map, const char *name);      /* NULL: not there */
int mt_ptx_map_put(struct mt_ptx_map *map, const char *name, void *value); /* 0, or -1: no memory */
void mt_ptx_map_free(struct mt_ptx_map *map);

/* ---- declarations (module_declare.c) ----------------------------------------------------------------- */
struct mt_ptx_variable {
    const char *name;
    char space; /* 'p' parameter, 'r' register, 'g' global, 's' shared, 'c' constant, 'l' local */
    struct mt_asm_type type;
    uint64_t count; /* elements, those of vectors counted one by one */
    uint64_t row;   /* of an array: elements of each entry of its first dimension */
    int is_array, is_unsized, managed, opaque; /* opaque: a texture, sampler or surface */
    unsigned align;
    LLVMValueRef value; /* 'g', 's', 'c': the variable of the module */
    int argument;       /* of a parameter of the function: its number; -1: a result, or none of these */
    int result;         /* a result of the function */
};

#define MT_PTX_RESULTS 16 /* of a function; ptxas takes several without its ABI */
struct mt_ptx_signature {
    struct mt_ptx_variable *params, *results;
    unsigned nparams, nresults;
    LLVMTypeRef type;
};

struct mt_ptx_function {
    const char *name;
    struct mt_ptx_signature sig;
    LLVMValueRef value;
    int is_kernel, done; /* done: its body is read */
    int taken;           /* its address is somewhere: it may be called by pointer */
    size_t at, end;      /* the body between its braces; at == 0: only declared */
    size_t place;        /* of its name */
    struct mt_ptx_function *next;
};

enum mt_ptx_linkage { MT_PTX_STATIC, MT_PTX_VISIBLE, MT_PTX_WEAK, MT_PTX_EXTERN, MT_PTX_COMMON };

/* ---- the module ---------------------------------------------------------------------------------------- */
struct mt_ptx_debug {
    LLVMDIBuilderRef b;
    LLVMMetadataRef unit, type;
    struct mt_ptx_map functions, blocks; /* subprograms by name and file; blocks of other files by both */
    LLVMMetadataRef *files;              /* by number; NULL: not said */
    unsigned nfiles;
    LLVMMetadataRef own;   /* the PTX itself */
    int has_lines;         /* there are .loc */
    size_t counted;        /* lines of the text up to here: `line` */
    unsigned line, *lines; /* and up to each step of bytes; NULL: nobody has asked */
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
    int is_debug;                                  /* .target …, debug: ptxas leaves out no access */
    struct mt_ptx_pending *pending, **pending_end; /* variables whose initialisers are read at the end */
};

/* Tells what went wrong since the last time, and forgets it. */
void mt_ptx_tell(struct mt_ptx *x);
unsigned mt_ptx_line(struct mt_ptx *x, size_t offset);
/* A word of letters, digits, '_', '$', '%', and with `opcode` dots; NULL: failed. */
int mt_ptx_unsigned(struct mt_parser *p, uint64_t max, uint64_t *out);

/* module_part.c. Is it to be declared at all? */
int mt_ptx_wants(const struct mt_ptx *x, const char *name, int is_kernel);
/* Finds the functions whose address is taken, and fills in what the result says of parts. 0, or -1: failed.
 */
int mt_ptx_divide(struct mt_ptx *x);
/* Is a part to have this function, as far as is known by now? */
int mt_ptx_has(const struct mt_ptx *x, const struct mt_ptx_function *f);
/* When no more are to come: drops those that the part does not have. Those that stay are its own, but for
 * what others find by pointer. */
void mt_ptx_drop_others(struct mt_ptx *x);
/* The value that has the function's address. */
LLVMValueRef mt_ptx_address(struct mt_ptx *x, const struct mt_ptx_function *f);

/* module_content.c. Tells the source's `content` of the kernel. 0, or -1: failed. */
int mt_ptx_content(struct mt_ptx *x, const struct mt_ptx_function *kernel);

/* module_declare.c. A linkage word (".visible") or not. */
int mt_ptx_linkage_of(const char *word, enum mt_ptx_linkage *linkage);
LLVMTypeRef mt_ptx_type_of(struct mt_ptx *x, const struct mt_ptx_variable *v); /* as it lies in memory */
/* What follows a state space: alignment, type, attributes, name and dimensions. */
int mt_ptx_read_variable(struct mt_ptx *x, struct mt_parser *p, char space, struct mt_ptx_variable *v);
/* Large results, and what is copied for a call, become values of words, many times their bytes: is there room
 * for that? */
int mt_ptx_ask(struct mt_parser *p, const struct mt_ptx_variable *list, unsigned n);
int mt_ptx_read_function(struct mt_ptx *x, enum mt_ptx_linkage linkage, int is_kernel);
/* ".callprototype" is read, up to ';'. */
int mt_ptx_read_prototype(struct mt_ptx *x, struct mt_parser *p, struct mt_ptx_signature *sig);
struct mt_ptx_function *mt_ptx_find_function(struct mt_ptx *x, const char *name);
void mt_ptx_annotate(struct mt_ptx *x, LLVMValueRef global, const char *key, uint64_t value);
/* What the AST side says of a function of clang's, in its words (base/options.h). */
void mt_ptx_say(struct mt_ptx *x, const struct mt_ptx_function *f, const char *text, size_t length);
/* A parameter that is passed as it lies in memory, as attribute of `owner` (a function,
 * or with is_call a call). */
void mt_ptx_pass_in_memory(struct mt_ptx *x, LLVMValueRef owner, int is_call, const struct mt_ptx_variable *v,
                           unsigned index);

/* module_variable.c */
int mt_ptx_declare_variable(struct mt_ptx *x, struct mt_ptx_variable *v, enum mt_ptx_linkage linkage,
                            int local);
/* '=' is at the cursor, or not: remembers where. */
int mt_ptx_remember_initialiser(struct mt_ptx *x, struct mt_parser *p, const struct mt_ptx_variable *v);
int mt_ptx_initialise_all(struct mt_ptx *x);

/* ---- a function's body (module_body.c) ---------------------------------------------------------------- */
struct mt_ptx_location { /* .loc */
    size_t offset;
    unsigned file, line, column;
    const char *function;                 /* label of its name, or NULL */
    unsigned at_file, at_line, at_column; /* inlined_at */
    LLVMMetadataRef location;
};

struct mt_ptx_body {
    struct mt_asm_body l; /* the first member: handlers of inline asm get it */
    struct mt_ptx *x;
    struct mt_ptx_function *f;
    struct mt_parser p;
    struct mt_ptx_location *places;
    unsigned nplaces, places_cap, place; /* the next one */
    LLVMMetadataRef subprogram, here;
    unsigned here_line;                    /* of the PTX, where that is what counts */
    struct mt_ptx_map prototypes, targets; /* by label: signatures; struct mt_ptx_targets */
    struct mt_ptx_map labels;              /* "scope name" to blocks */
    int flush;                             /* all arithmetic with f32 has .ftz: the function says so */
};
struct mt_ptx_targets {
    const char **names;
    unsigned n, cap, scope;
    LLVMBasicBlockRef dispatch; /* once somebody jumps by it: jumps on by the index in the slot */
    LLVMValueRef slot;
};

int mt_ptx_translate(struct mt_ptx *x, struct mt_ptx_function *f);
/* In place of what could not be read: an instruction that no device has. */
void mt_ptx_refuse(struct mt_ptx *x, struct mt_ptx_function *f);
/* The memory behind an 'm' register, a pointer; NULL: failed. */
LLVMValueRef mt_ptx_memory(struct mt_ptx_body *b, const struct mt_asm_operand *o);
/* The label as it is seen from that scope; NULL: failed. */
LLVMBasicBlockRef mt_ptx_label(struct mt_ptx_body *b, unsigned scope, const char *name);

/* module_flow.c, module_memory.c: 1: the statement is done; 0: it is not one of these; -1: failed. */
int mt_ptx_flow(struct mt_ptx_body *b);
int mt_ptx_jump(struct mt_ptx_body *b); /* module_jump.c: brx.idx index, label of .branchtargets */
int mt_ptx_move(struct mt_ptx_body *b);
/* module_native.c: the same; and whether all f32 arithmetic flushes. */
int mt_ptx_native(struct mt_ptx_body *b);
int mt_ptx_flushes(const struct mt_asm *a);
/* module_asm.c: any other instruction. */
int mt_ptx_asm(struct mt_ptx_body *b);
int mt_ptx_is_pure(const struct mt_asm_statement *s);
void mt_ptx_asm_attributes(LLVMContextRef c, LLVMValueRef call); /* as all calls of inline asm have them */
/* module_shared.c: a load, store or cast of shared memory at that address, an integer, as inline asm. 1: the
 * old one is gone; 0: it is something else. */
int mt_ptx_asm_shared(LLVMValueRef user, LLVMValueRef address);

/* module_debug.c */
int mt_ptx_read_file(struct mt_ptx *x);                               /* ".file" is read */
int mt_ptx_read_location(struct mt_ptx_body *b, struct mt_parser *p); /* ".loc" is read */
void mt_ptx_debug_begin(struct mt_ptx *x);
void mt_ptx_debug_function(struct mt_ptx_body *b);
void mt_ptx_debug_at(struct mt_ptx_body *b, size_t offset); /* sets the builder's location */
void mt_ptx_debug_end(struct mt_ptx *x);
#endif
