/* Steps that turn an instrumented device module into an x86-64 module, in the order in which device.c
 * takes them. */
#ifndef MT_PASS_LOWER_H
#define MT_PASS_LOWER_H
#include "lowering.h"

void mt_lower_contraction(struct mt_lowering *l); /* contract.c */
void mt_lower_simplify(struct mt_lowering *l);
void mt_lower_calls(struct mt_lowering *l);
void mt_lower_ranges(struct mt_lowering *l); /* range.c, also extremes */
void mt_lower_divisions(struct mt_lowering *l);
void mt_lower_exactness(struct mt_lowering *l);
void mt_lower_extremes(struct mt_lowering *l);
void mt_lower_counts(struct mt_lowering *l);
void mt_lower_spins(struct mt_lowering *l);
void mt_lower_metadata(struct mt_lowering *l); /* lowering.c */
void mt_lower_shared(struct mt_lowering *l);
void mt_lower_managed(struct mt_lowering *l);
void mt_lower_exports(struct mt_lowering *l);    /* rdc.c: names across files */
void mt_lower_globals(struct mt_lowering *l);    /* lowering.c */
void mt_lower_attributes(struct mt_lowering *l); /* lowering.c */
void mt_lower_plain(struct mt_lowering *l);
void mt_lower_ways(struct mt_lowering *l);
void mt_lower_records(struct mt_lowering *l);
void mt_lower_site_base(struct mt_lowering *l); /* lowering.c, also the following ones */
void mt_lower_builtins(struct mt_lowering *l);
void mt_lower_frames(struct mt_lowering *l);

/* ---- shared by the steps ---- */
/* shared.c. For a global that is placed elsewhere: replaces its uses in instructions by address(l,
 * function, ctx), called once per function with the builder before mt_lower_entry. */
void mt_lower_replace(struct mt_lowering *l, LLVMValueRef global,
                      LLVMValueRef (*address)(struct mt_lowering *l, LLVMValueRef function, void *ctx),
                      void *ctx);
/* Returns the first instruction that is no alloca. */
LLVMValueRef mt_lower_entry(LLVMValueRef function);
/* Reads word `at` that the loader wrote before the first launch and that never changes while code runs. */
LLVMValueRef mt_lower_load_fixed(struct mt_lowering *l, LLVMTypeRef type, LLVMValueRef from, unsigned at);
/* count.c. Keeps passes from dropping loads with unused values until mt_ptx_release_accesses, since the
 * GPU's code has them. */
void mt_count_keep(struct mt_lowering *l);
#endif
