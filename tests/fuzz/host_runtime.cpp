// Threads of a GPU as fibers of one thread of the host, and what they share: barriers, warps, clusters, copies and products in the background.
//
// All blocks of a cluster (of a cooperative launch: all blocks) run together, others one after another; where those that run only spin, the next ones
// begin.  Seed 0: fibers run in order, and work in the background is done at once.  Other seeds: fibers in an order drawn from the seed, and work in
// the background as late as a wait allows, or at a moment drawn from the seed.  A fiber runs until it must wait, or meets an atomic or a strong load.
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

struct Copy { unsigned char* to; const void* from; int bytes; };
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
    const char* type;
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

struct Machine {
    Launch launch;
    std::mt19937_64 random;
    bool lazy;
    std::deque<Fiber*> ready;
    std::deque<std::unique_ptr<Group>> groups;
    std::deque<BoxLoad> loads;
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

// ---- copies of boxes

size_t swizzled(size_t at, int swizzle) {  // of an address in a block's shared memory
    return swizzle == 3 ? at ^ (at >> 7 & 7) << 4 : swizzle == 2 ? at ^ (at >> 7 & 3) << 4 : swizzle == 1 ? at ^ (at >> 7 & 1) << 4 : at;
}

unsigned int box_bytes(const Map& map) {
    unsigned int total = map.bytes;
    for (int d = 0; d < map.rank; ++d) {
        total *= map.box[d];
    }
    return total;
}

void check_place(size_t at, size_t bytes, const char* what) {
    if (at + bytes > (size_t)m.launch.smem) {
        fail("shared memory", "%s reaches %zu of %d bytes of shared memory", what, at + bytes, m.launch.smem);
    }
}

template <class F> void each_element(const Map& map, const int* at, F f) {
    const unsigned int total = box_bytes(map) / map.bytes;
    for (unsigned int i = 0; i < total; ++i) {
        long long offset = 0;
        bool inside = true;
        unsigned int rest = i;
        for (int d = 0; d < map.rank; ++d) {
            const long long place = (long long)at[d] + rest % map.box[d];
            rest /= map.box[d];
            inside = inside && place >= 0 && place < (long long)map.extents[d];
            offset += place * (d ? (long long)map.strides[d - 1] : map.bytes);
        }
        f(i * map.bytes, inside ? map.base + offset : nullptr);
    }
}

unsigned int loaded_as_tf32(unsigned int bits) {
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return 0x7fffffff;
    }
    return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
}

void complete_bytes(Block& block, size_t at, long long bytes, long long arrivals);

void perform(const BoxLoad& load) {
    const Map& map = *load.map;
    const unsigned int bytes = box_bytes(map);
    check_place(load.to, bytes, "a box");
    for (Block& block : load.group->blocks) {
        if (!(load.blocks >> block.rank & 1)) {
            continue;
        }
        each_element(map, load.at, [&](unsigned int i, const char* from) {
            unsigned char* to = block.memory + swizzled(load.to + i, map.swizzle);
            if (!from) {
                memset(to, 0, map.bytes);
            } else if (map.kind == TF32) {
                unsigned int bits;
                memcpy(&bits, from, 4);
                bits = loaded_as_tf32(bits);
                memcpy(to, &bits, 4);
            } else {
                memcpy(to, from, map.bytes);
            }
        });
        complete_bytes(block, load.barrier, bytes, 0);
    }
}

void read_box(BoxStore& store) {
    if (store.was_read) {
        return;
    }
    store.was_read = true;
    const unsigned int bytes = box_bytes(*store.map);
    check_place(store.from, bytes, "a box");
    store.data.resize(bytes);
    for (unsigned int i = 0; i < bytes; ++i) {
        store.data[i] = store.block->memory[swizzled(store.from + i, store.map->swizzle)];
    }
}

template <class T> void combine(const char* op, void* to, const void* with) {
    T a, b;
    memcpy(&a, to, sizeof(T)), memcpy(&b, with, sizeof(T));
    a = !strcmp(op, "add") ? (T)(a + b) : !strcmp(op, "min") ? (b < a ? b : a) : (a < b ? b : a);
    memcpy(to, &a, sizeof(T));
}

