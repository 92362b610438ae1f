"""Arrays and what they must be called: NAMES has the names of what a line allocates, in the order in which it does; "-" is none.
LINE: so without columns, too. `take`, `Array` and `Parameter` are a package's. Not run by itself: tests/python/cases.py."""
from package import Array, Parameter, begin, operators, take

begin()
n, data = 8, {}


class Layer:
    def __init__(self):
        self.w: Array = take(n)  # NAMES self.w LINE
        self.rows = [take(n) for _ in range(2)]  # NAMES self.rows[] self.rows[]


layer = Layer()


def make(size):
    return take(size)


def pair():
    return take(n), {"k": take(n)}


def use(first, out=None, flag=False):
    return first or out or flag


def through(function):
    return function()


d_a = take(n)  # NAMES d_a LINE
x = y = take(n)  # NAMES x LINE
x, y = take(n), take(n)  # NAMES x y
(x, (y, *z)) = take(n), (take(n), take(n), take(n))  # NAMES x y z[0] z[1]
data["k"] = take(n)  # NAMES data["k"] LINE
data[ 'q' ], data[n + 1] = take(n), take(n)  # NAMES data[~'q'~] data[n~+~1]
rows = [take(n), {"left": take(n)}]  # NAMES rows[0] rows[1]['left']
if (found := take(n)) is not None:  # NAMES found
    pass
use(take(n), out=take(n))  # NAMES - out
x = make(n)  # NAMES x
first, second = pair()  # NAMES first second['k']
w = through(lambda: take(n))  # NAMES w
w = through(make.__get__(n))  # NAMES w
x = take(n).reshape(4, 2)  # NAMES x
x = take(n).reduce(take(n))  # NAMES - -
x = take(n) + take(n)  # NAMES - - x
x += take(n)  # NAMES - x
x = take(n)[1:]  # NAMES x
x = Parameter(take(n))  # NAMES x
x = (take(n)  # NAMES x
     if n else None)
x = data.get("nothing") or take(n)  # NAMES x
x = operators \
    .take(n)  # NAMES x
été = [None, take(n)]  # NAMES été[1]
take(n)  # NAMES -
with take(n) as inside:  # NAMES inside
    pass
for x in [take(n)]:  # NAMES -
    again = [make(n) for _ in "ab"]  # NAMES again[] again[]
exec("unseen = take(n)")  # NAMES -
named = take(n).name("given")  # NAMES given
