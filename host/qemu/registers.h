/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Registers of the guest. QEMU 9 and later have a call for them; in 7.2 they are read from its CPU state, at
 * an address taken from the debugger's function that its binary exports. */
#ifndef MT_HOST_QEMU_REGISTERS_H
#define MT_HOST_QEMU_REGISTERS_H
#include "record.h"

enum { MT_RAX = 0, MT_RDX = 2, MT_RSP = 4, MT_RBP = 5, MT_RSI = 6, MT_RDI = 7, MT_RIP = 16 };

/* Called once by each thread at a translated instruction. */
void mt_registers_attach(struct mt_thread *t, unsigned vcpu);
/* 1: `registers` follow the guest, and are valid at the start of a block and right after an access; 0:
 * mt_registers_read is needed. */
extern int mt_registers_live;
#endif
