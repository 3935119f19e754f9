use super::*;

fn named(name: &str, entry: Entry) -> Result<Call, Failure> {
    Call::named(name, entry, || {
        File::open("/dev/zero").map_err(|error| Failure::system("/dev/zero", error))
    })
}

/// A harmless call, and one that is refused, by number: `getpid` and `fork` of x86-64, `getpid` and `clone` of
/// arm64.
const HARMLESS: &str = if cfg!(target_arch = "aarch64") {
    "nr:172"
} else {
    "nr:39"
};
const REFUSED: &str = if cfg!(target_arch = "aarch64") {
    "nr:220"
} else {
    "nr:57"
};

#[test]
fn each_call_answers_what_is_expected_either_way() {
    for entry in [Entry::Function, Entry::Instruction] {
        for name in ["getpid", "getppid", "read", "lseek", HARMLESS, "nr:1000"] {
            let call = named(name, entry).unwrap();
            assert_eq!(call.visit(Once), call.expected, "{name}");
        }
    }
    for name in ["gethostid", "clock_gettime"] {
        let call = named(name, Entry::Function).unwrap();
        assert_eq!(call.visit(Once), call.expected, "{name}");
    }
}

#[test]
fn a_call_that_does_not_exist_is_remarked_on() {
    let mut call = named("nr:1000", Entry::Function).unwrap();
    assert!(call.remark().unwrap().contains("ENOSYS"));
    call.expected = -i64::from(libc::EINVAL);
    assert!(call.remark().unwrap().contains("EINVAL"));
    call.expected = 0;
    assert_eq!(call.remark(), None);
    assert_eq!(named("getpid", Entry::Function).unwrap().remark(), None);
}

#[test]
fn what_cannot_be_called_names_the_field() {
    for (name, entry, wrong) in [
        ("open", Entry::Function, "call"),
        (REFUSED, Entry::Function, "call"),
        ("nr:x", Entry::Function, "call"),
        ("gethostid", Entry::Instruction, "entry"),
        ("clock_gettime", Entry::Instruction, "entry"),
    ] {
        match named(name, entry) {
            Err(Failure::Request { field, .. }) => assert_eq!(field, wrong),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_call_of_another_kernel_is_never_made() {
    if std::path::Path::new(oscope_sys::cleanup::setting::MY_PRECIOUS_LOG).exists() {
        return;
    }
    for name in ["my_precious", "my_precious_logged"] {
        for entry in [Entry::Function, Entry::Instruction] {
            match named(name, entry) {
                Err(Failure::Unavailable {
                    remedy: Some(remedy),
                    ..
                }) => assert!(remedy.contains("oscope run kernel.precious"), "{remedy}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}

#[test]
fn answers_that_are_no_errors_count_as_zero() {
    for (answer, counted) in [
        (1234, 0),
        (0, 0),
        (-38, -38),
        (-4095, -4095),
        (-4096, 0),
        (i64::MIN, 0),
    ] {
        assert_eq!(ErrorOnly(|| answer).make(), counted);
    }
}
