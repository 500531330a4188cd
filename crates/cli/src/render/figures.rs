//! Numbers as people read them: how long, how many, how much, when. Pure; the clock is passed in.

use contract::{Billing, NanoUsd, Timestamp, amount};

/// `850 ms`, `1.3 s`, `2 min 05 s`, `1 h 02 min`.
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..=9 => format!("{}.{} s", seconds, ms % 1000 / 100),
        10..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Time that is still running, in whole seconds so that it does not flicker.
pub fn elapsed(ms: u64) -> String {
    if ms < 60_000 { format!("{} s", ms / 1000) } else { duration(ms) }
}

/// A text in which times in UTC are moments on a clock here.
pub fn with_moments(text: &str, now: Timestamp) -> String {
    let is_part = |c: char| c.is_ascii_digit() || "TZ:.-".contains(c);
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(is_part) {
        let (before, from) = rest.split_at(at);
        let end = from.find(|c| !is_part(c)).unwrap_or(from.len());
        // A full stop behind a time is not part of it.
        let token = from[..end].trim_end_matches('.');
        shown.push_str(before);
        match token.parse::<jiff::Timestamp>() {
            Ok(time) if token.contains('T') => {
                shown.push_str(&moment(Timestamp(time.as_millisecond()), now));
            }
            // No moment, so it stays as it is.
            Ok(_) | Err(_) => shown.push_str(token),
        }
        shown.push_str(&from[token.len()..end]);
        rest = &from[end..];
    }
    shown + rest
}

/// A moment as it is read on a clock here: `16:33 (in 59 min)`, or with its day when that is another.
pub fn moment(at: Timestamp, now: Timestamp) -> String {
    moment_in(at, now, &jiff::tz::TimeZone::system())
}

fn moment_in(at: Timestamp, now: Timestamp, zone: &jiff::tz::TimeZone) -> String {
    let zoned = |moment: Timestamp| {
        Some(jiff::Timestamp::from_millisecond(moment.0).ok()?.to_zoned(zone.clone()))
    };
    let (Some(at_here), Some(now_here)) = (zoned(at), zoned(now)) else { return at.to_string() };
    let form = match at_here.date() == now_here.date() {
        true => "%H:%M",
        false => "%a %d %b %H:%M",
    };
    let clock = at_here.strftime(form).to_string();
    if at <= now {
        return clock;
    }
    let minutes = at.since(now).div_ceil(60_000);
    let left = match minutes {
        0..=119 => format!("{minutes} min"),
        120..=2879 => format!("{} h", minutes / 60),
        _ => format!("{} d", minutes / 1440),
    };
    format!("{clock} (in {left})")
}

/// The name of a quota's window; one that is named by its minutes in larger units: `5 h`, `7 d`.
pub fn window(label: &str) -> String {
    let minutes = label.strip_suffix(" min").and_then(|minutes| minutes.parse::<u64>().ok());
    match minutes {
        Some(minutes) if minutes > 0 && minutes.is_multiple_of(1440) => {
            format!("{} d", minutes / 1440)
        }
        Some(minutes) if minutes > 0 && minutes.is_multiple_of(60) => format!("{} h", minutes / 60),
        Some(_) | None => label.to_owned(),
    }
}

/// `1st`, `2nd`, `3rd`, `4th`, `11th`.
pub fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        (_, _) => "th",
    };
    format!("{}{ending}", count(number))
}

/// `1,234,567`.
pub fn count(number: u64) -> String {
    amount::grouped(number)
}

/// `1,234 tokens`.
pub fn tokens(number: u64) -> String {
    amount::counted(number, "token")
}

/// `$12.34`, `$0.12`, `$0.0042`; less than can be shown is `<$0.0001`.
pub fn money(amount: NanoUsd) -> String {
    let nano = amount.0.max(0);
    if nano == 0 {
        return "$0.00".to_owned();
    }
    if nano < 100_000 {
        return "<$0.0001".to_owned();
    }
    if nano >= 99_950_000 {
        let cents = (nano + 5_000_000) / 10_000_000;
        let dollars = count((cents / 100).unsigned_abs());
        return format!("${dollars}.{:02}", cents % 100);
    }
    let shown = format!("{:04}", (nano + 50_000) / 100_000);
    // Cents are always shown, and what is less only when there is something.
    let (cents, less) = shown.split_at(2);
    format!("$0.{cents}{}", less.trim_end_matches('0'))
}

/// What was paid: `unpriced` is not free, and nothing spent is nothing to say.
pub fn cost(amount: Option<NanoUsd>, tokens: u64) -> Option<String> {
    match amount {
        Some(amount) => Some(money(amount)),
        None if tokens > 0 => Some("unpriced".to_owned()),
        None => None,
    }
}

