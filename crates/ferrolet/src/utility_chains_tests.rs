use model::ports::packet_filter::{Addition, FilterChain, FilterRule, Place, Table};
use testkit::packet_filter::MemoryPacketFilter;
use tokio::task::JoinSet;

use super::*;

const DROP: &str = "filter KUBE-FIREWALL -m comment --comment block incoming localnet connections \
                    --dst 127.0.0.0/8 ! --src 127.0.0.0/8 -m conntrack ! --ctstate \
                    RELATED,ESTABLISHED,DNAT -j DROP";

fn all_of_v4() -> Vec<String> {
    let all = [
        "filter INPUT -j KUBE-FIREWALL",
        "filter KUBE-FIREWALL",
        DROP,
        "filter KUBE-KUBELET-CANARY",
        "filter OUTPUT -j KUBE-FIREWALL",
        "mangle KUBE-IPTABLES-HINT",
        "mangle KUBE-KUBELET-CANARY",
        "nat KUBE-KUBELET-CANARY",
    ];
    all.map(ToOwned::to_owned).to_vec()
}

const ALL_OF_V6: [&str; 4] = [
    "filter KUBE-KUBELET-CANARY",
    "mangle KUBE-IPTABLES-HINT",
    "mangle KUBE-KUBELET-CANARY",
    "nat KUBE-KUBELET-CANARY",
];

/// Maintains chains until this is dropped.
fn start(filter: &Arc<MemoryPacketFilter>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(keep_chains(Arc::clone(filter) as _, CancellationToken::new()));
    tasks
}

async fn seconds(number: u64) {
    sleep(Duration::from_secs(number)).await;
}

// behaviour: NODE-54
#[tokio::test(start_paused = true)]
async fn chains_are_created_at_start_and_within_a_minute_of_a_flush() {
    let filter = Arc::new(MemoryPacketFilter::default());
    let _tasks = start(&filter);
    seconds(1).await;
    assert_eq!(filter.listed(Family::V4), all_of_v4());
    assert_eq!(filter.listed(Family::V6), ALL_OF_V6);
    for table in [Table::Filter, Table::Mangle, Table::Nat] {
        filter.flush(Family::V4, table);
    }
    seconds(61).await;
    assert_eq!(filter.listed(Family::V4), all_of_v4());
    // A flush of a single table gets time to flush the others.
    filter.flush(Family::V4, Table::Mangle);
    seconds(62).await;
    assert!(!filter.listed(Family::V4).contains(&"mangle KUBE-IPTABLES-HINT".to_owned()));
    seconds(5).await;
    assert_eq!(filter.listed(Family::V4), all_of_v4());
}

// behaviour: NODE-54
#[tokio::test(start_paused = true)]
async fn idle_minute_costs_one_call_per_ip_family() {
    let filter = Arc::new(MemoryPacketFilter::default());
    let _tasks = start(&filter);
    seconds(30).await;
    let before = filter.calls();
    seconds(600).await;
    assert_eq!(filter.calls() - before, 20);
}

// behaviour: NODE-54
#[tokio::test(start_paused = true)]
async fn foreign_rules_stay_and_no_rule_is_duplicated() {
    let filter = Arc::new(MemoryPacketFilter::default());
    let firewall = FilterChain { table: Table::Filter, name: "KUBE-FIREWALL" };
    let theirs = FilterRule { chain: firewall, place: Place::Last, words: &["-j", "THEIRS"] };
    let made = [Addition::Chain(firewall), Addition::Rule(theirs)];
    filter.add(Family::V4, &made).await.unwrap();
    for _ in 0..2 {
        let _tasks = start(&filter);
        seconds(1).await;
        let mut expected = all_of_v4();
        expected.insert(2, "filter KUBE-FIREWALL -j THEIRS".to_owned());
        assert_eq!(filter.listed(Family::V4), expected);
    }
}

// behaviour: NODE-55
#[tokio::test(start_paused = true)]
async fn failing_ip_family_does_not_block_the_other() {
    let filter = Arc::new(MemoryPacketFilter::default());
    filter.remove_program(Family::V6);
    filter.set_broken(Family::V4, true);
    let _tasks = start(&filter);
    seconds(30).await;
    assert!(filter.listed(Family::V4).is_empty());
    filter.set_broken(Family::V4, false);
    seconds(60).await;
    assert_eq!(filter.listed(Family::V4), all_of_v4());
}

// behaviour: NODE-55
#[tokio::test(start_paused = true)]
async fn missing_iptables_is_checked_once_and_the_task_keeps_running() {
    let filter = Arc::new(MemoryPacketFilter::default());
    filter.remove_program(Family::V4);
    filter.remove_program(Family::V6);
    let mut tasks = start(&filter);
    seconds(3600).await;
    assert_eq!(filter.calls(), 2);
    assert!(tasks.try_join_next().is_none());
}
