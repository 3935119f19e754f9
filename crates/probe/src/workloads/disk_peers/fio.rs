//! `fio` (fio(1)), configured to do what Oscope's engine `read` does, and nothing else.

use serde::Deserialize;

use super::peer::{Account, Peer, Reading};
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::page_bytes;
use oscope_sys::worker::program::{Name, ProgramOutput};

/// fio's `runtime` is rounded up to whole milliseconds (`update_runtime` in its `backend.c`); it reports no other time
/// of a whole reading more finely. So half a millisecond is taken off, and as much is the error.
const HALF_MS: f64 = 0.5;
/// From this `runtime` on the error is at most a twentieth.
const SHORTEST_MS: u64 = 10;

/// fio.
pub const FIO: Peer = Peer {
    name: Name {
        command: "fio",
        package: "fio",
        greeting: "fio-",
        question: "--version",
        if_slow: "read fewer blocks or larger ones",
    },
    // A rest shorter than a block is left out, or made a whole block where the file goes on.
    reach: |length, block_size| length - length % block_size,
    arguments,
    account,
    remark: Some(
        "fio reports whole milliseconds, rounded up; half of one is subtracted, so its time is right within 0.5 ms",
    ),
};

fn arguments(reading: &Reading) -> Vec<String> {
    let mut arguments = vec![
        "--name=oscope".to_owned(),
        format!("--filename={}", reading.path.display()),
        format!("--bs={}", reading.block_size),
        format!("--size={}", reading.length),
        // A page's start, as dd and Oscope have it: from fio's usual 16 bytes after it, copying is up to 7 times slower
        // on some processors.
        format!("--iomem_align={}", page_bytes()),
    ];
    let fixed = [
        "--rw=read",
        // read(2), which goes by the file's own position: no seeking where one block follows the other
        // (`engines/sync.c`).
        "--ioengine=sync",
        // Neither may it make a file, nor lay one out.
        "--readonly",
        "--allow_file_create=0",
        // The state of the page cache is ours to make, and read-ahead is left to the kernel.
        "--invalidate=0",
        "--fadvise_hint=0",
        // A job as a process of its own would outlive fio when that is killed.
        "--thread",
        // Otherwise it reads the clock three times for each block, and looks at the disk four times a second.
        "--gtod_reduce=1",
        // The kernel's clock, as dd's; otherwise fio calibrates the processor's in the first 60 ms.
        "--clocksource=clock_gettime",
        "--disk_util=0",
        "--eta=never",
        "--output-format=json",
    ];
    arguments.extend(fixed.map(str::to_owned));
    arguments
}

/// The part of fio's report that matters here.
#[derive(Debug, Deserialize)]
struct Report {
    jobs: Vec<Job>,
}

#[derive(Debug, Deserialize)]
struct Job {
    /// An error number of the C library; 0 without an error.
    error: i64,
    read: Totals,
}

#[derive(Debug, Deserialize)]
struct Totals {
    /// Bytes.
    io_bytes: u64,
    /// Milliseconds, rounded up.
    runtime: u64,
}

fn account(said: &ProgramOutput) -> Result<Account, Failure> {
    let report = find_report(&said.output)
        .ok_or_else(|| Failure::failed("fio gave no account of its time in JSON"))?;
    let [job] = report.jobs.as_slice() else {
        return Err(Failure::failed(format!(
            "fio gave an account of {} jobs, not of one",
            report.jobs.len()
        )));
    };
    if job.error != 0 {
        return Err(Failure::failed(format!(
            "fio reports error {} while reading",
            job.error
        )));
    }
    let runtime = job.read.runtime;
    if runtime < SHORTEST_MS {
        return Err(Failure::unavailable(
            format!("fio reports whole milliseconds, and {runtime} of them are too few for a rate"),
            "read more: a larger --set size=SIZE, file or count",
        ));
    }
    Ok(Account {
        bytes: job.read.io_bytes,
        time_s: (runtime as f64 - HALF_MS) / 1e3,
        error_s: HALF_MS / 1e3,
    })
}

/// The report in what fio printed: messages may stand before and after it.
fn find_report(output: &str) -> Option<Report> {
    output.match_indices('{').find_map(|(begin, _)| {
        let mut values = serde_json::Deserializer::from_str(&output[begin..]).into_iter();
        values.next()?.ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As fio 3.33 printed it here, but for the parts left out.
    const REAL: &str = include_str!("fio.json");

    fn account_of(output: &str) -> Result<Account, Failure> {
        account(&ProgramOutput {
            output: output.to_owned(),
            errors: String::new(),
        })
    }

    #[test]
    fn a_real_report_is_read() {
        let found = account_of(REAL).unwrap();
        assert_eq!(found.bytes, 9_998_336);
        assert!((found.time_s - 0.0415).abs() < 1e-12);
        assert!((found.error_s - 0.0005).abs() < 1e-12);
    }

    #[test]
    fn text_around_the_report_does_not_matter() {
        let before = "note: both iodepth >= 1 {\"a\": 1} {\nfio: a set such as {1,2}\n";
        let found = account_of(&format!("{before}{REAL}\nfio: done }}")).unwrap();
        assert_eq!(found, account_of(REAL).unwrap());
    }

    #[test]
    fn anything_else_is_refused() {
        let broken = &REAL[..REAL.len() / 2];
        let failed = REAL.replace("\"error\" : 0", "\"error\" : 5");
        let text = REAL.replace("\"io_bytes\" : 9998336", "\"io_bytes\" : \"9998336\"");
        let none = "{\"jobs\": []}";
        for output in ["", "{}", none, broken, failed.as_str(), text.as_str()] {
            assert!(
                matches!(account_of(output), Err(Failure::Failed { .. })),
                "{output}"
            );
        }
    }

    #[test]
    fn a_time_too_short_for_its_milliseconds_is_no_figure() {
        let short = REAL.replace("\"runtime\" : 42", "\"runtime\" : 9");
        match account_of(&short) {
            Err(Failure::Unavailable {
                message, remedy, ..
            }) => {
                assert!(message.contains("and 9 of them"), "{message}");
                assert!(remedy.is_some());
            }
            other => panic!("{other:?}"),
        }
    }
}
