//! Amounts of money in whole billionths of a dollar, so that a total is exactly the sum of its parts.

use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An amount of US dollars, never negative. In JSON it is a plain number of dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd {
    billionths: u64,
}

const BILLION: f64 = 1e9;

impl Usd {
    /// Zero dollars.
    pub const ZERO: Self = Self { billionths: 0 };

    /// The smallest amount that is not zero.
    pub const SMALLEST: Self = Self { billionths: 1 };

    /// An amount in billionths of a dollar.
    pub const fn from_billionths(billionths: u64) -> Self {
        Self { billionths }
    }

    /// The amount nearest to `dollars`; `None` if it is negative, not a number or too large.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        // Far above the cost of any run, and low enough that a JSON number keeps every billionth.
        const DOLLARS_MAX: f64 = 1_000_000.0;
        if !(0.0..=DOLLARS_MAX).contains(&dollars) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was checked above"
        )]
        let billionths = (dollars * BILLION).round() as u64;
        Some(Self { billionths })
    }

    /// The amount as a number of dollars.
    pub fn dollars(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "exact far beyond any amount that we take")]
        let billionths = self.billionths as f64;
        billionths / BILLION
    }

    /// What is left of `self` after `spent`; zero if `spent` is more.
    #[must_use]
    pub fn less(self, spent: Self) -> Self {
        Self { billionths: self.billionths.saturating_sub(spent.billionths) }
    }

    /// One of `count` equal parts, rounded down; all of it if `count` is 0.
    #[must_use]
    pub fn divided_by(self, count: u64) -> Self {
        Self { billionths: self.billionths / count.max(1) }
    }

    /// What `count` pieces cost at this price for a million, rounded up to a billionth.
    #[must_use]
    pub fn for_millionths(self, count: u64) -> Self {
        let billionths = (u128::from(self.billionths) * u128::from(count)).div_ceil(1_000_000);
        Self { billionths: u64::try_from(billionths).unwrap_or(u64::MAX) }
    }
}

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { billionths: self.billionths.saturating_add(other.billionths) }
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Usd {
    /// Cents, below a dollar as many more digits as the amount has, at most hundredths of a cent; below a cent two digits
    /// that say something, however small the amount is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const CENT: u64 = 10_000_000;
        if self.billionths.is_multiple_of(CENT) || self.billionths >= 100 * CENT {
            return write!(f, "${:.2}", self.dollars());
        }
        let digits = usize::try_from(self.billionths.ilog10()).unwrap_or(0);
        let decimals = (9 - digits + 1).clamp(4, 9);
        let text = format!("{:.decimals$}", self.dollars());
        let cents = text.find('.').map_or(text.len(), |point| point + 3);
        let (cents, rest) = text.split_at_checked(cents).unwrap_or((&text, ""));
        write!(f, "${cents}{}", rest.trim_end_matches('0'))
    }
}

/// A text is no amount of dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not an amount of dollars; expected for instance 5 or 0.50")]
pub struct UsdError;

impl FromStr for Usd {
    type Err = UsdError;

    /// Reads what a user types: `5`, `0.50` or `$5`.
    fn from_str(text: &str) -> Result<Self, UsdError> {
        let dollars = text.trim_start_matches('$').parse().map_err(|_| UsdError)?;
        Self::from_dollars(dollars).ok_or(UsdError)
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Self::from_dollars(dollars)
            .ok_or_else(|| de::Error::custom(format!("{dollars} is not an amount of dollars")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_add_up_exactly() {
        let tenth = Usd::from_dollars(0.1).unwrap();
        assert_eq!(std::iter::repeat_n(tenth, 3).sum::<Usd>(), Usd::from_dollars(0.3).unwrap());
    }

    #[test]
    fn amounts_survive_json() {
        for billionths in [0, 1, 3_750_000, 123_456_789_012_345, 999_999_999_999_999] {
            let amount = Usd::from_billionths(billionths);
            let json = serde_json::to_string(&amount).unwrap();
            assert_eq!(serde_json::from_str::<Usd>(&json).unwrap(), amount, "{json}");
        }
    }

    #[test]
    fn invalid_amount_is_rejected() {
        for dollars in [-0.01, f64::NAN, f64::INFINITY, 1e12] {
            assert_eq!(Usd::from_dollars(dollars), None);
        }
        for text in ["", "$", "-1", "nan", "1e12", "5 dollars"] {
            assert_eq!(text.parse::<Usd>(), Err(UsdError));
        }
        assert_eq!("$0.50".parse(), Ok(Usd::from_billionths(500_000_000)));
    }

    #[test]
    fn small_amounts_are_not_shown_as_nothing() {
        let of = |billionths| Usd::from_billionths(billionths).to_string();
        assert_eq!([of(3_740_000), of(3_000_000), of(9_999_999)], ["$0.0037", "$0.003", "$0.01"]);
        assert_eq!([of(41_200), of(12), of(1)], ["$0.000041", "$0.000000012", "$0.000000001"]);
        assert_eq!(
            [of(15_000_000), of(12_500_000), of(15_432_100)],
            ["$0.015", "$0.0125", "$0.0154"]
        );
        assert_eq!([of(500_000_000), of(1_005_000_000)], ["$0.50", "$1.00"]);
        assert_eq!(Usd::from_dollars(10.0).unwrap().to_string(), "$10.00");
        assert_eq!(Usd::ZERO.to_string(), "$0.00");
    }
}
