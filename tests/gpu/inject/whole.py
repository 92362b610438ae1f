#!/usr/bin/env python3
"""whole.py PLAY INJECTION SANITIZER CUBIN MT_DUMP REAL MACHINE: the injection library from its entry to its files, while play.c makes
callbacks; REAL: the folder with NVIDIA's own libraries, if there are some; MACHINE:
a libcuda.so.1 to be preloaded, which also stands in for the driver's files. Counted by hand: a launch has 64 records of 4 bytes; streams: the default one (2 launches) and one more (2, and one
that the driver refused)."""
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

play, injection, sanitizer, cubin, dump, real, machine = sys.argv[1:]
failed = []


def check(what, found, must):
    if found != must:
        failed.append(f"{what}: {found!r}, must be {must!r}")


def run(look=None, code=None, patches=(12, 13), **more):
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE")}
        environment |= {"MEMTRACE_SANITIZER": sanitizer, "MEMTRACE_DIR": folder} | more
        here = os.path.join(folder, "lib")
        os.mkdir(here)
        shutil.copy(injection, here)
        for cuda in patches:
            with open(os.path.join(here, f"gpu-patch-{cuda}.fatbin"), "w", encoding="ascii") as f:
                f.write(str(cuda))
        mine = os.path.join(here, os.path.basename(injection))
        if environment.get("API_PRELOADED"):
            environment["LD_PRELOAD"] = mine
        result = subprocess.run([play, mine, code or cubin], capture_output=True, text=True, env=environment, timeout=60)
        check("exit code", result.returncode, 0)
        traces = {}
        if look:
            look(folder)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".meta"):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    lines = [json.loads(line) for line in f]
                words = subprocess.run([dump, os.path.join(folder, name[:-5])], capture_output=True, text=True, timeout=60)
                traces[name[:-5]] = (lines, words.stdout, os.path.getsize(os.path.join(folder, name[:-5])))
        return traces, result


def of(lines, kind):
    return [line for line in lines if line["ev"] == kind]


def launches(lines, number):
    return [line for line in of(lines, "launch") if line.get("stream") == number]


def check_traces(traces, why):
    check(f"{why}: traces", len(traces), 2)
    for number, (lines, _, _) in enumerate(traces.values()):
        mine = [(line["kernel"], line["records"], line["grid"][0], line["traced"]) for line in launches(lines, number)]
        check(f"{why}: launches of {number}", mine, [("app::scale", 64, 2, True)] * 2)
        end = of(lines, "end")[-1]
        check(f"{why}: end of {number}", (end["records_written"], end["complete"]), (128, True))
        refused = [line["status"] for line in of(lines, "launch") if line.get("stream") in (-1, None) and line.get("status")]
        check(f"{why}: refused", refused, [701])


FUNCTIONS = {"Subscribe", "EnableCallback", "EnableDomain", "GetResultString", "Alloc", "AllocHost", "MemcpyHostToDeviceAsync", "MemcpyDeviceToHost",
             "StreamSynchronize", "GetStreamHandle", "AddPatches", "PatchInstructions", "PatchModule", "SetLaunchCallbackData", "GetFunctionPcAndSize",
             "GetCallbackPcAndSize"}


def check_failures():
    """Each function of the API fails, always, or the first or a later time: the program runs to its end as ever, and the traces are
    right, or say that they are not whole, or are not there and the user was told."""
    with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../runtime/gpu/inject/inject.h"), encoding="utf-8") as f:
        check("functions of the table", set(re.findall(r"F\((\w+)\)", f.read())) - {"F"}, FUNCTIONS)
    for name in sorted(FUNCTIONS):
        for when in ("", ":1", ":2", ":5"):
            traces, result = run(API_FAIL=name + when)
            why = f"{name}{when} fails"
            ends = [of(lines, "end")[-1] for lines, *_ in traces.values()]
            whole = [end["records_written"] for end in ends if end["complete"]]
            if name == "EnableDomain" and when != ":5":
                check(f"{why}: said", [end["complete"] for end in ends], [False] * 2)
            check(f"{why}: no lie", [n for n in whole if n != 128], [])
            check(f"{why}: no silence", len(whole) == 2 or any(not end["complete"] for end in ends) or "memtrace:" in result.stderr, True)


