//! The geometry of windows, which all convolutions share: axes, and the taps of a window in the order of the weights.

/// Most taps of a window whose places are kept in a table.
const MOST_TAPS: u64 = 1 << 12;
/// Bits of a mask of places; an axis with this one has none.
const NO_BIT: u32 = 32;

/// A spatial axis, as `Axis` of `shaders/conv/axis.glsl`: output o meets the input at `o * stride - pad + tap * dilation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    /// Extent of the input.
    pub input: u32,
    /// Extent of the output.
    pub output: u32,
    /// Taps.
    pub kernel: u32,
    pub stride: u32,
    /// Negative where the first tap meets the last element.
    pub dilation: i32,
    pub pad: i32,
}

impl Axis {
    /// An axis of extent 1.
    pub const FLAT: Self = Self { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, pad: 0 };

    /// Words of the shader's struct.
    pub fn words(&self, bit: u32) -> [u32; 7] {
        let Self { input, output, kernel, stride, dilation, pad } = *self;
        [input, output, kernel, stride, dilation as u32, pad as u32, bit]
    }

    /// Whether some tap of some output lies outside the input.
    fn leaves(&self) -> bool {
        let reach = i64::from(self.kernel - 1) * i64::from(self.dilation);
        let first = -i64::from(self.pad);
        let last = i64::from(self.output - 1) * i64::from(self.stride) + first;
        first + reach.min(0) < 0 || last + reach.max(0) >= i64::from(self.input)
    }
}

/// Where the outputs of a phase of a transposed convolution lie: rows and columns of the whole output, from one output of the phase to
/// the next, and of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    pub full: [u32; 2],
    pub step: [u32; 2],
    pub first: [u32; 2],
}

/// The windows of an image or a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// Depth, height, width.
    pub axes: [Axis; 3],
    /// Input channels.
    pub channels: u32,
    pub spread: Option<Spread>,
}

impl Windows {
    /// The last `N` axes; extents are theirs, and padding has two numbers an axis, of which the first counts.
    pub fn new<const N: usize>(
        [input, kernel, output]: [[u32; N]; 3],
        channels: u32,
        pad: &[u32],
        stride: &[u32],
        dilation: &[u32],
    ) -> Self {
        let mut axes = [Axis::FLAT; 3];
        for (at, axis) in axes[3 - N..].iter_mut().enumerate() {
            *axis = Axis {
                input: input[at],
                output: output[at],
                kernel: kernel[at],
                stride: stride[at],
                dilation: dilation[at] as i32,
                pad: pad[2 * at] as i32,
            };
        }
        Self { axes, channels, spread: None }
    }

    /// Taps of a window.
    pub fn taps(&self) -> u64 {
        self.axes.iter().map(|axis| u64::from(axis.kernel)).product()
    }

    /// Outputs of an image.
    pub fn outputs(&self) -> u32 {
        self.axes.iter().map(|axis| axis.output).product()
    }

    /// Whether the windows are the elements, one after the other.
    pub fn are_elements(&self) -> bool {
        self.spread.is_none()
            && self.axes.iter().all(|axis| {
                axis.kernel == 1 && axis.stride == 1 && !axis.leaves() && axis.input == axis.output
            })
    }

    /// First bits of the axes in a mask of places, each tap having one where its axis leaves the input; `None` where those are too
    /// many, or the taps.
    fn bits(&self) -> Option<[u32; 3]> {
        let mut next = 0;
        let bits = self.axes.map(|axis| {
            let bit = if axis.leaves() { next } else { NO_BIT };
            next = if axis.leaves() { axis.kernel.saturating_add(next) } else { next };
            bit
        });
        (next <= 32 && self.taps() <= MOST_TAPS).then_some(bits)
    }

    /// Whether the kernels of products can address these windows.
    pub fn are_addressable(&self) -> bool {
        self.bits().is_some()
    }

    /// The block that `shaders/gemm/windows.glsl` describes. `padding` is what stands for an element outside, repeated to a word.
    pub fn words(&self, padding: u32) -> Option<Vec<u32>> {
        let bits = self.bits()?;
        let mut words: Vec<u32> =
            self.axes.iter().zip(bits).flat_map(|(axis, bit)| axis.words(bit)).collect();
        let Spread { full, step, first } =
            self.spread.unwrap_or(Spread { full: [0; 2], step: [0; 2], first: [0; 2] });
        words.extend([full, step, first].as_flattened());
        words.push(0);
        words.extend([padding; 4]);
        let [z, y, x] = self.axes;
        let place = |axis: Axis, tap: u32| (tap as i32).wrapping_mul(axis.dilation);
        let mask = |axis: usize, tap: u32| if bits[axis] < NO_BIT { 1 << (bits[axis] + tap) } else { 0 };
        for (kz, ky) in (0..z.kernel).flat_map(|kz| (0..y.kernel).map(move |ky| (kz, ky))) {
            for kx in 0..x.kernel {
                let row = place(z, kz).wrapping_mul(y.input as i32).wrapping_add(place(y, ky));
                let pixel = row.wrapping_mul(x.input as i32).wrapping_add(place(x, kx));
                words.push(pixel.wrapping_mul(self.channels as i32) as u32);
                words.push(mask(0, kz) | mask(1, ky) | mask(2, kx));
            }
        }
        // Kernels may read one tap more.
        words.extend([0; 2]);
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXIS: Axis = Axis { input: 9, output: 9, kernel: 3, stride: 1, dilation: 1, pad: 1 };

    fn windows(axes: [Axis; 3]) -> Windows {
        Windows { axes, channels: 4, spread: None }
    }

    #[test]
    fn taps_are_in_the_order_of_the_weights() {
        let words = windows([Axis::FLAT, AXIS, AXIS]).words(7).unwrap();
        assert_eq!(words[28..32], [7; 4]);
        assert_eq!(words[32..].len(), 2 * 9 + 2);
        let offsets: Vec<u32> = words[32..50].iter().step_by(2).copied().collect();
        assert_eq!(offsets, [0, 4, 8, 36, 40, 44, 72, 76, 80]);
        // Rows have the bits 0 to 2, columns 3 to 5.
        assert_eq!(words[33], 0b001_001);
        assert_eq!(words[49], 0b100_100);
    }

    #[test]
    fn only_axes_that_leave_the_input_take_bits() {
        let inner = Axis { output: 7, pad: 0, ..AXIS };
        assert!(!inner.leaves());
        let long = Axis { input: 1000, output: 1, kernel: 1000, pad: 0, ..AXIS };
        assert!(windows([Axis::FLAT, inner, long]).are_addressable());
        let padded = Axis { input: 50, output: 50, kernel: 33, pad: 16, ..AXIS };
        assert!(!windows([Axis::FLAT, inner, padded]).are_addressable());
        let reversed = Axis { dilation: -1, pad: 0, ..AXIS };
        assert!(reversed.leaves());
    }
}
