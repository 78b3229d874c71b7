//! Where and when a result was measured.

use std::{
    fmt,
    process::Command,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

/// The machine and the state of the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// What `GIT_COMMIT` says, for binaries that run where they were not built; else the commit of the working tree in the
    /// current folder, with `+` if it has changes, or `unknown`.
    pub commit: String,
}

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cpu: processor(&cpuinfo).unwrap_or("unknown").to_owned(),
            cores: thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
            commit: std::env::var("GIT_COMMIT")
                .ok()
                .or_else(commit)
                .unwrap_or_else(|| "unknown".to_owned()),
        }
    }
}

/// Most memory that this process has had resident, in bytes.
pub(crate) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    high_water(&status)
}

/// `VmHWM:   1234 kB` of `/proc/self/status`, in bytes.
fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn processor(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim())
}

fn commit() -> Option<String> {
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() {
        hash
    } else {
        format!("{hash}+")
    })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .output()
        .ok()
        .filter(|o| o.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    year: u64,
    month: u64,
    day: u64,
}

impl Date {
    /// Today.
    pub fn today() -> Self {
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        Self::of_day(seconds / 86_400)
    }

    /// The date that lies `days` days after 1970-01-01, counted off year by year and month by month.
    fn of_day(days: u64) -> Self {
        let leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut rest) = (1970, days);
        while rest >= 365 + u64::from(leap(year)) {
            rest -= 365 + u64::from(leap(year));
            year += 1;
        }
        let february = 28 + u64::from(leap(year));
        let mut month = 1;
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
            if rest < length {
                break;
            }
            rest -= length;
            month += 1;
        }
        Self {
            year,
            month,
            day: rest + 1,
        }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates_across_leap_years() {
        let date = |days| Date::of_day(days).to_string();
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(59), "1970-03-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(19_722), "2023-12-31");
        assert_eq!(date(19_723 + 365), "2024-12-31");
    }

    #[test]
    fn facts_are_read_from_the_kernels_files() {
        assert_eq!(
            processor("a: b\nmodel name\t: Some CPU @ 2GHz\n"),
            Some("Some CPU @ 2GHz")
        );
        assert_eq!(high_water("VmPeak: 9 kB\nVmHWM:\t   12 kB\n"), Some(12 * 1024));
        assert_eq!(high_water("nothing"), None);
    }
}
