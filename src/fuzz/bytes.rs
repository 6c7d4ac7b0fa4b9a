//! Inputs of the fuzz targets: those that are kept, and the numbers in one.

/// The rest of an input. Past its end there are zeros.
pub(super) struct Bytes<'a> {
    pub(super) left: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { left: data }
    }

    pub(super) fn next(&mut self) -> Option<u8> {
        let (first, left) = self.left.split_first()?;
        self.left = left;
        Some(*first)
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
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

/// Runs `target` on every input that is kept for it by `name`, once each.
#[cfg(test)]
pub(crate) fn replay(target: fn(&[u8]), name: &str) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let inputs = |kind: &str| {
        let files = std::fs::read_dir(root.join(kind).join(name)).into_iter().flatten();
        files.map(|file| file.unwrap().path()).collect::<Vec<_>>()
    };
    let seeds = inputs("seeds");
    // The published package comes without them.
    assert!(!seeds.is_empty() || !root.exists(), "no seeds for {name}");
    for path in seeds.into_iter().chain(inputs("regressions")) {
        println!("{}", path.display());
        target(&std::fs::read(&path).unwrap());
    }
}
