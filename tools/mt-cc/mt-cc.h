/* mt-cc: clang++-19 with memtrace's flags filled in, and nvcc's spellings understood.
 * Strings that outlive a call are never freed: the program lives for one command line. */
#ifndef MT_TOOLS_MT_CC_H
#define MT_TOOLS_MT_CC_H
#include <stddef.h>
#include <getopt.h>
#include "base/say.h"
#include "base/words.h"

/* ---- places.c: where memtrace's own files are, relative to this executable ------------------------ */
struct places {
    char *overlay; /* --cuda-path */
    char *plugin;  /* libMemtrace-AA.so */
    char *runtime; /* libmemtrace.so */
    char *host;    /* libmemtrace-host.so */
    char *include; /* holds memtrace/ */
    unsigned cuda; /* CUDA_VERSION of the toolkit behind the overlay, e.g. 13000 */
    char *toolkit; /* and its path */
};
/* Build tree or install tree, whichever this executable lies in. 0, or -1 after a message. */
int mt_cc_places_find(struct places *places);

/* ---- environment.c: the same by clang itself
 * ------------------------------------------------------------- */
/* On stdout: lines for a shell that make it so. An exit code. */
int mt_cc_print_environment(const struct places *places);
/* The clang++ 19 that mt-cc would run; NULL after a message. */
char *mt_cc_find_clang(void);
#define MT_CC_NO_CLANG                                                                                       \
    "there is no clang 19, which mt-cc compiles with: install clang-19 (Debian and Ubuntu: apt-get install " \
    "clang-19), or set MEMTRACE_CLANG to a clang++ of that version"
/* Takes back what they say to clang: mt-cc gives clang all flags itself. */
void mt_cc_forget_environment(void);

/* ---- math.c: how exactly device code computes
 * ------------------------------------------------------------- */
enum switched { MATH_UNSAID, MATH_ON, MATH_OFF };
struct device_math {
    int fast; /* -use_fast_math: approximate functions, and the defaults of what follows */
    enum switched ftz, prec_div, prec_sqrt, fmad;
};

/* ---- request.c: what the command line asks for
 * ------------------------------------------------------------- */
struct request {
    struct words user;   /* for clang, in the user's order, nvcc's spellings translated */
    struct words archs;  /* sm_NN without repetition; empty: the default */
    struct words plugin; /* -fplugin-arg-memtrace-… */
    struct words notes;  /* what was translated or dropped; shown by --show */
    int show, plain, quiet;
    int host;               /* the host's accesses are traced, too */
    int compiles;           /* there is C, C++ or CUDA source */
    int cuda;               /* there is CUDA source */
    int inputs;             /* files of any kind */
    int links;              /* no -c, -S, -E, … */
    const char *language;   /* of -x in force, NULL: by suffix */
    unsigned toolkit;       /* CUDA_VERSION: sets the lowest architecture */
    struct words files;     /* inputs, sharing the pointers in `user` */
    struct words sources;   /* those that are to be compiled */
    struct words c_files;   /* those that are C */
    int cxx_sources;        /* how many are CUDA or C++ */
    int rdc;                /* relocatable device code: -fgpu-rdc */
    int dlink;              /* -dlink: only the device link, into an object */
    int no_device_link;     /* not by us: --no-device-link, or clang's own (--offload-link) */
    int first_arch;         /* only the first architecture's code */
    int relocatable;        /* -r: the link makes an object */
    int depends;            /* -M or -MM: only the rules of a make file */
    int forward;            /* FORWARD_…: where options go that nvcc does not know */
    struct words forwarded; /* those of them that go to the linker */
    int dopt;               /* -dopt on: -G optimises */
    int optimises_device;   /* device code gets -O3: nothing else is said */
    int verbose;            /* -v */
    int version;            /* print versions, and nothing else */
    const char *lists;      /* print the architectures with this in front, and nothing else; or NULL */
    struct device_math math;
    struct words nvlink; /* options for nvlink */
    const struct places *places;
};
#define FORWARD_COMPILER 1
#define FORWARD_LINKER 2
/* The options that are not clang's or nvcc's, as a table for shells and for what is misspelt. */
/* Options of mt-cc's own (base/command.def). */
const struct option *mt_cc_options(void);
/* 0, or 2 after a message about a wrong option. */
int mt_cc_request_read(struct request *r, int argc, char **argv);