void combine_bits(const char* op, char* to, const unsigned char* with, int bytes) {
    for (int i = 0; i < bytes; ++i) {
        to[i] = !strcmp(op, "and") ? to[i] & with[i] : !strcmp(op, "or") ? to[i] | with[i] : to[i] ^ with[i];
    }
}

void perform(BoxStore& store) {
    read_box(store);
    const Map& map = *store.map;
    const char* op = store.op;
    const bool bitwise = !strcmp(op, "and") || !strcmp(op, "or") || !strcmp(op, "xor");
    each_element(map, store.at, [&](unsigned int i, char* to) {
        const unsigned char* from = &store.data[i];
        if (!to) {
            return;
        }
        if (!strcmp(op, "store")) {
            memcpy(to, from, map.bytes);
        } else if (bitwise) {
            combine_bits(op, to, from, map.bytes);
        } else {
            switch (map.kind) {
                case 2: return combine<unsigned int>(op, to, from);
                case 3: return combine<int>(op, to, from);
                case 4: return combine<unsigned long long>(op, to, from);
                case 5: return combine<long long>(op, to, from);
                case F16: return combine<__half>(op, to, from);
                case F32: return combine<float>(op, to, from);
                case F64: return combine<double>(op, to, from);
                case BF16: return combine<__nv_bfloat16>(op, to, from);
                default: fail("box", "no reduction of elements of kind %d", map.kind);
            }
        }
    });
}

void finish_background(Fiber& f) {
    if (!f.background) {
        return;
    }
    box_commit(), copy_commit();
    for (const auto& group : f.background->boxes.closed) {
        for (const BoxStore& store : group) {
            if (!store.was_read) {
                fail("box", "the thread ends while a box is still read from shared memory");
            }
        }
    }
    box_wait(0, false), copy_wait(0);
}

void schedule() {
    m.next = 0, m.spins = 0, m.turns = 0;
    while (true) {
        while (!m.groups.empty() && m.groups.front()->running == 0 && m.loads.empty()) {
            end_group(*m.groups.front());
            m.groups.pop_front();
        }
        if (!m.loads.empty() && (m.ready.empty() || chance(8))) {
            m.now = nullptr;
            const size_t which = m.random() % m.loads.size();
            const BoxLoad load = m.loads[which];
            m.loads.erase(m.loads.begin() + which);
            perform(load);
            continue;
        }
        const bool more = m.next < m.launch.blocks;
        if (more && (m.groups.empty() || m.launch.cooperative || m.ready.empty() || m.spins > FEW_SPINS)) {
            begin_group();
            m.spins = 0;
            continue;
        }
        if (m.groups.empty()) {
            return;
        }
        if (m.ready.empty() || m.spins > SPINS) {
            stuck();
        }
        Fiber* f = taken();
        m.now = f;
        if (!f->block->begun) {
            begin_memory(*f->block);
        }
        threadIdx = {(unsigned int)f->thread, 0, 0};
        blockIdx = {(unsigned int)f->block->index, 0, 0};
        snap_host_switch(&m.scheduler, f->stack_pointer);
        if (f->state == READY) {
            m.ready.push_back(f);
        }
    }
}

// ---- signals: a division by zero gives what GPUs give; all else ends the launch

