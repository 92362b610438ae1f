/* Loops without an end or a system call: endless FILE WAY. FILE gets the number of rounds. */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static uint64_t buffer[100], other[100];

static void endless_add(volatile uint64_t *count)
{
    for (;;)
        ++*count;
}

static void endless_swap(volatile uint64_t *count)
{
    for (uint64_t i = 0;;)
        if (__sync_bool_compare_and_swap(count, i, i + 1))
            i++;
}

static void endless_copy(volatile uint64_t *count)
{
    for (;; ++*count) {
        void *to = buffer, *from = other;
        uint64_t n = 100;
        __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    }
}

static void endless_seldom(volatile uint64_t *count)
{
    for (uint64_t i = 0;; i++)
        if (i % 1000 == 0)
            ++*count;
}

int main(int argc, char **argv)
{
    static void (*const loop[])(volatile uint64_t *) = {endless_add, endless_swap, endless_copy,
                                                        endless_seldom};
    static const char ways[] = "ascl"; /* the first letters of add, swap, copy, long */
    int fd = argc == 3 ? open(argv[1], O_RDWR) : -1;
    void *count = fd < 0 ? MAP_FAILED : mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (count == MAP_FAILED)
        return 1;
    loop[strchr(ways, *argv[2]) - ways](count);
}
