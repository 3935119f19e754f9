//! Two workloads: dependent steps of arithmetic, as in Oscope's own `null`, and filling memory.
//!
//!     cargo build --release --example mybench
//!     oscope run --workload target/release/examples/mybench memory.fill --set size=4K,1M

use oscope_workload::{Better, Levels, Metric, Parameter, Trouble, Workload, bytes, integer, opaque};
use std::hint::black_box;
use std::process::ExitCode;

#[derive(Default)]
struct Fill(Vec<u8>);

impl Workload for Fill {
    fn name(&self) -> &str {
        "memory.fill"
    }

    fn purpose(&self) -> &str {
        "Fill memory with one value"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![bytes("size", 4096, "Bytes that an iteration fills.")]
    }

    fn metrics(&self) -> Vec<Metric> {
        let doc = "Bytes that an iteration filled.";
        vec![Metric { name: "filled_bytes", unit: "B", better: Better::Neither, doc }]
    }

    fn prepare(&mut self, levels: &Levels) -> Result<(), Trouble> {
        let size = usize::try_from(levels.integer("size")).map_err(|error| Trouble::Failed(error.to_string()))?;
        self.0 = vec![0; size];
        Ok(())
    }

    fn iterate(&mut self, iterations: u64) -> Result<(), String> {
        for i in 0..iterations {
            black_box(&mut self.0).fill(i as u8);
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Vec<(&'static str, f64)>, String> {
        if self.0.first() != self.0.last() {
            return Err("the buffer is not filled to its end".to_owned());
        }
        Ok(vec![("filled_bytes", self.0.len() as f64)])
    }

    fn cleanup(&mut self) {
        self.0 = Vec::new();
    }
}

#[derive(Default)]
struct Steps(u64);

impl Workload for Steps {
    fn name(&self) -> &str {
        "steps.rust"
    }

    fn purpose(&self) -> &str {
        "Dependent steps of arithmetic"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![integer("work", 1000, "Dependent multiply-and-add steps.")]
    }

    fn prepare(&mut self, levels: &Levels) -> Result<(), Trouble> {
        self.0 = levels.integer("work") as u64;
        Ok(())
    }

    fn iterate(&mut self, iterations: u64) -> Result<(), String> {
        let mut value = 1_u64;
        for _ in 0..iterations {
            for _ in 0..self.0 {
                let next = value.wrapping_mul(6_364_136_223_846_793_005);
                value = opaque(next.wrapping_add(1_442_695_040_888_963_407));
            }
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    oscope_workload::main(&mut [&mut Fill::default(), &mut Steps::default()])
}
