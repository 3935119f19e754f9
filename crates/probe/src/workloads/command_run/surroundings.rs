//! What programs are started with: streams, variables and CPUs.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;

use nix::sched::CpuSet;

use super::program::texts;
use oscope_sys::error::Failure;

/// A file to read, and one to write, which is emptied.
pub fn opened(input: &str, output: &str) -> Result<(File, File), Failure> {
    let failed = |path: &str, error: &io::Error| {
        Failure::unavailable_system(path, error, "name a file that can be opened")
    };
    Ok((
        File::open(input).map_err(|error| failed(input, &error))?,
        File::create(output).map_err(|error| failed(output, &error))?,
    ))
}

/// The variables of this process, with these in the place of those of the same name.
pub fn environment(given: &[String]) -> Result<Vec<CString>, Failure> {
    let name_of = |entry: &[u8]| entry.split(|&byte| byte == b'=').next().map(<[u8]>::to_vec);
    if let Some(wrong) = given
        .iter()
        .find(|entry| entry.find('=').is_none_or(|at| at == 0))
    {
        return Err(Failure::request(
            "environment",
            format!("must be NAME=VALUE, not {wrong:?}"),
        ));
    }
    let replaced: Vec<_> = given
        .iter()
        .map(|entry| name_of(entry.as_bytes()))
        .collect();
    let inherited =
        std::env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    let mut all: Vec<CString> = inherited
        .filter(|entry| !replaced.contains(&name_of(entry)))
        .filter_map(|entry| CString::new(entry).ok())
        .collect();
    all.extend(texts("environment", given)?);
    Ok(all)
}

/// The CPUs that a program may use.
pub fn cpus(wanted: &str, allowed: &[usize]) -> Result<CpuSet, Failure> {
    let chosen: Vec<usize> = match wanted.strip_prefix("cpu:").map(str::parse) {
        None => allowed.to_vec(),
        Some(Ok(cpu)) if allowed.contains(&cpu) => vec![cpu],
        Some(_) => {
            return Err(Failure::request(
                "cpu",
                format!("must be one of the allowed CPUs {allowed:?}, not {wanted}"),
            ));
        }
    };
    let mut set = CpuSet::new();
    chosen
        .iter()
        .try_for_each(|&cpu| set.set(cpu))
        .map_err(|error| Failure::system("naming CPUs", error))?;
    Ok(set)
}
