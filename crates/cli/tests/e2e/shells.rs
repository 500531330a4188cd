//! Completions as the shells themselves read them: each loads the script that is printed for it and
//! completes one word, a command and the value of a flag. A shell that is not here is said to be
//! skipped, unless the gate says that it has brought it.

use crate::ostler::Ostler;
use std::io::ErrorKind;
use std::process::Stdio;

/// Where a script is put, and what the shell is told so that it prints what comes of `$WORDS`.
struct Shell {
    name: &'static str,
    file: &'static str,
    does: &'static str,
}

const SHELLS: [Shell; 3] = [
    Shell {
        name: "bash",
        file: "ostler.bash",
        does: r#"
source "$SCRIPTS/ostler.bash"
read -ra COMP_WORDS <<< "$WORDS"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_ostler ostler "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
echo "ostler ${COMPREPLY[*]}"
"#,
    },
    Shell {
        name: "fish",
        file: "ostler.fish",
        does: r#"
source "$SCRIPTS/ostler.fish"
complete -C "$WORDS" | string replace -r '\t.*' '' | string replace -r '^' 'ostler '
"#,
    },
    // It completes only what is typed at a terminal, so it gets one, and a key that tells what stands
    // there then. What it prints meanwhile is read, or it would wait for that.
    Shell {
        name: "zsh",
        file: "_ostler",
        does: r#"
zmodload zsh/zpty
zpty typed TERM=vt100 zsh -f -i
zpty -w typed 'fpath=("$SCRIPTS" $fpath); autoload -Uz compinit; compinit -u -D'
zpty -w typed 'tell() { print -r -- "$BUFFER" > "$SCRIPTS/told.part"; mv "$SCRIPTS/told.part" "$SCRIPTS/told" }'
zpty -w typed 'zle -N tell; bindkey "^X" tell'
zpty -w -n typed "$WORDS"$'\t\x18'
for try in {1..600}; do
  while zpty -rt typed seen 2>/dev/null; do :; done
  [[ -e "$SCRIPTS/told" ]] && break
  sleep 0.1
done
cat "$SCRIPTS/told"
zpty -d typed
"#,
    },
];

/// What this shell makes of these words; `None` when there is no such shell.
fn completed(ostler: &Ostler, shell: &Shell, words: &str) -> Option<String> {
    let scripts = ostler.instance.root().join(shell.name);
    std::fs::create_dir_all(&scripts).unwrap();
    // One that was told before is not told now.
    let _ = std::fs::remove_file(scripts.join("told"));
    let script = ostler.says(&["completions", shell.name]);
    assert_eq!(script.code, 0, "{}: {}", shell.name, script.stderr);
    std::fs::write(scripts.join(shell.file), script.stdout).unwrap();
    let mut command = ostler.instance.command(shell.name);
    let command = command.args(["-c", shell.does]).env("SCRIPTS", &scripts).env("WORDS", words);
    let output = match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        other => other.unwrap(),
    };
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaint.is_empty(), "{}: {complaint}", shell.name);
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn every_shell_reads_its_script_and_completes_a_word() {
    let ostler = Ostler::new();
    let brought = std::env::var_os("OSTLER_TEST_SHELLS").is_some();
    for shell in &SHELLS {
        for (words, last) in [("ostler approv", "approvals"), ("ostler runs dele", "delete")] {
            let Some(said) = completed(&ostler, shell, words) else {
                assert!(!brought, "{} is not here: run ./scripts/test --stage e2e", shell.name);
                eprintln!("skipped: there is no {} here; ./scripts/test brings it", shell.name);
                break;
            };
            let mut found = said.trim_end().lines();
            let line = found.next().unwrap_or_default();
            assert_eq!(line.split(' ').next_back(), Some(last), "{}: {said:?}", shell.name);
            assert_eq!(found.next(), None, "nothing else fits: {}: {said:?}", shell.name);
        }
    }
}
