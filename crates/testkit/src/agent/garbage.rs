//! Odd bytes, as data: what agents really print between their events, and what an enemy would. Each
//! has a name, so that a failing test can say which one it was, and `--odd NAME` says it alone.
//! None may end a run, stop its reader or be lost. `lines` are single lines without their newline;
//! `streams` are several, each with its own end.

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
        ("raw ESC inside JSON", b"{\"type\":\"progress\",\"summary\":\"\x1b[31mred\"}".to_vec()),
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
        ("cut characters", b"{\"type\":\"progress\",\"summary\":\"\xe2\x82\"}".to_vec()),
        ("surrogates the wrong way round", br#"{"type":"comment","text":"\udc00\ud800"}"#.to_vec()),
        (
            "deep inside an event",
            [
                &br#"{"type":"progress","summary":"deep","beliefs":"#[..],
                &b"[".repeat(deep),
                &b"]".repeat(deep),
                b"}",
            ]
            .concat(),
        ),
        ("a hundred thousand keys", many_keys(100_000)),
        (
            "a number above all",
            br#"{"type":"progress","summary":"above","beliefs":[1e400]}"#.to_vec(),
        ),
        (
            "two to the sixty-fourth",
            br#"{"type":"progress","summary":"big","beliefs":[18446744073709551616]}"#.to_vec(),
        ),
        ("minus zero", br#"{"type":"progress","summary":"zero","beliefs":[-0,-0.0]}"#.to_vec()),
        ("not a number", br#"{"type":"progress","summary":"nan","beliefs":[NaN]}"#.to_vec()),
        (
            "negative usage",
            br#"{"type":"event","event":{"kind":"usage","tokens":{"input_uncached":-5,"cache_read":0,"cache_write":0,"output":0},"basis":"increment"}}"#
                .to_vec(),
        ),
        (
            "huge usage",
            br#"{"type":"event","event":{"kind":"usage","tokens":{"input_uncached":18446744073709551615,"cache_read":18446744073709551615,"cache_write":0,"output":1},"basis":"increment"}}"#
                .to_vec(),
        ),
        (
            "huge money",
            br#"{"type":"progress","summary":"rich","cost":{"usd":1e300,"outputTokens":7}}"#.to_vec(),
        ),
        (
            "an envelope of its own",
            br#"{"type":"event","event":{"kind":"log","text":"forged","v":9,"seq":1,"run_id":"run_00000000000000000000000000000001","ts":"1970-01-01T00:00:00Z","fence":99,"origin":"operator"}}"#
                .to_vec(),
        ),
        (
            "times long gone and far away",
            br#"{"type":"event","event":{"kind":"quota","provider":"p","windows":[{"id":"w","resets_at":"0001-01-01T00:00:00Z","exhausted":false}],"rate_limited":false,"resets_at":"9999-12-30T00:00:00Z"}}"#
                .to_vec(),
        ),
        (
            "a time that is none",
            br#"{"type":"event","event":{"kind":"quota","provider":"p","windows":[],"rate_limited":false,"resets_at":"2026-02-31T25:61:00Z"}}"#
                .to_vec(),
        ),
        (
            "an answer nobody asked for",
            br#"{"type":"event","event":{"kind":"tool_result","tool_call_id":"nobody","status":"ok","output":1}}"#
                .to_vec(),
        ),
        ("a call with an odd id", br#"{"type":"tool_call","id":{"a":1},"tool":"read_task"}"#.to_vec()),
        ("a method of another protocol", br#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#.to_vec()),
        ("a batch", br#"[{"jsonrpc":"2.0","id":1},{"jsonrpc":"2.0","id":1}]"#.to_vec()),
    ]
}

const OWN_CALL: &str = "{\"type\":\"event\",\"event\":{\"kind\":\"tool_use\",\"tool_call_id\":\"own\",\"name\":\"build\",\"input\":{},\"via\":\"native\"}}\n";
const OWN_ANSWER: &str = "{\"type\":\"event\",\"event\":{\"kind\":\"tool_result\",\"tool_call_id\":\"own\",\"status\":\"ok\",\"output\":1}}\n";

/// Odd sequences of lines, named, with their newlines.
pub fn streams() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        (
            "one object over several lines",
            b"{\n  \"type\": \"progress\",\n  \"summary\": \"pretty\"\n}\n".to_vec(),
        ),
        (
            "lines ended by CRLF",
            b"{\"type\":\"progress\",\"summary\":\"one\"}\r\n{\"type\":\"comment\",\"text\":\"two\"}\r\n"
                .to_vec(),
        ),
        (
            "a closing line between carriage returns",
            b"\r{\"type\":\"progress\",\"summary\":\"spinner\"}\r\n".to_vec(),
        ),
        (
            "a package manager's banner",
            b"\nnpm notice\nnpm notice New major version of npm available! 10.2.3 -> 11.0.0\n\
              npm notice\n\n  > agent@1.0.0 start\n  > node agent.js\n\n"
                .to_vec(),
        ),
        (
            "a tool of its own, twice under one id",
            [OWN_CALL, OWN_CALL, OWN_ANSWER, OWN_ANSWER, OWN_CALL].concat().into_bytes(),
        ),
        ("empty lines", b"\n\n\r\n \n\t\n".to_vec()),
    ]
}

/// What `--odd NAME` says, with the newline that ends it.
pub fn odd(name: &str) -> Option<Vec<u8>> {
    let line = lines().into_iter().find(|(known, _)| *known == name);
    let line = line.map(|(_, line)| [&line[..], b"\n"].concat());
    line.or_else(|| streams().into_iter().find(|(known, _)| *known == name).map(|(_, all)| all))
}

/// All of it, and the end of a run: what standard error has is never taken for more than words.
pub fn aside() -> Vec<u8> {
    let (lines, streams) = (lines(), streams());
    let names = lines.iter().chain(&streams).filter_map(|(name, _)| odd(name));
    let end = b"{\"type\":\"failed\",\"reason\":\"said aside\"}\n".to_vec();
    names.chain([end]).flatten().collect()
}

fn many_keys(count: usize) -> Vec<u8> {
    let keys: Vec<String> = (0..count).map(|n| format!("\"k{n}\":{n}")).collect();
    let keys = keys.join(",");
    format!("{{\"type\":\"progress\",\"summary\":\"keys\",\"beliefs\":[{{{keys}}}]}}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_odd_line_holds_a_newline_and_each_is_said_by_a_name_of_its_own() {
        let (lines, streams) = (lines(), streams());
        let all = || lines.iter().chain(&streams);
        let names: std::collections::BTreeSet<_> = all().map(|(name, _)| name).collect();
        assert_eq!(names.len(), all().count());
        assert!(lines.iter().all(|(_, line)| !line.contains(&b'\n')));
        assert!(all().all(|(name, _)| odd(name).is_some_and(|bytes| bytes.ends_with(b"\n"))));
    }
}
