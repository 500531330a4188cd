//! Which moment a told reset is. Spans and clocks become moments here, by the time that is passed in;
//! what a dialect could not read, or what lies in the past, is a wait of a named length, and nothing
//! lies further away than the longest one. Zones are rules written down below and no files of the
//! machine: one that is not among them is not guessed at.

use contract::Timestamp;
use contract::limits::{QUOTA_RESET_MS, QUOTA_RESET_MS_MAX};
use contract::reset::{Clock, Reset};
use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp as Moment, ToSpan as _};

/// The moment that was meant, if it can be told and is not past; bounded like everything else.
pub fn moment(told: &Reset, now: Timestamp) -> Option<Timestamp> {
    let at = match told {
        Reset::At(at) => *at,
        Reset::After { ms } => now.plus_ms(i64::try_from(*ms).unwrap_or(i64::MAX)),
        Reset::Clock(clock) => shown(clock, now)?,
    };
    (at > now).then(|| at.min(latest(now)))
}

/// Until when nothing is started: the reset that was told, else as long as one usually takes.
pub fn until(resets_at: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let usual = now.plus_ms(signed(QUOTA_RESET_MS));
    resets_at.filter(|at| *at > now).unwrap_or(usual).min(latest(now))
}

fn latest(now: Timestamp) -> Timestamp {
    now.plus_ms(signed(QUOTA_RESET_MS_MAX))
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// When a clock shows this next.
fn shown(clock: &Clock, now: Timestamp) -> Option<Timestamp> {
    let zone = zone(clock.zone.as_deref()?)?;
    let here = Moment::from_millisecond(now.ms()).ok()?.to_zoned(zone.clone());
    let (hour, minute) = (i8::try_from(clock.hour).ok()?, i8::try_from(clock.minute).ok()?);
    let on = |date: Date| {
        let at = date.at(hour, minute, 0, 0).to_zoned(zone.clone()).ok()?;
        Some(Timestamp(at.timestamp().as_millisecond()))
    };
    // `at` panics on what no clock shows.
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) {
        return None;
    }
    match clock.day {
        None => {
            let today = on(here.date())?;
            if today > now { Some(today) } else { on(here.date().checked_add(1.day()).ok()?) }
        }
        Some(day) => {
            let (month, of_month) = (i8::try_from(day.month).ok()?, i8::try_from(day.day).ok()?);
            let in_year = |year: i16| Date::new(year, month, of_month).ok().and_then(on);
            let year = here.date().year();
            match day.year {
                Some(year) => in_year(year),
                // At the end of December the first of January is near.
                None => {
                    in_year(year).filter(|at| *at > now).or_else(|| in_year(year.checked_add(1)?))
                }
            }
        }
    }
}

/// A zone by its name. Its rules are those of today; a government that changes them moves a reset by
/// an hour until the table is changed, and the run that asks first finds out.
fn zone(name: &str) -> Option<TimeZone> {
    let name = name.trim();
    if let Some(offset) = offset(name) {
        return Some(TimeZone::fixed(offset));
    }
    let (_, rule) = ZONES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    TimeZone::posix(rule).ok()
}

/// `utc`, `utc+2`, `gmt-03:30`, `+0100`.
fn offset(name: &str) -> Option<Offset> {
    let lower = name.to_ascii_lowercase();
    let rest = lower.strip_prefix("utc").or_else(|| lower.strip_prefix("gmt")).unwrap_or(&lower);
    if matches!(rest, "" | "z") {
        return Some(Offset::UTC);
    }
    let (sign, digits) = match (rest.strip_prefix('+'), rest.strip_prefix('-')) {
        (Some(digits), _) => (1, digits),
        (None, Some(digits)) => (-1, digits),
        (None, None) => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 => digits.split_at_checked(2)?,
        None => (digits, "0"),
    };
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    if !(0..=14).contains(&hours) || !(0..60).contains(&minutes) {
        return None;
    }
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()
}

