// Threads of a GPU as fibers of one thread of the host, and what they share: barriers, warps, clusters, copies and products in the background.
//
// All blocks of a cluster (of a cooperative launch: all blocks) run together, others one after another; where those that run only spin, the next ones
// begin.  Seed 0: fibers run in order, and work in the background is done at once.  Other seeds: fibers in an order drawn from the seed, and work in
// the background as late as a wait allows, or at a moment drawn from the seed.  A fiber runs until it must wait, or meets an atomic or a strong load.
#include "host_copies.h"
#include "host_numbers.h"
#include "host_tensor.h"

namespace snap_host {
namespace {

void schedule() {
    m.next = 0, m.spins = 0, m.turns = 0;
    while (true) {
        while (!m.groups.empty() && m.groups.front()->running == 0 && m.loads.empty() && m.arrivals.empty()) {
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
        if (!m.arrivals.empty() && (m.ready.empty() || chance(8))) {
            m.now = nullptr;
            perform_arrival(m.random() % m.arrivals.size());
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
    m.windows.clear(), m.groups.clear(), m.ready.clear(), m.loads.clear(), m.arrivals.clear();
    if (failed) {
        snprintf(message, size, "%s: %s", m.kind, m.message);
    }
    return failed;
}
