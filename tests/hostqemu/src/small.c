/* A small program for the single-stepper: calls, loops, recursion, strings; static, without the C library. */
static int numbers[64];
static char text[256];
static unsigned long sum;

__attribute__((noinline)) static unsigned long fibonacci(unsigned n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__attribute__((noinline)) static void sort(int *v, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && v[k - 1] > v[k]; k--) {
            int x = v[k];
            v[k] = v[k - 1];
            v[k - 1] = x;
        }
}

void run(void)
{
    unsigned seed = 12345;
    for (int i = 0; i < 64; i++) {
        seed = seed * 1664525 + 1013904223;
        numbers[i] = (int)(seed >> 20);
    }
    sort(numbers, 64);
    sum = fibonacci(10);
    __asm__ volatile("rep stosb" : : "a"('x'), "c"(200L), "D"(text) : "memory");
    __asm__ volatile("rep movsq" : : "c"(7L), "S"(text), "D"(text + 100) : "memory");
    double d = 0;
    for (int i = 0; i < 64; i++)
        d += numbers[i] * 0.5;
    sum += (unsigned long)d;
    __asm__ volatile("syscall" : : "a"(60L), "D"(sum == 0) : "rcx", "r11", "memory");
}

__asm__(".globl _start\n_start: xor %ebp, %ebp\n and $-16, %rsp\n call run\n hlt\n");
