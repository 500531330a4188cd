//! Unified diffs, read and applied strictly. Pure: bytes in, bytes out, nothing is opened here.
//!
//! A hunk goes where it says it goes, or, when its lines are not there, to the one other place where
//! they are; two such places or none are a refusal. Counts must be right, and what is not understood
//! (renames, binary patches, quoted names) is refused and never guessed at.

use contract::{Code, Fault, limits};

/// What a patch does to one file.
#[derive(Debug, PartialEq, Eq)]
pub struct FilePatch<'a> {
    pub path: &'a str,
    pub what: What,
    /// The part of the patch that speaks of this file.
    pub text: String,
    hunks: Vec<Hunk<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Create { executable: bool },
    Modify,
    Delete,
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
        .with_hint("give a unified diff, as `diff -u` or `git diff --no-renames` writes it")
}

/// Reads a patch. Every file appears once.
pub fn read(patch: &str) -> Result<Vec<FilePatch<'_>>, Fault> {
    // Not `lines`, which would take the carriage returns of the files away.
    let lines = patch.strip_suffix('\n').unwrap_or(patch).split('\n').collect();
    let mut reader = Reader { lines, next: 0, executable: false };
    let mut files: Vec<FilePatch<'_>> = Vec::new();
    while let Some(file) = reader.file()? {
        if files.iter().any(|known| known.path == file.path) {
            return Err(bad(format!("'{}' appears twice", file.path)));
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
    /// Said by a git header of the file to come.
    executable: bool,
}

impl<'a> Reader<'a> {
    fn line(&self) -> Option<&'a str> {
        self.lines.get(self.next).copied()
    }

    /// The next file, behind any words that precede its header.
    fn file(&mut self) -> Result<Option<FilePatch<'a>>, Fault> {
        self.executable = false;
        let mut bare = None;
        let old = loop {
            let Some(line) = self.line() else {
                // A git header without hunks makes or removes an empty file, or changes a mode.
                return match bare {
                    Some(header) => Err(bad(format!("'{header}' is followed by no change"))),
                    None => Ok(None),
                };
            };
            self.next += 1;
            let follows = self.line().is_some_and(|line| line.starts_with("+++ "));
            match line {
                _ if line.starts_with("--- ") && follows => break &line[4..],
                _ if line.starts_with("diff --git ") => {
                    if let Some(header) = bare {
                        return Err(bad(format!("'{header}' is followed by no change")));
                    }
                    bare = Some(line);
                }
                "new file mode 100755" => self.executable = true,
                _ if line.starts_with("new file mode 12") => {
                    return Err(bad("links are not made"));
                }
                _ if line.starts_with("rename ") || line.starts_with("copy ") => {
                    return Err(bad("renames and copies are not understood"));
                }
                _ if line.starts_with("old mode ") => {
                    return Err(bad("changes of a file's mode are not understood"));
                }
                _ if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") => {
                    return Err(bad("binary changes are not understood"));
                }
                _ if line.starts_with("@@ ") => {
                    return Err(bad(format!("'{line}' stands before any file's name")));
                }
                _ => {}
            }
        };
        let start = self.next - 1;
        let new = &self.line().unwrap_or_default()[4..];
        self.next += 1;
        let (path, what) = named(old, new, self.executable)?;
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
fn named<'a>(old: &'a str, new: &'a str, executable: bool) -> Result<(&'a str, What), Fault> {
    let name = |text: &'a str| text.split('\t').next().unwrap_or_default().trim_end();
    let (old, new) = (name(old), name(new));
    if old.starts_with('"') || new.starts_with('"') {
        return Err(bad("quoted names are not understood"));
    }
    let bare =
        |path: &'a str| path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path);
    match (old, new) {
        ("/dev/null", "/dev/null") | ("", _) | (_, "") => Err(bad("a file has no name")),
        ("/dev/null", new) => Ok((bare(new), What::Create { executable })),
        (old, "/dev/null") => Ok((bare(old), What::Delete)),
        (old, new) => {
            let prefixed = old.strip_prefix("a/").zip(new.strip_prefix("b/"));
            let (old, new) = prefixed.unwrap_or((old, new));
            match old == new {
                true => Ok((new, What::Modify)),
                false => Err(bad(format!("'{old}' and '{new}' differ: renames are not made"))),
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
            return Err(self.misfit(&self.hunks[0], "it removes the file but not all its lines"));
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
            (&format!("--- a/x\n+++ b/y\n{hunk}"), "'x' and 'y' differ: renames are not made"),
            (&format!("--- \"a/x\"\n+++ \"b/x\"\n{hunk}"), "quoted names are not understood"),
            (&format!("--- /dev/null\n+++ /dev/null\n{hunk}"), "a file has no name"),
            (
                "diff --git a/x b/y\nrename from x\nrename to y\n",
                "renames and copies are not understood",
            ),
            (
                "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
                "changes of a file's mode are not understood",
            ),
            ("diff --git a/x b/x\nGIT binary patch\n", "binary changes are not understood"),
            ("diff --git a/l b/l\nnew file mode 120000\n", "links are not made"),
            (
                "diff --git a/x b/x\nnew file mode 100644\nindex 0..0\n",
                "'diff --git a/x b/x' is followed by no change",
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
        let seen: Vec<_> = files.iter().map(|file| (file.path, file.what)).collect();
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

    proptest! {
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
