"""LLVM IR with one small function for each way to touch global memory: {group: [(name, text of the function)]}. Names say what
they do, so that a failure is readable."""
import re

HEAD = ('target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"\ntarget triple = "nvptx64-nvidia-cuda"\n'
        'attributes #0 = { "target-cpu"="sm_90" "target-features"="+ptx85,+sm_90" }\n')
SCALARS = ("i1", "i8", "i16", "i24", "i32", "i40", "i48", "i56", "i64", "i96", "i128", "i256", "half", "bfloat", "float", "double",
           "ptr")
ELEMENTS = ("i8", "i16", "i32", "i64", "half", "bfloat", "float", "double")
AGGREGATES = ("{ float, float }", "{ i8, i32, i64 }", "[3 x i16]", "[2 x double]", "{ <2 x float>, i8 }", "{ [2 x i32], ptr }")
ALIGNMENTS = (1, 2, 4, 8, 16)
P, Q = "ptr addrspace(1) %p", "ptr addrspace(1) %q"


def function(name, parameters, body, result="void"):
    return name, f"define {result} @{name}({parameters}) #0 {{\n{body}}}\n"


def letters(type_):
    return "".join(c if c.isalnum() else "_" for c in type_.replace("{", "s").replace("[", "a").replace("<", "v")).strip("_")


def values():
    """Loads and stores of all types."""
    types = list(SCALARS) + [f"<{n} x {e}>" for e in ELEMENTS for n in (2, 3, 4, 6, 8, 16)] + list(AGGREGATES)
    for t in types:
        for a in ALIGNMENTS:
            yield function(f"value_{letters(t)}_align_{a}", f"{P}, {Q}",
                           f"  %v = load {t}, {P}, align {a}\n  store {t} %v, {Q}, align {a}\n  ret void\n")
            if re.fullmatch(r"(i(1|8|16|32|64)|half|bfloat|float|double|ptr|<[248] x \w+>)", t):  # others cannot be returned
                yield function(f"load_{letters(t)}_align_{a}", P, f"  %v = load {t}, {P}, align {a}\n  ret {t} %v\n", t)
    for t in ("i8", "i16", "i32", "i64", "float", "<2 x i32>", "<4 x float>"):
        name = letters(t)
        yield function(f"volatile_{name}", f"{P}, {Q}", f"  %v = load volatile {t}, {P}\n  store volatile {t} %v, {Q}\n  ret void\n")
        yield function(f"constant_{name}", f"{P}, {Q}",
                       f"  %v = load {t}, {P}, !invariant.load !0\n  store {t} %v, {Q}\n  ret void\n")
        yield function(f"generic_{name}", "ptr %p, ptr %q", f"  %v = load {t}, ptr %p\n  store {t} %v, ptr %q\n  ret void\n")
        yield function(f"unused_{name}", P, f"  %v = load {t}, {P}\n  ret void\n")


def neighbours():
    """What the back end's vectoriser could put together."""
    for t, size in (("i8", 1), ("i16", 2), ("i32", 4), ("i64", 8), ("float", 4), ("double", 8), ("half", 2)):
        for n in (2, 3, 4, 5, 8):
            for a in sorted({size, 2 * size, 16}):
                body = "".join(f"  %a{i} = getelementptr {t}, {P}, i64 {i}\n  %v{i} = load {t}, ptr addrspace(1) %a{i}, align "
                               f"{a if i == 0 else size}\n" for i in range(n))
                body += "".join(f"  %b{i} = getelementptr {t}, {Q}, i64 {i}\n  store {t} %v{i}, ptr addrspace(1) %b{i}, align "
                                f"{a if i == 0 else size}\n" for i in range(n))
                yield function(f"neighbours_{n}_{t}_align_{a}", f"{P}, {Q}", body + "  ret void\n")


