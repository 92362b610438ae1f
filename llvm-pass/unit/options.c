/* The pass's options: see options.h. */
#include "options.h"
#include "shim.h"
#include "base/regex.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

struct mt_pass_options mt_pass_options = {
    .cpu_image = 1, .gpu_trace = 1, .gpu_plain = 1, .vectors = 1, .host_stack = 1};
enum mt_counting mt_pass_counting;

static int set_switch(int *target, const char *value, const char **why)
{
    if (!strcmp(value, "on") || !strcmp(value, "1"))
        *target = 1;
    else if (!strcmp(value, "off") || !strcmp(value, "0"))
        *target = 0;
    else {
        *why = "expected on or off";
        return -1;
    }
    return 0;
}

static int set_regex(char **target, const char *value, const char **why)
{
    regex_t re;
    char text[200];
    if (!*value || mt_regex(&re, value, text, sizeof text)) {
        *why = "not a valid POSIX extended regular expression";
        return -1;
    }
    regfree(&re);
    free(*target);
    *target = strdup(value);
    return 0;
}

/* Returns a bit for each of the `n` words in a list; 0: an invalid list. */
static uint32_t options_list(const char *value, const char *const *words, unsigned n)
{
    uint32_t mask = 0;
    while (*value) {
        size_t length = strcspn(value, ",+");
        uint32_t hit = 0;
        for (unsigned i = 0; i < n; i++)
            if (length == strlen(words[i]) && !strncmp(value, words[i], length))
                hit = 1u << i;
        if (!hit)
            return 0;
        mask |= hit;
        value += length + (value[length] != 0);
    }
    return mask;
}

static int set_only(const char *value, const char **why)
{
    static const char *const words[] = {"loads", "stores", "atomics"}; /* by enum mt_access_type */
    uint32_t mask = strcmp(value, "nothing") ? options_list(value, words, 3) : MT_ONLY_NOTHING;
    *why = "expected nothing, or a list of loads, stores, atomics, separated by ','";
    if (mask)
        mt_pass_options.only = mask;
    return mask ? 0 : -1;
}

/* Sets the spaces; global memory is always recorded. */
static int options_set_spaces(const char *value, const char **why)
{
    static const char *const words[] = {"global", "shared", "local"}; /* bit n - 1: MT_SPACES_* */
    uint32_t mask = options_list(value, words, 3);
    *why = "expected global, or a list of global, shared, local, separated by ',', with global in it";
    if (mask & 1)
        mt_pass_options.spaces = mask >> 1;
    return mask & 1 ? 0 : -1;
}

static int set_host(const char *value, const char **why)
{
    int on;
    if (!strcmp(value, "atomic")) {
        mt_pass_options.host = MT_HOST_TRACE_ATOMIC;
        return 0;
    }
    if (set_switch(&on, value, why)) {
        *why = "expected on, off or atomic";
        return -1;
    }
    mt_pass_options.host = on ? MT_HOST_TRACE_ON : MT_HOST_TRACE_OFF;
    return 0;
}

static int set_level(const char *value, const char **why)
{
    if (*value < '0' || *value > '3' || value[1]) {
        *why = "expected 0, 1, 2 or 3";
        return -1;
    }
    mt_pass_options.level = *value - '0';
    return 0;
}

static int set_count(const char *value, const char **why)
{
    int on;
    if (!strcmp(value, "only")) {
        mt_pass_counting = MT_COUNT_ONLY;
        return 0;
    }
    if (set_switch(&on, value, why)) {
        *why = "expected on, off or only";
        return -1;
    }
    mt_pass_counting = on ? MT_COUNT_ON : MT_COUNT_OFF;
    return 0;
}

/* Sets the processor; "native" is the compiler's own, with the features left by a virtual machine. */
static int options_set_cpu(const char *value, const char **why)
{
    struct mt_pass_options *o = &mt_pass_options;
    int native = !strcmp(value, "native");
    char *name = native ? LLVMGetHostCPUName() : LLVMCreateMessage(value);
    char *features = native ? LLVMGetHostCPUFeatures() : LLVMCreateMessage("");
    int has = mt_shim_x86_has(name, features, MT_CPU_V3);
    *why = has < 0 ? "clang 19 knows no such x86-64 processor; \"clang++-19 --target=x86_64 "
                     "--print-supported-cpus\" "
                     "lists those that it knows, \"native\" is this one"
                   : "the CPU device needs a processor with AVX2, BMI, F16C, FMA, LZCNT and MOVBE: x86-64-v3 "
                     "or above";
    if (has > 0) {
        free(o->cpu);
        free(o->cpu_features);
        o->cpu = strdup(name);
        o->cpu_features = native ? strdup(features) : NULL;
    }
    LLVMDisposeMessage(name);
    LLVMDisposeMessage(features);
    return has > 0 ? 0 : -1;
}

