//! The settings of the agents of a history.

use std::time::Duration;

use ferrolet::wiring::{ImageRules, ManifestUrl, NodeCgroups, Settings};
use gc::decide::images::{Pins, Policy};
use model::ports::http::Headers;
use runtime::decide::NodeSettings;

use crate::plan::{KEPT, NODE, Plan, URL};

/// The minimum age of unused images, where it is set.
const YOUNG: Duration = Duration::from_mins(2);

/// The settings of every agent of this history.
pub(super) fn of(plan: &Plan) -> Settings {
    let collecting = &plan.collecting;
    let policy = Policy {
        minimum_age: if plan.seed.is_multiple_of(3) { YOUNG } else { Duration::ZERO },
        maximum_age: collecting.images_unused,
        ..Policy::default()
    };
    let pins = Pins::parse(&[KEPT]).expect("a valid name");
    let node = NodeSettings {
        root_dir: "/".into(),
        cluster_dns: vec![[10, 96, 0, 10].into()],
        ids_per_pod: 65_536,
        stop_signals: true,
        ..NodeSettings::default()
    };
    Settings {
        manifests: Some("/manifests".into()),
        manifest_url: plan.url.then(|| ManifestUrl {
            url: URL.to_owned(),
            headers: Headers::default(),
            period: Duration::from_secs(20),
        }),
        pleg: pleg::Settings { hints: plan.hints, ..pleg::Settings::default() },
        container_gc: collecting.containers,
        images: ImageRules {
            policy,
            pins,
            keep_static_and_critical: collecting.keeps_images_of_pods,
        },
        cgroups: NodeCgroups::of_pods("/kubepods"),
        ..Settings::new(NODE, "memory", node)
    }
}
