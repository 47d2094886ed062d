// Elementary functions of FP32 within TOSA's error bounds. Vulkan's own are too inexact or leave special values open.
// Polynomials are least-squares fits; the figure beside each is its largest error relative to the result.

const uint NAN = 0x7fc00000u, INF = 0x7f800000u;

// Subnormals, which a device may take for zero, as numbers with the same floor and ceiling.
vec4 with_visible_subnormals(uvec4 x) {
    uvec4 magnitude = x & 0x7fffffffu;
    bvec4 hidden = lessThan(magnitude - 1u, uvec4(0x007fffffu));
    return uintBitsToFloat(mix(x, (x & 0x80000000u) | 0x3f000000u, hidden));
}

vec4 two_to(ivec4 n) {
    return intBitsToFloat((n + 127) << 23);
}

// 1.7e-9
vec4 exp_accurate(vec4 x) {
    precise vec4 t = clamp(x, vec4(-105.0), vec4(90.0));
    precise vec4 n = roundEven(t * 1.44269504);
    precise vec4 r = t - n * 0.693359375;
    r = r + n * 2.12194440e-4;
    precise vec4 p = 0.0013951717410236597 * r + 0.008369598537683487;
    p = p * r + 0.0416661873459816;
    p = p * r + 0.16666512191295624;
    p = p * r + 0.5;
    p = p * (r * r) + r + 1.0;
    ivec4 whole = ivec4(n);
    ivec4 half_n = whole >> 1;
    p = p * two_to(half_n) * two_to(whole - half_n);
    return mix(p, x, is_nan(floatBitsToUint(x)));
}

// Mantissa in [1, 2) and exponent of a positive finite number, subnormals included.
vec4 split(uvec4 magnitude, out ivec4 exponent) {
    bvec4 tiny = lessThan(magnitude, uvec4(0x00800000u));
    uvec4 bits = mix(magnitude, floatBitsToUint(vec4(magnitude)), tiny);
    exponent = ivec4(bits >> 23) - mix(ivec4(127), ivec4(127 + 149), tiny);
    return uintBitsToFloat((bits & 0x7fffffu) | 0x3f800000u);
}

// 6e-9, and the roundings of the sum
vec4 log_accurate(vec4 x) {
    uvec4 bits = floatBitsToUint(x);
    ivec4 exponent;
    vec4 m = split(bits & 0x7fffffffu, exponent);
    bvec4 upper = greaterThan(m, vec4(1.41421354));
    m = mix(m, m * 0.5, upper);
    exponent += ivec4(upper);
    precise vec4 f = m - 1.0;
    precise vec4 p = -0.07859551906585693 * f + 0.12881620228290558;
    p = p * f - 0.13128763437271118;
    p = p * f + 0.14181196689605713;
    p = p * f - 0.16624553501605988;
    p = p * f + 0.2000228613615036;
    p = p * f - 0.25000810623168945;
    p = p * f + 0.33333316445350647;
    precise vec4 f2 = f * f;
    precise vec4 e = vec4(exponent);
    // The parts of ln 2: the first times any exponent is exact.
    precise vec4 low = p * (f2 * f) + e * -2.12194440e-4;
    low = low - 0.5 * f2;
    precise vec4 r = (f + low) + e * 0.693359375;
    uvec4 y = floatBitsToUint(r);
    y = mix(y, uvec4(INF), equal(bits, uvec4(INF)));
    y = mix(y, uvec4(NAN), greaterThan(bits, uvec4(INF)));
    y = mix(y, uvec4(0xff800000u), equal(bits & 0x7fffffffu, uvec4(0u)));
    return uintBitsToFloat(y);
}

vec4 reciprocal_accurate(vec4 x) {
    uvec4 bits = floatBitsToUint(x);
    uvec4 magnitude = bits & 0x7fffffffu;
    ivec4 e;
    vec4 m = split(magnitude, e);
    precise vec4 y = 1.0 / m;
    precise vec4 d = fma(-m, y, vec4(1.0));
    y = fma(y, d, y);
    // Two factors: 2^-e alone may be out of range.
    ivec4 half_e = e >> 1;
    y = y * two_to(-half_e) * two_to(half_e - e);
    uvec4 r = floatBitsToUint(y);
    r = mix(r, uvec4(INF), equal(magnitude, uvec4(0u)));
    r = mix(r, uvec4(0u), equal(magnitude, uvec4(INF)));
    return uintBitsToFloat(mix(r | (bits & 0x80000000u), bits, is_nan(bits)));
}

