// What transpositions by tiles share: where a tile lies. i runs along the source, j along the output.
struct Dim {
    uint size;
    uint src; // stride in the source, elements
    uint dst; // stride in the output
};
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Dims { Dim at[5]; };
layout(push_constant, scalar) uniform Push {
    uint64_t dst;
    uint64_t src;
    Dims slices;
    uint rank; // of the slices
    uint tiles; // in all
    uint i; // extents
    uint j;
    uint j_src; // stride of j in the source
    uint i_dst; // stride of i in the output
} p;

struct Tile {
    uint i0; // first elements
    uint j0;
    uint src; // where its slice starts, elements
    uint dst;
};

Tile tile_of(uint group, uint edge_i, uint edge_j) {
    uint across = (p.i + edge_i - 1) / edge_i;
    uint down = (p.j + edge_j - 1) / edge_j;
    uint in_slice = group % (across * down);
    uint rest = group / (across * down);
    Tile tile = Tile(in_slice % across * edge_i, in_slice / across * edge_j, 0, 0);
    for (uint d = p.rank; d-- > 0;) {
        Dim dim = p.slices.at[d];
        uint outer = rest / dim.size;
        uint coordinate = rest - outer * dim.size;
        rest = outer;
        tile.src += coordinate * dim.src;
        tile.dst += coordinate * dim.dst;
    }
    return tile;
}