#if defined(__x86_64__)
bool divided(ucontext_t* context) {
    greg_t* r = context->uc_mcontext.gregs;
    const unsigned char* at = (const unsigned char*)r[REG_RIP];
    int length = 0;
    bool wide = false;
    if ((at[length] & 0xf0) == 0x40) {
        wide = at[length++] & 8;
    }
    if (at[length++] != 0xf7) {
        return false;
    }
    const int modrm = at[length++], mode = modrm >> 6, low = modrm & 7, which = modrm >> 3 & 7;
    if (which != 6 && which != 7) {
        return false;
    }
    if (mode != 3) {
        int base = low;
        if (low == 4) {
            base = at[length++] & 7;
        }
        length += mode == 1 ? 1 : mode == 2 || base == 5 ? 4 : 0;
    }
    const bool is_signed = which == 7;
    const long long high = wide ? r[REG_RDX] : (int)r[REG_RDX], rest = wide ? r[REG_RAX] : (int)r[REG_RAX];
    const long long least = wide ? (-9223372036854775807ll - 1) : -2147483648ll;
    const bool overflow = is_signed && rest == least && high == -1;  // by -1, or by 0: of those two the first is what programs do
    const long long quotient = overflow ? least : -1, remainder = overflow ? 0 : rest;
    r[REG_RAX] = wide ? quotient : (long long)(unsigned int)quotient;
    r[REG_RDX] = wide ? remainder : (long long)(unsigned int)remainder;
    r[REG_RIP] += length;
    return true;
}
#else
bool divided(ucontext_t*) { return false; }
#endif

void on_signal(int number, siginfo_t* info, void* context) {
    if (!m.running || !pthread_equal(pthread_self(), m.thread)) {
        if (m.running && number == SIGVTALRM) {
            pthread_kill(m.thread, number);
        }
        return;
    }
    if (number == SIGFPE && divided((ucontext_t*)context)) {
        return;
    }
    if (number == SIGVTALRM) {
        fail("hangs", "the launch takes longer than %d ms", m.launch.limit_ms);
    }
    fail("fault", "signal %d at address %p", number, info->si_addr);
}

const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGVTALRM};

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

void mbarrier_arrive(unsigned int at) { complete_bytes(block_of(at), at % WINDOW, 0, 1); }

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

// ---- copies in the background

namespace {

void perform(const Copy& copy) { memcpy(copy.to, copy.from, copy.bytes); }

template <class T> void close(Groups<T>& groups) {
    groups.closed.push_back(std::move(groups.open));
    groups.open.clear();
}

template <class T> void finish(Groups<T>& groups, int younger) {
    while ((int)groups.closed.size() > younger) {
        for (T& each : groups.closed.front()) {
            perform(each);
        }
        groups.closed.pop_front();
    }
}

}  // namespace

void copy_async(unsigned int to, const void* from, int bytes) {
    if (to % bytes || (size_t)from % bytes) {
        fail("misaligned", "a copy of %d bytes from %p to %u", bytes, from, to);
    }
    const Copy copy{place_of(to, bytes, "a copy"), from, bytes};
    if (m.lazy) {
        m.now->behind().copies.open.push_back(copy);
    } else {
        perform(copy);
    }
}

void copy_commit() {
    if (m.lazy) {
        close(m.now->behind().copies);
    }
}

void copy_wait(int younger) {
    if (m.lazy) {
        finish(m.now->behind().copies, younger);
    }
}

void box_load(unsigned int to, const void* given, const int* at, int rank, unsigned int barrier, int blocks) {
    const Map* map = *(const Map* const*)given;
    Block& block = *m.now->block;
    const unsigned int align = 128;
    if (rank != map->rank || to % align) {
        fail("box", "a box of %d dimensions by a map of %d, to %u of shared memory", rank, map->rank, to);
    }
    if (&block_of(to) != &block || &block_of(barrier) != &block) {
        fail("box", "a box for another block");
    }
    BoxLoad load{map, {}, block.group, (unsigned int)(to % WINDOW), (unsigned int)(barrier % WINDOW), blocks ? (unsigned int)blocks : 1u << block.rank};
    memcpy(load.at, at, sizeof(int) * rank);
    if (m.lazy) {
        m.loads.push_back(load);
    } else {
        perform(load);
    }
}

void box_store(const char* op, const void* given, const int* at, int rank, unsigned int from) {
    const Map* map = *(const Map* const*)given;
    if (rank != map->rank || from % 128 || &block_of(from) != m.now->block) {
        fail("box", "a box of %d dimensions by a map of %d, from %u of shared memory", rank, map->rank, from);
    }
    BoxStore store{map, op, {}, m.now->block, (unsigned int)(from % WINDOW), {}, false};
    memcpy(store.at, at, sizeof(int) * rank);
    if (m.lazy) {
        m.now->behind().boxes.open.push_back(store);
    } else {
        perform(store);
    }
}

