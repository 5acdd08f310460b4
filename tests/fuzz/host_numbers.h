// 16-bit floats from what is exact, rounded once.
#pragma once

#include "host_cuda.h"

namespace snap_host {

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