/// Names of zones and the rules of their clocks, as POSIX writes them.
const ZONES: &[(&str, &str)] = &[
    ("america/new_york", "EST5EDT,M3.2.0,M11.1.0"),
    ("america/toronto", "EST5EDT,M3.2.0,M11.1.0"),
    ("america/detroit", "EST5EDT,M3.2.0,M11.1.0"),
    ("us/eastern", "EST5EDT,M3.2.0,M11.1.0"),
    ("america/chicago", "CST6CDT,M3.2.0,M11.1.0"),
    ("us/central", "CST6CDT,M3.2.0,M11.1.0"),
    ("america/denver", "MST7MDT,M3.2.0,M11.1.0"),
    ("america/edmonton", "MST7MDT,M3.2.0,M11.1.0"),
    ("us/mountain", "MST7MDT,M3.2.0,M11.1.0"),
    ("america/phoenix", "MST7"),
    ("america/los_angeles", "PST8PDT,M3.2.0,M11.1.0"),
    ("america/vancouver", "PST8PDT,M3.2.0,M11.1.0"),
    ("us/pacific", "PST8PDT,M3.2.0,M11.1.0"),
    ("america/anchorage", "AKST9AKDT,M3.2.0,M11.1.0"),
    ("america/halifax", "AST4ADT,M3.2.0,M11.1.0"),
    ("america/mexico_city", "CST6"),
    ("america/bogota", "<-05>5"),
    ("america/lima", "<-05>5"),
    ("america/caracas", "<-04>4"),
    ("america/santiago", "<-04>4<-03>,M9.1.6/24,M4.1.6/24"),
    ("america/sao_paulo", "<-03>3"),
    ("america/argentina/buenos_aires", "<-03>3"),
    ("america/buenos_aires", "<-03>3"),
    ("america/montevideo", "<-03>3"),
    ("pacific/honolulu", "HST10"),
    ("europe/london", "GMT0BST,M3.5.0/1,M10.5.0"),
    ("europe/dublin", "GMT0IST,M3.5.0/1,M10.5.0"),
    ("europe/lisbon", "WET0WEST,M3.5.0/1,M10.5.0"),
    ("europe/paris", CENTRAL_EUROPE),
    ("europe/berlin", CENTRAL_EUROPE),
    ("europe/madrid", CENTRAL_EUROPE),
    ("europe/rome", CENTRAL_EUROPE),
    ("europe/amsterdam", CENTRAL_EUROPE),
    ("europe/brussels", CENTRAL_EUROPE),
    ("europe/vienna", CENTRAL_EUROPE),
    ("europe/zurich", CENTRAL_EUROPE),
    ("europe/stockholm", CENTRAL_EUROPE),
    ("europe/oslo", CENTRAL_EUROPE),
    ("europe/copenhagen", CENTRAL_EUROPE),
    ("europe/prague", CENTRAL_EUROPE),
    ("europe/warsaw", CENTRAL_EUROPE),
    ("europe/budapest", CENTRAL_EUROPE),
    ("europe/belgrade", CENTRAL_EUROPE),
    ("europe/zagreb", CENTRAL_EUROPE),
    ("europe/helsinki", EASTERN_EUROPE),
    ("europe/athens", EASTERN_EUROPE),
    ("europe/bucharest", EASTERN_EUROPE),
    ("europe/sofia", EASTERN_EUROPE),
    ("europe/kyiv", EASTERN_EUROPE),
    ("europe/kiev", EASTERN_EUROPE),
    ("europe/vilnius", EASTERN_EUROPE),
    ("europe/riga", EASTERN_EUROPE),
    ("europe/tallinn", EASTERN_EUROPE),
    ("europe/istanbul", "<+03>-3"),
    ("europe/moscow", "MSK-3"),
    ("europe/minsk", "<+03>-3"),
    ("africa/johannesburg", "SAST-2"),
    ("africa/lagos", "WAT-1"),
    ("africa/nairobi", "EAT-3"),
    ("asia/jerusalem", "IST-2IDT,M3.4.4/26,M10.5.0"),
    ("asia/dubai", "<+04>-4"),
    ("asia/karachi", "PKT-5"),
    ("asia/tashkent", "<+05>-5"),
    ("asia/almaty", "<+05>-5"),
    ("asia/kolkata", "IST-5:30"),
    ("asia/calcutta", "IST-5:30"),
    ("asia/kathmandu", "<+0545>-5:45"),
    ("asia/dhaka", "<+06>-6"),
    ("asia/bangkok", "<+07>-7"),
    ("asia/ho_chi_minh", "<+07>-7"),
    ("asia/saigon", "<+07>-7"),
    ("asia/jakarta", "WIB-7"),
    ("asia/shanghai", "CST-8"),
    ("asia/hong_kong", "HKT-8"),
    ("asia/taipei", "CST-8"),
    ("asia/singapore", "<+08>-8"),
    ("asia/kuala_lumpur", "<+08>-8"),
    ("asia/manila", "PST-8"),
    ("asia/tokyo", "JST-9"),
    ("asia/seoul", "KST-9"),
    ("australia/perth", "AWST-8"),
    ("australia/brisbane", "AEST-10"),
    ("australia/adelaide", "ACST-9:30ACDT,M10.1.0,M4.1.0/3"),
    ("australia/sydney", "AEST-10AEDT,M10.1.0,M4.1.0/3"),
    ("australia/melbourne", "AEST-10AEDT,M10.1.0,M4.1.0/3"),
    ("pacific/auckland", "NZST-12NZDT,M9.5.0,M4.1.0/3"),
    ("etc/utc", "UTC0"),
    // Letters alone are ambiguous in the world; these are what those who write them mostly mean.
    ("est", "EST5"),
    ("edt", "EDT4"),
    ("cst", "CST6"),
    ("cdt", "CDT5"),
    ("mst", "MST7"),
    ("mdt", "MDT6"),
    ("pst", "PST8"),
    ("pdt", "PDT7"),
    ("pt", "PST8PDT,M3.2.0,M11.1.0"),
    ("et", "EST5EDT,M3.2.0,M11.1.0"),
    ("bst", "BST-1"),
    ("cet", "CET-1"),
    ("cest", "CEST-2"),
    ("jst", "JST-9"),
];
const CENTRAL_EUROPE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
const EASTERN_EUROPE: &str = "EET-2EEST,M3.5.0/3,M10.5.0/4";

