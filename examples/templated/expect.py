"""Analytic expectations of templated: arguments are CTAs, threads per CTA."""
DEFAULTS = [5, 64]
QUICK = [2, 33]
SCALE_ADD = (("float", 4, 1), ("float", 4, 4), ("double", 8, 2), ("int", 4, 1), ("short", 2, 2),
             ("unsigned char", 1, 3))
PAIR_WORDS = 3  # of 4 bytes
# Source lines that access global memory (text of the line: what it does, bytes; 0 = known at run time).
SITES = {
    "y[i + k * all] = x[i + k * all] * factor + y[i + k * all];":
        ["load 1", "load 2", "load 4", "load 8", "store 1", "store 2", "store 4", "store 8"],
    "out[all - 1 - i] = in[i];": ["load 4", "store 4"],
}


def launches(args, opt):
    count, threads = args
    shape = dict(stream=0, grid=(count, 1, 1), block=(threads, 1, 1))
    out = []
    for name, size, per_thread in SCALE_ADD:
        cta = {("load", size): 2 * per_thread * threads, ("store", size): per_thread * threads}
        out.append(dict(shape, kernel=f"numbers::scale_add<{name}, {per_thread}>",
                        ctas={(c, 0, 0): cta for c in range(count)}))
    cta = {("load", 4): PAIR_WORDS * threads, ("store", 4): PAIR_WORDS * threads}
    out.append(dict(shape, kernel="numbers::detail::reverse<numbers::Pair>",
                    ctas={(c, 0, 0): cta for c in range(count)}))
    return out


def transfers(args):
    """Nobody: all that kernels read, the host wrote, also where an address is used a second time."""
    return {}
