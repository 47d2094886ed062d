// What the kernels on matrix units share: the tile of C that a workgroup makes, and its subgroups' parts of that.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 128;
layout(constant_id = 1) const uint TILE_M = 128;
layout(constant_id = 2) const uint TILE_N = 128;
layout(constant_id = 3) const uint SLAB = 32; // k that is staged, or held in registers, at once
layout(constant_id = 4) const uint WARP_M = 64; // a subgroup's part of the tile
layout(constant_id = 5) const uint WARP_N = 64;
layout(constant_id = 6) const uint UNIT_M = 16; // a matrix
layout(constant_id = 7) const uint UNIT_N = 16;
layout(constant_id = 8) const uint UNIT_K = 16;
layout(constant_id = 9) const uint WIDTH_OF_SUBGROUP = 32;
layout(constant_id = 10) const uint BAND = 8; // rows of tiles that workgroups go through before they go on along n

#define Left coopmat<Operand, gl_ScopeSubgroup, UNIT_M, UNIT_K, gl_MatrixUseA>
#define Right coopmat<Operand, gl_ScopeSubgroup, UNIT_K, UNIT_N, gl_MatrixUseB>
#define Sums coopmat<Acc, gl_ScopeSubgroup, UNIT_M, UNIT_N, gl_MatrixUseAccumulator>
const uint NI = WARP_M / UNIT_M;
const uint NJ = WARP_N / UNIT_N;
Sums sums[NI * NJ];

// When sums are stored, a subgroup's matrices of a row lie in shared memory as rows of FP32 or INT32.
const uint OUT_ROW = WARP_N / 4 + 1;
const uint OUT_PART = UNIT_M * OUT_ROW;
const uint STORED = LANES / WIDTH_OF_SUBGROUP * OUT_PART; // vectors

struct Tile {
    uint batch;
    uint split;
    uint m0;
    uint n0;
    uint begin; // of k
    uint end;
    uint warp_m; // of the subgroup's part, in the tile
    uint warp_n;
};

// Finds the workgroup's tile; false where there is none.
bool find_tile(out Tile tile) {
    uint tiles_n = (p.n + TILE_N - 1) / TILE_N;
    uint tiles_m = (p.m + TILE_M - 1) / TILE_M;
    uint64_t group = flat_group();
    if (group >= uint64_t(tiles_n) * tiles_m * p.splits * p.batches) return false;
    uint tiles = tiles_n * tiles_m;
    uint rest = uint(group) / tiles;
    uint serial = uint(group) - rest * tiles;
    tile.split = rest % p.splits;
    tile.batch = rest / p.splits;
    uint first = serial / (BAND * tiles_n) * BAND;
    uint band = min(tiles_m - first, BAND);
    tile.m0 = (first + serial % (BAND * tiles_n) % band) * TILE_M;
    tile.n0 = serial % (BAND * tiles_n) / band * TILE_N;
    tile.begin = tile.split * p.chunk;
    tile.end = min(tile.begin + p.chunk, p.k);
    tile.warp_m = gl_SubgroupID / (TILE_N / WARP_N) * WARP_M;
    tile.warp_n = gl_SubgroupID % (TILE_N / WARP_N) * WARP_N;
    return true;
}