void box_commit() {
    if (m.lazy) {
        close(m.now->behind().boxes);
    }
}

void box_wait(int younger, bool read) {
    if (!m.lazy) {
        return;
    }
    Groups<BoxStore>& groups = m.now->behind().boxes;
    if (!read) {
        return finish(groups, younger);
    }
    for (size_t i = 0; i + younger < groups.closed.size(); ++i) {
        for (BoxStore& store : groups.closed[i]) {
            read_box(store);
        }
    }
}

// ---- tensor cores of a warp

void load_matrix(int count, bool transposed, unsigned int row, unsigned int* const* to) {
    struct Mine { unsigned int row; unsigned int* const* to; } mine{row, to};
    together(transposed ? "ldmatrix.trans" : "ldmatrix", 0xffffffffu, &mine, [&](void** lanes) {
        for (int i = 0; i < count; ++i) {
            unsigned short matrix[8][8];
            for (int r = 0; r < 8; ++r) {
                const unsigned int at = ((Mine*)lanes[8 * i + r])->row;
                if (at % 16) {
                    fail("misaligned", "ldmatrix of a row at %u", at);
                }
                memcpy(matrix[r], place_of(at, 16, "ldmatrix"), 16);
            }
            for (int lane = 0; lane < 32; ++lane) {
                const int g = lane / 4, t = lane % 4 * 2;
                const unsigned int low = transposed ? matrix[t][g] : matrix[g][t], high = transposed ? matrix[t + 1][g] : matrix[g][t + 1];
                *((Mine*)lanes[lane])->to[i] = low | high << 16;
            }
        }
    });
}

void store_matrix(int count, bool transposed, unsigned int row, const unsigned int* from) {
    struct Mine { unsigned int row; const unsigned int* from; } mine{row, from};
    together(transposed ? "stmatrix.trans" : "stmatrix", 0xffffffffu, &mine, [&](void** lanes) {
        for (int i = 0; i < count; ++i) {
            unsigned short matrix[8][8];
            for (int lane = 0; lane < 32; ++lane) {
                const int g = lane / 4, t = lane % 4 * 2;
                const unsigned int pair = ((Mine*)lanes[lane])->from[i];
                (transposed ? matrix[t][g] : matrix[g][t]) = (unsigned short)pair;
                (transposed ? matrix[t + 1][g] : matrix[g][t + 1]) = (unsigned short)(pair >> 16);
            }
            for (int r = 0; r < 8; ++r) {
                const unsigned int at = ((Mine*)lanes[8 * i + r])->row;
                if (at % 16) {
                    fail("misaligned", "stmatrix of a row at %u", at);
                }
                memcpy(place_of(at, 16, "stmatrix"), matrix[r], 16);
            }
        }
    });
}

namespace {

float small_float(unsigned char bits, int mantissa_bits) {
    const int mantissa = bits & ((1 << mantissa_bits) - 1), exponent = (bits & 0x7f) >> mantissa_bits, bias = mantissa_bits == 3 ? 7 : 15;
    const float sign = bits & 0x80 ? -1.0f : 1.0f, part = mantissa / (float)(1 << mantissa_bits);
    if (mantissa_bits == 2 && exponent == 31) {
        return mantissa ? __builtin_nanf("") : sign * __builtin_inff();
    }
    if (mantissa_bits == 3 && (bits & 0x7f) == 0x7f) {
        return __builtin_nanf("");
    }
    return sign * (exponent ? __builtin_ldexpf(1 + part, exponent - bias) : __builtin_ldexpf(part, 1 - bias));
}

int bytes_of(const char* type) { return !strcmp(type, "tf32") ? 4 : type[0] == 'e' ? 1 : 2; }

float decoded(const char* type, const void* at) {
    unsigned short half;
    unsigned int word;
    switch (bytes_of(type)) {
        case 1: return small_float(*(const unsigned char*)at, type[1] == '4' ? 3 : 2);
        case 2: memcpy(&half, at, 2); return widen16(half, type[0] == 'b');
        default: memcpy(&word, at, 4); return same_bits<float>(word & 0xffffe000u);
    }
}

// Row and column of value `v` (of 4 registers) that a lane holds of 16 rows of A; `per` values in a register.
void place_in_a(int lane, int v, int per, int& row, int& column) {
    const int reg = v / per;
    row = lane / 4 + 8 * (reg % 2), column = lane % 4 * per + v % per + 4 * per * (reg / 2);
}

}  // namespace

