"""Analytic expectations of vector_add: arguments are elements, threads per CTA, launches."""
DEFAULTS = [100000, 256, 1]
QUICK = [1000, 128, 2]
# Source lines that access global memory (text of the line: what it does, bytes; 0 = known at run time).
SITES = {
    "c[i] = a[i] + b[i];": ["load 4", "store 4"],
}


def launches(args, opt):
    n, threads, count = args
    ctas = -(-n // threads)
    per_cta = {}
    for x in range(ctas):
        used = min(threads, n - x * threads)
        per_cta[x, 0, 0] = {("load", 4): 2 * used, ("store", 4): used}
    return [dict(kernel="vector_add", stream=0, grid=(ctas, 1, 1), block=(threads, 1, 1), ctas=per_cta)] * count


def transfers(args):
    """Nobody: all that the kernel reads, the host wrote."""
    return {}
