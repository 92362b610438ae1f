/* mt-cc: clang++-19 with memtrace's flags filled in, and nvcc's options translated. Strings that outlive a
 * call are never freed, since the program handles a single command line. */
#ifndef MT_TOOLS_MT_CC_H
#define MT_TOOLS_MT_CC_H
#include <stddef.h>
#include <getopt.h>
#include "base/say.h"
#include "base/words.h"

/* Paths of memtrace's files, found relative to this executable. */
struct places {
    char *overlay; /* value of --cuda-path */
    char *plugin;  /* path of libMemtrace-AA.so */
    char *runtime; /* path of libmemtrace.so */
    char *host;    /* path of libmemtrace-host.so */
    char *include; /* folder that contains memtrace/ */
    unsigned cuda; /* CUDA_VERSION of the overlay's toolkit, for example 13000 */
    char *toolkit; /* path of that toolkit */
};

#define MT_CC_NO_CLANG                                                                                       \
    "there is no clang 19, which mt-cc compiles with: install clang-19 (Debian and Ubuntu: apt-get install " \
    "clang-19), or set MEMTRACE_CLANG to a clang++ of that version"

/* Precision of device code. */
enum switched { MATH_UNSAID, MATH_ON, MATH_OFF };
struct device_math {
    int fast; /* -use_fast_math: approximate functions, and defaults of the fields below */
    enum switched ftz, prec_div, prec_sqrt, fmad;
};

/* The parsed command line. */
struct request {
    struct words user;   /* words for clang in the user's order, nvcc's options translated */
    struct words archs;  /* sm_NN without duplicates; empty: the default */
    struct words plugin; /* options -fplugin-arg-memtrace-… */
    struct words notes;  /* options translated or dropped, for --show */
    int show, plain, quiet;
    int host;               /* 1: host accesses are traced, too */
    int compiles;           /* 1: there is C, C++ or CUDA source */
    int cuda;               /* 1: there is CUDA source */
    int inputs;             /* number of input files of any kind */
    int links;              /* 1: links (no -c, -S, -E, …) */
    const char *language;   /* language of the current -x; NULL: by suffix */
    unsigned toolkit;       /* CUDA_VERSION, which determines the lowest architecture */
    struct words files;     /* inputs, sharing the pointers in `user` */
    struct words sources;   /* inputs to compile */
    struct words c_files;   /* C inputs */
    int cxx_sources;        /* number of CUDA and C++ inputs */
    int rdc;                /* 1: relocatable device code (-fgpu-rdc) */
    int dlink;              /* 1: -dlink, only the device link, into an object */
    int no_device_link;     /* 1: the user or clang does the device link (--no-device-link, --offload-link) */
    int first_arch;         /* 1: code for the first architecture only */
    int relocatable;        /* 1: -r, the link makes an object */
    int depends;            /* 1: -M or -MM, only make rules */
    int forward;            /* FORWARD_…: receivers of options that nvcc does not know */
    struct words forwarded; /* options that go to the linker */
    int dopt;               /* 1: -dopt on, so -G optimises */
    int optimises_device;   /* 1: device code gets -O3 by default */
    int verbose;            /* 1: prints commands (-v) */
    int version;            /* 1: prints versions only */
    const char *lists;      /* prints the architectures with this prefix only; or NULL */
    struct device_math math;
    struct words nvlink; /* options for nvlink */
    const struct places *places;
};
#define FORWARD_COMPILER 1
#define FORWARD_LINKER 2
/* Returns mt-cc's own options (base/command.def). */
const struct option *mt_cc_options(void);
/* Parses the command line. Returns 0, or 2 after a message. */
int mt_cc_request_read(struct request *r, int argc, char **argv);

/* Appends clang's words for the precision. */
void mt_cc_math_words(const struct device_math *math, struct words *line);

/* Appends the arguments, with -optf FILE and @FILE replaced by the words in the file. Returns 0, or -1 after
 * a message. */
int mt_cc_response_expand(struct words *out, int argc, char **argv);

/* Prints the supported architectures on stdout, one per line. */
void mt_cc_request_print_archs(const struct request *r, const char *prefix);
void mt_cc_request_note(struct request *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