void mma(const char* type, float* const* d, const unsigned int* a, const unsigned int* b, const float* c) {
    struct Mine { float* const* d; const unsigned int *a, *b; const float* c; } mine{d, a, b, c};
    together("mma", 0xffffffffu, &mine, [&](void** lanes) {
        const int bytes = bytes_of(type), per = 4 / bytes, k = 8 * per;
        double left[16][16], right[16][8];
        for (int lane = 0; lane < 32; ++lane) {
            const Mine& l = *(Mine*)lanes[lane];
            for (int v = 0; v < 4 * per; ++v) {
                int row, column;
                place_in_a(lane, v, per, row, column);
                left[row][column] = decoded(type, (const char*)l.a + v * bytes);
            }
            for (int v = 0; v < 2 * per; ++v) {
                right[lane % 4 * per + v % per + 4 * per * (v / per)][lane / 4] = decoded(type, (const char*)l.b + v * bytes);
            }
        }
        for (int lane = 0; lane < 32; ++lane) {
            const Mine& l = *(Mine*)lanes[lane];
            for (int i = 0; i < 4; ++i) {
                const int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
                double total = 0;
                for (int j = 0; j < k; ++j) {
                    total += left[row][j] * right[j][column];
                }
                *l.d[i] = (float)(total + l.c[i]);
            }
        }
    });
}

unsigned int tf32(float x) {
    const unsigned int bits = same_bits<unsigned int>(x);
    return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0x1000) & 0xffffe000;
}

// ---- tensor cores of a warpgroup

namespace {

// `rows` of an operand in shared memory from row `first` on, as f32.
void operand(const Block& block, const char* type, unsigned long long descriptor, int major, int first, int rows, int k, float* out) {
    const int bytes = bytes_of(type), mode = descriptor >> 62, width = mode == 1 ? 128 : mode == 2 ? 64 : 32, swizzle = mode == 1 ? 3 : mode == 2 ? 2 : 1;
    const size_t start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4;
    if (mode == 0) {
        fail("wgmma", "an operand without a swizzle");
    }
    for (int r = first; r < first + rows; ++r) {
        for (int j = 0; j < k; ++j) {
            const size_t across = (size_t)(major ? r : j) * bytes, down = major ? j : r;
            const size_t at = start + (major ? across / width * leading : 0) + down / 8 * stride + down % 8 * width + (major ? across % width : across);
            check_place(at, bytes, "wgmma");
            *out++ = decoded(type, block.memory + swizzled(at, swizzle));
        }
    }
}

void multiply(const Block& block, const Product& p) {
    const int bytes = bytes_of(p.type), per = 4 / bytes, k = 8 * per;
    std::vector<float> left(64 * k), right(p.n * k);
    if (!p.from_registers) {
        operand(block, p.type, p.a, p.a_major, 0, 64, k, left.data());
    }
    operand(block, p.type, p.b, p.b_major, 0, p.n, k, right.data());
    for (int thread = 0; p.from_registers && thread < 128; ++thread) {
        for (int v = 0; v < 4 * per; ++v) {
            int row, column;
            place_in_a(thread % 32, v, per, row, column);
            left[(thread / 32 * 16 + row) * k + column] = decoded(p.type, (const char*)p.registers[thread / 32][thread % 32] + v * bytes);
        }
    }
    for (int thread = 0; thread < 128; ++thread) {
        const int lane = thread % 32;
        void* accumulators = p.d[thread / 32][lane];
        for (int i = 0; i < p.n / 2; ++i) {
            const int row = thread / 32 * 16 + lane / 4 + 8 * (i / 2 % 2), column = i / 4 * 8 + lane % 4 * 2 + i % 2;
            double total = 0;
            for (int j = 0; j < k; ++j) {
                total += (double)left[row * k + j] * right[column * k + j];
            }
            if (p.wide) {
                float& d = ((float*)accumulators)[i];
                d = (float)(total + (p.keep ? d : 0.0f));
            } else {
                __half& d = ((__half*)accumulators)[i];
                d = __half::of(total + (p.keep ? (float)d : 0.0f));
            }
        }
    }
}

Warpgroup& this_warpgroup() { return m.now->block->warpgroups[m.now->thread / 128]; }

// Whether the first so many products have happened, or could.
bool happens(Warpgroup& g, long long upto) {
    while (g.happened < upto && g.products.front().warps == 4) {
        multiply(*m.now->block, g.products.front());
        g.products.pop_front();
        ++g.happened;
    }
    return g.happened >= upto;
}

}  // namespace