WORDS = re.compile(r"(driver .*), (library .*), patches (\S+)")


def said(**more):
    """What the library says of driver, library and patches."""
    found = WORDS.search(run(MEMTRACE_VERBOSE="1", **more)[1].stderr)
    return found and found.groups()


def version_said(**more):
    found = said(**more)
    return found and re.sub(r" \(.*", "", found[1])


def check_versions():
    """By the API functions that a library knows; for NVIDIA's own libraries the version is in the name of their package's folder."""
    for known, must in (("433,433", "11.8"), ("753,467", "12.4"), ("783,486", "12.9"), ("806,522", "13.0"), ("822,549", "13.1"), ("845,558", "13.2"),
                        ("872,566", "13.5"), ("9999,9999", "13.5")):
        check(f"version of {known}", version_said(API_KNOWS=known), "library " + must)
    check("version unknown", version_said(API_FAIL="EnableCallback"), "library of unknown version")
    for info in glob.glob(os.path.join(real, "**", "nvidia_cuda_sanitizer_api*.dist-info"), recursive=True):
        folder = os.path.dirname(os.path.dirname(info))
        for library in [f for below in ("", "lib", "compute-sanitizer") for f in glob.glob(os.path.join(folder, below, "libsanitizer-public.so"))]:
            must = re.search(r"-(\d+\.\d+)[\d.]*\.dist-info", info).group(1)
            check(f"version of {library}", version_said(MEMTRACE_SANITIZER=library), "library " + must)


OLD, NEW, V12, V13 = "535.183.01", "580.65.06", "783,486", "806,522"


def check_drivers():
    """The driver's version by the name of its library, by the kernel's module, by a question; and the patches that it loads."""
    for more, driver, patches in (({"MACHINE_DRIVER": OLD, "API_KNOWS": V12}, OLD + " (CUDA 12)", "12"), ({"MACHINE_DRIVER": NEW, "API_KNOWS": V13}, NEW + " (CUDA 13)", "13"),
                                  ({"MACHINE_DRIVER": NEW, "API_KNOWS": V12}, NEW + " (CUDA 13)", "12"), ({"MACHINE_DRIVER": OLD, "API_KNOWS": V13}, OLD + " (CUDA 12)", "12"),
                                  ({"MACHINE_DRIVER": "610.01", "API_KNOWS": V13}, "610.01 (CUDA 13)", "13"), ({"MACHINE_CUDA": "12040", "API_KNOWS": V12}, "of CUDA 12", "12"),
                                  ({"MACHINE_CUDA": "13010", "API_KNOWS": V13}, "of CUDA 13", "13"), ({"API_KNOWS": V13}, "of unknown version", "13"),
                                  ({"API_KNOWS": V12}, "of unknown version", "12"), ({"MACHINE_DRIVER": NEW, "API_KNOWS": V13, "patches": (12,)}, NEW + " (CUDA 13)", "12")):
        found = said(LD_PRELOAD=machine, **more)
        check(f"driver, {more}", found and (found[0], found[2]), (f"driver {driver}", f"gpu-patch-{patches}.fatbin"))
    with tempfile.TemporaryDirectory() as folder:  # as packages for forward compatibility have it: newer than the kernel's module
        shutil.copy(machine, os.path.join(folder, "libcuda.so." + NEW))
        os.symlink("libcuda.so." + NEW, os.path.join(folder, "libcuda.so.1"))
        check("driver by its library", said(LD_PRELOAD=os.path.join(folder, "libcuda.so.1"), MACHINE_DRIVER=OLD)[0], f"driver {NEW} (CUDA 13)")
    check_traces(run(LD_PRELOAD=machine, MACHINE_DRIVER=OLD, API_LOADS="12")[0], "a driver of CUDA 12")
    for more, words in (({"MACHINE_DRIVER": OLD, "API_KNOWS": V12, "patches": (13,)}, (OLD, "no patches that this driver loads", "./setup gpu")),
                        ({"MACHINE_DRIVER": "470.82.01"}, ("470.82.01", "too old", "525")),
                        ({"MACHINE_DRIVER": OLD, "API_OTHER_DRIVER": "1"}, (OLD, "does not go with this library", sanitizer, "memtrace run --list"))):
        traces, result = run(LD_PRELOAD=machine, **more)
        check(f"refused, {more}", (len(traces), result.stdout, [word for word in words if word not in result.stderr]), (0, "patched 0\n", []))
    traces, result = run(LD_PRELOAD=machine, MACHINE_DRIVER=NEW, API_LOADS="12")
    check("patches refused", [word for word in (NEW, "library", "gpu-patch-13") if word not in result.stderr], [])