#[cfg(test)]
mod tests {
    use super::*;
    use contract::reset::Day;
    use proptest::prelude::*;

    fn at(written: &str) -> Timestamp {
        serde_json::from_value(serde_json::Value::from(written)).unwrap()
    }

    fn clock(hour: u8, minute: u8, zone: &str) -> Clock {
        Clock { hour, minute, zone: Some(zone.to_owned()), day: None }
    }

    #[test]
    fn a_clock_shows_it_today_or_else_tomorrow_by_the_rules_of_its_zone() {
        // 12:00 in UTC, a day in winter and one in summer.
        let (winter, summer) = ("2026-11-16T12:00:00.000Z", "2026-07-01T12:00:00.000Z");
        let rows = [
            (winter, clock(15, 0, "utc"), "2026-11-16T15:00:00.000Z"),
            (winter, clock(11, 0, "utc"), "2026-11-17T11:00:00.000Z"),
            (winter, clock(12, 0, "utc"), "2026-11-17T12:00:00.000Z"),
            (winter, clock(15, 0, "Europe/London"), "2026-11-16T15:00:00.000Z"),
            (summer, clock(15, 0, "europe/london"), "2026-07-01T14:00:00.000Z"),
            (summer, clock(13, 0, "europe/london"), "2026-07-02T12:00:00.000Z"),
            (winter, clock(7, 30, "america/new_york"), "2026-11-16T12:30:00.000Z"),
            (summer, clock(7, 30, "america/new_york"), "2026-07-02T11:30:00.000Z"),
            (winter, clock(18, 0, "asia/kolkata"), "2026-11-16T12:30:00.000Z"),
            (winter, clock(1, 0, "asia/tokyo"), "2026-11-16T16:00:00.000Z"),
            (winter, clock(9, 0, "america/santiago"), "2026-11-17T12:00:00.000Z"),
            (winter, clock(15, 0, "utc+2"), "2026-11-16T13:00:00.000Z"),
            (winter, clock(15, 0, "gmt-03:30"), "2026-11-16T18:30:00.000Z"),
            (winter, clock(8, 0, "pst"), "2026-11-16T16:00:00.000Z"),
        ];
        for (now, clock, expected) in rows {
            let shown = moment(&Reset::Clock(clock.clone()), at(now)).unwrap();
            assert_eq!(shown.to_string(), expected, "{clock:?} at {now}");
        }
    }

