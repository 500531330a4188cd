//! Harmless texts as agents write and read them: code, logs, prose, hashes, ids, lock files, images,
//! figures of tokens. Made here by chance from templates of our own; each `{…}` becomes something.

use super::Chance;

const LINES: usize = 12_000;

const TEMPLATES: &[&str] = &[
    "    let {name} = {name}.iter().map(|{name}| {name}.len()).sum::<usize>();",
    "pub fn {name}(&self, key: &str) -> Option<&Value> { self.{name}.get(key) }",
    "    match lexer.next_token() { Token::{Name} => {name}(token)?, other => return Err(other) }",
    "for (key, value) in {name}.items(): print(key, value)",
    "const {name} = await {name}.find({ id: {name}Id, limit: {number} });",
    "import { {Name}, {Name} } from './{name}/{name}.js';",
    "  if (event.key === 'Enter' && !event.shiftKey) { {name}(event.target.value); }",
    "function {name}(e,t){return e.keyCode===13?t.{name}(e):void 0!==t&&t.{name}}var {name}={number};",
    "type {Name} = { password: string; token?: string; keys: string[] };",
    "    password = getpass.getpass(prompt='{Name}: ')",
    "const apiKey = process.env.API_KEY ?? config.{name};",
    "assert token_count({name}) == {number}, f'{name} has {number} tokens'",
    "SELECT {name}, primary_key FROM {name} WHERE {name}_id = {number} ORDER BY {name};",
    "{time} INFO  {name}::{name}: handled request id={uuid} status=200 took={number}ms",
    "{time} WARN  [{name}-{number}] retry {number} of 5 for https://{name}.example.com/{name}/{number}",
    "{time} DEBUG cache key {name}:{number} missed, token bucket has {number} left",
    "commit {sha} ({name}/{name}) {Name} {name} {name}",
    "   {short}..{short}  {name} -> origin/{name}-{number}",
    "index {short}..{short} 100644",
    "@@ -{number},{number} +{number},{number} @@ fn {name}()",
    "checksum = \"{sha256}\"",
    "name = \"{name}-{name}\"",
    "source = \"registry+https://github.com/rust-lang/crates.io-index\"",
    "      \"integrity\": \"sha512-{base64}==\",",
    "      \"resolved\": \"https://packages.example/{name}/-/{name}-{number}.{number}.0.tgz\",",
    "{name}@^{number}.{number}.0: version \"{number}.{number}.1\"",
    "    --hash=sha256:{sha256} \\",
    "FROM {name}/{name}@sha256:{sha256}",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA{base64}{base64}{base64}AAAABJRU5ErkJggg==",
    "{sha}  {name}/{name}.tar.gz",
    "run_{hex32} task_{hex32} {uuid}",
    "{\"type\":\"usage\",\"input_tokens\":{number},\"output_tokens\":{number},\"max_tokens\":4096}",
    "{\"id\":\"{uuid}\",\"name\":\"{name}\",\"size\":{number},\"tags\":[\"{name}\",\"{name}\"]}",
    "The {name} of the {name} is the key to {name}, and {name} {name} it {name}.",
    "Please {name} the {name} before {name}; a secret is never kept by {name} {name}.",
    "Press any key to {name}. The keyboard has {number} keys and the monkey none.",
    "Der Schlüssel liegt unter der Fußmatte, sagte {name}; {Name} lächelte über {number} Äpfel.",
    "Les clés de l'hôtel sont à la réception — {name}, {name} et {name}.",
    "鍵は机の上にあります。 {name} は {number} 個です。 ✓ 🔑 {name}",
    "see https://docs.example.com/{name}/{name}?page={number}&sort={name}#{name} for the {name}",
    "mail {name}@{name}.example.org or ask {name} in #{name}",
    "C:\\Users\\{name}\\AppData\\Local\\{Name}\\{name}.exe --{name} --{name}-{name}={number}",
    "/usr/lib/{name}/{name}-{number}.{number}/{name}.so.{number} => {name} (0x0000{hex12})",
    "0000{short}: {hex4} {hex4} {hex4} {hex4} {hex4} {hex4} {hex4} {hex4}  ................",
    "test {name}::{name}::{name}_{name}_{name} ... ok",
    ".{name}-{name} > .{name} { color: #{hex6}; margin: 0 {number}px; transition: all .2s }",
    "<div class=\"{name} {name}-{name}\" data-key=\"{number}\"><a href=\"/{name}\">{Name}</a></div>",
    "sk-{name}-{name} and task-{name}-{name}-{name} are branches; npm_{name}_{name} is a setting",
    "export PATH=$HOME/.{name}/bin:$PATH MAX_TOKENS={number} API_KEY=$OTHER_KEY",
    "| {Name} | {number} | {name} {name} | {sha} |",
    "{base64}{base64}",
    // Settings, manifests and descriptions of interfaces, all of them names and values in quotes.
    "  \"name\": \"{name}-{name}\", \"version\": \"{number}.0.1\", \"license\": \"MIT\", \"private\": true,",
    "  \"scripts\": { \"build\": \"{name} build --{name}\", \"test\": \"{name} test src/{name}\", \"lint\": \"{name} .\" },",
    "  \"dependencies\": { \"{name}-{name}\": \"^{number}.1.0\", \"@{name}/{name}\": \"~2.{number}.0\" },",
    "  \"editor.fontSize\": {number}, \"editor.tabSize\": 2, \"{name}.{name}\": \"{name}\", \"files.eol\": \"auto\",",
    "  \"keywords\": [\"{name}\", \"{name}\", \"{name}\"], \"author\": \"{Name} <{name}@example.org>\",",
    "{\"openapi\":\"3.1.0\",\"paths\":{\"/{name}/{id}\":{\"get\":{\"operationId\":\"{name}{Name}\",\"tags\":[\"{name}\"]}}}}",
    "{\"type\": \"object\", \"required\": [\"token\", \"{name}\"], \"properties\": {\"token\": {\"type\": \"string\"}}}",
    "{\"securitySchemes\": {\"{name}\": {\"type\": \"apiKey\", \"in\": \"header\", \"name\": \"X-API-Key\"}}}",
    "{\"grant_type\": \"{name}\", \"token_type\": \"Bearer\", \"expires_in\": {number}, \"scope\": \"{name} {name}\"}",
    "[{\"key\": \"ctrl+shift+{name}\", \"command\": \"{name}.{name}\", \"when\": \"{name}Focus && !{name}\"}]",
    "{\"primaryKey\": \"id\", \"foreignKey\": \"{name}_id\", \"table\": \"{name}\", \"onDelete\": \"cascade\"}",
    "{\"compilerOptions\": {\"target\": \"es2022\", \"module\": \"{name}\", \"outDir\": \"./{name}\", \"strict\": true}}",
    "{\"id\": {number}, \"title\": \"{Name} {name}\", \"state\": \"open\", \"labels\": [\"{name}\"], \"sha\": \"{sha}\"}",
    "{name}: { image: \"{name}/{name}:{number}\", ports: [\"{number}:80\"], restart: always, secrets: [{name}_{name}] }",
    "Traceback: File \"/srv/{name}/{name}.py\", line {number}, in {name}: KeyError: '{name}'",
];