def check_silence():
    """The library takes the subscription and never calls back."""
    traces, result = run(API_SILENT="1", MEMTRACE_VERBOSE="1", LD_PRELOAD=machine, MACHINE_DRIVER=NEW)
    check("silence", (len(traces), "kernels are traced" in result.stderr), (0, False))
    check("silence, said", [word for word in ("never called back", NEW, "library 1", "MEMTRACE_ENGINE=preload") if word not in result.stderr], [])
    check("no silence", "never called back" in run()[1].stderr, False)
    check("kernels are traced", "kernels are traced" in run(MEMTRACE_VERBOSE="1")[1].stderr, True)


def check_gpus():
    """A process sees the GPUs that CUDA_VISIBLE_DEVICES leaves, of a divided one a part: lines name devices if there are several."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0"):
            os.mkdir(os.path.join(folder, name))
        for visible, several in ((None, True), ("0,3", True), ("2", False), ("", False), ("1,7,2", False), ("-1", False), ("GPU-8932f937, GPU-1b2c", True),
                                 ("MIG-4f5a,MIG-77aa", False)):
            more = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
            lines, *_ = next(iter(run(API_PLAY="gpus", LD_PRELOAD=machine, MACHINE_GPUS=folder, **more)[0].values()))
            check(f"GPUs, {visible}", [line.get("device") for line in of(lines, "alloc")][:3], [0, 1, 2] if several else [None] * 3)


def check_preloaded():
    """The dynamic linker loads the library, and nobody calls it."""
    check_traces(run(MEMTRACE_ENGINE="preload", API_PRELOADED="1")[0], "preloaded")
    traces, result = run(API_PRELOADED="1")
    check("preloaded, not asked", (len(traces), result.stdout, result.stderr), (0, "patched 0\n", ""))


def check_flags():
    """200 lines of 128 bytes that one CTA stores and the other one loads after a flag, 100 in each direction."""
    def look(folder):
        command = [os.path.join(os.path.dirname(dump), "mt-extract"), "-s", "CCV", folder]
        volumes = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
        found.append(json.loads(volumes)["CCV"])

    for more in ({}, {"MEMTRACE_FORMAT": "compact", "MEMTRACE_GPU_READERS": "1"}, {"MEMTRACE_FORMAT": "compact", "MEMTRACE_GPU_READERS": "2"}):
        found = []
        (lines, *_), = run(look, API_PLAY="flags", **more)[0].values()
        ordered = more.get("MEMTRACE_GPU_READERS") != "2"
        check(f"flags {more}: complete", (of(lines, "end")[-1]["complete"], of(lines, "end")[-1]["records_written"]), (True, 12800))
        check(f"flags {more}: order undefined", lines[0].get("workers"), None if ordered else 2)
        loads = [cta["Load"] for cta in found[0]["app::scale"]["0"].values()]
        check(f"flags {more}: communication", loads if ordered else [], [12800, 12800] if ordered else [])


def check_unseen():
    """Kernels with instructions that the library reports in newer versions, or in none: traced, and not complete, with the names and the
    way out. The library here refuses the rows of versions newer than its own (API_ROWS: its highest one)."""
    names = "plain texture_of surface_of calls waits tensor multicast bulk"
    for rows, tensors in (("40", "UTMALDG, UTMASTG, UTMAREDG"), ("47", None)):
        for form in ("raw", "compact"):
            traces, result = run(code=os.path.join(os.path.dirname(cubin), "unseen.cubin"), API_PLAY="kernels", API_KERNELS=names, API_ROWS=rows,
                                 MEMTRACE_FORMAT=form)
            (lines, *_), = traces.values()
            found = {line["kernel"]: (line.get("unseen"), line["untraced"], line["records"]) for line in launches(lines, 0)}
            must = {"plain": None, "texture_of": "TEX", "surface_of": "SUST", "calls": "TLD", "waits": None, "tensor": tensors, "multicast": "LDGMC",
                    "bulk": None}
            check(f"unseen, {rows}", found, {k: (v, len(v.split(", ")) if v else 0, 64) for k, v in must.items()})
            check(f"unseen, {rows}: end", of(lines, "end")[-1]["complete"], False)
            check(f"unseen, {rows}: said", "no version of NVIDIA's library reports accesses by TEX" in result.stderr, True)
            check(f"unseen, {rows}: header", (lines[0].get("sanitizer"), lines[0].get("refused")), ("13.0", "TMA_LOAD, TMA_STORE" if tensors else None))
    traces, result = run(code=os.path.join(os.path.dirname(cubin), "unseen.cubin"), API_PLAY="kernels", API_KERNELS="tensor plain", API_ROWS="40")
    (lines, *_), = traces.values()
    check("unseen, the way out", "from version 13.3 on it does" in result.stderr, True)
    check("unseen, why", "UTMALDG, UTMASTG, UTMAREDG; from version 13.3" in of(lines, "lost")[-1]["why"], True)
    traces, result = run(code=os.path.join(os.path.dirname(cubin), "unseen.cubin"), API_PLAY="kernels", API_KERNELS="plain bulk waits", API_ROWS="40")
    (lines, *_), = traces.values()
    check("nothing unseen", (of(lines, "end")[-1]["complete"], result.stderr), (True, ""))


def check_polls():
    """Kernels that may wait count repeats, which are in their launch line; others are not asked to. NCCL's kernels are left out, unless
    kernels are chosen."""
    code = os.path.join(os.path.dirname(cubin), "unseen.cubin")
    for more, repeated in (({}, 7), ({"MEMTRACE_FORMAT": "compact"}, 7), ({"API_NO_EXITS": "1"}, 7), ({"MEMTRACE_GPU_WITHOUT": "polls"}, None)):
        traces, result = run(code=code, API_PLAY="kernels", API_KERNELS="plain waits plain waits", **more)
        (lines, *_), = traces.values()
        check(f"polls {more}", [(line["kernel"], line["records"], line.get("repeated")) for line in launches(lines, 0)],
              [("plain", 64, None), ("waits", 64, repeated)] * 2)
        check(f"polls {more}: complete", of(lines, "end")[-1]["complete"], bool(repeated))
    for chosen, left in (({}, "nccl"), ({"MEMTRACE_KERNELS": "."}, None), ({"MEMTRACE_KERNELS": "nccl|plain"}, None)):
        traces, result = run(code=code, API_PLAY="kernels", API_KERNELS="plain ncclDevKernel_AllReduce", **chosen)
        lines = next(iter(traces.values()))[0]
        found = {line["kernel"]: (line["traced"], line.get("left_out")) for line in of(lines, "launch")}
        check(f"NCCL {chosen}", found["ncclDevKernel_AllReduce"], (not left, left))
        check(f"NCCL {chosen}: said", "launches of NCCL's kernels are not traced: 1 " in result.stderr, bool(left))
        check(f"NCCL {chosen}: complete", of(lines, "end")[-1]["complete"], True)


def check_outside():
    """Code that is not where its file says has not been looked at, and nobody knows what it does."""
    with open(os.path.join(os.path.dirname(cubin), "unseen.cubin"), "rb") as f:
        elf = bytearray(f.read())
    offset, size, count, names = *struct.unpack_from("<Q", elf, 40), *struct.unpack_from("<HHH", elf, 58)
    strings, = struct.unpack_from("<Q", elf, offset + names * size + 24)
    for i in range(count):
        name, = struct.unpack_from("<I", elf, offset + i * size)
        if elf[strings + name:].startswith(b".text.texture_of\0"):
            struct.pack_into("<Q", elf, offset + i * size + 24, 1 << 40)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as f:
        f.write(elf)
        f.flush()
        (lines, *_), = run(code=f.name, API_PLAY="kernels", API_KERNELS="texture_of plain")[0].values()
    check("outside", ([line.get("unseen") for line in launches(lines, 0)], of(lines, "end")[-1]["complete"]), (["?", None], False))


def check_damaged_totals():
    """Totals whose numbers cannot be true are no totals, and the trace is damaged; those of some launches are not known."""
    def look(folder):
        metas = [os.path.join(folder, f"MemTrace-pipe-{i}.meta") for i in (0, 1)]
        texts = []
        for meta in metas:
            with open(meta, encoding="utf-8") as f:
                texts.append(f.read())
        command = [os.path.join(os.path.dirname(dump), "mt-extract"), "-s", "lines", folder]
        for old, new, code in (("", "", 0), ('"requests":8', '"requests":-1', 3), ('"accesses":256', '"accesses":1500.0', 3), ('"bytes":1024', '"bytes":-100', 3),
                               ('"op":"store"', '"op":"explode"', 3), ('"4 8"', '"4 9223372036854775807","4 1"', 3), ('"4 8"', '"99999999999999999999 8"', 3),
                               ('"4 8"', '"4 7"', 3)):
            check(f"damaged totals: {old}", [old in text for text in texts], [True] * 2)
            for meta, text in zip(metas, texts):
                with open(meta, "w", encoding="utf-8") as f:
                    head, tally, end = re.fullmatch(r'(.*?)(\{"ev":"tally".*?\n)(.*)', text, re.S).groups()
                    f.write(head + (tally.replace(old, new) if old else tally) + end)
            result = subprocess.run(command, capture_output=True, text=True, timeout=60)
            check(f"damaged totals, {new}", (result.returncode, bool(json.loads(result.stdout)["lines"]["lines"])), (code, not code))
        for meta, text in zip(metas, texts):
            with open(meta, "w", encoding="utf-8") as f:
                f.write(text)
        result = subprocess.run([*command, "-t", "0"], capture_output=True, text=True, timeout=60)
        check("totals of some launches", (json.loads(result.stdout)["lines"]["lines"], "of all launches" in result.stderr), (None, True))

    run(look, MEMTRACE_ONLY="lines")


def check_cancels():
    """A kernel whose CTA takes over the work of the other one, which never runs: the process's other launches end as ever."""
    traces, result = run(code=os.path.join(os.path.dirname(cubin), "cancels.cubin"), API_PLAY="kernels", API_KERNELS="cancels plain", MEMTRACE_VERBOSE="1")
    (lines, *_), = traces.values()
    check("cancels", ([line["records"] for line in launches(lines, 0)], of(lines, "end")[-1]["complete"]), ([32, 64], True))
    check("cancels, said", "do not say when they end" in result.stderr, False)


