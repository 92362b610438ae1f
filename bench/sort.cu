// Compile time of a program with Thrust (bench/run, part compile): a sort, with a check.
#include <cstdio>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/sort.h>

int main()
{
    thrust::host_vector<int> values(1000);
    unsigned random = 1;
    for (size_t i = 0; i < values.size(); i++) {
        random = random * 1664525u + 1013904223u;
        values[i] = (int)(random >> 8);
    }
    thrust::device_vector<int> device = values;
    thrust::sort(device.begin(), device.end());
    values = device;
    for (size_t i = 1; i < values.size(); i++)
        if (values[i - 1] > values[i])
            return 1;
    puts("sorted");
    return 0;
}
