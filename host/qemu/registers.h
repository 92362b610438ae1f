/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Registers of the guest. QEMU 9 and later have a call for them; in 7.2 they are read from its CPU state, at
 * an address taken from the debugger's function that its binary exports. */
#ifndef MT_HOST_QEMU_REGISTERS_H
#define MT_HOST_QEMU_REGISTERS_H
#include "record.h"

enum { MT_RAX = 0, MT_RDX = 2, MT_RSP = 4, MT_RSI = 6, MT_RDI = 7, MT_RIP = 16 };

/* Returns 0, or -1 if this QEMU gives no registers. */
int mt_registers_start(void);
/* Called once by each thread at a translated instruction. */
void mt_registers_attach(struct mt_thread *t, unsigned vcpu);
/* 1: `registers` follow the guest, and are valid at the start of a block and right after an access; 0:
 * mt_registers_read is needed. */
extern int mt_registers_live;
/* Makes t->registers valid, in a callback registered with QEMU_PLUGIN_CB_R_REGS. */
void mt_registers_read(struct mt_thread *t);
#endif
