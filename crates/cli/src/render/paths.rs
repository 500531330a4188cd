//! Paths as a person working in the run's directory would write them.

/// A text in which paths inside the directory `root` are relative to it.
pub fn relative(text: &str, root: Option<&str>) -> String {
    let root = root.map(|root| root.trim_end_matches('/')).filter(|root| root.len() > 1);
    let Some(root) = root else { return text.to_owned() };
    let inside = format!("{root}/");
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(&inside) {
        // In the middle of a longer path it is another directory.
        let is_start = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || "/._-~".contains(c));
        shown.push_str(&rest[..at]);
        if !is_start {
            shown.push_str(&inside);
        }
        rest = &rest[at + inside.len()..];
    }
    shown.push_str(rest);
    if shown == root { ".".to_owned() } else { shown }
}

/// A directory: as it is when it is the root, else relative to it.
pub fn tail_of(dir: &str, root: Option<&str>) -> String {
    if root.is_some_and(|root| root.trim_end_matches('/') == dir.trim_end_matches('/')) {
        return dir.to_owned();
    }
    relative(dir, root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_inside_the_root_are_relative() {
        let root = Some("/srv/u/proj");
        for (text, expected) in [
            ("/srv/u/proj/src/a.rs", "src/a.rs"),
            ("Write: /srv/u/proj/a.txt", "Write: a.txt"),
            ("/srv/u/proj", "."),
            ("/srv/u/project/a", "/srv/u/project/a"),
            ("/mnt/srv/u/proj/a", "/mnt/srv/u/proj/a"),
            ("cp '/srv/u/proj/a' /srv/u/proj/b", "cp 'a' b"),
        ] {
            assert_eq!(relative(text, root), expected);
        }
        assert_eq!(relative("/a/b", None), "/a/b");
        assert_eq!(relative("/a/b", Some("/")), "/a/b");
    }
}
