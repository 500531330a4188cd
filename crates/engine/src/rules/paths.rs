//! Whether two directories are one place to work in. Two tasks in the same directory, or one in a
//! directory of the other, would undo each other's work; beside each other they do not meet. Paths
//! are compared by their parts and as they are given: whoever asks has followed links before.

use std::path::{Component, Path};

/// Whether work in these two directories would meet: one is the other, or is inside it.
pub fn meet(one: &Path, other: &Path) -> bool {
    let (one, other) = (parts(one), parts(other));
    one.iter().zip(&other).all(|(one, other)| one == other)
}

/// Without what means nothing.
fn parts(path: &Path) -> Vec<Component<'_>> {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_directories_meet_when_one_is_the_other_or_holds_it() {
        for (one, other, expected) in [
            ("/a", "/a", true),
            ("/a", "/a/", true),
            ("/a", "/a/b", true),
            ("/a/b/c", "/a", true),
            ("/", "/a", true),
            ("/a/./b", "/a/b", true),
            ("/a", "/ab", false),
            ("/a/b", "/a/c", false),
            ("/a/b", "/a/bc/d", false),
        ] {
            assert_eq!(meet(Path::new(one), Path::new(other)), expected, "{one} {other}");
        }
    }

    proptest! {
        #[test]
        fn meeting_is_mutual_and_holds_for_every_directory_above(
            names in prop::collection::vec("[a-c]{1,2}", 0..6),
            others in prop::collection::vec("[a-c]{1,2}", 0..6),
        ) {
            let path = |names: &[String]| Path::new("/").join(names.join("/"));
            let (one, other) = (path(&names), path(&others));
            prop_assert_eq!(meet(&one, &other), meet(&other, &one));
            for above in one.ancestors() {
                prop_assert!(meet(above, &one));
                prop_assert!(!meet(&one, &other) || meet(above, &other));
            }
        }
    }
}
