//! Unified diffs, read and applied strictly. Pure: bytes in, bytes out, nothing is opened here.
//!
//! A hunk goes where it says it goes, or, when its lines are not there, to the one other place where
//! they are; two such places or none are a refusal. Counts must be right, and what is not understood
//! (copies, changed modes, binary patches) is refused and never guessed at.

use contract::{Code, Fault, limits};

/// What a patch does to one file.
#[derive(Debug, PartialEq, Eq)]
pub struct FilePatch<'a> {
    pub path: String,
    pub what: What,
    /// The part of the patch that speaks of this file.
    pub text: String,
    hunks: Vec<Hunk<'a>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Create {
        executable: bool,
    },
    Modify,
    Delete,
    /// It had another name before, which is gone afterwards.
    Rename {
        from: String,
    },
}

impl FilePatch<'_> {
    /// Every name that it touches.
    fn names(&self) -> impl Iterator<Item = &str> {
        let from = match &self.what {
            What::Rename { from } => Some(from.as_str()),
            What::Create { .. } | What::Modify | What::Delete => None,
        };
        [self.path.as_str()].into_iter().chain(from)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Hunk<'a> {
    head: &'a str,
    /// Where its old lines begin, counted from 0.
    at: usize,
    lines: Vec<(Mark, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Context,
    Remove,
    Add,
}

fn bad(why: impl std::fmt::Display) -> Fault {
    Fault::new(Code::Usage, format!("the patch: {why}"))
        .with_hint("give a unified diff, as `diff -u` or `git diff` writes it")
}

/// Reads a patch. Every file appears once.
pub fn read(patch: &str) -> Result<Vec<FilePatch<'_>>, Fault> {
    // Not `lines`, which would take the carriage returns of the files away.
    let lines = patch.strip_suffix('\n').unwrap_or(patch).split('\n').collect();
    let mut reader = Reader { lines, next: 0 };
    let mut files: Vec<FilePatch<'_>> = Vec::new();
    while let Some(file) = reader.file()? {
        let known = |name: &str| files.iter().any(|file| file.names().any(|known| known == name));
        if let Some(name) = file.names().find(|name| known(name)) {
            return Err(bad(format!("'{name}' appears twice")));
        }
        if files.len() == limits::PATCH_FILES_MAX {
            return Err(bad(format!("it touches more than {} files", limits::PATCH_FILES_MAX)));
        }
        files.push(file);
    }
    if files.is_empty() {
        return Err(bad("it names no file ('--- a/…' and '+++ b/…' are missing)"));
    }
    Ok(files)
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    next: usize,
}

/// What a git header says of the file to come.
#[derive(Default)]
struct Head<'a> {
    line: Option<&'a str>,
    created: bool,
    deleted: bool,
    executable: bool,
    from: Option<String>,
    to: Option<String>,
}

