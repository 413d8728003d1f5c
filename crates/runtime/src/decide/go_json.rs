//! Parts of a pod in JSON as Go writes them: with fields in the order of its types, where ours would
//! sort them by name. Both agents read both, but users and tests compare texts.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{ContainerPort, HTTPGetAction, LifecycleHandler, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Builds an object.
#[derive(Default)]
struct Object(Vec<String>);

impl Object {
    /// Adds a field with a JSON value.
    fn raw(mut self, name: &str, json: Option<String>) -> Self {
        self.0.extend(json.map(|json| format!("{}:{json}", quoted(name))));
        self
    }

    /// Adds a string field, unless it is empty.
    fn text(self, name: &str, text: Option<&str>) -> Self {
        self.raw(name, text.filter(|text| !text.is_empty()).map(quoted))
    }

    fn end(self) -> String {
        format!("{{{}}}", self.0.join(","))
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// A quoted string. Go also escapes HTML.
fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..=' ' if c != ' ' => {
                write!(quoted, "\\u{:04x}", u32::from(c))
                    .expect("writing to a string does not fail");
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The ports of a container.
pub fn ports_json(ports: &[ContainerPort]) -> String {
    list(ports.iter().map(|port| {
        let number = |number: i32| Some(number.to_string());
        Object::default()
            .text("name", port.name.as_deref())
            .raw("hostPort", port.host_port.filter(|port| *port != 0).and_then(number))
            .raw("containerPort", number(port.container_port))
            .text("protocol", port.protocol.as_deref())
            .text("hostIP", port.host_ip.as_deref())
            .end()
    }))
}

/// A lifecycle hook.
pub fn handler_json(handler: &LifecycleHandler) -> String {
    let exec = handler.exec.as_ref().map(|exec| {
        let command = exec.command.as_ref().filter(|command| !command.is_empty());
        let words = command.map(|command| list(command.iter().map(|word| quoted(word))));
        Object::default().raw("command", words).end()
    });
    let sleep = handler.sleep.as_ref().map(|sleep| format!("{{\"seconds\":{}}}", sleep.seconds));
    Object::default()
        .raw("exec", exec)
        .raw("httpGet", handler.http_get.as_ref().map(http_get))
        .raw("tcpSocket", handler.tcp_socket.as_ref().map(tcp_socket))
        .raw("sleep", sleep)
        .end()
}

fn port(port: &IntOrString) -> String {
    match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => quoted(name),
    }
}

fn http_get(get: &HTTPGetAction) -> String {
    let headers = get.http_headers.as_ref().filter(|headers| !headers.is_empty());
    let headers = headers.map(|headers| {
        list(headers.iter().map(|header| {
            let (name, value) = (quoted(&header.name), quoted(&header.value));
            format!("{{\"name\":{name},\"value\":{value}}}")
        }))
    });
    Object::default()
        .text("path", get.path.as_deref())
        .raw("port", Some(port(&get.port)))
        .text("host", get.host.as_deref())
        .text("scheme", get.scheme.as_deref())
        .raw("httpHeaders", headers)
        .end()
}

fn tcp_socket(socket: &TCPSocketAction) -> String {
    Object::default()
        .raw("port", Some(port(&socket.port)))
        .text("host", socket.host.as_deref())
        .end()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // behaviour: CON-12
    #[test]
    fn ports_and_hooks_are_serialized_in_the_order_of_go() {
        let ports = r#"[{"containerPort":80,"hostIP":"::1","hostPort":8080,"name":"web","protocol":"TCP"},{"containerPort":9}]"#;
        let ports: Vec<ContainerPort> = serde_json::from_str(ports).unwrap();
        assert_eq!(
            ports_json(&ports),
            r#"[{"name":"web","hostPort":8080,"containerPort":80,"protocol":"TCP","hostIP":"::1"},{"containerPort":9}]"#
        );
        let rows = [
            (
                r#"{"exec":{"command":["a","<b>"]}}"#,
                r#"{"exec":{"command":["a","\u003cb\u003e"]}}"#,
            ),
            (
                r#"{"httpGet":{"host":"h","httpHeaders":[{"name":"n","value":"v"}],"path":"/","port":"web","scheme":"HTTP"}}"#,
                r#"{"httpGet":{"path":"/","port":"web","host":"h","scheme":"HTTP","httpHeaders":[{"name":"n","value":"v"}]}}"#,
            ),
            (r#"{"tcpSocket":{"host":"h","port":80}}"#, r#"{"tcpSocket":{"port":80,"host":"h"}}"#),
            (r#"{"sleep":{"seconds":3}}"#, r#"{"sleep":{"seconds":3}}"#),
        ];
        for (given, expected) in rows {
            let handler: LifecycleHandler = serde_json::from_str(given).unwrap();
            assert_eq!(handler_json(&handler), expected);
        }
    }

    proptest! {
        #[test]
        fn any_text_round_trips(text in ".*") {
            prop_assert_eq!(serde_json::from_str::<String>(&quoted(&text)).unwrap(), text);
        }
    }
}
