"""Analytic expectations of reduction: arguments are elements, CTAs, threads per CTA."""
DEFAULTS = [50000, 16, 128]
QUICK = [1000, 3, 64]
# Source lines that access global memory (text of the line: what it does, bytes; 0 = known at run time).
SITES = {
    "sum += in[i];": ["load 4"],
    "atomicAdd(result, sum);": ["atomic 4"],
    "partial[blockIdx.x] = sum;": ["store 4"],
    "*result = sum;": ["store 4"],
}


def elements(cta, n, ctas, threads):
    """Elements of threads cta*threads … of a grid-stride loop over n: whole rounds, and a part of the last one."""
    whole, rest = divmod(n, ctas * threads)
    return whole * threads + min(max(rest - cta * threads, 0), threads)


def launches(args, opt):
    n, count, threads = args
    first = {(c, 0, 0): {("load", 4): elements(c, n, count, threads), ("atomic", 4): 1} for c in range(count)}
    second = {(c, 0, 0): {("load", 4): elements(c, n, count, threads), ("store", 4): 1} for c in range(count)}
    common = dict(stream=0, block=(threads, 1, 1))
    return [dict(common, kernel="reduce_atomic", grid=(count, 1, 1), ctas=first),
            dict(common, kernel="reduce_partial", grid=(count, 1, 1), ctas=second),
            dict(common, kernel="reduce_final", grid=(1, 1, 1),
                 ctas={(0, 0, 0): {("load", 4): count, ("store", 4): 1}})]


def transfers(args):
    """The partial sums of launch 1 go to the one CTA of launch 2. (Launch 0's atomics hand the sum from CTA to CTA
    in an order that CUDA does not define.)"""
    n, count, threads = args
    return {("reduce_partial", (c, 0, 0), 1, "reduce_final", (0, 0, 0), 2): (4, 1) for c in range(count)}


def unordered(args):
    """{kernel: bytes handed over between CTAs of one launch}."""
    return {"reduce_atomic": 4 * (args[1] - 1)}


def host_bytes(args):
    """{superstep: bytes loaded that a host copy wrote}: the input twice, and the sum that a memset made 0."""
    n, count, threads = args
    return {0: 4 * n + 4, 1: 4 * n}