impl<'a> Head<'a> {
    /// Takes in a line that stands before a file's names.
    fn hear(&mut self, line: &'a str) -> Result<(), Fault> {
        match line {
            _ if line.starts_with("diff --git ") => self.line = Some(line),
            _ if line.starts_with("new file mode 12") => return Err(bad("links are not made")),
            _ if line.starts_with("new file mode ") => {
                self.created = true;
                self.executable = line.ends_with("755");
            }
            _ if line.starts_with("deleted file mode ") => self.deleted = true,
            _ if line.starts_with("rename from ") => self.from = Some(unquoted(&line[12..])?),
            _ if line.starts_with("rename to ") => self.to = Some(unquoted(&line[10..])?),
            _ if line.starts_with("copy ") => return Err(bad("copies are not supported")),
            _ if line.starts_with("old mode ") => {
                return Err(bad("changes of a file's mode are not supported"));
            }
            _ if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") => {
                return Err(bad("binary changes are not supported"));
            }
            _ if line.starts_with("@@ ") => {
                return Err(bad(format!("'{line}' stands before any file's name")));
            }
            _ => {}
        }
        Ok(())
    }

    /// What a header alone does: an empty file comes or goes, or a file gets another name.
    fn alone(self) -> Result<Option<(String, What)>, Fault> {
        let Some(line) = self.line else { return Ok(None) };
        let nothing = || bad(format!("'{line}' is followed by no change"));
        let change = match (self.from, self.to) {
            (Some(from), Some(to)) => (to, What::Rename { from }),
            (None, None) if self.created => (
                twice_named(line).ok_or_else(nothing)?,
                What::Create { executable: self.executable },
            ),
            (None, None) if self.deleted => (twice_named(line).ok_or_else(nothing)?, What::Delete),
            (_, _) => return Err(nothing()),
        };
        Ok(Some(change))
    }

    /// The file that two lines of names speak of, and what becomes of it.
    fn named(self, old: &str, new: &str) -> Result<(String, What), Fault> {
        let (path, what) = match (self.from, self.to) {
            (Some(from), Some(to)) => (to, What::Rename { from }),
            (_, _) => return named(old, new, self.executable),
        };
        let What::Rename { from } = &what else { return Ok((path, what)) };
        let stripped = |text: &str, prefix: &str| -> Result<String, Fault> {
            let name = unquoted(text)?;
            Ok(name.strip_prefix(prefix).unwrap_or(&name).to_owned())
        };
        match stripped(old, "a/")? == *from && stripped(new, "b/")? == path {
            true => Ok((path, what)),
            false => Err(bad(format!("'{old}' and '{new}' are not what is renamed"))),
        }
    }
}

/// The name of a file that a git header names twice.
fn twice_named(line: &str) -> Option<String> {
    let names = line.strip_prefix("diff --git ")?;
    if names.starts_with('"') {
        let (old, new) = names.split_once("\" \"")?;
        let old = unquoted(&format!("{old}\"")).ok()?;
        let new = unquoted(&format!("\"{new}")).ok()?;
        let old = old.strip_prefix("a/")?;
        return (new.strip_prefix("b/") == Some(old)).then(|| old.to_owned());
    }
    // The same name twice, each with its letter, and a blank between.
    let length = names.len().checked_sub(5)? / 2;
    let old = names.get(..length + 2)?.strip_prefix("a/")?;
    let new = names.get(length + 2..)?.strip_prefix(" b/")?;
    (old == new && !old.is_empty()).then(|| old.to_owned())
}

