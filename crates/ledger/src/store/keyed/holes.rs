//! Holes, packed: a page holds up to 256 of a track, so that ten thousand of them can be put back in one
//! transaction, and a new one rewrites a few kilobytes.
//!
//! A page stands under the lowest number it may hold, and reaches to the next page. Whoever changes a hole
//! writes its track, so the track's guard is the pages' guard too.

use std::collections::BTreeMap;

use keymill_id::{Block, Number};

use super::{
    Engine,
    rows::KeyedRows,
    spelling::{self, Span},
};
use crate::{HoleKind, LedgerError, Track};

/// Holes on a page before it is parted.
const PAGE_MAX: usize = 256;

type Page = BTreeMap<Number, HoleKind>;

impl<E: Engine> KeyedRows<E> {
    /// The page that holds `number` if any does: its key and what is on it.
    async fn hole_page(&mut self, track: &Track, number: Number) -> Result<(String, Page), LedgerError> {
        let holes = spelling::holes(track);
        if !self.looked_for_holes.insert(holes.clone()) {
            // Whoever looks twice looks often: all pages at once, and from memory ever after.
            self.fetch(&Span::under(&holes)).await?;
        }
        let up_to = Span::under(&holes).ending(spelling::at(&holes, number.get() + 1)).down(1);
        match self.list(&up_to).await?.pop() {
            Some((key, page)) => Ok((key, page)),
            None => Ok((spelling::at(&holes, 0), Page::new())),
        }
    }

    pub(super) async fn find_hole(
        &mut self,
        track: &Track,
        number: Number,
    ) -> Result<Option<HoleKind>, LedgerError> {
        Ok(self.hole_page(track, number).await?.1.get(&number).copied())
    }

    pub(super) async fn holes_inside(
        &mut self,
        track: &Track,
        block: Block,
    ) -> Result<Vec<Number>, LedgerError> {
        let holes = spelling::holes(track);
        let (first, page) = self.hole_page(track, block.start()).await?;
        let mut found: Vec<Number> =
            page.range(block.start()..block.end()).map(|(number, _)| *number).collect();
        let rest =
            Span::under(&holes).starting(first.clone() + "/").ending(spelling::at(&holes, block.end().get()));
        for (_, page) in self.list::<Page>(&rest).await? {
            found.extend(page.range(block.start()..block.end()).map(|(number, _)| *number));
        }
        Ok(found)
    }

    pub(super) async fn make_hole(
        &mut self,
        track: &Track,
        number: Number,
        kind: HoleKind,
    ) -> Result<(), LedgerError> {
        let (key, mut page) = self.hole_page(track, number).await?;
        if page.insert(number, kind).is_none() {
            self.count_hole().await?;
        }
        if page.len() > PAGE_MAX {
            let middle = *page.keys().nth(page.len() / 2).expect("a full page has a middle");
            let upper = page.split_off(&middle);
            self.put(spelling::at(&spelling::holes(track), middle.get()), &upper);
        }
        self.put(key, &page);
        Ok(())
    }

    /// One more, if the engine has room for it.
    async fn count_hole(&mut self) -> Result<(), LedgerError> {
        let Some(limit) = E::HOLES_MAX else { return Ok(()) };
        let holes: u64 = self.guarded(spelling::HOLES).await?.unwrap_or(0);
        if holes >= limit {
            return Err(LedgerError::TooManyHoles { store: E::NAME, limit });
        }
        self.put(spelling::HOLES.to_owned(), &(holes + 1));
        Ok(())
    }
}
