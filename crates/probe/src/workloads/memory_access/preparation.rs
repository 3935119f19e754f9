//! What the parameters of `memory.access` mean on this machine.

use std::time::Duration;

use super::area::{self, AreaSpec, Backing};
use super::expected::Expected;
use super::parameters::{Parameters, Pressed, Source};
use super::repetition::Plan;
use crate::cache_model::Geometry;
use crate::counters::Counters;
use crate::pressure;
use oscope_sys::error::Failure;
use oscope_sys::machine::memory::page_bytes;
use oscope_sys::mapping::Pages;

/// What memory the parameters mean.
pub fn area_spec(parameters: &Parameters) -> Result<AreaSpec, Failure> {
    let page = page_bytes();
    if parameters.size % page != 0 {
        return Err(Failure::request(
            "size",
            format!(
                "must be a multiple of the page size, {page} B, not {}",
                parameters.size
            ),
        ));
    }
    if parameters.pages == Pages::Huge && parameters.mapping != Backing::Anonymous {
        return Err(Failure::request(
            "pages",
            "must be 4K with mapping=private or shared: a file is not mapped in huge pages",
        ));
    }
    Ok(AreaSpec {
        backing: parameters.mapping,
        populate: parameters.populate,
        initialise: parameters.initialise,
        pages: parameters.pages,
        size: parameters.size,
        granule: parameters.pages.granule()?.max(page),
        pressed: parameters.pressure == Pressed::Compete,
    })
}

/// The pages that must be there after the walk. Of a file the kernel maps more, and may take some away.
pub fn touched(plan: &Plan) -> Option<u64> {
    let wanted = &plan.wanted;
    if wanted.backing != Backing::Anonymous {
        return None;
    }
    let granules = if wanted.starts_present() {
        wanted.bytes() / wanted.granule
    } else {
        Expected::of(plan.bases.clone(), plan.sets, wanted.granule).touched
    };
    Some(granules * (wanted.granule / page_bytes()))
}

pub fn pressing(parameters: &Parameters, plan: &Plan) -> pressure::Plan {
    pressure::Plan {
        scope: parameters.scope,
        limit: parameters.limit,
        swap: parameters.swap,
        swap_bytes: parameters.swap_size,
        wait: Duration::from_secs_f64(parameters.wait),
        steps: parameters.steps,
        directory: parameters.directory.clone(),
        beside: plan.wanted.bytes() + area::FLUSHED_BYTES,
    }
}

/// The geometry to be simulated, if any is.
pub fn geometry(
    parameters: &Parameters,
    notes: &mut Vec<String>,
) -> Result<Option<Geometry>, Failure> {
    if !parameters.counters.asks_model() {
        return Ok(None);
    }
    if parameters.geometry == "host" {
        let (geometry, assumed) = Geometry::of_this_cpu()?;
        notes.extend(assumed);
        return Ok(Some(geometry));
    }
    let named = Geometry::named(&parameters.geometry);
    named
        .map(Some)
        .ok_or_else(|| Failure::request("geometry", "is none that the model knows"))
}

/// The counters of this machine that are believed, if they are asked; why others are not is noted.
pub fn hardware(source: Source, notes: &mut Vec<String>) -> Result<Option<Counters>, Failure> {
    if !source.asks_hardware() {
        return Ok(None);
    }
    let counters = Counters::memory();
    let mut reasons = counters.unavailable().iter();
    if !counters.available().is_empty() {
        notes.extend(reasons.map(|(name, reason)| format!("{name} is not measured: {reason}")));
        return Ok(Some(counters));
    }
    let reason = reasons
        .next()
        .map_or("no counter opens", |(_, reason)| reason);
    let (reason, remedy) = reason.split_once("; ").unwrap_or((reason, ""));
    if source == Source::Both {
        notes.push(format!("the hardware counts nothing: {reason}"));
        return Ok(None);
    }
    Err(Failure::unavailable(
        format!("the hardware counts nothing: {reason}"),
        format!("choose counters=simulated; or {remedy}"),
    ))
}
