/* mt-cc: clang++-19 with memtrace's flags filled in, and nvcc's spellings understood.
 * Strings that outlive a call are never freed: the program lives for one command line. */
#ifndef MT_TOOLS_MT_CC_H
#define MT_TOOLS_MT_CC_H
#include <stddef.h>
#include <getopt.h>
#include "base/say.h"
#include "base/words.h"

/* Where memtrace's own files are, relative to this executable. */
struct places {
    char *overlay; /* --cuda-path */
    char *plugin;  /* libMemtrace-AA.so */
    char *runtime; /* libmemtrace.so */
    char *host;    /* libmemtrace-host.so */
    char *include; /* holds memtrace/ */
    unsigned cuda; /* CUDA_VERSION of the toolkit behind the overlay, e.g. 13000 */
    char *toolkit; /* and its path */
};

#define MT_CC_NO_CLANG                                                                                       \
    "there is no clang 19, which mt-cc compiles with: install clang-19 (Debian and Ubuntu: apt-get install " \
    "clang-19), or set MEMTRACE_CLANG to a clang++ of that version"

/* How exactly device code computes. */
enum switched { MATH_UNSAID, MATH_ON, MATH_OFF };
struct device_math {
    int fast; /* -use_fast_math: approximate functions, and the defaults of what follows */
    enum switched ftz, prec_div, prec_sqrt, fmad;
};

/* What the command line asks for. */
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
/* Options of mt-cc's own (base/command.def). */
const struct option *mt_cc_options(void);
/* 0, or 2 after a message about a wrong option. */
int mt_cc_request_read(struct request *r, int argc, char **argv);

/* Appends the words that say to clang what was asked for. */
void mt_cc_math_words(const struct device_math *math, struct words *line);

/* Appends the arguments, and for -optf FILE and @FILE the words in the file. 0, or -1 after a message. */
int mt_cc_response_expand(struct words *out, int argc, char **argv);

/* On stdout, a line each, the architectures that there can be code for. */
void mt_cc_request_print_archs(const struct request *r, const char *prefix);
void mt_cc_request_note(struct request *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
