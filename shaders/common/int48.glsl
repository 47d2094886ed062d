// INT48: six bytes, two-byte aligned.
int64_t load_i48(uint64_t base, uint64_t at) {
    uint64_t address = base + at * 6;
    uint low = uint(PtrU16(address).v) | uint(PtrU16(address + 2).v) << 16;
    return int64_t(PtrI16(address + 4).v) << 32 | int64_t(low);
}

void store_i48(uint64_t base, uint64_t at, int64_t x) {
    uint64_t address = base + at * 6;
    PtrU16(address).v = uint16_t(x);
    PtrU16(address + 2).v = uint16_t(x >> 16);
    PtrU16(address + 4).v = uint16_t(x >> 32);
}