int mt_pass_option_set(const char *key_value, const char **why)
{
    struct mt_pass_options *o = &mt_pass_options;
    const char *eq = strchr(key_value, '=');
    if (!eq) {
        *why = "expected key=value";
        return -1;
    }
    size_t n = (size_t)(eq - key_value);
    const char *value = eq + 1;
#define IS(key) (n == sizeof(key) - 1 && !strncmp(key_value, key, n))
    if (IS("kernels"))
        return set_regex(&o->kernels, value, why);
    if (IS("exclude"))
        return set_regex(&o->exclude, value, why);
    if (IS("only"))
        return set_only(value, why);
    if (IS("spaces"))
        return options_set_spaces(value, why);
    if (IS("cpu-image"))
        return set_switch(&o->cpu_image, value, why);
    if (IS("gpu-trace"))
        return set_switch(&o->gpu_trace, value, why);
    if (IS("gpu-plain"))
        return set_switch(&o->gpu_plain, value, why);
    if (IS("vectors"))
        return set_switch(&o->vectors, value, why);
    if (IS("verbose"))
        return set_switch(&o->verbose, value, why);
    if (IS("contract-all"))
        return set_switch(&o->contract_all, value, why);
    if (IS("level"))
        return set_level(value, why);
    if (IS("rdc"))
        return set_switch(&o->rdc, value, why);
    if (IS("count"))
        return set_count(value, why);
    if (IS("host"))
        return set_host(value, why);
    if (IS("host-stack"))
        return set_switch(&o->host_stack, value, why);
    if (IS("host-functions"))
        return set_regex(&o->host_functions, value, why);
    if (IS("gpu-runtime")) {
        if (*value != '/') {
            *why = "expected the full path of a bitcode file";
            return -1;
        }
        free(o->gpu_runtime);
        o->gpu_runtime = strdup(value);
        return 0;
    }
    if (IS("cpu"))
        return options_set_cpu(value, why);
#undef IS
    *why = "unknown key; known are kernels, exclude, only, spaces, cpu-image, gpu-trace, gpu-plain, "
           "vectors, verbose, cpu, "
           "count, host, "
           "host-stack, host-functions";
    return -1;
}

void mt_pass_option_off_range(const char *file, uint32_t first, uint32_t last)
{
    struct mt_pass_options *o = &mt_pass_options;
    struct mt_off_range *grown = realloc(o->off, (o->noff + 1) * sizeof *grown);
    if (!grown)
        return;
    o->off = grown;
    o->off[o->noff++] = (struct mt_off_range){strdup(file), first, last};
}

/* Sets "off=FILE:FIRST-LAST", a range between #pragma memtrace off and on; only for opt. */
static int set_off(const char *value, const char **why)
{
    const char *colon = strrchr(value, ':');
    unsigned first, last;
    if (!colon || sscanf(colon + 1, "%u-%u", &first, &last) != 2) {
        *why = "expected FILE:FIRST-LAST";
        return -1;
    }
    char *file = strndup(value, (size_t)(colon - value));
    if (file)
        mt_pass_option_off_range(file, first, last);
    free(file);
    return 0;
}

void mt_pass_options_from_environment(void)
{
    const char *text = getenv("MEMTRACE_PASS_OPTIONS");
    while (text && *text) {
        size_t n = strcspn(text, ";");
        char *one = strndup(text, n);
        const char *why = "";
        int bad = one && *one &&
                  (!strncmp(one, "off=", 4) ? set_off(one + 4, &why) : mt_pass_option_set(one, &why));
        if (bad)
            fprintf(stderr, "memtrace: MEMTRACE_PASS_OPTIONS: %s: %s\n", one, why);
        free(one);
        text += n + (text[n] != 0);
    }
}
