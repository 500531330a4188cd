//! From measurements to figures: pairs of floor and ours, medians of ratios, and whether a gate is
//! met. A ratio is taken within a pair, because only what ran in the same seconds is comparable.

use std::fmt;

/// A floor that moved by more than this factor says that the machine was measured, not the product.
const FLOOR_SPREAD_MAX: f64 = 2.0;

/// What must hold and where it goes.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    AtMost {
        gate: f64,
        goal: f64,
    },
    AtLeast {
        gate: f64,
        goal: f64,
    },
    /// A figure to look at.
    None,
}

impl Bound {
    /// The gate and the goal in words, each with whether `figure` meets it.
    pub fn judge(self, figure: f64) -> String {
        let (sign, gate, goal, meets): (_, _, _, fn(f64, f64) -> bool) = match self {
            Self::AtMost { gate, goal } => ("≤", gate, goal, |figure, bound| figure <= bound),
            Self::AtLeast { gate, goal } => ("≥", gate, goal, |figure, bound| figure >= bound),
            Self::None => return String::new(),
        };
        let word = |bound| if meets(figure, bound) { "met" } else { "not met" };
        format!("gate {sign} {gate}: {}; goal {sign} {goal}: {}", word(gate), word(goal))
    }
}

/// Measurements of one thing, floor and ours by turns, in the same unit.
#[derive(Debug, Default, Clone)]
pub struct Pairs {
    rows: Vec<(f64, f64)>,
}

impl Pairs {
    pub fn push(&mut self, floor: f64, ours: f64) {
        self.rows.push((floor, ours));
    }

    fn ratios(&self) -> Vec<f64> {
        self.rows.iter().map(|(floor, ours)| ours / floor).collect()
    }

    pub fn ratio(&self) -> f64 {
        median(&self.ratios())
    }

    /// The largest floor over the smallest.
    pub fn floor_spread(&self) -> f64 {
        let floors = self.floors();
        high(&floors) / low(&floors)
    }

    fn floors(&self) -> Vec<f64> {
        self.rows.iter().map(|(floor, _)| *floor).collect()
    }

    /// Prints one line: medians, ratio, spread, and the gate, or that the run is void.
    pub fn print(&self, name: &str, unit: &str, bound: Bound) {
        let ratios = self.ratios();
        let ours: Vec<f64> = self.rows.iter().map(|(_, ours)| *ours).collect();
        let line = format!(
            "{name:<34} floor {:>8} {unit}  ours {:>8} {unit}  ratio {:.2} ({:.2}–{:.2})",
            Short(median(&self.floors())),
            Short(median(&ours)),
            self.ratio(),
            low(&ratios),
            high(&ratios),
        );
        let spread = self.floor_spread();
        if spread > FLOOR_SPREAD_MAX {
            println!("{line}  void: floor spread {spread:.2}×");
        } else {
            let judged = bound.judge(self.ratio());
            println!("{}", format!("{line}  floor spread {spread:.2}×  {judged}").trim_end());
        }
    }
}

/// Three digits that matter, no more.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.0 {
            small if small < 10.0 => 2,
            medium if medium < 100.0 => 1,
            _ => 0,
        };
        f.pad(&format!("{:.digits$}", self.0))
    }
}

pub fn median(values: &[f64]) -> f64 {
    percentile(values, 50.0)
}

/// The nearest rank; the median of an even number of values lies between two.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = percent / 100.0 * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

pub fn low(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

pub fn high(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_the_median_of_pairwise_ratios_and_not_the_ratio_of_medians() {
        let mut pairs = Pairs::default();
        for (floor, ours) in [(1.0, 2.0), (2.0, 6.0), (1.5, 6.0)] {
            pairs.push(floor, ours);
        }
        assert_eq!((pairs.ratio(), pairs.floor_spread()), (3.0, 2.0));
    }

    #[test]
    fn percentiles_lie_between_the_values_they_divide() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!((median(&values), percentile(&values, 100.0), low(&values)), (2.5, 4.0, 1.0));
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_bound_says_of_gate_and_goal_whether_they_are_met() {
        let most = Bound::AtMost { gate: 3.0, goal: 1.5 };
        assert_eq!(most.judge(2.0), "gate ≤ 3: met; goal ≤ 1.5: not met");
        let least = Bound::AtLeast { gate: 0.4, goal: 0.8 };
        assert_eq!(least.judge(0.3), "gate ≥ 0.4: not met; goal ≥ 0.8: not met");
    }
}
