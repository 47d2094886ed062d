// Turns a square of a word's elements: A_WORD words by rows, of which there are places for four, become words by columns.
void turn(inout uint x[4]) {
#if SIZE == 2
    x = uint[](x[0] & 0xffffu | x[1] << 16, x[0] >> 16 | x[1] & 0xffff0000u, 0, 0);
#elif SIZE == 1
    uint even[2];
    uint odd[2];
    [[unroll]] for (uint k = 0; k < 2; k++) {
        even[k] = x[2 * k] & 0x00ff00ffu | x[2 * k + 1] << 8 & 0xff00ff00u;
        odd[k] = x[2 * k] >> 8 & 0x00ff00ffu | x[2 * k + 1] & 0xff00ff00u;
    }
    x[0] = even[0] & 0xffffu | even[1] << 16;
    x[1] = odd[0] & 0xffffu | odd[1] << 16;
    x[2] = even[0] >> 16 | even[1] & 0xffff0000u;
    x[3] = odd[0] >> 16 | odd[1] & 0xffff0000u;
#endif
}
