//! The Rust kit: makes a type of yours a workload that `oscope run --workload ./program` measures.
//!
//! ```no_run
//! use oscope_workload::{Levels, Parameter, Workload, bytes};
//! use std::{hint::black_box, process::ExitCode};
//!
//! #[derive(Default)]
//! struct Fill(Vec<u8>);
//!
//! impl Workload for Fill {
//!     fn name(&self) -> &str { "memory.fill" }
//!     fn purpose(&self) -> &str { "Fill memory with one value" }
//!     fn parameters(&self) -> Vec<Parameter> { vec![bytes("size", 4096, "Bytes that an iteration fills.")] }
//!     fn prepare(&mut self, levels: &Levels) -> Result<(), oscope_workload::Trouble> {
//!         self.0 = vec![0; levels.integer("size") as usize];
//!         Ok(())
//!     }
//!     fn iterate(&mut self, iterations: u64) -> Result<(), String> {
//!         for i in 0..iterations { black_box(&mut self.0).fill(i as u8); }
//!         Ok(())
//!     }
//! }
//!
//! fn main() -> ExitCode { oscope_workload::main(&mut [&mut Fill::default()]) }
//! ```
//!
//! docs/own-workloads.md of Oscope says what such a program answers (`oscope.probe/1`).

mod declared;
mod machine;
mod server;

use std::io::Write;
use std::process::ExitCode;

pub use declared::{
    Better, Levels, Metric, Parameter, Trouble, boolean, bytes, choice, duration, integer, path,
};
pub use machine::{opaque, oscope_region_begin, oscope_region_end};

/// What is measured: it prepares, iterates within the measured region, and cleans up.
pub trait Workload {
    /// Letters, digits and dots; scripts and stored runs know the workload by it.
    fn name(&self) -> &str;

    /// What it does, in a line.
    fn purpose(&self) -> &str {
        ""
    }

    /// Raise it when the meaning of a figure changes: other versions are not compared.
    fn version(&self) -> u32 {
        1
    }

    /// Whether it has threads of its own, which may take the measuring thread's CPU.
    fn has_threads(&self) -> bool {
        false
    }

    /// The factors that may be varied, each with its default.
    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    /// Figures besides `time_ns`; [`Workload::check`] gives their values.
    fn metrics(&self) -> Vec<Metric> {
        Vec::new()
    }

    /// Makes ready for a point, outside the measured region.
    ///
    /// # Errors
    /// The point cannot be measured here, or it went wrong.
    fn prepare(&mut self, levels: &Levels) -> Result<(), Trouble> {
        let _ = levels;
        Ok(())
    }

    /// The measured region: as many iterations, in a loop of its own.
    ///
    /// # Errors
    /// The repetition went wrong: its sample counts as failed, with this reason.
    fn iterate(&mut self, iterations: u64) -> Result<(), String>;

    /// Verifies the work after each repetition, outside the measured region, and gives the metrics declared.
    ///
    /// # Errors
    /// The work was not really done: the sample counts as failed, with this reason.
    fn check(&mut self) -> Result<Vec<(&'static str, f64)>, String> {
        Ok(Vec::new())
    }

    /// Gives back what `prepare` took.
    fn cleanup(&mut self) {}
}

/// Answers `describe` or `run`, as the command line says. Call it from `main`, and return what it returns.
pub fn main(workloads: &mut [&mut dyn Workload]) -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let answer = match words.get(1).map(String::as_str) {
        Some("describe") if words.len() == 2 => {
            let text = declared::describe(workloads).to_string();
            writeln!(std::io::stdout(), "{text}")
        }
        Some("run") if words.len() == 2 => server::serve(workloads),
        _ => {
            let name = words.first().map_or("PROGRAM", String::as_str);
            eprintln!("This is a workload program: measure with oscope run --workload {name}");
            return ExitCode::from(2);
        }
    };
    match answer {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
