//! What only the kernel of a virtual machine has: the second version of cgroups at work, which process it
//! to kill, `AppArmor`, and a real systemd.

mod apparmor;
mod limits;
mod resize;
mod scores;
mod systemd;

/// A pod that is not started again. It has the machine's network: one of its own takes longer than all the
/// rest.
fn pod(name: &str, args: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n  \
         hostNetwork: true\n  terminationGracePeriodSeconds: 2\n  containers:\n  - name: main\n    \
         image: ferrolet.test/workload:1\n    args: {args}\n    {more}\n"
    )
}
