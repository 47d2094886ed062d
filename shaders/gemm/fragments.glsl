// Matrices as 16-byte vectors: a lane's components in the order in which the device numbers them. Which rows and columns
// those are is the device's affair; gemm_packed.comp takes up what gemm_pack.comp has put down, with the same types and subgroups.
const uint LEFT_VECTORS = UNIT_M * UNIT_K / VECTOR / WIDTH_OF_SUBGROUP; // of a lane
const uint RIGHT_VECTORS = UNIT_K * UNIT_N / VECTOR / WIDTH_OF_SUBGROUP;

// Two components make a word.
#if IN == BF16
#define WORD_OF(matrix, i) pack32(u16vec2(bfloat16BitsToUintEXT(matrix[i]), bfloat16BitsToUintEXT(matrix[(i) + 1])))
#define SPREAD(matrix, i, word) { u16vec2 two_ = unpack16(word); matrix[i] = uintBitsToBFloat16EXT(two_.x); matrix[(i) + 1] = uintBitsToBFloat16EXT(two_.y); }
#else
#define WORD_OF(matrix, i) packFloat2x16(f16vec2(matrix[i], matrix[(i) + 1]))
#define SPREAD(matrix, i, word) { f16vec2 two_ = unpackFloat2x16(word); matrix[i] = two_.x; matrix[(i) + 1] = two_.y; }
#endif

// Vector `v` of a matrix, and a matrix from its vectors. Of the left operand the two words in the middle change places: so
// lie the registers of NVIDIA's matrix instructions, which then need no moves.
#define LEFT_VECTOR(matrix, v) uvec4( \
    WORD_OF(matrix, (v) * VECTOR), WORD_OF(matrix, (v) * VECTOR + 2 * PACKED), \
    WORD_OF(matrix, (v) * VECTOR + PACKED), WORD_OF(matrix, (v) * VECTOR + 3 * PACKED))
#define RIGHT_VECTOR(matrix, v) uvec4( \
    WORD_OF(matrix, (v) * VECTOR), WORD_OF(matrix, (v) * VECTOR + PACKED), \
    WORD_OF(matrix, (v) * VECTOR + 2 * PACKED), WORD_OF(matrix, (v) * VECTOR + 3 * PACKED))
#define SET_LEFT(matrix, v, vector) { \
    SPREAD(matrix, (v) * VECTOR, (vector).x) SPREAD(matrix, (v) * VECTOR + PACKED, (vector).z) \
    SPREAD(matrix, (v) * VECTOR + 2 * PACKED, (vector).y) SPREAD(matrix, (v) * VECTOR + 3 * PACKED, (vector).w) }
#define SET_RIGHT(matrix, v, vector) { \
    SPREAD(matrix, (v) * VECTOR, (vector).x) SPREAD(matrix, (v) * VECTOR + PACKED, (vector).y) \
    SPREAD(matrix, (v) * VECTOR + 2 * PACKED, (vector).z) SPREAD(matrix, (v) * VECTOR + 3 * PACKED, (vector).w) }
