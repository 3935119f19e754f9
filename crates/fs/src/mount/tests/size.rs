//! The size of the cache: what is written is bounded too, and a file that has no room is named.

use std::fs;

use super::rig::{Rig, number, options, through_daemon, until};
use crate::store::Store;

const LIMIT: u64 = 4 << 20;

fn small_cache(options: crate::mount::Options) -> Rig {
    let mut rig = Rig::new(options);
    rig.unmount();
    mount_small(&mut rig);
    rig
}

fn mount_small(rig: &mut Rig) {
    let key = rig.server.target(&rig.there).key();
    rig.mount_over(Store::open(&rig.cache, &key, LIMIT).unwrap());
}

#[test]
fn what_is_written_stays_within_the_size_of_the_cache() {
    for options in [options(), through_daemon()] {
        let mut rig = small_cache(options);
        let content = vec![b'w'; 1 << 20];
        for number in 0..12 {
            fs::write(rig.at(format!("w{number}")), &content).unwrap();
        }
        // Dirty and open: it must stay, and the others give way to it while it grows.
        let open = fs::File::create(rig.at("open")).unwrap();
        std::io::Write::write_all(&mut &open, &vec![b'o'; 3 << 20]).unwrap();
        until("the clean ones have given way", || {
            rig.shared().report().cached_bytes <= LIMIT
        });
        assert_eq!(rig.shared().report().dirty, ["open"]);
        drop(open);
        for number in 0..12 {
            assert_eq!(fs::read(rig.on(format!("w{number}"))).unwrap(), content);
        }
        assert_eq!(fs::metadata(rig.on("open")).unwrap().len(), 3 << 20);
        // What is closed just before the end counts as well.
        for number in 0..6 {
            fs::write(rig.at(format!("w{number}")), &content).unwrap();
        }
        rig.unmount();
        let key = rig.server.target(&rig.there).key();
        let used = Store::open(&rig.cache, &key, LIMIT).unwrap().used_bytes();
        assert!(used <= LIMIT, "{used}");
    }
}

#[test]
fn a_file_that_has_no_room_in_the_cache_is_reported() {
    let rig = small_cache(options());
    rig.serve("large", &vec![b'l'; 5 << 20]);
    assert_eq!(number(fs::read(rig.at("large"))), libc::ENOSPC);
    let refused = rig.shared().report().no_room;
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].path, "large");
    assert!(refused[0].why.contains("--cache-size"), "{refused:?}");
    // It is over when it can be opened.
    rig.serve("large", b"small by now");
    assert_eq!(fs::read(rig.at("large")).unwrap(), b"small by now");
    assert!(rig.shared().report().no_room.is_empty());
}