void wgmma(const char* type, int n, void* d, bool wide, const unsigned int* registers, unsigned long long a, unsigned long long b, bool keep, int a_major, int b_major) {
    struct Mine { void* d; const unsigned int* registers; unsigned long long a, b; bool keep; } mine{d, registers, a, b, keep};
    together("wgmma", 0xffffffffu, &mine, [&](void** lanes) {
        Warpgroup& g = this_warpgroup();
        Warp& warp = this_warp();
        const int number = m.now->thread / 32 % 4;
        const long long which = warp.asked++ - g.happened;
        if (which == (long long)g.products.size()) {
            g.products.push_back(Product{type, n, a_major, b_major, wide, registers != nullptr, keep, a, b, {}, {}, 0});
        }
        Product& p = g.products[which];
        ++p.warps;
        if (strcmp(p.type, type) || p.n != n || p.wide != wide || p.a_major != a_major || p.b_major != b_major) {
            fail("wgmma", "warps of a warpgroup ask for different products");
        }
        for (int lane = 0; lane < 32; ++lane) {
            const Mine& l = *(Mine*)lanes[lane];
            if (l.a != p.a || l.b != p.b || l.keep != p.keep) {
                fail("wgmma", "threads of a warpgroup give different descriptors");
            }
            p.d[number][lane] = l.d;
            if (registers) {
                memcpy(p.registers[number][lane], l.registers, sizeof p.registers[number][lane]);
            }
        }
        if (p.warps == 4) {
            if (!m.lazy) {
                happens(g, g.happened + which + 1);
            }
            wake(*m.now->block, "a warp that has not asked for its part of a product", m.now->thread / 128);
        }
    });
}

void wgmma_commit() {
    together("wgmma.commit_group", 0xffffffffu, nullptr, [](void**) { this_warp().closed.push_back(this_warp().asked); });
}

void wgmma_wait(int younger) {
    together("wgmma.wait_group", 0xffffffffu, nullptr, [&](void**) {
        Warp& warp = this_warp();
        while ((int)warp.closed.size() > younger) {
            warp.awaited = warp.closed.front();
            warp.closed.pop_front();
        }
    });
    while (!happens(this_warpgroup(), this_warp().awaited)) {
        wait_for("a warp that has not asked for its part of a product", m.now->thread / 128);
    }
}

// ---- 16-bit floats

float widen_half(unsigned short bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float size = exponent == 31 ? (mantissa ? __builtin_nanf("") : __builtin_inff())
                     : exponent ? __builtin_ldexpf(1024 + mantissa, exponent - 25) : __builtin_ldexpf(mantissa, -24);
    return bits & 0x8000 ? -size : size;
}