/// The cost of a run: what is included in a subscription or free is called that, with its list price.
pub fn paid(amount: Option<NanoUsd>, tokens: u64, billing: Option<Billing>) -> Option<String> {
    let word = match billing {
        None | Some(Billing::Metered | Billing::Unknown) => return cost(amount, tokens),
        Some(Billing::Subscription) => "included",
        Some(Billing::Free) => "free",
    };
    match amount {
        Some(amount) => Some(format!("{word} ({})", money(amount))),
        None => (tokens > 0).then(|| word.to_owned()),
    }
}

/// How long ago: `now`, `5 min ago`, `3 h ago`, `2 d ago`, then the date.
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    let minutes = now.since(then) / 60_000;
    match minutes {
        0 => "now".to_owned(),
        1..=59 => format!("{minutes} min ago"),
        60..=1439 => format!("{} h ago", minutes / 60),
        1440..=10_079 => format!("{} d ago", minutes / 1440),
        _ => then.to_string().chars().take(10).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_by_the_clock_here() {
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(1));
        let now = Timestamp(1_794_787_200_000);
        let at = |minutes: i64| moment_in(now.plus_ms(minutes * 60_000), now, &zone);
        let clock = |minutes: i64| {
            let moment =
                jiff::Timestamp::from_millisecond(now.plus_ms(minutes * 60_000).0).unwrap();
            moment.to_zoned(zone.clone()).strftime("%H:%M").to_string()
        };
        assert_eq!(at(59), format!("{} (in 59 min)", clock(59)));
        assert_eq!(at(-5), clock(-5));
        assert!(at(5 * 24 * 60).ends_with(" (in 5 d)"), "{}", at(5 * 24 * 60));
    }

    #[test]
    fn times_inside_a_text_are_moments() {
        let now = Timestamp(1_794_787_200_000);
        let at = now.plus_ms(59 * 60_000);
        let text = format!("used up|1795068167; it resets at {at}. See 2026-11-15, T-1.");
        let expected =
            format!("used up|1795068167; it resets at {}. See 2026-11-15, T-1.", moment(at, now));
        assert_eq!(with_moments(&text, now), expected);
    }

    #[test]
    fn windows_of_quotas_have_large_units() {
        for (label, shown) in
            [("300 min", "5 h"), ("10080 min", "7 d"), ("90 min", "90 min"), ("week", "week")]
        {
            assert_eq!(window(label), shown);
        }
    }

    #[test]
    fn times_are_as_exact_as_they_are_short() {
        let shown: Vec<String> =
            [0, 850, 1_340, 9_999, 59_999, 125_000, 3_725_000].map(duration).into();
        assert_eq!(shown, ["0 ms", "850 ms", "1.3 s", "9.9 s", "59 s", "2 min 05 s", "1 h 02 min"]);
        assert_eq!([elapsed(900), elapsed(61_000)], ["0 s", "1 min 01 s"]);
    }

    #[test]
    fn money_is_never_rounded_to_nothing() {
        let shown: Vec<String> = [
            0,
            1,
            4_200_000,
            30_000_000,
            99_960_000,
            120_000_000,
            12_345_000_000,
            1_234_567_000_000_000,
        ]
        .map(|nano| money(NanoUsd(nano)))
        .into();
        assert_eq!(
            shown,
            ["$0.00", "<$0.0001", "$0.0042", "$0.03", "$0.10", "$0.12", "$12.35", "$1,234,567.00"]
        );
        assert_eq!(cost(None, 5).as_deref(), Some("unpriced"));
        assert_eq!(cost(None, 0), None);
        let amount = Some(NanoUsd(420_000_000));
        for (billing, shown) in [
            (None, "$0.42"),
            (Some(Billing::Metered), "$0.42"),
            (Some(Billing::Subscription), "included ($0.42)"),
            (Some(Billing::Free), "free ($0.42)"),
        ] {
            assert_eq!(paid(amount, 5, billing).as_deref(), Some(shown));
        }
        let included = Some(Billing::Subscription);
        assert_eq!(paid(None, 5, included).as_deref(), Some("included"));
        assert_eq!(paid(None, 0, included), None);
    }

    #[test]
    fn numbers_and_moments_read_well() {
        assert_eq!([count(7), count(1_000), count(1_234_567)], ["7", "1,000", "1,234,567"]);
        assert_eq!([tokens(1), tokens(2_000)], ["1 token", "2,000 tokens"]);
        let day = 86_400_000;
        let shown: Vec<String> = [0, 300_000, 3 * 3_600_000, 2 * day, 30 * day]
            .map(|ms| ago(Timestamp(0), Timestamp(ms)))
            .into();
        assert_eq!(shown, ["now", "5 min ago", "3 h ago", "2 d ago", "1970-01-01"]);
    }
}
