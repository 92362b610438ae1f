/* Restricts LLVM to x86-64. LLD refers to all targets that LLVM was built with: each of them is defined here
 * as an empty function, so that the linker pulls in no target. Those of x86-64 get other names here, and come
 * from LLVM. */
#define LLVMInitializeX86TargetInfo mt_no_x86_info
#define LLVMInitializeX86Target mt_no_x86_target
#define LLVMInitializeX86TargetMC mt_no_x86_mc
#define LLVMInitializeX86AsmPrinter mt_no_x86_printer
#define LLVMInitializeX86AsmParser mt_no_x86_parser
#define NOTHING(name)                                                                                        \
    void name(void);                                                                                         \
    void name(void)                                                                                          \
    {                                                                                                        \
    }

#define LLVM_TARGET(T)                                                                                       \
    NOTHING(LLVMInitialize##T##TargetInfo)                                                                   \
    NOTHING(LLVMInitialize##T##Target)                                                                       \
    NOTHING(LLVMInitialize##T##TargetMC)
#include <llvm/Config/Targets.def>
#define LLVM_ASM_PRINTER(T) NOTHING(LLVMInitialize##T##AsmPrinter)
#include <llvm/Config/AsmPrinters.def>
#define LLVM_ASM_PARSER(T) NOTHING(LLVMInitialize##T##AsmParser)
#include <llvm/Config/AsmParsers.def>
