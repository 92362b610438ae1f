import itertools
import os
import shlex
import subprocess
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


def precompile():
    """CUDA's headers, parsed once for each side, for -O0 and above, for three standards: reading them is most of a short compilation. Clang takes the
    file of the folder that its words fit, or says that there is none. Made anew each time, so that they are the compiler's and the toolkit's of today."""
    folder = os.path.join(p["build"], "headers", "cuda.h.pch")
    os.makedirs(folder, exist_ok=True)
    header = folder.removesuffix(".pch")
    with open(header, "w", encoding="utf-8"):
        pass
    for side, level, standard in itertools.product(("device", "host"), ("-O0", "-O1"), ("gnu++17", "c++14", "c++11")):
        if (level, standard) == ("-O0", "c++11"):
            continue  # nobody asks for it
        words = [*shlex.split(cuda), f"--cuda-{side}-only", level, f"-std={standard}", "-###", "-S", "-x", "cuda", header, "-o",
                 os.path.join(folder, side + level + standard)]
        words[0] = os.path.join(p["llvm_bin"], words[0])
        said = subprocess.run(words, capture_output=True, text=True, check=True).stderr
        command = shlex.split(next(line for line in said.splitlines() if '"-cc1"' in line))
        command[command.index("-S")] = "-emit-pch"
        subprocess.run(command, check=True)
    return f"--include={header}"


quick = f"{cuda} {precompile()}"
config.substitutions += [
    # %device and %host: IR as code generation makes it, before any pass, on stdout.
    ("%device", f"{quick} -fplugin={p['plugin']} --cuda-device-only -S -emit-llvm -Xclang -disable-llvm-passes -o -"),
    ("%host", f"{quick} -fplugin={p['plugin']} --cuda-host-only -S -emit-llvm -Xclang -disable-llvm-passes -o -"),
    ("%cuda", cuda),
    ("%quick", quick),  # the same with the headers' files
    ("%plugin", p["plugin"]),
    ("%python", sys.executable),
    ("%overlay", p["overlay"]),
    ("%toolkit", p["toolkit"]),
    ("%source", p["source"]),
]

# Programs can run when libmemtrace.so, to which the overlay's libcudart leads, is there.
if os.path.exists(os.path.join(os.path.dirname(p["plugin"]), "libmemtrace.so")):
    config.available_features.add("runtime")
