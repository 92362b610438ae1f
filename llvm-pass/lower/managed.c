/* __managed__ variables of clang's code: the host's variable is the only one, unchanged in the program.
 * The device module's holds only the initial value. Code asks a pointer for the variable's place: the
 * runtime stores the host's address in it, and copies the initial value there, before the program's first
 * constructor. */
#include "lower.h"
#include "format/image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct managed {
    LLVMValueRef global, place;
};

/* Loads the place once in each function that uses it. */
static LLVMValueRef managed_address(struct mt_lowering *l, LLVMValueRef function, void *managed)
{
    const struct managed *m = managed;
    LLVMPositionBuilderBefore(l->builder, mt_lower_entry(function));
    LLVMSetCurrentDebugLocation2(l->builder, NULL);
    LLVMValueRef p = mt_lower_load_fixed(l, l->ptr, m->place, 0);
    return LLVMBuildAddrSpaceCast(l->builder, p, LLVMTypeOf(m->global), "");
}

/* Rejects initial values of other variables that contain its address, which is known late. */
static int managed_in_constants(struct mt_lowering *l, LLVMValueRef global)
{
    for (LLVMUseRef use = LLVMGetFirstUse(global); use; use = LLVMGetNextUse(use))
        if (!LLVMIsAInstruction(LLVMGetUser(use))) {
            mt_diag(
                l->u, NULL, MT_DIAG_ERROR,
                "%s: the address of a __managed__ variable is not a constant: it cannot be the first value "
                "of another device variable",
                mt_name(global));
            return 1;
        }
    return 0;
}

static void managed_name(LLVMValueRef global, const char *prefix, const char *name)
{
    char *whole = NULL;
    int n = asprintf(&whole, "%s%s", prefix, name);
    if (n >= 0)
        LLVMSetValueName2(global, whole, (size_t)n);
    free(whole);
}

static void managed_move(struct mt_lowering *l, LLVMValueRef global)
{
    LLVMValueRef place = LLVMAddGlobal(l->module, l->ptr, "");
    LLVMSetSection(global, "");
    managed_name(place, MT_MANAGED_PREFIX, mt_name(global));
    LLVMSetLinkage(place, LLVMGetLinkage(global));
    if (!managed_in_constants(l, global))
        mt_lower_replace(l, global, managed_address, &(struct managed){global, place});
    if (LLVMIsDeclaration(global)) {
        LLVMDeleteGlobal(global);
        return;
    }
    LLVMSetInitializer(place, LLVMConstAddrSpaceCast(global, l->ptr));
    LLVMSetLinkage(global, LLVMInternalLinkage);
    managed_name(global, "mt.", mt_name(place)); /* not a variable of the program */
}

void mt_lower_managed(struct mt_lowering *l)
{
    unsigned n = 0, i = 0;
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module); g; g = LLVMGetNextGlobal(g))
        n++;
    LLVMValueRef *list = calloc(n + 1, sizeof *list);
    for (LLVMValueRef g = list ? LLVMGetFirstGlobal(l->module) : NULL; g; g = LLVMGetNextGlobal(g)) {
        const char *section = LLVMGetSection(g);
        if (section && !strcmp(section, MT_MANAGED_SECTION))
            list[i++] = g;
    }
    mt_shim_expand_constant_users(list, i);
    for (n = i, i = 0; i < n; i++) {
        mt_shim_drop_dead_users(list[i]);
        managed_move(l, list[i]);
    }
    free(list);
}
