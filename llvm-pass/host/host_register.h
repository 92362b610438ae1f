/* host_register.c: registration of a file's device code; 1 if the module was changed. */
#ifndef MT_PASS_HOST_REGISTER_H
#define MT_PASS_HOST_REGISTER_H
#include <llvm-c/Core.h>
int mt_host_registration(LLVMModuleRef module);
/* host_foreign.c: a constructor that says so when the device code was registered with another runtime. */
LLVMValueRef mt_host_add_check(LLVMModuleRef module);
#endif
