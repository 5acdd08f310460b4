// Copies in the background: of single elements, and of boxes by tensor maps.
#pragma once

#include "host_barriers.h"

namespace snap_host {
namespace {

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

}  // namespace

// ---- copies in the background

namespace {

void perform(const Copy& copy) {
    memcpy(copy.to, copy.from, copy.read);
    memset(copy.to + copy.read, 0, copy.bytes - copy.read);
}

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

void perform_arrival(size_t which) {
    const CopyArrival arrival = std::move(m.arrivals[which]);
    m.arrivals.erase(m.arrivals.begin() + which);
    for (const Copy& copy : arrival.copies) {
        perform(copy);
    }
    complete_bytes(*arrival.block, arrival.barrier, 0, 1);
}

}  // namespace

void copy_async(unsigned int to, const void* from, int bytes, int read) {  // the rest of the bytes become zero
    if (to % bytes || (size_t)from % bytes) {
        fail("misaligned", "a copy of %d bytes from %p to %u", bytes, from, to);
    }
    const Copy copy{place_of(to, bytes, "a copy"), from, bytes, read};
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

// Arrivals keep the copies they wait for; the groups of these stay, empty, for the counts of waits.
void copy_arrive(unsigned int at) {
    if (&block_of(at) != m.now->block) {
        fail("mbarrier", "copies arrive in another block");
    }
    CopyArrival arrival{m.now, m.now->block, (unsigned int)(at % WINDOW), {}};
    if (m.lazy) {
        Groups<Copy>& groups = m.now->behind().copies;
        for (std::vector<Copy>& group : groups.closed) {
            arrival.copies.insert(arrival.copies.end(), group.begin(), group.end());
            group.clear();
        }
        arrival.copies.insert(arrival.copies.end(), groups.open.begin(), groups.open.end());
        groups.open.clear();
    }
    m.arrivals.push_back(std::move(arrival));
    if (!m.lazy) {
        perform_arrival(m.arrivals.size() - 1);
    }
}

void copy_wait(int younger) {
    if (m.lazy) {
        for (size_t i = m.arrivals.size(); i-- > 0;) {
            if (m.arrivals[i].fiber == m.now) {
                perform_arrival(i);
            }
        }
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

}  // namespace snap_host
