/* The device link: nvlink for each architecture, fatbinary, and the object that registers the result. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "device_link.h"

/* What registers the linked code: called once by each file's constructor (the names are those that clang and
 * nvcc give them), it waits for the last one. A reference to each file's fatbin brings
 * it in from an archive. */
static const char stub[] =
    "struct wrapper { int magic, version; const void *data; void **more; };\n"
    "extern void **__cudaRegisterFatBinary(void *);\n"
    "extern void __cudaRegisterFatBinaryEnd(void **);\n"
    "extern void __cudaUnregisterFatBinary(void **);\n"
    "extern int atexit(void (*)(void));\n"
    "#define DEFINE_REGISTER_FUNC(id) enum { registers##id };\n"
    "#include \"registered.h\"\n"
    "#undef DEFINE_REGISTER_FUNC\n"
    "static void *prelinked[NUM_PRELINKED_OBJECTS + 1];\n"
    "static void (*callbacks[NUM_PRELINKED_OBJECTS + 1])(void **);\n"
    "static int count;\n"
    "char __mt_device_linker __attribute__((weak, visibility(\"hidden\")));\n"
    "static void **handle;\n"
    "__asm__(\".section .nv_fatbin,\\\"a\\\",@progbits\\n.balign 16\\nmt_linked_fatbin:\\n\"\n"
    "        \".incbin \\\"linked.fatbin\\\"\\n.balign 16\\n.previous\\n\");\n"
    "extern const char mt_linked_fatbin[] __attribute__((visibility(\"hidden\")));\n"
    "static const struct wrapper linked __attribute__((section(\".nvFatBinSegment\"), aligned(8))) =\n"
    "    {0x466243b1, 2, mt_linked_fatbin, prelinked};\n"
    "static void unregister(void) { __cudaUnregisterFatBinary(handle); }\n"
    "static void add(const struct wrapper *w, void (*callback)(void **))\n"
    "{\n"
    "    prelinked[count] = (void *)w->data;\n"
    "    callbacks[count++] = callback;\n"
    "    if (count < NUM_PRELINKED_OBJECTS) return;\n"
    "    handle = __cudaRegisterFatBinary((void *)&linked);\n"
    "    atexit(unregister);\n"
    "    for (int i = 0; i < count; i++) callbacks[i](handle);\n"
    "    __cudaRegisterFatBinaryEnd(handle);\n"
    "}\n"
    "#define DEFINE_REGISTER_FUNC(id) \\\n"
    "    extern const struct wrapper __fatbinwrap##id __attribute__((visibility(\"hidden\"))); \\\n"
    "    static const char defined##id[] __attribute__((used, aligned(1), section(\"__nv_module_id\"))) = "
    "\\\n"
    "        \"def \" #id; \\\n"
    "    void __cudaRegisterLinkedBinary##id(void (*callback)(void **), void *wrapper, void *name, \\\n"
    "                                        void (*unused)(void *)) \\\n"
    "    { \\\n"
    "        add(&__fatbinwrap##id, callback); \\\n"
    "    }\n"
    "#undef NUM_PRELINKED_OBJECTS\n"
    "#include \"registered.h\"\n";

static const char *const temporary[] = {"registered.h", "linked.fatbin", "register.c"};

static char *device_link_in(const char *folder, const char *file)
{
    return mt_words_text("%s/%s", folder, file);
}

void mt_cc_device_link_clean(const char *folder)
{
    for (size_t i = 0; i < sizeof temporary / sizeof *temporary; i++) {
        unlink(device_link_in(folder, temporary[i]));
    }
    for (int arch = 0; arch < MT_ARCHS; arch++) {
        unlink(mt_words_text("%s/sm_%d.cubin", folder, arch));
    }
}

/* Is the architecture among those that the command line names, if it names any? */
static int asked_for(const struct request *r, const struct device_code *code, int arch)
{
    int any = 0;
    for (size_t i = 0; i < r->archs.count; i++) {
        int named = atoi(r->archs.word[i] + strlen("sm_"));
        if (named == arch) {
            return 1;
        }
        any |= named < MT_ARCHS && code->arch[named];
    }
    return !any; /* names none that the objects have: theirs serve */
}

