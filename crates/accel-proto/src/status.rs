//! Status codes of responses.

use core::fmt;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Status {
    /// It did what was asked.
    Ok = 0,
    /// The device does not know or offer this.
    Unsupported = 1,
    /// The program does not fit this device.
    Incompatible = 2,
    /// A field holds a value that the protocol forbids.
    InvalidArgument = 3,
    /// A range ends past its object.
    OutOfBounds = 4,
    /// Something in flight still uses the object.
    Busy = 5,
    /// The host has no memory for it.
    OutOfMemory = 6,
    /// A limit of the device would be exceeded.
    ResourceLimit = 7,
    /// The time given ran out.
    DeadlineExpired = 8,
    /// The accelerator is gone; the driver resets the device.
    DeviceLost = 9,
    /// The buffer was not allocated for this use.
    PermissionDenied = 10,
    /// The id names no living object of the wanted kind and context.
    StaleObject = 11,
    /// The device failed at its own work.
    InternalError = 0xffff,
}

impl Status {
    /// Every status, in order of its code.
    pub const ALL: [Self; 13] = [
        Self::Ok,
        Self::Unsupported,
        Self::Incompatible,
        Self::InvalidArgument,
        Self::OutOfBounds,
        Self::Busy,
        Self::OutOfMemory,
        Self::ResourceLimit,
        Self::DeadlineExpired,
        Self::DeviceLost,
        Self::PermissionDenied,
        Self::StaleObject,
        Self::InternalError,
    ];

    /// The code on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The status of a wire code; `None` is an opaque failure of a later protocol.
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// The name that the specification uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Unsupported => "UNSUPPORTED",
            Self::Incompatible => "INCOMPATIBLE",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::OutOfBounds => "OUT_OF_BOUNDS",
            Self::Busy => "BUSY",
            Self::OutOfMemory => "OUT_OF_MEMORY",
            Self::ResourceLimit => "RESOURCE_LIMIT",
            Self::DeadlineExpired => "DEADLINE_EXPIRED",
            Self::DeviceLost => "DEVICE_LOST",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::StaleObject => "STALE_OBJECT",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<Status> for u16 {
    fn from(status: Status) -> Self {
        status.code()
    }
}

impl TryFrom<u16> for Status {
    type Error = u16;

    /// The unknown code is given back as the error.
    fn try_from(code: u16) -> Result<Self, u16> {
        Self::from_code(code).ok_or(code)
    }
}
