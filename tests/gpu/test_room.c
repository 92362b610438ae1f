/* Leaders that wait for room in a ring, as threads: which of them ask host memory, and that all go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include "gpu/rings.h"
#include "host_warp.h"

#define SLOTS 32u
#define WAITING 20u
#define LEADERS (SLOTS + WAITING)

void __mt_gpu_access_global(const void *p, uint32_t meta, uint32_t site, struct mt_gpu_context *c);
_Thread_local struct host_thread host_thread;

static struct {
    struct mt_slot slots[SLOTS];
    uint64_t tail;
    _Alignas(128) struct mt_gpu_ring ring;
    _Alignas(256) struct mt_gpu_context context;
    struct mt_ring reader;
    struct host_warp warps[LEADERS];
    struct host_thread *thread[LEADERS];
    pthread_t id[LEADERS];
    unsigned ended;
} rig;

static void *room_leader(void *data)
{
    size_t i = (size_t)data;
    host_thread = (struct host_thread){.warp = &rig.warps[i], .grid = {1, 1}};
    __atomic_store_n(&rig.thread[i], &host_thread, __ATOMIC_RELEASE);
    __mt_gpu_access_global((void *)(0x1000 + 4 * i), MT_STORE << 28 | 4, 1, &rig.context);
    __atomic_add_fetch(&rig.ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

static const struct host_thread *room_thread(unsigned i)
{
    return __atomic_load_n(&rig.thread[i], __ATOMIC_ACQUIRE);
}

static void room_nap(void)
{
    nanosleep(&(struct timespec){0, 200000}, NULL);
}

/* Fills the ring from position `at` on, and has 20 leaders wait for room. */
static void room_start(uint64_t at)
{
    rig.tail = rig.ring.head = rig.ring.tail_seen = at;
    rig.ring.slots = (uint64_t)(uintptr_t)rig.slots;
    rig.ring.mask = SLOTS - 1;
    rig.ring.tail = (uint64_t)(uintptr_t)&rig.tail;
    rig.context = (struct mt_gpu_context){.rings = (uint64_t)(uintptr_t)&rig.ring};
    rig.reader = (struct mt_ring){rig.slots, &rig.tail, SLOTS - 1, at, 0};
    for (unsigned i = 0; i < SLOTS; i++) /* as the lap before left them */
        for (unsigned k = 0; k < MT_SLOT_WORDS; k++)
            rig.slots[i].w[k] = at ? mt_packet_tag(at + (i - at) % SLOTS - SLOTS, SLOTS) : 0;
    rig.ended = 0;
    for (size_t i = 0; i < LEADERS; i++) {
        rig.thread[i] = NULL;
        rig.warps[i] = (struct host_warp){
            .lock = PTHREAD_MUTEX_INITIALIZER, .all_here = PTHREAD_COND_INITIALIZER, .mask = 1};
        pthread_create(&rig.id[i], NULL, room_leader, (void *)i);
    }
    while (__atomic_load_n(&rig.ended, __ATOMIC_ACQUIRE) < SLOTS ||
           __atomic_load_n(&rig.ring.head, __ATOMIC_RELAXED) < at + LEADERS)
        room_nap();
}

/* Reads on, in steps of `step` packets: all come, and all threads end. */
static void read_all(unsigned step)
{
    struct mt_packet p;
    unsigned char seen[LEADERS] = {0};
    for (unsigned n = 0, got = 0; n < LEADERS;) {
        if (mt_ring_take(&rig.reader, &p)) {
            unsigned i = (unsigned)(p.words[0] - 0x1000) / 4;
            assert_true(i < LEADERS && !seen[i]++);
            got++;
            n++;
        } else {
            room_nap();
        }
        if (got == step || n == LEADERS || (got && n + SLOTS > LEADERS)) {
            mt_ring_publish(&rig.reader);
            got = 0;
        }
    }
    for (unsigned i = 0; i < LEADERS; i++)
        pthread_join(rig.id[i], NULL);
    assert_true(rig.ring.tail_seen <= rig.tail);
}

/* The host's tail is asked for by the one whose packet is the next, by others as good as never. */
static void one_asks(void **state)
{
    unsigned waiting = 0, asking = 0;
    room_start(0);
    while (waiting < WAITING) {
        room_nap();
        waiting = 0;
        for (unsigned i = 0; i < LEADERS; i++)
            waiting += __atomic_load_n(&room_thread(i)->slept, __ATOMIC_RELAXED) >= 20;
    }
    for (unsigned i = 0; i < LEADERS; i++) {
        uint32_t asked = __atomic_load_n(&room_thread(i)->asked, __ATOMIC_RELAXED);
        asking += asked > __atomic_load_n(&room_thread(i)->slept, __ATOMIC_RELAXED) / 200;
    }
    assert_int_equal(asking, 1);
    read_all(1);
}

/* Around where 32 bits of a position begin anew, and with room coming in pieces of any size. */
static void all_go_on(void **state)
{
    for (unsigned step = 1; step <= 7; step += 2) {
        room_start(0);
        read_all(step);
        room_start((1ull << 32) - 40);
        read_all(step);
        room_start((1ull << 32) - SLOTS);
        read_all(step);
    }
}

/* The program wrote over the copy on the device: nobody waits for ever. */
static void damaged_copy(void **state)
{
    room_start(0);
    __atomic_store_n(&rig.ring.tail_seen, 0x4141414141414141, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < LEADERS; i++)
        assert_int_equal(mt_ring_take(&rig.reader, &(struct mt_packet){0}), i < SLOTS);
    rig.reader.damaged = 1;
    mt_ring_publish(&rig.reader);
    for (unsigned i = 0; i < LEADERS; i++)
        pthread_join(rig.id[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_asks), cmocka_unit_test(all_go_on),
                                       cmocka_unit_test(damaged_copy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
