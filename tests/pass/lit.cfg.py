# The pass on hand-written IR: opt runs single steps of it, FileCheck compares.
import os
import lit.formats

config.name = "memtrace-pass"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".ll"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(lit_config.params["build"], "tests", "pass", "Output")
llvm_bin = lit_config.params["llvm_bin"]
plugin = os.path.join(lit_config.params["build"], "lib", "libMemtrace-Pass.so")
config.environment["PATH"] = llvm_bin + os.pathsep + os.environ["PATH"]
config.substitutions += [
    ("%instrument", f"opt -load-pass-plugin={plugin} -passes=memtrace-instrument -S"),
    ("%lower", f"opt -load-pass-plugin={plugin} -passes=memtrace-lower -S"),
    ("%optimize", f"opt -load-pass-plugin={plugin} -passes='memtrace-lower,globaldce,default<O2>' -S"),
    ("%hosttrace", f"opt -load-pass-plugin={plugin} -passes=memtrace-host-trace -S"),
    ("%host", f"opt -load-pass-plugin={plugin} -passes=memtrace-host -S"),
    ("%device", f"opt -load-pass-plugin={plugin} -passes=memtrace-device -S"),
]
