"""make_wheel.py BUILD OUT: makes a wheel of memtrace in the folder OUT from the build tree BUILD.

It contains the Python package memtrace/ beside this script and, in its folder `tree`, the programs and libraries in the layout of a build
tree, stripped, with libraries that a machine with only Python may lack. Wheels have no links: names in memtrace/cudart become small
files, which is enough for libmemtrace-attach.so. Equal builds give equal bytes. Uses strip, patchelf, ldd and objdump."""
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
# Files of a build by their place in the tree; {}: some are not built everywhere.
PROGRAMS = ["bin/memtrace", "bin/mt-cc", "libexec/memtrace/mt-cudabin"]
WHOLE = "libexec/memtrace/mt-ptx-whole"  # becomes mt-ptx
LIBRARIES = ["lib/libmemtrace.so", "lib/libmemtrace-attach.so", "lib/libmemtrace-libraries.so", "lib/libmemtrace-host.so",
             "lib/libMemtrace-AA.so", "lib/memtrace/driver/libcuda.so.1"]
OPTIONAL = ["lib/memtrace/libmemtrace-inject.so", "lib/memtrace/mt-host-qemu.so", "lib/memtrace/gpu-patch-12.fatbin", "lib/memtrace/gpu-patch-13.fatbin"]
DATA = ["lib/memtrace/cpu-builtins.bc", "lib/memtrace/gpu-device.bc"]
FOLDERS = {"lib/memtrace/python": "lib/memtrace/python", "include/memtrace": "include/memtrace"}
SOURCES = {"tools/overlay/mt-overlay": "libexec/memtrace/mt-overlay", "tools/overlay/headers": "libexec/memtrace/headers"}
NAMES = "lib/memtrace/cudart"
NEEDS = "lib/memtrace/needs"  # libraries of other projects
SYSTEM = re.compile(r"(linux-vdso|ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+)\.so\b")
OF_CLANG = "libMemtrace-AA.so"  # only loaded by clang 19, which has its libraries
COMMANDS = ["memtrace", "mt-cc", "mt-compare", "mt-convert", "mt-dump", "mt-env", "mt-extract", "mt-graph", "mt-host", "mt-report", "mt-run"]
# Debian packages whose code, and therefore licence, is in the wheel.
PARTS = {"LLVM": "llvm-19-dev", "LLD": "liblld-19-dev", "zlib": "zlib1g-dev", "zstd": "libzstd-dev", "lz4": "liblz4-dev", "d3": "node-d3",
         "gcc": "libstdc++6"}
METADATA = """Metadata-Version: 2.1
Name: memtrace
Version: {version}
Summary: memory traces of CUDA programs, with or without a GPU
License: MIT; mt-host-qemu.so: GPL-2.0-or-later; libraries of others: as in licenses
Requires-Python: >=3.8
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

"""


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def put(path, to, mode=None):
    os.makedirs(os.path.dirname(to), exist_ok=True)
    shutil.copyfile(path, to)  # follows links
    os.chmod(to, mode or (0o755 if os.access(path, os.X_OK) else 0o644))


def put_folder(path, to):
    for folder, names, files in os.walk(path):
        names[:] = sorted(n for n in names if n != "__pycache__")
        for name in files:
            put(os.path.join(folder, name), os.path.join(to, os.path.relpath(folder, path), name))


def needed(path):
    """Returns other projects' libraries that the dynamic linker loads for a file: name -> path."""
    lines = re.findall(r"^\t(\S+) => (\S+)", output("ldd", path), re.M)
    missing = [name for name, where in lines if where == "not"]
    if missing:
        sys.exit(f"make_wheel: {path}: {', '.join(missing)} is not found")
    return {name: where for name, where in lines if not SYSTEM.match(name) and not name.startswith("libmemtrace")}


