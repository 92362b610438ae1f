"""Analytic expectations of producer_consumer: arguments are CTAs, threads per CTA, rounds."""
DEFAULTS = [6, 64, 5]
QUICK = [3, 32, 3]
# Source lines that access global memory (text of the line: what it does, bytes; 0 = known at run time).
SITES = {
    "slot[i] = i * 3 + round;": ["store 4"],
    "out[blockIdx.x * blockDim.x + threadIdx.x] = slot[from] * 2;": ["load 4", "store 4"],
}


def launches(args, opt):
    count, threads, rounds = args
    shape = dict(grid=(count, 1, 1), block=(threads, 1, 1))
    produce = {(c, 0, 0): {("store", 4): threads} for c in range(count)}
    consume = {(c, 0, 0): {("load", 4): threads, ("store", 4): threads} for c in range(count)}
    return [dict(shape, kernel="produce", stream=0, ctas=produce),
            dict(shape, kernel="consume", stream=1, ctas=consume)] * rounds


def transfers(args):
    """Supersteps count launches over both streams: round r is produced in 2r and consumed in 2r + 1, by the CTA
    at the other end of the grid."""
    count, threads, rounds = args
    return {("produce", (count - 1 - c, 0, 0), 2 * r, "consume", (c, 0, 0), 2 * r + 1): (4 * threads, threads)
            for r in range(rounds) for c in range(count)}


def host_bytes(args):
    return {}
