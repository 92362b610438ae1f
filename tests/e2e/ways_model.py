"""Random kernels of loops and forward gotos, and a warp that runs them as NVIDIA's hardware does by what ptxas makes of such code (docs/design/vectors.md):
lanes that part meet at the first place that their ways share; but what lies between a loop and the place where all that leave it meet is run apart by
those that come there by different branches or in different rounds. The source is its own control flow: a body is a list of items, a goto leads to a later
item of its body or of one around it."""
import random

from lanes_model import LANES, M32, SLOTS, mix


class Body:
    def __init__(self, around=None, at=0):
        self.around, self.at, self.items = around, at, []

    def targets(self):
        """[(body, position)] of all gotos in it."""
        for item in self.items:
            if item[0] == "goto":
                yield item[2], item[3]
            elif item[0] == "loop":
                yield from item[1].targets()

    def follows(self, at):
        """Positions of this body to which ways lead from the item, and stay in the body."""
        item = self.items[at]
        if item[0] == "access":
            return [at + 1]
        return [at + 1] + [to for body, to in (item[1].targets() if item[0] == "loop" else [item[2:]]) if body is self]

    def way_out(self, at):
        """Of the loop at this position: (positions between it and the place where its lanes meet, that place)."""
        reached = set(self.follows(at))
        far = max(reached)
        for position in range(at + 1, len(self.items) + 1):
            if position not in reached:
                continue
            if position >= far:
                return reached - {position}, position
            reached.update(self.follows(position))
            far = max(reached)
        raise AssertionError


class Program:
    def __init__(self, seed):
        self.random, self.seed, self.accesses, self.bodies = random.Random(seed), seed, 0, []
        self.top = self.body(None, 0, 0)

    def access(self):
        self.accesses += 1
        return ("access", self.accesses - 1, self.random.randrange(1 << 20))

    def condition(self):
        m = self.random.choice((2, 3, 4, 5))
        return (self.random.randrange(1 << 20), m, self.random.randrange(1, m))

    def body(self, around, at, depth):
        r, made = self.random, Body(around, at)
        self.bodies.append(made)
        size = r.randrange(*((6, 10), (4, 7), (3, 5))[depth])
        made.size = size
        loops = 0
        for position in range(size):
            what = r.random()
            if around is None and position == size - 1:
                made.items.append(self.access())
            elif what < (0.3, 0.25, 0)[depth] and loops < 2 and len(self.bodies) < 4:
                loops += 1
                made.items.append(("loop", None, self.condition(), self.condition() if r.random() < 0.4 else None))
                inner = self.body(made, position, depth + 1)
                made.items[position] = ("loop", inner, *made.items[position][2:])
            elif what < 0.5 and (ways := list(self.ahead(made, position))):
                made.items.append(("goto", self.condition(), *r.choice(ways)))
            else:
                made.items.append(self.access())
        return made

    def ahead(self, body, position):
        first = 2  # not to the next one
        while body:
            last = body.size if body.around else body.size - 1
            for to in range(position + first, last + 1):
                yield body, to
            body, position, first = body.around, body.at, 1

    # ---- as source ----

    def source(self):
        self.line, self.text = {}, []
        used = {(id(body), to) for body, to in self.top.targets()}
        self.text.append(f"__global__ void k{self.seed}(const int *a, int *o)")
        self.text.append("{ state z = {TID, 0, 0};")
        self.put(self.top, used)
        self.text.append("if (z.s == 0x12345678u) __trap(); }")
        return self.text

    def name(self, body, to):
        return f"l{self.bodies.index(body)}_{to}"

    def put(self, body, used):
        for at in range(len(body.items) + 1):
            if (id(body), at) in used:
                self.text.append(f"{self.name(body, at)}: HERE")
            if at == len(body.items):
                break
            item = body.items[at]
            if item[0] == "access":
                self.line[item[1]] = len(self.text)
                self.text.append(f"AT({item[1]}, {item[2]}u)")
            elif item[0] == "goto":
                self.text.append(f"if ({self.test(item[1])}) goto {self.name(*item[2:])};")
            else:
                self.text.append("_Pragma(\"unroll 1\")")
                self.text.append(f"while ({self.test(item[3])}) {{ HERE" if item[3] else "do { HERE")
                self.put(item[1], used)
                self.text.append(f"HERE if (!({self.test(item[2])})) break; }} HERE" if item[3] else f"HERE }} while ({self.test(item[2])}); HERE")

    @staticmethod
    def test(condition):
        return f"ask(z, {condition[0]}u) % {condition[1]}u < {condition[2]}u"

    # ---- as a warp runs it ----

    def requests(self, warp=0, threads=LANES):
        """[(access, mask, [element of a, by lane])] of a warp; the CTA has so many threads."""
        self.n, self.out, self.first = [0] * LANES, [], warp * LANES
        self.run(self.top, 0, (1 << min(LANES, threads - self.first)) - 1, len(self.top.items), [])
        return self.out

    def those(self, mask, condition):
        taken = 0
        for t in range(LANES):
            if mask >> t & 1:
                self.n[t] += 1
                x = mix((self.first + t) * 977 + self.n[t] * 7919 + condition[0] & M32)
                taken |= (x % condition[1] < condition[2]) << t
        return taken

    def touch(self, item, mask):
        where = []
        for t in range(LANES):
            if mask >> t & 1:
                self.n[t] += 1
                where.append(item[1] * SLOTS + mix((self.first + t) * 31 + self.n[t] * 17 + item[2] & M32) % SLOTS)
        self.out.append((item[1], mask, where))

    def run(self, body, start, mask, stop, left):
        """From one position to another: returns the lanes that come there. Those that leave the body are in `left`: (body, position, lanes)."""
        waiting = {start: mask}
        loops = {at: body.way_out(at) for at in range(start, stop) if body.items[at][0] == "loop"}

        def come(origin, to, lanes):
            ends = [meeting for ways, meeting in loops.values() if to in ways and origin not in ways]
            while lanes and ends:
                lanes, to = self.run(body, to, lanes, max(ends), left), max(ends)
                ends = [meeting for ways, meeting in loops.values() if to in ways]
            waiting[to] = waiting.get(to, 0) | lanes

        for at in range(start, stop):
            lanes = waiting.pop(at, 0)
            if not lanes:
                continue
            item = body.items[at]
            if item[0] == "access":
                self.touch(item, lanes)
                come(at, at + 1, lanes)
            elif item[0] == "goto":
                taken = self.those(lanes, item[1])
                if item[2] is body:
                    come(at, item[3], taken)
                else:
                    left.append((*item[2:], taken))
                come(at, at + 1, lanes & ~taken)
            else:
                for to_body, to, those in self.rounds(body, at, lanes):
                    if to_body is body:
                        come(at, to, those)
                    else:
                        left.append((to_body, to, those))
        return waiting.get(stop, 0)

    def rounds(self, body, at, lanes):
        """A loop: each time that lanes leave it."""
        _, inner, again, before = body.items[at]
        while lanes:
            if before:
                go = self.those(lanes, before)
                yield body, at + 1, lanes & ~go
                lanes = go
            left = []
            ended = self.run(inner, 0, lanes, len(inner.items), left)
            yield from left
            lanes = self.those(ended, again)
            yield body, at + 1, ended & ~lanes
