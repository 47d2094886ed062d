// Greatest and least numbers of FP16 and INT8 in pairs, as halves: two comparisons an instruction. INT8 becomes halves from 1 on
// whose lowest byte it is.
spirv_instruction(set = "GLSL.std.450", id = 80) f16vec2 max_number(f16vec2 x, f16vec2 y);

const bool GREATEST = CODE == S_MAX_F || CODE == S_MAX_F_IGNORE || CODE == S_MAX_I;
const uint OF_BYTE = 0x3c803c80u; // the sign turned, so that bytes order as their halves do

struct Packed {
    uvec4 even; // of a vector of INT8 bytes 0 and 2 of each word; or words of FP16
    uvec4 odd;
    uvec4 nans; // highest bits of the halves that were NaN
};

Packed nothing_packed() {
    uint first = INPUT == T_F16 ? (GREATEST ? 0xfc00fc00u : 0x7c007c00u) : (GREATEST ? 0x3c003c00u : 0x3cff3cffu);
    return Packed(uvec4(first), uvec4(first), uvec4(0u));
}

uint better_pair(uint a, uint b) {
    f16vec2 x = unpackFloat2x16(a), y = unpackFloat2x16(b);
    return packFloat2x16(GREATEST ? max_number(x, y) : min_number(x, y));
}

void take_packed(inout Packed s, uvec4 words) {
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        if (INPUT == T_F16) {
            s.even[i] = better_pair(s.even[i], words[i]);
            if (CODE == S_MAX_F || CODE == S_MIN_F) s.nans[i] |= (words[i] & 0x7fff7fffu) + 0x03ff03ffu & 0x80008000u;
        } else {
            s.even[i] = better_pair(s.even[i], words[i] & 0x00ff00ffu ^ OF_BYTE);
            s.odd[i] = better_pair(s.odd[i], words[i] >> 8 & 0x00ff00ffu ^ OF_BYTE);
        }
    }
}

// As a vector of the elements' type.
uvec4 unpacked(Packed s) {
    if (INPUT == T_F16) return s.even | (s.nans >> 15) * 0xffffu;
    return (s.even ^ OF_BYTE) & 0x00ff00ffu | ((s.odd ^ OF_BYTE) & 0x00ff00ffu) << 8;
}
