//! A fault that was put here, behind a few bytes that must be right one after the other: the engine
//! that sees coverage finds it, and the one that does not would need more inputs than there are. It
//! reads nothing of the product and is tried only when it is asked for by its name.

use super::{Target, holds};

pub const TARGET: Target = Target {
    name: "planted",
    everyday: None,
    seeds: || vec![b"hello".to_vec()],
    words: &[],
    make: || {
        Box::new(|input, _| {
            let reached = matches!(input, [b'{', b'v', b'7', b'}', b':', b'!', ..]);
            holds(!reached, || "the planted fault: it was reached".to_owned())
        })
    },
};
