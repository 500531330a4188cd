//! The points as they are under torture: the process that passes the named one for the given time
//! writes into the file who it is, and ends at once, by SIGKILL. The file is made exclusively, so
//! of all processes that were told one dies, and whoever told them can take the file first to
//! disarm them.

use crate::{Point, VARIABLE};
use rustix::process::{Signal, getpid, kill_process};
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

struct Order {
    name: String,
    hit: u64,
    file: PathBuf,
    passed: AtomicU64,
}

fn order() -> Option<&'static Order> {
    static ORDER: OnceLock<Option<Order>> = OnceLock::new();
    ORDER.get_or_init(|| parse(&given()?)).as_ref()
}

#[expect(clippy::disallowed_methods, reason = "torture speaks to every process, keepers too")]
fn given() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

fn parse(text: &str) -> Option<Order> {
    let mut parts = text.splitn(3, ':');
    let (name, hit, file) = (parts.next()?, parts.next()?, parts.next()?);
    let hit = hit.parse().ok()?;
    Some(Order { name: name.to_owned(), hit, file: file.into(), passed: AtomicU64::new(0) })
}

/// Passes a point. The process may end here.
pub fn hit(point: Point) {
    let Some(order) = order() else { return };
    if order.name == point.name() && order.passed.fetch_add(1, Ordering::SeqCst) + 1 == order.hit {
        die(order);
    }
}

fn die(order: &Order) {
    // A keeper is called by the end of its run's id.
    let name = fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let own = order.file.with_extension(name.trim());
    // A link loses to whoever was first, and shows a file with its content or none.
    if fs::write(&own, name.trim()).and_then(|()| fs::hard_link(&own, &order.file)).is_err() {
        return;
    }
    let _ = kill_process(getpid(), Signal::KILL);
    // The first process of a namespace is not killed from inside; it can only leave.
    std::process::exit(137);
}

/// What a child that is given no environment needs of this.
pub fn passed_on() -> Option<(&'static str, String)> {
    given().map(|given| (VARIABLE, given))
}

/// A limit, made smaller by a divisor.
pub const fn shrunk(limit: u64, divisor: u64) -> u64 {
    limit / divisor
}
