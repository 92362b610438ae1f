// The kernel and the C library write into the program's buffers, and read them. Prints where they lie.
// The destructor makes the calls that may throw invokes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static char buffer[4096];
static char *volatile at = buffer;
static volatile size_t n = 100;

struct guard {
    ~guard()
    {
        fflush(stdout);
    }
};

static long sum(char *b, const char *path)
{
    guard g;
    FILE *f = fopen(path, "w+");
    int fd = fileno(f), pair[2];
    long total = 0;
    total += write(fd, b, n);            // load 0 100
    total += pread(fd, b + 200, n, 60);  // store 200 40
    total += pread(fd, b + 200, n, 100); // at the end: nothing
    total += read(-1, b + 200, n) + 1;   // fails: nothing
    lseek(fd, 0, SEEK_SET);
    total += read(fd, b + 300, n / 2); // store 300 50
    struct iovec v[2] = {{b + 400, 30}, {b + 500, 60}};
    total += readv(fd, v, 2); // store 400 30, 500 20
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
        abort();
    total += send(pair[0], b, 10, 0);                                        // load 0 10
    total += recv(pair[1], b + 600, 99, 0);                                  // store 600 10
    total += sendto(pair[0], b, 11, 0, nullptr, 0);                          // load 0 11
    total += recvfrom(pair[1], b + 700, 5, MSG_TRUNC, nullptr, nullptr) - 6; // store 700 5
    rewind(f);
    total += (long)fwrite("seven\nlines\n", 1, 12, f);
    total += (long)fwrite(b + 2000, 8, n / 10, f); // load 2000 80
    rewind(f);
    total += (long)strlen(fgets(b + 800, 100, f)); // store 800 7, load 800 7
    char *line = nullptr;
    size_t room = 0;
    total += getline(&line, &room, f);          // store line 7
    total += (long)fread(b + 900, 8, 1000, f);  // store 900 88: 8 * 11
    total += fgets(b + 800, 100, f) != nullptr; // the end
    printf("%p %ld\n", (void *)line, total);
    return total;
}

int main(int, char **argv)
{
    printf("%p\n", (void *)buffer);
    return sum(at, argv[1]) < 0;
}
