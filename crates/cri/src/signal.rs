//! Signals by the names of the pod API, some of which differ from those of the protocol.

use proto::runtime_v1 as cri;

/// The number of a signal. If the protocol has no number for it, the stop signal of the image is
/// used.
pub(crate) fn number(name: &str) -> i32 {
    let name = name.replace('+', "PLUS").replace('-', "MINUS");
    cri::Signal::from_str_name(&name).unwrap_or(cri::Signal::RuntimeDefault).into()
}

/// The name of a signal; `None` if the image decides, or the number is unknown.
pub(crate) fn name(number: i32) -> Option<String> {
    let signal = cri::Signal::try_from(number).ok()?;
    let name = signal.as_str_name().replace("PLUS", "+").replace("MINUS", "-");
    (signal != cri::Signal::RuntimeDefault).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: ACT-68
    #[test]
    fn signals_round_trip_by_number_and_name() {
        let rows = [
            ("SIGTERM", cri::Signal::Sigterm),
            ("SIGUSR1", cri::Signal::Sigusr1),
            ("SIGRTMIN", cri::Signal::Sigrtmin),
            ("SIGRTMIN+15", cri::Signal::Sigrtminplus15),
            ("SIGRTMAX-1", cri::Signal::Sigrtmaxminus1),
            ("SIGRTMAX", cri::Signal::Sigrtmax),
        ];
        for (text, signal) in rows {
            assert_eq!(number(text), i32::from(signal), "{text}");
            assert_eq!(name(signal.into()).as_deref(), Some(text));
        }
        assert_eq!((number("SIGNONE"), number("")), (0, 0));
        assert_eq!((name(0), name(-1), name(1000)), (None, None, None));
        let known = (1..200).filter_map(name);
        let lost: Vec<_> = known.filter(|name| number(name) == 0).collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
}
