//! Waiting with a bound. A test never sleeps for a guessed time: it asks again until the answer is
//! there, and fails with the name of what it waited for when the bound has passed.

use std::time::{Duration, Instant};

/// How long to wait between two looks.
const PAUSE_MS: u64 = 5;

/// Asks `probe` until it answers, and panics when `bound_ms` have passed without an answer.
/// `what` completes the sentence "waited for …".
pub fn until<T>(what: &str, bound_ms: u64, mut probe: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(
            began.elapsed() < Duration::from_millis(bound_ms),
            "waited {bound_ms} ms for {what}, in vain"
        );
        std::thread::sleep(Duration::from_millis(PAUSE_MS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_late_is_taken() {
        let mut looks = 0;
        let answer = until("the third look", 10_000, || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(answer, 3);
    }

    #[test]
    #[should_panic(expected = "waited 20 ms for a thing that never comes, in vain")]
    fn an_answer_that_never_comes_is_named() {
        until::<()>("a thing that never comes", 20, || None);
    }
}
