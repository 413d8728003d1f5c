//! Resource limits.

use model::wanted::LinuxResources;
use proto::runtime_v1 as cri;

pub(crate) fn resources(resources: &LinuxResources) -> cri::LinuxContainerResources {
    let huge_pages = resources.huge_page_limits.iter();
    cri::LinuxContainerResources {
        cpu_period: resources.cpu_period,
        cpu_quota: resources.cpu_quota,
        cpu_shares: resources.cpu_shares,
        memory_limit_in_bytes: resources.memory_limit,
        oom_score_adj: resources.oom_score_adj,
        hugepage_limits: huge_pages
            .map(|of_size| cri::HugepageLimit {
                page_size: of_size.page_size.clone(),
                limit: of_size.limit,
            })
            .collect(),
        unified: resources.unified.clone(),
        memory_swap_limit_in_bytes: resources.memory_swap_limit,
        ..cri::LinuxContainerResources::default()
    }
}