/// A name as git writes it: in quotes, with what is odd in it escaped, or as it is up to a tab.
fn unquoted(text: &str) -> Result<String, Fault> {
    let Some(quoted) = text.strip_prefix('"') else {
        return Ok(text.split('\t').next().unwrap_or_default().trim_end().to_owned());
    };
    let wrong = || bad(format!("the name {text} is not quoted as git does it"));
    let mut bytes = Vec::new();
    let mut rest = quoted.bytes();
    loop {
        match rest.next().ok_or_else(wrong)? {
            b'"' => break,
            b'\\' => match rest.next().ok_or_else(wrong)? {
                b't' => bytes.push(b'\t'),
                b'n' => bytes.push(b'\n'),
                b'r' => bytes.push(b'\r'),
                byte @ (b'"' | b'\\') => bytes.push(byte),
                first @ b'0'..=b'3' => {
                    let mut value = first - b'0';
                    for _ in 0..2 {
                        let digit = rest.next().filter(|byte| matches!(byte, b'0'..=b'7'));
                        value = value * 8 + (digit.ok_or_else(wrong)? - b'0');
                    }
                    bytes.push(value);
                }
                _ => return Err(wrong()),
            },
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

impl<'a> Reader<'a> {
    fn line(&self) -> Option<&'a str> {
        self.lines.get(self.next).copied()
    }

    /// The next file, behind any words that precede its header.
    fn file(&mut self) -> Result<Option<FilePatch<'a>>, Fault> {
        let mut head = Head::default();
        let mut start = self.next;
        let old = loop {
            let line = self.line();
            // The next header, or the end: what came before it was all there is of this file.
            let over = line.is_none_or(|line| line.starts_with("diff --git "));
            if over && head.line.is_some() {
                let text = self.lines[start..self.next].join("\n") + "\n";
                let change = head.alone()?;
                return Ok(change.map(|(path, what)| FilePatch {
                    path,
                    what,
                    text,
                    hunks: Vec::new(),
                }));
            }
            let Some(line) = line else { return Ok(None) };
            if head.line.is_none() {
                start = self.next;
            }
            self.next += 1;
            let follows = self.line().is_some_and(|line| line.starts_with("+++ "));
            if line.starts_with("--- ") && follows {
                break &line[4..];
            }
            head.hear(line)?;
        };
        let start = self.next - 1;
        let new = &self.line().unwrap_or_default()[4..];
        self.next += 1;
        let (path, what) = head.named(old, new)?;
        let mut hunks = Vec::new();
        while let Some(head) = self.line().filter(|line| line.starts_with("@@ ")) {
            self.next += 1;
            hunks.push(self.hunk(head)?);
        }
        if hunks.is_empty() {
            return Err(bad(format!("'{path}' has no '@@' hunk")));
        }
        let text = self.lines[start..self.next].join("\n") + "\n";
        Ok(Some(FilePatch { path, what, text, hunks }))
    }

    fn hunk(&mut self, head: &'a str) -> Result<Hunk<'a>, Fault> {
        let wrong = || bad(format!("'{head}' is not '@@ -line,count +line,count @@'"));
        let ranges = head[3..].split(" @@").next().ok_or_else(wrong)?;
        let (old, new) = ranges.split_once(' ').ok_or_else(wrong)?;
        let (line, mut old_left) = range(old, '-').ok_or_else(wrong)?;
        let (_, mut new_left) = range(new, '+').ok_or_else(wrong)?;
        // A range of no lines names the line before it.
        let at = if old_left == 0 { line } else { line.checked_sub(1).ok_or_else(wrong)? };
        let mut lines: Vec<(Mark, String)> = Vec::new();
        let short = || bad(format!("the hunk '{head}' has not the number of lines that it says"));
        while old_left > 0 || new_left > 0 {
            let line = self.line().ok_or_else(short)?;
            self.next += 1;
            let (mark, text) = match line.as_bytes().first() {
                // Some editors take the one blank of an empty context line away.
                None => (Mark::Context, ""),
                Some(b' ') => (Mark::Context, &line[1..]),
                Some(b'-') => (Mark::Remove, &line[1..]),
                Some(b'+') => (Mark::Add, &line[1..]),
                Some(b'\\') if !lines.is_empty() => {
                    without_newline(&mut lines);
                    continue;
                }
                Some(_) => return Err(short()),
            };
            let take = |left: &mut usize| -> Result<(), Fault> {
                *left = left.checked_sub(1).ok_or_else(short)?;
                Ok(())
            };
            match mark {
                Mark::Context => {
                    take(&mut old_left)?;
                    take(&mut new_left)?;
                }
                Mark::Remove => take(&mut old_left)?,
                Mark::Add => take(&mut new_left)?,
            }
            lines.push((mark, format!("{text}\n")));
        }
        if self.line().is_some_and(|line| line.starts_with('\\')) {
            self.next += 1;
            without_newline(&mut lines);
        }
        Ok(Hunk { head, at, lines })
    }
}

fn without_newline(lines: &mut [(Mark, String)]) {
    if let Some((_, text)) = lines.last_mut() {
        text.pop();
    }
}

fn range(text: &str, sign: char) -> Option<(usize, usize)> {
    let text = text.strip_prefix(sign)?;
    let (line, count) = text.split_once(',').unwrap_or((text, "1"));
    Some((line.parse().ok()?, count.parse().ok()?))
}

/// The one file that two header lines name, and what becomes of it.
fn named(old: &str, new: &str, executable: bool) -> Result<(String, What), Fault> {
    let (old, new) = (unquoted(old)?, unquoted(new)?);
    let bare = |path: &str| {
        path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path).to_owned()
    };
    match (old.as_str(), new.as_str()) {
        ("/dev/null", "/dev/null") | ("", _) | (_, "") => Err(bad("a file has no name")),
        ("/dev/null", new) => Ok((bare(new), What::Create { executable })),
        (old, "/dev/null") => Ok((bare(old), What::Delete)),
        (old, new) => {
            let prefixed = old.strip_prefix("a/").zip(new.strip_prefix("b/"));
            let (old, new) = prefixed.unwrap_or((old, new));
            match old == new {
                true => Ok((new.to_owned(), What::Modify)),
                false => Err(bad(format!("'{old}' and '{new}' differ, and no rename is said"))),
            }
        }
    }
}

impl FilePatch<'_> {
    /// The file after the patch.
    pub fn apply(&self, file: &[u8]) -> Result<Vec<u8>, Fault> {
        let lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
        let mut out: Vec<u8> = Vec::with_capacity(file.len());
        let (mut done, mut shift) = (0_usize, 0_isize);
        for hunk in &self.hunks {
            let expected = hunk.at.saturating_add_signed(shift);
            let at = self.place(hunk, &lines, done, expected)?;
            shift += at as isize - expected as isize;
            out.extend(lines[done..at].concat());
            for (_, text) in hunk.lines.iter().filter(|(mark, _)| *mark != Mark::Remove) {
                out.extend_from_slice(text.as_bytes());
            }
            done = at + hunk.old().count();
        }
        out.extend(lines[done..].concat());
        if self.what == What::Delete && !out.is_empty() {
            let why = "it removes the file but not all its lines";
            return Err(match self.hunks.first() {
                Some(hunk) => self.misfit(hunk, why),
                None => Fault::new(Code::Conflict, format!("'{}': {why}", self.path)),
            });
        }
        Ok(out)
    }

    fn place(
        &self,
        hunk: &Hunk<'_>,
        lines: &[&[u8]],
        done: usize,
        expected: usize,
    ) -> Result<usize, Fault> {
        let fits = |at: usize| {
            at >= done
                && lines.len().checked_sub(at).is_some_and(|left| left >= hunk.old().count())
                && hunk.old().zip(&lines[at..]).all(|(old, line)| old.as_bytes() == *line)
        };
        if fits(expected) {
            return Ok(expected);
        }
        if hunk.old().next().is_none() {
            return Err(self.misfit(hunk, "it adds lines behind the end of the file"));
        }
        let mut places = (done..lines.len()).filter(|at| fits(*at));
        match (places.next(), places.next()) {
            (Some(at), None) => Ok(at),
            (None, _) => Err(self.misfit(hunk, "its lines are not in the file")),
            (Some(_), Some(_)) => Err(self
                .misfit(hunk, "its lines are not where it says, and in more than one other place")),
        }
    }

    fn misfit(&self, hunk: &Hunk<'_>, why: &str) -> Fault {
        Fault::new(Code::Conflict, format!("'{}', hunk '{}': {why}", self.path, hunk.head))
            .with_hint("read the file again and make the patch from what it holds now")
    }
}

