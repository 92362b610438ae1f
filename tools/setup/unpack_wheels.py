"""unpack_wheels.py WHEELS OUT: NVIDIA's wheels in the folder WHEELS become one CUDA toolkit in the folder OUT.

A wheel holds nvidia/<name>/{bin,include,lib,nvvm,…}; OUT gets bin include lib nvvm, lib64 as a link to lib, the links
without version that linkers look for (libcudart.so -> libcudart.so.13), and the licences in dist-info.
OUT appears as a whole or not at all."""
import glob
import os
import shutil
import sys
import zipfile


def unpack(wheel, out):
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            parts = info.filename.split("/")
            if info.is_dir() or ".." in parts or info.filename.startswith("/"):
                continue
            if parts[0] == "nvidia" and len(parts) > 2:
                parts = parts[2:]
            elif parts[0].endswith(".dist-info"):
                parts = ["dist-info"] + parts
            else:
                continue
            path = os.path.join(out, *parts)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with archive.open(info) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)
            if "bin" in parts[:-1] or info.external_attr >> 16 & 0o111:
                os.chmod(path, 0o755)


def main():
    wheels, out = sys.argv[1:]
    new = out + ".new"
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(new)
    found = sorted(glob.glob(os.path.join(wheels, "*.whl")))
    if not found:
        sys.exit(f"{wheels}: no wheels")
    for wheel in found:
        unpack(wheel, new)
    lib = os.path.join(new, "lib")
    if os.path.isdir(lib) and not os.path.exists(new + "/lib64"):
        os.symlink("lib", new + "/lib64")
        for name in sorted(os.listdir(lib)):
            plain = name.split(".so.")[0] + ".so"
            if ".so." in name and not os.path.lexists(os.path.join(lib, plain)):
                os.symlink(name, os.path.join(lib, plain))
    shutil.rmtree(out, ignore_errors=True)
    os.rename(new, out)


main()
