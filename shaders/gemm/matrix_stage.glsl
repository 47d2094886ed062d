// Staging for matrix kernels: 16-byte vectors of what matrices hold, from operands of any alignment. A vector is VECTOR
// neighbours along the direction in which the operand lies in memory.
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer PtrVector16 { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer PtrVector8 { uvec2 v; };

#if IN == BF16
#define Operand bfloat16_t
#elif IN == I8
#define Operand int8_t
#else
#define Operand float16_t
#endif

#if IN == I8
const uint VECTOR = 16; // elements of 8 bits
#else
const uint VECTOR = 8; // of 16 bits
#endif
const uint PACKED = VECTOR / 4; // elements of a word
const uint WIDTH = 32 / PACKED; // bits of an element

#if IN == E4M3
// Two E4M3, in the upper halves' bytes of a word, as FP16. A subnormal's bits as a normal number's fraction are 2^-7 and
// half its value.
uint decode_pair(uint x) {
    uint magnitude = ((x & 0x7f007f00u) >> 1) + 0x20002000u;
    f16vec2 normal = unpackFloat2x16(magnitude);
    f16vec2 small = fma(normal, f16vec2(2.0hf), f16vec2(-0.015625hf));
    f16vec2 value = mix(normal, small, lessThan(normal, f16vec2(0.015625hf)));
    value = mix(value, unpackFloat2x16(0x7e007e00u), equal(normal, f16vec2(480.0hf)));
    return packFloat2x16(value) | (x & 0x80008000u);
}
#elif IN == E5M2
uint decode_pair(uint x) {
    return x & 0xff00ff00u;
}
#endif

#if IN == E4M3 || IN == E5M2
const uint SOURCE_BYTES = 8; // of a vector in memory
// Four FP8 as four FP16.
uvec2 decode(uint x) {
    uint even = decode_pair(x << 8), odd = decode_pair(x);
    return uvec2((even & 0xffffu) | (odd << 16), (even >> 16) | (odd & 0xffff0000u));
}
uvec4 load_vector(uint64_t address) {
    uvec2 x = PtrVector8(address).v;
    return uvec4(decode(x.x), decode(x.y));
}
uint load_bits(uint64_t address) {
    return decode(uint(PtrU8(address).v)).x & 0xffffu;
}
#else
const uint SOURCE_BYTES = 16;
uvec4 load_vector(uint64_t address) {
    return PtrVector16(address).v;
}
uint load_bits(uint64_t address) {
#if IN == I8
    return uint(PtrU8(address).v);
#else
    return uint(PtrU16(address).v);
#endif
}
#endif

// Whether vectors that start at multiples of VECTOR in rows of `step` elements lie aligned.
bool lies_aligned(uint64_t base, uint step) {
    return step % VECTOR == 0 && (uint(base) & (SOURCE_BYTES - 1)) == 0;
}

// Puts an element's bits in place `i` of a vector.
void put(inout uvec4 vector, uint i, uint bits) {
    vector[i / PACKED] |= bits << (i % PACKED * WIDTH);
}
