//! Lines that are no events, as data: what agents really print between their events, and what an
//! enemy would. Each has a name, so that a failing test can say which one it was. None holds a
//! newline; none may end a run, stop its reader or be lost.

/// The odd lines, named, without their newlines.
pub fn lines() -> Vec<(&'static str, Vec<u8>)> {
    let deep = 100_000;
    vec![
        ("plain words", b"npm notice: a new version is available".to_vec()),
        ("blank", b"   ".to_vec()),
        ("invalid UTF-8", b"{\"type\":\"progress\",\"summary\":\"\xff\xfe \xc3\x28\"}".to_vec()),
        ("overlong UTF-8", b"\xc0\xaf\xe0\x80\xaf".to_vec()),
        ("lone surrogate", br#"{"type":"progress","summary":"\ud800"}"#.to_vec()),
        ("byte order mark", b"\xef\xbb\xbf{\"type\":\"progress\",\"summary\":\"bom\"}".to_vec()),
        ("NUL bytes", b"\0\0{\"type\":\"progress\"}\0".to_vec()),
        ("escaped NUL", br#"{"type":"progress","summary":"a\u0000b"}"#.to_vec()),
        ("two objects", br#"{"type":"progress","summary":"one"} {"type":"progress"}"#.to_vec()),
        ("broken JSON", br#"{"type":"complete","output":{"#.to_vec()),
        ("deep nesting", [b"[".repeat(deep), b"]".repeat(deep)].concat()),
        ("carriage return at the end", b"{\"type\":\"progress\",\"summary\":\"crlf\"}\r".to_vec()),
        ("carriage return inside", b"loading 10 %\rloading 100 %".to_vec()),
        ("ANSI colours", b"\x1b[31mred\x1b[0m {\"type\":\"progress\"}".to_vec()),
        ("terminal title and clipboard", b"\x1b]0;title\x07\x1b]52;c;aGk=\x07".to_vec()),
        ("ANSI inside JSON", br#"{"type":"progress","summary":"\u001b[2J\u001b[31mred"}"#.to_vec()),
        ("line separators", "{\"type\":\"comment\",\"text\":\"\u{2028}\u{2029}\"}".into()),
        ("bidi override", "{\"type\":\"comment\",\"text\":\"\u{202e}gnp.exe\"}".into()),
        ("no type", br#"{"summary":"who am I"}"#.to_vec()),
        ("unknown type", br#"{"type":"sing","song":"la la"}"#.to_vec()),
        ("type of another type", br#"{"type":42}"#.to_vec()),
        (
            "unknown kind",
            br#"{"type":"event","event":{"kind":"result","outcome":"succeeded"}}"#.to_vec(),
        ),
        ("an array", br#"[{"type":"complete"}]"#.to_vec()),
        ("a number", b"1e400".to_vec()),
        ("duplicate keys", br#"{"type":"progress","type":"complete","summary":"twice"}"#.to_vec()),
        ("wrong fields", br#"{"type":"progress","summary":{"not":"text"},"beliefs":3}"#.to_vec()),
        ("a call without an id", br#"{"type":"tool_call","tool":"read_task"}"#.to_vec()),
        ("absurd money", br#"{"type":"progress","summary":"m","cost":{"usd":-1e300}}"#.to_vec()),
        (
            "absurd tokens",
            br#"{"type":"progress","summary":"t","cost":{"inputTokens":-5}}"#.to_vec(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_odd_line_holds_a_newline_and_each_has_a_name_of_its_own() {
        let lines = lines();
        let names: std::collections::BTreeSet<_> = lines.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), lines.len());
        assert!(lines.iter().all(|(_, line)| !line.contains(&b'\n')));
    }
}
