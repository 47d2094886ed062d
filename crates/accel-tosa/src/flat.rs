//! Bounds-checked access to FlatBuffer tables.
//!
//! A schema table is described once, by [`table!`]; from that one description come the verifier, which walks
//! everything reachable before anything is read, and the accessors. The accessors use no `unsafe`: each checks
//! its own bounds again and answers `None` where bytes are missing, which after verification means only that
//! the field is absent.

use flatbuffers::{ForwardsUOffset, InvalidFlatbuffer, Vector, Verifiable, Verifier};

/// Something that sits in a table field or in a vector element.
pub(crate) trait Item<'a>: Sized {
    /// How the verifier sees it.
    type Flat: Verifiable + 'a;
    /// Bytes that it takes inline.
    const SIZE: usize;
    /// Reads it at `at`.
    fn read(buf: &'a [u8], at: usize) -> Option<Self>;
}

fn bytes_at<const N: usize>(buf: &[u8], at: usize) -> Option<[u8; N]> {
    buf.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u32_at(buf: &[u8], at: usize) -> Option<u32> {
    bytes_at(buf, at).map(u32::from_le_bytes)
}

/// Follows the forward offset stored at `at`.
fn follow(buf: &[u8], at: usize) -> Option<usize> {
    at.checked_add(u32_at(buf, at)? as usize)
}

macro_rules! scalar_items {
    ($($t:ty),*) => {$(
        impl<'a> Item<'a> for $t {
            type Flat = $t;
            const SIZE: usize = size_of::<$t>();
            fn read(buf: &'a [u8], at: usize) -> Option<Self> {
                bytes_at(buf, at).map(<$t>::from_le_bytes)
            }
        }
    )*};
}
scalar_items!(u8, i32, u32, u64);

impl<'a> Item<'a> for bool {
    type Flat = u8;
    const SIZE: usize = 1;
    fn read(buf: &'a [u8], at: usize) -> Option<Self> {
        buf.get(at).map(|&b| b != 0)
    }
}

/// A byte vector, with its position in the file.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bytes<'a> {
    /// Position of the first byte.
    pub start: usize,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> Item<'a> for Bytes<'a> {
    type Flat = ForwardsUOffset<Vector<'a, u8>>;
    const SIZE: usize = 4;
    fn read(buf: &'a [u8], at: usize) -> Option<Self> {
        let vector = follow(buf, at)?;
        let start = vector.checked_add(4)?;
        let bytes = buf.get(start..start.checked_add(u32_at(buf, vector)? as usize)?)?;
        Some(Self { start, bytes })
    }
}

impl<'a> Item<'a> for &'a str {
    type Flat = ForwardsUOffset<&'a str>;
    const SIZE: usize = 4;
    fn read(buf: &'a [u8], at: usize) -> Option<Self> {
        std::str::from_utf8(Bytes::read(buf, at)?.bytes).ok()
    }
}

/// A vector of items.
#[derive(Clone, Copy)]
pub(crate) struct List<'a, T> {
    buf: &'a [u8],
    start: usize,
    len: usize,
    of: std::marker::PhantomData<T>,
}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self { buf: &[], start: 0, len: 0, of: std::marker::PhantomData }
    }
}

impl<'a, T: Item<'a>> List<'a, T> {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let Self { buf, start, len, .. } = *self;
        (0..len).map_while(move |i| T::read(buf, start + i * T::SIZE))
    }
}

impl<'a, T: Item<'a>> Item<'a> for List<'a, T>
where
    Vector<'a, T::Flat>: Verifiable,
{
    type Flat = ForwardsUOffset<Vector<'a, T::Flat>>;
    const SIZE: usize = 4;
    fn read(buf: &'a [u8], at: usize) -> Option<Self> {
        let vector = follow(buf, at)?;
        let start = vector.checked_add(4)?;
        let len = u32_at(buf, vector)? as usize;
        let end = len.checked_mul(T::SIZE).and_then(|size| start.checked_add(size))?;
        (end <= buf.len()).then_some(Self { buf, start, len, of: std::marker::PhantomData })
    }
}

/// A table: the file and the table's position in it.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub buf: &'a [u8],
    pub at: usize,
}

impl<'a> Table<'a> {
    /// The table that the offset at `at` points to.
    pub fn behind(buf: &'a [u8], at: usize) -> Option<Self> {
        Some(Self { buf, at: follow(buf, at)? })
    }

    /// Position of field number `index` of the schema table, `None` when it is absent.
    pub(crate) fn position(&self, index: u16) -> Option<usize> {
        let back = bytes_at(self.buf, self.at).map(i32::from_le_bytes)?;
        let vtable = (self.at as i64).checked_sub(i64::from(back))?;
        let vtable = usize::try_from(vtable).ok()?;
        let length = bytes_at(self.buf, vtable).map(u16::from_le_bytes)?;
        let slot = slot(index);
        if slot + 2 > length {
            return None;
        }
        let offset = bytes_at(self.buf, vtable.checked_add(slot as usize)?).map(u16::from_le_bytes)?;
        if offset == 0 { None } else { self.at.checked_add(offset as usize) }
    }

    /// Field number `index`, `None` when it is absent.
    pub fn field<T: Item<'a>>(&self, index: u16) -> Option<T> {
        T::read(self.buf, self.position(index)?)
    }
}

/// Offset in a vtable of field number `index`: two header words come first.
pub(crate) const fn slot(index: u16) -> u16 {
    4 + 2 * index
}

/// Describes schema tables: `Name { field: Type = index, ... }`, with `extra` verification where needed.
macro_rules! table {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $t:ty = $index:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name<'a>(pub(crate) $crate::flat::Table<'a>);

        impl<'a> $name<'a> {
            $(pub fn $field(&self) -> Option<$t> {
                self.0.field($index)
            })*
        }

        impl<'a> $crate::flat::Item<'a> for $name<'a> {
            type Flat = flatbuffers::ForwardsUOffset<$name<'a>>;
            const SIZE: usize = 4;
            fn read(buf: &'a [u8], at: usize) -> Option<Self> {
                $crate::flat::Table::behind(buf, at).map(Self)
            }
        }

        impl<'a> flatbuffers::Verifiable for $name<'a> {
            fn run_verifier(
                v: &mut flatbuffers::Verifier,
                at: usize,
            ) -> Result<(), flatbuffers::InvalidFlatbuffer> {
                v.visit_table(at)?
                    $(.visit_field::<<$t as $crate::flat::Item<'a>>::Flat>(
                        stringify!($field),
                        $crate::flat::slot($index),
                        false,
                    )?)*
                    .finish();
                Ok(())
            }
        }
    )*};
}
pub(crate) use table;

/// Verifies everything reachable from the root table `T` of `buf` and returns it. Work and depth are bounded by
/// the file's size: a file in which many offsets share one target is refused.
pub(crate) fn root<'a, T: Item<'a>>(buf: &'a [u8]) -> Result<Option<T>, InvalidFlatbuffer> {
    let options = flatbuffers::VerifierOptions {
        max_depth: 8,
        max_tables: buf.len() / 4,
        max_apparent_size: buf.len().saturating_mul(4).saturating_add(1 << 12),
        ignore_missing_null_terminator: true,
    };
    T::Flat::run_verifier(&mut Verifier::new(&options, buf), 0)?;
    Ok(T::read(buf, 0))
}
