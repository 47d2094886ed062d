// Loads and stores of four elements in register form.
#include "common/convert.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer PtrU32x4 { uvec4 v; };

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

// Elements `first` to `first + 3`; `first` is a multiple of 4 and `base` of 4. Elements from `count` on repeat the last.
uvec4 load_quad(uint64_t base, uint type, uint first, uint count) {
    if (count - first < 4u) return load_gather(base, type, min(first + uvec4(0, 1, 2, 3), uvec4(count - 1u)));
    uint width = type_bytes(type);
    uint64_t at = base + uint64_t(first) * width;
    uvec4 raw;
    if (width == 4u) {
        if ((uint(base) & 15u) == 0u) raw = PtrU32x4(at).v;
        else raw = uvec4(PtrU32(at).v, PtrU32(at + 4).v, PtrU32(at + 8).v, PtrU32(at + 12).v);
    } else if (width == 2u) {
        uint a = PtrU32(at).v, b = PtrU32(at + 4).v;
        raw = uvec4(a & 0xffffu, a >> 16, b & 0xffffu, b >> 16);
    } else {
        uint a = PtrU32(at).v;
        raw = uvec4(a & 0xffu, (a >> 8) & 0xffu, (a >> 16) & 0xffu, a >> 24);
    }
    return widen(type, raw);
}

// Stores elements `first` to `first + 3` below `count`; `first` is a multiple of 4 and `base` of 4.
void store_quad(uint64_t base, uint type, uint first, uint count, uvec4 x) {
    uint width = type_bytes(type);
    uint64_t at = base + uint64_t(first) * width;
    uvec4 raw = narrow(type, x);
    uint n = min(count - first, 4u);
    if (n < 4u) {
        for (uint i = 0u; i < n; i++) {
            if (width == 4u) PtrU32(at + i * 4u).v = raw.x;
            else if (width == 2u) PtrU16(at + i * 2u).v = uint16_t(raw.x);
            else PtrU8(at + i).v = uint8_t(raw.x);
            raw = raw.yzww;
        }
    } else if (width == 4u) {
        if ((uint(base) & 15u) == 0u) {
            PtrU32x4(at).v = raw;
        } else {
            PtrU32(at).v = raw.x;
            PtrU32(at + 4).v = raw.y;
            PtrU32(at + 8).v = raw.z;
            PtrU32(at + 12).v = raw.w;
        }
    } else if (width == 2u) {
        raw &= 0xffffu;
        PtrU32(at).v = raw.x | (raw.y << 16);
        PtrU32(at + 4).v = raw.z | (raw.w << 16);
    } else {
        raw &= 0xffu;
        PtrU32(at).v = raw.x | (raw.y << 8) | (raw.z << 16) | (raw.w << 24);
    }
}
