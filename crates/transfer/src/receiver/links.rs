//! The links of a transfer, made when all files have their names.

use std::collections::HashMap;

use super::{Item, Kind, Receiver};
use crate::linked;
use crate::names;
use crate::stop::Stop;

impl Receiver<'_, '_> {
    /// Make each link of the manifest, by its place there and where it leads.
    pub(super) fn make_links(
        &mut self,
        items: &[Item],
        links: &[(usize, Vec<u8>)],
    ) -> Result<(), Stop> {
        let is_hard = |(index, _): &&(usize, Vec<u8>)| items[*index].kind == Kind::Hard;
        let mut copies = 0;
        if links.iter().any(|link| is_hard(&link)) {
            let files: HashMap<&[u8], &Item> = items
                .iter()
                .enumerate()
                .filter(|(index, item)| item.kind == Kind::File && !self.left.contains(index))
                .map(|(_, item)| (&item.name[..], item))
                .collect();
            for (index, target) in links.iter().filter(is_hard) {
                self.link.alive()?;
                let item = &items[*index];
                // Nothing but a file of this transfer is given another name.
                let Some(file) = files.get(&target[..]) else {
                    return Err(Stop::file(
                        &item.name,
                        "it links to no file of this transfer",
                    ));
                };
                copies += u64::from(!self.make_hard(item, file)?);
            }
        }
        for (index, target) in links.iter().filter(|link| !is_hard(link)) {
            self.link.alive()?;
            self.make_symbolic(&items[*index], target)?;
        }
        if copies > 0 {
            self.meter.note(&format!(
                "{copies} hard links became copies: the file system there takes none"
            ));
        }
        Ok(())
    }

    /// Whether it is a link, and no copy.
    fn make_hard(&mut self, item: &Item, file: &Item) -> Result<bool, Stop> {
        self.dirs.calls += 7;
        let there = self
            .dirs
            .folder(names::split(&file.name).0)
            .and_then(|parent| linked::arrived(parent, &file.entry()))
            .map_err(|reason| item.refused(reason))?;
        let parent = self
            .dirs
            .folder(names::split(&item.name).0)
            .map_err(|reason| item.refused(reason))?;
        let alive = || self.link.alive();
        linked::put_hard(parent, &item.entry(), &there, item.replaces(), alive)
    }

    fn make_symbolic(&mut self, item: &Item, target: &[u8]) -> Result<(), Stop> {
        self.dirs.calls += 3;
        self.dirs
            .folder(names::split(&item.name).0)
            .and_then(|parent| linked::put_symbolic(parent, &item.entry(), target, item.replaces()))
            .map_err(|reason| item.refused(reason))
    }
}
