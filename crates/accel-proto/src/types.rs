//! Enumerations and bit sets that payloads carry as integers.

/// Declares a set of bits on the wire.
macro_rules! bit_set {
    ($(#[$meta:meta])* $name:ident: $int:ty { $($(#[$bit_meta:meta])* $bit:ident = $position:expr,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name($int);

        impl $name {
            /// The empty set.
            pub const NONE: Self = Self(0);
            $($(#[$bit_meta])* pub const $bit: Self = Self(1 << $position);)*
            /// Every bit known to this crate.
            pub const ALL: Self = Self(0 $(| 1 << $position)*);

            /// The wire value.
            #[must_use]
            pub const fn bits(self) -> $int {
                self.0
            }

            /// The set of a wire value; `None` when it has bits that this crate does not know.
            #[must_use]
            pub const fn from_bits(bits: $int) -> Option<Self> {
                if bits & !Self::ALL.0 == 0 { Some(Self(bits)) } else { None }
            }

            /// The set of a wire value with unknown bits kept.
            #[must_use]
            pub const fn from_bits_retain(bits: $int) -> Self {
                Self(bits)
            }

            /// Whether no bit is set.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Whether all bits of `other` are set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any bit of `other` is set.
            #[must_use]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// Bits of either.
            #[must_use]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }
    };
}

/// Declares an enumeration on the wire.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident: $int:ty { $($(#[$value_meta:meta])* $variant:ident = $value:expr,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr($int)]
        pub enum $name {
            $($(#[$value_meta])* $variant = $value,)*
        }

        impl $name {
            /// The wire value.
            #[must_use]
            pub const fn code(self) -> $int {
                self as $int
            }

            /// The meaning of a wire value, where it has one.
            #[must_use]
            pub const fn from_code(code: $int) -> Option<Self> {
                match code {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

bit_set! {
    /// What a buffer may be used for.
    Usage: u32 {
        /// READ_BUFFER, and source of device copies.
        TRANSFER_SOURCE = 0,
        /// WRITE_BUFFER, and destination of device copies.
        TRANSFER_DESTINATION = 1,
        /// Read by programs.
        PROGRAM_INPUT = 2,
        /// Written by programs.
        PROGRAM_OUTPUT = 3,
        /// Read and written by programs.
        MUTABLE_STATE = 4,
    }
}

bit_set! {
    /// What a device says about itself in DeviceInfo. Bits 3 and 4 are reserved as zero in protocol 1.0.
    Capabilities: u64 {
        /// Serves the host domain.
        HOST_VISIBLE_MEMORY = 0,
        /// Serves the device domain.
        DEVICE_LOCAL_MEMORY = 1,
        /// Serves CANCEL_EVENT.
        EVENT_CANCELLATION = 2,
        /// Serves the shared domain.
        SHARED_MEMORY = 5,
    }
}

bit_set! {
    /// Extensions announced in configuration space.
    Extensions: u64 {
        /// EXECUTE.
        EXECUTE = 0,
        /// WAIT_EVENT.
        WAIT_EVENT = 1,
        /// LOAD_PROGRAM_FROM_BUFFER.
        LOAD_PROGRAM_FROM_BUFFER = 2,
        /// QUERY.
        QUERY = 3,
        /// COPY_BUFFER.
        COPY_BUFFER = 4,
        /// IMPORT_BUFFER.
        IMPORT_BUFFER = 5,
    }
}

wire_enum! {
    /// Where a buffer is wanted.
    MemoryDomain: u8 {
        /// Host memory.
        Host = 1,
        /// The accelerator's own memory.
        Device = 2,
        /// One allocation that both host and accelerator reach directly.
        Shared = 3,
    }
}

wire_enum! {
    /// What a submission does with a bound buffer.
    Access: u8 {
        /// Reads it.
        Read = 1,
        /// Writes it.
        Write = 2,
        /// Both.
        ReadWrite = 3,
    }
}

wire_enum! {
    /// State of an event.
    EventPhase: u16 {
        /// The work has not ended.
        Pending = 0,
        /// Results are visible.
        Complete = 1,
        /// The work failed.
        Failed = 2,
        /// Cancellation won.
        Cancelled = 3,
    }
}

wire_enum! {
    /// Device class; an open set.
    DeviceClass: u16 {
        /// None of the others.
        Other = 0,
        /// Neural-network processor.
        Npu = 1,
        /// Graphics processor.
        Gpu = 2,
        /// Signal processor.
        Dsp = 3,
    }
}

impl Access {
    /// Whether the program may read the buffer.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Whether the program may write the buffer.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }

    /// Whether a buffer of this usage may be bound so.
    #[must_use]
    pub const fn allowed_by(self, usage: Usage) -> bool {
        usage.intersects(match self {
            Self::Read => Usage::PROGRAM_INPUT.union(Usage::MUTABLE_STATE),
            Self::Write => Usage::PROGRAM_OUTPUT.union(Usage::MUTABLE_STATE),
            Self::ReadWrite => Usage::MUTABLE_STATE,
        })
    }
}

impl MemoryDomain {
    /// The capability that a device must have to serve this domain.
    #[must_use]
    pub const fn capability(self) -> Capabilities {
        match self {
            Self::Host => Capabilities::HOST_VISIBLE_MEMORY,
            Self::Device => Capabilities::DEVICE_LOCAL_MEMORY,
            Self::Shared => Capabilities::SHARED_MEMORY,
        }
    }
}
