use super::*;

fn target(url: &str) -> Target {
    Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

#[test]
fn url_is_parsed() {
    let rows = [
        ("http://host", (false, "host", 80, "host", "/")),
        ("https://host/", (true, "host", 443, "host", "/")),
        ("http://host:8080/a/b?c=d#e", (false, "host", 8080, "host:8080", "/a/b?c=d")),
        ("http://host?c=d", (false, "host", 80, "host", "/?c=d")),
        ("http://[::1]:80/x", (false, "::1", 80, "[::1]:80", "/x")),
        ("http://1.2.3.4/x", (false, "1.2.3.4", 80, "1.2.3.4", "/x")),
        ("HTTP://host/X", (false, "host", 80, "host", "/X")),
    ];
    for (url, expected) in rows {
        let found = target(url);
        let parts = (found.is_secure, &*found.host, found.port, &*found.authority, &*found.path);
        assert_eq!(parts, expected, "{url}");
        assert_eq!(found.authorization, None, "{url}");
    }
}

#[test]
fn invalid_url_is_refused() {
    for url in ["", "host", "/x", "host:80", "ftp://host/", "http://", "http:///x", "http://a b/"] {
        assert!(Target::parse(url).is_err(), "{url}");
    }
}

#[test]
fn url_credentials_become_a_sensitive_header() {
    let found = target("http://us%40er:pa%3Ass%@host:1/");
    assert_eq!(found.authority, "host:1");
    let value = found.authorization.as_ref().unwrap();
    let encoded = value.to_str().unwrap().strip_prefix("Basic ").unwrap();
    assert_eq!(STANDARD.decode(encoded).unwrap(), b"us@er:pa:ss%");
    assert!(!format!("{found:?}").contains(encoded), "{found:?}");
    let found = target("http://user@host/").authorization.unwrap();
    assert_eq!(found.to_str().unwrap(), "Basic dXNlcjo=");
}

#[test]
fn redirect_is_relative_to_the_current_url() {
    let base = target("https://host:1/a/b?c");
    let rows = [
        ("http://other/x", "http://other/x"),
        ("HTTPS://other", "https://other/"),
        ("//other/x", "https://other/x"),
        ("/x?y", "https://host:1/x?y"),
        ("x", "https://host:1/a/x"),
        ("../x", "https://host:1/x"),
        ("../../../x/./y/..", "https://host:1/x/"),
        ("/x/../y/.", "https://host:1/y/"),
        ("?z", "https://host:1/a/b?z"),
        ("", "https://host:1/a/b"),
        ("x#y", "https://host:1/a/x"),
        ("x:y/z", "error"),
        ("./x:y", "https://host:1/a/x:y"),
        ("ftp://other/", "error"),
    ];
    for (location, expected) in rows {
        let found = base.join(location).map_or("error".to_owned(), |found| {
            let scheme = if found.is_secure { "https" } else { "http" };
            format!("{scheme}://{}{}", found.authority, found.path)
        });
        assert_eq!(found, expected, "{location}");
    }
}

#[test]
fn host_comparison_ignores_port_and_case() {
    let rows = [
        ("http://a.com/", "http://a.com:8080/x", true),
        ("http://a.com/", "https://A.com/", true),
        ("http://a.com/", "http://b.a.com/", false),
        ("http://a.com/", "http://ba.com/", false),
        ("http://b.a.com/", "http://a.com/", false),
        ("http://a.com/", "http://b.com/", false),
        ("http://[::1]/", "http://[::1]:8080/", true),
    ];
    for (first, then, expected) in rows {
        assert_eq!(target(then).has_host_of(&target(first)), expected, "{first} {then}");
    }
}
