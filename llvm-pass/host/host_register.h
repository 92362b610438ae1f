/* host_register.c: registers a file's device code. Returns 1 if the module was changed. */
#ifndef MT_PASS_HOST_REGISTER_H
#define MT_PASS_HOST_REGISTER_H
#include <llvm-c/Core.h>
int mt_host_registration(LLVMModuleRef module);
/* host_foreign.c: adds a constructor that reports device code registered with another runtime. */
LLVMValueRef mt_host_add_check(LLVMModuleRef module);
#endif
