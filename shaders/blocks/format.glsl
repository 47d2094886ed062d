// Element formats of block-scaled data. A block is 32 values that share a scale, a power of two; all by integers, since drivers
// may flush the small numbers that scales of 2^-127 make.
const uint BLOCK = 32u;
const uint SCALE_NAN = 255u;
const uint F32_NAN = 0x7fc00000u, F32_INFINITY = 0x7f800000u;

layout(constant_id = 0) const uint BITS = 8u; // of a value: 4, 6 or 8
layout(constant_id = 1) const uint FRACTION = 3u; // bits of its fraction
layout(constant_id = 2) const int LEAST = -6; // exponent of the smallest normal number
layout(constant_id = 3) const int MOST = 8; // exponent of the largest number
layout(constant_id = 4) const uint TOP = 126u; // code of the largest number
layout(constant_id = 5) const uint UNDEFINED = 127u; // what the values of a block without a scale are
layout(constant_id = 6) const uint KIND = 0u;
const uint K_E4M3 = 1u; // the code after TOP is NaN
const uint K_E5M2 = 2u; // the code after TOP is infinity, those behind it are NaN
const uint K_FIXED = 3u; // two's complement; otherwise the highest bit is the sign

const uint SIGN = 1u << (BITS - 1u);

// floor(log2(x)) of the magnitude of an FP32 number, which is not 0.
int exponent(uint magnitude) {
    uint field = magnitude >> 23;
    return field > 0u ? int(field) - 127 : findMSB(magnitude) - 149;
}

// A magnitude over 2^scale in the element format, to nearest even; beyond TOP where it is too large.
uint quantize(uint magnitude, int scale) {
    if (magnitude == 0u) return 0u;
    uint field = magnitude >> 23;
    uint significand = (magnitude & 0x7fffffu) | (field > 0u ? 0x800000u : 0u);
    int place = max(int(field), 1) - 150 - scale; // of the significand's last bit
    int reach = max(exponent(magnitude) - scale, LEAST);
    int shift = reach - int(FRACTION) - place;
    uint count = 0u; // of last places of the element format
    if (shift <= 0) {
        count = significand << -shift;
    } else if (shift < 26) {
        count = (significand + (1u << (shift - 1)) - 1u + ((significand >> shift) & 1u)) >> shift;
    }
    // A count that rounds up to the next power of two carries into the exponent.
    return (uint(reach - LEAST) << FRACTION) + count;
}