static int link_for(const struct request *r, const struct words *inputs, int arch, const char *folder)
{
    struct words line = {0};
    char *devrt = mt_words_text("%s/lib64", r->places->overlay);
    mt_words_addf(&line, "%s/bin/nvlink", r->places->overlay);
    mt_words_add(&line, "-m64");
    mt_words_add(&line, "-cpu-arch=X86_64");
    mt_words_addf(&line, "--arch=sm_%d", arch);
    mt_words_addf(&line, "--register-link-binaries=%s/registered.h", folder);
    mt_words_append(&line, &r->nvlink);
    mt_words_append(&line, inputs);
    if (access(mt_words_text("%s/libcudadevrt.a", devrt), R_OK) == 0) {
        mt_words_addf(&line, "-L%s", devrt);
        mt_words_add(&line, "-lcudadevrt");
    }
    mt_words_add(&line, "-o");
    mt_words_addf(&line, "%s/sm_%d.cubin", folder, arch);
    return mt_cc_run_line(r, &line, -1);
}

static int device_link_bundle(const struct request *r, const struct device_code *code, const char *folder)
{
    struct words line = {0};
    mt_words_addf(&line, "%s/bin/fatbinary", r->places->overlay);
    mt_words_add(&line, "-64");
    mt_words_add(&line, "--create");
    mt_words_add(&line, device_link_in(folder, "linked.fatbin"));
    for (int arch = 0; arch < MT_ARCHS; arch++) {
        if (code->arch[arch] && asked_for(r, code, arch)) {
            mt_words_addf(&line, "--image=profile=sm_%d,file=%s/sm_%d.cubin", arch, folder, arch);
        }
    }
    return mt_cc_run_line(r, &line, -1);
}

/* How many files' code was linked; none: it was linked before, and they bring the object with them. */
static int device_link_registered(const char *folder)
{
    int n = 0;
    FILE *f = fopen(device_link_in(folder, "registered.h"), "re");
    if (f && fscanf(f, " #define NUM_PRELINKED_OBJECTS %d", &n) != 1) {
        n = 0;
    }
    if (f) {
        fclose(f);
    }
    return n;
}

static int compile_stub(const struct request *r, const char *code, const char *folder, const char *object)
{
    const char *chosen = getenv("MEMTRACE_CLANG");
    char *source = device_link_in(folder, "register.c");
    struct words line = {0};
    if (!r->show) {
        FILE *f = fopen(source, "we");
        if (!f || fputs(code, f) < 0 || fclose(f) != 0) {
            return mt_cli_fail("%s: %s", source, strerror(errno));
        }
    }
    mt_words_add(&line, chosen && *chosen ? chosen : "clang++-19");
    mt_words_add(&line, "-x");
    mt_words_add(&line, "c");
    mt_words_add(&line, "-w");
    mt_words_add(&line, "-O1");
    mt_words_add(&line, "-fPIC");
    mt_words_add(&line, "-Xassembler");
    mt_words_addf(&line, "-I%s", folder);
    mt_words_add(&line, "-c");
    mt_words_add(&line, source);
    mt_words_add(&line, "-o");
    mt_words_add(&line, object);
    return mt_cc_run_line(r, &line, -1);
}

int mt_cc_device_link(const struct request *r, const struct words *inputs, const struct device_code *code,
                      const char *folder, const char *object, int *made)
{
    int rc = 0, archs = 0;
    *made = 0;
    if (access(mt_words_text("%s/bin/nvlink", r->places->overlay), X_OK) != 0) {
        mt_cli_say("note: the CUDA toolkit has no nvlink: the program runs on the CPU device only");
        return 0;
    }
    for (int arch = 0; arch < MT_ARCHS && rc == 0; arch++) {
        if (code->arch[arch] && asked_for(r, code, arch)) {
            rc = link_for(r, inputs, arch, folder);
            archs++;
        }
    }
    if (rc != 0 || archs == 0 || (!r->show && device_link_registered(folder) == 0)) {
        return rc;
    }
    rc = device_link_bundle(r, code, folder);
    if (rc == 0) {
        rc = compile_stub(r, stub, folder, object);
    }
    *made = rc == 0;
    return rc;
}

int mt_cc_device_link_nothing(const struct request *r, const char *folder, const char *object)
{
    return compile_stub(r, "typedef int nothing;\n", folder, object);
}
