use proptest::prelude::*;

use super::quantity::Quantity;

fn canonical(text: &str) -> String {
    Quantity::parse(text).map_or_else(|_| "no quantity".to_owned(), |quantity| quantity.to_string())
}

#[test]
fn quantity_has_one_canonical_form() {
    let cases = [
        ("0", "0"),
        ("0Gi", "0"),
        ("1", "1"),
        ("+1", "1"),
        ("-1", "-1"),
        ("1000m", "1"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("5.", "5"),
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1023Ki", "1023Ki"),
        ("1Ki", "1Ki"),
        ("0.5Ki", "512"),
        ("1000", "1k"),
        ("2048", "2048"),
        ("1000Ki", "1000Ki"),
        ("1500k", "1500k"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("12e4", "120e3"),
        ("1e0", "1"),
        ("1e-3", "1e-3"),
        ("1E", "1E"),
        ("100n", "100n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1u", "1u"),
        ("0.0001Ki", "102400u"),
        ("8Ei", "9223372036854775807"),
        ("9999999999Ei", "9223372036854775807"),
    ];
    for (text, expected) in cases {
        assert_eq!(canonical(text), expected, "{text}");
    }
}

#[test]
fn invalid_quantity_is_rejected() {
    let bad = [
        "", " ", "-", "+", ".", "a", "1x", "1 Gi", "1.2.3", "1gi", "1Kib", "1K", "1e", "1e1.5",
        "--1", "0x10", "1Gi1", "1ee3", "ä",
    ];
    for text in bad {
        assert_eq!(canonical(text), "no quantity", "{text:?}");
    }
}

#[test]
fn quantities_compare_by_value() {
    let quantity = |text| Quantity::parse(text).unwrap();
    assert_eq!(quantity("1Ki"), quantity("1024"));
    assert_eq!(quantity("1k"), quantity("1e3"));
    assert!(quantity("999m") < quantity("1"));
    assert!(quantity("-1") < quantity("0"));
    assert!(quantity("1Gi") > quantity("1G"));
    assert_eq!((quantity("1Gi") + quantity("512Mi")).to_string(), "1536Mi");
    assert_eq!((Quantity::ZERO + quantity("512Mi")).to_string(), "512Mi");
}

#[test]
fn cpu_is_stored_in_millicores() {
    let rounded = |text| Quantity::parse(text).unwrap().rounded_to_thousandths().to_string();
    assert_eq!(rounded("1n"), "1m");
    assert_eq!(rounded("1.0001"), "1001m");
    assert_eq!(rounded("-1n"), "-1m");
    assert_eq!(rounded("1500m"), "1500m");
}

proptest! {
    #[test]
    fn any_text_parses_or_is_rejected(text in ".{0,40}") {
        let _ = canonical(&text);
    }

    #[test]
    fn canonical_form_has_the_same_value(
        text in "[+-]?[0-9]{0,25}(\\.[0-9]{1,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,2})?"
    ) {
        if let Ok(quantity) = Quantity::parse(&text) {
            let written = quantity.to_string();
            let again = Quantity::parse(&written);
            prop_assert_eq!(again.as_ref().ok(), Some(&quantity), "{}", written);
            prop_assert_eq!(again.unwrap().to_string(), written);
        }
    }
}

#[test]
fn quantity_rounds_up_to_an_integer() {
    let rows = [
        ("0", 0, 0),
        ("1", 1, 1000),
        ("100m", 1, 100),
        ("1500m", 2, 1500),
        ("1n", 1, 1),
        ("1Ki", 1024, 1_024_000),
        ("-1500m", -1, -1500),
        ("16E", i64::MAX, i64::MAX),
    ];
    for (text, value, milli) in rows {
        let quantity = Quantity::parse(text).unwrap();
        assert_eq!((quantity.value(), quantity.milli_value()), (value, milli), "{text}");
    }
}