def check_graph():
    """A graph with more kernels than there are launch contexts: none waits for the others' contexts, and those without one are counted."""
    begin = time.monotonic()
    traces, result = run(API_PLAY="graph", API_NODES="4010")
    (lines, *_), = traces.values()
    check("large graph", ([line["traced"] for line in of(lines, "launch")].count(True), len(of(lines, "launch")), of(lines, "end")[-1]["complete"]),
          (4000, 4010, False))
    check("large graph, said", "is not traced" in result.stderr, True)
    check("large graph, within seconds", time.monotonic() - begin < 60, True) # a wait for each would take 100
    (lines, *_), = run(API_PLAY="graph", API_NODES="1100")[0].values()
    check("graph of 1,100", ([line["traced"] for line in of(lines, "launch")].count(True), of(lines, "end")[-1]["complete"]), (1100, True))


def check_lines():
    for more in ({}, {"API_GREEN": "1", "API_KNOWS": "845,549"}):
        (lines, *_), = run(API_PLAY="order", **more)[0].values()
        check(f"event of the default stream {more}", [(e["op"], e["stream"]) for e in of(lines, "event")], [("record", 0)])
    (lines, *_), = run(API_PLAY="batches")[0].values()
    check("batch", [(m["bytes"], m["src"], m["dst"], m["stream"]) for m in of(lines, "memcpy")],
          [(100, "0x20000", "0x10000", 0), (101, "0x20100", "0x10200", 0)])
    check("reduction by a stream", [(m["dst"], m["bytes"]) for m in of(lines, "memset")], [("0x10000", 8)])


