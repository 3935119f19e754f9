use super::*;

const SMAPS: &str = "7f0000000000-7f0000200000 rw-p 00000000 00:00 0 \n\
    Size:               2048 kB\n\
    Rss:                2048 kB\n\
    AnonHugePages:      2048 kB\n\
    VmFlags: rd wr\n\
    7f0000400000-7f0000402000 r--p 00000000 fe:00 12 /lib/x-y: z.so\n\
    Rss:                   8 kB\n\
    AnonHugePages:         0 kB\n";

#[test]
fn only_mappings_in_the_range_count() {
    let first = parse_smaps(SMAPS, 0x7f00_0000_0000, 2 << 20);
    assert_eq!(
        first,
        Mapped {
            resident_bytes: 2 << 20,
            huge_bytes: 2 << 20
        }
    );
    let second = parse_smaps(SMAPS, 0x7f00_0040_1000, 4096);
    assert_eq!(
        second,
        Mapped {
            resident_bytes: 8192,
            huge_bytes: 0
        }
    );
    assert_eq!(parse_smaps(SMAPS, 0x1000, 4096), Mapped::default());
}

#[test]
fn memory_that_is_not_what_it_should_be_is_refused() {
    let mapped = |resident_bytes, huge_bytes| Mapped {
        resident_bytes,
        huge_bytes,
    };
    assert!(judge(mapped(4096, 0), 4096, Pages::Base).is_ok());
    assert!(matches!(
        judge(mapped(0, 0), 4096, Pages::Base),
        Err(Failure::Unavailable { .. })
    ));
    assert!(judge(mapped(4 << 20, 2 << 20), 4 << 20, Pages::Base).is_err());
    assert!(matches!(
        judge(mapped(4 << 20, 2 << 20), 4 << 20, Pages::Huge),
        Err(Failure::Unavailable { .. })
    ));
    assert!(judge(mapped(4 << 20, 4 << 20), 4 << 20, Pages::Huge).is_ok());
}

#[test]
fn too_much_is_refused_before_it_is_touched() {
    assert!(check_room(1 << 30, 2 << 30).is_ok());
    for (bytes, room) in [(1 << 30, 1 << 30), (64 << 30, 24 << 30)] {
        let failure = check_room(bytes, room).expect_err("it does not fit");
        assert!(
            matches!(
                failure,
                Failure::Unavailable {
                    remedy: Some(_),
                    ..
                }
            ),
            "{failure}"
        );
    }
    let failure = Mapping::new(1 << 46, Pages::Base).expect_err("no machine has 64 TiB to spare");
    assert!(matches!(failure, Failure::Unavailable { .. }), "{failure}");
}

fn resident_bytes_of_process() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("it can be read");
    statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .expect("the second number is resident pages")
        * 4096
}

#[test]
fn base_pages_are_resident_and_given_back() {
    let mut mapping = Mapping::new(64 << 20, Pages::Base).expect("64 MiB can be had");
    let failure = mapping.prove().expect_err("nothing was touched");
    assert!(matches!(failure, Failure::Unavailable { .. }), "{failure}");
    mapping.touch();
    assert_eq!(mapping.prove(), Ok(()));
    assert!(
        mapping
            .as_mut_slice()
            .iter()
            .step_by(4096)
            .all(|&byte| byte == 1)
    );
    let with = resident_bytes_of_process();
    drop(mapping);
    let without = resident_bytes_of_process();
    // Other tests run at the same time, with some MiB of their own.
    assert!(
        with > without + (32 << 20),
        "{with} B with, {without} B without"
    );
}

#[test]
fn huge_pages_are_huge_and_whole_or_unavailable() {
    let proved = Mapping::new(4097 << 10, Pages::Huge).and_then(|mapping| {
        mapping.touch();
        mapping.prove().map(|()| mapping)
    });
    match proved {
        Ok(mut mapping) => {
            assert_eq!(mapping.address.as_ptr() as u64 % (2 << 20), 0);
            assert!(mapping.as_mut_slice().len() > 4097 << 10);
        }
        Err(failure) => assert!(matches!(failure, Failure::Unavailable { .. }), "{failure}"),
    }
}