unsigned short narrow16(double exact, int is_bf16) {
    const int mantissa_bits = is_bf16 ? 7 : 10, bias = is_bf16 ? 127 : 15, top = is_bf16 ? 255 : 31;
    const unsigned short sign = __builtin_signbit(exact) ? 0x8000 : 0;
    if (exact != exact) {
        return 0x7fff;
    }
    const double size = __builtin_fabs(exact);
    if (size == 0) {
        return sign;
    }
    int exponent;
    if (__builtin_isinf(size)) {
        return sign | top << mantissa_bits;
    }
    __builtin_frexp(size, &exponent);
    const int step = (exponent - 1 < 1 - bias ? 1 - bias : exponent - 1) - mantissa_bits;  // of the last bit
    const double steps = __builtin_rint(__builtin_ldexp(size, -step));
    const long long whole = (long long)steps + ((long long)(step + mantissa_bits + bias - 1) << mantissa_bits);  // the hidden bit adds one to the exponent
    return sign | (whole >= (long long)top << mantissa_bits ? top << mantissa_bits : whole);
}

namespace {

// As a double whose last bit says whether something was lost: rounding it again rounds once.
double odd(unsigned long long size) {
    int shift = 0;
    bool lost = false;
    while (size >> 53) {
        lost |= size & 1, size >>= 1, ++shift;
    }
    return __builtin_ldexp((double)(size | lost), shift);
}

}  // namespace

unsigned short narrow16(long long exact, int is_bf16) {
    return narrow16(exact < 0 ? -odd(0ull - (unsigned long long)exact) : odd(exact), is_bf16);
}

unsigned short narrow16(unsigned long long exact, int is_bf16) { return narrow16(odd(exact), is_bf16); }

unsigned short fma16(unsigned short a, unsigned short b, unsigned short c, int is_bf16) {
    const double product = (double)widen16(a, is_bf16) * widen16(b, is_bf16), addend = widen16(c, is_bf16);  // exact
    double sum = product + addend;
    if (__builtin_isfinite(sum) && sum != 0) {
        const double back = sum - product, lost = (product - (sum - back)) + (addend - back);
        long long bits = same_bits<long long>(sum);
        if (lost != 0 && !(bits & 1)) {
            bits += (lost > 0) == (sum > 0) ? 1 : -1;
            sum = same_bits<double>(bits);
        }
    }
    return narrow16(sum, is_bf16);
}

}  // namespace snap_host

// 0, or 1 with what went wrong.
extern "C" int snap_host_launch(const Launch* launch, char* message, int size) {
    using namespace snap_host;
    static bool prepared = false;
    if (!prepared) {
        prepared = true;
        stack_t other{};
        other.ss_size = 1 << 16;
        other.ss_sp = mmap(nullptr, other.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        sigaltstack(&other, nullptr);
    }
    m.launch = *launch;
    m.random.seed(launch->seed);
    m.lazy = launch->seed % 2;
    m.now = nullptr;
    m.thread = pthread_self();
    blockDim = {(unsigned int)launch->threads, 1, 1}, gridDim = {(unsigned int)launch->blocks, 1, 1};
    struct sigaction ours{}, theirs[5];
    ours.sa_sigaction = on_signal;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < 5; ++i) {
        sigaction(SIGNALS[i], &ours, &theirs[i]);
    }
    itimerval limit{{0, 0}, {launch->limit_ms / 1000, launch->limit_ms % 1000 * 1000}}, before, off{};
    setitimer(ITIMER_VIRTUAL, &limit, &before);
    m.running = true;
    const int failed = sigsetjmp(m.out, 1);
    if (!failed) {
        schedule();
    }
    m.running = false;
    setitimer(ITIMER_VIRTUAL, &off, nullptr);
    for (int i = 0; i < 5; ++i) {
        sigaction(SIGNALS[i], &theirs[i], nullptr);
    }
    for (auto& g : m.groups) {
        m.windows.push_back(g->memory);
        for (Block& block : g->blocks) {
            for (Fiber& f : block.fibers) {
                m.stacks.push_back(f.stack);
            }
        }
    }
    // Windows are of one size each launch.
    for (unsigned char* memory : m.windows) {
        munmap(memory, WINDOW * launch->cluster);
    }
    m.windows.clear(), m.groups.clear(), m.ready.clear(), m.loads.clear();
    if (failed) {
        snprintf(message, size, "%s: %s", m.kind, m.message);
    }
    return failed;
}
