/* Compiles a lowered module in several processes at once: each takes the kernels of its part with all
 * functions they call and makes an object; one linker run makes the image. Shared variables and tables are
 * defined in the first part. */
#include "cpu.h"
#include "lower/lowering.h"
#include "unit/pass.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the name of the kernel, or of its version without records, that this runtime function runs;
 * NULL: none. */
static const char *split_kernel(LLVMValueRef f)
{
    static const char *const prefixes[] = {MT_RUN_ENTRY, MT_RUN_WARPS};
    for (size_t i = 0; !LLVMIsDeclaration(f) && i < sizeof prefixes / sizeof *prefixes; i++)
        if (mt_starts(mt_name(f), prefixes[i]))
            return mt_name(f) + strlen(prefixes[i]);
    return NULL;
}

/* Returns the part of a kernel: everything that runs it is in one part, as it shares functions. */
static unsigned split_part(const struct mt_unit *u, const char *kernel, unsigned n)
{
    for (unsigned i = 0; i < u->nkernels; i++) {
        size_t length = strlen(u->kernels[i].name);
        if (!strncmp(u->kernels[i].name, kernel, length) && (!kernel[length] || kernel[length] == '.'))
            return i % n;
    }
    return 0;
}

/* Returns 1 for texts and the like, of which each part may have a copy. */
static int split_is_copied(LLVMValueRef g)
{
    return LLVMIsGlobalConstant(g) && LLVMGetUnnamedAddress(g) == LLVMGlobalUnnamedAddr &&
           (LLVMGetLinkage(g) == LLVMPrivateLinkage || LLVMGetLinkage(g) == LLVMInternalLinkage);
}

/* Makes a name of this image visible to all its objects. */
static void split_show(LLVMValueRef g)
{
    if (LLVMGetLinkage(g) != LLVMInternalLinkage && LLVMGetLinkage(g) != LLVMPrivateLinkage)
        return;
    if (!*mt_name(g))
        LLVMSetValueName2(g, "mt.shared", 9);
    LLVMSetLinkage(g, LLVMExternalLinkage);
    LLVMSetVisibility(g, LLVMHiddenVisibility);
}

/* Returns 1 if the function must have one address in all parts, the first one's. */
static int split_is_pointed(LLVMValueRef f)
{
    return !LLVMIsDeclaration(f) && !mt_is_shared_name(f) && !split_kernel(f) && mt_is_address_taken(f);
}

static void split_prepare(LLVMModuleRef m)
{
    for (LLVMValueRef g = LLVMGetFirstGlobal(m); g; g = LLVMGetNextGlobal(g))
        if (!LLVMIsDeclaration(g) && !split_is_copied(g))
            split_show(g);
    for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
        if (split_kernel(f) || split_is_pointed(f))
            split_show(f);
}

static void split_declare(LLVMModuleRef m, LLVMValueRef f)
{
    char *name = strdup(mt_name(f));
    LLVMSetValueName2(f, "", 0);
    LLVMValueRef other = LLVMAddFunction(m, name, LLVMGlobalGetValueType(f));
    LLVMSetVisibility(other, LLVMHiddenVisibility);
    LLVMReplaceAllUsesWith(f, other);
    LLVMDeleteFunction(f);
    free(name);
}

/* Keeps only the contents of part p. */
static void split_take(struct mt_unit *u, LLVMModuleRef m, unsigned p, unsigned n)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(m), next; f; f = next) {
        next = LLVMGetNextFunction(f);
        const char *kernel = split_kernel(f);
        if (kernel && split_part(u, kernel, n) != p)
            split_declare(m, f);
        else if (p && !kernel && !LLVMIsDeclaration(f) && LLVMGetVisibility(f) == LLVMHiddenVisibility)
            LLVMSetLinkage(f, LLVMAvailableExternallyLinkage); /* split_prepare has made it visible */
    }
    for (LLVMValueRef g = LLVMGetFirstGlobal(m), next; p && g; g = next) {
        next = LLVMGetNextGlobal(g);
        if (LLVMIsDeclaration(g) || split_is_copied(g))
            continue;
        if (LLVMGetLinkage(g) == LLVMAppendingLinkage) {
            LLVMDeleteGlobal(g);
            continue;
        }
        LLVMSetInitializer(g, NULL);
        LLVMSetLinkage(g, LLVMExternalLinkage);
    }
}

/* ---- processes ---- */

struct part {
    int pid, file;
};

static int split_write(int file, const char *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(file, data + done, size - done);
        if (n <= 0 && errno != EINTR)
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Never returns. */
static void split_child(struct mt_unit *u, LLVMModuleRef m, LLVMTargetMachineRef machine, unsigned p,
                        unsigned n, int file)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    split_take(u, m, p, n);
    LLVMMemoryBufferRef object = mt_unit_compile(u, m, machine);
    _exit(!object || split_write(file, LLVMGetBufferStart(object), LLVMGetBufferSize(object)));
}

/* *number: the signal that ended it. */
static LLVMMemoryBufferRef split_collect(struct part *part, int *number)
{
    LLVMMemoryBufferRef object = NULL;
    struct stat st;
    int status = -1, got;
    while ((got = waitpid(part->pid, &status, 0)) < 0 && errno == EINTR) {
    }
    if (got == part->pid && status == 0 && fstat(part->file, &st) == 0 && st.st_size) {
        void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, part->file, 0);
        if (at != MAP_FAILED) {
            object = LLVMCreateMemoryBufferWithMemoryRangeCopy(at, (size_t)st.st_size, "part");
            munmap(at, (size_t)st.st_size);
        }
    }
    if (got == part->pid && WIFSIGNALED(status))
        *number = WTERMSIG(status);
    return object;
}

static int split_start(struct mt_unit *u, LLVMModuleRef m, LLVMTargetMachineRef machine, unsigned p,
                       unsigned n, struct part *part)
{
    part->pid = -1;
    part->file = memfd_create("memtrace-part", MFD_CLOEXEC);
    if (part->file >= 0)
        part->pid = fork();
    if (part->pid == 0)
        split_child(u, m, machine, p, n, part->file);
    return part->pid < 0 ? -1 : 0;
}

unsigned mt_unit_compile_parts(struct mt_unit *u, LLVMModuleRef m, LLVMTargetMachineRef machine, unsigned n,
                               LLVMMemoryBufferRef *objects)
{
    struct part parts[MT_PARTS_MAX];
    unsigned started = 1, have = 0;
    int number = 0;
    n = n > MT_PARTS_MAX ? MT_PARTS_MAX : n;
    if (n > 1)
        split_prepare(m);
    for (; started < n; started++)
        if (split_start(u, m, machine, started, n, &parts[started]))
            break;
    if (n > 1 && started == n)
        split_take(u, m, 0, n);
    else if (n > 1) /* not all processes could be started: all of it here */
        for (unsigned p = 1; p < started; p++)
            kill(parts[p].pid, SIGKILL);
    if ((objects[0] = mt_unit_compile(u, m, machine)))
        have = 1;
    for (unsigned p = 1; p < started; p++) {
        LLVMMemoryBufferRef object = split_collect(&parts[p], &number);
        close(parts[p].file);
        if (object && have == p && started == n)
            objects[have++] = object;
        else if (object)
            LLVMDisposeMemoryBuffer(object);
    }
    if (started == n && have && have < n) {
        mt_diag(u, NULL, MT_DIAG_ERROR, "a part of the CPU image could not be compiled: %s",
                number && number != SIGKILL ? strsignal(number) : "out of memory?");
        while (have)
            LLVMDisposeMemoryBuffer(objects[--have]);
    }
    return have;
}
