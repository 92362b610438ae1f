"""Analytic expectations of device_calls: arguments are CTAs, threads per CTA."""
DEFAULTS = [4, 48]
QUICK = [2, 7]
SEGMENT = 8
# Source lines that access global memory (text of the line: what it does, bytes; 0 = known at run time).
SITES = {
    "return a[i];": ["load 4"],
    "a[i] = value;": ["store 4"],
    "return a[low];": ["load 4"],
    "out[i] = sum_range(in, i * SEGMENT, (i + 1) * SEGMENT);": ["store 4"],
    "return a[i] - a[i + 1];": ["load 4"],
    "out[i] = operations[i % 3](in, i);": ["load 8", "store 4"],
    "int s = side; // -O0 would load it twice": ["load 4"],
    "return width * (int)height;": ["load 4"],
    "out[i] = shapes[i]->area();": ["load 8", "store 4"],
}


def launches(args, opt):
    count, threads = args
    shape = dict(stream=0, grid=(count, 1, 1), block=(threads, 1, 1))
    names = ("through_helpers", "through_recursion", "through_pointers", "make_shapes", "through_virtual")
    per = {name: {} for name in names}
    for c in range(count):
        ids = range(c * threads, (c + 1) * threads)
        one = sum(i % 3 == 0 for i in ids)
        two = sum(i % 3 == 1 for i in ids)
        odd = sum(i % 2 for i in ids)
        per["through_helpers"][c, 0, 0] = {("load", 4): threads, ("store", 4): threads}
        per["through_recursion"][c, 0, 0] = {("load", 4): SEGMENT * threads, ("store", 4): threads}
        per["through_pointers"][c, 0, 0] = {("load", 8): threads, ("load", 4): one + 2 * two,
                                            ("store", 4): threads}
        # shapes[i], the pointer to the table, height; -O0 first writes the base class's table pointer as well.
        per["make_shapes"][c, 0, 0] = {("store", 8): (3 if opt == "-O0" else 2) * threads + odd,
                                       ("store", 4): threads}
        per["through_virtual"][c, 0, 0] = {("load", 8): 3 * threads, ("load", 4): threads + odd,
                                           ("store", 4): threads}
    return [dict(shape, kernel=name, ctas=per[name]) for name in names]


def transfers(args):
    """through_virtual reads what make_shapes wrote, each CTA its own: the pointer, the object's table pointer and its
    first member, odd threads four bytes of one member more. (The table itself is the program's, nobody wrote it.)"""
    count, threads = args
    out = {}
    for c in range(count):
        odd = sum(i % 2 for i in range(c * threads, (c + 1) * threads))
        out["make_shapes", (c, 0, 0), 3, "through_virtual", (c, 0, 0), 4] = (20 * threads + 4 * odd, 3 * threads + odd)
    return out