def parts():
    """Loads of which a part is used."""
    for bits in (16, 32, 64):
        for shift in (0, 1, 4, 8, 12, 16, 24, 26, 32, 40, 48, 56):
            if shift >= bits:
                continue
            begin = f"  %v = load i{bits}, {P}\n" + (f"  %s = lshr i{bits} %v, {shift}\n" if shift else "")
            x = "%s" if shift else "%v"
            if shift:
                yield function(f"part_i{bits}_lshr_{shift}", f"{P}, {Q}", begin + f"  store i{bits} {x}, {Q}\n  ret void\n")
                yield function(f"part_i{bits}_ashr_{shift}", f"{P}, {Q}",
                               begin.replace("lshr", "ashr") + f"  store i{bits} {x}, {Q}\n  ret void\n")
            for to in (8, 16, 32):
                if to < bits:
                    yield function(f"part_i{bits}_lshr_{shift}_trunc_{to}", P, begin + f"  %t = trunc i{bits} {x} to i{to}\n"
                                   f"  ret i{to} %t\n", f"i{to}")
                    yield function(f"part_i{bits}_lshr_{shift}_trunc_{to}_stored", f"{P}, {Q}", begin +
                                   f"  %t = trunc i{bits} {x} to i{to}\n  store i{to} %t, {Q}\n  ret void\n")
                    yield function(f"part_i{bits}_lshr_{shift}_trunc_{to}_sext", f"{P}, {Q}", begin +
                                   f"  %t = trunc i{bits} {x} to i{to}\n  %e = sext i{to} %t to i{bits}\n"
                                   f"  store i{bits} %e, {Q}\n  ret void\n")
            for mask in (1, 0xf, 0x7f, 0xff, 0xfff, 0xffff, 0xff00, 0xf0, 0xffffff, 0xffff0000, 0xffffffff, 0xff0000, 0xff00ff):
                if mask < 1 << bits - shift:
                    yield function(f"part_i{bits}_lshr_{shift}_and_{mask:x}", f"{P}, {Q}", begin +
                                   f"  %m = and i{bits} {x}, {mask}\n  store i{bits} %m, {Q}\n  ret void\n")
                if mask < 1 << bits - shift and mask & 0xff:
                    cut = f"  %m = and i{bits} {x}, {mask}\n  %t = trunc i{bits} %m to i8\n"
                    yield function(f"part_i{bits}_lshr_{shift}_and_{mask:x}_stored", f"{P}, {Q}", begin + cut +
                                   f"  store i8 %t, {Q}\n  ret void\n")
                    yield function(f"part_i{bits}_lshr_{shift}_and_{mask:x}_extended", f"{P}, {Q}", begin + cut +
                                   f"  %z = zext i8 %t to i{bits}\n  store i{bits} %z, {Q}\n  ret void\n")
            for up in (4, 8, 16, 24, 32, 48):
                if up <= shift:
                    for how in ("lshr", "ashr"):
                        yield function(f"part_i{bits}_shl_{up}_{how}_{shift}", f"{P}, {Q}", f"  %v = load i{bits}, {P}\n"
                                       f"  %u = shl i{bits} %v, {up}\n  %s = {how} i{bits} %u, {shift}\n  store i{bits} %s, {Q}\n"
                                       "  ret void\n")
        for by, mask in ((1, 0xfe), (1, 0xff), (3, 0xffff), (8, 0xff00), (8, 0xffff), (8, 0xffffff), (16, 0xff0000), (16, 0xffff0000)):
            if mask < 1 << bits:
                yield function(f"part_i{bits}_shl_{by}_and_{mask:x}", f"{P}, {Q}", f"  %v = load i{bits}, {P}\n  %s = shl i{bits} %v, {by}\n"
                               f"  %m = and i{bits} %s, {mask}\n  store i{bits} %m, {Q}\n  ret void\n")
        for op in ("or", "xor", "and", "add"):  # masked behind an operation with another value
            for mask in (0xff, 0xffff, 0xfff, 0xff00):
                if mask < (1 << bits) - 1:
                    end = f"  %m = and i{bits} %o, {mask}\n  store i{bits} %m, {Q}\n  ret void\n"
                    yield function(f"part_i{bits}_{op}_and_{mask:x}", f"{P}, {Q}, i{bits} %x", f"  %v = load i{bits}, {P}\n"
                                   f"  %o = {op} i{bits} %v, %x\n" + end)
                    yield function(f"part_i{bits}_{op}_other_and_{mask:x}", f"{P}, {Q}", f"  %v = load i{bits}, {P}\n"
                                   f"  %x = load i{bits}, {Q}\n  %o = {op} i{bits} %v, %x\n" + end)
                    if mask & 9 and op != "and":
                        yield function(f"part_i{bits}_{op}_number_and_{mask:x}", f"{P}, {Q}", f"  %v = load i{bits}, {P}\n"
                                       f"  %o = {op} i{bits} %v, 9\n" + end)
                    yield function(f"part_i{bits}_{op}_{op}_and_{mask:x}", f"{P}, {Q}, i{bits} %x, i{bits} %y", f"  %v = load i{bits}, {P}\n"
                                   f"  %w = {op} i{bits} %v, %x\n  %o = {op} i{bits} %w, %y\n" + end)
        if bits > 16:
            both = f"  %v = load i{bits}, {P}\n  %x = load i{bits}, {Q}\n  %o = xor i{bits} %v, %x\n  %t = trunc i{bits} %o to i8\n"
            yield function(f"part_i{bits}_xor_trunc_zext", f"{P}, {Q}", both + f"  %z = zext i8 %t to i{bits}\n"
                           f"  store i{bits} %z, {Q}\n  ret void\n")
            yield function(f"part_i{bits}_xor_trunc_stored", f"{P}, {Q}", both + f"  store i8 %t, {Q}\n  ret void\n")
            yield function(f"part_i{bits}_xor_trunc_compared", f"{P}, {Q}", both + "  %c = icmp eq i8 %t, 5\n  %z = zext i1 %c to i32\n"
                           f"  store i32 %z, {Q}\n  ret void\n")
            yield function(f"part_i{bits}_xor_and_compared", f"{P}, {Q}", both + f"  %m = and i{bits} %o, 255\n"
                           f"  %c = icmp eq i{bits} %m, 5\n  %z = zext i1 %c to i32\n  store i32 %z, {Q}\n  ret void\n")
            yield function(f"part_i{bits}_of_three", f"{P}, {Q}, ptr addrspace(1) %r, i1 %k", both.replace("%t = trunc", "%u = trunc") +
                           f"  %s = zext i8 %u to i{bits}\n  %w = load i16, ptr addrspace(1) %r\n  %e = sext i16 %w to i{bits}\n"
                           f"  %y = or i{bits} %o, %e\n  %m = and i{bits} %y, 255\n  store i{bits} %m, {Q}\n  ret void\n")
    for bits in (16, 32):  # extended first, as unoptimised code has it
        begin = f"  %v = load i{bits}, {P}\n  %z = zext i{bits} %v to i64\n"
        for shift in (4, 8, 16, 24):
            for how in ("lshr", "ashr"):
                if shift < bits:
                    shifted = begin + f"  %s = {how} i64 %z, {shift}\n"
                    yield function(f"part_i{bits}_zext_{how}_{shift}", f"{P}, {Q}", shifted + f"  store i64 %s, {Q}\n  ret void\n")
                    yield function(f"part_i{bits}_zext_{how}_{shift}_trunc_8", f"{P}, {Q}", shifted + "  %t = trunc i64 %s to i8\n"
                                   f"  store i8 %t, {Q}\n  ret void\n")
        for mask in (0xf, 0xff, 0xff00, 0xffff):
            yield function(f"part_i{bits}_zext_and_{mask:x}", f"{P}, {Q}", begin + f"  %m = and i64 %z, {mask}\n  store i64 %m, {Q}\n"
                           "  ret void\n")
        yield function(f"part_i{bits}_zext_shl_8_lshr_16", f"{P}, {Q}", begin + "  %s = shl i64 %z, 8\n  %r = lshr i64 %s, 16\n"
                       f"  store i64 %r, {Q}\n  ret void\n")
    for n, e in ((2, "i16"), (4, "i8"), (2, "half"), (2, "i32"), (4, "float"), (2, "float"), (2, "i64")):
        for i in range(n):
            yield function(f"element_{i}_of_{n}_{e}", P, f"  %v = load <{n} x {e}>, {P}\n"
                           f"  %e = extractelement <{n} x {e}> %v, i32 {i}\n  ret {e} %e\n", e)
    halves = "  %v = load i64, {0}\n  %l = trunc i64 %v to i32\n  %s = lshr i64 %v, 32\n  %h = trunc i64 %s to i32\n"
    use = {"integers": "  %f = add i32 %l, %h\n  ret i32 %f\n",
           "floats": "  %a = bitcast i32 %l to float\n  %b = bitcast i32 %h to float\n  %c = fadd float %a, %b\n"
                     "  %f = bitcast float %c to i32\n  ret i32 %f\n"}
    for name, end in use.items():
        yield function(f"halves_as_{name}", P, halves.format(P) + end, "i32")


