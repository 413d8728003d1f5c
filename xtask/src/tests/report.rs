//! The end of a stage: its slowest tests and totals.

use super::pool::TestResult;

/// How many of the slowest tests are shown.
const SLOWEST: usize = 15;
/// Faster ones are not listed.
const SLOW_SECONDS: f64 = 1.0;

/// Prints the slowest tests and the totals, these as `cargo test` does.
pub(super) fn print(results: &[TestResult]) {
    let mut slowest: Vec<&TestResult> = results.iter().collect();
    slowest.sort_by_key(|result| std::cmp::Reverse(result.time));
    for result in slowest.iter().take(SLOWEST) {
        let seconds = result.time.as_secs_f64();
        if seconds >= SLOW_SECONDS {
            println!("slow: {seconds:6.1} s  {}", result.name);
        }
    }
    println!("{}", totals(results));
}

fn totals(results: &[TestResult]) -> String {
    let failed = results.iter().filter(|result| !result.passed).count();
    let passed = results.len() - failed;
    let all = if failed == 0 { "ok" } else { "FAILED" };
    format!("test result: {all}. {passed} passed; {failed} failed")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn totals_have_the_format_of_cargo() {
        let result = |passed| TestResult { name: String::new(), passed, time: Duration::ZERO };
        assert_eq!(totals(&[result(true)]), "test result: ok. 1 passed; 0 failed");
        let some = [result(true), result(false)];
        assert_eq!(totals(&some), "test result: FAILED. 1 passed; 1 failed");
    }
}
