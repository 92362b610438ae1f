/* The steps that turn an instrumented device module into an x86-64 module, in the order in which device.c
 * takes them. */
#ifndef MT_PASS_LOWER_H
#define MT_PASS_LOWER_H
#include "lowering.h"

void mt_lower_contraction(struct mt_lowering *l); /* contract.c */
void mt_lower_simplify(struct mt_lowering *l);
void mt_lower_calls(struct mt_lowering *l);
void mt_lower_ranges(struct mt_lowering *l); /* range.c, as extremes */
void mt_lower_divisions(struct mt_lowering *l);
void mt_lower_exactness(struct mt_lowering *l);
void mt_lower_extremes(struct mt_lowering *l);
void mt_lower_counts(struct mt_lowering *l);
void mt_lower_spins(struct mt_lowering *l);
void mt_lower_metadata(struct mt_lowering *l); /* symbols.c */
void mt_lower_shared(struct mt_lowering *l);
void mt_lower_managed(struct mt_lowering *l);
void mt_lower_exports(struct mt_lowering *l);    /* rdc.c: names across files */
void mt_lower_globals(struct mt_lowering *l);    /* symbols.c */
void mt_lower_attributes(struct mt_lowering *l); /* symbols.c */
void mt_lower_plain(struct mt_lowering *l);
void mt_lower_ways(struct mt_lowering *l);
void mt_lower_records(struct mt_lowering *l);
void mt_lower_site_base(struct mt_lowering *l); /* symbols.c, as those that follow */
void mt_lower_builtins(struct mt_lowering *l);
void mt_lower_frames(struct mt_lowering *l);

/* What they share. */
/* shared.c. Of a global that lies elsewhere: its uses by instructions become address(l, function, ctx),
 * once in each function, where the builder is put before mt_lower_entry. */
void mt_lower_replace(struct mt_lowering *l, LLVMValueRef global,
                      LLVMValueRef (*address)(struct mt_lowering *l, LLVMValueRef function, void *ctx),
                      void *ctx);
/* The first instruction that is no alloca. */
LLVMValueRef mt_lower_entry(LLVMValueRef function);
/* Reads word `at` of what the loader wrote before the first launch: it never changes while code runs. */
LLVMValueRef mt_lower_load_fixed(struct mt_lowering *l, LLVMTypeRef type, LLVMValueRef from, unsigned at);
/* count.c. Until mt_ptx_release_accesses no pass may drop a load whose value nobody uses: the GPU's code has
 * it. */
void mt_count_keep(struct mt_lowering *l);
#endif