def build_tree(build, tree):
    """Copies programs and libraries, stripped, and the libraries that they need."""
    put(os.path.join(build, WHOLE), os.path.join(tree, "libexec/memtrace/mt-ptx"), 0o755)
    for name in PROGRAMS + LIBRARIES + DATA + OPTIONAL:
        if name not in OPTIONAL or os.path.exists(os.path.join(build, name)):
            put(os.path.join(build, name), os.path.join(tree, name))
    needs = {}
    for name in PROGRAMS + LIBRARIES + OPTIONAL + ["libexec/memtrace/mt-ptx"]:
        path = os.path.join(tree, name)
        if not os.path.exists(path) or path.endswith(".fatbin"):
            continue
        subprocess.run(["strip", "--strip-unneeded", path], check=True)
        own = {} if name.endswith(OF_CLANG) else needed(os.path.join(build, WHOLE if name.endswith("mt-ptx") else name))
        if own:  # as DT_RPATH, which also applies to its libraries' dependencies
            up = os.path.relpath(NEEDS, os.path.dirname(name))
            subprocess.run(["patchelf", "--force-rpath", "--set-rpath", f"$ORIGIN/{up}", path], check=True)
        needs.update(own)
    for name, path in needs.items():
        put(path, os.path.join(tree, NEEDS, name), 0o644)
    for name in sorted(os.listdir(os.path.join(build, NAMES))):
        target = os.path.basename(os.readlink(os.path.join(build, NAMES, name)))
        os.makedirs(os.path.join(tree, NAMES), exist_ok=True)
        with open(os.path.join(tree, NAMES, name), "w", encoding="utf-8") as f:
            f.write(f"{target} stands in for this name\n")
    for base, folders in (build, FOLDERS), (SOURCE, SOURCES):
        for name, to in folders.items():
            path = os.path.join(base, name)
            (put_folder if os.path.isdir(path) else put)(path, os.path.join(tree, to))
    return needs


def owner(path):
    """Returns the Debian package of a file, which lists it below / or below /usr."""
    path = os.path.realpath(path)
    done = subprocess.run(["dpkg-query", "-S", path, path.removeprefix("/usr")], capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"make_wheel: no package has {path}: its licence is not known")
    return done.stdout.split(":")[0]


def licences(needs, to):
    put(os.path.join(SOURCE, "LICENSE"), os.path.join(to, "LICENSE"), 0o644)
    packages = dict(PARTS)
    for name, path in needs.items():
        packages[name] = owner(path)
    paths = {part: f"/usr/share/doc/{package}/copyright" for part, package in packages.items()}
    paths.update({name: f"/usr/share/common-licenses/{name}" for name in ("GPL-2", "GPL-3", "LGPL-3")})  # of mt-host-qemu.so and libdw
    for part, path in paths.items():
        if not os.path.exists(path):
            sys.exit(f"make_wheel: there is no licence of {part}: {path}")
        put(path, os.path.join(to, f"{part}.txt"), 0o644)


def oldest_glibc(folder):
    """Returns the newest glibc version that a file requires, for the platform tag."""
    versions = {(2, 17)}
    for path in files_of(folder):
        with open(path, "rb") as f:
            if f.read(4) == b"\x7fELF":
                versions |= {(int(a), int(b)) for a, b in re.findall(r"\bGLIBC_(\d+)\.(\d+)", output("objdump", "-p", path))}
    return max(versions)


def files_of(folder):
    return sorted(os.path.join(d, f) for d, _, files in os.walk(folder) for f in files)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def pack(folder, info, wheel):
    """Writes all files, the record of their hashes last, with fixed times and modes."""
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
        for path in sorted(files_of(folder), key=lambda p: (info in p, p)):
            name = os.path.relpath(path, folder)
            with open(path, "rb") as f:
                data = f.read()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
            add(name, data, 0o755 if os.access(path, os.X_OK) and os.stat(path).st_mode & 0o100 else 0o644)
        add(f"{info}/RECORD", "\n".join(record + [f"{info}/RECORD,,", ""]), 0o644)


def main():
    build, out = map(os.path.abspath, sys.argv[1:])
    with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as f:
        version = re.search(r"project\(memtrace VERSION (\S+)", f.read())[1]
    info = f"memtrace-{version}.dist-info"
    with tempfile.TemporaryDirectory() as folder:
        put_folder(os.path.join(HERE, "memtrace"), os.path.join(folder, "memtrace"))
        needs = build_tree(build, os.path.join(folder, "memtrace", "tree"))
        tag = "py3-none-manylinux_%d_%d_x86_64" % oldest_glibc(folder)
        licences(needs, os.path.join(folder, info, "licenses"))
        with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as f:
            write(os.path.join(folder, info, "METADATA"), METADATA.format(version=version) + f.read())
        write(os.path.join(folder, info, "WHEEL"), f"Wheel-Version: 1.0\nGenerator: make_wheel\nRoot-Is-Purelib: false\nTag: {tag}\n")
        write(os.path.join(folder, info, "entry_points.txt"),
              "[console_scripts]\n" + "".join(f"{c} = memtrace.__main__:main\n" for c in COMMANDS))
        os.makedirs(out, exist_ok=True)
        wheel = os.path.join(out, f"memtrace-{version}-{tag}.whl")
        pack(folder, info, wheel)
        size = sum(os.path.getsize(path) for path in files_of(folder))
    print(f"{wheel}: {os.path.getsize(wheel) / 1e6:.1f} MB, installed {size / 1e6:.1f} MB")


main()