/* Appends the words that say to clang what was asked for. */
void mt_cc_math_words(const struct device_math *math, struct words *line);
/* Notes an option: "fast", or "ftz", "prec-div", "prec-sqrt", "fmad", on or off. */
void mt_cc_math_option(struct request *r, const char *name, int on);

/* ---- response.c: files of options
 * ---------------------------------------------------------------------------------------- */
/* Appends the arguments, and for -optf FILE and @FILE the words in the file. 0, or -1 after a message. */
int mt_cc_response_expand(struct words *out, int argc, char **argv);

/* ---- main.c: running
 * ---------------------------------------------------------------------------------------- */
/* Runs a command, or shows it; its exit code. With `out` (a file, or -1) its standard output goes there. */
int mt_cc_run_line(const struct request *r, struct words *line, int out);
/* A folder for temporary files; NULL after a message. With --show it is only named. */
char *mt_cc_make_folder(const struct request *r);
/* clang's whole command line from the words in its middle, the inputs and options. */
struct words mt_cc_complete(const struct request *r, const struct words *middle, int links);

/* ---- parts.c: commands that take clang several times; the exit code ------------------------------- */
/* C files apart from the others: first theirs, into objects, if there is a link. */
int mt_cc_run_languages(const struct request *r);
/* A link of device code, with the compilations before it. */
int mt_cc_run_device_link(const struct request *r);

/* ---- depends.c: -M of CUDA sources; the exit code ------------------------------------------------- */
/* One rule for each source with what both its sides include, in nvcc's layout,
 * into the file that -o or -MF names. */
int mt_cc_run_depends(const struct request *r);

/* ---- languages.c: a standard ("-std=c++17 a.cu b.c") is for its language's files, and clang refuses it */
/* 1: C and other sources, and a standard that is not for both: the command must be run in parts. */
int mt_cc_languages_mixed(const struct request *r);
/* r->user without the other language's standard: for a request whose sources are all C,
 * or all C++ or CUDA. */
void mt_cc_languages_drop_standard(struct request *r);
/* The words that compile C file `i` into `object`, or all C files where they end
 * up by themselves (object NULL). */
struct words mt_cc_languages_c(const struct request *r, size_t i, const char *object);
/* The words that compile one source into `object`. */
struct words mt_cc_languages_one(const struct request *r, const char *source, const char *object);
/* The words of a link: each source is replaced by its object. */
struct words mt_cc_languages_linked(const struct request *r, const struct words *objects);
/* The words for the rest: each C file is replaced by its object, or left out (objects NULL). */
struct words mt_cc_languages_rest(const struct request *r, const struct words *objects);

/* ---- nvcc.c: spellings that are nvcc's and not clang's
 * ------------------------------------------------------ */
/* If argv[i] is one: appends its translation to r and returns how many arguments it took; 0: not nvcc's;
 * -1 after a message (a value is missing). */
int mt_cc_nvcc_option(struct request *r, int argc, char **argv, int i);
/* Is it an option of nvcc's? */
int mt_cc_nvcc_knows(const char *arg);
/* The value of option `name` at argv[i]: after '=', or the next argument (then *used = 2).
 * NULL: another option. */
char *mt_cc_option_value(int argc, char **argv, int i, const char *name, int *used);
/* A source language by clang's or nvcc's name (-x). */
void mt_cc_request_language(struct request *r, const char *name);
/* An architecture as sm_80, compute_80, 80 or 8.0. */
void mt_cc_request_arch(struct request *r, const char *name);
/* On stdout, a line each, the architectures that there can be code for. */
void mt_cc_request_print_archs(const struct request *r, const char *prefix);
void mt_cc_request_note(struct request *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
