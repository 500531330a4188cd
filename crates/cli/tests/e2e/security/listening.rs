//! Where the server may listen: on this machine alone. Anything else needs TLS and is refused before
//! anything is opened.

use super::Tally;
use crate::ostler::{Ostler, Running};

#[test]
fn nothing_but_loopback_is_listened_on() {
    let rows = [
        ("0.0.0.0:0", 3),
        ("0.0.0.0:7717", 3),
        ("[::]:0", 3),
        ("[::ffff:127.0.0.1]:0", 3),
        ("[::ffff:0.0.0.0]:0", 3),
        ("192.0.2.1:0", 3),
        ("10.0.0.1:0", 3),
        ("169.254.169.254:80", 3),
        ("224.0.0.1:0", 3),
        ("255.255.255.255:0", 3),
        ("[fe80::1]:0", 3),
        ("[2001:db8::1]:0", 3),
        // What is no address is not looked up: a name may lead anywhere.
        ("localhost:0", 2),
        ("evil.example:0", 2),
        ("127.0.0.1", 2),
        ("127.1:0", 2),
        ("0:0", 2),
        (":7717", 2),
        ("*:7717", 2),
        ("", 2),
        ("unix:sock", 2),
        ("127.0.0.1:99999", 2),
        ("127.0.0.1:0\u{1b}[2J", 2),
    ];
    let ostler = Ostler::new();
    let mut tally = Tally::new("listening");
    for (address, exit) in rows {
        let said = ostler.says(&["serve", "--listen", address]);
        let clear = said.stderr.contains("--listen") && said.stderr.contains("hint: ");
        let quiet = said.stdout.is_empty() && !said.stderr.contains('\u{1b}');
        tally.row(said.code == exit && clear && quiet, || format!("{address}: {said:?}"));
    }
    ostler.instance.write_config(r#"{ "server": { "listen": "0.0.0.0:0" } }"#);
    let said = ostler.says(&["serve"]);
    tally.row(said.code == 3 && said.stdout.is_empty(), || format!("configured: {said:?}"));
    for address in ["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"] {
        let mut serve: Running = ostler.starts(&["serve", "--listen", address]);
        let line = serve.line();
        // A machine without IPv6 cannot listen there, and says so.
        let held = line.starts_with("listening on http://") || address.starts_with('[');
        tally.row(held, || format!("{address}: {line}"));
        let _ = serve.child.kill();
        let _ = serve.child.wait();
    }
    tally.close(25);
}
