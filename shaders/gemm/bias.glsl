// The bias of column n; its type is the output's.
Acc load_bias(uint n) {
    uint at = n * p.bias_step;
#if OUT == F16
    return float(PtrF16(p.bias + uint64_t(at) * 2).v);
#elif OUT == BF16
    return uintBitsToFloat(uint(PtrU16(p.bias + uint64_t(at) * 2).v) << 16);
#elif OUT == F32
    return PtrF32(p.bias + uint64_t(at) * 4).v;
#else
    return PtrI32(p.bias + uint64_t(at) * 4).v;
#endif
}
