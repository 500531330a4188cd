//! What `{{…}}` and `${NAME}` a text of the configuration refers to, and which of them exist.
//! Only looks, before there is a run to fill anything in from; the one substituter is
//! `runtimes::template`, and its lists of names decide. Pure.

use super::nearest::did_you_mean;
use runtimes::launch::sounds_secret;
use runtimes::template::{FLAT_NAMES, ROOTS, is_lease_token};

/// The `{{…}}` of a text, without braces and blanks.
pub fn placeholders(text: &str) -> Vec<&str> {
    between(text, "{{", "}}").into_iter().map(str::trim).collect()
}

/// The names of the `${NAME}` of a text.
pub fn references(text: &str) -> Vec<&str> {
    let is_name = |name: &&str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    between(text, "${", "}").into_iter().filter(is_name).collect()
}

/// What of a prompt would be a secret: the lease token, and a `${NAME}` whose name is that of one. Other
/// names are left alone, because a prompt may speak of a shell.
pub fn secrets_for_a_model(text: &str) -> Vec<String> {
    let tokens = placeholders(text).into_iter().filter(|path| is_lease_token(path));
    let named = references(text).into_iter().filter(|name| sounds_secret(name));
    let tokens = tokens.map(|path| format!("{{{{{path}}}}}"));
    tokens.chain(named.map(|name| format!("${{{name}}}"))).collect()
}

/// Why a placeholder does not exist: the message and the hint.
pub fn unknown(name: &str) -> Option<(String, String)> {
    let root = name.split('.').next().unwrap_or(name);
    let known = if name.contains('.') { ROOTS.contains(&root) } else { FLAT_NAMES.contains(&name) };
    if known || ROOTS.contains(&name) {
        return None;
    }
    let all = FLAT_NAMES.iter().chain(ROOTS).copied();
    let hint = did_you_mean(root, all).unwrap_or_else(|| {
        format!(
            "the placeholders are {}, and {} with dotted paths",
            FLAT_NAMES.join(", "),
            ROOTS.join(", ")
        )
    });
    Some((format!("{{{{{name}}}}} is not a placeholder"), hint))
}

fn between<'t>(text: &'t str, open: &str, close: &str) -> Vec<&'t str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        let inside = &rest[start + open.len()..];
        let Some(end) = inside.find(close) else { break };
        found.push(&inside[..end]);
        rest = &inside[end + close.len()..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_refers_to_is_found_wherever_it_stands() {
        assert_eq!(
            placeholders("--dir={{ workspacePath }}/{{task.title}}{{"),
            ["workspacePath", "task.title"]
        );
        assert_eq!(references("${HOME}/x ${}:${A_1} $HOME ${not a name}"), ["HOME", "A_1"]);
    }

    #[test]
    fn secrets_in_prompts_are_found() {
        for (text, found) in [
            (
                "do {{ leaseToken }} and {{run.leaseToken}}",
                vec!["{{leaseToken}}", "{{run.leaseToken}}"],
            ),
            ("call it with ${API_KEY}", vec!["${API_KEY}"]),
            ("{{prompt}} in ${HOME}, for {{agent.name}}", vec![]),
        ] {
            assert_eq!(secrets_for_a_model(text), found, "{text}");
        }
    }

    #[test]
    fn an_unknown_placeholder_is_named_with_what_was_meant() {
        assert_eq!(unknown("workspacePath"), None);
        assert_eq!(unknown("task.title"), None);
        let (message, hint) = unknown("workspacepth").unwrap();
        assert_eq!(message, "{{workspacepth}} is not a placeholder");
        assert_eq!(hint, "did you mean 'workspacePath'?");
        // A plain word has no parts.
        assert!(unknown("prompt.length").is_some());
    }
}
