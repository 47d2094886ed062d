// Repeats statements for i = 0, 1, ... below `count`, a specialization constant, with i a literal. Drivers keep an array in registers
// where all its indices are literals; whether they unroll a loop in time for that depends on its size.
#define REPEAT2(i, count, body) \
    { const uint i = 0u; body } if (1u < (count)) { const uint i = 1u; body }
#define REPEAT4(i, count, body) \
    { const uint i = 0u; body } if (1u < (count)) { const uint i = 1u; body } \
    if (2u < (count)) { const uint i = 2u; body } if (3u < (count)) { const uint i = 3u; body }
#define REPEAT8(i, count, body) \
    { const uint i = 0u; body } if (1u < (count)) { const uint i = 1u; body } \
    if (2u < (count)) { const uint i = 2u; body } if (3u < (count)) { const uint i = 3u; body } \
    if (4u < (count)) { const uint i = 4u; body } if (5u < (count)) { const uint i = 5u; body } \
    if (6u < (count)) { const uint i = 6u; body } if (7u < (count)) { const uint i = 7u; body }
#define REPEAT16(i, count, body) \
    REPEAT8(i, count, body) \
    if (8u < (count)) { const uint i = 8u; body } if (9u < (count)) { const uint i = 9u; body } \
    if (10u < (count)) { const uint i = 10u; body } if (11u < (count)) { const uint i = 11u; body } \
    if (12u < (count)) { const uint i = 12u; body } if (13u < (count)) { const uint i = 13u; body } \
    if (14u < (count)) { const uint i = 14u; body } if (15u < (count)) { const uint i = 15u; body }
