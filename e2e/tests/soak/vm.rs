//! Features that only the kernel of a virtual machine has: cgroup v2, the OOM killer, `AppArmor`, NFS, and a real systemd.

mod apparmor;
mod limits;
mod nfs;
mod resize;
mod scores;
mod shutdown;
mod systemd;

/// A pod that is not restarted. It has the machine's network: setting up another one takes longer than everything else.
fn pod(name: &str, args: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n  \
         hostNetwork: true\n  terminationGracePeriodSeconds: 2\n  containers:\n  - name: main\n    \
         image: ferrolet.test/workload:1\n    args: {args}\n    {more}\n"
    )
}
