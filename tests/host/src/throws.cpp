// Exceptions through frames with destructors, containers, strings, threads, thread-local objects.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::atomic<int> alive;
struct Counted {
    Counted()
    {
        alive++;
    }
    ~Counted()
    {
        alive--;
    }
};
struct Deep : std::runtime_error {
    int depth;
    Deep(int d) : std::runtime_error("depth " + std::to_string(d)), depth(d)
    {
    }
};
static thread_local std::string mine = "fresh";

static int descend(int n)
{
    Counted c;
    std::vector<int> v(static_cast<size_t>(n) + 1);
    if (n == 0)
        throw Deep(static_cast<int>(v.size()));
    try {
        return descend(n - 1) + 1;
    } catch (const std::logic_error &) {
        return -1;
    }
}

int main()
{
    long caught = 0;
    for (int i = 0; i < 100; i++) {
        try {
            descend(i % 12);
        } catch (const Deep &d) {
            caught += d.depth + static_cast<long>(std::string(d.what()).size());
        }
    }
    std::map<std::string, std::unique_ptr<Counted>> named;
    for (int i = 0; i < 200; i++)
        named["key" + std::to_string(i * 7919 % 1000)] = std::make_unique<Counted>();
    std::vector<std::thread> threads;
    std::vector<int> results(4);
    for (int t = 0; t < 4; t++)
        threads.emplace_back([t, &results] {
            mine += std::to_string(t);
            try {
                descend(5 + t);
            } catch (const std::exception &e) {
                results[static_cast<size_t>(t)] =
                    static_cast<int>(std::string(e.what()).size() + mine.size());
            }
        });
    for (auto &t : threads)
        t.join();
    std::printf("%ld %zu %d %d %s\n", caught, named.size(), alive.load(),
                std::accumulate(results.begin(), results.end(), 0), mine.c_str());
    return alive == static_cast<int>(named.size()) ? 0 : 1;
}
