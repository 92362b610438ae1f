/* What the program registered: fat binaries with their kernels and variables. Kept for both devices; on the
 * CPU device a module's image is loaded when something of any module is first needed. Never freed: kernels
 * may run until the process ends. Thread-safe. */
#ifndef MT_API_MODULE_H
#define MT_API_MODULE_H
#include "api/crt.h"
#include "cpu/cpu.h"

/* An image that mt-ptx makes when it is first needed (made.h). */
struct mt_lazy {
    _Atomic int loading;     /* threads that are at it */
    struct mt_making *begun; /* before anybody asks for it, */
    int claimed;             /* which nobody may do any more */
    int asked;               /* for it: */
    struct mt_made_code *_Atomic code;
    _Atomic int made; /* it is there, or will never be */
};

struct mt_module {
    const void *wrapper; /* what __cudaRegisterFatBinary got */
    /* Relocatable device code that no device linker saw: the files' fatbins instead of a wrapper, and the
     * shared object that they are in. */
    const void **fatbins;
    size_t nfatbins;
    const void *object;
    struct mt_image *image;
    const char *why; /* why there is no image */
    int too_old;     /* its kernels on a GPU take an argument of which nothing is known: they do not run */
    int ended;       /* all that is in it is registered */
    _Atomic int loading; /* threads that are at it */
    _Atomic int tried;   /* to load the image */
    int loaded;          /* all of the module is, for the device in use */
    int limited;         /* by the process's file size limit: compiling it again would not help */
    int said;            /* the missing image was reported */
    int foreign;         /* no image came with it: one is made when something of it is needed: */
    struct mt_lazy lazy;
    void *later; /* what it has is what its kernels share, and these are the kernels that have images of their
                  * own (mt_made_kernel_next), */
    size_t later_end; /* their bytes. NULL: all are in it */
    int sent;         /* to the real runtime, */
    void **real;      /* which knows it by this handle */
    struct mt_function *functions;
    struct mt_variable *variables;
    struct mt_module *next;
};

struct mt_function {
    const void *host; /* the address that the program launches */
    char *name;       /* mangled */
    char *device;     /* as registered */
    int thread_limit;
    struct mt_module *module;
    const struct mt_image_kernel *kernel; /* NULL: not in the image; valid once the module is loaded, */
    struct mt_image *image;               /* which it is in */
    struct mt_lazy lazy;                  /* that image, where it has one of its own; */
    const char *why;                      /* why it has none */
    int dynamic_shared_max;               /* attribute; -1: the default */
    int carveout;
    int cluster[3];          /* attributes: the size that its clusters must have, 0: any; */
    int cluster_must;        /* a launch must say a size; */
    int cluster_nonportable; /* it may be above MT_DEV_CLUSTER */
    int cluster_policy;
    /* On a GPU: its version with record calls (plain.h),
     * known to the real runtime by traced_key's address. */
    int has_traced;
    _Atomic int told; /* that the version without runs in its place; on the CPU device: that it cannot run */
    char traced_key;
    cudaKernel_t traced_handle;
    struct mt_function *_Atomic before;       /* registered with the same address */
    _Atomic int told_folded;                  /* that it is another kernel */
    char *_Atomic pretty, *_Atomic signature; /* without a table: its name; made when it is first needed */
    const char *_Atomic shown;                /* what traces call it (shown.h); NULL: not asked for yet */
    struct mt_function *next;                 /* of the module */
};

struct mt_variable {
    const void *host;
    void **managed; /* pointer to set to the variable's address, or NULL */
    int own;        /* a __managed__ variable of clang's code: `host` is the variable itself */
    char *name, *device;
    size_t size;
    int ext, constant, global;
    void *address; /* on the CPU device, its first GPU's, once loaded; NULL: not in the image */
    struct mt_module *module;
    struct mt_variable *next;
};

/* The function launched as `f`: a host stub's address or a handle from mt_function_handle. NULL: not
 * registered. Its module is loaded, which may take a while where an image has to be made. */
struct mt_function *mt_function_find(const void *f);
cudaKernel_t mt_function_handle(struct mt_function *f);
/* 1: it is the address of several kernels, which is said once; mt_function_find knows none of them by it. */
int mt_function_is_folded(const void *host);
/* Another name for a function: the real runtime's kernel handle. */
void mt_function_alias(const void *alias, struct mt_function *f);
/* module.c. The variable whose host shadow is at `host`; loaded. NULL: none. */
struct mt_variable *mt_variable_find(const void *host);
/* Where the current device has it; NULL: nowhere. */
void *mt_variable_address(struct mt_variable *v);
/* On the CPU device; NULL: nowhere. */
void mt_variable_lies(struct mt_variable *v, void *address);

/* Loads what a module carries: its image, and the tables that are for both devices. */
void mt_module_load_tables(struct mt_module *m);
/* Something of it is needed: its image is made where it carried none. */
void mt_module_need(struct mt_module *m);
/* A kernel is needed: where it is one of those that have their own image, that is made. */
void mt_module_drop_begun(struct mt_module *m); /* what was begun for it ahead of time; before it goes */
void mt_function_need(struct mt_function *f);
/* Gives a module its image, or says why there is none (the module's to keep), with all that its tables name.
 */
void mt_module_bind(struct mt_module *m, struct mt_image *image, const char *why);
/* A module's image as one of several GPUs has it, with variables of its own. NULL: there is none, which was
 * said. */
struct mt_image *mt_module_image_on(struct mt_image *image, int device);
/* Its kernels and variables are known no longer. */
void mt_module_forget(struct mt_module *m);
/* The module's fatbins; NULL: what it registered is not one. */
const void *const *mt_module_fatbins(const struct mt_module *m, size_t *n);
/* Says once per module why its kernels cannot run; `kernel` (or variable) is the first that is missing.
 * 1: it was said now. */
int mt_module_complain(struct mt_module *m, const char *kernel);
/* The same for a kernel that was called; of other files' code each is named once. */
void mt_function_complain(struct mt_function *f);
/* Says once per module why its kernels run on a GPU without a trace. */
void mt_module_untraced(struct mt_module *m, const char *kernel);
/* Loads what is registered and not loaded yet; how many that is. */
void mt_modules_load(void);
extern _Atomic unsigned mt_modules_unloaded;
/* The lock of the list and of what the modules hold; the first of the list that is `wanted`, with the lock. A
 * thread may take it again. */
void mt_modules_enter(void);
void mt_modules_leave(void);
struct mt_module *mt_modules_next(int (*wanted)(const struct mt_module *));
/* Registers everything with the real runtime, and what comes later as it comes. */
void mt_modules_to_gpu(void);
/* Logs the addresses of device variables on a GPU, once. */
void mt_modules_log_symbols(void);
#endif
