import os
import sys
import lit.formats

p = lit_config.params
config.name = "plugin"
config.test_format = lit.formats.ShTest(execute_external=True)
config.suffixes = [".cu", ".c", ".cpp", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = p["build"]
config.environment["PATH"] = p["llvm_bin"] + os.pathsep + config.environment["PATH"]
# One compilation's words must not depend on who runs the tests.
for name in ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "MEMTRACE_PASS_OPTIONS"):
    config.environment.pop(name, None)

cuda = f"clang++ --cuda-path={p['overlay']} --cuda-gpu-arch=sm_75 -Wno-unknown-cuda-version"
config.substitutions += [
    # %device and %host: IR as code generation makes it, before any pass, on stdout.
    ("%device", f"{cuda} -fplugin={p['plugin']} --cuda-device-only -S -emit-llvm -Xclang -disable-llvm-passes -o -"),
    ("%host", f"{cuda} -fplugin={p['plugin']} --cuda-host-only -S -emit-llvm -Xclang -disable-llvm-passes -o -"),
    ("%cuda", cuda),
    ("%plugin", p["plugin"]),
    ("%python", sys.executable),
    ("%overlay", p["overlay"]),
    ("%toolkit", p["toolkit"]),
    ("%source", p["source"]),
]

# Programs can run when libmemtrace.so, to which the overlay's libcudart leads, is there.
if os.path.exists(os.path.join(os.path.dirname(p["plugin"]), "libmemtrace.so")):
    config.available_features.add("runtime")
