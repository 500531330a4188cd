//! `docs/guide.md` as its readers play it, with the demo agent (`console.rs` says how).

use crate::console::{Reader, steps};
use crate::ostler::Ostler;

const PAGE: &str = include_str!("../../../../docs/guide.md");

#[test]
fn the_guide_does_what_it_says() {
    let steps = steps(PAGE);
    assert!(steps.len() > 20, "the page has its commands: {steps:#?}");
    let ostler = Ostler::new();
    // Any free port: the page's own may be taken.
    ostler.instance.write_config(r#"{ "server": { "listen": "127.0.0.1:0" } }"#);
    let mut reader = Reader::new(&ostler, Vec::new());
    for step in &steps {
        reader.plays(step);
    }
}
