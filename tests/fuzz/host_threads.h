// The fibers, the blocks and clusters they belong to, who of them runs, and the memory that a block shares.
#pragma once

#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <pthread.h>
#include <random>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <vector>

#define SNAP_HOST_RUNTIME
#include "host_cuda.h"

dim3 threadIdx, blockIdx, blockDim, gridDim;

// As host.py declares it.
struct Map {
    char* base;
    int rank, bytes, kind, swizzle;
    unsigned long long extents[5], strides[5];  // innermost first; strides in bytes
    unsigned int box[5];
};
struct Launch {
    void (*entry)(void**);
    void** arguments;
    int blocks, threads, cluster, smem, cooperative, limit_ms;
    unsigned long long seed;
};

namespace snap_host {
namespace {

const size_t STACK = 256 << 10, WINDOW = 1 << 24, GUARD = 256;
const int BARRIERS = 16, SPINS = 1 << 20, FEW_SPINS = 1 << 12;
const int F16 = 6, F32 = 7, F64 = 8, BF16 = 9, TF32 = 11;  // CUtensorMapDataType

struct Warp;
struct Block;
struct Group;

struct Copy { unsigned char* to; const void* from; int bytes, read; };
struct BoxStore { const Map* map; const char* op; int at[5]; Block* block; unsigned int from; std::vector<unsigned char> data; bool was_read; };
struct BoxLoad { const Map* map; int at[5]; Group* group; unsigned int to, barrier; unsigned int blocks; };
template <class T> struct Groups { std::vector<T> open; std::deque<std::vector<T>> closed; };

struct Background { Groups<Copy> copies; Groups<BoxStore> boxes; };

enum State { READY, WAITING, DONE };
struct Fiber {
    void* stack_pointer;
    unsigned char* stack;
    Block* block;
    int thread;
    State state;
    const char* waits_for;  // what, and which one
    long long which, more, cluster_round;
    int result;
    void* data;
    std::unique_ptr<Background> background;
    Background& behind() {
        if (!background) {
            background.reset(new Background);
        }
        return *background;
    }
};

// A product of a warpgroup: it happens once its four warps have asked for it, and for all of them at once.
struct Product {
    const char* type;  // of a
    const char* other;  // of b, of as many bytes
    int n, a_major, b_major;
    bool wide, from_registers, keep;
    unsigned long long a, b;
    void* d[4][32];
    unsigned int registers[4][32][4];
    int warps;
};
struct Warpgroup {
    std::deque<Product> products;  // those that have not happened yet
    long long happened;
};
struct Warp {
    long long asked, awaited;  // products
    std::deque<long long> closed;  // how many had been asked for at each commit
};

struct Barrier { int arrived, expected, ones; };
struct Block {
    Group* group;
    int index, rank, running;
    bool begun;
    unsigned char* memory;
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    std::vector<Warpgroup> warpgroups;
    Barrier barriers[BARRIERS];
};
struct Group {  // the blocks of a cluster
    unsigned char* memory;
    std::vector<Block> blocks;
    int running, arrived;
    long long round;
};

struct CopyArrival {  // at an mbarrier, when a thread's copies so far have been made
    const Fiber* fiber;
    Block* block;
    unsigned int barrier;
    std::vector<Copy> copies;
};

struct Machine {
    Launch launch;
    std::mt19937_64 random;
    bool lazy;
    std::deque<Fiber*> ready;
    std::deque<std::unique_ptr<Group>> groups;
    std::deque<BoxLoad> loads;
    std::deque<CopyArrival> arrivals;
    std::vector<unsigned char*> stacks, windows;
    Fiber* now;
    void* scheduler;
    int next, spins;
    unsigned long long turns;
    char message[4096], kind[32];
    sigjmp_buf out;
    pthread_t thread;
    bool running;
} m;

}  // namespace

extern "C" void snap_host_switch(void** from, void* to);
asm(R"(
.text
.globl snap_host_switch
.type snap_host_switch, @function
snap_host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

void fail(const char* kind, const char* format, ...) {
    snprintf(m.kind, sizeof m.kind, "%s", kind);
    int used = m.now ? snprintf(m.message, sizeof m.message, "block %d, thread %d: ", m.now->block->index, m.now->thread) : 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(m.message + used, sizeof m.message - used, format, arguments);
    va_end(arguments);
    siglongjmp(m.out, 1);
}

namespace {

// ---- who runs

void become_ready(Fiber& f) {
    f.state = READY;
    m.ready.push_back(&f);
}

// A number of this fiber's warp, the same for some hundreds of turns: some warps run far ahead of others.
unsigned long long eagerness(const Fiber& f) {
    unsigned long long x = m.launch.seed + 1000003ull * (f.block->index * 64 + f.thread / 32) + 7919ull * (m.turns >> 9);
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15ull;
    return x ^ x >> 29;
}

Fiber* taken() {
    ++m.turns;
    if (m.launch.seed) {
        size_t best = m.random() % m.ready.size();
        for (int i = 0; m.launch.seed / 2 % 2 && m.spins < 64 && i < 16; ++i) {
            const size_t other = m.random() % m.ready.size();
            best = eagerness(*m.ready[other]) > eagerness(*m.ready[best]) ? other : best;
        }
        std::swap(m.ready.front(), m.ready[best]);
    }
    Fiber* f = m.ready.front();
    m.ready.pop_front();
    return f;
}

void to_scheduler() {
    Fiber* self = m.now;
    snap_host_switch(&self->stack_pointer, m.scheduler);
}

void wait_for(const char* what, long long which, long long more = 0) {
    Fiber& f = *m.now;
    f.state = WAITING, f.waits_for = what, f.which = which, f.more = more;
    m.spins = 0;
    to_scheduler();
}

void yield() { to_scheduler(); }

void wake(Block& block, const char* what, long long which, int result = 0) {
    m.spins = 0;
    for (Fiber& f : block.fibers) {
        if (f.state == WAITING && f.which == which && !strcmp(f.waits_for, what)) {
            f.result = result;
            become_ready(f);
        }
    }
}

bool chance(int one_in) { return m.launch.seed && m.random() % one_in == 0; }

void finish_background(Fiber& f);
void end_memory(Block& block);

void body() {
    m.launch.entry(m.launch.arguments);
    Fiber& f = *m.now;
    finish_background(f);
    f.state = DONE;
    m.spins = 0;
    --f.block->group->running;
    if (--f.block->running == 0) {
        end_memory(*f.block);
    }
    to_scheduler();
}

unsigned char* window(int blocks) {
    return (unsigned char*)mmap(nullptr, WINDOW * blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

unsigned char filler(size_t i) { return (unsigned char)(0xa5 + 37 * (i / 4)); }

void begin_group() {
    const Launch& l = m.launch;
    std::unique_ptr<Group> g(new Group());
    if (m.windows.empty()) {
        g->memory = window(l.cluster);
    } else {
        g->memory = m.windows.back(), m.windows.pop_back();
    }
    g->blocks.resize(l.cluster);
    g->running = l.cluster * l.threads;
    for (int rank = 0; rank < l.cluster; ++rank) {
        Block& block = g->blocks[rank];
        block.group = g.get(), block.index = m.next++, block.rank = rank, block.running = l.threads;
        block.memory = g->memory + rank * WINDOW;
        block.fibers.resize(l.threads);
        block.warps.resize((l.threads + 31) / 32);
        block.warpgroups.resize((l.threads + 127) / 128);
        memset(block.barriers, 0, sizeof block.barriers);
        for (int t = 0; t < l.threads; ++t) {
            Fiber& f = block.fibers[t];
            if (m.stacks.empty()) {
                const int count = 256;
                unsigned char* many = (unsigned char*)mmap(nullptr, STACK * count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                for (int i = count; i-- > 0;) {
                    m.stacks.push_back(many + i * STACK);
                }
            }
            f.stack = m.stacks.back(), m.stacks.pop_back();
            f.block = &block, f.thread = t;
            void** top = (void**)(f.stack + STACK - 56 - (t % 16) * 1088);  // not all on the same cache lines; where a call leaves it
            top[0] = nullptr;
            top[-1] = (void*)&body;
            f.stack_pointer = top - 7;
            become_ready(f);
        }
    }
    m.groups.push_back(std::move(g));
}

// Before its first thread runs a block has no memory that others could write, and none that they could read when its last one has ended.
void begin_memory(Block& block) {
    block.begun = true;
    for (size_t i = 0; i < m.launch.smem + GUARD; ++i) {
        block.memory[i] = filler(i);
    }
}

void end_memory(Block& block) {
    for (size_t i = m.launch.smem; i < m.launch.smem + GUARD; ++i) {
        if (block.memory[i] != filler(i)) {
            fail("shared memory", "something wrote %d bytes behind the block's shared memory", (int)(i - m.launch.smem));
        }
    }
    for (size_t i = 0; m.launch.cluster > 1 && i < m.launch.smem; ++i) {
        block.memory[i] = filler(i);
    }
}

void end_group(Group& g) {
    for (Block& block : g.blocks) {
        for (Fiber& f : block.fibers) {
            m.stacks.push_back(f.stack);
        }
    }
    m.windows.push_back(g.memory);
}

void stuck() {
    m.now = nullptr;
    char text[3500];
    size_t used = 0;
    int shown = 0, all = 0;
    for (auto& g : m.groups) {
        for (Block& block : g->blocks) {
            for (Fiber& f : block.fibers) {
                if (f.state != WAITING) {
                    continue;
                }
                Fiber* before = f.thread ? &block.fibers[f.thread - 1] : nullptr;
                ++all;
                if (before && before->state == WAITING && before->waits_for == f.waits_for && before->which == f.which) {
                    continue;
                }
                if (shown++ < 12 && used < sizeof text - 200) {
                    used += snprintf(text + used, sizeof text - used, "; block %d, from thread %d on: %s(%lld, %lld)", block.index, f.thread, f.waits_for, f.which, f.more);
                }
            }
        }
    }
    text[used] = 0;
    fail(all ? "deadlock" : "hangs", "%d threads wait%s", all, text);
}

}  // namespace

// ---- strong accesses

void spins() {
    ++m.spins;
    yield();
}

void announces() {
    m.spins = 0;
    if (chance(4)) {
        yield();
    }
}

// ---- shared memory

unsigned char* shared(unsigned int offset) { return m.now->block->memory + offset; }

unsigned int shared_address(const void* place) {
    const Group& g = *m.now->block->group;
    const size_t at = (const unsigned char*)place - g.memory;
    if (at >= WINDOW * m.launch.cluster) {
        fail("shared memory", "an address outside of shared memory is taken for one inside");
    }
    return (unsigned int)at;
}

namespace {

void check_place(size_t at, size_t bytes, const char* what) {
    if (at + bytes > (size_t)m.launch.smem) {
        fail("shared memory", "%s reaches %zu of %d bytes of shared memory", what, at + bytes, m.launch.smem);
    }
}

Block& block_of(unsigned int address) {
    Group& g = *m.now->block->group;
    if (address / WINDOW >= g.blocks.size()) {
        fail("shared memory", "0x%x is no address in shared memory", address);
    }
    return g.blocks[address / WINDOW];
}

unsigned char* place_of(unsigned int address, size_t bytes, const char* what) {
    Block& block = block_of(address);
    check_place(address % WINDOW, bytes, what);
    return block.memory + address % WINDOW;
}

}  // namespace

unsigned int mapa_shared(unsigned int here, int block) {
    if (block < 0 || block >= m.launch.cluster) {
        fail("cluster", "block %d of a cluster of %d", block, m.launch.cluster);
    }
    return (unsigned int)(here % WINDOW + block * WINDOW);
}

unsigned long long mapa(unsigned long long here, int block) {
    return (unsigned long long)(m.now->block->group->memory + mapa_shared(shared_address((const void*)here), block));
}

}  // namespace snap_host