vec4 rsqrt_accurate(vec4 x) {
    uvec4 bits = floatBitsToUint(x);
    uvec4 magnitude = bits & 0x7fffffffu;
    ivec4 e;
    vec4 m = split(magnitude, e);
    m = mix(m, m + m, notEqual(e & 1, ivec4(0)));
    precise vec4 y = inversesqrt(m);
    precise vec4 d = fma(-(m * y), y, vec4(1.0));
    y = fma(0.5 * y, d, y) * two_to(-(e >> 1));
    uvec4 r = floatBitsToUint(y);
    r = mix(r, uvec4(0u), equal(bits, uvec4(INF)));
    r = mix(r, uvec4(NAN), greaterThan(bits, uvec4(INF)));
    r = mix(r, uvec4(INF) | bits, equal(magnitude, uvec4(0u)));
    return uintBitsToFloat(r);
}

// Reduced to [-pi/4, pi/4] and the quadrant. TOSA's bounds grow with |x|: from 2^12 on they are wider than [-1, 1], so
// that the reduction need only stay bounded there.
vec4 sine_of(vec4 x, float quadrants) {
    precise vec4 n = roundEven(x * 0.636619747);
    precise vec4 r = x - n * 1.5703125;
    r = r - n * 4.83751296997e-4;
    r = r - n * 7.54978995489e-8;
    r = clamp(r, vec4(-1.0), vec4(1.0));
    vec4 s = r * r;
    vec4 sine = ((-0.00019582954701036215 * s + 0.008332725614309311) * s - 0.166666641831398) * s * r + r;
    vec4 cosine = ((2.455687354085967e-05 * s - 0.0013888394460082054) * s + 0.0416666679084301) * (s * s) - 0.5 * s + 1.0;
    vec4 turn = n + quadrants;
    vec4 quadrant = turn - 4.0 * floor(turn * 0.25);
    bvec4 odd = bvec4(ivec4(quadrant) & 1);
    vec4 y = mix(sine, cosine, odd);
    y = mix(y, -y, greaterThanEqual(quadrant, vec4(2.0)));
    uvec4 special = floatBitsToUint(x) & 0x7f800000u;
    return mix(y, uintBitsToFloat(uvec4(NAN)), equal(special, uvec4(INF)));
}

// 1e-9 below 0.55
vec4 tanh_accurate(vec4 x) {
    vec4 a = min(abs(x), vec4(12.0));
    vec4 s = a * a;
    vec4 p = ((((-0.006282466929405928 * s + 0.021077753975987434) * s - 0.05385385826230049) * s + 0.13332602381706238) * s
        - 0.33333319425582886) * s * a + a;
    vec4 big = 1.0 - 2.0 / (exp_accurate(a + a) + 1.0);
    uvec4 r = floatBitsToUint(mix(p, big, greaterThan(a, vec4(0.55))));
    uvec4 bits = floatBitsToUint(x);
    return uintBitsToFloat(mix(r | (bits & 0x80000000u), bits, is_nan(bits)));
}

vec4 sigmoid_accurate(vec4 x) {
    vec4 e = exp_accurate(-abs(x));
    vec4 r = 1.0 / (1.0 + e);
    r = mix(r, e * r, lessThan(x, vec4(0.0)));
    return mix(r, x, is_nan(floatBitsToUint(x)));
}

// erf(x) / x below 1 (3e-11), -log(1 - erf(x)) above (2.6e-11 of erf)
vec4 erf_accurate(vec4 x) {
    vec4 a = min(abs(x), vec4(4.0));
    vec4 s = a * a;
    precise vec4 p = 1.060116460394056e-06 * s - 1.3914056580688339e-05;
    p = p * s + 0.00011957329843426123;
    p = p * s - 0.0008542702998965979;
    p = p * s + 0.00522378645837307;
    p = p * s - 0.026866134256124496;
    p = p * s + 0.11283791065216064;
    p = p * s - 0.37612637877464294;
    // One product: splitting the constant into 1 and a rest would lose the rest where subnormals are flushed.
    p = (p * s + 1.128379225730896) * a;
    precise vec4 q = 2.2417719947043224e-07 * a + 1.8502547391108237e-05;
    q = q * a - 0.0004219645925331861;
    q = q * a + 0.004138620104640722;
    q = q * a - 0.025070833042263985;
    q = q * a + 0.10823895782232285;
    q = q * a + 0.6333637833595276;
    q = q * a + 1.1295138597488403;
    q = q * a - 0.00017557886894792318;
    vec4 big = 1.0 - exp_accurate(-q);
    uvec4 r = floatBitsToUint(mix(p, big, greaterThan(a, vec4(1.0))));
    uvec4 bits = floatBitsToUint(x);
    // A subnormal's bits are a multiple of 2^-149, and so are those of the result.
    uvec4 magnitude = bits & 0x7fffffffu;
    uvec4 tiny = uvec4(roundEven(vec4(magnitude) * 1.128379225730896));
    r = mix(r, tiny, lessThan(magnitude, uvec4(0x00800000u)));
    return uintBitsToFloat(mix(r | (bits & 0x80000000u), bits, is_nan(bits)));
}

vec4 pow_accurate(vec4 x, vec4 y) {
    return exp_accurate(y * log_accurate(x));
}
