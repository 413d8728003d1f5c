//! Rules for names, addresses and DNS settings.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{PodDNSConfig, PodSpec};

use super::{check_word, port, word};
use crate::field_error::{FieldErrors, FieldPath};
use crate::names::{dns_label, dns_subdomain, dns_subdomain_with_underscore};

const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_BYTES: usize = 2048;
const HOSTNAME_MAX_BYTES: usize = 64;

pub(super) fn check(spec: &PodSpec, path: &FieldPath, errors: &mut FieldErrors) {
    port::check_host_network(spec, path, errors);
    let policy = word(spec.dns_policy.as_ref());
    check_word(policy, DNS_POLICIES, &path.child("dnsPolicy"), errors);
    check_dns(spec.dns_config.as_ref(), policy, &path.child("dnsConfig"), errors);
    for (field, name) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        let name = word(name.as_ref());
        if !name.is_empty() {
            errors.invalid_each(&path.child(field), name, dns_label(name));
        }
    }
    check_hostname_override(spec, &path.child("hostnameOverride"), errors);
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        let path = path.child("hostAliases").index(index);
        check_ip(&alias.ip, &path.child("ip"), errors);
        for (index, name) in alias.hostnames.iter().flatten().enumerate() {
            let path = path.child("hostnames").index(index);
            errors.invalid_each(&path, name.as_str(), dns_subdomain(name));
        }
    }
}

fn check_hostname_override(spec: &PodSpec, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(name) = &spec.hostname_override else {
        return;
    };
    if spec.set_hostname_as_fqdn == Some(true) {
        errors.forbidden(path, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.host_network == Some(true) {
        errors.forbidden(path, "may not be specified when hostNetwork is true");
    }
    if name.len() > HOSTNAME_MAX_BYTES {
        errors.too_long(path, HOSTNAME_MAX_BYTES);
    }
    errors.invalid_each(path, name.as_str(), dns_subdomain(name));
}

fn check_dns(
    config: Option<&PodDNSConfig>,
    policy: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let Some(config) = config else {
        if policy == "None" {
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        return;
    };
    let nameservers = config.nameservers.as_deref().unwrap_or_default();
    let servers_path = path.child("nameservers");
    if nameservers.is_empty() && policy == "None" {
        let problem = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.required(&servers_path, problem);
    }
    if nameservers.len() > MAX_NAMESERVERS {
        let problem = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.invalid(&servers_path, nameservers, problem);
    }
    for (index, server) in nameservers.iter().enumerate() {
        check_ip(server, &servers_path.index(index), errors);
    }
    let searches = config.searches.as_deref().unwrap_or_default();
    check_searches(searches, &path.child("searches"), errors);
    for (index, option) in config.options.iter().flatten().enumerate() {
        if word(option.name.as_ref()).is_empty() {
            errors.required(&path.child("options").index(index), "must not be empty");
        }
    }
}

fn check_searches(searches: &[String], path: &FieldPath, errors: &mut FieldErrors) {
    if searches.len() > MAX_SEARCHES {
        let problem = format!("must not have more than {MAX_SEARCHES} search paths");
        errors.invalid(path, searches, problem);
    }
    if searches.join(" ").len() > MAX_SEARCH_BYTES {
        let problem = format!(
            "must not have more than {MAX_SEARCH_BYTES} characters (including spaces) in the \
             search list"
        );
        errors.invalid(path, searches, problem);
    }
    for (index, search) in searches.iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors.invalid_each(&path.index(index), search, dns_subdomain_with_underscore(search));
    }
}

fn check_ip(text: &str, path: &FieldPath, errors: &mut FieldErrors) {
    match text.parse() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            errors.invalid(path, text, "must not be an IPv4-mapped IPv6 address");
        }
        Ok(_) => {}
        Err(_) if has_leading_zeros(text) => {
            errors.invalid(path, text, "must not have leading 0s");
        }
        Err(_) => {
            let problem = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.invalid(path, text, problem);
        }
    }
}

/// Whether it would be an address without leading zeros, which some programs
/// interpret as octal.
fn has_leading_zeros(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() == 4
        && parts.iter().all(|part| {
            let number = part.trim_start_matches('0');
            !part.is_empty() && (number.is_empty() || number.parse::<u8>().is_ok())
        })
}
