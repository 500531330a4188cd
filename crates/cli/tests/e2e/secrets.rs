//! A canary: a secret that the agent prints in every disguise is found nowhere afterwards.

use crate::ostler::{Ostler, Said, result};

const CANARY: &str = "c4n4ry-Sw33t+song/\"of\"=2026";

#[test]
fn a_secret_printed_in_every_disguise_is_nowhere_afterwards() {
    let ostler = Ostler::new();
    ostler.instance.write_config(&format!(
        r#"{{ "adapters": {{ "leaky": {{ "type": "process", "binary": "{}",
              "args": ["--leak", "CANARY"], "env": {{ "CANARY": "${{CANARY}}" }} }} }} }}"#,
        testkit::fake_agent().display()
    ));
    let mut command = ostler.command(&["run", "leaky", "sing", "--json"]);
    let said = Said::from(command.env("CANARY", CANARY).output().unwrap());
    let events = said.events();
    assert_eq!(result(&events)["outcome"], "succeeded", "{said:#?}");
    assert!(said.stdout.contains("[redacted:CANARY]"), "{}", said.stdout);

    let joined: String = events
        .iter()
        .filter(|event| event["delta"] == true)
        .filter_map(|event| event["text"].as_str())
        .collect();
    let escaped = serde_json::to_string(CANARY).unwrap();
    let escaped = escaped.trim_matches('"');
    let base64 = "YzRuNHJ5LVN3MzN0K3Nvbmcv";
    for (place, bytes) in ostler
        .files()
        .into_iter()
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap_or_default()))
        .chain([
            ("stdout".to_owned(), said.stdout.clone().into_bytes()),
            ("stderr".to_owned(), said.stderr.clone().into_bytes()),
            ("deltas, joined".to_owned(), joined.into_bytes()),
        ])
    {
        for form in [CANARY, escaped, base64, "c4n4ry-Sw33t%2Bsong"] {
            let found = bytes.windows(form.len()).any(|window| window == form.as_bytes());
            assert!(!found, "{form} is in {place}");
        }
    }
}

#[test]
fn the_tokens_of_the_run_and_of_the_house_are_kept_out_too() {
    let ostler = Ostler::new();
    let agent = ostler.fake("--echo-env CA_LEASE_TOKEN --echo-env OSTLER_API_KEY");
    let said = ostler.says(&["run", "--process", &agent, "x", "--json"]);
    assert_eq!(result(&said.events())["outcome"], "succeeded");
    assert!(said.stdout.contains("[redacted"), "{}", said.stdout);
    let token = std::fs::read_to_string(ostler.instance.data().join("token")).unwrap();
    assert!(!said.stdout.contains(token.trim()));
}