def check_without():
    """Parts are left out, and what is there is right: the default stream has two launches, the other one a launch and a graph's node."""
    for part, must in (("exits", [128, 128]), ("graphs", [128, 64]), ("driver", [128, 128]), ("exits,graphs,driver", [128, 64])):
        traces, _ = run(MEMTRACE_GPU_WITHOUT=part)
        ends = [of(lines, "end")[-1] for lines, *_ in traces.values()]
        check(f"without {part}", ([end["records_written"] for end in ends], [end["complete"] for end in ends]), (must, [False, False]))


def check_totals():
    """MEMTRACE_ONLY: what the GPU counted itself is what the analyses make of the records, of one stream and of all; one kernel chosen by
    name; and nothing else is in the traces. Then a context that is destroyed, and one whose memory cannot be read."""
    def look(folder):
        out = []
        for more in ((), ("-k", "scale"), ("-k", "nothing")):
            command = [os.path.join(os.path.dirname(dump), "mt-extract"), "-s", "lines,coalescing", *more, folder]
            result = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60).stdout)
            lines = {k: v for k, v in result["lines"].items() if k != "allocations"}
            out.append((lines, {k: v for k, v in (result["coalescing"] or {}).items()}))
        found.append(out)

    for more in ({}, {"API_EXIT": "1"}, {"API_DESTROY": "1"}, {"API_PLAY": "gpus"}, {"API_PLAY": "threads"}):
        found = []
        run(look, MEMTRACE_FORMAT="compact", **more)
        traces, result = run(look, MEMTRACE_FORMAT="compact", MEMTRACE_ONLY="lines,strides", **more)
        check(f"totals {more}", found[1], found[0])
        check(f"totals {more}, not empty", bool(found[0][0][0]) and found[0][0] == found[0][1] and found[0][0] != found[0][2], True)
        for lines, *_ in traces.values():
            check(f"totals {more}: header", lines[0].get("only"), "lines,strides")
            check(f"totals {more}: records", (of(lines, "end")[-1]["records_written"], of(lines, "end")[-1]["complete"]), (0, True))
            check(f"totals {more}: launches", {line["traced"] for line in launches(lines, 0)} <= {True}, True)
    traces, result = run(MEMTRACE_ONLY="races")
    check("totals of something else", ([of(lines, "end")[-1]["records_written"] for lines, *_ in traces.values()], "MEMTRACE_ONLY=races" in result.stderr), ([128] * 2, True))
    traces, result = run(MEMTRACE_ONLY="lines", API_PLAY="threads", API_FAIL="MemcpyDeviceToHost")
    check("totals of streams not read", [of(lines, "end")[-1]["complete"] for lines, *_ in traces.values()], [False] * 4)
    traces, result = run(MEMTRACE_ONLY="lines", API_FAIL="MemcpyDeviceToHost")
    check("totals not read", ([of(lines, "end")[-1]["complete"] for lines, *_ in traces.values()], "cannot be read" in result.stderr), ([False] * 2, True))


