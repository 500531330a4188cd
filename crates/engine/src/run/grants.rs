//! Permissions that a person gave for the rest of a run ("always"). A grant is derived from the
//! question it was given with, as narrow as the question allows: all edits inside the working
//! directory, this one command line, or this one tool. A later question is covered if the same
//! grant would be derived from it. Grants are part of the machine's state, so a host that adopts
//! the run answers by them too.

use super::asks::{About, Ask};
use contract::event::PermissionRequest;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path};

/// A permission for the rest of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Grant {
    /// Every edit of files inside the directory that the run works in.
    Edits { cwd: String },
    /// One command line in one directory.
    Command { command: String, cwd: Option<String> },
    /// Every use of a tool.
    Tool { tool: String },
}

impl Grant {
    /// The grant that the answer `always` gives; `None` where each request needs its own answer.
    pub fn of(ask: &Ask) -> Option<Self> {
        match &ask.about {
            _ if ask.each_time => None,
            About::Relayed(call) => Some(Self::Tool { tool: call.tool.clone() }),
            About::Approval(_) => None,
            About::Native(question) => Self::of_request(&question.content),
        }
    }

    fn of_request(request: &PermissionRequest) -> Option<Self> {
        let cwd = request.cwd.clone();
        match request.tool_kind.as_deref()? {
            "edit" => {
                let cwd = cwd?;
                let inside = |path: &String| is_inside(Path::new(path), Path::new(&cwd));
                let known = !request.paths.is_empty() && request.paths.iter().all(inside);
                known.then_some(Self::Edits { cwd })
            }
            "execute" => {
                // Of a command that was cut, two different ones would look the same.
                let command = request.command.clone().filter(|_| request.cut.is_none())?;
                Some(Self::Command { command, cwd })
            }
            "delete" | "move" => None,
            _ => Some(Self::Tool { tool: request.tool.clone()? }),
        }
    }

    /// What it allows, in words.
    pub fn words(&self) -> String {
        match self {
            Self::Edits { .. } => "all edits in the working directory, for this run".to_owned(),
            Self::Command { .. } => "this command, for this run".to_owned(),
            Self::Tool { tool } => format!("every use of {tool}, for this run"),
        }
    }
}

/// Whether a path lies inside a directory, by its parts alone.
fn is_inside(path: &Path, dir: &Path) -> bool {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    !climbs && (path.is_relative() || path.starts_with(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: &str, paths: &[&str], command: Option<&str>) -> PermissionRequest {
        PermissionRequest {
            tool: Some("T".to_owned()),
            tool_kind: Some(kind.to_owned()),
            command: command.map(str::to_owned),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            cwd: Some("/w".to_owned()),
            ..PermissionRequest::default()
        }
    }

    #[test]
    fn grant_is_as_narrow_as_its_question() {
        let words = |request: PermissionRequest| Grant::of_request(&request).map(|g| g.words());
        let edits = Some("all edits in the working directory, for this run".to_owned());
        assert_eq!(words(request("edit", &["/w/a", "b/c"], None)), edits);
        for outside in [&["/x/a"][..], &["/w/../x"], &["../x"], &["/w/a", "/wx/b"], &[]] {
            assert_eq!(words(request("edit", outside, None)), None, "{outside:?}");
        }
        let command = |text| Grant::of_request(&request("execute", &[], text));
        assert_ne!(command(Some("ls")), command(Some("ls -l")));
        assert_eq!(command(None), None);
        let cut = PermissionRequest { cut: Some(true), ..request("execute", &[], Some("ls")) };
        assert_eq!(Grant::of_request(&cut), None);
        assert_eq!(
            words(request("fetch", &[], None)),
            Some("every use of T, for this run".to_owned())
        );
        assert_eq!(words(request("delete", &["/w/a"], None)), None);
    }
}