const WORDS: &[&str] = &[
    "account", "apple", "batch", "border", "branch", "bridge", "buffer", "candle", "carry",
    "client", "cloud", "column", "corner", "cursor", "delta", "engine", "event", "feather",
    "field", "filter", "forest", "frame", "garden", "handle", "harbour", "index", "island",
    "journal", "kettle", "ladder", "ledger", "letter", "limit", "marker", "meadow", "mirror",
    "module", "needle", "number", "object", "orange", "parser", "pebble", "pencil", "planet",
    "policy", "public", "queue", "reader", "record", "result", "river", "router", "sample",
    "saddle", "schema", "server", "signal", "silver", "sketch", "socket", "source", "spool",
    "stable", "stream", "string", "summer", "switch", "table", "target", "thread", "timber",
    "update", "valley", "vector", "version", "walnut", "window", "winter", "worker", "writer",
];

const HEX: &str = "0123456789abcdef";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn lines(chance: &mut Chance) -> Vec<String> {
    (0..LINES).map(|number| filled(TEMPLATES[number % TEMPLATES.len()], chance)).collect()
}

fn filled(template: &str, chance: &mut Chance) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let inside = &rest[open + 1..];
        let made =
            inside.find('}').and_then(|close| Some((close, made(&inside[..close], chance)?)));
        match made {
            Some((close, text)) => {
                out += &rest[..open];
                out += &text;
                rest = &inside[close + 1..];
            }
            None => {
                out += &rest[..=open];
                rest = inside;
            }
        }
    }
    out + rest
}

fn made(what: &str, chance: &mut Chance) -> Option<String> {
    let hex = |length| move |chance: &mut Chance| chance.text(HEX, length);
    Some(match what {
        "name" => (*chance.pick(WORDS)).to_owned(),
        "Name" => {
            let word = *chance.pick(WORDS);
            word[..1].to_uppercase() + &word[1..]
        }
        "number" => chance.below(100_000).to_string(),
        "sha" => hex(40)(chance),
        "sha256" => hex(64)(chance),
        "short" => hex(7)(chance),
        "hex4" => hex(4)(chance),
        "hex6" => hex(6)(chance),
        "hex12" => hex(12)(chance),
        "hex32" => hex(32)(chance),
        "uuid" => {
            let parts = [8, 4, 4, 4, 12].map(|length| hex(length)(chance));
            parts.join("-")
        }
        "base64" => chance.text(BASE64, 86),
        "time" => format!(
            "2026-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            1 + chance.below(12),
            1 + chance.below(28),
            chance.below(24),
            chance.below(60),
            chance.below(60),
            chance.below(1000)
        ),
        _ => return None,
    })
}