def main():
    check_without()
    check_totals()
    check_unseen()
    check_polls()
    check_outside()
    check_damaged_totals()
    check_cancels()
    check_graph()
    check_lines()
    traces, result = run()
    check_traces(traces, "raw")
    check("patched", result.stdout, "patched 1\n")
    first = next(iter(traces.values()))[0]
    check("device", (first[0].get("device"), launches(first, 0)[0]["shared"]), ("gpu", 48))
    check("names", (launches(first, 0)[0]["mangled"], launches(first, 0)[0]["signature"]),
          ("_ZN3app5scaleEPfi", "app::scale(float*, int)"))
    check_traces(run(API_PROTECT="1")[0], "the GPU's memory is its own")
    check_traces(run(API_PROTECT="1", API_NO_EXITS="1")[0], "the GPU's memory is its own, no exits")
    check_failures()
    check_versions()
    check_drivers()
    check_silence()
    check_preloaded()
    check_gpus()
    check_traces(run(API_EXIT="1")[0], "no wait at the end")
    check_traces(run(API_NO_EXITS="1")[0], "without ends of threads")
    check_traces(run(API_GREEN="1")[0], "data of newer versions")
    check_traces(run(API_DESTROY="1")[0], "the context is destroyed")
    for more in ({}, {"API_NO_EXITS": "1"}, {"MEMTRACE_RING_SLOTS": "32"}, {"MEMTRACE_FORMAT": "compact"},
                 {"MEMTRACE_FORMAT": "compact", "MEMTRACE_GPU_READERS": "3"}):
        traces, _ = run(API_PLAY="threads", **more)
        check(f"threads {more}", [(of(lines, "end")[-1]["records_written"], of(lines, "end")[-1]["complete"],
                                   of(lines, "end")[-1]["launches"]) for lines, *_ in traces.values()], [(12800, True, 200)] * 4)
    check_traces(run(API_EXIT="1", API_NO_EXITS="1")[0], "no wait at the end, without ends of threads")
    for name in ("copies", "fork"):
        (lines, *_), = run(API_PLAY=name)[0].values()
        check(name, ([line["records"] for line in launches(lines, 0)], of(lines, "end")[-1]["complete"]), ([64, 64], True))
    for form in ("raw", "compact"):
        traces, _ = run(API_PLAY="gpus", MEMTRACE_FORMAT=form, MEMTRACE_CPU_DEVICES="3")
        check(f"GPUs, {form}", [(of(lines, "end")[-1]["records_written"], of(lines, "end")[-1]["complete"])
                                for lines, *_ in traces.values()], [(128, True), (64, True), (64, True)])
        check(f"sites of GPUs, {form}", [len(of(lines, "site")) for lines, *_ in traces.values()], [form == "compact"] * 3)
        lines = next(iter(traces.values()))[0]
        check(f"of GPUs, {form}", ([(line["kind"], line.get("device")) for line in of(lines, "alloc")],
                                   [(line["src_device"], line["dst_device"]) for line in of(lines, "memcpy")],
                                   [line["device"] for l, *_ in traces.values() for line in of(l, "launch")]),
              ([("cudaMalloc", 0), ("cudaMalloc", 1), ("cudaMalloc", 2), ("managed", None)], [(1, 0)], [0, 0, 1, 2]))
    check_flags()
    traces, result = run(API_PLAY="fault")
    (lines, *_), = traces.values()
    check("fault", (launches(lines, 0)[0]["status"], of(lines, "end")[-1]["records_written"], of(lines, "end")[-1]["complete"]),
          (700, 32, False))
    check("fault, said", "CUDA error 700" in result.stderr, True)
    traces, _ = run(MEMTRACE_FORMAT="compact")
    check_traces(traces, "compact")
    lines, words, _ = next(iter(traces.values()))
    sites = [(os.path.basename(line["file"]), line["function"]) for line in of(lines, "site")]
    check("sites", sites, [("play.cu", "app::scale")])
    check("records", words.count("store"), 128)
    traces, result = run(API_NO_PATCH="1")
    check("no patches", [of(lines, "end")[-1]["complete"] for lines, *_ in traces.values()], [False, False])
    check("no patches, said", "cannot be patched" in result.stderr, True)
    traces, result = run(API_TAKEN="1")
    check("other tool", (len(traces), "compute-sanitizer" in result.stderr), (0, True))
    traces, result = run(MEMTRACE_SANITIZER="/nowhere/libsanitizer-public.so")
    check("no library", (len(traces), "MEMTRACE_SANITIZER" in result.stderr, "(driver " in result.stderr), (0, True, True))
    traces, result = run(MEMTRACE_KERNELS="none")
    check("chosen by name", (len(traces), result.stdout), (0, "patched 0\n"))
    traces, result = run(MEMTRACE_ENABLE="0")
    check("off", (len(traces), result.stdout, result.stderr), (0, "patched 0\n", ""))
    print("\n".join(failed) or "whole: as counted")
    return bool(failed)


sys.exit(main())
