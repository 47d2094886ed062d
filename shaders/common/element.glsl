// Loads and stores of four elements in register form.
#include "common/convert.glsl"
#include "common/words.glsl"

uint load_raw(uint64_t base, uint type, uint index) {
    uint width = type_bytes(type);
    uint64_t at = base + uint64_t(index) * width;
    if (width == 4u) return PtrU32(at).v;
    if (width == 2u) return uint(PtrU16(at).v);
    return uint(PtrU8(at).v);
}

uvec4 load_gather(uint64_t base, uint type, uvec4 index) {
    return widen(type, uvec4(load_raw(base, type, index.x), load_raw(base, type, index.y),
                             load_raw(base, type, index.z), load_raw(base, type, index.w)));
}

uvec4 load_scalar(uint64_t base, uint type, uint index) {
    return widen(type, uvec4(load_raw(base, type, index)));
}

// Whether four elements from `first` on can move in whole words; 32-bit elements move as one vector.
bool moves_whole(uint64_t base, uint width, uint first, uint count) {
    return count - first >= 4u && (width < 4u || (uint(base) & 15u) == 0u);
}

// Elements `first` to `first + 3`, where those move whole.
uvec4 load_whole(uint64_t base, uint type, uint first) {
    uint width = type_bytes(type);
    uint64_t at = base + uint64_t(first) * width;
    uvec4 raw;
    if (width == 4u) {
        raw = PtrU32x4(at).v;
    } else if (width == 2u) {
        uint a = PtrU32(at).v, b = PtrU32(at + 4).v;
        raw = uvec4(a & 0xffffu, a >> 16, b & 0xffffu, b >> 16);
    } else {
        raw = uvec4(PtrU32(at).v) >> uvec4(0, 8, 16, 24) & 0xffu;
    }
    return widen(type, raw);
}

// Stores elements `first` to `first + 3` below `count`; `first` is a multiple of 4 and `base` of 4.
void store_quad(uint64_t base, uint type, uint first, uint count, uvec4 x) {
    uint width = type_bytes(type);
    uint64_t at = base + uint64_t(first) * width;
    uvec4 raw = narrow(type, x);
    if (!moves_whole(base, width, first, count)) {
        for (uint n = min(count - first, 4u); n > 0u; n--) {
            if (width == 4u) PtrU32(at).v = raw.x;
            else if (width == 2u) PtrU16(at).v = uint16_t(raw.x);
            else PtrU8(at).v = uint8_t(raw.x);
            raw = raw.yzww;
            at += width;
        }
    } else if (width == 4u) {
        PtrU32x4(at).v = raw;
    } else if (width == 2u) {
        raw &= 0xffffu;
        PtrU32(at).v = raw.x | (raw.y << 16);
        PtrU32(at + 4).v = raw.z | (raw.w << 16);
    } else {
        raw = (raw & 0xffu) << uvec4(0, 8, 16, 24);
        PtrU32(at).v = raw.x | raw.y | raw.z | raw.w;
    }
}
