//! Device configuration space: the 16 bytes of protocol 1.0 and the extension block behind them.

use zerocopy::little_endian::{U16, U32, U64};

use crate::{Extensions, wire_struct};

/// Protocol version that this crate speaks.
pub const PROTOCOL_MAJOR: u16 = 1;
/// Minor version that a device reports; drivers accept any.
pub const PROTOCOL_MINOR: u16 = 0;
/// Fewest descriptors that a device may allow in a chain: one readable and one writable.
pub const MIN_CHAIN_DESCRIPTORS: u16 = 2;
/// Most descriptors that a device may allow in a chain.
pub const MAX_CHAIN_DESCRIPTORS: u16 = 256;
/// Smallest `max_request_bytes`: a LOAD_PROGRAM with an artifact of one byte.
pub const MIN_REQUEST_BYTES: u32 = 97;
/// Smallest `max_response_bytes`: the answer to GET_DEVICE_INFO.
pub const MIN_RESPONSE_BYTES: u32 = 92;
/// Largest frame in either direction, header included.
pub const MAX_FRAME_BYTES: u32 = 16 << 20;
/// Bytes of configuration space that protocol 1.0 defines.
pub const CONFIG_PREFIX_BYTES: usize = 16;
/// Bytes of configuration space with the extension block.
pub const CONFIG_BYTES: usize = 64;
/// Bytes of the extension block.
pub const EXTENSION_BLOCK_BYTES: u32 = 48;
/// First word of the extension block: "AXT1".
pub const EXTENSION_MAGIC: u32 = u32::from_le_bytes(*b"AXT1");

wire_struct! {
    /// What every protocol 1.0 driver reads, at configuration offset 0.
    ConfigPrefix, CONFIG_PREFIX_BYTES, {
        /// Always 1.
        protocol_major: U16,
        /// Any value is acceptable to a 1.0 driver.
        protocol_minor: U16,
        /// 1 in protocol 1.0; more queues are told in [`ExtensionBlock::command_queues`].
        command_queue_count: U16,
        /// Readable and writable descriptors together, 2 to 256.
        max_chain_descriptors: U16,
        /// Largest request, header included.
        max_request_bytes: U32,
        /// Largest response, header included.
        max_response_bytes: U32,
    }
}

wire_struct! {
    /// Announcement of the extensions, at configuration offset 16.
    ExtensionBlock, EXTENSION_BLOCK_BYTES as usize, {
        /// [`EXTENSION_MAGIC`], else there is no block.
        magic: U32,
        /// Bytes of the block from its magic on; a driver reads only fields inside.
        length: U32,
        /// Set of [`Extensions`].
        extensions: U64,
        /// Command virtqueues that the device serves.
        command_queues: U16,
        /// Zero.
        reserved: [u8; 30],
    }
}

wire_struct! {
    /// The whole configuration space of this project's devices.
    ConfigSpace, CONFIG_BYTES, {
        /// Protocol 1.0.
        prefix: ConfigPrefix,
        /// Extensions.
        extension: ExtensionBlock,
    }
}

impl ConfigSpace {
    /// Builds the configuration space of a device with these limits and extensions.
    #[must_use]
    pub fn new(
        max_chain_descriptors: u16,
        max_request_bytes: u32,
        max_response_bytes: u32,
        command_queues: u16,
        extensions: Extensions,
    ) -> Self {
        Self {
            prefix: ConfigPrefix {
                protocol_major: PROTOCOL_MAJOR.into(),
                protocol_minor: PROTOCOL_MINOR.into(),
                command_queue_count: 1.into(),
                max_chain_descriptors: max_chain_descriptors.into(),
                max_request_bytes: max_request_bytes.into(),
                max_response_bytes: max_response_bytes.into(),
            },
            extension: ExtensionBlock {
                magic: EXTENSION_MAGIC.into(),
                length: EXTENSION_BLOCK_BYTES.into(),
                extensions: extensions.bits().into(),
                command_queues: command_queues.into(),
                reserved: [0; 30],
            },
        }
    }
}

impl ConfigPrefix {
    /// Whether a driver of protocol 1.0 can work with these values.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.protocol_major.get() == PROTOCOL_MAJOR
            && self.command_queue_count.get() >= 1
            && (MIN_CHAIN_DESCRIPTORS..=MAX_CHAIN_DESCRIPTORS).contains(&self.max_chain_descriptors.get())
            && (MIN_REQUEST_BYTES..=MAX_FRAME_BYTES).contains(&self.max_request_bytes.get())
            && (MIN_RESPONSE_BYTES..=MAX_FRAME_BYTES).contains(&self.max_response_bytes.get())
    }
}

impl ExtensionBlock {
    /// The announced extensions: none where the magic or the length is wrong (a plain 1.0 device).
    #[must_use]
    pub fn announced(&self) -> Extensions {
        if self.is_present() { Extensions::from_bits_retain(self.extensions.get()) } else { Extensions::NONE }
    }

    /// Command queues to use: 1 where the block is absent or says 0.
    #[must_use]
    pub fn queues(&self) -> u16 {
        if self.is_present() { self.command_queues.get().max(1) } else { 1 }
    }

    fn is_present(&self) -> bool {
        self.magic.get() == EXTENSION_MAGIC && self.length.get() >= EXTENSION_BLOCK_BYTES
    }
}
