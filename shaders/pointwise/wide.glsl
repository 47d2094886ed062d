// INT64 beside the types of convert.glsl. Addresses are multiples of 4 only.
const uint T_I64 = 11u;

int64_t load_wide(uint64_t base, uint type, uint index) {
    if (type == T_I64) {
        uint64_t at = base + uint64_t(index) * 8;
        return int64_t(packUint2x32(uvec2(PtrU32(at).v, PtrU32(at + 4).v)));
    }
    uint width = type_bytes(type);
    uint64_t at = base + uint64_t(index) * width;
    uint raw = width == 4u ? PtrU32(at).v : width == 2u ? uint(PtrU16(at).v) : uint(PtrU8(at).v);
    return int64_t(int(widen(type, uvec4(raw)).x));
}

void store_wide(uint64_t base, uint index, int64_t value) {
    uint64_t at = base + uint64_t(index) * 8;
    uvec2 words = unpackUint2x32(uint64_t(value));
    PtrU32(at).v = words.x;
    PtrU32(at + 4).v = words.y;
}
