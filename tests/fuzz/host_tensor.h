// Tensor cores: fragments and products of a warp and of a warpgroup, with registers laid out as PTX lays them out.
#pragma once

#include "host_barriers.h"

namespace snap_host {

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

double small_float(const char* kind, unsigned int bits) { return small_float((unsigned char)bits, kind[1] == '4' ? 3 : 2); }

unsigned short small_bits(const char* kind, float x) {
    if (x != x) {
        return 127;
    }
    int best = 0;
    const int most = !strcmp(kind, "e5m2") ? 123 : 126;
    const double size = fmin(fabs((double)x), small_float(kind, most));
    for (int b = 1; b <= most; ++b) {
        const double now = fabs(small_float(kind, b) - size), before = fabs(small_float(kind, best) - size);
        best = now < before || (now == before && b % 2 == 0) ? b : best;
    }
    return best | (__builtin_signbit(x) ? 128 : 0);
}

static double packed(const char* kind, const void* words, int at) {
    if (!strcmp(kind, "f64")) {
        return ((const double*)words)[at];
    }
    const int bits = kind[1] == '4' && kind[2] == 0 ? 4 : 8;
    const unsigned int code = ((const unsigned int*)words)[at * bits / 32] >> at * bits % 32 & ((1u << bits) - 1);
    if (kind[0] == 'e') {
        return small_float(kind, code);
    }
    return kind[0] == 's' && code >> (bits - 1) ? (double)code - (1 << bits) : code;
}

void mma_of(const char* left, const char* right, const char* sums, int k, int na, int nb, int nc, bool saturate, void* const* d, const void* a, const void* b, const void* c) {
    struct Mine { void* const* d; const void *a, *b, *c; } mine{d, a, b, c};
    together("mma", 0xffffffffu, &mine, [&](void** lanes) {
        const int w = k / (4 * nb);  // elements a word
        double of_a[16][64], of_b[64][8];
        for (int lane = 0; lane < 32; ++lane) {
            const Mine& l = *(Mine*)lanes[lane];
            const int g = lane / 4, q = lane % 4;
            for (int e = 0; e < na * w; ++e) {
                of_a[g + 8 * (e / w % 2)][q * w + e % w + 4 * w * (e / w / 2)] = packed(left, l.a, e);
            }
            for (int e = 0; e < nb * w; ++e) {
                of_b[q * w + e % w + 4 * w * (e / w)][g] = packed(right, l.b, e);
            }
        }
        for (int lane = 0; lane < 32; ++lane) {
            const Mine& l = *(Mine*)lanes[lane];
            for (int i = 0; i < nc; ++i) {
                const int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
                double total = 0;
                for (int j = 0; j < k; ++j) {
                    total += of_a[row][j] * of_b[j][column];
                }
                if (!strcmp(sums, "f64")) {
                    *(double*)l.d[i] = total + ((const double*)l.c)[i];
                } else if (!strcmp(sums, "f32")) {
                    *(float*)l.d[i] = (float)(total + ((const float*)l.c)[i]);
                } else {
                    const long long exact = (long long)total + ((const int*)l.c)[i];
                    *(int*)l.d[i] = !saturate ? (int)(unsigned int)exact : exact > 2147483647LL ? 2147483647 : exact < -2147483648LL ? (int)-2147483648LL : (int)exact;
                }
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
    operand(block, p.other, p.b, p.b_major, 0, p.n, k, right.data());
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

void wgmma(const char* type, const char* other, int n, void* d, bool wide, const unsigned int* registers, unsigned long long a, unsigned long long b, bool keep, int a_major, int b_major) {
    struct Mine { void* d; const unsigned int* registers; unsigned long long a, b; bool keep; } mine{d, registers, a, b, keep};
    together("wgmma", 0xffffffffu, &mine, [&](void** lanes) {
        Warpgroup& g = this_warpgroup();
        Warp& warp = this_warp();
        const int number = m.now->thread / 32 % 4;
        const long long which = warp.asked++ - g.happened;
        if (which == (long long)g.products.size()) {
            g.products.push_back(Product{type, other, n, a_major, b_major, wide, registers != nullptr, keep, a, b, {}, {}, 0});
        }
        Product& p = g.products[which];
        ++p.warps;
        if (strcmp(p.type, type) || strcmp(p.other, other) || p.n != n || p.wide != wide || p.a_major != a_major || p.b_major != b_major) {
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

}  // namespace snap_host
