/* A library with as much static thread-local storage as glibc keeps in reserve several times. */
static _Thread_local char much[16384] __attribute__((tls_model("initial-exec")));

int lib_run(int *out)
{
    much[16000]++;
    *out = 7;
    return much[16000];
}
