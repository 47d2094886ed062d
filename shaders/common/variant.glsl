// Kernels with a variant for each element type: IN and OUT are one of these numbers, and Acc is what sums are kept in.
#include "common/convert.glsl"
#define F32 0
#define F16 1
#define BF16 2
#define I8 3
#define I32 4
#define E4M3 5
#define E5M2 6
#define I16 7

#if defined(IN)
#if IN == F32
#define IN_BYTES 4
#define IN_TYPE T_F32
#define Acc float
#define Acc4 vec4
Acc load_in(uint64_t base, uint64_t at) { return PtrF32(base + at * 4).v; }
#elif IN == F16
#define IN_BYTES 2
#define IN_TYPE T_F16
#define Acc float
#define Acc4 vec4
Acc load_in(uint64_t base, uint64_t at) { return float(PtrF16(base + at * 2).v); }
#elif IN == BF16
#define IN_BYTES 2
#define IN_TYPE T_BF16
#define Acc float
#define Acc4 vec4
Acc load_in(uint64_t base, uint64_t at) { return uintBitsToFloat(uint(PtrU16(base + at * 2).v) << 16); }
#elif IN == I8
#define IN_BYTES 1
#define IN_TYPE T_I8
#define Acc int
#define Acc4 ivec4
Acc load_in(uint64_t base, uint64_t at) { return int(PtrI8(base + at).v); }
#elif IN == I16
#define IN_BYTES 2
#define IN_TYPE T_I16
#define Acc int
#define Acc4 ivec4
Acc load_in(uint64_t base, uint64_t at) { return int(PtrI16(base + at * 2).v); }
#elif IN == E4M3 || IN == E5M2
#define IN_BYTES 1
#define IN_TYPE (IN == E4M3 ? T_E4M3 : T_E5M2)
#define Acc float
#define Acc4 vec4
Acc load_in(uint64_t base, uint64_t at) {
    return uintBitsToFloat(widen(IN_TYPE, uvec4(PtrU8(base + at).v)).x);
}
#endif
#endif

#if defined(OUT)
#if OUT == F32
#define OUT_BYTES 4
#define OUT_TYPE T_F32
uint out_bits(float x) { return floatBitsToUint(x); }
#elif OUT == F16
#define OUT_BYTES 2
#define OUT_TYPE T_F16
uint out_bits(float x) { return f16_bits(uvec4(floatBitsToUint(x))).x; }
#elif OUT == BF16
#define OUT_BYTES 2
#define OUT_TYPE T_BF16
uint out_bits(float x) { return bf16_bits(uvec4(floatBitsToUint(x))).x & 0xffffu; }
#elif OUT == I8
#define OUT_BYTES 1
#define OUT_TYPE T_I8
uint out_bits(int x) { return uint(x) & 0xffu; }
#elif OUT == I16
#define OUT_BYTES 2
#define OUT_TYPE T_I16
uint out_bits(int x) { return uint(x) & 0xffffu; }
#elif OUT == E4M3 || OUT == E5M2
#define OUT_BYTES 1
#define OUT_TYPE (OUT == E4M3 ? T_E4M3 : T_E5M2)
uint out_bits(float x) { return narrow(OUT_TYPE, uvec4(floatBitsToUint(x))).x & 0xffu; }
#elif OUT == I32
#define OUT_BYTES 4
#define OUT_TYPE T_I32
uint out_bits(int x) { return uint(x); }
#endif
#define OUT_A_WORD (4 / OUT_BYTES)
void store_element(uint64_t base, uint64_t at, uint bits) {
#if OUT_BYTES == 4
    PtrU32(base + at * 4).v = bits;
#elif OUT_BYTES == 2
    PtrU16(base + at * 2).v = uint16_t(bits);
#else
    PtrU8(base + at).v = uint8_t(bits);
#endif
}
#endif

// Sums in register form.
uvec4 to_register(vec4 x) { return floatBitsToUint(x); }
uvec4 to_register(ivec4 x) { return uvec4(x); }

// n / d for n < 2^31, d >= 2; the host makes magic and shift of d.
uint divide(uint n, uint magic, uint shift) {
    uint high, low;
    umulExtended(n, magic, high, low);
    return high >> shift;
}
