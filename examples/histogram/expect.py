"""Analytic expectations of histogram: arguments are bytes, CTAs, threads per CTA."""
DEFAULTS = [60000, 12, 128]
QUICK = [1000, 3, 96]
BINS = 256
# Source lines that access global memory (text of the line: what it does, bytes; 0 = known at run time).
SITES = {
    "atomicAdd(&bins[data[i]], 1);": ["load 1", "atomic 4"],
    "atomicAdd(&local[data[i]], 1);": ["load 1"],
    "atomicAdd(&bins[b], local[b]);": ["atomic 4"],
}
# Not known to be shared memory at -O0: a site that leaves no record.
SITES_WITHOUT_RECORDS = {"atomicAdd(&local[data[i]], 1);": ["atomic 4"]}


def elements(cta, n, ctas, threads):
    """Elements of threads cta*threads … of a grid-stride loop over n: whole rounds, and a part of the last one."""
    whole, rest = divmod(n, ctas * threads)
    return whole * threads + min(max(rest - cta * threads, 0), threads)


def launches(args, opt):
    n, count, threads = args
    out = []
    for kernel in ("histogram_global", "histogram_shared"):
        ctas = {}
        for c in range(count):
            own = elements(c, n, count, threads)
            ctas[c, 0, 0] = {("load", 1): own, ("atomic", 4): own if kernel == "histogram_global" else BINS}
        out.append(dict(kernel=kernel, stream=0, grid=(count, 1, 1), block=(threads, 1, 1), ctas=ctas))
    return out


def unordered(args):
    """{kernel: bytes handed over between CTAs of one launch}. Shared variant: each bin passes through all CTAs.
    (For the global one it depends on the order of CTAs.)"""
    n, count, threads = args
    return {"histogram_shared": 4 * BINS * (count - 1)}
