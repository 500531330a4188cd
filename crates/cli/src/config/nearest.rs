//! The closest of some known names to one that is not known, for "did you mean". Pure.

/// The known names close enough to `given` to be what was meant, closest first, at most three.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let given = fold(given);
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|name| {
            let folded = fold(name);
            let distance = distance(&given, &folded);
            // A third of the letters may differ; beyond that it is a guess and no help.
            let allowed = (given.len().max(folded.len()) / 3).max(1);
            let begins = given.len() >= 3 && folded.starts_with(&given[..])
                || folded.len() >= 4 && given.starts_with(&folded[..]);
            let alike = distance <= allowed && distance < given.len();
            (alike || begins).then_some((distance, name))
        })
        .collect();
    found.sort();
    found.dedup();
    found.into_iter().map(|(_, name)| name).take(3).collect()
}

/// `did you mean 'a' or 'b'?`, when there is something to mean.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<String> =
        nearest(given, known).into_iter().map(|name| format!("'{name}'")).collect();
    (!names.is_empty()).then(|| format!("did you mean {}?", names.join(" or ")))
}

/// Case and the marks between words do not count.
fn fold(name: &str) -> Vec<char> {
    let kept = name.chars().filter(|c| !matches!(c, '-' | '_' | ' '));
    kept.flat_map(char::to_lowercase).take(64).collect()
}

/// Letters to add, take away, change or swap with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let change = above[j] + usize::from(x != y);
            let mut least = change.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_name() {
        let known = ["args", "binary", "timeoutSec", "env", "envPassthrough"];
        assert_eq!(nearest("argz", known), ["args"]);
        assert_eq!(nearest("agrs", known), ["args"]);
        assert_eq!(nearest("timeout-sec", known), ["timeoutSec"]);
        assert_eq!(nearest("timeout", known), ["timeoutSec"]);
        assert_eq!(nearest("weather", known), Vec::<&str>::new());
    }

    #[test]
    fn the_question_names_them_all() {
        let asked = did_you_mean("claud", ["claude", "claude-2", "codex"]);
        assert_eq!(asked.as_deref(), Some("did you mean 'claude' or 'claude-2'?"));
        assert_eq!(did_you_mean("zebra", ["claude"]), None);
    }
}
