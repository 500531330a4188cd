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
    /// Whether `figure` meets the gate; `None` when there is none.
    pub fn meets_gate(self, figure: f64) -> Option<bool> {
        match self {
            Self::AtMost { gate, .. } => Some(figure <= gate),
            Self::AtLeast { gate, .. } => Some(figure >= gate),
            Self::None => None,
        }
    }

    pub fn meets_goal(self, figure: f64) -> Option<bool> {
        match self {
            Self::AtMost { goal, .. } => Some(figure <= goal),
            Self::AtLeast { goal, .. } => Some(figure >= goal),
            Self::None => None,
        }
    }

    /// The gate and the goal, each with its sign.
    pub fn gate_and_goal(self) -> (String, String) {
        match self {
            Self::AtMost { gate, goal } => (format!("≤ {gate}"), format!("≤ {goal}")),
            Self::AtLeast { gate, goal } => (format!("≥ {gate}"), format!("≥ {goal}")),
            Self::None => Default::default(),
        }
    }

    pub fn words(self) -> String {
        match self {
            Self::AtMost { .. } | Self::AtLeast { .. } => {
                let (gate, goal) = self.gate_and_goal();
                format!("gate {gate}, goal {goal}:")
            }
            Self::None => String::new(),
        }
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

    pub fn is_void(&self) -> bool {
        self.floor_spread() > FLOOR_SPREAD_MAX
    }

    /// The smallest and the largest ratio.
    pub fn ratio_spread(&self) -> (f64, f64) {
        let ratios = self.ratios();
        (low(&ratios), high(&ratios))
    }

    pub fn floor(&self) -> f64 {
        median(&self.floors())
    }

    pub fn ours(&self) -> f64 {
        median(&self.rows.iter().map(|(_, ours)| *ours).collect::<Vec<_>>())
    }
}

/// Three digits that matter, no more.
pub struct Short(pub f64);

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

/// The slope of log(cost) over log(n), by least squares: 0 when the cost does not grow.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(n, cost)| (n.ln(), cost.ln())).collect();
    let count = logs.len() as f64;
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / count;
    let above: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    above / logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>()
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
        assert_eq!((most.meets_gate(2.0), most.meets_goal(2.0)), (Some(true), Some(false)));
        let least = Bound::AtLeast { gate: 0.4, goal: 0.8 };
        assert_eq!((least.meets_gate(0.3), least.meets_goal(0.8)), (Some(false), Some(true)));
        assert_eq!(Bound::None.meets_gate(1.0), None);
        assert_eq!(least.words(), "gate ≥ 0.4, goal ≥ 0.8:");
    }

    #[test]
    fn the_slope_is_that_of_the_logarithms() {
        let flat = [(1e3, 5.0), (1e4, 5.0), (1e6, 5.0)];
        let root = [(1e2, 10.0), (1e4, 100.0), (1e6, 1000.0)];
        assert!(slope(&flat).abs() < 1e-9 && (slope(&root) - 0.5).abs() < 1e-9);
    }
}
