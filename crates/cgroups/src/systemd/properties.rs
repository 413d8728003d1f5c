//! The properties of a slice unit.

use model::cgroup::{CgroupName, CgroupValues, cpu};
use model::machine::Cgroups as Version;

/// A property of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Property(pub(crate) &'static str, pub(crate) Setting);

/// The value of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Setting {
    Flag(bool),
    Number(u64),
    Text(String),
    Texts(Vec<String>),
    Bytes(Vec<u8>),
}

/// systemd's value for no limit.
const INFINITY: u64 = u64::MAX;
/// Microseconds of a second, and of systemd's smallest unit of CPU quota.
const SECOND: u64 = 1_000_000;
const PERCENT: u64 = 10_000;
/// The kernel's default period.
const PERIOD: u64 = 100_000;

/// The properties of a new slice. Accounting is enabled, as in cgroups that the agent creates itself.
pub(crate) fn of_slice(version: Version, name: &CgroupName, parent: &str) -> Vec<Property> {
    let disk = match version {
        Version::V1 => "BlockIOAccounting",
        Version::V2 => "IOAccounting",
    };
    let mut properties = vec![
        Property("Description", Setting::Text(format!("pods of Kubernetes: {name}"))),
        Property("Wants", Setting::Texts(vec![parent.to_owned()])),
    ];
    let counted = ["MemoryAccounting", "CPUAccounting", disk, "TasksAccounting"];
    properties.extend(counted.map(|name| Property(name, Setting::Flag(true))));
    properties.push(Property("DefaultDependencies", Setting::Flag(false)));
    properties
}

/// The limits for which systemd has properties.
pub(crate) fn limits(version: Version, values: &CgroupValues) -> Vec<Property> {
    let number = |name, value| Property(name, Setting::Number(value));
    let mut properties = Vec::new();
    let memory = match version {
        Version::V1 => "MemoryLimit",
        Version::V2 => "MemoryMax",
    };
    properties.extend(values.memory_limit.map(|limit| number(memory, limit)));
    properties.extend(values.cpu_shares.map(|shares| match version {
        Version::V1 => number("CPUShares", shares),
        Version::V2 => number("CPUWeight", cpu::weight(shares)),
    }));
    properties.extend(values.cpu_period.map(|period| number("CPUQuotaPeriodUSec", period)));
    if values.cpu_quota.is_some_and(|quota| quota != 0) || values.cpu_period.is_some() {
        let per_second = per_second(values).unwrap_or(INFINITY);
        properties.push(number("CPUQuotaPerSecUSec", per_second));
    }
    properties.extend(values.pids_limit.map(|limit| number("TasksMax", limit.max(1))));
    let cpus = values.cpu_set.as_deref().filter(|_| version == Version::V2);
    properties.extend(cpus.map(|set| Property("AllowedCPUs", Setting::Bytes(bits(set)))));
    properties
}

/// The CPU time per second in microseconds, rounded to whole percents.
fn per_second(values: &CgroupValues) -> Option<u64> {
    let quota = u64::try_from(values.cpu_quota?).ok().filter(|quota| *quota > 0)?;
    let period = values.cpu_period.unwrap_or(PERIOD).max(1);
    Some((quota.saturating_mul(SECOND) / period).next_multiple_of(PERCENT))
}

/// The values with systemd's rounding, so that files get the same values.
pub(crate) fn rounded(values: &CgroupValues) -> CgroupValues {
    let mut values = values.clone();
    if let Some(per_second) = per_second(&values) {
        let period = values.cpu_period.unwrap_or(PERIOD);
        let quota = u128::from(per_second) * u128::from(period) / u128::from(SECOND);
        values.cpu_quota = Some(i64::try_from(quota).unwrap_or(i64::MAX));
    }
    values
}

/// CPUs as a bit mask, lowest first: `0-2,8` is 7 and 1.
fn bits(cpus: &str) -> Vec<u8> {
    /// The largest supported number of CPUs.
    const MOST: usize = 8192;
    let mut bits = Vec::new();
    for range in cpus.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>())
        else {
            continue;
        };
        for cpu in first..=last.min(MOST) {
            let byte = cpu / 8;
            if bits.len() <= byte {
                bits.resize(byte + 1, 0);
            }
            bits[byte] |= 1 << (cpu % 8);
        }
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> CgroupValues {
        CgroupValues {
            cpu_shares: Some(1024),
            cpu_quota: Some(50_000),
            cpu_period: Some(100_000),
            cpu_set: Some("0-2,8".to_owned()),
            memory_limit: Some(1 << 20),
            pids_limit: Some(0),
            huge_pages: [(2 << 20, 0)].into(),
        }
    }

    fn number(name: &'static str, value: u64) -> Property {
        Property(name, Setting::Number(value))
    }

    #[test]
    fn properties_differ_by_cgroup_version() {
        let quota = [number("CPUQuotaPeriodUSec", 100_000), number("CPUQuotaPerSecUSec", 500_000)];
        let [period, per_second] = quota;
        let expected = [
            number("MemoryLimit", 1 << 20),
            number("CPUShares", 1024),
            period.clone(),
            per_second.clone(),
            number("TasksMax", 1),
        ];
        assert_eq!(limits(Version::V1, &values()), expected);
        let expected = [
            number("MemoryMax", 1 << 20),
            number("CPUWeight", 39),
            period,
            per_second,
            number("TasksMax", 1),
            Property("AllowedCPUs", Setting::Bytes(vec![0b111, 1])),
        ];
        assert_eq!(limits(Version::V2, &values()), expected);
        assert_eq!(limits(Version::V2, &CgroupValues::default()), []);
        let unlimited = CgroupValues { cpu_quota: Some(-1), ..CgroupValues::default() };
        assert_eq!(limits(Version::V2, &unlimited), [number("CPUQuotaPerSecUSec", u64::MAX)]);
    }

    #[test]
    fn quotas_are_rounded_up_to_whole_percents() {
        for (quota, period, expected) in [
            (50_000, 100_000, 50_000),
            (1100, 100_000, 2000),
            (1000, 100_000, 1000),
            (2500, 5000, 2500),
            (-1, 100_000, -1),
        ] {
            let asked = CgroupValues {
                cpu_quota: Some(quota),
                cpu_period: Some(period),
                ..CgroupValues::default()
            };
            assert_eq!(rounded(&asked).cpu_quota, Some(expected), "{quota} of {period}");
            assert_eq!(rounded(&rounded(&asked)), rounded(&asked));
        }
    }
}
