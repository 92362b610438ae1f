/* Tracing of the host's own accesses (option host): selects and orders the functions. Runs after
 * optimisation, so that variables in registers are not traced, and each remaining access has one record. */
#include "host.h"
#include "trace/trace.h"
#include "unit/pass.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int has_attribute(LLVMValueRef f, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    return LLVMGetEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, kind) != NULL;
}

/* Returns 1 for resolvers, which run while the program is being relocated: no thread-local storage yet. */
static int is_resolver(LLVMModuleRef module, LLVMValueRef f)
{
    for (LLVMValueRef i = LLVMGetFirstGlobalIFunc(module); i; i = LLVMGetNextGlobalIFunc(i))
        if (LLVMGetGlobalIFuncResolver(i) == f)
            return 1;
    return 0;
}

/* Returns 1 for code that clang makes for CUDA to pack and register: not the user's. */
static int is_glue(const char *name)
{
    return strstr(name, "__device_stub__") || mt_starts(name, "__cuda_") || mt_starts(name, "memtrace.") ||
           mt_starts(name, "__mt_");
}

static int is_traced(struct mt_unit *u, LLVMValueRef f)
{
    if (LLVMIsDeclaration(f) || LLVMGetLinkage(f) == LLVMAvailableExternallyLinkage || is_glue(mt_name(f)) ||
        is_resolver(u->module, f) || mt_shim_from_toolchain(f))
        return 0;
    if (has_attribute(f, "naked")) {
        mt_diag(u, NULL, MT_DIAG_WARNING, "%s: a naked function's accesses have no record", mt_name(f));
        return 0;
    }
    return 1;
}

static void mark_calls(struct mt_host_recorder *r, LLVMValueRef f)
{
    unsigned n;
    LLVMValueRef *list = mt_instructions(f, &n);
    for (unsigned i = 0; list && i < n; i++) {
        if (!LLVMIsACallInst(list[i]) && !LLVMIsAInvokeInst(list[i]))
            continue;
        if (mt_host_allocates(mt_name(mt_callee(list[i]))))
            mt_host_mark_allocation(r, list[i]);
        mt_host_mark_annotation(r, list[i]);
    }
    free(list);
}

static int host_trace_sanitized(LLVMValueRef f)
{
    return has_attribute(f, "sanitize_address") || has_attribute(f, "sanitize_thread") ||
           has_attribute(f, "sanitize_memory") || has_attribute(f, "sanitize_hwaddress");
}

static void trace_module(struct mt_unit *u)
{
    struct mt_host_table table;
    struct mt_host_recorder r;
    unsigned functions = 0;
    mt_host_table_init(&table, u);
    mt_host_recorder_init(&r, u, &table);
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        if (!is_traced(u, f))
            continue;
        if (host_trace_sanitized(f)) {
            mt_diag(u, NULL, MT_DIAG_ERROR,
                    "host tracing and a sanitizer do not go together; leave one of them out");
            break;
        }
        mt_host_record_function(&r, f);
        mark_calls(&r, f);
        mt_host_hook_function(&r, f);
        functions++;
    }
    mt_host_table_emit(&table);
    if (u->options->verbose)
        fprintf(stderr, "memtrace: host: %u functions, %u accesses\n", functions, table.nrows);
    LLVMDisposeBuilder(r.builder);
    mt_host_table_free(&table);
    mt_forget_purity(u->module);
}

int mt_pass_host_trace(LLVMModuleRef module)
{
    struct mt_unit u;
    if (mt_shim_is_nvptx(module) || !mt_pass_options.host)
        return 0;
    mt_unit_init(&u, module);
    mt_unit_read_facts(&u);
    trace_module(&u);
    mt_unit_free(&u);
    if (mt_pass_options.strip_debug)
        LLVMStripModuleDebugInfo(module);
    return 1;
}
