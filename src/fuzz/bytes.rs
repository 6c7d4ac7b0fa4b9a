//! Numbers from a fuzzer's input.

/// What is left of an input. Past its end there are zeros.
pub(super) struct Bytes<'a> {
    left: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { left: data }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    pub(super) fn next(&mut self) -> Option<u8> {
        let (first, left) = self.left.split_first()?;
        self.left = left;
        Some(*first)
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    pub(super) fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A number of any magnitude from one byte or three: small, or at or just below a power of
    /// two, since those are where the wheel's levels wrap, or anything.
    pub(super) fn magnitude(&mut self) -> u64 {
        let shape = self.byte();
        let (kind, bits) = (shape >> 6, u32::from(shape & 63));
        match kind {
            0 => bits.into(),
            1 => 1 << bits,
            2 => (1 << bits) - 1,
            _ => {
                let random = u64::from(self.byte()) << 8 | u64::from(self.byte());
                random << bits.saturating_sub(15)
            }
        }
    }
}
