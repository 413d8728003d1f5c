//! The user that tokens belong to.

use k8s_openapi::api::core::v1::Pod;
use podspec::view;

/// The user of all containers of a pod; `None` if they differ, or if one has none.
pub fn fs_user(pod: &Pod) -> Option<u32> {
    let of_pod = view::spec(pod)
        .and_then(|spec| spec.security_context.as_ref())
        .and_then(|context| context.run_as_user);
    let ephemeral = view::ephemeral_containers(pod);
    let declared = view::init_containers(pod).iter().chain(view::containers(pod));
    let mut users = declared.chain(&ephemeral).map(|container| {
        let context = container.security_context.as_ref();
        context.and_then(|context| context.run_as_user).or(of_pod)
    });
    let first = users.next()??;
    let is_shared = users.all(|user| user == Some(first));
    if is_shared { u32::try_from(first).ok() } else { None }
}

/// `fsGroup` of a pod.
pub(super) fn has_fs_group(pod: &Pod) -> bool {
    let context = view::spec(pod).and_then(|spec| spec.security_context.as_ref());
    context.is_some_and(|context| context.fs_group.is_some())
}
