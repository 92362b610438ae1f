#define MT_FIRST mt_lib_first
#define MT_RESOLVE mt_lib_resolve
#include "../api/first.inc"