    #[test]
    fn a_day_that_is_named_is_that_day() {
        let now = at("2026-12-30T12:00:00.000Z");
        let on = |month, day, year| {
            let day = Some(Day { year, month, day });
            let clock = Clock { day, ..clock(13, 0, "europe/london") };
            moment(&Reset::Clock(clock), now).map(|at| at.to_string())
        };
        assert_eq!(on(12, 31, None).as_deref(), Some("2026-12-31T13:00:00.000Z"));
        assert_eq!(on(1, 2, None).as_deref(), Some("2027-01-02T13:00:00.000Z"));
        assert_eq!(on(1, 2, Some(2027)).as_deref(), Some("2027-01-02T13:00:00.000Z"));
        assert_eq!(on(1, 2, Some(2026)), None, "it is past");
        assert_eq!(on(2, 30, None), None, "there is no such day");
        assert_eq!(on(6, 1, None), Some(latest(now).to_string()), "no wait is that long");
    }

    #[test]
    fn what_nobody_can_tell_is_not_guessed() {
        let now = at("2026-11-16T12:00:00.000Z");
        let nowhere = Clock { zone: None, ..clock(15, 0, "") };
        for clock in
            [nowhere, clock(15, 0, "mars/olympus"), clock(25, 0, "utc"), clock(1, 60, "utc")]
        {
            assert_eq!(moment(&Reset::Clock(clock.clone()), now), None, "{clock:?}");
        }
        assert_eq!(until(None, now).since(now), QUOTA_RESET_MS);
        assert_eq!(until(Some(now), now).since(now), QUOTA_RESET_MS, "a reset in the past is none");
        assert_eq!(until(Some(Timestamp(i64::MAX)), now), latest(now));
    }

    #[test]
    fn every_zone_of_the_table_has_a_clock() {
        for (name, _) in ZONES {
            assert!(zone(name).is_some(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_reset_is_in_the_past_or_beyond_the_longest_wait(
            now in 0_i64..4_000_000_000_000,
            told in told(),
        ) {
            let now = Timestamp(now);
            let moment = moment(&told, now);
            for at in moment.into_iter().chain([until(moment, now)]) {
                prop_assert!(at > now && at <= latest(now), "{at} of {told:?} at {now}");
            }
        }
    }

    fn told() -> impl Strategy<Value = Reset> {
        let zones = ["utc", "europe/london", "america/new_york", "asia/tokyo", "nowhere", "+14:00"];
        let day = (prop::option::of(1960_i16..2100), 0_u8..15, 0_u8..40)
            .prop_map(|(year, month, day)| Day { year, month, day });
        prop_oneof![
            any::<i64>().prop_map(|at| Reset::At(Timestamp(at))),
            any::<u64>().prop_map(|ms| Reset::After { ms }),
            (0_u8..30, 0_u8..70, prop::sample::select(zones.to_vec()), prop::option::of(day))
                .prop_map(|(hour, minute, zone, day)| {
                    Reset::Clock(Clock { day, ..clock(hour, minute, zone) })
                }),
        ]
    }
}
