//! The API as a program meets it. The wrong ways to knock are in `security/`.

use crate::door::{Answer, Door};

#[test]
fn a_run_can_be_started_and_read_over_http_by_name_alone() {
    let door = Door::open();
    let bearer = format!("Bearer {}", door.token);
    let headers = [
        ("host", door.address.as_str()),
        ("authorization", &bearer),
        ("content-type", "application/json"),
    ];
    let body = format!(
        r#"{{"agent":"demo","prompt":"hello","cwd":"{}"}}"#,
        door.ostler.instance.work().display()
    );
    let Answer { status, body: started, .. } =
        door.request("POST", "/api/v1/runs", &headers, &body);
    assert_eq!(status, 201, "{started}");
    let id = started.split("\"run_id\":\"").nth(1).map(|rest| rest[..36].to_owned()).unwrap();
    let followed =
        [headers[0], headers[1], ("accept", "text/event-stream"), ("last-event-id", "2")];
    let Answer { status, body: stream, .. } =
        door.request("GET", &format!("/api/v1/runs/{id}/events"), &followed, "");
    assert_eq!(status, 200);
    assert!(stream.contains("id: 3\ndata: {\"v\":1") && !stream.contains("id: 2\n"), "{stream}");
    assert!(stream.contains("\"kind\":\"result\""));
    let Answer { status, body: transcript, .. } = door.request(
        "GET",
        &format!("/api/v1/runs/{id}/events?view=transcript"),
        &headers[..2],
        "",
    );
    assert!(
        status == 200
            && transcript.contains("\"kind\":\"tool_call\"")
            && transcript.contains("toolUseId"),
        "{transcript}"
    );
    let Answer { status, body, .. } = door.request("POST", "/mcp", &headers, "{}");
    assert!(status == 403 && body.contains("forbidden"), "{status} {body}");
}
