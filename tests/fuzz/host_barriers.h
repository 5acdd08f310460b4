// Barriers of a block, of a cluster and in shared memory, and what the lanes of a warp do together.
#pragma once

#include "host_threads.h"

namespace snap_host {

// ---- barriers of a block and of a cluster

namespace {

int meet(const char* name, int number, int threads, bool waits, int value) {
    Block& block = *m.now->block;
    if (number < 0 || number >= BARRIERS || threads % 32 || threads <= 0 || threads > (m.launch.threads + 31) / 32 * 32) {
        fail("barrier", "%s of barrier %d with %d threads", name, number, threads);
    }
    Barrier& barrier = block.barriers[number];
    if (barrier.arrived && barrier.expected != threads) {
        fail("barrier", "barrier %d is met by %d threads and by %d", number, barrier.expected, threads);
    }
    barrier.expected = threads;
    barrier.ones += value != 0;
    const int all = number == 0 && threads >= m.launch.threads ? m.launch.threads : threads;  // of the last warp those that are there
    if (++barrier.arrived == all) {
        const int ones = barrier.ones;
        barrier.arrived = 0, barrier.ones = 0;
        wake(block, "barrier", number, ones);
        return ones;
    }
    if (waits) {
        wait_for("barrier", number, threads);
        return m.now->result;
    }
    return 0;
}

}  // namespace

int block_barrier(const char* name, int, int value) { return meet(name, 0, (m.launch.threads + 31) / 32 * 32, true, value); }

void bar(int number, int threads, bool waits) { meet(waits ? "bar.sync" : "bar.arrive", number, threads, waits, 0); }

void cluster_arrive() {
    Group& g = *m.now->block->group;
    m.now->cluster_round = g.round;
    if (++g.arrived == m.launch.cluster * m.launch.threads) {
        g.arrived = 0;
        for (Block& block : g.blocks) {
            wake(block, "barrier.cluster", g.round);
        }
        ++g.round;
    }
}

void cluster_wait() {
    const long long round = m.now->cluster_round;
    if (m.now->block->group->round == round) {
        wait_for("barrier.cluster", round, round);
    }
}

// ---- warps

namespace {

// The threads of the mask meet; the last one acts for all.
template <class F> void together(const char* name, unsigned int mask, void* mine, F act) {
    Fiber& self = *m.now;
    Block& block = *self.block;
    const int first = self.thread / 32 * 32, lane = self.thread % 32;
    if (!(mask >> lane & 1)) {
        fail("warp", "%s(0x%x) by lane %d", name, mask, lane);
    }
    self.data = mine;
    for (int i = 0; i < 32; ++i) {
        if (i == lane || !(mask >> i & 1)) {
            continue;
        }
        if (first + i >= m.launch.threads) {
            fail("warp", "%s(0x%x) in a warp without lane %d", name, mask, i);
        }
        Fiber& f = block.fibers[first + i];
        if (f.state != WAITING || f.which != mask || strcmp(f.waits_for, name)) {
            return wait_for(name, mask);
        }
    }
    void* lanes[32] = {};
    for (int i = 0; i < 32; ++i) {
        if (mask >> i & 1) {
            lanes[i] = block.fibers[first + i].data;
        }
    }
    act(lanes);
    m.spins = 0;
    for (int i = 0; i < 32; ++i) {
        if (i != lane && mask >> i & 1) {
            become_ready(block.fibers[first + i]);
        }
    }
}

int this_lane() { return m.now->thread % 32; }

Warp& this_warp() { return m.now->block->warps[m.now->thread / 32]; }

}  // namespace

void warp_sync(unsigned int mask) {
    together("__syncwarp", mask, nullptr, [](void**) {});
}

unsigned long long shuffle(const char* name, int mode, unsigned int mask, unsigned long long bits, int by, int width) {
    unsigned long long all[32];
    struct Mine { unsigned long long bits, *all; } mine{bits, all};
    const int lane = this_lane();
    together(name, mask, &mine, [&](void** lanes) {
        for (int to = 0; to < 32; ++to) {
            for (int from = 0; lanes[to] && from < 32; ++from) {
                ((Mine*)lanes[to])->all[from] = lanes[from] ? ((Mine*)lanes[from])->bits : 0xbadbadbadbadbadull;
            }
        }
    });
    if (width < 1 || width > 32 || width & (width - 1)) {
        fail("warp", "%s of width %d", name, width);
    }
    const int first = lane & ~(width - 1), last = first + width - 1;
    int from = lane;
    switch (mode) {
        case 0: from = first | (by & (width - 1)); break;
        case 1: from = lane - by < first ? lane : lane - by; break;
        case 2: from = lane + by > last ? lane : lane + by; break;
        case 3: from = (lane ^ by) > last ? lane : lane ^ by; break;
    }
    return all[from & 31];
}

unsigned int vote(const char* name, unsigned int mask, bool value) {
    struct Mine { bool value; unsigned int result; } mine{value, 0};
    together(name, mask, &mine, [](void** lanes) {
        unsigned int result = 0;
        for (int i = 0; i < 32; ++i) {
            result |= (lanes[i] && ((Mine*)lanes[i])->value ? 1u : 0u) << i;
        }
        for (int i = 0; i < 32; ++i) {
            if (lanes[i]) {
                ((Mine*)lanes[i])->result = result;
            }
        }
    });
    return mine.result;
}

unsigned int match(const char* name, unsigned int mask, unsigned long long bits) {
    struct Mine { unsigned long long bits; unsigned int result; } mine{bits, 0};
    together(name, mask, &mine, [](void** lanes) {
        for (int i = 0; i < 32; ++i) {
            for (int j = 0; lanes[i] && j < 32; ++j) {
                if (lanes[j] && ((Mine*)lanes[i])->bits == ((Mine*)lanes[j])->bits) {
                    ((Mine*)lanes[i])->result |= 1u << j;
                }
            }
        }
    });
    return mine.result;
}

unsigned int reduce(const char* name, unsigned int mask, unsigned int value) {
    struct Mine { unsigned int value, result; } mine{value, 0};
    together(name, mask, &mine, [&](void** lanes) {
        unsigned int total = 0;
        bool first = true;
        const bool is_signed = strstr(name, "(int)");
        for (int i = 0; i < 32; ++i) {
            if (!lanes[i]) {
                continue;
            }
            const unsigned int v = ((Mine*)lanes[i])->value;
            const bool less = is_signed ? (int)v < (int)total : v < total;
            total = first ? v : strstr(name, "_add_") ? total + v : strstr(name, "_and_") ? total & v : strstr(name, "_xor_") ? total ^ v
                  : strstr(name, "_or_") ? total | v : strstr(name, "_min_") ? (less ? v : total) : (less ? total : v);
            first = false;
        }
        for (int i = 0; i < 32; ++i) {
            if (lanes[i]) {
                ((Mine*)lanes[i])->result = total;
            }
        }
    });
    return mine.result;
}

// ---- barriers in shared memory: bits 0-19 arrivals that are missing, 20-39 of a whole phase, 40-62 bytes that are missing (signed), 63 the phase

namespace {

const unsigned long long COUNT = (1 << 20) - 1;

void complete_bytes(Block& block, size_t at, long long bytes, long long arrivals) {
    check_place(at, 8, "an mbarrier");
    unsigned long long word;
    memcpy(&word, block.memory + at, 8);
    long long missing = word & COUNT, count = word >> 20 & COUNT, pending = (long long)(word << 1) >> 41;
    unsigned long long phase = word >> 63;
    if (at % 8 || count == 0) {
        fail("mbarrier", "the word at %zu of shared memory was not made a barrier", at);
    }
    if (arrivals > missing) {
        fail("mbarrier", "more than %lld arrivals in one phase of the barrier at %zu of shared memory", count, at);
    }
    missing -= arrivals, pending -= bytes;
    if (missing == 0 && pending == 0) {
        phase ^= 1, missing = count;
    }
    word = phase << 63 | ((unsigned long long)pending & 0x7fffff) << 40 | (unsigned long long)count << 20 | (unsigned long long)missing;
    memcpy(block.memory + at, &word, 8);
    wake(block, "mbarrier", at);
}

}  // namespace

void mbarrier_init(unsigned int at, unsigned int count) {
    const unsigned long long word = (unsigned long long)count << 20 | count;
    if (count == 0 || count > COUNT || at % 8) {
        fail("mbarrier", "an mbarrier of %u arrivals at %u", count, at);
    }
    memcpy(place_of(at, 8, "an mbarrier"), &word, 8);
}

// The phase that the arrival belongs to, by its parity.
unsigned long long mbarrier_arrive(unsigned int at) {
    unsigned long long word;
    memcpy(&word, block_of(at).memory + at % WINDOW, 8);
    complete_bytes(block_of(at), at % WINDOW, 0, 1);
    return word >> 63;
}

void mbarrier_expect(unsigned int at, unsigned int bytes) { complete_bytes(block_of(at), at % WINDOW, -(long long)bytes, 0); }

bool mbarrier_try_wait(unsigned int at, unsigned int parity) {
    unsigned long long word;
    memcpy(&word, place_of(at, 8, "an mbarrier"), 8);
    if ((word >> 20 & COUNT) == 0) {
        fail("mbarrier", "the word at %u of shared memory was not made a barrier", at);
    }
    if (word >> 63 != (parity & 1)) {
        return true;
    }
    wait_for("mbarrier", at % WINDOW, parity & 1);
    return false;
}

}  // namespace snap_host
