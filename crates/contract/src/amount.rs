//! Exact amounts in the words of messages: `$0.50`, `60,000 tokens`, `1 turn`, `4.2 s`. They name limits
//! that a user has set, so nothing is rounded.

use crate::NanoUsd;

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 token`, `60,000 tokens`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// `$0.50`, `$1,200.00`, `$0.0042`.
pub fn dollars(amount: NanoUsd) -> String {
    let nano = amount.0.max(0).unsigned_abs();
    let decimals = format!("{:09}", nano % 1_000_000_000);
    let (cents, less) = decimals.split_at(2);
    format!("${}.{cents}{}", grouped(nano / 1_000_000_000), less.trim_end_matches('0'))
}

/// `600 s`, `4.2 s`, `300 ms`.
pub fn span(ms: u64) -> String {
    match (ms / 1000, ms % 1000) {
        (0, 1..) => format!("{ms} ms"),
        (seconds, 0) => format!("{seconds} s"),
        (seconds, rest) => {
            format!("{seconds}.{} s", format!("{rest:03}").trim_end_matches('0'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        assert_eq!([7, 1_000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 1, 60_000].map(|n| counted(n, "token")),
            ["0 tokens", "1 token", "60,000 tokens"]
        );
        let nano = [0, 100, 4_200_000, 80_000_000, 125_000_000, 500_000_000, 1_200_000_000_000];
        let told = ["$0.00", "$0.0000001", "$0.0042", "$0.08", "$0.125", "$0.50", "$1,200.00"];
        assert_eq!(nano.map(|nano| dollars(NanoUsd(nano))), told);
        let ms = [0, 300, 1_000, 4_200, 1_050, 600_000];
        assert_eq!(ms.map(span), ["0 s", "300 ms", "1 s", "4.2 s", "1.05 s", "600 s"]);
    }
}
