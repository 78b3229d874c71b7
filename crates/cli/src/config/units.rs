//! Numbers with units.

use std::{fmt, str::FromStr, time::Duration};

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

/// How sizes are written.
pub const SIZES: &str = "a number with a unit, such as 512MB, 4G or 4GiB (k, M, G, T count thousands, Ki, Mi, Gi, Ti 1024s, \
                         with or without B), or of bytes";

/// How durations are written.
pub const TIMES: &str = "a number with ms, s, m or h, or of seconds";

/// Units of sizes in small letters, without the `b` that may follow.
const BYTES: &[(&str, u64)] = &[
    ("", 1),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("ki", 1 << 10),
    ("mi", 1 << 20),
    ("gi", 1 << 30),
    ("ti", 1 << 40),
];

const SECONDS: &[(&str, f64)] = &[("", 1.0), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("is not a size: {SIZES}");
        let (number, unit) = split(text).ok_or_else(wanted)?;
        let unit = unit.to_ascii_lowercase();
        let unit = unit.strip_suffix('b').unwrap_or(&unit);
        let (_, scale) = BYTES.iter().find(|(name, _)| *name == unit).ok_or_else(wanted)?;
        let bytes = number * *scale as f64;
        if bytes < u64::MAX as f64 {
            Ok(Self(bytes as u64))
        } else {
            Err("is more than any memory".to_owned())
        }
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("is not a duration: {TIMES}");
        let (number, unit) = split(text).ok_or_else(wanted)?;
        let (_, scale) = SECONDS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(wanted)?;
        Duration::try_from_secs_f64(number * scale)
            .map(Self)
            .map_err(|_| wanted())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = [
            ("TiB", 1u64 << 40),
            ("GiB", 1 << 30),
            ("MiB", 1 << 20),
            ("KiB", 1 << 10),
        ];
        match binary.iter().find(|(_, scale)| self.0 >= *scale) {
            Some((unit, scale)) => write!(f, "{:.1} {unit}", self.0 as f64 / *scale as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// A non-negative decimal number and the unit behind it, spaces between them allowed.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let bytes = |text: &str| text.parse::<Bytes>().map(|b| b.0);
        assert_eq!(bytes("4GiB"), Ok(4 << 30));
        assert_eq!(bytes("1.5 GB"), Ok(1_500_000_000));
        assert_eq!(bytes("0"), Ok(0));
        for gigabytes in ["4G", "4GB", "4gb", "4000M", "4 g", "4000000kB"] {
            assert_eq!(bytes(gigabytes), Ok(4_000_000_000), "{gigabytes}");
        }
        for gibibytes in ["4Gi", "4GiB", "4 gib", "4096MiB"] {
            assert_eq!(bytes(gibibytes), Ok(4 << 30), "{gibibytes}");
        }
        for bad in [
            "",
            "GiB",
            "-1GiB",
            "4 Gbit",
            "4iB",
            "1e3",
            "99999999TiB",
            "1.2.3MB",
            "nan",
        ] {
            assert!(bytes(bad).is_err(), "{bad} accepted");
        }
        assert_eq!(Bytes(3 << 29).to_string(), "1.5 GiB");
    }

    #[test]
    fn durations_have_units_and_a_bare_number_is_seconds() {
        let millis = |text: &str| text.parse::<Time>().map(|t| t.0.as_millis());
        assert_eq!(millis("30s"), Ok(30_000));
        assert_eq!(millis("1.5m"), Ok(90_000));
        assert_eq!(millis("250ms"), Ok(250));
        assert_eq!(millis("2"), Ok(2_000));
        for bad in ["", "s", "-1s", "1d", "99999999999999999999h"] {
            assert!(millis(bad).is_err(), "{bad} accepted");
        }
    }
}
