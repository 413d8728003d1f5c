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

/// Keeps chains until this is dropped.
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
async fn chains_are_made_at_the_start_and_again_within_a_minute_of_a_flush() {
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
    // Whoever empties one table only is given time for the others.
    filter.flush(Family::V4, Table::Mangle);
    seconds(62).await;
    assert!(!filter.listed(Family::V4).contains(&"mangle KUBE-IPTABLES-HINT".to_owned()));
    seconds(5).await;
    assert_eq!(filter.listed(Family::V4), all_of_v4());
}

// behaviour: NODE-54
#[tokio::test(start_paused = true)]
async fn a_quiet_minute_costs_one_question_for_each_version_of_ip() {
    let filter = Arc::new(MemoryPacketFilter::default());
    let _tasks = start(&filter);
    seconds(30).await;
    let before = filter.calls();
    seconds(600).await;
    assert_eq!(filter.calls() - before, 20);
}

// behaviour: NODE-54
#[tokio::test(start_paused = true)]
async fn what_others_have_put_there_stays_and_nothing_is_there_twice() {
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
async fn a_version_of_ip_that_does_not_work_does_not_keep_the_other_from_its_chains() {
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
async fn a_machine_without_iptables_is_asked_once_and_the_task_does_not_end() {
    let filter = Arc::new(MemoryPacketFilter::default());
    filter.remove_program(Family::V4);
    filter.remove_program(Family::V6);
    let mut tasks = start(&filter);
    seconds(3600).await;
    assert_eq!(filter.calls(), 2);
    assert!(tasks.try_join_next().is_none());
}
