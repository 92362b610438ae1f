// Exceptions through traced frames, objects of the heap, virtual calls; a routine that is left by a throw.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

static long cells[64];

struct Base {
    virtual ~Base() = default;
    virtual long value(int i) const = 0;
};
struct One : Base {
    std::vector<int> data = std::vector<int>(100, 3);
    long value(int i) const override
    {
        if (i == 13)
            throw std::runtime_error("thirteen");
        return data.at((unsigned)i);
    }
};

__attribute__((noinline)) long inner(const Base &b, int i)
{
    cells[1]++;
    return b.value(i);
}

__attribute__((noinline)) long outer(int i)
{
    std::unique_ptr<Base> p = std::make_unique<One>();
    std::string text(40, 'x');
    return inner(*p, i) + (long)text.size();
}

int main()
{
    long sum = 0, caught = 0;
    for (int i = 0; i < 20; i++) {
        try {
            sum += outer(i);
        } catch (const std::exception &) {
            caught++;
        }
        cells[0]++; // outside of inner and outer
    }
    std::printf("%p %ld %ld\n", (void *)cells, sum, caught);
}
