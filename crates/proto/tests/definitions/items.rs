//! A protocol as a flat list, so that comparing two of them is comparing two maps.

use std::collections::BTreeMap;

use protox::prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind};

/// What something is called ("field runtime.v1.Mount.readonly") and everything that matters about
/// it ("bool = 3").
pub(crate) type Items = BTreeMap<String, String>;

/// Every message, field, enum, enum value, service and call of the package.
pub(crate) fn items(package: &str, pool: &DescriptorPool) -> Items {
    let mut items = Items::new();
    messages(package, pool, &mut items);
    enums(package, pool, &mut items);
    services(package, pool, &mut items);
    items
}

/// One line for each of our items that upstream does not have, or has differently.
pub(crate) fn differences(ours: &Items, theirs: &Items) -> Vec<String> {
    let difference = |(name, our): (&String, &String)| match theirs.get(name) {
        None => Some(format!("{name}: not upstream")),
        Some(their) if their != our => Some(format!("{name}: `{our}`, upstream `{their}`")),
        Some(_) => None,
    };
    ours.iter().filter_map(difference).collect()
}

fn messages(package: &str, pool: &DescriptorPool, items: &mut Items) {
    for message in pool.all_messages() {
        // Map entries show up as the type of their field.
        if message.package_name() != package || message.is_map_entry() {
            continue;
        }
        let name = message.full_name();
        items.insert(format!("message {name}"), marks(&message.options()));
        for field in message.fields() {
            items.insert(format!("field {}", field.full_name()), describe(&field));
        }
    }
}

fn enums(package: &str, pool: &DescriptorPool, items: &mut Items) {
    for kind in pool.all_enums().filter(|e| e.package_name() == package) {
        let name = kind.full_name();
        items.insert(format!("enum {name}"), marks(&kind.options()));
        for value in kind.values() {
            let meaning = format!("{}{}", value.number(), marks(&value.options()));
            items.insert(format!("value {name}.{}", value.name()), meaning);
        }
    }
}

fn services(package: &str, pool: &DescriptorPool, items: &mut Items) {
    let stream = |yes| if yes { "stream " } else { "" };
    for service in pool.services().filter(|s| s.package_name() == package) {
        let name = service.full_name();
        items.insert(format!("service {name}"), marks(&service.options()));
        for call in service.methods() {
            let meaning = format!(
                "{}{} returns {}{}{}",
                stream(call.is_client_streaming()),
                call.input().full_name(),
                stream(call.is_server_streaming()),
                call.output().full_name(),
                marks(&call.options())
            );
            items.insert(format!("rpc {}", call.full_name()), meaning);
        }
    }
}

fn describe(field: &FieldDescriptor) -> String {
    let presence = if field.field_descriptor_proto().proto3_optional() { "optional " } else { "" };
    let oneof = field.containing_oneof().filter(|o| !o.is_synthetic());
    let oneof = oneof.map_or_else(String::new, |o| format!(" in oneof {}", o.name()));
    format!(
        "{presence}{} = {}{oneof}{}",
        field_type(field),
        field.number(),
        marks(&field.options())
    )
}

fn field_type(field: &FieldDescriptor) -> String {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => format!(
            "map<{}, {}>",
            type_name(&entry.map_entry_key_field()),
            type_name(&entry.map_entry_value_field())
        ),
        _ if field.is_list() => format!("repeated {}", type_name(field)),
        _ => type_name(field),
    }
}

fn type_name(field: &FieldDescriptor) -> String {
    match field.kind() {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(kind) => kind.full_name().to_owned(),
        scalar => format!("{scalar:?}"),
    }
}

/// The options that change how an item may be used.
fn marks(options: &DynamicMessage) -> String {
    let mut marks = String::new();
    for mark in ["deprecated", "debug_redact"] {
        let value = options.get_field_by_name(mark);
        if value.is_some_and(|value| value.as_bool() == Some(true)) {
            marks.extend([" [", mark, "]"]);
        }
    }
    marks
}