impl Hunk<'_> {
    fn old(&self) -> impl Iterator<Item = &str> {
        let old = |(mark, _): &&(Mark, String)| *mark != Mark::Add;
        self.lines.iter().filter(old).map(|(_, text)| text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn applied(file: &str, patch: &str) -> String {
        let outcome = read(patch).and_then(|files| files[0].apply(file.as_bytes()));
        match outcome {
            Ok(bytes) => String::from_utf8(bytes).unwrap(),
            Err(fault) => format!("{}: {}", fault.code, fault.message),
        }
    }

    #[test]
    fn a_patch_gives_what_its_row_says() {
        let head = "--- a/f\n+++ b/f\n";
        let rows = [
            ("a\nb\nc\n", "@@ -2 +2 @@\n-b\n+B\n", "a\nB\nc\n"),
            ("a\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\nB\nc\n"),
            ("a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n"),
            ("a\nb\n", "@@ -2 +2 @@\n-b\n+b\n\\ No newline at end of file\n", "a\nb"),
            ("x\na\nb\n", "@@ -1,2 +1,3 @@\n a\n+new\n b\n", "x\na\nnew\nb\n"),
            ("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", "a\n\nc\n"),
            ("a\r\nb\r\n", "@@ -2 +2 @@\n-b\r\n+c\r\n", "a\r\nc\r\n"),
            ("", "@@ -0,0 +1 @@\n+a\n", "a\n"),
            ("a\nb\n", "@@ -1,0 +2 @@\n+x\n", "a\nx\nb\n"),
            (
                "a\na\n",
                "@@ -5 +5 @@\n-a\n+b\n",
                "conflict: 'f', hunk '@@ -5 +5 @@': its lines are not where it says, and in more than one other place",
            ),
            (
                "b\n",
                "@@ -1 +1 @@\n-a\n+c\n",
                "conflict: 'f', hunk '@@ -1 +1 @@': its lines are not in the file",
            ),
            (
                "a\n",
                "@@ -9,0 +9 @@\n+b\n",
                "conflict: 'f', hunk '@@ -9,0 +9 @@': it adds lines behind the end of the file",
            ),
            (
                "a\n",
                "@@ -1,2 +1 @@\n-a\n",
                "usage: the patch: the hunk '@@ -1,2 +1 @@' has not the number of lines that it says",
            ),
            (
                "a\n",
                "@@ -1 +1 @@\n-a\nb\n",
                "usage: the patch: the hunk '@@ -1 +1 @@' has not the number of lines that it says",
            ),
            (
                "a\n",
                "@@ one @@\n",
                "usage: the patch: '@@ one @@' is not '@@ -line,count +line,count @@'",
            ),
            ("a\n", "", "usage: the patch: 'f' has no '@@' hunk"),
        ];
        for (file, hunks, expected) in rows {
            assert_eq!(applied(file, &format!("{head}{hunks}")), expected, "{hunks}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let hunk = "@@ -1 +1 @@\n-a\n+b\n";
        let rows = [
            ("words", "it names no file ('--- a/…' and '+++ b/…' are missing)"),
            (&format!("--- a/x\n+++ b/y\n{hunk}"), "'x' and 'y' differ, and no rename is said"),
            (
                &format!("--- \"a/x\n+++ \"b/x\"\n{hunk}"),
                "the name \"a/x is not quoted as git does it",
            ),
            (
                &format!("--- \"a/\\377\"\n+++ \"b/\\377\"\n{hunk}"),
                "the name \"a/\\377\" is not quoted as git does it",
            ),
            (&format!("--- /dev/null\n+++ /dev/null\n{hunk}"), "a file has no name"),
            ("diff --git a/x b/y\ncopy from x\ncopy to y\n", "copies are not supported"),
            (
                "diff --git a/x b/y\nrename from x\n",
                "'diff --git a/x b/y' is followed by no change",
            ),
            (
                &format!(
                    "diff --git a/x b/y\nrename from x\nrename to y\n--- a/x\n+++ b/z\n{hunk}"
                ),
                "'a/x' and 'b/z' are not what is renamed",
            ),
            (
                &format!(
                    "diff --git a/x b/y\nrename from x\nrename to y\n--- a/x\n+++ b/x\n{hunk}"
                ),
                "'a/x' and 'b/x' are not what is renamed",
            ),
            (
                &format!(
                    "diff --git a/x b/y\nrename from x\nrename to y\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n{hunk}"
                ),
                "'x' appears twice",
            ),
            (
                "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
                "changes of a file's mode are not supported",
            ),
            ("diff --git a/x b/x\nGIT binary patch\n", "binary changes are not supported"),
            ("diff --git a/l b/l\nnew file mode 120000\n", "links are not made"),
            ("diff --git a/x b/x\nindex 0..0\n", "'diff --git a/x b/x' is followed by no change"),
            (
                "diff --git a/x b/y\nnew file mode 100644\nindex 0..0\n",
                "'diff --git a/x b/y' is followed by no change",
            ),
            (hunk, "'@@ -1 +1 @@' stands before any file's name"),
            (&format!("--- a/x\n+++ b/x\n{hunk}--- a/x\n+++ b/x\n{hunk}"), "'x' appears twice"),
        ];
        for (patch, why) in rows {
            let fault = read(patch).unwrap_err();
            assert_eq!(fault.message, format!("the patch: {why}"), "{patch}");
        }
    }

    #[test]
    fn files_are_made_changed_and_removed_by_one_patch() {
        let patch = "diff --git a/new b/new\nnew file mode 100755\n--- /dev/null\n+++ b/new\t2026\n\
                     @@ -0,0 +1 @@\n+hi\ndiff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n\
                     +++ /dev/null\n@@ -1 +0,0 @@\n-bye\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n";
        let files = read(patch).unwrap();
        let seen: Vec<_> =
            files.iter().map(|file| (file.path.as_str(), file.what.clone())).collect();
        let expected = [
            ("new", What::Create { executable: true }),
            ("old", What::Delete),
            ("f", What::Modify),
        ];
        assert_eq!(seen, expected);
        assert_eq!(files[1].apply(b"bye\n").unwrap(), b"");
        assert!(files[1].apply(b"bye\nmore\n").is_err(), "what it does not remove is not removed");
        assert_eq!(files[2].text, "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n");
    }

    #[test]
    fn empty_files_come_and_go_and_names_change_with_and_without_their_lines() {
        let patch = "diff --git a/e b/e\nnew file mode 100644\nindex 000..e69\n\
                     diff --git \"a/caf\\303\\251 x\" \"b/caf\\303\\251 x\"\nnew file mode 100755\n\
                     diff --git a/o b/o\ndeleted file mode 100644\n\
                     diff --git a/x b/y z\nsimilarity index 100%\nrename from x\nrename to y z\n\
                     diff --git a/p b/q\nsimilarity index 50%\nrename from p\nrename to q\n\
                     --- a/p\n+++ b/q\n@@ -1 +1 @@\n-a\n+b\n";
        let files = read(patch).unwrap();
        let seen: Vec<_> =
            files.iter().map(|file| (file.path.as_str(), file.what.clone())).collect();
        let expected = [
            ("e", What::Create { executable: false }),
            ("café x", What::Create { executable: true }),
            ("o", What::Delete),
            ("y z", What::Rename { from: "x".to_owned() }),
            ("q", What::Rename { from: "p".to_owned() }),
        ];
        assert_eq!(seen, expected);
        assert_eq!(files[0].apply(b"").unwrap(), b"");
        assert_eq!(files[2].apply(b"").unwrap(), b"");
        assert_eq!(files[2].apply(b"more").unwrap_err().code, Code::Conflict);
        assert_eq!(files[3].apply(b"kept\n").unwrap(), b"kept\n");
        assert_eq!(files[4].apply(b"a\n").unwrap(), b"b\n");
        assert!(files[3].text.ends_with("rename from x\nrename to y z\n"), "{}", files[3].text);
    }

    proptest! {
        #[test]
        fn any_name_comes_out_of_its_quotes_as_it_went_in(name in "[a-z\"\\\\\t\né漢 ]{1,12}") {
            let quoted: String = name
                .bytes()
                .map(|byte| match byte {
                    b'a'..=b'z' | b' ' => char::from(byte).to_string(),
                    byte => format!("\\{byte:03o}"),
                })
                .collect();
            prop_assert_eq!(unquoted(&format!("\"{quoted}\"")).unwrap(), name);
        }

        #[test]
        fn any_text_is_read_or_refused(patch in "(--- a/f\n\\+\\+\\+ b/f\n)?([-+ @\\\\][a-c0-9,@ +-]{0,8}\n){0,12}") {
            if let Ok(files) = read(&patch) {
                for file in files {
                    let _ = file.apply(b"a\nb\nc\n");
                }
            }
        }
    }
}
