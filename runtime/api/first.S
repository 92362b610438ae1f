#define MT_FIRST mt_entry_first
#define MT_RESOLVE mt_entry_resolve
#include "first.inc"