def pieces():
    """Loads that are several instructions, of which some bytes matter to nobody."""
    for bits in (16, 32, 64):
        for align in (1, 2, 4):
            if align >= bits // 8:
                continue
            begin = f"  %v = load i{bits}, {P}, align {align}\n"
            name = f"pieces_i{bits}_align_{align}"
            for at in sorted({1, 3, 8, 13, bits // 2, bits - 9, bits - 8, bits - 1}):
                shifted = begin + f"  %s = lshr i{bits} %v, {at}\n"
                for mask in (1, 0x10, 0xff, 0x101, 0xff00, 0x7fff):
                    if mask < 1 << bits - at:
                        yield function(f"{name}_lshr_{at}_and_{mask:x}", f"{P}, {Q}", shifted +
                                       f"  %m = and i{bits} %s, {mask}\n  store i{bits} %m, {Q}\n  ret void\n")
                        yield function(f"{name}_and_{mask:x}_shl_{at}", f"{P}, {Q}", begin +
                                       f"  %m = and i{bits} %v, {mask << at}\n  store i{bits} %m, {Q}\n  ret void\n")
                for how in ("lshr", "ashr"):
                    yield function(f"{name}_{how}_{at}", f"{P}, {Q}", shifted.replace("lshr", how) + f"  store i{bits} %s, {Q}\n  ret void\n")
                yield function(f"{name}_shl_{at}_and", f"{P}, {Q}", shifted.replace("lshr", "shl") +
                               f"  %m = and i{bits} %s, {16 << at}\n  store i{bits} %m, {Q}\n  ret void\n")
                yield function(f"{name}_shl_{at}", f"{P}, {Q}", shifted.replace("lshr", "shl") + f"  store i{bits} %s, {Q}\n  ret void\n")
                for op in ("add", "mul", "or", "xor", "sub"):
                    yield function(f"{name}_{op}_lshr_{at}_trunc", f"{P}, {Q}, i{bits} %x", begin + f"  %a = {op} i{bits} %v, %x\n"
                                   f"  %s = and i{bits} %a, {(1 << at) - 1}\n  store i{bits} %s, {Q}\n  ret void\n")
            for one, other in ((0, 16), (0, 8), (7, 9), (4, 20), (15, 31), (8, 40), (3, 60)):
                if other < bits:
                    yield function(f"{name}_bits_{one}_{other}", f"{P}, {Q}", begin + "".join(
                        f"  %s{k} = lshr i{bits} %v, {at}\n  %m{k} = and i{bits} %s{k}, 1\n" for k, at in enumerate((one, other))) +
                        f"  %x = mul i{bits} %m0, 13\n  %y = sub i{bits} %x, %m1\n  store i{bits} %y, {Q}\n  ret void\n")
                    yield function(f"{name}_bits_{one}_{other}_at_once", f"{P}, {Q}", begin +
                                   f"  %m = and i{bits} %v, {1 << one | 1 << other}\n  store i{bits} %m, {Q}\n  ret void\n")
            yield function(f"{name}_bit_in_two_blocks", f"{P}, {Q}", begin + "  br label %next\nnext:\n"
                           f"  %m = and i{bits} %v, 4\n  store i{bits} %m, {Q}\n  ret void\n")


def fields():
    """Bit fields: a part of a word is replaced."""
    for bits in (16, 32, 64):
        for width in (1, 4, 8, 16, 24, 32):
            for shift in (0, 4, 8, 16, 24, 32, 40, 48, 56):
                if shift + width > bits or width == bits:
                    continue
                mask = (1 << bits) - 1 & ~((1 << width) - 1 << shift)
                for how, value in (("narrow", f"  %w = zext i{width} %x to i{bits}\n"),
                                   ("wide", f"  %w = and i{bits} %x, {(1 << width) - 1}\n"), ("constant", "")):
                    put = f"  %s = shl i{bits} %w, {shift}\n" if value else ""
                    put += f"  %v = load i{bits}, {P}\n  %m = and i{bits} %v, {mask}\n"
                    put += f"  %o = or i{bits} %m, {'%s' if value else 1 << shift}\n  store i{bits} %o, {P}\n  ret void\n"
                    yield function(f"field_{width}_of_i{bits}_at_{shift}_{how}",
                                   f"{P}, i{width if how == 'narrow' else bits} %x", value + put)
    for op in ("or", "and", "xor"):
        for number in (1, 0xff, 0xff00, 0xffff00ff, 0xffff0000):
            yield function(f"change_{op}_{number:x}", P, f"  %v = load i32, {P}\n  %o = {op} i32 %v, {number}\n  store i32 %o, {P}\n"
                           "  ret void\n")


def copies():
    """memcpy, memmove, memset of constant and of unknown length."""
    spaces = {"global": "ptr addrspace(1)", "generic": "ptr"}
    for n in (0, 1, 2, 3, 4, 7, 8, 12, 15, 16, 17, 33, 64, 127, 128, 129, "%n"):
        for a in (1, 2, 4, 8, 16):
            for space, t in spaces.items():
                if space == "generic" and (a not in (1, 8) or n not in (1, 8, 16, 33, 128, "%n")):
                    continue
                s = t.replace("ptr addrspace(1)", "p1").replace("ptr", "p0")
                label = f"{'n' if n == '%n' else n}_align_{a}_{space}"
                for op in ("memcpy", "memmove"):
                    yield function(f"{op}_{label}", f"{t} %p, {t} %q, i64 %n", f"  call void @llvm.{op}.{s}.{s}.i64({t} align {a} %p,"
                                   f" {t} align {a} %q, i64 {n}, i1 false)\n  ret void\n")
                yield function(f"memset_{label}", f"{t} %p, i8 %x, i64 %n", f"  call void @llvm.memset.{s}.i64({t} align {a} %p, "
                               f"i8 %x, i64 {n}, i1 false)\n  ret void\n")
                yield function(f"zero_{label}", f"{t} %p, i64 %n",
                               f"  call void @llvm.memset.{s}.i64({t} align {a} %p, i8 0, i64 {n}, i1 false)\n  ret void\n")
                if n != "%n" and n and space == "global":
                    yield function(f"memcpy_volatile_{label}", f"{P}, {Q}", f"  call void @llvm.memcpy.p1.p1.i64({P[:16]} align {a} %p,"
                                   f" {P[:16]} align {a} %q, i64 {n}, i1 true)\n  ret void\n")


def repeats():
    """The same location more than once in a block."""
    yield function("twice", f"{P}, {Q}", f"  %a = load i32, {P}\n  %b = load i32, {P}\n  %c = mul i32 %a, %b\n  store i32 %c, {Q}\n"
                   "  ret void\n")
    yield function("twice_by_index", f"{P}, {Q}, i64 %i", "".join(
        f"  %g{k} = getelementptr i32, {P}, i64 %i\n  %v{k} = load i32, ptr addrspace(1) %g{k}\n" for k in (0, 1)) +
        f"  %c = mul i32 %v0, %v1\n  store i32 %c, {Q}\n  ret void\n")
    yield function("twice_around_a_store", f"{P}, {Q}", f"  %a = load i32, {P}\n  store i32 %a, {Q}\n  %b = load i32, {P}\n"
                   f"  %c = mul i32 %a, %b\n  store i32 %c, {Q}\n  ret void\n")
    yield function("twice_volatile", f"{P}, {Q}", f"  %a = load volatile i32, {P}\n  %b = load volatile i32, {P}\n"
                   f"  %c = mul i32 %a, %b\n  store i32 %c, {Q}\n  ret void\n")
    yield function("twice_around_a_volatile_one", f"{P}, {Q}", f"  %a = load i32, {P}\n  %x = load volatile i32, {Q}\n"
                   f"  %b = load i32, {P}\n  %c = mul i32 %a, %b\n  %d = add i32 %c, %x\n  store i32 %d, {Q}\n  ret void\n")
    yield function("twice_around_a_barrier", f"{P}, {Q}", f"  %a = load i32, {P}\n  call void @llvm.nvvm.barrier0()\n"
                   f"  %b = load i32, {P}\n  %c = mul i32 %a, %b\n  store i32 %c, {Q}\n  ret void\n")
    yield function("twice_around_asm", f"{P}, {Q}", f"  %a = load i32, {P}\n  %x = call i32 asm \"mov.u32 $0, 1;\", \"=r\"() memory(none)\n"
                   f"  %b = load i32, {P}\n  %c = mul i32 %a, %b\n  %d = add i32 %c, %x\n  store i32 %d, {Q}\n  ret void\n")
    yield function("twice_around_asm_with_effects", f"{P}, {Q}", f"  %a = load i32, {P}\n"
                   f"  %x = call i32 asm sideeffect \"mov.u32 $0, 1;\", \"=r\"()\n"
                   f"  %b = load i32, {P}\n  %c = mul i32 %a, %b\n  %d = add i32 %c, %x\n  store i32 %d, {Q}\n  ret void\n")
    yield function("twice_in_two_blocks", f"{P}, {Q}, i1 %k", f"  %a = load i32, {P}\n  br i1 %k, label %x, label %y\n"
                   f"x:\n  %b = load i32, {P}\n  %c = mul i32 %a, %b\n  store i32 %c, {Q}\n  br label %y\ny:\n  ret void\n")
    yield function("unused_chain", P, f"  %a = load i32, {P}\n  %b = add i32 %a, 1\n  %c = mul i32 %b, 3\n  ret void\n")
    yield function("same_stored_twice", P, f"  store i32 1, {P}\n  store i32 2, {P}\n  ret void\n")
    yield function("stored_then_loaded", f"{P}, {Q}", f"  store i32 1, {P}\n  %a = load i32, {P}\n  store i32 %a, {Q}\n  ret void\n")
    yield function("stored_back", P, f"  %a = load i32, {P}\n  store i32 %a, {P}\n  ret void\n")


def calls():
    """Arguments that are passed as they lie in memory, where that is global memory."""
    for name, t, a in (("float4", "{ float, float, float, float }", 16), ("three", "{ float, float, float }", 4), ("pair", "{ i32, double }", 8),
                       ("bytes", "[5 x i8]", 1), ("halves", "{ i16, [3 x i16] }", 2), ("wide", "{ i64, i64, i8 }", 8),
                       ("nested", "{ { i8, i32 }, [2 x { i16, float }] }", 4)):
        yield function(f"taken_{name}", f"ptr byval({t}) align {a} %p", f"  %v = load {t[2:].split(',')[0] if t[0] != '[' else 'i8'}, ptr %p\n"
                       "  ret void\n" if name != "nested" else "  ret void\n")
        yield function(f"passed_{name}", "ptr %p", f"  call void @taken_{name}(ptr byval({t}) align {a} %p)\n  ret void\n")
        yield function(f"passed_global_{name}", P, f"  %g = addrspacecast {P} to ptr\n"
                       f"  call void @taken_{name}(ptr byval({t}) align {a} %g)\n  ret void\n")


def atomics():
    """atomicrmw and cmpxchg of all sizes, atomic loads and stores."""
    for op in ("add", "sub", "and", "nand", "or", "xor", "max", "umin", "xchg", "uinc_wrap", "udec_wrap"):
        for t in ("i8", "i16", "i32", "i64"):
            yield function(f"atomic_{op}_{t}", f"{P}, {t} %x", f"  %v = atomicrmw {op} {P}, {t} %x monotonic\n  ret {t} %v\n", t)
    for op in ("fadd", "fsub", "fmax"):
        for t in ("half", "bfloat", "float", "double"):
            yield function(f"atomic_{op}_{t}", f"{P}, {t} %x", f"  %v = atomicrmw {op} {P}, {t} %x monotonic\n  ret {t} %v\n", t)
    for t in ("i8", "i16", "i32", "i64"):
        for weak in ("", "weak "):
            yield function(f"cas_{weak.strip()}{t}", f"{P}, {t} %x, {t} %y", f"  %v = cmpxchg {weak}{P}, {t} %x, {t} %y monotonic "
                           f"monotonic\n  %r = extractvalue {{ {t}, i1 }} %v, 0\n  ret {t} %r\n", t)
        for order, back in (("unordered", "unordered"), ("monotonic", "monotonic")):
            yield function(f"atomic_load_store_{order}_{t}", f"{P}, {Q}", f"  %v = load atomic {t}, {P} {order}, align {int(t[1:]) // 8}\n"
                           f"  store atomic {t} %v, {Q} {back}, align {int(t[1:]) // 8}\n  ret void\n")


def masked():
    """llvm.masked.* and llvm.vp.*; strided ones the back end cannot compile."""
    pp = "<4 x ptr addrspace(1)>"
    ptr = "ptr addrspace(1)"
    for label, mask, parameter in (("known", "<4 x i1> <i1 1, i1 0, i1 1, i1 1>", ""), ("unknown", "<4 x i1> %m", ", <4 x i1> %m")):
        v, end = "  %v = call <4 x float> @llvm.", "  ret <4 x float> %v\n"
        yield function(f"masked_load_{label}", P + parameter, f"{v}masked.load.v4f32.p1({P}, i32 4, {mask}, <4 x float> undef)\n{end}",
                       "<4 x float>")
        yield function(f"masked_store_{label}", f"{P}, <4 x float> %x{parameter}",
                       f"  call void @llvm.masked.store.v4f32.p1(<4 x float> %x, {P}, i32 4, {mask})\n  ret void\n")
        yield function(f"masked_gather_{label}", f"{pp} %p{parameter}",
                       f"{v}masked.gather.v4f32.v4p1({pp} %p, i32 4, {mask}, <4 x float> undef)\n{end}", "<4 x float>")
        yield function(f"masked_scatter_{label}", f"{pp} %p, <4 x float> %x{parameter}",
                       f"  call void @llvm.masked.scatter.v4f32.v4p1(<4 x float> %x, {pp} %p, i32 4, {mask})\n  ret void\n")
        yield function(f"masked_expand_{label}", f"ptr %p{parameter}",
                       f"{v}masked.expandload.v4f32(ptr align 4 %p, {mask}, <4 x float> undef)\n{end}", "<4 x float>")
        yield function(f"masked_compress_{label}", f"ptr %p, <4 x float> %x{parameter}",
                       f"  call void @llvm.masked.compressstore.v4f32(<4 x float> %x, ptr align 4 %p, {mask})\n  ret void\n")
        n = "i32 %n"
        yield function(f"vp_load_{label}", f"{P}, {n}{parameter}", f"{v}vp.load.v4f32.p1({ptr} align 4 %p, {mask}, {n})\n{end}",
                       "<4 x float>")
        yield function(f"vp_store_{label}", f"{P}, <4 x float> %x, {n}{parameter}",
                       f"  call void @llvm.vp.store.v4f32.p1(<4 x float> %x, {ptr} align 4 %p, {mask}, {n})\n  ret void\n")
        yield function(f"vp_gather_{label}", f"{pp} %p, {n}{parameter}", f"{v}vp.gather.v4f32.v4p1({pp} align 4 %p, {mask}, {n})\n{end}",
                       "<4 x float>")
        yield function(f"vp_scatter_{label}", f"{pp} %p, <4 x float> %x, {n}{parameter}",
                       f"  call void @llvm.vp.scatter.v4f32.v4p1(<4 x float> %x, {pp} align 4 %p, {mask}, {n})\n  ret void\n")


def looks():
    """Loads whose users, in two blocks or behind a phi, look at lower bits."""
    for bits, half in ((32, 16), (64, 32)):
        uses = {"trunc": (f"trunc i{bits} V to i{half}", f"i{half}"), "shl": (f"shl i{bits} V, {half}", f"i{bits}"),
                "mask": (f"and i{bits} V, {(1 << half) - 1}", f"i{bits}"), "less": (f"and i{bits} V, 15", f"i{bits}")}

        def used(kind, value, n):
            return f"  %u{n} = {uses[kind][0].replace('V', value)}\n  store volatile {uses[kind][1]} %u{n}, {Q}\n" if kind else ""
        for first in ("", *uses):
            for second in ("", *uses):
                begin = f"  %v = load i{bits}, {P}\n{used(first, '%v', 1)}  br i1 %c, label %b, label %e\nb:\n"
                yield function(f"looks_i{bits}_{first or 'none'}_then_{second or 'none'}", f"{P}, {Q}, i1 %c",
                               begin + used(second, "%v", 2) + "  br label %e\ne:\n  ret void\n")
                if second:
                    yield function(f"looks_i{bits}_{first or 'none'}_phi_{second}", f"{P}, {Q}, i1 %c, i{bits} %z",
                                   begin + f"  store volatile i32 0, {Q}\n  br label %e\ne:\n  %ph = phi i{bits} [ %z, %b ], [ %v, %0 ]\n"
                                   + used(second, "%ph", 2) + used("mask", "%ph", 3) + "  ret void\n")


GROUPS = (looks, values, neighbours, parts, pieces, fields, copies, repeats, calls, atomics, masked)


def module(group):
    """The group's text as a module, with the declarations that it needs."""
    text = "".join(body for _, body in group())
    declared = {}
    for result, name, operands in re.findall(r"call (void|<[^>]*>) (@llvm[\w.]+)\((.*)\)\n", text):
        types, depth, word = [], 0, ""
        for c in operands + ",":  # the type of each operand is what stands before its value
            depth += (c in "<{[(") - (c in ">}])")
            if c == "," and not depth:
                types.append(re.sub(r"\s(align \d+ )?\S+$|(?<=>) <.*$", "", word.strip()))
                word = ""
            else:
                word += c
        declared[name] = f"declare {result} {name}({', '.join(t for t in types if t)})\n"
    return HEAD + "".join(declared.values()) + text + "!0 = !{}\n"
