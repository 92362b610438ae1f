# LLVM 19 and Clang 19: compiler used on users' code, and the libraries the plugin is built against.
find_program(MEMTRACE_LLVM_CONFIG NAMES llvm-config-19 HINTS /usr/lib/llvm-19/bin REQUIRED)
execute_process(COMMAND ${MEMTRACE_LLVM_CONFIG} --bindir OUTPUT_VARIABLE MEMTRACE_LLVM_BIN
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${MEMTRACE_LLVM_CONFIG} --includedir OUTPUT_VARIABLE MEMTRACE_LLVM_INCLUDE
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${MEMTRACE_LLVM_CONFIG} --libdir OUTPUT_VARIABLE MEMTRACE_LLVM_LIB
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(MEMTRACE_CLANG ${MEMTRACE_LLVM_BIN}/clang)
set(MEMTRACE_CLANGXX ${MEMTRACE_LLVM_BIN}/clang++)
set(MEMTRACE_CLANG_FORMAT ${MEMTRACE_LLVM_BIN}/clang-format)
# Test tools of llvm-19-tools: FileCheck lies in MEMTRACE_LLVM_BIN, lit beside LLVM's own build tree.
set(MEMTRACE_LIT ${MEMTRACE_LLVM_BIN}/../build/utils/lit/lit.py)
