/* Differences between Pin versions 3.24 to 4.x, for the rest of the tool. Other differences are avoided:
 * registers are written LEVEL_BASE::REG_*; thread ids come from the kernel (PIN_ThreadUid is gone in 4);
 * the end of an internal thread is a flag of our own; returns are seen at the return instruction
 * (mt_pin_calls.cpp), since IPOINT_AFTER of a routine misses tail calls and, in 4, allocators. */
#ifndef MT_PIN_COMPAT_H
#define MT_PIN_COMPAT_H
#include <string>
#include "pin.H"
#include "pin_version.h"
#if PIN_PRODUCT_VERSION_MAJOR < 3 || (PIN_PRODUCT_VERSION_MAJOR == 3 && PIN_PRODUCT_VERSION_MINOR < 24)
#error "Pin 3.24 or newer is needed"
#endif
#if !defined(TARGET_IA32E) || !defined(TARGET_LINUX)
#error "host tracing is for x86-64 Linux"
#endif
#endif
