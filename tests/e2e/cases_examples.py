"""Each example at each optimisation level against its analytic expectation and its own count."""
import checks
from harness import case, holds, same

NAMES = ("vector_add", "matrix_multiply", "stencil_1d", "stencil_2d", "reduction", "histogram", "producer_consumer",
         "device_calls", "templated", "memcpy_forms")
SMS = 7
LEFT_OUT = {"device_calls": ("make_shapes", "Shape::Shape", "Square::Square", "Rectangle::Rectangle")}


def check_example(world, name, level, arguments):
    expect = world.expectation(name)
    wanted = expect.launches(arguments, level)
    app = world.compile(world.example(name), level)
    plain = world.run_ok([app, *arguments], traced=False)
    same(f"{name} {level}: files of an untraced run", plain.streams(), [])
    traced = world.run_ok([app, *arguments], MEMTRACE_CPU_SMS=SMS)
    same(f"{name} {level}: output of the traced run", traced.out, plain.out)
    same(f"{name} {level}: words of the traced run", traced.err, plain.err)
    checks.kernels_and_counts(traced, wanted)
    checks.own_counts(traced)
    checks.round_robin(traced, wanted, SMS)
    sources = [world.example(name), world.examples + "/common/example.h"]
    checks.companions(traced, wanted, sources, SMS)
    checks.sites(traced, sources, expect.SITES, LEFT_OUT.get(name, ()),
                 getattr(expect, "SITES_WITHOUT_RECORDS", {}) if level == "-O0" else {})


def add(name):
    @case(name, whole=True)
    def quick(world):
        for level in world.levels():
            check_example(world, name, level, world.expectation(name).QUICK)
        check_example(world, name, "-O2", world.expectation(name).DEFAULTS)


for example in NAMES:
    add(example)


@case("matrix_figures")
def matrix_figures(world):
    """The figures of the well-known sample, as numbers: A 320x320, B 640x320, 32x32 tiles, two launches."""
    app = world.compile(world.example("matrix_multiply"), "-O3")
    launches = world.run_ok([app, 2, 320, 320, 640]).trace()
    same("launches", len(launches), 2)
    for launch in launches:
        ctas = launch.ctas()
        same("CTAs", len(ctas), 200)
        for cta, counts in ctas.items():
            same(f"CTA {cta}", counts, {("load", 4): 20480, ("store", 4): 1024})
        same("records", launch.count, 4096000 + 204800)


@case("same_bytes")
def same_bytes(world):
    """With one CPU thread two runs differ in nothing but addresses; more threads change the order of CTAs only."""
    for name in ("stencil_2d", "producer_consumer", "histogram"):
        app = world.compile(world.example(name), "-O2")
        first = checks.placed(world.run_ok(app, MEMTRACE_CPU_THREADS=1))
        second = checks.placed(world.run_ok(app, MEMTRACE_CPU_THREADS=1))
        holds(f"{name}: two runs with one thread give the same trace", first == second)
        for stream, launches in first.items():
            for kernel, records in launches:
                order = [(z, y, x) for x, y, z in dict.fromkeys(r[4] for r in records)]
                same(f"{name}: CTAs of {kernel} in ascending order", order, sorted(order))
        many = checks.placed(world.run_ok(app, MEMTRACE_CPU_THREADS=2))
        for stream, launches in first.items():
            for (kernel, records), (other, unsorted) in zip(launches, many[stream]):
                same(f"{name}: kernel", other, kernel)
                holds(f"{name}: {kernel}: same records of each CTA, in the same order",
                      sorted(records, key=lambda r: r[4]) == sorted(unsorted, key=lambda r: r[4]))
