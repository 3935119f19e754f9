//! The registry, and what each cause needs.

use super::*;

fn site() -> Site {
    let allowed = affinity::allowed().expect("some CPU is allowed");
    Site {
        cpu: *allowed.last().expect("some CPU is allowed"),
        allowed,
        paths: Vec::new(),
        target: None,
    }
}

fn arguments(causes: &[&str]) -> Arguments {
    Arguments {
        causes: causes.iter().map(|name| (*name).to_owned()).collect(),
        cpu: None,
        length: None,
        seed: 1,
        on: Duration::from_millis(200),
        off: Duration::from_millis(300),
        steady: false,
        path: Vec::new(),
        thread: None,
        probes_of: None,
    }
}

fn refusal(causes: &[&str]) -> String {
    match arguments(causes).disturbances(&site()) {
        Ok(_) => "not refused".to_owned(),
        Err(failure) => failure.to_string(),
    }
}

#[test]
fn every_cause_has_a_name_of_its_own_and_raises_a_covariate_that_there_is() {
    let covariates: Vec<Value> = crate::covariates::describe();
    let known = |name: &str| {
        name == crate::harness::INJECTED_NS || covariates.iter().any(|one| one["name"] == name)
    };
    let mut names = std::collections::BTreeSet::new();
    for cause in &CAUSES {
        assert!(names.insert(cause.name), "{}", cause.name);
        assert!(!cause.purpose.is_empty() && !cause.raises.is_empty());
        assert!(
            cause.raises.iter().all(|name| known(name)),
            "{}",
            cause.name
        );
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_disturbed() {
    for (causes, words) in [
        (&["interupts"][..], "did you mean \"interrupts\""),
        (&["hog", "hog"], "named twice"),
        (&["delay"], "oscope run --inject delay=AMOUNT"),
        (&["migrate"], "needs to know the thread"),
    ] {
        let reported = refusal(causes);
        assert!(reported.contains(words), "{reported}");
    }
    let mut elsewhere = arguments(&["hog"]);
    elsewhere.cpu = Some(99_999);
    assert!(matches!(elsewhere.site(), Err(Failure::Request { .. })));
}

#[test]
fn a_disturbance_disturbs_until_it_is_stopped() {
    let (stop, hold) = notify_pipe().expect("there can be a pipe");
    let mut hog = hog::Hog::on(site().cpu, "here".to_owned());
    assert!(hog.step(&stop, Duration::from_secs(1)).expect("it can") > 0);
    drop(hold);
    assert!(stop.is_closed());
}
