//! How LOAD_PROGRAM names a TOSA artifact: its format id and target words.

/// Format id of a TOSA FlatBuffer.
pub const FORMAT: u32 = 0x544f_5341;
/// Version of the meaning of the target words.
pub const TARGET_ABI: u32 = 1;
/// TOSA version in the target words: major, minor, patch.
pub const VERSION: [u32; 3] = [1, 0, 0];

/// Profile bit: integer.
pub const PROFILE_INTEGER: u32 = 1;
/// Profile bit: floating point.
pub const PROFILE_FLOAT: u32 = 2;
/// Level without limits.
pub const LEVEL_NONE: u32 = 0;
/// Level 8K.
pub const LEVEL_8K: u32 = 1;

/// Extension bit: INT16.
pub const EXT_INT16: u64 = 1 << 0;
/// Extension bit: INT4.
pub const EXT_INT4: u64 = 1 << 1;
/// Extension bit: BF16.
pub const EXT_BF16: u64 = 1 << 2;
/// Extension bit: FP8E4M3.
pub const EXT_FP8E4M3: u64 = 1 << 3;
/// Extension bit: FP8E5M2.
pub const EXT_FP8E5M2: u64 = 1 << 4;
/// Extension bit: FFT.
pub const EXT_FFT: u64 = 1 << 5;
/// Extension bit: VARIABLE.
pub const EXT_VARIABLE: u64 = 1 << 6;
/// Extension bit: CONTROL_FLOW.
pub const EXT_CONTROL_FLOW: u64 = 1 << 7;
/// Extension bit: DYNAMIC.
pub const EXT_DYNAMIC: u64 = 1 << 8;
/// Extension bit: DOUBLE_ROUND.
pub const EXT_DOUBLE_ROUND: u64 = 1 << 9;
/// Extension bit: INEXACT_ROUND.
pub const EXT_INEXACT_ROUND: u64 = 1 << 10;

const EXT_ALL: u64 = (1 << 11) - 1;
/// Extensions that only the integer profile has.
const EXT_OF_INTEGER: u64 = EXT_INT16 | EXT_INT4 | EXT_DOUBLE_ROUND | EXT_INEXACT_ROUND;
/// Extensions that only the floating-point profile has.
const EXT_OF_FLOAT: u64 = EXT_BF16 | EXT_FP8E4M3 | EXT_FP8E5M2 | EXT_FFT;

/// What a program may need, as its target words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Set of `PROFILE_*`, not empty.
    pub profiles: u32,
    /// One of `LEVEL_*`.
    pub level: u32,
    /// Set of `EXT_*`.
    pub extensions: u64,
}

/// Why target words are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Not the words of a TOSA target.
    #[error("Target word 0 is {0:#010x} and not the TOSA format id.")]
    Format(u32),
    /// Words of another meaning.
    #[error("Target word 1 is {0}; only target ABI 1 is known.")]
    Abi(u32),
    /// Another version of TOSA.
    #[error("The target asks for TOSA {0}.{1}.{2}; declare 1.0.0.")]
    Version(u32, u32, u32),
    /// No or unknown profiles.
    #[error("The target's profile bits are {0:#x}; set bit 0 (integer), bit 1 (floating point) or both.")]
    Profiles(u32),
    /// Unknown level.
    #[error("The target's level is {0}; levels are 0 (none) and 1 (8K).")]
    Level(u32),
    /// Unknown extensions.
    #[error("The target's extension bits {0:#x} have bits that TOSA 1.0 does not define.")]
    Extensions(u64),
    /// An extension without its profile.
    #[error("The target's extension bits {0:#x} need a profile that its profile bits do not name.")]
    ProfileMissing(u64),
    /// Reserved words.
    #[error("Target words 9 to 11 are reserved and not all zero.")]
    Reserved,
}

impl Target {
    /// The twelve target words.
    #[must_use]
    pub const fn words(&self) -> [u32; 12] {
        let [major, minor, patch] = VERSION;
        [
            FORMAT,
            TARGET_ABI,
            major,
            minor,
            patch,
            self.profiles,
            self.level,
            self.extensions as u32,
            (self.extensions >> 32) as u32,
            0,
            0,
            0,
        ]
    }

    /// Reads and checks target words.
    ///
    /// # Errors
    /// The first word that is wrong.
    pub fn from_words(words: &[u32; 12]) -> Result<Self, TargetError> {
        let [format, abi, major, minor, patch, profiles, level, low, high, reserved @ ..] = *words;
        let extensions = u64::from(low) | u64::from(high) << 32;
        if format != FORMAT {
            return Err(TargetError::Format(format));
        }
        if abi != TARGET_ABI {
            return Err(TargetError::Abi(abi));
        }
        if [major, minor, patch] != VERSION {
            return Err(TargetError::Version(major, minor, patch));
        }
        if profiles == 0 || profiles & !(PROFILE_INTEGER | PROFILE_FLOAT) != 0 {
            return Err(TargetError::Profiles(profiles));
        }
        if level > LEVEL_8K {
            return Err(TargetError::Level(level));
        }
        if extensions & !EXT_ALL != 0 {
            return Err(TargetError::Extensions(extensions));
        }
        let integer_missing = profiles & PROFILE_INTEGER == 0 && extensions & EXT_OF_INTEGER != 0;
        let float_missing = profiles & PROFILE_FLOAT == 0 && extensions & EXT_OF_FLOAT != 0;
        if integer_missing || float_missing {
            return Err(TargetError::ProfileMissing(extensions));
        }
        if reserved != [0; 3] {
            return Err(TargetError::Reserved);
        }
        Ok(Self { profiles, level, extensions })
    }
}
