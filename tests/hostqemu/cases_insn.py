"""Logs of instructions against a single-stepper (the order of execution, addresses of operands from the registers that it
shows) and objdump (addresses, mnemonics)."""
import re
import subprocess

from harness import case, holds, need, same
from world import insn_log

ORDER = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
ALIASES = {"je": "jz", "jne": "jnz", "jae": "jnb", "ja": "jnbe", "jge": "jnl", "jg": "jnle", "sete": "setz",
           "setne": "setnz", "cmove": "cmovz", "cmovne": "cmovnz", "jbe": "jbe", "movabs": "mov", "cqo": "cqo"}
STACKS = 0x7ff000000000  # of natural runs; qemu's are elsewhere
MEMORY = re.compile(r"\[([^\]]+)\]")


def stepped(w, program):
    stepper = w.compile("stepper.c", "-O1")
    out = w.native(stepper, program).stdout
    steps = []
    for line in out.splitlines():
        v = [int(x, 16) for x in line.split()]
        steps.append((v[0], dict(zip(ORDER, v[1:]))))
    holds("steps", len(steps) > 1000)
    return steps


def disassembly(program):
    text = subprocess.run([need("objdump"), "-d", "-M", "intel", "--no-show-raw-insn", program], capture_output=True,
                          text=True, check=True).stdout
    return {int(m[1], 16): m[2].split("#")[0].split("<")[0].strip() for m in
            re.finditer(r"^ *([0-9a-f]+):\t(.+)$", text, re.M)}


def address(expression, registers):
    """rbx+rcx*4-0x10 with registers' values; None with one that the stepper does not show."""
    total = 0
    for sign, term in re.findall(r"([+-]?)([^+-]+)", expression):
        name, _, scale = term.partition("*")
        if name in registers:
            value = registers[name] * (int(scale) if scale else 1)
        elif re.fullmatch(r"0x[0-9a-fA-F]+|\d+", name):
            value = int(name, 0)
        else:
            return None
        total += -value if sign == "-" else value
    return total % (1 << 64)


def compare(w, program, base):
    """base: address of the program's first mapped byte in the log, as the stepper counts from it."""
    steps = stepped(w, program)
    insns, executions = insn_log(w.path("insn.out"))
    order = [executions[k] for k in sorted(executions)]
    same("order: all numbers from 0", sorted(executions), list(range(len(executions))))
    same("instructions executed", len(order), len(steps))
    checked = 0
    for k, ((ip, operands), (at, registers)) in enumerate(zip(order, steps)):
        same(f"execution {k}", ip - base, at)
        m = MEMORY.search(insns[ip][0])
        if m and operands and not insns[ip][0].startswith("lea"):
            want = address(m[1], registers)
            if want is not None and want < STACKS:
                same(f"operand of execution {k}: {insns[ip][0]}", operands[0][1], want)
                checked += 1
    return insns, order, checked


@case("insn.stepper")
def stepper(w):
    program = w.compile("small.c", "-O2", "-nostdlib", "-static", "-no-pie", "-fno-stack-protector",
                        "-fno-tree-vectorize", "-fno-builtin")
    w.run("insn", "insn.out", program)
    insns, order, checked = compare(w, program, 0x400000)
    holds(f"{checked} operands checked", checked > 500)
    listing = disassembly(program)
    for ip, (text, _, _) in insns.items():
        name = next(x for x in listing[ip].split() if x not in ("rep", "lock", "notrack", "bnd"))
        mine = next(x for x in text.split() if x not in ("rep", "lock", "notrack", "bnd"))
        same(f"mnemonic at {ip:#x}: {text}", mine.rstrip("bwdq") if mine[:4] in ("stos", "movs") else mine,
             (ALIASES.get(name, name)).rstrip("bwdq") if name[:4] in ("stos", "movs") else ALIASES.get(name, name))


@case("insn.libc")
def with_libc(w):
    """A program of the C library, not static: only its own image is in the log."""
    program = w.compile("small2.c", "-O1", "-fcf-protection=none")
    w.run("insn", "insn.out", program)
    insns, _ = insn_log(w.path("insn.out"))
    base = min(insns) & ~0xfff
    low = min(at for at, _ in stepped(w, program)) & ~0xfff
    compare(w, program, base - low)


@case("insn.lazy")
def lazily_bound(w):
    """The first call of a library function jumps through memory into the loader, which saves registers with xsave: none of
    that is the jump's. A jump, call or return touches one word for its target and one on the stack, at most."""
    program = w.compile("small2.c", "-O1", "-fcf-protection=none", "-Wl,-z,lazy")
    w.run("insn", "insn.out", program)
    insns, executions = insn_log(w.path("insn.out"))
    jumps = 0
    for ip, operands in executions.values():
        words = insns[ip][0].split()
        if words[0] == "jmp" and words[1].startswith("["):
            jumps += 1
            same(f"{insns[ip][0]}: operands", [(kind, size) for kind, _, size in operands], [("r", 8)])
        elif words[0] in ("jmp", "call", "ret"):
            holds(f"{insns[ip][0]}: {len(operands)} operands", len(operands) <= 2)
    holds(f"{jumps} jumps through memory", jumps > 1)
