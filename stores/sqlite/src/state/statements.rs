//! The writing statements of one transaction.

use rusqlite::{CachedStatement, Connection};

/// Statements that the transaction has used, by the address of their text: a transaction uses a dozen of them hundreds of
/// times, and finding one by its text costs as much as a small write.
#[derive(Default)]
pub(crate) struct Statements<'c>(Vec<(&'static str, CachedStatement<'c>)>);

impl<'c> Statements<'c> {
    /// The statement of that text.
    pub(super) fn get(
        &mut self,
        db: &'c Connection,
        sql: &'static str,
    ) -> rusqlite::Result<&mut CachedStatement<'c>> {
        // The same text at another place is another statement here, which does no harm.
        let at = match self.0.iter().position(|(text, _)| std::ptr::eq(*text, sql)) {
            Some(at) => at,
            None => {
                self.0.push((sql, db.prepare_cached(sql)?));
                self.0.len() - 1
            }
        };
        Ok(&mut self.0[at].1)
    }
}
